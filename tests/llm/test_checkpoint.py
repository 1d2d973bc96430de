"""Checkpoints: gone on with by their own training alone, and whole after a kill."""

from __future__ import annotations

from pathlib import Path

import pytest

from draftverify.errors import ConfigError
from draftverify_llm import load_checkpoint, optimiser_tensors, restore_optimiser, save_checkpoint


def test_what_was_saved_comes_back(tmp_path: Path) -> None:
    """Tensors, words, and an optimiser that takes the same next step."""
    import torch

    path = tmp_path / "new" / "checkpoint.safetensors"
    assert load_checkpoint(path, "mine") is None
    one = torch.nn.Parameter(torch.ones(3))
    optimiser = torch.optim.AdamW([one], lr=0.1)
    one.grad = torch.tensor([1.0, 2.0, 3.0])
    optimiser.step()
    save_checkpoint(path, "mine", {"one": one.detach().clone(), **optimiser_tensors(optimiser)}, epoch="3")
    found = load_checkpoint(path, "mine")
    assert found is not None
    tensors, said = found
    assert said["epoch"] == "3"
    two = torch.nn.Parameter(tensors["one"])
    other = torch.optim.AdamW([two], lr=0.1)
    restore_optimiser(other, tensors)
    for each, its in ((one, optimiser), (two, other)):
        each.grad = torch.tensor([-1.0, 0.5, 0.0])
        its.step()
    assert torch.equal(one, two)
    assert [file.name for file in path.parent.iterdir()] == ["checkpoint.safetensors"]


def test_another_training_s_and_a_broken_one_are_refused(tmp_path: Path) -> None:
    """With what to do."""
    import torch

    path = tmp_path / "checkpoint.safetensors"
    save_checkpoint(path, "mine", {"one": torch.ones(1)})
    with pytest.raises(ConfigError, match="another --out"):
        load_checkpoint(path, "yours")
    path.write_bytes(path.read_bytes()[:20])
    with pytest.raises(ConfigError, match="no checkpoint"):
        load_checkpoint(path, "mine")
