"""One task as plain data: what it asks, and of every pipeline how it ended and what was drafted, said and kept.

Texts are cut to a length, rounds and drafts to a number, and what is left out is counted.
"""

from __future__ import annotations

import json
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from draftverify.bench.records import Entry, RunRecords, Texts
from draftverify.bench.tables.summarise import first_difference, is_unanswered
from draftverify.bench.tables.task_rows import Plain, RunFrame, differs, short
from draftverify.errors import ConfigError
from draftverify.secret import redact
from draftverify.values import Check, Outcome, Round, Task, TaskRecord

__all__ = ["detail_of", "detail_of_open", "fate_of", "task_detail"]

CLIPPED = 100_000
"""Characters of one text that a task's detail shows."""
ROUNDS = 500
"""Rounds of one record that a task's detail shows: the first and the last of them."""
DRAFTS = 1_000
"""Drafts of one round that a task's detail shows: those that were kept, and the first of the others."""


def task_detail(run: RunRecords, task: str) -> Plain:
    """One task: what it asks, and of every pipeline how it ended and what was drafted, said and kept in each round.

    Raises:
        ConfigError: the run has no such task.
    """
    known = next((each for each in run.store.tasks() if each.id == task), None)
    if known is None:
        raise ConfigError(f"the run has no task {task!r}", path="task")
    frame = RunFrame.of(run)
    entries = {entry.pipeline: entry for entry in run.store.entries(task=task)}
    entries.update(detail_of_open(run, frame, known, entries))
    return detail_of(frame, known, entries)


def detail_of_open(run: RunRecords, frame: RunFrame, task: Task, ended: Iterable[str]) -> dict[str, Entry]:
    """What there is of a task in the pipelines in which it is under way."""
    found = {}
    for name in frame.names:
        if name not in ended and (rounds := run.store.rounds(name, task.id, 0)):
            seconds = sum(round.timing.total for round in rounds)
            outcome = Outcome(status="waiting", rounds=len(rounds), seconds=seconds)
            record = TaskRecord(task=task.id, group=task.group, outcome=outcome, rounds=rounds)
            texts = run.store.words(name, task.id, 0)
            found[name] = Entry(pipeline=name, record=record, texts=texts)
    return found


def detail_of(
    frame: RunFrame,
    task: Task,
    entries: Mapping[str, Entry],
    *,
    clipped: int = CLIPPED,
    rounds: int = ROUNDS,
    drafts: int = DRAFTS,
) -> Plain:
    """A task's detail from its records.

    Args:
        frame: of the run.
        task: which.
        entries: its records with the words of their rounds, by pipeline.
        clipped: characters of one text that are shown.
        rounds: of one record that are shown.
        drafts: of one round that are shown.
    """
    show = _Show(clipped, rounds, drafts)
    pipelines: list[Plain] = []
    for name in frame.names:
        entry, question = entries.get(name), frame.waiting.get((name, task.id))
        if not frame.has(name, task.id):
            continue
        if entry is None:
            pipelines.append({"name": name, "status": "open", "rounds": []})
            continue
        own = show.record(entry.record, entry.texts)
        base = entries.get(frame.bases[name])
        under_way = entry.record.outcome.status == "waiting" and question is None
        if base is not None and not under_way and differs(entry.record.outcome, base.record.outcome):
            own["differs"] = show.difference(base.record.outcome, entry.record.outcome)
        keys = {metric: (name, task.id, metric) for metric in frame.metrics}
        scores = {metric: frame.scores[key] for metric, key in keys.items() if key in frame.scores}
        if scores:
            own["scores"] = scores
        if under_way:
            own["status"] = "open"
        if question is not None:
            own["question"] = {
                "state": question.state,
                "answer": question.answer,
                "note": show.text(question.note),
            }
        pipelines.append({"name": name, **own})
    return {
        "task": redact(task.id),
        "group": redact(task.group),
        "input": {redact(key): show.text(value) for key, value in task.input.items()},
        "pipelines": pipelines,
    }


