"""The boundary: what it refuses of an answer, what it lets pass, and in which form, at the edges."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from draftverify import (
    PASS,
    Answer,
    Check,
    Choice,
    ContractError,
    Correction,
    Cost,
    Decision,
    Evidence,
    Failure,
    Pipeline,
    Proposal,
    Refusal,
    Task,
    Verification,
    escalate,
    generator,
    iid,
    retry,
    verifier,
)
from draftverify.bench.records import timeless
from draftverify.engine import boundary
from draftverify.engine.requests import Ask, Decide, Draft, Finish, Prepare, Verify
from draftverify.kit import make_context, make_draws
from draftverify.rules import All, First, Limit, Majority
from draftverify.secret import Secret
from draftverify.traits import BlockTraits, GeneratorTraits, RuleTraits, VerifierTraits
from draftverify.values import Explanation, Held, TaskRecord

from .parts import Blocks, Judge, Prefix, TakeFirst

LAWS = frozenset({"given", "iid"})
NAN, INF = float("nan"), float("inf")


def q(rows):
    return iid(np.full((rows, 4), 0.25))


def read(request: Any, value: Any, *, shape=None, shapes=None) -> Any:
    parts: Any = SimpleNamespace(
        declared={id(request.part): GeneratorTraits(shape=shape, laws=LAWS)},
        rule_traits=RuleTraits(shapes=shapes),
    )
    return boundary.read(request, value, parts)


def propose(proposal: Any, *, asked=8, held=0, **declared: Any) -> Any:
    context = make_context("x", held=[Held(0, None, 0, 0)] * held)
    return read(Draft(1, Blocks(), context, asked), proposal, **declared)


def verify(verification: Any, n: int) -> Any:
    return read(Verify(1, Judge(None), make_context("x"), Proposal.alternatives(range(n))), verification)


def decide(decision: Any, n: int, held: int = 0) -> Any:
    context = make_context("x", held=[Held(0, None, 0, 0)] * held)
    block = Proposal.alternatives(tuple(range(n)))
    return read(Decide(1, TakeFirst(), context, block, Verification(), make_draws()), decision)


def refused(found: Any, words: str) -> bool:
    """Whether it is a failure that names the part and says so."""
    assert isinstance(found, Failure), found
    assert (found.kind, found.error) == ("error", "ContractError")
    assert found.message.partition(":")[0] in ("Blocks", "Judge", "TakeFirst"), found.message
    assert words in found.message, found.message
    return True


@pytest.mark.parametrize(
    "proposal",
    [
        Proposal.chain(()),
        Proposal.chain((), q(0)),
        Proposal.chain((5,), q(1)),
        Proposal.chain((5, 6, 7), q(3)),
        Proposal.chain((5, 6, 7), q(4)),
        Proposal.alternatives((5, 6, 7), q(1)),
        Proposal.tree((5, 6, 7), (-1, 0, 0), q(2)),
        Proposal.chain(("a", None, 2.5, True)),
    ],
)
def test_a_proposal_with_a_row_of_q_for_each_parent_is_taken(proposal):
    """A chain of n needs n rows, siblings one; more do no harm. What is right comes through as it is."""
    assert propose(proposal) is proposal


def test_items_in_an_array_are_taken_as_a_read_only_copy():
    """With their row of q for each parent."""
    taken = propose(Proposal.chain(np.array([5, 6]), q(2)))
    assert (list(taken.items), taken.items.flags.writeable) == ([5, 6], False)


@pytest.mark.parametrize(
    ("proposal", "words"),
    [
        ("nonsense", "must return a Proposal, not 'nonsense' (str)"),
        (Proposal.chain((5, 6, 7), q(2)), "[>= 3, vocabulary]"),
        (Proposal.tree((5, 6, 7), (-1, 0, 1), q(2)), "[>= 3, vocabulary]"),
        (Proposal.tree((5, 6, 7), (-1, 0, 0), q(1)), "[>= 2, vocabulary]"),
        (Proposal.chain((5, 6), iid(np.full(4, 0.25))), "q has shape"),
        (Proposal.chain((5, 6), iid([[0.5, 0.5]] * 2)), "an array is needed"),
        (Proposal.chain((5,), "given"), "a Law is needed"),  # type: ignore[arg-type]
        (Proposal.tree((5, 6), (-1, 1)), "item 1 has parent 1"),
        (Proposal.tree((5, 6), (-2, 0)), "item 0 has parent -2"),
        (Proposal.tree((5,), (0,)), "item 0 has parent 0"),
        (Proposal.tree((5, 6), (-1, True)), "True (bool) is no whole number"),
        (Proposal(items=(), parents=(-1,)), "0 items came with 1 parents"),
        (Proposal.chain(range(9)), "at most 8"),
        (Proposal(items="abc", parents=(-1, 0, 1)), "items came as a str"),
        (Proposal(items=5, parents=()), "items came as a int"),  # type: ignore[arg-type]
        (Proposal.chain((5,), cost=Cost(seconds=INF)), "the seconds of the cost cannot be inf"),
        (Proposal.chain((5,), cost=Cost(amount=-1.0)), "the amount of the cost cannot be -1.0"),
        (Proposal.chain((5,), cost=3.0), "a Cost is needed"),
        (Proposal.chain((5,), exhausted="no"), "True or False is needed"),
        (Proposal.chain((5,), nested=("record",)), "TaskRecords"),
    ],
)
def test_a_proposal_that_breaks_its_contract_is_a_failure(proposal, words):
    """It names the item, the rows that are missing, or what came."""
    assert refused(propose(proposal), words)


def test_a_shape_is_held_against_what_the_generator_declares_and_the_rule_judges():
    """A chain is refused where alternatives are declared, or alone judged; one item is every shape."""
    chain, one = Proposal.chain((5, 6)), Proposal.chain((5,))
    assert propose(chain, shape="chain", shapes=frozenset({"chain", "tree"})) is chain
    assert propose(chain, shape="chain") is chain
    assert propose(one, shape="alternatives", shapes=frozenset({"alternatives"})) is one
    assert refused(propose(chain, shape="alternatives"), "declares shape 'alternatives'")
    assert refused(
        propose(chain, shape="chain", shapes=frozenset({"alternatives"})), "the rule judges alternatives"
    )
    assert refused(propose(Proposal.alternatives((1,), extends=(0,))), "0 are held")
    assert propose(Proposal.alternatives((1,), extends=[0]), held=1).extends == (0,)


@pytest.mark.parametrize(("name", "rows"), [("target", 4), ("raw_maxima", 4), ("cross", 3)])
def test_evidence_has_a_row_for_each_item(name, rows):
    """Distributions have one more, after the last item; the failure names the array."""
    make = lambda n: Verification(evidence=Evidence(**{name: np.ones((n, 3) if name != "raw_maxima" else n)}))
    right = make(rows)
    assert verify(right, 3) is right
    for wrong in (rows - 1, rows + 1):
        assert refused(verify(make(wrong), 3), f"evidence {name} has {wrong} rows; {rows} are needed")
    assert refused(verify(Verification(evidence=Evidence(**{name: np.ones((rows, 3, 2))})), 3), "dimensions")
    assert refused(verify(Verification(evidence=Evidence(**{name: [[1.0]] * rows})), 3), "an array is needed")


@pytest.mark.parametrize(
    ("verification", "words"),
    [
        (Verification(checks=(PASS,)), "1 checks came for 2 items"),
        (Verification(checks=(PASS,) * 3), "3 checks came for 2 items"),
        (Verification(), "neither checks nor evidence"),
        (Verification(checks=(PASS, True)), "the check of item 1 is True (bool)"),
        (Verification(checks=(PASS, "reject")), "the check of item 1 is 'reject'"),
        (Verification(checks=(PASS, Check("maybe"))), "'maybe' is no verdict"),
        (Verification(checks=(PASS, Check("pass", score=NAN))), "the score of item 1 is nan"),
        (Verification(checks=(PASS, Check("pass", score=INF))), "the score of item 1 is inf"),
        (Verification(checks=(PASS, Check("pass", score="high"))), "a finite number is needed"),
        (Verification(checks=(PASS, Check("reject", reason=None))), "a text is needed"),
        (Verification(checks=(PASS, PASS), cost=Cost(seconds=NAN)), "the seconds of the cost cannot be nan"),
        (Verification(checks=(PASS, PASS), notes={"when": object()}), "cannot be recorded"),
        (Verification(checks=(PASS, PASS), notes={"ratio": NAN}), "no JSON number"),
        ([PASS, PASS], "must return a Verification"),
    ],
)
def test_a_verification_that_breaks_its_contract_is_a_failure(verification, words):
    """A verdict is one of the six words, a score a finite number; nothing else passes for either."""
    assert refused(verify(verification, 2), words)


def test_answers_are_read_into_one_form():
    """Lists become tuples, numbers of an array library Python's own, tuples inside items lists, as JSON has them."""
    made = propose(Proposal(items=[("a", np.float64(0.5)), {"k": (1, 2)}, np.int64(3)], parents=[-1, -1, -1]))
    assert made.items == (["a", 0.5], {"k": [1, 2]}, 3)
    assert [type(each) for each in (made.items[0][1], made.items[2])] == [float, int]
    assert (
        "False (bool) is no whole number" in propose(Proposal(items=("a", "b"), parents=(-1, False))).message
    )
    checked = verify(
        Verification(checks=[Check("pass", np.float32(0.5), correction=(1,)), PASS], by="person"), 2
    )
    assert (checked.checks[0].score, checked.checks[0].correction, checked.by) == (0.5, [1], "verifier")
    odd = verify(
        Verification(
            checks=(Check("reject", reason="naïve", feedback="half \ud83d of a pair", caveat="\ud83d ä"),)
        ),
        1,
    ).checks[0]
    assert (odd.reason, odd.feedback, odd.caveat) == ("naïve", "half \\ud83d of a pair", "\\ud83d ä")
    assert refused(verify(Verification(checks=(Check("pass", caveat=b"few"),)), 1), "the caveat of item 0")
    decided = decide(
        Decision(kept=[np.int64(0)], refused=[Refusal(1)], corrected=[Correction(2, (1,))], spliced=[(2,)]), 3
    )
    assert (decided.kept, decided.refused) == ((0,), (Refusal(1),))
    assert (decided.corrected[0].value, decided.spliced) == ([1], ([2],))
    finish = Finish(1, First(), make_context("x"))
    assert read(finish, (1, (2,))).value == (1, [2])
    assert read(finish, Choice(("a",), score=np.float64(1))) == Choice(("a",), score=1.0)
    assert read(finish, None) is read(finish, Choice(None)) is None
    assert isinstance(read(finish, Choice(1, score=NAN)), Failure)


