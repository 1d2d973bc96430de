"""Packed weights: bfloat16 ones compute the same, four-bit ones what their codes and scales say.

Torch's kernel for bfloat16 ones does not run on every processor. Tests of it skip there; all others pass with it and
without. To see them without it where it runs: ONEDNN_MAX_CPU_ISA=AVX2 pytest tests/llm/test_packed.py
"""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from draftverify import ConfigError
from draftverify_llm import packed
from draftverify_llm.packed import (
    GROUP,
    LIKELIEST,
    Int4Head,
    Int4Linear,
    Joint,
    JointPart,
    PackedLinear,
    obstacle,
    pack,
)

RUNS = obstacle() is None
kernel = pytest.mark.skipif(
    not RUNS, reason="a processor on which torch's packed bfloat16 product does not run"
)
KEPT = PackedLinear if RUNS else torch.nn.Linear
"""What a layer that keeps its bits becomes."""


def layer(outputs: int = 48, inputs: int = 64, *, bias: bool = False) -> torch.nn.Linear:
    torch.manual_seed(0)
    return torch.nn.Linear(inputs, outputs, bias=bias).bfloat16()


@pytest.mark.parametrize("rows", [1, 5, 40])
@pytest.mark.parametrize("bias", [False, True])
def test_both_ways_compute_the_codes(rows, bias):
    """A few rows by the packed kernel and many by made-up weights: the product with the rounded weights."""
    small = Int4Linear(layer(bias=bias))
    x = torch.randn(rows, 64).bfloat16()
    expected = x.float() @ small.weights().float().T + (small.bias.float() if bias else 0.0)
    torch.testing.assert_close(small(x).float(), expected, atol=0.03, rtol=0.02)


def test_weights_are_rounded_to_the_nearest_of_sixteen():
    """No weight is further from its rounded form than half a step of its group, but for the scales' own rounding."""
    linear = layer()
    groups = linear.weight.detach().float().view(48, -1, GROUP)
    step = (groups.amax(-1) - groups.amin(-1)) / 15
    off = (Int4Linear(linear).weights().float().view_as(groups) - groups).abs().amax(-1)
    assert (off <= 0.5 * step + 0.01 * groups.abs().amax(-1)).all()


def test_weights_of_such_a_form_keep_their_codes():
    """A group of 16 values that are evenly spread, as a Q4_1 file gives, comes out as it went in."""
    linear = layer(16, 32)
    with torch.no_grad():
        linear.weight.copy_((torch.arange(32) % 16).float() * 0.25 - 1.0)
    assert torch.equal(Int4Linear(linear).weights(), linear.weight)


def test_a_model_keeps_the_bits_of_its_head():
    """Linear layers of the body are rounded, the head is not, and the model still runs."""
    from tests.tokens.tiny import tiny_llama

    model = tiny_llama(64).bfloat16()
    widen(model.model.layers[0])
    del model.model.layers[1:]
    model.config.num_hidden_layers = 1
    before = model(torch.tensor([[1, 2, 3]])).logits
    pack(model, "int4")
    kinds = [type(part) for part in model.modules()]
    assert (
        kinds.count(Int4Linear) == 4
    )  # queries, keys and values together; output; gate and up together; down
    assert kinds.count(KEPT) == 1
    assert type(model.lm_head) is KEPT
    after = model(torch.tensor([[1, 2, 3]])).logits
    assert (after - before).abs().max() < 0.2 * before.abs().max()


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("shape", [(1, 64), (40, 64), (2, 3, 64)])
def test_a_rounded_head_knows_its_likeliest_tokens_exactly(shape, bias):
    """Their logits are those of the weights as they were, all others those of the rounded ones."""
    plain = layer(512, bias=bias)
    head, rounded = Int4Head(plain), Int4Linear(plain)
    x = torch.randn(shape).bfloat16()
    found, exact, rough = head(x).float(), plain(x).float(), rounded(x).float()
    likeliest = rough.topk(LIKELIEST, dim=-1).indices
    among = torch.zeros_like(rough, dtype=torch.bool).scatter_(-1, likeliest, True)
    torch.testing.assert_close(found[among], exact[among], atol=0.02, rtol=0.02)
    torch.testing.assert_close(found[~among], rough[~among], atol=0.02, rtol=0.02)
    assert (rough[among] - exact[among]).abs().max() > 0.05  # the rounded ones would not have passed


