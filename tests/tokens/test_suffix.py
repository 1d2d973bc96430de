"""Suffix lookup: what it drafts from the task's own text, from earlier outputs, and that it keeps no other truth."""

from __future__ import annotations

import json
from itertools import pairwise

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from draftverify import Decision, Memory, Outcome, Pipeline, Round, TaskRecord
from draftverify.bench.config.experiment import load_experiment
from draftverify.bench.records import load_run
from draftverify.bench.runner.run import run
from draftverify.kit import (
    DraftFrom,
    ScriptedVerifier,
    TableModel,
    TargetFrom,
    advanced,
    check_component,
    make_context,
)
from draftverify.rules import GreedyMatch, Limit, Tree
from draftverify_tokens.suffix import Suffix
from tests.tokens.test_suffix_automaton import counted, ends

texts = st.lists(st.integers(0, 2), min_size=1, max_size=18)
outputs = st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=8), max_size=4)
thresholds = st.sampled_from([0.0, 0.05, 0.2, 0.5])


def record(*rounds: object, task: str = "earlier") -> TaskRecord:
    """A finished task that emitted these values, a tuple a round."""
    made = (Round(index=i, decision=Decision(emitted=emitted)) for i, emitted in enumerate(rounds))
    return TaskRecord(task=task, outcome=Outcome(status="accepted"), rounds=tuple(made))


def remembering(*outputs: list[int]) -> Memory:
    return Memory(len(outputs), tuple(record(tuple(output), task=str(i)) for i, output in enumerate(outputs)))


def context_with(prompt, accepted=(), memory=None, scratch=None, **more):
    return make_context({"prompt_ids": prompt, **more}, accepted=accepted, memory=memory, scratch=scratch)


def went_on(sequences: list[list[int]], match: list[int]) -> list[int]:
    """The longest suffix of a match that something followed."""
    return next(
        (
            match[i:]
            for i in range(len(match))
            if any(end < len(sequences[which]) for which, end in ends(sequences, match[i:]))
        ),
        [],
    )


def longest(sequences: list[list[int]], text: list[int]) -> list[int]:
    """The longest suffix of a text that occurs."""
    return next((text[i:] for i in range(len(text)) if ends(sequences, text[i:])), [])


def paths(text: list[int], memory: list[list[int]], depth: int) -> dict[tuple[int, ...], float]:
    """The oracle: the estimated probability of every path of at most `depth` tokens after the text."""
    own = [text]
    repeated = next((text[i:] for i in range(1, len(text)) if ends([text[:-1]], text[i:])), [])
    found: dict[tuple[int, ...], float] = {}

    def grow(path: tuple[int, ...], reached: float, mine: list[int], theirs: list[int]) -> None:
        mine, theirs = went_on(own, mine), went_on(memory, theirs)
        shares: dict[int, float] = {}
        left = reached
        order = [(own, mine), (memory, theirs)]
        for sequences, match in order if len(mine) >= len(theirs) else order[::-1]:
            if match:
                counts = counted(sequences, match)
                belief = left * len(match) / (len(match) + 1)
                for token, count in counts.items():
                    shares[token] = shares.get(token, 0.0) + belief * count / sum(counts.values())
                left -= belief
        for token, probability in shares.items():
            found[(*path, token)] = probability
            if len(path) + 1 < depth:
                grow(
                    (*path, token),
                    probability,
                    longest(own, [*mine, token]),
                    longest(memory, [*theirs, token]),
                )

    grow((), 1.0, repeated, longest(memory, text))
    return found


def tree_paths(proposal) -> list[tuple[int, ...]]:
    return [tuple(proposal.items[i] for i in proposal.path(index)) for index in range(len(proposal))]


@given(texts, st.integers(0, 5), thresholds)
def test_a_chain_is_the_likeliest_continuation_of_the_longest_match(text, n, threshold):
    """At each step a token that is counted most often there, until the path's probability is below the threshold."""
    items = Suffix(threshold).propose(context_with(text[:3], text[3:]), n).items
    known = paths(text, [], len(items) + 1)
    for end in range(1, len(items) + 1):
        siblings = [p for path, p in known.items() if len(path) == end and path[:-1] == items[: end - 1]]
        assert known[items[:end]] == pytest.approx(max(siblings))
        assert known[items[:end]] >= threshold - 1e-12
    if len(items) < n:
        further = [p for path, p in known.items() if path[:-1] == items]
        assert max(further, default=0.0) <= max(threshold, 1e-12)


