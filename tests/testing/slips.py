"""Parts with one slip each, as their authors make them: a table of what is wrong, which check must say so, and a word
of the true cause that its message must hold. What is right in a part is the shipped one's or the plain one's here.
"""

from __future__ import annotations

import asyncio
import math
import random
from collections import Counter
from dataclasses import replace
from functools import lru_cache
from typing import Any, ClassVar, NamedTuple

import msgspec
import numpy as np

from draftverify import Check, Choice, Decision, Draws, Evidence, Proposal, Refusal, Verification, iid
from draftverify.kit import DraftFrom, TableModel, TargetFrom, make_context
from draftverify.randomness import inverse_cdf
from draftverify.traits import GeneratorTraits, RuleTraits, VerifierTraits

from .broken import Prefix, Speculative

MODEL = TableModel(5, seed=3, order=2)


class Slip(NamedTuple):
    """One slip: the part, the check that must name it, and words of its message."""

    name: str
    part: Any
    check: str
    says: str


SLIPS: list[Slip] = []


def slip(check: str, says: str) -> Any:
    """Put an instance of the class into the table."""

    def register(kind: Any) -> Any:
        SLIPS.append(Slip(kind.__name__, kind(), check, says))
        return kind

    return register


def draw(row: Any, u: float) -> int:
    return int(inverse_cdf(np.asarray(row, dtype=np.float64), np.asarray(u)))


# Generators


class Drafts:
    """Draws a chain from a table: right, and spoilt below."""

    traits = GeneratorTraits(shape="chain", laws={"iid"})

    def row(self, context: Any, items: list[int]) -> Any:
        return MODEL([*context.accepted, *items])

    def told(self, context: Any, items: list[int]) -> Any:
        return self.row(context, items)

    def numbers(self, context: Any, n: int) -> Any:
        return context.draws.uniforms(range(n))

    def propose(self, context: Any, n: int) -> Any:
        items: list[int] = []
        q: list[Any] = []
        for u in self.numbers(context, n):
            q.append(self.told(context, items))
            items.append(draw(self.row(context, items), u))
        return Proposal.chain(items, iid(np.stack(q) if q else np.empty((0, 5))))


@slip("draws_anew_each_round", "random numbers of one round are used again in the next")
class SeedsWithTheKey(Drafts):
    def numbers(self, context: Any, n: int) -> Any:
        return np.random.default_rng(list(context.draws.key)).random(n)


@slip("draws_anew_each_round", "random numbers of one round are used again 3 rounds later")
class SeedsWithTheRoundOfThree(Drafts):
    def numbers(self, context: Any, n: int) -> Any:
        return np.random.default_rng([*context.draws.key, context.draws.round % 3]).random(n)


@slip("draws_anew_each_round", "draws.key alone is the same in every round")
class SamplesTheSameAgain:
    def propose(self, context: Any, n: int) -> Proposal:
        rng = random.Random(context.draws.key[0])
        return Proposal.alternatives([rng.choice("abcdef") for _ in range(n)])


@slip("law_is_honest", "those 1 further back in the next round")
class CountsOnFromTheRound(Drafts):
    def numbers(self, context: Any, n: int) -> Any:
        return [Draws(context.draws.key, 0).uniform(context.draws.round + i) for i in range(n)]


@slip("law_is_honest", "those 2 further on in the next round")
class KeepsTheFirstNumber(Drafts):
    """The last item of a block is drawn with the number of the first one a round before."""

    def numbers(self, context: Any, n: int) -> Any:
        before = Draws(context.draws.key, context.draws.round - 1).uniform(0) if context.draws.round else 0.5
        mine = context.draws.uniforms(range(n))
        return [*mine[:2], *([before] if context.draws.round and n > 2 else mine[2:])]


@slip("law_is_honest", "the generator's items number 1, by their rank in q")
class HeatsUpAfterTheFirst(Drafts):
    def row(self, context: Any, items: list[int]) -> Any:
        return MODEL([*context.accepted, *items], 1.6 if items else 1.0)

    def told(self, context: Any, items: list[int]) -> Any:
        return MODEL([*context.accepted, *items])


