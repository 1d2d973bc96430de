"""How large the report of a large run is, how long it takes to write, and how soon it and the viewer open in Chromium.

    python -m benchmarks.report_size [--tasks 10000] [--opens 5] [--out benchmarks/results/report_size.json]

Two pipelines of cheap parts run over the tasks: blocks of words of which some are refused, every fiftieth task fails,
so that the list has what it is made for. Given are the bytes of the file and of its parts (the page, figures, list,
rounds), how many tasks' rounds are in it, the seconds of `draftverify view -o` and of processor time in it, and of each
opening in a fresh browser context the milliseconds to the first paint, until the list can be used (the page is ready),
until the charts are drawn, and until a task that was clicked shows its rounds: of the file, and of `draftverify view`,
whose server is a new one each time, so that nothing was made before it was asked for.
"""

from __future__ import annotations

import argparse
import base64
import gzip
import json
import re
import resource
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from time import perf_counter
from typing import Any

from benchmarks.provenance import write

PARTS = """
from draftverify import Check, GeneratorTraits, Proposal, Task, Verification

WORDS = "the quick draft is checked by a slow and careful verifier in one pass over the whole block".split()

class Numbered:
    def __init__(self, count: int, limit: int | None = None) -> None:
        self.count = count

    def load(self) -> list[Task]:
        text = " ".join(WORDS)
        return [
            Task(id=f"task-{i}", input={"prompt": f"{i}: {text}"}, group=f"kind {i % 5}") for i in range(self.count)
        ]

class Words:
    traits = GeneratorTraits(shape="chain")

    def propose(self, context, n):
        start = len(context.accepted)
        right = [u < 0.7 for u in context.draws.uniforms(range(n))]
        items = [WORDS[(start + i) % len(WORDS)] if right[i] else "wrong" for i in range(n)]
        return Proposal.chain(items[: len(WORDS) - start])

class Checked:
    def verify(self, context, proposal):
        if context.task.id.endswith(("00", "50")):
            raise RuntimeError("this task fails")
        start, checks = len(context.accepted), []
        for i, item in enumerate(proposal.items):
            if any(check.verdict == "reject" for check in checks):
                checks.append(Check("unchecked"))
            elif item == WORDS[(start + i) % len(WORDS)]:
                checks.append(Check("pass"))
            else:
                checks.append(Check("reject", None, "another word", f"{item!r} does not follow"))
        kept = sum(check.verdict == "pass" for check in checks)
        correction = (WORDS[(start + kept) % len(WORDS)],) if kept < len(checks) or not checks else ()
        return Verification(checks=tuple(checks), correction=correction)
"""

CONFIG = """
name: large
seed: 1
parts: [./words.py]
tasks: {{use: words.Numbered, count: {count}}}
pipelines:
  plain:
    generator: {{use: words.Words}}
    verifier: {{use: words.Checked}}
    rule: {{use: longest_prefix}}
    block: 0
    done: {{use: limit, items: 17}}
  drafted:
    generator: {{use: words.Words}}
    verifier: {{use: words.Checked}}
    rule: {{use: longest_prefix}}
    block: 6
    done: {{use: limit, items: 17}}
baseline: plain
"""

SCRIPT = re.compile(r'<script type="[^"]*" id="([^"]*)">(.*?)</script>', re.DOTALL)
FAILED_TASKS = 6
"""The exit code of a run that did all it could: some tasks fail on purpose."""


def draftverify(*arguments: str) -> float:
    """Run the command line; its seconds."""
    start = perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", "draftverify", *arguments], stdout=subprocess.DEVNULL, check=False
    )
    if done.returncode not in (0, FAILED_TASKS):
        raise SystemExit(f"draftverify {arguments[0]} ended with {done.returncode}")
    return perf_counter() - start


@contextmanager
def viewed(run: Path) -> Iterator[str]:
    """`draftverify view` of the run; gives the URL that lets one browser in."""
    command = [sys.executable, "-u", "-m", "draftverify", "view", str(run)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            yield server.stdout.readline().strip()
        finally:
            server.send_signal(signal.SIGINT)


def opened(addresses: Iterable[AbstractContextManager[str]]) -> list[dict[str, float]]:
    """Open each address in a new context of one browser; milliseconds since the navigation began."""
    from playwright.sync_api import sync_playwright

    program = shutil.which("chromium") or shutil.which("google-chrome")
    if program is None:
        raise SystemExit("there is no chromium; install it (apt install chromium)")
    found = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-gpu"])
        for each in addresses:
            with each as address:
                context = browser.new_context(viewport={"width": 1280, "height": 900})
                page = context.new_page()
                page.goto(address, wait_until="commit")
                page.wait_for_selector("html[data-ready]", state="attached")
                page.wait_for_selector("main .chart svg")
                charts = page.evaluate("performance.now()")
                paint = page.evaluate(
                    "performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? NaN"
                )
                ready = page.evaluate("performance.getEntriesByName('ready')[0].startTime")
                start = perf_counter()
                page.locator("#list td.id button").first.click()
                page.wait_for_selector("tr.detail .pipeline")
                task = 1000 * (perf_counter() - start)
                found.append({"first_paint": paint, "ready": ready, "charts": charts, "task": task})
                context.close()
        browser.close()
    return found


def measure(tasks: int, opens: int) -> dict[str, Any]:
    """Run, report, open."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "words.py").write_text(PARTS)
        config, out = folder / "large.yaml", folder / "run"
        config.write_text(CONFIG.format(count=tasks))
        run_seconds = draftverify("run", str(config), "--out", str(out))
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        report_seconds = draftverify("view", str(out), "-o", str(out / "report.html"))
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        processor = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        file = out / "report.html"
        html = file.read_text()
        data = dict(SCRIPT.findall(html))
        rounds = {key: text for key, text in data.items() if key.startswith("block-")}
        times = {
            "file": opened(nullcontext(file.as_uri()) for _ in range(opens)),
            "viewer": opened(viewed(out) for _ in range(opens)),
        }
        whole = file.stat().st_size
    parts = {
        "figures": len(data["overview"]),
        "list": len(data["rows"]),
        "rounds": sum(map(len, rounds.values())),
        "charts": len(data["echarts"]),
    }
    return {
        "tasks": tasks,
        "run_seconds": run_seconds,
        "report_seconds": report_seconds,
        "report_processor_seconds": processor,
        "bytes": {"all": whole, **parts, "page": whole - sum(parts.values())},
        "tasks_with_rounds": _with_rounds(data["rows"]),
        "milliseconds": {
            place: {key: statistics.median(each[key] for each in own) for key in own[0]}
            for place, own in times.items()
        },
        "openings": times,
    }


def _with_rounds(rows: str) -> int:

    return sum("block" in row for row in json.loads(gzip.decompress(base64.b64decode(rows))))


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--tasks", type=int, default=10_000)
    parser.add_argument("--opens", type=int, default=5)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/report_size.json"))
    options = parser.parse_args(arguments)
    figures = measure(options.tasks, options.opens)
    write(options.out, "benchmarks.report_size", figures)
    print(json.dumps({key: value for key, value in figures.items() if key != "openings"}, indent=1))


if __name__ == "__main__":
    main()
