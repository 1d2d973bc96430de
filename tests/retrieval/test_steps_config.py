"""Draft-verify in an index as a config says it."""

from __future__ import annotations

import json
from pathlib import Path

from draftverify.bench.config.experiment import load_experiment
from draftverify.bench.records import load_run
from draftverify.bench.runner.run import run

CONFIG = """
name: onward
parts: [./onward.py]
tasks: {use: jsonl, path: tasks.jsonl}
models:
  corpus: {use: retrieval.corpus, path: docs}
  index: {use: retrieval.bm25, corpus: corpus}
  other: {use: retrieval.bm25, corpus: corpus, k1: 1.2}
pipelines:
"""
PIPELINE = """
  %s:
    generator: {use: retrieval.approximate, index: other, k: 2, next_query: onward.onward, corpus: corpus}
    verifier: {use: retrieval.exact_search, index: index, k: 2, next_query: onward.onward, corpus: corpus}
    rule: {use: longest_prefix}
    block: %s
"""
ONWARD = '''
def onward(task, found):
    """Asks for the first words of what was found last."""
    if len(found) == 8:
        return None
    return " ".join(found[-1]["passages"][-1]["text"].split()[:9]) if found else task.input["about"]
'''
DOCS = Path(__file__).parents[2] / "docs"


def test_steps_from_a_config_are_the_same_with_drafts(tmp_path):
    """A function of one's own asks; the plain pipeline and the drafting ones find the same passages."""
    (tmp_path / "docs").mkdir()
    for name in ("architecture", "plugins", "testing"):
        (tmp_path / "docs" / f"{name}.md").write_text((DOCS / f"{name}.md").read_text())
    (tmp_path / "onward.py").write_text(ONWARD)
    (tmp_path / "tasks.jsonl").write_text("".join(
        json.dumps({"id": str(i), "about": about}) + "\n"
        for i, about in enumerate(("a block of drafts", "a conformance check", "entry points"))
    ))  # fmt: skip
    blocks = {"plain": "0", "three": "3", "measured": "{use: measured}"}
    (tmp_path / "c.yaml").write_text(CONFIG + "".join(PIPELINE % each for each in blocks.items()))
    out = tmp_path / "run"
    run(load_experiment(tmp_path / "c.yaml"), out=out)
    with load_run(out) as records:
        found = {name: {each.task: each.outcome for each in records.records(name)} for name in blocks}
    for task, plain in found["plain"].items():
        assert plain.status == "accepted"
        assert len(plain.value) == 8
        assert plain.rounds == 8
        assert found["three"][task].value == found["measured"][task].value == plain.value
    assert any(outcome.rounds < 8 for outcome in found["three"].values())
