"""llama2.c's checkpoints: what torch computes from them is what llama2.c computes, and the tokens are Llama's."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from draftverify.errors import ResourceError
from draftverify_llm import LlamaCpp, LocalModel, gguf_file, torch_directory
from draftverify_llm.llama2c import write_gguf

DIM, HIDDEN, LAYERS, HEADS, KV_HEADS, SEQ = 32, 48, 2, 4, 2, 24
WORDS = ["  ", " a", " b", " ab", "ab", "a", "b", " ", "x", "é"]
VOCABULARY = 259 + len(WORDS)
STORIES = "stories15m"


def checkpoint(*, shared: bool) -> tuple[bytes, dict[str, Any]]:
    """A random model in llama2.c's first format, its tokenizer behind it; and its tensors by llama2.c's names."""
    dice, kv = np.random.default_rng(3), DIM // HEADS * KV_HEADS
    shapes: dict[str, tuple[int, ...]] = {
        "embedding": (VOCABULARY, DIM), "rms_att": (LAYERS, DIM), "wq": (LAYERS, DIM, DIM), "wk": (LAYERS, kv, DIM),
        "wv": (LAYERS, kv, DIM), "wo": (LAYERS, DIM, DIM), "rms_ffn": (LAYERS, DIM), "w1": (LAYERS, HIDDEN, DIM),
        "w2": (LAYERS, DIM, HIDDEN), "w3": (LAYERS, HIDDEN, DIM), "rms_final": (DIM,), "rotary": (2, SEQ, 4),
    }  # fmt: skip
    if not shared:
        shapes["classifier"] = (VOCABULARY, DIM)
    w = {name: dice.normal(0, 0.3, shape).astype("<f4") for name, shape in shapes.items()}
    header = (DIM, HIDDEN, LAYERS, HEADS, KV_HEADS, VOCABULARY if shared else -VOCABULARY, SEQ)
    data = struct.pack("<7i", *header) + b"".join(values.tobytes() for values in w.values())
    printed = ["<unk>", "\n<s>\n", "\n</s>\n", *map(chr, range(256)), *WORDS]
    data += struct.pack("<i", max(len(text.encode()) for text in printed))
    for id, text in enumerate(printed):
        score = (
            0.0 if id < 259 else -1e9 if id == 259 else float(258 - id)
        )  # two spaces merge last, as in Llama's
        data += struct.pack("<fi", score, len(text.encode())) + text.encode()
    return data, w


def llama2c(w: dict[str, Any], tokens: list[int]) -> Any:
    """Logits [tokens, vocabulary] as run.c computes them, one position after the other, in float64."""
    head, keys, values, rows = DIM // HEADS, [], [], []

    def norm(x: Any, weight: Any) -> Any:
        return weight * x / np.sqrt((x * x).mean() + 1e-5)

    def turned(vector: Any, at: int) -> Any:
        turns = at / 10000 ** (np.arange(0, head, 2) / head)
        pairs = vector.reshape(-1, head // 2, 2)
        real, imaginary = pairs[..., 0], pairs[..., 1]
        cos, sin = np.cos(turns), np.sin(turns)
        return np.stack([real * cos - imaginary * sin, real * sin + imaginary * cos], -1).reshape(-1, head)

    for at, token in enumerate(tokens):
        x = w["embedding"][token].astype(float)
        for layer in range(LAYERS):
            if at == 0:
                keys.append([])
                values.append([])
            h = norm(x, w["rms_att"][layer])
            q = turned(w["wq"][layer] @ h, at)
            keys[layer].append(turned(w["wk"][layer] @ h, at))
            values[layer].append((w["wv"][layer] @ h).reshape(-1, head))
            heard = []
            for i in range(HEADS):
                shared = i // (HEADS // KV_HEADS)
                score = np.array([q[i] @ key[shared] for key in keys[layer]]) / np.sqrt(head)
                weight = np.exp(score - score.max())
                heard.append(weight / weight.sum() @ np.array([value[shared] for value in values[layer]]))
            x = x + w["wo"][layer] @ np.concatenate(heard)
            h = norm(x, w["rms_ffn"][layer])
            gate = w["w1"][layer] @ h
            x = x + w["w2"][layer] @ (gate / (1 + np.exp(-gate)) * (w["w3"][layer] @ h))
        rows.append(w.get("classifier", w["embedding"]) @ norm(x, w["rms_final"]))
    return np.array(rows)


@pytest.fixture(params=[True, False], ids=["shared classifier", "own classifier"])
def made(request: pytest.FixtureRequest, tmp_path: Path, cache: Path) -> tuple[LocalModel, dict[str, Any]]:
    """The random model, converted and loaded, and its tensors."""
    data, w = checkpoint(shared=request.param)
    (tmp_path / "toy.data").write_bytes(data)
    write_gguf(tmp_path / "toy.data", tmp_path / "toy.gguf", "toy")
    return LocalModel(tmp_path / "toy.gguf"), w


def test_logits_are_llama2_c_s(made: tuple[LocalModel, dict[str, Any]]) -> None:
    """Every position's logits equal those of llama2.c's own computation: layout, rotation, epsilon, classifier."""
    import torch

    model, w = made
    tokens = [1, 260, 40, 263, 5, 261, 268, 262]
    with torch.no_grad():
        logits = model.model(torch.tensor([tokens])).logits[0].numpy()
    np.testing.assert_allclose(logits, llama2c(w, tokens), rtol=1e-3, atol=2e-4)
    config = model.model.config
    assert config.max_position_embeddings == SEQ
    assert (config.rms_norm_eps, config.rope_parameters["rope_theta"]) == (pytest.approx(1e-5), 10_000)


def test_tokens_are_llama_s(made: tuple[LocalModel, dict[str, Any]]) -> None:
    """A text begins with <s> and a space, merges by score, falls back to bytes, and comes back the same."""
    from gguf import GGUFReader

    model, _ = made

    def ids(text: str) -> list[int]:
        return model.encode_prompt({"prompt": text})

    assert ids("ab") == [1, 262]  # "▁ab"
    assert ids(" ab") == [1, 266, 262]  # the space that is put before is not the one that is there
    assert ids("x y") == [1, 266, 267, 266, 3 + ord("y")]
    assert ids("é ü") == [1, 266, 268, 266, 3 + 0xC3, 3 + 0xBC]
    for text in ("ab", "  ab b", "é ü", "a\n\tb"):
        assert model.decode(ids(text)) == text
    assert model.decode([1, 262, 2]) == "ab"
    kinds = GGUFReader(str(model.weights)).get_field("tokenizer.ggml.token_type").contents()
    assert kinds == [
        2,
        3,
        3,
        *[6] * 256,
        *[1] * len(WORDS),
    ]  # unknown, control, byte, normal, in llama.cpp's numbers


def test_no_value_is_changed(made: tuple[LocalModel, dict[str, Any]]) -> None:
    """The directory for torch holds the checkpoint's numbers, bit for bit."""
    model, w = made
    ours = model.model.state_dict()
    assert np.array_equal(ours["model.embed_tokens.weight"], w["embedding"])
    assert np.array_equal(ours["lm_head.weight"], w.get("classifier", w["embedding"]))
    for layer in range(LAYERS):
        for theirs, name in (("wv", "self_attn.v_proj"), ("wo", "self_attn.o_proj"), ("w1", "mlp.gate_proj"),
                             ("w2", "mlp.down_proj"), ("w3", "mlp.up_proj")):  # fmt: skip
            assert np.array_equal(ours[f"model.layers.{layer}.{name}.weight"], w[theirs][layer])


