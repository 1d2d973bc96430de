"""`all_of` and `any_of`: who is asked about what, whose word stands, and that members keep what they can do."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from time import sleep
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from draftverify import (
    Budget,
    Check,
    ConfigError,
    Context,
    Cost,
    Evidence,
    Explanation,
    Pipeline,
    Proposal,
    Task,
    Verification,
    feedback,
    generator,
    verifier,
)
from draftverify.bench.records import timeless
from draftverify.checks.verifiers import AllOf, AnyOf, MostOf, Regex
from draftverify.kit import Subject, make_context, parametrize_with_checks
from draftverify.rules import All, Best, First, LongestPrefix, Tournament
from draftverify.traits import VerifierTraits, vocabulary_of

CONTEXT = make_context("any")
WORDS = ["pass", "reject", "abstain", "error", "timeout"]


class Says:
    """Says of each item what a table has, and stops early; remembers what it was asked."""

    said: ClassVar[dict[str, Any]] = {"reads": frozenset()}

    def __init__(self, table: dict[str, str | Check], name: str = "says", cost: Cost | None = None) -> None:
        self.table = table
        self.name = name
        self.traits = VerifierTraits(**self.said, name=name)
        self.cost = cost
        self.asked: list[list[str]] = []

    def verify(self, context: Context, proposal: Proposal) -> Verification:
        self.asked.append(list(proposal.items))
        checks: list[Check] = []
        for item in proposal.items:
            passed = sum(check.verdict == "pass" for check in checks)
            said = self.table.get(item, "pass")
            enough = context.enough is not None and passed >= context.enough
            checks.append(Check("unchecked") if enough else said if isinstance(said, Check) else Check(said))  # type: ignore[arg-type]
        return Verification(checks=tuple(checks), cost=self.cost)


def stages_of(table: Sequence[Sequence[str]], items: Sequence[str]) -> list[Says]:
    """A stage for each column of words; a row for each item."""
    columns = zip(*table, strict=True) if table else [()]
    return [Says(dict(zip(items, column, strict=True)), f"s{k}") for k, column in enumerate(columns)]


tables = st.integers(1, 4).flatmap(
    lambda stages: st.lists(
        st.lists(st.sampled_from(WORDS), min_size=stages, max_size=stages), min_size=1, max_size=6
    )
)
enoughs = st.none() | st.integers(1, 3)


def all_word(row: Sequence[str]) -> str:
    """The first word that is not a pass."""
    return next((word for word in row if word != "pass"), "pass")


def any_word(row: Sequence[str]) -> str:
    """A pass, else what leaves most open."""
    return next(word for word in ("pass", "error", "timeout", "abstain", "reject") if word in row)


def test_a_word_has_the_caveats_of_all_that_it_rests_on() -> None:
    """A pass of all rests on every stage's, a pass of any on one; a rejection on those that rejected."""
    few = {
        "a": Check("pass", caveat="few"),
        "b": Check("reject", caveat="few"),
        "c": Check("pass", caveat="few"),
    }
    one = {"a": Check("pass", caveat="one"), "b": Check("reject", caveat="one"), "c": Check("reject")}
    block = Proposal.alternatives(("a", "b", "c"))

    def caveats(kind: Any, *tables: dict[str, str | Check]) -> list[tuple[str, str]]:
        stages = [Says(table, f"s{k}") for k, table in enumerate(tables)]
        return [(check.verdict, check.caveat) for check in kind(stages).verify(CONTEXT, block).checks]

    assert caveats(AllOf, few, one) == [("pass", "few; one"), ("reject", "few"), ("reject", "")]
    assert caveats(AllOf, few, {}, few)[0] == ("pass", "few")
    assert caveats(AnyOf, few, one) == [("pass", "few"), ("reject", "few; one"), ("pass", "few")]
    assert caveats(AnyOf, {"a": "reject"}, one)[0] == ("pass", "one")


