"""One task as plain data: what it asks, and of every pipeline how it ended and what was drafted, said and kept.

Texts are cut to a length, rounds and drafts to a number, and what is left out is counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from draftverify.bench.records import Entry, RunRecords, Texts
from draftverify.bench.records.items import answer_words, fate_of, item_of, spliced_in
from draftverify.bench.tables.expected import differences
from draftverify.bench.tables.summarise import first_difference, is_unanswered
from draftverify.bench.tables.task_rows import Plain, RunFrame, differs, short
from draftverify.bench.tables.words import cost_words, text_of
from draftverify.checks.scores import Score
from draftverify.errors import ConfigError
from draftverify.exchanges import KEY, Exchange, exchanges_of, exchanges_of_metric
from draftverify.secret import redact
from draftverify.values import Check, Outcome, Round, Task, TaskRecord

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
    recorded_task = next(iter(run.store.tasks(id=task)), None)
    if recorded_task is None:
        raise ConfigError(f"the run has no task {task!r}", path="task")
    frame = RunFrame.of(run)
    entries = {entry.pipeline: entry for entry in run.store.entries(task=task)}
    entries.update(detail_of_open(run, frame, recorded_task, entries))
    return detail_of(frame, recorded_task, entries, run.store.judgements(task))


def detail_of_open(run: RunRecords, frame: RunFrame, task: Task, ended: Iterable[str]) -> dict[str, Entry]:
    """The entries of a task in the pipelines in which it is under way, by pipeline."""
    entries = {}
    for name in frame.names:
        if name not in ended and (rounds := run.store.rounds(name, task.id, 0)):
            seconds = sum(round.timing.total for round in rounds)
            outcome = Outcome(status="waiting", rounds=len(rounds), seconds=seconds)
            record = TaskRecord(task=task.id, group=task.group, outcome=outcome, rounds=rounds)
            texts = run.store.words(name, task.id, 0)
            entries[name] = Entry(pipeline=name, record=record, texts=texts)
    return entries


def detail_of(
    frame: RunFrame,
    task: Task,
    entries: Mapping[str, Entry],
    judgements: Mapping[str, Mapping[str, Score]] = {},
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
        judgements: what metrics said of them, with their notes, by pipeline and name.
        clipped: characters of one text that are shown.
        rounds: of one record that are shown.
        drafts: of one round that are shown.
    """
    show = _Show(clipped, rounds, drafts, frame.currency)
    # Who is to decide on a task is not shown its labels.
    questions = (frame.waiting.get((name, task.id)) for name in frame.names)
    is_asked = any(question is not None and question.state == "pending" for question in questions)
    expected = {} if is_asked else task.expected
    pipelines: list[Plain] = []
    for name in frame.names:
        if not frame.has(name, task.id):
            continue
        entry = entries.get(name)
        if entry is None:
            pipelines.append({"name": name, "status": "open", "rounds": []})
            continue
        scores = {} if is_asked else judgements.get(name, {})  # a metric's prompt may show a label
        base = entries.get(frame.bases[name])
        pipelines.append({"name": name, **_of_pipeline(frame, show, name, entry, base, expected, scores)})
    return {
        "task": redact(task.id),
        "group": redact(task.group),
        "input": {redact(key): show.text(value) for key, value in task.input.items()},
        "expected": {redact(key): show.text(value) for key, value in expected.items()},
        "pipelines": pipelines,
    }


