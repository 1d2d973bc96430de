"""Small real runs of each shape that a report shows, and what stands in the pages made of them."""

from __future__ import annotations

import base64
import gzip
import json
import re
from pathlib import Path
from typing import Any

from draftverify.bench.config.experiment import load_experiment
from draftverify.bench.runner.run import run

PARTS = Path(__file__).with_name("report_parts.py")

SHAPES = """
name: shapes
seed: 5
parts: [{parts}]
tasks: {{use: report_parts.Asked, count: {count}}}
metrics: {{right: {{use: python, function: report_parts.right}}}}
pipelines:
  sure:
    generator: {{use: report_parts.Programs, right: true}}
    verifier: {{use: report_parts.Doubles}}
    rule: {{use: first}}
    block: 1
  code:
    generator: {{use: report_parts.Programs}}
    verifier: {{use: report_parts.Doubles}}
    rule: {{use: first}}
    block: 2
    on_rejection: [{{do: feedback, times: 1}}]
  escalated:
    generator: {{use: report_parts.Programs}}
    verifier: {{use: report_parts.Doubles}}
    rule: {{use: first}}
    block: 2
    on_rejection:
      - {{do: fallback, generator: {{use: report_parts.Votes}}, rounds: 1, times: 1}}
      - {{do: escalate}}
  votes:
    generator: {{use: report_parts.Votes}}
    verifier: {{use: report_parts.Fine}}
    rule: {{use: majority}}
    block: 5
    done: {{use: rounds, n: 1}}
  plan:
    generator: {{use: report_parts.Walk}}
    verifier: {{use: report_parts.Follows}}
    rule: {{use: longest_prefix}}
    block: 4
    done: {{use: limit, items: 6}}
baseline: sure
"""


def shapes(folder: Path, count: int = 10) -> Path:
    """A run with a pipeline of every shape; some tasks are refused, some wait, some drafts are hostile."""
    file = folder / "shapes.yaml"
    file.write_text(SHAPES.format(parts=PARTS, count=count))
    command = ("draftverify", "run", "shapes.yaml")
    return run(load_experiment(file), out=folder / "run", command=command).path


def element(html: str, name: str) -> str:
    """The text of a script element of a page."""
    found = re.search(rf'<script type="[^"]*" id="{name}">(.*?)</script>', html, re.S)
    assert found is not None, f"the page has no {name}"
    return found[1]


def overview_of(html: str) -> dict[str, Any]:
    """The figures in a page."""
    found: dict[str, Any] = json.loads(element(html, "overview"))
    return found


def unpacked(html: str, name: str) -> Any:
    """What is packed in a page's element."""
    return json.loads(gzip.decompress(base64.b64decode(element(html, name))))
