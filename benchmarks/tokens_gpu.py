"""Token decoding on a GPU: what is right there, and how near it comes to what the device can do.

    python -m benchmarks.tokens_gpu [--part correctness bandwidth plain speculate assisted batches] [--seconds 540]
        [--wheels .wheels] [--out benchmarks/results/tokens_gpu.json] [--again]
    python -m benchmarks.tokens_gpu --rehearse --out gpu.json    # the same on a CPU with tiny models, under a minute

It is made for machines that are lent for minutes and have no network:

- **Wheels.** What a bare machine with torch and transformers lacks is downloaded before, into a folder that git
  ignores, and carried along:

      python -m pip download --no-deps --only-binary=:all: --python-version 3.12 --implementation cp
          --platform manylinux_2_28_x86_64 --platform manylinux_2_17_x86_64 --platform manylinux2014_x86_64
          -r benchmarks/gpu_requirements.txt -d .wheels

  `--wheels .wheels` unpacks there, into a temporary folder, those that the machine has not, or has older. Adapters are
  found beside this file, so that draftverify need not be installed.
- **Parts and steps.** Each part is a list of steps, and the JSON is written after each one: a run that is killed keeps
  what it measured. The next run on the same JSON goes on with what is missing (`--again` measures the asked parts
  anew). A step that would not end within `--seconds` is not begun and is named under `left_out`. A step that fails
  leaves its traceback in its place, and the next one begins.

Parts, in this order by default:

- correctness: a small model in float32 on the device. For lookup, suffix, draft model, early exit and tree, one session
  and four of different lengths: tokens beside plain decoding there, plain decoding on the CPU and transformers'
  generate; and what was compiled and captured after a first run, on prompts of other lengths.
- bandwidth: bytes per second that a copy reads and writes.
- plain: one session of a model of the shape of Llama-3-8B in bfloat16, random weights; the bytes of weights and cache
  that its passes read per second as a share of the copy's (goal: 0.8).
- speculate: the model's early exit drafts γ tokens a round; speed as a share of E[τ] / (γ·t_D + t_V) (goal: 0.95). t_D
  is a round of plain decoding with the early exit as the target, t_V a round whose γ tokens are known beforehand and
  cost nothing to draft: whole runs of the engine, like what they are compared with.
- assisted: transformers' assisted generation with the same early exit, taking turns with ours (goal: 4 times as fast).
- batches: 1 to 64 sessions, plain and with the drafter.

What the later layers add to the stream is scaled until the early exit's likeliest token is the model's at the chosen
rate (`--agreement`), so draft and target are as costly as real ones and agree as often as one likes. A way's first run
compiles, captures and allocates; its seconds are recorded apart from the timed ones, as is what the timed ones compiled
and captured all the same. Ways take turns, the order turning round; medians, with the least and the greatest.
"""

from __future__ import annotations

import argparse
import importlib
import json
import re
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from time import perf_counter
from typing import Any

from benchmarks.provenance import provenance, write

ROOT = Path(__file__).resolve().parents[1]
PARTS = ("correctness", "bandwidth", "plain", "speculate", "assisted", "batches")
SPARE = 1.3
"""A step may take so much longer than the one before it of its part."""


def carried(wheels: Path) -> list[str]:
    """Unpack those wheels of a folder whose distribution this machine lacks or has older, and let Python find them.

    Returns:
        The names of the files that were unpacked.
    """
    missing = []
    for wheel in sorted(wheels.glob("*.whl")):
        name, wanted = wheel.name.split("-")[:2]
        try:
            there = version(name.replace("_", "-"))
        except PackageNotFoundError:
            there = "0"
        if _numbers(there) < _numbers(wanted):
            missing.append(wheel)
    if missing:
        target = tempfile.mkdtemp(prefix="wheels-")
        subprocess.run(
            [sys.executable, "-m", "pip", "install", "-q", "--no-index", "--no-deps", "--target", target, *missing],
            check=True,
        )  # fmt: skip
        sys.path.insert(0, target)
        importlib.invalidate_caches()
    return [wheel.name for wheel in missing]


