"""The checks for acceptance rules: decisions that can be carried out, errors that stay errors, and exactness."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache, lru_cache, partial
from itertools import product
from math import log
from typing import Any, NamedTuple

import msgspec
import numpy as np

from draftverify.kit.assertions import ERROR_PROBABILITY, deviates, ensure, exercised
from draftverify.kit.calls import LAWS
from draftverify.kit.contexts import make_context, make_draws, values_of
from draftverify.kit.registry import check
from draftverify.kit.subject import Subject
from draftverify.kit.tables import DraftFrom, TableModel, TablePair, TargetFrom
from draftverify.values import Context, Decision, Proposal, Shape, Verification

_FAILED = ("error", "timeout", "unchecked")
_SOUND = [
    "reproducible_under_its_seed",
    "draws_anew_each_round",
    "keeps_a_path",
    "splices_values_of_the_vocabulary",
]


def _decided(subject: Subject) -> list[tuple[Context, Proposal, Verification, Decision]]:
    return [(*call[:3], subject.answer(call)) for call in subject.calls]


_CASES = "give cases=[(context, proposal, verification)] in which it does"


def _needs(kind: str) -> Callable[[Subject], bool]:
    return lambda s: kind in s.traits.needs


@check("rule", after=["answers_can_be_read"])
def keeps_a_path(subject: Subject) -> None:
    """Of a chain a prefix is kept; of a tree, or of alternatives judged by distributions, one path from the root."""
    for _, proposal, _, decision in _decided(subject):
        if _needs("target")(subject) or not proposal.fits("alternatives"):
            corrected = [correction.index for correction in decision.corrected]
            joined = (*decision.kept, *sorted(corrected))
            path = proposal.path(joined[-1]) if joined else ()
            problem = f"items {decision.kept} of a {proposal.shape} were kept"
            problem += f", items {corrected} corrected" if corrected else ""
            ensure(joined == path, f"{problem}; an item stands on its parents, so keep {path} or less")
    anything_kept = any(decision.kept or decision.corrected for *_, decision in _decided(subject))
    exercised(anything_kept, f"it kept and corrected nothing in any case; {_CASES}")


@check("rule", after=["answers_can_be_read"])
def abstains_with_empty_hands(subject: Subject) -> None:
    """A decision that abstains accepts nothing: the task ends there, and what it kept would be lost."""
    for *_, decision in _decided(subject):
        joins = decision.kept or decision.corrected or decision.spliced
        problem = "a decision abstains, and keeps, corrects or splices something"
        ensure(not (decision.abstain and joins), f"{problem}; hold it, or leave out `abstain`")
    abstained = any(decision.abstain for *_, decision in _decided(subject))
    exercised(abstained, f"no decision abstained; if one can, {_CASES}")


@check("rule", after=["answers_can_be_read"], when=_needs("verdicts"))
def decides_on_judged_items_alone(subject: Subject) -> None:
    """No item whose check is an error, a timeout or unchecked is kept, held or refused: nobody has judged it."""
    hint = "keep and hold what passed, refuse what was rejected, and leave the others out: they can be verified again"
    for _, _, verification, decision in _decided(subject):
        refused = [refusal.index for refusal in decision.refused]
        for index in (*decision.kept, *decision.held, *refused):
            verdict, done = verification.checks[index].verdict, "refused" if index in refused else "accepted"
            ensure(verdict not in _FAILED, f"item {index} was {done}, its verdict being {verdict!r}; {hint}")
    verdicts = {check.verdict for _, _, verification, _ in _decided(subject) for check in verification.checks}
    why = "in no case was an item's verdict error, timeout or unchecked"
    exercised(verdicts & {*_FAILED}, f"{why}; add one to cases=")


@check("rule", after=["answers_can_be_read"], when=_needs("target"))
def splices_values_of_the_vocabulary(subject: Subject) -> None:
    """Spliced values are indices of the target's rows."""
    for _, _, verification, decision in _decided(subject):
        V = getattr(verification.evidence, "target", np.empty(0)).shape[-1]
        for value in decision.spliced:
            inside = isinstance(value, (int, np.integer)) and 0 <= value < V
            ensure(inside, f"{value!r} was spliced; a whole number below {V}, the vocabulary, is needed")
    spliced = any(decision.spliced for *_, decision in _decided(subject))
    exercised(spliced, f"nothing was spliced in any case; {_CASES}")


