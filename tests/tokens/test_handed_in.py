"""Decoding changes nothing of a model that is handed in, and sees every change that its user makes before a call."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Iterator
from functools import partial
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
import torch
from torch.nn import functional

from draftverify import ConfigError, Pipeline, Proposal
from draftverify.kit import make_context
from draftverify.rules import Speculative
from draftverify_llm import LocalModel, evaluating
from draftverify_tokens import Decoder, DraftModel, NoDraft, Stop, Target, generate, stream
from draftverify_tokens.forward import ModuleForward
from draftverify_tokens.llama import LlamaForward
from draftverify_tokens.reader import BlockReader
from tests.tokens.tiny import byte_tokenizer, tiny_of

PROMPT = [(7 * i + i * i) % 23 for i in range(24)]
"""Long enough that its keys and values are kept for the next task that begins so."""
JOINED = ("llama", "qwen2", "qwen3", "mistral")
TOKENS = 6


def model_of(family: str, *, seed: int = 0) -> Any:
    """A tiny model in eval mode; Mistral without a window, as its later versions are, and Qwen2 with random biases."""
    if family != "mistral":
        model = tiny_of(family, seed=seed)
    else:
        from transformers import MistralConfig, MistralForCausalLM

        torch.manual_seed(seed)
        config = MistralConfig(
            vocab_size=24, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
            num_key_value_heads=2, head_dim=8, sliding_window=None, initializer_range=0.4, eos_token_id=23,
        )  # fmt: skip
        model = MistralForCausalLM(config).eval()
    for name, parameter in model.named_parameters():
        if name.endswith("bias"):
            torch.nn.init.normal_(parameter)
    return model


def scores(model: Any, ids: tuple[int, ...]) -> list[float]:
    """The oracle: log-probabilities of an answer's tokens by the module's own code, without a cache."""
    with torch.inference_mode(), evaluating(model.modules()):
        logits = model(input_ids=torch.tensor([[*PROMPT, *ids]]), use_cache=False).logits[0]
    rows = logits[len(PROMPT) - 1 : -1].float().log_softmax(-1)
    return [float(row[token]) for row, token in zip(rows, ids, strict=True)]


def train(model: Any, optimizer: Any, steps: int = 2) -> None:
    for _ in range(steps):
        ids = torch.tensor([PROMPT])
        model(input_ids=ids, labels=ids).loss.backward()
        optimizer.step()
        optimizer.zero_grad()


def answer(model: Any, **how: Any) -> Any:
    # By blocks of one size: where measured sizes differ, the last digits of log-probabilities do.
    how = {"tokenizer": byte_tokenizer(), "max_new_tokens": TOKENS, "logprobs": True, "block": 4, **how}
    return generate(model, PROMPT, **how)


# Nothing changes


@pytest.mark.parametrize("family", [*JOINED, "gemma3"])
def test_training_goes_on_as_if_nothing_had_been_decoded(family: str) -> None:
    """Train, generate, train is train, train, bit for bit, with one optimizer and dropout; every parameter moves."""
    weights = []
    for decodes in (False, True):
        model = model_of(family).train()
        for layer in model.model.layers:
            layer.self_attn.attention_dropout = 0.2
        before, small = copy.deepcopy(model.state_dict()), model_of(family, seed=1)
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
        torch.manual_seed(1)
        train(model, optimizer)
        if decodes:
            answer(model)
            answer(model, drafter=small, temperature=1.0, seed=3)
        train(model, optimizer)
        weights.append(model.state_dict())
        assert not [name for name, tensor in weights[-1].items() if torch.equal(tensor, before[name])]
    assert weights[0].keys() == weights[1].keys()
    for name, tensor in weights[0].items():
        assert torch.equal(tensor, weights[1][name]), name


def state_of(model: Any) -> list[Any]:
    """All that a user may look at: tensors as objects and as numbers, modes, hooks, parts, attributes, configs."""
    told: list[Any] = [model.config.to_dict(), model.generation_config.to_dict()]
    told.append(model.config._attn_implementation)
    for name, part in model.named_modules():
        told += name, id(part), part.training
        for key, value in vars(part).items():
            if key in ("_parameters", "_buffers"):
                for tensor in filter(lambda tensor: tensor is not None, value.values()):
                    grad = None if tensor.grad is None else (id(tensor.grad), tensor.grad.tolist())
                    told += (
                        id(tensor),
                        tensor.data_ptr(),
                        tensor._version,
                        tensor.requires_grad,
                        tensor.is_leaf,
                    )
                    told += tensor.tolist(), grad, type(tensor)
            elif isinstance(value, dict):
                told += key, id(value), [(inner, id(object)) for inner, object in value.items()]
            else:
                told += key, id(value)
    return told


def state_of_the_process() -> list[Any]:
    generator: Any = np.random.get_state()
    return [
        torch.is_grad_enabled(), torch.is_inference_mode_enabled(), torch.get_num_threads(), torch.get_default_dtype(),
        torch.get_rng_state().tolist(), random.getstate(), generator[1].tolist(), generator[2],
        torch.are_deterministic_algorithms_enabled(),
    ]  # fmt: skip


WAYS: dict[str, Callable[[Any, Any], Any]] = {
    "lookup": lambda model, small: answer(model),
    "drawn": lambda model, small: answer(model, temperature=1.0, n=3, seed=1),
    "draft model": lambda model, small: answer(model, drafter=small),
    "in its own cache": lambda model, small: answer(
        model, drafter=DraftModel(LocalModel.from_module(model, byte_tokenizer()), own_cache=False)
    ),
    "stream": lambda model, small: list(
        stream(model, PROMPT, tokenizer=byte_tokenizer(), max_new_tokens=TOKENS)
    ),
    "stream, left half-way": lambda model, small: next(
        stream(model, PROMPT, tokenizer=byte_tokenizer(), max_new_tokens=TOKENS), None
    ),
    "completed": lambda model, small: LocalModel.from_module(model, byte_tokenizer()).complete(
        "abc", n=2, max_tokens=3, seed=1
    ),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("family", ["qwen3", "gpt_neox"])
def test_nothing_of_a_model_changes(family: str, way: str) -> None:
    """Parameters, gradients, modes, hooks, parts, attributes and configs are the same objects with the same content; so
    is what the process shares."""
    models = []
    for seed in (0, 1):
        model = tiny_of(family, 257, seed=seed).train()
        train(model, torch.optim.SGD(model.parameters(), lr=1e-3), 1)
        model(input_ids=torch.tensor([PROMPT]), labels=torch.tensor([PROMPT])).loss.backward()
        part = next(part for name, part in model.named_modules() if name.endswith("layers.0"))
        part.eval()
        next(part.parameters()).requires_grad_(False)
        part.register_full_backward_hook(lambda *_: None)
        models.append(model)
    before = [*map(state_of, models), state_of_the_process()]
    WAYS[way](*models)
    for old, new in zip(before, [*map(state_of, models), state_of_the_process()], strict=True):
        assert old == new


def test_a_model_in_training_mode_answers_as_in_eval_mode() -> None:
    """Dropout is off while it is read, and on again for its user's next step."""
    model = tiny_of("gpt_neox")
    for part in model.modules():
        if isinstance(part, torch.nn.Dropout):
            part.p = 0.5
    wanted = answer(model)
    assert answer(model.train()) == wanted
    assert model.training


