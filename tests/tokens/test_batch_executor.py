"""A YAML run by the batch executor decodes many tasks in each pass, and is taken up again like any other."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from draftverify.bench.config.experiment import load_experiment
from draftverify.bench.records import load_run, timeless
from draftverify.bench.runner.run import run
from draftverify_tokens import Target
from tests.tokens.tiny import byte_tokenizer, tiny_llama

TOKENS = 6


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("weights")
    tiny_llama(257, spread=0.5).save_pretrained(path)
    byte_tokenizer().save_pretrained(path)
    return path


class Passes(list[int]):
    """How many sessions each pass of the target served; a Ctrl-C comes before the pass with the number `stop`."""

    stop: int | None = None


@pytest.fixture
def passes(monkeypatch: pytest.MonkeyPatch) -> Passes:
    seen, verify_many = Passes(), Target.verify_many

    def counted(self: Target, contexts: Any, proposals: Any) -> Any:
        if len(seen) == seen.stop:
            raise KeyboardInterrupt
        seen.append(len(contexts))
        return verify_many(self, contexts, proposals)

    monkeypatch.setattr(Target, "verify_many", counted)
    return seen


def file(directory: Path, weights: Path, executor: dict[str, Any]) -> Path:
    """A config of two pipelines on one target, a greedy one and one that draws, with sixteen prompts."""
    (directory / "tasks.jsonl").write_text(
        "".join(json.dumps({"prompt_ids": [97 + i, 98, 97 + i, 98, 97 + i % 3]}) + "\n" for i in range(16))
    )
    common = {
        "verifier": {"use": "tokens.target", "model": "target"},
        "rule": {"use": "speculative"},
        "done": {"use": "tokens.stop", "max_tokens": TOKENS, "ignore_eos": True},
    }
    config = {
        "name": "batch",
        "seed": 3,
        "tasks": {"use": "jsonl", "path": "tasks.jsonl"},
        "models": {"target": {"use": "llm.local", "weights": str(weights), "dtype": "float32"}},
        "pipelines": {
            "plain": common
            | {"generator": {"use": "tokens.none"}, "block": 0, "settings": {"temperature": 0}},
            "lookup": common
            | {"generator": {"use": "tokens.prompt_lookup"}, "block": 4, "settings": {"temperature": 0.7}},
        },
        "executor": executor,
    }
    path = directory / "batch.yaml"
    path.write_text(json.dumps(config))
    return path


def results(directory: Path) -> dict[str, Any]:
    with load_run(directory) as found:
        return {name: [timeless(each) for each in found.records(name)] for name in ("plain", "lookup")}


def test_a_batch_from_yaml_shares_passes_and_is_taken_up_again(weights, passes, tmp_path):
    """Eight tasks a pass, across both pipelines; interrupted in the middle, it ends with what a serial run gives."""
    serial, batch = (tmp_path / name for name in ("serial", "batch"))
    for directory, executor in ((serial, {"use": "serial"}), (batch, {"use": "batch", "size": 8})):
        directory.mkdir()
        file(directory, weights, executor)
    run(load_experiment(serial / "batch.yaml"), out=serial / "run")
    alone = len(passes)
    assert set(passes) == {1}
    passes.clear()

    passes.stop = 11
    with pytest.raises(KeyboardInterrupt):
        run(load_experiment(batch / "batch.yaml"), out=batch / "run")
    passes.stop = None
    done = run(load_experiment(batch / "batch.yaml"), out=batch / "run")
    assert 0 < done.ran < 32
    assert passes.count(8) > len(passes) / 2
    assert len(passes) < alone / 4
    assert results(batch / "run") == results(serial / "run")
