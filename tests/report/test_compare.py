"""Comparing runs: paired by task and input, by the test that fits each outcome, in words that fit 80 columns."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from rich.console import Console

from draftverify.bench.cli.compare import lines
from draftverify.bench.cli.exits import ExitCode
from draftverify.bench.cli.main import main
from draftverify.bench.records import RunDirectory, RunRecords, load_run
from draftverify.bench.records.export import frame
from draftverify.bench.records.listing import list_runs
from draftverify.bench.runner.run import run
from draftverify.bench.tables.compare import RunComparison, compare, parse_side
from draftverify.checks.metrics import Score
from draftverify.errors import ConfigError
from draftverify.values import Outcome, Task, TaskRecord
from tests.experiments.runs import load
from tests.experiments.sweeps import BASE
from tests.experiments.sweeps import load as sweep

RIGHT = {"1": 1.0, "h": 0.5}


def made(
    path: Path,
    solved: dict[str, str],
    *,
    config: dict[str, Any] | None = None,
    inputs: Sequence[Any] | None = None,
    seconds: float = 1.0,
    metric: dict[str, Any] | None = None,
    measures: dict[str, Any] | None = None,
) -> Path:
    """A run: of each pipeline a letter a task, 1 solved, h half of it, 0 not, f failed, - not ended, w accepted and
    wrong."""
    length = len(next(iter(solved.values())))
    given = range(length) if inputs is None else inputs
    made_of = {
        "pipelines": {name: {"block": 4} for name in solved},
        "metrics": {"exact": metric or {"use": "exact"}},
    }
    with RunDirectory(path, name="n", config={**made_of, **(config or {})}, config_hash="h") as opened:
        opened.store.add_tasks(
            [Task(id=f"t{place}", input={"n": value}) for place, value in enumerate(given)]
        )
        for name, letters in solved.items():
            for place, letter in enumerate(letters):
                if letter == "-":
                    continue
                status = {"f": "failed", "0": "refused"}.get(letter, "accepted")
                outcome = Outcome(status=status, seconds=seconds * (1 + place % 3), score=float(place))  # type: ignore[arg-type]
                opened.store.commit(name, TaskRecord(task=f"t{place}", outcome=outcome))
                opened.store.add_scores({(name, f"t{place}", 0, "d"): Score(RIGHT.get(letter, 0.0))}, "exact")
                for measure in measures or {}:
                    score = Score(2.0 + place % 5 + 3.0 * (name != "plain"))
                    opened.store.add_scores({(name, f"t{place}", 0, measure): score}, measure)
        rows = [{"rows": [{"measures": measures or {}}]}]
        opened.write_summary({"pipelines": rows})
    return path


def compared(*sides: Path | str, only: Sequence[str] = ()) -> RunComparison:
    opened: list[tuple[RunRecords, str | None]] = []
    for side in sides:
        path, pipeline = parse_side(str(side))
        opened.append((load_run(path), pipeline))
    try:
        return compare(opened, only=only)
    finally:
        for run, _ in opened:
            run.close()


def shown(found: RunComparison, *, width: int = 80, **more: bool) -> str:
    console = Console(width=width, file=(out := io.StringIO()), highlight=False)
    for line in lines(found, **more):
        console.print(line)
    return out.getvalue()


def cell(found: RunComparison, outcome: str, other: str = "B") -> Any:
    return next(each for each in found.cells if (each.outcome, each.other) == (outcome, other))


MANY = "1" * 12 + "0" * 28


def test_runs_are_compared_by_pipelines_of_one_name(tmp_path: Path) -> None:
    """With the first run; a pipeline without a counterpart is named."""
    first = made(tmp_path / "a", {"plain": MANY, "spec": MANY})
    second = made(tmp_path / "b", {"spec": "1" * 40, "new": MANY})
    found = compared(first, second)
    assert [(side.run, side.pipeline) for side in found.sides] == [
        (str(first), "spec"),
        (str(second), "spec"),
    ]
    assert found.alone == (f"{second}:new",)
    solved = cell(found, "exact")
    assert (solved.test.pairs, solved.test.higher, solved.test.lower, solved.said) == (40, 28, 0, "better")
    assert cell(found, "seconds/solved").said == "better"
    assert found.counted == 4
    assert solved.corrected == pytest.approx(min(4 * solved.test.p, 1.0))


def test_what_is_half_right_is_no_share_of_tasks(tmp_path: Path) -> None:
    """It is tested as a number, shown as one, and still has a better and a worse."""
    found = compared(
        made(tmp_path / "a", {"spec": "h" * 20 + "0" * 10}), made(tmp_path / "b", {"spec": "1" * 30})
    )
    half = cell(found, "exact")
    assert (half.kind, half.said, half.test.base) == ("number", "better", pytest.approx(1 / 3))
    said = shown(found)
    assert "share of tasks" not in said.split("accepted")[0]
    assert "0.333 → 1" in said


def test_a_single_pair_says_that_it_is_too_few(tmp_path: Path) -> None:
    """A terminal takes words in brackets for a style, and shows nothing."""
    found = compared(made(tmp_path / "a", {"spec": "1"}), made(tmp_path / "b", {"spec": "1"}, seconds=2.0))
    assert "not known yet" in shown(found)


def test_pipelines_of_one_run_are_compared_with_their_baselines(tmp_path: Path) -> None:
    """Of a sweep each with that of its own cell; baselines among themselves are not."""
    solved = dict.fromkeys(("plain@k=1", "spec@k=1", "plain@k=2", "spec@k=2"), MANY)
    cells = {name: {"block": int(name[-1])} for name in solved}
    config = {
        "baselines": {"spec@k=1": "plain@k=1", "spec@k=2": "plain@k=2"},
        "baseline": "plain@k=1",
        "cells": cells,
    }
    found = compared(made(tmp_path / "a", solved, config=config), only=["exact"])
    names = {side.label: side.pipeline for side in found.sides}
    assert [(names[each.base], names[each.other]) for each in found.cells] == [
        ("plain@k=1", "spec@k=1"),
        ("plain@k=2", "spec@k=2"),
    ]
    text = shown(found)
    assert text.count("block: 2") == 2  # once for each side of the cell
    plain = made(tmp_path / "b", {"plain": MANY, "x": MANY, "y": MANY}, config={"baseline": "plain"})
    assert [each.pipeline for each in compared(plain).sides] == ["plain", "x", "y"]


def test_named_pipelines_are_compared_with_the_first(tmp_path: Path) -> None:
    """Whatever their names; a run beside one pipeline stands for all of its own."""
    path = made(tmp_path / "a:b", {"plain": MANY, "spec": MANY, "more": MANY})
    found = compared(f"{path}:spec", f"{path}:plain", f"{path}:more", only=["exact"])
    assert [each.pipeline for each in found.sides] == ["spec", "plain", "more"]
    assert {each.base for each in found.pairings} == {"A"}
    assert [each.pipeline for each in compared(f"{path}:spec", path, only=["exact"]).sides] == [
        "spec",
        "plain",
        "more",
    ]


def test_tasks_that_are_no_pair_are_counted_and_listed(tmp_path: Path) -> None:
    """Only in one run, of another input, not ended in both; none of them is in a figure."""
    first = made(tmp_path / "a", {"p": "1" * 10 + "-1111"}, inputs=range(15))
    second = made(tmp_path / "b", {"p": "1" * 12}, inputs=[0, 1, 2, "other", *range(4, 12)])
    found = compared(first, second)
    (pairing,) = found.pairings
    assert pairing.changed == ("t3",)
    assert pairing.only_base == ("t12", "t13", "t14")
    assert pairing.unfinished == ("t10",)
    assert (pairing.pairs, pairing.only_other) == (10, ())
    assert {each.test.pairs for each in found.cells} == {10}
    text = shown(found, tasks=True)
    assert "10 pairs of tasks; no pair: 3 only in A, 1 of one id but another" in text
    assert "another input in B than in A: 1\n   t3\n" in text


def test_what_changed_between_runs_is_said_once(tmp_path: Path) -> None:
    """Config values by dotted path, and of the pipelines only the compared one."""
    first = made(tmp_path / "a", {"p": MANY, "q": MANY}, config={"seed": 3})
    second = made(
        tmp_path / "b",
        {"p": MANY, "q": MANY},
        config={"seed": 4, "pipelines": {"p": {"block": 8}, "q": {"block": 9}}},
    )
    found = compared(f"{first}:p", f"{second}:p")
    assert found.sides[1].differs == ("seed was 3, is 4", "p.block was 4, is 8")
    assert shown(found).count("seed was 3, is 4") == 1


def test_defaults_are_no_difference(tmp_path: Path) -> None:
    """What a pipeline takes from `defaults` is its own: written there it is the same; a cell's base is compared too."""
    matrix = {"grid": {"pipelines.one.block": [1, 2]}}
    taken = {"one": {**BASE["defaults"], **BASE["pipelines"]["one"], "budget": {"rounds": 40}}}
    for name, changes in (
        ("shared", {"pipelines": {"one": BASE["pipelines"]["one"]}}),
        ("own", {"pipelines": taken, "defaults": None}),
        ("swept", {"pipelines": taken, "matrix": {"grid": {"pipelines.one.block": [1, 4]}}}),
        ("other", {"pipelines": {"one": {**taken["one"], "budget": {"rounds": 9}}}, "matrix": matrix}),
    ):
        run(sweep(tmp_path, baseline=None, limit=1, **changes), out=tmp_path / name)
    assert run(sweep(tmp_path, baseline=None, limit=1, pipelines=taken), out=tmp_path / "shared").ran == 0

    def differs(name: str) -> tuple[str, ...]:
        return compared(str(tmp_path / "shared"), str(tmp_path / name)).sides[1].differs

    assert differs("own") == differs("swept") == ()
    assert differs("other") == ("one@block=1.budget.rounds was 40, is 9",)


