"""Token decoding on one machine: ours, plain and with each drafter, beside transformers' own and llama.cpp.

    python -m benchmarks.tokens --data ../shared/data/spec_bench/question.jsonl [--categories summarization rag]
        [--prompts 6] [--tokens 96] [--repeats 5] [--dtype bfloat16] [--ways …] [--out benchmarks/results/tokens.json]
    python -m benchmarks.tokens --show [--out …]      # the table of the results that are there, nothing is run

One process, one set of weights (in bfloat16 ours packed for the CPU), the same prompts, greedy. Each repeat runs every
way on every prompt; the ways take turns prompt by prompt, their order turning round from one to the next (ABBA): a
machine whose speed changes within minutes then changes it for all of them. The prompt's reading is counted.
Figures, per category:

- speed: tokens per second over all prompts, and its ratio to our plain decoding and to transformers' generate: the
  geometric mean over repeats, with a 95 % interval (Student's t on the logs);
- accepted: drafted tokens kept per round, and with the token that each round adds beside them;
- seconds: where a way's time goes: draft, verify, rule, rest (the engine);
- bandwidth: bytes of weights and cache that the passes must read, per second of verification, as a share of what a copy
  reaches in the same run;
- predicted: the speed-up over plain that `predict` says from the even prompts, against what the odd ones measured; then
  20 random halves of the same measurements: how often the interval held, and the median error.

llama.cpp runs the GGUF file that the weights came from; its numbers are those of the quantised weights.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import statistics
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any

from benchmarks.provenance import write
from draftverify import Pipeline, Task, TaskRecord
from draftverify.rules import Speculative, Tree
from draftverify.stats import measured_ratio, predict
from draftverify.stats.block import Measured
from draftverify_llm import LlamaCpp, LocalModel
from draftverify_tokens import DraftModel, FirstOf, NoDraft, PromptLookup, Stop, Suffix, Target

T_975 = {
    2: 4.303,
    3: 3.182,
    4: 2.776,
    5: 2.571,
    6: 2.447,
    7: 2.365,
    9: 2.262,
    11: 2.201,
    14: 2.145,
    19: 2.093,
}


class Run:
    """What one way made of one prompt."""

    def __init__(self, seconds: float, tokens: tuple[int, ...], record: TaskRecord | None = None) -> None:
        self.seconds, self.tokens, self.record = seconds, tokens, record


def prompts(path: Path, categories: list[str], each: int, vocabulary: int) -> list[Task]:
    """The first turns of the first questions of each category; "random" are tokens drawn at random."""
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    tasks = []
    for category in categories:
        if category == "random":
            draw = random.Random(7)
            ids = [[draw.randrange(300, vocabulary - 300) for _ in range(200)] for _ in range(each)]
            tasks += [
                Task(id=f"random-{i}", input={"prompt_ids": found}, group=category)
                for i, found in enumerate(ids)
            ]
            continue
        chosen = [row for row in rows if row["category"] == category][:each]
        if not chosen:
            raise SystemExit(
                f"{path} has no category {category}; it has {sorted({row['category'] for row in rows})}"
            )
        tasks += [
            Task(id=str(row["question_id"]), input={"prompt": row["turns"][0]}, group=category)
            for row in chosen
        ]
    return tasks


def ours(pipeline: Callable[[], Pipeline]) -> Callable[[Task], Run]:
    """A pipeline as a way; made anew for each repeat, so that a controller starts from nothing."""
    made = pipeline()

    def way(task: Task) -> Run:
        start = perf_counter()
        record = made.record(task)
        return Run(perf_counter() - start, tuple(record.outcome.value), record)

    return way


def transformers_way(model: LocalModel, tokens: int, **how: Any) -> Callable[[Task], Run]:
    """transformers' generate, greedy."""
    import torch

    def way(task: Task) -> Run:
        start = perf_counter()
        prompt = task.input.get("prompt_ids") or model.encode_prompt(task.input)
        ids = torch.tensor([prompt])
        out = model.model.generate(
            ids, attention_mask=torch.ones_like(ids), max_new_tokens=tokens, do_sample=False,
            eos_token_id=sorted(model.eos_ids), pad_token_id=0, **how,
        )  # fmt: skip
        return Run(perf_counter() - start, tuple(out[0, len(prompt) :].tolist()))

    return way


