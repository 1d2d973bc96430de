"""Whole pipelines on small random models: the target's own output comes out, token for token or in distribution."""

from __future__ import annotations

import copy
import math
from collections import Counter
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2

from draftverify import ConfigError, DraftVerifyError, Pipeline, PipelineError, Proposal, Task, iid
from draftverify.rules import BlockVerification, Limit, Speculative
from draftverify_llm import LocalModel
from draftverify_tokens import DraftModel, NoDraft, PromptLookup, Stop, Target, probabilities, stream_text
from tests.tokens.joint import deviation
from tests.tokens.tiny import byte_tokenizer, rows, tiny_llama, tiny_model

TARGET = tiny_model(24, seed=3, spread=0.4)
DRAFT = tiny_model(24, seed=3, spread=0.4, layers=1)
PROMPTS = [[1, 2, 3], [5], [7, 7, 7, 8, 7, 7], [0, 4, 9, 4, 0, 4], [20, 19, 18, 17], [6, 2, 6, 2, 6]]


def generated(model: LocalModel, prompt: list[int], n: int) -> list[int]:
    """What transformers' own greedy decoding makes."""
    ids = torch.tensor([prompt])
    ends = sorted(model.eos_ids)
    out = model.model.generate(
        ids,
        attention_mask=torch.ones_like(ids),
        max_new_tokens=n,
        do_sample=False,
        eos_token_id=ends,
        pad_token_id=0,
    )
    return out[0, len(prompt) :].tolist()


def greedy(generator: Any, *, block: int, tokens: int = 40, verifier: Any = None) -> Pipeline:
    return Pipeline(
        generator,
        verifier or Target(TARGET),
        Speculative(),
        block=block,
        done=Stop(tokens),
        settings={"temperature": 0},
    )


@pytest.mark.parametrize("prompt", PROMPTS)
def test_greedy_output_is_that_of_transformers(prompt):
    """Plain, looked-up, drafted by another model or by the target itself: the same tokens, end token included."""
    expected = generated(TARGET, prompt, 30)
    for generator in (NoDraft(), PromptLookup(at_least=1), DraftModel(DRAFT), DraftModel(TARGET)):
        for block in (1, 3, 8):
            outcome = greedy(generator, block=block, tokens=30).run({"prompt_ids": prompt})
            assert outcome.status == "accepted"
            assert list(outcome.value) == expected


def test_a_perfect_draft_is_kept_whole():
    """The target as its own drafter has every token accepted, so 40 tokens are five blocks of 7 and a bonus."""
    outcome = greedy(DraftModel(TARGET), block=7).run({"prompt_ids": PROMPTS[0]})
    assert outcome.tally.trials == outcome.tally.accepted
    assert outcome.rounds == math.ceil(len(outcome.value) / 8)


class Forgetful(Target):
    """A target whose scratch, and so everybody's, is emptied before some rounds."""

    def __init__(self, model: LocalModel, rounds: frozenset[int]) -> None:
        super().__init__(model)
        self.rounds = rounds

    def verify(self, context, proposal):
        if context.round in self.rounds:
            context.scratch.clear()
        return super().verify(context, proposal)


@settings(max_examples=15)
@given(st.frozensets(st.integers(0, 20)), st.integers(1, 6), st.sampled_from(PROMPTS), st.booleans())
def test_scratch_is_only_a_cache(rounds, block, prompt, drafted):
    """Caches and indices lost at any rounds: the same tokens in the same rounds."""
    part = DraftModel(DRAFT) if drafted else PromptLookup(at_least=1)
    kept = greedy(part, block=block).record({"prompt_ids": prompt})
    lost = greedy(part, block=block, verifier=Forgetful(TARGET, rounds)).record({"prompt_ids": prompt})
    assert [round.items for round in lost.rounds] == [round.items for round in kept.rounds]
    assert lost.outcome.value == kept.outcome.value


def test_all_drivers_give_the_same():
    """Sync, asyncio and batched; sampled."""
    import asyncio

    pipeline = Pipeline(
        DraftModel(DRAFT),
        Target(TARGET),
        Speculative(),
        block=3,
        done=Stop(12),
        settings={"temperature": 0.8},
    )
    tasks = [Task(id=str(i), input={"prompt_ids": prompt}) for i, prompt in enumerate(PROMPTS)]
    one_by_one = [pipeline.run(task).value for task in tasks]
    assert [asyncio.run(pipeline.arun(task)).value for task in tasks] == one_by_one
    assert [outcome.value for outcome in pipeline.run(tasks)] == one_by_one
    assert len(set(one_by_one)) == len(tasks)


# Sampled exactness: the joint distribution of three tokens, enumerated from the model, against many tasks.

