"""Whether a run stays as quick and as small as it grows: a hundred thousand tasks of a constant part.

    python -m benchmarks.many_tasks [--tasks 100000] [--executor "{use: serial}"] [--durable task]
        [--out benchmarks/results/many_tasks.json]

One pipeline of parts that return constants runs as `draftverify run` does it, into a real database (under `process`
with one worker, since each counts its own tasks). The generator notes the time and its process's resident memory at
every thousandth task. Given are the seconds of a task in the second thousand and in the last ten thousand, the memory
after the first thousand and at the last task, the most memory that the whole command used (with the summary and the
report), and the seconds of `draftverify show`.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import tempfile
from itertools import pairwise
from pathlib import Path
from time import perf_counter
from typing import Any

from benchmarks.provenance import write

PARTS = """
import json, os, time
from draftverify import Check, Decision, GeneratorTraits, PASS, Proposal, Task, Verification

class Numbered:
    def __init__(self, count: int, limit: int | None = None) -> None:
        self.count = count

    def load(self) -> list[Task]:
        return [Task(id=f"t{i}", input={"n": i}) for i in range(self.count)]

class Constant:
    traits = GeneratorTraits(shape="alternatives")

    def __init__(self, log: str) -> None:
        self.log = log
        self.made = 0

    def propose(self, context, n):
        if self.made % 1000 == 0:
            with open("/proc/self/statm") as statm:
                pages = int(statm.read().split()[1])
            with open(self.log, "a") as log:
                megabytes = pages * os.sysconf("SC_PAGE_SIZE") / 2**20
                log.write(json.dumps([self.made, time.perf_counter(), megabytes]) + "\\n")
        self.made += 1
        return Proposal.alternatives(("constant",))

class Passing:
    def verify(self, context, proposal):
        return Verification(checks=(PASS,))
"""

CONFIG = """
name: many
parts: [./constant.py]
tasks: {{use: constant.Numbered, count: {count}}}
pipelines:
  constant:
    generator: {{use: constant.Constant, log: {log}}}
    verifier: {{use: constant.Passing}}
    rule: {{use: first}}
executor: {executor}
durable: {durable}
"""


def draftverify(*arguments: str) -> float:
    """Run the command line; its seconds."""
    start = perf_counter()
    subprocess.run([sys.executable, "-m", "draftverify", *arguments], check=True, stdout=subprocess.DEVNULL)
    return perf_counter() - start


def measure(tasks: int, shows: int, executor: str = "{use: serial}", durable: str = "task") -> dict[str, Any]:
    """Run it, and read what the part noted."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "constant.py").write_text(PARTS)
        config, log, out = folder / "many.yaml", folder / "log.jsonl", folder / "run"
        config.write_text(CONFIG.format(count=tasks, log=log, executor=executor, durable=durable))
        seconds = draftverify("run", str(config), "--out", str(out))
        most = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
        notes = [json.loads(line) for line in log.read_text().splitlines()]
        shown = [draftverify("show", str(out)) for _ in range(shows)]
        size = sum(file.stat().st_size for file in out.rglob("*") if file.is_file())
    each = [(b[1] - a[1]) / (b[0] - a[0]) for a, b in pairwise(notes)]
    return {
        "tasks": tasks,
        "executor": executor,
        "durable": durable,
        "run_seconds": seconds,
        "milliseconds_a_task": {
            "second_thousand": 1000 * each[1],
            "first_ten_thousand": 1000 * statistics.median(each[:10]),
            "last_ten_thousand": 1000 * statistics.median(each[-10:]),
        },
        "megabytes": {"after_1000": notes[1][2], "at_the_last": notes[-1][2], "most": most},
        "show_seconds": shown,
        "directory_megabytes": size / 2**20,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--tasks", type=int, default=100_000)
    parser.add_argument("--executor", default="{use: serial}")
    parser.add_argument("--durable", choices=("task", "round"), default="task")
    parser.add_argument("--shows", type=int, default=3)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/many_tasks.json"))
    options = parser.parse_args()
    figures = measure(options.tasks, options.shows, options.executor, options.durable)
    write(options.out, "benchmarks.many_tasks", figures)
    print(json.dumps(figures, indent=2))


if __name__ == "__main__":
    main()
