"""Traces: what was drafted, what was said of it and by whom, what it cost; text keeps its lines and steers nothing."""

from __future__ import annotations

import io
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from rich.console import Console

from draftverify import Pipeline
from draftverify.bench.cli.screen import print_lines
from draftverify.bench.records import Texts, load_run
from draftverify.bench.runner.run import run
from draftverify.bench.tables.trace import TraceStyle, outcome_lines, round_lines, trace_lines
from draftverify.kit import ScriptedGenerator, ScriptedVerifier
from draftverify.rules import Limit, LongestPrefix
from draftverify.secret import Secret
from draftverify.traits import VerifierTraits
from draftverify.values import (
    Check,
    Correction,
    Decision,
    Failure,
    Held,
    Outcome,
    Refusal,
    Round,
    Step,
    Tally,
    TaskRecord,
    Timing,
)
from tests.experiments.runs import load

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


def lines(
    round: Round,
    *,
    marks: bool,
    texts: Texts | None = None,
    color: bool = False,
    rule: Any = None,
    tracebacks: bool = False,
) -> str:
    out = io.StringIO()
    console = Console(width=300, file=out, force_terminal=color, color_system="standard" if color else None)
    for line in round_lines((round,), (texts,), TraceStyle(marks, tracebacks), rule=rule):
        console.print(line, soft_wrap=True)
    return out.getvalue()


def test_alternatives_stand_one_a_line() -> None:
    """With state, verdict, score, reason and feedback; the fallback's name, the try and the policy's step besides."""
    shown = lines(ROUND, marks=True)
    assert "0 kept: kept  pass · score 0.5" in shown
    assert "1 held: (held)" in shown
    assert "2 struck: [-struck-]  reject · score 0.1 · wrong · 1 != 2" in shown
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
    evil = "\x1b[31m[red]x[/red]\x07\u202e\n\rover \x9b2J"
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
        assert not {"\x1b", "\x07", "\u202e", "\r", "\x9b"} & set(shown)


CODE = "def f(x):\n    if x:\n\treturn 1\r\n    return 2"


def test_code_keeps_its_lines() -> None:
    """Newlines, indentation and tabs of a draft, of what was said of it in several lines, and of the answer."""
    round = Round(
        index=0,
        items=(CODE,),
        parents=(-1,),
        checks=(Check("reject", 0.25, "assertion", "expected 1\ngot 2\n", "tests"),),
    )
    shown = lines(round, marks=True).expandtabs(8)
    assert "    0 struck: reject · score 0.25 · tests · assertion\n" in shown
    for line in ("│ def f(x):", "│     if x:", "return 1", "│     return 2", "│ expected 1", "│ got 2"):
        assert any(line in each for each in shown.splitlines()), line
    assert "\r" not in shown
    told = [line.plain for line in outcome_lines(Outcome(status="accepted", value=CODE))]
    assert told[1:] == [
        "  value:",
        "    │ def f(x):",
        "    │     if x:",
        "    │ \treturn 1",
        "    │     return 2",
    ]


def test_objects_and_steps_are_laid_out() -> None:
    """An object has its names before its values; steps stand one a line, pieces of a text beside each other."""
    step = {"move": ["b1", "a"], "why": "since\nit is free"}
    round = Round(index=0, items=(step, "put b1 down on the table then"), parents=(-1, 0))
    shown = lines(round, marks=True)
    assert '      │ move: ["b1", "a"]\n      │ why:\n      │   since\n      │   it is free\n' in shown
    assert "    1 not judged: ~put b1 down on the table then~\n" in shown
    tokens = Round(index=0, items=(5, 6), parents=(-1, 0), decision=Decision(kept=(0, 1), emitted=(5, 6)))
    assert "    :⏎\n    │return\n" in lines(tokens, marks=True, texts=Texts((":\n", "return")))


def test_the_threshold_that_struck_is_named() -> None:
    """A passed item that the rule refused shows the verifier's word, the rule's, and the number of the config."""
    round = Round(
        index=0,
        items=("a",),
        parents=(-1,),
        checks=(Check("pass", 0.5),),
        decision=Decision(refused=(Refusal(0, "below the threshold"),)),
    )
    shown = lines(round, marks=True, rule={"use": "best", "threshold": 0.9})
    assert "[-a-]  pass · score 0.5 · refused by the rule: below the threshold 0.9" in shown


def test_who_said_it_and_what_it_cost() -> None:
    """A person's word, a trusted fallback's, cost and repeated passes stand in the round's line."""
    timing = Timing(draft=0.5, verify=2.0, cost=3.0, passes=2)
    for by, words in (("person", "a person's word"), ("fallback", "a trusted fallback's word")):
        round = Round(index=1, source="someone", by=by, items=("a",), parents=(-1,), timing=timing)
        shown = lines(round, marks=True)
        assert f"by someone · {words} · draft 500 ms, verify 2.00 s · 2 passes · cost 3" in shown
    noted = Round(index=0, draft_notes={"drafter": "Medusa", "exchanges": []})
    assert "drafted 0 · drafter Medusa · draft" in lines(noted, marks=True)