@check("rule", after=["keeps_no_state_about_tasks"], when=Subject.repeats)
def draws_from_rng_alone(subject: Subject) -> None:
    """A decision depends on `rng`, and not on context.draws, which is another role's stream."""
    for number, (context, *arguments) in enumerate(subject.calls):
        draws = make_draws("elsewhere", role="draft", attempt=number)
        second_answer = subject.answer((msgspec.structs.replace(context, draws=draws), *arguments))
        subject.same(
            subject.answers[number], second_answer, "the decision changes with context.draws; draw from `rng`"
        )


@check("rule", after=["answers_can_be_read"], when=_needs("target"))
def drift_has_an_entry_for_each_value(subject: Subject) -> None:
    """A rule that says `exact` reports no drift; another one none at all, or TV(π, p) for each value that it adds."""
    decided = _decided(subject)
    metered = any(decision.drift for *_, decision in decided)
    for _, proposal, _, decision in decided:
        drift, values = decision.drift, len(values_of(proposal, decision))
        if subject.traits.exact:
            problem = f"drift {drift} was reported by a rule that says `exact`"
            ensure(drift == (), f"{problem}; leave it out, or do not declare `exact`")
            continue
        problem = f"{len(drift)} entries of drift came for {values} emitted values"
        hint = "give TV(π, p) for each, or 1.0, which is always a bound; or measure it in no decision at all"
        ensure(not metered or len(drift) == values, f"{problem}; {hint}")
    exercised(metered or subject.traits.exact, "no decision reported drift: it measures none here")


@check("rule", after=_SOUND, when=lambda s: s.traits.exact)
def exact_means_the_targets_distribution(subject: Subject) -> None:
    """A rule that says `exact` emits, over many rounds, the target's joint distribution, for every shape and law."""
    games, trials = _games(subject), subject.trials
    tests = sum(sum(_V**length for length in range(1, game.depth + 1)) + _V**2 for game in games)
    for game in games:
        observed, pairs = np.zeros(_V**game.depth), np.zeros((_V, _V))
        first_value = 0
        for number, (values, _) in enumerate(_played(subject, game, trials)):
            # What the target would go on with stands for the rest: the mean of this is the joint distribution.
            observed += _rest(game, values)
            if number % 2:
                pairs[first_value, values[0]] += 1
            first_value = values[0]
        joint = trials * _rest(game, ())
        for length in range(1, game.depth + 1):
            got, right = (table.reshape(_V**length, -1).sum(axis=1) for table in (observed, joint))
            far = deviates(got - right, right * (1 - right / trials), tests)
            worst = int(np.argmax(abs(got - right)))
            sequence = [int(value) for value in np.unravel_index(worst, (_V,) * length)]
            problem = f"{game.words} comes {sequence} first in {got[worst] / trials:.1%} of rounds"
            ensure(
                not np.any(far), f"{problem}, where the target has {right[worst] / trials:.1%}; {game.hint}"
            )
        marginal = _rest(game, ()).reshape(_V, -1).sum(axis=1)
        together = trials // 2 * np.outer(marginal, marginal)
        far = deviates(pairs - together, together * (1 - np.outer(marginal, marginal)), tests)
        problem = f"{game.words} the first values of two rounds of a task depend on each other"
        ensure(
            not np.any(far),
            f"{problem}; use rng.uniform() or rng.seed(), which know the round, not rng.key alone",
        )


