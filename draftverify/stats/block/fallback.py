"""The ledger of what drafting has won and lost; and where no plain step could be taken but the policy has a fallback,
which tasks go to it at once, undrafted.

The plain way of such a task is the fallback alone. Whether to draft is asked once for a task, before its first round,
and answered as for plain steps: draft while it is expected to gain; else try again now and then, if the ledger can bear
that it is in vain. A drafter that hardly ever fails is compared with the fallback now and then, too.
"""

from __future__ import annotations

from draftverify.stats.block.costs import REFRESH
from draftverify.stats.block.evidence import PRIOR, RUN_WEIGHT, TASK_MEMORY
from draftverify.stats.task_costs import FIRST_GAP, LAST_GAP, task_costs
from draftverify.values import Context, Outcome

CREDIT = 1.25
"""Plain steps (or whole tasks by the fallback) that drafting may lose before it has won any."""


class Ledger:
    """An account in seconds, or in cost where the parts report it.

    Args:
        allowance: the share of the run's cost that drafting may lose beyond its credit.

    Attributes:
        balance: what drafting may lose now; it is let draft only while this bears what a draft in vain costs.
        won: plain steps (tasks by the fallback) that it has won by now; negative when it has lost.
    """

    def __init__(self, allowance: float) -> None:
        self.allowance = allowance
        self.balance = self.won = 0.0
        self._dearest = 0.0  # the dearest plain step that it was given credit for

    def void(self) -> None:
        """Begin anew in another currency."""
        self.balance = self._dearest = 0.0

    def credit(self, unit: float) -> None:
        """Give credit for plain steps that cost so much: once, and then for what a dearer one is dearer."""
        if unit > self._dearest:
            self.balance += CREDIT * (unit - self._dearest)
            self._dearest = unit

    def allow(self, cost: float) -> None:
        """The run has gone on for so much."""
        self.balance += self.allowance * cost

    def book(self, net: float, unit: float) -> None:
        """Book the plain steps that drafting won (lost), which cost `unit` each."""
        self.balance += net * unit
        self.won += net


class _Mean:
    """A decayed mean; one with a prior counts it as `RUN_WEIGHT` observations."""

    def __init__(self, prior: float = 0.0, weight: float = 0.0) -> None:
        self.weight, self.total = weight, weight * prior

    def add(self, value: float) -> None:
        self.weight = TASK_MEMORY * self.weight + 1.0
        self.total = TASK_MEMORY * self.total + value

    @property
    def value(self) -> float:
        return self.total / self.weight if self.weight else 0.0


class Detour:
    """What drafting for whole tasks costs and brings, beside a fallback that would have done them alone.

    A task in which no draft was of use cost what its drafting cost in vain, and shows what the fallback takes. One that
    drafts solved has won what the fallback takes on average, less what it cost. So nothing can be said before a task
    went to the fallback. After 32 drafted tasks in a row one goes there undrafted; then after 64, 128 and so on, as the
    fallback may be many times as dear.

    Args:
        ledger: of the run.
        enough: the expected gain below which drafting is not worth its noise.
    """

    def __init__(self, ledger: Ledger, enough: float) -> None:
        self.ledger = ledger
        self.enough = enough
        self.begin()

    def begin(self) -> None:
        """Forget what was learned, as when costs turn out to be in another currency."""
        self.ledger.void()
        self._plain, self._drafting = _Mean(), _Mean()
        self._net = _Mean(PRIOR[0], RUN_WEIGHT)  # won per task that was drafted for, in tasks by the fallback
        self._idle, self._gap = 0, FIRST_GAP
        # Tasks drafted for since one went to the fallback, and after how many of them one does.
        self._unseen, self._refresh = 0, REFRESH
        self._under_way: dict[tuple[str, int], tuple[float, bool]] = {}

    @property
    def unit(self) -> float:
        """What a task costs by the fallback alone; 0 while that is unknown."""
        return self._plain.value

    @property
    def gain(self) -> float:
        """The expected cost of a task by the fallback alone over that of one that is drafted for."""
        return 1.0 / max(1.0 - self._net.value, 1e-9)

    def pays(self) -> bool:
        """Whether the next task would be drafted for with no need to be a probe."""
        return not self.unit or (self.gain >= self.enough and self._bears())

    def drafts(self, context: Context) -> bool:
        """Whether to draft for a task; of one that has begun, whether that was the answer."""
        rounds = context.rounds
        if len(rounds):
            return not rounds[0].undrafted
        if self._unseen >= self._refresh:
            self._unseen, self._refresh = 0, 2 * self._refresh
            return False
        probe = bool(self.unit) and self.gain < self.enough
        if self.unit and ((probe and self._idle < self._gap) or not self._bears()):
            self._idle += 1
            return False
        self._idle = 0
        self._unseen += 1
        session = context.task.id, context.attempt
        self._under_way[session] = self._drafting.value, probe
        context.scratch[self] = _Reserved(self, session)
        return True

    def free(self, session: tuple[str, int]) -> None:
        """Hold nothing back for a task any more: it was left before it ended, and will not be settled."""
        self._under_way.pop(session, None)

    def settle(self, context: Context, outcome: Outcome, *, paid: bool) -> None:
        """Learn from a task that has ended.

        Args:
            context: with all of its rounds.
            outcome: how it ended. Of one that failed nothing is learned; of one that waits, once it was answered.
            paid: count the cost that parts reported, instead of machine seconds.
        """
        _, probe = self._under_way.pop((context.task.id, context.attempt), (0.0, False))
        task = task_costs(context.rounds, outcome, paid=paid)
        if task is None or outcome.status == "waiting":
            return
        self.ledger.allow(task.drafting + task.others)
        if task.alone:
            self._unseen = 0
            self._plain.add(task.others)
            self.ledger.credit(self.unit)
        if not task.drafted:
            return
        self._drafting.add(task.drafting)
        if not self.unit:
            return
        net = -task.lost(self.unit) / self.unit
        self._net.add(net)
        self.ledger.book(net, self.unit)
        if net > 0.0:
            self._gap = 1  # what has paid is tried again at once
        elif probe:
            self._gap = min(max(2 * self._gap, FIRST_GAP), LAST_GAP)
        else:
            self._gap = FIRST_GAP

    def _bears(self) -> bool:
        """Whether the ledger could bear one more task drafted for in vain, beside those under way."""
        # Copied first: a task that is left frees its own from whatever thread lets go of it.
        reserved = sum(risk for risk, _ in tuple(self._under_way.values()))
        return self.ledger.balance - reserved >= self._drafting.value


class _Reserved:
    """A task's entry in its scratch, which is closed when the task has ended or is left."""

    def __init__(self, detour: Detour, session: tuple[str, int]) -> None:
        self.detour = detour
        self.who = session

    def close(self) -> None:
        """Free what the ledger holds back for the task."""
        self.detour.free(self.who)
