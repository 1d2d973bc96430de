"""A drafter is trained from a run's log: better on tasks that were kept apart, the same answers, loaded by its path."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import torch

from benchmarks import closed_loop
from draftverify import ConfigError, Pipeline
from draftverify.bench import load_experiment, run
from draftverify.bench.cli.exits import ExitCode
from draftverify.bench.cli.main import main
from draftverify.bench.records import load_run, split_of
from draftverify.bench.records.export import frame
from draftverify.rules import Speculative
from draftverify.stats import acceptance_rate
from draftverify.token_summary import read_summaries
from draftverify.values import Decision, Outcome, Refusal, Round, TaskRecord
from draftverify_llm import LocalModel
from draftverify_tokens import DrafterTraining, EarlyExit, Stop, Target
from draftverify_tokens.drafter_training import refused_places
from tests.tokens.tiny import byte_tokenizer, tiny_llama

PAGE = (Path(__file__).parents[2] / "docs" / "replay.md").read_text(encoding="utf-8")
WHOLE, FRAGMENT = re.findall(
    r"^```yaml\n(?:# file: log\.yaml\n)?((?:name: log|generator:).*?)^```$", PAGE, re.M | re.S
)
ANEW = {
    "smollm2-135m-instruct": "./model",
    "layers: 4": "layers: 1",
    "max_tokens: 24": "max_tokens: 16, ignore_eos: true",
}


def config(generator: str = "") -> str:
    """The page's config, of the tiny model; with another generator, as the page writes one."""
    found = WHOLE
    if generator:
        found = re.sub(r"generator: .*", generator.strip(), found)
    for old, new in ANEW.items():
        assert old in found or generator
        found = found.replace(old, new)
    return found


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny model on disk, 44 tasks, and the run of its first layer drafting for it."""
    folder = tmp_path_factory.mktemp("drafter")
    torch.manual_seed(0)
    tiny_llama(257, seed=4, layers=3, spread=0.12).save_pretrained(folder / "model")
    byte_tokenizer().save_pretrained(folder / "model")
    lines = [json.dumps({"prompt": f"{i * 37 % 101} and {i}"}) for i in range(44)]
    (folder / "prompts.jsonl").write_text("\n".join(lines))
    (folder / "log.yaml").write_text(config())
    run(load_experiment(folder / "log.yaml"), out=folder / "log", command=(str(folder / "log.yaml"),))
    return folder


@pytest.fixture(scope="module")
def trained(home: Path) -> dict[str, Any]:
    """The report of a training from that run."""
    return DrafterTraining(home / "log", places="refused").train(home / "trained")


def test_what_was_learned_helps_on_tasks_that_were_kept_apart(home: Path, trained: dict[str, Any]) -> None:
    """A linear map brings a random model's first layer nearer to its last one; the report says by how much."""
    with load_run(home / "log") as log:
        apart = [record.task for record in log if split_of(record.task) == "test"]
        refused = sum(len(refused_places(record)) for record in log if split_of(record.task) == "train")
    assert trained["kept_apart_tasks"] == len(apart) > 0
    assert trained["learned_places"] == refused
    assert trained["gain"] > 0
    assert trained["named_first_after"] == pytest.approx(trained["named_first_before"] + trained["gain"])


def test_the_trained_drafter_is_accepted_more_and_changes_no_answer(
    home: Path, trained: dict[str, Any]
) -> None:
    """Loaded from YAML by its path, whose content is noted with the run; every answer is the one without it."""
    (home / "again.yaml").write_text(config(FRAGMENT))
    path = run(load_experiment(home / "again.yaml"), out=home / "again").path
    with load_run(home / "log") as before, load_run(path) as after:
        old, new = before.records("early"), after.records("early")
        assert [record.outcome.value for record in new] == [record.outcome.value for record in old]
        assert acceptance_rate(new).value > acceptance_rate(old).value
        parts = after.about.starts[0].parts
    assert "file trained/drafter.safetensors" in parts


def test_the_same_log_gives_the_same_drafter(home: Path, trained: dict[str, Any], tmp_path: Path) -> None:
    """To the last bit; and as many random places give another one."""
    again = DrafterTraining(home / "log", places="refused").train(tmp_path / "again")
    control = DrafterTraining(home / "log", places="random").train(tmp_path / "control")
    file = "drafter.safetensors"
    assert (tmp_path / "again" / file).read_bytes() == (home / "trained" / file).read_bytes()
    assert (tmp_path / "control" / file).read_bytes() != (home / "trained" / file).read_bytes()
    for report in (again, trained):
        assert len(report["learned_from"]) >= report["learned_tasks"]
    assert {**again, "learned_from": ()} == {**trained, "learned_from": ()}
    assert control["learned_places"] == trained["learned_places"]


