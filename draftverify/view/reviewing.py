"""What the page for reviewers asks and sends: claims with a lease, answers, and why one was not taken.

A page names itself by a random word of its own, so that two windows are two reviewers. It claims one question at a
time and claims it anew while it is open; one that is closed lets go, and one that crashed is waited for until its
lease ends.
"""

from __future__ import annotations

import json
import re
import threading
from typing import Any

from draftverify.bench.records import Question, RunRecords
from draftverify.bench.review import Reply, fate, give_answer, key, shown, take
from draftverify.errors import ConfigError, StoreError
from draftverify.view.runs import Runs

LEASE = 180.0
"""Seconds for which a page keeps a question; browsers wake a page in the background once a minute."""

_HOLDER = re.compile(r"[\w-]{8,64}")
_ANSWERS = ("accept", "edit", "reject", "skip")


class Stale(StoreError):
    """An answer came too late, or to a question that another has."""


class Reviewing:
    """The questions of these runs."""

    def __init__(self, runs: Runs) -> None:
        self._runs = runs
        self._lock = threading.Lock()
        self._given: dict[tuple[str, str], Question] = {}

    def questions(self, request: Any) -> Any:
        """The number of questions of each kind."""
        return {"progress": _progress(self._runs.open(str(request.query_params.get("run", ""))))}

    def claim(self, sent: dict[str, Any]) -> Any:
        """Give a page its next question, or let it keep the one that it has, or take it back.

        Args:
            sent: `run`, `holder`; `skipped`: ids that it does not want; or `id`, to keep that one, and with
                `release` to let go of it.
        """
        run, holder = self._who(sent)
        if "id" in sent:
            question = self._question(run, sent)
            seconds = 0.0 if sent.get("release") else LEASE
            held = run.store.claim(question, holder, seconds)
            return {"held": held, "why": "" if held else fate(run, question, holder)}
        skipped = sent.get("skipped", [])
        if not isinstance(skipped, list) or not all(isinstance(entry, str) for entry in skipped):
            raise ConfigError("skipped is a list of ids")
        next_question = take(run, holder, LEASE, without=skipped)
        if next_question is None:
            return {"question": None, "seconds": LEASE, "progress": _progress(run)}
        with self._lock:
            self._given[sent["run"], key(next_question)] = next_question
        return {"question": shown(run, next_question), "seconds": LEASE, "progress": _progress(run)}

    def answer(self, sent: dict[str, Any]) -> Any:
        """Write an answer down.

        Args:
            sent: `run`, `holder`, `id`; `answer`: accept, edit, reject or skip; of an edit its `text`, or its `json`,
                which is read here, as a browser would round long numbers; `note`.

        Raises:
            ConfigError: what was sent is no answer; nothing changed.
            Stale: it comes too late.
        """
        run, holder = self._who(sent)
        question = self._question(run, sent)
        kind, note = sent.get("answer"), sent.get("note", "")
        if kind not in _ANSWERS or not isinstance(note, str):
            raise ConfigError("an answer is accept, edit, reject or skip, and its note a text")
        if kind == "skip":
            run.store.claim(question, holder, 0)
            return {"progress": _progress(run)}
        edit = {"value": _value(sent)} if kind == "edit" else {}
        reply = Reply(task=question.task, pipeline=question.pipeline, answer=kind, note=note, **edit)
        if not give_answer(run, question, reply, holder):
            raise Stale(fate(run, question, holder))
        with self._lock:
            self._given.pop((sent["run"], key(question)), None)
        return {"progress": _progress(run)}

    def _who(self, sent: dict[str, Any]) -> tuple[RunRecords, str]:
        holder = sent.get("holder")
        if not isinstance(holder, str) or not _HOLDER.fullmatch(holder):
            raise ConfigError("holder is the random name of a page, 8 to 64 letters and digits")
        return self._runs.open(str(sent.get("run", ""))), f"page {holder}"

    def _question(self, run: RunRecords, sent: dict[str, Any]) -> Question:
        question_id = str(sent.get("id", ""))
        with self._lock:
            question = self._given.get((str(sent.get("run", "")), question_id))
        if question is None:  # given by a server before this one
            question = next(
                (candidate for candidate in run.store.questions() if key(candidate) == question_id), None
            )
        if question is None:
            raise Stale("the run has gone on, and this is no longer what it asks")
        return question


def _progress(run: RunRecords) -> dict[str, int]:
    counts = run.store.question_counts()
    names = {"open": "pending", "held": "held", "decided": "answered", "used": "used"}
    return {name: counts[state] for name, state in names.items()}


def _value(sent: dict[str, Any]) -> Any:
    if isinstance(text := sent.get("text"), str) and "json" not in sent:
        return text
    if not isinstance(raw := sent.get("json"), str) or "text" in sent:
        raise ConfigError('an edit has a "text", or a "json" that holds JSON')
    try:
        return json.loads(raw, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"the edited value is no JSON: {error}") from error


def _no_number(literal: str) -> None:
    raise ValueError(f"{literal} is no JSON number")
