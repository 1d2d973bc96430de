"""Trees: the likeliest paths or honest draws, and whole pipelines on them that emit what the target alone would."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import product
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from draftverify import ConfigError, ContractError, Pipeline, PipelineError, Proposal, Task
from draftverify.kit import check_component, make_context
from draftverify.rules import KSeq, Speculative, Tree
from draftverify_llm import LocalModel
from draftverify_tokens import DraftModel, Stop, Target, probabilities
from draftverify_tokens.draft_tree import DraftTree
from tests.tokens.joint import deviation
from tests.tokens.test_decoding import DRAFT, PROMPTS, TARGET, generated
from tests.tokens.tiny import byte_tokenizer, context_of, rows, shortened, tiny_llama, tiny_model, tiny_of

LAWS = ("given", "without_replacement", "iid")
SMALL = tiny_model(7, seed=4, spread=0.5, layers=1)
START = [1, 2, 3, 1]


def rule_of(law: str) -> Any:
    return KSeq() if law == "iid" else Tree()


branchings = st.lists(st.integers(1, 3), min_size=1, max_size=3).map(tuple)


def best_paths(
    model: LocalModel, start: list[int], branching: tuple[int, ...], n: int
) -> dict[tuple[int, ...], float]:
    """The oracle: score every path of the tree that `branching` spans, and take the n best."""
    scored: dict[tuple[int, ...], float] = {}
    level = {(): 1.0}
    for children in branching:
        longer = {}
        for path, score in level.items():
            if path and path[-1] in model.eos_ids:
                continue
            row = rows(model, [*start, *path], 1)[0].softmax(-1)
            for token in row.topk(children).indices.tolist():
                longer[(*path, token)] = score * float(row[token])
        scored |= longer
        level = longer
    return dict(sorted(scored.items(), key=lambda item: -item[1])[:n])


@settings(max_examples=30)
@given(
    branchings,
    st.integers(0, 16),
    st.lists(st.integers(0, 5), min_size=1, max_size=5),
    st.sampled_from([0, 1]),
)
def test_a_tree_of_the_likeliest_holds_the_likeliest_paths(branching, n, start, temperature):
    """Those that looking at every path would find; siblings in falling order; the greedy target's are no fewer."""
    context = context_of(SMALL, start, settings={"temperature": temperature})
    proposal = DraftTree(DraftModel(SMALL), branching).propose(context, n)
    paths = [tuple(proposal.items[i] for i in proposal.path(index)) for index in range(len(proposal))]
    expected = best_paths(SMALL, start, branching, n)
    assert set(paths) == set(expected)
    assert len(paths) == len(set(paths))
    for i, j in product(range(len(paths)), repeat=2):
        if proposal.parents[i] == proposal.parents[j] and i < j:
            assert expected[paths[i]] >= expected[paths[j]]
    assert proposal.law.kind == "given"


def test_settings_shape_the_tree_of_a_sampling_target():
    """At a temperature above 0 a token that top_k strikes out is in no tree."""
    context = context_of(SMALL, START, settings={"temperature": 0.7, "top_k": 2})
    proposal = DraftTree(DraftModel(SMALL), (4, 4)).propose(context, 20)
    assert max(map(proposal.parents.count, proposal.parents)) == 2


@pytest.mark.parametrize("law", ["without_replacement", "iid"])
@settings(max_examples=25)
@given(branching=branchings, n=st.integers(0, 14), seed=st.integers(0, 50), top_p=st.sampled_from([1.0, 0.7]))
def test_a_sampled_tree_is_filled_breadth_first_and_tells_its_q(law, branching, n, seed, top_p):
    """Row parent + 1 is the drafter's distribution there; nodes are only missing where none can be."""
    how = {"temperature": 0.9, "top_p": top_p}
    context = context_of(SMALL, START, settings=how, seed=seed)
    proposal = DraftTree(DraftModel(SMALL), branching, law).propose(context, n)
    assert proposal.law.kind == law
    levels = [0] * (len(branching) + 1)
    for index, (token, parent) in enumerate(zip(proposal.items, proposal.parents, strict=True)):
        path = [proposal.items[i] for i in proposal.path(index)][:-1]
        q = probabilities(rows(SMALL, [*START, *path], 1), how)[0][0]
        torch.testing.assert_close(proposal.law.q[parent + 1], q, atol=1e-5, rtol=1e-4)
        assert q[token] > 0
        assert not set(path) & SMALL.eos_ids
        siblings = [i for i in range(index) if proposal.parents[i] == parent]
        assert law == "iid" or token not in [proposal.items[i] for i in siblings]
        assert len(siblings) < branching[len(path)]
        levels[len(path)] += 1
    if top_p == 1.0 and not set(proposal.items) & SMALL.eos_ids:
        sizes, left = [], n
        for width in [math.prod(branching[: i + 1]) for i in range(len(branching))]:
            sizes.append(min(width, left))
            left -= sizes[-1]
        assert levels[:-1] == sizes


