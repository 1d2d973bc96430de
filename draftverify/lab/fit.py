"""Fitting what a verifier's scores mean, from a run with labels: what `draftverify fit scores` does.

Each item that the verifier judged counts, whatever the rule made of it; a metric says whether it is right, as if it had
been the task's answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from importlib.metadata import version
from typing import Any

import msgspec

from draftverify.bench.artifact import identify_parts
from draftverify.bench.runner.labelling import is_right
from draftverify.errors import ConfigError
from draftverify.lab.calibrated import Calibrated
from draftverify.lab.lineage import digests_of, refuse_overlap
from draftverify.lab.recording import Recording
from draftverify.lab.replay.stages import spoken_in
from draftverify.lab.scores import LabelledScore, ScoreArtifact, fit_scores
from draftverify.protocols import Metric, Verifier
from draftverify.traits import GeneratorTraits, name_of, traits_of
from draftverify.values import Check, Round, Task, TaskRecord


class Fitted(msgspec.Struct, frozen=True):
    """What the scores of a verifier mean.

    Args:
        artifact: what `write_artifact` writes for a `Calibrated`.
        unscored: judged items that taught nothing: they had no score, or the metric no say on them.
        unheard: tasks of which no item taught anything: they failed, or nothing was judged of them.
    """

    artifact: ScoreArtifact
    unscored: int
    unheard: int


def fit(recording: Recording, *, overlap: bool = False) -> Fitted:
    """Fit what the scores of a recorded pipeline's verifier mean; of a calibrated one those of the verifier within it.

    Args:
        recording: the pipeline's. Its metric says that an item is right: where it says ½ or more.
        overlap: whether a part may have been learned from tasks of the run.

    Raises:
        ConfigError: the run has no metric, no item of the pipeline is a whole answer, a part was learned from tasks of
            the run, or no task taught anything.
        ContractError: the metric failed: what it would have said is unknown.
    """
    if recording.metric is None:
        raise ConfigError("there are no metrics, and nothing else says which items are right", path="metrics")
    pipeline = recording.pipeline
    shape = traits_of(pipeline.generator, GeneratorTraits).shape
    if shape not in (None, "alternatives") or pipeline.rule_traits.stepwise:
        raise ConfigError(
            f"the rule {name_of(pipeline.rule)} makes an answer of many items, of which none is a whole one: a metric "
            "cannot label them",
            path="rule",
        )
    if not overlap:
        refuse_overlap(pipeline, recording.tasks.values())
    judge = pipeline.verifier.verifier if isinstance(pipeline.verifier, Calibrated) else pipeline.verifier
    return fit_verifier(
        judge, recording.records, recording.tasks, recording.open_metric(), metric_name=recording.metric
    )


def fit_verifier(
    verifier: Verifier,
    records: Iterable[TaskRecord],
    tasks: Mapping[str, Task],
    metric: Metric,
    *,
    metric_name: str = "metric",
) -> Fitted:
    """Fit what a verifier's scores mean, on the items that it judged.

    Args:
        verifier: that of the records, or the one within a `Calibrated` of them.
        records: of labelled tasks.
        tasks: by id, with what they expect.
        metric: opened; an item is right where it says ½ or more.
        metric_name: what the file calls it.

    Raises:
        ConfigError: none taught anything, or all were of one task.
        ContractError: the metric failed.
    """
    items: list[LabelledScore] = []
    unscored = unheard = 0
    # In the order of their ids: which tasks are left out together must not depend on which ended first.
    for record in sorted(records, key=lambda record: record.task):
        task, before = tasks[record.task], len(items)
        for item, check in _judged(record):
            right = None
            if check.score is not None and check.verdict in ("pass", "reject", "abstain"):
                right = is_right(metric, task, item, check)
            if right is None or check.score is None:
                unscored += 1
            else:
                items.append(LabelledScore(task.id, check.score, right))
        unheard += len(items) == before
    artifact = ScoreArtifact(
        fit=fit_scores(items),
        parts=identify_parts(verifier=verifier),
        learned_from=digests_of(tasks[name] for name in dict.fromkeys(item.task for item in items)),
        metric=metric_name,
        versions={"draftverify": version("draftverify")},
    )
    return Fitted(artifact, unscored, unheard)


def _judged(record: TaskRecord) -> Iterator[tuple[Any, Check]]:
    """The items that the verifier looked at, each with its check."""
    for round in record.rounds:
        if round.by == "verifier":
            for item, check in zip(round.items, _own_checks(round), strict=False):
                if check.verdict != "unchecked":
                    yield item, check


def _own_checks(round: Round) -> Iterable[Check]:
    """The checks as the verifier gave them, also where a calibrated one made probabilities of their scores."""
    stages = list((spoken_in(round) or {}).values())
    words = stages[0].words if len(stages) == 1 else {}
    return [words.get(place, check) for place, check in enumerate(round.checks)]
