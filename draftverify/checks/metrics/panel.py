"""Panels of metrics: `most_of`, whose members vote as those of the verifier `most_of`, and `mean_of`, of grades.

A member that fails has said nothing: it is no vote, and there is no mean without it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from statistics import fmean
from typing import Annotated

import msgspec

from draftverify.checks.members import Members
from draftverify.checks.scores import Score, check_metric, measure_of, score
from draftverify.checks.stages import MostWay, StagePass, numbered, votes_needed
from draftverify.errors import ConfigError, below
from draftverify.protocols import Metric
from draftverify.traits import Traits, name_of, traits_of
from draftverify.values import PASS, REJECT, Check, Heard, Outcome, Proposal, Task


class MetricPanel(Members[Metric]):
    """What panels of metrics have in common.

    Args:
        stages: the members, from cheap to dear.

    Raises:
        ConfigError: there is none.
    """

    def __init__(self, stages: Sequence[Annotated[Metric, "metric"]]) -> None:
        super().__init__(tuple(stages))
        if not self.stages:
            raise ConfigError("there are no stages; one metric is needed at least", path="stages")

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of the members, in order."""
        return numbered(map(name_of, self.stages))

    @cached_property
    def traits(self) -> Traits:
        """What the members are together."""
        members = [traits_of(stage, Traits) for stage in self.stages]
        return Traits(
            concurrent=all(member.concurrent for member in members),
            deterministic=all(member.deterministic for member in members),
            remote=max(member.remote for member in members),
        )

    def check_tasks(self, tasks: Sequence[Task]) -> None:
        """Refuse tasks that a member cannot judge, before any of them is paid for.

        Raises:
            ConfigError: the path says which member; or one measures, and says nothing of right and wrong.
        """
        for place, stage in enumerate(self.stages):
            with below(f"stages.{place}"):
                check_metric(stage, tasks)
                if measure_of(stage) is not None:
                    raise ConfigError("it has a unit; the members of a panel say how right an outcome is")


class MetricVote(MetricPanel):
    """Says 1 where so many of the metrics do, and 0 where too few are left that might: a panel that votes.

    A member is asked only while its vote can decide. Too few votes, since members failed, are a failure; since they
    had no say, no say.

    Args:
        stages: the metrics, from cheap to dear, each of which says 1 or 0 of an outcome.
        at_least: how many must say 1; more than half of them when absent.

    Raises:
        ConfigError: there is no metric, or `at_least` is no number of them.
    """

    def __init__(self, stages: Sequence[Annotated[Metric, "metric"]], at_least: int | None = None) -> None:
        super().__init__(stages)
        self.at_least = at_least
        votes_needed(at_least, len(self.stages))

    def __call__(self, task: Task, outcome: Outcome) -> Score:
        """The vote, with what each member noted."""
        needed = votes_needed(self.at_least, len(self.stages))
        way = MostWay(Proposal.alternatives((outcome.value,)), needed, len(self.stages))
        scores: dict[str, Score] = {}
        for name, stage in zip(self.names, self.stages, strict=True):
            if way.open:
                scores[name] = score(stage, task, outcome)
                way.take(StagePass(name, (0,), (_vote(name, scores[name]),), 0.0, None))
        (check,) = way.checks
        value = {"pass": 1.0, "reject": 0.0}.get(check.verdict)
        return _judged(scores, value, check.feedback if check.verdict == "error" else "")


class MetricMean(MetricPanel):
    """The mean of what the metrics say: a panel of graders.

    Without a word of each there is none: one that fails fails the panel, and where one has no say it has none.

    Args:
        stages: the metrics.

    Raises:
        ConfigError: there is no metric.
    """

    def __call__(self, task: Task, outcome: Outcome) -> Score:
        """The mean, with what each member noted."""
        named = zip(self.names, self.stages, strict=True)
        scores = {name: score(stage, task, outcome) for name, stage in named}
        values = [member.value for member in scores.values() if member.value is not None]
        value = fmean(values) if len(values) == len(scores) else None
        problems = [f"{name}: {member.problem}" for name, member in scores.items() if member.problem]
        return _judged(scores, value, "; ".join(problems))


def _vote(name: str, score: Score) -> Check:
    if score.problem:
        return Check("error", feedback=f"{name}: {score.problem}")
    if score.value is None:
        return Check("abstain")
    if score.value in (0.0, 1.0):
        return PASS if score.value else REJECT
    return Check(
        "error", feedback=f"{name}: {score.value:g} is no vote, which is 0 or 1; `mean_of` takes grades"
    )


def _judged(scores: Mapping[str, Score], value: float | None, problem: str) -> Score:
    heard = [
        msgspec.to_builtins(Heard(stage=name, items=(0,), checks=(None,), notes=dict(member.notes)))
        for name, member in scores.items()
        if member.notes
    ]
    cost = sum(member.cost for member in scores.values())
    return Score(value, problem, cost, {"heard": heard} if heard else {})