def test_a_head_may_have_any_number_of_tokens():
    """Rows are added for the product and taken off again."""
    for bias in (False, True):
        plain = layer(257, bias=bias)
        x = torch.randn(3, 64).bfloat16()
        found, exact = Int4Head(plain)(x), plain(x)
        assert found.shape == (3, 257)
        assert torch.equal(found.argmax(-1), exact.argmax(-1))
        assert Int4Head(plain).weights().shape == (272, 64)


def test_a_vocabulary_smaller_than_the_likeliest_is_exact():
    """Nothing is left to be rounded."""
    plain = layer(48)
    x = torch.randn(3, 64).bfloat16()
    torch.testing.assert_close(Int4Head(plain)(x), plain(x), atol=0.02, rtol=0.02)


def test_a_model_whose_head_is_rounded_too():
    """The embeddings that it shares with the head stay what they were, and the likeliest token is the same."""
    from tests.tokens.tiny import tiny_llama

    model = tiny_llama(64).bfloat16()
    model.lm_head.weight = model.model.embed_tokens.weight
    del model.model.layers[:]
    model.config.num_hidden_layers = 0
    ids = torch.tensor([[1, 2, 3]])
    before, embeddings = model(ids).logits, model.model.embed_tokens.weight.clone()
    pack(model, "int4_head")
    assert type(model.lm_head) is Int4Head
    assert torch.equal(model.model.embed_tokens.weight, embeddings)
    torch.testing.assert_close(model(ids).logits, before, atol=0.02, rtol=0.02)


@pytest.mark.weights
@pytest.mark.exhaustive
def test_a_rounded_head_of_a_real_model_finds_the_likeliest_token():
    """On English text it is the one of the whole head at 97 of 100 places or more; rounded alone it is not."""
    from draftverify_llm import LocalModel

    lines = (Path(__file__).parents[2] / "examples" / "prompts.jsonl").read_text().splitlines()
    # The layers below the head in float32: processors without instructions for bfloat16 are ten times as quick with it.
    plain = LocalModel("smollm2-135m-instruct", dtype="float32")
    ids = plain.encode_prompt({"prompt": " ".join(json.loads(line)["prompt"] for line in lines[:4])})
    with torch.inference_mode():
        states = plain.model.model(torch.tensor([ids])).last_hidden_state[0].bfloat16()
        head = plain.model.lm_head.bfloat16()
        expected = head(states).argmax(-1)
        found = Int4Head(head)(states).argmax(-1)
        alone = Int4Linear(head)(states).argmax(-1)
    assert (found == expected).float().mean() >= 0.97
    assert (alone == expected).float().mean() < 0.95


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda model: model.float(), "for bfloat16 on a CPU; this model is torch.float32 on cpu"),
        (
            lambda model: model.bfloat16(),
            r"layer model.layers.0.mlp.down_proj is 32 x 48; .* divisible by 32",
        ),
    ],
)
def test_a_model_that_does_not_fit_is_refused(change, message):
    """The error names the type, or the layer and its size."""
    from tests.tokens.tiny import tiny_llama

    with pytest.raises(ConfigError, match=message):
        pack(change(tiny_llama(64)), "int4")


@pytest.mark.weights
@pytest.mark.exhaustive
def test_a_four_bit_file_comes_out_as_it_is():
    """SmolLM2's GGUF has four-bit layers of that very form: packed again they hold the same values."""
    from draftverify_llm import LocalModel

    small = LocalModel("smollm2-135m-instruct", dtype="bfloat16", packed="int4")
    whole = LocalModel("smollm2-135m-instruct", dtype="bfloat16")
    name = "model.layers.7.mlp.down_proj"
    got, expected = small.model.get_submodule(name).weights(), whole.model.get_submodule(name).weight
    assert (got.float() - expected.float()).abs().max() < 0.01 * expected.abs().max()
    ids = torch.tensor(
        [whole.encode_prompt({"prompt": "Name three rivers of Europe and the seas they flow into."})]
    )
    with torch.inference_mode():
        same = small.model(ids).logits.argmax(-1) == whole.model(ids).logits.argmax(-1)
    assert same.float().mean() > 0.9


