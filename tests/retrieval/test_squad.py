"""Tasks and paragraphs from files in SQuAD's layout."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from draftverify import ConfigError
from draftverify_retrieval.tasks import Squad, paragraphs


def question(id: str, *answers: tuple[str, int], impossible: bool = False) -> dict[str, Any]:
    return {
        "id": id,
        "question": f"What is {id}?",
        "answers": [{"text": text, "answer_start": start} for text, start in answers],
        **({"is_impossible": True, "plausible_answers": []} if impossible else {}),
    }


DATA: dict[str, Any] = {
    "version": "v2.0",
    "data": [
        {
            "title": "Cats",
            "paragraphs": [
                {
                    "context": "The cat sat on the mat.",
                    "qas": [
                        question("a", ("the mat", 15), ("The mat", 0), ("the mat", 15)),
                        question("b", impossible=True),
                    ],
                },
                {"context": "Dogs bark.", "qas": [question("c", ("Dogs", 0))]},
            ],
        },
        {"title": "Cats", "paragraphs": [{"context": "More cats.", "qas": [question("d", ("cats", 5))]}]},
    ],
}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "squad.json"
    path.write_text(json.dumps(DATA))
    return path


def test_questions_with_their_truth(file: Path) -> None:
    """Answers once each, the paragraph's id, and the places that the file names rightly; none where there is none."""
    tasks = {task.id: task for task in Squad(file).load()}
    assert list(tasks) == ["a", "b", "c", "d"]
    assert (tasks["a"].input, tasks["a"].group) == ({"question": "What is a?"}, "Cats")
    assert tasks["a"].expected == {
        "answers": ["the mat", "The mat"],
        "document": "Cats/0",
        "spans": [[15, 22]],
    }
    assert tasks["b"].expected == {"answers": []}
    assert [task.id for task in Squad(file, unanswerable=False, limit=2).load()] == ["a", "c"]


def test_paragraphs_are_a_corpus(file: Path) -> None:
    """Ids stay unique where two articles have one title, and spans are places in these texts."""
    corpus = {each["id"]: each["text"] for each in paragraphs(file)}
    assert list(corpus) == ["Cats/0", "Cats/1", "Cats/2"]
    for task in Squad(file, unanswerable=False).load():
        for start, end in task.expected["spans"]:
            assert corpus[task.expected["document"]][start:end] in task.expected["answers"]


def test_twins_are_asked_on_the_two_halves(file: Path) -> None:
    """A question has an answer in the corpus that holds its paragraph, and none in the other."""
    even, odd = (
        {task.id: task.expected["answers"] for task in Squad(file, corpus=half, unanswerable=False).load()}
        for half in ("even", "odd")
    )
    assert even.keys() == odd.keys() == {"a", "c", "d"}
    assert all(bool(even[id]) != bool(odd[id]) for id in even)
    assert even["c"] == []
    assert odd["c"] == ["Dogs"]
    assert [each["id"] for each in paragraphs(file, "odd")] == ["Cats/1"]
    assert [task.id for task in Squad(file, half="odd").load()] == ["c"]


def broken(change: Any) -> Any:
    data = json.loads(json.dumps(DATA))
    change(data)
    return data


@pytest.mark.parametrize(
    ("data", "where", "what"),
    [
        ([], "squad.json", "'data'"),
        ({"data": []}, "squad.json", "no such questions"),
        (broken(lambda d: d["data"][1].pop("paragraphs")), "data[1]", "'paragraphs'"),
        (broken(lambda d: d["data"][0]["paragraphs"][1].update(context=7)), "paragraphs[1]", "'context'"),
        (broken(lambda d: d["data"][0]["paragraphs"][0]["qas"][1].pop("id")), "qas[1]", "'id'"),
        (broken(lambda d: d["data"][0]["paragraphs"][1]["qas"][0].update(id="a")), "qas[0]", "twice"),
        (
            broken(lambda d: d["data"][0]["paragraphs"][0]["qas"][0].update(answers=["x"])),
            "answers[0]",
            "'text'",
        ),
        (broken(lambda d: d["data"][0]["paragraphs"][0].update(qas=["x"])), "qas[0]", "'id'"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, data: Any, where: str, what: str) -> None:
    """The place in the file, and what is needed there."""
    path = tmp_path / "squad.json"
    path.write_text(json.dumps(data))
    with pytest.raises(ConfigError) as caught:
        Squad(path).load()
    assert where in caught.value.where
    assert what in caught.value.message


def test_a_file_that_is_none(tmp_path: Path) -> None:
    """Missing, no JSON, no UTF-8, and a limit below 0."""
    with pytest.raises(ConfigError, match="cannot be read"):
        Squad(tmp_path / "none.json").load()
    for bytes in (b"{", b"\xff\xfe{}"):
        (tmp_path / "bad.json").write_bytes(bytes)
        with pytest.raises(ConfigError, match="no JSON"):
            Squad(tmp_path / "bad.json").load()
    with pytest.raises(ConfigError, match="limit is -1; at least 0"):
        Squad(tmp_path / "bad.json", limit=-1).load()
