"""A tournament: alternatives that were judged in pairs, of which the one with the most wins is kept."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from draftverify.errors import ContractError
from draftverify.randomness import Draws
from draftverify.rules.agreement import cross_of
from draftverify.rules.bounds import between
from draftverify.traits import RuleTraits
from draftverify.values import Choice, Context, Decision, Proposal, Refusal, Verification


class Tournament:
    """Keeps the item with the most wins (Copeland's rule), the earliest of equals, and is done.

    A win counts 1, a tie ½; a pair that was not judged says nothing, and counts as a tie. The evidence is cross
    [n items, n items]: entry (i, k) is 1 where item i beats item k, 0 where it loses, ½ for a tie or a verdict that
    turned with the order of the two, NaN on the diagonal and where the pair was not judged; entry (k, i) is 1 less
    that, or NaN. A judge that is to be trusted was asked in both orders. Where the verifier gives verdicts too, only
    items that passed take part, and rejected ones are refused.

    The outcome's support is the winner's wins over the pairs that it is in, its margin the lead over the second in the
    same unit. A winner that has less of either than is asked for is refused ("no clear winner"), and the task abstains
    when the policy has no step left. A lone item has nobody to beat: it wins, unless a share or margin is asked for.

    Args:
        share: the least support that elects.
        margin: the least margin that elects; above 0 equals elect nobody.

    References:
        Copeland, "A reasonable social welfare function" (1951); Zheng et al., "Judging LLM-as-a-Judge",
        arXiv:2306.05685, for both orders.
    """

    def __init__(self, *, share: float = 0.0, margin: float = 0.0) -> None:
        self.share = between("share", share, 0, 1)
        self.margin = between("margin", margin, 0, 1)

    @cached_property
    def traits(self) -> RuleTraits:
        """That it reads alternatives against each other, and whether a task without a winner has no answer."""
        return RuleTraits(shapes={"alternatives"}, needs={"cross"}, abstains=bool(self.share or self.margin))

    def decide(
        self, context: Context, proposal: Proposal, verification: Verification, rng: Draws
    ) -> Decision:
        """Keep the winner, or nobody.

        Raises:
            ContractError: the verification has no cross evidence; it is not square, has other numbers than 0 to 1, two
                words on one pair that do not sum to 1, or no judged pair among several items.
        """
        checks = verification.checks
        refused = [Refusal(i, check.reason) for i, check in enumerate(checks) if check.verdict == "reject"]
        table = _table(verification)
        if not table:
            return Decision(refused=tuple(refused))
        winner, support, margin = _winner(table)
        if (support or 0.0) < self.share or (margin or 0.0) < self.margin:
            return Decision(refused=(*refused, Refusal(winner, "no clear winner")))
        return Decision(kept=(winner,), refused=tuple(refused), done=True)

    def finish(self, context: Context) -> Choice | None:
        """The winner, with its score where the verifier gave one, its support and its margin."""
        if not context.accepted:
            return None
        current, table = context.last, dict[int, float]()
        if current is not None and current.verification.evidence is not None:
            table = _table(current.verification)
        if current is None or not table:  # taken up again, without the arrays
            return Choice(context.accepted[0])
        winner, support, margin = _winner(table)
        checks = current.verification.checks
        score = checks[winner].score if checks else None
        return Choice(context.accepted[0], score=score, support=support, margin=margin)


def _table(verification: Verification) -> dict[int, float]:
    """The wins of each item that takes part, by its index."""
    cross = cross_of(verification)
    n, checks = len(cross), verification.checks
    if cross.shape[1] != n:
        raise ContractError(f"cross evidence has shape {cross.shape}; a tournament needs [items, items]")
    entered = [i for i in range(n) if not checks or checks[i].verdict == "pass"]
    met = cross[np.ix_(entered, entered)]
    np.fill_diagonal(met, np.nan)
    wrong = np.argwhere(np.abs(met + met.T - 1) > 1e-6)
    if len(wrong):
        i, k = (entered[place] for place in wrong[0])
        raise ContractError(
            f"of the pair ({i}, {k}) the cross evidence says {cross[i, k]:g} one way and {cross[k, i]:g} the other; "
            "they must sum to 1"
        )
    met = np.where(np.isnan(met), 1 - met.T, met)
    if len(entered) > 1 and np.isnan(met).all():
        raise ContractError(
            f"no pair among the {len(entered)} items was judged: the cross evidence is all NaN"
        )
    np.fill_diagonal(met, 0.0)
    wins = np.where(np.isnan(met), 0.5, met).sum(axis=1)
    return dict(zip(entered, wins.tolist(), strict=True))


def _winner(table: dict[int, float]) -> tuple[int, float | None, float | None]:
    """The item with the most wins, and its share of its pairs and lead over the second; None for a lone item."""
    winner = max(table, key=table.__getitem__)
    pairs = len(table) - 1
    if not pairs:
        return winner, None, None
    second = max(wins for index, wins in table.items() if index != winner)
    return winner, table[winner] / pairs, (table[winner] - second) / pairs
