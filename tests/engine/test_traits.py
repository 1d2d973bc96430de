"""What parts say of themselves: read where it belongs, and refused where it means nothing or stands elsewhere."""

from __future__ import annotations

from functools import cached_property
from typing import Any, ClassVar

import pytest

from draftverify import Pipeline, PipelineError, Proposal, generator, verifier
from draftverify.protocols import Closes, Prepares
from draftverify.rules import First
from draftverify.traits import (
    BlockTraits,
    GeneratorTraits,
    RuleTraits,
    VerifierTraits,
    is_asynchronous,
    offers,
    traits_of,
)

EVEN = verifier(lambda context, item: item % 2 == 0)


class Numbers:
    """Drafts numbers."""

    def propose(self, context: Any, n: int) -> Proposal:
        return Proposal.alternatives(range(n))


def built(**attributes: Any) -> Pipeline:
    return Pipeline(type("Odd", (Numbers,), attributes)(), EVEN, First())


@pytest.mark.parametrize(
    ("kind", "name", "near"),
    [
        (GeneratorTraits, "shap", "shape"),
        (GeneratorTraits, "family", "families"),
        (VerifierTraits, "provide", "provides"),
        (VerifierTraits, "plain_step", "plain_steps"),
        (RuleTraits, "need", "needs"),
        (BlockTraits, "shape", "shapes"),
    ],
)
def test_a_misspelt_trait_is_an_error_with_the_nearest_name(kind: type, name: str, near: str) -> None:
    """Where it is written down, which is before any pipeline."""
    with pytest.raises(PipelineError, match=rf"'{name}' is no trait of a \w+; did you mean {near}\b"):
        kind(**{name: "x"})


@pytest.mark.parametrize(
    ("kind", "traits", "problem"),
    [
        (GeneratorTraits, {"shape": "chains"}, "'chains' is no word for shape; did you mean chain"),
        (GeneratorTraits, {"laws": {"idd"}}, "'idd' is no word for laws; did you mean iid"),
        (GeneratorTraits, {"drafts_from": "lists"}, "did you mean list"),
        (GeneratorTraits, {"reads": "temperature"}, r"a set of names is needed, as \{'temperature'\}"),
        (GeneratorTraits, {"vocabulary": 7}, "a text or a function is needed, or None"),
        (VerifierTraits, {"provides": {"score"}}, "'score' is no word for provides; did you mean scores"),
        (VerifierTraits, {"concurrent": 0}, "True or False is needed"),
        (VerifierTraits, {"outside": "yes"}, "True or False is needed, or None"),
        (VerifierTraits, {"at_once": -1}, "a number, 0 or more"),
        (RuleTraits, {"enough": "all"}, "a number, 0 or more, is needed, or None"),
        (RuleTraits, {"enough": True}, "a number, 0 or more"),
        (RuleTraits, {"collects": "sometimes"}, "'sometimes' is no word for collects"),
        (RuleTraits, {"needs": 5}, "a set of names is needed"),
        (VerifierTraits, {"provides": [["scores"]]}, "a set of names is needed"),
        (GeneratorTraits, {"shape": ["chain"]}, r"\['chain'\] is no word for shape; did you mean chain"),
    ],
)
def test_a_value_that_means_nothing_is_refused(kind: type, traits: dict[str, Any], problem: str) -> None:
    """With what it may be."""
    with pytest.raises(PipelineError, match=problem):
        kind(**traits)


def test_collections_become_sets_that_nobody_changes() -> None:
    """Whatever they were given as; what the author goes on with is theirs."""
    laws: Any = ["iid"]
    traits = GeneratorTraits(laws=laws, reads=["temperature"])  # type: ignore[arg-type]
    laws.append("given")
    assert (traits.laws, traits.reads) == (frozenset({"iid"}), frozenset({"temperature"}))