def test_notes_and_explanations_hold_no_secret():
    """Texts, and keys too, however deep; what is no text stays as it is."""
    Secret("noted-key-1")
    notes = {"noted-key-1": ["by noted-key-1", {"deep noted-key-1": 1.5}], "n": (1, None, True)}
    said = verify(Verification(checks=(PASS,), notes=notes), 1)
    assert said.notes == {"***": ["by ***", {"deep ***": 1.5}], "n": [1, None, True]}
    told = boundary.read_explanation(Explanation("unexplained", "noted-key-1 is wrong"), Judge(None))
    assert told.text == "*** is wrong"
    with pytest.raises(ContractError, match="the text of an explanation is 7"):
        boundary.read_explanation(Explanation("unexplained", 7), Judge(None))


@pytest.mark.parametrize(
    "decision",
    [
        Decision(kept=(0, 1, 2)),
        Decision(kept=(0, 1), refused=(Refusal(2),)),
        Decision(refused=(Refusal(2), Refusal(0)), held=(1,)),
        Decision(kept=(2, 0)),
        Decision(released=(0,)),
        Decision(kept=(0,), corrected=(Correction(1, "other"),)),
    ],
)
def test_a_decision_on_items_that_are_there_is_taken(decision):
    """Each at most once, in any order."""
    assert msgspec.structs.asdict(decide(decision, 3, 1)) == msgspec.structs.asdict(decision)


