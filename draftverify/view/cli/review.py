"""`draftverify view RUN --review`: what waits for a person, one task after the other, on the terminal or by a file."""

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
from draftverify.secret import redact

KEYS = {"a": "accept", "e": "edit", "r": "reject", "s": "skip", "q": "quit"}


SECONDS = 900
"""How long a question on a terminal is kept from others; longer, and they wait for who went to lunch."""


def review(run: str, answers: str | None, store: str | None) -> None:
    """Answer the tasks of a run that wait for a person, by a file of answers or, without one, at the keyboard."""
    console = Console(highlight=False)
    with load_run(run, url=store) as records:
        questions = pending(records)
        if not questions:
            console.print("nothing waits for a person")
            return
        holder = f"{socket.gethostname()}, process {os.getpid()}"[:200]
        if answers is None:
            count = _at_the_keyboard(console, records, holder, len(questions))
        else:
            replies = read_answers(answers, questions)
            count = sum(_stored(console, records, *pair, holder=holder) for pair in replies)
        counts = records.store.question_counts()
        if held := counts["held"]:
            console.print(f"{held} {'is' if held == 1 else 'are'} with other reviewers")
        answered = f"{count} answered, {counts['pending']} still open"
        console.print(f"{answered}; the same run command goes on with the answers" if count else answered)


def _stored(console: Console, records: RunRecords, question: Question, reply: Reply, holder: str) -> bool:
    """Whether a reply was taken; why, where it was not."""
    was_taken = give_answer(records, question, reply, holder)
    if not was_taken and reply.answer != "skip":
        console.print(Text(f"task {words(question.task, NAME)}: {fate(records, question, holder)}"))
    return was_taken


def _at_the_keyboard(console: Console, records: RunRecords, holder: str, total: int) -> int:
    """Ask about one question after the other; how many were answered."""
    count = 0
    keys: list[str] = []
    while (question := take(records, holder, SECONDS, without=keys)) is not None:
        keys.append(key(question))
        try:
            show_question(console, question, f"{len(keys)} of {max(total, len(keys))}")
            reply = _ask(console, question)
            if reply is None:
                return count
            count += _stored(console, records, question, reply, holder)
        finally:
            # Skipped, or left; of one that is answered it changes nothing.
            records.store.claim(question, holder, 0)
    return count


def show_question(console: Console, question: Question, place: str) -> None:
    """Print what a person needs to know to answer."""
    table = Table.grid(padding=(0, 2))
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    table.add_row("task", Text(f"{words(question.task, NAME)}  {words(question.group, NAME)}".rstrip()))
    table.add_row("pipeline", Text(question.pipeline))
    for name, value in question.input.items():
        table.add_row(Text(_value_text(name)), Text(_value_text(value)))
    table.add_row("why", Text(", ".join(question.trouble) or "–"))
    if question.failure is not None:
        table.add_row("failure", Text(words(str(question.failure), 500)))
    candidate = question.candidate
    if candidate is not None:
        score = "" if candidate.score is None else f"{candidate.score:.4g}"
        remarks = {"score": score, "reason": candidate.reason, "feedback": candidate.feedback}
        for name, text in {**remarks, "caveat": candidate.caveat}.items():
            if text:
                table.add_row(name, Text(_value_text(text)))
    console.print(Panel(table, title=place, title_align="left"))
    if candidate is None:
        console.print("there is no candidate; edit writes one")
    else:
        console.print(Text(_value_text(question.text or candidate.value), style="cyan"))


def _ask(console: Console, question: Question) -> Reply | None:
    """The person's answer; None to quit."""
    while True:
        console.print(Text("[a]ccept  [e]dit  [r]eject  [s]kip  [q]uit", style="dim"))
        try:
            key = KEYS.get(click.getchar().lower())
        except OSError as error:
            raise ConfigError("there is no keyboard here; give --review FILE", path="--review") from error
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


def _value_text(value: Any) -> str:
    """A value as clean text, with its lines and without secrets."""
    return clean(redact(value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False)))
