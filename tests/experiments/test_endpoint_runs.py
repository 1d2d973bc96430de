"""Runs over an endpoint: side by side, ended early where nobody answers, and not paid for twice."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from draftverify import GeneratorTraits, Pipeline, Proposal, generator, verifier
from draftverify.bench.cli.main import main
from draftverify.bench.config.experiment import load_experiment
from draftverify.bench.executors import Auto, Batch, Serial, Thread
from draftverify.bench.records.directory import load_run
from draftverify.bench.runner.run import run
from draftverify.errors import RunStoppedError
from draftverify.rules import First
from draftverify.view.overview import overview
from tests.llm.conftest import Server, completion

CONFIG = """
name: elsewhere
tasks: {{use: jsonl, path: tasks.jsonl}}
models: {{m: {{use: llm.endpoint, base_url: "{url}", model: m, concurrency: 4, cache: {cache}}}}}
pipelines:
  one: {{generator: {{use: llm.sample, model: m}}, verifier: {{use: regex, pattern: "answer.*"}}, rule: {{use: first}}}}
"""


@pytest.fixture
def server() -> Iterator[Server]:
    """A server of this machine."""
    made = Server()
    yield made
    made.close()


@pytest.fixture
def config(tmp_path: Path, server: Server) -> Path:
    """An experiment of eight tasks that asks the server."""
    (tmp_path / "tasks.jsonl").write_text("".join(f'{{"prompt": "p{place}"}}\n' for place in range(8)))
    path = tmp_path / "e.yaml"
    path.write_text(CONFIG.format(url=server.url, cache="null"))
    return path


def test_tasks_that_wait_for_an_endpoint_run_side_by_side(
    tmp_path: Path, config: Path, server: Server
) -> None:
    """As many as its `concurrency`, without a word in the config."""
    gate = threading.Barrier(4, timeout=10)

    def together(request: dict[str, Any]) -> Any:
        gate.wait()
        return completion(request)

    server.answer = together
    result = run(load_experiment(config), out=tmp_path / "run")
    assert (result.failed, result.ran, server.most) == (0, 8, 4)


def test_what_computes_here_runs_alone() -> None:
    """Unless it is coroutines, which share this thread."""

    async def later(context: Any, n: int) -> list[int]:
        return [1]

    class Elsewhere:
        traits = GeneratorTraits(shape="alternatives", remote=6)

        def propose(self, context: Any, n: int) -> Proposal: ...

    check = verifier(lambda context, item: True)
    here, coroutines, elsewhere = (
        Pipeline(part, check, First())
        for part in (generator(lambda c, n: [1]), generator(later), Elsewhere())
    )
    assert type(Auto().chosen([here])) is Auto
    assert issubclass(Auto, Serial)
    assert isinstance(together := Auto().chosen([here, coroutines]), Batch)
    assert together.size == 16
    assert isinstance(threads := Auto().chosen([here, elsewhere]), Thread)
    assert threads.workers == 6


def test_a_server_that_is_dead_ends_the_run_after_three_tasks(
    tmp_path: Path, config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the reason in one line and a code of its own; --max-failures lets more fail, and --retry-errors goes on."""
    text = config.read_text()
    config.write_text(text.replace(text.split('base_url: "')[1].split('"')[0], "http://127.0.0.1:9/v1"))
    out = ["--out", str(tmp_path / "run"), "--set", "executor.use=serial"]
    assert main(["run", str(config), *out]) == 6
    said = capsys.readouterr().err
    assert "the first 3 tasks of one failed alike, the last: EndpointError: http://127.0.0.1:9/v1" in said
    assert main(["run", str(config), *out, "--max-failures", "2"]) == 6
    assert "2 tasks failed (--max-failures)" in capsys.readouterr().err
    assert main(["run", str(config), *out, "--max-failures", "99"]) == 6
    assert "with --retry-errors the same command makes the failed tasks again" in capsys.readouterr().out


