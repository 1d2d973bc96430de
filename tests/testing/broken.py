"""Components with one defect each, for the conformance kit to find. Each says which check must name it (`caught_by`),
and some the words in which (`says`).
"""

from __future__ import annotations

import random
import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from draftverify import (
    Check,
    Choice,
    Correction,
    Decision,
    Draws,
    Evidence,
    Proposal,
    Refusal,
    Verification,
    iid,
    without_replacement,
)
from draftverify.kit import DraftFrom, TableModel, TargetFrom
from draftverify.randomness import inverse_cdf, stream_key
from draftverify.traits import GeneratorTraits, RuleTraits, VerifierTraits

if TYPE_CHECKING:
    from fractions import Fraction

MODEL = TableModel(5, seed=3, order=1)


def _draw(row: Any, u: float) -> int:
    return int(inverse_cdf(np.asarray(row), np.asarray(u)))


# Generators


class ReportsAnotherTemperature:
    """Draws at temperature 0.7 and reports the row of temperature 1."""

    caught_by = "law_is_honest"
    traits = GeneratorTraits(laws={"iid"})

    def propose(self, context: Any, n: int) -> Proposal:
        row = MODEL(context.accepted)
        items = [_draw(MODEL(context.accepted, 0.7), context.draws.uniform(i)) for i in range(n)]
        return Proposal.alternatives(items, iid(np.stack([row])))


class ClaimsWithoutReplacement:
    """Draws siblings independently and says that they were drawn without replacement."""

    caught_by = "law_is_honest"
    traits = GeneratorTraits(laws={"without_replacement"})

    def propose(self, context: Any, n: int) -> Proposal:
        drawn = DraftFrom(MODEL, shape="alternatives").propose(context, n)
        return Proposal.alternatives(drawn.items, without_replacement(drawn.law.q))


class ClaimsIndependence:
    """Draws siblings without replacement from a uniform row, so that only their togetherness is wrong."""

    caught_by = "law_is_honest"
    traits = GeneratorTraits(laws={"iid"})

    def propose(self, context: Any, n: int) -> Proposal:
        flat = TableModel(5, sharpness=0.0)
        drawn = DraftFrom(flat, shape="alternatives", law="without_replacement").propose(context, n)
        return Proposal.alternatives(drawn.items, iid(drawn.law.q))


class UsesOneUniformTwice:
    """Draws every item of the chain with the same uniform."""

    caught_by = "law_is_honest"
    traits = GeneratorTraits(shape="chain", laws={"iid"})

    def propose(self, context: Any, n: int) -> Proposal:
        items: list[int] = []
        rows = []
        for _ in range(n):
            rows.append(MODEL([*context.accepted, *items]))
            items.append(_draw(rows[-1], context.draws.uniform(0)))
        return Proposal.chain(items, iid(np.stack(rows))) if n else Proposal.chain([], iid(np.empty((0, 5))))


class DropsWhatItDoubts:
    """Stops before a drawn item that it finds unlikely: the items that stay are not drawn from q."""

    caught_by = "law_is_honest"
    traits = GeneratorTraits(shape="chain", laws={"iid"})

    def propose(self, context: Any, n: int) -> Proposal:
        drawn = DraftFrom(MODEL).propose(context, n)
        sure = [drawn.law.q[i, item] > 0.15 for i, item in enumerate(drawn.items)]
        keep = sure.index(False) if False in sure else n
        return Proposal.chain(drawn.items[:keep], drawn.law)


class DrawsFromTheRulesStream:
    """Makes its own draws, of the rule's role."""

    caught_by = "draft_stream_is_its_own"
    traits = GeneratorTraits(shape="chain", laws={"iid"})

    def propose(self, context: Any, n: int) -> Proposal:
        rule = Draws(stream_key(0, context.task.id, context.attempt, "rule"), context.round)
        return _with_draws(context, rule, n)


