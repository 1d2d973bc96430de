"""Early exit: the first layers of a model are a model of their own, on the same weights."""

from __future__ import annotations

import copy
import gc
from typing import Any

import pytest
import torch

from draftverify import ConfigError, Pipeline, Task
from draftverify.kit import check_component
from draftverify.rules import Speculative
from draftverify_llm import LocalModel
from draftverify_tokens import Stop, Target, probabilities
from draftverify_tokens.early_exit import EarlyExit, first_layers
from tests.tokens.joint import deviation
from tests.tokens.test_decoding import generated
from tests.tokens.tiny import FAMILIES, byte_tokenizer, context_of, tiny_llama, tiny_model, tiny_of

IDS = torch.tensor([[3, 1, 4, 1, 5, 9, 2, 6, 5, 3]])


def model_of(family: str, layers: int = 4) -> LocalModel:
    return LocalModel.from_module(tiny_of(family, layers=layers, seed=2), byte_tokenizer())


def cut(module: Any, layers: int) -> Any:
    """The oracle: a copy of the whole module, the rest of whose layers is deleted."""
    made = copy.deepcopy(module)
    del next(part for part in made.modules() if isinstance(part, torch.nn.ModuleList))[layers:]
    made.config.num_hidden_layers = layers
    return made


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("layers", [1, 3])
def test_the_first_layers_are_what_is_left_when_the_others_are_deleted(family, layers):
    """The same logits to the last bit, and the model itself is as it was."""
    module = tiny_of(family, layers=4)
    with torch.inference_mode():
        whole = module(IDS).logits
        short = first_layers(module, layers)
        assert torch.equal(short(IDS).logits, cut(module, layers)(IDS).logits)
        assert torch.equal(module(IDS).logits, whole)
    assert (short.config.num_hidden_layers, module.config.num_hidden_layers) == (layers, 4)
    kinds = getattr(module.config, "layer_types", None)
    assert kinds is None or short.config.layer_types == kinds[:layers]


def matrices() -> int:
    """Bytes of all matrices of the tiny models' widths that are alive, whoever holds them."""
    gc.collect()
    alive = [each for each in gc.get_objects() if type(each) in (torch.Tensor, torch.nn.Parameter)]
    storages = [each.untyped_storage() for each in alive if each.dim() == 2 and each.shape[1] in (32, 48)]
    return sum({storage.data_ptr(): storage.nbytes() for storage in storages}.values())


@pytest.mark.usefixtures("older_objects_apart")
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("target_first", [True, False])
def test_nothing_is_held_twice(family, target_first):
    """When both have read, whichever joined its matrices first, there are no more bytes of weights than before."""
    model = model_of(family)
    before = matrices()
    part, target = EarlyExit(model, 2), Target(model)
    context = context_of(model, [1, 2, 3])
    if target_first:
        target.verify(context, part.propose(context, 0))
    target.verify(context, part.propose(context, 2))
    assert matrices() == before


def test_a_model_that_is_moved_takes_its_early_exit_along():
    """After the model was converted the draft is that of the converted layers."""
    model = model_of("llama")
    part = EarlyExit(model, 2)
    part.open()
    model.model.double()
    q = part.propose(context_of(model, [1, 2, 3]), 1).law.q
    with torch.inference_mode():
        expected = cut(model.model, 2)(torch.tensor([[1, 2, 3]])).logits[0, -1:]
    torch.testing.assert_close(q.double(), probabilities(expected, {})[0], atol=1e-6, rtol=0)


@pytest.mark.parametrize("family", FAMILIES)
def test_greedy_output_is_that_of_transformers(family):
    """However many layers draft and however long the blocks are, alone and in a batch."""
    model = model_of(family)
    prompts = [[1, 2, 3], [5], [7, 7, 7, 8, 7, 7]]
    expected = [generated(model, prompt, 16) for prompt in prompts]
    for layers, block in ((1, 3), (3, 6)):
        part = EarlyExit(model, layers)
        pipeline = Pipeline(
            part, Target(model), Speculative(), block=block, done=Stop(16), settings={"temperature": 0}
        )
        tasks = [Task(id=str(i), input={"prompt_ids": prompt}) for i, prompt in enumerate(prompts)]
        assert [list(outcome.value) for outcome in pipeline.run(tasks)] == expected
        assert list(pipeline.run(tasks[0]).value) == expected[0]


def test_all_layers_have_every_token_accepted():
    """An exit after the last layer is the target itself."""
    model = model_of("qwen3")
    pipeline = Pipeline(
        EarlyExit(model, 4),
        Target(model),
        Speculative(),
        block=5,
        done=Stop(24, ignore_eos=True),
        settings={"temperature": 0},
    )
    tally = pipeline.run({"prompt_ids": [1, 2, 3]}).tally
    assert tally.trials == tally.accepted > 0


@pytest.mark.slow
def test_sampled_output_has_the_targets_distribution():
    """800 answers against the enumerated joint; an honest drafter fails once in a million seeds."""
    module = tiny_llama(6, seed=5, layers=2, spread=0.6)
    model = LocalModel.from_module(module, byte_tokenizer())
    how = {"block": 2, "tasks": 800, "prompt": [0, 3, 1], "settings": {"temperature": 1.2}, "batch": 100}
    found, limit = deviation(EarlyExit(model, 1), model, Speculative(), **how)
    assert found < limit


@pytest.mark.parametrize("layers", [0, 3, -1])
def test_a_number_of_layers_that_the_model_has_not_is_refused(layers):
    """When the part is opened, with both numbers."""
    with pytest.raises(ConfigError, match=rf"layers is {layers}; LlamaForCausalLM has 2"):
        EarlyExit(tiny_model(20), layers).open()


def test_a_model_whose_layers_are_elsewhere_is_refused():
    """The error says what was looked for."""
    model = tiny_model(20)
    model.model.model.more = torch.nn.ModuleList([torch.nn.Identity(), torch.nn.Identity()])
    with pytest.raises(ConfigError, match="LlamaModel has 2 lists of 2 modules"):
        EarlyExit(model, 1).open()


def test_closing_lets_the_module_go():
    """Else a model whose weights were let go would stay in memory."""
    part = EarlyExit(tiny_model(20), 1)
    part.open()
    kept = part.module
    part.close()
    assert part.module is not kept


def test_the_conformance_kit_finds_nothing():
    """Law, shape, batches, scratch."""
    model = tiny_model(20, spread=0.4)
    contexts = [
        context_of(model, [1, 2, 3, 1, 2], accepted=accepted, seed=3) for accepted in ([], [3], [1, 2, 3])
    ]
    check_component(EarlyExit(model, 1), contexts=contexts, tolerance=1e-4, trials=100)
