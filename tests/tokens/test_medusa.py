"""Medusa's heads as a drafter: the target's own output, and the likeliest paths as a tree."""

from __future__ import annotations

import json
import math
from functools import partial
from itertools import product, repeat
from pathlib import Path
from typing import Any

import pytest
import torch

from draftverify import ConfigError, Decision, Pipeline, PipelineError, Proposal, ResourceError
from draftverify.kit import check_component
from draftverify.rules import Speculative, Tree
from draftverify.values import Last
from draftverify_llm import LocalModel
from draftverify_llm.packed import obstacle
from draftverify_tokens import Eagle, FirstOf, Medusa, PromptLookup, Stop, Target, generate
from draftverify_tokens.drafter_learning import ReadText, TextBatch, losses, rates_by_place
from draftverify_tokens.drafter_network import save_network
from draftverify_tokens.medusa_network import MedusaNetwork, load_medusa
from draftverify_tokens.medusa_training import MEDUSA
from tests.tokens.joint import deviation
from tests.tokens.test_decoding import PROMPTS, generated
from tests.tokens.test_eagle import DRAFTED, VOCABULARY, Bare, model_of
from tests.tokens.test_eagle import directory_of as eagle_directory
from tests.tokens.test_learned_drafters import model_of as teacher
from tests.tokens.test_learned_drafters import texts
from tests.tokens.tiny import byte_tokenizer, context_of, tiny_of

HEADS, NODES = 3, 6


def directory_of(path: Path, vocabulary: int = VOCABULARY) -> Path:
    """Heads of random weights, over two thirds of the tokens."""
    torch.manual_seed(3)
    config = {
        "speculators_model_type": "medusa",
        "hidden_size": 32,
        "vocab_size": vocabulary,
        "draft_vocab_size": min(DRAFTED, vocabulary),
        "num_heads": HEADS,
    }
    network = MedusaNetwork(config)
    for weight in network.parameters():
        torch.nn.init.normal_(weight, std=0.3)
    network.keep([token for token in range(vocabulary) if token % 3 or vocabulary < DRAFTED][:DRAFTED])
    save_network(network, path)
    return path


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return directory_of(tmp_path_factory.mktemp("medusa"))


def pipeline_of(model: LocalModel, drafter: Any, **settings: Any) -> Pipeline:
    settings = {"temperature": 0, **settings}
    return Pipeline(drafter, Target(model), Tree(), block=NODES, done=Stop(24), settings=settings)


@pytest.mark.parametrize("family", ["llama", "gpt_neox"])
@pytest.mark.parametrize("size", [1, 3])
def test_greedy_output_is_that_of_transformers(family: str, size: int, directory: Path) -> None:
    """Alone and in a batch, a lookup before it or not, on a model of either forward pass; some drafts are kept."""
    model = model_of(family)
    expected = [generated(model, prompt, 24) for prompt in PROMPTS]
    for drafter in (Medusa(model, directory), FirstOf([PromptLookup(), Medusa(model, directory)])):
        tasks = [{"prompt_ids": prompt} for prompt in PROMPTS]
        records = pipeline_of(model, drafter).record(tasks, size=size)
        assert [list(record.outcome.value) for record in records] == expected
        assert all(round.items for record in records for round in record.rounds[1:-1])
        assert any(round.decision.kept for record in records for round in record.rounds)


def test_the_tree_is_that_of_the_likeliest_paths(directory: Path) -> None:
    """Of all paths through the heads, read without a cache; of two sessions with blocks of their own in one pass."""
    model, network = model_of(), load_medusa(directory)
    trees: list[tuple[list[int], Proposal, int]] = []

    class Noting(Medusa):
        def propose_many(self, contexts: Any, ns: Any) -> Any:
            proposals = super().propose_many(contexts, ns)
            for context, proposal, n in zip(contexts, proposals, ns, strict=True):
                if len(proposal):
                    trees.append(([*context.task.input["prompt_ids"], *context.accepted], proposal, n))
            return proposals

    pipeline_of(model, Noting(model, directory), temperature=1.0).run(
        [{"prompt_ids": prompt} for prompt in PROMPTS], size=2
    )
    assert len(trees) > 8
    for text, proposal, n in trees:
        with torch.no_grad():
            read = model.model(torch.tensor([text[:-1]]), output_hidden_states=True)
            heads = network.logits(read.hidden_states[-1][0, -1:])[0].log_softmax(-1)
        tokens = network.tokens.tolist()
        scores = {
            tuple(tokens[place] for place in path): math.fsum(
                heads[head, place].item() for head, place in enumerate(path)
            )
            for depth in range(1, HEADS + 1)
            for path in product(range(DRAFTED), repeat=depth)
            if all(tokens[place] not in model.eos_ids for place in path[:-1])
        }
        best = sorted(scores, key=lambda path: -scores[path])[:n]
        assert [tuple(proposal.items[i] for i in proposal.path(node)) for node in range(n)] == best


def test_nothing_is_drafted_behind_an_end_token(directory: Path) -> None:
    """Though every token ends this answer: the tree has one level."""
    model = model_of()
    task = {"prompt_ids": PROMPTS[0], "eos_ids": list(range(VOCABULARY))}
    stop = Stop(6, ignore_eos=True)
    record = Pipeline(Medusa(model, directory), Target(model), Tree(), block=NODES, done=stop).record(task)
    drafted = [round.parents for round in record.rounds if round.items]
    assert drafted
    assert {parent for parents in drafted for parent in parents} == {-1}


