"""The audit of the quickstart's pipeline on its real model: greedy text by prompt lookup is that of plain steps."""

from __future__ import annotations

from pathlib import Path

import pytest

from draftverify.bench.config.experiment import load_experiment
from draftverify.bench.runner.build import Builder
from draftverify.kit.audit import lossless

pytestmark = [pytest.mark.weights, pytest.mark.slow, pytest.mark.usefixtures("short_enumerations")]

QUICKSTART = Path(__file__).parents[2] / "examples" / "quickstart.yaml"


@pytest.mark.parametrize(
    ("tasks", "tokens", "prefixes", "copies"),
    [(1, 8, 1, 128), pytest.param(2, 24, 4, 512, marks=pytest.mark.exhaustive)],
)
def test_the_quickstart_is_lossless(tasks, tokens, prefixes, copies):
    """In float32, at prefixes where prompt lookup drafted, and in whole answers."""
    overrides = [f"pipelines.lookup.done.max_tokens={tokens}", f"tasks.limit={tasks}"]
    experiment = load_experiment(QUICKSTART, overrides=overrides)
    builder = Builder()
    (spec,) = (each for each in experiment.pipelines if each.name == "lookup")
    pipeline = builder.pipeline(spec)
    with pipeline:
        found = lossless(pipeline, builder.part(experiment.tasks).load(), prefixes=prefixes, copies=copies)
    assert found.passed, found.found
    assert found.exact
    assert found.text is not None
    assert found.text.same + len(found.text.divergences) == tasks
    assert found.draws is not None
    assert found.draws.drafted > 0
