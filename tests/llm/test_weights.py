"""From `weights` to files: what each word names, and that a conversion is exact and happens once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from draftverify.errors import ResourceError
from draftverify_llm import LlamaCpp, LocalModel, gguf_file, resolve, torch_directory
from draftverify_llm.cache import WeightsProgress

SMALL = "smollm2-135m-instruct"
STORIES = "stories15m"
LARGE = "tinyllama-1.1b-chat"
TINYLLAMA_TENSORS = {
    "token_embd.weight": "model.embed_tokens.weight",
    "output_norm.weight": "model.norm.weight",
    "blk.3.ffn_gate.weight": "model.layers.3.mlp.gate_proj.weight",
    "blk.3.attn_v.weight": "model.layers.3.self_attn.v_proj.weight",
    "blk.21.attn_output.weight": "model.layers.21.self_attn.o_proj.weight",
}
TEXTS = [
    "In 2023, 1,234 + 56 = ?  3.14159",
    "  42 times\n\n  def f(x):\n\treturn x  ",
    "x = [1,2,  3]\n    # comment\n        y='''z'''\n",
    "don't I'LL we'Ve",
    "naïve café 日本語 العربية 😀👍🏽",
    "²³½ Ⅳ a\r\nb   c",
    "<|im_start|>user\nhi<|im_end|>",
]


def test_a_directory_and_a_file_stand_for_themselves(tiny_directory: Path, tmp_path: Path) -> None:
    """Local paths are given back as absolute paths."""
    assert resolve(str(tiny_directory)) == tiny_directory
    file = tmp_path / "m.gguf"
    file.write_bytes(b"GGUF")
    assert resolve(str(file)) == file
    assert gguf_file(str(file)) == file


def test_a_directory_without_a_model_is_refused(tmp_path: Path) -> None:
    """The missing file and the other choices are named."""
    with pytest.raises(ResourceError, match=r"no config\.json.*catalogue name"):
        resolve(str(tmp_path))


def test_a_file_of_another_kind_is_refused(tmp_path: Path) -> None:
    """A file that is not GGUF is not taken for a hub id or anything else."""
    (tmp_path / "pytorch_model.bin").write_bytes(b"x")
    with pytest.raises(ResourceError, match=r"neither a \.gguf file nor"):
        resolve(str(tmp_path / "pytorch_model.bin"))


def test_a_near_name_is_suggested() -> None:
    """A misspelt catalogue name gets its right spelling."""
    with pytest.raises(ResourceError, match=f"Did you mean '{SMALL}'"):
        resolve("smollm2-135-instruct")


@pytest.mark.parametrize(
    "name", ["", "no such thing", "a/b/c", "./missing.gguf", "missing/model.gguf", "../x"]
)
def test_nonsense_is_a_resource_error(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the word is, the error is ours and names the choices."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ResourceError, match="catalogue name"):
        resolve(name)


def test_a_hub_out_of_reach_names_the_catalogue_s_twin(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hub id that cannot be fetched says why, and offers the same model from the catalogue."""
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(ResourceError, match=f"nor to be had from the model hub.*weights: {SMALL}"):
        resolve("HuggingFaceTB/SmolLM2-135M-Instruct")
    with pytest.raises(ResourceError, match=r"nobody/nothing.*Give a catalogue name"):
        resolve("nobody/nothing")


def test_llama_cpp_is_told_that_a_directory_is_not_for_it(tiny_directory: Path) -> None:
    """The error names the component that can load it."""
    with pytest.raises(ResourceError, match=r"llm\.local"):
        gguf_file(str(tiny_directory))


def test_a_file_that_is_no_gguf_is_a_resource_error(cache: Path, tmp_path: Path) -> None:
    """Garbage named .gguf is refused by both readers without a traceback of theirs, and nothing is cached."""
    path = tmp_path / "bad.gguf"
    path.write_bytes(b"GGUF" + bytes(range(256)) * 20)
    with pytest.raises(ResourceError, match="cannot be read as a GGUF model"):
        torch_directory(str(path))
    with pytest.raises(ResourceError, match=r"llama\.cpp cannot load"):
        LlamaCpp(str(path), context=64).open()
    assert not list(cache.rglob("*.safetensors"))


@pytest.mark.weights
def test_a_conversion_happens_once() -> None:
    """The second call finds the directory and reports no work."""
    first = torch_directory(SMALL)
    told: list[WeightsProgress] = []
    assert torch_directory(SMALL, told.append) == first
    assert told == []


