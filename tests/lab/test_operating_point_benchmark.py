"""The benchmark of operating points: its splits, its table and its own parts, on made-up tasks."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from benchmarks.operating_point import splits
from benchmarks.operating_point.__main__ import shown
from benchmarks.operating_point.domains import CHARACTERS, DOMAINS, PROMPTS, prepared
from benchmarks.operating_point.reasoning_parts import Priced, Read
from benchmarks.operating_point.surrogate_parts import TOLERANCE, Coarse, Fine, Starts, right
from draftverify import Cost, Pipeline, Task
from draftverify.bench import load_experiment
from draftverify.bench.artifact import OperatingPointFile, read_artifact
from draftverify.kit import make_context
from draftverify.rules import Limit, LongestPrefix

CHAIN = """
name: chain
parts: [{parts}]
tasks: {{use: known_costs.Tasks, count: 17}}
defaults:
  verifier: {{use: known_costs.OnePass}}
  rule: {{use: longest_prefix}}
  done: {{use: limit, items: 30}}
pipelines:
  plain: {{generator: {{use: known_costs.Chain, chance: 0.5}}, block: 0}}
  spec: {{generator: {{use: known_costs.Chain, chance: 0.8}}}}
baseline: plain
"""


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> tuple[splits.Measured, Path]:
    folder = tmp_path_factory.mktemp("splits")
    parts = Path(__file__).parent.parent / "experiments" / "known_costs.py"
    (folder / "chain.yaml").write_text(CHAIN.format(parts=parts))
    return splits.Measured(load_experiment(folder / "chain.yaml"), folder / "sizes", 4), folder


def test_a_split_is_predicted_from_its_own_part_and_written_down_before_the_other_is_read(
    measured: tuple[splits.Measured, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of half of the tasks; the records of the other half are asked for once its file is there."""
    runs, folder = measured
    asked: list[frozenset[str]] = []
    of = splits.Measured.of

    def noted(self, tasks):
        ids = frozenset(task.id for task in tasks)
        written = sorted(folder.glob("split-*.json"))
        assert len(written) == (len(asked) + 1) // 2
        asked.append(ids)
        return of(self, tasks)

    monkeypatch.setattr(splits.Measured, "of", noted)
    rows = splits.held(runs, folder, splits=3)
    for known, unseen in zip(asked[::2], asked[1::2], strict=True):
        assert len(known) == len(unseen) == 8
        assert not known & unseen
    assert len({*asked}) == 6
    for seed, row in enumerate(rows):
        point = read_artifact(folder / f"split-{seed}.json", OperatingPointFile)
        assert row["predicted"]["value"] == point.predicted.value
        assert row["holds"] == point.predicted.holds(row["measured"]["value"])
        assert row["error"] == pytest.approx(abs(point.predicted.value / row["measured"]["value"] - 1))
        # Items that cost .1 and are right at .8: about two a pass of 1.04 s.
        assert 1.4 < row["measured"]["value"] < 2.6


def test_the_table_counts_what_held(measured: tuple[splits.Measured, Path]) -> None:
    """Splits that held of all, the median error, the first split's figures."""
    runs, folder = measured
    rows = splits.held(runs, folder, splits=3)
    rows[1] |= {"holds": False, "error": 0.5}
    rows[0] |= {"holds": True, "error": 0.1}
    rows[2] |= {"holds": True, "error": 0.2}
    told = {"drafts": "items", "tasks": 16, **splits.summed(rows), "first": rows[0], "rows": rows}
    (line,) = shown({"domains": {"chain": told}}).splitlines()[2:]
    assert "| 2 of 3 | 20.0 % |" in line
    assert f"| {rows[0]['block']} |" in line
    told["first"] = {**rows[0], "drafts": False, "block": 0}
    assert "| 0 (do not draft) |" in shown({"domains": {"chain": told}})
    told["first"] = {**rows[0], "block": 1, "tested": 2}
    assert "| 1 (more does not pay) |" in shown({"domains": {"chain": told}})