class _Show:
    """Records as plain data, texts cut to a length; what is at its default is left out."""

    def __init__(self, clipped: int, rounds: int, drafts: int) -> None:
        self._clipped = clipped
        self._rounds = rounds
        self._drafts = drafts

    def text(self, value: Any) -> str:
        """A recorded value as text; of one that is too long its beginning, and how much is left."""
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        # A secret goes before the cut, since half of one is too much of it.
        text = redact(text)
        left = len(text) - self._clipped
        return text if left <= 0 else f"{text[: self._clipped]}… ({left} more characters)"

    def difference(self, base: Outcome, own: Outcome) -> Plain:
        """Where two outcomes part; of one that failed or waits its reason, since it has no value to compare."""
        if is_unanswered(base) or is_unanswered(own):
            sides = [
                f"{each.status}: {each.reason}" if is_unanswered(each) else each.value for each in (base, own)
            ]
            position, expected, got = None, *sides
        else:
            position, expected, got = first_difference(base.value, own.value)
        return {"position": position, "expected": self.text(expected), "got": self.text(got)}

    def record(self, record: TaskRecord, texts: Sequence[Texts | None]) -> Plain:
        """How it ended, and its rounds."""
        outcome = record.outcome
        own: Plain = {"status": outcome.status, "attempt": record.attempt, **self._outcome(outcome)}
        words = _value_in_words(record, texts)
        if words is not None:
            own["words"] = self.text(words)
        own["kind"] = _kind(record, texts)
        places = range(len(record.rounds))
        if len(places) > self._rounds:
            first = self._rounds - self._rounds // 4
            own["left_out"] = [first, len(places) - self._rounds]
            places = [*places[:first], *places[len(places) - self._rounds // 4 :]]  # type: ignore[assignment]
        own["rounds"] = [
            self._round(record.rounds[place], texts[place] if place < len(texts) else None)
            for place in places
        ]
        if record.inner:
            own["inner"] = [self._inner(inner) for inner in record.inner]
        return own

    def _inner(self, inner: TaskRecord) -> Plain:
        return {"task": self.text(inner.task), **self.record(inner, ())}

    def _outcome(self, outcome: Outcome) -> Plain:
        found: Plain = {"seconds": short(outcome.seconds), "value": self.text(outcome.value)}
        if outcome.units:
            found["units"] = short(outcome.units)
        for name in ("score", "support", "margin", "drift"):
            if getattr(outcome, name) is not None:
                found[name] = short(getattr(outcome, name))
        if outcome.reason and outcome.status != "waiting":
            found["reason"] = self.text(outcome.reason)
        if outcome.refused is not None:
            best = outcome.refused
            found["refused"] = {
                "text": self.text(best.value),
                "reason": self.text(best.reason),
                "feedback": self.text(best.feedback),
                "score": best.score,
            }
        if outcome.failure is not None:
            found["failure"] = {
                "said": self.text(str(outcome.failure)),
                "traceback": self.text(outcome.failure.traceback),
            }
        if weakened := outcome.tally.weakened():
            found["caveats"] = self.text(weakened)
        return found

    def _round(self, round: Round, words: Texts | None) -> Plain:
        timing, decision = round.timing, round.decision
        places = list(range(len(round.items)))
        if len(places) > self._drafts:
            taken = decision.taken
            places = sorted(sorted(places, key=lambda index: (index not in taken, index))[: self._drafts])
        joined = decision.joined
        among = set(joined)
        found: Plain = {
            "index": round.index,
            "draft": short(timing.draft),
            "verify": short(timing.verify),
            "items": [self._item(round, words, index, among) for index in places],
        }
        if len(places) < len(round.items):
            found["drafted"] = len(round.items)
            for index, item in zip(places, found["items"], strict=True):
                item["at"] = index
        others = [value for index, value in zip(joined, decision.emitted, strict=True) if index is None]
        known = words is not None and len(words.spliced) == len(others)
        if others:
            found["spliced"] = [self.text(each) for each in (words.spliced if known and words else others)]
        if round.asked != len(round.items):
            found["asked"] = round.asked
        if round.undrafted:
            found["undrafted"] = True
        for name, value, default in (
            ("tries", round.tries, 0),
            ("source", round.source, "generator"),
            ("by", round.by, "verifier"),
            ("units", short(timing.units), 0.0),
            ("passes", timing.passes, 1),
            ("batch", timing.batch, 1),
            ("deterministic", round.deterministic, True),
            ("exhausted", round.exhausted, False),
            ("done", decision.done, False),
            ("abstain", decision.abstain, False),
        ):
            if value != default:
                found[name] = value
        if round.trouble:
            found["trouble"] = list(round.trouble)
        if round.steps:
            found["steps"] = [{"clause": step.clause, "do": step.do, "on": step.on} for step in round.steps]
        if round.failure is not None:
            found["failure"] = self.text(str(round.failure))
        if noted := {key: each for key, each in (round.notes or {}).items() if key != "heard"}:
            found["notes"] = self.text(noted)
        if round.nested:
            found["nested"] = [self._inner(inner) for inner in round.nested]
        return found

    def _item(self, round: Round, words: Texts | None, index: int, joined: set[int | None]) -> Plain:
        known = words is not None and index < len(words.items)
        found: Plain = {"text": self.text(words.items[index] if known and words else round.items[index])}
        found["fate"] = fate_of(round, index, joined)
        if round.parents[index] != index - 1:
            found["parent"] = round.parents[index]
        decision = round.decision
        for refusal in decision.refused:
            if refusal.index == index and refusal.reason:
                found["why"] = self.text(refusal.reason)
                break
        for corrected in decision.corrected:
            if corrected.index == index:
                found["instead"] = self.text(corrected.value)
                break
        if round.checks:
            found["check"] = self._check(round.checks[index])
        return found

    def _check(self, check: Check) -> Plain:
        found: Plain = {"verdict": check.verdict}
        if check.score is not None:
            found["score"] = short(check.score)
        for name in ("reason", "feedback", "stage", "caveat"):
            if said := getattr(check, name):
                found[name] = self.text(said)
        if check.correction is not msgspec.UNSET:
            found["correction"] = self.text(check.correction)
        return found


def fate_of(round: Round, index: int, joined: Container[int | None]) -> str:
    """What became of an item: "kept", "cut" (kept, and cut off by the stopping rule), "corrected", "held", "refused",
    "passed" (and not chosen), or "left" (not judged). `joined` is the decision's, made once for all items."""
    decision = round.decision
    if index in decision.kept:
        return "kept" if index in joined else "cut"
    if decision.corrected and any(each.index == index for each in decision.corrected):
        return "corrected"
    if index in decision.held:
        return "held"
    for refusal in decision.refused:
        if refusal.index == index:
            return "refused"
    verdict = round.checks[index].verdict if round.checks else "unchecked"
    if verdict in ("reject", "error", "timeout", "abstain"):
        return "refused"
    return "passed" if verdict == "pass" else "left"


def _kind(record: TaskRecord, texts: Sequence[Texts | None]) -> str:
    """How drafts are best read: "tokens" (numbers with words, one after the other), "steps" (a chain of short texts) or
    "drafts" (whole texts, beside each other)."""
    rounds = record.rounds
    items = [item for round in rounds for item in round.items]
    flat = any(len(round.items) > 1 and round.parents[-1] == -1 for round in rounds)
    if items and not flat and all(isinstance(item, int) for item in items):
        return "tokens"
    spliced = [value for round in rounds for value in round.decision.emitted]
    if not items and spliced and all(isinstance(value, int) for value in spliced):
        return "tokens"
    long = any(isinstance(item, str) and ("\n" in item.strip() or len(item) > 300) for item in items)
    many = any(len(round.items) > 1 for round in rounds)
    answer = record.outcome.value
    grown = isinstance(answer, (list, tuple)) and len(answer) > 1
    return "steps" if (many or grown) and not flat and not long else "drafts"


def _value_in_words(record: TaskRecord, texts: Sequence[Texts | None]) -> str | None:
    """All that joined the answer, in words; None where some round has none."""
    if not texts or None in texts:
        return None
    found: list[str] = []
    for round, said in zip(record.rounds, texts, strict=True):
        if said is None:
            return None
        others = iter(said.spliced)
        for index in round.decision.joined:
            found.append(next(others, "") if index is None else said.items[index])
    return "".join(found)
