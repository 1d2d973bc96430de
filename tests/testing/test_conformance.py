"""The conformance kit: it names each defect by one check, and lets right components pass."""

from __future__ import annotations

import asyncio
from itertools import count
from typing import Any, ClassVar

import numpy as np
import pytest

from draftverify import (
    Check,
    Choice,
    ConfigError,
    ContractError,
    Decision,
    Proposal,
    Verification,
    generator,
    iid,
)
from draftverify.kit import (
    ConformanceError,
    DraftFrom,
    ScriptedGenerator,
    ScriptedVerifier,
    Subject,
    TableModel,
    TargetFrom,
    check_component,
    check_names,
    make_context,
    parametrize_with_checks,
)
from draftverify.kit.registry import CHECKS
from draftverify.rules import LongestPrefix
from draftverify.traits import GeneratorTraits, VerifierTraits

from .broken import BROKEN, Prefix, ProposesTooMany, Speculative
from .odd import HONEST, ODD
from .slips import SLIPS, SeedsAGenerator, TakesLogarithms

COUNTED = {
    "law_is_honest",
    "draft_stream_is_its_own",
}
"""The checks that count draws, and see less with few of them."""


@pytest.mark.parametrize("broken", [*BROKEN, *ODD], ids=lambda kind: kind.__name__)
def test_each_defect_is_caught_by_the_check_that_names_it(broken: Any) -> None:
    """A component with one defect fails one check."""
    trials = 1000 if broken.caught_by in COUNTED else 100
    with pytest.raises(ConformanceError) as caught:
        check_component(broken(), trials=trials)
    assert caught.value.report.failed == (broken.caught_by,), str(caught.value)
    assert getattr(broken, "says", "") in str(caught.value)


def test_every_check_catches_something() -> None:
    """No check is there that no broken component has ever failed."""
    assert set(check_names()) == {broken.caught_by for broken in [*BROKEN, *ODD]} | {
        each.check for each in SLIPS
    }


class AsyncEcho:
    """A generator that is a coroutine, and open only between open() and close()."""

    def __init__(self, word: str) -> None:
        self.word = word
        self._open = False

    async def open(self) -> None:
        self._open = True

    async def close(self) -> None:
        self._open = False

    async def propose(self, context: Any, n: int) -> Proposal:
        await asyncio.sleep(0)
        assert self._open
        return Proposal.alternatives([f"{self.word} {context.task.id} {i}" for i in range(n)])


async def _in_a_notebook() -> None:
    check_component(AsyncEcho("hello"))


def test_a_part_of_coroutines_is_checked_where_a_loop_runs_already() -> None:
    """As in a notebook's cell."""
    asyncio.run(_in_a_notebook())


class TossesHonestly:
    """A verifier that says that it may answer otherwise another time."""

    traits = VerifierTraits(deterministic=False)

    def verify(self, context: Any, proposal: Proposal) -> Verification:
        import random

        from draftverify import PASS, REJECT

        return Verification(checks=tuple(random.Random().choice([PASS, REJECT]) for _ in proposal.items))


class NextEven:
    """A verifier with a correction for every odd number, and a stopping rule of its own."""

    def verify(self, context: Any, proposal: Proposal) -> Verification:
        checks = [
            Check("reject", correction=item + 1) if item % 2 else Check("pass") for item in proposal.items
        ]
        goes_on = (0,) if proposal.fits("chain") else ()
        return Verification(checks=tuple(checks), correction=goes_on)

    def done(self, context: Any, new: tuple[Any, ...]) -> int | None:
        over = len(context.accepted) - 3
        return None if over < 0 else max(len(new) - over, 0)


class AsyncCorrects(LongestPrefix):
    """A rule of coroutines that puts corrections in, and says what its value is worth."""

    async def decide(self, context: Any, *others: Any) -> Decision:  # type: ignore[override]
        await asyncio.sleep(0)
        return super().decide(context, *others)

    async def finish(self, context: Any) -> Choice:
        return Choice(tuple(context.accepted), support=1.0)


class AbstainsOnErrors(Prefix):
    """A rule that says of a block of nothing but errors that there is no answer."""

    def decide(self, context: Any, proposal: Proposal, verification: Verification, rng: Any) -> Decision:
        errors = bool(len(proposal)) and all(check.verdict == "error" for check in verification.checks)
        return Decision(abstain=True) if errors else super().decide(context, proposal, verification, rng)