@check(
    "rule",
    after=[*_SOUND, "drift_has_an_entry_for_each_value"],
    when=lambda s: _needs("target")(s) and not s.traits.exact,
)
def drift_bounds_the_distance_from_the_target(subject: Subject) -> None:
    """The mean of the summed drift, where it is measured, is no less than the distance of what is emitted from p."""
    games = [game for game in _games(subject) if game.mostly == "doubtful"]
    metered = False
    for game in games:
        rounds = _played(subject, game, 2 * subject.trials)
        if not any(decision.drift for _, decision in rounds):
            continue
        metered = True
        measured = [(_rest(game, values), sum(decision.drift[: game.depth])) for values, decision in rounds]
        first_half, second_half = measured[: subject.trials], measured[subject.trials :]
        # The sequences that come too often in one half of the rounds come too often, by less than the distance, in
        # the other half too; were they chosen and counted in the same half, chance would add to their number.
        right = _rest(game, ())
        often = np.mean([joint for joint, _ in first_half], axis=0) > right
        over = np.asarray([joint[often].sum() for joint, _ in second_half]) - right[often].sum()
        drift = np.asarray([tv for _, tv in second_half])
        far = _above_zero(over - drift, game.depth + 2, len(games))
        problem = f"{game.words} come sequences that lie {over.mean():.3f} from the target"
        hint = "what is reported for each value must be TV(π, p) of what is emitted there, or more"
        ensure(not far, f"{problem}, where the drift is {drift.mean():.3f} on average; {hint}")
    exercised(metered, "no decision reported drift: it measures none here")


def _above_zero(terms: Any, width: float, tests: int) -> bool:
    """Whether the mean of independent terms, in an interval of a width, is above 0 for more than chance.

    References:
        Maurer and Pontil, "Empirical Bernstein bounds and sample variance penalization", arXiv:0907.3740, theorem 4.
    """
    n, weight = len(terms), log(2 * tests / ERROR_PROBABILITY)
    margin = np.sqrt(2 * np.var(terms, ddof=1) * weight / n) + 7 * width * weight / (3 * (n - 1))
    return bool(np.mean(terms) > margin)


_V = 5


class _Game(NamedTuple):
    """Rounds that a rule plays: a drafter and a target over few values.

    Args:
        mostly: what the tables are like, which decides the mistakes that show. "doubtful" ones differ everywhere;
            "sure" ones agree on one value, so that a rate of acceptance shows as it is; "late" ones are certain up to
            the third item, so that all rounds come to it; "crowded" ones seldom agree, so that the third sibling and
            the fourth are judged.
        draft: of one shape and law.
        target: the right answer.
        n: how many items are drafted.
        depth: how many values of a round are looked at.
    """

    mostly: str
    draft: DraftFrom
    target: TargetFrom
    n: int
    depth: int

    @property
    def words(self) -> str:
        """The game in words, for messages."""
        where = "" if self.mostly == "doubtful" else f" ({_SHOWN[self.mostly]})"
        return f"of a {self.draft.shape} of law {self.draft.law}{where}"

    @property
    def hint(self) -> str:
        """Where to look for the mistake."""
        return "mend residual, bonus, tail or stream, declare fewer `laws` or `shapes`, or do not declare `exact`"


_SHOWN = {
    "sure": "draft and target nearly sure of the same value: look at the probability of acceptance",
    "late": "all is certain before the third item: look at the items from there on",
    "crowded": "most siblings are refused: look at the third and the fourth",
}
_LAYOUTS: dict[str, dict[Shape, tuple[int, int]]] = {
    "doubtful": {"chain": (2, 3), "alternatives": (2, 2), "tree": (4, 3)},
    "sure": {"chain": (3, 3), "alternatives": (2, 1), "tree": (4, 2)},
    "late": {"chain": (4, 4)},
    "crowded": {"alternatives": (4, 1), "tree": (5, 2)},
}


