"""`draftverify audit verifier`: a run's verifiers held against labels, on the terminal and in the report."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from draftverify import ConfigError
from draftverify.bench.artifact import read_artifact
from draftverify.bench.cli.main import main
from draftverify.bench.records import load_run
from draftverify.kit.audit import JudgedItem, JudgedPipeline, VerifierAudit, audit_verifiers
from draftverify.stats.judgement import auroc, error_correlation, roc, trust
from draftverify.view.overview import overview
from tests.browser import watched

PARTS = """
from draftverify import Check, GeneratorTraits, Proposal, Task, Verification, VerifierTraits


class Numbers:
    def load(self):
        return [Task(id=str(i), input={"n": i}, expected={"from": 6}) for i in range(20)]


class Guesses:
    traits = GeneratorTraits(shape="alternatives")

    def __init__(self, step: int = 7) -> None:
        self.step = step

    def propose(self, context, n):
        return Proposal.alternatives([(self.step * i + int(context.task.id)) % 10 for i in range(n)])


class Steps(Guesses):
    traits = GeneratorTraits(shape="chain")

    def propose(self, context, n):
        return Proposal.chain([1] * n)


class AtLeast:
    traits = VerifierTraits(provides={"verdicts", "scores"})

    def __init__(self, least: int) -> None:
        self.least = least

    def verify(self, context, proposal):
        checks = [Check("pass" if item >= self.least else "reject", score=item) for item in proposal.items]
        return Verification(checks=tuple(checks))


def right(task, outcome):
    values = outcome.value if isinstance(outcome.value, (list, tuple)) else [outcome.value]
    return outcome.status == "accepted" and all(value >= task.expected["from"] for value in values)


def some(task, outcome):
    return right(task, outcome) if int(task.id) % 4 == 0 else None


def mute(task, outcome):
    return None
"""

CONFIG = """
parts: [./own.py]
tasks: {use: own.Numbers}
defaults: {rule: {use: all}, block: 4, generator: {use: own.Guesses}, verifier: {use: own.AtLeast, least: 5}}
pipelines:
  lax: {}
  other: {generator: {use: own.Guesses, step: 3}}
  strict: {verifier: {use: own.AtLeast, least: 7}}
  steps: {generator: {use: own.Steps}, rule: {use: longest_prefix}, on_rejection: []}
metrics:
  right: {use: python, function: own.right}
  some: {use: python, function: own.some}
  mute: {use: python, function: own.mute}
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trust")
    (folder / "own.py").write_text(PARTS)
    (folder / "run.yaml").write_text(CONFIG)
    assert main(["run", str(folder / "run.yaml"), "--out", str(folder / "run")]) == 0
    return folder


def audited(made: Path, *arguments: str) -> VerifierAudit:
    assert main(["audit", "verifier", str(made / "run"), *arguments]) == 0
    return read_artifact(made / "run" / "verifiers.json", VerifierAudit)


def figures(probe: Any) -> dict[str, Any]:
    return {each.name: each for each in probe.figures}