class GivenByTheRulesStream(DrawsFromTheRulesStream):
    """Says that its items are given, but the rule's draws choose them."""

    traits = replace(DrawsFromTheRulesStream.traits, laws={"given"})

    def propose(self, context: Any, n: int) -> Proposal:
        return Proposal.chain(super().propose(context, n).items)


def _with_draws(context: Any, draws: Draws, n: int) -> Proposal:
    import msgspec

    return DraftFrom(MODEL).propose(msgspec.structs.replace(context, draws=draws), n)


class BreaksItsShape:
    """Declares chains and proposes alternatives."""

    caught_by = "answers_can_be_read"
    traits = GeneratorTraits(shape="chain")

    def propose(self, context: Any, n: int) -> Proposal:
        return Proposal.alternatives(list(range(n)))


class ProposesTooMany:
    """Proposes one more item than it was asked for."""

    caught_by = "answers_can_be_read"

    def propose(self, context: Any, n: int) -> Proposal:
        return Proposal.chain(list(range(n + 1)))


class RedraftsOneMore:
    """Drafts the refused items again, and one more."""

    caught_by = "answers_can_be_read"
    says = "3 items were proposed where at most 2 were asked for"

    def propose(self, context: Any, n: int) -> Proposal:
        return Proposal.alternatives([*context.refused, "new"] if context.refused else list(range(n)))


class ExtendsWhatIsNotHeld:
    """Names a held item where none is held."""

    caught_by = "answers_can_be_read"
    says = "extends names held item 0; 0 are held"

    def propose(self, context: Any, n: int) -> Proposal:
        return Proposal.alternatives(list(range(n)), extends=(0,) * n)


class HasForwardParents:
    """Gives items parents that come after them."""

    caught_by = "answers_can_be_read"

    def propose(self, context: Any, n: int) -> Proposal:
        return Proposal(items=list(range(n)), parents=tuple(range(1, n + 1)))


class UsesAnUndeclaredLaw:
    """Declares nothing, so law "given", and uses iid."""

    caught_by = "answers_can_be_read"

    def propose(self, context: Any, n: int) -> Proposal:
        return DraftFrom(MODEL).propose(context, n)


class ReportsLogits:
    """Reports unnormalised weights as q."""

    caught_by = "q_rows_are_distributions"
    traits = GeneratorTraits(laws={"iid"})

    def propose(self, context: Any, n: int) -> Proposal:
        drawn = DraftFrom(MODEL).propose(context, n)
        return Proposal.chain(drawn.items, iid(drawn.law.q * 3))


class DrawsTheImpossible:
    """Reports a q that gives what it drew no probability."""

    caught_by = "items_are_possible_under_q"
    traits = GeneratorTraits(laws={"iid"})

    def propose(self, context: Any, n: int) -> Proposal:
        return Proposal.alternatives([1] * n, iid(np.asarray([[1.0, 0.0]])))


class UsesGlobalRandom:
    """Draws from the global random generator."""

    caught_by = "reproducible_under_its_seed"

    def propose(self, context: Any, n: int) -> Proposal:
        return Proposal.alternatives([random.random() for _ in range(n)])


class SeedsGlobalRandom:
    """Is reproducible, by seeding the generator that everybody else in the process uses."""

    caught_by = "leaves_global_random_numbers_alone"

    def propose(self, context: Any, n: int) -> Proposal:
        random.seed(context.draws.seed())
        return Proposal.alternatives([random.random() for _ in range(n)])


class KeepsACursorInScratch:
    """Goes on from where its scratch says, which is lost when the scratch is emptied."""

    caught_by = "answers_the_same_without_scratch"

    def propose(self, context: Any, n: int) -> Proposal:
        start = context.scratch.get("cursor", 0)
        context.scratch["cursor"] = start + n
        return Proposal.chain(list(range(start, start + n)))