def test_drafted_paths_end_where_fine_steps_end() -> None:
    """With any block a path is right, each drafted state is within the tolerance, and some are drafted."""
    for task in Starts(3).load():
        plain = Pipeline(Coarse(), Fine(), LongestPrefix(), block=0, done=Limit(64)).record(task)
        drafted = Pipeline(Coarse(), Fine(), LongestPrefix(), block=4, done=Limit(64)).record(task)
        assert right(task, plain.outcome) == right(task, drafted.outcome) == 1.0
        assert 0 < sum(round.tally.accepted for round in drafted.rounds) < 64
        assert len(drafted.rounds) < len(plain.rounds) == 64
        first = next(round for round in drafted.rounds if round.decision.kept)
        before = [value for round in drafted.rounds[: first.index] for value in round.decision.emitted]
        context = make_context(task, accepted=before)
        exact = Fine().verify(context, Coarse().propose(context, 0)).correction[0]
        assert first.items[0] != exact
        assert max(abs(a - b) for a, b in zip(first.items[0], exact, strict=True)) <= TOLERANCE


def test_an_answer_costs_its_length_times_its_model_and_a_pass_the_same_for_any_block(tmp_path: Path) -> None:
    """One after the other, each at the price of its own model; an answer that says nothing is refused."""
    samples = [
        {"text": "x" * 1000, "answer": "4", "system": "small"},
        {"text": "y" * 500, "answer": "5", "system": "large"},
        {"text": "z" * 100, "system": "small"},
    ]
    (tmp_path / "answers.jsonl").write_text(json.dumps({"task_id": "t", "samples": samples}))
    generator, verifier = Priced(tmp_path / "answers.jsonl", {"small": 2, "large": 9.5}), Read(0.2)
    for n, seconds in ((1, 0.2), (2, 0.2 + 0.475), (3, 0.2 + 0.475 + 0.02)):
        context = make_context(Task(id="t"))
        block = generator.propose(context, n)
        assert block.cost is not None
        assert block.cost.seconds == pytest.approx(seconds)
        checked = verifier.verify(context, block)
        assert checked.cost == Cost(0.2)
        assert [check.verdict for check in checked.checks] == ["pass", "pass", "reject"][:n]


def test_the_answers_of_the_models_stand_together_and_begin_in_turn(tmp_path: Path) -> None:
    """Of each problem those of the config's models alone; the answer is the last that a JSON text states."""
    (tmp_path / "zeroeval_gsm").mkdir()
    models = ["gemma-2-2b-it", "Phi-3.5-mini-instruct", "Qwen2-7B-Instruct", "Meta-Llama-3-8B-Instruct"]
    models += ["Meta-Llama-3.1-8B-Instruct", "Yi-1.5-9B-Chat", "gemma-2-9b-it", "Mistral-Nemo-Instruct-2407"]
    outputs = ['```json {"reasoning": "so", "answer": "18"}```', '{"answer": 1, "answer": 18', "cut off"]
    rows = [
        {"model": model, "id": f"p{i}", "question": "q", "answer": "# 18", "output": outputs[place % 3]}
        for place, model in enumerate((*models, "gpt-4o"))
        for i in range(2)
    ]
    with gzip.open(tmp_path / "zeroeval_gsm" / "gsm.jsonl.gz", "wt") as file:
        file.write("\n".join(map(json.dumps, rows)))
    prepared("reasoning", tmp_path, tmp_path / "work")
    lines = (tmp_path / "work" / "reasoning" / "answers.jsonl").read_text().splitlines()
    first, second = map(json.loads, lines)
    assert [sample["system"] for sample in first["samples"]] == models
    assert [sample["system"] for sample in second["samples"]] == models[1:] + models[:1]
    assert [sample.get("answer") for sample in first["samples"]][:3] == ["18", "18", None]
    assert first["answer"] == "18"


def test_a_domain_is_an_experiment_in_a_directory_of_its_own(tmp_path: Path) -> None:
    """Short prompts alone, so many of a kind; every config says what its pipelines are and loads there."""
    (tmp_path / "spec_bench").mkdir()
    texts = ["short"] * (PROMPTS + 2) + ["x" * (CHARACTERS + 1)]
    rows = [{"question_id": i, "category": "qa", "turns": [text]} for i, text in enumerate(texts)]
    (tmp_path / "spec_bench" / "question.jsonl").write_text("\n".join(map(json.dumps, rows)))
    for name in ("tokens", "surrogate"):
        experiment = load_experiment(prepared(name, tmp_path, tmp_path / "work"))
        assert experiment.name == name
        assert len(experiment.names) == 2
    assert len((tmp_path / "work" / "tokens" / "prompts.jsonl").read_text().splitlines()) == PROMPTS
    assert set(DOMAINS) == {
        "tokens",
        "code",
        "retrieval",
        "reasoning",
        "surrogate",
    }
