"""Stages as one verifier: who sees what, whose word stands, and what becomes of a stage that fails."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from draftverify import (
    Check,
    ConfigError,
    Context,
    Cost,
    Evidence,
    Pipeline,
    Proposal,
    Task,
    Verification,
    feedback,
    give_up,
)
from draftverify.bench.records import timeless
from draftverify.checks.verifiers import names_of
from draftverify.kit import (
    ScriptedGenerator,
    ScriptedVerifier,
    Subject,
    make_context,
    parametrize_with_checks,
)
from draftverify.rules import DualAgreement, First
from draftverify.traits import VerifierTraits
from draftverify_code.stages.staged import CodeStages

TASK = make_context("a task")


@dataclass(eq=False)
class Scripted:
    """A stage whose word on an item is scripted by its text; it notes what it was given."""

    said: dict[str, Any] = field(default_factory=dict)
    name: str = ""
    notes: dict[str, Any] = field(default_factory=dict)
    calls: list[tuple[tuple[Any, ...], int | None]] = field(default_factory=list)
    seconds: float | None = None

    @property
    def traits(self) -> VerifierTraits:
        return VerifierTraits(name=self.name)

    def verify(self, context: Context, proposal: Proposal) -> Verification:
        self.calls.append((tuple(proposal.items), context.enough))
        script = ScriptedVerifier(self.said, otherwise="pass", seconds=self.seconds)
        return msgspec.structs.replace(script.verify(context, proposal), notes=self.notes)


def block(*items: Any) -> Proposal:
    return Proposal.alternatives(items)


def words(found: Verification) -> list[str]:
    return [check.verdict for check in found.checks]


def test_each_stage_sees_what_the_earlier_ones_passed() -> None:
    """In one call each, in order; an early stop is the last one's alone."""
    a, b, c = Scripted({"x": "reject"}, "a"), Scripted({"y": "timeout"}, "b"), Scripted(name="c")
    context = msgspec.structs.replace(TASK, enough=1)
    found = CodeStages([a, b, c]).verify(context, block("x", "v", "y", "w"))
    assert a.calls == [(("x", "v", "y", "w"), None)]
    assert b.calls == [(("v", "y", "w"), None)]
    assert c.calls == [(("v", "w"), 1)]
    assert words(found) == ["reject", "pass", "timeout", "unchecked"]
    assert [check.stage for check in found.checks] == ["a", "c", "b", "c"]


def test_a_stage_is_not_called_for_nothing() -> None:
    """Where nothing is alive the later stages are not run, and a block of none calls nobody."""
    a, b = Scripted({"x": "reject"}), Scripted()
    assert words(CodeStages([a, b]).verify(TASK, block("x"))) == ["reject"]
    assert CodeStages([a, b]).verify(TASK, block()).checks == ()
    assert (len(a.calls), len(b.calls)) == (1, 0)


def test_the_check_is_the_stages_own() -> None:
    """Reason, score, feedback and the stage's name for itself are kept; without one it gets the stage's."""
    own = Check("reject", 0.25, "type", "line 3: no", stage="types")
    last = Check("pass", 0.75)
    found = CodeStages([Scripted({"x": own}), Scripted({"y": last}, "tests")]).verify(TASK, block("x", "y"))
    assert found.checks == (own, Check("pass", 0.75, stage="tests"))


def test_a_filter_with_nothing_to_say_is_passed_over() -> None:
    """Abstaining on an item is nothing against it; on all items, and the notes say that the stage was skipped."""
    found = CodeStages(
        [Scripted({"x": "abstain", "y": "abstain"}, "doctest"), Scripted({"y": "reject"})]
    ).verify(TASK, block("x", "y"))
    assert words(found) == ["pass", "reject"]
    assert found.notes["skipped"] == ["doctest"]
    found = CodeStages([Scripted({"x": "abstain"}, "doctest"), Scripted()]).verify(TASK, block("x", "y"))
    assert words(found) == ["pass", "pass"]
    assert "skipped" not in found.notes


def test_a_pass_has_the_caveats_of_the_trusted_stages() -> None:
    """A filter's pass is not what lets a program through; a word that ends the way is one stage's alone."""
    weak = lambda verdict, caveat: Check(verdict, caveat=caveat)
    stages = [
        Scripted({"x": weak("pass", "filter"), "y": weak("reject", "filter")}, "a"),
        Scripted({"x": weak("pass", "one"), "z": weak("pass", "one")}, "b"),
        Scripted({"x": weak("pass", "two"), "z": weak("reject", "two")}, "c"),
    ]
    found = CodeStages(stages, trusted=2).verify(TASK, block("x", "y", "z", "w"))
    assert [check.caveat for check in found.checks] == ["one; two", "filter", "two", ""]


