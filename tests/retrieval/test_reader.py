"""The trained reader, on a tiny encoder: it learns, goes on after a kill, and reads blocks alike in any batch."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from draftverify import ConfigError, Proposal, ResourceError
from draftverify.kit import check_component, make_context
from draftverify_retrieval import ReaderTraining, TrainedReader

from . import tiny
from .readers import check_common, checks_of, subject_of

NAMES = [
    "anna",
    "boris",
    "clara",
    "david",
    "elena",
    "felix",
    "greta",
    "hugo",
    "irene",
    "jonas",
    "karla",
    "louis",
]
THINGS = [
    "gold",
    "silver",
    "copper",
    "iron",
    "amber",
    "coal",
    "salt",
    "glass",
    "silk",
    "wool",
    "wine",
    "corn",
]
CITIES = ["paris", "rome", "berlin", "oslo", "vienna", "madrid"]
PLACES = [f"{side} {city}" for side in ("north", "south", "west", "east") for city in CITIES]


def passage_of(i: int) -> str:
    """A passage about one place."""
    who, what, where = NAMES[i % 12], THINGS[(5 * i) % 12], PLACES[i]
    return f"In the year {1800 + i} there was rain in {where}. The {what} of {where} was found by {who}. It was {what}."


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """48 questions about 24 passages, as lines."""
    lines = []
    for i in range(24):
        text, who = passage_of(i), NAMES[i % 12]
        what, where = THINGS[(5 * i) % 12], PLACES[i]
        lines.append({"question": f"Who found the {what} of {where}?", "passage": text, "answers": [who]})
        year = {"text": str(1800 + i), "start": text.index(str(1800 + i))}
        lines.append({"question": f"When was there rain in {where}?", "passage": text, "answers": [year]})
    path = tmp_path_factory.mktemp("data") / "questions.jsonl"
    path.write_text("\n".join(json.dumps(line) for line in lines))
    return path


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny encoder with random weights."""
    return tiny.save(tmp_path_factory.mktemp("encoder"))


def training(data: Path, encoder: Path, **more: Any) -> ReaderTraining:
    """A training of seconds."""
    return ReaderTraining(data, encoder=encoder, **{"epochs": 4, "held_out": 0.2, "negatives": 2, **more})


@pytest.fixture(scope="module")
def trained(
    data: Path, encoder: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, dict[str, Any]]:
    """A reader and its report."""
    out = tmp_path_factory.mktemp("reader")
    return out, training(data, encoder, epochs=30).train(out)


def files(directory: Path) -> dict[str, bytes]:
    """What stands in a directory."""
    return {path.name: path.read_bytes() for path in sorted(directory.iterdir())}


def test_it_learns_where_answers_stand(trained: tuple[Path, dict[str, Any]]) -> None:
    """On passages that it did not see the spans are mostly right, and the right passage mostly scores above others."""
    _, report = trained
    assert report["held_out_questions"] >= 4
    assert report["f1"] > 0.5
    assert report["em"] <= report["f1"]
    assert report["auroc"] > 0.7
    assert sum(each["passages"] for each in report["bins"]) >= 3 * report["held_out_questions"] - 2
    assert json.loads(json.dumps(report)) == report


def test_of_few_passages_one_is_held_out(data: Path, encoder: Path, tmp_path: Path) -> None:
    """A report without figures would look like one that has none to show."""
    few = tmp_path / "few.jsonl"
    few.write_text("\n".join(data.read_text().splitlines()[:8]))
    report = training(few, encoder, held_out=0.001, epochs=1).train(tmp_path / "out")
    assert report["held_out_questions"] == 2
    assert "auroc" in report


def test_it_keeps_the_contract(trained: tuple[Path, dict[str, Any]]) -> None:
    """The kit's checks."""
    check_component(subject_of(TrainedReader(trained[0])))


def test_what_holds_of_every_reader(trained: tuple[Path, dict[str, Any]]) -> None:
    """Empty questions and passages, batches alike to 1e-4, places of answers, identity."""
    check_common(TrainedReader(trained[0]))