@pytest.mark.parametrize(("kind", "word"), [(AllOf, all_word), (AnyOf, any_word)])
@given(table=tables, enough=enoughs)
def test_a_block_is_judged_as_its_items_are(
    kind: Any, word: Any, table: list[list[str]], enough: int | None
) -> None:
    """Item by item, whatever the stages say; with an early stop the same items pass, and only later ones are left."""
    items = [f"item {index}" for index in range(len(table))]
    block = Proposal.alternatives(items)
    expected = [word(row) for row in table]
    part = kind(stages_of(table, items))
    assert [check.verdict for check in part.verify(CONTEXT, block).checks] == expected
    found = [check.verdict for check in part.verify(make_context("any", enough=enough), block).checks]
    passing = [index for index, each in enumerate(expected) if each == "pass"][:enough]
    assert [index for index, each in enumerate(found) if each == "pass"][: len(passing)] == passing
    for index, each in enumerate(found):
        full = enough is not None and len(passing) == enough and index > passing[-1]
        assert each == expected[index] or (each == "unchecked" and full)


@given(
    table=st.lists(st.lists(st.sampled_from(WORDS), min_size=3, max_size=3), min_size=1, max_size=5),
    needed=st.integers(1, 3),
)
def test_a_panel_votes(table: list[list[str]], needed: int) -> None:
    """So many passes pass an item, too many rejects reject it; else somebody had no vote to give, which is no
    rejection. Who can no longer decide is not asked."""
    items = [f"item {index}" for index in range(len(table))]
    stages = stages_of(table, items)
    panel = MostOf(stages, at_least=needed)
    found = panel.verify(CONTEXT, Proposal.alternatives(items)).checks
    asked = {item: sum(item in call for stage in stages for call in stage.asked) for item in items}
    for item, row, check in zip(items, table, found, strict=True):
        passes, rejects = row.count("pass"), row.count("reject")
        if passes >= needed or rejects > 3 - needed:
            assert check.verdict == ("pass" if passes >= needed else "reject")
            votes = row[: asked[item]]
            share = votes.count("pass") / (votes.count("pass") + votes.count("reject"))
            assert check.score == share
            assert votes.count("pass") == needed or votes.count("reject") == 4 - needed
        else:
            assert asked[item] == 3
            words = [word for word in ("error", "timeout", "abstain") if word in row]
            assert check.verdict == words[0]


def test_a_panel_says_why_it_refuses() -> None:
    """With every objection; the number of votes must be one that there can be."""
    tables = [{"a": Check("reject", reason=word)} for word in ("short", "wrong")]
    panel = MostOf([*(Says(table, f"s{place}") for place, table in enumerate(tables)), Says({})])
    (check,) = panel.verify(CONTEXT, Proposal.alternatives(["a"])).checks
    assert (check.verdict, check.score) == ("reject", 0.0)
    assert "s0: short" in check.feedback
    assert "s1: wrong" in check.feedback
    for number in (0, 4):
        with pytest.raises(ConfigError, match="there are 3 stages"):
            MostOf([Says({}), Says({}), Says({})], at_least=number)


@given(table=tables, enough=enoughs)
def test_a_chain_goes_on_only_from_what_passed(table: list[list[str]], enough: int | None) -> None:
    """Of a chain under `all_of`, what stands on an item that did not pass is unchecked or has its own refusal."""
    items = [f"item {index}" for index in range(len(table))]
    found = AllOf(stages_of(table, items)).verify(CONTEXT, Proposal.chain(items)).checks
    words = [all_word(row) for row in table]
    ends = next((index for index, word in enumerate(words) if word != "pass"), len(words))
    assert [check.verdict for check in found[: ends + 1]] == words[: ends + 1]
    assert all(check.verdict != "pass" for check in found[ends:])


def test_a_later_stage_sees_only_what_the_earlier_ones_passed() -> None:
    """Cheap first; a stage with nothing left to do is not called."""
    a, b, c = Says({"x": "reject"}), Says({"y": "error", "z": "abstain"}), Says({})
    found = AllOf([a, b, c]).verify(CONTEXT, Proposal.alternatives(["x", "y", "z", "v"]))
    assert [check.verdict for check in found.checks] == ["reject", "error", "abstain", "pass"]
    assert (a.asked, b.asked, c.asked) == ([["x", "y", "z", "v"]], [["y", "z", "v"]], [["v"]])
    AllOf([a, b, c]).verify(CONTEXT, Proposal.alternatives(["x"]))
    assert len(b.asked) == len(c.asked) == 1