def test_what_settings_leave_no_choice_is_drawn_once():
    """At temperature 0, and after top_k, no sibling is drawn for which there would be no mass."""
    for law in ("without_replacement", "iid"):
        part = DraftTree(DraftModel(SMALL), (3, 3), law)
        greedy = part.propose(context_of(SMALL, START, settings={"temperature": 0}), 12)
        assert greedy.shape == "chain"
        two = part.propose(context_of(SMALL, START, settings={"top_k": 2}), 12)
        assert max(map(two.parents.count, two.parents)) == 2


@pytest.mark.parametrize("law", LAWS)
def test_sessions_of_a_batch_do_not_touch_each_other(law):
    """Other prompts, settings, sizes and rooms beside it: a session's tree is the one that it has alone."""
    part = DraftTree(DraftModel(SMALL), (3, 2, 2), law)
    prompts = [[1], [2, 3, 4, 5, 1], [3, 3], [5, 4]]
    made = [
        make_context(
            {"prompt_ids": prompt, "vocabulary": 7, "eos_ids": [6], "positions": 6 if index == 2 else None},
            settings={"temperature": 0.5 + index},
            seed=index,
        )
        for index, prompt in enumerate(prompts)
    ]
    sizes = [9, 0, 12, 3]
    together = part.propose_many(made, sizes)
    alone = [
        part.propose(make_context(c.task, settings=c.settings, seed=i), n)
        for i, (c, n) in enumerate(zip(made, sizes, strict=True))
    ]
    assert [(p.items, p.parents) for p in together] == [(p.items, p.parents) for p in alone]
    assert len(together[1]) == 0
    assert 0 < len(together[2]) <= 4
    assert together[1].law.kind == law
    for one, other in zip(together, alone, strict=True):
        if law != "given":
            torch.testing.assert_close(one.law.q, other.law.q)
            assert one.law.raw_maxima.shape == one.law.q.shape[:1]


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("budget", [1, 5, 14])
@pytest.mark.parametrize("batch", [1, 3, 8])
def test_greedy_output_is_that_of_transformers(law, budget, batch):
    """At every size of tree and batch, ragged acceptance and refilled rows included."""
    pipeline = Pipeline(
        DraftTree(DraftModel(DRAFT), (4, 3, 2, 1), law),
        Target(TARGET),
        rule_of(law),
        block=budget,
        done=Stop(20),
        settings={"temperature": 0},
    )
    prompts = [[*prompt, extra] for extra in (3, 11) for prompt in PROMPTS][:batch]
    tasks = [Task(id=str(i), input={"prompt_ids": prompt}) for i, prompt in enumerate(prompts)]
    expected = [generated(TARGET, prompt, 20) for prompt in prompts]
    assert [list(outcome.value) for outcome in pipeline.run(tasks)] == expected


@pytest.mark.parametrize("family", ["gemma3", "gpt_neox"])
def test_trees_on_other_families(family):
    """Sliding windows and another rotation, with its first layer drafting the tree."""
    model = LocalModel.from_module(tiny_of(family, layers=2, seed=3), byte_tokenizer())
    pipeline = Pipeline(
        DraftTree(DraftModel(shortened(model, 1)), (3, 2, 2)),
        Target(model),
        Tree(),
        block=10,
        done=Stop(20),
        settings={"temperature": 0},
    )
    assert list(pipeline.run({"prompt_ids": [1, 2, 3]}).value) == generated(model, [1, 2, 3], 20)


