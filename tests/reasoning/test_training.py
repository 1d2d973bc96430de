"""Training a verifier, on a tiny model: it learns, goes on after a kill, and says how good it became."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from draftverify import ConfigError, Proposal, ResourceError
from draftverify.bench import load_experiment, run
from draftverify.bench.cli.main import main
from draftverify.kit import make_context
from draftverify_reasoning import StepwiseSolution, TrainedVerifier, VerifierTraining
from draftverify_reasoning.labelled import read_labelled

from . import tiny


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """40 problems of four solutions each."""
    return tiny.write(tmp_path_factory.mktemp("data") / "solutions.jsonl", tiny.problems(40))


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny language model."""
    return tiny.save(tmp_path_factory.mktemp("model"))


def training(data: Path, model: Path, **more: Any) -> VerifierTraining:
    """A training of seconds."""
    settings = {"epochs": 3, "held_out": 0.25, "depth": 3, "layers": 1, "dtype": "float32", "device": "cpu"}
    return VerifierTraining(data, model, **{**settings, **more})


@pytest.fixture(scope="module", autouse=True)
def _quick() -> Iterator[None]:
    """Rates for a model of some thousand weights."""
    from draftverify_reasoning import training as module

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_HEAD_RATE", 0.02)
        patch.setattr(module, "_LAYER_RATE", 0.002)
        yield


def files(directory: Path) -> list[str]:
    """What stands in a directory and below."""
    return sorted(str(path.relative_to(directory)) for path in directory.rglob("*") if path.is_file())


