"""Drafters that transformers runs, from a model's own layers or its states: they draft what transformers drafts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from transformers import modeling_layers
from transformers.generation import candidate_generator

from draftverify import ConfigError, Decision, Pipeline, Proposal, ResourceError
from draftverify.kit import check_component
from draftverify.rules import Speculative
from draftverify.values import Last
from draftverify_llm import LocalModel
from draftverify_tokens import DFlash, FirstOf, Mtp, PromptLookup, Stop, Target, generate
from tests.tokens.families import COMMON, EXPERTS, MIXED, MODELS, Family
from tests.tokens.joint import deviation
from tests.tokens.test_decoding import PROMPTS, generated
from tests.tokens.tiny import byte_tokenizer, context_of, tiny_of

pytestmark = pytest.mark.skipif(
    not hasattr(candidate_generator, "DFlashTokenCandidateGenerator"), reason="this transformers has neither"
)
LENGTH = 20
BRINGING = {
    **{name: MODELS[name] for name in ("deepseek_v3", "glm4_moe")},
    "mellum": Family("Mellum", {**MIXED, **EXPERTS}),
}
"""Families that bring layers for further tokens."""
MELLUM = {
    "eh_proj": "fc",
    "enorm": "pre_fc_norm_embedding",
    "hnorm": "pre_fc_norm_hidden",
    "post_norm": "norm",
}


def fill(module: Any) -> None:
    """Weights of a size at which drafts differ from place to place."""
    torch.manual_seed(2)
    for weight in module.parameters():
        torch.nn.init.normal_(weight, 1.0 if weight.dim() == 1 else 0.0, 0.3)


def with_layers(
    family: str, count: int, path: Path, monkeypatch: pytest.MonkeyPatch, vocabulary: int = 24
) -> Any:
    """A tiny model of a family, from a checkpoint with layers for further tokens as its makers name them."""
    stem, config = BRINGING[family].stem, {**COMMON, **BRINGING[family].config}
    kind = getattr(transformers, f"{stem}ForCausalLM")
    sizes = {"vocab_size": vocabulary, "eos_token_id": vocabulary - 1, "max_position_embeddings": 256}
    torch.manual_seed(1)
    module = kind(
        getattr(transformers, f"{stem}Config")(
            **{**config, **sizes, "initializer_range": 0.4, "num_mtp_layers": count}
        )
    ).eval()
    module.save_pretrained(path)
    layers = modeling_layers.MtpModel(module, count).layers
    fill(layers)
    tensors, behind = load_file(path / "model.safetensors"), module.config.num_hidden_layers
    for name, tensor in layers.state_dict().items():
        index, _, rest = name.partition(".")
        part, _, end = rest.partition(".")
        if family == "mellum":
            stored = f"mtp.{MELLUM[part]}.{end}" if part in MELLUM else f"mtp.layers.{index}.{end}"
        else:
            rest = rest.replace("mtp_block.", "").replace("post_norm.", "shared_head.norm.")
            stored = f"model.layers.{behind + int(index)}.{rest}"
        tensors[stored] = tensor.clone()
    save_file(tensors, path / "model.safetensors", metadata={"format": "pt"})
    # transformers knows the layers by their number in the published checkpoint, 61 and the like.
    if family != "mellum":
        monkeypatch.setattr(kind, "_keys_to_ignore_on_load_unexpected", [rf"model\.layers\.[{behind}-9]\..*"])
    return kind.from_pretrained(path).eval()


def filler(path: Path, **config: Any) -> Path:
    """A directory of a tiny model that fills blocks of five."""
    sizes = {
        "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
        "num_key_value_heads": 2, "head_dim": 8, "block_size": 5, "mask_token_id": 2, "target_layer_ids": [0, 1],
        "max_position_embeddings": 512,
    }  # fmt: skip
    module = transformers.MuseGlimmerAssistantModel(
        transformers.MuseGlimmerAssistantConfig(**{**sizes, **config})
    )
    fill(module)
    module.save_pretrained(path)
    return path


def pipeline_of(model: LocalModel, drafter: Any, **settings: Any) -> Pipeline:
    settings = {"temperature": 0, **settings}
    return Pipeline(drafter, Target(model), Speculative(), block=4, done=Stop(LENGTH), settings=settings)


def drafts_of(kind: str, module: Any, prompt: list[int], monkeypatch: pytest.MonkeyPatch, **how: Any) -> Any:
    """What a candidate generator of transformers drafts, round by round."""
    drafts: list[list[int]] = []
    drafter = getattr(candidate_generator, kind)
    get_candidates = drafter.get_candidates

    def noting(self: Any, ids: Any, *arguments: Any, **keywords: Any) -> Any:
        answer = get_candidates(self, ids, *arguments, **keywords)
        drafts.append(answer[0][0, ids.shape[1] :].tolist())
        return answer

    with monkeypatch.context() as patch:
        patch.setattr(drafter, "get_candidates", noting)
        ids = torch.tensor([prompt])
        mask = torch.ones_like(ids)
        module.generate(ids, attention_mask=mask, max_new_tokens=LENGTH, do_sample=False, **how)
    return drafts


def cut(draft: list[int], model: LocalModel) -> list[int]:
    """Up to an end token: nothing is drafted behind it here."""
    ends = [place for place, token in enumerate(draft, 1) if token in model.eos_ids]
    return draft[: ends[0]] if ends else draft


def compare(
    drafter: Any, model: LocalModel, kind: str, most: int, monkeypatch: pytest.MonkeyPatch, **how: Any
) -> None:
    """A drafter with a candidate generator of transformers, round by round, alone and in a batch.

    Args:
        most: tokens of a whole block.
        how: arguments of transformers' `generate`, which cannot begin with prompts of so few tokens as MTP has layers.
    """
    drafted, shortest = 0, most if "use_mtp" in how else 0
    for size in (1, 3):
        tasks = [{"prompt_ids": prompt} for prompt in PROMPTS]
        records = pipeline_of(model, drafter).record(tasks, size=size)
        for prompt, record in zip(PROMPTS, records, strict=True):
            assert list(record.outcome.value) == generated(model, prompt, LENGTH)
            if len(prompt) <= shortest:
                continue
            theirs = drafts_of(kind, model.model, prompt, monkeypatch, **how)
            ours = [list(round.items) for round in record.rounds]
            pairs = [(own, cut(other, model)) for own, other in zip(ours, theirs, strict=False)]
            assert [own for own, _ in pairs[:-1]] == [other for _, other in pairs[:-1]]
            drafted += sum(len(own) == most for own, _ in pairs)
    assert drafted > 20


@pytest.mark.parametrize(
    ("family", "count"), [("deepseek_v3", 1), ("deepseek_v3", 3), ("glm4_moe", 2), ("mellum", 1)]
)
def test_a_models_own_layers_draft_what_they_draft_in_transformers(
    family: str, count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Round by round, in a batch too; the answer is the model's own, and the model is left as it was.

    Mellum's layer looks back four places alone.
    """
    module = with_layers(family, count, tmp_path, monkeypatch)
    before = {name: tensor.clone() for name, tensor in module.state_dict().items()}
    model = LocalModel.from_module(module, byte_tokenizer())
    compare(Mtp(model), model, "MTPCandidateGenerator", count, monkeypatch, use_mtp=True)
    assert all(torch.equal(tensor, before[name]) for name, tensor in module.state_dict().items())
    assert module.lm_head.weight.requires_grad