def test_any_of_asks_a_later_stage_about_what_none_passed() -> None:
    """And about nothing behind enough passed items."""
    a, b = Says({"x": "reject", "y": "error"}), Says({"x": "reject"})
    found = AnyOf([a, b]).verify(CONTEXT, Proposal.alternatives(["x", "y", "z"]))
    assert [check.verdict for check in found.checks] == ["reject", "pass", "pass"]
    assert b.asked == [["x", "y"]]
    a, b = Says({"x": "reject", "v": "reject"}), Says({"x": "reject"})
    block = Proposal.alternatives(["x", "z", "v"])
    found = AnyOf([a, b]).verify(make_context("any", enough=1), block)
    assert [check.verdict for check in found.checks] == ["reject", "pass", "unchecked"]
    assert b.asked == [["x"]]


def test_what_none_passed_is_told_by_all() -> None:
    """Feedback has each stage's word; a single one stands as it is."""
    short = Check("reject", -2.0, "long", "it has 9 words")
    german = Check("reject", -1.0, "language", "it is not German")
    both = AnyOf([Says({"x": short}, "short"), Says({"x": german}, "german")])
    (found,) = both.verify(CONTEXT, Proposal.alternatives(["x"])).checks
    assert (found.verdict, found.score, found.reason) == ("reject", -1.0, "language")
    assert found.feedback.splitlines() == [
        "one of these is needed", "short: it has 9 words", "german: it is not German",
    ]  # fmt: skip
    (found,) = AnyOf([Says({"x": short}, "short")]).verify(CONTEXT, Proposal.alternatives(["x"])).checks
    assert found == Check("reject", -2.0, "long", "it has 9 words", "short")


class Raises:
    """A verifier that fails, in one way or another."""

    def __init__(self, how: Any) -> None:
        self.how = how

    def verify(self, context: Context, proposal: Proposal) -> Any:
        if isinstance(self.how, BaseException):
            raise self.how
        return self.how


@pytest.mark.parametrize(
    ("how", "verdict", "reason"),
    [
        (RuntimeError("crashed"), "error", "RuntimeError"),
        (TimeoutError("late"), "timeout", "timeout"),
        (None, "error", "ContractError"),
        (Verification(checks=(Check("pass"),)), "error", "ContractError"),
    ],
)
def test_a_stage_that_fails_has_not_rejected(how: Any, verdict: str, reason: str) -> None:
    """Its items are errors that name it; what others said stands, and under `any_of` another may pass them."""
    block = Proposal.alternatives(["x", "y", "z"])
    found = AllOf([Says({"x": "reject"}), Raises(how)]).verify(CONTEXT, block).checks
    assert [check.verdict for check in found] == ["reject", verdict, verdict]
    assert (found[1].reason, found[1].stage) == (reason, "raises")
    found = AnyOf([Raises(how), Says({"x": "reject"})]).verify(CONTEXT, block).checks
    assert [check.verdict for check in found] == [verdict, "pass", "pass"]
    with pytest.raises(KeyboardInterrupt):
        AllOf([Raises(KeyboardInterrupt())]).verify(CONTEXT, block)


def checks_of(count: int, **how: Any) -> Verification:
    """Passes, but for what is said."""
    return Verification(**{"checks": (Check("pass"),) * count, **how})


BROKEN = [
    (checks_of(2, checks=(Check("pass"), Check("passed"))), "'passed' is no verdict"),  # type: ignore[arg-type]
    (checks_of(2, checks=None), "NoneType"),
    (checks_of(2, checks=(True, True)), "a Check is needed"),
    (checks_of(2, cost=5), "a Cost is needed"),
    (checks_of(2, cost=Cost(float("nan"))), "a finite number, 0 or more"),
    (checks_of(2, checks=(Check("pass", float("nan")),) * 2), "the score of item 0 is nan"),
    (checks_of(2, checks=(Check("pass", feedback=3),) * 2), "the feedback of item 0 is 3"),  # type: ignore[arg-type]
    (checks_of(2, notes={"a": object()}), "notes.a"),
    (checks_of(2, deterministic=None), "deterministic"),
    (checks_of(2, checks=()), "neither checks nor evidence"),
    (checks_of(2, checks=(), evidence=Evidence(cross=np.zeros((2, 1)))), "0 checks came for 2 items"),
    ({"checks": []}, "must return a Verification"),
    (SystemExit(3), "3"),
]


