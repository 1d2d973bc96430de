"""Twenty splits of one measurement: predicted from the one part, written down, then held against the other.

Every candidate runs once over all tasks, as a fit runs them over a part. A split then sees the records of its
fitting part alone, chooses and predicts by what `draftverify fit block` calls, and writes its file; only then are
the records of the other part looked at.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from draftverify.bench import run
from draftverify.bench.artifact import OperatingPointFile, read_artifact, write_artifact
from draftverify.bench.config.specs import Experiment
from draftverify.bench.runner.build import Builder
from draftverify.bench.runner.labelling import solved_by
from draftverify.bench.runner.work import Watcher
from draftverify.bench.runner.workload import workload
from draftverify.lab.candidates import BlockCandidate, experiment_of, families, identities_of
from draftverify.lab.choosing import choice_of, read_scored
from draftverify.lab.operating_point import split
from draftverify.stats import Estimate, solved_ratio
from draftverify.stats.solved import Scored
from draftverify.values import Task

UNSEEN, SPLITS = 0.5, 20


class Measured:
    """All candidates of an experiment with one pipeline beside its baseline, run over all tasks.

    Args:
        experiment: of two pipelines, the baseline and the one to fit.
        out: the run's directory; a run that was stopped goes on there.
        at_most: the largest block.
        accept_changed, watcher: as for a run.
    """

    def __init__(
        self,
        experiment: Experiment,
        out: Path,
        at_most: int,
        accept_changed: bool = False,
        watcher: Watcher | None = None,
    ) -> None:
        self.experiment = experiment
        tasks: Sequence[Task] = workload(replace(experiment, predict=None), Builder()).measured
        (self.family,) = families(experiment, (), at_most, Builder())
        self.identities = identities_of(self.family.candidates, experiment.executor)
        whole = experiment_of(experiment, self.family.candidates, tasks)
        run(whole, out=out, accept_changed=accept_changed, watcher=watcher)
        self.metric = solved_by(experiment)
        self._found = read_scored(whole, out, self.metric)
        ended = set.intersection(
            *({record.task for record, _ in each} for each in self._found.records.values())
        )
        self.tasks = [task for task in tasks if task.id in ended]

    def of(self, tasks: Collection[Task]) -> Mapping[str, Scored]:
        """Each candidate's records of these tasks."""
        return self._found.of_tasks(tasks).records

    def predicted(self, seed: int) -> tuple[OperatingPointFile, BlockCandidate, Sequence[Task]]:
        """What a split chooses and predicts; and the tasks that it has not seen."""
        first, rest = split(self.tasks, UNSEEN, seed)
        known = self._found._replace(records=self.of(first))
        made = choice_of(self.experiment, self.family, known, self.identities, first, rest, self.metric)
        return *made, rest


def held(measured: Measured, folder: Path, splits: int = SPLITS) -> list[dict[str, Any]]:
    """Each split's prediction, read back from where it was written, and what the other part says.

    Args:
        measured: the runs.
        folder: where the predictions go.
        splits: how many.
    """
    rows = []
    for seed in range(splits):
        artifact, tested, rest = measured.predicted(seed)
        path = folder / f"split-{seed}.json"
        write_artifact(path, artifact)
        seen = measured.of(rest)
        gain = solved_ratio(seen[tested.name], seen[tested.base])
        rows.append(row_of(read_artifact(path, OperatingPointFile), gain))
    return rows


def row_of(artifact: OperatingPointFile, gain: Estimate) -> dict[str, Any]:
    """One split as plain data."""
    predicted, value = artifact.predicted, artifact.predicted.value
    return {
        "block": artifact.block,
        "tested": artifact.tested,
        "drafts": artifact.drafts,
        "why": artifact.why,
        "tasks": [len(artifact.learned_from), artifact.unseen.tasks],
        "acceptance": msgspec.to_builtins(artifact.acceptance),
        "cost_ratio": artifact.cost_ratio,
        "parallel": msgspec.to_builtins(artifact.parallel),
        "predicted": msgspec.to_builtins(predicted),
        "measured": {"value": gain.value, "low": gain.low, "high": gain.high},
        "holds": predicted.holds(gain.value),
        "error": math.inf if value is None else abs(value / gain.value - 1.0),
    }


def summed(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What the splits say together."""
    blocks = [row["block"] for row in rows]
    return {
        "splits": len(rows),
        "held": sum(row["holds"] for row in rows),
        "median_error": statistics.median(row["error"] for row in rows),
        "largest_error": max(row["error"] for row in rows),
        "blocks": {str(block): blocks.count(block) for block in sorted(set(blocks))},
        "do_not_draft": sum(not row["drafts"] for row in rows),
    }
