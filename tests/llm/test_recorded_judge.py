"""Recorded verdicts asked like a judge: both orders or one, other field names, ids, and what is not recorded."""

from __future__ import annotations

import json

import numpy as np
import pytest

from draftverify import ConfigError, Proposal
from draftverify.identity import identity_of
from draftverify.kit import Subject, check_component, make_context
from draftverify.kit.audit import Presented
from draftverify_llm import RecordedJudge


def written(path, *lines):
    path.write_text("".join(json.dumps(each) + "\n" for each in lines))
    return path


def line(first, second, verdict, **more):
    return {"question": "q", "first": first, "second": second, "verdict": verdict, **more}


CONTEXT = make_context({"question": "q"})


def test_both_orders_are_replayed(tmp_path):
    """The second verdict is in the words of the order that the judge saw; an inconsistent pair is a tie."""
    path = written(
        tmp_path / "v.jsonl",
        line("a", "b", 1, swapped=2),
        line("a", "c", "A", swapped="A"),
        line("c", "b", "tie", swapped="tie"),
    )
    judge = RecordedJudge(path)
    judge.open()
    assert judge.varies == {"order"}
    found = judge.verify(CONTEXT, Proposal.alternatives(("a", "b", "c")))
    np.testing.assert_array_equal(
        found.evidence.cross, [[np.nan, 1, 0.5], [0, np.nan, 0.5], [0.5, 0.5, np.nan]]
    )


def test_one_order_decides_where_no_other_was_asked(tmp_path):
    """The order of the block does not matter, and an audit sees that the order cannot be varied."""
    judge = RecordedJudge(written(tmp_path / "v.jsonl", line("a", "b", "second")))
    assert judge.varies == frozenset()
    found = judge.verify(CONTEXT, Proposal.alternatives(("b", "a")))
    assert [each.score for each in found.checks] == [1.0, 0.0]


def test_what_is_not_recorded_abstains_and_prose_keeps_its_words(tmp_path):
    """Neither is a tie."""
    judge = RecordedJudge(written(tmp_path / "v.jsonl", line("a", "b", "garbage")))
    asked = [Presented("q", "a", "b"), Presented("q", "a", "z")]
    assert [(each.choice, each.why, each.words) for each in judge.compare(asked)] == [
        (None, "no verdict", "garbage"), (None, "not recorded", ""),
    ]  # fmt: skip
    found = judge.verify(CONTEXT, Proposal.alternatives(("a", "b", "z"))).checks
    assert [(each.verdict, each.reason) for each in found] == [
        ("abstain", "no verdict"), ("abstain", "no verdict"), ("abstain", "not recorded"),
    ]  # fmt: skip


def test_ids_tell_equal_texts_apart(tmp_path):
    """The same pair was judged twice, differently: refused without ids, found by them."""
    twice = [line("a", "b", 1, n=7), line("a", "b", 2, n=8)]
    path = written(tmp_path / "v.jsonl", *twice)
    with pytest.raises(ConfigError, match=r"v\.jsonl:2: this pair stands in an earlier line"):
        RecordedJudge(path).open()
    judge = RecordedJudge(path, fields={"id": "n"})
    said = judge.compare(
        [Presented("q", "a", "b", id="8"), Presented("q", "a", "b", id="7"), Presented("q", "a", "b")]
    )
    assert [each.choice for each in said] == ["second", "first", "first"]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "holds no verdicts"),
        ("[1]", "entry 0: a JSON object"),
        ("{", ":1: not JSON"),
        ('{"question": "q", "first": "a", "second": 3, "verdict": 1}', "'second' should be a text"),
        ('{"question": "q", "first": "a", "second": "b"}', "no field 'verdict'"),
    ],
)
def test_files_that_cannot_be_read_are_refused_at_open(tmp_path, text, told):
    """With the line."""
    (tmp_path / "v.jsonl").write_text(text)
    with pytest.raises(ConfigError, match=told):
        RecordedJudge(tmp_path / "v.jsonl").open()


def test_fields_have_other_names_and_unknown_ones_are_refused(tmp_path):
    """fields maps the names."""
    path = written(tmp_path / "v.jsonl", {"input": "q", "output_1": "a", "output_2": "b", "winner": "2"})
    fields = {"question": "input", "first": "output_1", "second": "output_2", "verdict": "winner"}
    assert RecordedJudge(path, fields).compare([Presented("q", "a", "b")])[0].choice == "second"
    with pytest.raises(ConfigError, match=r"fields\.answer"):
        RecordedJudge(path, {"answer": "x"}).open()


def test_recorded_judges_conform(tmp_path):
    """The kit's contract."""
    path = written(tmp_path / "v.jsonl", line("a", "b", 1, swapped=2))
    check_component(
        Subject(RecordedJudge(path), contexts=[CONTEXT], proposals=[Proposal.alternatives(("a", "b"))])
    )


def test_other_verdicts_under_the_same_name_are_another_judge(tmp_path):
    """An audit is of what stands in the file, however its path was given."""
    path = tmp_path / "said.jsonl"
    line = {"question": "q", "first": "x", "second": "y", "verdict": "first"}
    path.write_text(json.dumps(line))
    before = identity_of(RecordedJudge(str(path)))
    assert identity_of(RecordedJudge(path)) == before
    path.write_text(json.dumps({**line, "verdict": "second"}))
    assert identity_of(RecordedJudge(str(path))) != before


@pytest.mark.parametrize("reading", ["the judge's", "the line's", "a place"])
def test_a_file_that_reads_swapped_the_other_way_is_warned_of(tmp_path, caplog, reading):
    """Where nearly every pair has one verdict in both orders, and both places win; one that always says "first" is a
    judge who keeps to a place, and is read as it stands."""
    lines = []
    for i in range(40):
        better = "A>B" if i % 3 else "B>A"
        swapped = {"the judge's": "B>A" if i % 3 else "A>B", "the line's": better}.get(reading, "A>B")
        verdict = "A>B" if reading == "a place" else better
        lines.append({**line(f"a{i}", f"b{i}", verdict), "swapped": swapped})
    judge = RecordedJudge(written(tmp_path / "v.jsonl", *lines))
    judge.open()
    assert ("exchange its words" in caplog.text) == (reading == "the line's")


def test_fields_may_be_paths(tmp_path):
    """As files of others nest them: within objects and lists."""
    path = tmp_path / "nested.jsonl"
    path.write_text(
        json.dumps({"q": {"text": "?"}, "answers": [{"a": "x"}, {"a": "y"}], "judge": {"said": "A>B"}})
    )
    fields = {"question": "q.text", "first": "answers.0.a", "second": "answers.1.a", "verdict": "judge.said"}
    (answer,) = RecordedJudge(path, fields).compare([Presented("?", "x", "y")])
    assert answer.choice == "first"
    with pytest.raises(ConfigError, match=r"there is no field 'judge\.words'"):
        RecordedJudge(path, {**fields, "verdict": "judge.words"}).open()