def test_a_metric_that_is_another_one_is_not_compared(tmp_path: Path) -> None:
    """Of one name with other settings; the rest is, and it says so."""
    first, second = (
        made(tmp_path / "a", {"p": MANY}),
        made(tmp_path / "b", {"p": MANY}, metric={"use": "loose"}),
    )
    found = compared(first, second)
    assert "exact" not in {each.outcome for each in found.cells}
    assert "it is another metric in the other run" in shown(found)
    assert [each.outcome for each in found.cells] == ["accepted", "score", "seconds"]


def test_the_test_fits_the_kind_of_outcome(tmp_path: Path) -> None:
    """Shares by McNemar, scores by their mean difference, measures by theirs, geometric ones as ratios."""
    measures = {"speedup": {"unit": "×", "mean": "geometric"}, "rows": {"unit": "rows", "mean": "arithmetic"}}
    metrics = {"exact": {"use": "exact"}, "speedup": {"use": "s"}, "rows": {"use": "r"}}
    path = made(tmp_path / "a", {"plain": MANY, "spec": MANY}, measures=measures, config={"metrics": metrics})
    found = compared(path)
    assert {each.outcome: each.kind for each in found.cells} == {
        "exact": "share",
        "speedup": "ratio",
        "rows": "number",
        "accepted": "share",
        "score": "number",
        "seconds/solved": "total",
    }
    assert cell(found, "rows").test.effect == pytest.approx(3.0)
    assert cell(found, "rows").said == "higher"
    assert cell(found, "speedup").test.effect > 1.0
    assert cell(found, "exact").said == "no difference seen"


