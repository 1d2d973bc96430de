"""Which figures are of older code: the commit of each JSON beside the commits since that touched what it measures.

    python -m benchmarks.stale          # the stale ones: how many commits, the pages, the command
    python -m benchmarks.stale --show   # the table in benchmarks/README.md

A file of results is stale where a commit after its own touched one of its modules (`MODULES`), its benchmark or its
config. Commits are counted and not read: a new comment counts too. One that this history does not have is stale.
"""

from __future__ import annotations

import argparse
import json
import re
import shlex
import subprocess
from collections.abc import Iterator
from typing import Any, NamedTuple

from benchmarks.figures import ROOT, pages

RESULTS = ROOT / "benchmarks" / "results"
ENGINE = "draftverify/engine draftverify/values.py draftverify/frozen.py"
RUNS = f"{ENGINE} draftverify/bench/runner draftverify/bench/records draftverify/bench/executors"
TOKENS = f"{ENGINE} draftverify/rules adapters/tokens adapters/llm/draftverify_llm/packed.py"
MEASURED = f"{TOKENS} draftverify/stats/block"
PROGRAMS = "adapters/code/draftverify_code/sandbox adapters/code/draftverify_code/stages"
SEARCH = "adapters/retrieval"
REASONING = "adapters/reasoning draftverify/rules"
REPLAY = "draftverify/lab/replay draftverify/lab/tune.py"
MODULES = {
    "audit_lossless": f"{TOKENS} draftverify/kit/audit",
    "cascades": f"{TOKENS} draftverify/stats/paired.py",
    "certify": "draftverify/lab/certificate.py draftverify/lab/certified_threshold.py draftverify/stats/judgement",
    "code_agreement": f"{PROGRAMS} adapters/code/draftverify_code/published.py",
    "code_block": f"{PROGRAMS} draftverify/engine/scheduler.py",
    "code_codet": f"{PROGRAMS} adapters/code/draftverify_code/agreement.py draftverify/rules/agreement.py",
    "code_harness": PROGRAMS,
    "code_hidden": f"{PROGRAMS} adapters/code/draftverify_code/hidden_tests.py",
    "code_kinds": PROGRAMS,
    "code_humaneval": f"{PROGRAMS} {RUNS} adapters/code/draftverify_code/generators draftverify/rejection",
    "code_patches": f"{PROGRAMS} adapters/code/draftverify_code/patches",
    "code_repair_examples": f"{PROGRAMS} {RUNS} adapters/code/draftverify_code/generators",
    "controller": MEASURED,
    "distilled": f"{RUNS} draftverify/rules examples/distilled/src",
    "endpoint": f"{RUNS} adapters/llm/draftverify_llm/endpoint.py adapters/llm/draftverify_llm/cache.py",
    "engine_overhead": f"{ENGINE} draftverify/bench/records",
    "extract": f"{RUNS} adapters/llm/draftverify_llm/sampling.py draftverify/checks draftverify/rejection",
    "frozen": "draftverify/frozen.py draftverify/engine/canonical.py",
    "gathered": f"{TOKENS} draftverify/engine/line.py",
    "generate": MEASURED,
    "hostile": f"{RUNS} draftverify/stats/block",
    "house": "draftverify adapters docs tests",
    "judges": "draftverify/kit/audit draftverify/stats/judgement",
    "judges_live": "draftverify/kit/audit adapters/llm/draftverify_llm/judging.py",
    "learned": TOKENS,
    "many_tasks": f"{RUNS} draftverify/bench/tables draftverify/view/page.py",
    "monitors": "draftverify/bench/monitors",
    "mutants": "draftverify tests",
    "operating_point": "draftverify/lab draftverify/stats",
    "physics": f"{RUNS} draftverify/stats/block examples/physics/src",
    "plan": f"{RUNS} adapters/plan draftverify/rules",
    "ppi": "draftverify/stats",
    "proofs": f"{RUNS} draftverify/checks/combined.py examples/proofs/src",
    "quickstart": f"{RUNS} {MEASURED}",
    "reasoning_cascade": REASONING,
    "reasoning_correction": REASONING,
    "reasoning_likelihood": f"{REASONING} adapters/llm/draftverify_llm/likelihood.py",
    "reasoning_replay": f"{REASONING} {REPLAY}",
    "reasoning_steps": f"{REASONING} {ENGINE}",
    "reasoning_stopping": REASONING,
    "reasoning_verifier": "adapters/reasoning",
    "replay": REPLAY,
    "replay_rerun": REPLAY,
    "report_size": "draftverify/view draftverify/bench/tables draftverify/bench/records",
    "retrieval_index": "adapters/retrieval",
    "retrieval_manual": f"{RUNS} adapters/retrieval adapters/llm",
    "retrieval_qa": f"{SEARCH} draftverify/lab/scores.py",
    "retrieval_reader": SEARCH,
    "retrieval_recall": SEARCH,
    "retrieval_search": SEARCH,
    "retrieval_speculative": SEARCH,
    "retrieval_text_model": SEARCH,
    "rules": "draftverify/rules draftverify/engine/boundary.py",
    "sampling": "adapters/llm/draftverify_llm/local.py adapters/llm/draftverify_llm/side_by_side.py",
    "scale": f"{RUNS} draftverify/cluster",
    "schema_answers": f"{TOKENS} adapters/tokens/draftverify_tokens/forced.py",
    "serving": f"{TOKENS} draftverify/serve",
    "sql_rewrites": f"{RUNS} examples/plugin/src",
    "stopping": "draftverify/rules/stopping.py draftverify/rules/ballots.py",
    "sweep": f"{RUNS} draftverify/bench/cli draftverify/stats/paired.py",
    "tokens": TOKENS,
    "tokens_cache": TOKENS,
    "tokens_chat": MEASURED,
    "tokens_round": TOKENS,
    "trust": "draftverify/stats/judgement draftverify/kit/audit",
}
"""What each file of results measures, but for its benchmark and its config. Files that are not here are of versions
that are gone, and stay as they were."""


