"""The questions of a run, and answers to them from a page, a terminal or a file: all of them take this one way.

Several may answer one run at a time, in several processes. A reviewer claims a question before it is shown, for a
while; meanwhile nobody else is given it, and nobody else's answer to it is taken. Without a claim the first answer
stands. An answer is only written down here; the next `draftverify run` of the same command takes it up, restores
the task from its rounds, and goes on: an accepted candidate joins the answer, an edited one is verified
like any proposal, a rejected one ends the task.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any, Literal

import msgspec

from draftverify.bench.records.directory import RunRecords
from draftverify.bench.records.entries import Question
from draftverify.engine.canonical import canonical
from draftverify.errors import ConfigError, ContractError

TRIED = 8
"""Questions that are looked at together, where another reviewer may be faster with some."""


class Reply(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One line of an answers file.

    Args:
        task: the task's id.
        answer: what to do; "skip" leaves the question open.
        pipeline: needed when more than one pipeline asks about the task.
        value: the edited item, for "edit".
        note: kept as the reason.
    """

    task: str
    answer: Literal["accept", "edit", "reject", "skip"]
    pipeline: str | None = None
    value: Any = msgspec.UNSET
    note: str = ""


def pending(run: RunRecords) -> tuple[Question, ...]:
    """The open questions, oldest first."""
    return run.store.questions("pending")


def key(question: Question) -> str:
    """A short name of a question; another one that is asked in its place has another."""
    parts = question.pipeline, question.task, str(question.attempt), str(question.round), question.asked
    return hashlib.blake2b("\0".join(parts).encode(), digest_size=12).hexdigest()


def take(run: RunRecords, holder: str, seconds: float, *, without: Collection[str] = ()) -> Question | None:
    """Claim the oldest question that nobody else holds.

    Args:
        run: whose.
        holder: the reviewer.
        seconds: how long the claim lasts; longer than a reviewer needs, or claimed anew meanwhile.
        without: keys of those that were skipped.

    Returns:
        None when there is none: all are answered, skipped, or with others.
    """
    while True:
        free = run.store.questions(free_for=holder, limit=len(without) + TRIED)
        remaining = [question for question in free if key(question) not in without]
        for question in remaining:
            if run.store.claim(question, holder, seconds):
                return question
        if not remaining:
            return None


def read_answers(path: str | Path, questions: tuple[Question, ...]) -> Iterator[tuple[Question, Reply]]:
    """The replies of a JSON Lines file, each with the question it answers. Everything is checked before the first.

    Raises:
        ConfigError: with file and line: a line that is no reply, a reply to no open question, an edit
        without a value.
    """
    try:
        lines = Path(path).read_bytes().splitlines()
    except OSError as error:
        raise ConfigError(
            f"the answers cannot be read: {error.strerror or error}", where=str(path)
        ) from error
    answers: list[tuple[Question, Reply]] = []
    answered: dict[tuple[str, str], int] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        where = f"{path}:{number}"
        try:
            reply = msgspec.json.decode(line, type=Reply)
        except (msgspec.MsgspecError, UnicodeError) as error:
            example = '{"task": "…", "answer": "accept", "note": "…"}'
            raise ConfigError(f"no reply ({error}); write {example}", where=where) from error
        question = _question(reply, questions, where)
        key = question.pipeline, question.task
        if key in answered:
            raise ConfigError(
                f"task {reply.task!r} is answered twice, first in line {answered[key]}", where=where
            )
        answered[key] = number
        check_reply(question, reply, where)
        answers.append((question, reply))
    return iter(answers)


def give_answer(run: RunRecords, question: Question, reply: Reply, holder: str = "") -> bool:
    """Write an answer down.

    Args:
        run: whose question it is.
        question: as it was read.
        reply: to it.
        holder: the reviewer.

    Returns:
        Whether it was: False for "skip", and when it comes too late; `fate` says why.

    Raises:
        ConfigError: an edit without a value, or an accept where there is nothing to accept.
    """
    if reply.answer == "skip":
        return False
    check_reply(question, reply, f"task {question.task!r}")
    value = None if reply.value is msgspec.UNSET else reply.value
    return run.store.answer(question, reply.answer, value, reply.note, holder=holder)


def fate(run: RunRecords, question: Question, holder: str = "") -> str:
    """Why an answer to a question was not taken, in words."""
    now = run.store.question(question)
    if now is None or (now.state == "used" and not now.answer):
        return "the run has gone on, and this is no longer what it asks"
    if now.state != "pending":
        answerer = "you have" if holder and now.holder == holder else "somebody else has"
        return f"{answerer} answered this one ({now.answer}); that answer stands"
    return "another reviewer has this one now; it was kept for you until your time on it was over"


def _question(reply: Reply, questions: tuple[Question, ...], where: str) -> Question:
    open_ones = [
        question
        for question in questions
        if question.task == reply.task and reply.pipeline in (None, question.pipeline)
    ]
    if len(open_ones) == 1:
        return open_ones[0]
    if open_ones:
        names = ", ".join(question.pipeline for question in open_ones)
        raise ConfigError(f'task {reply.task!r} is asked about by {names}; add "pipeline"', where=where)
    of = f" of the pipeline {reply.pipeline!r}" if reply.pipeline is not None else ""
    raise ConfigError(f"there is no open question about task {reply.task!r}{of}", where=where)


def check_reply(question: Question, reply: Reply, where: str) -> None:
    """Refuse a reply that its question cannot be answered by.

    Raises:
        ConfigError: an edit without a value or with one that is no item, or an accept where there is nothing to accept.
    """
    if reply.answer == "edit" and reply.value is msgspec.UNSET:
        raise ConfigError('an edit needs a "value": the item to put in the candidate\'s place', where=where)
    if reply.answer == "edit":
        try:
            canonical(reply.value)
        except ContractError as error:  # the run that takes it up would refuse it, and the task would fail
            raise ConfigError(f"the edited value is no item: {error}", where=where) from error
    if reply.answer == "accept" and question.candidate is None:
        raise ConfigError("there is no candidate to accept; edit, reject or skip", where=where)
