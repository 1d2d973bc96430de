"""Steps judged where they end: the sound prefix, the first wrong step, trees, and what cannot be judged."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from draftverify import ContractError, Pipeline, Proposal, generator
from draftverify.bench.config.experiment import load_experiment
from draftverify.bench.runner.build import Builder
from draftverify.kit import Subject, check_component, make_context
from draftverify.rules import Limit, LongestPrefix
from draftverify_reasoning import ProcessVerifier, StepwiseSolution, TrainedVerifier, VerifierTraining

from . import tiny

QUESTION = "What is 2 + 2 + 2?"


class Scripted:
    """Scores a step by the number that stands in it; "long" is too long, "nan" no number. Keeps what it was asked."""

    def __init__(self) -> None:
        self.asked: list[list[StepwiseSolution]] = []

    def step_scores(self, solutions: Sequence[StepwiseSolution]) -> list[list[float | str]]:
        self.asked.append(list(solutions))
        return [[self._score(step) for step in each.steps] for each in solutions]

    def _score(self, step: str) -> float | str:
        word = step.split()[-1]
        return "too long" if word == "long" else float(word)


def verified(proposal: Proposal, *accepted: str, question: str = QUESTION) -> tuple[Any, Scripted]:
    """What a ProcessVerifier says of a block, and what it asked for."""
    scorer = Scripted()
    found = ProcessVerifier(scorer).verify(make_context({"question": question}, accepted=accepted), proposal)
    return found.checks, scorer


def test_the_first_wrong_step_is_located() -> None:
    """Sound steps pass with their scores, the wrong one is named with its own, the rest is unchecked."""
    checks, scorer = verified(Proposal.chain(["a 2", "b 1", "c -1.5", "d 3"]), "x 9", "y 9")
    assert [check.verdict for check in checks] == ["pass", "pass", "reject", "unchecked"]
    assert [check.score for check in checks] == [2, 1, -1.5, None]
    assert checks[2].reason == "wrong step"
    assert checks[2].feedback == "step 5 scores -1.50, below 0: c -1.5"
    assert scorer.asked == [[StepwiseSolution(QUESTION, ("x 9", "y 9", "a 2", "b 1", "c -1.5", "d 3"))]]


def test_a_tree_s_paths_are_read_in_one_pass() -> None:
    """Each path from the root to a leaf once; an item that several share is scored in one of them."""
    tree = Proposal.tree(["a 1", "b 1", "aa -1", "ab 2", "aaa 3", "aba -4"], (-1, -1, 0, 0, 2, 3))
    checks, scorer = verified(tree)
    assert [check.verdict for check in checks] == ["pass", "pass", "reject", "pass", "unchecked", "reject"]
    ((*paths,),) = scorer.asked
    assert sorted(each.steps for each in paths) == [
        ("a 1", "aa -1", "aaa 3"), ("a 1", "ab 2", "aba -4"), ("b 1",),
    ]  # fmt: skip
    checks, _ = verified(Proposal.alternatives(["a 1", "b -1"]))
    assert [check.verdict for check in checks] == ["pass", "reject"]


def test_what_cannot_be_judged_is_told_apart() -> None:
    """No number is an error, too long an abstention, empty a rejection; what stands on them is unchecked."""
    for word, verdict, reason in (
        ("b nan", "error", "not finite"), ("b long", "abstain", "too long"), ("  ", "reject", "empty step"),
    ):  # fmt: skip
        checks, _ = verified(Proposal.chain(["a 1", word, "c 1"]))
        assert [check.verdict for check in checks] == ["pass", verdict, "unchecked"]
        assert checks[1].reason == reason
    checks, scorer = verified(Proposal.chain(["a 1", "b 1"]), question=" ")
    assert [(check.verdict, check.reason) for check in checks] == [
        ("abstain", "empty question"),
        ("unchecked", ""),
    ]
    assert not scorer.asked
    with pytest.raises(ContractError, match="no step"):
        verified(Proposal.chain(["a 1", {"text": "b"}]))


def test_the_sound_prefix_is_kept_and_drafting_goes_on() -> None:
    """With the longest prefix: the wrong step is drafted again, the steps before it are not."""
    told: list[tuple[str, ...]] = []

    def propose(context: Any, n: int) -> Proposal:
        told.append(tuple(context.accepted))
        k = len(context.accepted)
        wrong = k + 1 if len(told) < 3 else 99
        return Proposal.chain([f"step {i} {-1 if i == wrong else 1}" for i in range(k, k + n)])

    pipeline = Pipeline(
        generator(propose, shape="chain", reads=[]),
        ProcessVerifier(Scripted()),
        LongestPrefix(),
        block=3,
        done=Limit(4),
    )
    outcome = pipeline.run({"question": QUESTION})  # type: ignore[arg-type]
    assert outcome.status == "accepted"
    assert list(outcome.value) == ["step 0 1", "step 1 1", "step 2 1", "step 3 1"]
    assert told == [(), ("step 0 1",), ("step 0 1", "step 1 1")]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A verifier of a tiny model."""
    folder = tmp_path_factory.mktemp("verifier")
    data = tiny.write(folder / "solutions.jsonl", tiny.problems(12))
    model = tiny.save(folder / "model")
    VerifierTraining(data, model, layers=1, epochs=1, dtype="float32").train(folder / "made")
    return folder / "made"