def test_nothing_passes_that_no_trusted_stage_passed() -> None:
    """Filters may pass what they like: where every trusted stage abstains, the item's check is that abstention."""
    abstains = Check("abstain", feedback="the task has no such tests", stage="pytest")
    found = CodeStages([Scripted(), Scripted({"x": abstains})]).verify(TASK, block("x"))
    assert found.checks == (abstains,)
    for said in (["pass", "abstain"], ["abstain", "pass"], ["pass", "pass"]):
        trusted = [Scripted({"x": word}, f"s{place}") for place, word in enumerate(said)]
        (check,) = CodeStages([Scripted(), *trusted], trusted=2).verify(TASK, block("x")).checks
        assert check.verdict == "pass"
        assert check.stage == ("s0" if said[1] == "abstain" else "s1")
    both = CodeStages([Scripted({"x": "abstain"}), Scripted({"x": "abstain"})], trusted=2)
    assert words(both.verify(TASK, block("x"))) == ["abstain"]


VERDICTS = ["pass", "reject", "abstain", "error", "timeout"]


@given(
    st.integers(1, 4).flatmap(
        lambda stages: st.tuples(
            st.integers(1, stages),
            st.lists(st.lists(st.sampled_from(VERDICTS), min_size=stages, max_size=stages), max_size=6),
        )
    )
)
def test_a_block_is_judged_as_its_items_are(said: tuple[int, list[list[str]]]) -> None:
    """Whatever the stages say: the first word against an item is its verdict, else it passes if a trusted stage did."""
    trusted, table = said
    items = [f"program {index}" for index in range(len(table))]
    stages = [
        Scripted({item: row[k] for item, row in zip(items, table, strict=True)}, f"s{k}")
        for k in range(len(table[0]) if table else trusted)
    ]
    found = CodeStages(stages, trusted).verify(TASK, block(*items))
    for row, check in zip(table, found.checks, strict=True):
        against = [word for word in row if word not in ("pass", "abstain")]
        vouched = "pass" in row[-trusted:]
        assert check.verdict == (against[0] if against else "pass" if vouched else "abstain")
        if against:
            assert check.stage == f"s{row.index(against[0])}"


def test_a_stage_that_raises_loses_nothing_that_is_known() -> None:
    """Its items are errors that name it and the exception; what earlier stages said of others stands."""
    stages = CodeStages(
        [Scripted({"x": "reject"}, "lint"), Scripted({"y": RuntimeError("crashed")}, "types"), Scripted()]
    )
    found = stages.verify(TASK, block("x", "y", "z"))
    assert words(found) == ["reject", "error", "error"]
    assert found.checks[1] == Check("error", None, "tool", "RuntimeError: crashed", "types")
    assert found.checks[0].stage == "lint"
    found = CodeStages([Scripted({"y": TimeoutError()}, "types"), Scripted()]).verify(TASK, block("y"))
    assert (found.checks[0].verdict, found.checks[0].reason) == ("timeout", "wall")


def test_a_stage_with_checks_for_other_items_is_an_error() -> None:
    """Too few checks, or what is no verification, is an error of that stage's items and no reject."""

    class Short:
        def verify(self, context: Context, proposal: Proposal) -> Any:
            return Verification(checks=(Check("pass"),)) if context.task.id == "short" else None

    for task in (Task(id="short"), Task(id="none")):
        found = CodeStages([Short(), Scripted()]).verify(make_context(task), block("x", "y"))
        assert words(found) == ["error", "error"]
        assert found.checks[0].stage == "short"


def test_an_interrupt_is_not_captured() -> None:
    """KeyboardInterrupt comes out."""
    with pytest.raises(KeyboardInterrupt):
        CodeStages([Scripted({"x": KeyboardInterrupt()}), Scripted()]).verify(TASK, block("x"))


def test_the_notes_are_of_the_weakest_stage_that_ran() -> None:
    """Isolation and integrity: a static stage weakens nothing, what runs beside its tests does, an unknown tier counts
    as none."""

    def noted(*notes: dict[str, Any]) -> dict[str, Any]:
        stages = [Scripted(name=f"s{place}", notes=own) for place, own in enumerate(notes)]
        return dict(CodeStages(stages).verify(TASK, block("x")).notes)

    static = {"integrity": "static"}
    separate = {"integrity": "separate-process", "isolation": "bubblewrap"}
    shared = {"integrity": "shared-process", "isolation": "namespaces", "version": "8.1"}
    found = noted(static, separate)
    assert (found["integrity"], found["isolation"]) == ("separate-process", "bubblewrap")
    found = noted(shared, static, separate)
    assert (found["integrity"], found["isolation"]) == ("shared-process", "namespaces")
    assert found["stages"] == {"s0": {"version": "8.1"}}
    assert found["order"] == ["s0", "s1", "s2"]
    assert noted(separate, {"isolation": "none"})["isolation"] == "none"
    assert noted(separate, {"isolation": "chroot"})["isolation"] == "chroot"
    assert noted(static, static)["integrity"] == "static"
    assert "isolation" not in noted(static)


