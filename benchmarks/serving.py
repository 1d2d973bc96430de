"""A served pipeline against the same prompts in one batch, and against transformers' own server: tokens a second.

SmolLM2-135M in float32 decodes greedily, at most 64 tokens an answer. `batch` is `Pipeline.run` of all prompts, 16 at
once, in this process. `served` is `draftverify serve` in a process of its own, asked by 16 clients, each of which sends
its next prompt when it has an answer; answers are compared with the batch's, text by text. `transformers` is
`transformers serve --continuous-batching` on the same weights, asked in the same way; `transformers one by one` the
same without that option. All servers stand idle while another way has its turn.

The ways take turns; a figure is the ratio to the batch of the same turn: its median, with the least and the largest.

    pip install 'transformers[serving]'
    python -m benchmarks.serving --out benchmarks/results/serving.json
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx

from benchmarks.provenance import write
from draftverify.bench.config.experiment import load_experiment
from draftverify.bench.runner.build import Builder
from draftverify.engine.pipeline import Pipeline
from draftverify_llm import torch_directory

PROMPTS = Path("examples/prompts.jsonl")
WEIGHTS = "smollm2-135m-instruct"
CONFIG = f"""
name: serving
tasks: {{use: inline, rows: [{{prompt: hi}}]}}
models: {{target: {{use: llm.local, weights: {WEIGHTS}, dtype: float32}}}}
settings: {{temperature: 0}}
defaults:
  verifier: {{use: tokens.target, model: target}}
  rule: {{use: speculative}}
  done: {{use: tokens.stop, max_tokens: 64}}
pipelines:
  plain: {{generator: {{use: tokens.none}}, block: 0}}
  lookup: {{generator: {{use: tokens.prompt_lookup}}, block: 8}}
"""
TOKENS = 64


def batch(pipeline: Pipeline, prompts: list[str], at_once: int) -> tuple[list[str], int]:
    """The answers to all prompts, and how many tokens they have."""
    tasks = [{"messages": [{"role": "user", "content": prompt}]} for prompt in prompts]
    values = [outcome.value for outcome in pipeline.run(tasks, size=at_once)]
    verifier: Any = pipeline.verifier
    return [verifier.text(value) for value in values], sum(map(len, values))


def ask(base: str, model: str, prompts: list[str], at_once: int) -> tuple[list[str], int]:
    """The same of a server."""
    with httpx.Client(base_url=base, trust_env=False, timeout=600) as client:

        def one(prompt: str) -> tuple[str, int]:
            body = {"model": model, "messages": [{"role": "user", "content": prompt}]}
            more = {"max_tokens": TOKENS, "temperature": 0, "stream": False}
            answer = client.post("/chat/completions", json={**body, **more})
            answer.raise_for_status()
            reply = answer.json()
            return reply["choices"][0]["message"]["content"], reply["usage"]["completion_tokens"]

        with ThreadPoolExecutor(at_once) as pool:
            answers = list(pool.map(one, prompts))
    return [text for text, _ in answers], sum(tokens for _, tokens in answers)


@contextmanager
def server(*command: str, port: int) -> Iterator[str]:
    """A server as a process of its own, until the block ends."""
    environment = {**os.environ, "HF_HUB_OFFLINE": "1"}
    process = subprocess.Popen(
        command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    try:
        while True:
            try:
                httpx.get(f"http://127.0.0.1:{port}/health", timeout=1, trust_env=False)
                break
            except httpx.TransportError:
                if process.poll() is not None:
                    raise SystemExit(f"{' '.join(command)} ended") from None
                time.sleep(0.2)
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait()


def free_port() -> int:
    """A port that is free just now."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        port: int = listening.getsockname()[1]
        return port


def main() -> None:
    """Measure, and write the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--prompts", type=int, default=32)
    parser.add_argument("--at-once", type=int, default=16)
    parser.add_argument("--turns", type=int, default=5)
    options = parser.parse_args()
    rows = [json.loads(line) for line in PROMPTS.read_text().splitlines()]
    prompts = [row["prompt"] for row in rows][: options.prompts]
    at_once = options.at_once
    directory = str(torch_directory(WEIGHTS))
    with ExitStack() as stack:
        config = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "serving.yaml"
        config.write_text(CONFIG)
        ours, theirs, single = free_port(), free_port(), free_port()
        command = (sys.executable, "-m", "draftverify", "serve", str(config), "--port", str(ours))
        base = stack.enter_context(server(*command, port=ours))
        command = ("transformers", "serve", directory, "--device", "cpu", "--dtype", "float32", "--port")
        together = stack.enter_context(server(*command, str(theirs), "--continuous-batching", port=theirs))
        alone = stack.enter_context(server(*command, str(single), port=single))
        pipelines = Builder().bench(load_experiment(config)).pipelines
        for pipeline in pipelines.values():
            stack.enter_context(pipeline)
        ways: dict[str, Callable[[], tuple[list[str], int]]] = {
            "batch plain": lambda: batch(pipelines["plain"], prompts, at_once),
            "served plain": lambda: ask(base, "plain", prompts, at_once),
            "batch lookup": lambda: batch(pipelines["lookup"], prompts, at_once),
            "served lookup": lambda: ask(base, "lookup", prompts, at_once),
            "transformers": lambda: ask(together, directory, prompts, at_once),
            "transformers one by one": lambda: ask(alone, directory, prompts[:4], at_once),
        }
        for way in ways.values():
            way()  # pages of weights, caches
        rates: dict[str, list[float]] = {name: [] for name in ways}
        texts: dict[str, list[str]] = {}
        for turn in range(options.turns):
            for name, way in list(ways.items())[:: 1 if turn % 2 == 0 else -1]:
                begun = time.perf_counter()
                texts[name], tokens = way()
                rates[name].append(tokens / (time.perf_counter() - begun))
                print(f"{name}: {rates[name][-1]:.1f} tokens a second", flush=True)
    found = {}
    for name in ways:
        kind = "lookup" if name.endswith("lookup") else "plain"
        ratios = [rate / other for rate, other in zip(rates[name], rates[f"batch {kind}"], strict=True)]
        found[name.replace(" ", "_")] = {
            "tokens_per_second": statistics.median(rates[name]),
            "ratio": [statistics.median(ratios), min(ratios), max(ratios)],
            "same_text": sum(map(str.__eq__, texts[name], texts[f"batch {kind}"])),
        }
    settings = {"prompts": len(prompts), "at_once": at_once, "turns": options.turns}
    write(options.out, "benchmarks.serving", {**settings, "ways": found})


if __name__ == "__main__":
    main()
