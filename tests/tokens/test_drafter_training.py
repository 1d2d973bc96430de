"""A layer is trained from a run's log: accepted on tasks that were kept apart, the same answers, loaded by its path."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import PhiConfig, PhiForCausalLM

from draftverify import ConfigError
from draftverify.bench import load_experiment, run
from draftverify.bench.cli.exits import ExitCode
from draftverify.bench.cli.main import main
from draftverify.bench.records import load_run, split_of
from draftverify.bench.records.export import frame
from draftverify.stats import acceptance_rate
from draftverify.token_summary import read_summaries
from draftverify_llm import LocalModel
from draftverify_tokens import DrafterTraining
from draftverify_tokens.drafter_training import DrafterLearner
from draftverify_tokens.medusa_network import load_medusa
from tests.tokens.tiny import byte_tokenizer, tiny_llama

PAGE = (Path(__file__).parents[2] / "docs" / "replay.md").read_text(encoding="utf-8")
WHOLE, FRAGMENT = re.findall(
    r"^```yaml\n(?:# file: log\.yaml\n)?((?:name: log|generator:).*?)^```$", PAGE, re.M | re.S
)
ANEW = {"smollm2-135m-instruct": "./model", "max_tokens: 24": "max_tokens: 16, ignore_eos: true"}
SMALL: dict[str, Any] = {"vocabulary": 64, "epochs": 10, "steps": 2, "rate": 0.004}


def config(generator: str = "") -> str:
    """The page's config, of the tiny model; with another generator, as the page writes one."""
    found = WHOLE
    if generator:
        found = re.sub(r"generator: .*", generator.strip(), found)
    for old, new in ANEW.items():
        found = found.replace(old, new)
    return found


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny model on disk, 44 tasks, and a run of them."""
    folder = tmp_path_factory.mktemp("drafter")
    torch.manual_seed(0)
    tiny_llama(257, seed=4, layers=4, spread=0.12).save_pretrained(folder / "model")
    byte_tokenizer().save_pretrained(folder / "model")
    lines = [json.dumps({"prompt": f"{i * 37 % 101} and {i}"}) for i in range(44)]
    (folder / "prompts.jsonl").write_text("\n".join(lines))
    (folder / "log.yaml").write_text(config())
    run(load_experiment(folder / "log.yaml"), out=folder / "log", command=(str(folder / "log.yaml"),))
    return folder


@pytest.fixture(scope="module")
def trained(home: Path) -> dict[str, Any]:
    """The report of a training from that run."""
    return DrafterTraining(home / "log", **SMALL).train(home / "trained")


def test_what_was_learned_is_accepted_on_tasks_that_were_kept_apart(
    home: Path, trained: dict[str, Any]
) -> None:
    """A third of the first tokens at least, of a model whose next token hangs on the last one; the curve ends there."""
    with load_run(home / "log") as log:
        splits = [split_of(record.task) for record in log]
    assert trained["kept_apart_tasks"] == splits.count("test") > 0
    assert trained["learned_tokens"] == 16 * splits.count("train")
    assert trained["accepted_1"] > 1 / 3
    curve = trained["curve"]
    assert [point["tokens_per_pass"] for point in (curve[0], curve[-1])] == sorted(
        [curve[0]["tokens_per_pass"], trained["tokens_per_pass"]]
    )
    assert curve[-1]["tokens_seen"] >= SMALL["epochs"] * trained["learned_tokens"]


def test_the_trained_drafter_changes_no_answer(home: Path, trained: dict[str, Any]) -> None:
    """Loaded from YAML by its path, whose content is noted with the run; it is accepted as often as the report says."""
    (home / "again.yaml").write_text(config(FRAGMENT))
    path = run(load_experiment(home / "again.yaml"), out=home / "again").path
    with load_run(home / "log") as before, load_run(path) as after:
        old, new = before.records("lookup"), after.records("lookup")
        assert [record.outcome.value for record in new] == [record.outcome.value for record in old]
        assert acceptance_rate(new).value > 0.25
        parts = after.about.starts[0].parts
    assert any("trained" in name for name in parts), sorted(parts)


def test_a_training_that_was_stopped_goes_on(home: Path, trained: dict[str, Any], tmp_path: Path) -> None:
    """From its last look, to the same weights as one that ran through; with other settings it is refused."""
    stopped = {"at": 0}

    def stop(step: int, total: int, message: str) -> None:
        stopped["at"] = step
        if "tokens a pass" in message and step > total // 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        DrafterTraining(home / "log", **SMALL).train(tmp_path / "out", stop)
    with pytest.raises(ConfigError, match="other data or settings"):
        DrafterTraining(home / "log", **SMALL, seed=1).train(tmp_path / "out")
    steps: list[int] = []

    def note(step: int, total: int, message: str) -> None:
        if message != "reading":
            steps.append(step)

    again = DrafterTraining(home / "log", **SMALL).train(tmp_path / "out", note)
    assert min(steps) == stopped["at"] + 1
    for name in ("config.json", "model.safetensors"):
        assert (tmp_path / "out" / name).read_bytes() == (home / "trained" / name).read_bytes()
    assert not (tmp_path / "out" / "checkpoint.safetensors").exists()
    assert {**again, "learned_from": ()} == {**trained, "learned_from": ()}


def test_drafts_ahead_are_learned_from_its_own_output(home: Path, trained: dict[str, Any]) -> None:
    """The second token is right more often than the first is: text that could be guessed goes on so."""
    assert trained["accepted_2"] > trained["accepted_1"] / 2


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
    """It writes beside the caller, says what is accepted, and does not train the same again."""
    monkeypatch.chdir(tmp_path)
    asked = ["fit", "part", "drafter", str(home / "log")]
    for name, value in {**SMALL, "epochs": 1, "layers": "[0, 2, 4]"}.items():
        asked += ["--set", f"{name}={value}"]
    assert main(asked) == 0
    assert re.search(r"accepted_1: .*\naccepted_2: .*\ntokens_per_pass: ", capsys.readouterr().out)
    written = json.loads((tmp_path / "log-drafter" / "config.json").read_text())
    assert written["eagle_aux_hidden_state_layer_ids"] == [0, 2, 4]
    assert main(asked) == 0
    assert "holds it already" in capsys.readouterr().out


def test_a_layer_that_the_target_has_not_is_refused(home: Path, tmp_path: Path) -> None:
    """With the number that there are."""
    with pytest.raises(ConfigError, match=r"layers has 6; LlamaForCausalLM has the states 0 .* to 4"):
        DrafterTraining(home / "log", layers=(1, 6)).train(tmp_path)


@pytest.fixture(scope="module")
def second(home: Path, trained: dict[str, Any]) -> Path:
    """A run that was drafted with the trained layer, whose config has moved since."""
    old = home / "old"
    old.mkdir()
    (old / "again.yaml").write_text(config(FRAGMENT))
    for name in ("model", "prompts.jsonl", "trained"):
        (old / name).symlink_to(home / name)
    run(load_experiment(old / "again.yaml"), out=home / "second", command=(str(old / "again.yaml"),))
    old.rename(home / "moved")
    return home / "second"


def test_a_run_that_has_moved_is_exported_by_its_config(home: Path, second: Path, tmp_path: Path) -> None:
    """Of a pipeline's parts only the tokenizer is needed, and `--config` says where the model lies."""
    out = tmp_path / "rows.jsonl"
    asked = ["export", str(second), "--to", "trl-preference", "-o", str(out)]
    assert main(asked) == ExitCode.RESOURCE
    assert main([*asked, "--config", str(home / "moved" / "again.yaml")]) == 0
    assert out.read_text()


