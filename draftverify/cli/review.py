"""`draftverify review RUN`: the tasks that wait for a person, one after the other."""

from __future__ import annotations

import json
from typing import Any

import click
from rich.console import Console
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from draftverify.errors import ConfigError
from draftverify.experiments.report import clean, words
from draftverify.records import Question, load_run
from draftverify.review import Reply, give_answer, pending, read_answers

__all__ = ["review"]

KEYS = {"a": "accept", "e": "edit", "r": "reject", "s": "skip", "q": "quit"}


@click.command()
@click.argument("run", type=click.Path(file_okay=False))
@click.option(
    "--answers", metavar="FILE", help="Take answers from a JSON Lines file instead of the keyboard."
)
@click.option("--store", envvar="DRAFTVERIFY_STORE", help="The PostgreSQL URL that the run was given.")
def review(run: str, answers: str | None, store: str | None) -> None:
    """Answer the tasks of RUN that wait for a person.

    Keys: accept the candidate, edit it in $EDITOR, reject it, skip it for now, quit. The same `draftverify
    run` command then goes on with what was answered. A line of an answers file is {"task": …, "answer":
    "accept" | "edit" | "reject" | "skip", "value": … (of an edit), "pipeline": …, "note": …}.
    """
    console = Console(highlight=False)
    with load_run(run, url=store) as records:
        questions = pending(records)
        if not questions:
            console.print("nothing waits for a person")
            return
        given = 0
        if answers is not None:
            for question, reply in read_answers(answers, questions):
                given += give_answer(records, question, reply)
        else:
            for number, question in enumerate(questions, 1):
                show_question(console, question, f"{number} of {len(questions)}")
                asked = _ask(console, question)
                if asked is None:
                    break
                if give_answer(records, question, asked):
                    given += 1
                elif asked.answer != "skip":
                    console.print("somebody else has answered this one; that answer stands")
        left = len(pending(records))
        answered = f"{given} answered, {left} still open"
        console.print(f"{answered}; the same run command goes on with the answers" if given else answered)


def show_question(console: Console, question: Question, place: str) -> None:
    """Print what a person needs to know to answer."""
    table = Table.grid(padding=(0, 2))
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    table.add_row("task", Text(f"{clean(question.task)}  {clean(question.group)}".rstrip()))
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
