"""The figures of an example experiment, and its report: what drafting was predicted to be worth, and what it was worth.

    python -m benchmarks.experiment examples/quickstart.yaml --out benchmarks/results/quickstart.json \
        --report docs/gallery/quickstart.html
    python -m benchmarks.experiment examples/extract.yaml --out benchmarks/results/extract.json
    python -m benchmarks.experiment examples/plan.yaml --out benchmarks/results/plan.json
    python -m benchmarks.experiment examples/code-humaneval.yaml --out benchmarks/results/code_humaneval.json
    python -m benchmarks.experiment examples/code-repair.yaml --out benchmarks/results/code_repair_examples.json

The run is what `draftverify run` would make of the config, in runs/NAME, begun anew: a run that is there is moved
aside. Pipelines are interleaved per task, the order alternating; where the config predicts, predictions are stored
before the measured tasks are run. The JSON holds every figure of the run's summary.
"""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

from benchmarks.provenance import write
from draftverify.bench.config.experiment import load_experiment
from draftverify.bench.runner.run import run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("config", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--report", type=Path, help="where to put the run's page")
    parser.add_argument("--limit", type=int, help="at most so many tasks of each group")
    parser.add_argument(
        "--set", dest="overrides", action="append", default=[], help="as draftverify run has it"
    )
    options = parser.parse_args()
    experiment = load_experiment(options.config, overrides=options.overrides, limit=options.limit)
    limit = [] if options.limit is None else ["--limit", str(options.limit)]
    sets = [word for each in options.overrides for word in ("--set", each)]
    command = ("draftverify", "run", str(options.config), *limit, *sets)
    result = run(experiment, out=Path("runs") / experiment.name, fresh=True, command=command)
    if options.report is not None:
        options.report.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(result.path / "report.html", options.report)
    write(options.out, "benchmarks.experiment", {"repeats": 1, **result.summary.plain()})
    for pipeline in result.summary.pipelines:
        for row in pipeline.rows:
            print(pipeline.name, row.group or "all", row.predicted, row.speedup)


if __name__ == "__main__":
    main()
