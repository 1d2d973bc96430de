"""Draft-verify inside the index: whatever is drafted, the outcome is that of one exact search after the other."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from draftverify import ConfigError, Pipeline, Proposal, Task
from draftverify.kit import Subject, check_component, make_context
from draftverify.rules import LongestPrefix
from draftverify.stats.block import Measured
from draftverify.traits import GeneratorTraits
from draftverify_retrieval import (
    ApproximateSearch,
    ApproximateVectors,
    Bm25,
    CachedSearch,
    ExactSearch,
    Vectors,
)

ROWS, D = 60, 4
RNG = np.random.default_rng(5)
VECTORS = np.tile(RNG.integers(-2, 3, (ROWS // 3, D)).astype(np.float32), (3, 1))  # every row has two equals
INDEX = Vectors(VECTORS)


def walk(task, found):
    """A query made of all that was found before, so that a wrong draft leads elsewhere."""
    if len(found) == task.input["steps"]:
        return None
    seen = [row for each in found for row in each["rows"]]
    rng = np.random.default_rng([task.input["seed"], *seen])
    base = VECTORS[seen[-1]] if seen else np.zeros(D)
    return (base + rng.integers(-1, 2, D) * task.input.get("jump", 1)).astype(np.float32)


def one_by_one(index, k, task, next_query=walk):
    """The value by definition: search, ask for the next query, search."""
    found = []
    while (query := next_query(task, found)) is not None:
        rows = index.search([query], k)[0][0]
        found.append({"rows": [int(row) for row in rows if row >= 0]})
    return tuple(found)


class Anything:
    """Drafts rows at random, of any number, some of which do not exist."""

    traits = GeneratorTraits(shape="chain", laws={"given"})

    def propose(self, context, n):
        rng = np.random.default_rng(context.draws.seed())
        items = [
            {"rows": rng.integers(-1, 5, rng.integers(0, 3)).tolist()} for _ in range(rng.integers(0, n + 1))
        ]
        return Proposal.chain(items)


class Wrong:
    """A quick index that is wrong about every other query."""

    def search(self, queries, k):
        rows, scores = INDEX.search(queries, k)
        return (rows + [[round(10 * float(np.sum(query))) % 2] for query in queries]) % ROWS, scores


@settings(max_examples=120, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    steps=st.integers(1, 25),
    jump=st.sampled_from([0, 1, 5]),
    k=st.sampled_from([1, 3, 100]),
    prefetch=st.sampled_from([0, 1, 20]),
    capacity=st.sampled_from([100, 101, 2048]),
    block=st.sampled_from([0, 1, 2, 5, "measured"]),
    drafter=st.sampled_from(["cache", "wrong", "anything"]),
)
def test_the_outcome_is_that_of_exact_search_step_by_step(
    seed, steps, jump, k, prefetch, capacity, block, drafter
):
    """Ties, empty caches, small ones, wrong drafts and drafts past the end: never another row."""
    task = Task(id="t", input={"seed": seed, "steps": steps, "jump": jump})
    generator = {
        "cache": lambda: CachedSearch(INDEX, k, walk, capacity),
        "wrong": lambda: ApproximateSearch(Wrong(), k, walk),
        "anything": Anything,
    }[drafter]()
    pipeline = Pipeline(
        generator, ExactSearch(INDEX, k, walk, prefetch), LongestPrefix(),
        block=Measured(at_most=6) if block == "measured" else block,
    )  # fmt: skip
    outcome = pipeline.run(task)
    assert outcome.status == "accepted", outcome
    assert outcome.value == one_by_one(INDEX, k, task)
    assert outcome.rounds <= steps


@pytest.mark.parametrize("block", [0, 3])
def test_a_batch_of_tasks_is_the_tasks_one_by_one(block):
    """Sessions of different lengths share their searches, and nothing else."""
    tasks = [Task(id=str(i), input={"seed": i, "steps": 3 + i}) for i in range(9)]
    pipeline = Pipeline(
        CachedSearch(INDEX, 2, walk), ExactSearch(INDEX, 2, walk), LongestPrefix(), block=block
    )
    for task, outcome in zip(tasks, pipeline.run(tasks), strict=True):
        assert outcome.value == one_by_one(INDEX, 2, task)


TEXTS = [
    " ".join(row) for row in np.array([c + c for c in "abcdefgh"] + ["the"])[RNG.integers(0, 9, (80, 5))]
]
"""Few words, so that many rows are found with equal scores."""


class Texts:
    """A corpus of texts."""

    def __len__(self):
        return len(TEXTS)

    def passage(self, row):
        return {"id": str(row), "text": TEXTS[row]}

    def texts(self):
        return TEXTS


BM25 = Bm25(Texts(), stemmer=None, stopwords=None)
OTHER = Bm25(Texts(), stemmer=None, stopwords=None, k1=0.1, b=0.0)


def reading(task, found):
    """A question made of words of all texts that were found before."""
    if len(found) == task.input["steps"]:
        return None
    rows = [row for each in found for row in each["rows"]]
    rng = np.random.default_rng([task.input["seed"], *rows])
    words = TEXTS[rows[-1]].split() if rows else ["aa", "the"]
    return " ".join(rng.choice([*words, "aa", "the", "unknown"], rng.integers(0, 4)))


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    steps=st.integers(1, 15),
    k=st.sampled_from([1, 4]),
    block=st.sampled_from([1, 4, "measured"]),
)
def test_by_bm25_the_outcome_is_that_of_search_step_by_step(seed, steps, k, block):
    """Texts with equal scores, questions that find nothing, drafts by a BM25 that ranks otherwise."""
    task = Task(id="t", input={"seed": seed, "steps": steps})
    pipeline = Pipeline(
        ApproximateSearch(OTHER, k, reading), ExactSearch(BM25, k, reading), LongestPrefix(),
        block=Measured(at_most=6) if block == "measured" else block,
    )  # fmt: skip
    outcome = pipeline.run(task)
    assert outcome.value == one_by_one(BM25, k, task, reading), outcome


def test_a_quicker_index_that_is_wrong_is_soon_let_be():
    """The controller sees a plain step first, and does not draft where every draft is refused."""

    class Never:
        def search(self, queries, k):
            return np.full((len(queries), k), ROWS - 1), np.zeros((len(queries), k), np.float32)

    ahead = lambda task, found: None if len(found) == 300 else VECTORS[len(found) % 7]
    block = Measured(at_most=8)
    drafter = ApproximateSearch(Never(), next_query=ahead)
    outcome = Pipeline(drafter, ExactSearch(INDEX, next_query=ahead), LongestPrefix(), block=block).run(
        Task(id="t")
    )
    assert outcome.value == one_by_one(INDEX, 1, Task(id="t"), ahead)
    assert not block.report()["drafting"]
    assert block.report()["drafted"] < 30


class Counting:
    """An index that counts its searches and their queries."""

    def __init__(self, index):
        self.index = index
        self.batches = []

    def search(self, queries, k):
        self.batches.append(len(queries))
        return self.index.search(queries, k)


def test_a_block_is_one_search_and_each_query_is_asked_for_once_a_round():
    """n drafts cost one search of n + 1 queries, and all of them right make n + 1 steps."""
    asked = Counter()

    def again(task, found):
        asked[len(found)] += 1
        return None if len(found) == 9 else VECTORS[7]

    index = Counting(INDEX)
    verifier = ExactSearch(index, next_query=again)
    outcome = Pipeline(CachedSearch(INDEX, next_query=again), verifier, LongestPrefix(), block=3).run(
        Task(id="t")
    )
    assert index.batches == [1, 4, 4]  # the first round has an empty cache
    assert outcome.rounds == 3
    assert asked == Counter(range(10))


def test_a_wrong_draft_is_corrected_and_what_stands_on_it_is_not_judged():
    """The first wrong step gets the index's own; its query was another than the later ones rest on."""
    task = Task(id="t", input={"queries": [VECTORS[i].tolist() for i in (0, 1, 2, 3)]})
    right = [INDEX.search([VECTORS[i]], 1)[0][0].tolist() for i in (0, 1, 2, 3)]
    block = Proposal.chain([{"rows": right[0]}, {"rows": [59]}, {"rows": right[2]}])
    told = ExactSearch(INDEX).verify(make_context(task), block)
    assert [check.verdict for check in told.checks] == ["pass", "reject", "unchecked"]
    assert told.checks[1].correction == {"rows": right[1]}
    assert told.correction == ()
    whole = ExactSearch(INDEX).verify(
        make_context(task), Proposal.chain([{"rows": rows} for rows in right[:3]])
    )
    assert whole.correction == ({"rows": right[3]},)
    plain = ExactSearch(INDEX).verify(make_context(task), Proposal.chain([]))
    assert plain.correction == ({"rows": right[0]},)