@slip("law_is_honest", "after temperature and cuts")
class CutsUnsaid(Drafts):
    def row(self, context: Any, items: list[int]) -> Any:
        row = self.told(context, items)
        return np.where(row >= np.sort(row)[-3], row, 0.0)

    def told(self, context: Any, items: list[int]) -> Any:
        return MODEL([*context.accepted, *items])


@slip("law_is_honest", "by their rank in q")
class MirrorsItsNumbers(Drafts):
    def numbers(self, context: Any, n: int) -> Any:
        u = context.draws.uniform(0)
        return [u if i % 2 == 0 else 1 - u - 2**-53 for i in range(n)]


@slip("law_is_honest", "first item against its q")
class SortsItsSiblings:
    traits = GeneratorTraits(shape="alternatives", laws={"without_replacement"})

    def propose(self, context: Any, n: int) -> Proposal:
        made = DraftFrom(MODEL, shape="alternatives", law="without_replacement").propose(context, n)
        return Proposal.alternatives(sorted(made.items), made.law)


@slip("law_is_honest", "the generator's items number 2, by their rank in q")
class ReportsTheFirstParentsRow:
    """Children of the second root get the q of the first one's."""

    traits = GeneratorTraits(laws={"iid"})

    def propose(self, context: Any, n: int) -> Proposal:
        made = DraftFrom(MODEL, parents=(-1, -1, 1), shape="tree").propose(context, n)
        if n > 2:
            made.law.q[2] = MODEL([*context.accepted, made.items[0]])  # type: ignore[index]
        return made


@slip("answers_stay_as_they_were", "a buffer was used again")
class FillsOneArray(Drafts):
    _q = np.empty((8, 5))

    def propose(self, context: Any, n: int) -> Proposal:
        made = super().propose(context, n)
        self._q[:n] = made.law.q
        return Proposal.chain(made.items, iid(self._q[:n]))


@slip("answers_stay_as_they_were", "a buffer was used again")
class ExtendsOneList:
    def __init__(self) -> None:
        self._items: list[int] = []

    def propose(self, context: Any, n: int) -> Proposal:
        self._items[:] = range(len(context.accepted), len(context.accepted) + n)
        return Proposal.chain(self._items)


@slip("answers_the_same_without_expected", "a run takes it out before any part sees the task")
class ProposesTheTruth:
    def propose(self, context: Any, n: int) -> Proposal:
        words = context.task.input["prompt"].split()
        return Proposal.alternatives([context.task.expected.get("solution", words[0]), *words[1:]][:n])


@slip("keeps_no_state_about_tasks", "CountsOnItsClass._seen: a global cache or counter")
class CountsOnItsClass:
    _seen: ClassVar[dict[str, int]] = {}

    def propose(self, context: Any, n: int) -> Proposal:
        start = self._seen.get(context.task.id, 0)
        self._seen[context.task.id] = start + n
        return Proposal.chain(list(range(start, start + n)))


CACHE: dict[Any, Any] = {}


@slip("keeps_no_state_about_tasks", "slips.CACHE: a global cache or counter")
class CachesByLength:
    def propose(self, context: Any, n: int) -> Proposal:
        key = len(context.accepted), n
        if key not in CACHE:
            CACHE[key] = context.task.input["prompt"].split()[:n]
        return Proposal.chain(CACHE[key])


@slip("keeps_no_state_about_tasks", "propose().cache: a global cache or counter")
class CachesInADefault:
    def propose(self, context: Any, n: int, cache: dict[int, Any] = {}) -> Proposal:  # noqa: B006
        return Proposal.chain(cache.setdefault(n, context.task.input["prompt"].split()[:n]))


WORDS: list[list[str]] = [[]]


@lru_cache
def first_words(length: int) -> list[str]:
    return WORDS[0]


@slip("keeps_no_state_about_tasks", "first_words")
class CachesAFunction:
    def propose(self, context: Any, n: int) -> Proposal:
        WORDS[0] = context.task.input["prompt"].split()
        return Proposal.chain(first_words(len(context.accepted))[:n])


@slip("keeps_no_state_about_tasks", "CountsItsCalls.calls: a global cache or counter")
class CountsItsCalls:
    calls = 0

    def propose(self, context: Any, n: int) -> Proposal:
        type(self).calls += 1
        return Proposal.chain([self.calls] * n)


