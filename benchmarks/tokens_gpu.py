"""Token decoding on a GPU, on a synthetic model whose own first layers draft for it at a chosen rate.

    python -m benchmarks.tokens_gpu [--agreement 0.8] [--batches 1 4 16 64] [--gammas 2 4 6] [--tokens 128]
        [--repeats 5] [--out benchmarks/results/tokens_gpu.json]
    python -m benchmarks.tokens_gpu --rehearse      # the same steps on a CPU with a model of a few thousand weights

The model has the shape of Llama-3-8B in bfloat16 with random weights. What its layers after the exit add to the stream
is scaled until the early exit's likeliest token is the model's at the chosen rate, so draft and target are as costly as
real ones and agree as often as one likes. In one run:

- plain decoding: tokens per second, and the bytes of weights and cache that its passes read per second as a share of
  what a copy reaches;
- speculation: measured speed against E[τ]/(γ·t_D + t_V), with t_D and t_V timed apart and E[τ] counted;
- transformers' assisted generation (its own early exit, batch 1) on the same pair.

Ways are interleaved, the order turning round; medians over repeats, with the least and the greatest.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

from benchmarks.provenance import write
from draftverify import Pipeline, Proposal, Task
from draftverify.rules import Speculative
from draftverify.testing import make_context
from draftverify_llm import LocalModel
from draftverify_tokens import EarlyExit, NoDraft, Stop, Target
from draftverify_tokens.reader import Reader

LLAMA_3_8B = {
    "vocab_size": 128_256, "hidden_size": 4096, "intermediate_size": 14_336, "num_hidden_layers": 32,
    "num_attention_heads": 32, "num_key_value_heads": 8, "max_position_embeddings": 8192,
}  # fmt: skip
REHEARSAL = {
    "vocab_size": 257, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 4,
    "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 512,
}  # fmt: skip


def synthetic(shape: dict[str, int], device: str, dtype: Any) -> Any:
    """A random Llama of that shape, made on its device."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    config = LlamaConfig(
        **shape, initializer_range=0.02, bos_token_id=None, eos_token_id=None, pad_token_id=None
    )
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        with torch.device(device):
            return LlamaForCausalLM(config).eval()
    finally:
        torch.set_default_dtype(before)


def agreement(module: Any, layers: int, ids: Any) -> float:
    """How often the early exit's likeliest token is the model's."""
    import torch

    with torch.inference_mode():
        out = module(input_ids=ids, output_hidden_states=True, use_cache=False)
        early = module.lm_head(module.model.norm(out.hidden_states[layers]))
        return float((early.argmax(-1) == out.logits.argmax(-1)).float().mean())


def tune(module: Any, layers: int, wanted: float) -> tuple[float, float]:
    """Scale what the later layers add until the agreement is the wanted one; the factor and the agreement."""
    import torch

    torch.manual_seed(1)
    ids = torch.randint(0, module.config.vocab_size, (8, 128), device=module.device)
    outs = [
        w
        for layer in module.model.layers[layers:]
        for w in (layer.self_attn.o_proj.weight, layer.mlp.down_proj.weight)
    ]
    originals = [w.detach().clone() for w in outs]
    low, high = 0.0, 8.0
    for _ in range(14):
        factor = (low + high) / 2
        with torch.no_grad():
            for weight, original in zip(outs, originals, strict=True):
                weight.copy_(original * factor)
        found = agreement(module, layers, ids)
        low, high = (factor, high) if found > wanted else (low, factor)
    return factor, found