@pytest.mark.parametrize(("block", "noted"), [(0, [20, 0, 0, 0]), (3, [20, 20])])
def test_rows_are_noted_where_something_is_drafted_from_them(block, noted):
    """In a task's first round, and with drafted blocks; plain steps after it ask for their own rows alone."""
    same = lambda task, found: None if len(found) == 4 else VECTORS[7]
    drafter, exact = CachedSearch(INDEX, next_query=same), ExactSearch(INDEX, next_query=same)
    record = Pipeline(drafter, exact, LongestPrefix(), block=block).record(Task(id="t"))
    assert [len((round.notes or {}).get("near", [[]])[0]) for round in record.rounds] == noted
    assert record.outcome.value == one_by_one(INDEX, 1, Task(id="t"), same)


def test_what_earlier_tasks_found_may_be_in_the_cache():
    """The first round of a task drafts from the run's memory, where it is asked to."""
    from draftverify.values import Memory

    task = Task(id="t", input={"queries": [VECTORS[3].tolist()]})
    build = lambda tasks: Pipeline(
        CachedSearch(INDEX, tasks=tasks), ExactSearch(INDEX), LongestPrefix(), block=1
    )
    earlier = build(0).record(task)
    context = make_context(task, memory=Memory(1, (earlier,)))
    assert build(0).generator.propose(context, 1).items == []
    assert build(1).generator.propose(context, 1).items == [*earlier.outcome.value]