@pytest.mark.parametrize(("how", "said"), BROKEN, ids=[said for _, said in BROKEN])
@pytest.mark.parametrize("later", [False, True])
def test_a_stage_that_breaks_its_contract_fails_alone(how: Any, said: str, later: bool) -> None:
    """Never a rejection: another stage may still pass its items, and what it did is told with its name."""

    class Later(Raises):
        async def verify(self, context: Context, proposal: Proposal) -> Any:
            return Raises.verify(self, context, proposal)

    def found(part: Any) -> Verification:
        made = part.verify(CONTEXT, Proposal.alternatives(["x", "y"]))
        return asyncio.run(made) if later else made

    broken = (Later if later else Raises)(how)
    both = found(AnyOf([broken, Says({"x": "reject"})]))
    assert [check.verdict for check in both.checks] == ["error", "pass"]
    for part in (AnyOf([broken]), AllOf([Says({}), broken]), AllOf([broken, Says({})])):
        for check in found(part).checks:
            assert (check.verdict, check.stage) == ("error", "later" if later else "raises")
            assert said in check.feedback


def test_numbers_of_array_libraries_are_read_in_stages_too() -> None:
    """A stage's answer is read as a verifier's is: lists are tuples, scores Python's."""
    answer = Verification(checks=[Check("reject", np.float32(0.5))], cost=Cost(np.float64(1.0)))  # type: ignore[arg-type]
    found = AnyOf([Raises(answer)]).verify(CONTEXT, Proposal.alternatives(["x"]))
    assert [type(check.score) for check in found.checks] == [float]
    assert found.cost == Cost(1.0)


def test_what_a_stage_left_in_a_chain_is_not_refused() -> None:
    """An item that none passed and one did not look at is unchecked; an error or an abstention says more."""
    block = Proposal.chain(["a", "b", "c"])
    first = AllOf([Says({"a": "reject"})])
    second = Says({"a": "reject", "b": "reject", "c": "error"})
    for stages, last in (
        ([first, second], "error"),
        ([second, first], "error"),
        ([first, first], "unchecked"),
    ):
        found = AnyOf(stages).verify(CONTEXT, block)
        assert [check.verdict for check in found.checks] == ["reject", "unchecked", last]
    found = AnyOf([first, Says({"b": "reject"})]).verify(CONTEXT, block)
    assert [check.verdict for check in found.checks] == ["pass", "abstain", "pass"]
    tail = AllOf([Says({"b": "reject"}), Says({})])
    found = AnyOf([tail, Says(dict.fromkeys("abc", "reject"))]).verify(CONTEXT, block)
    assert [check.verdict for check in found.checks] == ["pass", "reject", "unchecked"]


def test_a_cut_branch_holds_nothing_that_is_enough() -> None:
    """A stage that judges single items passes one on a refused branch; the others are looked at all the same."""
    tree = Proposal.tree(["a", "b", "c", "d"], [-1, 0, -1, 2])
    found = AllOf([Says({}), Says({"a": "reject"})]).verify(make_context("any", enough=1), tree)
    assert [check.verdict for check in found.checks] == ["reject", "unchecked", "pass", "pass"]


def test_costs_are_summed_and_notes_kept() -> None:
    """Seconds where every stage tells them, cost of all; the order, and what was skipped."""
    both = AllOf([Says({}, "a", Cost(0.5, 2.0)), Says({"x": "abstain"}, "b", Cost(0.25, 1.0))])
    found = both.verify(CONTEXT, Proposal.alternatives(["x"]))
    assert found.cost == Cost(0.75, 3.0)
    assert found.notes["order"] == ["a", "b"]
    assert found.notes["skipped"] == ["b"]
    assert found.notes["seconds"] == {"a": 0.5, "b": 0.25}
    found = AllOf([Says({}, "a", Cost(0.5, 2.0)), Says({}, "b")]).verify(
        CONTEXT, Proposal.alternatives(["x"])
    )
    assert found.cost == Cost(None, 2.0)
    nested = AnyOf([both, Says({}, "c")]).verify(CONTEXT, Proposal.alternatives(["x"]))
    assert nested.cost == Cost(None, 3.0)
    assert nested.notes["order"] == ["allof", "c"]
    assert nested.notes["stages"]["allof"]["order"] == ["a", "b"]
    assert "seconds" not in nested.notes["stages"]["allof"]


