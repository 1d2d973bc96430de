"""The checks for acceptance rules: decisions that can be carried out, errors that stay errors, and exactness."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache, partial
from itertools import product
from math import log
from typing import Any

import msgspec
import numpy as np

from draftverify.testing.assertions import ERROR_PROBABILITY, deviates, ensure
from draftverify.testing.calls import LAWS, SHAPES
from draftverify.testing.contexts import make_context, make_draws, values_of
from draftverify.testing.registry import check
from draftverify.testing.subject import Subject
from draftverify.testing.tables import DraftFrom, TableModel, TargetFrom
from draftverify.values import Context, Decision, Proposal, Verification

_FAILED = ("error", "timeout", "unchecked")
_SOUND = ["reproducible_under_its_seed", "keeps_a_path", "splices_values_of_the_vocabulary"]


def _decided(subject: Subject) -> list[tuple[Context, Proposal, Verification, Decision]]:
    return [(*call[:3], subject.answer(call)) for call in subject.calls]


def _named(decision: Decision) -> list[int]:
    corrected, refused = ([each.index for each in one] for one in (decision.corrected, decision.refused))
    return [*decision.kept, *corrected, *decision.held, *refused]


def _needs(word: str) -> Callable[[Subject], bool]:
    return lambda s: word in s.declared("needs", {"verdicts"})


@check("rule", after=["answers"])
def returns_a_decision(subject: Subject) -> None:
    """decide() returns a Decision."""
    for *_, made in _decided(subject):
        ensure(type(made) is Decision, f"decide() returned a {type(made).__name__}; return Decision(kept=…)")


@check("rule", after=["returns_a_decision"])
def names_items_that_exist(subject: Subject) -> None:
    """Kept, corrected, held and refused are indices into the block; released are indices into context.held."""
    for context, proposal, _, decision in _decided(subject):
        n, held = len(proposal.items), len(context.held)
        for index in _named(decision):
            ensure(
                0 <= index < n,
                f"item {index} was decided on in a block of {n}; indices are needed, not items",
            )
        for index in decision.released:
            ensure(0 <= index < held, f"held item {index} was released where {held} are held")


@check("rule", after=["returns_a_decision"])
def names_no_item_twice(subject: Subject) -> None:
    """An item is kept, corrected, held or refused, once."""
    for *_, decision in _decided(subject):
        named = _named(decision)
        twice = [index for index in named if named.count(index) > 1]
        ensure(
            not twice,
            f"item {twice[:1]} was decided on twice (kept, corrected, held or refused); name it once",
        )


@check("rule", after=["names_items_that_exist", "names_no_item_twice"])
def keeps_a_path(subject: Subject) -> None:
    """Of a chain a prefix is kept; of a tree, or of alternatives judged by distributions, one path from the root."""
    for _, proposal, _, decision in _decided(subject):
        if _needs("target")(subject) or not proposal.fits("alternatives"):
            corrected = [each.index for each in decision.corrected]
            joined = (*decision.kept, *sorted(corrected))
            path = proposal.path(joined[-1]) if joined else ()
            what = f"items {decision.kept} of a {proposal.shape} were kept"
            what += f", items {corrected} corrected" if corrected else ""
            ensure(joined == path, f"{what}; an item stands on its parents, so keep {path} or less")


@check("rule", after=["returns_a_decision"])
def abstains_with_empty_hands(subject: Subject) -> None:
    """A decision that abstains accepts nothing: the task ends there, and what it kept would be lost."""
    for *_, decision in _decided(subject):
        joins = decision.kept or decision.corrected or decision.spliced
        what = "a decision abstains, and keeps, corrects or splices something"
        ensure(not (decision.abstain and joins), f"{what}; hold it, or leave out `abstain`")


@check("rule", after=["names_items_that_exist"], when=_needs("verdicts"))
def a_failed_check_is_not_a_pass(subject: Subject) -> None:
    """No item whose check is an error, a timeout or unchecked is kept or held."""
    for _, _, verification, decision in _decided(subject):
        for index in (*decision.kept, *decision.held):
            verdict = verification.checks[index].verdict
            ensure(
                verdict not in _FAILED,
                f"item {index} was accepted, its verdict being {verdict!r}; look for 'pass'",
            )


@check("rule", after=["names_items_that_exist"], when=_needs("verdicts"))
def a_failed_check_is_not_a_refusal(subject: Subject) -> None:
    """No item whose check is an error, a timeout or unchecked is refused: nobody has judged it."""
    for _, _, verification, decision in _decided(subject):
        for index in (refusal.index for refusal in decision.refused):
            verdict = verification.checks[index].verdict
            what = f"item {index} was refused, its verdict being {verdict!r}"
            ensure(
                verdict not in _FAILED,
                f"{what}; leave it out, so that it is no trial and can be verified again",
            )


@check("rule", after=["returns_a_decision"], when=_needs("target"))
def splices_values_of_the_vocabulary(subject: Subject) -> None:
    """Spliced values are indices of the target's rows."""
    for _, _, verification, decision in _decided(subject):
        V = getattr(verification.evidence, "target", np.empty(0)).shape[-1]
        for value in decision.spliced:
            ensure(
                isinstance(value, (int, np.integer)),
                f"{value!r} was spliced; int(value) is needed, not an array",
            )
            ensure(0 <= value < V, f"{value!r} was spliced, which is outside the vocabulary of {V}")