SMALL_TARGET = LocalModel.from_module(tiny_llama(6, seed=5, layers=1, spread=0.6), byte_tokenizer())
SMALL_DRAFT = LocalModel.from_module(tiny_llama(6, seed=6, layers=1, spread=0.4), byte_tokenizer())
SETTINGS = {"temperature": 1.3, "top_p": 0.95}
START, LENGTH = [0, 3, 1, 3], 3


def joint() -> dict[tuple[int, ...], float]:
    """Every answer of at most three tokens and its probability; token 5 ends an answer."""
    found: dict[tuple[int, ...], float] = {}
    open_answers: dict[tuple[int, ...], float] = {(): 1.0}
    for _ in range(LENGTH):
        longer: dict[tuple[int, ...], float] = {}
        for answer, mass in open_answers.items():
            row = probabilities(rows(SMALL_TARGET, [*START, *answer], 1), SETTINGS)[0][0].tolist()
            for token, p in enumerate(row):
                if p:
                    (found if token == 5 else longer)[(*answer, token)] = mass * p
        open_answers = longer
    return found | open_answers


def statistic(generator: Any, tasks: int) -> tuple[float, float]:
    """Chi-square of the outcomes against the joint, and the value that it exceeds with probability 1e-6.

    Answers that are expected fewer than five times are counted together.
    """
    pipeline = Pipeline(
        generator, Target(SMALL_TARGET), Speculative(), block=2, done=Stop(LENGTH), settings=SETTINGS, seed=11
    )
    runs = pipeline.run([Task(id=str(i), input={"prompt_ids": START}) for i in range(tasks)], size=100)
    counts = Counter(tuple(outcome.value) for outcome in runs)
    expected = joint()
    assert counts.keys() <= expected.keys()
    often = {answer for answer, p in expected.items() if tasks * p >= 5}
    cells = [(counts[answer], tasks * expected[answer]) for answer in often]
    cells.append((tasks - sum(n for n, _ in cells), tasks - sum(e for _, e in cells)))
    return math.fsum((n - e) ** 2 / e for n, e in cells), float(chi2.isf(1e-6, len(cells) - 1))


@pytest.mark.slow
@pytest.mark.parametrize("generator", [DraftModel(SMALL_DRAFT), PromptLookup(at_least=1)])
def test_sampled_output_has_the_targets_distribution(generator):
    """800 answers of a drafted pipeline against the enumerated joint; an honest one fails once in a million seeds."""
    found, limit = statistic(generator, 800)
    assert found < limit


class Overconfident(DraftModel):
    """Draws from its q and tells another one: the mistake that several published drafters made."""

    def propose_many(self, contexts, ns):
        made = super().propose_many(contexts, ns)
        return [Proposal.chain(each.items, iid(torch.full_like(each.law.q, 1 / 6))) for each in made]


@pytest.mark.slow
def test_the_sampled_test_would_see_a_drafter_that_lies():
    """The same statistic is beyond its limit when q is not what was drawn from."""
    found, limit = statistic(Overconfident(SMALL_DRAFT), 300)
    assert found > limit


# Blocks that end where the draft model is of two minds: their length depends on what was drafted.


def near(model: LocalModel, noise: float) -> LocalModel:
    """A copy whose weights are a little off, as rounded ones are."""
    module = copy.deepcopy(model.model)
    torch.manual_seed(0)
    with torch.no_grad():
        for weight in module.parameters():
            weight += noise * weight.std() * torch.randn_like(weight) if weight.dim() > 1 else 0.0
    return LocalModel.from_module(module, byte_tokenizer())


EVEN = LocalModel.from_module(tiny_llama(6, seed=5, layers=1, spread=0.3), byte_tokenizer())


class Choosy(DraftModel):
    """Leaves its unlikely draws out, and tells the q of all: a block's length may not depend on what it leaves out."""

    def propose_many(self, contexts, ns):
        made = []
        for proposal in super().propose_many(contexts, ns):
            told = zip(proposal.law.q, proposal.items, strict=True)
            n = next((i for i, (row, item) in enumerate(told) if row[item] < 0.2), len(proposal))
            made.append(Proposal.chain(proposal.items[:n], iid(proposal.law.q[:n])))
        return made


def even_statistic(drafter: DraftModel, rule: Any) -> tuple[float, float]:
    how = {"block": 3, "tasks": 1500, "prompt": START, "settings": SETTINGS, "batch": 100}
    return deviation(drafter, EVEN, rule, **how)