@pytest.mark.parametrize(
    ("decision", "words"),
    [
        (Decision(kept=(0, 1, 2, 3)), "item 3 was decided on in a block of 3"),
        (Decision(kept=(0, 1), refused=(Refusal(3),)), "item 3 was decided on"),
        (Decision(kept=(0, 1), refused=(Refusal(1),)), "decided on twice"),
        (Decision(kept=(0, 0)), "decided on twice"),
        (Decision(kept=(0,), held=(0,)), "decided on twice"),
        (Decision(kept=(0,), corrected=(Correction(0, 1),)), "decided on twice"),
        (Decision(refused=(Refusal(1), Refusal(1))), "decided on twice"),
        (Decision(kept=(-1,)), "item -1 was decided on"),
        (Decision(released=(1,)), "held item 1 was released; 1 are held"),
        (Decision(kept=(False, True)), "kept: False (bool) is no whole number"),
        (Decision(kept=("0",)), "kept: '0' (str) is no whole number"),
        (Decision(kept=3), "kept: 3 (int) is no list of indices"),  # type: ignore[arg-type]
        (Decision(refused=(1,)), "refused: 1 (int) is no Refusal"),
        (Decision(kept=(0,), done="yes"), "done is 'yes'"),  # type: ignore[arg-type]
        (Decision(kept=(0,), items=(1, 2)), "2 items were brought along for a block of 3"),
        (None, "must return a Decision"),
    ],
)
def test_a_decision_on_absent_items_or_on_one_twice_is_a_failure(decision, words):
    """It names the index, or what is no index."""
    assert refused(decide(decision, 3, 1), words)