def test_a_task_taken_up_again_drafts_from_the_same_cache():
    """The cache follows from the rounds: without its scratch it is built again, the same."""
    task = Task(id="t", input={"seed": 3, "steps": 12})
    drafter = CachedSearch(INDEX, 2, walk, capacity=15)
    record = Pipeline(drafter, ExactSearch(INDEX, 2, walk), LongestPrefix(), block=2).record(task)
    scratch = {}
    for end in range(len(record.rounds) + 1):
        accepted = [value for round in record.rounds[:end] for value in round.decision.emitted]
        fresh = make_context(task, accepted=accepted, rounds=record.rounds[:end])
        kept = make_context(task, accepted=accepted, rounds=record.rounds[:end], scratch=scratch)
        assert drafter.propose(kept, 3).items == drafter.propose(fresh, 3).items


def test_passages_come_with_the_rows_where_there_is_a_corpus():
    """Drafted, corrected and plain steps carry the same passages."""

    class Corpus:
        def __len__(self):
            return ROWS

        def passage(self, row):
            return {"id": str(row), "text": f"row {row}"}

        def texts(self):
            return [f"row {row}" for row in range(ROWS)]

    task = Task(id="t", input={"seed": 1, "steps": 6})
    values = [
        Pipeline(
            CachedSearch(INDEX, 2, walk, corpus=Corpus()), ExactSearch(INDEX, 2, walk, corpus=Corpus()),
            LongestPrefix(), block=block,
        ).run(task).unwrap()
        for block in (0, 3)
    ]  # fmt: skip
    assert values[0] == values[1]
    assert [p["text"] for p in values[0][0]["passages"]] == [f"row {row}" for row in values[0][0]["rows"]]


def test_what_cannot_work_is_said_with_what_to_do():
    """No queries, another k in the generator than in the verifier, bad numbers; a task without steps is done."""
    plain = Pipeline(CachedSearch(INDEX), ExactSearch(INDEX), LongestPrefix(), block=2)
    assert "give one, or a function as `next_query`" in str(plain.run(Task(id="t")).failure)
    with pytest.raises(ConfigError, match="give both the same"):
        Pipeline(CachedSearch(INDEX, k=2), ExactSearch(INDEX), LongestPrefix(), block=2).open()
    with pytest.raises(ConfigError, match="k is 0; at least 1"):
        ExactSearch(INDEX, k=0)
    with pytest.raises(ConfigError, match="capacity is 8; at least 9"):
        CachedSearch(INDEX, k=9, capacity=8)
    with pytest.raises(ConfigError, match="k is 0"):
        ApproximateSearch(INDEX, k=0)
    for block in (0, 2):
        empty = Pipeline(CachedSearch(INDEX), ExactSearch(INDEX), LongestPrefix(), block=block)
        outcome = empty.run(Task(id="t", input={"queries": []}))
        assert (outcome.status, outcome.value) == ("accepted", ())


@pytest.mark.parametrize("part", ["cached", "approximate"])
def test_the_drafters_conform(part):
    """Law, shape, scratch as a cache, four threads."""
    parts = {
        "cached": CachedSearch(INDEX, 2, walk),
        "approximate": ApproximateSearch(ApproximateVectors(VECTORS), 2, walk),
    }
    tasks = [Task(id=str(i), input={"seed": i, "steps": 40}) for i in range(2)]
    plain = Pipeline(parts[part], ExactSearch(INDEX, 2, walk), LongestPrefix(), block=0)
    contexts = []
    for task in tasks:
        rounds = plain.record(task).rounds[:5]
        accepted = [value for round in rounds for value in round.decision.emitted]
        contexts.append(make_context(task, accepted=accepted, rounds=rounds))
        assert len(parts[part].propose(contexts[-1], 3)) == 3
    check_component(Subject(parts[part], contexts=contexts))


def test_exact_search_conforms():
    """Chains, trees, alternatives and nothing; items that are none; alone as in the block; many as one."""

    def blocks(context):
        good = one_by_one(INDEX, 2, context.task)
        return [
            Proposal.chain(good[:3]),
            Proposal.chain([good[0], {"rows": [1, 1]}, good[1]]),
            Proposal.alternatives([{"rows": [4]}, good[0], {"rows": []}]),
            Proposal.chain([]),
        ]

    tasks = [Task(id=str(i), input={"seed": i, "steps": 9}) for i in range(2)]
    check_component(Subject(ExactSearch(INDEX, 2, walk), tasks=tasks, proposals=blocks))
