"""What the sessions of a lockstep round tell the measured controller, one by one, put together to one pass."""

from __future__ import annotations

from draftverify.stats.block.evidence import AcceptanceEvidence
from draftverify.values import Round


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
