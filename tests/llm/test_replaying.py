"""Replays that answer from what was bought: a run against a real server, then other rules, blocks and policies of it,
which send nothing."""

from __future__ import annotations

import hashlib
import json
import logging
import re
import shutil
import sqlite3
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

from draftverify.bench.cli.main import main
from draftverify.bench.config.experiment import load_experiment
from draftverify.bench.records import load_run, timeless
from draftverify.bench.runner.run import run
from draftverify.errors import ConfigError
from draftverify.lab.certificate import Promise, certify
from draftverify.lab.operating_point import fit_blocks
from draftverify.lab.recording import Recording, WhatIf
from draftverify.lab.tune import tune
from draftverify.values import TaskRecord
from tests.llm.conftest import Server

TASKS = 30
PARTS = """
from draftverify import Check, Verification

class Digits:
    def verify(self, context, proposal):
        return Verification(checks=tuple(Check("pass" if item < "8" else "reject") for item in proposal.items))
"""
YAML = """
name: bought
parts: [./own.py]
seed: 3
tasks: {{use: inline, fields: {{prompt: q}}, expected: {{answer: a}}, rows: {rows}}}
models:
  m:
    use: llm.endpoint
    base_url: "{url}"
    model: m
    api_key: "${{BOUGHT_KEY}}"
    cache: ./kept
    price_in: 2
    price_out: 10
  j: {{use: llm.endpoint, base_url: "{url}", model: j, cache: ./kept, price_in: 3, price_out: 7}}
metrics: {{right: {{use: exact, expected: answer}}}}
defaults:
  generator: {{use: llm.sample, model: m, system: Be short.}}
  block: 4
pipelines:
  checked:
    verifier: {{use: regex, pattern: "[0-4]"}}
    rule: {{use: first}}
    on_rejection: [{{do: regenerate, times: 2}}]
  judged:
    verifier: {{use: llm.judge, model: j, asks: grade}}
    rule: {{use: best, threshold: 3}}
    on_rejection: [{{do: feedback, times: 1}}]
  staged:
    verifier: {{use: all_of, stages: [{{use: own.Digits}}, {{use: llm.judge, model: j, asks: grade}}]}}
    rule: {{use: first}}
  compared:
    verifier: {{use: llm.pairwise_judge, model: j}}
    rule: {{use: tournament}}
"""
CHANGES: tuple[Mapping[str, tuple[str, ...]], ...] = (
    {
        "checked": ("rule={use: all}", "done={use: rounds, n: 1}"),
        "judged": ("rule={use: best, threshold: 4}", "on_rejection=[]"),
        "staged": ("rule={use: best}", "block=1"),
        "compared": ("block=3",),
    },
    {
        "checked": ("block=2", "on_rejection=[]"),
        "judged": ("block=3", "rule={use: best, threshold: 2}", "on_rejection=[{do: give_up}]"),
        "staged": (
            "block=3",
            "rule={use: all}",
            "done={use: rounds, n: 1}",
            "verifier.stages=[{use: llm.judge, model: j, asks: grade}, {use: own.Digits}]",
        ),
        "compared": ("rule={use: best}", "block=2"),
    },
    {
        "checked": ("verifier.pattern='[2-9]'", "on_rejection=[]"),
        "judged": (
            "verifier={use: llm.pairwise_judge, model: j}",
            "rule={use: tournament}",
            "on_rejection=[]",
        ),
        "staged": ("verifier={use: llm.judge, model: j, asks: grade}", "rule={use: best}", "block=2"),
        "compared": ("verifier={use: llm.judge, model: j, asks: grade}", "rule={use: best}"),
    },
)
"""What is changed of each pipeline."""


def answering(request: dict[str, Any]) -> tuple[int, dict[str, str], bytes]:
    """A digit for each seed; a grade, a word that is none or a letter where a judge is asked, always the same."""
    texts = [turn["content"] for turn in request["messages"]]
    words = "AB" if "better" in texts[0] else "0123456789" if request["model"] == "m" else "123456"
    seeds = [request.get("seed", 0) + place for place in range(request.get("n", 1))]
    hashes = [int(hashlib.sha256(f"{texts} {seed}".encode()).hexdigest(), 16) for seed in seeds]
    choices = [
        {"index": place, "message": {"content": words[number % len(words)]}, "finish_reason": "stop"}
        for place, number in enumerate(hashes)
    ]
    usage = {"prompt_tokens": len("".join(texts)), "completion_tokens": 5 * len(choices)}
    return 200, {}, json.dumps({"choices": choices, "usage": usage}).encode()


