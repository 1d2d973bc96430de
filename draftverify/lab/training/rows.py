"""A run's records as training data: what was refused beside what was taken instead.

A preference row is {prompt, chosen, rejected} of one place of an answer; a row of supervised data is {prompt,
completion} of one accepted answer; one for KTO {prompt, completion, label} of one judged answer; one of stepwise
supervision {prompt, completions, labels} of steps, of which the last may be wrong. All say where they come from: task,
run, pipeline, source, and who judged (`by`, or `chosen_by` and `rejected_by`): a metric, a person, the verifier or the
rule. Where a task's input has `messages` they are turns ({role, content}), else text.

- Where the run has a metric, right is what it says is right, wrong what it says is wrong, of whole answers. Of answers
  in steps or tokens it judges the whole: one that is wrong teaches nothing, and of a right one the verifier's word
  says what was wrong on the way. What a metric and a person judge differently makes no row.
- Without one, rejected is what the verifier rejected, the rule refused, or a person said is wrong. A check that failed
  or could not tell rejects nothing.
- Chosen is what stands there in the answer (kept, corrected, spliced, or drafted in a later round), else the value that
  the rule chose in the end, else a sibling that passed. What a person wrote in its place comes before all of them, and
  what a person said is wrong is never chosen.
- Rules on distributions refuse and replace by chance: a token that the target likes may go, and a rare one come. So
  their refusals make a row only at temperature 0, or where the summary of the token shows that the target gives the
  chosen one the larger probability.

What a model wrote is made inert as in `export`, and secrets that this process knows are `***`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import IO, Any, Literal, NamedTuple, TypeAlias, get_args

from draftverify.bench.records.directory import RunRecords
from draftverify.bench.records.entries import Entry
from draftverify.bench.records.export import inert, whole
from draftverify.bench.records.split import Split, split_of
from draftverify.bench.runner.labelling import meant
from draftverify.errors import ConfigError
from draftverify.lab.training.judged import (
    AnswerJudge,
    PeopleLabels,
    RunMetric,
    people_labels,
    value_key,
)
from draftverify.lab.training.texts import AnswerText, PromptText, TextOf, Values, turns_of
from draftverify.token_summary import read_summaries
from draftverify.values import Check, Round

Training: TypeAlias = Literal["trl-preference", "trl-sft", "trl-kto", "trl-stepwise"]
TRAINING: tuple[Training, ...] = get_args(Training)

UNSURE = (
    "a draw refused it, and no summary shows that the target prefers the other (records: {tokens: summary})"
)
"""Why a refused token makes no row."""

UNTOLD = "the metric says nothing of it, or a person says otherwise"
"""Why what a metric was to judge makes no row."""


def write_lines(rows: Iterable[Mapping[str, Any]], out: str | Path | IO[str]) -> int:
    """Write rows as lines of JSON in which nothing steers, and return how many.

    Args:
        rows: as of `training_rows`.
        out: a file, written whole or not at all; or an open text file.

    Raises:
        ResourceError: the file cannot be written.
    """
    if isinstance(out, (str, Path)):
        with whole(Path(out)) as part, open(part, "w", encoding="utf-8", newline="") as file:
            return write_lines(rows, file)
    count = 0
    for row in rows:
        out.write(inert(row) + "\n")
        count += 1
    return count


def training_rows(
    run: RunRecords,
    to: Training,
    left_out: Counter[str],
    *,
    text_of: TextOf = lambda pipeline: None,
    split: Split | None = None,
    chat: bool = False,
    metric: RunMetric | None = None,
) -> Iterator[dict[str, Any]]:
    """A run's training data, row after row.

    Args:
        run: the run.
        to: "trl-preference", "trl-sft", "trl-kto" or "trl-stepwise".
        left_out: counts the rejected items, or tasks, that make no row, by the reason.
        text_of: how values become text.
        split: only the tasks of this side of `split_of`.
        chat: a prompt that is a text is written as a user's turn, as chat models read it.
        metric: says what is right; None: the verifier, the rule and people do.

    Raises:
        ConfigError: there is no such format.
    """
    if to not in TRAINING:
        raise ConfigError(f"there is no format {to!r}; there are {', '.join(TRAINING)}")
    tasks = {task.id: task for task in run.tasks}
    # A column has one type, or nobody can load it: where one task is a conversation, all are.
    chat = chat or any(turns_of(task.input.get("messages")) for task in tasks.values())
    labels_of = people_labels(run)
    text_of_pipeline = lru_cache(None)(text_of)
    config = run.config
    likeliest = {name: _takes_the_likeliest(config, name) for name in run.names}
    identity = run.about.run
    for entry in run.entries(texts=False):
        task = tasks.get(entry.record.task)
        side = split_of(entry.record.task)
        if task is None or split not in (None, side):
            continue
        prompt = PromptText(task, chat)
        answer = AnswerText(entry, text_of_pipeline, likeliest=likeliest.get(entry.pipeline, False))
        people = labels_of.get((entry.pipeline, task.id), PeopleLabels({}, {}))
        stepwise = answer.stepwise or (metric is not None and metric.stepwise(entry.pipeline))
        judge = AnswerJudge(task, metric, people, stepwise)
        about = {
            "task": task.id,
            "group": task.group,
            "run": identity,
            "pipeline": entry.pipeline,
            "split": side,
        }
        for row in _MAKERS[to](_Recorded(entry, prompt, answer, judge, left_out)):
            yield {**row, **about}


class _Recorded(NamedTuple):
    """One task of which rows are made: its record, its texts, who judges, and where what makes no row is counted."""

    entry: Entry
    prompt: PromptText
    answer: AnswerText
    judge: AnswerJudge
    left_out: Counter[str]


def _preferences(recorded: _Recorded) -> Iterator[dict[str, Any]]:
    entry, prompt, answer, judge, left_out = recorded
    written: set[str] = set()
    chosen_by = "verifier"
    if judge.by_metric and judge.stepwise:
        right_answer = _right_answer(recorded)
        if right_answer is None:
            return
        chosen_by = right_answer[1]
    for round, start in zip(entry.record.rounds, answer.starts, strict=True):
        for index, verdict, by, reason in _rejected(round, judge, left_out):
            value = round.items[index]
            place = _place(round, index)
            better = None if place is None else _better(recorded, round, index, start + place)
            if place is None or better is None:
                left_out["nothing better is known"] += 1
                continue
            chosen, origin = better
            by_chance = by == "rule" and verdict == "refused" and origin != "person" and not answer.likeliest
            if by_chance and not _preferred(round, index, chosen):
                left_out[UNSURE] += 1
                continue
            good_ending, bad_ending = (answer.ending(start + place, item) for item in (chosen, value))
            if good_ending is None or bad_ending is None:
                left_out["half a character is no text"] += 1
                continue
            prefix, good, bad = *good_ending, bad_ending[1]
            row = prompt.row(prefix, chosen=good, rejected=bad)
            key = value_key([row["prompt"], good, bad])
            if good == bad or key in written:
                left_out["the same text, or the same row again"] += 1
                continue
            written.add(key)
            yield {
                **row,
                "position": start + place,
                "verdict": verdict,
                "reason": reason,
                "chosen_from": origin,
                "chosen_by": "person" if origin == "person" else _by(judge.of_item(chosen), chosen_by),
                "rejected_by": by,
                "source": round.source,
                "round": round.index,
            }


def _by(word: tuple[bool | None, str], otherwise: str) -> str:
    is_right, by = word
    return otherwise if is_right is None else by


def _rejected(
    round: Round, judge: AnswerJudge, left_out: Counter[str]
) -> Iterator[tuple[int, str, str, str]]:
    """The rejected items of a round: index, the verdict, whose word it is, and the reason."""
    refused = {refusal.index: refusal.reason for refusal in round.decision.refused}
    corrected = {correction.index for correction in round.decision.corrected}
    held = set(round.decision.held)
    for index, value in enumerate(round.items):
        check = round.checks[index] if index < len(round.checks) else None
        verdict = "refused" if check is None else check.verdict
        reason = (check.reason if check is not None else "") or refused.get(index, "")
        is_right, by = judge.of_item(meant(value, check))
        if is_right is not None:
            if not is_right:
                yield index, verdict, by, reason
            continue
        if verdict in ("error", "timeout", "abstain"):
            continue
        says_no = verdict == "reject"
        if (says_no and index not in held) or index in refused or index in corrected:
            if judge.by_metric and not judge.stepwise:
                left_out[UNTOLD] += 1
                continue
            yield index, verdict, "verifier" if says_no else "rule", reason


def _takes_the_likeliest(config: Mapping[str, Any], pipeline: str) -> bool:
    """Whether a pipeline ran at temperature 0, by the run's config."""
    written = config["pipelines"].get(pipeline.partition("@")[0]) or {}
    settings = {**(config.get("settings") or {}), **(written.get("settings") or {})}
    temperature = settings.get("temperature")
    for path, value in (config.get("cells") or {}).get(pipeline, {}).items():
        if "settings" in path.split("."):
            temperature = value if path.endswith("settings.temperature") else None
    return bool(temperature == 0 and temperature is not None)


