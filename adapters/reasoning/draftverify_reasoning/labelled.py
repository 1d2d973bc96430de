"""Labelled solutions, which a verifier learns from: lines of JSON, or what the verifier of a finished run said."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from draftverify import ConfigError, ContractError
from draftverify.bench.records import load_run
from draftverify.exchanges import exchanges_of
from draftverify_llm import MISSING, answer_text, question_text, read_rows, value_at

FIELDS = ("question", "solutions", "text", "correct", "logprob")


class Labelled(NamedTuple):
    """A problem with what was tried on it.

    Args:
        question: its text, white space around it aside; two problems never have the same.
        solutions: their texts, likewise; what was sampled several times stands there as often.
        correct: of each solution.
        logprobs: of each solution, that its model gave it; None where that was not kept.
    """

    question: str
    solutions: tuple[str, ...]
    correct: tuple[bool, ...]
    logprobs: tuple[float | None, ...] = ()


class _LabelledText(NamedTuple):
    text: str
    correct: bool
    logprob: float | None


def read_labelled(path: Path, fields: Mapping[str, str] = {}, pipeline: str | None = None) -> list[Labelled]:
    """The problems that have a solution, in the order of the data.

    Args:
        path: a .jsonl file; or the directory of a run, whose passed items are right and whose rejected ones are wrong,
            by the word of its verifier or of a person: a verifier that learns from a run learns what those believed.
            Errors, timeouts, abstentions and a trusted fallback, which nobody checked, say nothing; nor do beginnings
            ("finished": false). A text that was judged both ways is left out.
        fields: the names of the lines' keys, or paths with dots, for `question`, `solutions`, `text`, `correct` and
            `logprob`, where they differ; a solution may be without the last.
        pipeline: of a run, the one whose items are read; all when None.

    Raises:
        ConfigError: nothing can be read, or no solution is there.
    """
    samples_of: dict[str, list[_LabelledText]] = {}
    if path.is_dir():
        _read_run(path, pipeline, samples_of)
    else:
        if pipeline is not None:
            raise ConfigError("only a run has pipelines", where=str(path), path="pipeline")
        _read_lines(path, fields, samples_of)
    problems = []
    for question, samples in samples_of.items():
        labels = {(sample.text, sample.correct) for sample in samples}
        sure = [sample for sample in samples if (sample.text, not sample.correct) not in labels]
        if sure:
            problems.append(Labelled(question, *zip(*sure, strict=True)))
    if not problems:
        raise ConfigError("no solution is there that is said to be right or wrong", where=str(path))
    return problems


def _read_lines(path: Path, fields: Mapping[str, str], samples_of: dict[str, list[_LabelledText]]) -> None:
    unknown = sorted(set(fields) - set(FIELDS))
    if unknown:
        raise ConfigError(f"there is no field {unknown[0]!r}; there are {', '.join(FIELDS)}", path="fields")
    names = {name: fields.get(name, name) for name in FIELDS}
    for where, entry in read_rows(path, halves=True):
        try:
            question, solutions = (_at(entry, names[name]) for name in ("question", "solutions"))
            if not isinstance(question, str) or not question.strip():
                raise ValueError("the question is no text, or an empty one")
            if not isinstance(solutions, list):
                raise TypeError("the solutions are no list")
            for solution in solutions:
                text, correct = (_at(solution, names[name]) for name in ("text", "correct"))
                if not isinstance(text, str) or not isinstance(correct, bool):
                    raise TypeError(
                        f"a solution has a text, and is right by true or false, not {correct!r:.40}"
                    )
                logprob = value_at(solution, names["logprob"])
                logprob = None if logprob is MISSING or logprob is None else float(logprob)
                if logprob is not None and not math.isfinite(logprob):
                    raise ValueError(f"the logprob of a solution is {logprob}")
                _add(samples_of, question, text, correct, logprob)
        except (ValueError, KeyError, TypeError) as error:
            raise ConfigError(
                'a line is {"question": …, "solutions": [{"text": …, "correct": true or false}, …]}, or `fields` says '
                f"what its keys are called: {type(error).__name__}: {error}",
                where=where,
            ) from error


def _at(value: Any, path: str) -> Any:
    found = value_at(value, path)
    if found is MISSING:
        raise KeyError(path)
    return found


def _read_run(path: Path, pipeline: str | None, samples_of: dict[str, list[_LabelledText]]) -> None:
    with load_run(path) as run:
        questions: dict[str, str] = {}
        for task in run.tasks:
            try:
                questions[task.id] = question_text(task)
            except ContractError as error:
                raise ConfigError(f"task {task.id} of the run: {error}", where=str(path)) from error
        pipelines: set[str] = set()
        for entry in run.entries(pipeline=pipeline):
            pipelines.add(entry.pipeline)
            question = questions[entry.record.task]
            for round in entry.record.rounds:
                if round.by == "fallback":
                    continue
                if any(parent >= 0 for parent in round.parents):
                    raise ConfigError(
                        f"task {entry.record.task} of the run has blocks of steps; a verifier learns from whole "
                        "solutions",
                        where=str(path),
                    )
                logprobs = {
                    reply.item: reply.logprob
                    for who, exchange in exchanges_of(round)
                    for reply in exchange.replies
                    if who == "draft"
                }
                for place, (item, check) in enumerate(zip(round.items, round.checks, strict=False)):
                    begun = isinstance(item, Mapping) and item.get("finished") is False
                    if check.verdict in ("pass", "reject") and not begun:
                        _add(
                            samples_of,
                            question,
                            _text(item, path),
                            check.verdict == "pass",
                            logprobs.get(place),
                        )
        if pipeline is not None and not pipelines:
            raise ConfigError(
                f"the run has no records of a pipeline {pipeline!r}", where=str(path), path="pipeline"
            )


def _add(
    samples_of: dict[str, list[_LabelledText]],
    question: str,
    text: str,
    correct: bool,
    logprob: float | None,
) -> None:
    """Put a solution to what was found, where it has a text; white space around texts is not read (`row_of`)."""
    if text.strip():
        samples_of.setdefault(question.strip(), []).append(_LabelledText(text.strip(), correct, logprob))


def _text(item: Any, path: Path) -> str:
    try:
        return answer_text(item)
    except ContractError as error:
        raise ConfigError(f"an item of the run is {error}", where=str(path)) from error
