"""Sampling many prompts in one batch against one by one: tokens a second of a small model on this machine.

Both ways give the same answers up to rounding (tests/llm/test_local.py); here is only what they take. The ways take
turns, so that what else the machine does meets both, and the figure is the ratio of neighbours: its median, with the
least and the largest.

    python -m benchmarks.sampling --out benchmarks/results/sampling.json
"""

from __future__ import annotations

import argparse
import statistics
import time
from pathlib import Path
from typing import Any

from benchmarks.provenance import write
from draftverify_llm import LocalModel

PROMPTS = [f"Tell me about the number {i}." + " Be brief." * (i % 5) for i in range(16)]


def tokens_a_second(model: LocalModel, together: bool, tokens: int, seed: int) -> float:
    """One way, once: all prompts, an answer of at most `tokens` tokens each."""
    how: dict[str, Any] = {"max_tokens": tokens, "temperature": 0.8}
    seeds = [seed + k for k in range(len(PROMPTS))]
    begun = time.perf_counter()
    if together:
        made = model.complete_many(PROMPTS, n=[1] * len(PROMPTS), seeds=seeds, **how)
    else:
        made = [model.complete(prompt, seed=one, **how) for prompt, one in zip(PROMPTS, seeds, strict=True)]
    seconds = time.perf_counter() - begun
    return sum(each.tokens_out for answers in made for each in answers) / seconds


def measure(model: LocalModel, repeats: int, tokens: int) -> dict[str, Any]:
    """Both ways in turns."""
    for together in (True, False):
        tokens_a_second(model, together, 2, 0)
    pairs = [
        tuple(tokens_a_second(model, together, tokens, 100 * i) for together in (False, True))
        for i in range(repeats)
    ]
    ratios = [batch / alone for alone, batch in pairs]
    return {
        "prompts": len(PROMPTS),
        "tokens an answer, at most": tokens,
        "tokens a second, one by one": statistics.median(alone for alone, _ in pairs),
        "tokens a second, one batch": statistics.median(batch for _, batch in pairs),
        "ratio": {"median": statistics.median(ratios), "least": min(ratios), "largest": max(ratios)},
        "repeats": repeats,
    }


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--weights", default="smollm2-135m-instruct")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--tokens", type=int, default=24)
    asked = parser.parse_args()
    found = {}
    for dtype in ("float32", "bfloat16"):
        model = LocalModel(asked.weights, dtype=dtype)
        found[dtype] = measure(model, asked.repeats, asked.tokens)
        model.close()
        print(dtype, found[dtype], flush=True)
    write(asked.out, "benchmarks.sampling", {"weights": asked.weights, "ways": found})


if __name__ == "__main__":
    main()
