"""What the measured controller knows of acceptance: decayed trials and hits, of the run and of each task; and what the
sessions of a lockstep round tell it one by one, put together to one pass.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

import numpy as np

from draftverify.stats.progress import first_accepted, geometric_progress
from draftverify.stats.task_costs import FIRST_GAP, LAST_GAP
from draftverify.values import Context, Proposal, Round

PRIOR = (0.5, 0.6)
"""Acceptance of the first item and of later ones, before anything was seen."""
RUN_MEMORY, TASK_MEMORY, IDLE_MEMORY = 0.97, 0.9, 0.99
"""What evidence keeps of its weight per drafted pass of the run, per drafted and per plain round of the task."""
RUN_WEIGHT, TASK_WEIGHT = 2.0, 3.0
"""For how many trials the prior counts in the run, and the run in the task."""
GRAIN = 32
"""Acceptance is looked up in steps of 1/32."""


Hits: TypeAlias = tuple[int, int, int, int]
"""Trials and hits of first items, trials and hits of later ones."""


class AcceptanceEvidence:
    """Decayed trials and hits of a block's first item, and of later items whose predecessors left them a chance.

    For a task also how far its rounds were counted, when it was last learned from, when a block was last judged and how
    long to wait with the next probe when it is alone, and whether the generator has read its prompt (`opened`). Where
    drafts are free: the draft for the round that comes (`shadow`; None: unknown), and how many of the latest values in
    a row drafts have foretold (`streak`), behind which every item is a later one.
    """

    def __init__(self) -> None:
        self.first_trials = self.first_hits = self.later_trials = self.later_hits = 0.0
        self.rounds = self.last = self.judged = self.streak = 0
        self.gap = FIRST_GAP
        self.opened = False
        self.shadow: Proposal | None = None

    def add(self, keep: float, hits: Hits) -> None:
        """Count what was seen of a round; what was counted before keeps the share `keep` of its weight."""
        self.first_trials = keep * self.first_trials + hits[0]
        self.first_hits = keep * self.first_hits + hits[1]
        self.later_trials = keep * self.later_trials + hits[2]
        self.later_hits = keep * self.later_hits + hits[3]

    def foretold(self, values: Sequence[Any]) -> Hits | None:
        """How the shadow agrees with the values that came, whoever brought them; None where there was nothing drafted.

        A draft whose items are as they would be without verifying is accepted as often as it agrees, under any rule
        that emits the verifier's distribution.
        """
        shadow, self.shadow = () if self.shadow is None else self.shadow.items, None
        agreed = 0
        for item, value in zip(shadow, values, strict=False):
            if item != value:
                break
            agreed += 1
        trials = min(agreed + 1, len(shadow), len(values))
        if not trials:
            self.streak = 0
            return None
        first = not self.streak
        self.streak = self.streak + agreed if trials == agreed else 0
        return first, first and agreed > 0, trials - first, max(agreed - first, 0)


NEW = AcceptanceEvidence()
"""A task of which nothing is known."""


class Acceptance:
    """The run's acceptance and its tasks', and what blocks of each size can be expected to bring.

    Args:
        at_most: the largest block.
        owner: under which a task's evidence is kept in its scratch.
    """

    def __init__(self, at_most: int, owner: object) -> None:
        self.at_most = at_most
        self.owner = owner
        self.run = AcceptanceEvidence()
        self.alternatives = False
        self._curves: dict[int, Any] = {}

    def are_alternatives(self) -> None:
        """Count blocks as alternatives from now on, of which one accepted item is all that a block brings."""
        self.alternatives = True
        self._curves.clear()

    def task(self, context: Context) -> AcceptanceEvidence:
        """The task's evidence, kept in scratch; counted again from the rounds when scratch was emptied."""
        task: AcceptanceEvidence | None = context.scratch.get(self.owner)
        if task is None or task.rounds != len(context.rounds):
            task = context.scratch[self.owner] = AcceptanceEvidence()
            for earlier in context.rounds:
                self.count(task, earlier)
        return task

    def idle(self, context: Context) -> None:
        """Count a round in its task in which nothing was drafted."""
        task: AcceptanceEvidence | None = context.scratch.get(self.owner)
        if task is not None and task.rounds == len(context.rounds):
            task.rounds += 1

    def count(self, task: AcceptanceEvidence, round: Round, batch: int = 0) -> None:
        """Count a round in its task and, as one of the `batch` of a pass unless that is 0, in the run."""
        if task.shadow is None:
            hits = _judged(round, self.alternatives)
        else:
            hits = task.foretold(round.decision.emitted)
        task.rounds += 1
        task.opened = task.opened or round.asked > 0
        if hits is not None:
            task.add(TASK_MEMORY * IDLE_MEMORY ** (task.rounds - task.last - 1), hits)
            task.last = task.rounds
            if round.items:
                task.judged = task.rounds
                task.gap = FIRST_GAP if round.tally.accepted else min(2 * task.gap, LAST_GAP)
            if batch:
                self.run.add(RUN_MEMORY ** (1.0 / batch), hits)

    def keys(self, tasks: Iterable[AcceptanceEvidence]) -> list[int]:
        """Each task's acceptance of first and of later items, as a place in the grid of curves."""
        run = self.run
        weight = TASK_WEIGHT
        run_first = (run.first_hits + RUN_WEIGHT * PRIOR[0]) / (run.first_trials + RUN_WEIGHT)
        run_later = (run.later_hits + RUN_WEIGHT * PRIOR[1]) / (run.later_trials + RUN_WEIGHT)
        keys = []
        for task in tasks:
            a, b = run_first, run_later  # as of `geometric_progress`
            if task.first_trials:
                keep = IDLE_MEMORY ** (task.rounds - task.last)
                a = (keep * task.first_hits + weight * a) / (keep * task.first_trials + weight)
                b = (keep * task.later_hits + weight * b) / (keep * task.later_trials + weight)
            a = b if task.streak else a
            keys.append(int(a * GRAIN) * 64 + int(b * GRAIN))
        return keys

    def curve(self, key: int) -> Any:
        """Expected accepted items of blocks of 1, 2, … `at_most` at a place in the grid."""
        curve = self._curves.get(key)
        if curve is None:
            a, b = (min((place + 0.5) / GRAIN, 1.0) for place in divmod(key, 64))
            progress = geometric_progress(a, b, self.at_most, alternatives=self.alternatives)
            curve = self._curves[key] = np.array(progress)
        return curve