def test_heads_are_trained_by_their_kind(home: Path, tmp_path: Path) -> None:
    """All of them; from YAML they draft, and change no answer. Layers are not theirs to choose."""
    DrafterTraining(home / "log", **SMALL, kind="medusa").train(home / "heads")
    assert all(block.weight.any() for block in load_medusa(home / "heads").blocks)
    heads = "generator: {use: tokens.medusa, model: target, weights: ./heads}"
    (home / "heads.yaml").write_text(config(heads).replace("rule: {use: speculative}", "rule: {use: tree}"))
    path = run(load_experiment(home / "heads.yaml"), out=home / "with_heads").path
    with load_run(home / "log") as before, load_run(path) as after:
        old, new = before.records("lookup"), after.records("lookup")
        assert [record.outcome.value for record in new] == [record.outcome.value for record in old]
        assert acceptance_rate(new).value > 0.25
    with pytest.raises(ConfigError, match="heads read the last states alone"):
        DrafterTraining(home / "log", kind="medusa", layers=(1,)).train(tmp_path)


def test_a_head_s_bias_is_no_weight_of_it():
    """A drafter's head has none: the target's weights alone are learned from."""
    config = PhiConfig(
        vocab_size=40, hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2
    )
    module = PhiForCausalLM(config).eval()
    torch.nn.init.normal_(module.lm_head.bias)
    training = DrafterTraining(Path("run"), kind="medusa", vocabulary=8)
    learner = DrafterLearner(training, module, {"train": [([1], [2, 3])], "test": []})
    torch.testing.assert_close(learner.head, module.lm_head.weight[sorted(learner.tokens)])
