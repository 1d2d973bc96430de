"""One Ray cluster and one Dask cluster, of several node processes on this machine, for all tests of them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

STORE = 80 << 20
"""Bytes of each node's object store."""


@pytest.fixture
def small_memory() -> Iterator[Path]:
    """A control group whose processes the kernel kills when they take 64 MB more than they have: on Linux, as root."""
    first = Path("/sys/fs/cgroup/memory")
    group = (first if first.is_dir() else first.parent) / f"draftverify-{os.getpid()}"
    try:
        group.mkdir()
        limit = group / ("memory.limit_in_bytes" if first.is_dir() else "memory.max")
        limit.write_text(str(64 << 20))
    except OSError as error:
        pytest.skip(f"may not make a control group: {error}")
    try:
        yield group
    finally:
        group.rmdir()


@pytest.fixture(scope="session")
def ray_cluster() -> Iterator[Any]:
    """A Ray cluster: a head without cores, and two nodes of one core."""
    pytest.importorskip("ray", reason="no Ray for this Python")
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    from ray.cluster_utils import Cluster

    head = {"num_cpus": 0, "object_store_memory": STORE, "include_dashboard": False}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    try:
        for number in range(2):
            cluster.add_node(
                num_cpus=1, object_store_memory=STORE, resources={f"node{number}": 1}, wait=False
            )
        cluster.wait_for_nodes()
        yield cluster
    finally:
        cluster.shutdown()


@pytest.fixture(scope="session")
def dask_cluster() -> Iterator[Any]:
    """A Dask cluster of two worker processes of one thread."""
    distributed = pytest.importorskip("distributed")
    cluster = distributed.LocalCluster(
        n_workers=2,
        threads_per_worker=1,
        processes=True,
        dashboard_address=None,
        scheduler_kwargs={"dashboard_address": "127.0.0.1:0"},
        silence_logs=50,
    )
    with cluster:
        yield cluster
