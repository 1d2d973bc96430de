"""One benchmark of this checkout against the same one of another: run in turn, and the ratio of each figure.

    git worktree add ../before COMMIT
    python -m benchmarks.versions ../before benchmarks.engine_overhead [--repeats 5] [--out FILE] -- --repeats 5

Each checkout runs its own file of that name, in a process of its own, with the arguments after `--`: AB, BA, … A figure
is any number of the JSON that the benchmark writes. Given are both medians over repeats, and the ratio (this checkout's
to the other's) as a geometric mean of the pairs with its 95 % interval (Student's t on logarithms).
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from scipy.stats import t

from benchmarks.provenance import write

HERE = Path(__file__).parents[1]


def figures(checkout: Path, module: str, arguments: list[str]) -> dict[str, float]:
    """Run the benchmark in a checkout; its figures by dotted path."""
    roots = [checkout, *sorted((checkout / "adapters").iterdir())]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, roots))}
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "figures.json")
        command = [sys.executable, "-m", module, "--out", str(out), *arguments]
        subprocess.run(command, cwd=checkout, env=environment, check=True, stdout=subprocess.DEVNULL)
        found = json.loads(out.read_text())
    found.pop("provenance")
    return dict(_leaves(found, ""))


def _leaves(value: Any, path: str) -> Iterator[tuple[str, float]]:
    if isinstance(value, dict):
        for key, entry in value.items():
            yield from _leaves(entry, f"{path}.{key}" if path else key)
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        yield path, float(value)


def ratio(pairs: list[tuple[float, float]]) -> dict[str, float]:
    """This checkout's to the other's: the geometric mean of the pairs, with its interval."""
    logs = [math.log(ours / theirs) for ours, theirs in pairs]
    mean = statistics.fmean(logs)
    half = 0.0
    if len(logs) > 1:
        half = float(t.ppf(0.975, len(logs) - 1)) * statistics.stdev(logs) / math.sqrt(len(logs))
    return {"ratio": math.exp(mean), "low": math.exp(mean - half), "high": math.exp(mean + half)}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("other", type=Path)
    parser.add_argument("module")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--out", type=Path, required=True)
    at = sys.argv.index("--") if "--" in sys.argv else len(sys.argv)
    options, arguments = parser.parse_args(sys.argv[1:at]), sys.argv[at + 1 :]
    sides: dict[str, list[dict[str, float]]] = {"ours": [], "theirs": []}
    checkouts = {"ours": HERE, "theirs": options.other.resolve()}
    for repeat in range(options.repeats):
        order = ("ours", "theirs") if repeat % 2 == 0 else ("theirs", "ours")
        for side in order:
            sides[side].append(figures(checkouts[side], options.module, arguments))
    found = {}
    for name in sides["ours"][0]:
        if all(name in one for side in sides.values() for one in side):
            pairs = [
                (ours[name], theirs[name])
                for ours, theirs in zip(sides["ours"], sides["theirs"], strict=True)
            ]
            if all(each > 0 for pair in pairs for each in pair) and len(set(pairs)) > 1:
                found[name] = {
                    "ours": statistics.median(pair[0] for pair in pairs),
                    "theirs": statistics.median(pair[1] for pair in pairs),
                    **ratio(pairs),
                }
    git = ["git", "-C", str(checkouts["theirs"]), "rev-parse", "HEAD"]
    theirs = subprocess.run(git, capture_output=True, text=True, check=False).stdout.strip()
    write(
        options.out,
        "benchmarks.versions",
        {"other": theirs, "repeats": options.repeats, "figures": found},
    )
    for name, each in found.items():
        print(
            f"{name:45s} {each['ours']:12.4g} {each['theirs']:12.4g}  "
            f"{each['ratio']:.2f} [{each['low']:.2f}, {each['high']:.2f}]"
        )


if __name__ == "__main__":
    main()