def _numbers(version: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", version)]


def find_adapters() -> None:
    """Let Python find draftverify and its adapters in this checkout where they are not installed."""
    for path in (ROOT, *sorted((ROOT / "adapters").iterdir())):
        if path.is_dir() and str(path) not in sys.path:
            sys.path.append(str(path))


class Log:
    """The JSON that is written after each step.

    Args:
        path: where it lies; what stands there is gone on with.
        settings: of this run. A step of other settings is measured anew.
        again: the parts that are measured anew all the same.
    """

    def __init__(self, path: Path, settings: dict[str, Any], again: Sequence[str]) -> None:
        self.path = path
        self.settings = settings
        self.again = set(again)
        self.figures: dict[str, Any] = {"parts": {}}
        if path.exists():
            self.figures = json.loads(path.read_text())
            self.figures.pop("provenance", None)
        for part in self.again:
            self.figures["parts"].pop(part, None)
        self.figures["left_out"] = []

    def done(self, part: str, step: str) -> bool:
        """Whether this step was measured under these settings."""
        row = self.figures["parts"].get(part, {}).get(step)
        return row is not None and "error" not in row and row["settings"] == self.settings

    def note(self, **more: Any) -> None:
        """Write what belongs to the whole run."""
        self.figures.update(more)
        write(self.path, "benchmarks.tokens_gpu", self.figures)

    def put(self, part: str, step: str, row: dict[str, Any]) -> None:
        """Write a step's figures."""
        row |= {"settings": self.settings, "commit": provenance("")["commit"]}
        self.figures["parts"].setdefault(part, {})[step] = row
        self.note()


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    """Run the asked parts as far as the time goes; the figures."""
    begun = perf_counter()
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--part", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--seconds", type=float, default=540.0, help="no step is begun that would end later")
    parser.add_argument("--wheels", type=Path, help="a folder of wheels for what this machine lacks")
    parser.add_argument("--again", action="store_true", help="measure the asked parts anew")
    parser.add_argument("--rehearse", action="store_true", help="tiny models on a CPU")
    parser.add_argument("--agreement", type=float, default=0.8)
    parser.add_argument("--layers", type=int, help="of the early exit; an eighth of the model's by default")
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 4, 16, 64])
    parser.add_argument("--gammas", type=int, nargs="+", default=[2, 4, 6])
    parser.add_argument("--prompt", type=int, default=128)
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/tokens_gpu.json"))
    options = parser.parse_args(arguments)

    settings = {
        name: getattr(options, name)
        for name in ("rehearse", "agreement", "layers", "prompt", "tokens", "repeats")
    }
    log = Log(options.out, settings, options.part if options.again else ())
    unpacked = carried(options.wheels) if options.wheels else []
    find_adapters()
    from benchmarks.tokens_gpu_parts import Lab, steps

    lab = Lab(options)
    log.note(device=lab.name, unpacked=unpacked)
    for part in options.part:
        took = 0.0
        for step, expected, measure in steps(part, lab, options):
            if log.done(part, step):
                took = log.figures["parts"][part][step]["took"]
                print(f"{part}, {step}: there already", flush=True)
                continue
            left = options.seconds - (perf_counter() - begun)
            if max(expected, took * SPARE) > left:
                log.figures["left_out"].append({"part": part, "step": step, "seconds_left": left})
                log.note()
                print(f"{part}, {step}: left out, {left:.0f} s are left", flush=True)
                continue
            start = perf_counter()
            try:
                row = measure()
            except Exception:  # whatever it is, the next step may do
                row = {"error": traceback.format_exc()}
                lab.recover()
            took = perf_counter() - start
            log.put(part, step, {**row, "took": took})
            print(f"{part}, {step}, {took:.1f} s: {row.get('error') or row}", flush=True)
    return log.figures


if __name__ == "__main__":
    main()