class TrustsTheMemory:
    """Takes every earlier task for one that has an answer."""

    caught_by = "answers_from_the_memory_given"
    says = "of tasks without an answer too"

    def propose(self, context: Any, n: int) -> Proposal:
        known = [record.outcome.value[0] for record in context.memory.records]
        return Proposal.alternatives([*known, *range(n)][:n])


class KeepsTheFirstMemory:
    """Reads the first memory that it meets, and stays with that."""

    caught_by = "answers_from_the_memory_given"
    says = "after calls with another context.memory"

    def __init__(self) -> None:
        self._known: list[Any] = []

    def propose(self, context: Any, n: int) -> Proposal:
        if not self._known:
            self._known = [item for record in context.memory.records for item in record.outcome.value or ()]
        return Proposal.alternatives([*self._known[::-1], *range(n)][:n])


class RemembersTasks:
    """Remembers on itself what it has proposed, and does not propose it again."""

    caught_by = "keeps_no_state_about_tasks"

    def __init__(self) -> None:
        self._seen: dict[str, int] = {}

    def propose(self, context: Any, n: int) -> Proposal:
        start = self._seen.get(context.task.id, 0)
        self._seen[context.task.id] = start + n
        return Proposal.chain(list(range(start, start + n)))


class AnswersForTheFirstTask:
    """Reads the task once and goes on with it, whichever task it is asked about."""

    caught_by = "keeps_no_state_about_tasks"

    def __init__(self) -> None:
        self._words: list[str] = []

    def propose(self, context: Any, n: int) -> Proposal:
        self._words = self._words or context.task.input["prompt"].split()
        return Proposal.chain(self._words[:n])


class LoadsInItsConstructor:
    """Does its work when it is made."""

    caught_by = "constructor_only_stores_its_arguments"

    def __init__(self, size: int = 5) -> None:
        self.size = size
        self.table = {i: i * i for i in range(size)}

    def propose(self, context: Any, n: int) -> Proposal:
        return Proposal.chain([self.table[i % self.size] for i in range(n)])


class ChangesItsArgument:
    """Keeps something else than what it was given."""

    caught_by = "constructor_only_stores_its_arguments"

    def __init__(self, size: int = 5) -> None:
        self.size = size + 1

    def propose(self, context: Any, n: int) -> Proposal:
        return Proposal.chain([1] * n)


class ForgetsItsArgument:
    """Keeps its argument under another name, so that no spec can be made of it."""

    caught_by = "constructor_only_stores_its_arguments"

    def __init__(self, size: int = 0) -> None:
        self._n = size

    def propose(self, context: Any, n: int) -> Proposal:
        return Proposal.chain([1] * n)


class ImportsItsTypesForCheckersOnly:
    """Has an annotation that cannot be read at run time."""

    caught_by = "annotations_resolve"

    def __init__(self, share: Fraction | None = None) -> None:
        self.share = share

    def propose(self, context: Any, n: int) -> Proposal:
        return Proposal.chain([1] * n)


class SaysItWhereNobodyLooks:
    """Declares its law as an attribute of its own."""

    caught_by = "says_what_it_is"
    laws = frozenset({"iid"})

    def propose(self, context: Any, n: int) -> Proposal:
        return Proposal.chain([1] * n)


class RaisesAlways:
    """Needs what no task has."""

    caught_by = "answers"

    def propose(self, context: Any, n: int) -> Proposal:
        raise KeyError("nothing")


class ReturnsAList:
    """Returns items and no Proposal."""

    caught_by = "answers_can_be_read"

    def propose(self, context: Any, n: int) -> Any:
        return list(range(n))


class ChangesTheTask:
    """Takes words out of the task's own input."""

    caught_by = "answers"

    def propose(self, context: Any, n: int) -> Proposal:
        context.task.input["seen"] = n
        return Proposal.chain([1] * n)


class SharesABuffer:
    """Works in a buffer on itself, which two threads then work in at once."""

    caught_by = "answers_the_same_from_four_threads"

    def __init__(self) -> None:
        self._word = ""

    def propose(self, context: Any, n: int) -> Proposal:
        self._word = context.task.id
        time.sleep(0.002)
        return Proposal.chain([self._word] * n)