def test_a_stage_that_never_ran_does_not_weaken_the_record() -> None:
    """Where nothing reached it, its isolation is not in the notes; the order names it all the same."""
    weak = Scripted(name="tests", notes={"integrity": "shared-process"})
    found = CodeStages([Scripted({"x": "reject"}, "syntax", {"integrity": "static"}), weak]).verify(
        TASK, block("x")
    )
    assert found.notes["integrity"] == "static"
    assert found.notes["order"] == ["syntax", "tests"]
    assert list(found.notes["seconds"]) == ["syntax"]


def test_seconds_and_costs_by_stage() -> None:
    """Reported seconds are taken before the clock's, and are summed when every stage reports them."""
    a, b = Scripted(name="a", seconds=0.5), Scripted(name="b", seconds=0.25)
    found = CodeStages([a, b]).verify(TASK, block("x"))
    assert found.notes["seconds"] == {"a": 0.5, "b": 0.25}
    assert found.cost == Cost(0.75)
    found = CodeStages([a, Scripted(name="c")]).verify(TASK, block("x"))
    assert found.notes["seconds"]["a"] == 0.5
    assert 0.0 <= found.notes["seconds"]["c"] < 0.5
    assert found.cost == Cost(None)
    assert CodeStages([Scripted()]).verify(TASK, block("x")).cost is None


def test_equal_names_are_told_apart() -> None:
    """Two stages of one class have a number each in the notes."""
    assert names_of([Scripted(), Scripted(name="types"), Scripted(), Scripted(name="types")]) == (
        "scripted",
        "types",
        "scripted 2",
        "types 2",
    )


@dataclass(eq=False)
class Resource:
    """A stage that is opened and closed, prepares and describes."""

    mark: str
    fails: str = ""
    log: list[str] = field(default_factory=list)
    deterministic: bool = True
    concurrent: bool = True
    provides: frozenset[str] = frozenset({"verdicts"})

    @property
    def traits(self) -> VerifierTraits:
        return VerifierTraits(
            provides=self.provides, deterministic=self.deterministic, concurrent=self.concurrent
        )

    def verify(self, context: Context, proposal: Proposal) -> Verification:
        return Verification(checks=(Check("pass"),) * len(proposal))

    def open(self) -> None:
        self.log.append(f"open {self.mark}")
        if self.fails == "open":
            raise OSError("cannot be opened")

    def close(self) -> None:
        self.log.append(f"close {self.mark}")
        if self.fails == "close":
            raise OSError("cannot be closed")

    def prepare(self, task: Task) -> Task:
        return Task(id=task.id, input={**task.input, "seen": (*task.input.get("seen", ()), self.mark)})

    def describe(self, values: Sequence[Any]) -> list[str]:
        return [f"{self.mark}: {value}" for value in values]

    def check_settings(self, settings: Any) -> None:
        if self.mark in settings:
            raise ConfigError(f"{self.mark} cannot read this")


def test_capabilities_are_the_stages() -> None:
    """open, close, prepare, describe and check_settings reach every stage that has them, and none that has not."""
    log: list[str] = []
    stages = CodeStages([Resource("a", log=log), Scripted(), Resource("b", log=log)])
    stages.open()
    stages.close()
    assert log == ["open a", "open b", "close b", "close a"]
    assert stages.prepare(Task(id="t", input={"p": 1})).input == {"p": 1, "seen": ("a", "b")}
    assert stages.describe(["x"]) == ["b: x"]
    assert CodeStages([Scripted()]).describe(["x", {"text": "y"}]) == ["x", "y"]
    with pytest.raises(ConfigError, match="b cannot"):
        stages.check_settings({"b": 1})
    CodeStages([Scripted()]).check_settings({})


def test_what_cannot_be_opened_leaves_nothing_open() -> None:
    """The stages that were opened are closed again; a stage that cannot be closed does not keep others open."""
    log: list[str] = []
    with pytest.raises(OSError, match="opened"):
        CodeStages([Resource("a", log=log), Resource("b", "open", log=log), Resource("c", log=log)]).open()
    assert "close a" in log
    assert "open c" not in log
    stages = CodeStages([Resource("a", log=log), Resource("b", "close", log=log)])
    stages.open()
    log.clear()
    with pytest.raises(OSError, match="closed"):
        stages.close()
    assert log == ["close b", "close a"]


