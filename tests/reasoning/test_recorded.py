"""`reasoning.recorded`: solutions from a file, several systems in one, pools that end, and files that are wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from draftverify import ConfigError, Pipeline, Task, fallback
from draftverify.kit import Subject, check_component, make_context
from draftverify.rules import Best, First, Majority, Rounds
from draftverify_reasoning import Answered, RecordedScore, RecordedSolutions

POOL = {"task_id": "t", "samples": [
    {"text": "so 7", "score": 0.1, "correct": True, "system": "small"},
    {"text": "so 8", "answer": "9.0", "score": 0.9, "correct": False, "system": "large"},
    {"text": "no idea", "score": 0.5},
]}  # fmt: skip


def write(folder: Path, *rows: Any) -> Path:
    path = folder / "pool.jsonl"
    path.write_text("".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows))
    return path


def test_solutions_with_their_answers(tmp_path: Path) -> None:
    """The recorded answer, normalised, else the one in the text; what was recorded beside it is kept."""
    made = RecordedSolutions(write(tmp_path, POOL)).propose(make_context(Task(id="t")), 8)
    assert made.items == (
        {"text": "so 7", "answer": "7", "correct": True, "score": 0.1, "system": "small"},
        {"text": "so 8", "answer": "9", "correct": False, "score": 0.9, "system": "large"},
        {"text": "no idea", "answer": None, "score": 0.5},
    )
    assert made.exhausted


@pytest.mark.parametrize(
    ("form", "sample", "warnings"),
    [("auto", "so 7", 0), ("boxed", "so 7", 1), ("boxed", {"text": "so 7", "answer": "7"}, 0)],
)
def test_a_run_in_which_most_solutions_have_no_answer_says_so(
    form: Any, sample: Any, warnings: int, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Once, with the form and an example; where answers were recorded none is looked for."""
    path = write(tmp_path, {"task_id": "t", "samples": [sample] * 60})
    RecordedSolutions(path, form=form).propose(make_context(Task(id="t")), 60)
    told = [record.getMessage() for record in caplog.records if record.name == "draftverify.reasoning"]
    assert len(told) == warnings
    assert all("no answer is found in 20 of the first 20 solutions by form 'boxed'" in each for each in told)


def test_parallel_lists_found_by_the_question(tmp_path: Path) -> None:
    """A file with samples in parallel lists, matched by what is asked."""
    row = {"question": "3 +  4?", "code": ["a", "b"], "pred": ["7", "8"], "rm": [[1.5], [-2]]}
    fields = {"prompt": "question", "text": "code.*", "answer": "pred.*", "score": "rm.*.0"}
    recorded = RecordedSolutions(write(tmp_path, row), fields, match="prompt")
    made = recorded.propose(make_context(Task(id="t", input={"question": "3 + 4?"})), 1)
    assert made.items == ({"text": "a", "answer": "7", "score": 1.5},)
    assert not made.exhausted


def test_one_system_of_several(tmp_path: Path) -> None:
    """The samples of the system that was named, and a wrong name is told."""
    path = write(tmp_path, POOL)
    made = RecordedSolutions(path, system="large").propose(make_context(Task(id="t")), 8)
    assert [item["system"] for item in made.items] == ["large"]
    both = RecordedSolutions(path, system=["large", "small"]).propose(make_context(Task(id="t")), 8)
    assert [item["system"] for item in both.items] == ["large", "small"]
    with pytest.raises(ConfigError, match="no sample is of the system 'larg'; did you mean 'large'"):
        RecordedSolutions(path, system="larg").open()


def test_a_pool_smaller_than_n_is_exhausted(tmp_path: Path) -> None:
    """Best of eight of a pool of three is the best of three; an empty pool gives nothing, and is no error."""
    path = write(tmp_path, POOL, {"task_id": "u", "samples": []})
    pipeline = Pipeline(RecordedSolutions(path), RecordedScore(), Best(), block=8)
    outcome = pipeline.run(Task(id="t"))
    assert (outcome.status, outcome.value["answer"], outcome.score) == ("accepted", "9", 0.9)
    assert pipeline.run(Task(id="u")).status == "refused"


def test_a_solution_without_a_score_is_an_error_and_takes_no_part(tmp_path: Path) -> None:
    """It is not scored zero: below it nothing would be chosen that has a negative score."""
    path = write(tmp_path, {"task_id": "t", "samples": [{"text": "a"}, {"text": "b", "score": -3}]})
    outcome = Pipeline(RecordedSolutions(path), RecordedScore(), Best(), block=2).run(Task(id="t"))
    assert (outcome.value["text"], outcome.tally.errors) == ("b", 1)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ('{"task_id": "t", "text": "a", "score": NaN}', r"pool\.jsonl:2: not JSON: NaN"),
        (
            {"task_id": "t", "text": "a", "score": "high"},
            r"pool\.jsonl:2: 'score' should be a number, not 'high'",
        ),
        (
            {"task_id": "t", "samples": [{"text": "a"}, {"text": "b", "score": True}]},
            "pool.jsonl:2: sample 1",
        ),
        ({"task_id": "t", "text": "a", "system": 7}, "'system' should be a text, not 7"),
        ({"task_id": "t", "text": None}, "'text' should be a text"),
    ],
)
def test_what_is_wrong_is_told_with_its_place(tmp_path: Path, row: Any, message: str) -> None:
    """A score that is none refuses the file."""
    with pytest.raises(ConfigError, match=message):
        RecordedSolutions(write(tmp_path, {"task_id": "s", "text": "a"}, row)).open()


def test_the_generator_conforms(tmp_path: Path) -> None:
    """Law, shape, reproducibility, one batch as many calls, opened and closed twice."""
    check_component(Subject(RecordedSolutions(write(tmp_path, POOL)), tasks=[Task(id="t")]))


def test_votes_are_by_answer(tmp_path: Path) -> None:
    """Solutions that say one number in several ways vote together."""
    samples = [f"#### {said}" for said in ("8", "7", "$7.00", "14/2")]
    path = write(tmp_path, {"task_id": "t", "samples": [{"text": text, "score": 1} for text in samples]})
    outcome = Pipeline(RecordedSolutions(path), RecordedScore(), Majority(), block=4).run(Task(id="t"))
    assert (outcome.value["answer"], outcome.support) == ("7", 0.75)


def test_cheap_models_that_agree_and_a_dear_one_for_the_rest(tmp_path: Path) -> None:
    """A vote that abstains below two ballots is a generator with nothing to propose, and the policy falls back."""
    said = {"1": ("so 7", "so 7.0", "so 9"), "2": ("so 7", "so 8", "so 9"), "3": ("so 7", "no idea", "so 9")}
    samples = [
        {"task_id": task, "prompt": f"q{task}", "text": text, "system": system}
        for task, texts in said.items()
        for system, text in zip(("small", "other", "large"), texts, strict=True)
    ]
    path = write(tmp_path, *samples)
    cheap = RecordedSolutions(path, match="prompt", system=["small", "other"])
    vote = Pipeline(cheap, Answered(), Majority(ballots=2), block=2, done=Rounds(1))
    large = RecordedSolutions(path, match="prompt", system="large")
    cascade = Pipeline(vote, Answered(), First(), policy=fallback(large, name="large"))
    found = [cascade.run(Task(id=task, input={"question": f"q{task}"})).value["system"] for task in said]
    assert found == ["small", "large", "large"]
