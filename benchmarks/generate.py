"""The one call beside transformers' own: lines of code, equal tokens, time, on one set of weights in one process.

    python -m benchmarks.generate --data ../shared/data/spec_bench/question.jsonl [--categories summarization rag]
        [--prompts 6] [--tokens 96] [--repeats 5] [--dtypes float32 bfloat16] [--out …]
    python -m benchmarks.generate --show [--out …]      # what the results that are there say, nothing is run

What is counted in lines is what is timed: the functions `one_call`, `one_call_of_transformers` and `with_a_pipeline`
below, as the formatter leaves them. Greedy; each repeat runs every way on every prompt, the ways taking turns prompt by
prompt, their order turning round from one to the next (ABBA). The prompt's reading is counted, and so is what a call
sets up. The ways:

- generate: `one_call`, a call per prompt on the loaded module, whose controller begins anew each time;
- decoder, decoder suffix: a `Decoder` kept for the prompts of a repeat, whose controller learns from prompt to prompt;
- plain: a `Decoder` that drafts nothing;
- packed plain, packed decoder: in bfloat16, weights ordered for the CPU where it has the instructions;
- transformers, transformers lookup: its `generate`, plain and with `prompt_lookup_num_tokens=10`.

Figures, per dtype and category: tokens per second (the median over repeats), its ratios (geometric mean over repeats
with a 95 % interval, Student's t on the logs), in how many repeats a way took at most 1.02 of plain's time, and on how
many prompts its tokens are transformers' plain ones. ONEDNN_MAX_CPU_ISA=AVX2 with
ATEN_CPU_CAPABILITY=avx2 makes it run as on a processor without AVX-512, where torch has no quick product in bfloat16.
"""

from __future__ import annotations

import argparse
import inspect
import json
import statistics
import textwrap
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any

from benchmarks.provenance import write
from benchmarks.tokens import interval
from draftverify import Pipeline
from draftverify.rules import Speculative
from draftverify.stats.block import Measured
from draftverify_llm import LocalModel
from draftverify_tokens import Decoder, PromptLookup, Stop, Target, generate

AGAINST = (
    ("generate", "transformers lookup"),
    ("generate", "transformers"),
    ("generate", "plain"),
    ("decoder", "transformers lookup"),
    ("decoder", "plain"),
    ("decoder suffix", "plain"),
    ("plain", "transformers"),
    ("packed plain", "transformers"),
    ("packed decoder", "transformers lookup"),
    ("packed decoder", "packed plain"),
)
"""The ratios of speed that are told."""


def one_call(model: Any, tokenizer: Any, prompt: str, tokens: int) -> tuple[str, tuple[int, ...]]:
    answer = generate(model, prompt, tokenizer=tokenizer, max_new_tokens=tokens)
    return answer.text, answer.ids


def one_call_of_transformers(
    model: Any, tokenizer: Any, prompt: str, tokens: int
) -> tuple[str, tuple[int, ...]]:
    messages = [{"role": "user", "content": prompt}]
    read = tokenizer.apply_chat_template(
        messages, add_generation_prompt=True, return_tensors="pt", return_dict=True
    )
    made = model.generate(**read, max_new_tokens=tokens, do_sample=False, prompt_lookup_num_tokens=10)
    ids = made[0, read["input_ids"].shape[1] :].tolist()
    return tokenizer.decode(ids, skip_special_tokens=True), tuple(ids)


def with_a_pipeline(model: Any, tokenizer: Any, prompt: str, tokens: int) -> tuple[str, tuple[int, ...]]:
    local = LocalModel.from_module(model, tokenizer)
    pipeline = Pipeline(
        PromptLookup(),
        Target(local),
        Speculative(),
        block=Measured(at_most=16),
        done=Stop(max_tokens=tokens),
        settings={"temperature": 0},
    )
    outcome = pipeline.run(prompt)
    return local.decode(outcome.unwrap()), outcome.value


def lines(snippet: Callable[..., Any]) -> int:
    """Of the function's body, as it stands."""
    source = textwrap.dedent(inspect.getsource(snippet))
    body = source[source.index(":\n") + 2 :]
    return sum(bool(line.strip()) for line in body.splitlines())


Way = Callable[[str], tuple[int, ...]]


def transformers_plain(model: Any, tokenizer: Any, prompt: str, tokens: int) -> tuple[int, ...]:
    """As `one_call_of_transformers`, without the lookup."""
    messages = [{"role": "user", "content": prompt}]
    read = tokenizer.apply_chat_template(
        messages, add_generation_prompt=True, return_tensors="pt", return_dict=True
    )
    made = model.generate(**read, max_new_tokens=tokens, do_sample=False)
    return tuple(made[0, read["input_ids"].shape[1] :].tolist())


def ways(local: LocalModel, packed: LocalModel | None, tokens: int) -> dict[str, Callable[[], Way]]:
    """Every way by its name; called, it is ready for one repeat."""
    module, tokenizer = local.model, local.tokenizer

    def kept(model: LocalModel, drafter: str) -> Callable[[], Way]:
        def made() -> Way:
            decoder = Decoder(model, drafter, max_new_tokens=tokens)
            return lambda prompt: decoder.generate(prompt).ids  # type: ignore[union-attr]

        return made

    found: dict[str, Callable[[], Way]] = {
        "plain": kept(local, "none"),
        "generate": lambda: lambda prompt: one_call(module, tokenizer, prompt, tokens)[1],
        "pipeline": lambda: lambda prompt: with_a_pipeline(module, tokenizer, prompt, tokens)[1],
        "decoder": kept(local, "lookup"),
        "decoder suffix": kept(local, "suffix"),
        "transformers": lambda: lambda prompt: transformers_plain(module, tokenizer, prompt, tokens),
        "transformers lookup": lambda: (
            lambda prompt: one_call_of_transformers(module, tokenizer, prompt, tokens)[1]
        ),
    }
    if packed is not None:
        found |= {"packed plain": kept(packed, "none"), "packed decoder": kept(packed, "lookup")}
    return found