@given(texts, outputs, st.integers(0, 4), thresholds)
@example(
    [1, 1, 1], [[1, 1], [1, 0, 1, 2]], 2, 0.5
)  # a token that is third after one match and first after the other
def test_a_tree_has_the_likeliest_nodes(text, earlier, n, threshold):
    """No path outside the tree is likelier than one inside, and parents stand before their children."""
    proposal = Suffix(threshold, tree=True).propose(context_with(text, memory=remembering(*earlier)), n)
    known = {path: p for path, p in paths(text, earlier, n).items() if p >= threshold} if n else {}
    chosen = tree_paths(proposal)
    assert len(set(chosen)) == len(chosen) == min(n, len(known))
    expected = sorted(known.values(), reverse=True)[: len(chosen)]
    assert [known[path] for path in chosen] == pytest.approx(expected)
    assert all(path[:-1] in chosen[:place] for place, path in enumerate(chosen) if len(path) > 1)


def test_a_longer_match_brings_a_longer_draft():
    """After one known token two are drafted; after six, as many as were asked for."""
    passage = [11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22]
    short = Suffix(0.3).propose(context_with([*passage, 99, 13]), 6)
    long = Suffix(0.3).propose(context_with([*passage, 99, *passage[:6]]), 6)
    assert short.items == (14, 15)
    assert long.items == (17, 18, 19, 20, 21, 22)


def test_a_text_that_repeats_is_drafted_at_any_length():
    """A match that reaches the text's end goes on with what followed it before."""
    assert Suffix(0).propose(context_with([7, 8, 9] * 3), 7).items == (7, 8, 9, 7, 8, 9, 7)


def test_a_tree_branches_where_the_text_went_on_in_two_ways():
    """Both continuations after the first, the latest before the other."""
    proposal = Suffix(0, tree=True).propose(context_with([1, 2, 5, 3, 1, 2, 6, 4, 1, 2]), 4)
    assert tree_paths(proposal) == [(6,), (5,), (6, 4), (5, 3)]
    assert proposal.law.kind == "given"


def test_the_longer_match_is_followed_and_the_tasks_own_where_equal():
    """Between the task's text and an earlier output."""
    text = [1, 2, 3, 50, 1, 2]
    assert Suffix(0).propose(context_with(text, memory=remembering([9, 2, 60])), 1).items == (3,)
    assert Suffix(0).propose(context_with(text, memory=remembering([1, 2, 60])), 1).items == (3,)
    assert Suffix(0).propose(context_with(text, memory=remembering([50, 1, 2, 60])), 1).items == (60,)


def test_a_draft_goes_over_to_the_other_text_where_its_own_ends():
    """An earlier output that ended is left for the match that still leads on."""
    memory = remembering([8, 1, 2, 3])
    assert Suffix(0).propose(context_with([2, 3, 4, 5, 8, 1], memory=memory), 4).items == (2, 3, 4, 5)


# Corrections that earlier tasks met with


def says(answer: list[int]):
    """A target that answers so to any prompt of 7 tokens."""

    def row(prefix):
        place = len(prefix) - 7
        token = answer[place] if place < len(answer) else 0
        return [float(token == i) for i in range(30)]

    return ScriptedVerifier(target=row)


ANSWER = [2, 3, 9, 8, 7, 10]


def test_a_correction_in_one_task_changes_the_drafts_of_later_ones():
    """The prompt suggests 4 after 2 3 and the target corrects it; where the next prompt does too, 9 is drafted."""
    drafter = Suffix(0)
    pipeline = Pipeline(drafter, says(ANSWER), GreedyMatch(), block=5, done=Limit(6))
    first = pipeline.record({"prompt_ids": [1, 2, 3, 4, 5, 2, 6]})
    corrected = next(round for round in first.rounds if 4 in round.items)
    assert corrected.decision.emitted[-1] == 9

    memory, prompt = Memory(1, (first,)), [1, 6, 3, 4, 5, 2, 6]
    assert drafter.propose(context_with(prompt, [2, 3]), 4).items == (4, 5, 2, 6)
    assert drafter.propose(context_with(prompt, [2, 3], memory), 4).items == (9, 8, 7, 10)

    alone, taught = (pipeline.record({"prompt_ids": prompt}, memory=each) for each in (None, memory))
    assert taught.outcome.value == alone.outcome.value == tuple(ANSWER)
    assert taught.outcome.rounds < alone.outcome.rounds


