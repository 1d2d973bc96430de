"""What a server records: a run directory that the other commands read, that outlives the server, and whose questions
are answered there as well as at the server."""

from __future__ import annotations

import json
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeAlias

import httpx
import pytest

from draftverify.bench.cli.main import main
from draftverify.bench.config.experiment import load_experiment
from draftverify.bench.listening import listening_socket
from draftverify.bench.records import RunRecords, load_run
from draftverify.bench.runner.run import run
from draftverify.errors import ConfigError, StoreError
from draftverify.serve.asking import PAUSE
from draftverify.serve.limits import Recorded
from draftverify.serve.server import directory_of_served, models_of
from tests.serve.serving import CHAT, Served, serving

PARTS = """
import os, time
from draftverify import Check, ConfigError, Proposal, Verification

class Loud:
    def propose(self, context, n):
        return Proposal.alternatives([context.task.input["prompt"].upper()])

class Long:
    def verify(self, context, proposal):
        if "slow" in context.task.input["prompt"]:
            time.sleep(1.0)
        if "broken" in proposal.items:
            raise ConnectionError("gone")
        return Verification(checks=[Check("pass" if len(item) > 3 else "reject", 0.5) for item in proposal.items])

class Picky(Long):
    def check_settings(self, settings):
        if os.path.exists("strict") and "temperature" in settings:
            raise ConfigError("it is too warm")
"""
CONFIG = """
name: loud
parts: [parts.py]
tasks: {use: inline, rows: [{prompt: x}]}
pipelines:
  person:
    generator: {use: parts.Loud}
    verifier: {use: parts.Long}
    rule: {use: first}
    on_rejection: [{on: reject, do: escalate}]
  picky:
    generator: {use: parts.Loud}
    verifier: {use: parts.Picky}
    rule: {use: first}
    on_rejection: [{on: reject, do: escalate}]
  plain: {generator: {use: parts.Loud}, verifier: {use: parts.Long}, rule: {use: first}}
  nested:
    generator:
      generator: {use: parts.Loud}
      verifier: {use: parts.Long}
      rule: {use: first}
      on_rejection: [{do: escalate}]
    verifier: {use: parts.Long}
    rule: {use: first}
"""


Command: TypeAlias = "Callable[..., str]"


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "parts.py").write_text(PARTS)
    (tmp_path / "loud.yaml").write_text(CONFIG)
    return tmp_path / "loud.yaml"


@contextmanager
def recording(config: Path, **limits: Any) -> Iterator[Served]:
    """A server of a config that records in `run`."""
    experiment = load_experiment(config)
    models = models_of(experiment)
    with serving(
        models, directory=directory_of_served(experiment, models, Recorded("run")), **limits
    ) as served:
        yield served


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> Command:
    """What a command prints that comes to a good end."""

    def run_command(*arguments: str) -> str:
        capsys.readouterr()
        assert main(list(arguments)) == 0
        return capsys.readouterr().out

    return run_command


def until(holds: Callable[[], Any], seconds: float = 10.0) -> Any:
    """What holds soon."""
    end = time.monotonic() + seconds
    while not (outcome := holds()) and time.monotonic() < end:
        time.sleep(0.05)
    return outcome


def statuses(records: RunRecords) -> dict[str, str]:
    """How the tasks of a run ended, by what they asked."""
    prompts = {task.id: str(task.input["prompt"]) for task in records.tasks}
    return {prompts[record.task]: record.outcome.status for record in records}