@slip("many_answers_as_one", "differ for a call as number")
class DraftsOneLengthForAll(Drafts):
    def propose_many(self, contexts: Any, ns: Any) -> list[Any]:
        return [self.propose(context, max(ns)) for context in contexts]


@slip("many_answers_as_one", "as number 0 of 2")
class AnswersBackwards(Drafts):
    def propose_many(self, contexts: Any, ns: Any) -> list[Any]:
        return [self.propose(*each) for each in zip(contexts, ns, strict=True)][::-1]


@slip("many_answers_as_one", "differ for a call")
class DrawsWithTheFirstSessions(Drafts):
    def propose_many(self, contexts: Any, ns: Any) -> list[Any]:
        drawn = [msgspec.structs.replace(each, draws=contexts[0].draws) for each in contexts]
        return [self.propose(*each) for each in zip(drawn, ns, strict=True)]


@slip("many_answers_as_one", "gave 0 answers to 1 calls")
class SkipsALoneSession(Drafts):
    def propose_many(self, contexts: Any, ns: Any) -> list[Any]:
        return [self.propose(*each) for each in zip(contexts, ns, strict=True)] if len(ns) > 1 else []


@slip("many_answers_as_one", "differ for a call")
class AnswersAsTheyCome:
    """Coroutines for a batch, given in the order in which they end."""

    async def propose(self, context: Any, n: int) -> Proposal:
        await asyncio.sleep(0.001 / (1 + len(context.task.id) + 7 * (context.task.id == "b")))
        return Proposal.alternatives([f"{context.task.id}{i}" for i in range(n)])

    async def propose_many(self, contexts: Any, ns: Any) -> list[Any]:
        calls = [self.propose(*each) for each in zip(contexts, ns, strict=True)]
        return [await each for each in asyncio.as_completed(calls)]


@slip("answers_the_same_from_four_threads", "calls at the same time differ")
class RemembersAcrossAnAwait:
    def __init__(self) -> None:
        self._task = ""

    async def propose(self, context: Any, n: int) -> Proposal:
        self._task = context.task.id
        await asyncio.sleep(0)
        return Proposal.alternatives([self._task] * n)


# Verifiers


class Evens:
    """Passes even numbers; what is right here is spoilt below."""

    def check(self, item: Any) -> Check:
        return Check("reject" if item % 2 else "pass")

    def verify(self, context: Any, proposal: Any) -> Any:
        return Verification(checks=tuple(self.check(item) for item in proposal.items))


@slip("a_crash_is_no_verdict", "was judged 'pass'")
class TakesACrashForAPass(Evens):
    def check(self, item: Any) -> Check:
        try:
            return super().check(item)
        except Exception:
            return Check("pass")


@slip("a_crash_is_no_verdict", "crashed (TimeoutError")
class TakesATimeoutForAReject(Evens):
    def check(self, item: Any) -> Check:
        try:
            return super().check(item)
        except TimeoutError:
            return Check("reject")


@slip("a_crash_is_no_verdict", "was judged 'unchecked'")
class HidesACrash(Evens):
    def check(self, item: Any) -> Check:
        try:
            return super().check(item)
        except Exception:
            return Check("unchecked")


@slip("a_crash_is_its_own_items_alone", "beside an item whose check crashes")
class GuardsTheWholeBlock(Evens):
    def verify(self, context: Any, proposal: Any) -> Any:
        try:
            return super().verify(context, proposal)
        except Exception:
            n = len(proposal)
            return Verification(checks=(Check("error"),) if n == 1 else (Check("reject"),) * n)


class Stops(Evens):
    """Stops early, and says something of what it left."""

    left = "unchecked"

    def verify(self, context: Any, proposal: Any) -> Any:
        checks: list[Check] = []
        for item in proposal.items:
            passed = sum(each.verdict == "pass" for each in checks)
            stop = context.enough is not None and passed >= context.enough
            checks.append(Check(self.left) if stop else self.check(item))  # type: ignore[arg-type]
        return Verification(checks=tuple(checks))


@slip("leaves_items_unchecked_only_for_cause", "judged 'reject' with context.enough = 1 and 'pass' without")
class RejectsWhatItLeft(Stops):
    left = "reject"


@slip("leaves_items_unchecked_only_for_cause", "judged 'pass' with context.enough = 1 and 'reject' without")
class PassesWhatItLeft(Stops):
    left = "pass"


