"""The checks for acceptance rules: decisions that can be carried out, errors that stay errors, and exactness."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from types import SimpleNamespace
from typing import Any, NamedTuple

import msgspec
import numpy as np

from draftverify.kit.assertions import ERROR_PROBABILITY, NotExercised, ensure, exercised
from draftverify.kit.calls import LAWS, SHAPES
from draftverify.kit.contexts import make_context, make_draws, values_of
from draftverify.kit.registry import check
from draftverify.kit.subject import Subject, changed
from draftverify.kit.tables import DraftFrom, TablePair, TargetFrom
from draftverify.kit.unknowns import NotEnumerable, Path, Stream, explore
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
    for number, call in enumerate(subject.calls):
        second_answer = subject.answer(
            changed(call, draws=make_draws("elsewhere", role="draft", attempt=number))
        )
        problem = "the decision changes with context.draws; draw from `rng`"
        subject.same(subject.answers[number], second_answer, problem)


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
    """A rule that says `exact` emits the target's joint distribution, for every shape and law."""
    hint = "mend residual, bonus, tail or stream, declare fewer `laws` or `shapes`, or do not declare `exact`"
    try:
        for game in _games(subject):
            (joint, _), right = _emitted(subject, game), _going_on(game, ())
            worst = int(np.argmax(abs(joint - right)))
            sequence = [int(value) for value in np.unravel_index(worst, (_V,) * game.depth)]
            problem = f"{game} {sequence} comes first with probability {joint[worst]:.6g}"
            near = abs(joint[worst] - right[worst]) < _TOLERANCE
            ensure(near, f"{problem}, where the target has {right[worst]:.6g}; {hint}")
    except NotEnumerable:
        failures = _played(subject)
        ensure(not failures, f"{'; '.join(failures[:3])}; {hint}")


@check(
    "rule",
    after=[*_SOUND, "drift_has_an_entry_for_each_value"],
    when=lambda s: _needs("target")(s) and not s.traits.exact,
)
def drift_bounds_the_distance_from_the_target(subject: Subject) -> None:
    """The mean of the summed drift, where it is measured, is no less than the distance of what is emitted from p."""
    metered = False
    hint = "what is reported for each value must be TV(π, p) of what is emitted there, or more"
    for game in _games(subject):
        try:
            joint, drift = _emitted(subject, game)
        except NotEnumerable as unfollowed:
            raise NotExercised(f"its random numbers cannot be followed: {unfollowed}") from unfollowed
        metered |= drift is not None
        distance = float(np.abs(joint - _going_on(game, ())).sum()) / 2
        problem = f"{game} come sequences that lie {distance:.3f} from the target"
        within = drift is None or distance <= drift + _TOLERANCE
        ensure(within, f"{problem}, where the drift is {drift or 0.0:.3f} on average; {hint}")
    exercised(metered, "no decision reported drift: it measures none here")


_V = 4
_TOLERANCE = 1e-9
_LAYOUTS: dict[Shape, tuple[tuple[int, ...], int]] = {
    "chain": ((-1, 0, 1), 4),
    "alternatives": ((-1, -1, -1), 2),
    "tree": ((-1, -1, 0, 1), 3),
}


class _Game(NamedTuple):
    """A round that a rule plays: a drafter and a target over few values, and how many values are looked at."""

    draft: DraftFrom
    target: TargetFrom
    depth: int

    def __str__(self) -> str:
        return f"of a {self.draft.shape} of law {self.draft.law}"

    def call(self, context: Context) -> tuple[Context, Proposal, Verification]:
        """A rule's arguments but for its draws; the drafter's are the context's."""
        proposal = self.draft.propose(context, len(_LAYOUTS[self.draft.shape][0]))
        return context, proposal, self.target.verify(context, proposal)


def _games(subject: Subject) -> Iterator[_Game]:
    """The games for every shape and law that the rule declares: rows with mass everywhere, and with holes."""
    temperature = subject.contexts[0].settings.get("temperature", 1.0)
    for tables in (TablePair(_V, 1), TablePair(_V, 4, mixed=True)):
        for shape, law in product(subject.traits.shapes or SHAPES, subject.traits.laws or LAWS):
            parents, depth = _LAYOUTS[shape]
            draft = DraftFrom(tables.q, shape=shape, law=law, parents=parents)
            yield _Game(draft, TargetFrom(tables.p, temperature=temperature), depth)


def _emitted(subject: Subject, game: _Game) -> tuple[Any, float | None]:
    """The exact distribution [V ** depth] of what one round emits, the target going on after it, and its mean drift;
    None for a drift that no decision reports.

    Raises:
        NotEnumerable: the rule uses random numbers in a way that cannot be followed.
    """
    blank = make_context({}, settings=subject.contexts[0].settings)

    def play(path: Path) -> tuple[tuple[int, ...], tuple[float, ...]]:
        draws: Any = Stream(path, "draft")
        context, proposal, verification = game.call(msgspec.structs.replace(blank, draws=draws))
        decision = subject.call((context, proposal, verification, Stream(path, "rule")))
        emitted = tuple(map(int, values_of(proposal, decision)))
        ensure(emitted, f"{game} nothing was emitted; keep or splice at least one value")
        return emitted[: game.depth], decision.drift[: game.depth]

    joint, drift = np.zeros(_V**game.depth), None
    try:
        for (values, distances), probability in explore(play):
            joint += probability * _going_on(game, values)
            if distances:
                drift = (drift or 0.0) + probability * sum(distances)
    except AssertionError:
        raise
    except Exception as error:  # of a library that was given an unknown for a number
        raise NotEnumerable(f"{type(error).__name__}: {error}") from error
    return joint, drift


def _going_on(game: _Game, prefix: tuple[int, ...]) -> Any:
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


def _played(subject: Subject) -> tuple[str, ...]:
    """What is wrong in many rounds of a rule whose random numbers cannot be followed, by the audit's count of draws."""
    from draftverify.kit.audit.draws import draw_tests
    from draftverify.kit.audit.recorded import RecordedRound

    rounds = []
    for game in _games(subject):
        context, proposal, verification = game.call(make_context({}, settings=subject.contexts[0].settings))
        evidence: Any = verification.evidence
        rounds.append(
            RecordedRound(
                str(game), context, proposal, evidence.target, evidence.raw_maxima, (), None, 0.0, None
            )
        )
    rule: Any = SimpleNamespace(decide=lambda *arguments: subject.call(arguments))
    return draw_tests(rule, rounds, copies=subject.trials, error=ERROR_PROBABILITY).failures