def test_drafted_tokens_are_summarised_in_the_records(home: Path) -> None:
    """Of every drafted token, and in the items' table: greedy rows are one-hot, and the raw maxima are not."""
    with load_run(home / "log") as log:
        rounds = [round for record in log for round in record.rounds]
        found = [summary for round in rounds for summary in read_summaries(round.tokens)]
        assert len(found) == sum(len(round.items) for round in rounds)
        assert {summary.p for summary in found} == {0.0, 1.0}
        assert all(0 < summary.p_max < 1 for summary in found)
        items = frame(log, "items")
    assert items["tv"].tolist() == [summary.tv for summary in found]
    assert json.loads(items["top"][0]) == [list(pair) for pair in found[0].top]


def test_another_rule_s_acceptance_is_estimated(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """By the command, from the summaries: at temperature 0 p is 0 or 1, so that a lenient rule keeps what was kept."""
    asked = ["replay", str(home / "log"), "--set", "rule={use: lenience, lenience: 0.5}"]
    assert main([*asked, "--json"]) == 0
    blocks = json.loads(capsys.readouterr().out)["blocks"]
    assert [block["size"] for block in blocks] == [1, 2, 3]
    assert blocks[0]["ran_kept"]["value"] > 0
    for block in blocks:
        assert block["would_keep"] == pytest.approx(block["ran_kept"])
    assert main([*asked, "--set", "block=2"]) == 0
    out = capsys.readouterr().out
    assert "acceptance at the recorded contexts, an estimate" in out
    assert len(out.splitlines()) == 5
    assert main([*asked, "--set", "block=4"]) == ExitCode.CONFIG
    assert "no block of 4 was recorded" in capsys.readouterr().err
    assert main([*asked, "--set", "budget.rounds=3"]) == ExitCode.CONFIG
    assert "the records hold checks alone" in " ".join(capsys.readouterr().err.split())


def test_without_summaries_no_acceptance_is_made_up(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The message says how to record them."""
    (home / "bare.yaml").write_text(config().replace("records: {tokens: summary}\n", ""))
    run(load_experiment(home / "bare.yaml", limit=2), out=home / "bare", command=(str(home / "bare.yaml"),))
    assert main(["replay", str(home / "bare"), "--set", "rule={use: greedy_match}"]) == ExitCode.CONFIG
    assert "records: {tokens: summary}" in " ".join(capsys.readouterr().err.split())


def test_refused_tokens_are_exported_as_text(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """By the command: the run knows its model, and prompt and chosen together are the beginning of the answer."""
    out = tmp_path / "rows.jsonl"
    assert main(["export", str(home / "log"), "--to", "trl-preference", "-o", str(out)]) == 0
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert f"wrote {len(rows)} rows" in capsys.readouterr().err
    model = LocalModel(home / "model")
    with load_run(home / "log") as log:
        answers = {record.task: model.decode(record.outcome.value) for record in log}
        prompts = {task.id: task.input["prompt"] for task in log.tasks}
    assert rows
    for row in rows:
        written = row["prompt"].removeprefix(prompts[row["task"]]) + row["chosen"]
        assert answers[row["task"]].startswith(written)
        assert row["chosen"] != row["rejected"]


def test_the_command_takes_a_run(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    """It writes beside the caller, says what was gained, and does not train the same again."""
    monkeypatch.chdir(tmp_path)
    assert main(["fit", "part", "drafter", str(home / "log")]) == 0
    assert "named_first_after" in capsys.readouterr().out
    assert (tmp_path / "log-drafter" / "drafter.safetensors").exists()
    assert main(["fit", "part", "drafter", str(home / "log")]) == 0
    assert "holds it already" in capsys.readouterr().out


def test_another_models_adapter_is_refused(home: Path, trained: dict[str, Any], tmp_path: Path) -> None:
    """By its layers, its width, its form; the error says what to do, and is no traceback of a loader."""
    file = home / "trained" / "drafter.safetensors"
    model = LocalModel(home / "model")
    with pytest.raises(ConfigError, match="behind 1 layers, and here are 2"):
        EarlyExit(model, 2, adapter=file).open()
    other = LocalModel.from_module(wide(), byte_tokenizer())
    with pytest.raises(ConfigError, match="trained for another model"):
        EarlyExit(other, 1, adapter=file).open()
    (tmp_path / "none.safetensors").write_bytes(b"\x80\x04 a pickle, perhaps")
    with pytest.raises(ConfigError, match="cannot be read"):
        EarlyExit(model, 1, adapter=tmp_path / "none.safetensors").open()


def wide() -> Any:
    from transformers import LlamaConfig, LlamaForCausalLM

    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=257, hidden_size=64, intermediate_size=48, num_hidden_layers=2,
            num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=512,
        )
    ).eval()  # fmt: skip


def test_a_run_without_an_early_exit_has_nothing_to_train(home: Path) -> None:
    """The message says what has."""
    (home / "lookup.yaml").write_text(config("generator: {use: tokens.prompt_lookup}"))
    run(
        load_experiment(home / "lookup.yaml", limit=2),
        out=home / "lookup",
        command=(str(home / "lookup.yaml"),),
    )
    with pytest.raises(ConfigError, match=r"tokens\.early_exit has"):
        DrafterTraining(home / "lookup").train(home / "nothing")


def test_refused_places_of_chains_and_trees() -> None:
    """The splice's place after a chain, the kept sibling's in a tree; none of a draft that was cut or not judged."""
    chain = Round(
        index=0, items=(1, 2, 3), parents=(-1, 0, 1),
        decision=Decision(kept=(0,), refused=(Refusal(1),), spliced=(9,), emitted=(1, 9)),
    )  # fmt: skip
    tree = Round(
        index=1, items=(4, 5, 6), parents=(-1, -1, 1),
        decision=Decision(kept=(1,), refused=(Refusal(0), Refusal(2)), spliced=(7,), emitted=(5, 7)),
    )  # fmt: skip
    cut = Round(
        index=2, items=(8,), parents=(-1,),
        decision=Decision(refused=(Refusal(0),), spliced=(7,), emitted=()),
    )  # fmt: skip
    record = TaskRecord(task="a", outcome=Outcome(status="accepted"), rounds=(chain, tree, cut))
    assert refused_places(record) == [1, 2, 3]


@pytest.fixture(scope="module")
def second(home: Path, trained: dict[str, Any]) -> Path:
    """A run that was drafted with the trained adapter, whose config has moved since."""
    old = home / "old"
    old.mkdir()
    (old / "again.yaml").write_text(config(FRAGMENT))
    for name in ("model", "prompts.jsonl", "trained"):
        (old / name).symlink_to(home / name)
    run(load_experiment(old / "again.yaml"), out=home / "second", command=(str(old / "again.yaml"),))
    old.rename(home / "moved")
    return home / "second"


def test_a_second_turn_gains_over_the_first(
    home: Path, second: Path, trained: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before is the drafter as it drafted in the log, through its adapter, and not the untrained one again. The moved
    config is named from where the command is given."""
    monkeypatch.chdir(home)
    asked = ["fit", "part", "drafter", str(second), "--out", "turned", "--set", "config=moved/again.yaml"]
    assert main([*asked, "--set", "places=refused"]) == 0
    report = json.loads(Path("turned/report.json").read_text())["figures"]
    assert report["named_first_before"] == pytest.approx(trained["named_first_after"], abs=1e-12)


def test_a_run_that_has_moved_is_exported_by_its_config(home: Path, second: Path, tmp_path: Path) -> None:
    """Of a pipeline's parts only the tokenizer is needed, and `--config` says where the model lies."""
    out = tmp_path / "rows.jsonl"
    asked = ["export", str(second), "--to", "trl-preference", "-o", str(out)]
    assert main(asked) == ExitCode.RESOURCE
    assert main([*asked, "--config", str(home / "moved" / "again.yaml")]) == 0
    assert out.read_text()


def test_so_many_places_at_most_are_learned(home: Path, trained: dict[str, Any], tmp_path: Path) -> None:
    """Drawn from the refused ones, or from all."""
    for places in ("all", "refused", "random"):
        report = DrafterTraining(home / "log", places=places, most=50).train(tmp_path / places)  # type: ignore[arg-type]
        assert report["learned_places"] == 50


def test_without_an_adapter_the_early_exit_is_as_it_was(home: Path) -> None:
    """No map is put in: the head is the target's own."""
    model = LocalModel(home / "model")
    drafter = EarlyExit(model, 1)
    assert drafter.module.lm_head is model.model.lm_head
    made = Pipeline(drafter, Target(model), Speculative(), block=2, done=Stop(4), settings={"temperature": 0})
    assert made.run("a").status == "accepted"


def test_the_benchmark_pairs_its_arms_by_prompt(home: Path) -> None:
    """Arms with the same records do not differ; prompts of the log and unseen ones are both many."""
    with load_run(home / "log") as log:
        records = log.records("early")
    found = closed_loop.figures(dict.fromkeys(closed_loop.ARMS, records))
    assert found["arms"]["before"]["acceptance"][0] == acceptance_rate(records).value
    assert {each["acceptance"]["difference"] for each in found["paired"].values()} == {0.0}
    assert 60 < sum(closed_loop.is_logged(f"gsm8k-{i}") for i in range(200)) < 140