@check("rule", after=["keeps_no_state_about_tasks"], when=Subject.repeats)
def draws_from_rng_alone(subject: Subject) -> None:
    """A decision depends on `rng`, and not on context.draws, which is another role's stream."""
    for number, (context, *others) in enumerate(subject.calls):
        other = make_draws("elsewhere", role="draft", attempt=number)
        found = subject.answer((msgspec.structs.replace(context, draws=other), *others))
        subject.same(
            subject.answers[number], found, "the decision changes with context.draws; draw from `rng`"
        )


@check("rule", after=["names_items_that_exist"], when=_needs("target"))
def drift_has_an_entry_for_each_value(subject: Subject) -> None:
    """A rule that says `exact` reports no drift; another one none at all, or TV(π, p) for each value that it adds."""
    decided = _decided(subject)
    metered = any(decision.drift for *_, decision in decided)
    for _, proposal, _, decision in decided:
        drift, values = decision.drift, len(values_of(proposal, decision))
        if subject.declared("exact", False):
            what = f"drift {drift} was reported by a rule that says `exact`"
            ensure(drift == (), f"{what}; leave it out, or do not declare `exact`")
            continue
        what = f"{len(drift)} entries of drift came for {values} emitted values"
        hint = "give TV(π, p) for each, or 1.0, which is always a bound; or measure it in no decision at all"
        ensure(not metered or len(drift) == values, f"{what}; {hint}")
        wrong = [tv for tv in drift if type(tv) is not float or not 0 <= tv <= 1]
        ensure(not wrong, f"{wrong[:1]} was reported as drift; a float from 0 to 1 is needed")


@check("rule", after=_SOUND, when=lambda s: s.declared("exact", False))
def exact_means_the_targets_distribution(subject: Subject) -> None:
    """A rule that says `exact` emits, over many rounds, the target's joint distribution, for every shape and law."""
    trials, combinations = 2 * subject.trials, _combinations(subject)
    for shape, law in combinations:
        depth, rest, rounds = _played(subject, shape, law, trials)
        found = np.zeros(_V**depth)
        for values, _ in rounds:
            # What the target would go on with stands for the rest: the mean of this is the joint distribution.
            found += rest(values)
        for length in range(1, depth + 1):
            got = found.reshape(_V**length, -1).sum(axis=1)
            right = trials * rest(()).reshape(_V**length, -1).sum(axis=1)
            far = deviates(got - right, right * (1 - right / trials), 2 * len(combinations) * _V**depth)
            worst = int(np.argmax(abs(got - right)))
            sequence = [int(value) for value in np.unravel_index(worst, (_V,) * length)]
            what = f"of a {shape} of law {law} comes {sequence} first in {got[worst] / trials:.1%} of rounds"
            hint = "mend residual, bonus, tail or stream, declare fewer `laws` or `shapes`, or do not declare `exact`"
            ensure(not np.any(far), f"{what}, where the target has {right[worst] / trials:.1%}; {hint}")


