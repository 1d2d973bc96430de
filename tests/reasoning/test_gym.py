"""Problems of reasoning-gym: made from a name and a seed, made again by a checker, scored by their dataset."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from draftverify import ConfigError, ContractError, Task
from draftverify_reasoning.evaluated import harmless
from draftverify_reasoning.gym import UnreadableAnswer, entry_of, score_answer
from draftverify_reasoning.tasks import Gym


def test_problems_are_the_same_for_the_same_seed() -> None:
    """Ids, questions and truths come again with the seed and change with it; the group is the dataset."""
    tasks = Gym(["chain_sum", "gcd"], size=3, seed=5).load()
    assert [task.id for task in tasks] == [f"{name}-5-{i}" for name in ("chain_sum", "gcd") for i in range(3)]
    assert [task.group for task in tasks] == ["chain_sum"] * 3 + ["gcd"] * 3
    again = Gym(["chain_sum", "gcd"], size=3, seed=5).load()
    assert [(task.input, task.expected) for task in tasks] == [(task.input, task.expected) for task in again]
    other = Gym("chain_sum", size=3, seed=6).load()
    assert [task.input["question"] for task in other] != [task.input["question"] for task in tasks[:3]]


def test_a_limit_takes_the_first_of_all() -> None:
    """As `--limit` does; the problems are those of the whole."""
    whole = Gym(["chain_sum", "gcd"], size=3).load()
    few = Gym(["chain_sum", "gcd"], size=3, limit=4).load()
    assert [(task.id, task.input) for task in few] == [(task.id, task.input) for task in whole[:4]]


def test_a_task_s_input_makes_the_entry_again_and_does_not_tell_the_answer() -> None:
    """The entry made from the input has the question and the truth; the input has the question and no answer."""
    options = {"chain_sum": {"min_terms": 3, "max_terms": 3}}
    for task in Gym("chain_sum", size=4, seed=1, config=options).load():
        assert set(task.input) == {"question", "gym"}
        assert set(task.input["gym"]) == {"dataset", "seed", "size", "index", "config"}
        _, entry = entry_of(task.without_expected())
        assert (entry["question"], entry["answer"]) == (task.input["question"], task.expected["answer"])
        assert entry["metadata"]["num_terms"] == 3


def test_a_dataset_without_one_answer_has_no_truth() -> None:
    """Where many answers are right, there is nothing to compare with but the scorer's word."""
    (task,) = Gym("graph_color", size=1).load()
    assert task.expected == {}
    assert score_answer(task, "{}") < 1


def test_the_dataset_s_own_scorer_judges() -> None:
    """The right answer has 1, a wrong one less."""
    (task,) = Gym("countdown", size=1, seed=3).load()
    assert score_answer(task, task.expected["answer"]) == 1.0
    assert score_answer(task, "1 + 1") < 1.0


def test_an_answer_that_a_scorer_cannot_read_is_the_answer_s_fault() -> None:
    """A scorer that breaks on a text but reads its own answer has been given what is no answer."""
    (task,) = Gym("prime_factorization", size=1).load()
    with pytest.raises(UnreadableAnswer, match="ValueError"):
        score_answer(task, "two times three")


EVALUATING = ["binary_matrix", "countdown", "n_queens", "puzzle24", "simple_integration", "spiral_matrix"]
EVALUATING += ["intermediate_integration", "polynomial_multiplication", "string_insertion"]


@pytest.mark.parametrize("name", EVALUATING)
def test_an_answer_is_never_run_as_a_program(name: str, tmp_path: Path) -> None:
    """Scorers that evaluate what a model wrote do not get what could run; they do get their own answers."""
    (task,) = Gym(name, size=1).load()
    ran = tmp_path / "ran"
    for program in (
        f"__import__('pathlib').Path({str(ran)!r}).touch()",
        f"  open({str(ran)!r}, 'w')",
        f"[0 for _ in [open({str(ran)!r}, 'w')]]",
        "9**9**9**9**9",
        "(((9**99)**99)**99)**99",
    ):
        with pytest.raises(UnreadableAnswer, match="could run as a program"):
            score_answer(task, program)
    assert not ran.exists()
    _, entry = entry_of(task)
    assert score_answer(task, entry["answer"]) == 1.0


