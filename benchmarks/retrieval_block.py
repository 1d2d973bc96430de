"""What a block is worth to a reader: n passages in one call against n calls, many questions in one against one by one.

    python -m benchmarks.retrieval_block DATA.json [--reader DIR] --out benchmarks/results/retrieval_block.json

DATA.json is a file in SQuAD's layout; BM25 drafts the blocks from its paragraphs. `one block` is `verify` of n passages
against n calls of `verify` with one passage each; `many tasks` is `verify_many` of the blocks of several questions
against `verify` of each. Both ways are timed in turn, the order alternating, on new questions each time; the figure is
the median of the ratios (one by one / together: above 1 the batch pays), with a 95 % interval by bootstrap over the
repeats.

Readers: the trained one (`--reader`; without it one is trained on 60 questions, which reads as fast), a span model of
MiniLM's size (its weights, a random head: only its time is looked at), SmolLM2-135M as a text reader.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.provenance import write
from draftverify import Context, Proposal, Task
from draftverify.kit import make_context
from draftverify_llm import LocalModel, quiet_transformers, torch_directory
from draftverify_retrieval import (
    Bm25,
    Corpus,
    QuestionAnswering,
    ReaderTraining,
    Squad,
    TextReader,
    TrainedReader,
    paragraphs,
)

Block = tuple[Context, Proposal]
SIZES = {"reader": (5, 20), "question_answering": (5,), "text_reader": (3,)}
QUESTIONS = {"reader": 16, "question_answering": 16, "text_reader": 2}
REPEATS = {"reader": 5, "question_answering": 3, "text_reader": 2}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("data", type=Path)
    parser.add_argument("--reader", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        rows = measure(options.data, options.reader, Path(folder))
    write(options.out, "benchmarks.retrieval_block", {"rows": rows})


def measure(data: Path, trained: Path | None, folder: Path) -> list[dict[str, Any]]:
    tasks = Squad(data).load()
    if trained is None:
        trained = train(data, tasks[:60], folder)
    lines = folder / "paragraphs.jsonl"
    lines.write_text("".join(json.dumps(each) + "\n" for each in paragraphs(data)))
    bm25 = Bm25(Corpus(lines, split="document"))
    bm25.open()
    contexts = [make_context(task) for task in tasks]
    readers: dict[str, Any] = {
        "reader": TrainedReader(trained),
        "question_answering": QuestionAnswering(span_model(folder / "spans")),
        "text_reader": TextReader(LocalModel("smollm2-135m-instruct", dtype="float32")),
    }
    rows = []
    for name, reader in readers.items():
        reader.open()
        # Questions that no other measurement of this reader saw, in an order of their own.
        fresh = iter(np.random.default_rng(1).permutation(len(contexts)))

        def blocks(count: int, n: int, fresh: Any = fresh) -> list[Block]:
            chosen = [contexts[next(fresh)] for _ in range(count)]
            return [(context, bm25.propose(context, n)) for context in chosen]

        for n in SIZES[name]:
            found = timed(partial(blocks, 1, n), alone(reader), together(reader), REPEATS[name])
            rows.append(row_of(name, "one block", 1, n, found))
        found = timed(
            partial(blocks, QUESTIONS[name], 5), one_by_one(reader), together(reader), REPEATS[name]
        )
        rows.append(row_of(name, "many tasks", QUESTIONS[name], SIZES[name][0], found))
        reader.close()
    return rows


def train(data: Path, tasks: list[Task], folder: Path) -> Path:
    """A reader that has seen too little to read well, and takes as long as any."""
    texts = {each["id"]: each["text"] for each in paragraphs(data)}
    lines = [
        {
            "question": task.input["question"],
            "passage": texts[task.expected["document"]],
            "answers": [
                {"text": texts[task.expected["document"]][start:end], "start": start}
                for start, end in task.expected["spans"]
            ],
        }
        for task in tasks
    ]
    (folder / "questions.jsonl").write_text("\n".join(map(json.dumps, lines)))
    ReaderTraining(folder / "questions.jsonl", held_out=0, epochs=1).train(folder / "reader")
    return folder / "reader"


def span_model(directory: Path) -> Path:
    """MiniLM with a random head for spans."""
    import torch
    import transformers

    torch.manual_seed(0)
    source = str(torch_directory("all-minilm-l6-v2"))
    with quiet_transformers():
        transformers.AutoModelForQuestionAnswering.from_pretrained(source).save_pretrained(directory)
        transformers.AutoTokenizer.from_pretrained(source).save_pretrained(directory)
    return directory


def together(reader: Any) -> Callable[[list[Block]], None]:
    return lambda blocks: reader.verify_many(
        [context for context, _ in blocks], [block for _, block in blocks]
    )


def one_by_one(reader: Any) -> Callable[[list[Block]], None]:
    return lambda blocks: [reader.verify(context, block) for context, block in blocks]


def alone(reader: Any) -> Callable[[list[Block]], None]:
    return lambda blocks: [
        reader.verify(context, block.subset([i])) for context, block in blocks for i in range(len(block))
    ]


def timed(
    make: Callable[[], list[Block]],
    apart: Callable[[list[Block]], None],
    joint: Callable[[list[Block]], None],
    repeats: int,
) -> list[tuple[float, float]]:
    """(seconds apart, seconds together) of each repeat; the first is a warm-up and left out."""
    found = []
    for repeat in range(repeats + 1):
        blocks = make()
        seconds = {}
        for way in (apart, joint) if repeat % 2 else (joint, apart):
            start = time.perf_counter()
            way(blocks)
            seconds[way] = time.perf_counter() - start
        found.append((seconds[apart], seconds[joint]))
    return found[1:]


def row_of(name: str, what: str, questions: int, n: int, pairs: list[tuple[float, float]]) -> dict[str, Any]:
    ratios = np.array([apart / joint for apart, joint in pairs])
    drawn = np.median(np.random.default_rng(0).choice(ratios, (2000, len(ratios))), axis=1)
    low, high = np.quantile(drawn, [0.025, 0.975])
    row = {
        "reader": name,
        "what": what,
        "questions": questions,
        "passages": n,
        "repeats": len(pairs),
        "ratio": float(np.median(ratios)),
        "low": float(low),
        "high": float(high),
        "apart_seconds": float(np.median([apart for apart, _ in pairs])),
        "together_seconds": float(np.median([joint for _, joint in pairs])),
    }
    print(
        f"{name:20} {what:11} {questions:3} questions of {n:3} passages: {row['ratio']:.2f} "
        f"[{low:.2f}, {high:.2f}], {1000 * row['together_seconds']:.0f} ms",
        flush=True,
    )
    return row


if __name__ == "__main__":
    main()