PARTS = """
from draftverify.kit import ScriptedVerifier
from draftverify_tokens.suffix import Suffix

class Target(ScriptedVerifier):
    def __init__(self) -> None:
        answer = [2, 3, 9, 8, 7, 10] + [0] * 9
        super().__init__(target=lambda prefix: [float(i == answer[len(prefix) - 7]) for i in range(30)])

class Drafter(Suffix):
    def __init__(self) -> None:
        super().__init__(0)
"""
CONFIG = """
name: suffixes
tasks: {use: jsonl, path: tasks.jsonl, id: id}
parts: [./mine.py]
pipelines:
  suffix:
    generator: {use: mine.Drafter}
    verifier: {use: mine.Target}
    rule: {use: greedy_match}
    block: 5
    done: {use: limit, items: 6}
"""


def test_a_run_with_epochs_teaches_its_later_tasks(tmp_path):
    """As from Python, with the memory that an experiment reads from its store; without epochs each task is alone."""
    (tmp_path / "mine.py").write_text(PARTS)
    prompts = [[1, 2, 3, 4, 5, 2, 6], [1, 6, 3, 4, 5, 2, 6], [5, 6, 3, 4, 5, 2, 6]]
    lines = [json.dumps({"id": str(i), "prompt_ids": prompt}) for i, prompt in enumerate(prompts)]
    (tmp_path / "tasks.jsonl").write_text("\n".join(lines))
    rounds = {}
    for name, more in (("with", "memory: {every: 1}\n"), ("without", "")):
        (tmp_path / "run.yaml").write_text(CONFIG + more)
        run(load_experiment(tmp_path / "run.yaml"), out=tmp_path / name)
        with load_run(tmp_path / name) as records:
            found = [entry.record for entry in records.entries()]
        assert [list(record.outcome.value) for record in found] == [ANSWER] * 3
        rounds[name] = [record.outcome.rounds for record in found]
    assert rounds["with"][0] == rounds["without"][0]
    assert rounds["with"][1] < rounds["without"][1]
    assert rounds["with"][2] < rounds["without"][2]


def test_a_record_that_was_written_and_read_again_teaches_the_same():
    """As the store of a run keeps it."""
    made = record((2, 3), (9, 8))
    again = msgspec.json.decode(msgspec.json.encode(made), type=TaskRecord)
    one, other = (
        Suffix(0).propose(context_with([5, 2, 3], memory=Memory(1, (each,))), 2) for each in (made, again)
    )
    assert one.items == other.items == (9, 8)


@pytest.mark.parametrize(
    "emitted",
    [("text",), (1.5, 2), (2, 3, None), (True, 2), ([2, 3], 9), ({"edit": 1},), (-4, 2, 3), (2, 3, 4000), ()],
    ids=repr,
)
@pytest.mark.parametrize("tree", [False, True])
def test_records_without_token_ids_are_left_out(emitted, tree):
    """Programs, plan steps, scores or ids that the target lacks: the drafts are those of the other records alone."""
    good = record((2, 3, 9, 8))
    context = context_with([5, 2, 3], memory=Memory(2, (record(emitted), good)), vocabulary=100)
    alone = context_with([5, 2, 3], memory=Memory(1, (good,)), vocabulary=100)
    assert Suffix(0, tree).propose(context, 3).items == Suffix(0, tree).propose(alone, 3).items == (9, 8)
    only = context_with(
        [5, 2, 3],
        memory=Memory(1, (record(emitted), TaskRecord(task="x", outcome=Outcome(status="failed")))),
        vocabulary=100,
    )
    assert Suffix(0, tree).propose(only, 3).items == ()


# Nothing but the context decides


@given(texts, outputs, st.data())
def test_the_same_drafts_whenever_scratch_is_lost_and_memory_is_read_again(prompt, earlier, data):
    """One drafter serves sessions of growing memories in any order; a new one, with nothing kept, drafts the same."""
    tree = data.draw(st.booleans())
    kept = Suffix(0.01, tree)
    memories = [remembering(*earlier[:k]) for k in range(len(earlier) + 1)]
    sessions = [make_context({"prompt_ids": prompt}, memory=memory) for memory in memories]
    scratches = [{} for _ in sessions]
    for _ in range(data.draw(st.integers(1, 6))):
        which = data.draw(st.integers(0, len(sessions) - 1))
        if data.draw(st.booleans()):
            scratches[which].clear()
        if data.draw(st.booleans()):  # an equal memory that was read from the store anew
            memory = sessions[which].memory
            copied = tuple(msgspec.structs.replace(record) for record in memory.records)
            sessions[which] = msgspec.structs.replace(sessions[which], memory=Memory(memory.version, copied))
        new = data.draw(st.lists(st.integers(0, 2), max_size=3))
        sessions[which] = advanced(sessions[which], *new)
        found = kept.propose(msgspec.structs.replace(sessions[which], scratch=scratches[which]), 5)
        fresh = Suffix(0.01, tree).propose(sessions[which], 5)
        assert (found.items, found.parents) == (fresh.items, fresh.parents)