class Remembers:
    """A verifier with a cache on its class, whose key is all that a verdict depends on; it refuses trees."""

    known: ClassVar[dict[Any, bool]] = {"from before": True}

    def verify(self, context: Any, proposal: Proposal) -> Verification:
        if not proposal.fits("chain") and not proposal.fits("alternatives"):
            raise ContractError("a tree of words cannot be read")
        words = context.task.input["prompt"].split()
        passed = [self.known.setdefault((*words, item), item < len(words)) for item in proposal.items]
        return Verification(checks=tuple(Check("pass" if each else "reject") for each in passed))


class Recalls:
    """A generator that drafts what earlier tasks ended with, the last one first."""

    def propose(self, context: Any, n: int) -> Proposal:
        known = [item for record in context.memory.records for item in record.outcome.value or ()]
        return Proposal.alternatives([*known[::-1], *range(n)][:n])


def test_a_part_that_reads_the_memory_is_given_some() -> None:
    """The check looks at it, and lets one pass that keeps nothing of what it read."""
    report = check_component(Recalls())
    assert "answers_from_the_memory_given" in [each.check for each in report.ended("passed")]


class Marks:
    """A verifier that leaves a mark in what the generator says of its items."""

    def verify(self, context: Any, proposal: Proposal) -> Verification:
        if proposal.evidence:
            proposal.evidence["seen"] = True  # type: ignore[index]
        return Verification(checks=tuple(Check("pass") for _ in proposal.items))


def test_a_report_names_the_key_that_was_added_and_the_check_that_failed() -> None:
    """Two long mappings look alike when cut; and what is skipped for another skipped check names the failed one."""
    marked = Proposal.alternatives([1], evidence={"scores": [1.0], "hidden": [2.0]})
    with pytest.raises(ConformanceError) as caught:
        check_component(Marks(), proposals=[marked])
    assert "evidence has the keys ['scores', 'hidden'], then" in str(caught.value)
    skipped = caught.value.report.ended("skipped")
    assert {each.message for each in skipped} == {"not run, since leaves_its_arguments_alone failed"}


class SeedsALibrary:
    """Draws with NumPy's generator, seeded anew for each round."""

    traits = GeneratorTraits(shape="alternatives", laws={"iid"})

    def propose(self, context: Any, n: int) -> Proposal:
        row = np.asarray([0.5, 0.3, 0.2])
        items = np.random.default_rng(context.draws.seed()).choice(3, size=n, p=row)
        return Proposal.alternatives(items.tolist(), iid(row[None]))


RIGHT = [
    Remembers(),
    SeedsALibrary(),
    AsyncEcho("hm"),
    NextEven(),
    AsyncCorrects(),
    AbstainsOnErrors(),
    ScriptedGenerator([[1, 2, 3], ["a", "b"]]),
    ScriptedGenerator(
        lambda context, n: context.task.input["prompt"].split()[:n], shape="alternatives", seconds=0.5
    ),
    ScriptedVerifier({0: "pass", 1: "reject", 2: "error", 3: True}, otherwise="abstain"),
    ScriptedVerifier(lambda context, item: item % 2 == 0, seconds=0.1),
    ScriptedVerifier(target=TableModel(3)),
    ScriptedVerifier(lambda context, item: True, target=TableModel(3)),
    *(
        DraftFrom(TableModel(4), shape=shape, law=law)
        for shape in ("chain", "alternatives", "tree")
        for law in ("given", "iid", "without_replacement")
    ),
    DraftFrom(TableModel(4), temperature=0.0),
    DraftFrom(TableModel(3, order=0), temperature=2.0, shape="tree"),
    TargetFrom(TableModel(4), temperature=0.5),
    generator(lambda context, n: range(n)),
    Prefix(),
    Speculative(),
    SeedsAGenerator(),
    TakesLogarithms(),
]


@parametrize_with_checks(
    [*RIGHT, *HONEST, Subject(TossesHonestly(), proposals=[Proposal.alternatives(["a", "b"])])], trials=100
)
def test_right_components_pass(component: Any, check: Any) -> None:
    """Scripted parts, the table pair, lifted functions, plain rules and parts of odd forms pass every check."""
    check(component)


