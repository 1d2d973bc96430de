"""The command: which parts to run, on what, and whether a figure was missed.

    python -m benchmarks.code --data DIR [--part hidden,codet,harness,block] [--out benchmarks/results]

DIR holds the folder humaneval_codegen16b. Each part writes code_<part>.json; the exit status is 1 when a figure is not
where it should be. `--limit N` takes N problems only, for a try; the reference figures are not asked for then.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.code import block, codet, harness, hidden
from benchmarks.code.estimators import Targets
from benchmarks.code.recorded import PUBLISHED_STOPS, Recording, load
from benchmarks.provenance import provenance
from draftverify.stats import Estimate

PARTS = ("hidden", "codet", "harness", "block")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--data", type=Path, required=True, help="the folder that holds humaneval_codegen16b")
    parser.add_argument("--part", default=",".join(PARTS), help="which parts, with commas (all)")
    parser.add_argument(
        "--out", type=Path, default=Path("benchmarks/results"), help="where the JSON files go"
    )
    parser.add_argument("--limit", type=int, help="so many problems, for a try")
    parser.add_argument("--repeats", type=int, default=3, help="of what is timed in turns (3)")
    options = parser.parse_args()
    parts = options.part.split(",")
    if unknown := set(parts) - set(PARTS):
        parser.error(f"there is no part {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}")
    data = options.data / "humaneval_codegen16b"
    recordings, published = load(data, options.limit), load(data, options.limit, PUBLISHED_STOPS)
    options.out.mkdir(parents=True, exist_ok=True)
    whole, missed = options.limit is None, 0
    for part in parts:
        print(f"--- {part}", flush=True)
        if part == "hidden":
            figures, targets = hidden.measure(recordings, published, whole=whole)
        elif part == "codet":
            verdicts = _verdicts(options.out, recordings, published)
            tests = data / "generated_tests.jsonl"
            figures, targets = codet.measure(recordings, published, tests, verdicts, whole=whole)
        elif part == "harness":
            figures, targets = harness.measure(recordings, whole=whole, repeats=options.repeats)
        else:
            figures, targets = block.measure(recordings, repeats=options.repeats)
        _write(options.out / f"code_{part}.json", {"targets": targets.rows, **figures})
        missed += _show(figures, targets)
    return 1 if missed else 0


def _verdicts(
    out: Path, recordings: Sequence[Recording], published: Sequence[Recording]
) -> dict[str, dict[str, str]]:
    """What the hidden tests say: as part `hidden` wrote it down last, or by running them now."""
    path = out / "code_hidden.json"
    found = json.loads(path.read_text())["verdicts"] if path.exists() else {"recording": {}}
    if not all(one.task.id in found["recording"] for one in recordings):
        found = hidden.measure(recordings, published, whole=False)[0]["verdicts"]
    return {name: {one.task.id: each[one.task.id] for one in recordings} for name, each in found.items()}


def _write(path: Path, figures: dict[str, Any]) -> None:
    found = {"provenance": provenance("benchmarks.code"), **figures}
    path.write_bytes(msgspec.json.format(msgspec.json.encode(found), indent=1) + b"\n")


def _show(figures: dict[str, Any], targets: Targets) -> int:
    """Print a part's figures, long lists left out; how many were missed."""
    for name, value in figures.items():
        text = _text(value)
        print(f"{name}: {text}" if len(text) < 1500 else f"{name}: in the JSON")
    for row in targets.rows:
        said = "ok    " if row["ok"] else "MISSED"
        print(f"{said} {row['what']}: {_text(row['value'])} (wanted {row['wanted']})", flush=True)
    return len(targets.missed)


def _text(value: Any) -> str:
    if isinstance(value, Estimate):
        return f"{value.value:.4g} [{value.low:.3g}, {value.high:.3g}]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name}: {_text(each)}" for name, each in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(_text, value)) + "]"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


if __name__ == "__main__":
    sys.exit(main())