def test_a_session_is_not_confused_when_the_shared_index_has_grown():
    """A session of an earlier memory goes on beside one of a later memory, whose output would be the better match."""
    drafter, scratch = Suffix(0), {}
    early = context_with([7, 1, 2, 3], memory=remembering([3, 4, 5]))
    late = context_with([7, 1, 2, 3], memory=remembering([3, 4, 5], [1, 2, 3, 8, 9]))
    early = msgspec.structs.replace(early, scratch=scratch)
    assert drafter.propose(early, 2).items == (4, 5)
    assert drafter.propose(late, 2).items == (8, 9)
    assert drafter.propose(early, 2).items == (4, 5)


def test_the_memory_is_read_once_and_then_only_what_is_new(monkeypatch):
    """Sessions of one memory share an index, and the index of a longer memory reads its last records alone."""
    from draftverify_tokens.suffix_automaton import SuffixAutomaton

    read = []
    extend = SuffixAutomaton.extend
    monkeypatch.setattr(
        SuffixAutomaton, "extend", lambda self, new: (read.append(list(new)), extend(self, new))
    )
    drafter = Suffix()
    outputs = [[40, 41], [42], [43, 44]]
    for count in (2, 2, 3, 3):
        memory = remembering(*outputs[:count])
        for _ in range(2):
            drafter.propose(context_with([1], memory=memory), 2)
    assert [each for each in read if each[0] >= 40] == outputs


@pytest.mark.parametrize("tree", [False, True])
def test_it_drafts_no_more_than_there_are_positions(tree):
    """Near the end of the target's positions the draft is shorter."""
    context = context_with([1, 2, 1, 2, 1, 2], positions=8)
    assert len(Suffix(0, tree).propose(context, 5)) == 2


@pytest.mark.parametrize(("tree", "rule"), [(False, GreedyMatch()), (True, Tree())])
def test_greedy_output_is_the_targets_own(tree, rule):
    """Chains and trees, with and without memory, end where plain decoding does, in fewer rounds."""
    model = TableModel(6, order=2, sharpness=3.0)
    target = TargetFrom(model, temperature=0)
    task = {"prompt_ids": [0, 1, 2, 0, 1]}
    plain = Pipeline(DraftFrom(model, law="given"), target, GreedyMatch(), block=0, done=Limit(40)).record(
        task
    )
    pipeline = Pipeline(Suffix(tree=tree), target, rule, block=6, done=Limit(40))
    first = pipeline.record(task)
    second = pipeline.record(task, memory=Memory(1, (first,)))
    assert first.outcome.value == second.outcome.value == plain.outcome.value
    assert second.outcome.rounds <= first.outcome.rounds < plain.outcome.rounds


@pytest.mark.parametrize("tree", [False, True])
def test_the_conformance_kit_finds_nothing(tree):
    """Declared law and shape, the same answers with empty scratch and from four threads, and the rest of the kit."""
    memory = remembering([1, 2, 7, 8], [3, 1, 2, 9])
    contexts = [
        context_with([1, 2, 3, 1, 2], accepted, memory=memory if i % 2 else None)
        for i, accepted in enumerate(([], [3], [1, 2, 3], [3, 1, 2]))
    ]
    check_component(Suffix(0, tree), contexts=contexts)


def test_the_threshold_cuts_a_draft_short_and_does_nothing_else():
    """A higher threshold drafts a beginning of what a lower one does."""
    text = [1, 2, 3, 4, 1, 2, 5, 6, 1, 2, 3, 7, 8, 1, 2]
    drafts = [Suffix(threshold).propose(context_with(text), 8).items for threshold in (0, 0.1, 0.3, 0.6)]
    assert all(longer[: len(shorter)] == shorter for longer, shorter in pairwise(drafts))
    assert len(drafts[0]) == 8
    assert len(drafts[-1]) == 0
