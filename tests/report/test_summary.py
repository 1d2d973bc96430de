"""The comparison: losses shown, waiting counted, values matched, policy steps priced, hostile text harmless."""

from __future__ import annotations

import io
import json
from html.parser import HTMLParser
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from draftverify.bench import Evaluation
from draftverify.bench.records import StoredPrediction
from draftverify.bench.records.entries import TaskEnding
from draftverify.bench.tables.listing import listed, trouble
from draftverify.bench.tables.summarise import first_difference, summarise
from draftverify.bench.tables.summary import Summary
from draftverify.bench.tables.tables import tables
from draftverify.bench.tables.task_rows import RunFrame
from draftverify.bench.tables.words import clean, words
from draftverify.secret import Secret
from draftverify.stats import tally
from draftverify.values import (
    Check,
    Decision,
    Explanation,
    Failure,
    Outcome,
    Round,
    Status,
    Step,
    Tally,
    Task,
    TaskRecord,
    Timing,
)

TASKS = [Task(id=f"t{i}", group=f"g{i // 2}") for i in range(4)]


def record(
    task: str, value: Any = (1, 2), *, seconds: float = 1.0, status: Status = "accepted", rounds: Any = None
) -> TaskRecord:
    """One round that keeps one of two checked items and takes all of the time."""
    if rounds is None:
        rounds = (
            Round(
                index=0,
                items=(1, 9),
                parents=(-1, 0),
                asked=2,
                checks=(Check("pass"), Check("reject")),
                decision=Decision(kept=(0,), spliced=(2,), emitted=(1, 2)),
                tally=Tally(trials=2, accepted=1),
                timing=Timing(verify=seconds, passes=1),
            ),
        )
    failure = Failure("error", "ValueError", "broken") if status == "failed" else None
    outcome = Outcome(
        status=status,
        value=value,
        reason="" if status == "accepted" else "broken",
        failure=failure,
        rounds=len(rounds),
        tally=Tally(trials=2, accepted=1),
        seconds=seconds,
    )
    return TaskRecord(task=task, group=f"g{int(task[1:]) // 2}", outcome=outcome, rounds=rounds)


def summary(**more: Any) -> Summary:
    records = {
        "plain": [record(f"t{i}", seconds=1.0) for i in range(4)],
        "spec": [record(f"t{i}", seconds=0.5 if i < 2 else 4.0) for i in range(4)],
    }
    return summarise(**{"name": "n", "tasks": TASKS, "records": records, "baseline": "plain", **more})


def in_notebook(made: Summary) -> str:
    """What a notebook shows of an evaluation."""
    return Evaluation(made, {})._repr_html_()


def test_a_loss_is_shown_as_a_loss() -> None:
    """A group in which drafting is slower has its figure below one, in the data, the terminal and the page."""
    made = summary()
    rows = {row.group: row for row in made.pipelines[1].rows}
    found = {group: row.speedup.value for group, row in rows.items() if row.speedup is not None}
    assert found == pytest.approx({"g0": 2.0, "g1": 0.25, "": 2**-0.5})
    for shown in (text_of(made), in_notebook(made)):
        assert "0.25 [" in shown
        assert "0.71 [" in shown


def test_rows_are_per_group_and_overall() -> None:
    """Groups in task order, then all; the baseline has no speed-up; figures are those of stats."""
    plain, spec = summary().pipelines
    assert [row.group for row in spec.rows] == ["g0", "g1", ""]
    assert all(row.speedup is None for row in plain.rows)
    row = spec.rows[-1]
    assert (row.acceptance.value, row.acceptance.trials, row.acceptance.clusters) == (0.5, 8, 4)
    assert (row.per_pass.value, row.emitted, row.passes) == (2.0, 8, 4)
    assert row.seconds == 9.0


def drawn(task: str, verdicts: str) -> TaskRecord:
    """A task with a block of alternatives: passed, rejected, timed out, unchecked, by letters."""
    names = {"p": "pass", "r": "reject", "t": "timeout", "u": "unchecked"}
    checks = tuple(Check(names[letter]) for letter in verdicts)
    n, kept = len(checks), tuple(i for i, letter in enumerate(verdicts) if letter == "p")[:1]
    decision = Decision(kept=kept, emitted=kept)
    counts = tally(n, checks, decision)
    block = Round(index=0, items=(0,) * n, parents=(-1,) * n, checks=checks, decision=decision, tally=counts)
    return record(task, rounds=(block,))