def test_a_failed_task_is_one_that_was_not_accepted(tmp_path: Path) -> None:
    """And it is said how many there are."""
    first, second = made(tmp_path / "a", {"p": "1" * 20}), made(tmp_path / "b", {"p": "1" * 10 + "f" * 10})
    found = compared(first, second, only=["accepted"])
    assert (found.sides[1].failed, found.cells[0].test.lower) == (10, 10)
    assert "10 failed" in shown(found)


def test_many_comparisons_are_corrected_together(tmp_path: Path) -> None:
    """What would pass alone does not among many, and the table says why."""
    solved = {"plain": "0" * 30, **{f"x{place}": "0" * 30 for place in range(9)}, "good": "1" * 7 + "0" * 23}
    path = made(tmp_path / "a", solved)
    alone = cell(compared(f"{path}:plain", f"{path}:good", only=["exact"]), "exact")
    assert (alone.corrected, alone.said) == (pytest.approx(2 / 2**7), "better")
    found = compared(path, only=["exact"])
    among = cell(found, "exact", "K")
    assert (found.counted, among.test.p, among.said) == (10, alone.test.p, "no difference seen")
    text = shown(found)
    assert "no difference seen*" in text
    assert "10 comparisons" in text


def test_no_line_is_wider_than_80_columns(tmp_path: Path) -> None:
    """Nor is a word cut, with long figures, many cells and wide intervals."""
    solved = {f"p{place}": MANY for place in range(28)}
    first = made(tmp_path / "a", solved, seconds=12345.678)
    found = compared(first, only=["exact", "seconds/solved"])
    text = shown(found, tasks=True)
    assert max(map(len, text.splitlines())) <= 80
    assert "…" not in text
    assert "AB–A" in text


