"""Problems from files in GSM8K's layout, and what is wrong in one told with its place."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from draftverify import ConfigError
from draftverify_reasoning import Problems


def write(folder: Path, *rows: Any) -> Path:
    path = folder / "problems.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_problems_in_the_layout_of_gsm8k(tmp_path: Path) -> None:
    """The question goes in, the extracted answer is the expected, the line's number the id; the solution is nowhere."""
    path = write(
        tmp_path,
        {"question": "3 + 4?", "answer": "It is 3 + 4 = <<3+4=7>>7.\n#### 7"},
        {"question": "500 + 500?", "answer": "#### 1,000"},
    )
    first, second = Problems(path).load()
    assert (first.id, dict(first.input), dict(first.expected)) == (
        "1",
        {"question": "3 + 4?"},
        {"answer": "7"},
    )
    assert second.expected == {"answer": "1000"}
    assert len(Problems(path, limit=1).load()) == 1


def test_other_names_and_forms(tmp_path: Path) -> None:
    """Fields are mapped, the answer is read in another form, or is the field itself."""
    path = write(
        tmp_path,
        {"idx": 3, "problem": "p", "solution": r"so \boxed{\frac{1}{2}}", "gt": 0.5, "level": "easy"},
    )
    fields = {"id": "idx", "question": "problem", "group": "level"}
    (boxed,) = Problems(path, {**fields, "answer": "solution"}, form="boxed").load()
    (plain,) = Problems(path, {**fields, "answer": "gt"}, form="plain").load()
    assert (boxed.id, boxed.group) == ("3", "easy")
    assert boxed.expected == plain.expected == {"answer": "0.5"}


@pytest.mark.parametrize(
    ("rows", "given", "message"),
    [
        ([{"question": "q", "answer": "it is 7"}], {}, r"problems\.jsonl:1: no answer in the form 'gsm8k'"),
        ([{"question": "q", "answer": "#### $"}], {}, r"problems\.jsonl:1: no answer"),
        ([{"question": "q"}], {}, r"problems\.jsonl:1: 'answer' should be a text; there are 'question'"),
        ([{"question": " ", "answer": "#### 7"}], {}, "'question' should be a text; not ' '"),
        ([{"question": "q", "answer": "#### 7", "id": None}], {}, "'id' should be a text or a number, not None"),
        ([{"question": "q", "answer": "#### 7", "id": "a"}] * 2, {}, r"jsonl:2: the id a stands twice, .*jsonl:1"),
        ([{"question": "q", "answer": "#### 7"}], {"fields": {"questoin": "q"}}, "did you mean question"),
        ([{"question": "q", "answer": "#### 7"}], {"fields": {"id": "number"}}, "'number' should be a text"),
        ([{"question": "q", "answer": "#### 7"}], {"limit": -1}, "limit is -1"),
        ([], {}, "holds no problems"),
        ([[1]], {}, "a JSON object is needed"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_told_with_its_place(
    tmp_path: Path, rows: list[Any], given: dict[str, Any], message: str
) -> None:
    """One line that cannot be read refuses the file."""
    with pytest.raises(ConfigError, match=message):
        Problems(write(tmp_path, *rows), **given).load()