def test_they_nest_in_a_pipeline() -> None:
    """All of (any of two forms) and a length: the refusal reaches the generator, two runs have equal records."""
    form = AllOf([AnyOf([Regex("[a-z]+"), Regex("[0-9]+")]), verifier(lambda c, item: len(item) < 4)])
    drafts = generator(lambda c, n: ["abc"] if c.feedback else ["ABC", "12345"])
    pipeline = Pipeline(drafts, form, First(), policy=feedback(), block=2)
    records = [pipeline.record("x") for _ in range(2)]
    assert records[0].outcome.value == "abc"
    said = records[0].rounds[0].checks
    assert [check.verdict for check in said] == ["reject", "reject"]
    assert "[a-z]+" in said[0].feedback
    assert "[0-9]+" in said[0].feedback
    assert said[1].stage == "<lambda>"
    assert timeless(records[0]) == timeless(records[1])


def test_trees_are_cut_where_an_item_does_not_pass() -> None:
    """A later stage gets the items that are left with the parents that they have among themselves."""
    seen: list[Proposal] = []

    class Looks(Says):
        def verify(self, context: Context, proposal: Proposal) -> Verification:
            seen.append(proposal)
            return super().verify(context, proposal)

    tree = Proposal.tree(["a", "b", "c", "d", "e"], [-1, 0, 0, 1, 2])
    found = AllOf([Says({"b": "reject"}), Looks({"e": "reject"})]).verify(CONTEXT, tree)
    assert [check.verdict for check in found.checks] == ["pass", "reject", "pass", "unchecked", "reject"]
    assert (list(seen[0].items), seen[0].parents) == (["a", "c", "e"], (-1, 0, 1))
    AnyOf([Says({"d": "reject"}), Looks({})]).verify(CONTEXT, tree)
    assert (list(seen[1].items), seen[1].parents) == (["a", "b", "d"], (-1, 0, 1))
    chain = Pipeline(
        generator(lambda c, n: list("abcd"), shape="chain"),
        AllOf([Says({"c": "reject"}), Says({})]),
        LongestPrefix(),
        block=4,
        budget=Budget(rounds=1),
    )
    assert list(chain.record("x").rounds[0].decision.emitted) == ["a", "b"]


class Many(Says):
    """Can be asked about many sessions at once."""

    def __init__(self, table: dict[str, str | Check], name: str = "many", broken: bool = False) -> None:
        super().__init__(table, name)
        self.broken = broken
        self.batches: list[int] = []

    def verify_many(self, contexts: Sequence[Context], proposals: Sequence[Proposal]) -> list[Verification]:
        self.batches.append(len(contexts))
        if self.broken:
            raise MemoryError
        return [self.verify(context, each) for context, each in zip(contexts, proposals, strict=True)]


def test_many_sessions_share_a_stages_pass() -> None:
    """Those of them that still have something for it; a batch call that fails is made again one by one."""
    drafts = generator(lambda c, n: [f"{c.task.id}{i}" for i in range(n)])
    first = Says({"a0": "reject", "a1": "reject"})
    for broken in (False, True):
        second = Many({"b0": "reject"}, broken=broken)
        pipeline = Pipeline(drafts, AllOf([first, second]), All(), block=2)
        outcomes = pipeline.run([Task(id=name) for name in "abc"])
        assert [outcome.status for outcome in outcomes] == ["refused", "accepted", "accepted"]
        assert second.batches == [2]
    assert not hasattr(AllOf([first]), "verify_many")


class Async:
    """A verifier behind a coroutine."""

    def __init__(self, word: str = "no") -> None:
        self.word = word
        self.together = self.most = 0

    async def verify(self, context: Context, proposal: Proposal) -> Verification:
        self.together += 1
        self.most = max(self.most, self.together)
        await asyncio.sleep(0.01)
        self.together -= 1
        return Verification(
            checks=tuple(Check("reject" if self.word in item else "pass") for item in proposal.items)
        )


