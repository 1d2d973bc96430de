"""EAGLE-3's layer as a drafter: the target's own output, its states read once, in the files of `speculators`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from draftverify import ConfigError, Decision, Pipeline, PipelineError, Proposal, ResourceError, Task
from draftverify.kit import check_component, make_context
from draftverify.rules import Speculative
from draftverify.traits import VerifierTraits
from draftverify.values import Last
from draftverify_llm import LocalModel
from draftverify_llm.packed import obstacle
from draftverify_tokens import Eagle, FirstOf, PromptLookup, Stop, Target, generate, hidden_states
from draftverify_tokens.drafter_learning import ReadText, TextBatch
from draftverify_tokens.drafter_network import save_network
from draftverify_tokens.eagle_network import EagleNetwork, load_eagle
from draftverify_tokens.eagle_training import steps_of
from tests.tokens.joint import deviation
from tests.tokens.test_decoding import PROMPTS, generated
from tests.tokens.tiny import byte_tokenizer, context_of, tiny_of

VOCABULARY, DRAFTED = 24, 16
CLOSE = {"atol": 1e-5, "rtol": 1e-4}
LAYER = {
    "model_type": "llama", "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 1,
    "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8, "max_position_embeddings": 512,
    "rms_norm_eps": 1e-6, "vocab_size": VOCABULARY,
}  # fmt: skip


def config_of(vocabulary: int = VOCABULARY, verifier: str | None = None, **more: Any) -> dict[str, Any]:
    return {
        "architectures": ["Eagle3DraftModel"],
        "speculators_model_type": "eagle3",
        "speculators_config": {
            "algorithm": "eagle3",
            "default_proposal_method": "greedy",
            "proposal_methods": [{"proposal_type": "greedy", "speculative_tokens": 3}],
            "verifier": {"name_or_path": verifier, "architectures": ["LlamaForCausalLM"]},
        },
        "transformer_layer_config": {**LAYER, "vocab_size": vocabulary},
        "draft_vocab_size": min(DRAFTED, vocabulary),
        "eagle_aux_hidden_state_layer_ids": [0, 1, 2],
        "tie_word_embeddings": False,
        **more,
    }


def directory_of(path: Path, vocabulary: int = VOCABULARY, **more: Any) -> Path:
    """A layer of random weights."""
    torch.manual_seed(3)
    network = EagleNetwork(config_of(vocabulary, **more))
    for name, weight in network.named_parameters():
        torch.nn.init.normal_(weight, 1.0 if weight.dim() == 1 else 0.0, 0.3)
        assert "rotary" not in name
    network.keep([token for token in range(vocabulary) if token % 3 or vocabulary < DRAFTED][:DRAFTED])
    save_network(network, path)
    return path


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return directory_of(tmp_path_factory.mktemp("eagle"))


def model_of(family: str = "llama", vocabulary: int = VOCABULARY) -> LocalModel:
    return LocalModel.from_module(tiny_of(family, vocabulary, seed=3), byte_tokenizer())


def pipeline_of(model: LocalModel, drafter: Any, block: int = 4, **settings: Any) -> Pipeline:
    return Pipeline(
        drafter,
        Target(model),
        Speculative(),
        block=block,
        done=Stop(24),
        settings={"temperature": 0, **settings},
    )


@pytest.mark.parametrize("family", ["llama", "gpt_neox"])
@pytest.mark.parametrize("size", [1, 3])
def test_greedy_output_is_that_of_transformers(family: str, size: int, directory: Path) -> None:
    """Alone and in a batch, a lookup before it or not, on a model of either forward pass."""
    model = model_of(family)
    expected = [generated(model, prompt, 24) for prompt in PROMPTS]
    for drafter in (Eagle(model, directory), FirstOf([PromptLookup(), Eagle(model, directory)])):
        records = pipeline_of(model, drafter).record(
            [{"prompt_ids": prompt} for prompt in PROMPTS], size=size
        )
        assert [list(record.outcome.value) for record in records] == expected
        assert all(round.items for record in records for round in record.rounds[1:-1])


def test_its_rows_are_those_of_a_pass_without_a_cache(directory: Path) -> None:
    """As training computes them: after the target's states, and after what it drafted; whatever stood there before."""
    model, network = model_of(), load_eagle(directory)
    rows: list[tuple[list[int], Any]] = []

    class Noting(Eagle):
        def propose_many(self, contexts: Any, ns: Any) -> Any:
            proposals = super().propose_many(contexts, ns)
            for context, proposal in zip(contexts, proposals, strict=True):
                if len(proposal):
                    rows.append(([*context.task.input["prompt_ids"], *context.accepted], proposal))
            return proposals

    pipeline_of(model, Noting(model, directory), 3, temperature=1.0).run(
        [{"prompt_ids": p} for p in PROMPTS], size=2
    )
    assert len(rows) > 8
    for text, proposal in rows:
        ids = torch.tensor([*text, *proposal.items, 0])
        with torch.no_grad():
            out = model.model(ids[None], output_hidden_states=True)
            states = torch.stack([out.hidden_states[layer][0] for layer in (0, 1, 2)], 1)
            batch = TextBatch([ReadText(ids, 1, states, out.hidden_states[-1][0])], len(proposal))
            steps = steps_of(network, model.model.get_input_embeddings(), batch, len(proposal))
            expected = torch.stack([logits[len(text) - 2] for logits in steps]).softmax(-1)
        torch.testing.assert_close(proposal.law.q[:, network.tokens], expected, **CLOSE)