class Measurement(NamedTuple):
    """A file of results or a part of it: what it measures, and how; the minutes where they were noted."""

    name: str
    modules: str
    command: str
    commit: str
    minutes: float | None

    @property
    def paths(self) -> list[str]:
        """Its modules, the benchmark's own file or folder, and the configs that the command names."""
        words = shlex.split(self.command)
        module = words[words.index("-m") + 1].replace(".", "/")
        named = [word for word in words if word.endswith(".yaml")]
        own = [path for path in (f"{module}.py", module, *named) if (ROOT / path).exists()]
        return [*self.modules.split(), *own]


def measurements() -> Iterator[Measurement]:
    """Those of every file of results in `MODULES`."""
    for name, modules in MODULES.items():
        for row in _provenances(json.loads((RESULTS / f"{name}.json").read_text())):
            commit, seconds = row["commit"].removesuffix("+changes"), row.get("seconds")
            yield Measurement(name, modules, row["command"], commit, seconds and seconds / 60)


def _provenances(data: Any) -> Iterator[dict[str, Any]]:
    """One at the top, or one for each part."""
    if isinstance(data, dict) and "provenance" in data:
        yield data["provenance"]
    else:
        for value in data.values() if isinstance(data, dict) else data if isinstance(data, list) else ():
            yield from _provenances(value)


def commits_since(commit: str, paths: list[str]) -> int | None:
    """How many commits after this one touched one of the paths; None where the history does not have it."""
    command = ["git", "rev-list", "--count", "--no-merges", f"{commit}..HEAD", "--", *paths]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return None if done.returncode else int(done.stdout)


def stale() -> Iterator[str]:
    """Two lines for each measurement that is of older code: how far behind it is, the pages with it, the command."""
    texts = {page.relative_to(ROOT): page.read_text() for page in pages()}
    for measurement in measurements():
        commits = commits_since(measurement.commit, measurement.paths)
        if commits != 0:
            shown = [str(page) for page, text in texts.items() if f"results/{measurement.name}.json" in text]
            count = "its commit is not in this history" if commits is None else f"{commits} commits behind"
            yield f"{measurement.name}.json: {count}; in {', '.join(shown) or 'no page'}\n  {measurement.command}"


def table() -> Iterator[str]:
    """The rows of the table in benchmarks/README.md."""
    yield "| results | command | minutes | stale when these change |"
    yield "|---|---|---|---|"
    for name, modules, command, _, minutes in measurements():
        short = re.sub(r" --(?:out|report) \S+", "", command)
        paths = " ".join(f"`{path.removeprefix('draftverify/')}`" for path in modules.split())
        noted = "" if minutes is None else f"{minutes:.1f}"
        yield f"| [{name}](results/{name}.json) | `{short}` | {noted} | {paths} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument(
        "--show", action="store_true", help="print the table of benchmarks, and what makes each stale"
    )
    print("\n".join(table() if parser.parse_args().show else stale()))


if __name__ == "__main__":
    main()
