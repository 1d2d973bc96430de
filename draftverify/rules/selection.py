"""Rules that select by the verifier's checks: the first, all or the best of alternatives, votes held across rounds, and
the longest sound path of a chain or tree. A rule chooses, `done` ends: a rule that has a `done` brings the stopping
rule of pipelines that are given none.

An item whose check failed, or that nobody looked at, is neither kept nor refused; a passed item that was not chosen
is not refused either. Where the check of a passed item has a correction, what the verifier made of the item is taken in
its place: the answer that a reader found in a passage, rather than the passage.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, ClassVar, Literal

from msgspec import UNSET

from draftverify.errors import ConfigError, ContractError
from draftverify.protocols import Threshold, VoteShare
from draftverify.randomness import Draws
from draftverify.rules.ballots import count
from draftverify.rules.bounds import at_least_one, between, score_or_none
from draftverify.rules.stopping import AdaptiveConsistency
from draftverify.traits import EvidenceKind, RuleTraits
from draftverify.values import (
    Check,
    Choice,
    Context,
    Correction,
    Decision,
    Held,
    Proposal,
    Refusal,
    Shape,
    Verification,
)

ALTERNATIVES: frozenset[Shape] = frozenset({"alternatives"})
VERDICTS: frozenset[EvidenceKind] = frozenset({"verdicts"})
SCORED: frozenset[EvidenceKind] = frozenset({"verdicts", "scores"})


def _passed(checks: tuple[Check, ...]) -> list[int]:
    return [index for index, check in enumerate(checks) if check.verdict == "pass"]


def _keeping(
    checks: tuple[Check, ...], chosen: Sequence[int], refused: tuple[Refusal, ...], done: bool = False
) -> Decision:
    """A decision that keeps these passed items, each as its check would have it."""
    corrected = tuple(
        [Correction(i, checks[i].correction) for i in chosen if checks[i].correction is not UNSET]
    )
    if corrected:
        replaced = {correction.index for correction in corrected}
        chosen = [i for i in chosen if i not in replaced]
    return Decision(kept=tuple(chosen), corrected=corrected, refused=refused, done=done)


def _rejected(checks: tuple[Check, ...]) -> tuple[Refusal, ...]:
    return tuple([Refusal(i, check.reason) for i, check in enumerate(checks) if check.verdict == "reject"])


def _score(verification: Verification, index: int) -> float:
    """The score of a passed item. What a person or a trusted fallback passes has none, and is better than all scored.

    Raises:
        ContractError: the verifier passed it without one.
    """
    score = verification.checks[index].score
    if score is None:
        if verification.by == "verifier":
            raise ContractError(f"item {index} passed without a score; the rule compares scores")
        return math.inf
    return score


class _Abstaining:
    """Accepts items from a threshold on, and may say that there is no answer."""

    def __init__(self, threshold: Threshold | None = None, *, abstain_after: int | None = None) -> None:
        self.threshold = score_or_none("threshold", threshold)
        self.abstain_after = None if abstain_after is None else at_least_one("abstain_after", abstain_after)

    @property
    def traits(self) -> RuleTraits:
        """That it compares scores, and whether a task that ends refused, with nothing left to try, has no answer."""
        # Under the stopping rule that it brings, the policy says what becomes of blocks without a good item.
        abstains = self.abstain_after is not None
        return RuleTraits(shapes=ALTERNATIVES, needs=SCORED, collects="given", abstains=abstains)

    def _says_none(self, context: Context, verification: Verification, good: Collection[Any]) -> bool:
        """Whether so many blocks were drafted, this one was judged, and nothing good was found in any."""
        if self.abstain_after is None or context.round + 1 < self.abstain_after:
            return False
        judged = any(check.verdict in ("pass", "reject", "abstain") for check in verification.checks)
        return judged and not (good or context.held or context.accepted)


class First(_Abstaining):
    """Keeps the first passed items, lowest index first, and is done when it has enough of them, over all rounds.

    The value is the item; with `enough` above 1 the tuple of items. With a threshold and one item a block this is
    sequential best-of-n: sample until one is good enough.

    Args:
        enough: how many; without a threshold the verifier may stop once as many passed.
        threshold: the lowest score to accept; None for any, also without scores. A passed item below it is refused.
        otherwise: what a task that ends without its one item is answered with: None for nothing, or "best", the
            refused item with the highest score below the threshold, the earliest of equals; the outcome's reason then
            says that it lies below.
        abstain_after: as for `All`.

    References:
        Liao et al., "Reward-Guided Speculative Decoding", arXiv:2501.19324, which takes a step from a threshold on.
    """

    def __init__(
        self,
        enough: int = 1,
        *,
        threshold: Threshold | None = None,
        otherwise: Literal["best"] | None = None,
        abstain_after: int | None = None,
    ) -> None:
        super().__init__(threshold, abstain_after=abstain_after)
        self.enough = at_least_one("enough", enough)
        self.otherwise = otherwise
        if otherwise not in (None, "best"):
            raise ConfigError(f"otherwise is {otherwise!r}; it is 'best', or left out", path="otherwise")
        if otherwise is not None and threshold is None:
            raise ConfigError(
                "otherwise says what to do with items below the threshold; give a threshold", path="otherwise"
            )
        if otherwise is not None and abstain_after is not None:
            raise ConfigError(
                "otherwise answers with a refused item, and abstain_after with none; leave one of them out",
                path="abstain_after",
            )
        if otherwise is not None and enough > 1:
            raise ConfigError(
                f"otherwise answers with one item, and enough asks for {enough}; leave one of them out",
                path="otherwise",
            )

    @cached_property
    def traits(self) -> RuleTraits:
        """That it needs scores where there is a threshold."""
        needs = SCORED if self.threshold is not None else VERDICTS
        abstains = self.abstain_after is not None
        return RuleTraits(shapes=ALTERNATIVES, needs=needs, enough=self.enough, abstains=abstains)

    def decide(
        self, context: Context, proposal: Proposal, verification: Verification, rng: Draws
    ) -> Decision:
        """Keep as many good items as are missing."""
        missing = max(self.enough - len(context.accepted), 0)
        good, refused = _from_threshold(verification, self.threshold)
        if self._says_none(context, verification, good):
            return Decision(refused=refused, abstain=True)
        chosen = good[:missing]
        # Where nothing at all passed there is no best, and what follows is for the policy.
        close = any(verification.checks[refusal.index].verdict == "pass" for refusal in refused)
        over = bool(self.otherwise and proposal.exhausted and (close or _best_refused(context) is not None))
        return _keeping(verification.checks, chosen, refused, done=len(chosen) == missing or over)

    def finish(self, context: Context) -> Any:
        """The item, with its score where there is a threshold, or the tuple of them; None when there is none."""
        if not context.accepted:
            return _best_refused(context) if self.otherwise is not None else None
        if self.enough > 1:
            return tuple(context.accepted)
        if self.threshold is None:
            return context.accepted[0]
        source = next(round for round in context.rounds if round.decision.emitted)
        scores = [source.checks[index].score for index in sorted(source.decision.taken) if source.checks]
        return Choice(context.accepted[0], score=scores[0] if scores else None)


class All(_Abstaining):
    """Keeps every passed item, block after block; the value is their tuple.

    When to stop is for `done` to say; without one the first block that has a good item is the last.

    Args:
        threshold: the lowest score to accept; None for any, also without scores. A passed item below it is refused.
        abstain_after: say that there is no answer once so many blocks brought no good item, or before that when the
            policy has no step left; until then the policy decides what becomes of such a block. When None a task
            without a good item ends as refused.
    """

    @property
    def traits(self) -> RuleTraits:
        """That it needs scores where there is a threshold."""
        return replace(super().traits, needs=SCORED if self.threshold is not None else VERDICTS)

    def decide(
        self, context: Context, proposal: Proposal, verification: Verification, rng: Draws
    ) -> Decision:
        """Keep what is good enough."""
        good, refused = _from_threshold(verification, self.threshold)
        if self._says_none(context, verification, good):
            return Decision(refused=refused, abstain=True)
        return _keeping(verification.checks, good, refused)

    def done(self, context: Context, new: tuple[Any, ...]) -> int | None:
        """Stop as soon as something is kept."""
        return len(new) if new else None


class Best(_Abstaining):
    """Chooses the passed item with the highest score, the earliest of equals, over all rounds.

    Every item that is good enough is held, and `finish` chooses among them. When to stop is for `done` to say
    (`Rounds(3)`: the best of three blocks); without one the first block that has a good item is the last.

    Args:
        threshold: the lowest score to accept; None for any. A passed item below it is refused.
        abstain_after: as for `All`.
    """

    def decide(
        self, context: Context, proposal: Proposal, verification: Verification, rng: Draws
    ) -> Decision:
        """Hold what is good enough."""
        good, refused = _good_enough(verification, self.threshold)
        abstain = self._says_none(context, verification, good)
        return Decision(held=tuple(good), refused=refused, abstain=abstain)

    def done(self, context: Context, new: tuple[Any, ...]) -> int | None:
        """Stop as soon as something is held."""
        return 0 if context.held else None

    def finish(self, context: Context) -> Choice | None:
        """The best of what is held, with its score; None when nothing is."""
        return _best_held(context)


class BestStep:
    """Keeps the best passed item of every block, so that an answer grows step by step (stepwise best-of-n).

    The value is the tuple of steps; `done` says when it is whole.

    Args:
        threshold: as for `Best`.
    """

    traits = RuleTraits(shapes=ALTERNATIVES, needs=SCORED, stepwise=True)

    def __init__(self, threshold: Threshold | None = None) -> None:
        self.threshold = score_or_none("threshold", threshold)

    def decide(
        self, context: Context, proposal: Proposal, verification: Verification, rng: Draws
    ) -> Decision:
        """Keep one, if any is good enough."""
        good, refused = _good_enough(verification, self.threshold)
        best = max(good, key=lambda index: (good[index], -index), default=None)
        return _keeping(verification.checks, () if best is None else (best,), refused)


class Beam:
    """Holds the best partial answers, each of which a generator may extend; the value is the best at the end.

    An item is a whole partial answer. One that extends a held one (`Proposal.extends`) takes its place; of the rest the
    `width` with the highest scores stay, the earliest of equals. `done` says when the answers are whole.

    Args:
        width: how many are held.
        threshold: as for `Best`.
    """

    traits = RuleTraits(shapes=ALTERNATIVES, needs=SCORED, stepwise=True)

    def __init__(self, width: int, threshold: Threshold | None = None) -> None:
        self.width = at_least_one("width", width)
        self.threshold = score_or_none("threshold", threshold)

    def decide(
        self, context: Context, proposal: Proposal, verification: Verification, rng: Draws
    ) -> Decision:
        """Hold the best of what was held and what came, and release the others."""
        good, refused = _good_enough(verification, self.threshold)
        extended = {proposal.extends[index] for index in good} if proposal.extends else set()
        standing = [(_held_score(held), -1, place) for place, held in enumerate(context.held)]
        standing = [entry for entry in standing if entry[2] not in extended]
        standing += [(score, 0, index) for index, score in good.items()]
        best = sorted(standing, key=lambda entry: -entry[0])[: self.width]
        stays = {place for _, age, place in best if age}
        return Decision(
            held=tuple(sorted(index for _, age, index in best if not age)),
            released=tuple(place for place in range(len(context.held)) if place not in stays),
            refused=refused,
        )

    def finish(self, context: Context) -> Choice | None:
        """The best of what is held, with its score; None when nothing is."""
        return _best_held(context)


def _held_score(entry: Held) -> float:
    """What a person or a trusted fallback passed has no score, and is better than all scored."""
    return math.inf if entry.score is None else entry.score


def _best_held(context: Context) -> Choice | None:
    best = max(context.held, key=_held_score, default=None)
    return None if best is None else Choice(best.value, score=best.score)


def _good_enough(
    verification: Verification, threshold: float | None
) -> tuple[dict[int, float], tuple[Refusal, ...]]:
    """The passed items that reach the threshold with their scores, and what is refused."""
    checks = verification.checks
    scores = {index: _score(verification, index) for index in _passed(checks)}
    good = {index: score for index, score in scores.items() if threshold is None or score >= threshold}
    refusals = [Refusal(index, "below the threshold") for index in scores if index not in good]
    return good, (*_rejected(checks), *refusals)


def _from_threshold(
    verification: Verification, threshold: float | None
) -> tuple[list[int], tuple[Refusal, ...]]:
    """As `_good_enough`, for rules that look at scores only where there is a threshold."""
    if threshold is None:
        return _passed(verification.checks), _rejected(verification.checks)
    good, refused = _good_enough(verification, threshold)
    return list(good), refused


def _best_refused(context: Context) -> Choice | None:
    """The passed item with the highest score that a threshold refused, in any round; None where there is none."""
    best: tuple[float, Any] | None = None
    for round in context.rounds:
        for index in sorted([refusal.index for refusal in round.decision.refused]):
            check = round.checks[index]
            if check.verdict == "pass" and (best is None or check.score > best[0]):
                best = check.score, round.items[index] if check.correction is UNSET else check.correction
    if best is None:
        return None
    return Choice(best[1], score=best[0], reason="below the threshold, the best that was seen")


class Majority:
    """Holds every passed item as a ballot, over all rounds; the value is the item with the most ballots.

    Of equals the one whose first ballot is the earliest; of the winning ballots the earliest item. When to stop is for
    `done` to say; without one it is `AdaptiveConsistency()`.

    Args:
        field: items that are mappings with this key vote by its value; others, or all when None, by the whole item.
        share: the least share of the vote that elects; below it there is no answer, an abstention.
        ballots: the least number of ballots that elects, likewise.
    """

    traits = RuleTraits(shapes=ALTERNATIVES, collects="always")
    weighted: ClassVar[bool] = False
    log_odds: bool = False

    def __init__(self, field: str | None = "answer", *, share: VoteShare = 0.0, ballots: int = 1) -> None:
        self.field = field
        self.share = between("share", share, 0, 1)
        self.ballots = at_least_one("ballots", ballots)

    def decide(
        self, context: Context, proposal: Proposal, verification: Verification, rng: Draws
    ) -> Decision:
        """Hold what passed."""
        return Decision(held=tuple(_passed(verification.checks)), refused=_rejected(verification.checks))

    def done(self, context: Context, new: tuple[Any, ...]) -> int | None:
        """Stop when the leader is likely to stay ahead."""
        return AdaptiveConsistency(field=self.field, weighted="log_odds" if self.log_odds else self.weighted)(
            context, new
        )

    def finish(self, context: Context) -> Choice | None:
        """The elected item with its share of the vote and its lead; None, an abstention, when none is elected."""
        answers = count(context.held, self.field, log_odds=self.log_odds)
        votes = [answer.weight if self.weighted else float(answer.ballots) for answer in answers]
        if not answers or not sum(votes):
            return None
        leader = max(range(len(votes)), key=votes.__getitem__)  # the earliest of equals
        runner_up = max((vote for place, vote in enumerate(votes) if place != leader), default=0.0)
        share, margin = votes[leader] / sum(votes), (votes[leader] - runner_up) / sum(votes)
        if share < self.share or answers[leader].ballots < self.ballots:
            return None
        return Choice(answers[leader].value, score=answers[leader].best, support=share, margin=margin)


class WeightedVote(Majority):
    """As `Majority`, each ballot weighing its score (0 or more); what a person or trusted fallback passes weighs 1.

    Args:
        field, share, ballots: as for `Majority`.
        log_odds: scores are log-odds in nats, as of a trained verifier or a likelihood, and a ballot weighs the
            probability that they say, 1 / (1 + exp(−score)).
    """

    weighted: ClassVar[bool] = True
    traits = replace(Majority.traits, needs=SCORED)

    def __init__(
        self,
        field: str | None = "answer",
        *,
        share: VoteShare = 0.0,
        ballots: int = 1,
        log_odds: bool = False,
    ) -> None:
        super().__init__(field, share=share, ballots=ballots)
        self.log_odds = log_odds

    def decide(
        self, context: Context, proposal: Proposal, verification: Verification, rng: Draws
    ) -> Decision:
        """Hold what passed.

        Raises:
            ContractError: for a passed item without a score, or with a negative one that is no log-odds.
        """
        decision = super().decide(context, proposal, verification, rng)
        for index in decision.held:
            score = _score(verification, index)
            if score < 0 and not self.log_odds:
                raise ContractError(
                    f"item {index} has the score {score}; a vote weighs 0 or more, or has `log_odds: true`"
                )
        return decision


class LongestPrefix:
    """Keeps the longest path of passed items from the root, puts the verifier's correction in the place of the item
    after it, and splices the values that the verifier would go on with.

    Of a chain that path is its passed prefix. Of a tree's equally long paths it is the one with the higher mean score,
    where every item of a path has one, else the first.

    An item all of whose parents passed is refused if it was rejected and not corrected; an error, a timeout or an
    abstention there only ends its path. A passed item on another path is neither kept nor refused. A block's
    correction goes on from the end of a chain.
    """

    traits = RuleTraits(shapes={"chain", "tree"})

    def decide(
        self, context: Context, proposal: Proposal, verification: Verification, rng: Draws
    ) -> Decision:
        """Keep one path, up to the first item that did not pass."""
        checks, parents = verification.checks, proposal.parents
        # By the item that each path of passed items ends in, its length and sum of scores.
        paths = {-1: (0, 0.0)}
        for index, (check, parent) in enumerate(zip(checks, parents, strict=True)):
            if check.verdict == "pass" and parent in paths:
                length, total = paths[parent]
                paths[index] = length + 1, total + (-math.inf if check.score is None else check.score)
        end = max(paths, key=lambda index: (paths[index][0], paths[index][1] / max(paths[index][0], 1)))
        next_items = [i for i, parent in enumerate(parents) if parent in paths and i not in paths]
        corrected = [i for i in next_items if parents[i] == end and checks[i].correction is not UNSET][:1]
        if verification.correction and not proposal.fits("chain"):
            raise ContractError(
                "the verifier would go on from a tree, which does not say from where; correct an item"
            )
        return Decision(
            kept=proposal.path(end),
            corrected=tuple([Correction(i, checks[i].correction) for i in corrected]),
            spliced=verification.correction,
            refused=tuple(
                [
                    Refusal(i, checks[i].reason)
                    for i in next_items
                    if checks[i].verdict == "reject" and i not in corrected
                ]
            ),
        )