@slip("leaves_items_unchecked_only_for_cause", "what is left unlooked at once enough passed is 'unchecked'")
class RejectsAllButTheOnlyOne(Stops):
    """Only 4 passes: what stands behind it is refused anyway, but not another 4."""

    left = "reject"

    def check(self, item: Any) -> Check:
        return Check("pass" if item == 4 else "reject")


@slip("leaves_items_unchecked_only_for_cause", "is unchecked with context.enough = None")
class StopsAtARefusal(Evens):
    """Right for a chain; in a tree the next sibling does not stand on the refused item."""

    def verify(self, context: Any, proposal: Any) -> Any:
        checks = super().verify(context, proposal).checks
        if proposal.fits("alternatives"):
            return Verification(checks=checks)
        n = next((i for i, each in enumerate(checks) if each.verdict == "reject"), len(checks))
        return Verification(checks=(*checks[: n + 1], *[Check("unchecked")] * (len(checks) - n - 1)))


class Scores(Evens):
    """Scores each item, well or badly."""

    traits = VerifierTraits(provides={"verdicts", "scores"})

    def score(self, item: Any, items: Any) -> Any:
        return 1 / (1 + item)

    def verify(self, context: Any, proposal: Any) -> Any:
        items = proposal.items
        return Verification(checks=tuple(Check("pass", self.score(item, items)) for item in items))


@slip("answers_can_be_read", "nan")
class ScoresNothing(Scores):
    traits = VerifierTraits()

    def score(self, item: Any, items: Any) -> Any:
        return float("nan") if item == 3 else 0.5


@slip("answers_can_be_read", "the score of item 0 is '1.0' (str)")
class ScoresInWords(Scores):
    def score(self, item: Any, items: Any) -> Any:
        return str(super().score(item, items))


@slip("answers_can_be_read", "inf")
class ScoresWithoutEnd(Scores):
    def score(self, item: Any, items: Any) -> Any:
        return float("inf") if item == 0 else 1 / item


@slip("judges_an_item_alone_as_in_the_block", "relative to the block")
class ScoresAsShares(Scores):
    def score(self, item: Any, items: Any) -> Any:
        return math.exp(-item) / sum(math.exp(-other) for other in items)


@slip("judges_an_item_alone_as_in_the_block", "relative to the block")
class ScoresByRank(Scores):
    def score(self, item: Any, items: Any) -> Any:
        return float(sorted(items).index(item))


@slip("judges_an_item_alone_as_in_the_block", "judged 'pass' in the block and 'reject' alone")
class PassesTheTopThree(Evens):
    def verify(self, context: Any, proposal: Any) -> Any:
        items = proposal.items
        good = sorted(items)[-3:] if len(items) > 3 else []
        return Verification(checks=tuple(Check("pass" if item in good else "reject") for item in items))


@slip("follows_the_paths_of_a_tree", "in the chain of its path")
class ComparesWithTheItemBefore(Evens):
    """Each step must be another than the one before it, which is not always the one with the index before."""

    def verify(self, context: Any, proposal: Any) -> Any:
        if proposal.fits("alternatives"):
            return super().verify(context, proposal)
        before = [None, *proposal.items][: len(proposal)]
        same = (one == other for one, other in zip(before, proposal.items, strict=True))
        return Verification(checks=tuple(Check("reject" if each else "pass") for each in same))


@slip("keeps_no_state_about_tasks", "JudgesAnItemOnce._known: a global cache or counter")
class JudgesAnItemOnce:
    """What was said of an item in one task is said of it in all."""

    _known: ClassVar[dict[Any, Any]] = {}

    def verify(self, context: Any, proposal: Any) -> Any:
        words = len(context.task.input["prompt"].split())
        said = ["pass" if self._known.setdefault(item, item < words) else "reject" for item in proposal.items]
        return Verification(checks=tuple(map(Check, said)))  # type: ignore[arg-type]


@slip("draws_anew_each_round", "random numbers of one round are used again in the next")
class JudgesWithTheKey:
    def verify(self, context: Any, proposal: Any) -> Any:
        said = [random.Random(f"{context.draws.key} {item}").random() < 0.5 for item in proposal.items]
        return Verification(checks=tuple(Check("pass" if each else "reject") for each in said))


