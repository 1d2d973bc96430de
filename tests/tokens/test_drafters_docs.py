"""The configs of docs/drafters.md, completed where they are fragments: they load, build, draft, and change no token."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from ruamel.yaml import YAML

from draftverify.bench.config.experiment import load_experiment
from draftverify.bench.records import load_run
from draftverify.bench.runner.build import Builder
from draftverify.bench.runner.run import run
from draftverify.values import TaskRecord
from draftverify_tokens import DrafterTraining
from draftverify_tokens.drafter_network import save_network
from draftverify_tokens.drafter_training import config_of
from draftverify_tokens.eagle_network import EagleNetwork
from tests.tokens.tiny import byte_tokenizer

PAGE = Path(__file__).parents[2] / "docs" / "drafters.md"
PROMPTS = ["abcabcabcab", "one two one two one", "What the sea gives, the sea takes.", "12, 24, 12, 24, 12"]
FRAGMENT = {
    "name": "page",
    "tasks": {"use": "jsonl", "path": "tasks.jsonl"},
    "settings": {"temperature": 0},
    "models": {},
    "pipelines": {},
}
PARTS = {
    "verifier": {"use": "tokens.target", "model": "target"},
    "rule": {"use": "speculative"},
    "block": 4,
}


def fences() -> Iterator[tuple[str, str]]:
    """Each block of YAML with the heading that it stands under."""
    heading = ""
    for title, block in re.findall(r"^##+ ([^\n]*)$|^```yaml\n(.*?)^```$", PAGE.read_text(), re.M | re.S):
        heading = title or heading
        if block:
            yield heading, block


FENCES = dict(fences())


def completed(block: str, *, weights: str | None, tokens: int) -> dict[str, Any]:
    """The block as a whole config: what it leaves out is added, and a pipeline that decodes plainly.

    Args:
        block: YAML of the page: a config without some of its keys, or one pipeline of it.
        weights: stand in the place of every model's; None: the page's stay.
        tokens: of an answer.
    """
    found = YAML(typ="safe", pure=True).load(block)
    config = FRAGMENT | (found if "pipelines" in found else {"pipelines": {"page": found}})
    default = {"use": "llm.local", "weights": weights or "smollm2-135m-instruct", "dtype": "float32"}
    config["models"] = {"target": default, "small": default} | config["models"]
    if weights:
        config["models"] = {name: {**each, "weights": weights} for name, each in config["models"].items()}
    done = {"use": "tokens.stop", "max_tokens": tokens, "ignore_eos": True}
    config["pipelines"] = {name: PARTS | each | {"done": done} for name, each in config["pipelines"].items()}
    assert "plain" not in config["pipelines"]
    config["pipelines"]["plain"] = PARTS | {"generator": {"use": "tokens.none"}, "block": 0, "done": done}
    return config


def written(directory: Path, config: dict[str, Any], prompts: list[str]) -> Path:
    """The config's file, with its tasks and the files that its parts read beside it."""
    (directory / "tasks.jsonl").write_text("".join(json.dumps({"prompt": each}) + "\n" for each in prompts))
    for name, text in re.findall(r"^```python\n# file: (\S+)\n(.*?)^```$", PAGE.read_text(), re.M | re.S):
        (directory / name).write_text(text)
    file = directory / "page.yaml"
    file.write_text(json.dumps(config))  # JSON is YAML
    return file


def records_of(file: Path) -> dict[str, list[TaskRecord]]:
    """Run the experiment; each pipeline's records, in the tasks' order."""
    experiment = load_experiment(file)
    run(experiment, out=file.parent / "run")
    with load_run(file.parent / "run") as found:
        return {spec.name: found.records(spec.name) for spec in experiment.pipelines}


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A llama of nine layers over bytes, saved, with the weights that the page's drafters learned: random ones."""
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(2)
    config = LlamaConfig(
        vocab_size=257, hidden_size=64, intermediate_size=128, num_hidden_layers=9, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=256, initializer_range=0.1, bos_token_id=None,
        eos_token_id=256, pad_token_id=None,
    )  # fmt: skip
    path = tmp_path_factory.mktemp("tiny")
    model = LlamaForCausalLM(config)
    model.save_pretrained(path)
    byte_tokenizer().save_pretrained(path)
    network = EagleNetwork(config_of(DrafterTraining(path, vocabulary=200), model))
    network.keep(range(200))
    save_network(network, path / "trained")
    torch.save(torch.randn(2, 257, 64), path / "heads.pt")
    return path


@pytest.mark.parametrize("heading", FENCES)
def test_the_config_under_a_heading_runs(heading: str, tiny: Path, tmp_path: Path) -> None:
    """On a tiny model, each pipeline drafts and emits what plain decoding does, rounding in bfloat16 apart."""
    config = completed(FENCES[heading], weights=str(tiny), tokens=20)
    for name in ("heads.pt", "trained"):
        (tmp_path / name).symlink_to(tiny / name)
    file = written(tmp_path, config, PROMPTS)
    found = records_of(file)
    exact = all(each.get("dtype", "float32") == "float32" for each in config["models"].values())
    drafted_and_unchanged(file, found, exact=exact)


def drafted_and_unchanged(file: Path, found: dict[str, list[TaskRecord]], *, exact: bool) -> None:
    """Every pipeline but the plain one drafted; answers are the plain ones', or part by rounding where that may be."""
    plain = found.pop("plain")
    assert found
    experiment, builder = load_experiment(file), Builder()
    tasks = builder.part(experiment.tasks).load()
    for spec in experiment.pipelines:
        for task, record, expected in zip(tasks, found.get(spec.name, []), plain, strict=False):
            assert record.outcome.status == "accepted", record.outcome.reason
            if record.outcome.value != expected.outcome.value:
                said = builder.pipeline(spec).explain(task, expected.outcome.value, record.outcome.value)
                assert said is not None
                assert not exact, said.text
                assert said.cause == "rounding", said.text
    for name, records in found.items():
        assert len(records) == len(plain)
        assert any(round.items for record in records for round in record.rounds), f"{name} drafted nothing"


def test_the_page_s_blocks_are_all_looked_at() -> None:
    """No heading has two blocks, of which one would be lost."""
    assert len(list(fences())) == len(FENCES) == PAGE.read_text().count("```yaml")


def test_tasks_after_an_epoch_are_drafted_what_earlier_ones_said(tiny: Path, tmp_path: Path) -> None:
    """The same prompts again behind the epoch's end: their answers are known, so that nearly all is accepted."""
    config = completed(FENCES["Learning from earlier tasks"], weights=str(tiny), tokens=20)
    assert config["memory"] == {"every": 8}
    file = written(tmp_path, config, [*PROMPTS, *PROMPTS, *PROMPTS])
    passes = [len(record.rounds) for record in records_of(file)["suffix"]]
    assert passes[:4] == passes[4:8]
    assert sum(passes[8:]) < 0.7 * sum(passes[:4])


@pytest.mark.weights
@pytest.mark.exhaustive
def test_the_target_rounded_drafts_in_the_target_s_cache(tmp_path: Path) -> None:
    """The page's own models: the rounded one drafts where the lookup has nothing, and tokens part by rounding alone."""
    config = completed(FENCES["The target, rounded, in the target's cache"], weights=None, tokens=24)
    file = written(tmp_path, config, ["Write a sentence about the sea.", "Count from one to ten in words."])
    found = records_of(file)
    laws = [round.law for record in found["rounded"] for round in record.rounds if round.items]
    assert laws.count("iid") > 1
    drafted_and_unchanged(file, found, exact=False)