@pytest.mark.parametrize("seconds", [4.4e-5, 1.234e7])
def test_the_verdict_stands_whole_beside_long_figures(tmp_path: Path, seconds: float) -> None:
    """A second run of the same: figures in powers of ten leave the last column less room."""
    sides = [made(tmp_path / name, {"plain": MANY}, seconds=seconds) for name in "ab"]
    found = compared(*sides, only=["seconds/solved"])
    (only,) = found.cells
    wide = msgspec.structs.replace(only.test, low=-1.0, effect=123.45)
    for test in (only.test, wide):
        text = shown(msgspec.structs.replace(found, cells=(msgspec.structs.replace(only, test=test),)))
        assert max(map(len, text.splitlines())) <= 80
        assert re.search(r"no difference seen$", text, re.M)


def test_very_long_figures_have_the_verdict_below_them(tmp_path: Path) -> None:
    """Where 80 columns do not hold both."""
    found = compared(made(tmp_path / "a", {"plain": MANY, "spec": MANY}), only=["score"])
    (only,) = found.cells
    test = msgspec.structs.replace(
        only.test, base=-1.23e-5, other=-4.56e-5, effect=-1.23e-5, low=-7.89e-5, high=-1.11e-5
    )
    text = shown(msgspec.structs.replace(found, cells=(msgspec.structs.replace(only, test=test),)))
    assert max(map(len, text.splitlines())) <= 80
    assert re.search(r"^ +no difference seen$", text, re.M)


def test_the_command_says_what_differs_and_fails_only_where_asked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """--json holds everything and no NaN; --tasks lists who changed; 9 with --fail-on-worse alone."""
    monkeypatch.chdir(tmp_path)
    made(Path("a"), {"p": "1" * 40})
    made(Path("b"), {"p": "1" * 25 + "0" * 15})
    assert main(["compare", "a", "b"]) == 0
    assert "worse" in capsys.readouterr().out
    assert main(["compare", "a", "b", "--fail-on-worse"]) == ExitCode.WORSE
    assert main(["compare", "b", "a", "--fail-on-worse"]) == 0
    capsys.readouterr()
    assert main(["compare", "a", "b", "--tasks", "--on", "exact"]) == 0
    assert "exact, lower in B than in A: 15\n   t25\n" in capsys.readouterr().out
    assert main(["compare", "a", "b", "--json"]) == 0
    plain = json.loads(capsys.readouterr().out, parse_constant=lambda word: pytest.fail(word))
    assert plain["cells"][0]["test"]["lower"] == 15
    assert len(plain["cells"][0]["flips"]) == 15


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["a", "nowhere"], "there is no run directory 'nowhere'"),
        (["a", "b:q"], "the run has no pipeline 'q'; there are p"),
        (["a"], "the run has one pipeline"),
        (["a:p"], "one pipeline alone is compared with nothing"),
        (["a", "a"], "no pipeline differs from itself"),
        (["c", "b"], "the runs share no pipeline's name"),
        (["a", "b", "--on", "taste"], "nothing of the name 'taste' is there"),
    ],
)
def test_what_cannot_be_compared_is_said(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    given: list[str],
    said: str,
) -> None:
    """With what to write instead."""
    monkeypatch.chdir(tmp_path)
    made(Path("a"), {"p": MANY})
    made(Path("b"), {"p": MANY})
    made(Path("c"), {"x": MANY, "y": MANY})
    assert main(["compare", *given]) == (ExitCode.RESOURCE if "nowhere" in given else ExitCode.CONFIG)
    assert said in " ".join(capsys.readouterr().err.split())