def llama_cpp(server: LlamaCpp, model: LocalModel, tokens: int) -> Callable[[Task], Run]:
    """llama.cpp's own decoding of the same file."""

    def way(task: Task) -> Run:
        start = perf_counter()
        text = task.input["prompt"] if "prompt" in task.input else model.decode(task.input["prompt_ids"])
        done = server.complete(text, max_tokens=tokens, temperature=0.0, seed=1)[0]
        return Run(perf_counter() - start, (0,) * done.tokens_out)

    return way


def ways(model: LocalModel, options: argparse.Namespace) -> dict[str, Callable[[], Callable[[Task], Run]]]:
    """Every way by its name; called, it is ready for one repeat."""
    half = options.dtype == "bfloat16"
    mine = LocalModel(options.weights, dtype="bfloat16", packed="bfloat16") if half else model
    four, draft = (
        LocalModel(options.weights, dtype="bfloat16", packed=how) if half else None
        for how in ("int4", "int4_head")
    )
    stop, target, quiet = Stop(max_tokens=options.tokens), Target(mine), {"temperature": 0}

    def build(
        generator: Any, block: Any, verifier: Any = target, rule: Any = None
    ) -> Callable[[], Callable[[Task], Run]]:
        def made() -> Pipeline:
            size = Measured(at_most=block[1]) if isinstance(block, tuple) else block
            return Pipeline(generator, verifier, rule or Speculative(), block=size, done=stop, settings=quiet)

        return lambda: ours(made)

    found = {
        "plain": build(NoDraft(), 0),
        "lookup": build(PromptLookup(), options.block),
        "plain, weights not packed": build(NoDraft(), 0, Target(model)),
        "suffix": build(Suffix(), options.block),
        "suffix tree": build(Suffix(threshold=0.02, tree=True), 2 * options.block, rule=Tree()),
        "suffix, measured": build(Suffix(), ("measured", 16)),
        "lookup, measured": build(PromptLookup(), ("measured", 16)),
        "transformers": lambda: transformers_way(model, options.tokens),
        "transformers lookup": lambda: transformers_way(
            model, options.tokens, prompt_lookup_num_tokens=options.block
        ),
        "transformers early exit": lambda: transformers_way(
            model, options.tokens, assistant_early_exit=options.exit_layers
        ),
    }
    if four is not None and draft is not None:
        packed = Target(four)
        rounded = DraftModel(draft, own_cache=False, lookup=Suffix(), margin=0.25)
        found |= {
            "four-bit draft": build(rounded, options.block),
            "suffix, else four-bit draft": build(FirstOf([Suffix(threshold=0.3), rounded]), 12),
            "four-bit plain": build(NoDraft(), 0, packed),
            "four-bit lookup": build(PromptLookup(), options.block, packed),
            "four-bit suffix, measured": build(Suffix(), ("measured", 16), packed),
            "transformers assistant": lambda: transformers_way(
                model, options.tokens, assistant_model=four.model
            ),
        }
    if "llama.cpp" in (options.ways or ["llama.cpp"]):
        server = LlamaCpp(options.weights, parallel=1)
        found["llama.cpp"] = lambda: llama_cpp(server, model, options.tokens)
    unknown = set(options.ways or ()) - set(found)
    if unknown:
        raise SystemExit(f"no way is named {', '.join(sorted(unknown))}; there are {', '.join(found)}")
    return {name: way for name, way in found.items() if not options.ways or name in options.ways}


def interval(values: list[float]) -> dict[str, float]:
    """Geometric mean and 95 % interval of ratios, one per repeat."""
    logs = [math.log(value) for value in values]
    mean = statistics.fmean(logs)
    half = T_975[len(logs) - 1] * statistics.stdev(logs) / math.sqrt(len(logs)) if len(logs) > 2 else math.inf
    return {"ratio": math.exp(mean), "low": math.exp(mean - half), "high": math.exp(mean + half)}


def copy_bandwidth() -> float:
    """Bytes per second that a copy of half a gigabyte reads and writes; the best of five."""
    import torch

    source = torch.ones(1 << 27)
    best = math.inf
    for _ in range(5):
        start = perf_counter()
        source.clone()
        best = min(best, perf_counter() - start)
    return 2 * source.nbytes / best


