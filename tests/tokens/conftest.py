"""One thread for torch: models this small only wait for each other's threads, and tests may share the machine. And a
garbage collector that looks at what is new alone."""

from __future__ import annotations

import gc

import pytest
import torch


@pytest.fixture(autouse=True, scope="package")
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def older_objects_apart():
    """What was there before is left out by the garbage collector: there is much of it, and none of it is the tests'."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()
