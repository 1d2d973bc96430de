"""Learned drafters from outside: the target's hidden states, trees, and the target's own output."""

from __future__ import annotations

import ast
import shutil
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from draftverify import Pipeline, Task
from draftverify.bench.cli.main import main
from draftverify.bench.records import load_run
from draftverify.kit import make_context
from draftverify.rules import KSeq, Tree
from draftverify.traits import BlockTraits
from draftverify_llm import LocalModel
from draftverify_tokens import DraftTree, Stop, Target, hidden_states
from tests.tokens.joint import deviation
from tests.tokens.learned_drafters import EagleHead, EagleLike, MedusaLike, eagle_tree
from tests.tokens.test_decoding import PROMPTS, generated
from tests.tokens.tiny import byte_tokenizer, tiny_llama

PLUGIN = Path(__file__).with_name("learned_drafters.py")
LENGTH = 28


@lru_cache
def model_of(vocabulary: int) -> LocalModel:
    return LocalModel.from_module(tiny_llama(vocabulary, seed=3, layers=2, spread=0.4), byte_tokenizer())


@lru_cache
@torch.no_grad()
def texts(vocabulary: int) -> tuple[Any, Any, Any]:
    """Sequences that the model wrote, half of them greedily: ids [n, T], and each token's last state and logits."""
    module = model_of(vocabulary).model
    generator = torch.Generator().manual_seed(0)
    ids = torch.randint(vocabulary - 1, (192, 3), generator=generator)
    for _ in range(LENGTH - 3):
        logits = module(input_ids=ids, use_cache=False).logits[:, -1]
        drawn = torch.multinomial((logits / 0.8).softmax(-1), 1, generator=generator)
        drawn[::2, 0] = logits[::2].argmax(-1)
        ids = torch.cat([ids, drawn], 1)
    found = module(input_ids=ids, use_cache=False, output_hidden_states=True)
    return ids, found.hidden_states[-1], found.logits


def fitted_heads(vocabulary: int, heads: int = 3) -> Any:
    """[heads, 1 + width, vocabulary], by least squares on the logits of k + 1 tokens later."""
    _, states, logits = texts(vocabulary)
    made = []
    for k in range(heads):
        x, y = states[:, : -1 - k].flatten(0, 1), logits[:, 1 + k :].flatten(0, 1)
        made.append(torch.linalg.lstsq(torch.cat([torch.ones(len(x), 1), x], 1), y).solution)
    return torch.stack(made)


def trained_layer(vocabulary: int, steps: int = 250) -> Any:
    """An EagleHead's weights: the next state, and the token that the target makes of it."""
    ids, states, logits = texts(vocabulary)
    module = model_of(vocabulary).model
    torch.manual_seed(0)
    head = EagleHead(states.shape[-1])
    optimiser = torch.optim.Adam(head.parameters(), lr=4e-3)
    embedded = module.get_input_embeddings()(ids).detach()
    none, mask = torch.zeros(0, states.shape[-1]), torch.ones(LENGTH - 1, LENGTH - 1).tril().bool()
    step = torch.vmap(lambda h, e: head(h, e, none, none, mask)[0])
    for i in range(steps):
        batch = torch.arange(i * 32, i * 32 + 32) % len(ids)
        made = step(states[batch, :-1], embedded[batch, 1:])
        wanted = logits[batch, 1:].softmax(-1).flatten(0, 1)
        guess = torch.nn.functional.linear(made, module.lm_head.weight).flatten(0, 1)
        loss = torch.nn.functional.smooth_l1_loss(made, states[batch, 1:])
        loss = loss + torch.nn.functional.cross_entropy(guess, wanted)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    return head.state_dict()


@pytest.fixture(scope="module")
def directory(tmp_path_factory) -> Path:
    """The learned weights, of drafters for both models."""
    made = tmp_path_factory.mktemp("learned")
    for vocabulary in (24, 6):
        torch.save(fitted_heads(vocabulary), made / f"medusa{vocabulary}.pt")
        torch.save(trained_layer(vocabulary), made / f"eagle{vocabulary}.pt")
    return made


def drafter(kind: str, directory: Path, vocabulary: int = 24) -> Any:
    if kind == "medusa":
        return MedusaLike(directory / f"medusa{vocabulary}.pt")
    law = {"eagle": "given", "eagle_drawn": "without_replacement", "eagle_iid": "iid"}[kind]
    return eagle_tree(model_of(vocabulary), directory / f"eagle{vocabulary}.pt", law=law)


def rule_of(kind: str) -> Any:
    return KSeq() if kind == "eagle_iid" else Tree()