@pytest.mark.weights
def test_the_converted_weights_are_the_file_s() -> None:
    """Every tensor that is not reordered equals its dequantised GGUF tensor, bit for bit."""
    import numpy as np
    from gguf import GGUFReader, dequantize
    from safetensors import safe_open

    names = {"token_embd.weight": "model.embed_tokens.weight", "output_norm.weight": "model.norm.weight"}
    for i in (0, 29):
        for theirs, ours in (
            ("ffn_down", "mlp.down_proj"),
            ("attn_v", "self_attn.v_proj"),
            ("attn_norm", "input_layernorm"),
        ):
            names[f"blk.{i}.{theirs}.weight"] = f"model.layers.{i}.{ours}.weight"
    tensors = {tensor.name: tensor for tensor in GGUFReader(str(resolve(SMALL))).tensors}
    with safe_open(str(torch_directory(SMALL) / "model.safetensors"), "np") as converted:
        for theirs, ours in names.items():
            expected = dequantize(tensors[theirs].data, tensors[theirs].tensor_type)
            assert np.array_equal(converted.get_tensor(ours), expected), ours


@pytest.fixture(scope="module")
def small() -> LocalModel:
    """The small model, whose tokenizer is read once."""
    return LocalModel(SMALL)


@pytest.mark.weights
@pytest.mark.parametrize("text", TEXTS)
def test_the_tokenizer_agrees_with_llama_cpp(text: str, small: LocalModel, llama_url: str) -> None:
    """The converted tokenizer gives the ids that llama.cpp gives, digits and runs of spaces included."""
    import httpx

    body = {"content": text, "add_special": False, "parse_special": True}
    theirs = httpx.post(f"{llama_url}/tokenize", json=body).json()["tokens"]
    assert small.encode_prompt({"prompt": text, "chat": False}) == theirs


@pytest.fixture(scope="module")
def stories_url() -> Iterator[str]:
    """llama.cpp's server with the small Llama tokenizer's model (its address without /v1)."""
    import xllamacpp

    settings = xllamacpp.CommonParams()
    settings.model.path = str(gguf_file(STORIES))
    settings.n_ctx, settings.n_parallel, settings.verbosity, settings.ui = 128, 1, -1, False
    settings.cpuparams.n_threads = settings.cpuparams_batch.n_threads = 1
    running = xllamacpp.Server(settings)
    yield running.listening_address
    del running


@pytest.fixture(scope="module")
def stories() -> LocalModel:
    """The model with Llama's tokenizer."""
    return LocalModel(STORIES)


@pytest.mark.weights
@pytest.mark.parametrize("text", [*TEXTS, " x", "", "a</s>\nb <s> c"])
def test_llama_s_tokenizer_agrees_with_llama_cpp(text: str, stories: LocalModel, stories_url: str) -> None:
    """The same with Llama's tokenizer: a space before every text, also one that begins with a space."""
    import httpx

    body = {"content": text, "add_special": True, "parse_special": True}
    theirs = httpx.post(f"{stories_url}/tokenize", json=body).json()["tokens"]
    assert stories.encode_prompt({"prompt": text}) == theirs


@pytest.mark.large
@pytest.mark.exhaustive
def test_tinyllama_and_stories15m_have_one_vocabulary() -> None:
    """The two models' tokenizers were made from different files and are one: same vocabulary, same ids of all texts."""
    large, small = LocalModel(LARGE), LocalModel(STORIES)
    assert large.vocabulary == small.vocabulary
    for text in TEXTS:
        assert large.encode_prompt({"prompt": text, "chat": False}) == small.encode_prompt({"prompt": text})


@pytest.mark.large
@pytest.mark.exhaustive
def test_tinyllama_s_directory_is_the_file_s_nearest_bfloat16() -> None:
    """Two-bit, four-bit and plain tensors equal the file's dequantised values rounded to bfloat16, bit for bit."""
    import torch
    from gguf import GGUFReader, dequantize
    from safetensors import safe_open

    tensors = {tensor.name: tensor for tensor in GGUFReader(str(resolve(LARGE))).tensors}
    found = {tensors[name].tensor_type.name for name in TINYLLAMA_TENSORS}
    assert found == {"IQ2_XXS", "Q2_K", "Q4_K", "F32"}
    with safe_open(str(torch_directory(LARGE) / "model.safetensors"), "pt") as converted:
        for theirs, ours in TINYLLAMA_TENSORS.items():
            expected = torch.tensor(dequantize(tensors[theirs].data, tensors[theirs].tensor_type))
            assert torch.equal(converted.get_tensor(ours), expected.bfloat16()), ours


@pytest.mark.large
@pytest.mark.exhaustive
def test_tinyllama_goes_on_with_a_story() -> None:
    """Its two bits a weight are weak, and yet it writes sentences."""
    (told,) = LocalModel(LARGE).complete("Once upon a time", max_tokens=12, temperature=0, chat=False)
    assert told.text.startswith(", the world was a place of")