@pytest.mark.parametrize(
    "norms", [{}, {"norm_before_residual": True, "fc_norm": True}, {"norm_output": True}]
)
def test_logits_are_those_of_speculators(norms: dict[str, bool], tmp_path: Path) -> None:
    """The package loads the directory, and computes the same at every step."""
    eagle3 = pytest.importorskip("speculators.models.eagle3", reason="speculators is not installed")
    model = model_of()
    model.model.save_pretrained(tmp_path / "target")
    path = directory_of(tmp_path / "eagle", verifier=str(tmp_path / "target"), **norms)
    config = eagle3.Eagle3SpeculatorConfig.from_pretrained(path)
    config.transformer_layer_config._attn_implementation = "eager"
    theirs = eagle3.Eagle3DraftModel.from_pretrained(path, config=config).eval()
    embeddings = model.model.get_input_embeddings()
    theirs.embed_tokens.load_state_dict(embeddings.state_dict())
    logits: list[Any] = []
    theirs.lm_head.register_forward_hook(lambda _, given, out: logits.append(out[0]))
    ids = torch.randint(VOCABULARY, (20,), generator=torch.Generator().manual_seed(0))
    states = torch.randn(20, 3, 32, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        mine = list(
            steps_of(load_eagle(path), embeddings, TextBatch([ReadText(ids, 1, states, states[:, 0])], 3), 3)
        )
        theirs(
            states[:-1].flatten(1)[None], ids[None, 1:], torch.zeros(1, 19, dtype=torch.int64), ttt_steps=3
        )
    for step, (own, other) in enumerate(zip(mine, logits, strict=True)):
        torch.testing.assert_close(own[: 18 - step], other[: 18 - step], **CLOSE)
    assert theirs.d2t.tolist() == load_eagle(path).d2t.tolist()


def test_a_head_of_all_tokens_needs_no_map(tmp_path: Path) -> None:
    """As speculators writes one whose vocabulary is the target's."""
    from safetensors.torch import load_file, save_file

    path = directory_of(tmp_path, 15)
    tensors = load_file(path / "model.safetensors")
    save_file(
        {name: part for name, part in tensors.items() if name not in ("d2t", "t2d")},
        path / "model.safetensors",
    )
    assert load_eagle(path).tokens.tolist() == list(range(15))


@pytest.mark.slow
def test_sampled_output_has_the_targets_distribution(tmp_path: Path) -> None:
    """800 answers against the enumerated joint; an honest drafter fails once in a million seeds."""
    model = model_of(vocabulary=6)
    drafter = Eagle(model, directory_of(tmp_path, 6))
    how = {"block": 2, "tasks": 800, "prompt": [0, 3, 1], "settings": {"temperature": 1.2}, "batch": 100}
    found, limit = deviation(drafter, model, Speculative(), **how)
    assert found < limit


def test_the_first_round_drafts_nothing(directory: Path) -> None:
    """There are no states before the pass that reads the prompt; the second round has those of all of it."""
    model = model_of()
    record = pipeline_of(model, Eagle(model, directory)).record({"prompt_ids": PROMPTS[0]})
    assert [len(round.items) > 0 for round in record.rounds[:3]] == [False, True, True]
    context = make_context(Target(model).prepare(Task(id="a", input={"prompt_ids": [1, 2]})))
    assert hidden_states(context) is None


def test_a_form_that_leaves_none_of_its_tokens_costs_nothing_but_drafts(directory: Path) -> None:
    """Token 3 is not among the head's, and the only one that is allowed."""
    model = model_of()
    only = {token: -100.0 for token in range(VOCABULARY) if token != 3}
    pipeline = pipeline_of(model, Eagle(model, directory), logit_bias=only)
    assert set(pipeline.run({"prompt_ids": PROMPTS[0]}).value) == {3}


def test_generate_takes_it_by_its_directory(directory: Path, tmp_path: Path) -> None:
    """As a small model is given; the answers are those without it."""
    model = model_of()
    prompts, how = [PROMPTS[0], PROMPTS[2]], {"max_new_tokens": 16, "block": 3}
    plain = generate(model, prompts, drafter="none", max_new_tokens=16)
    assert [answer.ids for answer in generate(model, prompts, drafter=directory, **how)] == [  # type: ignore[union-attr]
        answer.ids
        for answer in plain  # type: ignore[union-attr]
    ]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"speculators_model_type": "dflash"}, "'dflash', which no drafter here reads; tokens.eagle reads"),
        ({"transformer_layer_config": {**LAYER, "num_hidden_layers": 2}}, "num_hidden_layers 2"),
        ({"eagle_aux_hidden_state_layer_ids": None}, "does not say which states"),
        ({"draft_vocab_size": 9}, "is not of the config beside it"),
        ({"transformer_layer_config": {**LAYER, "hidden_act": "gelu"}}, "hidden_act 'gelu'"),
    ],
)
def test_what_cannot_be_read_is_refused(change: dict[str, Any], message: str, tmp_path: Path) -> None:
    """Before any task, with the file and what is wrong in it."""
    path = directory_of(tmp_path)
    (path / "config.json").write_text(json.dumps({**config_of(), **change}))
    with pytest.raises(ConfigError, match=message):
        pipeline_of(model_of(), Eagle(model_of(), path)).open()


