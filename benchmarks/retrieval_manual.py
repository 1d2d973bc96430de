"""A corpus of one's own: what readers answer rightly, wrongly, and not at all; and a precision that the lab certifies.

    python -m benchmarks.retrieval_manual [--pages 80] [--questions 60] [--out benchmarks/results/retrieval_manual.json]

The pages are those that Python's pydoc writes of its own modules. A question asks for the default of a function's
parameter; its twin, of which no page says anything, for that of a parameter which the function does not have. Readers
are SmolLM2-135M here, and an endpoint of a scripted quality: where the passage says the default it gives it in 19 of
20 cases, where not it invents one in one of ten, and it is surer of what is right. Both read the three passages that
BM25 finds first.

`readers`: of the questions with an answer and without, how many were answered rightly, wrongly, and refused.
`promises`, of the endpoint: `draftverify certify` finds a threshold for a precision of .7 (or says that there is none)
on a complete run of a half, and the other half is run with it; both ways round.
"""

from __future__ import annotations

import argparse
import inspect
import json
import pkgutil
import pydoc
import random
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import import_module
from pathlib import Path
from threading import Thread
from typing import Any

from benchmarks.provenance import write
from draftverify import Task
from draftverify.bench.records.directory import load_run
from draftverify.stats.intervals import rate
from draftverify_retrieval import HoldsAnswer

PRECISION = 0.7
PROMISING = "scripted endpoint"
CONFIG = """
name: manual
tasks: {{use: jsonl, path: {tasks}.jsonl, id: id, fields: {{question: question}}, expected: {{answers: answers}}}}
metrics: {{right: {{use: retrieval.holds_answer}}}}
models:
  pages: {{use: retrieval.corpus, path: pages, split: window, size: 80, overlap: 20, index: .index}}
  search: {{use: retrieval.bm25, corpus: pages}}
  m: {model}
pipelines:
  reader:
    generator: search
    verifier: {{use: retrieval.text_reader, model: m}}
    rule: {{use: best, abstain_after: 1, threshold: {threshold}}}
    block: 3
"""
MODELS = {
    "SmolLM2-135M": "{{use: llm.local, weights: smollm2-135m-instruct}}",
    "scripted endpoint": '{{use: llm.endpoint, base_url: "{url}/v1", model: scripted, logprobs: true, concurrency: 4}}',
}


def pages_of(count: int) -> dict[str, str]:
    """What pydoc says of modules with functions that have defaults, the ones with the most first."""
    sizes = {}
    for module in sorted(
        info.name for info in pkgutil.iter_modules() if info.name in sys.stdlib_module_names
    ):
        if not module.startswith(("_", "test", "idle", "antigravity", "this", "turtledemo", "lib2to3")):
            sizes[module] = len(list(defaults_of(module)))
    chosen = sorted(sizes, key=lambda module: (-sizes[module], module))[:count]
    return {module: pydoc.render_doc(import_module(module), renderer=pydoc.plaintext) for module in chosen}  # type: ignore[attr-defined]


def defaults_of(module: str) -> Iterator[tuple[str, str, str]]:
    """Function, parameter and default, of the module's own functions."""
    for name, function in inspect.getmembers(import_module(module), inspect.isfunction):
        if name.startswith("_") or function.__module__ != module:
            continue
        for parameter in inspect.signature(function).parameters.values():
            default = parameter.default
            plain = isinstance(default, (bool, int)) or (isinstance(default, str) and default.isalnum())
            if plain and len(parameter.name) > 2 and not parameter.name.startswith("_"):
                yield name, parameter.name, str(default)


def questions_of(pages: dict[str, str], count: int) -> list[dict[str, Any]]:
    """Questions and their twins, one after the other."""
    draws = random.Random(35)
    known = [(module, *entry) for module in pages for entry in defaults_of(module)]
    parameters = sorted({parameter for _, _, parameter, _ in known})
    tasks = []
    for number, (module, function, parameter, default) in enumerate(draws.sample(known, count)):
        other = draws.choice([name for name in parameters if not re.search(rf"\b{name}\b", pages[module])])
        for kind, name, answers in (("known", parameter, [default]), ("twin", other, [])):
            question = f"What is the default of the parameter {name} of the function {function} of {module}?"
            tasks.append({"id": f"{number}-{kind}", "question": question, "answers": answers})
    return tasks