def test_a_run_that_has_begun_well_goes_on(
    tmp_path: Path, config: Path, server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    """Failures alike after tasks that ended otherwise, in an earlier part of the run too, are no first tasks."""
    out = ["--out", str(tmp_path / "run"), "--set", "executor.use=serial"]
    server.in_turn(completion, completion, (401, {}, b"no"))
    for retry, ran in (([], 8), (["--retry-errors"], 6)):
        assert main(["run", str(config), *out, *retry]) == 6
        assert f"task runs now: {ran}" in capsys.readouterr().out
    server.answer = completion
    assert main(["run", str(config), *out, "--retry-errors"]) == 0


def test_headers_of_a_config_may_be_secrets(
    tmp_path: Path, config: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """References to the environment, which are sent and stand nowhere."""
    monkeypatch.setenv("ORGANISATION", "org-77777777")
    config.write_text(
        config.read_text().replace("model: m,", 'model: m, headers: {X-Org: "${ORGANISATION}"},')
    )
    run(load_experiment(config), out=tmp_path / "run")
    assert {headers["X-Org"] for headers in server.headers} == {"org-77777777"}
    assert not any(
        b"org-7777" in path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file()
    )


def test_a_budget_ends_the_run(
    tmp_path: Path, config: Path, server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    """In what the endpoint's prices make of the server's usage; what was done stays done."""
    priced = ["--set", "models.m.price_in=1000000", "--set", "executor.use=serial"]
    out = ["--out", str(tmp_path / "run")]
    assert main(["run", str(config), *out, *priced, "--max-cost", "20"]) == 6
    assert "its tasks cost more than --max-cost 20 (they cost 21)" in capsys.readouterr().err
    assert len(server.requests) == 3
    assert main(["run", str(config), *out, *priced]) == 0
    assert len(server.requests) == 8


def test_another_verifier_sends_nothing_again(tmp_path: Path, config: Path, server: Server) -> None:
    """With a cache: what was drafted for the same tasks is judged by another check, and costs what it cost."""
    config.write_text(
        CONFIG.format(url=server.url, cache="./bought").replace("model: m,", "model: m, price_in: 1000000,")
    )
    first = run(load_experiment(config), out=tmp_path / "first")
    assert len(server.requests) == 8
    other = load_experiment(config, overrides=["pipelines.one.verifier.pattern=.*0"])
    second = run(other, out=tmp_path / "second")
    assert len(server.requests) == 8
    cost = [result.summary.pipelines[0].rows[-1].cost for result in (first, second)]
    assert cost[0] == cost[1] > 0
    assert (
        run(other, out=tmp_path / "second").ran == 0
    )  # the cache has grown since, and is no input of the run


def test_what_is_under_way_when_a_run_stops_is_kept(tmp_path: Path, config: Path, server: Server) -> None:
    """Answers that were paid for by then, of tasks beside the one that went over the limit."""
    gate = threading.Barrier(4, timeout=10)

    def together(request: dict[str, Any]) -> Any:
        gate.wait()
        return completion(request)

    server.answer = together
    priced = load_experiment(config, overrides=["models.m.price_in=1000000"])
    with pytest.raises(RunStoppedError, match="cost 28"):
        run(priced, out=tmp_path / "run", max_cost=1)
    server.answer = completion
    assert (len(server.requests), run(priced, out=tmp_path / "run").ran) == (4, 4)


class Rough:
    """A server's answers: of a hundred 15 are 429, 8 are 503 and 3 break off; what it gave whole, by prompt."""

    def __init__(self) -> None:
        self.given: Counter[str] = Counter()
        self.asked = 0
        self.lock = threading.Lock()

    def __call__(self, request: dict[str, Any]) -> Any:
        with self.lock:
            self.asked += 1
            turn = self.asked * 37 % 100
        time.sleep(0.01)
        if turn < 15:
            return 429, {"retry-after": "0"}, b"{}"
        if turn < 23:
            return 503, {"retry-after": "0"}, b"no"
        whole = completion(request)
        if turn < 26:
            return 200, {"retry-after": "0"}, whole[2][:20]
        with self.lock:
            self.given[request["messages"][0]["content"]] += 1
        return whole


def test_costs_are_in_the_experiments_currency(
    tmp_path: Path, config: Path, server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    """In the table, the trace, the list of tasks and the page's data; other currencies are not compared."""
    text = CONFIG.format(url=server.url, cache="./bought").replace(
        "model: m,", "model: m, price_in: 1000000,"
    )
    config.write_text(f"currency: USD\n{text}")
    first = run(load_experiment(config), out=tmp_path / "first")
    cost = first.summary.pipelines[0].rows[-1].cost
    name = str(tmp_path / "first")
    with load_run(tmp_path / "first") as records:
        assert overview(records)["currency"] == "USD"
        task = records.tasks[0].id
    for arguments, shown in (
        ([], "cost (USD)"),
        (["--trace", task], f"{cost / 8:.4g} USD"),
        (["--tasks"], f"{cost / 8:.4g} USD"),
    ):
        capsys.readouterr()
        assert main(["show", name, *arguments]) == 0
        assert shown in capsys.readouterr().out.replace("\n", " "), arguments
    run(load_experiment(config, overrides=["currency=€"]), out=tmp_path / "second")
    assert main(["compare", name, str(tmp_path / "second")]) == 0
    assert "cost: in USD in one run, in € in the other" in " ".join(capsys.readouterr().out.split())
    config.write_text(f"currency: US dollars\n{text}")
    assert main(["run", str(config), "--out", str(tmp_path / "third")]) == 3
    assert "a word of at most 12 letters and digits, or a sign" in capsys.readouterr().err


def test_nothing_is_lost_or_bought_twice(tmp_path: Path, server: Server) -> None:
    """Sixteen at once, refusals and broken JSON among the answers, and a kill -9 in the middle: what was under way then
    is all that is asked for again."""
    server.answer = rough = Rough()
    count = 120
    (tmp_path / "tasks.jsonl").write_text("".join(f'{{"prompt": "p{place}"}}\n' for place in range(count)))
    path = tmp_path / "e.yaml"
    text = CONFIG.format(url=server.url, cache="./bought").replace(
        "concurrency: 4", "concurrency: 16, retries: 12"
    )
    path.write_text(text)
    command = [sys.executable, "-m", "draftverify", "run", str(path), "--out", str(tmp_path / "run")]
    first = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while rough.given.total() < count // 3 and time.monotonic() < deadline:
        time.sleep(0.01)
    os.kill(first.pid, signal.SIGKILL)
    first.wait()
    time.sleep(0.1)
    before = rough.given.copy()
    assert count // 3 <= before.total() < count
    result = run(load_experiment(path), out=tmp_path / "run")
    assert (result.failed, dict(result.summary.pipelines[0].statuses)) == (0, {"accepted": count})
    twice = [prompt for prompt, times in rough.given.items() if times > 1]
    assert len(rough.given) == count
    assert len(twice) <= 16
    assert all(before[prompt] for prompt in twice)