class BatchesDifferently:
    """Gives the first session's proposal to all."""

    caught_by = "many_answers_as_one"

    def propose(self, context: Any, n: int) -> Proposal:
        return Proposal.chain([context.task.id] * n)

    def propose_many(self, contexts: list[Any], n: list[int]) -> list[Proposal]:
        return [self.propose(contexts[0], size) for size in n]


class ClosesOnce:
    """Cannot be closed twice."""

    caught_by = "closes_twice"

    def __init__(self) -> None:
        self._lock = threading.Lock()

    def open(self) -> None:
        self._lock.acquire(blocking=False)

    def close(self) -> None:
        self._lock.release()

    def propose(self, context: Any, n: int) -> Proposal:
        return Proposal.chain([1] * n)


# Verifiers


class _Even:
    """Passes even numbers; what is right here is spoilt below."""

    def verify(self, context: Any, proposal: Proposal) -> Verification:
        return Verification(checks=tuple(Check("reject" if item % 2 else "pass") for item in proposal.items))


class ForgetsTheLastItem(_Even):
    """Gives one verdict too few."""

    caught_by = "answers_can_be_read"

    def verify(self, context: Any, proposal: Proposal) -> Verification:
        return Verification(checks=super().verify(context, proposal).checks[:-1])


class ReturnsBooleans(_Even):
    """Returns no Verification."""

    caught_by = "answers_can_be_read"

    def verify(self, context: Any, proposal: Proposal) -> Any:
        return [item % 2 == 0 for item in proposal.items]


class SaysMaybe(_Even):
    """Invents a verdict."""

    caught_by = "answers_can_be_read"

    def verify(self, context: Any, proposal: Proposal) -> Verification:
        return Verification(checks=tuple(Check("maybe") for _ in proposal.items))


class PromisesScores(_Even):
    """Says that it scores, and does not."""

    caught_by = "provides_what_it_says"
    traits = VerifierTraits(provides={"verdicts", "scores"})


class KeepsItsScoresToItself(_Even):
    """Scores what passes, and does not say so: rules that compare scores refuse it."""

    caught_by = "says_that_it_gives_scores"
    says = "'scores' is not in `provides`"

    def verify(self, context: Any, proposal: Proposal) -> Verification:
        checks = super().verify(context, proposal).checks
        return Verification(checks=tuple(Check(check.verdict, 0.5) for check in checks))


class PromisesATarget(_Even):
    """Says that it gives distributions, and gives verdicts."""

    caught_by = "provides_what_it_says"
    traits = VerifierTraits(provides={"target"})


class CallsACrashAReject(_Even):
    """Takes every exception for a refusal."""

    caught_by = "a_crash_is_no_verdict"

    def verify(self, context: Any, proposal: Proposal) -> Verification:
        return Verification(checks=tuple(self._check(item) for item in proposal.items))

    def _check(self, item: Any) -> Check:
        try:
            return Check("reject" if item % 2 else "pass")
        except Exception:
            return Check("reject")


class SortsTheBlock(_Even):
    """Sorts the items that it was given."""

    caught_by = "leaves_its_arguments_alone"

    def verify(self, context: Any, proposal: Proposal) -> Verification:
        proposal.items.sort()
        return super().verify(context, proposal)


class PassesTheLargest(_Even):
    """Judges items against each other and calls it a verdict on each."""

    caught_by = "judges_an_item_alone_as_in_the_block"

    def verify(self, context: Any, proposal: Proposal) -> Verification:
        return Verification(
            checks=tuple(Check("pass" if x == max(proposal.items) else "reject") for x in proposal.items)
        )


