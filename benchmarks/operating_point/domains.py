"""The domains, and what a directory needs for the config of one to run in it, made of the recorded data.

A domain's config stands beside this file. `prepared` puts it into a directory of its own with what it names: so it is
an ordinary experiment, and `draftverify fit block DOMAIN.yaml` there does one split for real.
"""

from __future__ import annotations

import json
import re
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import yaml

HERE = Path(__file__).parent
PROGRAMS, CHARACTERS, PROMPTS = 8, 600, 20


class Domain(NamedTuple):
    """One line of the table.

    Args:
        drafts: what is drafted, and what checks it, for the table.
        at_most: the largest block that is tried.
        prepare: given the data's and the experiment's directory, makes what the config names.
    """

    drafts: str
    at_most: int
    prepare: Callable[[Path, Path], None]


def prepared(name: str, data: Path, work: Path) -> Path:
    """The config of a domain, in a directory that has all that it names; what is there already stays."""
    folder = work / name
    folder.mkdir(parents=True, exist_ok=True)
    DOMAINS[name].prepare(data, folder)
    for file in (*HERE.glob("*_parts.py"), HERE / f"{name}.yaml"):
        shutil.copy(file, folder)
    return folder / f"{name}.yaml"


def _prompts(data: Path, folder: Path) -> None:
    """The first questions of each of Spec-Bench's categories, of those that are short."""
    count: Counter[str] = Counter()
    lines = []
    for line in (data / "spec_bench" / "question.jsonl").read_text().splitlines():
        row = json.loads(line)
        kind, prompt = row["category"], row["turns"][0]
        if len(prompt) <= CHARACTERS and count[kind] < PROMPTS:
            count[kind] += 1
            lines.append(json.dumps({"id": str(row["question_id"]), "kind": kind, "prompt": prompt}))
    (folder / "prompts.jsonl").write_text("\n".join(lines) + "\n")


def _programs(data: Path, folder: Path) -> None:
    """The first programs of each problem, as they were recorded."""
    rows = map(json.loads, (data / "humaneval_codegen16b" / "solutions.jsonl").read_text().splitlines())
    lines = [json.dumps({"prompt": row["prompt"], "samples": row["samples"][:PROGRAMS]}) for row in rows]
    (folder / "programs.jsonl").write_text("\n".join(lines) + "\n")


def _paragraphs(data: Path, folder: Path) -> None:
    """The corpus."""
    from draftverify_retrieval import paragraphs

    given = folder / "xquad.en.json"
    if not given.exists():
        shutil.copy(data / "xquad_en" / "xquad.en.json", given)
    lines = [json.dumps(each) for each in paragraphs(given)]
    (folder / "paragraphs.jsonl").write_text("\n".join(lines) + "\n")


def _answers(data: Path, folder: Path) -> None:
    """The problems with what the models of the config answered; which of them begins turns from one to the next."""
    from draftverify_llm import read_rows

    config = yaml.safe_load((HERE / "reasoning.yaml").read_text())
    models = list(config["defaults"]["generator"]["billions"])
    of: dict[str, dict[str, Any]] = {}
    for _, row in read_rows(data / "zeroeval_gsm" / "gsm.jsonl.gz"):
        if row["model"] in models:
            of.setdefault(row["id"], {"row": row})[row["model"]] = row["output"]
    lines = []
    for place, (name, told) in enumerate(sorted(of.items())):
        order = models[place % len(models) :] + models[: place % len(models)]
        samples = [{"text": told[each], "answer": _said(told[each]), "system": each} for each in order]
        line = {
            "task_id": name,
            "question": told["row"]["question"],
            "answer": told["row"]["answer"].lstrip("# "),
            "samples": [{key: each for key, each in sample.items() if each} for sample in samples],
        }
        lines.append(json.dumps(line))
    (folder / "answers.jsonl").write_text("\n".join(lines) + "\n")


def _said(output: str) -> str:
    """The last `answer` of a JSON text, which may be cut off or stand in a fence; "" where there is none."""
    found = re.findall(r'"answer"\s*:\s*"?([^"\n}]*)', output)
    return found[-1].strip() if found else ""


def _nothing(data: Path, folder: Path) -> None:
    """It makes its own tasks."""


DOMAINS = {
    "tokens": Domain("prompt lookup; SmolLM2-135M", 4, _prompts),
    "code": Domain("recorded programs of CodeGen-16B; syntax, lint, tests", 8, _programs),
    "retrieval": Domain("BM25's paragraphs; the lexical reader", 4, _paragraphs),
    "reasoning": Domain("recorded answers of eight models; a vote", 8, _answers),
    "surrogate": Domain("coarse steps of an oscillator; fine ones", 16, _nothing),
}