def _games(subject: Subject) -> list[_Game]:
    """The games for every shape and law that the rule declares, one of each kind."""
    settings = subject.contexts[0].settings
    temperature = settings.get("temperature", 1.0)
    late = TablePair(_V, 5, free=frozenset({2, 3}))
    tables: dict[str, tuple[Any, Any]] = {
        # This pair shows every known mistake of a first item or sibling twice as large as the bound or more.
        "doubtful": (
            TableModel(_V, seed=97, order=2, sharpness=2.0),
            TableModel(_V, seed=28, order=2, sharpness=1.5),
        ),
        "sure": (_Row(0.995, 0.002, 0.001, 0.001, 0.001), _Row(0.95, 0.02, 0.01, 0.01, 0.01)),
        "late": (late.q, late.p),
        "crowded": (_Row(0.01, 0.7, 0.01, 0.22, 0.06), _Row(0.01, 0.01, 0.355, 0.615, 0.01)),
    }
    games = []
    shapes = subject.traits.shapes
    for mostly, (q, p) in tables.items():
        for shape, law in product(_LAYOUTS[mostly], subject.traits.laws or LAWS):
            # Siblings are alternatives too: of a rule that takes both, alternatives show what is asked of them here.
            spared = mostly != "doubtful" and shape == "tree" and "alternatives" in shapes
            if shape in shapes and not spared:
                parents = (-1, -1, -1, 0, 2) if mostly == "crowded" and shape == "tree" else None
                draft = DraftFrom(q, shape=shape, law=law, parents=parents)
                games.append(
                    _Game(mostly, draft, TargetFrom(p, temperature=temperature), *_LAYOUTS[mostly][shape])
                )
    return games


class _Row:
    """A table of one row."""

    def __init__(self, *row: float) -> None:
        self.row = np.asarray(row)

    def __call__(self, prefix: Any, temperature: float = 1.0) -> Any:
        if temperature == 0:
            return np.eye(len(self.row))[self.row.argmax()]
        row = self.row ** (1 / temperature)
        return row / row.sum()


def _played(subject: Subject, game: _Game, trials: int) -> Iterator[tuple[tuple[int, ...], Decision]]:
    """Rounds, two of each task: the first values of each, and its decision."""
    settings, verified = subject.contexts[0].settings, cache(partial(_verified, game.target))
    for trial in range(trials):
        # The drafts of all rounds are independent; the rule's draws are those of rounds 0 and 1 under one key.
        context = make_context(
            f"{game.draft.shape} {game.draft.law}", attempt=trial, rounds=trial % 2, settings=settings
        )
        proposal = game.draft.propose(context, game.n)
        rng = make_draws("0", attempt=trial // 2, round=trial % 2)
        decision = subject.call((context, proposal, verified(proposal.items, proposal.parents), rng))
        emitted = tuple(map(int, values_of(proposal, decision)))
        ensure(emitted, f"{game.words} nothing was emitted; keep or splice at least one value")
        yield emitted[: game.depth], decision


def _verified(target: TargetFrom, items: tuple[int, ...], parents: tuple[int, ...]) -> Verification:
    return target.verify(make_context(), Proposal.tree(items, parents))


@lru_cache(maxsize=4096)
def _rest(game: _Game, prefix: tuple[int, ...]) -> Any:
    """The distribution [V ** depth] of sequences that begin with `prefix` and go on as the target does."""
    joint, sequences = np.ones(1), [()]
    for place in range(game.depth):
        if place < len(prefix):
            rows = [np.arange(_V) == prefix[place]] * len(sequences)
        else:
            rows = [game.target.model(sequence, game.target.temperature) for sequence in sequences]
        joint = (joint[:, None] * np.stack(rows)).reshape(-1)
        sequences = [(*sequence, value) for sequence in sequences for value in range(_V)]  # type: ignore[misc]
    return joint