def test_coroutine_members_are_awaited_where_a_driver_can() -> None:
    """Nested ones too, beside plain ones; a driver that cannot await says so."""
    judge = Async("no")
    part = AllOf(
        [Says({"x": "reject"}), AnyOf([judge, Regex("no way")]), verifier(lambda c, item: len(item) < 9)]
    )
    pipeline = Pipeline(generator(lambda c, n: ["x", "nothing", "no way", "yes"]), part, All(), block=4)
    assert pipeline.asynchronous
    outcome = asyncio.run(pipeline.arun("t"))
    assert list(outcome.value) == ["no way", "yes"]
    assert "run this pipeline with arun" in pipeline.run("t").reason


def test_a_stage_that_is_not_concurrent_is_called_once_at_a_time() -> None:
    """Also where its fellows are awaited, and one call for many sessions comes to it block by block."""
    at_work = most = 0

    class Alone(Says):
        said: ClassVar[dict[str, Any]] = {"reads": frozenset(), "concurrent": False}

        def verify(self, context: Context, proposal: Proposal) -> Verification:
            nonlocal at_work, most
            at_work += 1
            most = max(most, at_work)
            sleep(0.01)
            at_work -= 1
            return super().verify(context, proposal)

    class Many(Async):
        async def verify_many(self, contexts: Any, proposals: Any) -> list[Verification]:
            return [await self.verify(*call) for call in zip(contexts, proposals, strict=True)]

    part = AllOf([Alone({}), Many("no")])
    pipeline = Pipeline(generator(lambda c, n: ["yes"]), part, First())
    assert [outcome.value for outcome in asyncio.run(pipeline.arun(["t"] * 4))] == ["yes"] * 4
    assert most == 1


def test_a_coroutine_member_that_fails_is_an_error() -> None:
    """And a stage after it is asked about the others."""

    class Breaks(Async):
        async def verify(self, context: Context, proposal: Proposal) -> Verification:
            raise TimeoutError("no answer")

    found = asyncio.run(
        AllOf([Says({"x": "reject"}), Breaks()]).verify(CONTEXT, Proposal.alternatives(["x", "y"]))
    )
    assert [check.verdict for check in found.checks] == ["reject", "timeout"]


def test_members_keep_what_they_can_do() -> None:
    """Preparing, describing, settings, resources and vocabularies reach every member that has them."""
    log: list[str] = []

    class Full(Says):
        said: ClassVar[dict[str, Any]] = {
            "vocabulary": "words",
            "concurrent": False,
            "deterministic": False,
            "reads": {"length"},
        }

        def prepare(self, task: Task) -> Task:
            return Task(id=task.id, input={**task.input, "prepared": True})

        def describe(self, values: Sequence[Any]) -> list[str]:
            return [f"<{value}>" for value in values]

        def check_settings(self, settings: Any) -> None:
            if settings.get("length", 0) < 0:
                raise ConfigError("it is below 0", path="settings.length")

        def open(self) -> None:
            log.append(f"open {self.name}")
            if self.name == "broken":
                raise ConfigError("cannot be opened", path="file")

        def close(self) -> None:
            log.append(f"close {self.name}")

    whole = AllOf([Says({}), AnyOf([Full({}, "full")])])
    assert vocabulary_of(whole.traits) == "words"
    assert not whole.traits.concurrent
    assert not whole.traits.deterministic
    assert whole.traits.reads == {"length"}
    assert whole.prepare(Task(id="t")).input == {"prepared": True}
    assert whole.describe([1]) == ["<1>"]
    assert not hasattr(AllOf([Says({})]), "describe")
    with pytest.raises(ConfigError, match="below 0"):
        Pipeline(generator(lambda c, n: []), whole, First(), settings={"length": -1})
    whole.open()
    whole.close()
    assert log == ["open full", "close full"]
    log.clear()
    with pytest.raises(ConfigError) as caught:
        AllOf([Full({}, "full"), AllOf([Full({}, "broken")])]).open()
    assert caught.value.path == "stages.1.stages.0.file"
    assert log[:2] == ["open full", "open broken"]
    assert "close full" in log
    other = type("Other", (Says,), {"said": {"vocabulary": "other"}})({}, "other")
    with pytest.raises(ConfigError, match="different vocabularies: full words, other other"):
        vocabulary_of(AllOf([Full({}, "full"), other]).traits)