@check(
    "rule",
    after=[*_SOUND, "drift_has_an_entry_for_each_value"],
    when=lambda s: _needs("target")(s) and not s.declared("exact", False),
)
def drift_bounds_the_distance_from_the_target(subject: Subject) -> None:
    """The mean of the summed drift, where it is measured, is no less than the distance of what is emitted from p."""
    combinations = _combinations(subject)
    for shape, law in combinations:
        depth, rest, rounds = _played(subject, shape, law, 2 * subject.trials)
        if not any(decision.drift for _, decision in rounds):
            continue
        made = [(rest(values), sum(decision.drift[:depth])) for values, decision in rounds]
        first, second = made[: subject.trials], made[subject.trials :]
        # The sequences that come too often in one half of the rounds come too often, by less than the distance, in
        # the other half too; were they chosen and counted in the same half, chance would add to their number.
        right = rest(())
        often = np.mean([joint for joint, _ in first], axis=0) > right
        over = np.asarray([joint[often].sum() for joint, _ in second]) - right[often].sum()
        drift = np.asarray([tv for _, tv in second])
        far = _above_zero(over - drift, depth + 2, len(combinations))
        what = f"of a {shape} of law {law} come sequences that lie {over.mean():.3f} from the target"
        hint = "what is reported for each value must be TV(π, p) of what is emitted there, or more"
        ensure(not far, f"{what}, where the drift is {drift.mean():.3f} on average; {hint}")


def _above_zero(terms: Any, width: float, tests: int) -> bool:
    """Whether the mean of independent terms, in an interval of a width, is above 0 for more than chance.

    References:
        Maurer and Pontil, "Empirical Bernstein bounds and sample variance penalization", arXiv:0907.3740, theorem 4.
    """
    n, weight = len(terms), log(2 * tests / ERROR_PROBABILITY)
    margin = np.sqrt(2 * np.var(terms, ddof=1) * weight / n) + 7 * width * weight / (3 * (n - 1))
    return bool(np.mean(terms) > margin)


_V = 5


def _combinations(subject: Subject) -> list[tuple[Any, Any]]:
    return list(product(subject.declared("shapes", SHAPES), subject.declared("laws", LAWS)))


def _played(
    subject: Subject, shape: Any, law: Any, trials: int
) -> tuple[int, Callable[[tuple[int, ...]], Any], Iterator[tuple[tuple[int, ...], Decision]]]:
    """Rounds of one shape and law against a target of few values.

    Returns:
        How many values of a round are looked at; the target's distribution of so many, given the first ones; and the
        rounds, each as its first values and its decision.
    """
    settings = subject.contexts[0].settings
    # This pair of tables shows every known mistake about twice as large as the bound or more; others hide some.
    table = TableModel(_V, seed=28, order=2, sharpness=1.5)
    target = TargetFrom(table, temperature=settings.get("temperature", 1.0))
    draft = DraftFrom(TableModel(_V, seed=97, order=2, sharpness=2.0), shape=shape, law=law)
    n, depth = {"chain": (2, 3), "alternatives": (2, 2)}.get(shape, (4, 3))
    verified, rest = cache(partial(_verified, target)), cache(partial(_continued, target, depth))

    def rounds() -> Iterator[tuple[tuple[int, ...], Decision]]:
        for trial in range(trials):
            context = make_context(f"{shape} {law}", attempt=trial, settings=settings)
            made, rng = draft.propose(context, n), make_draws("0", attempt=trial)
            decision = subject.call((context, made, verified(made.items, made.parents), rng))
            emitted = tuple(map(int, values_of(made, decision)))
            ensure(
                emitted, f"of a {shape} of law {law} nothing was emitted; keep or splice at least one value"
            )
            yield emitted[:depth], decision

    return depth, rest, rounds()


def _verified(target: TargetFrom, items: tuple[int, ...], parents: tuple[int, ...]) -> Verification:
    return target.verify(make_context(), Proposal.tree(items, parents))


def _continued(target: TargetFrom, depth: int, prefix: tuple[int, ...]) -> Any:
    """The distribution [V ** depth] of sequences that begin with `prefix` and go on as the target does."""
    V, joint, sequences = _V, np.ones(1), [()]
    for place in range(depth):
        if place < len(prefix):
            rows = [np.arange(V) == prefix[place]] * len(sequences)
        else:
            rows = [target.model(sequence, target.temperature) for sequence in sequences]
        joint = (joint[:, None] * np.stack(rows)).reshape(-1)
        sequences = [(*sequence, value) for sequence in sequences for value in range(V)]  # type: ignore[misc]
    return joint