def test_passes_that_overlap_leave_the_mode_as_it_was() -> None:
    """Two readers of one model: it is in training mode again after the last of them, not before."""
    model = tiny_of("llama").train()
    first, second = evaluating(model.modules()), evaluating(model.modules())
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert not any(part.training for part in model.modules())
    second.__exit__(None, None, None)
    assert all(part.training for part in model.modules())


# Edits are seen


class Adapted(torch.nn.Module):
    """A layer with a low-rank map beside it, which can be switched off."""

    def __init__(self, base: Any) -> None:
        super().__init__()
        self.base = base
        torch.manual_seed(5)
        self.down = torch.nn.Linear(base.in_features, 2, bias=False)
        self.up = torch.nn.Linear(2, base.out_features, bias=False)
        self.scale = 3.0

    def forward(self, x: Any) -> Any:
        return self.base(x) + self.scale * self.up(self.down(x))


def linear_like(linear: Any) -> Any:
    torch.manual_seed(6)
    new = torch.nn.Linear(linear.in_features, linear.out_features, bias=linear.bias is not None)
    torch.nn.init.normal_(new.weight, std=0.4)
    return new


def doubled(module: Any, given: Any, out: Any) -> Any:
    return (2 * out[0], *out[1:]) if isinstance(out, tuple) else 2 * out


