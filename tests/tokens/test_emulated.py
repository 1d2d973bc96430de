"""The emulated device shows what a real one would do otherwise: waits, what a graph has frozen, late copies."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from tests.tokens.emulated import Emulation, OnDevice


@pytest.fixture
def device():
    with Emulation() as emulation:
        yield emulation


def captured(run: Any) -> tuple[Any, Any]:
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = run()
    return graph, found


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
def test_every_kind_of_wait_is_counted_once_and_refused_in_a_capture(device, kind):
    """What a host learns of a device costs a wait, and no graph can hold one."""
    x = torch.arange(6.0, device="cuda").view(2, 3)
    device.reset()
    WAITS[kind](x)
    assert device.counts.waits.total() == 1
    with pytest.raises(RuntimeError, match="capturing"):
        captured(lambda: WAITS[kind](x))


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


def test_a_replay_reads_its_inputs_anew_and_overwrites_its_outputs(device):
    """A capture itself leaves nothing behind."""
    given, sums = torch.arange(3.0, device="cuda"), torch.zeros(3, device="cuda")

    def run() -> Any:
        sums.add_(given * 2)
        return sums.view(3, 1) + torch.arange(3.0, device="cuda")[:, None]

    device.reset()
    graph, found = captured(run)
    assert sums.tolist() == [0, 0, 0]
    assert found.isnan().all()
    device.reset()
    graph.replay()
    assert found[:, 0].tolist() == [0, 3, 6]
    given.fill_(1)
    graph.replay()
    assert found[:, 0].tolist() == [2, 5, 8]
    assert (device.counts.launches, device.counts.operations) == (2, 1)


def test_a_value_of_the_host_is_frozen_in_a_graph(device):
    """The place that a plain integer named at capture is written to for ever."""
    row, place = torch.zeros(4, device="cuda"), 1

    def run() -> None:
        row[place] = 9.0

    graph, _ = captured(run)
    place = 3
    graph.replay()
    assert row.tolist() == [0, 9, 0, 0]


def test_a_graph_holds_on_to_the_buffer_that_it_was_captured_with(device):
    """One that took its place since is not written."""
    held = {"keys": torch.zeros(2, device="cuda")}
    old = held["keys"]
    graph, _ = captured(lambda: held["keys"].add_(1))
    held["keys"] = torch.zeros(4, device="cuda")
    graph.replay()
    assert (held["keys"].tolist(), old.tolist()) == ([0, 0, 0, 0], [1, 1])


def test_a_copy_from_pinned_memory_can_be_part_of_a_graph(device):
    """The replay reads what the memory holds then."""
    host, into = torch.arange(3).pin_memory(), torch.zeros(3, dtype=torch.int64, device="cuda")
    graph, _ = captured(lambda: into.copy_(host, non_blocking=True))
    host += 4
    graph.replay()
    assert into.tolist() == [4, 5, 6]
    assert device.counts.uploads == {"pinned": 1}
    with pytest.raises(RuntimeError, match="capturing"):
        captured(lambda: into.copy_(torch.arange(3), non_blocking=True))


def test_compiled_functions_are_dynamo_s(device):
    """Compiled anew for a number that was taken for a constant; not for another length, once it was seen to change."""
    compiled = torch.compile(lambda x, n: (x * n).cumsum(0) + torch.arange(len(x), device=x.device))
    x = torch.arange(8.0, device="cuda")
    counts = []
    for length, n in [(4, 2.0), (5, 2.0), (6, 2.0), (7, 2.0), (7, 3.0)]:
        assert compiled(x[:length], n)[-1].item() == n * sum(range(length)) + length - 1
        counts.append(device.reset().compilations)
    assert counts[:4] == [1, 1, 0, 0]
    graph, found = captured(lambda: compiled(x[:4], 2.0))
    x += 1
    graph.replay()
    assert found.tolist() == [2, 7, 14, 23]


def test_a_graph_break_is_an_error(device):
    """What cannot be compiled in one piece would run slowly and say nothing."""
    compiled = torch.compile(lambda x: x + 1 if x.sum() > 0 else x)
    with pytest.raises(Exception, match=r"[Dd]ata-dependent"):
        compiled(torch.arange(3.0, device="cuda"))


def test_a_module_is_put_on_the_device_with_what_its_parts_share(device):
    """Tied weights stay one."""
    module = torch.nn.ModuleDict({"a": torch.nn.Linear(3, 3, bias=False), "b": torch.nn.Linear(3, 3)})
    module.b.weight = module.a.weight
    device.put(module)
    assert module.a.weight is module.b.weight
    assert module.b.bias.device.type == "cuda"
    x = torch.ones(1, 3, device="cuda")
    assert module.a(x).shape == (1, 3)
