"""A sweep as its user lives it: listed, estimated, run, killed half-way, gone on with, compared, reported, exported.

    python -m benchmarks.sweep_killed examples/sweep.yaml --limit 3 --set defaults.done.max_tokens=16 \
        --out benchmarks/results/sweep.json --report docs/gallery/sweep.html
    python -m benchmarks.sweep_killed --show benchmarks/results/sweep.json

Every step is the command that one would type, in a process of its own, from the repository's root; `runs/NAME` may
not be there yet. The run is ended by SIGKILL when half of what the estimate left is committed, and the same command
goes on with it. What was committed before the kill has to stand there afterwards as it stood: the same row, of the
same time, of the first attempt. The JSON holds each command with its output and seconds, the estimate beside the time
that the rest took, and the figures of all cells.
"""

from __future__ import annotations

import argparse
import json
import re
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from time import perf_counter, sleep
from typing import Any

from benchmarks.provenance import write
from draftverify.bench.config.experiment import load_experiment
from draftverify.bench.records import load_run

Step = dict[str, Any]


def said(*arguments: str) -> Step:
    """A command of draftverify, what it printed, and how long it took."""
    began = perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", "draftverify", *arguments], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"draftverify {shlex.join(arguments)} exited with {done.returncode}\n{done.stderr}")
    return step(arguments, perf_counter() - began, done.stdout, done.stderr)


def step(arguments: tuple[str, ...], seconds: float, stdout: str, stderr: str) -> Step:
    """What the JSON holds of a command."""
    print(f"{shlex.join(arguments)}: {seconds:.0f} s", flush=True)
    return {
        "command": shlex.join(("draftverify", *arguments)),
        "seconds": seconds,
        "stdout": stdout.splitlines(),
        "stderr": stderr.splitlines(),
    }


def killed(arguments: tuple[str, ...], path: Path, at: int) -> Step:
    """The command, ended by SIGKILL as soon as so many runs of tasks are committed."""
    began = perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", "draftverify", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    while committed(path) < at:
        if process.poll() is not None:
            raise SystemExit(f"the run ended before it could be killed, with {process.returncode}")
        sleep(0.2)
    process.send_signal(signal.SIGKILL)
    stdout, stderr = process.communicate()
    return {**step(arguments, perf_counter() - began, stdout, stderr), "exit": process.returncode}


def committed(path: Path) -> int:
    """Runs of tasks that are in the records."""
    with load_run(path, thorough=False) as run:
        return sum(run.store.counts().values())


def rows(path: Path) -> dict[str, Any]:
    """What stands in the records, by pipeline, task and attempt; failed attempts too."""
    text = said("export", str(path), "--to", "jsonl")["stdout"]
    found = {f"{row['pipeline']} / {row['task']}": row for row in map(json.loads, text)}
    if len(found) != len(text):
        raise SystemExit(f"{len(text)} rows of {len(found)} runs of tasks")
    return found


def attempts(path: Path) -> int:
    """Every attempt of every task, as the records have them."""
    with load_run(path) as run:
        return sum(1 for _ in run.store.entries(texts=False, every_attempt=True))


SHOWN = {
    "--dry-run": (6, 2),
    "--estimate": (4, 1),
    "compare": (5, 17),
}
"""Of a command's output, the first and the last lines that `--show` prints; of the others the last."""


def shown(found: dict[str, Any]) -> str:
    """The commands as they were typed, and the beginning and end of what each printed."""
    steps = found["steps"]
    options = steps[2]["command"].partition(" run ")[2]
    lines = ["```text", f"$ sweep=({options})" if " " in options else f"$ sweep={options}"]
    for each in steps:
        lines += [
            "",
            "$ " + each["command"].replace(options, '"${sweep[@]}"' if " " in options else "$sweep"),
        ]
        if "exit" in each:
            lines.append(f"(kill -9, with {found['runs']['before_the_kill']} of {found['runs']['all']} done)")
        key = next((key for key in SHOWN if key in each["command"]), None)
        first, last = SHOWN[key] if key is not None else (0, 1)
        out = each["stdout"]
        left = len(out) - first - last
        lines += out if left <= 1 else [*out[:first], f"… {left} lines …", *out[-last:]]
        lines.append(f"({each['seconds']:.0f} s)")
    return "\n".join(line.rstrip() for line in [*lines, "```"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("config", type=Path, nargs="?")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--report", type=Path, help="where to put the run's page")
    parser.add_argument("--limit", type=int, help="at most so many tasks of each group")
    parser.add_argument(
        "--set", dest="overrides", action="append", default=[], help="as draftverify run has it"
    )
    parser.add_argument("--show", type=Path, help="print the commands and what they printed, and run nothing")
    options = parser.parse_args()
    if options.show is not None:
        print(shown(json.loads(options.show.read_text())))
        return
    if options.config is None or options.out is None:
        parser.error("a config and --out are needed")

    experiment = load_experiment(options.config, overrides=options.overrides, limit=options.limit)
    path = Path("runs") / experiment.name
    if path.exists():
        parser.error(f"{path} is there already: move it aside")
    limit = () if options.limit is None else ("--limit", str(options.limit))
    command = (
        "run",
        str(options.config),
        *limit,
        *(word for each in options.overrides for word in ("--set", each)),
    )

    steps = [said(*command, "--dry-run"), said(*command, "--estimate")]
    total = next(int(line.split()[0]) for line in steps[0]["stdout"] if " runs of tasks in all" in line)
    estimated = committed(path)
    steps.append(killed(command, path, (estimated + total) // 2))
    before = rows(path)
    steps.append(said(*command))
    after = rows(path)
    again = sorted(name for name, row in before.items() if after.get(name) != row)
    for arguments in (
        ("compare", str(path)),
        ("view", str(path), "-o", str(path / "report.html")),
        ("export", str(path), "--to", "csv", "-o", f"{path}/tasks.csv"),
        ("export", str(path), "--to", "parquet", "-o", f"{path}/tasks.parquet"),
    ):
        steps.append(said(*arguments))
    if options.report is not None:
        options.report.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path / "report.html", options.report)
    with load_run(path) as run:
        summary = run.summary
    write(
        options.out,
        "benchmarks.sweep_killed",
        {
            "runs": {
                "all": total,
                "estimated_from": estimated,
                "before_the_kill": len(before),
                "after": len(after),
                "attempts": attempts(path),
                "run_again": again,
            },
            "estimate": next(line for line in steps[1]["stdout"] if re.match(r"the \d+ runs", line)),
            "rest_took": sum(each["seconds"] for each in steps[2:4]),
            "steps": steps,
            **(summary or {}),
        },
    )
    print(f"{len(before)} before the kill, {len(after)} of {total} after; run again: {again or 'none'}")


if __name__ == "__main__":
    main()
