"""A run's results as rows of plain values: one per task of a pipeline, per round, or per drafted item.

`COLUMNS` says what each column holds; what metrics said and what a sweep's cell sets comes after them, as `metric_NAME`
and `cell_PATH`. Rows are read from the store page by page, so a run of any length takes the memory of a few hundred
tasks. `export` writes them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

import msgspec

from draftverify.bench.records.directory import RunRecords
from draftverify.bench.records.entries import Question, TaskEnding, Texts
from draftverify.bench.records.items import fate_of
from draftverify.checks.scores import Score
from draftverify.errors import ConfigError, StoreError
from draftverify.exchanges import Exchange, exchanges_of, exchanges_of_metric
from draftverify.token_summary import read_summaries
from draftverify.values import Round, Tally

Level: TypeAlias = Literal["tasks", "rounds", "items"]
Kind: TypeAlias = Literal["text", "value", "json", "int", "float", "bool", "time"]

LEVELS: tuple[Level, ...] = get_args(Level)


class Column(NamedTuple):
    """A column of an export.

    Args:
        name: its heading.
        kind: "value" is what a task came to: a text as it is, anything else as JSON text (jsonl: as JSON); "json" is
            always JSON text (jsonl: JSON). "time" is an ISO time in UTC.
        says: what stands in it.
    """

    name: str
    kind: Kind
    says: str


_WHO = (
    Column("pipeline", "text", "the pipeline; of a sweep PIPELINE@CELL"),
    Column("task", "text", "the task's id"),
    Column("group", "text", "its group"),
    Column("attempt", "int", "which infrastructure re-run; the latest alone is here"),
)
_COUNTS = (
    Column("trials", "int", "checked items of first and later tries"),
    Column("accepted", "int", "those that the rule accepted"),
    Column("errors", "int", "checks that failed; in no denominator, nor are the next three"),
    Column("timeouts", "int", "checks that took too long"),
    Column("abstentions", "int", "checks that could not tell"),
    Column("unchecked", "int", "items at which the verifier did not look"),
)

COLUMNS: Mapping[Level, tuple[Column, ...]] = {
    "tasks": (
        *_WHO,
        Column("status", "text", "accepted, abstained, refused, failed, or waiting for a person"),
        Column("value", "value", "the answer"),
        Column("value_kind", "text", "text, or json where the value is something else"),
        Column("score", "float", "of the value, where the rule compares scores"),
        Column("support", "float", "of a vote, the value's share"),
        Column("margin", "float", "of a vote, its lead over the second"),
        Column("reason", "text", "why it ended, when it was not accepted"),
        Column("refused", "json", "the best refused candidate's value"),
        Column("refused_reason", "text", "what was said of it"),
        Column("failure", "text", "the failed call that ended the task"),
        Column("rounds", "int", "how many"),
        *_COUNTS,
        Column("caveats", "json", "accepted items by what weakens the verifier's word for them"),
        Column(
            "drift",
            "float",
            "TV distance from the target summed over the values; none where none was measured",
        ),
        Column("seconds", "float", "latency"),
        Column("cost", "float", "what its parts said that they cost, in the experiment's `currency`"),
        Column("memory", "int", "the version of the memory that it was made under"),
        Column("committed", "time", "when the record was committed; of a task that waits, since when"),
        Column(
            "label",
            "text",
            "of a task about which a person was asked: accept, edit or reject; the last answer",
        ),
        Column("label_value", "json", "what the person made of the item, of an edit"),
        Column("label_note", "text", "the person's reason"),
        Column("labels", "int", "how many answers people gave about it"),
        Column("input", "json", "the task's input"),
        Column("expected", "json", "its labels"),
    ),
    "rounds": (
        *_WHO,
        Column("round", "int", "its number in the task, from 0"),
        Column("tries", "int", "policy retries directly before it"),
        Column("source", "text", "who drafted: generator, a fallback's name, person"),
        Column("by", "text", "whose word the checks are"),
        Column("asked", "int", "items asked for"),
        Column("drafted", "int", "items that came"),
        Column("kept", "int", "items that joined the answer"),
        Column("corrected", "int", "items in whose place another value joined"),
        Column("held", "int", "items held for later"),
        Column("refused", "int", "items judged and not accepted"),
        Column("spliced", "json", "values that joined after them"),
        Column("emitted", "int", "values that joined, after any cut"),
        *_COUNTS,
        Column("trouble", "text", "what stood in the way"),
        Column("steps", "text", "the policy steps that it led to"),
        Column("failure", "text", "the failed call, when it ended in one"),
        Column("draft", "float", "seconds of the draft"),
        Column("verify", "float", "seconds of the pass"),
        Column("decide", "float", "seconds of the rule"),
        Column("busy", "float", "machine seconds; of a shared pass its share"),
        Column("cost", "float", "what its parts said that they cost"),
        Column("passes", "int", "verifier calls"),
        Column("batch", "int", "sessions that shared the last of them"),
        Column("deterministic", "bool", "no clock and no batch took part"),
        Column("nested", "int", "inner tasks; their rounds are not in this table"),
        Column("exchanges", "json", "what models were asked and said, with who asked, tokens and cost"),
    ),
    "items": (
        *_WHO,
        Column("round", "int", "the round's number in the task, from 0"),
        Column("item", "int", "its place in the block, from 0"),
        Column("parent", "int", "the item that it stands on, −1 for none"),
        Column("source", "text", "who drafted"),
        Column("value", "value", "what was drafted"),
        Column("value_kind", "text", "text, or json where it is something else"),
        Column("words", "text", "the same in the verifier's words, where it has some"),
        Column(
            "state",
            "text",
            "kept, cut (kept, then cut off by the stopping rule), corrected, held, refused, passed (and not chosen), "
            "left (not judged)",
        ),
        Column("verdict", "text", "of the verifier: pass, reject, abstain, error, timeout, unchecked"),
        Column("score", "float", "of the check"),
        Column("stage", "text", "of a staged verifier, whose word it is"),
        Column("reason", "text", "of the check, else of the rule's refusal"),
        Column("feedback", "text", "what was said to the generator"),
        Column("caveat", "text", "what weakens the check"),
        Column("correction", "json", "what joined in its place"),
        Column("by", "text", "whose word the check is"),
    ),
}


_SUMMARY = (
    Column("p", "float", "the target's probability of it"),
    Column("q", "float", "the draft's probability of it; 1 of one that was given"),
    Column("tv", "float", "total variation distance of the two distributions there"),
    Column("p_max", "float", "the target's largest probability there, at temperature 1 where that is known"),
    Column("q_max", "float", "the draft's, likewise"),
    Column("entropy", "float", "of the target's distribution there, in nats"),
    Column("tail", "float", "what the target gives to all tokens outside `top`"),
    Column("top", "json", "the target's likeliest tokens, at most 32, with their probabilities"),
)
"""Of items, in a run whose records keep summaries of drafted tokens."""


def columns_of(run: RunRecords, level: Level) -> tuple[Column, ...]:
    """The columns of a level in this run, its metrics' and cells' own included.

    Raises:
        ConfigError: there is no such level.
    """
    if level not in COLUMNS:
        raise ConfigError(f"there is no level {level!r}; there are {', '.join(LEVELS)}")
    config = run.config
    columns = list(COLUMNS[level])
    if level == "tasks":
        columns += [
            Column(f"metric_{name}", "float", f"what the metric {name} says")
            for name in config.get("metrics") or {}
        ]
        if config.get("metrics"):
            columns.append(
                Column("judgements", "json", "what metrics asked models and what they said, with cost")
            )
    if level == "items" and (config.get("records") or {}).get("tokens"):
        columns += _SUMMARY
    cells: Mapping[str, Mapping[str, Any]] = config.get("cells") or {}
    for path in dict.fromkeys(path for changes in cells.values() for path in changes):
        values = [changes[path] for changes in cells.values() if path in changes]
        kind: Kind = "json"
        if all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in values):
            kind = "float"
        elif all(isinstance(value, str) for value in values):
            kind = "text"
        columns.append(Column(f"cell_{path}", kind, f"what the sweep's cell sets {path} to"))
    return tuple(columns)


def rows(run: RunRecords, level: Level = "tasks") -> Iterator[dict[str, Any]]:
    """The rows of a run as plain values, read page by page; in task order, then by pipeline."""
    cells: Mapping[str, Mapping[str, Any]] = run.config.get("cells") or {}
    metrics = list(run.config.get("metrics") or {})
    scores = run.store.named_scores() if metrics and level == "tasks" else {}
    labels: dict[tuple[str, str], list[Question]] = {}
    if level == "tasks":
        for question in run.questions:
            if question.answer:
                labels.setdefault((question.pipeline, question.task), []).append(question)
        tasks = iter(run.tasks)
        task = next(tasks, None)
    for ending in run.store.endings():
        identity = {
            "pipeline": ending.pipeline,
            "task": ending.task,
            "group": ending.group,
            "attempt": ending.attempt,
        }
        key = ending.pipeline, ending.task
        changes = {f"cell_{path}": value for path, value in cells.get(ending.pipeline, {}).items()}
        if level == "tasks":
            while task is not None and task.id != ending.task:
                task = next(tasks, None)
            metric_values: dict[str, Any] = {f"metric_{name}": scores.get((*key, name)) for name in metrics}
            if metrics:
                metric_values["judgements"] = _judgements(
                    run.store.judgements(ending.task).get(ending.pipeline, {})
                )
            task_input = {
                name: dict(getattr(task, name)) if task is not None else None
                for name in ("input", "expected")
            }
            yield {
                **identity,
                **_task(ending),
                **_label(labels.get(key, ())),
                **task_input,
                **metric_values,
                **changes,
            }
            continue
        try:
            rounds = run.store.rounds(*key, ending.attempt)
            if ending.outcome.status == "waiting":
                rounds = rounds[: ending.outcome.rounds]  # as `entries` has it
            texts = run.store.words(*key, ending.attempt) if level == "items" else ()
        except StoreError:
            continue  # the task's row says that it cannot be read
        for place, round in enumerate(rounds):
            if level == "rounds":
                yield {**identity, **_round(round), **changes}
            else:
                round_texts = texts[place] if place < len(texts) else None
                yield from ({**identity, **item_row, **changes} for item_row in _items(round, round_texts))


def _task(ending: TaskEnding) -> dict[str, Any]:
    outcome = ending.outcome
    return {
        "status": outcome.status,
        "value": outcome.value,
        "value_kind": None if outcome.value is None else "text" if isinstance(outcome.value, str) else "json",
        "score": outcome.score,
        "support": outcome.support,
        "margin": outcome.margin,
        "reason": outcome.reason or None,
        "refused": None if outcome.refused is None else outcome.refused.value,
        "refused_reason": None if outcome.refused is None else outcome.refused.reason or None,
        "failure": None if outcome.failure is None else str(outcome.failure),
        "rounds": outcome.rounds,
        **_counts(outcome.tally),
        "caveats": outcome.tally.caveats or None,
        "drift": outcome.drift,
        "seconds": outcome.seconds,
        "cost": outcome.cost,
        "memory": ending.memory,
        "committed": ending.committed,
    }


def _counts(tally: Tally) -> dict[str, int]:
    names = ("trials", "accepted", "errors", "timeouts", "abstentions", "unchecked")
    return {name: getattr(tally, name) for name in names}


def _label(answers: Sequence[Question]) -> dict[str, Any]:
    latest = answers[-1] if answers else None
    return {
        "label": latest and latest.answer,
        "label_value": latest and latest.value,
        "label_note": (latest and latest.note) or None,
        "labels": len(answers),
    }


def _round(round: Round) -> dict[str, Any]:
    decision, timing = round.decision, round.timing
    return {
        "round": round.index,
        "tries": round.tries,
        "source": round.source,
        "by": round.by,
        "asked": round.asked,
        "drafted": len(round.items),
        "kept": len(decision.kept),
        "corrected": len(decision.corrected),
        "held": len(decision.held),
        "refused": len(decision.refused),
        "spliced": list(decision.spliced),
        "emitted": len(decision.emitted),
        **_counts(round.tally),
        "trouble": ", ".join(round.trouble) or None,
        "steps": ", ".join(f"{step.clause + 1}. {step.do}" for step in round.steps) or None,
        "failure": None if round.failure is None else str(round.failure),
        **{
            name: getattr(timing, name)
            for name in ("draft", "verify", "decide", "busy", "cost", "passes", "batch")
        },
        "deterministic": round.deterministic,
        "nested": len(round.nested),
        "exchanges": _plain(exchanges_of(round)),
    }


def _judgements(scores: Mapping[str, Score]) -> list[dict[str, Any]] | None:
    """What metrics asked models about an outcome."""
    return _plain(asked for name, score in scores.items() for asked in exchanges_of_metric(name, score.notes))


def _plain(exchanges: Iterable[tuple[str, Exchange]]) -> list[dict[str, Any]] | None:
    return [{"who": who, **msgspec.to_builtins(exchange)} for who, exchange in exchanges] or None


def _items(round: Round, texts: Texts | None) -> Iterator[dict[str, Any]]:
    decision = round.decision
    refused = {refusal.index: refusal.reason for refusal in decision.refused}
    replaced = {correction.index: correction.value for correction in decision.corrected}
    joined = set(decision.joined)
    item_words = texts.items if texts is not None and len(texts.items) == len(round.items) else None
    summaries = read_summaries(round.tokens)
    for index, value in enumerate(round.items):
        check = round.checks[index] if index < len(round.checks) else None
        yield {
            "round": round.index,
            "item": index,
            "parent": round.parents[index] if index < len(round.parents) else -1,
            "source": round.source,
            "value": value,
            "value_kind": "text" if isinstance(value, str) else "json",
            "words": None if item_words is None else item_words[index],
            "state": fate_of(round, index, joined),
            "verdict": check and check.verdict,
            "score": check and check.score,
            "stage": (check and check.stage) or None,
            "reason": (check and check.reason) or refused.get(index) or None,
            "feedback": (check and check.feedback) or None,
            "caveat": (check and check.caveat) or None,
            "correction": replaced.get(index),
            "by": round.by,
            **(msgspec.structs.asdict(summaries[index]) if index < len(summaries) else {}),
        }