@kernel
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("shape", [(1, 64), (1, 9, 64), (2, 300, 64)])
def test_packing_alone_changes_no_weight(bias, shape):
    """The product is the plain layer's, for any number of rows, but for the order of its sums."""
    linear = layer(bias=bias)
    x = torch.randn(shape).bfloat16()
    torch.testing.assert_close(PackedLinear(linear)(x), linear(x), atol=0.03, rtol=0.02)


def test_a_packed_model_decodes():
    """Through transformers' own code and through the short way of the tokens adapter, with the same logits."""
    from draftverify import Proposal
    from draftverify.kit import make_context
    from draftverify_tokens.reader import BlockReader
    from tests.tokens.tiny import tiny_llama

    model = tiny_llama(64).bfloat16()
    ids = [1, 2, 3, 4, 5]
    before = model(torch.tensor([ids])).logits[0, -1]
    pack(model, "bfloat16")
    torch.testing.assert_close(model(torch.tensor([ids])).logits[0, -1], before, atol=0.1, rtol=0.05)
    assert type(model.model.layers[0].self_attn.k_proj) is (JointPart if RUNS else torch.nn.Linear)
    read = BlockReader(model).read([make_context({"prompt_ids": ids})], [Proposal.chain(())]).logits[0]
    torch.testing.assert_close(read, before, atol=0.1, rtol=0.05)


IDS = torch.tensor([[1, 2, 3, 4]])


def model_of(change=None):
    from tests.tokens.tiny import tiny_llama

    model = tiny_llama(64).bfloat16()
    if change is not None:
        change(model.model.layers[0])
    return model


@pytest.mark.parametrize(
    "biased", [{"k_proj"}, {"q_proj"}, {"q_proj", "v_proj"}, {"q_proj", "k_proj", "v_proj"}]
)
def test_layers_of_which_some_have_a_bias_keep_it(biased):
    """They are packed each for itself then; only layers that are alike become one product."""

    def change(layer):
        torch.manual_seed(1)
        for name in biased:
            plain = getattr(layer.self_attn, name)
            made = torch.nn.Linear(plain.in_features, plain.out_features, bias=True).bfloat16()
            setattr(layer.self_attn, name, made)

    model = model_of(change)
    with torch.no_grad():
        before = model(IDS).logits
        pack(model, "bfloat16")
        torch.testing.assert_close(model(IDS).logits, before, atol=0.02, rtol=0.02)
    assert (type(model.model.layers[0].self_attn.q_proj) is JointPart) is (RUNS and len(biased) == 3)


