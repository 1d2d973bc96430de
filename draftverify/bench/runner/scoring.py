"""What a run's metrics say of its outcomes: asked once, after the tasks, here and in no worker, and written down.

What was written down is used again while the metric, its settings and what the task expects are the same; a metric
that is added to a finished run, or an expectation that is mended, is asked anew, and no task runs again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice

import msgspec
from msgspec.structs import replace

from draftverify.bench.config.specs import ComponentSpec, rests_on
from draftverify.bench.records.entries import ScoreKey
from draftverify.bench.records.store import Store
from draftverify.bench.runner.bench import Bench
from draftverify.bench.runner.build import Builder
from draftverify.bench.tables.summarise import Scores
from draftverify.checks.scores import Score, score
from draftverify.traits import Traits, traits_of
from draftverify.values import EMPTY, Task, TaskRecord

AT_ONCE = 16
"""Scores that are written down together; a run that is killed asks for at most so many again."""


def scores_of(
    metrics: Mapping[str, ComponentSpec],
    tasks: Sequence[Task],
    records: Mapping[str, Sequence[TaskRecord]],
    store: Store,
    builder: Builder,
    bench: Bench,
) -> Scores:
    """What each metric says of each committed outcome.

    Args:
        metrics: by name.
        tasks: with what they expect.
        records: by pipeline; of these tasks.
        store: where scores are kept.
        builder: makes the metrics.
        bench: opens them, and closes them at the run's end.
    """
    if not metrics:
        store.name_scores({})
        return {}
    stored = store.scores()
    of_task = {task.id: task for task in tasks}
    scores: dict[str, dict[tuple[str, str], Score]] = {}
    names: dict[ScoreKey, str] = {}
    for name, spec in metrics.items():
        metric_scores = scores[name] = {}
        metric_identity = metric_of(spec)
        keys = {task.id: score_key(metric_identity, task) for task in tasks}
        missing = []
        for pipeline, pipeline_records in records.items():
            for record in pipeline_records:
                key = (pipeline, record.task, record.attempt, keys[record.task])
                names[key] = f"{names[key]} {name}" if key in names else name
                if key in stored and not stored[key].problem:
                    metric_scores[pipeline, record.task] = stored[key]
                else:
                    missing.append((key, record))
        remaining = iter(missing)
        while some := list(islice(remaining, AT_ONCE)):
            metric = bench.opened(builder.part(spec))
            with ThreadPoolExecutor(min(max(traits_of(metric, Traits).remote, 1), AT_ONCE)) as pool:
                values = pool.map(lambda pair: score(metric, of_task[pair[0][1]], pair[1].outcome), some)  # noqa: B023
                new = {key: value for (key, _), value in zip(some, values, strict=True)}
            # One that failed is written down too, and asked again: what ailed it may be over.
            store.add_scores(new, name)
            metric_scores.update({key[:2]: replace(value, notes=EMPTY) for key, value in new.items()})
    store.name_scores(names)
    return scores


def metric_of(spec: ComponentSpec) -> bytes:
    """A metric's identity: the same while the metric, its settings, and the code behind all of its names are."""
    return msgspec.json.encode([spec, rests_on(spec)], order="deterministic")


def score_key(metric: bytes, task: Task) -> str:
    """The key of a score: the same while the metric and what the task expects are."""
    expected = msgspec.json.encode(dict(task.expected), order="deterministic", enc_hook=repr)
    return hashlib.sha256(metric + expected).hexdigest()