def test_a_failed_call_shows_where_when_asked() -> None:
    """Its kind and message always, its traceback with --traceback."""
    failure = Failure("error", "OSError", "no such host", "Traceback\n  File x, line 3\nOSError")
    round = Round(index=0, items=("a",), parents=(-1,), failure=failure, timing=Timing(passes=1))
    assert "verify failed, error: OSError: no such host" in (shown := lines(round, marks=True))
    assert "line 3" not in shown
    assert "│   File x, line 3" in lines(round, marks=True, tracebacks=True)


def test_the_part_that_failed_is_named() -> None:
    """The rule, of a block that was verified; the verifier, of an empty block; the generator, which drafted nothing."""

    def fails(*arguments: Any) -> Any:
        raise OSError("gone")

    draft, word = ScriptedGenerator([["a"]]), ScriptedVerifier({"a": "pass"})
    rule: Any = SimpleNamespace(decide=fails)
    silent: Any = SimpleNamespace(
        verify=fails, traits=VerifierTraits(provides={"verdicts"}, plain_steps=True)
    )
    for pipeline, called in (
        (Pipeline(draft, word, rule), "decide"),
        (Pipeline(draft, silent, LongestPrefix(), block=0, done=Limit(1)), "verify"),
        (Pipeline(ScriptedGenerator(fails), word, LongestPrefix()), "propose"),
    ):
        (round,) = pipeline.record("x").rounds
        assert f"{called} failed, error: OSError: gone" in lines(round, marks=True)


def test_a_verifiers_correction_is_shown() -> None:
    """What it would have in the item's place, whether or not the rule put it there."""
    round = Round(index=0, items=("a",), parents=(-1,), checks=(Check("reject", correction="b"),))
    assert "      instead: b\n" in lines(round, marks=True)


def test_secrets_are_not_shown() -> None:
    """Of a text with several lines neither."""
    secret = Secret("sk-of-a-trace")
    assert "sk-of-a-trace" not in lines(
        Round(index=0, items=(f"a\n{secret[:]}\nb" * 3, str(secret)), parents=(-1, -1)), marks=True
    )


def test_many_drafts_that_nobody_looked_at_are_counted() -> None:
    """A block that ended early shows the judged ones, some of the others, and how many more there are."""
    checks = (Check("reject"), Check("pass"), *[Check("unchecked")] * 48)
    shown = lines(Round(index=0, items=tuple(range(50)), parents=(-1,) * 50, checks=checks), marks=True)
    assert "    4 not judged: ~4~  unchecked\n    … and 45 more that were not looked at\n" in shown
    few = lines(Round(index=0, items=tuple(range(8)), parents=(-1,) * 8, checks=checks[:8]), marks=True)
    assert "7 not judged" in few


def test_what_is_very_long_is_cut_and_says_so() -> None:
    """A megabyte of a draft is some lines."""
    shown = lines(Round(index=0, items=("line\n" * 200_000,), parents=(-1,)), marks=True)
    assert len(shown) < 20_000
    assert "characters more" in shown


def test_a_terminal_wraps_between_words_and_under_the_beginning() -> None:
    """A pipe gets the line as it is."""
    round = Round(index=0, items=("word " * 30,), parents=(-1,))
    for terminal in (True, False):
        out = io.StringIO()
        console = Console(width=40, file=out, force_terminal=terminal, color_system=None)
        print_lines(console, round_lines((round,), (None,), TraceStyle(marks=True)))
        text = [line for line in out.getvalue().splitlines() if "word" in line]
        assert (len(text) > 3) == terminal
        if terminal:
            assert all(len(line) <= 40 for line in text)
            assert all(line.startswith("      │ word") for line in text)


def test_of_a_refused_task_nothing_is_put_in_words(tmp_path: Path) -> None:
    """Its refused items were described; what joined the answer is nothing."""
    run(load(tmp_path, check=", splice: false", count=1, chance=0.0), out=tmp_path / "run")
    with load_run(tmp_path / "run") as records:
        shown = [line.plain for line in trace_lines(records, "t0", "spec", marks=True)]
    assert any("[-<-1>-]" in line for line in shown)
    assert not any("in words" in line for line in shown)


def test_a_waiting_task_is_traced(tmp_path: Path) -> None:
    """Its rounds are there, that it waits, and what it has cost so far."""
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
    assert any(line.startswith("  waiting (a person is asked)  1 round, ") for line in shown)