class Ends(Says):
    """Has a stopping rule, and explains."""

    def __init__(self, at: int | None, name: str) -> None:
        super().__init__({}, name)
        self.at = at

    def done(self, context: Context, new: tuple[Any, ...]) -> int | None:
        return self.at

    def explain(self, task: Task, expected: Any, got: Any, settings: Any) -> Explanation:
        return Explanation("rounding", f"{self.name} of {settings['length']}")


@pytest.mark.parametrize("kind", [AllOf, AnyOf])
def test_members_stop_and_explain(kind: Any) -> None:
    """The earliest of their stops counts, nested ones too; the first that explains does."""
    drafts = generator(lambda c, n: list("abcd"), shape="chain")
    whole = kind([Says({}), Ends(None, "never"), AllOf([Ends(3, "late")]), Ends(2, "early")])
    pipeline = Pipeline(
        drafts, whole, LongestPrefix(), block=4, settings={"length": 7}, budget=Budget(rounds=2)
    )
    assert list(pipeline.run("x").value) == ["a", "b"]
    said = pipeline.explain(Task(id="t"), "a", "b")
    assert said == Explanation("rounding", "never of 7")
    plain = kind([Says({})])
    assert not hasattr(plain, "done")
    assert not hasattr(plain, "explain")


class Held(Says):
    """Counts how often it is opened and closed."""

    def __init__(self, log: list[str], name: str, broken: bool = False) -> None:
        super().__init__({}, name)
        self.log = log
        self.broken = broken

    def open(self) -> None:
        self.log.append(f"open {self.name}")
        if self.broken:
            raise ConfigError("cannot be opened", path="file")

    def close(self) -> None:
        self.log.append(f"close {self.name}")


def test_what_was_opened_is_closed_once() -> None:
    """And nothing else: not what comes after one that cannot be opened, nor a second time."""
    log: list[str] = []
    a, b, c = Held(log, "a"), Held(log, "b"), Held(log, "c")
    broken = Held(log, "broken", broken=True)
    twice = AllOf([a, b, a])
    twice.close()
    assert log == []
    twice.open()
    twice.close()
    twice.close()
    assert log == ["open a", "open b", "close b", "close a"]
    log.clear()
    with pytest.raises(ConfigError):
        AnyOf([a, broken, c]).open()
    assert log == ["open a", "open broken", "close a"]
    log.clear()
    twice.open()
    twice.close()
    assert log == ["open a", "open b", "close b", "close a"]


def test_every_member_is_closed_whatever_befalls_another() -> None:
    """The error is raised afterwards."""
    log: list[str] = []

    class Sticks(Held):
        def close(self) -> None:
            super().close()
            raise OSError(self.name)

    whole = AllOf([Held(log, "a"), Sticks(log, "b"), Held(log, "c")])
    whole.open()
    with pytest.raises(OSError, match="b"):
        whole.close()
    assert log[3:] == ["close c", "close b", "close a"]


@pytest.mark.parametrize("kind", [AllOf, AnyOf])
def test_stages_are_verifiers(kind: Any) -> None:
    """Any iterable of them; what is none is refused when it is made, with its place and in words."""
    made = kind(Regex(word) for word in ("[a-z]+", "a.*"))
    for _ in range(2):
        (found,) = made.verify(CONTEXT, Proposal.alternatives(["ab"])).checks
        assert found.verdict == "pass"
    assert len(made.stages) == 2
    for stages, place, said in (
        ([Regex("a"), Regex], "stages.1", "the class Regex; an instance is needed: Regex(…)"),
        ([Says], "stages.0", "the class Says"),
        (
            [lambda c, item: True],
            "stages.0",
            "a function, which has no method verify(); verifier(function) makes",
        ),
        (["regex"], "stages.0", "a str, which has no method verify()"),
        (Regex("a"), "stages", "a Regex; a list of verifiers is needed"),
    ):
        with pytest.raises(ConfigError) as caught:
            kind(stages)
        assert caught.value.path == place
        assert said in caught.value.message