@pytest.mark.slow
@pytest.mark.parametrize(
    "rule",
    [Speculative(), pytest.param(BlockVerification(), marks=pytest.mark.exhaustive)],
    ids=["speculative", "block"],
)
def test_blocks_that_end_at_a_doubtful_token_keep_the_distribution(rule):
    """1,500 answers against the enumerated joint; one honest seed in a million fails. The draft model is in doubt
    behind some first tokens and not behind others, and many blocks are kept whole."""
    drafter = DraftModel(near(EVEN, 0.3), margin=0.5)
    found, limit = even_statistic(drafter, rule)
    assert found < limit
    pipeline = Pipeline(drafter, Target(EVEN), rule, block=3, done=Stop(LENGTH), settings=SETTINGS)
    records = pipeline.record([{"prompt_ids": START}] * 100)
    first = [record.rounds[0] for record in records]
    blocks = [round.items for round in first]
    assert any(len(block) == 3 for block in blocks)
    assert any(len(block) < 3 and block[-1] not in EVEN.eos_ids for block in blocks)
    assert sum(len(round.decision.kept) == len(round.items) for round in first) > 20


@pytest.mark.slow
def test_the_sampled_test_would_see_blocks_cut_by_what_they_leave_out():
    """The same statistic is beyond its limit for the mistake that is nearest to it."""
    found, limit = even_statistic(Choosy(near(EVEN, 0.3)), Speculative())
    assert found > limit


# Streaming, stopping, and parts that do not fit


def test_a_stream_of_text_is_the_text_of_a_run():
    """The pieces join to what run gives, though characters straddle tokens and rounds."""
    model = tiny_model(257, seed=8, spread=0.05)
    logits = np.random.default_rng(0).normal(0, 1, 257)
    logits[[0xC3, 0xA9, 0xF0, 0x9F, 0x98, 0x80, 0x20, 0x61]] += 4
    model.model.lm_head.register_forward_hook(
        lambda _, given, out: out + torch.tensor(logits, dtype=out.dtype)
    )
    pipeline = Pipeline(DraftModel(model), Target(model), Speculative(), block=4, done=Stop(60), settings={})
    task = Task(id="a", input={"prompt": "é"})
    streamed = list(stream_text(pipeline, task))
    assert "".join(streamed) == model.decode(pipeline.run(task).value)
    assert all(streamed)
    assert len(streamed) > 4


def test_a_stream_that_fails_says_so():
    """What was accepted is shown, then the failure is raised: an end without a word would be taken for the answer's."""
    model = tiny_model(257, seed=8, spread=0.05, positions=8)
    over = Limit(20)  # it knows nothing of positions, as Stop does
    pipeline = Pipeline(
        PromptLookup(), Target(model), Speculative(), block=2, done=over, settings={"logit_bias": {97: 50}}
    )
    shown = []
    with pytest.raises(DraftVerifyError, match=r"failed: ContractError: .* the model takes 8"):
        shown.extend(stream_text(pipeline, {"prompt_ids": [1, 2, 3]}))
    assert "".join(shown) == "aaaaaa"
    with pytest.raises(DraftVerifyError, match="the model takes 8"):
        list(stream_text(pipeline, {"prompt_ids": [1] * 9}))


def test_a_stop_string_cuts_a_block_like_plain_decoding():
    """The answer ends with the token that completes the string, drafted or not."""
    model = tiny_model(257, seed=4, spread=0.3)
    free = list(greedy_text(model, NoDraft(), 0, ()).run({"prompt": "abcab"}).value)
    word = model.decode(free[5:7]).replace("\ufffd", "") or model.decode(free[7:12])
    plain = greedy_text(model, NoDraft(), 0, (word,)).run({"prompt": "abcab"})
    drafted = greedy_text(model, DraftModel(model), 5, (word,)).run({"prompt": "abcab"})
    assert len(plain.value) < len(free)
    assert drafted.value == plain.value
    assert word in model.decode(plain.value)
    assert word not in model.decode(plain.value[:-1])


def greedy_text(model: LocalModel, generator: Any, block: int, strings: tuple[str, ...]) -> Pipeline:
    done = Stop(30, strings, model, ignore_eos=True)
    return Pipeline(
        generator, Target(model), Speculative(), block=block, done=done, settings={"temperature": 0}
    )


def test_a_drafter_of_another_vocabulary_is_refused_when_built():
    """Tokens of two tokenizers do not mean the same, and the error names both."""
    from transformers import PreTrainedTokenizerFast

    other = PreTrainedTokenizerFast(tokenizer_object=byte_tokenizer().backend_tokenizer, eos_token="<other>")
    stranger = LocalModel.from_module(tiny_llama(24), other)
    with pytest.raises(
        PipelineError, match=r"DraftModel has the vocabulary \w{16}, the verifier Target \w{16}"
    ):
        Pipeline(DraftModel(stranger), Target(TARGET), Speculative())


def test_an_unknown_setting_is_refused_when_the_pipeline_is_built():
    """A setting that would be ignored is an error that says what to write instead."""
    with pytest.raises(ConfigError, match="did you mean temperature"):
        Pipeline(NoDraft(), Target(TARGET), Speculative(), block=0, settings={"temprature": 0}, done=Stop(4))