def test_alternatives_have_pass_at_k_and_how_many_were_drawn() -> None:
    """k is what every task drew; a task whose check failed is named and in neither; a chain has no such columns."""
    blocks = {"t0": "prrr", "t1": "rrrr", "t2": "prrrrr", "t3": "prrt"}
    made = summarise(name="n", tasks=TASKS, records={"p": [drawn(*each) for each in blocks.items()]})
    samples = made.pipelines[0].rows[-1].samples
    assert samples is not None
    assert (samples.drawn.value, samples.k) == (4.5, 4)
    assert samples.pass_1 is not None
    assert samples.pass_1.value == pytest.approx((1 / 4 + 1 / 6) / 3)
    assert samples.pass_k is not None
    assert samples.pass_k.value == pytest.approx((1 + 4 / 6) / 3)
    assert dict(samples.left_out) == {"t3": "samples without a verdict: 1 timeout"}
    said = text_of(made)
    assert "pass@1" in said
    assert "@4 56% [" in said
    assert "in no pass@k are t3: samples without a verdict: 1 timeout" in said
    assert msgspec.convert(made.plain(), Summary) == made
    assert summary().pipelines[0].rows[-1].samples is None
    assert "pass@" not in text_of(summary())


def test_a_task_without_samples_takes_pass_at_k_from_no_other() -> None:
    """It is named below the table."""
    blocks = {"t0": "prrr", "t1": "", "t2": "prrr"}
    made = summarise(name="n", tasks=TASKS, records={"p": [drawn(*each) for each in blocks.items()]})
    samples = made.pipelines[0].rows[-1].samples
    assert samples is not None
    assert samples.pass_k is not None
    assert (samples.k, samples.pass_k.value) == (4, 1.0)
    assert "in no pass@k are t1: 0 of 4 samples were drawn" in text_of(made)


def test_where_checking_stopped_early_pass_at_1_is_not_shown() -> None:
    """And it is said why; that one of all passed is known nevertheless."""
    blocks = {"t0": "pu", "t1": "rp", "t2": "rr", "t3": "pu"}
    made = summarise(name="n", tasks=TASKS, records={"p": [drawn(*each) for each in blocks.items()]})
    samples = made.pipelines[0].rows[-1].samples
    assert samples is not None
    assert samples.pass_1 is None
    assert samples.pass_k is not None
    assert samples.pass_k.value == 0.75
    said = text_of(made)
    assert "p: no pass@1: task 't0' has 1 unchecked items of 2, so its blocks stopped early" in said
    assert "@2 75% [" in said


def test_one_group_is_not_shown_twice() -> None:
    """Tasks without groups have one row: all."""
    tasks = [Task(id="t0")]
    made = summarise(name="n", tasks=tasks, records={"only": [record("t0")]})
    assert [row.group for row in made.pipelines[0].rows] == [""]


def test_tasks_without_a_group_are_among_all_alone() -> None:
    """Beside tasks of groups they make no second row for all."""
    tasks = [Task(id="t0", group="g0"), Task(id="t1")]
    made = summarise(name="n", tasks=tasks, records={"only": [record("t0"), record("t1")]})
    assert [row.group for row in made.pipelines[0].rows] == ["g0", ""]


def test_a_task_forges_no_line_of_the_terminal() -> None:
    """What has line breaks in its id or group stands on one line, in the tables and in the lists of tasks."""
    forged = "t9\nplain: 4 of 4 answers are right"
    records = {
        name: [TaskRecord(task=forged, group=forged, outcome=Outcome(status="accepted", value=name))]
        for name in ("plain", "spec")
    }
    said = text_of(
        summarise(name="n", tasks=[Task(id=forged, group=forged)], records=records, baseline="plain")
    )
    row = {
        "task": forged,
        "group": forged,
        "about": forged,
        "cells": {"spec": {"status": "failed", "why": forged}},
    }
    failed = Outcome(status="failed", reason=forged)
    ending = TaskEnding(
        pipeline="spec", task=forged, attempt=0, group=forged, outcome=failed, memory=0, committed=""
    )
    frame = RunFrame(names=("spec",), bases={"spec": ""}, waiting={}, metrics=(), judge=None, scores={})
    said += "\n".join(
        line.plain
        for line in (
            *listed([row], "all", pipeline=None, search="", limit=9),
            *trouble([ending], frame, "run"),
        )
    )
    assert "t9⏎plain" in said
    assert not [line for line in said.splitlines() if line.startswith("plain: 4 of 4")]


def test_values_are_compared_with_the_baselines() -> None:
    """K of N, each first divergence with task, position, both items and the verifier's word on it."""
    records = {
        "plain": [record(f"t{i}", [1, 2, 3]) for i in range(4)],
        "spec": [
            record("t0", [1, 2, 3]),
            record("t1", [1, 5, 3]),
            record("t2", [1, 2]),
            record("t3", [1, 2, 3, 4]),
        ],
    }
    made = summary(
        records=records,
        explain=lambda pipeline, task, want, got: Explanation("bug", f"{pipeline}/{task.id}/{len(got)}"),
    )
    found = made.pipelines[1].identical
    assert found is not None
    assert (found.same, found.of) == (1, 4)
    assert [(each.task, each.position, each.expected, each.got, each.why) for each in found.divergences] == [
        ("t1", 1, 2, 5, "spec/t1/3"),
        ("t2", 2, 3, None, "spec/t2/2"),
        ("t3", 3, None, 4, "spec/t3/4"),
    ]
    assert made.pipelines[0].identical is None
    assert "spec: identical: 1 of 4" in text_of(made)
    assert "task t1, position 1: expected 2, got 5 (spec/t1/3)" in text_of(made)