def measured(
    every: dict[str, Callable[[], Way]], prompts: list[tuple[str, str]], repeats: int
) -> dict[str, Any]:
    """All ways on all prompts, `repeats` times; by category."""
    names = list(every)
    for name in names:  # allocates
        every[name]()(prompts[0][1])
    seconds: dict[str, list[list[float]]] = {name: [] for name in names}
    tokens: dict[str, list[tuple[int, ...]]] = {name: [()] * len(prompts) for name in names}
    for repeat in range(repeats):
        made = {name: every[name]() for name in names}
        for name in names:
            seconds[name].append([0.0] * len(prompts))
        for at, (_, prompt) in enumerate(prompts):
            for name in names if (repeat + at) % 2 == 0 else names[::-1]:
                start = perf_counter()
                tokens[name][at] = made[name](prompt)
                seconds[name][-1][at] = perf_counter() - start
        print(f"repeat {repeat + 1} of {repeats}", flush=True)
    found: dict[str, Any] = {}
    for category in dict.fromkeys(category for category, _ in prompts):
        places = [at for at, (each, _) in enumerate(prompts) if each == category]
        speed = {
            name: [
                sum(len(tokens[name][at]) for at in places) / sum(row[at] for at in places)
                for row in seconds[name]
            ]
            for name in names
        }
        found[category] = {
            "prompts": len(places),
            "tokens_per_second": {name: statistics.median(speed[name]) for name in names},
            "ratios": {
                f"{one} / {other}": interval([a / b for a, b in zip(speed[one], speed[other], strict=True)])
                for one, other in AGAINST
                if one in names and other in names
            },
            "repeats_within_1.02_of_plain": {
                name: sum(p <= 1.02 * s for p, s in zip(speed["plain"], speed[name], strict=True))
                for name in names
                if name != "plain"
            },
            "tokens_as_transformers": {
                name: sum(tokens[name][at] == tokens["transformers"][at] for at in places) for name in names
            },
        }
    return found


def shown(figures: dict[str, Any]) -> str:
    """The results in words."""
    told = [f"lines: {figures['lines']}", f"vector instructions: {figures.get('used', '')}"]
    for dtype, categories in figures["dtypes"].items():
        for category, found in categories.items():
            told.append(f"\n{dtype}, {category}: {found['prompts']} prompts")
            for name, speed in found["tokens_per_second"].items():
                same = found["tokens_as_transformers"][name]
                within = found["repeats_within_1.02_of_plain"].get(name, "")
                told.append(
                    f"{name:22s} {speed:7.1f} tokens/s  same tokens {same}  within 1.02 of plain {within}"
                )
            for pair, ratio in found["ratios"].items():
                told.append(f"{pair:40s} {ratio['ratio']:.2f} [{ratio['low']:.2f}, {ratio['high']:.2f}]")
    return "\n".join(told)


def questions(path: Path, categories: list[str], each: int) -> list[tuple[str, str]]:
    """Category and first turn of the first questions of each category."""
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    found = []
    for category in categories:
        chosen = [(category, row["turns"][0]) for row in rows if row["category"] == category][:each]
        if not chosen:
            raise SystemExit(
                f"{path} has no category {category}; it has {sorted({row['category'] for row in rows})}"
            )
        found += chosen
    return found


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, help="question.jsonl of Spec-Bench")
    parser.add_argument("--weights", default="smollm2-135m-instruct")
    parser.add_argument(
        "--dtypes", nargs="+", default=["float32", "bfloat16"], choices=["float32", "bfloat16"]
    )
    parser.add_argument("--categories", nargs="+", default=["summarization", "rag"])
    parser.add_argument("--prompts", type=int, default=6, help="per category")
    parser.add_argument("--tokens", type=int, default=96)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/generate.json"))
    parser.add_argument("--show", action="store_true", help="print what stands at --out")
    options = parser.parse_args(arguments)
    out = options.out
    if options.show:
        print(shown(json.loads(out.read_text())))
        return
    if options.data is None:
        parser.error("--data is needed: the question.jsonl of Spec-Bench")

    import torch

    from draftverify_llm.packed import obstacle

    prompts = questions(options.data, options.categories, options.prompts)
    figures: dict[str, Any] = {
        "tokens": options.tokens, "repeats": options.repeats, "prompts": len(prompts),
        "threads": torch.get_num_threads(), "used": torch.backends.cpu.get_cpu_capability(),
        "packing": obstacle() or "runs", "dtypes": {},
        "lines": {each.__name__: lines(each) for each in (one_call, one_call_of_transformers, with_a_pipeline)},
    }  # fmt: skip
    for dtype in options.dtypes:
        local = LocalModel(options.weights, dtype=dtype)
        packs = dtype == "bfloat16" and obstacle() is None
        packed = LocalModel(options.weights, dtype="bfloat16", packed="bfloat16") if packs else None
        figures["dtypes"][dtype] = measured(ways(local, packed, options.tokens), prompts, options.repeats)
        write(out, "benchmarks.generate", figures)  # what is measured stands, whatever comes next
    print(shown(figures))


if __name__ == "__main__":
    main()