def halved(module: Any, given: Any) -> Any:
    return (given[0] * torch.linspace(0, 1, given[0].shape[-1]), *given[1:])


def own_attention(module: Any, q: Any, k: Any, v: Any, mask: Any, **_: Any) -> Any:
    """Attention that looks at nothing but the mean."""
    groups = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(groups, 1), v.repeat_interleave(groups, 1)
    out = functional.scaled_dot_product_attention(q * 0, k, v, attn_mask=mask, is_causal=mask is None)
    return out.transpose(1, 2), None


def in_place(path: str) -> Callable[[Any], None]:
    def edit(model: Any) -> None:
        with torch.no_grad():
            weight = model.get_parameter(path)
            weight.add_(torch.randn(weight.shape, generator=torch.Generator().manual_seed(3)))

    return edit


def new_parameter(path: str) -> Callable[[Any], None]:
    def edit(model: Any) -> None:
        owner, name = model.get_submodule(path.rpartition(".")[0]), path.rpartition(".")[2]
        setattr(owner, name, torch.nn.Parameter(getattr(owner, name).detach().flip(0) * 1.5))

    return edit


def new_data(model: Any) -> None:
    for name in ("q_proj", "k_proj", "v_proj"):
        weight = getattr(model.model.layers[0].self_attn, name).weight
        weight.data = weight.data.flip(0)


def uncounted(model: Any) -> None:
    model.model.layers[0].mlp.up_proj.weight.data.mul_(-1)


def uncounted_and_where_it_lay(model: Any) -> None:
    """There and back: the numbers differ, addresses and counts may not."""
    weight = model.model.layers[0].mlp.gate_proj.weight
    weight.data = weight.data.double() * 2
    weight.data = weight.data.float()


def replaced(path: str, make: Callable[[Any], Any]) -> Callable[[Any], None]:
    return lambda model: model.set_submodule(path, make(model.get_submodule(path)))


def other_layer(model: Any) -> None:
    model.model.layers[0] = copy.deepcopy(model.model.layers[1])
    model.model.layers[0].self_attn.layer_idx = 0


def other_part(name: str) -> Callable[[Any], None]:
    def edit(model: Any) -> None:
        setattr(model.model.layers[0], name, copy.deepcopy(getattr(model.model.layers[1], name)))

    return edit


def reloaded(model: Any) -> None:
    model.load_state_dict({name: tensor.flip(0) for name, tensor in model.state_dict().items()})


def own_forward(model: Any) -> None:
    mlp = model.model.layers[0].mlp
    mlp.forward = lambda x: -type(mlp).forward(mlp, x)


def function_of_attention(model: Any) -> None:
    from transformers import AttentionInterface

    AttentionInterface.register("of a test", own_attention)
    model.set_attn_implementation("of a test")


def attribute(path: str, name: str, value: Any) -> Callable[[Any], None]:
    return lambda model: setattr(model.get_submodule(path), name, value)


def hook(path: str) -> Callable[[Any], None]:
    return lambda model: model.get_submodule(path).register_forward_hook(doubled)


def head_hook(model: Any) -> None:
    def changed(module: Any, given: Any, out: Any) -> Any:
        out.logits = out.logits * 0.5
        return out

    model.register_forward_hook(changed)