class LooksAtTheFirstOnly(_Even):
    """Leaves the others unchecked, whatever came of the first."""

    caught_by = "leaves_items_unchecked_only_for_cause"

    def verify(self, context: Any, proposal: Proposal) -> Verification:
        whole = super().verify(context, proposal).checks
        return Verification(
            checks=tuple(check if i == 0 else Check("unchecked") for i, check in enumerate(whole))
        )


class StopsFromTheEnd(_Even):
    """Stops early from the wrong end: the highest index that passes is found first."""

    caught_by = "leaves_items_unchecked_only_for_cause"

    def verify(self, context: Any, proposal: Proposal) -> Verification:
        checks, passed = [], 0
        for check in reversed(super().verify(context, proposal).checks):
            stop = context.enough is not None and passed >= context.enough
            checks.append(Check("unchecked") if stop else check)
            passed += checks[-1].verdict == "pass"
        return Verification(checks=tuple(reversed(checks)))


class CorrectsOtherwiseEachTime(_Even):
    """Has another correction whenever it is asked."""

    caught_by = "reproducible_under_its_seed"
    says = "correction"

    def verify(self, context: Any, proposal: Proposal) -> Verification:
        checks = super().verify(context, proposal).checks
        return Verification(
            checks=tuple(
                check if check.verdict == "pass" else Check("reject", correction=random.random())
                for check in checks
            )
        )


class CorrectsWithAText(_Even):
    """Goes on with one text, which is no tuple of values."""

    caught_by = "answers_can_be_read"
    says = "correction came as a str; a tuple or a list is needed"

    def verify(self, context: Any, proposal: Proposal) -> Verification:
        return Verification(checks=super().verify(context, proposal).checks, correction="so on")  # type: ignore[arg-type]


class DividesByNothing(_Even):
    """Scores with a number that is none."""

    caught_by = "answers_can_be_read"
    says = "the score of item 0 is nan (float); a finite number is needed"
    traits = VerifierTraits(provides={"verdicts", "scores"})

    def verify(self, context: Any, proposal: Proposal) -> Verification:
        checks = super().verify(context, proposal).checks
        return Verification(checks=tuple(Check(check.verdict, float("nan")) for check in checks))


class BringsAnEndThatSaysYes(_Even):
    """Brings a stopping rule that answers yes or no."""

    caught_by = "done_says_how_many_to_keep"
    says = "no whole number; give len(new) to end after this round, None to go on"

    def done(self, context: Any, new: tuple[Any, ...]) -> Any:
        return len(context.accepted) > 2


class TossesACoin:
    """Judges at random."""

    caught_by = "reproducible_under_its_seed"

    def verify(self, context: Any, proposal: Proposal) -> Verification:
        return Verification(checks=tuple(Check(random.choice(["pass", "reject"])) for _ in proposal.items))


class SaysItGoesOn(_Even):
    """Says that an empty block brings a value, and brings none."""

    caught_by = "an_empty_block_is_a_plain_step"
    says = "an empty block brings no correction"
    traits = VerifierTraits(plain_steps=True)


class _Target:
    """The rows of a table, spoilt below."""

    traits = VerifierTraits(provides={"target"})

    def rows(self, context: Any, proposal: Proposal) -> Any:
        return TargetFrom(MODEL).verify(context, proposal).evidence.target

    def verify(self, context: Any, proposal: Proposal) -> Verification:
        return Verification(evidence=Evidence(target=self.rows(context, proposal)))


class GivesLogits(_Target):
    """Gives logits for probabilities."""

    caught_by = "target_rows_are_distributions"

    def rows(self, context: Any, proposal: Proposal) -> Any:
        return np.log(super().rows(context, proposal))


class LooksAhead(_Target):
    """Lets later items into the rows of earlier ones, as a forgotten causal mask does."""

    caught_by = "rows_depend_on_their_prefix_alone"

    def rows(self, context: Any, proposal: Proposal) -> Any:
        rows = super().rows(context, proposal)
        return (rows + rows[-1:]) / 2