def test_a_cache_outside_the_instance_is_put_back() -> None:
    """It is emptied while answers are compared, and is afterwards what it was: what had been in it, too."""
    check_component(Remembers())
    assert Remembers.known.pop("from before")
    assert len(Remembers.known) > 6


@parametrize_with_checks(
    [ProposesTooMany()], expected_failures={"answers_can_be_read": "it is what it is for"}
)
def test_an_expected_failure_is_a_strict_xfail(component: Any, check: Any) -> None:
    """A named check may fail, and the others are still held to."""
    check(component)


def test_an_expected_failure_is_reported_with_its_finding() -> None:
    """check_component lets an expected failure pass and keeps what was found."""
    report = check_component(ProposesTooMany(), expected_failures={"answers_can_be_read": "known"})
    found = {result.check: result for result in report.results}
    assert found["answers_can_be_read"].status == "expected"
    assert "4 items were proposed where at most 3" in found["answers_can_be_read"].message


def test_an_expected_failure_that_passes_is_a_failure() -> None:
    """A stale entry in expected_failures does not stay unseen."""
    with pytest.raises(ConformanceError, match="take it out of expected_failures"):
        check_component(Prefix(), expected_failures={"keeps_a_path": "it was so once"})


def test_an_expected_failure_that_cannot_fail_is_a_failure() -> None:
    """Neither a check of another role nor one that had nothing to look at excuses anything."""
    with pytest.raises(ConformanceError, match="does not have; take it out of expected_failures"):
        check_component(Prefix(), expected_failures={"items_can_be_recorded": "it has none"})
    with pytest.raises(ConformanceError, match="had nothing to look at"):
        check_component(ByType(), expected_failures={"a_crash_is_no_verdict": "it looks at types"})


class ByType:
    """A verifier that refuses by type what it does not know, and so never does anything with a poisonous item."""

    def verify(self, context: Any, proposal: Proposal) -> Verification:
        known = [type(item) is str for item in proposal.items]
        return Verification(checks=tuple(Check("pass" if each else "reject") for each in known))


class DraftsNothing:
    """A generator that finds nothing in the kit's own tasks."""

    traits = GeneratorTraits(shape="chain")

    def propose(self, context: Any, n: int) -> Proposal:
        return Proposal.chain(context.task.input.get("rows", [])[:n])


def unexercised(component: Any, **how: Any) -> dict[str, str]:
    """The checks that had nothing to look at, and why."""
    return {each.check: each.message for each in check_component(component, **how).ended("unexercised")}


def test_a_poison_that_never_reached_the_part_is_said() -> None:
    """A check that could not bite does not say that it passed; with an item of the domain it does, and bites."""
    found = unexercised(ByType())
    for name in ("a_crash_is_no_verdict", "a_crash_is_its_own_items_alone"):
        assert found[name].startswith("poison not exercised: ")
        assert "poison=[" in found[name]
    with pytest.raises(ConformanceError, match="a_crash_is_no_verdict"):
        check_component(ByType(), poison=["a text whose check crashes"])


def test_a_cache_that_was_never_filled_is_said() -> None:
    """Where nothing was kept in the scratch, nothing stale could be found."""
    assert "answers_the_same_without_scratch" in unexercised(ByType())
    assert "answers_the_same_without_scratch" not in unexercised(HONEST[5])


def test_checks_of_what_was_never_proposed_are_not_passed() -> None:
    """A generator that drafts nothing in the kit's tasks passes no check of its drafts; in its own it does."""
    found = unexercised(DraftsNothing())
    assert {"answers_can_be_read", "items_can_be_recorded"} <= {*found}
    assert "tasks=" in found["answers_can_be_read"]
    assert "items_can_be_recorded" not in unexercised(DraftsNothing(), tasks=[{"rows": [1, 2, 3]}])


def test_checks_of_what_never_passed_are_not_passed() -> None:
    """A verifier that passes none of the kit's items was never told that enough passed."""
    none = ScriptedVerifier(otherwise="reject", verdicts={})
    assert "enough" in unexercised(none)["leaves_items_unchecked_only_for_cause"]