def test_a_tree_accepts_more_than_its_likeliest_path():
    """The same drafter needs fewer passes of the target with alternatives than without."""
    model = LocalModel.from_module(tiny_llama(24, seed=3, layers=3, spread=0.4), byte_tokenizer())
    for layer in model.model.model.layers[1:]:  # what they add decides few tokens
        layer.self_attn.o_proj.weight.data *= 0.3
        layer.mlp.down_proj.weight.data *= 0.3
    drafter = DraftModel(shortened(model, 1))

    def passes(generator: Any, rule: Any, block: int) -> int:
        pipeline = Pipeline(
            generator,
            Target(model),
            rule,
            block=block,
            done=Stop(40, ignore_eos=True),
            settings={"temperature": 0},
        )
        return sum(pipeline.run({"prompt_ids": prompt}).rounds for prompt in PROMPTS)

    assert passes(DraftTree(drafter, (4, 3, 2)), Tree(), 12) < 0.9 * passes(drafter, Speculative(), 3)


HOW = {
    "block": 9,
    "tasks": 1200,
    "prompt": [0, 3, 1, 3],
    "settings": {"temperature": 1.3, "top_p": 0.95},
    "batch": 60,
}
"""Of the tests that compare with the enumerated joint; an honest pipeline fails once in a million seeds."""


def small(seed: int, spread: float) -> LocalModel:
    return LocalModel.from_module(tiny_llama(6, seed=seed, layers=1, spread=spread), byte_tokenizer())


@pytest.mark.slow
@pytest.mark.parametrize("law", LAWS)
def test_sampled_output_has_the_targets_distribution(law):
    """A tree pipeline's answers against the enumerated joint, filters included."""
    found, limit = deviation(
        DraftTree(DraftModel(small(6, 0.4)), (3, 2, 1), law), small(5, 0.6), rule_of(law), **HOW
    )
    assert found < limit


class Blind(DraftTree):
    """A tree as it is drawn on a device: nobody looks at the draws, which stay there."""

    def _draw(self, weights, u):
        return super()._draw(weights, u)[0], None


@pytest.mark.parametrize("law", ["without_replacement", "iid"])
@pytest.mark.parametrize(
    "how", [{"temperature": 0}, {"temperature": 0.8}, {"top_p": 0.6, "repetition_penalty": 1.2}]
)
def test_a_tree_whose_draws_nobody_looked_at_is_as_good(law, how):
    """Items that are a tensor, in a form that end tokens do not change either."""
    context = context_of(SMALL, START, settings=how, seed=4)
    proposal = Blind(DraftModel(SMALL), (3, 2), law).propose(context, 9)
    looked = DraftTree(DraftModel(SMALL), (3, 2), law).propose(context, 9)
    assert isinstance(proposal.items, torch.Tensor)
    paths = {tuple(int(p.items[i]) for i in p.path(j)) for p in (looked, proposal) for j in range(len(p))}
    seen = {tuple(int(proposal.items[i]) for i in proposal.path(j)) for j in range(len(proposal))}
    assert seen == paths
    if how.get("temperature") == 0:
        pipeline = Pipeline(
            Blind(DraftModel(DRAFT), (3, 2, 2), law),
            Target(TARGET),
            rule_of(law),
            block=9,
            done=Stop(20),
            settings=how,
        )
        tasks = [Task(id=str(i), input={"prompt_ids": prompt}) for i, prompt in enumerate(PROMPTS)]
        found = [list(outcome.value) for outcome in pipeline.run(tasks)]
        assert found == [generated(TARGET, prompt, 20) for prompt in PROMPTS]


@pytest.mark.slow
@pytest.mark.parametrize("law", ["without_replacement", pytest.param("iid", marks=pytest.mark.exhaustive)])
def test_sampled_output_is_right_where_nobody_looked(law):
    """Siblings for which no mass was left, and what stands on end tokens, do no harm."""
    found, limit = deviation(
        Blind(DraftModel(small(6, 0.4)), (3, 2, 1), law), small(5, 0.6), rule_of(law), **HOW
    )
    assert found < limit