@slip("prepare_adds_to_the_task", "made the id")
class RenamesTheTask(Evens):
    def prepare(self, task: Any) -> Any:
        return msgspec.structs.replace(task, id=task.id + " prepared")


@slip("prepare_adds_to_the_task", "gives two")
class PreparesOtherwiseEachTime(Evens):
    def prepare(self, task: Any) -> Any:
        return msgspec.structs.replace(task, input={**task.input, "salt": random.random()})


@slip("answers_the_same_from_four_threads", "calls at the same time differ")
class JudgesAcrossAnAwait(Evens):
    def __init__(self) -> None:
        self._items: Any = None

    async def verify(self, context: Any, proposal: Any) -> Any:
        self._items = proposal.items
        await asyncio.sleep(0)
        return Verification(checks=tuple(map(self.check, self._items)))


@slip("judges_an_item_alone_as_in_the_block", "alone")
class ChecksAsTheyCome(Evens):
    """Awaits its items together and gives the checks in the order in which they end."""

    async def verify(self, context: Any, proposal: Any) -> Any:
        async def check(place: int, item: Any) -> Check:
            for _ in range(len(proposal.items) - place):
                await asyncio.sleep(0)
            return self.check(item)

        calls = [check(*each) for each in enumerate(proposal.items)]
        found = [await each for each in asyncio.as_completed(calls)]
        return Verification(checks=tuple(found))


@slip("answers_the_same_without_expected", "a run takes it out before any part sees the task")
class JudgesByTheTruth(Evens):
    def verify(self, context: Any, proposal: Any) -> Any:
        right = context.task.expected.get("answer")
        return Verification(
            checks=tuple(Check("pass") if item == right else self.check(item) for item in proposal.items)
        )


class Measures:
    """Gives a table's rows: right, and spoilt below."""

    traits = VerifierTraits(provides={"target"})

    def rows(self, context: Any, proposal: Any) -> Any:
        return TargetFrom(MODEL).verify(context, proposal).evidence.target  # type: ignore[union-attr]

    def verify(self, context: Any, proposal: Any) -> Any:
        return Verification(evidence=Evidence(target=self.rows(context, proposal)))


@slip("rows_depend_on_their_prefix_alone", "all rows stand one place too early")
class ShiftsEarly(Measures):
    def rows(self, context: Any, proposal: Any) -> Any:
        rows = super().rows(context, proposal)
        return np.concatenate([rows[1:], rows[-1:]])


@slip("rows_depend_on_their_prefix_alone", "all rows stand one place too late")
class ShiftsLate(Measures):
    def rows(self, context: Any, proposal: Any) -> Any:
        rows = super().rows(context, proposal)
        return np.concatenate([rows[:1], rows[:-1]]) if len(rows) > 1 else rows


@slip("rows_depend_on_their_prefix_alone", "mask what comes later")
class SeesTheLastItem(Measures):
    def rows(self, context: Any, proposal: Any) -> Any:
        rows = super().rows(context, proposal)
        rows[0] = rows[0] if len(rows) < 4 else rows[-1]
        return rows


@slip("rows_depend_on_their_prefix_alone", "context.accepted must be read as the block's items are")
class ForgetsWhatWasAccepted(Measures):
    def rows(self, context: Any, proposal: Any) -> Any:
        return super().rows(make_context(context.task), proposal)


@slip("follows_the_paths_of_a_tree", "read proposal.parents")
class ReadsATreeAsAChain(Measures):
    def rows(self, context: Any, proposal: Any) -> Any:
        return super().rows(context, Proposal.chain(proposal.items))


@slip("follows_the_paths_of_a_tree", "item 3 is not that after its path [3]")
class HangsRootsBelowTheFirst(Measures):
    def rows(self, context: Any, proposal: Any) -> Any:
        parents = [max(parent, 0) if i else -1 for i, parent in enumerate(proposal.parents)]
        return super().rows(context, Proposal.tree(proposal.items, parents))


@slip("answers_stay_as_they_were", "a buffer was used again")
class MeasuresIntoOneArray(Measures):
    _target = np.empty((16, 5))

    def rows(self, context: Any, proposal: Any) -> Any:
        rows = super().rows(context, proposal)
        self._target[: len(rows)] = rows
        return self._target[: len(rows)]


