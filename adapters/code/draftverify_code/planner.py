"""The stage planner: which stages pay here, and in what order, found by running all of them on the first programs.

`measure`, `plan_stages` and `arranged` do it step by step, for a report;
`Planned` is a Verifier that does it while it works. What is measured: every stage's word on every program, whatever the
others said, and the times of passes, over whole blocks and over halves (`fit_pass_cost`). The trusted stages are timed
apart on the programs that every filter passes and on the others, since a program that does not parse fails its tests
sooner than one that does.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from logging import getLogger
from threading import Lock
from typing import Any

import msgspec
import numpy as np

from draftverify import ConfigError, Context, Proposal, Task, Verification, Verifier
from draftverify.calibration import RateMonitor
from draftverify.verifiers import StagePass, Way, names_of, stage_pass, walk
from draftverify_code.stage_costs import fit_pass_cost
from draftverify_code.stage_plan import MOST_FILTERS, StagePlan, StageTable, plan_stages
from draftverify_code.stages.staged import Stages, StagesWay, check_stages

__all__ = ["Planned", "arranged", "measure"]

TIMED_AGAIN = 8
"""Blocks that are also timed in halves, for the fixed cost of a pass."""
LEAST_BLOCKS = 4
"""Blocks that a plan is made from at least, however many programs they have."""
PATIENCE = 4
"""How many times its calibration a planner waits for a first accepted program."""

_log = getLogger(__name__)


def measure(
    stages: Sequence[Verifier],
    work: Sequence[tuple[Task, Sequence[Any]]],
    *,
    trusted: int = 1,
    block: int | None = None,
    seed: int = 0,
) -> StageTable:
    """Run every stage on every program and time the passes.

    Args:
        stages: opened, in the order in which they are written.
        work: tasks and the programs drafted for each.
        trusted: how many of the last stages are what counts.
        block: programs in a pass; all of a task's when None.
        seed: of the order in which the blocks are run, so that a machine that slows down does not slow some tasks
            alone.

    Returns:
        The table. Programs with an error of any stage are left out: nothing is known of them.

    Raises:
        ConfigError: there is no program, or of each some stage's check failed.
    """
    from draftverify.testing import make_context  # needed for measuring alone

    check_stages(stages, trusted)
    whole = Stages(list(stages), trusted)
    blocks = [
        (make_context(task, role="verify", seed=seed), proposal)
        for task, programs in ((whole.prepare(task), programs) for task, programs in work)
        for proposal in _blocks(programs, block)
    ]
    found: dict[int, _Block] = {}
    for count, place in enumerate(np.random.default_rng(seed).permutation(len(blocks)).tolist()):
        found[place] = _probe(stages, trusted, *blocks[place], warm=count > 0, again=count < TIMED_AGAIN)
    return _table(stages, trusted, [found[place] for place in range(len(blocks))])


def arranged(stages: Sequence[Verifier], plan: StagePlan) -> Stages:
    """The stages that a plan keeps, in its order."""
    by_name = dict(zip(names_of(stages), stages, strict=True))
    trusted = sum(row.place == "trusted" for row in plan.rows)
    return Stages([by_name[name] for name in plan.order], trusted)


class Planned(Stages):
    """Stages that find their own order: the first programs are seen by every stage, later ones by those that pay.

    While it calibrates, an item's check is the one that `Stages` would give (items beyond `context.enough` are checked
    all the same). Then it runs the plan: a dropped filter is not run, so an item that it alone would have refused is
    judged by the trusted stages. It watches how much every stage of the plan passes in the first round of each task
    (later rounds are of hard tasks, which is no drift), and calibrates again when that has changed.

    Times decide, so it is not deterministic; what the trusted stages say is never planned away. `notes` of its
    verifications: those of `Stages`, "dropped", and "plan", the number of the plan (0 while it calibrates).

    Args:
        stages: from cheap to dear, the trusted last.
        calibrate: how many programs to calibrate on, in at least four blocks; a calibration that accepts none goes on
            up to four times as long.
        trusted: how many of the last stages are what counts; they are not dropped or moved.
        draft: seconds that it takes to draft one program: what a program wrongly refused by a filter costs.
        level: the probability of calibrating again, per plan, when nothing has changed, at most.
    """

    deterministic = False  # type: ignore[assignment]

    def __init__(
        self,
        stages: list[Verifier],
        calibrate: int = 64,
        trusted: int = 1,
        draft: float = 0.0,
        level: float = 0.05,
    ) -> None:
        super().__init__(stages, trusted)
        if len(stages) - trusted > MOST_FILTERS:
            raise ConfigError(
                f"{len(stages) - trusted} stages are left to order; at most {MOST_FILTERS} can be"
            )
        if calibrate < 1:
            raise ConfigError(f"a planner calibrates on one program or more, not {calibrate}")
        self.calibrate = calibrate
        self.draft = draft
        self.level = level
        self.plans = 0
        """How many plans were made so far."""
        self._lock = Lock()
        self._blocks: list[_Block] = []
        self._active: _Active | None = None

    @property
    def plan(self) -> StagePlan | None:
        """The plan in force, whose text is its table; None while it calibrates."""
        active = self._active
        return None if active is None else active.plan

    @property
    def recalled(self) -> Any:
        """There is none: it finds its own order, and `Stages` can be asked for any.

        Raises:
            AttributeError: always.
        """
        raise AttributeError("recalled")

    @property
    def verify_many(self) -> Any:
        """There is none: a pass over many tasks' blocks would be timed as one.

        Raises:
            AttributeError: always.
        """
        raise AttributeError("verify_many")

    def verify(self, context: Context, proposal: Proposal) -> Verification:
        """One block, through all stages or through those of the plan."""
        with self._lock:
            active, seen = self._active, len(self._blocks)
        if not len(proposal):
            return Verification(deterministic=False)
        names = names_of(self.stages)
        if active is None:
            block = _probe(
                self.stages, self.trusted, context, proposal, warm=seen > 0, again=seen < TIMED_AGAIN
            )
            self._learn(block)
            found = block.way.verification(names, self.provides, dropped=[], plan=0)
        else:
            order = active.plan.order
            by_name = dict(zip(names, self.stages, strict=True))
            way = StagesWay(proposal, context.enough, order[-self.trusted :])
            walk(order, [by_name[name] for name in order], [way], [context])
            if not context.round:
                self._watch(active, way)
            found = way.verification(
                order, self.provides, dropped=list(active.plan.dropped), plan=active.number
            )
        return msgspec.structs.replace(found, deterministic=False)

    def _learn(self, block: _Block) -> None:
        with self._lock:
            if self._active is not None:
                return
            self._blocks.append(block)
            known = sum(int(one.known.sum()) for one in self._blocks)
            accepted = any((one.known & one.goes_on.all(axis=1)).any() for one in self._blocks)
            due = known >= self.calibrate and len(self._blocks) >= LEAST_BLOCKS
            if not due or not (accepted or known >= PATIENCE * self.calibrate):
                return
            names = names_of(self.stages)
            table = _table(self.stages, self.trusted, self._blocks)
            plan = plan_stages(table, enough=block.enough, draft=self.draft)
            order = [names.index(name) for name in plan.order]
            shares: list[list[float]] = [[] for _ in order]
            for one in self._blocks:
                if one.first:
                    for own, share in zip(shares, one.shares(order), strict=True):
                        own += share
            monitors = {
                name: RateMonitor(own, level=self.level / len(order))
                for name, own in zip(plan.order, shares, strict=True)
                if own
            }
            self.plans += 1
            self._blocks.clear()
            self._active = _Active(plan, self.plans, monitors)
            _log.info("plan %d of the stages:\n%s", self.plans, plan)

    def _watch(self, active: _Active, way: Way) -> None:
        with self._lock:
            if self._active is not active:
                return
            for found in way.passes:
                last = found.stage == active.plan.order[-1]
                checks = [way.checks[index] for index in found.indices] if last else found.checks
                judged = [check.verdict for check in checks if check.verdict not in _UNKNOWN]
                monitor = active.monitors.get(found.stage)
                if not judged or monitor is None:
                    continue
                if monitor.observe(sum(_goes_on(verdict, last) for verdict in judged) / len(judged)):
                    rate = monitor.total / monitor.count
                    _log.info(
                        "%s has passed %.3f since plan %d: planning again", found.stage, rate, active.number
                    )
                    self._active = None


class _Active(msgspec.Struct, frozen=True, eq=False):
    """A plan at work, and what watches over it."""

    plan: StagePlan
    number: int
    monitors: dict[str, RateMonitor]


class _Block(msgspec.Struct, frozen=True, eq=False):
    """A calibration block of n items: what every stage said of every item, and the times.

    Args:
        task: its id.
        first: whether it was the task's first round.
        enough: the early stop that was asked for.
        way: the checks.
        goes_on: [n, S], whether the item goes on after each stage; after the last, whether it is accepted.
        known: [n], whether no stage's check failed.
        timed: per stage, the items and the seconds of the passes that made up the block.
        surplus: per stage, what two passes took beyond one over the same items.
    """

    task: str
    first: bool
    enough: int | None
    way: Way
    goes_on: Any
    known: Any
    timed: list[list[tuple[tuple[int, ...], float]]]
    surplus: list[list[float]]

    def shares(self, order: Sequence[int]) -> list[list[float]]:
        """For each stage of a plan the share that would have passed of what would have reached it; none if nothing."""
        alive, found = np.flatnonzero(self.known), []
        for k in order:
            passed = self.goes_on[alive, k]
            if k == order[-1] and self.enough is not None:
                passed = passed[np.cumsum(passed) - passed < self.enough]
            found.append([float(passed.mean())] if len(passed) else [])
            alive = alive[self.goes_on[alive, k]]
        return found


_UNKNOWN = ("error", "timeout", "unchecked")
"""Verdicts of which nothing is learned of an item."""


def _goes_on(verdict: str, last: bool) -> bool:
    return verdict == "pass" or (verdict == "abstain" and not last)


def _probe(
    stages: Sequence[Verifier], trusted: int, context: Context, proposal: Proposal, *, warm: bool, again: bool
) -> _Block:
    """Run every stage on a whole block.

    Args:
        warm: whether the stages have run before; else each runs once on one item, untimed, so that no start is timed.
        again: whether to time passes over parts of the block beside one over the whole.
    """
    names, n = names_of(stages), len(proposal)
    everyone = tuple(range(n))
    first_trusted = len(stages) - trusted
    way = StagesWay(proposal, None, names[first_trusted:])
    timed: list[list[tuple[tuple[int, ...], float]]] = []
    surplus: list[list[float]] = []
    goes_on = np.zeros((n, len(stages)), dtype=bool)
    known = np.ones(n, dtype=bool)
    vouched = np.zeros(n, dtype=bool)

    def run(k: int, indices: Sequence[int]) -> StagePass:
        return stage_pass(stages[k], names[k], context, proposal, indices)

    for k in range(len(stages)):
        if not warm:
            run(k, everyone[:1])
        clean = goes_on[:, :first_trusted].all(axis=1)
        parts = [everyone]
        if k >= first_trusted and clean.any() and not clean.all():
            parts = [tuple(np.flatnonzero(clean).tolist()), tuple(np.flatnonzero(~clean).tolist())]
        passes = [run(k, part) for part in parts]
        extra = []
        if again and len(parts) == 2:
            extra = [sum(found.seconds for found in passes) - run(k, everyone).seconds]
        elif again and (halves := _halves(proposal.items)):
            extra = [sum(run(k, half).seconds for half in halves) - passes[0].seconds]
        timed.append([(found.indices, found.seconds) for found in passes])
        surplus.append(extra)
        for found in passes:
            way.hear(found)
            for index, check in zip(found.indices, found.checks, strict=True):
                goes_on[index, k] = _goes_on(check.verdict, last=False)
                known[index] &= check.verdict not in _UNKNOWN
                vouched[index] |= k >= first_trusted and check.verdict == "pass"
    goes_on[:, -1] &= vouched
    return _Block(context.task.id, not context.round, context.enough, way, goes_on, known, timed, surplus)


def _halves(items: Sequence[Any]) -> list[list[int]]:
    """Two parts of about the same size; equal programs in one of them, since a stage may look at those once."""
    places: dict[Any, list[int]] = {}
    for index, item in enumerate(items):
        places.setdefault(item if type(item) is str else index, []).append(index)
    groups = list(places.values())
    parts = [sorted(index for group in groups[start::2] for index in group) for start in (0, 1)]
    return parts if len(groups) > 1 else []


def _table(stages: Sequence[Verifier], trusted: int, blocks: Sequence[_Block]) -> StageTable:
    """The stage table of some blocks, those of a task side by side."""
    names, at_once = names_of(stages), int(getattr(stages[-1], "at_once", 1))
    tasks: dict[str, int] = {}
    numbered = sorted(
        ((tasks.setdefault(block.task, len(tasks)), place, block) for place, block in enumerate(blocks)),
        key=lambda entry: entry[:2],
    )
    if not any(block.known.any() for block in blocks):
        raise ConfigError(
            "no program was judged by every stage, so there is nothing to plan by; mend the stages first"
        )
    fixed = np.zeros(len(names))
    each = [np.zeros(block.goes_on.shape) for _, _, block in numbered]
    for k in range(len(names)):
        own = [
            (costs, *one)
            for costs, (_, _, block) in zip(each, numbered, strict=True)
            for one in block.timed[k]
        ]
        over = [seconds for block in blocks for seconds in block.surplus[k]]
        fixed[k], shared = fit_pass_cost([(len(indices), seconds) for _, indices, seconds in own], over)
        for (costs, indices, _), seconds in zip(own, shared, strict=True):
            costs[list(indices), k] = seconds
    return StageTable(
        names=names,
        tasks=np.concatenate([np.full(int(block.known.sum()), task) for task, _, block in numbered]),
        blocks=np.concatenate([np.full(int(block.known.sum()), place) for _, place, block in numbered]),
        passes=np.concatenate([block.goes_on[block.known] for _, _, block in numbered]),
        fixed=fixed,
        each=np.concatenate([own[block.known] for own, (_, _, block) in zip(each, numbered, strict=True)]),
        trusted=trusted,
        at_once=at_once,
    )


def _blocks(programs: Sequence[Any], size: int | None) -> Iterator[Proposal]:
    if isinstance(programs, str):
        raise ConfigError(f"the programs of a task must be a list, not the text {programs!r:.80}")
    step = size or max(len(programs), 1)
    for start in range(0, len(programs), step):
        yield Proposal.alternatives(tuple(programs[start : start + step]))
