"""What a person is shown of a question: the task, the candidate, and every draft that was refused, as plain data.

Nothing here is cleaned for a terminal: a page shows it as text, and an editor must hold what was drafted. Secrets are
taken out.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from draftverify.bench.records.directory import RunRecords
from draftverify.bench.records.entries import Question, Texts
from draftverify.bench.records.items import emitted_words, item_of
from draftverify.bench.review.queue import key
from draftverify.secret import redact
from draftverify.values import Round, TaskRecord

DRAFTS = 24
"""Refused drafts that are shown, the latest."""


def shown(run: RunRecords, question: Question) -> dict[str, Any]:
    """A question as JSON values.

    Returns:
        `id`, `task`, `group`, `pipeline`, `asking` (the inner task, or ""); `input`: [name, text] pairs; `trouble` and
        `failure`; `accepted`: the text of what the task has so far; `candidate`: None, or `text` as the verifier
        words it, `edit` (what an editor begins with), `json` (whether that is JSON), `hidden` (whether a secret was
        taken out of it), `score`, `reason`, `feedback`, `caveat`; `drafts`: the latest refused ones, each with
        `round`, `edit`, `json`, and `parts` (`text`, `verdict`, `score`, `reason`, `feedback`); `earlier`: how many
        there are before them. Parts of a chain that is `worded` are pieces of one text.
    """
    rounds, texts = _rounds(run, question)
    drafts = [
        draft
        for round, round_texts in zip(rounds, texts, strict=True)
        for draft in _drafts(round, round_texts)
    ]
    return {
        "id": key(question),
        "task": redact(question.task),
        "group": redact(question.group),
        "pipeline": question.pipeline,
        "asking": redact(question.asking),
        "input": [[redact(str(name)), _text(value)] for name, value in question.input.items()],
        "trouble": list(question.trouble),
        "failure": "" if question.failure is None else redact(str(question.failure)),
        "accepted": _accepted(rounds, texts),
        "candidate": _candidate(question),
        "drafts": drafts[-DRAFTS:],
        "earlier": max(0, len(drafts) - DRAFTS),
    }


def _candidate(question: Question) -> dict[str, Any] | None:
    candidate = question.candidate
    if candidate is None:
        return None
    text = question.text or _raw(candidate.value)
    return {
        "text": redact(text),
        **_editable(candidate.value),
        "score": candidate.score,
        "reason": redact(candidate.reason),
        "feedback": redact(candidate.feedback),
        "caveat": redact(candidate.caveat),
    }


def _editable(value: Any) -> dict[str, Any]:
    """What an editor begins with: a text as it is, anything else as JSON."""
    raw = _raw(value)
    edit = redact(raw)
    return {"edit": edit, "json": not isinstance(value, str), "hidden": edit != raw}


def _rounds(run: RunRecords, question: Question) -> tuple[Sequence[Round], Sequence[Texts | None]]:
    """The rounds of the task that asks, and their words; an inner task's are with the question, without words."""
    if question.asking:
        for record in _within(question.inner):
            if record.task == question.asking:
                return record.rounds, (None,) * len(record.rounds)
    of_task = question.pipeline, question.task, question.attempt
    rounds, texts = run.store.rounds(*of_task), run.store.words(*of_task)
    return (rounds, texts) if len(rounds) == len(texts) else (rounds, (None,) * len(rounds))


def _within(records: Sequence[TaskRecord]) -> Iterator[TaskRecord]:
    for record in records:
        yield record
        yield from _within(record.inner)


def _drafts(round: Round, texts: Texts | None) -> Iterator[dict[str, Any]]:
    """The drafts of a round that were not accepted: of a chain it is one draft, else each item is one."""
    joined = set(round.decision.joined)
    if all(index in joined for index in range(len(round.items))):
        return
    reasons = {refusal.index: refusal.reason for refusal in round.decision.refused}
    parts = []
    for index in range(len(round.items)):
        check = round.checks[index] if index < len(round.checks) else None
        refused = reasons.get(index, "")
        parts.append(
            {
                "text": _text(item_of(round, texts, index)),
                "verdict": "kept" if index in joined else check.verdict if check else "refused",
                "score": check.score if check else None,
                "reason": redact((check.reason if check else "") or refused),
                "feedback": redact(check.feedback) if check else "",
            }
        )
    if len(parts) > 1 and round.parents == tuple(range(-1, len(parts) - 1)):
        yield {"round": round.index, "worded": texts is not None, "parts": parts, "edit": None}
        return
    for index, part in enumerate(parts):
        if index not in joined:
            editable = _editable(round.items[index])
            yield {"round": round.index, "parts": [part], **editable}


def _accepted(rounds: Sequence[Round], texts: Sequence[Texts | None]) -> str:
    """What was accepted so far: in the verifier's words, which are pieces of one text, else line by line."""
    pieces: list[str] = []
    for round, words in zip(rounds, texts, strict=True):
        pieces += map(_raw, round.decision.emitted) if words is None else emitted_words(round, words)
    return redact(("\n" if None in texts else "").join(pieces))


def _text(value: Any) -> str:
    return redact(_raw(value))


def _raw(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False)