class BoughtRun:
    """A run of thirty tasks, its config and its cache; the server counts what is sent.

    The key is in the environment while it runs, and at no other time.
    """

    def __init__(self, path: Path, server: Server, tasks: int = TASKS) -> None:
        self.path, self.server = path, server
        self.file = path / "experiment.yaml"
        (path / "own.py").write_text(PARTS)
        rows = json.dumps([{"q": f"task {i}", "a": str(i % 5)} for i in range(tasks)])
        self.file.write_text(YAML.format(url=server.url, rows=rows))
        self.again("run")

    def experiment(self, changes: Mapping[str, tuple[str, ...]]) -> Any:
        """The config with something set in its pipelines."""
        overrides = [f"pipelines.{name}.{change}" for name, all in changes.items() for change in all]
        return load_experiment(self.file, overrides=overrides)

    def again(self, name: str, changes: Mapping[str, tuple[str, ...]] = {}) -> Path:
        """A run with these changes and the same cache."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("BOUGHT_KEY", "sk-that-nobody-has-later")
            command = ("draftverify", "run", str(self.file))
            return run(self.experiment(changes), out=self.path / name, command=command).path

    def what_if(self, pipeline: str, *changes: str, beside: Path | None = None) -> WhatIf:
        """A replay of one of its pipelines; by the cache that lies beside it, or elsewhere."""
        with recorded(
            self.path / "run", pipeline, config=(beside or self.path) / self.file.name
        ) as recording:
            return recording.what_if(changes)


def recorded(path: Path, pipeline: str, **more: Any) -> Recording:
    """The recording of one of a run's pipelines."""
    with load_run(path) as records:
        return Recording(records, pipeline, **{"of": "cost", **more})


@pytest.fixture(scope="module")
def bought(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BoughtRun]:
    """The run."""
    server = Server()
    server.answer = answering
    yield BoughtRun(tmp_path_factory.mktemp("bought"), server)
    server.close()


def unmarked(record: TaskRecord | None) -> str:
    """A record without times and without the mark of what was bought before; costs to twelve digits."""
    assert record is not None
    text = msgspec.json.encode(timeless(record)).decode().replace(',"cached":true', "")
    return re.sub(r'"cost":([\d.e-]+)', lambda match: f'"cost":{float(match[1]):.12g}', text)


@pytest.mark.parametrize("changes", CHANGES, ids=["rules", "blocks", "verifiers"])
def test_a_replay_is_what_a_run_of_the_same_cache_records(
    bought: BoughtRun, changes: Mapping[str, tuple[str, ...]], request: pytest.FixtureRequest
) -> None:
    """All thirty tasks of each pipeline, to the last unit and note, with no key; neither sends anything."""
    sent = len(bought.server.requests)
    answers = {pipeline: bought.what_if(pipeline, *changes[pipeline]) for pipeline in changes}
    out = bought.again(request.node.callspec.id, changes)
    assert len(bought.server.requests) == sent
    for pipeline, answer in answers.items():
        assert (answer.gaps, answer.at_most, answer.estimated, answer.would.tasks) == ((), 0, 0, TASKS)
        with load_run(out) as records:
            ran = {entry.record.task: entry.record for entry in records.entries(pipeline=pipeline)}
        for task in answer.replayed:
            assert unmarked(task.record) == unmarked(ran[task.task])


def test_what_was_never_bought_is_not_known(bought: BoughtRun, capsys: pytest.CaptureFixture[str]) -> None:
    """A longer block, until a run has bought it; a refusal that no generator was shown."""
    sent = len(bought.server.requests)
    line = ["replay", str(bought.path / "run"), "--pipeline", "checked", "--set"]
    assert main([*line, "block=8"]) == 0
    told = capsys.readouterr().out
    assert "answered 0 of 30 tasks" in told
    assert "(model m) here, and this was not bought before (and 29 more tasks)" in told
    shown = bought.what_if("checked", "on_rejection=[{do: feedback, times: 1}]")
    tried_again = sum(
        record.outcome.rounds > 1 for record in recorded(bought.path / "run", "checked").records
    )
    assert 0 < len(shown.gaps) == tried_again < TASKS
    assert len(bought.server.requests) == sent
    bought.again("longer", {"checked": ("block=8",)})
    assert len(bought.server.requests) > sent
    assert main([*line, "block=8"]) == 0
    assert "answered 30 of 30 tasks" in (told := capsys.readouterr().out)
    assert "upper bound" not in told
    with recorded(bought.path / "run", "checked", of="seconds") as recording:  # which nobody timed
        longer, ran = recording.what_if(["block=8"]), recording.what_if(())
    assert longer.estimated > 0
    assert longer.would.cost.value > ran.would.cost.value / 2