def waited(device: str, call: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds of a call, the device's work included."""
    import torch

    if device == "cuda":
        torch.cuda.synchronize()
    start = perf_counter()
    found = call()
    if device == "cuda":
        torch.cuda.synchronize()
    return perf_counter() - start, found


def copy_bandwidth(device: str) -> float:
    """Bytes per second that a copy reads and writes; the best of ten."""
    import torch

    source = torch.ones((1 << 31) if device == "cuda" else (1 << 24), dtype=torch.uint8, device=device)
    return 2 * source.nbytes / min(waited(device, source.clone)[0] for _ in range(10))


def apart(
    model: LocalModel, drafter: EarlyExit, batch: int, gamma: int, device: str, prompt: int
) -> tuple[float, float]:
    """t_D, seconds of one drafting step, and t_V, of a pass over γ drafted tokens; medians of 20 after warming up."""
    import torch

    tasks = [
        Task(id=str(i), input={"prompt_ids": [(7 * i + j) % 200 for j in range(prompt)]})
        for i in range(batch)
    ]
    contexts = [make_context(task) for task in tasks]
    nothing, block = [Proposal.chain(())] * batch, [Proposal.chain(tuple(range(1, gamma + 1)))] * batch
    small, large = Reader(drafter.module, compiled=drafter.compiled), Reader(model.model)
    drafted = torch.ones((batch, 1), dtype=torch.int64, device=device)
    small.read(contexts, nothing)
    steps = [waited(device, lambda: small.extend(contexts, drafted))[0] for _ in range(25)]
    passes = [waited(device, lambda: large.read(contexts, block))[0] for _ in range(25)]
    return statistics.median(steps[5:]), statistics.median(passes[5:])


def spread(values: Sequence[float]) -> dict[str, float]:
    """Median, least and greatest."""
    return {"median": statistics.median(values), "least": min(values), "greatest": max(values)}


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rehearse", action="store_true", help="a tiny model on a CPU")
    parser.add_argument("--agreement", type=float, default=0.8)
    parser.add_argument("--layers", type=int, help="of the early exit; an eighth of the model's by default")
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 4, 16, 64])
    parser.add_argument("--gammas", type=int, nargs="+", default=[2, 4, 6])
    parser.add_argument("--prompt", type=int, default=128)
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/tokens_gpu.json"))
    options = parser.parse_args(arguments)

    import torch

    device = "cpu" if options.rehearse else "cuda"
    shape = REHEARSAL if options.rehearse else LLAMA_3_8B
    module = synthetic(shape, device, torch.float32 if options.rehearse else torch.bfloat16)
    layers = options.layers or max(1, shape["num_hidden_layers"] // 8)
    factor, agrees = tune(module, layers, options.agreement)
    model = LocalModel.from_module(module, _NoTokenizer())
    bandwidth = copy_bandwidth(device)
    weights = sum(p.nbytes for p in module.parameters()) - module.get_input_embeddings().weight.nbytes
    per_token = 2 * shape["num_hidden_layers"] * shape["num_key_value_heads"] * module.config.head_dim * 2
    drafter, target = EarlyExit(model, layers), Target(model)
    stop, quiet = Stop(max_tokens=options.tokens, ignore_eos=True), {"temperature": 0}

    def pipeline(gamma: int) -> Pipeline:
        generator: Any = drafter if gamma else NoDraft()
        return Pipeline(generator, target, Speculative(), block=gamma, done=stop, settings=quiet)

    figures: dict[str, Any] = {
        "shape": shape, "exit_layers": layers, "agreement": agrees, "factor": factor, "tokens": options.tokens,
        "prompt": options.prompt, "repeats": options.repeats, "copy_bandwidth": bandwidth, "batches": {},
        "device": torch.cuda.get_device_name() if device == "cuda" else "cpu",
    }  # fmt: skip
    for batch in options.batches:
        tasks = [
            Task(id=str(i), input={"prompt_ids": [(31 * i + 7 * j) % 200 for j in range(options.prompt)]})
            for i in range(batch)
        ]
        every = {gamma: pipeline(gamma) for gamma in (0, *options.gammas)}
        seconds: dict[Any, list[float]] = {gamma: [] for gamma in every}
        rounds: dict[int, int] = {}
        kept: dict[int, float] = {}
        for repeat in range(-1, options.repeats):
            for gamma in list(every) if repeat % 2 == 0 else list(every)[::-1]:
                spent, records = waited(device, partial(every[gamma].record_batch, tasks))
                if repeat < 0:
                    continue  # compiles and captures
                seconds[gamma].append(spent)
                rounds[gamma] = max(len(record.rounds) for record in records)
                made = [len(round.decision.emitted) for record in records for round in record.rounds]
                kept[gamma] = statistics.fmean(made)
        emitted = batch * options.tokens
        row: dict[str, Any] = {"plain": {"tokens_per_second": spread([emitted / s for s in seconds[0]])}}
        read = options.tokens * (weights + batch * per_token * (options.prompt + options.tokens / 2))
        row["plain"]["share_of_copy"] = read / statistics.median(seconds[0]) / bandwidth
        for gamma in options.gammas:
            draft, verify = apart(model, drafter, batch, gamma, device, options.prompt)
            speed = [emitted / s for s in seconds[gamma]]
            expected = batch * kept[gamma] / (gamma * draft + verify)
            row[f"gamma {gamma}"] = {
                "tokens_per_second": spread(speed),
                "emitted_per_round": kept[gamma],
                "t_draft": draft,
                "t_verify": verify,
                "expected": expected,
                "share_of_expected": statistics.median(speed) / expected,
                "against_plain": statistics.median(seconds[0]) / statistics.median(seconds[gamma]),
            }
        if batch == 1:
            row["transformers"] = {
                "tokens_per_second": spread(assisted(module, layers, tasks[0], options, device))
            }
        figures["batches"][batch] = row
        print(batch, row, flush=True)
    write(options.out, "benchmarks.tokens_gpu", figures)
    return figures


def assisted(module: Any, layers: int, task: Task, options: argparse.Namespace, device: str) -> list[float]:
    """transformers' assisted generation with its own early exit: tokens per second."""
    import torch

    ids = torch.tensor([task.input["prompt_ids"]], device=device)
    how = {
        "attention_mask": torch.ones_like(ids), "max_new_tokens": options.tokens, "do_sample": False, "pad_token_id": 0,
        "assistant_early_exit": layers,
    }  # fmt: skip
    waited(device, lambda: module.generate(ids, **how))
    return [
        options.tokens / waited(device, lambda: module.generate(ids, **how))[0]
        for _ in range(options.repeats)
    ]


class _NoTokenizer:
    """Stands where a tokenizer would: prompts are ids, and no text is made."""

    eos_token_id = None

    def get_vocab(self) -> dict[str, int]:
        return {"synthetic": 0}


if __name__ == "__main__":
    main()
