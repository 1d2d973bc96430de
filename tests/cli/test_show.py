"""`draftverify show`: tables of finished and unfinished runs, and one task round by round, whatever stands in it."""

from __future__ import annotations

import io
import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from draftverify.cli.main import main
from draftverify.cli.show import outcome_lines, round_lines, trace_lines
from draftverify.experiments.run import run
from draftverify.records import Texts, load_run
from draftverify.values import (
    Check,
    Correction,
    Decision,
    Held,
    Outcome,
    Refusal,
    Round,
    Step,
    Tally,
    TaskRecord,
)
from tests.experiments.runs import load


@pytest.fixture
def made(tmp_path: Path) -> Path:
    """A finished run."""
    run(load(tmp_path), out=tmp_path / "run")
    return tmp_path / "run"


def test_show_prints_the_tables_of_the_run(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The same that the run printed."""
    assert main(["show", str(made)]) == 0
    assert "spec: identical: 6 of 6" in capsys.readouterr().out


def test_a_run_that_cannot_be_written_to_can_be_shown(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Tables and traces, by somebody who may only read it; nothing is left behind."""
    command = ["show", str(made), "--trace", "t1"]
    assert main(command) == 0
    expected = capsys.readouterr().out
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder, "run")
        shutil.copytree(made, copy)
        (copy / "summary.json").unlink()
        names = sorted(path.name for path in copy.iterdir())
        for path in (Path(folder), copy):
            path.chmod(0o555)
        root = os.geteuid() == 0
        if root:
            os.setresuid(65534, 65534, 0)  # who is root may write anywhere
        try:
            assert not os.access(copy, os.W_OK)
            assert main(["show", str(copy)]) == 0
            assert "not finished" in capsys.readouterr().out
            assert main(["show", str(copy), "--trace", "t1"]) == 0
            assert capsys.readouterr().out == expected
        finally:
            if root:
                os.setresuid(0, 0, 0)
            for path in (Path(folder), copy):
                path.chmod(0o755)
        assert sorted(path.name for path in copy.iterdir()) == names


def test_an_unfinished_run_is_shown_as_far_as_it_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """And called unfinished."""

    class Stop:
        def started(self, phase: str, totals: Mapping[str, tuple[int, int]]) -> None: ...
        def event(self, event: object) -> None: ...
        def done(self, pipeline: str, record: TaskRecord) -> None:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(load(tmp_path), out=tmp_path / "run", watcher=Stop())
    assert main(["show", str(tmp_path / "run")]) == 0
    assert "scripted (not finished)" in capsys.readouterr().out
    assert main(["show", str(tmp_path / "run"), "--trace", "t5"]) == 0
    assert "not run yet" in capsys.readouterr().out


def test_a_trace_shows_drafted_kept_struck_spliced(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Every round of both pipelines, in the verifier's words, and the value."""
    assert main(["show", str(made), "--trace", "t5"]) == 0
    out = capsys.readouterr().out
    with load_run(made) as records:
        (record,) = (entry.record for entry in records.entries(pipeline="spec", task="t5"))
    assert sum(line.startswith("  round ") for line in out.splitlines()) == len(record.rounds) + 8
    assert "[-<-" in out
    assert "{+<" in out
    assert f"value: {list(record.outcome.value)}" in out
    assert "in words: " + "".join(f"<{value}>" for value in record.outcome.value) in out


def test_a_trace_of_one_pipeline(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """--pipeline leaves the others out."""
    assert main(["show", str(made), "--trace", "t5", "--pipeline", "plain"]) == 0
    assert "spec" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["--trace", "t55"], 3, "did you mean 't5'?"),
        (["--trace", "t5", "--pipeline", "spek"], 3, "did you mean 'spec'?"),
    ],
)
def test_unknown_names_are_corrected(
    made: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], code: int, said: str
) -> None:
    """A task or pipeline that the run does not have."""
    assert main(["show", str(made), *arguments]) == code
    assert said in capsys.readouterr().err