@pytest.fixture(scope="module")
def trained(data: Path, model: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """A verifier and its report."""
    out = tmp_path_factory.mktemp("verifier")
    return out, training(data, model, epochs=8, layers=2).train(out)


def test_it_learns_which_solutions_are_right(trained: tuple[Path, dict[str, Any]]) -> None:
    """On problems that it did not see the right ones score above the wrong ones, and are chosen."""
    out, report = trained
    assert report["problems"] + report["held_out_problems"] == 40
    assert report["held_out_solutions"] == 4 * report["held_out_problems"] >= 20
    assert report["auc_within"] > 0.9
    assert report["best_of_n"] > report["mean"] + 0.2
    assert report["best_of_n"] <= report["oracle"] == 1
    assert report["gain"] == pytest.approx(report["best_of_n"] - report["mean"])
    for name, (low, high) in report["intervals"].items():
        assert low <= report[name] <= high
    assert files(out) == ["verifier.safetensors"]
    assert json.loads(json.dumps(report)) == report


def test_the_chosen_epoch_is_the_best_within_problems(trained: tuple[Path, dict[str, Any]]) -> None:
    """And the verifier that is written is that epoch's, not the last one's."""
    _, report = trained
    history = report["history"]
    assert [each["epoch"] for each in history] == list(range(1, 9))
    best = max(each["auc_within"] for each in history)
    assert report["epoch"] == next(each["epoch"] for each in history if each["auc_within"] == best)
    assert report["auc_within"] == pytest.approx(best)
    assert history[-1]["loss"] < history[0]["loss"]


def test_an_early_epoch_is_taken_where_later_ones_are_worse(
    data: Path, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is saved scores as that epoch did."""
    from draftverify_reasoning import training as module

    real = module._chosen
    monkeypatch.setattr(module, "_chosen", lambda history: 0)
    report = training(data, model).train(tmp_path / "first")
    monkeypatch.setattr(module, "_chosen", real)
    assert report["epoch"] == 1
    assert report["auc_within"] == pytest.approx(report["history"][0]["auc_within"])
    last = training(data, model, held_out=0.0).train(tmp_path / "last")
    assert (last["epoch"], last["held_out_problems"], "auc_within" in last) == (3, 0, False)


@pytest.mark.parametrize("layers", [pytest.param(0, marks=pytest.mark.exhaustive), 1])
def test_a_stopped_training_goes_on_to_the_same_weights(
    data: Path, model: Path, tmp_path: Path, layers: int
) -> None:
    """Ctrl-C in the first epoch and again in the third, then the same call: weights and report are those in one go."""
    whole = training(data, model, layers=layers).train(tmp_path / "whole")
    told: list[str] = []

    def stop_at(words: str, count: int) -> Any:
        def stop(step: int, total: int, said: str) -> None:
            assert step <= total
            told.append(said)
            if told.count(words) == count:
                raise KeyboardInterrupt

        return stop

    for words, count in (("epoch 1", 2), ("epoch 3", 1)):
        with pytest.raises(KeyboardInterrupt):
            training(data, model, layers=layers).train(tmp_path / "stopped", stop_at(words, count))
    later: list[str] = []
    again = training(data, model, layers=layers).train(
        tmp_path / "stopped", lambda step, total, words: later.append(words)
    )
    assert "epoch 1" not in later
    assert again == whole
    assert files(tmp_path / "stopped") == files(tmp_path / "whole")
    assert TrainedVerifier(tmp_path / "stopped").identity == TrainedVerifier(tmp_path / "whole").identity


def test_fewer_layers_are_read_where_depth_says_so(data: Path, model: Path, tmp_path: Path) -> None:
    """And half of them where nothing is said; that learns too."""
    report = training(data, model, depth=None, layers=2, epochs=8).train(tmp_path / "two")
    assert report["auc_within"] > 0.8
    assert TrainedVerifier(tmp_path / "two")._read_file()[0].depth == 2
    for more, said in (({"depth": 4}, "has 3 layers"), ({"depth": 1, "layers": 2}, "so many")):
        with pytest.raises(ConfigError, match=said):
            training(data, model, **more).train(tmp_path / "bad")


def test_another_training_in_the_same_place_is_refused(data: Path, model: Path, tmp_path: Path) -> None:
    """A checkpoint of other data or settings is not gone on with."""

    def stop(step: int, total: int, words: str) -> None:
        if words == "epoch 2":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        training(data, model).train(tmp_path, stop)
    for more in ({"seed": 1}, {"epochs": 4}, {"layers": 2}):
        with pytest.raises(ConfigError, match="another --out"):
            training(data, model, **more).train(tmp_path)
    (tmp_path / "checkpoint.safetensors").write_bytes(b"cut")
    with pytest.raises(ConfigError, match="no checkpoint"):
        training(data, model).train(tmp_path)


def test_fields_name_the_keys_of_other_layouts(data: Path, model: Path, tmp_path: Path) -> None:
    """The same solutions under other names make the same verifier."""
    rows = [
        {"q": row["question"], "tried": [{"s": s["text"], "ok": s["correct"]} for s in row["solutions"]]}
        for row in tiny.problems(40)
    ]
    other = tiny.write(tmp_path / "other.jsonl", rows)
    fields = {"question": "q", "solutions": "tried", "text": "s", "correct": "ok"}
    report = training(other, model, fields=fields).train(tmp_path / "one")
    assert report == training(data, model).train(tmp_path / "two")
    with pytest.raises(ConfigError, match="no field 'solution'"):
        training(other, model, fields={"solution": "x"}).train(tmp_path / "three")


def test_one_question_never_stands_on_both_sides(data: Path, model: Path, tmp_path: Path) -> None:
    """Nor spelled with other white space or case; the same up to the white space around it is one problem."""
    from draftverify_reasoning import training as module

    rows = tiny.problems(40)
    again = [{**row, "question": f" {row['question']}\n"} for row in rows]
    doubled = read_labelled(tiny.write(tmp_path / "again.jsonl", rows + again))
    assert [problem.question for problem in doubled] == [problem.question for problem in read_labelled(data)]
    loud = [{**row, "question": row["question"].upper().replace(" ", "  ")} for row in rows]
    problems = read_labelled(tiny.write(tmp_path / "loud.jsonl", rows + loud))
    held = module._held(problems, 0.25)
    assert held & set(range(40)) == module._held(problems[:40], 0.25)
    assert {i - 40 for i in held if i >= 40} == {i for i in held if i < 40}


def test_a_text_that_differs_by_white_space_around_it_is_one(tmp_path: Path) -> None:
    """The model reads both alike, so labels of both kinds contradict each other."""
    said = [
        {"text": "x", "correct": True},
        {"text": "x\n", "correct": False},
        {"text": " y", "correct": True},
    ]
    (found,) = read_labelled(tiny.write(tmp_path / "data.jsonl", [{"question": "Q?", "solutions": said}]))
    assert (found.solutions, found.correct) == (("y",), (True,))


def test_equal_texts_count_as_often_as_they_were_sampled(tmp_path: Path) -> None:
    """A model's right answers are the ones that it repeats: without their counts the share of right ones is another."""
    said = [{"text": "x", "correct": True}] * 3 + [{"text": "y", "correct": False, "logprob": -2}]
    (problem,) = read_labelled(tiny.write(tmp_path / "data.jsonl", [{"question": "Q?", "solutions": said}]))
    assert problem.correct == (True, True, True, False)
    assert problem.logprobs == (None, None, None, -2.0)


def test_it_starts_from_the_likelihood_and_is_no_worse(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Right answers are likelier and their texts say nothing: what the text adds is refused where it is worse. The
    report compares with one sample, the majority and the likeliest of the same samples."""
    from draftverify_reasoning import training as module

    rows = [
        {
            "question": f"Q{i}?",
            "solutions": [
                {
                    "text": f"#### {k}",
                    "correct": (k + i) % 3 == 0,
                    "logprob": -1.0 - ((k + i) % 3 > 0) - k / 9,
                }
                for k in range(3)
            ],
        }
        for i in range(24)
    ]
    monkeypatch.setattr(module, "_HEAD_RATE", 0.5)
    data = tiny.write(tmp_path / "data.jsonl", rows)
    report = training(data, model, epochs=1, layers=0).train(tmp_path / "out")
    assert report["history"][0]["auc_within"] == report["auc_within"] == 1.0
    assert report["epoch"] == 0
    assert report["best_of_n"] == report["likeliest"] == 1
    assert report["gain_over_majority"] == pytest.approx(1 - report["majority"])
    verifier = TrainedVerifier(tmp_path / "out", threshold=-100.0)
    texts = Proposal.alternatives(["#### 1", "#### 1"], evidence={"logprob": (-1.0, -2.0)})
    likely, unlikely = verifier.verify(make_context({"question": "Q?"}), texts).checks
    assert likely.score > unlikely.score
    (silent,) = verifier.verify(make_context({"question": "Q?"}), Proposal.alternatives(["#### 1"])).checks
    assert (silent.verdict, silent.reason) == ("abstain", "no log-probability")
    with pytest.raises(ConfigError, match="likelihood: false"):
        verifier.step_scores([StepwiseSolution("Q?", ("a",))])
    assert training(data, model, epochs=1, likelihood=False).train(tmp_path / "without")["epoch"] == 1


def test_values_that_are_no_numbers_end_the_training(
    data: Path, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With held-out problems and without: no verifier is written."""
    from draftverify_reasoning import training as module

    monkeypatch.setattr(module, "_HEAD_RATE", float("inf"))
    for held_out in (0.25, 0.0):
        with pytest.raises(ConfigError, match="no numbers"):
            training(data, model, held_out=held_out).train(tmp_path / f"{held_out}")
        assert not (tmp_path / f"{held_out}" / "verifier.safetensors").exists()


def test_of_equal_scores_the_choice_is_by_chance() -> None:
    """A verifier that says the same of all selects no better than the mean, in whatever order they were read."""
    from draftverify_reasoning.training_report import select

    selected, mean, oracle = select([1.0, 1.0, 1.0, 0.5], [True, False, False, True], [0, 0, 0, 0])
    assert (selected, mean, oracle) == ([pytest.approx(1 / 3)], [0.5], [1.0])


@pytest.mark.parametrize("change", ["longest", "batches"])
def test_a_checkpoint_of_other_batches_is_not_gone_on_with(
    data: Path, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    """Another `longest`, or a device that reads more at once, has others."""
    from draftverify_reasoning import training as module

    def stop(step: int, total: int, words: str) -> None:
        if words == "epoch 2":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        training(data, model).train(tmp_path, stop)
    if change == "batches":
        monkeypatch.setattr(module, "at_once", lambda device: 1024)
    with pytest.raises(ConfigError, match="another --out"):
        training(data, model, **({"longest": 256} if change == "longest" else {})).train(tmp_path)


LINES: list[tuple[Any, str]] = [
    ({"question": "Q?"}, "solutions"),
    ({"question": " ", "solutions": []}, "an empty one"),
    ({"question": "Q?", "solutions": {"text": "x"}}, "no list"),
    ({"question": "Q?", "solutions": [{"text": "x", "correct": "yes"}]}, "true or false"),
    ({"question": "Q?", "solutions": ["x"]}, "KeyError: 'text'"),
    ([1], "a JSON object is needed"),
]


@pytest.mark.parametrize(("row", "said"), LINES)
def test_lines_that_cannot_be_read_are_named(model: Path, tmp_path: Path, row: Any, said: str) -> None:
    """The file, the line and what is wrong with it."""
    path = tiny.write(tmp_path / "bad.jsonl", [*tiny.problems(1), row])
    with pytest.raises(ConfigError, match=said) as caught:
        training(path, model).train(tmp_path / "out")
    assert caught.value.where.endswith("bad.jsonl:2")


def test_data_that_teaches_nothing_is_refused(model: Path, tmp_path: Path) -> None:
    """No solution at all, none that is wrong, none that is short enough, and texts that are said to be both."""
    right = [{"question": f"{i}?", "solutions": [{"text": "x", "correct": True}]} for i in range(3)]
    both = [
        {"question": "Q?", "solutions": [{"text": "x", "correct": True}, {"text": "x", "correct": False}]}
    ]
    for rows, more, said in (
        ([], {}, "no solution is there"),
        (both, {}, "no solution is there"),
        (right, {}, "none is right or none is wrong"),
        (tiny.problems(4), {"longest": 20}, "of 0 solutions"),
    ):
        path = tiny.write(tmp_path / "data.jsonl", rows)
        with pytest.raises(ConfigError, match=said):
            training(path, model, **more).train(tmp_path / "out")


def test_arguments_out_of_range_are_named(data: Path, model: Path, tmp_path: Path) -> None:
    """Each with its name, before anything is read; `longest` once the model is."""
    for name, value in (
        ("held_out", 0.9), ("epochs", 0), ("layers", -1), ("longest", 1), ("longest", 513),
    ):  # fmt: skip
        with pytest.raises(ConfigError, match=name):
            training(data, model, **{name: value}).train(tmp_path)
    with pytest.raises(ResourceError):
        training(data, tmp_path / "nothing").train(tmp_path)


RUN = """
name: labels
tasks: {use: jsonl, path: problems.jsonl}
pipelines:
  strict:
    generator: {use: parts.Tried}
    verifier: {use: parts.Right}
    rule: {use: first}
    block: 5
  other:
    generator: {use: parts.Tried}
    verifier: {use: parts.Right, all: true}
    rule: {use: first}
    block: 5
  trusted:
    generator: {use: parts.Tried}
    verifier: {use: parts.Right, none: true}
    rule: {use: first}
    block: 5
    on_rejection: [{do: fallback, generator: {use: parts.Tried}, verified: false}]
parts: [./parts.py]
"""

PARTS = """
from draftverify import Check, Proposal, Verification


class Tried:
    def propose(self, context, n):
        return Proposal.alternatives(context.task.input["tried"])


class Right:
    def __init__(self, all: bool = False, none: bool = False) -> None:
        self.all = all
        self.none = none

    def verify(self, context, proposal):
        return Verification(checks=tuple(Check(self.word(item["text"])) for item in proposal.items))

    def word(self, text):
        if self.all or self.none:
            return "pass" if self.all else "reject"
        return {"no": "reject", "odd": "error", "unsure": "abstain"}.get(text.split()[0], "pass")
"""


def test_a_run_s_rejections_teach(tmp_path: Path) -> None:
    """What the verifier passed is right, what it rejected is wrong, and what it could not judge is not there."""
    tried = [{"text": text, "answer": None} for text in ("yes 1", "no 2", "odd 3", "unsure 4", "no 2")]
    tried[4]["finished"] = False  # a beginning, which says nothing of what it would have become
    tried[4]["text"] = "yes, so"
    rows = [{"question": f"Q{i}?", "tried": tried[: 5 - i]} for i in range(2)]
    tiny.write(tmp_path / "problems.jsonl", rows)
    (tmp_path / "parts.py").write_text(PARTS)
    (tmp_path / "run.yaml").write_text(RUN)
    run(load_experiment(tmp_path / "run.yaml"), out=tmp_path / "run")
    found = read_labelled(tmp_path / "run", pipeline="strict")
    assert [(each.question, each.solutions, each.correct) for each in found] == [
        ("Q0?", ("yes 1", "no 2"), (True, False)),
        ("Q1?", ("yes 1", "no 2"), (True, False)),
    ]
    # Nobody checked what a trusted fallback gave.
    trusted = read_labelled(tmp_path / "run", pipeline="trusted")
    assert all(each.correct == (False,) * 4 for each in trusted)
    # Of all pipelines together: what one passed and another rejected teaches nothing.
    with pytest.raises(ConfigError, match="no solution is there"):
        read_labelled(tmp_path / "run")
    with pytest.raises(ConfigError, match="no records of a pipeline 'loose'"):
        read_labelled(tmp_path / "run", pipeline="loose")
    with pytest.raises(ConfigError, match="only a run"):
        read_labelled(tmp_path / "problems.jsonl", pipeline="strict")


def test_the_command_trains_and_the_verifier_can_be_used(
    data: Path, model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`draftverify fit part verifier CONFIG`, by its name, to a directory that loads."""
    config = tmp_path / "verifier.yaml"
    config.write_text(f"data: {data}\nmodel: {model}\nepochs: 2\nlayers: 1\n")
    assert main(["fit", "part", "verifier", str(config), "--out", str(tmp_path / "made")]) == 0
    assert "auc_within: 0." in capsys.readouterr().out
    report = json.loads((tmp_path / "made" / "report.json").read_text())
    assert report["figures"]["epochs"] == 2
    TrainedVerifier(tmp_path / "made").open()