@slip("keeps_no_state_about_tasks", "CachesRowsByTask._rows: a global cache or counter")
class CachesRowsByTask(Measures):
    _rows: ClassVar[dict[Any, Any]] = {}

    def rows(self, context: Any, proposal: Any) -> Any:
        key = context.task.id, len(context.accepted), len(proposal)
        return self._rows.setdefault(key, super().rows(context, proposal)).copy()


@slip("answers_can_be_read", "raw_maxima has 1 rows; 4 are needed for 3 items")
class GivesOneMaximum(Measures):
    traits = replace(Measures.traits, provides={"target", "raw_maxima"})

    def verify(self, context: Any, proposal: Any) -> Any:
        rows = self.rows(context, proposal)
        return Verification(evidence=Evidence(target=rows, raw_maxima=rows[:1].max(axis=1)))


@slip("many_answers_as_one", "rows of another session or of the padding")
class PadsToTheLongest(Measures):
    """The last row of a shorter block is that of the padding."""

    def verify_many(self, contexts: Any, proposals: Any) -> list[Any]:
        longest = max(map(len, proposals))
        padded = [
            Proposal.tree(
                [*each.items, *[0] * (longest - len(each))],
                [*each.parents, *range(len(each) - 1, longest - 1)],
            )
            for each in proposals
        ]
        whole = [self.rows(*each) for each in zip(contexts, padded, strict=True)]
        return [
            Verification(evidence=Evidence(target=np.concatenate([rows[: len(each)], rows[-1:]])))
            for rows, each in zip(whole, proposals, strict=True)
        ]


@slip("many_answers_as_one", "KeyError")
class NeedsTheScratchOfTheRoundBefore(Measures):
    """In a batch it goes on from a cache that a session which has just joined has not."""

    def verify_many(self, contexts: Any, proposals: Any) -> list[Any]:
        if len(contexts) > 1:
            for context in contexts:
                context.scratch["cache"]
        for context in contexts:
            context.scratch["cache"] = 1
        return [self.verify(*each) for each in zip(contexts, proposals, strict=True)]


@slip("many_answers_as_one", "or a cache that is not rolled back")
class NeverRollsBackInABatch(Measures):
    def verify_many(self, contexts: Any, proposals: Any) -> list[Any]:
        made = []
        for context, proposal in zip(contexts, proposals, strict=True):
            seen = context.scratch.setdefault("tokens", [])
            seen.extend([*context.accepted, *proposal.items][len(seen) :])
            n = len(context.accepted)
            prefixes = [seen[: n + len(proposal.path(i))] for i in range(-1, len(proposal))]
            made.append(Verification(evidence=Evidence(target=np.stack([MODEL(each) for each in prefixes]))))
        return made


@slip("many_answers_as_one", "of 17")
class SwapsTwoOfMany(Measures):
    """Beyond eight sessions the last of the first eight gets the answer of the first of the next."""

    def verify_many(self, contexts: Any, proposals: Any) -> list[Any]:
        made = [self.verify(*each) for each in zip(contexts, proposals, strict=True)]
        if len(made) > 8:
            made[7], made[8] = made[8], made[7]
        return made


@slip("many_answers_as_one", "answers to")
class DropsEmptyBlocks(Measures):
    def verify_many(self, contexts: Any, proposals: Any) -> list[Any]:
        return [self.verify(*each) for each in zip(contexts, proposals, strict=True) if len(each[1])]


# Rules


class Plain(Speculative):
    """Speculative sampling with its places to go wrong."""

    def accepts(self, i: int, u: float, p: float, q: float) -> bool:
        return u * q < p

    def left(self, i: int, p: Any, q: Any) -> Any:
        return np.maximum(p - q, 0)

    def numbers(self, rng: Any) -> Any:
        return rng

    def decide(self, context: Any, proposal: Any, verification: Any, rng: Any) -> Decision:
        p, q, rng = verification.evidence.target, proposal.law.q, self.numbers(rng)
        n = len(proposal.items)
        for i, x in enumerate(proposal.items):
            if not self.accepts(i, rng.uniform(i), p[i, x], q[i, x]):
                value = draw(self.left(i, p[i], q[i]), rng.uniform(i, 1))
                drift = self.drift(i + 1)
                return Decision(kept=tuple(range(i)), spliced=(value,), refused=(Refusal(i),), drift=drift)
        bonus = draw(p[n], rng.uniform(n, 1))
        return Decision(kept=tuple(range(n)), spliced=(bonus,), drift=self.drift(n + 1))