KINDS = ("medusa", "eagle", "eagle_drawn", "eagle_iid")


def pipeline_of(part: Any, target: Any = None, rule: Any = None, block: int = 8, **done: Any) -> Pipeline:
    return Pipeline(
        part,
        target or Target(model_of(24)),
        rule or Tree(),
        block=block,
        done=Stop(30, **done),
        settings={"temperature": 0},
    )


def test_the_plugin_uses_public_names_alone():
    """Nothing deeper than the packages themselves is imported."""
    imported = {
        node.module for node in ast.walk(ast.parse(PLUGIN.read_text())) if isinstance(node, ast.ImportFrom)
    }
    ours = {name for name in imported if name and name.startswith("draftverify")}
    assert ours == {"draftverify", "draftverify_tokens"}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("batch", [1, 3, 8])
def test_greedy_output_is_that_of_transformers(kind, batch, directory):
    """Trees from hidden states, alone and in batches."""
    prompts = [[*prompt, extra] for extra in (3, 11) for prompt in PROMPTS][:batch]
    tasks = [Task(id=str(i), input={"prompt_ids": prompt}) for i, prompt in enumerate(prompts)]
    pipeline = pipeline_of(drafter(kind, directory), rule=rule_of(kind))
    found = [list(outcome.value) for outcome in pipeline.run(tasks)]
    assert found == [generated(model_of(24), prompt, 30) for prompt in prompts]


@pytest.mark.parametrize("kind", ["medusa", "eagle"])
def test_what_was_learned_is_accepted(kind, directory, tmp_path):
    """A quarter of the passes of plain decoding are saved at least; random weights save half as many at most."""
    torch.manual_seed(5)
    torch.save(torch.randn(3, 33, 24), tmp_path / "medusa24.pt")
    torch.save(EagleHead(32).state_dict(), tmp_path / "eagle24.pt")
    saved = []
    for weights in (directory, tmp_path):
        pipeline = pipeline_of(drafter(kind, weights), ignore_eos=True)
        outcomes = [pipeline.run({"prompt_ids": prompt}) for prompt in PROMPTS]
        saved.append(1 - sum(o.rounds for o in outcomes) / sum(len(o.value) for o in outcomes))
    assert saved[0] > max(0.25, 2 * saved[1])


class Watching(Target):
    """A target that notes what a drafter may read of each context."""

    def __init__(self, model: LocalModel) -> None:
        super().__init__(model)
        self.looks: list[tuple[list[int], Any]] = []

    def verify_many(self, contexts, proposals):
        for context in contexts:
            if (states := hidden_states(context, (-1, 1))) is not None:
                self.looks.append(([*context.task.input["prompt_ids"], *context.accepted], states))
        return super().verify_many(contexts, proposals)


@pytest.mark.parametrize("size", [1, 3])
def test_hidden_states_are_those_of_what_was_kept(size, directory):
    """Those of a pass without any cache, of prompt and answer up to the last token but one, after trees too; and of a
    beginning that another prompt lent."""
    target = Watching(model_of(24))
    pipeline = pipeline_of(drafter("medusa", directory), target)
    target.keep_hidden({0, 1})
    opening = [i % 20 for i in range(40)]
    pipeline.run([{"prompt_ids": [*opening, *prompt]} for prompt in PROMPTS[:3]], size=size)
    assert len(target.looks) > 6
    for tokens, states in target.looks:
        with torch.inference_mode():
            whole = model_of(24).model(torch.tensor([tokens]), output_hidden_states=True).hidden_states
        expected = torch.stack([whole[-1][0, :-1], whole[1][0, :-1]], 1)
        torch.testing.assert_close(states, expected, atol=1e-4, rtol=0)


class Forgetful(Target):
    """A target before some of whose rounds everybody's scratch is emptied."""

    def __init__(self, model: LocalModel, rounds: frozenset[int]) -> None:
        super().__init__(model)
        self.rounds = rounds

    def verify_many(self, contexts, proposals):
        for context in contexts:
            if context.round in self.rounds:
                context.scratch.clear()
        return super().verify_many(contexts, proposals)


@settings(max_examples=6)
@given(rounds=st.frozensets(st.integers(0, 12)), kind=st.sampled_from(KINDS), prompt=st.sampled_from(PROMPTS))
def test_lost_features_change_nothing_but_the_cost(directory, rounds, kind, prompt):
    """Scratch emptied at any rounds: the same tokens."""
    target = Forgetful(model_of(24), rounds)
    pipeline = pipeline_of(drafter(kind, directory), target, rule_of(kind))
    assert list(pipeline.run({"prompt_ids": prompt}).value) == generated(model_of(24), prompt, 30)


