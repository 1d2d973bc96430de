"""The audit of the quickstart's pipeline on its real model: greedy text by prompt lookup is that of plain steps."""

from __future__ import annotations

from pathlib import Path

import pytest

from draftverify.bench.config.experiment import load_experiment
from draftverify.bench.runner.build import Builder
from draftverify.kit.audit import lossless

pytestmark = [pytest.mark.weights, pytest.mark.slow, pytest.mark.usefixtures("short_enumerations")]

QUICKSTART = Path(__file__).parents[2] / "examples" / "quickstart.yaml"


def test_the_quickstart_is_lossless():
    """In float32, at prefixes where prompt lookup drafted, and in whole answers."""
    overrides = ["pipelines.lookup.done.max_tokens=24", "tasks.limit=2"]
    experiment = load_experiment(QUICKSTART, overrides=overrides)
    builder = Builder()
    (spec,) = (each for each in experiment.pipelines if each.name == "lookup")
    pipeline = builder.pipeline(spec)
    with pipeline:
        found = lossless(pipeline, builder.part(experiment.tasks).load(), prefixes=4, copies=512)
    assert found.passed, found.found
    assert found.exact
    assert found.text is not None
    assert found.text.same + len(found.text.divergences) == 2
    assert found.draws is not None
    assert found.draws.drafted > 0
