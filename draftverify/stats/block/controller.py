"""Block-size controllers: a fixed one, and one that measures while it runs and can say "do not draft".

`Measured` counts in plain steps, what the verifier takes for a pass of empty blocks at the batch size at hand. It
learns what a pass costs by its longest block and how much of a block is accepted (in the run, and in the task), asks
for the size with the highest expected progress for its cost, and keeps a ledger of what drafting has won and lost
against plain steps. In debt it drafts nothing until a small allowance, a share of the run, has paid the debt back; so
what a run can lose against plain decoding is bounded by the ledger, not by what the model believes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from threading import Lock, local
from typing import Any, ClassVar, Literal, TypeAlias, get_args

import numpy as np
from msgspec.structs import replace

from draftverify.errors import ConfigError
from draftverify.protocols import TimesPasses
from draftverify.stats.block.costs import REFRESH, BatchCosts, CostTable, pays_until
from draftverify.stats.block.evidence import NEW, Acceptance, AcceptanceEvidence, Pass
from draftverify.stats.block.fallback import Detour, Ledger
from draftverify.stats.progress import is_alternatives
from draftverify.stats.task_costs import FIRST_GAP, LAST_GAP
from draftverify.traits import BlockTraits, GeneratorTraits, VerifierTraits, offers, traits_of
from draftverify.values import Context, Outcome, Proposal, Round

Objective: TypeAlias = Literal["latency", "throughput", "cost"]

DEEP = 20.0
"""A balance, in plain steps, from which no single block is a risk."""
MARGIN = 1.02
"""The expected gain below which drafting, or a size that was never tried, is not worth its noise."""
DOUBTFUL, DOUBT = 0.75, 4
"""A block that takes less than this of an empty one says that the plain steps are stale, and brings the next nearer."""
PROBE = 2
"""Items of a probe."""
FRESH = 9
"""Plain steps that are timed before a probe; of those before them nothing is learned but that they were made."""


class Measured:
    """Chooses the block size from what this process has measured; an empty block is one of the choices.

    Made for chains and alternatives; a pipeline refuses it for trees, whose accepted length it would take for that of a
    chain as long. An empty block is considered where the verifier says that it brings a value
    (`plain_steps`), once one has made progress, or once a verifier that gives no verdicts has spliced a value; until
    then at least one item is asked for. Sessions that share a pass
    get one size. Safe to call from several threads. What an instance learns is one pipeline's: do not share it
    between two.

    Args:
        at_most: the largest block.
        objective: what the size is best for. With E_i the values that session i of the B that share a pass is
            expected to emit in it, and T the machine seconds of that pass:
            "latency": least Σ_i (T / E_i) / B, a session's seconds per value, every session alike;
            "throughput": most Σ_i E_i / T, values per second of the batch, every value alike;
            "cost": least Σ_i c_i / Σ_i E_i, c_i the cost that the parts report of session i's round; machine
            seconds where they report none, which is throughput again.
            Latency and throughput are the same for a session alone and where all sessions' acceptance is equal.
        allowance: the share of the run's time (or cost) that probing may cost, beyond a credit of 1.25 plain steps.
    """

    traits: ClassVar[BlockTraits] = BlockTraits(shapes={"chain", "alternatives"}, deterministic=False)

    def __init__(
        self, at_most: int = 16, *, objective: Objective = "latency", allowance: float = 0.005
    ) -> None:
        if at_most < 1:
            raise ConfigError(
                f"at_most must be 1 or more, not {at_most}; for no drafting at all use a fixed block of 0"
            )
        if objective not in get_args(Objective):
            raise ConfigError(f"objective {objective!r} is none of {', '.join(get_args(Objective))}")
        self.at_most = at_most
        self.objective = objective
        self.allowance = allowance
        self._lock = Lock()
        self._here = local()  # a batch is driven by one thread: its pass is that thread's
        self._acceptance = Acceptance(at_most, self)
        self._free: Any = None  # the generator whose drafts cost nothing
        self._table = CostTable()
        self._paid = False  # whether the parts say what they cost
        self._plain: bool | None = None  # whether an empty block makes progress; None: not known yet
        self._filled = 1.0  # share of looks that find something
        self._splice = 1.0  # values spliced per session and pass
        self._ledger = Ledger(allowance)
        self._detour: Detour | None = None  # where tasks may go to a fallback at once
        self._rounds = self._drafted = 0

    def begin(self, verifier: object, *, fallback: bool = False) -> None:
        """Learn whether an empty block brings a value (`plain_steps`), else the first rounds show it; and whether a
        task may go to a fallback at once."""
        self._plain = True if traits_of(verifier, VerifierTraits).goes_on_plainly else self._plain
        self._detour = Detour(Ledger(self.allowance), MARGIN) if fallback else None

    def check_pipeline(self, pipeline: Any) -> None:
        """Learn of parts that are open whether drafts are free, and what passes take where the verifier knows it."""
        generator, verifier = pipeline.generator, pipeline.verifier
        traits = traits_of(generator, GeneratorTraits)
        is_free = traits.free and traits.shape == "chain" and traits.concurrent and traits.laws == {"given"}
        self._free = generator if is_free else None
        if self._table.at or self.objective == "cost" or not offers(verifier, TimesPasses):
            return
        seconds = verifier.pass_seconds()
        with self._lock:
            if seconds and not self._table.at:
                costs = self._table.of(1)
                costs.know(seconds, self.at_most)
                self._ledger.credit(costs.unit)

    def drafts(self, context: Context) -> bool:
        """Whether to draft for this task at all; else it goes to the fallback at once."""
        with self._lock:
            return self._detour is None or self._plain is True or self._detour.drafts(context)

    def size(self, context: Context) -> int:
        """How many items to draft now: the same for all sessions that were in the last pass or join them now."""
        with self._lock:
            if self._free is not None:
                self._draft_shadow(context)
            current: Pass | None = getattr(self._here, "now", None)
            if current is not None and current.batch > 1:
                if current.choice is None and (sessions := current.sessions()):
                    current.choice = self._choose(context, current.batch, sessions)
                if current.choice is not None:
                    return current.choice
            if len(context.rounds):
                if self._rests(context):
                    return 0
                return self._choose(context, 1, [self._acceptance.task(context)])
            # Before its first round nobody knows with how many others a session will be: the most, to be safe. Those
            # that begin together ask for the same, whatever other threads teach in between.
            first_size: int | None = getattr(self._here, "first", None)
            if first_size is None:
                batch = max(self._table.at, default=1)
                first_size = self._here.first = self._choose(context, batch, [self._acceptance.task(context)])
            return first_size

    def _draft_shadow(self, context: Context) -> None:
        """Draft for the round that comes, whether it will be verified or not."""
        task = self._acceptance.task(context)
        try:
            shadow = self._free.propose(context, self.at_most)
            task.shadow = shadow if shadow.shape == "chain" else None
        except Exception:  # the generator's own call will say so
            task.shadow = None

    def drafted(self, context: Context, n: int) -> Proposal | None:
        """The first `n` items of the draft by which the size was chosen, where it cost nothing."""
        with self._lock:
            shadow = self._acceptance.task(context).shadow
        if shadow is None or shadow.evidence:  # which would be of all of its items
            return None
        is_last = shadow.exhausted and len(shadow) <= n
        return replace(shadow, items=shadow.items[:n], parents=shadow.parents[:n], exhausted=is_last)

    def _choose(self, context: Context, batch: int, members: Sequence[AcceptanceEvidence]) -> int:
        """The size for a pass of so many sessions, of whom `members` are known."""
        if self._plain is None:
            return 1
        costs = self._table.of(batch)
        speeds = self._speeds(costs, batch, members)
        shadow = members[0].shadow if batch == 1 else None
        if shadow is not None and self._plain:
            speeds = speeds[: len(shadow)]
        if not len(speeds):
            return 0
        n, gain = self._best(costs, speeds)
        if not self._plain:
            return n
        unit = self._table.unit(batch)
        if not costs.warm or costs.since >= REFRESH or not unit:
            return 0
        if gain < MARGIN:
            if shadow is not None and costs.known:
                return 0  # plain steps say when this changes
            task = members[0]
            waited, gap = (task.rounds - task.judged, task.gap) if batch == 1 else (costs.idle, costs.gap)
            if waited < gap:
                self._rest(context, batch, gap - waited)
                return 0
            n = min(PROBE, self._reach(costs), len(speeds))
        unopened = 1.0 - sum(member.opened for member in members) / max(batch, 1)
        balance = self._ledger.balance
        if balance < DEEP * unit and balance < unit * self._risk(costs, n, unopened):
            sizes = [size for size in range(1, n) if balance >= unit * self._risk(costs, size, unopened)]
            n = max(sizes, key=lambda size: float(speeds[size - 1]), default=0)
        if not n:
            owed = self._risk(costs, 1, unopened) - balance / unit
            rounds = owed / self.allowance if self.allowance else LAST_GAP
            self._rest(context, batch, int(min(rounds, LAST_GAP)))
        if n:
            costs.idle = 0  # now, since a batch asks for its next size before its pass is learned from
        return n

    def _rest(self, context: Context, batch: int, rounds: int) -> None:
        """Leave a session that is alone in peace until so many rounds, less those timed before a probe, are over."""
        if batch == 1 and rounds > FRESH and self._free is None:
            self._here.rest = (context.task.id, context.attempt, len(context.rounds) + rounds - FRESH)

    def _rests(self, context: Context) -> bool:
        task, attempt, until = getattr(self._here, "rest", ("", 0, 0))
        return bool(len(context.rounds) < until and task == context.task.id and attempt == context.attempt)

    def _risk(self, costs: BatchCosts, n: int, unopened: float) -> float:
        """Plain steps lost when a block of n is refused whole; an untimed one costs at most its rows' share."""
        verify = costs.verify.at(n) - 1.0
        verify = verify if self._table.timed(costs) else max(verify, n)
        return verify + max(costs.draft.at(n), unopened * costs.opening)

    def _reach(self, costs: BatchCosts) -> int:
        """The largest block to consider: a size is not trusted before one half as large was timed."""
        return min(self.at_most, max(1 if self._plain else PROBE, 2 * self._table.timed(costs)))

    def _speeds(self, costs: BatchCosts, batch: int, members: Sequence[AcceptanceEvidence]) -> Any:
        """The expected gain over plain steps of blocks of 1, 2, … for sessions that share a pass."""
        if batch > 1:
            joining = [NEW] * (batch - len(members))
            return self._gains(costs, Counter(self._acceptance.keys([*members[:batch], *joining])))
        (key,) = self._acceptance.keys(members)
        drafted = members[0].shadow is not None
        speeds = costs.speeds.get((key, drafted))
        if speeds is None:
            speeds = costs.speeds[key, drafted] = self._gains(costs, Counter((key,)), drafted=drafted)
        return speeds

    def _best(self, costs: BatchCosts, speeds: Any) -> tuple[int, float]:
        """The best size above 0, and its expected gain."""
        best = int(speeds.argmax())
        if best + 1 not in costs.tried and not costs.known:
            # A size's first block costs more than it teaches, so it must look better than those that were tried.
            tried = max(
                (n - 1 for n in costs.tried if n <= len(speeds)), key=speeds.__getitem__, default=best
            )
            best = tried if MARGIN * speeds[tried] >= speeds[best] else best
        return best + 1, float(speeds[best])

    def _gains(self, costs: BatchCosts, keys: Counter[int], *, drafted: bool = False) -> Any:
        """The expected gain of blocks of 1, 2, …, for so many sessions at each place in the grid of curves.

        Args:
            drafted: whether the draft is known, and is not empty.
        """
        filled = 1.0 if drafted else max(self._filled, 0.02)
        someone = 1.0 - (1.0 - filled) ** costs.batch  # else nobody's generator found anything: a plain step
        cost = costs.vector
        if cost is None:
            floor = 1.0 if self._plain else 0.0  # what seems cheaper than an empty block was timed badly
            sizes = range(1, self._reach(costs) + 1)
            cost = np.array([max(floor, costs.verify.at(n)) + costs.draft.at(n) for n in sizes])
            costs.vector = cost
        splice = 0.0 if self._acceptance.alternatives else self._splice
        share, total = filled / someone, 0.0
        for key, count in keys.items():
            emitted = splice + share * self._acceptance.curve(key)[: len(cost)]
            total = total + (count / emitted if self.objective == "latency" else count * emitted)
        mean = keys.total() / total if self.objective == "latency" else total / keys.total()
        looks = costs.look * (1.0 - someone) / someone
        return mean / (cost + looks) / (splice or 1.0)

    def observe(self, context: Context, round: Round) -> None:
        """Learn from a round that has just been decided."""
        with self._lock:
            self._here.first = None
            timing = round.timing
            is_alone = timing.batch == timing.passes == 1
            if is_alone and not round.asked and not round.failure and self._rests(context):
                self._acceptance.idle(context)
                self._rounds += 1
                self._ledger.allow(0.0 if self._paid else timing.verify)
                return
            task = self._acceptance.task(context)
            opened = task.opened
            self._acceptance.count(task, round, timing.batch if timing.passes else 0)
            if round.source != "generator" or not timing.passes:
                return
            current = self._pass(context, timing.batch)
            current.left -= 1
            if round.failure is not None:
                current.spoiled = True
            else:
                self._rounds += 1
                self._drafted += bool(round.items)
                self._find_kind(round)
                # Not learned: what a prompt costs, and what checking failed items again costs.
                is_first = round.index == 0 and not self._acceptance.alternatives
                current.add(round, opened, is_first or timing.passes > 1)
                if not round.decision.done:
                    current.members[context.task.id, context.attempt] = task
            if not current.left:
                self._learn(current)

    def settle(self, context: Context, outcome: Outcome) -> None:
        """Learn from a task that has ended what it cost by the fallback, and with drafts."""
        with self._lock:
            if self._detour is not None and self._plain is not True:
                self._find_currency(sum(round.timing.cost for round in context.rounds))
                self._detour.settle(context, outcome, paid=self._paid)

    def _find_currency(self, amount: float) -> None:
        """Forget what was learned in seconds where the parts report a cost."""
        if self.objective == "cost" and amount and not self._paid:
            self._paid, self._table = True, CostTable()
            self._ledger.void()
            if self._detour is not None:
                self._detour.begin()

    def _pass(self, context: Context, batch: int) -> Pass:
        """The pass that this round was in: the thread's open one, or a new one."""
        current: Pass | None = getattr(self._here, "now", None)
        session = (context.task.id, context.attempt)
        if current is None or not current.left or current.batch != batch or session in current.tasks:
            if current is not None and current.left:
                self._learn(current)
            current = self._here.now = Pass(batch, {} if current is None or batch == 1 else current.members)
        current.tasks.add(session)
        return current

    def _find_kind(self, round: Round) -> None:
        """See from a round whether blocks are alternatives and whether an empty one makes progress."""
        if is_alternatives(round) and not self._acceptance.alternatives:
            self._acceptance.are_alternatives()
        if self._acceptance.alternatives:
            self._plain = False
        elif round.decision.spliced and not (round.items and round.checks):
            self._plain = True
        elif self._plain is None:
            self._plain = False

    def _learn(self, now: Pass) -> None:
        if now.spoiled:
            return
        self._find_currency(now.cost)
        costs = self._table.of(now.batch)
        costs.passes += 1
        verify, draft = (now.cost * now.batch / now.told, 0.0) if self._paid else now.seconds()
        if now.asked:
            self._filled += (1.0 - 0.98**now.batch) * (now.filled / now.told - self._filled)
        if now.longest:
            self._learn_block(now, costs, verify, draft)
        else:
            self._learn_empty(now, costs, verify, draft)
        if costs.unit:
            self._ledger.allow(verify)
        if costs.passes < 64 or costs.passes % 32 == 0:
            costs.solve()

    def _learn_empty(self, now: Pass, costs: BatchCosts, verify: float, draft: float) -> None:
        costs.idle = costs.gap if now.asked else costs.idle + 1  # a look that found nothing was no probe
        if now.dirty:
            costs.since = max(0, costs.since - REFRESH // 2)
        unit = self._table.unit(now.batch)
        if self._plain and not now.dirty:
            cold = not costs.warm
            costs.step(verify * (costs.unit / unit if unit else 1.0))
            if cold and costs.warm:
                self._ledger.credit(costs.unit)
        if now.asked and unit:
            look = draft / unit
            costs.look += 0.1 * (look - costs.look)
            self._ledger.book(-look, unit)

    def _learn_block(self, current: Pass, costs: BatchCosts, verify: float, draft: float) -> None:
        n = current.longest
        costs.since += 1
        # A shape's first pass may allocate, compile and miss caches: it teaches nothing.
        seen_before = (current.batch, n) in costs.once
        costs.once.add((current.batch, n))
        costs.tried.add(n)
        if not costs.unit and not self._plain and seen_before:
            costs.unit = verify
        unit = self._table.unit(current.batch)
        if unit:
            verify, draft = verify / unit, draft / unit
            if verify < DOUBTFUL:
                costs.since += DOUBT
            expected = costs.verify.at(n)
            verify = min(verify, expected * (3.0 if seen_before else 2.0))
            if current.dirty:
                verify = expected
            elif seen_before:
                costs.verify.add(n, verify)
            unopened = 0.0 if self._acceptance.alternatives else current.unopened / current.told
            if unopened:
                costs.opening += 0.3 * (draft / unopened - costs.opening)
            elif seen_before:
                costs.draft.add(n, draft)
            net = current.emitted / (current.told * (self._splice or 1.0)) - max(1.0, verify) - draft
            self._ledger.book(net, unit)
            costs.gap = FIRST_GAP if net > 0.0 else min(2 * costs.gap, LAST_GAP)
        self._splice += 0.05 * (current.spliced / current.told - self._splice)

    def report(self) -> dict[str, Any]:
        """What a summary says of it: the size it would choose for new tasks, the expected gain, and why.

        Returns:
            At the batch size that most passes had (`batch`): n, drafting, why; gain over plain decoding, or over the
            fallback alone, None where neither is known; `costs` of a pass in seconds (or cost): "plain" (of a task by
            the fallback), "verify" and "draft" by block size. Of the run: `drafted` of `rounds`; `won`, plain steps (or
            tasks by the fallback) won by drafting so far. `batches`: for each
            measured batch size its n and gain. `pays_until_batch`: the largest batch size at which drafting is
            expected to pay, interpolated between measured ones; 0 when it does not pay alone; None when that is
            unknown: it pays at the largest measured one, at none while 1 was not measured, or there are no plain steps.
        """
        with self._lock:
            main = max(self._table.at.values(), key=lambda costs: costs.passes, default=BatchCosts(1))
            n, gain = self._best(main, self._speeds(main, main.batch, [NEW]))
            detour = self._detour if self._detour is not None and self._plain is not True else None
            batches = {
                costs.batch: self._best(costs, self._speeds(costs, costs.batch, [NEW]))
                for costs in self._table.measured()
            }
            gains = {batch: gain for batch, (_, gain) in batches.items()}
            until = pays_until(gains, MARGIN) if self._plain else None
            account = self._ledger if detour is None else detour.ledger
            won = account.won
            drafting, worth, plain, lost = True, None, None, ""
            if self._plain:
                drafting, worth, plain = gain >= MARGIN and account.balance > 0.0, gain, main.unit
                at = f" at batch {main.batch}" if main.batch > 1 else ""
                why = f"blocks of {n} are expected to run at {gain:.2f} of plain decoding{at}"
                if not main.verify.counts and not main.known:
                    why += " by a guess, since none was timed yet"
                lost = f", and drafting has lost {-won:.1f} plain steps" if won < 0.0 else ""
            elif detour is not None and detour.unit:
                drafting, worth, plain = detour.pays(), detour.gain, detour.unit
                why = f"tasks that are drafted for are expected to run at {worth:.2f} of the fallback alone"
                lost = (
                    f", and drafting has lost what {-won:.1f} tasks by the fallback cost" if won < 0.0 else ""
                )
            else:
                per = "unit" if self._paid else "second"
                why = f"blocks of {n} make the most progress per {per}; there are no plain steps to compare with"
            if not drafting:
                worth, why = 1.0, f"do not draft: {why}{lost}"
            if max(batches, default=1) > 1 and self._plain:
                why += f"; {_words(until, sorted(batches))}"
            sizes = sorted(main.verify.counts)
            return {
                "n": n if drafting else 0,
                "gain": worth,
                "drafting": drafting,
                "why": why,
                "objective": self.objective,
                "batch": main.batch,
                "drafted": self._drafted,
                "rounds": self._rounds,
                "won": won,
                "costs": {
                    "plain": plain,
                    "verify": {size: main.verify.at(size) * main.unit for size in sizes},
                    "draft": {size: main.draft.at(size) * main.unit for size in sizes},
                },
                "batches": {batch: {"n": n, "gain": gain} for batch, (n, gain) in batches.items()},
                "pays_until_batch": until,
            }


def _words(until: int | None, measured: list[int]) -> str:
    """A sentence that says up to which batch size drafting pays."""
    sizes = ", ".join(map(str, measured))
    if until:
        return f"drafting pays up to batch {until} (measured at {sizes})"
    if until == 0:
        return f"drafting pays at no batch size (measured at {sizes})"
    return f"from which batch size drafting no longer pays is unknown (measured at {sizes})"
