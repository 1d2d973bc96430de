"""The domains, and what a directory needs for the config of one to run in it, made of the recorded data.

A domain's config stands beside this file. `prepared` puts it into a directory of its own with what it names: so it is
an ordinary experiment, and `draftverify calibrate DOMAIN.yaml` there does one split for real.
"""

from __future__ import annotations

import json
import shutil
import statistics
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

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
    """The corpus, and a reader that is trained on the paragraphs whose questions are not asked."""
    from draftverify_retrieval import ReaderTraining, paragraphs

    given = folder / "xquad.en.json"
    if not given.exists():
        shutil.copy(data / "xquad_en" / "xquad.en.json", given)
    lines = [json.dumps(each) for each in paragraphs(given)]
    (folder / "paragraphs.jsonl").write_text("\n".join(lines) + "\n")
    if not (folder / "reader" / "reader.json").exists():
        tell = lambda step, total, words: print(f"reader: {step} of {total}, {words}", flush=True)
        ReaderTraining(given, half="even", held_out=0).train(folder / "reader", tell)


def _solutions(data: Path, folder: Path) -> None:
    """The recording, and what writing and reading a block takes, timed once."""
    given = folder / "math_cot_100.jsonl"
    if not given.exists():
        shutil.copy(data / "rsd_math100" / given.name, given)
    prices = folder.parent / "seconds.json"
    if not prices.exists():
        texts = [text for line in given.read_text().splitlines() for text in json.loads(line)["code"]]
        prices.write_text(json.dumps(timed(texts)))


def timed(texts: list[str], sizes: tuple[int, ...] = (1, 2, 4, 8), repeats: int = 5) -> dict[str, Any]:
    """Seconds of SmolLM2-135M by batch size: of a decoding step, and of a position of texts that it reads.

    Args:
        texts: how many tokens a character is.
        sizes: of the batches, timed in turn.
        repeats: medians of so many.
    """
    import torch

    from draftverify_llm import LocalModel

    local = LocalModel("smollm2-135m-instruct", dtype="float32")
    local.open()
    model, length, steps = local.model, 128, 8
    found: dict[str, dict[int, list[float]]] = {"step": {}, "read": {}}
    with torch.inference_mode():
        for repeat in range(repeats):
            for n in sizes if repeat % 2 else sizes[::-1]:
                ids = torch.randint(300, 40_000, (n, length), generator=torch.Generator().manual_seed(repeat))
                start = perf_counter()
                cache = model(ids, use_cache=True).past_key_values
                found["read"].setdefault(n, []).append((perf_counter() - start) / length)
                start = perf_counter()
                for _ in range(steps):
                    cache = model(ids[:, -1:], past_key_values=cache, use_cache=True).past_key_values
                found["step"].setdefault(n, []).append((perf_counter() - start) / steps)
    characters = sum(map(len, texts))
    return {
        **{what: {n: statistics.median(each) for n, each in by.items()} for what, by in found.items()},
        "tokens_per_character": sum(len(local.tokenizer(text)["input_ids"]) for text in texts) / characters,
    }


def _nothing(data: Path, folder: Path) -> None:
    """It makes its own tasks."""


DOMAINS = {
    "tokens": Domain("prompt lookup; SmolLM2-135M", 4, _prompts),
    "code": Domain("recorded programs of CodeGen-16B; syntax, lint, tests", 8, _programs),
    "retrieval": Domain("BM25's paragraphs; the trained reader", 4, _paragraphs),
    "reasoning": Domain("recorded solutions; their recorded rewards, a vote", 8, _solutions),
    "reasoning_first": Domain("the same; the first above a threshold", 8, _solutions),
    "surrogate": Domain("coarse steps of an oscillator; fine ones", 16, _nothing),
}