def test_declarations_are_those_of_the_stages() -> None:
    """One stage that is not deterministic, or not safe from two threads, makes the whole so; scores are the last's."""
    assert CodeStages([Resource("a"), Resource("b")]).traits.deterministic
    assert not CodeStages([Resource("a", deterministic=False), Resource("b")]).traits.deterministic
    assert not CodeStages([Resource("a"), Resource("b", concurrent=False)]).traits.concurrent
    scored = Resource("b", provides=frozenset({"verdicts", "scores"}))
    assert CodeStages([Resource("a"), scored]).traits.provides == {"verdicts", "scores"}
    assert CodeStages([scored, Resource("a")]).traits.provides == {"verdicts"}
    assert CodeStages([Resource("a"), scored], trusted=2).traits.provides == {"verdicts"}
    crossed = Resource("c", provides=frozenset({"verdicts", "cross"}))
    assert CodeStages([Resource("a"), crossed]).traits.provides == {"verdicts", "cross"}
    assert CodeStages([crossed, Resource("a")]).traits.provides == {"verdicts"}
    assert CodeStages([crossed, crossed], trusted=2).traits.provides == {"verdicts"}


class Crossed:
    """A last stage that notes of each text which letters are in it."""

    traits = VerifierTraits(provides={"verdicts", "cross"})

    def verify(self, context: Context, proposal: Proposal) -> Verification:
        cross = np.array([[letter in item for letter in "ab"] for item in proposal.items])
        return Verification(
            checks=(Check("pass"),) * len(proposal.items), evidence=Evidence(cross=cross), deterministic=True
        )


def test_cross_evidence_comes_through() -> None:
    """An item that ended before has a row of its own in the last stage's evidence, of what was not run."""
    stages = CodeStages([Scripted({"b": "reject", "ab": "reject"}), Crossed()])
    found = stages.verify(TASK, block("b", "a", "ab", "c"))
    assert found.evidence is not None
    nothing = [np.nan, np.nan]
    np.testing.assert_array_equal(found.evidence.cross, [nothing, [1, 0], nothing, [0, 0]])
    assert DualAgreement().decide(TASK, block("b", "a", "ab", "c"), found, None).kept == (1,)  # type: ignore[arg-type]
    found = stages.verify(TASK, block("b", "ab"))
    assert found.evidence is not None
    assert found.evidence.cross.shape == (2, 0)


def test_what_cannot_be_composed_is_refused() -> None:
    """No stage, more trusted than there are, an asynchronous one."""

    class Later:
        async def verify(self, context: Context, proposal: Proposal) -> Verification:
            return Verification()

    for stages, trusted in (([], 1), ([Scripted()], 2), ([Scripted()], 0)):
        with pytest.raises(ConfigError, match="cannot be trusted"):
            CodeStages(stages, trusted)
    with pytest.raises(ConfigError, match="'later' is asynchronous"):
        CodeStages([Later(), Scripted()])


def test_in_a_pipeline() -> None:
    """The record has each check's stage and the notes; a refusal reaches the generator; two runs have equal records."""
    draft = ScriptedGenerator([["bad", "worse"], ["good", "good too"]], shape="alternatives")
    stages = CodeStages(
        [
            Scripted({"bad": Check("reject", reason="syntax", feedback="line 1")}, "syntax"),
            Scripted({"worse": "reject"}),
        ]
    )
    pipeline = Pipeline(draft, stages, First(), policy=feedback(2).then(give_up()), block=2)
    records = [pipeline.record({"prompt": "p"}) for _ in range(2)]
    assert records[0].outcome.value == "good"
    first, second = records[0].rounds
    assert [check.stage for check in first.checks] == ["syntax", "scripted"]
    assert [check.verdict for check in second.checks] == ["pass", "unchecked"]
    assert second.notes is not None
    assert second.notes["order"] == ["syntax", "scripted"]
    assert timeless(records[0]) == timeless(records[1])


class Words:
    """A stage that refuses texts with a word in them, at a cost that it states."""

    def __init__(self, word: str, sees: str = "reject") -> None:
        self.word = word
        self.sees = sees

    def verify(self, context: Context, proposal: Proposal) -> Verification:
        verdicts = lambda _, item: self.sees if self.word in item else "pass"
        return ScriptedVerifier(verdicts, seconds=0.01).verify(context, proposal)


@parametrize_with_checks(
    [
        Subject(
            CodeStages(
                [Words("syntax"), Words("types", "timeout"), Words("doctest", "abstain"), Words("wrong")],
                trusted=2,
            ),
            proposals=[
                block("good", "syntax", "wrong types", "wrong", "doctest", "good"),
                block("wrong"),
                block(),
            ],
        ),
        Subject(CodeStages([ScriptedVerifier({"a": "pass", "mat": "pass"}, seconds=0.01)]), tasks=["a"]),
    ]
)
def test_conformance(component: Any, check: Any) -> None:
    """Stages of parts that keep the contract keep it."""
    check(component)