class Mislabelled(DraftTree):
    """Draws by one law and tells the other."""

    tells = "without_replacement"

    @property
    def traits(self):
        return replace(super().traits, laws={self.tells})

    def propose_many(self, contexts, ns):
        made = super().propose_many(contexts, ns)
        return [Proposal.tree(p.items, p.parents, type(p.law)(self.tells, p.law.q)) for p in made]


class Sorted(DraftTree):
    """Draws without replacement, and puts the likelier siblings first."""

    def propose_many(self, contexts, ns):
        made = []
        for p in super().propose_many(contexts, ns):
            items = sorted(p.items, key=lambda token: -float(p.law.q[0][token]))
            made.append(Proposal.tree(items, p.parents, p.law))
        return made


@pytest.mark.slow
@pytest.mark.parametrize("part", [Mislabelled, Sorted])
def test_the_sampled_test_would_see_a_tree_that_lies(part):
    """Independent siblings told as drawn without replacement, or siblings put in order: beyond the limit."""
    branching, law = ((3, 2), "iid") if part is Mislabelled else ((3,), "without_replacement")
    found, limit = deviation(part(DraftModel(small(6, 0.4)), branching, law), small(5, 0.6), Tree(), **HOW)
    assert found > limit


@pytest.mark.parametrize("law", LAWS)
def test_scratch_is_only_a_cache(law):
    """A session that lost its caches drafts the tree that it would have drafted with them."""
    part = DraftTree(DraftModel(SMALL), (3, 2), law)
    scratch: dict[Any, Any] = {}
    task = context_of(SMALL, START).task
    part.propose(make_context(task, scratch=scratch), 6)
    kept = part.propose(make_context(task, accepted=[2, 5], rounds=1, scratch=scratch), 6)
    lost = part.propose(make_context(task, accepted=[2, 5], rounds=1), 6)
    assert (kept.items, kept.parents) == (lost.items, lost.parents)


def test_positions_and_end_tokens_bound_a_tree():
    """No more nodes than positions left; with none left, an empty block of the law; nothing stands on an end token."""
    part = DraftTree(DraftModel(SMALL), (3, 2), "iid")
    task = {"prompt_ids": [1, 2], "vocabulary": 7, "eos_ids": [6]}
    assert len(part.propose(make_context({**task, "positions": 6}), 9)) == 4
    empty = part.propose(make_context({**task, "positions": 2}), 9)
    assert len(empty) == 0
    assert (empty.law.kind, tuple(empty.law.q.shape)) == ("iid", (0, 7))
    ends = make_context({**task, "eos_ids": list(range(7))})
    for law in LAWS:
        proposal = DraftTree(DraftModel(SMALL), (3, 2), law).propose(ends, 9)
        assert proposal.parents == (-1, -1, -1)


def test_a_law_that_the_rule_does_not_take_is_refused_when_built():
    """k-SEQ is exact for independent siblings alone, the tree rule for the other laws."""
    for law, rule in (("given", KSeq()), ("without_replacement", KSeq()), ("iid", Tree())):
        with pytest.raises((PipelineError, ContractError), match=law):
            Pipeline(DraftTree(DraftModel(DRAFT), (2, 2), law), Target(TARGET), rule, done=Stop(4))


@pytest.mark.parametrize("how", [{"branching": ()}, {"branching": (2, 0)}, {"law": "drawn"}])
def test_a_tree_that_cannot_be_is_refused(how):
    """With the argument's name."""
    with pytest.raises(ConfigError, match=next(iter(how)) if "law" not in how else "no law of a tree"):
        DraftTree(DraftModel(DRAFT), **how)


@pytest.mark.parametrize(
    "law", [pytest.param(law, marks=pytest.mark.exhaustive if law == "iid" else ()) for law in LAWS]
)
def test_the_conformance_kit_finds_nothing(law):
    """Above all: items come as often, and as independently, as the law and q say."""
    contexts = [context_of(SMALL, START, accepted=accepted, seed=3) for accepted in ([], [3], [1, 2, 3])]
    part = DraftTree(DraftModel(SMALL), (2, 2), law)
    check_component(part, contexts=contexts, tolerance=1e-4, trials=200, block=6)