@given(
    n=st.integers(0, 4),
    kept=st.lists(st.integers(0, 4) | st.booleans(), max_size=4),
    refused=st.lists(st.integers(-1, 5), max_size=2),
    spliced=st.lists(st.integers() | st.text(max_size=1) | st.tuples(st.integers()), max_size=2),
    done=st.booleans(),
)
def test_the_commonest_decisions_are_held_to_the_same_contract(n, kept, refused, spliced, done):
    """What the short way takes or refuses is what the long way does, which lists in place of tuples go."""
    refusals = [Refusal(index) for index in refused]
    short = Decision(kept=tuple(kept), refused=tuple(refusals), spliced=tuple(spliced), done=done)
    long = Decision(kept=kept, refused=refusals, spliced=spliced, done=done)
    first, second = decide(short, n), decide(long, n)
    assert first == second
    assert not isinstance(first, Decision) or [type(index) for index in first.kept] == [int] * len(kept)


def test_a_person_answers_in_known_words():
    """A misspelt answer is refused where it is made, and anything else where it arrives."""
    with pytest.raises(ContractError, match="'acept' is no answer; one of accept, edit, reject, skip is"):
        Answer("acept")  # type: ignore[arg-type]
    ask = Ask(1, None, Task(id="t"), None, (), None)
    for wrong in (True, "accept", msgspec.convert({"kind": "edit"}, dict)):
        assert isinstance(read(ask, wrong), Failure)
    assert read(ask, Answer("edit", ("a",))).value == ["a"]
    pipeline = Pipeline(Blocks([1]), Judge(lambda c, i: "reject"), TakeFirst(), policy=escalate())
    outcome = pipeline.run("x", ask=lambda request: "accept")
    assert (outcome.status, outcome.value) == ("failed", None)
    assert "a person answers with an Answer" in outcome.reason