@pytest.mark.parametrize(("family", "window"), [("llama", 2048), ("gemma3", 4)])
def test_a_block_filler_drafts_what_it_drafts_in_transformers(
    family: str, window: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Round by round, in a batch too, also where it looks back four places alone."""
    directory = filler(tmp_path / "filler", sliding_window=window)
    assistant = transformers.AutoModel.from_pretrained(directory).eval()
    model = LocalModel.from_module(tiny_of(family, seed=3), byte_tokenizer())
    compare(
        DFlash(model, directory), model, "DFlashTokenCandidateGenerator", 4, monkeypatch,
        assistant_model=assistant, speculation_type="dflash",
    )  # fmt: skip


def test_blocks_shorter_than_the_layers_do_not_make_them_read_the_text_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A layer that was not asked reads too: a round reads what is new, and a place for each layer."""
    model = LocalModel.from_module(with_layers("deepseek_v3", 3, tmp_path, monkeypatch), byte_tokenizer())
    forward_layer, widths = modeling_layers.MtpModel.forward_layer, []

    def noting(self: Any, index: int, states: Any, *arguments: Any, **keywords: Any) -> Any:
        widths.append((index, states.shape[1]))
        return forward_layer(self, index, states, *arguments, **keywords)

    monkeypatch.setattr(modeling_layers.MtpModel, "forward_layer", noting)
    prompt = PROMPTS[2]
    pipeline = Pipeline(
        Mtp(model), Target(model), Speculative(), block=1, done=Stop(LENGTH), settings={"temperature": 0}
    )
    (record,) = pipeline.record([{"prompt_ids": prompt}])
    assert list(record.outcome.value) == generated(model, prompt, LENGTH)
    reads = [width for index, width in widths if not index]
    assert len(reads) > 8
    assert reads[0] == len(prompt)
    assert max(reads[1:]) <= 4


@pytest.mark.parametrize("kind", ["mtp", "dflash"])
def test_a_pass_that_failed_leaves_nothing_behind(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is drafted when it is made again, and later, is what would have been drafted."""
    if kind == "mtp":
        model = LocalModel.from_module(with_layers("deepseek_v3", 2, tmp_path, monkeypatch), byte_tokenizer())
        drafter: Any = Mtp(model)
        owner, method = modeling_layers.MtpModel, "forward_layer"
    else:
        model = LocalModel.from_module(tiny_of("llama", seed=3), byte_tokenizer())
        drafter = DFlash(model, filler(tmp_path))
        owner, method = transformers.MuseGlimmerAssistantModel, "forward"
    forward, calls = getattr(owner, method), [0]

    def failing(self: Any, *arguments: Any, **keywords: Any) -> Any:
        answer = forward(self, *arguments, **keywords)
        calls[0] += 1
        if calls[0] in (2, 9):
            raise RuntimeError("out of memory")
        return answer

    def drafts() -> list[list[Any]]:
        records = pipeline_of(model, drafter).record([{"prompt_ids": prompt} for prompt in PROMPTS], size=3)
        return [[round.items for round in record.rounds] for record in records]

    undisturbed = drafts()
    monkeypatch.setattr(owner, method, failing)
    assert drafts() == undisturbed
    assert calls[0] > 9


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["mtp", "dflash"])
def test_sampled_output_has_the_targets_distribution(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """400 answers against the enumerated joint; an honest drafter fails once in a million seeds."""
    if kind == "mtp":
        module = with_layers("deepseek_v3", 2, tmp_path, monkeypatch, 6)
        model = LocalModel.from_module(module, byte_tokenizer())
        drafter: Any = Mtp(model)
    else:
        model = LocalModel.from_module(tiny_of("llama", 6, seed=3), byte_tokenizer())
        drafter = DFlash(model, filler(tmp_path))
    how = {"block": 2, "tasks": 400, "prompt": [0, 3, 1], "settings": {"temperature": 1.2}, "batch": 100}
    found, limit = deviation(drafter, model, Speculative(), **how)
    assert found < limit


@pytest.mark.parametrize("kind", ["mtp", "dflash"])
def test_the_conformance_kit_finds_nothing(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Law, shape, batches, scratch; in rounds that follow a pass of the target."""
    if kind == "mtp":
        module = with_layers("deepseek_v3", 2, tmp_path, monkeypatch)
        model = LocalModel.from_module(module, byte_tokenizer())
        drafter: Any = Mtp(model)
    else:
        model = LocalModel.from_module(tiny_of("llama", seed=3), byte_tokenizer())
        drafter = DFlash(model, filler(tmp_path))
    target, contexts = Target(model), []
    target.keep_hidden(drafter.traits.hidden)
    for accepted, block, kept in (([], (), ()), ([3], (1, 2), (0,)), ([1, 2, 3], (4, 5), ())):
        before = context_of(model, [1, 2, 3, 1, 2], accepted=accepted, seed=3)
        proposal = Proposal.chain(block)
        last = Last(proposal, target.verify(before, proposal), Decision(kept=kept))
        emitted = [*accepted, *(block[index] for index in kept), 9]
        contexts.append(context_of(model, [1, 2, 3, 1, 2], accepted=emitted, last=last, rounds=1, seed=3))
    check_component(drafter, contexts=contexts, tolerance=1e-4, trials=100)


def test_generate_takes_both(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The layers by the name mtp, a filler by its directory, without a word; a lookup may stand before them."""
    module = with_layers("glm4_moe", 1, tmp_path / "model", monkeypatch)
    tokenizer = byte_tokenizer()
    plain = generate(module, PROMPTS[0], "none", tokenizer=tokenizer, max_new_tokens=LENGTH)
    model = LocalModel.from_module(module, tokenizer)
    directory = filler(tmp_path / "filler")
    capsys.readouterr()
    for drafter in ("mtp", directory, FirstOf([PromptLookup(), Mtp(model)])):
        answer = generate(model, PROMPTS[0], drafter, max_new_tokens=LENGTH, block=3)
        assert (answer.ids, answer.drafted > 0) == (plain.ids, True)
    assert capsys.readouterr().err == ""


def test_what_cannot_draft_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before any task, with what is missing."""
    model = LocalModel.from_module(tiny_of("llama", seed=3), byte_tokenizer())
    with pytest.raises(
        ConfigError, match=r"model: Llama.* has no layers for further tokens \(num_mtp_layers"
    ):
        pipeline_of(model, Mtp(model)).open()
    bare = transformers.DeepseekV3ForCausalLM(
        transformers.DeepseekV3Config(**{**COMMON, **MODELS["deepseek_v3"].config})
    )
    made = LocalModel.from_module(bare, byte_tokenizer())
    with pytest.raises(ConfigError, match="model: DeepseekV3ForCausalLM was made in memory"):
        pipeline_of(made, Mtp(made)).open()
    with pytest.raises(ConfigError, match=r"weights: .* does not name target_layer_ids \(FileNotFoundError"):
        pipeline_of(model, DFlash(model, tmp_path / "nowhere"))
    torn = filler(tmp_path / "torn")
    (torn / "model.safetensors").write_bytes(b"nothing")
    with pytest.raises(ConfigError, match=r"torn cannot be loaded \(.*; fetch it again"):
        pipeline_of(model, DFlash(model, torn)).open()
    with monkeypatch.context() as patch:
        patch.delattr(modeling_layers, "MtpModel")
        with pytest.raises(ResourceError, match=r"transformers \d.* runs no layers .* pip install -U"):
            pipeline_of(made, Mtp(made)).open()
    bare.save_pretrained(tmp_path / "bare")
    without = LocalModel.from_module(
        transformers.DeepseekV3ForCausalLM.from_pretrained(tmp_path / "bare"), byte_tokenizer()
    )
    with pytest.raises(
        ConfigError, match=r"cannot be loaded .*; load the model from a checkpoint that has them"
    ):
        pipeline_of(without, Mtp(without)).open()


@pytest.mark.parametrize(
    ("config", "words"),
    [
        (
            {"hidden_size": 64},
            "states of 64 numbers .*, LlamaForCausalLM has 32 and .* trained for another model",
        ),
        (
            {"target_layer_ids": [0, 7]},
            "hidden has 8; LlamaForCausalLM .* a drafter that was trained for this model",
        ),
        ({"mask_token_id": 24}, "masks with token 24, LlamaForCausalLM has 32 and 24 tokens"),
        ({"block_size": 1}, r"config\.json has block_size 1; .* 2 or more"),
    ],
)
def test_a_filler_of_another_model_is_refused(config: dict[str, Any], words: str, tmp_path: Path) -> None:
    """Before any task: a mask that is no token would end a CUDA process, a block of one place drafts nothing."""
    model = LocalModel.from_module(tiny_of("llama", seed=3), byte_tokenizer())
    with pytest.raises(ConfigError, match=words):
        pipeline_of(model, DFlash(model, filler(tmp_path, **config))).open()


@pytest.mark.parametrize("layers", ["0,1", [], [0.5], {"0": 1}, None])
def test_a_config_that_names_no_states_is_refused(layers: Any, tmp_path: Path) -> None:
    """Where the pipeline is made, with the file; one that has them further down comes with code of its own."""
    model = LocalModel.from_module(tiny_of("llama", seed=3), byte_tokenizer())
    path = tmp_path / "config.json"
    path.write_text(json.dumps({"target_layer_ids": layers}))
    with pytest.raises(
        ConfigError, match=r"config\.json has target_layer_ids .*; a list of the target's layers"
    ):
        pipeline_of(model, DFlash(model, tmp_path))
    path.write_text(json.dumps({"model_type": "qwen3", "dflash_config": {"target_layer_ids": [1]}}))
    with pytest.raises(ConfigError, match=r"config\.json does not name .*none that brings code \(auto_map\)"):
        generate(model, [1, 2, 3], tmp_path)


def test_weights_that_are_not_there_are_no_random_numbers(tmp_path: Path) -> None:
    """transformers itself fills them in and goes on."""
    model = LocalModel.from_module(tiny_of("llama", seed=3), byte_tokenizer())
    path = filler(tmp_path) / "model.safetensors"
    tensors = load_file(path)
    del tensors["encoder.fc.weight"]
    save_file(tensors, path, metadata={"format": "pt"})
    with pytest.raises(ConfigError, match=r"lacks encoder\.fc\.weight, which would be random numbers"):
        pipeline_of(model, DFlash(model, tmp_path)).open()