class _OfNumPy:
    def __init__(self, rng: Any) -> None:
        self._u = np.random.default_rng(list(rng.key)).random((16, 2))

    def uniform(self, position: int = 0, draw: int = 0) -> float:
        return float(self._u[position, draw])


@slip("draws_anew_each_round", "random numbers of one round are used again in the next")
class DecidesWithTheKey(Plain):
    def numbers(self, rng: Any) -> Any:
        return _OfNumPy(rng)


@slip("draws_anew_each_round", "random numbers of one round are used again in the next")
class DecidesWithTheKeyAndSaysNothing(DecidesWithTheKey):
    traits = replace(DecidesWithTheKey.traits, exact=False)


@slip("exact_means_the_targets_distribution", "comes first with probability")
class IsFivePercentTooGenerous(Plain):
    def accepts(self, i: int, u: float, p: float, q: float) -> bool:
        return u * q < 1.05 * p


@slip("exact_means_the_targets_distribution", "comes first with probability")
class IsSixPercentTooStrict(Plain):
    def accepts(self, i: int, u: float, p: float, q: float) -> bool:
        return u * q < 0.94 * p


@slip("exact_means_the_targets_distribution", "comes first with probability")
class ForgetsTheResidualFromTheThirdOn(Plain):
    def left(self, i: int, p: Any, q: Any) -> Any:
        return super().left(i, p, q) if i < 2 else p


@slip("exact_means_the_targets_distribution", "comes first with probability")
class KeepsTheThirdUnseen(Plain):
    def accepts(self, i: int, u: float, p: float, q: float) -> bool:
        return i == 2 or super().accepts(i, u, p, q)


@slip("exact_means_the_targets_distribution", "of a chain of law iid, value")
class DrawsTheResidualWithTheSameNumber(Plain):
    class _Same:
        def __init__(self, rng: Any) -> None:
            self.rng = rng

        def uniform(self, position: int = 0, draw: int = 0) -> float:
            return float(self.rng.uniform(position))

    def numbers(self, rng: Any) -> Any:
        return self._Same(rng)


class _OfAGenerator:
    def __init__(self, rng: Any) -> None:
        self._u = np.random.default_rng(rng.seed()).random((16, 2))

    def uniform(self, position: int = 0, draw: int = 0) -> float:
        return float(self._u[position, draw])


class SeedsAGenerator(Plain):
    """Right; its draws cannot be followed, so rounds of it are counted."""

    def numbers(self, rng: Any) -> Any:
        return _OfAGenerator(rng)


class TakesLogarithms(Plain):
    """Right; a library that is given an unknown for a number raises an error of its own."""

    class _Logged:
        def __init__(self, rng: Any) -> None:
            self.rng = rng

        def uniform(self, position: int = 0, draw: int = 0) -> float:
            return float(np.exp(np.log(self.rng.uniform(position, draw))))

    def numbers(self, rng: Any) -> Any:
        return self._Logged(rng)


@slip("exact_means_the_targets_distribution", "of a chain of law iid, value")
class SeedsAGeneratorAndIsTooGenerous(SeedsAGenerator):
    def accepts(self, i: int, u: float, p: float, q: float) -> bool:
        return u * q < 2 * p


class Siblings(Plain):
    """Recursive rejection of independent siblings: right, and spoilt below."""

    traits = replace(Plain.traits, shapes={"alternatives"})

    def decide(self, context: Any, proposal: Any, verification: Any, rng: Any) -> Decision:
        p = np.array(verification.evidence.target[0])
        for i, x in enumerate(proposal.items):
            q = proposal.law.q[0]
            if self.accepts(i, rng.uniform(i), p[x], q[x]):
                return Decision(kept=(i,))
            p = self.left(i, p, q)
            p = p / p.sum()
        return Decision(spliced=(draw(p, rng.uniform(len(proposal), 1)),))


@slip("exact_means_the_targets_distribution", "comes first with probability")
class SubtractsTwiceAtMost(Siblings):
    def left(self, i: int, p: Any, q: Any) -> Any:
        return super().left(i, p, q) if i < 2 else p