class Bare:
    """A verifier of distributions without states."""

    traits = VerifierTraits(provides={"target", "raw_maxima"})

    def verify(self, context: Any, proposal: Any) -> Any: ...


def test_another_models_layer_is_refused(tmp_path: Path) -> None:
    """By its tokens or its width; and a verifier that has no states."""
    model = model_of()
    with pytest.raises(ConfigError, match="trained for another model"):
        Eagle(model, directory_of(tmp_path, 30)).open()
    with pytest.raises(ResourceError, match="fit part drafter RUN --set kind=eagle"):
        Eagle(model, tmp_path / "nowhere").open()
    with pytest.raises(PipelineError, match="hidden states, which the verifier Bare does not keep"):
        Pipeline(Eagle(model, tmp_path), Bare(), Speculative())


def test_the_conformance_kit_finds_nothing(directory: Path) -> None:
    """Law, shape, batches, scratch; in rounds that follow a pass of the target."""
    model = model_of()
    target, contexts = Target(model), []
    target.keep_hidden({0, 1, 2})
    for accepted, block, kept in (([], (), ()), ([3], (1, 2), (0,)), ([1, 2, 3], (4, 5), ())):
        before = context_of(model, [1, 2, 3, 1, 2], accepted=accepted, seed=3)
        proposal = Proposal.chain(block)
        last = Last(proposal, target.verify(before, proposal), Decision(kept=kept))
        emitted = [*accepted, *(block[index] for index in kept), 9]
        contexts.append(context_of(model, [1, 2, 3, 1, 2], accepted=emitted, last=last, rounds=1, seed=3))
    report = check_component(Eagle(model, directory), contexts=contexts, tolerance=1e-4, trials=100)
    assert "answers_the_same_without_scratch" not in {result.check for result in report.ended("unexercised")}


@pytest.mark.skipif(obstacle() is not None, reason="this processor has no packed products")
def test_beside_a_packed_model_it_is_packed(tmp_path: Path) -> None:
    """The layer's own weights stay what they are, and so does the answer."""
    model = LocalModel.from_module(tiny_of("llama", VOCABULARY, seed=3, dtype="bfloat16"), byte_tokenizer())
    path = directory_of(tmp_path)
    task, drafts = {"prompt_ids": PROMPTS[0]}, []
    for packed in (None, "bfloat16"):
        model.packed = packed
        records = pipeline_of(model, drafter := Eagle(model, path)).record(task)
        drafts.append([round.items for round in records.rounds])
        kinds = {type(part).__name__ for part in drafter._reader.network.modules()}
        assert ("PackedLinear" in kinds) is (packed is not None)
    assert drafts[0] == drafts[1]
