"""Models that keep a running state: a refused block leaves nothing behind in it, whoever drafts and however it ends."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import pytest
import torch
from scipy.stats import chi2

from draftverify import ConfigError, Pipeline, Proposal, Task
from draftverify.kit import make_context
from draftverify.rules import Limit, Speculative
from draftverify_llm import LocalModel
from draftverify_tokens import DraftModel, Target
from draftverify_tokens.states import AGAIN, StateReader
from tests.tokens.families import VOCABULARY, module_of
from tests.tokens.tiny import byte_tokenizer

PROMPT = [3, 5, 7, 5, 3]


@lru_cache(4)
def model_of(family: str, seed: int = 0) -> LocalModel:
    return LocalModel.from_module(module_of(family, seed=seed), byte_tokenizer())


def own(model: LocalModel, text: list[int]) -> torch.Tensor:
    """The module's logits after each token, without a cache."""
    with torch.inference_mode():
        return model.model(input_ids=torch.tensor([text]), use_cache=False).logits[0]


@pytest.mark.parametrize("family", ["lfm2", "jamba"])
def test_rows_are_the_module_s_own_whatever_is_refused(family):
    """Of two sessions in one call: refused early and late, asked again without a draft, and refused for so long that
    what was accepted is settled by a pass of its own. Jamba's code goes on from a state by single tokens."""
    model = model_of(family)
    reader = StateReader(model.model)
    assert reader.one_by_one == (family == "jamba")
    tasks = [{"prompt_ids": PROMPT}, {"prompt_ids": PROMPT[:1]}]
    scratch: list[dict] = [{}, {}]
    accepted: list[list[int]] = [[], []]
    drafts = np.random.default_rng(0).integers(0, VOCABULARY - 1, (AGAIN, 3))
    for step, draft in enumerate([*drafts.tolist(), [], []]):
        contexts = [
            make_context(task, accepted=tuple(tokens), scratch=held)
            for task, tokens, held in zip(tasks, accepted, scratch, strict=True)
        ]
        reading = reader.read(contexts, [Proposal.chain(tuple(draft))] * 2)
        assert reading.counts == [len(draft) + 1] * 2
        for task, tokens, rows in zip(tasks, accepted, reading.logits.split(reading.counts), strict=True):
            text = [*task["prompt_ids"], *tokens, *draft]
            assert torch.allclose(rows, own(model, text)[-len(draft) - 1 :], atol=1e-3)
        if draft:  # unequal: all and a bonus, or a part and another token
            accepted[0] += [*draft[: step % 4], 7]
            accepted[1] += [*draft[: (step + 1) % 4], 9]


def test_hybrids_draft_for_hybrids_and_say_what_transformers_says():
    """Greedy, eight prompts in one batch whose drafts fare differently, against `generate`."""
    target, drafter = model_of("qwen3_next"), model_of("lfm2")
    prompts = [[3 + i, 5, 7] * (i % 3 + 1) for i in range(4)]
    tasks = [Task(id=str(i), input={"prompt_ids": prompt}) for i, prompt in enumerate(prompts)]
    with Pipeline(
        DraftModel(drafter),
        Target(target),
        Speculative(),
        block=3,
        settings={"temperature": 0},
        done=Limit(9),
    ) as pipeline:
        outcomes = pipeline.run(tasks, size=4)
    for prompt, outcome in zip(prompts, outcomes, strict=True):
        ids = torch.tensor([prompt])
        written = target.model.generate(
            ids, attention_mask=torch.ones_like(ids), max_new_tokens=9, do_sample=False, pad_token_id=0
        )[0, len(prompt) :].tolist()  # fmt: skip
        assert list(outcome.unwrap())[: len(written)] == written


def test_samples_have_the_target_s_distribution():
    """Pearson's χ² of the third token of 400 answers; a right decoder fails with probability 1e-6, at a fixed seed not
    at all."""
    target, drafter = model_of("lfm2"), model_of("lfm2", seed=1)
    count, prompt = 400, PROMPT[:2]
    # Cold enough that few tokens share most of the probability, so that all paths can be summed.
    settings = {"temperature": 3.0, "top_k": 4}
    with Pipeline(
        DraftModel(drafter), Target(target), Speculative(), block=2, settings=settings, done=Limit(3), seed=5
    ) as pipeline:
        tasks = [Task(id=str(i), input={"prompt_ids": prompt}) for i in range(count)]
        outcomes = pipeline.run(tasks, size=count)
    paths = {(): 1.0}
    for _ in range(3):
        longer: dict[tuple[int, ...], float] = {}
        for path, share in paths.items():
            top = own(target, [*prompt, *path])[-1].double().div(3.0).topk(4)
            for token, p in zip(top.indices.tolist(), top.values.softmax(-1).tolist(), strict=True):
                longer[(*path, token)] = share * p
        paths = longer
    expected = np.zeros(VOCABULARY)
    for path, share in paths.items():
        expected[path[-1]] += share * count
    drawn = np.bincount([outcome.unwrap()[2] for outcome in outcomes], minlength=VOCABULARY)
    assert not drawn[expected == 0].any()
    often = expected >= 5
    observed = np.append(drawn[often], drawn[~often].sum())
    wanted = np.append(expected[often], expected[~often].sum())
    keep = wanted > 0
    statistic = float(((observed - wanted)[keep] ** 2 / wanted[keep]).sum())
    assert chi2.sf(statistic, keep.sum() - 1) > 1e-6


def test_what_was_drafted_in_vain_is_taken_back():
    """A drafter's own tokens, read on one by one: the same context asked again, and one that went another way."""
    model = model_of("lfm2")
    reader, context = StateReader(model.model), make_context({"prompt_ids": PROMPT}, scratch={})
    for accepted in ((), (), (4,)):
        context = make_context({"prompt_ids": PROMPT}, accepted=accepted, scratch=context.scratch)
        rows = [reader.read([context], [Proposal.chain(())]).logits]
        rows += [reader.extend([context], torch.tensor([[8, 9][:n]]))[0] for n in (1, 2)]
        expected = own(model, [*PROMPT, *accepted, 8, 9])[-3:]
        assert torch.allclose(torch.cat(rows), expected, atol=1e-3)


def test_what_is_not_there_is_refused():
    """Hidden states and compiled steps, by the argument's name."""
    for more in ({"hidden": (-1,)}, {"compiled": True}):
        with pytest.raises(ConfigError, match=next(iter(more))):
            Target(model_of("lfm2"), **more).open()


def test_a_drafter_of_hidden_states_is_told_that_there_are_none():
    """With what to do, since nobody wrote `hidden`."""
    with pytest.raises(ConfigError, match="choose a drafter that reads no hidden states"):
        StateReader(model_of("lfm2").model).keep_hidden((1,))


def test_a_model_that_was_changed_is_read_anew():
    """Its states were of other weights."""
    module = module_of("lfm2", seed=3)
    target = LocalModel.from_module(module, byte_tokenizer())
    reader, context = StateReader(module), make_context({"prompt_ids": PROMPT}, scratch={})
    reader.read([context], [Proposal.chain(())])
    with torch.no_grad():
        module.get_output_embeddings().weight.mul_(2)
        module.get_input_embeddings().weight.neg_()
    reader.read([make_context({"prompt_ids": [1]}, scratch={})], [Proposal.chain(())])
    later = make_context({"prompt_ids": PROMPT}, accepted=(4,), scratch=context.scratch)
    rows = reader.read([later], [Proposal.chain(())]).logits
    assert torch.allclose(rows[0], own(target, [*PROMPT, 4])[-1], atol=1e-3)
