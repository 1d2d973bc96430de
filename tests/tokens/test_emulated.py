"""The emulated device shows what a real one would do otherwise: waits and late copies."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tests.tokens.emulated import Emulation, OnDevice


@pytest.fixture
def device():
    with Emulation() as emulation:
        yield emulation


WAITS = {
    "item": lambda x: x[0, 0].item(),
    "float": lambda x: float(x[0, 0]),
    "bool": lambda x: bool((x > 1).any()),
    "tolist": lambda x: x.tolist(),
    "cpu": lambda x: x.cpu(),
    "to": lambda x: x.to("cpu"),
    "copy to pageable memory": lambda x: torch.empty(2, 3).copy_(x, non_blocking=True),
    "nonzero": lambda x: x.nonzero(),
    "mask": lambda x: x[x > 1],
    "masked write": lambda x: x.__setitem__(x > 1, 0.0),
    "equal": lambda x: torch.equal(x, x),
    "a list as an index": lambda x: x[:, [0, 1]],
    "a number of the host": lambda x: torch.tensor([1.0], device="cuda"),
    "device": lambda x: torch.cuda.synchronize(),
    "stream": lambda x: torch.cuda.current_stream().synchronize(),
    "event": lambda x: torch.cuda.current_stream().record_event().synchronize(),
}


@pytest.mark.parametrize("kind", WAITS)
def test_every_kind_of_wait_is_counted_once(device, kind):
    """What a host learns of a device costs a wait."""
    x = torch.arange(6.0, device="cuda").view(2, 3)
    device.reset()
    WAITS[kind](x)
    assert device.counts.waits.total() == 1


def test_what_waits_for_nothing_is_not_counted(device):
    """Arithmetic, indices of the device, copies from and to pinned memory; and it computes what the host would."""
    given = np.arange(6.0, dtype=np.float32).reshape(2, 3)
    x = torch.from_numpy(given).pin_memory().to("cuda", non_blocking=True)
    x[0] = 7
    x[:, 1:] += x.new_ones((2, 2))
    found = torch.cat([x, x.flip(0)])[torch.arange(2, device="cuda")].max(dim=-1).values.double()
    host = torch.empty(2, dtype=torch.float64, pin_memory=True).copy_(found, non_blocking=True)
    assert host.isnan().all()
    assert not device.counts.waits
    torch.cuda.current_stream().synchronize()
    assert host.tolist() == [8, 6]
    assert (x.device.type, x.is_cuda, isinstance(x, OnDevice)) == ("cuda", True, True)
    assert device.counts.uploads == {"pinned": 1}
    assert device.counts.operations == 11


def test_a_copy_of_pageable_memory_is_its_own_kind(device):
    """It is staged by the host; one that is not said to be quick is waited for."""
    torch.arange(3).to("cuda", non_blocking=True)
    assert (device.counts.uploads, device.counts.waits.total()) == ({"pageable": 1}, 0)
    torch.arange(3).to("cuda")
    assert (device.counts.uploads, device.counts.waits.total()) == ({"pageable": 2}, 1)


def test_pinned_memory_that_is_overwritten_too_soon_is_found(device):
    """Between the copy and the next wait it is the device's."""
    host = torch.arange(3).pin_memory()
    host.to("cuda", non_blocking=True)
    torch.cuda.synchronize()
    host[0] = 5
    host.to("cuda", non_blocking=True)
    host[0] = 6
    with pytest.raises(RuntimeError, match="overwritten"):
        torch.cuda.synchronize()


def test_an_event_answers_for_what_came_before_it(device):
    """What was copied later is still on its way."""
    x, hosts = (
        torch.arange(3, device="cuda"),
        [torch.empty(3, dtype=torch.int64).pin_memory() for _ in range(2)],
    )
    hosts[0].copy_(x, non_blocking=True)
    event = torch.cuda.Event()
    event.record()
    hosts[1].copy_(x, non_blocking=True)
    event.synchronize()
    assert hosts[0].tolist() == [0, 1, 2]
    assert hosts[1].tolist() != [0, 1, 2]


def test_devices_do_not_mix(device):
    """As on CUDA; a single number may come along."""
    x = torch.arange(3.0, device="cuda")
    assert (x + torch.tensor(2.0)).tolist() == [2, 3, 4]
    with pytest.raises(RuntimeError, match="same device"):
        x + torch.ones(3)
    with pytest.raises(TypeError, match="numpy"):
        np.asarray(x)


def test_a_module_is_put_on_the_device_with_what_its_parts_share(device):
    """Tied weights stay one."""
    module = torch.nn.ModuleDict({"a": torch.nn.Linear(3, 3, bias=False), "b": torch.nn.Linear(3, 3)})
    module.b.weight = module.a.weight
    device.put(module)
    assert module.a.weight is module.b.weight
    assert module.b.bias.device.type == "cuda"
    x = torch.ones(1, 3, device="cuda")
    assert module.a(x).shape == (1, 3)