def test_layers_of_those_names_with_other_inputs_are_not_joined():
    """A name is no promise that both read the same."""

    class Mlp(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.gate_proj, self.up_proj = layer(32, 64), layer(48, 32)

    found = Mlp()
    x, y = torch.randn(3, 64).bfloat16(), torch.randn(3, 32).bfloat16()
    before = found.gate_proj(x), found.up_proj(y)
    pack(found, "bfloat16")
    torch.testing.assert_close(found.gate_proj(x), before[0], atol=0.02, rtol=0.02)
    torch.testing.assert_close(found.up_proj(y), before[1], atol=0.02, rtol=0.02)


@pytest.mark.parametrize(
    ("how", "kind"), [pytest.param("bfloat16", PackedLinear, marks=kernel), ("int4_head", Int4Linear)]
)
def test_joined_layers_make_one_product_whoever_calls_them(how, kind, monkeypatch):
    """transformers calls queries, keys and values one by one: one product, and never an earlier input's."""
    model = model_of()
    for each in model.model.layers:
        widen(each)
    pack(model, how)
    calls = []
    plain = kind.forward
    monkeypatch.setattr(kind, "forward", lambda self, x: calls.append(self) or plain(self, x))
    with torch.no_grad():
        model(IDS)
    assert len(calls) == len(set(calls)) == 4 * len(model.model.layers) + 1
    attention = model.model.layers[0].self_attn
    q, k, joint = attention.q_proj, attention.k_proj, attention.q_proj.joint
    assert type(joint) is Joint
    x, y = torch.randn(2, 32).bfloat16(), torch.randn(2, 32).bfloat16()
    for part, given in ((q, x), (k, y), (q, y), (k, x), (q, x), (q, x)):
        assert torch.equal(part(given), joint(given)[..., part.start : part.end])
    x.copy_(y)
    assert torch.equal(q(x), joint(y)[..., q.start : q.end])  # it takes each output once


def test_threads_that_share_a_model_get_their_own_answers():
    """Eight threads with inputs of their own, as often as it takes to meet."""
    from concurrent.futures import ThreadPoolExecutor

    model = model_of()
    pack(model, "bfloat16")
    inputs = [torch.tensor([[i, i + 1, 2 * i]]) for i in range(8)]

    def logits(ids):
        with torch.inference_mode():
            return model(ids).logits.float()

    alone = [logits(ids) for ids in inputs]
    with ThreadPoolExecutor(8) as threads:
        for at, found in enumerate(threads.map(logits, inputs * 10)):
            assert torch.equal(found, alone[at % 8])


@pytest.mark.parametrize("kind", [pytest.param(PackedLinear, marks=kernel), Int4Linear])
@pytest.mark.parametrize("shape", [(64,), (0, 64), (3, 64)])
def test_any_layout_of_the_input_will_do(kind, shape):
    """One vector, none, and one that does not lie in a piece."""
    small = kind(layer(bias=True))
    x = torch.randn(shape).bfloat16()
    apart = torch.empty(*shape[:-1], 128).bfloat16()[..., ::2].copy_(x)
    assert small(apart).shape == (*shape[:-1], 48)
    assert torch.equal(small(apart), small(x))


@pytest.mark.parametrize("how", [pytest.param("bfloat16", marks=kernel), "int4", "int4_head"])
@pytest.mark.parametrize(
    "use",
    [
        lambda model, path: model.state_dict(),
        lambda model, path: model.save_pretrained(path),
        lambda model, path: torch.save(model, path / "model.pt"),
        lambda model, path: __import__("copy").deepcopy(model),
        lambda model, path: model.float(),
        lambda model, path: model.to("meta"),
        lambda model, path: pack(model, "int4"),
        lambda model, path: pack(model, "bfloat16"),
    ],
    ids=["state_dict", "save_pretrained", "save", "copy", "float32", "move", "int4 again", "bfloat16 again"],
)
def test_a_packed_model_is_not_saved_moved_or_packed_again(how, use, tmp_path):
    """A file without the weights, or four bits that were not rounded to, would look like a success."""
    model = model_of()
    for each in model.model.layers:
        widen(each)
    pack(model, how)
    with pytest.raises(ConfigError, match="packed"):
        use(model, tmp_path)


def test_a_packed_model_may_stay_where_it_is():
    """What moves nothing is no error."""
    model = model_of()
    pack(model, "bfloat16")
    before = model(IDS).logits
    assert torch.equal(model.to("cpu").to(torch.bfloat16).eval()(IDS).logits, before)


def widen(layer):
    """So that four-bit groups fit."""
    mlp = layer.mlp
    mlp.gate_proj, mlp.up_proj = (torch.nn.Linear(32, 64, bias=False).bfloat16() for _ in range(2))
    mlp.down_proj = torch.nn.Linear(64, 32, bias=False).bfloat16()


def odd_one(model):
    model.model.layers[-1].mlp.up_proj.float()


@pytest.mark.parametrize(
    ("how", "change", "message"),
    [
        ("int8", None, "one of bfloat16, int4, int4_head, not 'int8'"),
        ("int4", None, "down_proj is 32 x 48"),
        ("bfloat16", odd_one, r"layer model.layers.1.mlp.up_proj is torch.float32"),
    ],
)
def test_a_refused_model_is_as_it_was(how, change, message):
    """Nothing was replaced before the layer that does not fit was found."""
    model = model_of()
    if change is not None:
        change(model)
    before = [type(part) for part in model.modules()]
    with pytest.raises(ConfigError, match=message):
        pack(model, how)
    assert [type(part) for part in model.modules()] == before


def test_a_model_without_such_layers_is_refused():
    """GPT-2's are of a class of their own: four bits would be asked for and not given."""
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(
        vocab_size=64, n_embd=32, n_layer=1, n_head=2, n_positions=16, bos_token_id=0, eos_token_id=0
    )
    with pytest.raises(ConfigError, match="GPT2LMHeadModel has none but its head"):
        pack(GPT2LMHeadModel(config).bfloat16(), "int4")


def test_a_tied_head_leaves_the_embeddings_alone():
    """Four bits go to the body; head and embeddings share a matrix, which embeds as before."""
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=64, hidden_size=32, intermediate_size=64, num_hidden_layers=1, num_attention_heads=4,
        num_key_value_heads=2, tie_word_embeddings=True,
    )  # fmt: skip
    model = LlamaForCausalLM(config).bfloat16()
    embedded = model.get_input_embeddings()(IDS).clone()
    x = torch.randn(1, 32).bfloat16()
    expected = model.lm_head(x)
    pack(model, "int4")
    assert torch.equal(model.get_input_embeddings()(IDS), embedded)
    assert type(model.lm_head) is KEPT
    torch.testing.assert_close(model.lm_head(x), expected, atol=0.02, rtol=0.02)


