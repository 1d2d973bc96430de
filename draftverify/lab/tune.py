"""Tuning from the log: which rule, threshold, block, policy and order of stages would have solved tasks at least cost.

Every candidate is replayed on one half of the tasks. What the log does not know of it counts against it: as accepted
and wrong, at the cost of the dearest task. Without a bound one that solves less than what ran is not chosen; with one
on the metric or on precision, one whose interval goes below it. The best is then asked about on the other half, which
had no part in what was tried or chosen, and what is reported is of that.
"""

from __future__ import annotations

import copy
import itertools
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np

from draftverify.bench.config.located import read
from draftverify.bench.config.parameters import parameters
from draftverify.bench.config.specs import PipelineSpec
from draftverify.checks.combined import Combined
from draftverify.errors import ConfigError, did_you_mean
from draftverify.lab.recording import Recording, WhatIf, passed_scores
from draftverify.lab.replay.question import CHANGES
from draftverify.randomness import stream_key
from draftverify.traits import GeneratorTraits, traits_of
from draftverify.values import EMPTY, Shape

MOST = 2_000
"""Candidates; a space of more is refused."""

THRESHOLDS = 8
"""Of a default space: quantiles of the recorded scores."""


class Refused(msgspec.Struct, frozen=True):
    """A candidate that can be no pipeline, or that no record can answer for, and why."""

    changes: tuple[str, ...]
    why: str