def test_two_failures_are_not_identical() -> None:
    """A failed task equals nothing, whatever stands in its value; the text names the failures, and no values."""
    records = {
        "plain": [record("t0", None, status="failed"), record("t1")],
        "spec": [record("t0", None, status="failed"), record("t1")],
    }
    made = summary(records=records)
    found = made.pipelines[1].identical
    assert found is not None
    assert (found.same, found.of) == (1, 2)
    told = "spec failed: broken; the baseline failed: broken"
    assert found.divergences[0].why == told
    assert f"task t0: {told}" in text_of(made)


def test_statuses_count_waiting_tasks() -> None:
    """A task that waits counts as any other, in its group and over all; its answer equals no other's."""
    records = {
        "plain": [record("t0"), record("t3", None, status="refused")],
        "spec": [record("t0", status="refused"), record("t3", None, status="waiting")],
    }
    made = summary(records=records)
    rows = {row.group: row.statuses for row in made.pipelines[1].rows}
    assert made.pipelines[1].rows[-1].tasks == 2
    assert made.pipelines[1].identical is not None
    assert made.pipelines[1].identical.same == 1
    assert rows == {"g0": {"refused": 1}, "g1": {"waiting": 1}, "": {"refused": 1, "waiting": 1}}


def test_predictions_stand_beside_what_was_measured() -> None:
    """An open interval is kept open, and the share of intervals that hold is told."""
    predictions = [
        StoredPrediction(pipeline="spec", group="g0", kind="speedup", value=2.1, low=1.5, high=None),
        StoredPrediction(pipeline="spec", group="g1", kind="speedup", value=2.0, low=1.5, high=3.0),
    ]
    made = summary(predictions=predictions)
    assert made.pipelines[1].rows[0].predicted is not None
    assert made.pipelines[1].rows[0].predicted.high is None
    assert made.coverage is not None
    assert (made.coverage.value, made.coverage.trials) == (0.5, 2)
    assert "not known yet" in text_of(made)
    assert "predicted intervals that hold the measured figure: 1 of 2" in text_of(made)


def rounds_with_steps() -> tuple[Round, ...]:
    """A reject answered by another draft, whose errors are checked again with success."""
    return (
        Round(
            index=0,
            items=(9,),
            trouble=("reject",),
            steps=(Step(1, "regenerate", "reject"),),
            timing=Timing(draft=1.0, verify=1.0, cost=1.0, passes=1),
        ),
        Round(
            index=1,
            tries=1,
            items=(1,),
            decision=Decision(kept=(0,), emitted=(1,)),
            steps=(Step(0, "reverify", "error"),),
            timing=Timing(draft=2.0, verify=6.0, cost=4.0, passes=2),
        ),
    )


def test_policy_steps_are_counted_priced_and_judged() -> None:
    """A step costs the round that it led to, a re-verification its share of the passes; it yields what was accepted."""
    records = {
        "spec": [record("t0", rounds=rounds_with_steps()), record("t1", rounds=rounds_with_steps()[:1])]
    }
    again, retry = summarise(name="n", tasks=TASKS, records=records).pipelines[0].steps
    assert (again.do, again.taken, again.seconds, again.cost, again.progress, again.accepted) == (
        "reverify", 1, 3.0, 2.0, 1, 1,
    )  # fmt: skip
    assert (retry.clause, retry.do, retry.on, retry.taken, retry.tasks) == (
        1,
        "regenerate",
        {"reject": 2},
        2,
        2,
    )
    assert (retry.seconds, retry.cost, retry.progress, retry.accepted) == (8.0, 4.0, 1, 1)


def test_the_summary_is_plain_json_and_comes_back() -> None:
    """No NaN and no infinity: summary.json can be read by anything."""
    made = summary(records={"plain": [], "spec": [record("t0")]})
    text = json.dumps(made.plain(), allow_nan=False)
    assert msgspec.json.decode(text, type=Summary) == made