class NeverRollsBack(_Target):
    """Keeps the prefix in its cache by length, and so what was refused with what was accepted."""

    caught_by = "answers_the_same_without_scratch"

    def verify(self, context: Any, proposal: Proposal) -> Verification:
        cache = context.scratch.setdefault("tokens", [])
        cache.extend([*context.accepted, *proposal.items][len(cache) :])
        prefix, n = cache[: len(context.accepted) + len(proposal.items)], len(proposal.items)
        rows = [MODEL(prefix[: len(prefix) - n + i]) for i in range(n + 1)]
        return Verification(evidence=Evidence(target=np.stack(rows)))


# Rules


class Prefix:
    """Keeps the passed prefix: right, and spoilt below."""

    def decide(self, context: Any, proposal: Proposal, verification: Verification, rng: Draws) -> Decision:
        passed = [self.passes(check.verdict) for check in verification.checks]
        n = passed.index(False) if False in passed else len(passed)
        if not proposal.fits("chain"):
            n = min(n, 1)
        refused = n < len(passed) and verification.checks[n].verdict == "reject"
        return Decision(kept=tuple(range(n)), refused=(Refusal(n),) if refused else ())

    def passes(self, verdict: str) -> bool:
        return verdict == "pass"


class TakesErrorsForPasses(Prefix):
    """Accepts what it has no verdict on."""

    caught_by = "decides_on_judged_items_alone"

    def passes(self, verdict: str) -> bool:
        return verdict in ("pass", "error")


class RefusesErrors(Prefix):
    """Refuses what nobody has judged."""

    caught_by = "decides_on_judged_items_alone"

    def decide(self, context: Any, proposal: Proposal, verification: Verification, rng: Draws) -> Decision:
        refused = [i for i, check in enumerate(verification.checks) if check.verdict != "pass"]
        return Decision(refused=tuple(Refusal(i) for i in refused))


class KeepsAfterAGap(Prefix):
    """Keeps every passed item of a chain, whatever stood before it."""

    caught_by = "keeps_a_path"

    def decide(self, context: Any, proposal: Proposal, verification: Verification, rng: Draws) -> Decision:
        return Decision(
            kept=tuple(i for i, check in enumerate(verification.checks) if check.verdict == "pass")
        )


class KeepsAndRefuses(Prefix):
    """Names an item twice."""

    caught_by = "answers_can_be_read"

    def decide(self, context: Any, proposal: Proposal, verification: Verification, rng: Draws) -> Decision:
        kept = super().decide(context, proposal, verification, rng).kept
        return Decision(kept=kept, refused=tuple(Refusal(i) for i in kept))


class KeepsAndCorrects(Prefix):
    """Keeps an item and has another value in its place."""

    caught_by = "answers_can_be_read"
    says = "an item was decided on twice (kept, corrected, held or refused)"

    def decide(self, context: Any, proposal: Proposal, verification: Verification, rng: Draws) -> Decision:
        kept = super().decide(context, proposal, verification, rng).kept
        return Decision(kept=kept, corrected=tuple(Correction(i, "other") for i in kept))


class CorrectsPastTheEnd(Prefix):
    """Puts the verifier's correction behind the block."""

    caught_by = "answers_can_be_read"
    says = "was decided on in a block of"

    def decide(self, context: Any, proposal: Proposal, verification: Verification, rng: Draws) -> Decision:
        return Decision(corrected=(Correction(len(proposal), "other"),))


class KeepsBehindACorrection(Prefix):
    """Corrects the first item of a chain and keeps what was drafted after the old one."""

    caught_by = "keeps_a_path"
    says = "items [0] corrected; an item stands on its parents"
    traits = RuleTraits(shapes={"chain"})

    def decide(self, context: Any, proposal: Proposal, verification: Verification, rng: Draws) -> Decision:
        passed = all(check.verdict == "pass" for check in verification.checks[1:])
        kept = tuple(range(1, len(proposal))) if passed else ()
        return Decision(kept=kept, corrected=(Correction(0, "other"),) if len(proposal) else ())