class Scripted(BaseHTTPRequestHandler):
    """An OpenAI-compatible server of a known quality; equal prompts have equal replies."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        """One request."""
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        text, logprob = scripted_reply(request["messages"][-1]["content"])
        choice = {
            "index": 0, "message": {"content": text}, "finish_reason": "stop",
            "logprobs": {"content": [{"token": text, "logprob": logprob}]},
        }  # fmt: skip
        usage = {"prompt_tokens": 1, "completion_tokens": 1}
        body = json.dumps({"choices": [choice], "usage": usage}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: Any) -> None:
        """Nothing."""


def scripted_reply(prompt: str) -> tuple[str, float]:
    """The reply to a reader's prompt, and its log-probability."""
    draws = random.Random(prompt)
    passage, question = prompt.split("Passage: ", 1)[1].rsplit("Question: ", 1)
    asked = re.search(r"parameter (\w+) of the function (\w+)", question)
    assert asked is not None
    said = re.search(rf"\b{asked[2]}\([^)]*?\b{asked[1]}(?:: [^=,)]+)? ?= ?'?(\w+)", passage)
    if said and draws.random() < 0.95:
        return said[1], -draws.expovariate(1 / 0.02)
    if said or draws.random() < 0.1:
        return draws.choice(["42", "utf8", "strict"]), -draws.expovariate(1 / 2.0)
    return "no answer", -draws.expovariate(1 / 0.02)


def draftverify(folder: Path, *arguments: str) -> None:
    """Run the command."""
    command = [sys.executable, "-m", "draftverify", *arguments]
    done = subprocess.run(command, cwd=folder, check=False, capture_output=True, text=True)
    if done.returncode not in (0, 1):
        raise SystemExit(done.stdout + done.stderr)


def counts_of(run: Path, tasks: Sequence[dict[str, Any]]) -> dict[str, dict[str, int]]:
    """How many were answered rightly, wrongly, and refused, of each kind of question."""
    asked = {task["id"]: Task(id=task["id"], expected={"answers": task["answers"]}) for task in tasks}
    counts = {kind: {"right": 0, "wrong": 0, "refused": 0} for kind in ("known", "twin")}
    with load_run(run) as records:
        for record in records:
            right = HoldsAnswer()(asked[record.task], record.outcome) == 1
            accepted = record.outcome.status == "accepted"
            result = "refused" if not accepted else "right" if right else "wrong"
            counts[record.task.split("-")[1]][result] += 1
    return counts


def measure(folder: Path, model: str, tasks: list[dict[str, Any]], *, promising: bool) -> dict[str, Any]:
    """A reader on all questions, and its promise on either half."""
    halves = {"even": tasks[::4] + tasks[1::4], "odd": tasks[2::4] + tasks[3::4]}
    for name, some in {"all": tasks, **halves}.items():
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(task) + "\n" for task in some))
    config = folder / "manual.yaml"

    def configure(name: str, threshold: str = "0") -> None:
        config.write_text(CONFIG.format(tasks=name, model=model, threshold=threshold))

    configure("all")
    draftverify(folder, "run", "manual.yaml", "--fresh", "--out", "runs/all")
    figures: dict[str, Any] = {"answers": counts_of(folder / "runs/all", tasks)}
    if not promising:
        return figures
    figures["promises"] = {}
    for name, other in (("even", "odd"), ("odd", "even")):
        configure(name)
        draftverify(folder, "run", "manual.yaml", "--fresh", "--complete", "--out", f"runs/{name}")
        draftverify(folder, "certify", f"runs/{name}", "--precision", str(PRECISION), "--out", f"{name}.json")
        if json.loads((folder / f"{name}.json").read_text())["threshold"] is None:
            figures["promises"][name] = None
            continue
        configure(other, f"{{use: certified, path: {name}.json}}")
        draftverify(folder, "run", "manual.yaml", "--fresh", "--out", f"runs/{name}-kept")
        answers = counts_of(folder / f"runs/{name}-kept", halves[other])
        right = sum(kind["right"] for kind in answers.values())
        answered = right + sum(kind["wrong"] for kind in answers.values())
        kept = rate([1.0] * right + [0.0] * (answered - right), [1.0] * answered)
        precision = {"value": kept.value, "low": kept.low, "high": kept.high, "answered": answered}
        figures["promises"][name] = {"answers": answers, "precision": precision}
    return figures


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--pages", type=int, default=80)
    parser.add_argument("--questions", type=int, default=60)
    parser.add_argument("--readers", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/retrieval_manual.json"))
    options = parser.parse_args(arguments)
    pages = pages_of(options.pages)
    tasks = questions_of(pages, options.questions)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Scripted)
    Thread(target=server.serve_forever, daemon=True).start()
    figures: dict[str, Any] = {"pages": len(pages), "questions": options.questions, "readers": {}}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "pages").mkdir()
        for module, text in pages.items():
            (folder / "pages" / f"{module}.md").write_text(f"# {module}\n\n{text}")
        for reader in options.readers:
            model = MODELS[reader].format(url=f"http://127.0.0.1:{server.server_port}")
            figures["readers"][reader] = measure(folder, model, tasks, promising=reader == PROMISING)
            print(reader, json.dumps(figures["readers"][reader]), flush=True)
    server.shutdown()
    write(options.out, "benchmarks.retrieval_manual", figures)


if __name__ == "__main__":
    main()