def test_runs_without_a_task_in_common_say_so(tmp_path: Path) -> None:
    """Nothing is compared, and nothing crashes."""
    first = made(tmp_path / "a", {"p": "111"}, inputs="abc")
    second = made(tmp_path / "b", {"p": "111"}, inputs="xyz")
    found = compared(first, second)
    assert found.cells == ()
    assert "There is nothing to compare" in shown(found)


def test_a_hostile_task_id_is_shown_clean(tmp_path: Path) -> None:
    """In the list of tasks that changed."""
    for name, letters in (("a", True), ("b", False)):
        with RunDirectory(
            tmp_path / name, name="n", config={"pipelines": {"p": {}}}, config_hash="h"
        ) as opened:
            opened.store.add_tasks([Task(id="\x1b[31m\u202e")])
            outcome = Outcome(status="accepted" if letters else "refused")
            opened.store.commit("p", TaskRecord(task="\x1b[31m\u202e", outcome=outcome))
    text = shown(compared(tmp_path / "a", tmp_path / "b"), tasks=True)
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert "\ufffd[31m\ufffd" in text


def test_a_table_of_no_difference_says_what_could_have_been_seen(tmp_path: Path) -> None:
    """The interval has a width though nothing differs, and the words say what it is."""
    found = compared(made(tmp_path / "a", {"p": MANY, "q": MANY}))
    solved = cell(found, "exact")
    assert solved.test.low < 0 < solved.test.high
    assert "No difference seen is not the same as no difference" in shown(found)


def test_an_empty_comparison_is_refused(tmp_path: Path) -> None:
    """A run whose config has no pipelines."""
    with RunDirectory(tmp_path / "a", name="n", config={}, config_hash="h"):
        pass
    with pytest.raises(ConfigError, match="the run has no pipelines"):
        compared(tmp_path / "a")


def test_a_sweep_that_was_run_is_compared_cell_by_cell(tmp_path: Path) -> None:
    """From a file with a matrix: each cell with its own baseline, what it changes said once, and listed as finished."""
    more = "matrix: {grid: {pipelines.spec.generator.chance: [0.3, 0.9]}}"
    assert run(load(tmp_path, count=12, more=more), out=tmp_path / "run").ran == 36
    found = compared(tmp_path / "run", only=["cost"])
    names = [side.pipeline for side in found.sides]
    assert names[0] == "plain"
    assert len(names) == 3
    assert {tuple(side.changes.values()) for side in found.sides[1:]} == {(0.3,), (0.9,)}
    assert shown(found).count("   generator.chance: 0.3\n") == 1
    assert [each.state for each in list_runs(tmp_path)] == ["finished"]
    with load_run(tmp_path / "run") as records:
        table = frame(records)
    assert table.groupby("pipeline").size().tolist() == [12, 12, 12]
    [column] = [name for name in table.columns if name.startswith("cell_")]
    assert sorted(table[column].dropna().unique()) == [0.3, 0.9]