def test_each_text_is_read_once_for_all_blocks(
    trained: tuple[Path, dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Blocks of many tasks are one call of the encoder, and a passage that several drafted is one row of it."""
    from draftverify_retrieval import matching

    calls: list[list[str]] = []
    whole = matching.read_texts

    def read_texts(encoder: Any, texts: list[str]) -> Any:
        calls.append(list(texts))
        return whole(encoder, texts)

    monkeypatch.setattr(matching, "read_texts", read_texts)
    block = Proposal.alternatives([passage_of(0), passage_of(1)])
    contexts = [make_context({"question": question}) for question in ("Who found gold?", "When was rain?")]
    TrainedReader(trained[0]).verify_many(contexts, [block, block])
    assert [sorted(call) for call in calls] == [
        sorted(["Who found gold?", "When was rain?", passage_of(0), passage_of(1)])
    ]


def test_a_rejected_passage_has_its_reading_too(trained: tuple[Path, dict[str, Any]]) -> None:
    """The threshold decides on the verdict alone; score and reading stay."""
    question, text = "Who found the gold of north paris?", passage_of(0)
    (low,) = checks_of(TrainedReader(trained[0], threshold=-1e6), question, text)
    (high,) = checks_of(TrainedReader(trained[0], threshold=1e6), question, text)
    assert (low.verdict, high.verdict, high.reason) == ("pass", "reject", "no answer")
    assert (low.score, low.correction) == (high.score, high.correction)
    assert low.correction["answer"] in text


def test_a_long_passage_is_read_to_its_end(trained: tuple[Path, dict[str, Any]]) -> None:
    """What stands behind the encoder's window counts as if it stood alone, or more."""
    reader = TrainedReader(trained[0])
    question, text = "Who found the gold of north paris?", passage_of(0)
    (alone,) = checks_of(reader, question, text)
    (far,) = checks_of(reader, question, "Nothing of that kind. " * 60 + text)
    (never,) = checks_of(reader, question, "Nothing of that kind. " * 60)
    assert far.score > never.score
    assert far.score == pytest.approx(alone.score, abs=abs(alone.score - never.score) / 2)


def test_a_stopped_training_goes_on_to_the_same_weights(data: Path, encoder: Path, tmp_path: Path) -> None:
    """Ctrl-C after the second epoch, then the same call: bytes and report are those of a training in one go."""
    whole = training(data, encoder).train(tmp_path / "whole")
    told: list[str] = []

    def stop(step: int, total: int, words: str) -> None:
        told.append(words)
        if sum(each.startswith("span") for each in told) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        training(data, encoder).train(tmp_path / "stopped", stop)
    assert list(files(tmp_path / "stopped")) == ["checkpoint.safetensors"]
    later: list[str] = []
    again = training(data, encoder).train(
        tmp_path / "stopped", lambda step, total, words: later.append(words)
    )
    assert sum(each.startswith("span") for each in later) == 2
    assert again == whole
    assert files(tmp_path / "stopped") == files(tmp_path / "whole")


def test_another_training_in_the_same_place_is_refused(data: Path, encoder: Path, tmp_path: Path) -> None:
    """A checkpoint of other settings is not gone on with."""

    def stop(step: int, total: int, words: str) -> None:
        if words.startswith("span"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        training(data, encoder).train(tmp_path, stop)
    with pytest.raises(ConfigError, match="another --out"):
        training(data, encoder, seed=1).train(tmp_path)
    (tmp_path / "checkpoint.safetensors").write_bytes(b"cut")
    with pytest.raises(ConfigError, match="no checkpoint"):
        training(data, encoder).train(tmp_path)


def test_another_encoder_or_no_reader_is_refused(
    data: Path, encoder: Path, tmp_path: Path, trained: tuple[Path, dict[str, Any]]
) -> None:
    """A reader follows its encoder's weights; a directory without one says how to make it."""
    other = tiny.save(tmp_path / "encoder")
    training(data, other, epochs=1).train(tmp_path / "reader")
    TrainedReader(tmp_path / "reader").open()
    assert TrainedReader(tmp_path / "reader").identity != TrainedReader(trained[0]).identity
    tiny.save(other, seed=9)
    with pytest.raises(ResourceError, match="another encoder"):
        TrainedReader(tmp_path / "reader").open()
    with pytest.raises(ResourceError, match="draftverify fit part reader"):
        TrainedReader(tmp_path).open()


def test_weights_that_are_no_numbers_are_errors(trained: tuple[Path, dict[str, Any]]) -> None:
    """NaN of the head is an error of the check, never a rejection."""
    import torch

    reader = TrainedReader(trained[0])
    reader.open()
    with torch.no_grad():
        reader._get()[1].head.direct.bias.fill_(float("nan"))
    (check,) = checks_of(reader, "Who found the gold?", passage_of(0))
    assert (check.verdict, check.reason) == ("error", "not finite")


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('{"question": "Who?", "passage": "A king.", "answers": ["a queen"]}', "does not stand"),
        ('{"question": "Who?", "passage": "A king."}', "answers"),
        ('{"question": "Who?", "passage": "A king.", "answers": "king"}', "answers is no list"),
        ('{"question": " ", "passage": "A king.", "answers": []}', "must not be empty"),
        ("[1, 2", "not JSON"),
    ],
)
def test_lines_that_cannot_be_read_are_named(encoder: Path, tmp_path: Path, line: str, said: str) -> None:
    """The file, the line and what is wrong with it."""
    path = tmp_path / "bad.jsonl"
    path.write_text('{"question": "Who?", "passage": "A king.", "answers": ["king"]}\n' + line)
    with pytest.raises(ConfigError, match=said) as caught:
        training(path, encoder).train(tmp_path / "out")
    assert caught.value.where.endswith("bad.jsonl:2")


def test_a_line_ends_where_its_json_does(encoder: Path, tmp_path: Path) -> None:
    """A text may hold what Unicode calls the end of a line."""
    path = tmp_path / "lines.jsonl"
    line = {"question": "Who?", "passage": "One.\u2028A king.\x85", "answers": ["king"]}
    path.write_text(json.dumps(line, ensure_ascii=False) + "\r\n", encoding="utf-8")
    with pytest.raises(ConfigError, match="use more than one passage"):  # which is said of what was read
        training(path, encoder, held_out=0.0, epochs=1).train(tmp_path / "out")


def test_arguments_out_of_range_are_named(data: Path, encoder: Path, tmp_path: Path) -> None:
    """Each with its name, before anything is read."""
    for name, value in (("held_out", 0.9), ("epochs", 0), ("negatives", 0)):
        with pytest.raises(ConfigError, match=name):
            training(data, encoder, **{name: value}).train(tmp_path)


def test_a_question_that_its_paragraph_does_not_answer_teaches_that(encoder: Path, tmp_path: Path) -> None:
    """SQuAD 2.0 marks them: no other paragraph is as near, and they were left out."""
    asked = [("Who found gold?", "Ann"), ("When was gold found?", "1801"), ("Who sold gold?", None)]
    paragraphs = []
    for i in range(6):
        text = f"Ann found gold in 1801, in the town of {PLACES[i]}."
        made = [
            {
                "id": f"{i} {question}",
                "question": question,
                "is_impossible": answer is None,
                "answers": [] if answer is None else [{"text": answer, "answer_start": text.index(answer)}],
            }
            for question, answer in asked
        ]
        paragraphs.append({"context": text, "qas": made})
    path = tmp_path / "squad.json"
    path.write_text(json.dumps({"data": [{"title": "Gold", "paragraphs": paragraphs}]}))
    report = training(path, encoder, held_out=0.0, epochs=1).train(tmp_path / "out")
    assert report["questions"] == 18