@pytest.mark.parametrize("how", ["class", "instance", "property"])
def test_an_attribute_with_a_trait_s_name_is_refused(how: str) -> None:
    """Nobody would read it: the message says what to write instead."""
    attributes: dict[str, Any] = {
        "class": {"shape": "chain"},
        "property": {"shape": property(lambda self: 1)},
    }.get(how, {})
    part: Any = type("Odd", (Numbers,), attributes)()
    if how == "instance":
        part.shape = "chain"
    with pytest.raises(PipelineError, match=r"Odd says 'shape' .* write traits = GeneratorTraits\(shape=…\)"):
        Pipeline(part, EVEN, First())


def test_it_is_refused_beside_traits_too() -> None:
    """As a subclass that was written for another version would have it."""
    with pytest.raises(PipelineError, match=r"write traits = GeneratorTraits\(laws=…\)"):
        built(traits=GeneratorTraits(shape="alternatives"), laws=frozenset({"iid"}))
    with pytest.raises(PipelineError, match="'trait'; the name is traits"):
        built(trait=GeneratorTraits(shape="alternatives"))


def test_an_argument_may_have_any_name() -> None:
    """A constructor stores what it was given under its name."""

    class Shaped(Numbers):
        def __init__(self, shape: str, enough: int = 3) -> None:
            self.shape = shape
            self.enough = enough

    assert Pipeline(Shaped("round"), EVEN, First(), block=3).run("x").value == 0


def test_traits_of_another_role_are_refused() -> None:
    """And anything else that is called so; a part of several roles has a tuple."""
    with pytest.raises(
        PipelineError, match=r"the traits of Odd are VerifierTraits.*; GeneratorTraits is needed"
    ):
        built(traits=VerifierTraits())
    with pytest.raises(PipelineError, match="GeneratorTraits is needed"):
        built(traits={"shape": "chain"})
    both = built(traits=(VerifierTraits(provides={"target"}), GeneratorTraits(shape="alternatives")))
    assert both.declared[id(both.generator)].shape == "alternatives"


def test_a_property_that_fails_is_not_taken_for_none() -> None:
    """Its AttributeError is its author's to see."""

    class Broken(Numbers):
        @property
        def traits(self) -> GeneratorTraits:
            return GeneratorTraits(shape=self.form)  # type: ignore[attr-defined]

    with pytest.raises(AttributeError, match="form"):
        Pipeline(Broken(), EVEN, First())


def test_a_part_is_asked_once_by_a_pipeline() -> None:
    """What it says of itself does not change under a run."""

    class Counted(Numbers):
        asked: ClassVar[list[int]] = []

        @cached_property
        def traits(self) -> GeneratorTraits:
            self.asked.append(1)
            return GeneratorTraits()

    pipeline = Pipeline(Counted(), EVEN, First(), block=3)
    assert [pipeline.run(str(task)).value for task in range(3)] == [0, 0, 0]
    assert len(Counted.asked) == 1


def test_optional_methods_are_found_by_their_protocol() -> None:
    """One whose property raises AttributeError is not there, and neither is one that is no method."""

    class Some:
        prepare = "no method"

        def close(self) -> None: ...

        @property
        def open(self) -> Any:
            raise AttributeError("open")

    assert (offers(Some(), Closes), offers(Some(), Prepares)) == (True, False)


def test_what_takes_turns_or_is_awaited_says_so_in_any_role() -> None:
    """A part of two roles of which one takes turns does so in both."""

    class Both(Numbers):
        traits = (GeneratorTraits(shape="alternatives"), VerifierTraits(concurrent=False))

        def verify(self, context: Any, proposal: Proposal) -> Any: ...

    both, rule = Both(), First()
    pipeline = Pipeline(both, both, rule)
    assert (pipeline.takes_turns(both), pipeline.takes_turns(rule)) == (True, False)
    assert not is_asynchronous(both)

    async def later(context: Any, n: int) -> list[int]:
        return [1]

    assert is_asynchronous(generator(later))
    assert traits_of(generator(later), GeneratorTraits).asynchronous