def test_a_prepared_task_keeps_its_id():
    """Anything else is a failure."""
    prepare = Prepare(1, Judge(None), Task(id="a"))
    task = Task(id="a", input={"ids": [1]})
    assert read(prepare, task) is task
    for wrong in (Task(id="b"), None, {"id": "a"}):
        assert isinstance(read(prepare, wrong), Failure)


# Through whole pipelines


@pytest.mark.parametrize("said", ["reject", 0.01, (False, "why"), 1, [], object()])
def test_a_truthy_word_of_a_function_is_no_pass(said):
    """A verifier function says True, False, None or a Check; all else fails the call and names the function."""

    def judge(context, item):
        return said

    record = Pipeline(generator(lambda c, n: [1]), verifier(judge), First()).record("x")
    assert record.outcome.status == "failed"
    assert "judge returned" in record.outcome.failure.message
    assert (record.outcome.tally.trials, record.outcome.value) == (0, None)


def test_booleans_of_numpy_are_booleans():
    """A comparison of arrays gives one."""
    parts = generator(lambda c, n: [1, 2]), verifier(lambda c, item: np.int64(item) == 2)
    assert Pipeline(*parts, First(), block=2).run("x").value == 2


@pytest.mark.parametrize("made", ["text", b"bytes", {"a": 1}, 3, None])
def test_a_generator_function_gives_an_iterable_that_is_no_text(made):
    """Else a text would be proposed letter by letter."""

    def draft(context, n):
        return made

    outcome = Pipeline(generator(draft), verifier(lambda c, i: True), First()).run("x")
    assert outcome.status == "failed"
    assert "draft returned" in outcome.failure.message


def test_coroutine_functions_run_where_a_driver_can_await_them():
    """Under asyncio they do; else the failure says what to do, and no coroutine is left behind."""

    async def draft(context, n):
        await asyncio.sleep(0)
        return [1, 2, 3]

    async def judge(context, item):
        await asyncio.sleep(0)
        if item == 1:
            raise TimeoutError
        return item == 3

    pipeline = Pipeline(generator(draft), verifier(judge), First(), block=3)
    record = asyncio.run(pipeline.arecord("x"))
    assert (record.outcome.value, [c.verdict for c in record.rounds[0].checks]) == (
        3,
        ["timeout", "reject", "pass"],
    )
    assert "run this pipeline with arun" in pipeline.run("x").failure.message
    mixed = Pipeline(generator(lambda c, n: [3]), verifier(lambda c, i: judge(c, i)), First())
    assert "returned <coroutine" in mixed.run("x").failure.message


def test_what_judges_side_by_side_has_ended_when_one_verdict_is_none():
    """A call that fails leaves no coroutine at work on the task."""
    ended = []

    async def judge(context, item):
        await asyncio.sleep(0.01 * item)
        ended.append(item)
        return "yes" if item == 0 else True

    pipeline = Pipeline(generator(lambda c, n: [0, 1]), verifier(judge), All(), block=2)
    outcome = asyncio.run(pipeline.arun("x"))
    assert "returned 'yes'" in outcome.reason
    assert ended == [0, 1]


@pytest.mark.parametrize(
    ("enough", "passing", "judged", "most"),
    [
        (None, "ac", "abcde", 5),
        (1, "cd", "abc", 1),
        (2, "ae", "abcde", 2),
        (2, "ab", "ab", 2),
        (0, "ab", "", 0),
    ],
)
def test_a_coroutine_function_judges_no_more_than_are_still_missing(enough, passing, judged, most):
    """Side by side as many as are missing, in order; the rest of the block is unchecked."""
    seen, together, peak = [], 0, 0

    async def judge(context, item):
        nonlocal together, peak
        seen.append(item)
        together += 1
        peak = max(peak, together)
        await asyncio.sleep(0)
        together -= 1
        return item in passing

    context = make_context("x", enough=enough)
    checks = asyncio.run(verifier(judge).verify(context, Proposal.alternatives("abcde"))).checks
    said = {True: "pass", False: "reject"}
    assert [check.verdict for check in checks] == [
        said[item in passing] if item in judged else "unchecked" for item in "abcde"
    ]
    assert ("".join(seen), peak) == (judged, most)


