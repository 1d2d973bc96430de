"""The block that measures against every fixed one, plain decoding and transformers' own lookup: one-shot calls.

    python -m benchmarks.controller --data ../shared/data/spec_bench/question.jsonl [--categories …] [--prompts 4]
        [--dtypes float32 bfloat16] [--tokens 40 120] [--blocks 1 2 3 4 6 8 12 16] [--repeats 3] [--cpu] [--out …]
    python -m benchmarks.controller --retrieval [--steps 12] [--tasks 40] [--repeats 3]
    python -m benchmarks.controller --show [--out …] [--table]    # what the results say, nothing is run

Text: SmolLM2-135M-Instruct, greedy, prompt lookup; in bfloat16 ours with packed weights. Every way is one call of
`generate` per prompt: with the block that measures (`measured`: it begins with what passes were timed at when the model
was opened, and with what earlier calls drafted), with a fixed block, without drafts ("plain"), and transformers' own
without and with `prompt_lookup_num_tokens=10`. Each repeat runs every way on every prompt, the ways taking turns prompt
by prompt, their order turning round from one to the next (ABBA); the prompt's reading and what a call sets up are
counted. Nothing was chosen by these prompts, the first of each category of Spec-Bench.

Retrieval: tasks of `--steps` searches of 200,000 vectors with drafts from the cache (benchmarks.retrieval_speculative,
`dense` and `no_locality`), by pipelines that are kept from task to task.

Figures, by dtype, length and category: tokens per second; the ratio of `measured` to plain, to the best fixed block
(the one of the least seconds over all repeats) and to transformers' lookup, a geometric mean over repeats with a 95 %
interval (Student's t on the logs). `--cpu` counts seconds of the processor, for a machine that others use too.
Must hold, or the exit status is 1: no ratio to plain whose interval ends below .98, none to the best block below .95.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.generate import Way, one_call_of_transformers, questions, transformers_plain
from benchmarks.provenance import write
from benchmarks.tokens import interval

GOALS = {"plain": 0.98, "best block": 0.95}
CATEGORIES = ["writing", "roleplay", "translation", "summarization", "qa", "math_reasoning", "rag"]
THEIRS = "transformers lookup"


def text_ways(weights: str, dtype: str, tokens: int, blocks: Sequence[int]) -> dict[str, Way]:
    """Every way to answer a prompt, by its name."""
    from draftverify_llm import LocalModel
    from draftverify_llm.packed import obstacle
    from draftverify_tokens import generate

    theirs = LocalModel(weights, dtype=dtype)
    packs = dtype == "bfloat16" and obstacle() is None
    ours = LocalModel(weights, dtype=dtype, packed="bfloat16") if packs else theirs

    def call(drafter: str, block: int | None) -> Way:
        return lambda prompt: generate(ours, prompt, drafter, max_new_tokens=tokens, block=block).ids

    def by_transformers(call: Callable[..., Any]) -> Callable[[str], Any]:
        return lambda prompt: call(theirs.model, theirs.tokenizer, prompt, tokens)

    lookup = by_transformers(one_call_of_transformers)
    return {
        "plain": call("none", None),
        "measured": call("lookup", None),
        **{f"block {block}": call("lookup", block) for block in blocks},
        "transformers": by_transformers(transformers_plain),
        THEIRS: lambda prompt: lookup(prompt)[1],
    }


def retrieval_ways(case: Any, blocks: Sequence[int]) -> dict[str, Callable[[Any], Any]]:
    """Every way to perform a task, each with a pipeline that is kept."""
    from draftverify.stats.block import Measured

    def way(block: Any) -> Callable[[Any], Any]:
        pipeline = case.pipeline(block)
        return lambda task: pipeline.run(task).value

    fixed = {f"block {block}": way(block) for block in blocks}
    return {"plain": way(0), "measured": way(Measured(16)), **fixed}


def compare(
    ways: dict[str, Callable[[Any], Any]], inputs: Sequence[Any], repeats: int, clock: Callable[[], float]
) -> dict[str, Any]:
    """All ways on all inputs of one category, `repeats` times."""
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    answers: dict[str, list[Any]] = {name: [()] * len(inputs) for name in ways}
    for repeat in range(repeats):
        for row in seconds.values():
            row.append(0.0)
        for place, value in enumerate(inputs):
            for name in list(ways)[:: 1 if (repeat + place) % 2 == 0 else -1]:
                start = clock()
                answers[name][place] = ways[name](value)
                seconds[name][-1] += clock() - start
    made = {name: sum(map(len, rows)) for name, rows in answers.items()}
    speed = {name: [made[name] / spent for spent in row] for name, row in seconds.items()}
    best = max(
        (name for name in ways if name.startswith("block")), key=lambda name: made[name] / sum(seconds[name])
    )
    others = {"plain": "plain", "best block": best, **({THEIRS: THEIRS} if THEIRS in ways else {})}
    return {
        "inputs": len(inputs),
        "per_second": {name: statistics.median(row) for name, row in speed.items()},
        "best": best,
        "ratios": {
            name: interval([a / b for a, b in zip(speed["measured"], speed[other], strict=True)])
            for name, other in others.items()
        },
        "same_as_plain": {
            name: sum(map(lambda a, b: a == b, rows, answers["plain"])) for name, rows in answers.items()
        },
    }


def show(figures: dict[str, Any]) -> bool:
    """Print the results; whether all goals are met."""
    met = True
    for name, categories in figures["runs"].items():
        for category, result in categories.items():
            words = []
            for other, ratio in result["ratios"].items():
                is_below = ratio["high"] < GOALS.get(other, 0.0)
                met = met and not is_below
                words.append(
                    f"{other} {ratio['ratio']:.2f} [{ratio['low']:.2f}, {ratio['high']:.2f}]{' !' * is_below}"
                )
            print(f"{name:24s} {category:16s} best {result['best']:9s} measured against", ", ".join(words))
    return met


def table(figures: dict[str, Any]) -> str:
    """The ratios as a table of the docs."""
    head = ("call", "category", "against plain", "against the best block", "against transformers' lookup")
    rows = [head, ("---",) * len(head)]
    for name, categories in figures["runs"].items():
        for category, result in categories.items():
            plain, best, theirs = (
                "–" if ratio is None else f"{ratio['ratio']:.2f} [{ratio['low']:.2f}, {ratio['high']:.2f}]"
                for ratio in map(result["ratios"].get, ("plain", "best block", THEIRS))
            )
            rows.append((name, category, plain, f"{best} ({result['best'].removeprefix('block ')})", theirs))
    return "\n".join(f"| {' | '.join(row)} |" for row in rows).replace(" --- ", "---")


def run_text(options: argparse.Namespace, figures: dict[str, Any], clock: Callable[[], float]) -> None:
    """Every dtype, length and category; what is measured stands, whatever comes next."""
    for dtype in options.dtypes:
        for tokens in options.tokens:
            ways = text_ways(options.weights, dtype, tokens, options.blocks)
            prompts = questions(options.data, options.categories, options.prompts)
            for way in ways.values():  # allocates, and times the model's passes
                way(prompts[0][1])
            run = figures["runs"].setdefault(f"{dtype}, {tokens} tokens", {})
            for category in options.categories:
                chosen = [prompt for group, prompt in prompts if group == category]
                run[category] = compare(ways, chosen, options.repeats, clock)
                write(options.out, "benchmarks.controller", figures)


def run_retrieval(options: argparse.Namespace, figures: dict[str, Any], clock: Callable[[], float]) -> None:
    """Short tasks where drafts are right, and where they are not."""
    import faiss

    from benchmarks.retrieval_speculative import Case

    faiss.omp_set_num_threads(1)
    for name in ("dense", "no_locality"):
        case = Case(name, options.steps)
        ways = retrieval_ways(case, options.blocks)
        tasks = case.tasks(0, options.tasks)
        for way in ways.values():
            way(tasks[0])
        run = figures["runs"].setdefault(f"retrieval, {options.steps} steps", {})
        run[name] = compare(ways, tasks, options.repeats, clock)
        write(options.out, "benchmarks.controller", figures)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, help="question.jsonl of Spec-Bench")
    parser.add_argument("--retrieval", action="store_true", help="tasks of searches instead of text")
    parser.add_argument("--weights", default="smollm2-135m-instruct")
    parser.add_argument(
        "--dtypes", nargs="+", default=["float32", "bfloat16"], choices=["float32", "bfloat16"]
    )
    parser.add_argument("--categories", nargs="+", default=CATEGORIES)
    parser.add_argument("--prompts", type=int, default=4, help="per category")
    parser.add_argument("--tokens", type=int, nargs="+", default=[40, 120])
    parser.add_argument("--blocks", type=int, nargs="+", default=[1, 2, 3, 4, 6, 8, 12, 16])
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--tasks", type=int, default=40)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--cpu", action="store_true", help="count seconds of the processor")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/controller.json"))
    parser.add_argument("--show", action="store_true", help="print what stands at --out")
    parser.add_argument("--table", action="store_true", help="print it as a table of the docs")
    options = parser.parse_args(arguments)
    if not options.show:
        if options.data is None and not options.retrieval:
            parser.error("--data is needed: the question.jsonl of Spec-Bench")
        figures = json.loads(options.out.read_text()) if options.out.exists() else {"runs": {}}
        figures["clock"] = "processor" if options.cpu else "wall"
        run = run_retrieval if options.retrieval else run_text
        run(options, figures, time.process_time if options.cpu else time.perf_counter)
    if options.table:
        print(table(json.loads(options.out.read_text())))
    elif not show(json.loads(options.out.read_text())):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