def _preferred(round: Round, index: int, chosen: Any) -> bool:
    """Whether the target gave a token a larger probability than the refused one, by the summary of that."""
    summaries = read_summaries(round.tokens)
    return bool(summaries) and dict(summaries[index].top).get(chosen, 0.0) > summaries[index].p


def _place(round: Round, index: int) -> int | None:
    """Which of the round's values stands in an item's place, from 0; None where what it stands on was not taken."""
    replaced = [correction.index for correction in round.decision.corrected]
    joined = sorted((*round.decision.kept, *replaced)) if replaced else list(round.decision.kept)
    if index in joined:
        return joined.index(index)
    parent = round.parents[index] if index < len(round.parents) else -1
    if parent < 0:
        return 0
    return joined.index(parent) + 1 if parent in joined else None


def _better(recorded: _Recorded, round: Round, index: int, place: int) -> tuple[Any, str] | None:
    """A better value than a rejected item, and where it comes from; None where none is known."""
    entry, _, answer, judge, _ = recorded
    rejected = value_key(round.items[index])
    by_metric = judge.by_metric and not judge.stepwise

    def may_be(value: Any, check: Check | None = None) -> bool:
        is_right, _ = judge.of_item(meant(value, check))
        return value_key(value) != rejected and (is_right is True if by_metric else is_right is not False)

    if rejected in judge.people.instead and may_be(judge.people.instead[rejected]):
        return judge.people.instead[rejected], "person"
    if place < len(answer.values) and may_be(answer.values[place]):
        return answer.values[place], "answer"
    value = entry.record.outcome.value
    chooses = not answer.values and place == 0 and entry.record.outcome.status == "accepted"
    if chooses and value is not None and may_be(value):
        return value, "outcome"
    for place_of_sibling, check in enumerate(round.checks):
        sibling = place_of_sibling != index and round.parents[place_of_sibling] == round.parents[index]
        passed = by_metric or (check.verdict == "pass" and not judge.by_metric)
        if sibling and passed and may_be(round.items[place_of_sibling], check):
            return round.items[place_of_sibling], "sibling"
    return None


