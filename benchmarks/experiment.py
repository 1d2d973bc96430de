"""The figures of an example experiment: what drafting was predicted to be worth, and what it was worth.

    python -m benchmarks.experiment examples/quickstart.yaml --out benchmarks/results/quickstart.json
    python -m benchmarks.experiment examples/extract.yaml --out benchmarks/results/extract.json
    python -m benchmarks.experiment examples/plan.yaml --out benchmarks/results/plan.json
    python -m benchmarks.experiment examples/code-humaneval.yaml --out benchmarks/results/code_humaneval.json
    python -m benchmarks.experiment examples/code-repair.yaml --out benchmarks/results/code_repair_examples.json

Pipelines are interleaved per task, the order alternating; where the config calibrates, predictions are stored before
the measured tasks are run. The JSON holds every figure of the run's summary.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from benchmarks.provenance import write
from draftverify.experiments.config import load_experiment
from draftverify.experiments.run import run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("config", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        result = run(load_experiment(options.config), out=Path(folder) / "run")
    write(options.out, "benchmarks.experiment", {"repeats": 1, **result.summary.plain()})
    for pipeline in result.summary.pipelines:
        for row in pipeline.rows:
            print(pipeline.name, row.group or "all", row.predicted, row.speedup)


if __name__ == "__main__":
    main()
