"""A run over an endpoint against a bare client of the same requests: tasks a second, on a server that often refuses.

The server is a process of its own on this machine. It answers after 100 ms; of a hundred requests 15 get 429, 8 get
503 (both with `Retry-After: 0`) and 3 a reply that breaks off. Each way asks 1,000 questions, 16 at once, and asks
again until it has an answer. The bare client is httpx in 16 threads, which keeps nothing. A run checks each answer, and
commits the records to SQLite; once without a cache of replies and once with an empty one, which is written to.

The ways take turns, so that what else the machine does meets all; a figure is the ratio to the bare client of the same
turn: its median, with the least and the largest.

    python -m benchmarks.endpoint --out benchmarks/results/endpoint.json
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import httpx

from benchmarks.provenance import write
from draftverify.bench.config.experiment import load_experiment
from draftverify.bench.runner.run import run

CONFIG = """
name: endpoint
tasks: {{use: jsonl, path: tasks.jsonl}}
models:
  m: {{use: llm.endpoint, base_url: "{url}/v1", model: m, concurrency: {at_once}, retries: 12, cache: {cache}}}
pipelines:
  one: {{generator: {{use: llm.sample, model: m}}, verifier: {{use: regex, pattern: "yes.*"}}, rule: {{use: first}}}}
"""


class Handler(BaseHTTPRequestHandler):
    """Answers after a while; which requests it refuses goes by their number."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    latency = 0.1
    asked: ClassVar[Counter[str]] = Counter()
    lock = threading.Lock()

    def do_POST(self) -> None:
        """One request."""
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        with self.lock:
            self.asked["all"] += 1
            turn = self.asked["all"] * 37 % 100
        time.sleep(self.latency)
        reply = {
            "choices": [{"index": 0, "message": {"content": "yes, it is"}, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": len(request["messages"][0]["content"]), "completion_tokens": 4},
        }
        body = json.dumps(reply).encode()
        status, body = (429, b"{}") if turn < 15 else (503, b"no") if turn < 23 else (200, body)
        if 23 <= turn < 26:
            body = body[:20]
        self.send_response(status)
        self.send_header("Retry-After", "0")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: Any) -> None:
        """Nothing."""


class Server(ThreadingHTTPServer):
    """One that lets more than five clients connect at once."""

    request_queue_size = 128


def serve(latency: float) -> None:
    """Print the port, and answer until the process ends."""
    Handler.latency = latency
    server = Server(("127.0.0.1", 0), Handler)
    print(server.server_port, flush=True)
    server.serve_forever()


def bare(url: str, tasks: int, at_once: int) -> int:
    """Ask all, and return how many answers came."""
    with httpx.Client(limits=httpx.Limits(max_connections=at_once), timeout=60) as client:

        def ask(place: int) -> str:
            messages = [{"role": "user", "content": f"Is {place} a number?"}]
            while True:
                answer = client.post(f"{url}/v1/chat/completions", json={"model": "m", "messages": messages})
                if answer.status_code == 200:
                    try:
                        return answer.json()["choices"][0]["message"]["content"]
                    except ValueError:
                        continue

        with ThreadPoolExecutor(at_once) as pool:
            return sum(text.startswith("yes") for text in pool.map(ask, range(tasks)))


def experiment(url: str, tasks: int, at_once: int, cached: bool) -> int:
    """Run all, and return how many were accepted."""
    with tempfile.TemporaryDirectory() as folder:
        rows = (json.dumps({"prompt": f"Is {place} a number?"}) + "\n" for place in range(tasks))
        Path(folder, "tasks.jsonl").write_text("".join(rows))
        config = Path(folder, "e.yaml")
        config.write_text(CONFIG.format(url=url, at_once=at_once, cache="./bought" if cached else "null"))
        result = run(load_experiment(config), out=Path(folder, "run"))
        return result.summary.pipelines[0].statuses["accepted"]


def measure(url: str, tasks: int, at_once: int, repeats: int) -> dict[str, Any]:
    """All ways in turns."""
    ways = {
        "bare client": lambda: bare(url, tasks, at_once),
        "run": lambda: experiment(url, tasks, at_once, cached=False),
        "run that keeps replies": lambda: experiment(url, tasks, at_once, cached=True),
    }
    rates: dict[str, list[float]] = {name: [] for name in ways}
    for repeat in range(repeats):
        for name, way in list(ways.items())[:: 1 if repeat % 2 else -1]:
            begun = time.perf_counter()
            answers = way()
            if answers != tasks:
                raise SystemExit(f"{name}: {answers} answers of {tasks}")
            rates[name].append(tasks / (time.perf_counter() - begun))
            print(name, round(rates[name][-1], 1), flush=True)
    found: dict[str, Any] = {}
    for name, values in rates.items():
        ratios = [value / other for value, other in zip(values, rates["bare client"], strict=True)]
        found[name] = {
            "tasks a second": statistics.median(values),
            "ratio": {"median": statistics.median(ratios), "least": min(ratios), "largest": max(ratios)},
        }
    return found


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path)
    parser.add_argument("--tasks", type=int, default=1000)
    parser.add_argument("--at-once", type=int, default=16)
    parser.add_argument("--latency", type=float, default=0.1, help="seconds")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.serve:
        serve(asked.latency)
        return
    if asked.out is None:
        parser.error("--out is needed")
    command = [sys.executable, "-m", "benchmarks.endpoint", "--serve", "--latency", str(asked.latency)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            url = f"http://127.0.0.1:{int(server.stdout.readline())}"
            ways = measure(url, asked.tasks, asked.at_once, asked.repeats)
        finally:
            server.terminate()
    how = {"tasks": asked.tasks, "at once": asked.at_once, "latency": asked.latency, "repeats": asked.repeats}
    write(asked.out, "benchmarks.endpoint", {**how, "ways": ways})


if __name__ == "__main__":
    main()