def test_a_chain_of_one_beside_longer_chains_is_not_verified_as_alternatives_too() -> None:
    """A verifier that takes its time is asked three times about it: with no number that is enough, with one and two."""
    items: list[Any] = []
    part = ScriptedVerifier(lambda context, item: items.append(item) or True)
    subject = Subject(part, tasks=[{}], proposals=[Proposal.chain(["a", "b"]), Proposal.chain(["alone"])])
    assert len(subject.calls) > 1
    items.clear()
    CHECKS["leaves_items_unchecked_only_for_cause"].run(subject)
    assert items.count("alone") == 3


def test_pytest_shows_what_was_not_run_as_skipped() -> None:
    """Under pytest, too, a check that could not bite is no pass."""
    cases = parametrize_with_checks([ByType()]).args[1]
    check = next(each.values[1] for each in cases if each.id == "ByType-a_crash_is_no_verdict")
    with pytest.raises(pytest.skip.Exception, match="not run: poison not exercised"):
        check(ByType())


def test_a_misspelt_check_is_refused_with_a_suggestion() -> None:
    """expected_failures names checks that exist."""
    with pytest.raises(ConfigError, match="did you mean law_is_honest"):
        check_component(DraftFrom(TableModel()), expected_failures={"law_is_honset": "?"})


def test_a_class_or_a_stranger_is_refused() -> None:
    """What has no role cannot be checked."""
    with pytest.raises(ConfigError, match="give an instance"):
        check_component(TargetFrom)
    with pytest.raises(ConfigError, match=r"none of propose.*so it has no role$"):
        check_component(object())
    with pytest.raises(ConfigError, match=r"draftverify\.verifier\(fn\) makes a part of a function"):
        check_component(lambda context, item: True)


def test_a_component_of_two_roles_is_checked_in_both() -> None:
    """A model that drafts and verifies is held to both contracts."""

    class Both(TargetFrom):
        traits = (TargetFrom.traits, GeneratorTraits(shape="chain"))

        def propose(self, context: Any, n: int) -> Proposal:
            return Proposal.chain([1] * (n + 1))

    with pytest.raises(ConformanceError) as caught:
        check_component(Both(TableModel()))
    assert caught.value.report.failed == ("answers_can_be_read",)
    assert "target_rows_are_distributions" in {result.check for result in caught.value.report.results}


def test_contexts_and_proposals_of_the_authors_domain_are_used() -> None:
    """A component that only knows its own items is checked with those that its author gives."""

    class Words:
        def verify(self, context: Any, proposal: Proposal) -> Verification:
            from draftverify import PASS, REJECT

            known = context.task.input["words"].split()
            return Verification(
                checks=tuple(PASS if item["word"] in known else REJECT for item in proposal.items)
            )

    with pytest.raises(ConformanceError, match="proposals="):
        check_component(Words())
    blocks = [Proposal.alternatives([{"word": "a"}, {"word": "x"}])]
    check_component(Words(), tasks=[{"words": "a b"}], proposals=blocks)
    check_component(Words(), contexts=[make_context({"words": "a b"})], proposals=lambda context: blocks)
    with pytest.raises(ConformanceError, match="a_crash_is_no_verdict"):
        check_component(Words(), tasks=[{"words": "a b"}], proposals=blocks, poison=[{"word": "x"}])


def test_the_report_says_what_why_and_what_to_do() -> None:
    """An error is readable without the kit's source."""
    with pytest.raises(ConformanceError) as caught:
        check_component(ProposesTooMany())
    text = str(caught.value)
    assert "ProposesTooMany fails 1 of" in text
    assert "answers_can_be_read: The engine can read every answer" in text
    assert "4 items were proposed where at most 3 were asked for" in text


@pytest.mark.parametrize(("key", "fails"), [("seconds", False), ("took", True)])
def test_only_the_seconds_among_the_notes_may_differ_from_call_to_call(key: str, fails: bool) -> None:
    """A verifier may note what its parts took, under the one key that records leave out of comparisons."""

    clock = count()

    class Noting:
        def verify(self, context: Any, proposal: Proposal) -> Verification:
            from draftverify import PASS

            return Verification(checks=(PASS,) * len(proposal), notes={key: next(clock)})

    if fails:
        with pytest.raises(ConformanceError, match=r"notes\.took"):
            check_component(Noting())
    else:
        check_component(Noting())
