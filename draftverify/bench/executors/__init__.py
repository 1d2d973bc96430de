"""Executors: where the units of a run are performed, and what is done when a worker dies.

    local.py      here: one after the other, in lockstep, in threads
    process.py    in processes of this machine
    crew.py       the driver's side of all of them: so many units in flight, lost ones again, each answer once
    watched.py    a process that performs units, and the one who watches it: deadlines, deaths
    worker.py     what runs in that process
    frames.py     what crosses between that process and its watcher
    messages.py   units, rounds and replies as bytes that hold JSON

Those of Ray and Dask clusters are in `draftverify.cluster`.

A worker of another process gets the experiment as text, builds its own bench once, takes units as JSON and gives
records back as JSON. Live models never travel, and workers write nothing: the driver's process commits what comes back.

An executor is a component with `workers`, `local` (units share this process's pipelines) and `pool()`, which gives any
`concurrent.futures.Executor`, or `Workers` that are watched; or it is a `Batch`, whose units share their passes in this
thread.
"""

from draftverify.bench.executors.local import Auto, Batch, Pooled, Serial, Thread
from draftverify.bench.executors.process import Process
from draftverify.bench.executors.workers import UnitExecutor, Workers

__all__ = ["Auto", "Batch", "Pooled", "Process", "Serial", "Thread", "UnitExecutor", "Workers"]
