"""What a batch round of token decoding costs outside the model: 64 sessions, a model that answers from a table.

    python -m benchmarks.tokens_round [--batch 64] [--gamma 4] [--vocabulary 256] [--rounds 60] [--repeats 7]
        [--out benchmarks/results/tokens_round.json]

All is real but the forward pass: sessions, a scripted drafter with `propose_many`, the target's bookkeeping (what was
accepted, where rows are written, masks), the settings, the rule and the stopping rule. The pass returns rows of a
constant table, and its own seconds are taken off. Milliseconds per batch round, median over repeats, by part:
`reader` (planning the pass), `settings` (logits to probabilities), `rule`, and `engine` (all the rest).
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

from benchmarks.provenance import write
from draftverify import Budget, Context, Pipeline, Proposal, Task
from draftverify.rules import Speculative
from draftverify.traits import GeneratorTraits
from draftverify_llm import LocalModel
from draftverify_tokens import Stop, Target


class Scripted:
    """Drafts the same tokens for every session."""

    traits = GeneratorTraits(shape="chain", laws={"given"})

    def propose(self, context: Context, n: int) -> Proposal:
        return Proposal.chain(tuple(range(1, n + 1)))

    def propose_many(self, contexts: Sequence[Context], ns: Sequence[int]) -> list[Proposal]:
        return [Proposal.chain(tuple(range(1, n + 1))) for n in ns]


class Clock:
    """Seconds spent in some methods, which it wraps."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    def wrap(self, owner: Any, method: str, name: str) -> None:
        inner = getattr(owner, method)

        def timed(*arguments: Any, **named: Any) -> Any:
            start = perf_counter()
            try:
                return inner(*arguments, **named)
            finally:
                self.seconds[name] = self.seconds.get(name, 0.0) + perf_counter() - start

        setattr(owner, method, timed)


def table_model(vocabulary: int) -> LocalModel:
    """A Llama of one small layer, whose forward pass is replaced."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=vocabulary, hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2,
        num_key_value_heads=1, max_position_embeddings=8192, bos_token_id=None, eos_token_id=None, pad_token_id=None,
    )  # fmt: skip
    return LocalModel.from_module(LlamaForCausalLM(config).eval(), _NoTokenizer(), own=True)


class _NoTokenizer:
    eos_token_id = None

    def get_vocab(self) -> dict[str, int]:
        return {"table": 0}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--gamma", type=int, default=4)
    parser.add_argument("--vocabulary", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/tokens_round.json"))
    options = parser.parse_args()

    import torch

    import draftverify_tokens.reader as reading

    torch.manual_seed(1)
    rows = torch.randn(options.batch * (options.gamma + 2), options.vocabulary)
    rows[:, 1 : options.gamma + 1] += 4.0  # so that some drafts are kept
    clock = Clock()
    model = table_model(options.vocabulary)
    target, rule = Target(model), Speculative()
    reader = target._reader

    def forward(groups: Any, want: Any, tail: Any) -> tuple[Any, None]:
        return (None if want is None else rows[: want if isinstance(want, int) else len(want)]), None

    inner = reader._forward
    for name in ("windows", "needs_masks", "compiled"):
        setattr(forward, name, getattr(inner, name))
    reader._forward = forward
    clock.wrap(reader, "_forward", "model")
    for name in ("windows", "needs_masks", "compiled"):
        setattr(reader._forward, name, getattr(inner, name))
    clock.wrap(reader, "read", "reader")
    clock.wrap(reading, "probabilities", "settings")
    clock.wrap(rule, "decide_many", "rule")
    pipeline = Pipeline(
        Scripted(), target, rule, block=options.gamma, done=Stop(10**6, ignore_eos=True), settings={"temperature": 1.0},
        budget=Budget(rounds=options.rounds),
    )  # fmt: skip
    tasks = [Task(id=str(i), input={"prompt_ids": list(range(100))}) for i in range(options.batch)]
    found: dict[str, list[float]] = {}
    for repeat in range(-1, options.repeats):
        clock.seconds.clear()
        start = perf_counter()
        records = pipeline.record(tasks)
        whole = perf_counter() - start
        assert all(len(record.rounds) == options.rounds for record in records)
        parts = dict(clock.seconds)
        parts["reader"] -= parts["model"]
        parts["engine"] = whole - parts["model"] - parts["reader"] - parts["settings"] - parts["rule"]
        parts["outside the model"] = whole - parts.pop("model")
        if repeat >= 0:
            for name, seconds in parts.items():
                found.setdefault(name, []).append(1000 * seconds / options.rounds)
    figures: dict[str, Any] = {
        "batch": options.batch, "gamma": options.gamma, "vocabulary": options.vocabulary, "repeats": options.repeats,
        "threads": torch.get_num_threads(),
        "milliseconds": {
            name: {"median": statistics.median(v), "least": min(v), "greatest": max(v)} for name, v in found.items()
        },
    }  # fmt: skip
    for name, row in figures["milliseconds"].items():
        print(f"{name:20s} {row['median']:.3f} ms  [{row['least']:.3f}, {row['greatest']:.3f}]")
    write(options.out, "benchmarks.tokens_round", figures)


if __name__ == "__main__":
    main()