def _of_pipeline(
    frame: RunFrame,
    show: _Show,
    name: str,
    entry: Entry,
    base: Entry | None,
    expected: Mapping[str, Any],
    judgements: Mapping[str, Score],
) -> Plain:
    """One pipeline's record of a task: beside what is expected, its baseline, its scores, and its question."""
    outcome, task = entry.record.outcome, entry.record.task
    detail = show.record(entry.record, entry.texts)
    if unmet := differences(outcome.value, expected):
        detail["unmet"] = [
            {"field": redact(field), "parts": [[kind, show.text(text)] for kind, text in parts]}
            for field, parts in unmet
        ]
    question = frame.waiting.get((name, task))
    under_way = outcome.status == "waiting" and question is None
    if base is not None and not under_way and differs(outcome, base.record.outcome):
        detail["differs"] = show.difference(base.record.outcome, outcome)
    keys = {metric: (name, task, metric) for metric in frame.metrics}
    if scores := {metric: frame.scores[key] for metric, key in keys.items() if key in frame.scores}:
        detail["scores"] = scores
    asked = [
        show.exchange(who, exchange)
        for metric, score in judgements.items()
        for who, exchange in exchanges_of_metric(metric, score.notes)
    ]
    # What was asked of models the page shows by rounds; a metric comes after the last.
    if asked and detail["rounds"]:
        detail["rounds"][-1].setdefault("exchanges", []).extend(asked)
    if under_way:
        detail["status"] = "open"
    if question is not None:
        note = show.text(question.note)
        detail["question"] = {"state": question.state, "answer": question.answer, "note": note}
    return detail