class Tuned(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a search.

    Args:
        pipeline: of which.
        changes: of the best candidate; () where nothing was better than what ran.
        settings: the same as values, by path.
        proposal: the same as the pipeline's config has it, nested; a list is whole.
        at_least: the bounds that it was to keep.
        candidates: how many were compared, with what ran.
        gapped: of how many of them the log does not know every task.
        refused: those that were not compared.
        chosen: the best one on the tasks that chose it.
        held_out: the same on the others.
        against: why it is not better than what ran (see `doubt`); "" where it is.
    """

    pipeline: str
    changes: tuple[str, ...]
    settings: Mapping[str, Any]
    proposal: Mapping[str, Any]
    at_least: Mapping[str, float]
    candidates: int
    gapped: int
    refused: tuple[Refused, ...]
    chosen: WhatIf
    held_out: WhatIf
    against: str

    @property
    def better(self) -> bool:
        """Whether it is better than what ran, as far as the held-out tasks can say."""
        return not self.against


def tune(
    recording: Recording,
    space: Mapping[str, Sequence[Any]] | None = None,
    *,
    at_least: Mapping[str, float] = EMPTY,
) -> Tuned:
    """Search a space, and measure what was found on tasks that did not choose it.

    Args:
        recording: the pipeline's.
        space: for each path ("rule.threshold", "block", …) its values; `default_space` when None.
        at_least: the share of tasks that the metric of this name is to call right, or of accepted ones (`precision`).
            A proposal whose share on new tasks is lower is confirmed with a chance of 2.5 % at most.

    Raises:
        ConfigError: the space is empty, too large, or has a path that no replay can set, or that is not tuned
            without a metric; a bound is of something else; there are too few tasks.
    """
    _check_bounds(recording, at_least)
    choosing, held_out_tasks = _split(recording)
    space = default_space(recording, choosing) if space is None else space
    if not space:
        raise ConfigError("there is nothing to try; give the space a path and its values")
    _check_space(recording, space)
    base = recording.what_if((), choosing)
    choice = _choose(recording, space, base, choosing, at_least)
    held_out = recording.what_if(choice.best.changes, held_out_tasks)
    if not choice.settings:
        against = _broken(base, at_least) or _NOTHING
    else:
        against = doubt(held_out, at_least, dearer=bool(_broken(base, at_least)))
    return Tuned(
        pipeline=recording.name,
        changes=choice.best.changes,
        settings=choice.settings,
        proposal=nested(choice.settings, recording.written),
        at_least=dict(at_least),
        candidates=choice.compared,
        gapped=choice.gapped,
        refused=tuple(choice.refused),
        chosen=choice.best,
        held_out=held_out,
        against=against,
    )


class _TunedChoice(NamedTuple):
    best: WhatIf
    settings: dict[str, Any]
    compared: int
    gapped: int
    refused: list[Refused]


def _choose(
    recording: Recording,
    space: Mapping[str, Sequence[Any]],
    base: WhatIf,
    choosing: frozenset[str],
    at_least: Mapping[str, float],
) -> _TunedChoice:
    """The candidate whose solved task costs least, of those that keep the bounds, or else solve no less than `base`;
    `base` itself where there is none."""
    best, settings, is_kept = base, {}, not _broken(base, at_least)
    refused: list[Refused] = []
    compared, gapped = 1, 0
    for candidate in _candidates(space, recording.written):
        changes = tuple(f"{path}={json.dumps(value)}" for path, value in candidate.items())
        try:
            replayed = recording.what_if(changes, choosing)
        except ConfigError as error:
            refused.append(Refused(changes, error.message))
            continue
        compared += 1
        gapped += bool(replayed.gaps)
        keeps = not _broken(replayed, at_least)
        if not at_least:
            keeps = replayed.at_worst.solved.value >= base.whole.solved.value
        if keeps and (not is_kept or _cost(replayed) < _cost(best)):
            best, settings, is_kept = replayed, candidate, True
    return _TunedChoice(best, settings, compared, gapped, refused)


def _check_space(recording: Recording, space: Mapping[str, Sequence[Any]]) -> None:
    """Raises: ConfigError: as `tune`."""
    for path in space:
        _check_path(path)
        if recording.metric is None and path.partition(".")[0] in _GRADES:
            raise ConfigError(
                f"{path!r} cannot be tuned for a run without a metric: it says itself what counts as solved, and the "
                "least demanding would always win; give the run a metric",
                path=path,
            )
    size = math.prod(len(values) for values in space.values())
    if size > MOST:
        raise ConfigError(f"the space has {size} candidates, at most {MOST} are tried; give fewer values")


def _check_bounds(recording: Recording, at_least: Mapping[str, float]) -> None:
    """Raises: ConfigError: as `tune`."""
    metric = recording.metric
    for name, bound in at_least.items():
        if metric is None or name not in (metric, "precision") or not 0 < bound <= 1:
            there = "the run has no metric" if metric is None else f"{metric} or precision has one, up to 1"
            raise ConfigError(f"there is no bound {name}={bound:g} to keep: {there}", path="at_least")


def nested(settings: Mapping[str, Any], written: Mapping[str, Any]) -> dict[str, Any]:
    """Settings by path as a config has them, set one after the other as `--set` does."""
    config: dict[str, Any] = {}
    for path, value in settings.items():
        *outer, leaf = path.split(".")
        into: Any = config
        stands: Any = written
        for step in outer:
            key: Any = int(step) if isinstance(into, list) else step
            stands = stands.get(step) if isinstance(stands, Mapping) else None
            if isinstance(into, dict) and key not in into:
                into[key] = copy.deepcopy(stands) if isinstance(stands, list) else {}
            into = into[key]
        into[int(leaf) if isinstance(into, list) else leaf] = copy.deepcopy(value)
    return config


_GRADES = ("rule", "verifier", "done")
"""What decides which tasks end as accepted: without a metric it would grade itself."""

_NOTHING = "on the tasks that choose, nothing that solves as much costs less"


def doubt(held_out: WhatIf, at_least: Mapping[str, float] = EMPTY, *, dearer: bool = False) -> str:
    """Why a candidate is not better than what ran, as far as the held-out tasks can say; "" where it is.

    It is where no less of them is solved, or every bound is kept by the whole interval, and the whole interval of the
    gain is above 1. What the log does not know counts against it; with it no gain is shown.

    Args:
        held_out: the candidate, on the held-out tasks.
        at_least: the bounds.
        dearer: whether it may cost more than what ran, which did not keep them.
    """
    if broken := _broken(held_out, at_least):
        return broken
    lacking = held_out.whole.tasks - held_out.would.tasks
    if not at_least and held_out.at_worst.solved.value < held_out.whole.solved.value:
        without = f" where the {lacking} of which nothing is known are not" if lacking else ""
        return f"it solves less of the held-out tasks{without}"
    if dearer:
        return ""
    if lacking:
        return f"what {lacking} held-out tasks would have cost is not known"
    return "" if held_out.gain.low > 1.0 else "the interval of the gain holds 1"


def _broken(replayed: WhatIf, at_least: Mapping[str, float]) -> str:
    """The first bound that is not shown to be kept, in words; "" where all are."""
    for name, bound in at_least.items():
        worst, best = (
            side.precision if name == "precision" else side.solved
            for side in (replayed.at_worst, replayed.at_best)
        )
        if not worst.low >= bound:
            value = (
                f"{worst.value:.3g}"
                if worst.value == best.value
                else f"{worst.value:.3g} to {best.value:.3g}"
            )
            return f"{name} is {value} [{worst.low:.3g}, {best.high:.3g}], which does not show {bound:g}"
    return ""


def read_space(file: str | Path) -> dict[str, list[Any]]:
    """A space from a YAML file: a list of values for each path.

    Raises:
        ConfigError: it is something else, with the line.
    """
    try:
        root, errors = read(Path(file).read_bytes(), str(file))
    except OSError as error:
        raise ConfigError(f"the space cannot be read: {error.strerror or error}", where=str(file)) from error
    if errors:
        raise errors[0]
    if not isinstance(root.value, dict) or not root.value:
        raise ConfigError("a space is a mapping from paths to lists of values", where=root.where)
    space = {}
    for path, values in root.value.items():
        _check_path(path, values.where)
        if not isinstance(values.value, list) or not values.value:
            raise ConfigError("should be a list of values", where=values.where, path=path)
        space[path] = values.plain()
    return space


def default_space(recording: Recording, tasks: frozenset[str] | None = None) -> dict[str, list[Any]]:
    """The space that is searched when none is given: shorter blocks, less of the policy, thresholds at quantiles of
    the recorded scores, of alternatives the first or the best, and the orders of a verifier's stages under which the
    same counts. Without a metric blocks and policies alone.

    Args:
        recording: the pipeline's.
        tasks: the ids of those whose scores give the thresholds; None: all.
    """
    spec = recording.spec
    space: dict[str, list[Any]] = {}
    if isinstance(spec.block, int) and spec.block > 1:
        halves = [spec.block >> k for k in range(spec.block.bit_length())]
        space["block"] = [n for n in halves if n > 0]
    policy = recording.written.get("on_rejection") or []
    if policy:
        space["on_rejection"] = [policy[:k] for k in range(len(policy), -1, -1)]
    if recording.metric is None:
        return space
    recorded = (record for record in recording.records if tasks is None or record.task in tasks)
    scores = sorted(set(passed_scores(recorded)))
    thresholds: list[Any] = []
    if scores:
        quantiles = np.quantile(scores, np.linspace(0, 1, THRESHOLDS + 1)[:-1], method="inverted_cdf")
        thresholds = sorted({float(quantile) for quantile in quantiles})
    shape = traits_of(recording.pipeline.generator, GeneratorTraits).shape
    space["rule"] = list(_rules(spec, shape, recording.written.get("rule", {}), thresholds))
    stages = recording.written["verifier"].get("stages")
    verifier = recording.pipeline.verifier
    if isinstance(stages, list) and isinstance(verifier, Combined):
        places_left = MOST // math.prod(len(values) for values in space.values())
        orders = list(itertools.islice(verifier.orders(), MOST + 1))
        if len(orders) > places_left:
            orders = [order for order in orders if _moves_one(order, len(stages))]
        if 1 < len(orders) <= places_left:
            space["verifier.stages"] = [[stages[place] for place in order] for order in orders]
    return space


def _moves_one(order: Sequence[int], stages: int) -> bool:
    """Whether an order leaves one stage out, or has one elsewhere than it was."""
    if len(order) < stages:
        return len(order) == stages - 1 and list(order) == sorted(order)
    without_one = ([*order[:place], *order[place + 1 :]] for place in range(stages))
    return any(stages_left == sorted(stages_left) for stages_left in without_one if stages_left)


def _rules(
    spec: PipelineSpec, shape: Shape | None, written: Mapping[str, Any], thresholds: Sequence[float]
) -> Iterator[Any]:
    yield dict(written)
    names = [spec.rule.use]
    if shape in (None, "alternatives") and spec.rule.use in ("first", "best"):
        names = ["first", "best"]
    for name in names:
        is_own = name == spec.rule.use
        takes = is_own and "threshold" in parameters(spec.rule.target)
        base = dict(written) if is_own else {"use": name}
        if not is_own:
            yield base
        for threshold in thresholds if takes or not is_own else ():
            yield {**base, "threshold": threshold}


def _candidates(space: Mapping[str, Sequence[Any]], written: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The settings in which each candidate differs from what ran."""
    for values in itertools.product(*space.values()):
        pairs = zip(space, values, strict=True)
        settings = {path: value for path, value in pairs if _stands(written, path) != value}
        if settings:
            yield settings


def _stands(written: Any, path: str) -> Any:
    """What a pipeline's config has at a path; None for nothing."""
    for step in path.split("."):
        if isinstance(written, list):
            written = written[int(step)] if step.isdecimal() and int(step) < len(written) else None
        else:
            written = written.get(step) if isinstance(written, Mapping) else None
    return written


def _check_path(path: str, where: str = "") -> None:
    field = path.partition(".")[0]
    if field not in CHANGES:
        raise ConfigError(
            f"{path!r} cannot be tuned from records{did_you_mean(field, CHANGES)}; {', '.join(CHANGES)} can",
            where=where,
            path=path,
        )


def _split(recording: Recording) -> tuple[frozenset[str], frozenset[str]]:
    """The ids of the tasks that choose, and of those that are held out: of each group one half, drawn by their ids."""
    groups: dict[str, list[str]] = {}
    for task, group in recording.groups.items():
        groups.setdefault(group, []).append(task)
    choosing: set[str] = set()
    owed = 0.0
    for tasks in groups.values():
        drawn = sorted(tasks, key=lambda task: stream_key(0, task, 0, "tune"))
        owed += 0.5 * len(tasks)
        take = min(round(owed), len(tasks))
        owed -= take
        choosing.update(drawn[:take])
    held = frozenset(recording.groups) - choosing
    if not choosing or not held:
        raise ConfigError(
            f"{len(recording.groups)} recorded tasks cannot be split into some that choose and some that are held out"
        )
    return frozenset(choosing), held


def _cost(replayed: WhatIf) -> float:
    value = replayed.at_worst.cost.value
    return value if math.isfinite(value) else math.inf