def test_a_runs_verifiers_are_held_against_the_metric(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Every item that was judged has a label, and the figures are those of `trust` and `auroc`."""
    found = audited(made)
    out = capsys.readouterr().out
    assert "labels: the metric right" in out
    assert "verifiers.json" in out
    items = [(str(t), (7 * i + t) % 10) for t in range(20) for i in range(4)]
    passed, right = [item >= 5 for _, item in items], [item >= 6 for _, item in items]
    tasks = [task for task, _ in items]
    word = trust(passed, right, tasks)
    mine = figures(found.pipelines[0])
    for name, wanted in (
        ("T", word.true_pass),
        ("F", word.false_pass),
        ("T − F", word.informedness),
        ("π", word.base),
        ("α", word.acceptance),
        ("precision", word.precision),
        ("right among refused", word.missed),
        ("resampled", word.resampled),
        (
            "φ with the generator's errors",
            error_correlation(
                [not each for each in right], [a != b for a, b in zip(passed, right, strict=True)], tasks
            ),
        ),
        ("ROC area", auroc([float(item) for _, item in items], right, tasks)),
    ):
        assert (mine[name].value, mine[name].low, mine[name].high) == (wanted.value, wanted.low, wanted.high)
    assert mine["ROC area within tasks"].value == 1.0
    assert mine["seconds"].value > 0
    curve = found.curves["lax"]
    assert curve == roc([float(item) for _, item in items], right, tasks)
    assert "scores from" in out
    assert f"{curve.points[-1].threshold:.4g}  1.000  1.000" in out
    assert "steps of one answer" in found.pipelines[3].untested


def test_the_report_shows_the_same_until_records_are_written(made: Path) -> None:
    """From the file that the command wrote; one of other records is not shown."""
    found = audited(made)
    with load_run(made / "run") as run:
        assert (
            overview(run)["verifiers"]["pipelines"]
            == json.loads((made / "run" / "verifiers.json").read_text())["pipelines"]
        )
        path = made / "run" / "verifiers.json"
        path.write_text(path.read_text().replace(found.written, "others"))
        assert overview(run)["verifiers"] is None


def test_the_report_draws_the_curves(made: Path, chromium: Any) -> None:
    """A line over all items and one within tasks, of each pipeline whose verifier gives scores."""
    found = audited(made)
    assert set(found.curves) == {"lax", "other", "strict"}
    assert main(["view", str(made / "run"), "-o", str(made / "run" / "report.html")]) == 0
    with watched(chromium) as seen:
        page = seen.page
        page.goto(f"file://{made}/run/report.html")
        page.wait_for_selector("html[data-ready]", state="attached")
        page.get_by_text("ROC curves of the scores").click()
        chart = "[aria-label^='The share of right items that pass'] svg"
        page.wait_for_selector(f"{chart} path", state="attached")
        assert page.locator(f"{chart} path[stroke-width='2']").count() == 6


def test_few_labels_are_helped_by_the_verdicts(made: Path) -> None:
    """A metric that knows of every fourth task labels its items alone, and PPI++ takes the others in."""
    mine = figures(audited(made, "--metric", "some", "--pipeline", "lax").pipelines[0])
    assert (mine["T"].questions, mine["π"].questions, mine["π by PPI++"].questions) == (5, 5, 20)
    assert mine["π by PPI++"].high - mine["π by PPI++"].low < mine["π"].high - mine["π"].low


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (["--metric", "mute"], "lax: none of 80 judged items has a label; other:"),
        (["--metric", "people", "--pipeline", "lax"], "lax: none of 80 judged items has a label"),
        (["--pipeline", "steps"], "steps of one answer"),
        (["--pipeline", "laxx"], "did you mean lax"),
        (["--metric", "rigth"], "did you mean right"),
    ],
)
def test_without_labels_it_is_refused_in_words(
    made: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], what: str
) -> None:
    """Of every pipeline why; no file is written for it."""
    assert main(["audit", "verifier", str(made / "run"), *arguments]) != 0
    assert what in " ".join(capsys.readouterr().err.split())


def test_people_say_how_often_a_refusal_was_wrong(
    made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """They were asked about drafts that were refused, so the other figures are left out."""
    (tmp_path / "own.py").write_text(PARTS)
    asks = """
parts: [./own.py]
tasks: {use: own.Numbers}
pipelines:
  asks:
    {generator: {use: own.Guesses}, verifier: {use: own.AtLeast, least: 7}, rule: {use: first},
     on_rejection: [{do: escalate}]}
"""
    (tmp_path / "asks.yaml").write_text(asks)
    run = str(tmp_path / "run")
    main(["run", str(tmp_path / "asks.yaml"), "--out", run])
    replies = [
        {"task": str(n), "answer": "accept" if n % 10 == 6 else "reject"} for n in (1, 2, 5, 6, 11, 16)
    ]
    (tmp_path / "answers.jsonl").write_text("\n".join(map(json.dumps, replies)))
    assert main(["view", run, "--review", str(tmp_path / "answers.jsonl")]) == 0
    main(["run", str(tmp_path / "asks.yaml"), "--out", run])
    capsys.readouterr()
    assert main(["audit", "verifier", run, "--metric", "people", "--json"]) == 0
    (asked,) = json.loads(capsys.readouterr().out)["pipelines"]
    assert [(each["name"], each["value"], each["n"]) for each in asked["figures"]] == [
        ("right among refused", pytest.approx(1 / 3), 6)
    ]


def test_what_generators_and_verifiers_get_wrong_together(made: Path) -> None:
    """Two generators under one verifier are compared by F, and two verifiers of the same items by φ."""
    names = [each.name for each in audited(made).shared.figures]
    assert names == ["F of lax over the others'", "φ of the errors of lax and strict"]


def test_a_planted_blind_spot_is_found() -> None:
    """A verifier that passes the wrong items of its own kind, and none of the others'; it errs where its copy errs."""
    own = [JudgedItem(str(t), f"own {t}", True, False) for t in range(30)]
    others = [JudgedItem(str(t), f"other {t}", t % 5 == 0, False) for t in range(30)]
    judged = [
        JudgedPipeline("own", "a", "v", related=True, items=tuple(own)),
        JudgedPipeline("b", "b", "v", items=tuple(others)),
        JudgedPipeline("c", "c", "v", items=tuple(others)),
        JudgedPipeline("copy", "b", "w", items=tuple(others)),
    ]
    _, shared = audit_verifiers(judged)
    ratio, phi = shared.figures
    assert ratio.name == "F of own over the others'"
    assert ratio.low is not None
    assert ratio.low > 2
    assert phi.value == pytest.approx(1.0)


def test_errors_are_the_verifiers_and_the_rules_together() -> None:
    """One verifier under two rules is told apart by the rule, and no verifier is compared with itself."""
    expected = [t % 2 == 0 for t in range(40)]

    def items(wrong: set[int]) -> tuple[JudgedItem, ...]:
        return tuple(
            JudgedItem(str(t), "x", right != (t in wrong), right) for t, right in enumerate(expected)
        )

    some, others = set(range(0, 40, 5)), set(range(1, 40, 5))
    _, shared = audit_verifiers(
        [
            JudgedPipeline("a", "g", "v", "one", items=items(some)),
            JudgedPipeline("b", "g", "v", "two", items=items(others)),
            JudgedPipeline("c", "g", "w", "one", items=items(some)),
        ]
    )
    assert [(each.name, each.value) for each in shared.figures] == [
        ("φ of the errors of a and c", pytest.approx(1.0)),
        ("φ of the errors of b and c", pytest.approx(-0.25)),
    ]


@pytest.mark.parametrize(("cost", "name"), [(0.0, "seconds"), (0.5, "cost")])
def test_a_right_item_costs_units_where_there_are_any(cost: float, name: str) -> None:
    """Prices count before a clock."""
    items = tuple(JudgedItem(str(t), "x", True, t % 2 == 0, seconds=3.0, cost=cost) for t in range(20))
    (probe,), _ = audit_verifiers([JudgedPipeline("p", "g", "v", items=items)])
    (found,) = (each for each in probe.figures if each.name in ("seconds", "cost"))
    assert (found.name, found.value) == (name, pytest.approx(2 * (cost or 3.0)))


def test_a_shared_pass_is_paid_once(tmp_path: Path) -> None:
    """In a batch of sixteen an item costs its share of the pass, not the sixteen times that its task waited."""
    parts = PARTS.replace(
        "return Verification(checks=tuple(checks))",
        """return Verification(checks=tuple(checks))

    def verify_many(self, contexts, proposals):
        time.sleep(0.05)
        return [self.verify(*each) for each in zip(contexts, proposals)]""",
    )
    (tmp_path / "own.py").write_text("import time\n" + parts)
    lax = CONFIG[: CONFIG.index("  other:")] + "metrics: {right: {use: python, function: own.right}}\n"
    (tmp_path / "run.yaml").write_text(lax + "executor: {use: batch, size: 20}\n")
    assert main(["run", str(tmp_path / "run.yaml"), "--out", str(tmp_path / "run")]) == 0
    assert main(["audit", "verifier", str(tmp_path / "run")]) == 0
    mine = figures(read_artifact(tmp_path / "run" / "verifiers.json", VerifierAudit).pipelines[0])
    right = sum((7 * i + t) % 10 >= 6 for t in range(20) for i in range(4))
    assert mine["seconds"].value * right < 20 * 0.05 / 2


@pytest.mark.parametrize(("passed", "name"), [(False, "right among refused"), (True, "precision")])
def test_labels_of_one_side_say_nothing_of_the_other(passed: bool, name: str) -> None:
    """People are asked about what was refused: that gives no T, no F and no α."""
    items = [JudgedItem(str(t), "x", passed, t % 3 == 0) for t in range(30)]
    items += [JudgedItem(str(t), "y", not passed, None) for t in range(30)]
    (probe,), _ = audit_verifiers([JudgedPipeline("p", "g", "v", items=tuple(items))])
    assert [(each.name, each.value) for each in probe.figures] == [(name, pytest.approx(1 / 3))]


def test_nothing_judged_is_told() -> None:
    """With the pipeline's own reason."""
    with pytest.raises(ConfigError, match="nothing to hold a verifier against: p: no item was judged"):
        audit_verifiers([JudgedPipeline("p", "g", "v", untested="no item was judged by its verifier")])