def test_the_trained_verifier_s_token_scores_are_the_steps(trained: Path) -> None:
    """A chain is one row of one pass, and its last step's score is the whole solution's."""
    verifier = TrainedVerifier(trained)
    process = ProcessVerifier(verifier, threshold=-1e6)
    steps = ["We add 2 and 2.", "That is 4.", "And 2 makes 6."]
    checks = process.verify(make_context({"question": QUESTION}), Proposal.chain(steps)).checks
    (whole,) = verifier.verify(
        make_context({"question": QUESTION}), Proposal.alternatives([tuple(steps)])
    ).checks
    assert [check.verdict for check in checks] == ["pass"] * 3
    assert checks[2].score == pytest.approx(whole.score, abs=1e-5)
    later = process.verify(
        make_context({"question": QUESTION}, accepted=steps[:2]), Proposal.chain(steps[2:])
    ).checks
    assert later[0].score == pytest.approx(whole.score, abs=1e-5)


def test_it_keeps_the_contract(trained: Path) -> None:
    """The kit's checks, over chains and trees."""
    blocks = [
        Proposal.chain(["We add.", "That is 4."]),
        Proposal.tree(["a", "b", "c"], (-1, 0, 0)),
        Proposal.chain(()),
    ]
    tasks = [{"question": QUESTION}, {"question": "What is 1 + 1?"}]
    check_component(
        Subject(ProcessVerifier(TrainedVerifier(trained)), tasks=tasks, proposals=blocks, tolerance=1e-4)
    )


def test_it_is_written_in_yaml(trained: Path, tmp_path: Path) -> None:
    """With its scorer in place or by a name of `models`."""
    tiny.write(tmp_path / "tasks.jsonl", [{"question": QUESTION}])
    (tmp_path / "run.yaml").write_text(
        f"""
name: steps
tasks: {{use: jsonl, path: tasks.jsonl}}
models:
  verifier: {{use: reasoning.verifier, weights: {trained}}}
parts: [./parts.py]
pipelines:
  named:
    generator: {{use: parts.Steps}}
    verifier: {{use: reasoning.process, scorer: verifier, threshold: -1.0}}
    rule: {{use: longest_prefix}}
  placed:
    generator: {{use: parts.Steps}}
    verifier: {{use: reasoning.process, scorer: {{use: reasoning.verifier, weights: {trained}}}}}
    rule: {{use: longest_prefix}}
"""
    )
    (tmp_path / "parts.py").write_text(
        "from draftverify import Proposal\n\n\nclass Steps:\n    def propose(self, context, n):\n"
        "        return Proposal.chain(['We add.'][:n])\n"
    )
    builder = Builder()
    named, placed = (builder.part(each.verifier) for each in load_experiment(tmp_path / "run.yaml").pipelines)
    assert isinstance(named, ProcessVerifier)
    assert isinstance(named.scorer, TrainedVerifier)
    assert named.identity == placed.identity == TrainedVerifier(trained).identity


@pytest.mark.parametrize("threshold", [0.5, 1.5, 2.5])
def test_at_a_stricter_threshold_it_says_what_it_would_have_said(threshold: float) -> None:
    """From the checks of a looser one, trees too; a step that was never looked at stays unchecked at a looser one."""
    context = make_context({"question": QUESTION}, accepted=("x 9",))
    strict, loose = ProcessVerifier(Scripted(), threshold), ProcessVerifier(Scripted(), 0.5)
    for block in (
        Proposal.chain(["a 2", "b 1", "c 3", "d -1", "e 2"]),
        Proposal.tree(["a 1", "b long", "aa 2", "ab 3", "aba 1"], (-1, -1, 0, 0, 3)),
    ):
        first = loose.verify(context, block).checks
        assert strict.rejudged(context, block, first) == strict.verify(context, block).checks
    chain = Proposal.chain(["a 1", "b 3"])
    again = loose.rejudged(context, chain, ProcessVerifier(Scripted(), 2.0).verify(context, chain).checks)
    assert [check.verdict for check in again] == ["pass", "unchecked"]