class _Show:
    """Records as plain data, texts cut to a length; what is at its default is left out."""

    def __init__(self, clipped: int, rounds: int, drafts: int, currency: str) -> None:
        self._clipped = clipped
        self._rounds = rounds
        self._drafts = drafts
        self._currency = currency

    def text(self, value: Any) -> str:
        """A recorded value as text; of one that is too long its beginning, and how much is left."""
        # A secret goes before the cut, since half of one is too much of it.
        text = redact(text_of(value))
        excess = len(text) - self._clipped
        return text if excess <= 0 else f"{text[: self._clipped]}… ({excess} more characters)"

    def difference(self, base: Outcome, outcome: Outcome) -> Plain:
        """The place where two outcomes part; of one that failed or waits its reason, since it has no value."""
        if is_unanswered(base) or is_unanswered(outcome):
            sides = [
                f"{side.status}: {side.reason}" if is_unanswered(side) else side.value
                for side in (base, outcome)
            ]
            position, expected, got = None, *sides
        else:
            position, expected, got = first_difference(base.value, outcome.value)
        return {"position": position, "expected": self.text(expected), "got": self.text(got)}

    def record(self, record: TaskRecord, texts: Sequence[Texts | None]) -> Plain:
        """A task's record as plain data: how it ended, and its rounds."""
        outcome = record.outcome
        detail: Plain = {"status": outcome.status, "attempt": record.attempt, **self._outcome(outcome)}
        in_words = answer_words(record.rounds, texts)
        if in_words is not None:
            detail["words"] = self.text(in_words)
        detail["kind"] = _kind(record, texts)
        places = range(len(record.rounds))
        if len(places) > self._rounds:
            head = self._rounds - self._rounds // 4
            detail["left_out"] = [head, len(places) - self._rounds]
            places = [*places[:head], *places[len(places) - self._rounds // 4 :]]  # type: ignore[assignment]
        detail["rounds"] = [
            self._round(record.rounds[place], texts[place] if place < len(texts) else None)
            for place in places
        ]
        if record.inner:
            detail["inner"] = [self._inner(inner) for inner in record.inner]
        return detail

    def _inner(self, inner: TaskRecord) -> Plain:
        return {"task": self.text(inner.task), **self.record(inner, ())}

    def _outcome(self, outcome: Outcome) -> Plain:
        plain: Plain = {"seconds": short(outcome.seconds), "value": self.text(outcome.value)}
        if outcome.cost:
            plain["cost"] = cost_words(outcome.cost, self._currency)
        for name in ("score", "support", "margin", "drift"):
            if getattr(outcome, name) is not None:
                plain[name] = short(getattr(outcome, name))
        if outcome.reason and outcome.status != "waiting":
            plain["reason"] = self.text(outcome.reason)
        if outcome.refused is not None:
            best = outcome.refused
            plain["refused"] = {
                "text": self.text(best.value),
                "reason": self.text(best.reason),
                "feedback": self.text(best.feedback),
                "score": best.score,
            }
        if outcome.failure is not None:
            plain["failure"] = {
                "said": self.text(str(outcome.failure)),
                "traceback": self.text(outcome.failure.traceback),
            }
        if weakened := outcome.tally.weakened():
            plain["caveats"] = self.text(weakened)
        return plain

    def _round(self, round: Round, texts: Texts | None) -> Plain:
        timing, decision = round.timing, round.decision
        places = list(range(len(round.items)))
        if len(places) > self._drafts:
            preferred = decision.taken
            places = sorted(sorted(places, key=lambda index: (index not in preferred, index))[: self._drafts])
        joined = decision.joined
        among = set(joined)
        plain: Plain = {
            "index": round.index,
            "draft": short(timing.draft),
            "verify": short(timing.verify),
            "items": [self._item(round, texts, index, among) for index in places],
        }
        if len(places) < len(round.items):
            plain["drafted"] = len(round.items)
            for index, item in zip(places, plain["items"], strict=True):
                item["at"] = index
        if spliced := spliced_in(round, texts):
            plain["spliced"] = [*map(self.text, spliced)]
        if round.asked != len(round.items):
            plain["asked"] = round.asked
        if round.undrafted:
            plain["undrafted"] = True
        for name, value, default in (
            ("tries", round.tries, 0),
            ("source", round.source, "generator"),
            ("by", round.by, "verifier"),
            ("passes", timing.passes, 1),
            ("batch", timing.batch, 1),
            ("deterministic", round.deterministic, True),
            ("exhausted", round.exhausted, False),
            ("done", decision.done, False),
            ("abstain", decision.abstain, False),
        ):
            if value != default:
                plain[name] = value
        if timing.cost:
            plain["cost"] = cost_words(timing.cost, self._currency)
        if round.trouble:
            plain["trouble"] = list(round.trouble)
        if round.steps:
            plain["steps"] = [{"clause": step.clause, "do": step.do, "on": step.on} for step in round.steps]
        if round.failure is not None:
            plain["failure"] = self.text(str(round.failure))
        notes = {**(round.draft_notes or {}), **(round.notes or {})}
        if noted := {key: note for key, note in notes.items() if key not in ("heard", KEY)}:
            plain["notes"] = self.text(noted)
        if exchanges := [self.exchange(who, exchange) for who, exchange in exchanges_of(round)]:
            plain["exchanges"] = exchanges
        if round.nested:
            plain["nested"] = [self._inner(inner) for inner in round.nested]
        return plain

    def _item(self, round: Round, texts: Texts | None, index: int, joined: set[int | None]) -> Plain:
        plain: Plain = {"text": self.text(item_of(round, texts, index))}
        plain["fate"] = fate_of(round, index, joined)
        if round.parents[index] != index - 1:
            plain["parent"] = round.parents[index]
        decision = round.decision
        for refusal in decision.refused:
            if refusal.index == index and refusal.reason:
                plain["why"] = self.text(refusal.reason)
                break
        for corrected in decision.corrected:
            if corrected.index == index:
                plain["instead"] = self.text(corrected.value)
                break
        if round.checks:
            plain["check"] = self._check(round.checks[index])
        return plain

    def exchange(self, who: str, exchange: Exchange) -> Plain:
        """What was asked of a model and what it said."""
        plain: Plain = msgspec.to_builtins(exchange)
        for message in plain["asked"]:
            message["content"] = self.text(message["content"])
        for reply in plain.get("replies", ()):
            reply["text"] = self.text(reply["text"])
        if exchange.cost:
            plain["cost"] = cost_words(exchange.cost, self._currency)
        return {"who": self.text(who), **plain}

    def _check(self, check: Check) -> Plain:
        plain: Plain = {"verdict": check.verdict}
        if check.score is not None:
            plain["score"] = short(check.score)
        for name in ("reason", "feedback", "stage", "caveat"):
            if remark := getattr(check, name):
                plain[name] = self.text(remark)
        if check.correction is not msgspec.UNSET:
            plain["correction"] = self.text(check.correction)
        return plain


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
    several = any(len(round.items) > 1 for round in rounds)
    answer = record.outcome.value
    grown = isinstance(answer, (list, tuple)) and len(answer) > 1
    return "steps" if (several or grown) and not flat and not long else "drafts"