def test_a_server_that_is_gone_is_not_missed(tmp_path: Path) -> None:
    """Nor is its key: what was bought is answered, and the rest is not known."""
    server = Server()
    server.answer = answering
    gone = BoughtRun(tmp_path, server, tasks=3)
    server.close()
    for pipeline, changes in CHANGES[1].items():
        assert gone.what_if(pipeline, *changes).gaps == ()
    assert len(gone.what_if("judged", "block=5").gaps) == 3


@pytest.mark.parametrize("damage", ["gone", "cut", "another model", "half"])
def test_what_a_cache_lacks_is_answered_from_the_record_or_not_at_all(
    bought: BoughtRun, damage: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """No cache, half a file, one of another model, and one with half of the replies."""
    for name in ("experiment.yaml", "own.py", "kept"):
        source = bought.path / name
        (shutil.copytree if source.is_dir() else shutil.copy)(source, tmp_path / name)
    file = tmp_path / "kept" / "replies.sqlite"
    if damage == "gone":
        shutil.rmtree(file.parent)
    elif damage == "cut":
        file.write_bytes(file.read_bytes()[: file.stat().st_size // 2 - 99])
    else:
        with sqlite3.connect(file) as replies:
            other = (
                "DELETE FROM replies WHERE rowid % 2"
                if damage == "half"
                else "UPDATE replies SET key = key || n"
            )
            replies.execute(other)
    sent = len(bought.server.requests)
    shorter_changes = ("block=3", "on_rejection=[]")
    with caplog.at_level(logging.WARNING):
        shorter = bought.what_if("judged", *shorter_changes, beside=tmp_path)
    assert not bought.what_if("checked", "on_rejection=[]", beside=tmp_path).gaps
    known = {task.task: task.record for task in bought.what_if("judged", *shorter_changes).replayed}
    answered = [task for task in shorter.replayed if task.record is not None]
    assert len(answered) < TASKS
    for task in answered:
        record, known_record = task.record, known[task.task]
        assert record is not None
        assert known_record is not None
        assert record.outcome.value == known_record.outcome.value
        if task.cost_at_most:  # a judge's replies are gone, and the record has those about the whole block
            assert record.outcome.cost >= known_record.outcome.cost
        else:
            assert unmarked(record) == unmarked(known_record)
    assert ("cannot be read" in caplog.text or "nothing is answered" in caplog.text) == (
        damage in ("gone", "cut")
    )
    assert len(bought.server.requests) == sent


def test_tuning_and_fitting_answer_from_it_too(
    bought: BoughtRun, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Every candidate that was bought is one; `certify` replays it; `fit block`, which tells sizes apart by their times
    where nothing has a price, is refused."""
    sent = len(bought.server.requests)
    with recorded(bought.path / "run", "compared") as recording:
        tuned = tune(recording, {"block": [1, 2, 3], "rule": [{"use": "best"}, {"use": "tournament"}]})
    assert (tuned.candidates, tuned.refused) == (7, ())
    with recorded(bought.path / "run", "judged") as recording:
        certificate = certify(recording, Promise("wrong", 0.9, 0.1))
    assert certificate.tasks == TASKS
    assert (
        0 < certificate.tried[0].unknown < TASKS
    )  # of the others the stricter threshold needs rounds nobody bought
    monkeypatch.setenv("BOUGHT_KEY", "sk-that-fits")
    free = [f"models.{model}.{price}=0" for model in ("m", "j") for price in ("price_in", "price_out")]
    with pytest.raises(ConfigError, match="bought before took no time"):
        fit_blocks(
            load_experiment(bought.file, overrides=free),
            out=tmp_path / "sizes",
            pipelines=["staged"],
            at_most=1,
        )
    assert len(bought.server.requests) == sent