@pytest.mark.parametrize("said", [False, True, -1, 1.5, "1", [1]])
def test_a_stopping_rule_says_none_or_a_number(said):
    """False is not none of the values kept: the task fails and names the rule."""

    def enough(context, new):
        return said

    outcome = Pipeline(Blocks(Proposal.chain((2,))), Judge(lambda c, i: "pass"), Prefix(), done=enough).run(
        "x"
    )
    assert outcome.status == "failed"
    assert "how many values to keep" in outcome.failure.message


class Sized:
    """A block size whose two methods do as they are told."""

    traits = BlockTraits(deterministic=True)

    def __init__(self, size: Any, observe: Any = None) -> None:
        self.says, self.learns = size, observe

    def size(self, context):
        return self.says

    def observe(self, context, round):
        if self.learns is not None:
            raise self.learns


@pytest.mark.parametrize("size", [2.0, "2", None, True, -1])
def test_a_block_size_is_a_number_of_items(size):
    """Else that task fails, and the others of a batch do not."""
    pipeline = Pipeline(Blocks([1, 2]), Judge(lambda c, i: "pass"), TakeFirst(), block=Sized(size))
    outcomes = pipeline.run(["a", "b"])
    assert [outcome.status for outcome in outcomes] == ["failed", "failed"]
    assert "a block size" in outcomes[0].reason


def test_a_block_size_that_cannot_learn_fails_its_task_alone():
    """The round that was paid for is in the record."""
    pipeline = Pipeline(
        Blocks([1], [2]), Judge(lambda c, i: "pass"), All(), block=Sized(1, KeyError("table")), done=Limit(2)
    )
    record = pipeline.record("x")
    assert (record.outcome.status, record.outcome.value, len(record.rounds)) == ("failed", (1,), 1)
    assert "could not learn from a round" in record.outcome.reason


@pytest.mark.parametrize("bad", [NAN, INF, [float("-inf")]])
def test_one_bad_value_fails_one_task_of_a_batch(bad):
    """Neither the batch nor another task hears of it."""
    score = bad if isinstance(bad, float) else 0.0
    cost = Cost(amount=bad[0]) if isinstance(bad, list) else None

    class Odd:
        traits = VerifierTraits(provides={"verdicts", "scores"})

        def verify(self, context, proposal):
            odd = context.task.id == "1"
            checks = [Check("pass", score=score if odd else 1.0)]
            return Verification(checks=checks, cost=cost if odd else None)

        def verify_many(self, contexts, proposals):
            return [self.verify(*each) for each in zip(contexts, proposals, strict=True)]

    outcomes = Pipeline(Blocks([7]), Odd(), First()).run(["a", "b", "c"])
    assert [outcome.status for outcome in outcomes] == ["accepted", "failed", "accepted"]
    assert "Odd" in outcomes[1].failure.message


def test_a_live_run_and_a_resumed_one_see_the_same_values():
    """Tuples are lists from the first, as they are when they come back from JSON: votes by them agree."""
    seen: list[Any] = []

    def judge(context, item):
        seen.append((item, list(context.held)))
        return item[1] < 3

    pairs = [("a", 1), ("b", 2), ("a", 1), ("c", 3)]
    parts = generator(lambda c, n: [pairs[c.round % 4]]), verifier(judge)
    pipeline = Pipeline(
        *parts, Majority(), policy=retry(1), done=lambda c, new: 0 if len(c.held) > 3 else None
    )
    whole = pipeline.record("x")
    assert whole.outcome.value == ["a", 1]
    live, seen[:] = list(seen), []
    for stop in range(len(whole.rounds)):
        read_back = msgspec.json.decode(msgspec.json.encode(whole), type=TaskRecord)
        assert timeless(pipeline.record("x", restore=read_back.rounds[:stop])) == timeless(whole)
        assert seen == live[stop:]
        seen.clear()