def _completions(recorded: _Recorded) -> Iterator[dict[str, Any]]:
    completion = _right_answer(recorded)
    if completion is not None:
        yield _completed(recorded, *completion, _sources(recorded.entry))


def _completed(recorded: _Recorded, values: Values, by: str, source: str) -> dict[str, Any]:
    text = recorded.answer.text(values)
    return {**recorded.prompt.row("", completion=text), "by": by, "source": source}


def _right_answer(recorded: _Recorded) -> tuple[Values, str] | None:
    """The values of an accepted answer that is right, and by whom; None where it is not."""
    entry, _, answer, judge, left_out = recorded
    outcome = entry.record.outcome
    if outcome.status != "accepted":
        waits = outcome.status == "waiting"
        left_out["the task waits for a person" if waits else f"the task ended as {outcome.status}"] += 1
        return None
    values = answer.values if answer.is_value else [outcome.value]
    is_right, by = judge.of_answer(outcome.value)
    if is_right is False or any(judge.people.right.get(value_key(item)) is False for item in values):
        left_out["the answer is not right" if judge.by_metric else "a person said that it is wrong"] += 1
        return None
    if is_right is None:
        if judge.by_metric:
            left_out[UNTOLD] += 1
            return None
        by = "person" if any(judge.people.right.get(value_key(item)) for item in values) else "verifier"
    return values, by


def _labelled(recorded: _Recorded) -> Iterator[dict[str, Any]]:
    """Each answer that was judged, once, and whether it is right: items, and what the task came to."""
    entry, _, answer, judge, left_out = recorded
    words: dict[str, tuple[Values, bool, str, str]] = {}
    outcome = entry.record.outcome
    if outcome.status == "accepted":
        is_right, by = judge.of_answer(outcome.value)
        if is_right is not None or not judge.by_metric:
            values: Values = answer.values if answer.is_value else [outcome.value]
            said_by = _by((is_right, by), "verifier")
            words[value_key(outcome.value)] = values, is_right is not False, said_by, _sources(entry)
    for round in () if judge.stepwise else entry.record.rounds:
        for value, check in zip(round.items, round.checks, strict=False):
            is_right, by = judge.of_item(meant(value, check))
            if is_right is None and not judge.by_metric and check.verdict in ("pass", "reject"):
                is_right, by = check.verdict == "pass", "verifier"
            if is_right is None:
                left_out["nobody said whether it is right"] += 1
            else:
                words.setdefault(value_key(value), ([value], is_right, by, round.source))
    for values, is_right, by, source in words.values():
        yield {**_completed(recorded, values, by, source), "label": is_right}


def _steps(recorded: _Recorded) -> Iterator[dict[str, Any]]:
    """The steps of a right answer; and of the way there, those up to one that was rejected, which is wrong."""
    entry, prompt, answer, judge, left_out = recorded
    if not judge.stepwise or answer.steps(answer.values) is None:
        left_out["its answer has no steps"] += 1
        return
    right_answer = _right_answer(recorded)
    if right_answer is None:
        return
    rows = [(answer.values, True, right_answer[1], _sources(entry))]
    for round, start in zip(entry.record.rounds, answer.starts, strict=True):
        for index, _, by, _ in _rejected(round, judge, left_out):
            place = _place(round, index)
            if place is None:
                left_out["it stands on what was not taken"] += 1
            else:
                rows.append(([*answer.values[: start + place], round.items[index]], False, by, round.source))
    for values, is_right, by, source in rows:
        completions = answer.steps(values)
        labels = [True] * (len(values) - 1) + [is_right]
        yield {**prompt.row(""), "completions": completions, "labels": labels, "by": by, "source": source}


def _sources(entry: Entry) -> str:
    return ", ".join(dict.fromkeys(round.source for round in entry.record.rounds))


_MAKERS: Mapping[Training, Callable[[_Recorded], Iterator[dict[str, Any]]]] = {
    "trl-preference": _preferences,
    "trl-sft": _completions,
    "trl-kto": _labelled,
    "trl-stepwise": _steps,
}