def test_what_rests_on_a_caveat_is_counted_under_the_table() -> None:
    """In the table of the terminal, the page and the JSON; a pipeline without any has no such line."""
    weak = record("t1")
    tally = Tally(trials=2, accepted=1, caveats={"few\x1b samples": 1})
    weak = msgspec.structs.replace(weak, outcome=msgspec.structs.replace(weak.outcome, tally=tally))
    made = summarise(name="n", tasks=TASKS, records={"plain": [record("t0"), weak], "spec": [record("t0")]})
    console = Console(width=200, record=True, file=io.StringIO())
    console.print(tables(made))
    line = "plain: 1 of 2 accepted with a caveat: few\ufffd samples"
    for shown in (console.export_text(), in_notebook(made)):
        assert line in shown
        assert "spec: 0" not in shown
    row = made.plain()["pipelines"][0]["rows"][-1]
    assert row["tally"]["caveats"] == {"few\x1b samples": 1}
    assert msgspec.convert(made.plain(), Summary) == made


@given(left=st.lists(st.integers(0, 2), max_size=6), right=st.lists(st.integers(0, 2), max_size=6))
def test_the_first_difference_is_the_first(left: list[int], right: list[int]) -> None:
    """Everything before it is equal, and the two differ there."""
    if left == right:
        return
    position, one, other = first_difference(left, right)
    assert position is not None
    assert left[:position] == right[:position]
    assert left[position : position + 1] != right[position : position + 1]
    assert one == (left[position] if position < len(left) else None)
    assert other == (right[position] if position < len(right) else None)


def test_texts_part_at_a_character_and_other_values_as_a_whole() -> None:
    """A text's position is a character's; numbers and objects have none."""
    assert first_difference("abc", "abd") == (2, "c", "d")
    assert first_difference({"a": 1}, {"a": 2}) == (None, {"a": 1}, {"a": 2})
    assert first_difference([1], "1") == (None, [1], "1")


HOSTILE = (
    "\x1b[2J\x1b]0;title\x07 [bold]x[/bold] <script>alert(1)</script> \u202edesrever\x9b31m $title ${body}"
)


@given(st.text())
def test_clean_text_steers_no_terminal(text: str) -> None:
    """No control or format character is left, newlines and tabs apart; text without any stays as it was."""
    made = clean(text)
    assert len(made) == len(text)
    assert not any(ord(char) < 32 and char not in "\n\t" for char in made)
    assert not any(0x7F <= ord(char) < 0xA0 or char in "\u200b\u202a\u202e\u2066\u2028" for char in made)
    assert clean(made) == made


def test_words_are_one_line() -> None:
    """A newline is shown as a mark; long values are cut."""
    assert words("a\nb") == "a⏎b"
    assert len(words("x" * 1000, 50)) == 50


def text_of(made: Summary) -> str:
    out = io.StringIO()
    Console(file=out, width=250, force_terminal=False).print(tables(made))
    return out.getvalue()


def hostile(text: str = HOSTILE) -> Summary:
    tasks = [Task(id=text, group=text)]

    def one(value: str) -> TaskRecord:
        return TaskRecord(task=text, group=text, outcome=Outcome(status="accepted", value=value))

    records = {"plain": [one(text)], "spec": [one("y" + text)]}
    return summarise(
        name=text,
        tasks=tasks,
        records=records,
        baseline="plain",
        explain=lambda *_: Explanation("bug", text),
        blocks={"spec": text},
    )


def test_hostile_text_reaches_the_terminal_as_text() -> None:
    """Escape sequences lose their escape, and markup is shown, not obeyed."""
    shown = text_of(hostile())
    assert "\x1b" not in shown
    assert "\x9b" not in shown
    assert "\u202e" not in shown
    assert "[bold]x[/bold]" in shown


def test_hostile_text_reaches_the_page_as_text() -> None:
    """No element comes from a value."""
    page = in_notebook(hostile())

    class Elements(HTMLParser):
        found: list[str]

        def handle_starttag(self, tag: str, attrs: Any) -> None:
            self.found.append(tag)

    parser = Elements()
    parser.found = []
    parser.feed(page)
    assert {*parser.found} == {"table", "tr", "th", "td"}


def test_the_page_shows_no_secret_that_it_would_escape_or_cut() -> None:
    """Secrets go before the text is escaped, and before it is cut to its line."""
    Secret('paged&"<key>-1' * 4)
    for before in ("", "y" * 180):
        page = in_notebook(hostile(before + 'paged&"<key>-1' * 4))
        assert "paged" not in page
        assert "***" in page


def test_the_first_failure_is_told_with_its_reason() -> None:
    """A run without a baseline says why tasks failed, too."""
    failed = msgspec.structs.replace(
        record("t1"), outcome=Outcome(status="failed", reason="the server is gone", rounds=1)
    )
    made = summarise(name="n", tasks=TASKS, records={"plain": [record("t0"), failed]})
    assert made.pipelines[0].failure == "task t1: the server is gone"
    console = Console(width=200, record=True, file=io.StringIO())
    console.print(tables(made))
    assert "plain: the first failure: task t1: the server is gone" in console.export_text()