@pytest.mark.parametrize(
    ("answer", "python", "sympy"),
    [
        ("(7 - 8/2) * -8.5", True, True),
        ("x**3/3 + exp(-2*x)*sin(x) + C", True, True),
        ("[['1', 2], (3,)]", True, True),
        ("_ Q _\nQ _ _", True, False),
        ("5!", True, False),
        ("'a' * 10**9", False, False),
        ("[0] * 9", False, False),
        ("exp(exp(exp(9)))", False, False),
        ("x.real", False, False),
        ("f'{x}'", False, False),
        ("sin(1, x=open('f'))", False, False),
        ("1e999", False, False),
        ("-" * 9000 + "1", False, False),
        ("1" * 20_000, False, False),
    ],
)
def test_what_may_be_evaluated(answer: str, python: bool, sympy: bool) -> None:
    """Values of bounded size; what Python's eval stops at is harmless to it, but not to sympy's parser."""
    assert (harmless(answer, "python"), harmless(answer, "sympy")) == (python, sympy)


def test_a_scorer_that_breaks_on_its_own_answer_is_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Then nothing is said of the answer."""
    (task,) = Gym("gcd", size=1).load()
    dataset, _ = entry_of(task)

    def broken(answer: str, entry: Any) -> float:
        raise KeyError("gone")

    monkeypatch.setattr(dataset, "score_answer", broken)
    with pytest.raises(ContractError, match="the scorer of gcd broke: KeyError"):
        score_answer(task, "1")
    monkeypatch.setattr(dataset, "score_answer", lambda answer, entry: float("nan"))
    with pytest.raises(ContractError, match="gave nan"):
        score_answer(task, "1")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"datasets": "chain_sun"}, "no dataset 'chain_sun'; did you mean chain_sum"),
        ({"datasets": "qqqqqq"}, "no dataset 'qqqqqq'; there are"),
        ({"datasets": []}, "should name some"),
        ({"datasets": ["gcd", "gcd"]}, "each once"),
        ({"datasets": "gcd", "size": 0}, "size is 0"),
        ({"datasets": "gcd", "config": {"lcm": {}}}, "'lcm' is none of the datasets"),
        (
            {"datasets": "chain_sum", "config": {"chain_sum": {"max_term": 3}}},
            "no option 'max_term'; did you mean .*max_terms",
        ),
        ({"datasets": "chain_sum", "config": {"chain_sum": {"seed": 3}}}, "no option 'seed'"),
        (
            {"datasets": "chain_sum", "config": {"chain_sum": {"min_terms": 9}}},
            "max_terms must be >= min_terms",
        ),
        ({"datasets": "chain_sum", "config": {"chain_sum": {"min_terms": object()}}}, "plain data"),
        ({"datasets": "composite"}, "at least one dataset"),
    ],
)
def test_what_cannot_be_made_is_told(given: dict[str, Any], message: str) -> None:
    """A name, an option or a value that the package does not take is named, with the nearest one."""
    with pytest.raises(ConfigError, match=message):
        Gym(**given).load()


def test_a_task_of_another_kind_is_told() -> None:
    """A task that is none of reasoning-gym's cannot be scored by it."""
    with pytest.raises(ContractError, match="is none of reasoning-gym's"):
        entry_of(Task(id="t", input={"question": "1 + 1?"}))


def test_the_package_is_imported_at_first_use_alone() -> None:
    """Listing parts and reading a config do not pay for a hundred datasets."""
    code = "import sys, draftverify_reasoning; sys.exit('reasoning_gym' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