@pytest.fixture
def without(monkeypatch):
    """A processor that lacks the kernel, and nothing told yet."""
    monkeypatch.setattr(packed, "obstacle", lambda: "needs the cpu support of another one")
    packed._tell.cache_clear()
    yield
    packed._tell.cache_clear()


@pytest.mark.parametrize("error", [AttributeError, RuntimeError])
def test_the_obstacle_is_what_torch_says(error, monkeypatch):
    """Of a build without the product, or of a processor without its instructions; the first line of it."""

    def refuse(*_):
        raise error("needs the cpu support of another one\nat line 1")

    monkeypatch.setattr(torch.ops.mkldnn, "_reorder_linear_weight", refuse, raising=False)
    assert obstacle.__wrapped__() == "needs the cpu support of another one"


def test_avx_512_is_enough():
    """Else a torch that names the product otherwise would pass for a processor without it, and all would skip."""
    limited = os.environ.keys() & {"ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA"}
    assert RUNS or limited or not torch.backends.cpu.get_cpu_capability().startswith("AVX512"), obstacle()


def test_asking_for_the_obstacle_draws_no_random_number():
    """A seed set before a model is packed goes on as it would have."""
    before = torch.get_rng_state()
    obstacle.__wrapped__()
    assert torch.equal(torch.get_rng_state(), before)


def test_without_the_kernel_a_model_stays_what_it_was(without):
    """Its layers are torch's own, so its logits are the same to the bit, and so is what it saves."""
    model = model_of()
    before, kinds = model(IDS).logits, [type(part) for part in model.modules()]
    pack(model, "bfloat16")
    assert [type(part) for part in model.modules()] == kinds
    assert torch.equal(model(IDS).logits, before)
    assert "lm_head.weight" in model.state_dict()


def test_without_the_kernel_it_is_told_once(without, caplog):
    """A warning in words for all models together, with what torch says."""
    with caplog.at_level(logging.WARNING, "draftverify.llm"):
        for _ in range(3):
            pack(model_of(), "bfloat16")
    (said,) = caplog.records
    assert said.levelno == logging.WARNING
    assert "cannot be packed on this processor: they stay as they are" in said.getMessage()
    assert "(torch: needs the cpu support of another one)" in said.getMessage()