class AbstainsWithAnAnswer(Prefix):
    """Keeps what passed, and says that there is no answer."""

    caught_by = "abstains_with_empty_hands"
    says = "a decision abstains, and keeps, corrects or splices something"

    def decide(self, context: Any, proposal: Proposal, verification: Verification, rng: Draws) -> Decision:
        kept = super().decide(context, proposal, verification, rng).kept
        return Decision(kept=kept, abstain=True)


class ComparesScoresOnly(Prefix):
    """Takes it that every passed item has a score, which those that a person passes have not."""

    caught_by = "decides_on_what_a_person_passed"
    says = "an item passed by a person has no score"
    traits = RuleTraits(shapes={"alternatives"}, needs={"verdicts", "scores"})

    def decide(self, context: Any, proposal: Proposal, verification: Verification, rng: Draws) -> Decision:
        scores = {i: check.score for i, check in enumerate(verification.checks) if check.verdict == "pass"}
        good = [i for i, score in scores.items() if score > 0.1]  # type: ignore[operator]
        return Decision(held=tuple(good))


class EndsWithATruth(Prefix):
    """Brings a stopping rule that answers yes or no."""

    caught_by = "done_says_how_many_to_keep"
    says = "how many values to keep: "

    def done(self, context: Any, new: tuple[Any, ...]) -> Any:
        return bool(new)


class SharesByNothing(Prefix):
    """Divides by the votes for another answer, of which there are none."""

    caught_by = "finish_makes_a_value"
    says = "the support of what finish() returned is nan (float); a finite number is needed"

    def finish(self, context: Any) -> Any:
        return Choice("it", support=float("nan"))


class CountsSupport(Prefix):
    """Gives the number of votes for their share."""

    caught_by = "finish_makes_a_value"
    says = "the support of the value is 3.0; 0 to 1 is needed"

    def finish(self, context: Any) -> Any:
        return Choice("it", support=3.0)


class CountsFromOne(Prefix):
    """Names the item after the one it means."""

    caught_by = "answers_can_be_read"

    def decide(self, context: Any, proposal: Proposal, verification: Verification, rng: Draws) -> Decision:
        return Decision(kept=tuple(i + 1 for i in super().decide(context, proposal, verification, rng).kept))


class ReturnsANumber(Prefix):
    """Returns how many items to keep, and no Decision."""

    caught_by = "answers_can_be_read"

    def decide(self, context: Any, proposal: Proposal, verification: Verification, rng: Draws) -> Any:
        return len(verification.checks)


class LosesPatience(Prefix):
    """Counts its calls and accepts everything after ten of them."""

    caught_by = "keeps_no_state_about_tasks"

    def __init__(self) -> None:
        self._calls = 0

    def decide(self, context: Any, proposal: Proposal, verification: Verification, rng: Draws) -> Decision:
        self._calls += 1
        return super().decide(context, proposal, verification, rng) if self._calls < 10 else Decision()


class Speculative:
    """Speculative sampling written plainly: right, and spoilt below."""

    traits = RuleTraits(shapes={"chain"}, laws={"iid"}, needs={"target"}, exact=True)

    def decide(self, context: Any, proposal: Proposal, verification: Verification, rng: Draws) -> Decision:
        p, q = verification.evidence.target, proposal.law.q
        for i, x in enumerate(proposal.items):
            if rng.uniform(i) * q[i, x] >= p[i, x]:
                row = self.residual(p[i], q[i])
                return Decision(
                    kept=tuple(range(i)),
                    spliced=(_draw(row, rng.uniform(i, 1)),),
                    refused=(Refusal(i),),
                    drift=self.drift(i + 1),
                )
        n = len(proposal.items)
        bonus = _draw(self.bonus(p, q), rng.uniform(n, 1))
        return Decision(kept=tuple(range(n)), spliced=(bonus,), drift=self.drift(n + 1))

    def drift(self, values: int) -> tuple[float, ...]:
        return () if self.traits.exact else (1.0,) * values

    def residual(self, p: Any, q: Any) -> Any:
        return np.maximum(p - q, 0)

    def bonus(self, p: Any, q: Any) -> Any:
        return p[-1]