def test_what_was_served_is_a_run(config: Path, command: Command) -> None:
    """Under the ids of the answers, with the settings that were asked for; it is read while the server runs, too."""
    with recording(config) as served:
        answer = served.ask("plain", "hello", temperature=0.5, seed=3).json()
        again = served.ask("plain", "hello", temperature=0.5, seed=3).json()
        two = served.ask("person", "there", n=2, stream=True)
        assert two.status_code == 200
        served.ask("person", "no")
        trace = command("show", "run", "--trace", answer["id"])
        assert "HELLO" in trace
        assert "person" not in trace  # it was not asked
        assert "waiting" in command("show", "run", "--tasks")
    with load_run("run") as records:
        tasks = {task.id: task for task in records.tasks}
        assert answer["id"] in tasks
        assert again["id"] in tasks
        assert tasks[answer["id"]].input["draftverify"]["query"]["settings"] == {"temperature": 0.5}
        assert records.store.totals(records.names) == {"person": 3, "picky": 0, "plain": 2, "nested": 0}
        assert statuses(records) == {"hello": "accepted", "there": "accepted", "no": "waiting"}
    shown = command("show", "run")
    assert "2 accepted, 1 waiting" in " ".join(shown.split())
    rows = [json.loads(line) for line in command("export", "run", "--to", "jsonl").splitlines()]
    assert {row["task"] for row in rows} == set(tasks)
    command("view", "run", "-o", "page.html")
    replayed = command("replay", "run", "--pipeline", "plain", "--config", "loud.yaml")
    assert "answered 2 of 2 tasks from the records" in replayed
    with pytest.raises(StoreError, match="its tasks are what a server recorded"):
        run(load_experiment(config), out="run")