ATTENTION, MLP = "model.layers.0.self_attn", "model.layers.0.mlp"
EDITS: dict[str, Callable[[Any], None]] = {
    **{
        f"in place, {path.removeprefix('model.')}": in_place(path)
        for path in (
            f"{ATTENTION}.q_proj.weight", f"{ATTENTION}.k_proj.weight", f"{ATTENTION}.v_proj.weight",
            f"{ATTENTION}.o_proj.weight", f"{MLP}.gate_proj.weight", f"{MLP}.up_proj.weight",
            f"{MLP}.down_proj.weight", "model.layers.1.input_layernorm.weight", "model.norm.weight",
            "model.embed_tokens.weight", "lm_head.weight",
        )
    },
    **{
        f"anew, {path.removeprefix('model.')}": new_parameter(path)
        for path in (
            f"{ATTENTION}.q_proj.weight", f"{ATTENTION}.k_proj.weight", f"{ATTENTION}.v_proj.weight",
            f"{MLP}.up_proj.weight", "model.layers.0.post_attention_layernorm.weight", "lm_head.weight",
        )
    },
    "data anew": new_data,
    "data in place": uncounted,
    "data there and back": uncounted_and_where_it_lay,
    "another v_proj": replaced(f"{ATTENTION}.v_proj", linear_like),
    "another up_proj": replaced(f"{MLP}.up_proj", linear_like),
    "another layer": other_layer,
    "another attention": other_part("self_attn"),
    "another mlp": other_part("mlp"),
    "another norm": replaced("model.layers.0.input_layernorm", lambda norm: torch.nn.LayerNorm(32)),
    "another activation": replaced(f"{MLP}.act_fn", lambda function: torch.nn.GELU()),
    "another head": replaced("lm_head", linear_like),
    "other embeddings": lambda model: model.set_input_embeddings(torch.nn.Embedding(24, 32)),
    "low rank, v_proj": replaced(f"{ATTENTION}.v_proj", Adapted),
    "low rank, gate_proj": replaced(f"{MLP}.gate_proj", Adapted),
    "other weights loaded": reloaded,
    "converted": lambda model: model.double().lm_head.weight.data.mul_(0.5),
    "hook, v_proj": hook(f"{ATTENTION}.v_proj"),
    "hook, attention": hook(ATTENTION),
    "hook, mlp": hook(MLP),
    "hook, norm": hook("model.layers.1.input_layernorm"),
    "hook, layer": hook("model.layers.0"),
    "hook, embeddings": hook("model.embed_tokens"),
    "hook, model": head_hook,
    "pre-hook, layer": lambda model: model.model.layers[0].register_forward_pre_hook(halved),
    "pre-hook, v_proj": lambda model: model.get_submodule(f"{ATTENTION}.v_proj").register_forward_pre_hook(halved),
    "a forward of its own": own_forward,
    "a function of attention": function_of_attention,
    "scaling": attribute(ATTENTION, "scaling", 0.1),
    "epsilon": attribute("model.layers.0.input_layernorm", "variance_epsilon", 1.0),
}  # fmt: skip


def closure(model: Any) -> Callable[[], None]:
    strength = {"by": 1.0}
    mlp = model.model.layers[0].mlp
    mlp.register_forward_hook(lambda module, given, out: out * strength["by"])
    return lambda: strength.update(by=-2.0)


def vector(model: Any) -> Callable[[], Any]:
    direction = torch.zeros(32)
    model.model.layers[0].mlp.register_forward_hook(lambda module, given, out: out + direction)
    return lambda: direction.add_(torch.linspace(-5, 5, 32))


class Steered(torch.nn.Module):
    """A part that adds what it keeps in ways that no state_dict shows."""

    strength = 0.0

    def __init__(self, base: Any) -> None:
        super().__init__()
        self.base = base
        self.table = {"by": torch.zeros(1)}
        self.listed = [torch.zeros(1)]
        self.settings = SimpleNamespace(by=0.0)

    def helper(self) -> float:
        return 0.0

    def forward(self, x: Any) -> Any:
        by = self.table["by"] + self.listed[0] + self.settings.by + self.strength + self.helper()
        return self.base(x) * (1 + by)


def steered(edit: Callable[[Any], Any]) -> Callable[[Any], Callable[[], None]]:
    """A change of a part of a class of its own."""

    def prepare(model: Any) -> Callable[[], None]:
        kind: Any = type("Steered", (Steered,), {})
        part = model.model.layers[0].mlp = kind(model.model.layers[0].mlp)
        return lambda: edit(part)

    return prepare


def made_in_inference_mode(model: Any) -> Callable[[], None]:
    up = model.model.layers[0].mlp.up_proj
    with torch.inference_mode():
        up.weight = torch.nn.Parameter(up.weight * 1, requires_grad=False)

    def edit() -> None:
        with torch.inference_mode():
            up.weight.mul_(-1)

    return edit


def not_contiguous(model: Any) -> Callable[[], Any]:
    up = model.model.layers[0].mlp.up_proj
    up.weight.data = up.weight.data.t().contiguous().t()
    return lambda: up.weight.data.mul_(-1)