def test_heads_learn_what_comes_behind_the_next_token() -> None:
    """Of texts that the target drew: nearer to it than its own head in their place, and right more often."""
    module, (ids, states, _) = teacher(VOCABULARY).model, texts(VOCABULARY)
    read = [ReadText(*text) for text in zip(ids, repeat(1), states[:, :, None], states)]
    taught, apart = TextBatch(read[:160], HEADS), TextBatch(read[160:], HEADS)
    network = MedusaNetwork(MEDUSA.config_of(module, None, HEADS) | {"draft_vocab_size": VOCABULARY})
    MEDUSA.initialise(network, read, 0)
    network.take_head(range(VOCABULARY), head := module.lm_head.weight)
    steps = partial(MEDUSA.steps_of, network, module.get_input_embeddings())

    def figures() -> tuple[Any, float]:
        with torch.no_grad():
            rates, _ = rates_by_place(steps, network.tokens, [apart], HEADS)
            return losses(steps(apart, HEADS), head, apart), rates[0]

    loss, rate = figures()
    optimiser = torch.optim.Adam(network.blocks.parameters(), lr=0.01)
    for _ in range(60):
        optimiser.zero_grad()
        losses(steps(taught, HEADS), head, taught).sum().backward()
        optimiser.step()
    learned_loss, learned_rate = figures()
    assert (learned_loss < 0.8 * loss).all()
    assert learned_rate > 1.2 * rate


@pytest.mark.slow
def test_sampled_output_has_the_targets_distribution(tmp_path: Path) -> None:
    """800 answers against the enumerated joint; an honest drafter fails once in a million seeds."""
    model = model_of(vocabulary=6)
    how = {"block": 4, "tasks": 800, "prompt": [0, 3, 1], "settings": {"temperature": 1.2}, "batch": 100}
    found, limit = deviation(Medusa(model, directory_of(tmp_path, 6)), model, Tree(), **how)
    assert found < limit


def test_generate_takes_it_by_its_directory(directory: Path) -> None:
    """As an EAGLE layer is given; the answers are those without it."""
    model, prompts = model_of(), [PROMPTS[0], PROMPTS[2]]
    drafted, plain = (
        generate(model, prompts, drafter=drafter, max_new_tokens=16) for drafter in (directory, "none")
    )
    assert [answer.ids for answer in drafted] == [answer.ids for answer in plain]
    assert sum(answer.drafted for answer in drafted) > 0


def test_what_it_cannot_draft_from_is_refused(directory: Path, tmp_path: Path) -> None:
    """By name: a layer's directory, and its own where a layer is expected; another model's, none, a verifier or a rule
    that do not fit."""
    model = model_of()
    layer = eagle_directory(tmp_path / "eagle")
    with pytest.raises(
        ConfigError, match=r"'eagle3', which tokens\.eagle reads; tokens\.medusa reads 'medusa'"
    ):
        pipeline_of(model, Medusa(model, layer)).open()
    with pytest.raises(
        ConfigError, match=r"'medusa', which tokens\.medusa reads; tokens\.eagle reads 'eagle3'"
    ):
        pipeline_of(model, Eagle(model, directory)).open()
    with pytest.raises(ConfigError, match=r"32 numbers and 30 tokens.* for another model"):
        Medusa(model, directory_of(tmp_path / "other", 30)).open()
    with pytest.raises(ResourceError, match=r"No such file.*fit part drafter RUN --set kind=medusa"):
        pipeline_of(model, Medusa(model, tmp_path / "nowhere"))
    with pytest.raises(PipelineError, match="hidden states, which the verifier Bare does not keep"):
        Pipeline(Medusa(model, directory), Bare(), Tree())
    with pytest.raises(PipelineError, match="tree"):
        Pipeline(Medusa(model, directory), Target(model), Speculative())
    (directory_of(tmp_path / "torn") / "config.json").write_text('{"speculators_model_type": "medusa"}')
    with pytest.raises(ConfigError, match="is not of the config beside it"):
        Medusa(model, tmp_path / "torn").open()
    edited = directory_of(tmp_path / "edited") / "config.json"
    edited.write_text(json.dumps(json.loads(edited.read_text()) | {"hidden_size": 8, "draft_vocab_size": 5}))
    with pytest.raises(ConfigError, match=r"size mismatch.*; train or fetch the directory again$") as told:
        Medusa(model, tmp_path / "edited").open()
    assert len(str(told.value).splitlines()) == 1


def test_the_conformance_kit_finds_nothing(directory: Path) -> None:
    """Law, shape, batches; in rounds that follow a pass of the target."""
    model = model_of()
    target, contexts = Target(model), []
    target.keep_hidden({-1})
    for accepted, block, kept in (([], (), ()), ([3], (1, 2), (0,)), ([1, 2, 3], (4, 5), ())):
        before = context_of(model, [1, 2, 3, 1, 2], accepted=accepted, seed=3)
        proposal = Proposal.chain(block)
        last = Last(proposal, target.verify(before, proposal), Decision(kept=kept))
        emitted = [*accepted, *(block[index] for index in kept), 9]
        contexts.append(context_of(model, [1, 2, 3, 1, 2], accepted=emitted, last=last, rounds=1, seed=3))
    check_component(Medusa(model, directory), contexts=contexts, trials=100)


@pytest.mark.skipif(obstacle() is not None, reason="this processor has no packed products")
def test_beside_a_packed_model_it_is_packed(directory: Path) -> None:
    """And the answer stays what it is."""
    model = LocalModel.from_module(tiny_of("llama", VOCABULARY, seed=3, dtype="bfloat16"), byte_tokenizer())
    answers = []
    for packed in (None, "bfloat16"):
        model.packed = packed
        drafter = Medusa(model, directory)
        answers.append(pipeline_of(model, drafter).run({"prompt_ids": PROMPTS[0]}).value)
        kinds = {type(part).__name__ for part in drafter._network.modules()}
        assert ("PackedLinear" in kinds) is (packed is not None)
    assert answers[0] == answers[1]