def test_a_killed_server_loses_what_was_under_way(config: Path) -> None:
    """And nothing else; started again it goes on with the directory, and with another config it is refused."""
    start = [sys.executable, "-m", "draftverify", "serve", "loud.yaml", "--port", "0", "--out", "run"]

    def ask(base: str, text: str, timeout: float = 20) -> Any:
        body = {"model": "person", "messages": [{"role": "user", "content": text}]}
        return httpx.post(f"{base}/chat/completions", json=body, timeout=timeout).json()

    with subprocess.Popen(start, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        base = server.stdout.readline().split()[0]
        first, question = ask(base, "first"), ask(base, "no")
        with suppress(httpx.TimeoutException):
            ask(base, "slowly", timeout=0.3)
        server.kill()
    with subprocess.Popen(start, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        base = server.stdout.readline().split()[0]
        assert httpx.get(f"{base}/questions/{question['id']}").status_code == 202
        second = ask(base, "second")
        server.send_signal(signal.SIGTERM)
        assert server.wait(20) == 0
    with load_run("run") as records:
        assert [task.id for task in records.tasks] == [first["id"], question["id"], second["id"]]
        assert statuses(records) == {"first": "accepted", "no": "waiting", "second": "accepted"}
    other = subprocess.run([*start, "--set", "seed=4"], capture_output=True, text=True)
    assert other.returncode != 0
    assert "another config (seed was 0, is 4)" in other.stderr


def test_a_server_says_that_it_writes_no_rounds(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of `durable: round`: a request ends with its client, so there is nothing that a restart could go on with."""
    with listening_socket("127.0.0.1", 0) as taken:
        port = str(taken.getsockname()[1])
        assert main(["serve", "loud.yaml", "--port", port, "--out", "run", "--set", "durable=round"]) != 0
    assert "durable: round is not heeded" in capsys.readouterr().err


def test_the_extra_that_is_missing_is_serve(
    config: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not `view`, which brings its web server too and less than the whole."""
    monkeypatch.delitem(sys.modules, "draftverify.serve.server", raising=False)
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    assert main(["serve", "loud.yaml"]) == 5
    assert "install draftverify with the extra 'serve'" in capsys.readouterr().err


def test_questions_outlive_the_server(config: Path, command: Command) -> None:
    """They are answered at the server after it was started anew, or by a reviewer of the run; either answer is the
    client's, then and after another start, and a second one comes too late."""
    with recording(config) as served:
        urls = [served.ask("person", text).json()["url"] for text in ("a", "b", "c")]
    with recording(config) as served:
        waiting = served.http.get("/v1/questions").json()["data"]
        assert [question["url"] for question in waiting] == urls
        assert waiting[0]["candidate"]["value"] == "A"
        assert served.http.post(urls[0], json={"answer": "skip"}).status_code == 202
        edited = served.http.post(urls[0], json={"answer": "edit", "value": "longer"})
        assert edited.json()["choices"][0]["message"]["content"] == "longer"
        assert served.http.post(urls[0], json={"answer": "accept"}).status_code == 409
        name = urls[1].rpartition("/")[2]
        Path("answers.jsonl").write_text(json.dumps({"task": name, "answer": "accept"}))
        assert "1 answered" in command("view", "run", "--review", "answers.jsonl")
        accepted = until(lambda: (got := served.http.get(urls[1])).status_code == 200 and got)
        assert accepted.json()["choices"][0]["message"]["content"] == "B"
        assert served.http.post(urls[1], json={"answer": "accept"}).status_code == 409
        with load_run("run") as records:
            states = {question.task: (question.state, question.answer) for question in records.questions}
        assert list(states.values()) == [("used", "edit"), ("used", "accept"), ("pending", "")]
    with recording(config) as served:
        assert served.http.get(urls[0]).json()["choices"] == edited.json()["choices"]
        assert served.http.get(urls[1]).json()["choices"] == accepted.json()["choices"]
        assert served.http.get("/v1/questions/none").status_code == 404


def test_reviewers_answers_of_before_are_taken_up_at_the_start(config: Path, command: Command) -> None:
    """Those that were given while no server ran; one at which a part fails ends its task, as in a run."""
    with recording(config) as served:
        urls = [served.ask("person", text).json()["url"] for text in ("a", "b")]
    answers = [{"answer": "reject", "note": "too short"}, {"answer": "edit", "value": "broken"}]
    lines = [{"task": url.rpartition("/")[2], **answer} for url, answer in zip(urls, answers, strict=True)]
    Path("answers.jsonl").write_text("\n".join(map(json.dumps, lines)))
    command("view", "run", "--review", "answers.jsonl")
    with recording(config) as served:
        assert until(lambda: all(served.http.get(url).status_code != 202 for url in urls))
        assert "too short" in served.http.get(urls[0]).json()["choices"][0]["message"]["refusal"]
        assert served.http.get(urls[1]).status_code == 502


def test_an_answer_that_leads_nowhere_holds_up_no_other(
    config: Path, command: Command, caplog: pytest.LogCaptureFixture
) -> None:
    """Of a task whose settings its part no longer takes; the log says so once."""
    with recording(config) as served:
        urls = [
            served.ask("picky", "a", temperature=0.5).json()["url"],
            served.ask("person", "b").json()["url"],
        ]
    answers = [{"task": url.rpartition("/")[2], "answer": "accept"} for url in urls]
    Path("answers.jsonl").write_text("\n".join(map(json.dumps, answers)))
    command("view", "run", "--review", "answers.jsonl")
    Path("strict").touch()
    with recording(config) as served:
        assert until(lambda: served.http.get(urls[1]).status_code == 200)
        time.sleep(1.5 * PAUSE)
        assert served.http.get(urls[0]).status_code == 202
    assert sum("it is too warm" in record.getMessage() for record in caplog.records) == 1


def test_a_question_inside_a_task_outlives_the_server(config: Path) -> None:
    """Asked by a task in a task, whose ids come from a seed."""
    with recording(config) as served:
        url = served.ask("nested", "a", seed=7).json()["url"]
    with recording(config) as served:
        accepted = served.http.post(url, json={"answer": "edit", "value": "longer"})
        assert accepted.json()["choices"][0]["message"]["content"] == "longer"
    with load_run("run") as records:
        assert statuses(records) == {"a": "accepted"}


def test_an_answer_at_which_a_part_fails_is_none(config: Path) -> None:
    """The question stays, for the server and for reviewers; while one of these has it, the server takes no answer."""
    with recording(config) as served:
        url = served.ask("person", "a").json()["url"]
        assert served.http.post(url, json={"answer": "edit", "value": "broken"}).status_code == 502
        assert served.http.post(url, json={"answer": "edit"}).status_code == 400
        with load_run("run") as records:
            (question,) = records.store.questions("pending")
            assert records.store.claim(question, "page of somebody", 60)
            assert served.http.post(url, json={"answer": "accept"}).status_code == 409
            assert records.store.claim(question, "page of somebody", 0)
        assert served.http.post(url, json={"answer": "accept"}).status_code == 200


def test_what_nobody_waited_for_is_in_the_records(config: Path) -> None:
    """A task that took too long, and one whose client went away: both began, so both are in every figure."""
    with recording(config, timeout=0.4) as served:
        assert served.ask("plain", "slow one").status_code == 504
        with suppress(httpx.TimeoutException):
            httpx.post(
                served.base + CHAT,
                json={"model": "plain", "messages": [{"role": "user", "content": "slow two"}]},
                timeout=0.2,
            )
    with load_run("run") as records:
        assert statuses(records) == {"slow one": "failed", "slow two": "failed"}
        assert "--timeout" in next(iter(records)).outcome.reason


def test_what_cannot_be_written_takes_no_request_down(config: Path, caplog: pytest.LogCaptureFixture) -> None:
    """It is logged and counted; once there is a directory again what comes is written."""
    with recording(config) as served:
        assert served.ask("plain", "before").status_code == 200
        Path("run").rename("moved")
        assert served.ask("plain", "meanwhile").status_code == 200
        waiting = served.ask("person", "a")
        assert waiting.status_code == 202
        assert served.metric("draftverify_unrecorded_tasks_total") == 2
        assert "is not recorded" in caplog.text
        Path("moved").rename("run")
        assert served.ask("plain", "after").status_code == 200
    with load_run("run") as records:
        assert statuses(records) == {"before": "accepted", "after": "accepted"}


def test_a_locked_database_holds_answers_up_for_a_while_only(
    config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process keeps it locked: the answer is sent without waiting for the record, which comes when it can."""
    monkeypatch.setattr("draftverify.serve.recording.PATIENCE", 0.2)
    with recording(config) as served, sqlite3.connect("run/records.db", isolation_level=None) as other:
        other.execute("BEGIN IMMEDIATE")
        begun = time.monotonic()
        assert served.ask("plain", "hello").status_code == 200
        assert time.monotonic() - begun < 5
        other.execute("ROLLBACK")
    with load_run("run") as records:
        assert statuses(records) == {"hello": "accepted"}


MONITORED = CONFIG.replace(
    "rule: {use: first}}", "rule: {use: first}, monitor: {reference: 0.9, on_alarm: escalate}}"
).replace(
    "plain: {generator: {use: parts.Loud}, verifier: {use: parts.Long}, rule: {use: first}",
    "plain: {generator: {use: parts.Loud}, verifier: {use: parts.Long}, rule: {use: first}, "
    "on_rejection: [{on: abstain, do: escalate}]",
)


def test_a_monitor_watches_what_is_served(config: Path, command: Command) -> None:
    """Its state is among the metrics, its alarm leads on as `on_alarm` says, and both outlive the server. A request
    with sampling settings of its own says nothing of the pipeline."""
    config.write_text(MONITORED)
    with recording(config) as served:
        assert served.ask("plain", "good").status_code == 200
        for _ in range(20):
            served.ask("plain", "no", temperature=0.5)
        assert served.metric("draftverify_monitor_tasks") == 1
        assert served.metric("draftverify_monitor_acceptance") == 1
        until(lambda: served.ask("plain", "no") and served.metric("draftverify_monitor_alarms"))
        assert served.metric("draftverify_monitor_reference") == 0.9
        doubted = served.ask("plain", "good")
        assert doubted.status_code == 202
        assert served.http.post(doubted.json()["url"], json={"answer": "accept"}).status_code == 200
        seen = served.metric("draftverify_monitor_tasks")
    with recording(config) as served:
        assert served.metric("draftverify_monitor_alarms") == 1
        assert served.metric("draftverify_monitor_tasks") == seen
        assert served.ask("plain", "good").status_code == 202
    assert "alarm at task" in command("show", "run")


def test_a_monitor_that_cannot_watch_is_refused(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One that compares with a run's first tasks; labels are left out, and that is said."""
    first = MONITORED.replace("reference: 0.9, ", "") + "predict: {limit: 5}\nbaseline: plain\n"
    config.write_text(first)
    with pytest.raises(
        ConfigError, match=r"pipelines\.plain\.monitor\.reference: a server has no first tasks"
    ):
        models_of(load_experiment(config))
    labelled = MONITORED.replace(
        "reference: 0.9", "reference: {acceptance: 0.9, right: 0.9}, labels: {metric: exact}"
    )
    config.write_text(labelled + "metrics: {exact: {use: exact}}\n")
    (model,) = [model for model in models_of(load_experiment(config)).values() if model.monitored]
    assert [report.rate for report in model.monitored.monitor.report()] == ["acceptance"]
    assert "watches acceptance alone" in capsys.readouterr().err