@pytest.mark.parametrize(("how", "head", "told"), [("int4", torch.nn.Linear, 1), ("int4_head", Int4Head, 0)])
def test_without_the_kernel_four_bits_are_four_bits(how, head, told, without, caplog):
    """They have a kernel of their own; only a head that was to keep its bits stays plain, and that is told."""
    model = model_of()
    for each in model.model.layers:
        widen(each)
    x = torch.randn(1, 32).bfloat16()
    down, expected = model.model.layers[0].mlp.down_proj, model.lm_head(x)
    pack(model, how)
    assert type(model.lm_head) is head
    assert torch.equal(model.model.layers[0].mlp.down_proj.weights(), Int4Linear(down).weights())
    if head is torch.nn.Linear:
        assert torch.equal(model.lm_head(x), expected)
    assert len(caplog.records) == told


def test_without_the_kernel_a_config_runs(without, tmp_path, caplog):
    """`packed: bfloat16` emits what the same config without it does, with a rounded drafter beside it."""
    from draftverify.bench.config.experiment import load_experiment
    from draftverify.bench.records import load_run
    from draftverify.bench.runner.run import run
    from tests.tokens.tiny import byte_tokenizer, tiny_llama

    saved = tiny_llama()
    for each in saved.model.layers:
        widen(each)
    saved.config.intermediate_size = 64
    saved.bfloat16().save_pretrained(tmp_path / "model")
    byte_tokenizer().save_pretrained(tmp_path / "model")

    def values(name: str, **how: str) -> list[Any]:
        local = {"use": "llm.local", "weights": str(tmp_path / "model"), "dtype": "bfloat16"}
        target = {
            "verifier": {"use": "tokens.target", "model": "target"},
            "rule": {"use": "speculative"},
            "done": {"use": "tokens.stop", "max_tokens": 12, "ignore_eos": True},
        }
        rounded = {"use": "tokens.draft_model", "model": "rounded", "own_cache": False}
        config = {
            "name": name,
            "tasks": {"use": "jsonl", "path": "tasks.jsonl"},
            "settings": {"temperature": 0},
            "models": {"target": local | how, "rounded": local | {"packed": "int4_head"}},
            "pipelines": {
                "plain": target | {"generator": {"use": "tokens.none"}, "block": 0},
                "rounded": target | {"generator": rounded, "block": 4},
            },
        }
        (tmp_path / f"{name}.yaml").write_text(json.dumps(config))  # JSON is YAML
        run(load_experiment(tmp_path / f"{name}.yaml"), out=tmp_path / name)
        with load_run(tmp_path / name) as found:
            records = [record for each in config["pipelines"] for record in found.records(each)]
        assert [record.outcome.status for record in records] == ["accepted"] * 4
        return [record.outcome.value for record in records]

    (tmp_path / "tasks.jsonl").write_text('{"prompt": "abcabcab"}\n{"prompt": "one two one two"}\n')
    assert values("packed", packed="bfloat16") == values("whole")
    assert [each.name for each in caplog.records if "cannot be packed" in each.getMessage()] == [
        "draftverify.llm"
    ]


@pytest.mark.exhaustive
def test_the_example_runs_on_a_processor_without_the_instructions(tmp_path):
    """examples/rounded_draft.yaml, with other weights, where torch and oneDNN are held to AVX2: torch's own refusal is
    what is met here, and it is told once."""
    from tests.tokens.tiny import byte_tokenizer, tiny_llama

    root, weights = Path(__file__).parents[2], tmp_path / "model"
    saved = tiny_llama(positions=1024)
    for each in saved.model.layers:
        widen(each)
    saved.config.intermediate_size = 64
    saved.bfloat16().save_pretrained(weights)
    byte_tokenizer().save_pretrained(weights)
    done = subprocess.run(
        [
            sys.executable, "-m", "draftverify", "run", "examples/rounded_draft.yaml", "--set=tasks.limit=1",
            "--out", str(tmp_path / "run"),
            *(f"--set=models.{name}.weights={weights}" for name in ("target", "rounded")),
            *(f"--set=pipelines.{name}.done.max_tokens=6" for name in ("plain", "rounded")),
        ],
        cwd=root, env={**os.environ, "ONEDNN_MAX_CPU_ISA": "AVX2", "ATEN_CPU_CAPABILITY": "avx2"},
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("cannot be packed on this processor") == 1
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert [each["statuses"] for each in summary["pipelines"]] == [{"accepted": 1}] * 2