@slip("many_answers_as_one", "differ for a call")
class JudgesAllWithTheFirstsNumbers(Plain):
    def decide_many(self, contexts: Any, proposals: Any, verifications: Any, rngs: Any) -> list[Any]:
        calls = zip(contexts, proposals, verifications, strict=True)
        return [self.decide(*call, rngs[0]) for call in calls]


@slip("many_answers_as_one", "differ for a call")
class DrawsTheBonusFromThePadding(Plain):
    def decide_many(self, contexts: Any, proposals: Any, verifications: Any, rngs: Any) -> list[Any]:
        longest = max(map(len, proposals))
        made = []
        for context, proposal, verification, rng in zip(
            contexts, proposals, verifications, rngs, strict=True
        ):
            target = np.array(verification.evidence.target)
            target[-1] = target[-1] if len(proposal) == longest else target[0][::-1]
            changed = Verification(evidence=Evidence(target=target))
            made.append(self.decide(context, proposal, changed, rng))
        return made


class Votes(Prefix):
    """Holds what passed and counts it at the end: right, and spoilt below."""

    traits = RuleTraits(shapes={"alternatives"})

    def decide(self, context: Any, proposal: Any, verification: Any, rng: Any) -> Decision:
        checks = verification.checks
        return Decision(held=tuple(i for i, each in enumerate(checks) if each.verdict == "pass"))

    def finish(self, context: Any) -> Any:
        votes = Counter(each.value for each in context.held)
        value, most = votes.most_common(1)[0] if votes else (None, 0)
        return Choice(value, support=most / max(votes.total(), 1))


@slip("finish_reads_the_context_alone", "finish() on another instance makes another value")
class CountsAsItDecides(Votes):
    def __init__(self) -> None:
        self._votes: dict[str, int] = {}

    def decide(self, context: Any, proposal: Any, verification: Any, rng: Any) -> Decision:
        made = super().decide(context, proposal, verification, rng)
        for i in made.held:
            self._votes[proposal.items[i]] = self._votes.get(proposal.items[i], 0) + 1
        return made

    def finish(self, context: Any) -> Any:
        return max(self._votes, key=lambda value: self._votes[value], default="nothing")


@slip("finish_makes_a_value", "finish() raised TypeError")
class AddsUpMissingScores(Votes):
    """What a person passed has no score."""

    def finish(self, context: Any) -> Any:
        if not context.held:
            return None
        return Choice(context.held[0].value, score=sum(each.score for each in context.held))


@slip("finish_makes_a_value", "finish() raised ValueError")
class NeedsAWinner(Votes):
    """Two answers with as many votes leave it without a word."""

    def finish(self, context: Any) -> Any:
        ((value, _),) = Counter(each.value for each in context.held).items()
        return value


@slip("finish_makes_a_value", "so it is frozen; change a copy")
class TakesFromTheTask(Votes):
    def finish(self, context: Any) -> Any:
        context.task.input.setdefault("votes", len(context.held))
        return super().finish(context)


@slip("answers_the_same_without_expected", "a run takes it out before any part sees the task")
class KeepsTheTruth(Prefix):
    def decide(self, context: Any, proposal: Any, verification: Any, rng: Any) -> Decision:
        made = super().decide(context, proposal, verification, rng)
        expected = context.task.expected
        return Decision() if "answer" in expected and expected["answer"] not in proposal.items else made


@slip("keeps_no_state_about_tasks", "TiresOfRefusing._refused: a global cache or counter")
class TiresOfRefusing(Prefix):
    _refused: ClassVar[list[int]] = []

    def decide(self, context: Any, proposal: Any, verification: Any, rng: Any) -> Decision:
        made = super().decide(context, proposal, verification, rng)
        self._refused.extend(each.index for each in made.refused)
        return made if len(self._refused) < 3 else Decision(kept=made.kept)


@slip("answers_the_same_from_four_threads", "calls at the same time differ")
class DecidesAcrossAnAwait(Prefix):
    def __init__(self) -> None:
        self._checks: Any = None

    async def decide(self, context: Any, proposal: Any, verification: Any, rng: Any) -> Decision:  # type: ignore[override]
        self._checks = verification.checks
        await asyncio.sleep(0)
        return Decision(
            refused=tuple(Refusal(i) for i, each in enumerate(self._checks) if each.verdict == "reject")
        )