@pytest.mark.parametrize("kind", KINDS)
def test_without_states_nothing_is_drafted(kind, directory):
    """In the first round: an empty chain of the drafter's law."""
    part = drafter(kind, directory)
    context = make_context(Target(model_of(24)).prepare(Task(id="a", input={"prompt_ids": [1, 2, 3]})))
    proposal = part.propose(context, 5)
    assert (len(proposal), proposal.exhausted) == (0, False)


def test_a_drafter_that_was_not_asked_goes_on(directory):
    """Rounds in which no block was asked for leave no gap: the states stand with keys and values."""
    from draftverify import Context, Round

    class Alternating:
        traits = BlockTraits(deterministic=True)

        def size(self, context: Context) -> int:
            return 0 if context.round % 3 == 2 else 8

        def observe(self, context: Context, round: Round) -> None:
            pass

    part = EagleLike(model_of(24), directory / "eagle24.pt")
    pipeline = Pipeline(
        DraftTree(part, (3, 2, 2)),
        Target(model_of(24)),
        Tree(),
        block=Alternating(),
        done=Stop(30, ignore_eos=True),
        settings={"temperature": 0},
    )
    record = pipeline.record({"prompt_ids": PROMPTS[0]})
    asked = [round for round in record.rounds if round.index % 3 != 2 and round.index]
    assert all(len(round.items) > 1 for round in asked[:-2])
    assert len(record.outcome.value) == 30


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind", ["medusa", "eagle", *(pytest.param(kind, marks=pytest.mark.exhaustive) for kind in KINDS[2:])]
)
def test_sampled_output_has_the_targets_distribution(kind, directory):
    """1,000 answers against the enumerated joint; an honest pipeline fails once in a million seeds."""
    model = model_of(6)
    how = {"block": 6, "tasks": 1000, "prompt": [0, 3, 1], "settings": {"temperature": 1.4}, "batch": 50}
    found, limit = deviation(drafter(kind, directory, 6), model, rule_of(kind), **how)
    assert found < limit


CONFIG = """
name: learned
seed: 5
parts: [./my_drafters.py]
tasks: {use: jsonl, path: prompts.jsonl}
models:
  target: {use: llm.local, weights: ./target, dtype: float32}
settings: {temperature: 0}
pipelines:
  plain:
    generator: {use: tokens.none}
    verifier: {use: tokens.target, model: target}
    rule: {use: speculative}
    block: 0
    done: {use: tokens.stop, max_tokens: 24}
  medusa:
    generator: {use: my_drafters.MedusaLike, heads: ./medusa24.pt, widths: [4, 2]}
    verifier: {use: tokens.target, model: target}
    rule: {use: tree}
    block: 8
    done: {use: tokens.stop, max_tokens: 24}
  eagle:
    generator: {use: my_drafters.eagle_tree, model: target, head: ./eagle24.pt, law: without_replacement}
    verifier: {use: tokens.target, model: target}
    rule: {use: tree}
    block: 8
    done: {use: tokens.stop, max_tokens: 24}
baseline: plain
"""


def test_a_config_runs_them_as_a_plugin(directory, tmp_path):
    """Through the command line, from a file of parts: the answers are those of plain decoding, in fewer rounds."""
    shutil.copy(PLUGIN, tmp_path / "my_drafters.py")
    for name in ("medusa24.pt", "eagle24.pt"):
        shutil.copy(directory / name, tmp_path)
    model_of(24).model.save_pretrained(tmp_path / "target")
    byte_tokenizer().save_pretrained(tmp_path / "target")
    lines = ['{"prompt_ids": [1, 2, 3]}', '{"prompt_ids": [7, 7, 7, 8, 7, 7]}']
    (tmp_path / "prompts.jsonl").write_text("\n".join(lines))
    (tmp_path / "learned.yaml").write_text(CONFIG)
    assert main(["run", str(tmp_path / "learned.yaml"), "--out", str(tmp_path / "run")]) == 0
    with load_run(tmp_path / "run") as found:
        outcomes = {
            name: {record.task: record.outcome for record in found.records(name)}
            for name in ("plain", "medusa", "eagle")
        }
    values = {
        name: {task: list(each.value) for task, each in given.items()} for name, given in outcomes.items()
    }
    assert len(values["plain"]) == 2
    assert values["medusa"] == values["eagle"] == values["plain"]
    rounds = {name: sum(each.rounds for each in given.values()) for name, given in outcomes.items()}
    assert max(rounds["medusa"], rounds["eagle"]) < rounds["plain"]