def weight_bytes(model: LocalModel) -> int:
    """Bytes of weights that one pass reads: all but the embeddings, and the head."""
    module = model.model
    embedding = module.get_input_embeddings().weight
    tied = module.get_output_embeddings().weight.data_ptr() == embedding.data_ptr()
    total = sum(p.nbytes for p in module.parameters()) + sum(b.nbytes for b in module.buffers())
    return total - (0 if tied else embedding.nbytes)


def drafting(records: list[TaskRecord]) -> dict[str, Any]:
    """What the rounds of a way say: tokens per round, acceptance, and where the time went."""
    rounds = [round for record in records for round in record.rounds]
    timings = [round.timing for round in rounds]
    parts = {name: sum(getattr(t, name) for t in timings) for name in ("draft", "verify", "decide")}
    drafted = [round for round in rounds if round.items]
    return {
        "rounds": len(rounds),
        "rounds_that_drafted": len(drafted),
        "kept_per_round": sum(len(r.decision.kept) for r in rounds) / len(rounds),
        "emitted_per_round": sum(len(r.decision.emitted) for r in rounds) / len(rounds),
        "acceptance": sum(r.tally.accepted for r in drafted) / max(1, sum(r.tally.trials for r in drafted)),
        "seconds": parts,
    }


def halves(runs: dict[str, list[TaskRecord]], name: str, seed: int | None) -> dict[str, Any]:
    """A prediction from half of the prompts against the measurement on the other half; None: even against odd."""
    ids = sorted({record.task for record in runs[name]})
    half = set(ids[::2]) if seed is None else set(random.Random(seed).sample(ids, len(ids) // 2))
    fit, rest = (
        [[record for record in runs[way] if (record.task in half) is inside] for way in (name, "plain")]
        for inside in (True, False)
    )
    groups = sorted({record.group for record in rest[0]})
    counts = {g: len({record.task for record in rest[0] if record.group == g}) for g in groups}
    said = predict(fit[0], fit[1], counts)
    found = {
        g: measured_ratio(*([record for record in side if record.group == g] for side in rest)).value
        for g in groups
    }
    return {
        g: {"predicted": said[g].value, "low": said[g].low, "high": said[g].high, "measured": found[g]}
        for g in groups
    }


def shown(figures: dict[str, Any]) -> str:
    """The results as the table in docs/tokens.md."""
    categories: dict[str, dict[str, Any]] = figures["categories"]
    heads = ["way"]
    for name in categories:
        heads += [f"{name}: tokens/s", "× our plain", "a round"]
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for way in next(iter(categories.values())):
        cells = [way]
        for table in categories.values():
            row = table[way]
            ratio = row.get("against plain")
            said = f"{ratio['ratio']:.2f} [{ratio['low']:.2f}, {ratio['high']:.2f}]" if ratio else "1"
            emitted = row.get("emitted_per_round")
            cells += [
                f"{row['tokens_per_second']:.1f}",
                said,
                "" if emitted is None else f"{emitted:.2f}",
            ]
        lines.append(f"| {' | '.join(cells)} |")
    for name, table in categories.items():
        for way, row in table.items():
            for base in ("transformers", "transformers lookup"):
                if ratio := row.get(f"against {base}"):
                    lines.append(
                        f"{name}: {way} is {ratio['ratio']:.2f} [{ratio['low']:.2f}, {ratio['high']:.2f}] × {base}"
                    )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, help="question.jsonl of Spec-Bench")
    parser.add_argument("--weights", default="smollm2-135m-instruct")
    parser.add_argument("--dtype", default="bfloat16", choices=["bfloat16", "float32"])
    parser.add_argument("--categories", nargs="+", default=["summarization", "rag"])
    parser.add_argument("--prompts", type=int, default=6, help="per category")
    parser.add_argument("--tokens", type=int, default=96)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--block", type=int, default=8)
    parser.add_argument("--exit-layers", type=int, default=15)
    parser.add_argument("--ways", nargs="+")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/tokens.json"))
    parser.add_argument("--show", action="store_true", help="print the table of what stands at --out")
    options = parser.parse_args()
    if options.show:
        print(shown(json.loads(options.out.read_text())))
        return
    if options.data is None:
        parser.error("--data is needed: the question.jsonl of Spec-Bench")

    import torch

    model = LocalModel(options.weights, dtype=options.dtype)
    model.open()
    bandwidth = copy_bandwidth()
    tasks = prompts(options.data, options.categories, options.prompts, model.model.config.vocab_size)
    every = ways(model, options)
    names = list(every)
    for name in names:  # loads, compiles, allocates
        every[name]()(tasks[0])
    runs: dict[str, list[dict[str, Run]]] = {name: [] for name in names}
    for repeat in range(options.repeats):
        made = {name: every[name]() for name in names}
        for name in names:
            runs[name].append({})
        for at, task in enumerate(tasks):
            for name in names if (repeat + at) % 2 == 0 else names[::-1]:
                runs[name][-1][task.id] = made[name](task)
        print(f"repeat {repeat + 1} of {options.repeats}", flush=True)

    figures: dict[str, Any] = {
        "tokens": options.tokens, "repeats": options.repeats, "prompts": len(tasks), "dtype": options.dtype,
        "threads": torch.get_num_threads(), "copy_bandwidth": bandwidth, "categories": {},
    }  # fmt: skip
    for category in options.categories:
        ids = [task.id for task in tasks if task.group == category]
        table: dict[str, Any] = {}
        speed = {
            name: [sum(len(r[i].tokens) for i in ids) / sum(r[i].seconds for i in ids) for r in runs[name]]
            for name in names
        }
        for name in names:
            row: dict[str, Any] = {"tokens_per_second": statistics.median(speed[name])}
            for base in ("plain", "transformers"):
                if base in names and name != base:
                    row[f"against {base}"] = interval(
                        [a / b for a, b in zip(speed[name], speed[base], strict=True)]
                    )
            if name == "lookup" and "transformers lookup" in names:
                other = speed["transformers lookup"]
                row["against transformers lookup"] = interval(
                    [a / b for a, b in zip(speed[name], other, strict=True)]
                )
            first = runs[name][0]
            if "plain" in names and name != "llama.cpp":
                row["same as plain"] = sum(first[i].tokens == runs["plain"][0][i].tokens for i in ids)
            records = [r[i].record for r in runs[name] for i in ids if r[i].record is not None]
            if records:
                row |= drafting(records)
                whole = sum(r[i].seconds for r in runs[name] for i in ids)
                row["seconds"]["rest"] = whole - sum(row["seconds"].values())
                if not name.startswith("four-bit"):
                    read = weight_bytes(model) * row["rounds"]
                    row["bandwidth_share"] = read / row["seconds"]["verify"] / bandwidth
            table[name] = row
        figures["categories"][category] = table
        print(f"\n{category}: {len(ids)} prompts")
        for name, row in table.items():
            ratio = row.get("against plain", {"ratio": 1.0, "low": 1.0, "high": 1.0})
            print(
                f"{name:28s} {row['tokens_per_second']:7.1f} tokens/s  {ratio['ratio']:5.2f} [{ratio['low']:.2f}, "
                f"{ratio['high']:.2f}]  {row.get('emitted_per_round', math.nan):5.2f} a round"
            )

    if "plain" in names:
        records = {
            name: [r[task.id].record for r in runs[name] for task in tasks if r[task.id].record is not None]
            for name in names
        }
        drafted = [
            name for name in names if records[name] and name != "plain" and not name.startswith("four-bit")
        ]
        said = {name: halves(records, name, None) for name in drafted}
        pairs = [
            pair for name in drafted for seed in range(20) for pair in halves(records, name, seed).values()
        ]
        figures["prediction"] = {
            "even for odd": said,
            "splits": 20,
            "intervals": len(pairs),
            "coverage": statistics.fmean(pair["low"] <= pair["measured"] <= pair["high"] for pair in pairs),
            "median_error": statistics.median(
                abs(pair["predicted"] / pair["measured"] - 1) for pair in pairs
            ),
        }
        print("prediction:", {k: v for k, v in figures["prediction"].items() if k != "even for odd"})
    write(options.out, "benchmarks.tokens", figures)


if __name__ == "__main__":
    main()