def test_a_member_that_prepares_in_a_coroutine() -> None:
    """The others' preparations stand before and after it."""

    class Later(Async):
        async def prepare(self, task: Task) -> Task:
            return Task(id=task.id, input={**task.input, "later": True})

    pipeline = Pipeline(
        generator(lambda c, n: [str(c.task.input["later"])]), AllOf([Later(), Says({})]), First()
    )
    assert asyncio.run(pipeline.arun("t")).value == "True"


def test_scores_are_those_of_whose_word_stands() -> None:
    """All of: the last one's. Any of: only where every one gives them."""
    scored = verifier(lambda c, item: Check("pass", score=float(len(item))), scores=True)
    plain = Says({})
    assert AllOf([plain, scored]).traits.provides == {"verdicts", "scores"}
    assert AllOf([scored, plain]).traits.provides == {"verdicts"}
    assert AnyOf([scored, scored]).traits.provides == {"verdicts", "scores"}
    assert AnyOf([plain, scored]).traits.provides == {"verdicts"}
    longest = Pipeline(generator(lambda c, n: ["a", "abc", "ab"]), AllOf([plain, scored]), Best(), block=3)
    assert longest.run("x").value == "abc"


def test_none_at_all_is_refused() -> None:
    """With the argument's name."""
    for kind in (AllOf, AnyOf):
        with pytest.raises(ConfigError, match="stages: there are no stages"):
            kind([])


BLOCKS = [
    Proposal.alternatives(["ab", "a1", "12", "", "b2", "abc"]),
    Proposal.chain(["ab", "12", "a1"]),
    Proposal.tree(["a", "b1", "1", "ab"], [-1, 0, 0, 1]),
    Proposal.alternatives([]),
]


@parametrize_with_checks(
    [
        Subject(AllOf([Regex("[a-z0-9]+"), Regex(".*[0-9].*")]), proposals=BLOCKS),
        Subject(AnyOf([Regex("[a-z]+"), Regex("[0-9]+")]), proposals=BLOCKS),
        Subject(AllOf([AnyOf([Regex("[a-z]+"), Regex("[0-9]+")]), Regex("..")]), proposals=BLOCKS),
        Subject(AnyOf([AllOf([Regex("[a-z]+"), Regex("..")]), Regex("[0-9]+")]), proposals=BLOCKS),
        Subject(AllOf([Regex("[a-z0-9]+"), Async("c")]), proposals=BLOCKS),
        Subject(MostOf([Regex("[a-z0-9]+"), Regex(".."), Regex("[0-9]+")]), proposals=BLOCKS),
        Subject(
            MostOf([AllOf([Regex("[a-z]+"), Regex("..")]), Regex("[0-9]+")], at_least=1), proposals=BLOCKS
        ),
        Subject(AllOf([Many({"12": "reject"}), Regex(".*[0-9].*")]), proposals=BLOCKS),
    ]
)
def test_conformance(component: Any, check: Any) -> None:
    """Verifiers of verifiers that keep the contract keep it."""
    check(component)


class Larger:
    """Compares the items that it is given in pairs: the larger number wins."""

    traits = VerifierTraits(provides={"verdicts", "cross"})

    def verify(self, context: Context, proposal: Proposal) -> Verification:
        items = np.asarray(proposal.items, dtype=float)
        cross = (np.sign(items[:, None] - items) + 1) / 2
        np.fill_diagonal(cross, np.nan)
        return Verification(checks=(Check("pass"),) * len(items), evidence=Evidence(cross=cross))


def test_a_stage_that_judges_pairs_sees_only_what_is_left() -> None:
    """Its pairs are of the items that came to it, and stand in their places among all."""
    small = verifier(lambda context, item: item < 8)
    judged = AllOf([small, Larger()])
    found = judged.verify(make_context("any"), Proposal.alternatives([9, 3, 8, 5]))
    nan = np.nan
    expected = [[nan] * 4, [nan, nan, nan, 0.0], [nan] * 4, [nan, 1.0, nan, nan]]
    assert np.array_equal(found.evidence.cross, expected, equal_nan=True)
    drafted = generator(lambda context, n: [9, 3, 8, 5])
    outcome = Pipeline(drafted, judged, Tournament(), block=4).run("x")
    assert (outcome.value, outcome.support) == (5, 1.0)