@pytest.mark.parametrize(
    ("harm", "said"),
    [
        (lambda data: b"", "unpack"),
        (lambda data: data[:5000], "buffer"),
        (lambda data: data[:-1], "tokens end at byte"),
        (lambda data: data[:-8], "unpack"),
        (lambda data: data + b"x", "tokens end at byte"),
        (lambda data: struct.pack("<i", 33) + data[4:], "its header says"),
        (lambda data: data[:8] + struct.pack("<i", 0) + data[12:], "its header says"),
    ],
    ids=[
        "empty",
        "cut in the weights",
        "cut in the last token",
        "cut before it",
        "too long",
        "heads do not divide",
        "no layers",
    ],
)
def test_what_is_no_checkpoint_is_refused(harm: Any, said: str, tmp_path: Path) -> None:
    """A damaged file is an error of ours, and no file is written."""
    (tmp_path / "toy.data").write_bytes(harm(checkpoint(shared=True)[0]))
    with pytest.raises(ResourceError, match=f"toy: .* no checkpoint of llama2.c .*{said}"):
        write_gguf(tmp_path / "toy.data", tmp_path / "toy.gguf", "toy")
    assert not (tmp_path / "toy.gguf").exists()


@pytest.mark.weights
def test_stories15m_tells_a_story() -> None:
    """Greedy from "Once upon a time", torch and llama.cpp tell one and the same story of a little girl."""
    told = [
        model.complete("Once upon a time", max_tokens=40, temperature=0, chat=False)[0].text
        for model in (LocalModel(STORIES), LlamaCpp(STORIES, context=256, parallel=1, threads=1))
    ]
    assert told[0].startswith(", there was a little girl named Lily.")
    assert told[0].strip() == told[1].strip()


@pytest.mark.weights
def test_stories15m_s_file_is_the_checkpoint() -> None:
    """The GGUF file and the directory hold the published shape: 6 layers, 6 heads, 256 positions, 32,000 tokens."""
    config = LocalModel(STORIES).model.config
    assert (config.hidden_size, config.intermediate_size, config.num_hidden_layers) == (288, 768, 6)
    assert (config.num_attention_heads, config.num_key_value_heads) == (6, 6)
    assert (config.max_position_embeddings, config.vocab_size) == (256, 32_000)
    assert config.tie_word_embeddings
    assert gguf_file(STORIES).parent == torch_directory(STORIES).parent
