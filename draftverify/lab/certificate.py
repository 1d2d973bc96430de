"""Certifying a threshold from one labelled run: the lowest at which what the pipeline answers keeps a promise.

Each threshold is replayed with the whole rule and policy, so that a task's answer is the pipeline's and not an item of
it. Thresholds are tried in a fixed order, from the strictest on: each answered task is right or wrong, one draw of a
binomial, and the chance that a threshold is certified which does not deserve it is delta at most.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib.metadata import version
from typing import Any, ClassVar, Literal

import msgspec
from msgspec.structs import replace

from draftverify.bench.artifact import ArtifactFile, PartIdentity
from draftverify.bench.config.parameters import threshold_of
from draftverify.engine.parts import Parts
from draftverify.errors import ConfigError
from draftverify.identity import arguments_of, identity_of
from draftverify.lab.lineage import digests_of, refuse_overlap
from draftverify.lab.recording import Recording, passed_scores
from draftverify.rejection import unasked
from draftverify.stats.intervals import binomial_cdf
from draftverify.traits import name_of
from draftverify.values import TaskRecord

CANDIDATES = 100
"""Thresholds that are tried at most, at equal steps of how many recorded scores lie above them."""

FIRST = 20
"""Tasks, a quarter of all at most, that the first threshold answers that is tested: what fewer say is mostly noise."""


class Promise(msgspec.Struct, frozen=True):
    """What is promised of a pipeline's answers, on other tasks like those of the run.

    Args:
        of: "precision": of the answered tasks at least `share` are right; "wrong": of all tasks at most `share` are
            answered wrongly.
        share: between 0 and 1.
        delta: the chance that it is broken, over runs like the one that it was certified from.
    """

    of: Literal["precision", "wrong"] = "precision"
    share: float = 0.9
    delta: float = 0.1

    def __post_init__(self) -> None:
        for name in ("share", "delta"):
            if not 0 < getattr(self, name) < 1:
                raise ConfigError(f"{name} is {getattr(self, name)}; it lies between 0 and 1", path=name)
        if not 0 < self.bound < 1:  # of floats
            raise ConfigError(f"share is {self.share}, too near to 0 or 1 to test", path="share")

    @property
    def bound(self) -> float:
        """The share of wrong ones that is not to be exceeded."""
        return 1.0 - self.share if self.of == "precision" else self.share

    def __str__(self) -> str:
        sure = f"(but for a chance of {self.delta:g})"
        if self.of == "precision":
            return f"at least {self.share:g} of the answers right {sure}"
        return f"at most {self.share:g} of all tasks answered wrongly {sure}"


class Trial(msgspec.Struct, frozen=True):
    """One threshold, as it was tried.

    Args:
        threshold: the lowest score that the rule accepts.
        answered: tasks that it answers; those of which the records cannot say it are among them.
        wrong: those of them that are wrong, or of which nobody can say that they are right.
        unknown: those of them of which the records cannot say what the pipeline had answered.
        p: of the test that the promise is broken there.
    """

    threshold: float
    answered: int
    wrong: int
    unknown: int
    p: float


class Certificate(
    ArtifactFile, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="draftverify.certificate"
):
    """The file of a certified threshold.

    Args:
        threshold: the lowest score to accept; None where none could be certified.
        promise: what holds from it on.
        why: in words.
        pipeline: its name in the run.
        run: the run's id.
        tasks: of the run.
        tried: the thresholds that were replayed, strictest first; no laxer one could be kept.
    """

    title: ClassVar[str] = "certificate"
    made_by: ClassVar[str] = "draftverify certify RUN"

    threshold: float | None
    promise: Promise
    why: str
    pipeline: str
    run: str
    tasks: int
    tried: tuple[Trial, ...]

    @property
    def advice(self) -> str:
        """The answers are to be those of the pipeline at hand."""
        return "Run the labelled tasks with it (--complete), and certify that run"

    @property
    def proved(self) -> float | None:
        """The threshold that its own figures prove."""
        counts = ((trial.answered, trial.wrong) for trial in self.tried)
        last, _ = last_kept(counts, self.promise, tasks=self.tasks)
        return None if last is None else self.tried[last].threshold


def fewest_tasks(promise: Promise, level: float | None = None) -> int:
    """How many tasks certify a promise where all are right, tested at a level (delta when None): n with
    (1 − bound)^n ≤ level."""
    return math.ceil(math.log(level or promise.delta) / math.log1p(-promise.bound))


def starts(promise: Promise, tasks: int) -> Mapping[int, float]:
    """From how many answers on which part of delta is spent.

    Of a precision one half is spent on the first threshold that says anything: that answers as many tasks as would
    certify it were all of them right, and `FIRST`. The other half is spent where half of the tasks are answered: a
    judge that is fooled by a few tasks gives them the highest scores, so the strictest thresholds may be the worst.
    """
    if promise.of == "wrong":
        return {0: promise.delta}
    first = max(fewest_tasks(promise, promise.delta / 2), min(FIRST, tasks // 4))
    if first >= tasks / 2:
        return {max(fewest_tasks(promise), min(FIRST, tasks // 4)): promise.delta}
    return {first: promise.delta / 2, math.ceil(tasks / 2): promise.delta / 2}


def last_kept(
    trials: Iterable[tuple[int, int]], promise: Promise, *, tasks: int
) -> tuple[int | None, list[float]]:
    """The last threshold of a fixed sequence that keeps a promise.

    Each is tested whether so few answers are wrong by chance where the promise is broken, by the exact binomial test.
    Its level is what the one before it was tested at, if that held, and what is spent there (`starts`). So the chance
    that any threshold is kept whose promise is broken is delta at most, whatever their number.

    Args:
        trials: tasks that are answered, and how many of them are wrong, by threshold, the strictest first: each answers
            the tasks that those before it answer, and may answer more. Asked for one by one, no further than they can
            be kept.
        promise: what is tested.
        tasks: of the run.

    Returns:
        The place of the last whose test held, None where none did; and the p-value of each that was asked for, 1 where
        it was not tested.

    References:
        Wiens, A fixed sequence Bonferroni procedure for testing multiple endpoints, Pharmaceutical Statistics 2 (2003);
        Angelopoulos et al., Learn then test, 2110.01052, for thresholds whose risk is controlled.
    """
    spent = starts(promise, tasks)
    level, before, last, values = 0.0, -1, None, []
    for place, (answered, wrong) in enumerate(trials):
        level += sum(part for start, part in spent.items() if before < start <= answered)
        before, p = max(before, answered), 1.0
        if level:
            p = binomial_cdf(wrong, answered if promise.of == "precision" else tasks, promise.bound)
            if p <= level:
                last = place
            else:
                level = 0.0
        values.append(p)
        if not level and answered >= max(spent):
            break
    return last, values


def certify(
    recording: Recording,
    promise: Promise,
    *,
    overlap: bool = False,
    watcher: Callable[[int, int], None] = lambda done, of: None,
) -> Certificate:
    """Certify the threshold of a recorded pipeline's rule.

    Args:
        recording: the pipeline's, of a run with labels whose items were all judged (`draftverify run --complete`).
            What the records cannot say counts as a wrong answer.
        promise: what is to hold.
        overlap: whether a part may have been learned from tasks of the run, which voids the promise.
        watcher: told how many thresholds were replayed, of how many.

    Raises:
        ConfigError: the run has no metric that says right or wrong, the rule has no threshold or takes steps, the
            verifier gave no scores, or a part was learned from tasks of the run or cannot be told from others.
    """
    if recording.metric is None:
        raise ConfigError(
            "the run has no metric that says what is right; add one, and run it again", path="metrics"
        )
    pipeline = recording.pipeline
    rule = name_of(pipeline.rule)
    if pipeline.learns:
        raise ConfigError(
            f"the block {name_of(pipeline.block)} learns while it runs, so later tasks are answered otherwise than "
            "earlier ones; give a number, or a fitted block",
            path="block",
        )
    if recording.remembers:
        raise ConfigError("the run has a memory, so later answers depend on earlier ones", path="memory")
    if pipeline.rule_traits.stepwise:
        raise ConfigError(
            f"the rule {rule} takes steps of answers, of which none is right or wrong", path="rule"
        )
    argument = threshold_of(type(pipeline.rule))
    if argument is None:
        raise ConfigError(f"the rule {rule} has no threshold to certify", path="rule")
    if not overlap:
        refuse_overlap(pipeline, recording.tasks.values())
    votes = threshold_of(type(pipeline.rule), ("vote share",)) is not None
    thresholds = _steps(_shares(recording, argument) if votes else passed_scores(recording.records))
    if not thresholds:
        lack = "no task came to a vote" if votes else "no item of the run passed with a score"
        raise ConfigError(f"{lack}, so there is no threshold to try", path="verifier")
    counts: list[Trial] = []

    def trials() -> Iterator[tuple[int, int]]:
        for place, threshold in enumerate(thresholds):
            watcher(place, len(thresholds))
            trial = _trial(recording, f"rule.{argument}", threshold)
            counts.append(trial)
            yield trial.answered, trial.wrong
        watcher(len(thresholds), len(thresholds))

    tasks = len(recording.records)
    last, values = last_kept(trials(), promise, tasks=tasks)
    tried = tuple(replace(trial, p=p) for trial, p in zip(counts, values, strict=True))
    return Certificate(
        threshold=None if last is None else tried[last].threshold,
        promise=promise,
        why=_why(tried, last, promise, tasks),
        metric=recording.metric,
        pipeline=recording.name,
        run=recording.run,
        parts=parts_of(pipeline),
        learned_from=digests_of(recording.tasks.values()),
        tasks=tasks,
        tried=tried,
        versions={"draftverify": version("draftverify")},
    )


def parts_of(pipeline: Parts) -> dict[str, PartIdentity]:
    """What a pipeline's answers depend on besides the rule's threshold, by role. Who is asked at the end, a person,
    answers for himself and is none of it.

    Raises:
        ConfigError: a part cannot be told from others of its kind.
    """
    arguments = pipeline.arguments
    threshold = threshold_of(type(pipeline.rule))
    rule = {name: value for name, value in arguments_of(pipeline.rule).items() if name != threshold}
    clauses = unasked(pipeline.policy.clauses)
    told = {name: value for name, value in arguments.items() if name not in ("seed", "name")} | {
        "rule": [type(pipeline.rule), rule],
        "policy": [{name: getattr(clause, name) for name in clause.__struct_fields__} for clause in clauses],
        "settings": dict(pipeline.settings),
    }
    return {role: PartIdentity(_shown(arguments[role]), identity_of(part)) for role, part in told.items()}


def _shown(part: Any) -> str:
    return "none" if part is None else name_of(part)


def _steps(values: Iterable[float]) -> list[float]:
    """The thresholds to try, highest first, at equal steps where they are many."""
    ordered = sorted(values, reverse=True)
    places = {round(step * (len(ordered) - 1) / CANDIDATES) for step in range(CANDIDATES + 1)}
    return sorted({ordered[place] for place in places if ordered}, reverse=True)


def _shares(recording: Recording, argument: str) -> Iterator[float]:
    """The shares of the vote that elected answers have where any share elects."""
    for record, _, _ in recording.answers([f"rule.{argument}=0"]):
        if record is not None and record.outcome.support is not None:
            yield record.outcome.support


def _trial(recording: Recording, path: str, threshold: float) -> Trial:
    answered = wrong = unknown = 0
    silent = []
    for record, solved, problem in recording.answers([f"{path}={threshold!r}"]):
        if record is None or _is_unknown(record):
            unknown += 1
        elif record.outcome.status == "accepted":
            answered += 1
            wrong += solved is None or solved < 0.5
            if problem:
                silent.append(problem)
    if silent and len(silent) == answered:
        raise ConfigError(f"the metric says nothing of any answer: {silent[0]}", path="metrics")
    return Trial(threshold, answered + unknown, wrong + unknown, unknown, 1.0)


def _is_unknown(record: TaskRecord) -> bool:
    """Whether nobody knows what the pipeline alone would have answered: a call failed, or a person is or was asked."""
    asked = any("person" in (round.source, round.by) for round in record.rounds)
    return asked or record.outcome.status in ("failed", "waiting")


def _why(tried: Sequence[Trial], last: int | None, promise: Promise, tasks: int) -> str:
    if last is not None:
        trial = tried[last]
        right = f"{trial.answered - trial.wrong} of {trial.answered} answers right"
        return f"{right}, {trial.answered / tasks:.0%} of {tasks} tasks answered" + _unknown(trial)
    few = fewest_tasks(promise)
    if tried[-1].answered < few and promise.of == "precision":
        return f"{tried[-1].answered} answers can certify nothing: all right, {few} are needed"
    closest = min((trial for trial in tried if trial.p < 1.0), key=lambda trial: trial.p, default=tried[-1])
    return f"{closest.wrong} of {closest.answered} answers are wrong where it comes closest" + _unknown(
        closest
    )


def _unknown(trial: Trial) -> str:
    if not trial.unknown:
        return ""
    return f"; of {trial.unknown} the records cannot say it, and they count as wrong (run --complete judges all items)"