class DrawsTheResidualFromP(Speculative):
    """Draws from p after a refusal, not from what is left of p."""

    caught_by = "exact_means_the_targets_distribution"

    def residual(self, p: Any, q: Any) -> Any:
        return p


class DrawsTheBonusFromQ(Speculative):
    """Draws the bonus token from the drafter's last row."""

    caught_by = "exact_means_the_targets_distribution"

    def bonus(self, p: Any, q: Any) -> Any:
        return q[-1] if len(q) else p[-1]


class ClaimsEveryLaw(Speculative):
    """Takes siblings drawn without replacement for a chain of draws: right only for what it was written for."""

    caught_by = "exact_means_the_targets_distribution"
    traits = replace(Speculative.traits, laws={"iid", "given"})

    def decide(self, context: Any, proposal: Proposal, verification: Verification, rng: Draws) -> Decision:
        if proposal.law.q is None:
            return Decision(kept=tuple(range(len(proposal.items))), spliced=(0,))
        return super().decide(context, proposal, verification, rng)


class SplicesOutside(Speculative):
    """Splices a value that is no token."""

    caught_by = "splices_values_of_the_vocabulary"
    traits = replace(Speculative.traits, exact=False)

    def bonus(self, p: Any, q: Any) -> Any:
        return [0.0] * p.shape[1] + [1.0]


class ReportsDriftOfSomeBlocks(Speculative):
    """Emits something else than p, and shows it of the blocks that it kept whole alone."""

    caught_by = "drift_has_an_entry_for_each_value"
    traits = replace(Speculative.traits, exact=False)

    def drift(self, values: int) -> tuple[float, ...]:
        return (1.0,) * values if values > 2 else ()


class ReportsDriftThoughExact(Speculative):
    """Says that it emits p, and shows a distance from it."""

    caught_by = "drift_has_an_entry_for_each_value"

    def drift(self, values: int) -> tuple[float, ...]:
        return (0.0,) * values


class ReportsTooLittleDrift(Speculative):
    """Keeps every draft, which emits q, and shows a tenth of the distance, at most."""

    caught_by = "drift_bounds_the_distance_from_the_target"
    traits = replace(Speculative.traits, exact=False)

    def decide(self, context: Any, proposal: Proposal, verification: Verification, rng: Draws) -> Decision:
        n, p = len(proposal.items), verification.evidence.target
        spliced = (_draw(p[-1], rng.uniform(n, 1)),)
        return Decision(kept=tuple(range(n)), spliced=spliced, drift=(0.05,) * n + (0.0,))


class DrawsFromTheDraftersStream(Speculative):
    """Draws from context.draws instead of its own rng."""

    caught_by = "draws_from_rng_alone"
    traits = replace(Speculative.traits, exact=False)

    def decide(self, context: Any, proposal: Proposal, verification: Verification, rng: Draws) -> Decision:
        return super().decide(context, proposal, verification, context.draws)


class DrawsFromNumpy(Speculative):
    """Draws from NumPy's global generator."""

    caught_by = "reproducible_under_its_seed"

    def bonus(self, p: Any, q: Any) -> Any:
        return np.random.default_rng().permutation(np.eye(p.shape[-1])[0])

    residual = bonus


class NormalisesInPlace(Speculative):
    """Writes into the verifier's array."""

    caught_by = "leaves_its_arguments_alone"

    def residual(self, p: Any, q: Any) -> Any:
        p -= q
        return np.maximum(p, 0)


BROKEN = [
    value
    for value in list(globals().values())
    if isinstance(value, type) and value.__module__ == __name__ and hasattr(value, "caught_by")
]