PREPARED: dict[str, Callable[[Any], Callable[[], Any]]] = {
    "strength of a hook, in its closure": closure,
    "vector of a hook, in place": vector,
    "tensor in a dict": steered(lambda part: part.table["by"].add_(2)),
    "tensor in a list": steered(lambda part: part.listed[0].add_(2)),
    "settings object": steered(lambda part: vars(part.settings).update(by=2.0)),
    "class attribute": steered(lambda part: setattr(type(part), "strength", 2.0)),
    "helper method of the class": steered(lambda part: setattr(type(part), "helper", lambda self: 2.0)),
    "helper method of the part": steered(lambda part: setattr(part, "helper", lambda: 2.0)),
    "weights of inference mode": made_in_inference_mode,
    "data in place, not contiguous": not_contiguous,
}
"""Changes of what was put into a model before: nothing in it that can be looked at tells of them."""

REPORTED = (
    "anew, layers.0.self_attn.k_proj.weight", "anew, layers.0.self_attn.v_proj.weight",
    "anew, layers.0.mlp.up_proj.weight", "another v_proj", "hook, layer", "hook, v_proj", "data anew",
)  # fmt: skip
"""Edits that went unseen; each family that is read together is tried with them, and one with all."""


@pytest.fixture(params=JOINED)
def family(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.mark.parametrize(
    ("family", "edit"),
    [("qwen3", edit) for edit in (*EDITS, *PREPARED)]
    + [("llama", edit) for edit in REPORTED]
    + [
        pytest.param(family, edit, marks=pytest.mark.exhaustive)
        for family in ("qwen2", "mistral")
        for edit in REPORTED
    ],
)
def test_an_edit_is_seen_by_the_next_call(family: str, edit: str) -> None:
    """By a new call, and by a decoder that has read the same prompt before, in a task of another id so that its keys
    and values could be lent: the log-probabilities are the oracle's."""
    model = model_of(family)
    change = PREPARED[edit](model) if edit in PREPARED else partial(EDITS[edit], model)
    with Decoder(
        model, "none", tokenizer=byte_tokenizer(), max_new_tokens=TOKENS, logprobs=True, block=0
    ) as kept:
        _, before = cast("list[Any]", kept.generate([[1, 2, 3], PROMPT]))
        assert before.logprobs == pytest.approx(scores(model, before.ids), abs=1e-4)
        change()
        for after in (kept.generate(PROMPT), answer(model)):
            assert after.logprobs == pytest.approx(scores(model, after.ids), abs=1e-4)
    assert after.logprobs != pytest.approx(before.logprobs, abs=1e-3)


def test_a_switch_of_an_adapter_is_seen() -> None:
    """Numbers and words among a module's attributes change what it computes, and so what was read with it."""
    model = model_of("llama")
    model.model.layers[0].self_attn.v_proj = adapter = Adapted(model.model.layers[0].self_attn.v_proj)
    pipeline = Pipeline(
        NoDraft(), Target(LocalModel.from_module(model, byte_tokenizer())), Speculative(), block=0,
        done=Stop(TOKENS, ignore_eos=True), settings={"temperature": 0},
    )  # fmt: skip
    values = []
    for scale in (3.0, 0.0, 3.0):
        adapter.scale = scale
        values.append(pipeline.run({"prompt_ids": PROMPT}).value)
        ids = list(PROMPT)
        for token in values[-1]:
            with torch.inference_mode():
                assert token == int(model(input_ids=torch.tensor([ids])).logits[0, -1].argmax())
            ids.append(token)
    assert values[0] == values[2] != values[1]


@pytest.fixture
def everywhere() -> Iterator[None]:
    """A hook of all modules of the process, which doubles what every projection of values gives."""
    handle = torch.nn.modules.module.register_module_forward_hook(
        lambda module, given, out: 2 * out if getattr(module, "of_values", False) else None
    )
    yield
    handle.remove()


def test_a_hook_of_all_modules_is_seen(everywhere: None) -> None:
    """It belongs to no module; the model runs itself then."""
    model = model_of("llama")
    model.model.layers[0].self_attn.v_proj.of_values = True
    found = answer(model)
    assert found.logprobs == pytest.approx(scores(model, found.ids), abs=1e-4)


def test_a_class_whose_forward_was_replaced_runs_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """Libraries replace the forwards of transformers' classes by their own."""
    model = model_of("llama")
    mlp = type(model.model.layers[0].mlp)
    own = mlp.forward
    answer(model)
    monkeypatch.setattr(mlp, "forward", lambda self, x: -own(self, x))
    found = answer(model)
    assert found.logprobs == pytest.approx(scores(model, found.ids), abs=1e-4)


def test_a_rotation_that_was_replaced_is_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Libraries replace functions of a family's file too; the model runs itself then."""
    from transformers.models.qwen3 import modeling_qwen3

    model, own = model_of("qwen3"), modeling_qwen3.apply_rotary_pos_emb
    with Decoder(model, "none", tokenizer=byte_tokenizer(), max_new_tokens=TOKENS, logprobs=True) as kept:
        kept.generate([[1, 2, 3], PROMPT])
        monkeypatch.setattr(
            modeling_qwen3,
            "apply_rotary_pos_emb",
            lambda q, k, cos, sin, *more: own(q, k, cos * 0.5, sin, *more),
        )
        for after in (kept.generate(PROMPT), answer(model)):
            assert after.logprobs == pytest.approx(scores(model, after.ids), abs=1e-4)


def test_attention_that_looks_ahead_is_refused() -> None:
    """It cannot be read block by block; that it was switched is seen."""
    model = model_of("llama")
    with Decoder(model, "none", tokenizer=byte_tokenizer(), max_new_tokens=TOKENS) as kept:
        kept.generate(PROMPT)
        for layer in model.model.layers:
            layer.self_attn.is_causal = False
        with pytest.raises(Exception, match="cannot be decoded by drafting and verifying"):
            kept.generate(PROMPT)


@pytest.mark.parametrize("register", ["register_forward_hook", "register_forward_pre_hook"])
def test_every_hook_runs_at_every_pass(register: str) -> None:
    """On each part of each layer, as often as on the whole model."""
    model, calls = model_of("qwen3"), dict[str, int]()
    names = [name for name, part in model.named_modules() if not isinstance(part, torch.nn.ModuleList)]
    for name in names:

        def count(*_: Any, name: str = name) -> None:
            calls[name] = calls.get(name, 0) + 1

        getattr(model.get_submodule(name), register)(count)
    answer(model, drafter="none", block=0)
    assert set(calls) == set(names)
    assert len(set(calls.values())) == 1


def test_a_hook_that_makes_blocks_other_than_steps_is_refused_while_it_is_there() -> None:
    """It changes the last token of each pass: what the model says of a token depends on what it is read with."""
    model = model_of("llama")

    def steer(module: Any, given: Any, out: Any) -> Any:
        out[:, -1] += torch.linspace(-5, 5, out.shape[-1])
        return out

    with Decoder(model, "none", tokenizer=byte_tokenizer(), max_new_tokens=TOKENS, logprobs=True) as kept:
        before = kept.generate(PROMPT)
        handle = model.model.layers[0].mlp.register_forward_hook(steer)
        for _ in range(2):
            with pytest.raises(Exception, match="cannot be decoded by drafting and verifying"):
                kept.generate(PROMPT)
        with pytest.raises(ConfigError, match="cannot be decoded by drafting and verifying"):
            answer(model)
        handle.remove()
        assert kept.generate(PROMPT).logprobs == pytest.approx(before.logprobs, abs=1e-4)
        assert isinstance(kept._target._reader._forward, LlamaForward)


def test_a_drafter_sees_edits_of_its_model() -> None:
    """A draft model is trained between two tasks: it drafts what it thinks now, all of which its target keeps."""
    target, small = model_of("llama"), model_of("llama", seed=1)
    drafter = DraftModel(LocalModel.from_module(small, byte_tokenizer()))
    with Decoder(target, drafter, tokenizer=byte_tokenizer(), max_new_tokens=9, block=4) as kept:
        kept.generate(PROMPT)
        small.load_state_dict(target.state_dict())
        found: Any = kept.generate(PROMPT)
    assert found.drafted == found.accepted > 0


@pytest.mark.parametrize("family", ["llama", "gpt_neox"])
def test_hidden_states_leave_no_hooks(family: str) -> None:
    """transformers records them by hooks that it leaves in a model; those of a user's own call stay."""
    model = model_of("llama") if family == "llama" else tiny_of(family)
    before = state_of(model)
    reader = BlockReader(model, hidden=(0, -1))
    reader.read([make_context({"prompt_ids": PROMPT})], [Proposal.chain((1, 2))])
    assert state_of(model) == before
    with torch.no_grad():
        model(input_ids=torch.tensor([PROMPT]), output_hidden_states=True)
    before = state_of(model)
    reader.read([make_context({"prompt_ids": PROMPT})], [Proposal.chain((1, 2))])
    assert state_of(model) == before
    assert family != "llama" or isinstance(BlockReader(model)._forward, LlamaForward)


# Weights of the library's own


@pytest.fixture
def saved(tmp_path: Any, family: str) -> Any:
    model_of(family).save_pretrained(tmp_path)
    byte_tokenizer().save_pretrained(tmp_path)
    return tmp_path


def products(model: Any) -> list[int]:
    """How many products queries, keys and values are in each layer, and gate and up."""
    reader = BlockReader(model)
    assert isinstance(reader._forward, LlamaForward)
    reader.read([make_context({"prompt_ids": PROMPT})], [Proposal.chain(())])
    x = torch.zeros(1, 1, model.config.hidden_size)
    return [len(part(x)) for layer in reader._forward._layers for part in (layer.qkv, layer.gate_up)]


def test_weights_loaded_by_name_are_read_together_and_train_as_any(saved: Any, family: str) -> None:
    """One product for three; train, generate, train is still train, train, also with an optimizer in hooks."""
    weights = []
    for decodes in (False, True):
        local = LocalModel(saved, dtype="float32", device="cpu")
        model = local.model
        assert products(model) == [1, 1] * 2
        for parameter in model.parameters():
            optimizer = torch.optim.SGD([parameter], lr=0.05)

            def step_at_once(_: Any, optimizer: Any = optimizer) -> None:
                optimizer.step()
                optimizer.zero_grad()

            parameter.register_post_accumulate_grad_hook(step_at_once)
        for step in range(2):
            if decodes and step:
                found = answer(local, tokenizer=None)
                assert found.logprobs == pytest.approx(scores(model, found.ids), abs=1e-4)
            ids = torch.tensor([PROMPT])
            model(input_ids=ids, labels=ids).loss.backward()
        weights.append(model.state_dict())
    for name, tensor in weights[0].items():
        assert torch.equal(tensor, weights[1][name]), name


@pytest.mark.parametrize(
    "edit", ["anew, layers.0.self_attn.v_proj.weight", "data anew", "hook, v_proj", "another up_proj"]
)
def test_edits_of_weights_loaded_by_name_are_seen_too(saved: Any, edit: str) -> None:
    """What lies elsewhere now is read there."""
    local = LocalModel(saved, dtype="float32", device="cpu")
    with Decoder(local, "none", max_new_tokens=TOKENS, logprobs=True, block=0) as kept:
        kept.generate(PROMPT)
        EDITS[edit](local.model)
        found: Any = kept.generate(PROMPT)
    assert found.logprobs == pytest.approx(scores(local.model, found.ids), abs=1e-4)


def test_weights_given_away_are_read_together(family: str, tmp_path: Any) -> None:
    """With `own` the parameters stay the same objects, so that an optimizer made before goes on; they can be saved."""
    model = model_of(family)
    before = {name: (id(parameter), parameter.tolist()) for name, parameter in model.named_parameters()}
    assert products(model) == [3, 2] * 2
    LocalModel.from_module(model, byte_tokenizer(), own=True)
    assert products(model) == [1, 1] * 2
    assert {name: (id(p), p.tolist()) for name, p in model.named_parameters()} == before
    model.save_pretrained(tmp_path)
    again = type(model).from_pretrained(tmp_path)
    assert all(torch.equal(again.state_dict()[name], tensor) for name, tensor in model.state_dict().items())
    assert products(copy.deepcopy(model)) == [3, 2] * 2


def test_both_ways_of_reading_are_told_apart_by_the_model_alone() -> None:
    """A family that is known, as it is written; not with a hook, a part of another kind or a function of its own."""
    assert isinstance(BlockReader(model_of("llama"))._forward, LlamaForward)
    for edit in ("hook, v_proj", "another norm", "a forward of its own", "another activation"):
        model = model_of("llama")
        EDITS[edit](model)
        assert isinstance(BlockReader(model)._forward, ModuleForward), edit
