"""`draftverify review RUN`: the tasks that wait for a person, one after the other, on the terminal or on a page."""

from __future__ import annotations

import json
import os
import socket
from typing import Any

import click
from rich.console import Console
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from draftverify.bench.records import Question, RunRecords, load_run
from draftverify.bench.review import Reply, fate, give_answer, key, pending, read_answers, take
from draftverify.bench.tables.words import NAME, clean, words
from draftverify.errors import ConfigError

__all__ = ["review"]

KEYS = {"a": "accept", "e": "edit", "r": "reject", "s": "skip", "q": "quit"}


SECONDS = 900
"""How long a question on a terminal is kept from others; longer, and they wait for who went to lunch."""


@click.command()
@click.argument("run", type=click.Path(file_okay=False))
@click.option(
    "--answers", metavar="FILE", help="Take answers from a JSON Lines file instead of the keyboard."
)
@click.option("--serve", is_flag=True, help="Answer on a page in the browser; several reviewers can.")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=0, help="With --serve: any free one when absent."
)
@click.option("--open", "open_browser", is_flag=True, help="With --serve: open the browser too.")
@click.option("--store", envvar="DRAFTVERIFY_STORE", help="The PostgreSQL URL that the run was given.")
def review(
    run: str, answers: str | None, serve: bool, port: int, open_browser: bool, store: str | None
) -> None:
    """Answer the tasks of RUN that wait for a person.

    Keys: accept the candidate, edit it in $EDITOR, reject it, skip it for now, quit. The same `draftverify
    run` command then goes on with what was answered. A line of an answers file is {"task": …, "answer":
    "accept" | "edit" | "reject" | "skip", "value": … (of an edit), "pipeline": …, "note": …}.
    """
    if serve and answers is not None:
        raise click.UsageError("--serve takes answers on a page; leave out --answers")
    if not serve and (port or open_browser):
        raise click.UsageError("--port and --open belong to --serve")
    if serve:
        from draftverify.view import serve as serve_pages

        serve_pages(run, store=store, page="review", port=port, open_browser=open_browser)
        return
    console = Console(highlight=False)
    with load_run(run, url=store) as records:
        questions = pending(records)
        if not questions:
            console.print("nothing waits for a person")
            return
        holder = f"{socket.gethostname()}, process {os.getpid()}"[:200]
        given = 0
        if answers is not None:
            for question, reply in read_answers(answers, questions):
                if give_answer(records, question, reply, holder):
                    given += 1
                elif reply.answer != "skip":
                    console.print(
                        Text(f"task {words(question.task, NAME)}: {fate(records, question, holder)}")
                    )
        else:
            given = _at_the_keyboard(console, records, holder, len(questions))
        counts = records.store.question_counts()
        left = counts["pending"]
        if held := counts["held"]:
            console.print(f"{held} {'is' if held == 1 else 'are'} with other reviewers")
        answered = f"{given} answered, {left} still open"
        console.print(f"{answered}; the same run command goes on with the answers" if given else answered)


def _at_the_keyboard(console: Console, records: RunRecords, holder: str, total: int) -> int:
    """Ask about one question after the other; how many were answered."""
    given = 0
    seen: list[str] = []
    while (question := take(records, holder, SECONDS, without=seen)) is not None:
        seen.append(key(question))
        try:
            show_question(console, question, f"{len(seen)} of {max(total, len(seen))}")
            asked = _ask(console, question)
            if asked is None:
                return given
            if give_answer(records, question, asked, holder):
                given += 1
            elif asked.answer != "skip":
                console.print(fate(records, question, holder))
        finally:
            records.store.claim(
                question, holder, 0
            )  # skipped, or left; of one that is answered it changes nothing
    return given


def show_question(console: Console, question: Question, place: str) -> None:
    """Print what a person needs to know to answer."""
    table = Table.grid(padding=(0, 2))
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    table.add_row("task", Text(f"{words(question.task, NAME)}  {words(question.group, NAME)}".rstrip()))
    table.add_row("pipeline", Text(question.pipeline))
    for name, value in question.input.items():
        table.add_row(Text(clean(name)), Text(_whole(value)))
    table.add_row("why", Text(", ".join(question.trouble) or "–"))
    if question.failure is not None:
        table.add_row("failure", Text(words(str(question.failure), 500)))
    candidate = question.candidate
    if candidate is not None:
        if candidate.score is not None:
            table.add_row("score", f"{candidate.score:.4g}")
        if candidate.reason:
            table.add_row("reason", Text(clean(candidate.reason)))
        if candidate.feedback:
            table.add_row("feedback", Text(clean(candidate.feedback)))
        if candidate.caveat:
            table.add_row("caveat", Text(clean(candidate.caveat)))
    console.print(Panel(table, title=place, title_align="left"))
    if candidate is None:
        console.print("there is no candidate; edit writes one")
    else:
        console.print(Text(_whole(question.text or candidate.value), style="cyan"))


def _ask(console: Console, question: Question) -> Reply | None:
    """The person's answer; None to quit."""
    while True:
        console.print(Text("[a]ccept  [e]dit  [r]eject  [s]kip  [q]uit", style="dim"))
        try:
            key = KEYS.get(click.getchar().lower())
        except OSError as error:
            raise ConfigError("there is no keyboard here; give --answers FILE", path="--answers") from error
        if key == "quit":
            return None
        if key == "edit":
            edited = _edit(console, question)
            if edited is not None:
                return Reply(task=question.task, answer="edit", value=edited[0])
        elif key == "accept" and question.candidate is None:
            console.print("there is no candidate to accept")
        elif key == "accept" or key == "skip":
            return Reply(task=question.task, answer=key)  # type: ignore[arg-type]
        elif key == "reject":
            note = click.prompt("reason", default="", show_default=False)
            return Reply(task=question.task, answer="reject", note=note)


def _edit(console: Console, question: Question) -> tuple[Any] | None:
    """The candidate after an editor; None when it was not saved. A text is edited as it is, anything else as JSON."""
    value = question.candidate.value if question.candidate is not None else ""
    is_text = isinstance(value, str)
    text = value if is_text else json.dumps(value, indent=2, ensure_ascii=False)
    while True:
        edited = click.edit(text, extension=".txt" if is_text else ".json")
        if edited is None:
            console.print("nothing was saved; the question is still open")
            return None
        if is_text:
            # Editors end a file with a newline that the candidate did not have.
            return (edited if value.endswith("\n") else edited.removesuffix("\n"),)
        try:
            return (json.loads(edited),)
        except ValueError as error:
            console.print(Text(f"not JSON: {error}", style="red"))
            if not click.confirm("edit again?", default=True):
                return None
            text = edited


def _whole(value: Any) -> str:
    """A value as clean text, with its lines."""
    return clean(value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False))