def test_what_is_no_run_directory(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Says so."""
    assert main(["show", str(tmp_path)]) == 5
    assert "not a run directory" in capsys.readouterr().err


def test_a_damaged_summary_is_an_error_in_words(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Whatever stands in summary.json."""
    for text in ("{", "[]", '{"name": 3}'):
        (made / "summary.json").write_text(text)
        assert main(["show", str(made)]) == 5
        assert "summary.json" in capsys.readouterr().err


ROUND = Round(
    index=0,
    tries=1,
    source="fallback",
    items=("kept", "held", "struck", "left"),
    parents=(-1, -1, -1, -1),
    asked=5,
    checks=(Check("pass", 0.5), Check("pass"), Check("reject", 0.1, "wrong", "1 != 2"), Check("unchecked")),
    decision=Decision(kept=(0,), held=(1,), refused=(Refusal(2),), spliced=("new",), emitted=("kept", "new")),
    held=(Held("held", None, 0, 1),),
    steps=(Step(1, "feedback", "reject"),),
)


def lines(round: Round, *, marks: bool, texts: Texts | None = None, color: bool = False) -> str:
    out = io.StringIO()
    console = Console(width=300, file=out, force_terminal=color, color_system="standard" if color else None)
    for line in round_lines((round,), (texts,), marks):
        console.print(line, soft_wrap=True)
    return out.getvalue()


def test_alternatives_stand_one_a_line() -> None:
    """With state, verdict, score, reason and feedback; the fallback's name, the try and the policy's step besides."""
    shown = lines(ROUND, marks=True)
    assert "0 kept: kept  pass · 0.5" in shown
    assert "1 held: (held)" in shown
    assert "2 struck: [-struck-]  reject · 0.1 · wrong · 1 != 2" in shown
    assert "3 not judged: ~left~  unchecked" in shown
    assert "spliced: {+new+}" in shown
    assert "drafted 4 of 5 · by fallback · try 2" in shown
    assert "on reject: 2. feedback" in shown


def test_a_caveat_stands_beside_the_word_and_under_the_outcome() -> None:
    """Of chains too, whose passed items are not told of one by one."""
    checks = (Check("pass", caveat="few\x1b samples"), Check("pass"))
    for parents in ((-1, -1), (-1, 0)):
        round = Round(index=0, items=("a", "b"), parents=parents, checks=checks, decision=Decision(kept=(0,)))
        shown = lines(round, marks=True)
        assert "pass · caveat: few\ufffd samples" in shown
        assert shown.count("caveat") == 1
    outcome = Outcome(status="accepted", value="a", tally=Tally(2, 2, caveats={"few": 1}))
    assert "  1 of 2 accepted with a caveat: few" in [line.plain for line in outcome_lines(outcome)]
    assert "caveats='1 of 2" not in repr(outcome)
    assert "caveats=1 of 2 accepted with a caveat: few" in repr(outcome)


def test_a_passed_item_that_was_not_chosen_was_judged() -> None:
    """The rule took another one, which is no refusal either."""
    round = Round(
        index=0,
        items=("a", "b"),
        parents=(-1, -1),
        checks=(Check("pass"), Check("pass")),
        decision=Decision(kept=(0,), emitted=("a",)),
    )
    assert "1 not chosen: ~b~  pass" in lines(round, marks=True)


def test_a_correction_is_shown_beside_what_was_kept_around_it() -> None:
    """What joined in an item's place is told from the kept items, in values and in the verifier's words."""
    round = Round(
        index=0,
        items=("a", "b", "c"),
        parents=(-1, -1, -1),
        checks=(Check("pass"), Check("reject", correction="B"), Check("pass")),
        decision=Decision(
            kept=(0, 2), corrected=(Correction(1, "B"),), spliced=("z",), emitted=("a", "B", "c", "z")
        ),
    )
    assert round.decision.joined == (0, None, 2, None)
    shown = lines(round, marks=True)
    assert "1 struck: [-b-]" in shown
    assert "2 kept: c" in shown
    assert [line.strip() for line in shown.splitlines() if "spliced" in line] == [
        "spliced: {+B+}",
        "spliced: {+z+}",
    ]
    texts = Texts(("<a>", "<b>", "<c>"), ("<B>", "<z>"))
    assert "{+<B>+}" in lines(round, marks=True, texts=texts)


def test_colours_say_the_same() -> None:
    """Green kept, red struck-through, blue spliced."""
    shown = lines(ROUND, marks=False, color=True)
    assert "\x1b[32mkept" in shown
    assert "\x1b[9;31mstruck" in shown
    assert "\x1b[1;34mnew" in shown


def test_a_cut_chain_shows_what_was_cut() -> None:
    """Kept by the rule and cut by the stopping rule is neither kept nor struck."""
    chain = Round(
        index=0, items=("a", "b"), parents=(-1, 0), decision=Decision(kept=(0, 1), emitted=("a",), done=True)
    )
    assert "a│~b~" in lines(chain, marks=True)


def test_hostile_values_stay_text() -> None:
    """Neither escape sequences nor markup of a model reach the terminal, from items, words, reasons or outcomes."""
    evil = "\x1b[31m[red]x[/red]\x07\u202e"
    round = Round(
        index=0,
        source=evil,
        items=(evil,),
        parents=(-1,),
        checks=(Check("reject", None, evil, evil),),
        decision=Decision(spliced=(evil,), emitted=(evil,)),
        nested=(TaskRecord(task=evil, outcome=Outcome(status="accepted", value=evil)),),
    )
    for texts in (None, Texts((evil,), (evil,))):
        shown = lines(round, marks=True, texts=texts)
        assert "[red]x[/red]" in shown
        assert not {"\x1b", "\x07", "\u202e"} & set(shown)


def test_a_waiting_task_is_traced(tmp_path: Path) -> None:
    """Its rounds are there, and that it waits."""
    config: dict[str, Any] = {
        "policy": "[{do: escalate}]",
        "check": ", splice: false",
        "count": 1,
        "chance": 0.0,
    }
    run(load(tmp_path, **config), out=tmp_path / "run")
    with load_run(tmp_path / "run") as records:
        shown = [line.plain for line in trace_lines(records, "t0", "spec", marks=True)]
    assert any("[-<-1>-]" in line for line in shown)
    assert shown[-1] == "waiting for a person"