def _judged(round: Round, alternatives: bool) -> Hits | None:
    """Trials and hits of the block's first item and of later ones; None when nothing was judged."""
    if not round.items or round.failure is not None or round.source != "generator":
        return None
    tally = round.tally
    if alternatives:
        if not tally.accepted:
            return (1, 0, tally.trials - 1, 0) if tally.trials else None
        place = first_accepted(round)
        return 1, int(place == 1), place - 1, int(place > 1)
    count = len(round.decision.kept)
    stopped = count < len(round.items) and tally.trials > tally.accepted
    if count:
        return 1, 1, count - 1 + stopped, count - 1
    return (1, 0, 0, 0) if stopped else None


class Pass:
    """One lockstep round as its sessions tell of it one by one; complete when all `batch` of them have.

    Attributes:
        batch, left: how many sessions, and how many of them have yet to tell.
        before: what is known of the sessions that went on from the pass before.
        choice: the size that all of them are to ask for next; made when the first of them asks.
        tasks: (id, attempt) of those that told; `members` what is known of those of them that go on.
        spoiled: whether a call failed; `dirty` whether its time holds more than blocks (a prompt, a second check).
        longest: the longest block.
        filled, asked, unopened: in how many sessions there were items, were items asked for, had none been before.
        emitted, spliced, draft, verify, decide, busy, cost: summed over the sessions.
    """

    def __init__(self, batch: int, previous: dict[tuple[str, int], AcceptanceEvidence]) -> None:
        self.batch = self.left = batch
        self.before = previous
        self.choice: int | None = None
        self.tasks: set[tuple[str, int]] = set()
        self.members: dict[tuple[str, int], AcceptanceEvidence] = {}
        self.spoiled = self.dirty = False
        self.longest = self.filled = self.asked = self.unopened = self.emitted = self.spliced = 0
        self.draft = self.verify = self.decide = self.busy = self.cost = 0.0

    def sessions(self) -> list[AcceptanceEvidence]:
        """The evidence of the sessions that go on: of this pass where they have told, else of the one before."""
        silent = [evidence for session, evidence in self.before.items() if session not in self.tasks]
        return [*silent, *self.members.values()]

    @property
    def told(self) -> int:
        """How many of its sessions have told. The others' rounds were a fallback's, or are still to come."""
        return self.batch - self.left

    def add(self, round: Round, opened: bool, dirty: bool) -> None:
        """Count one session's round.

        Args:
            round: its record.
            opened: whether the generator had drafted for this session before.
            dirty: whether its time holds more than a block's.
        """
        timing, decision = round.timing, round.decision
        self.dirty = self.dirty or dirty
        self.longest = max(self.longest, len(round.items))
        self.filled += bool(round.items)
        self.asked += round.asked > 0
        self.unopened += not opened
        self.emitted += len(decision.emitted)
        self.spliced += len(decision.spliced) + len(decision.corrected)
        self.draft += timing.draft
        self.verify += timing.verify
        self.decide += timing.decide
        self.busy += timing.busy
        self.cost += timing.cost

    def seconds(self) -> tuple[float, float]:
        """Machine time of the whole pass: of the verifier with the rule, and of the generator.

        The sessions' busy seconds add up to it whether a part served them in one call or one by one. What is not the
        verifier's shared call is the generator's and the rule's in the ratio of their latencies.
        """
        if self.batch == 1:
            return self.verify + self.decide, self.draft
        others_seconds = max(0.0, self.busy - self.verify / self.batch)
        draft = others_seconds * self.draft / (self.draft + self.decide) if self.draft else 0.0
        share = self.told / self.batch
        return (self.busy - draft) / share, draft / share
