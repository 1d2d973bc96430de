"""The measurements of benchmarks/tokens_gpu.py: a step makes what it needs, times whole runs, and returns figures."""

from __future__ import annotations

import argparse
import copy
import gc
import statistics
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property, partial
from time import perf_counter
from typing import Any
from unittest import mock

import torch
from transformers import LlamaConfig, LlamaForCausalLM

from draftverify import Context, Pipeline, Proposal, Task, TaskRecord
from draftverify.rules import Speculative, Tree
from draftverify.traits import GeneratorTraits
from draftverify_llm import LocalModel
from draftverify_tokens import (
    DraftModel,
    DraftTree,
    NoDraft,
    PromptLookup,
    Stop,
    Suffix,
    Target,
)

__all__ = ["Lab", "steps"]

LLAMA_3_8B = {
    "vocab_size": 128_256, "hidden_size": 4096, "intermediate_size": 14_336, "num_hidden_layers": 32,
    "num_attention_heads": 32, "num_key_value_heads": 8, "max_position_embeddings": 8192,
}  # fmt: skip
REHEARSAL = {
    "vocab_size": 257, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 4,
    "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 512,
}  # fmt: skip
SMALL = {**REHEARSAL, "vocab_size": 512}
QUIET = {"temperature": 0}
FIRST = {
    "correctness": 60.0,
    "bandwidth": 15.0,
    "plain": 90.0,
    "speculate": 120.0,
    "assisted": 90.0,
    "batches": 120.0,
}
"""Seconds that the first step of a part may take on a GPU, where nothing was measured yet."""

Step = tuple[str, float, Callable[[], dict[str, Any]]]


def steps(part: str, lab: Lab, options: argparse.Namespace) -> list[Step]:
    """A part's steps: name, seconds to expect, and what measures it."""
    made: dict[str, list[tuple[str, Callable[[], dict[str, Any]]]]] = {
        "correctness": [
            (f"{way}, batch {batch}", partial(correctness, lab, way, batch))
            for batch in (1, 4)
            for way in WAYS
        ],
        "bandwidth": [("copy", lambda: {"bytes_per_second": lab.bandwidth})],
        "plain": [("batch 1", partial(plain, lab))],
        "speculate": [(f"gamma {gamma}", partial(speculate, lab, gamma, 1)) for gamma in options.gammas],
        "assisted": [("batch 1", partial(assisted, lab, options.gammas))],
        "batches": [
            (f"batch {batch}", partial(speculate, lab, options.gammas[len(options.gammas) // 2], batch))
            for batch in options.batches
        ],
    }
    expected = 0.0 if options.rehearse else FIRST[part]
    return [(name, expected, measure) for name, measure in made[part]]


class Lab:
    """The device and the large model, made when a step first asks for it.

    Args:
        options: of the command.
    """

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.device = "cpu" if options.rehearse else "cuda"
        self.name = "cpu" if options.rehearse else torch.cuda.get_device_name()

    @cached_property
    def model(self) -> LocalModel:
        """The large model, its early exit agreeing with it at the chosen rate."""
        shape, dtype = (REHEARSAL, torch.float32) if self.options.rehearse else (LLAMA_3_8B, torch.bfloat16)
        module = synthetic(shape, self.device, dtype)
        self.factor, self.agreement = tune(module, self.layers_of(module), self.options.agreement)
        return LocalModel.from_module(module, NoTokenizer(), own=True)

    def layers_of(self, module: Any) -> int:
        """How many layers draft."""
        layers: int = self.options.layers or max(1, module.config.num_hidden_layers // 8)
        return layers

    @cached_property
    def drafter(self) -> DraftModel:
        """The early exit."""
        return DraftModel(first_layers(self.model, self.layers_of(self.model.model)))

    @cached_property
    def target(self) -> Target:
        """The large model as the verifier."""
        return Target(self.model)

    @cached_property
    def small(self) -> Small:
        """Small models for tokens to be compared."""
        return Small(self.device, self.options.rehearse)

    @cached_property
    def bandwidth(self) -> float:
        """Bytes per second that a copy reads and writes; the best of ten."""
        size = (1 << 24) if self.options.rehearse else (1 << 31)
        source = torch.ones(size, dtype=torch.uint8, device=self.device)
        return 2 * source.nbytes / min(self.waited(source.clone)[0] for _ in range(10))

    def waited(self, call: Callable[[], Any]) -> tuple[float, Any]:
        """Seconds of a call, the device's work included, and what it returned."""
        if self.device == "cuda":
            torch.cuda.synchronize()
        start = perf_counter()
        found = call()
        if self.device == "cuda":
            torch.cuda.synchronize()
        return perf_counter() - start, found

    def recover(self) -> None:
        """After a step that failed: what it left on the device is let go."""
        gc.collect()
        if self.device == "cuda":
            torch.cuda.empty_cache()

    def tasks(self, batch: int) -> list[Task]:
        """So many prompts of the chosen length."""
        length = self.options.prompt
        return [
            Task(id=str(i), input={"prompt_ids": [(31 * i + 7 * j) % 200 for j in range(length)]})
            for i in range(batch)
        ]

    def pipeline(self, generator: Any, gamma: int, target: Any = None) -> Pipeline:
        """Greedy decoding of the chosen number of tokens."""
        stop = Stop(max_tokens=self.options.tokens, ignore_eos=True)
        return Pipeline(
            generator, target or self.target, Speculative(), block=gamma, done=stop, settings=QUIET
        )


def synthetic(shape: dict[str, int], device: str, dtype: Any, seed: int = 0, spread: float = 0.02) -> Any:
    """A random Llama of that shape, made on its device."""
    torch.manual_seed(seed)
    config = LlamaConfig(
        **shape, initializer_range=spread, bos_token_id=None, eos_token_id=None, pad_token_id=None
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
    with torch.inference_mode():
        out = module(input_ids=ids, output_hidden_states=True, use_cache=False)
        early = module.lm_head(module.model.norm(out.hidden_states[layers]))
        return float((early.argmax(-1) == out.logits.argmax(-1)).float().mean())


def tune(module: Any, layers: int, wanted: float) -> tuple[float, float]:
    """Scale what the later layers add until the agreement is the wanted one; the factor and the agreement."""
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


@contextmanager
def watched(device: str) -> Iterator[Counter[str]]:
    """What is compiled and captured inside, and on a device how often graphs are launched and the host waits for it.

    It costs time itself: what is watched is not timed.
    """
    counts: Counter[str] = Counter()
    compiled = torch._dynamo.utils.counters["stats"]
    before = compiled["unique_graphs"]
    if device != "cuda":
        yield counts
    else:
        replay, begin = torch.cuda.CUDAGraph.replay, torch.cuda.CUDAGraph.capture_begin

        def replayed(graph: Any) -> Any:
            counts["launches"] += 1
            return replay(graph)

        def captured(graph: Any, *arguments: Any, **named: Any) -> Any:
            counts["captures"] += 1
            return begin(graph, *arguments, **named)

        mode = torch.cuda.get_sync_debug_mode()
        with (
            mock.patch.object(torch.cuda.CUDAGraph, "replay", replayed),
            mock.patch.object(torch.cuda.CUDAGraph, "capture_begin", captured),
            warnings.catch_warnings(record=True) as said,
        ):
            warnings.simplefilter("always")
            torch.cuda.set_sync_debug_mode("warn")
            try:
                yield counts
            finally:
                torch.cuda.set_sync_debug_mode(mode)
        counts["waits"] = sum("synchroniz" in str(each.message) for each in said)
    counts["compilations"] = compiled["unique_graphs"] - before


WAYS = ("lookup", "suffix", "draft model", "early exit", "tree")


def first_layers(model: LocalModel, layers: int) -> LocalModel:
    """A model of a Llama's first layers, its last norm and its head, all of them shared."""
    module = model.model
    config = copy.deepcopy(module.config)
    config.num_hidden_layers = layers
    with torch.device("meta"):
        short = type(module)(config).eval()
    for name in ("embed_tokens", "norm", "rotary_emb"):
        setattr(short.model, name, getattr(module.model, name))
    short.model.layers, short.lm_head = module.model.layers[:layers], module.lm_head
    return LocalModel.from_module(short, NoTokenizer())


class Small:
    """Small models in float32 for tokens to be compared, and the tokens that any way must make.

    Args:
        device: where the tried ones lie.
        quick: fewer and shorter answers.
    """

    def __init__(self, device: str, quick: bool) -> None:
        self.tokens = 12 if quick else 48
        self.known, self.others = map(
            _prompts, ([5, 70], [9, 33]) if quick else ([5, 23, 64, 130], [9, 31, 77, 100])
        )
        here = synthetic(SMALL, "cpu", torch.float32, 3, 0.3)
        self.model, self.draft = (
            LocalModel.from_module(copy.deepcopy(here).to(device), NoTokenizer(), own=True) for _ in range(2)
        )
        self.draft.model.model.layers = self.draft.model.model.layers[:3]
        self.draft.model.config.num_hidden_layers = 3
        every = [*self.known, *self.others]
        self.on_cpu = self.pipeline(NoDraft(), LocalModel.from_module(here, NoTokenizer()))
        self.expected: dict[str, list[tuple[int, ...]]] = {
            "plain": [tuple(self.pipeline(NoDraft(), self.model).run(task).value) for task in every],
            "plain_on_cpu": [tuple(self.on_cpu.run(task).value) for task in every],
            "transformers": [generated(self.model.model, task, self.tokens) for task in every],
        }

    def pipeline(self, part: Any, model: LocalModel) -> Pipeline:
        """Greedy decoding with a drafter."""
        rule = Tree() if isinstance(part, DraftTree) else Speculative()
        stop = Stop(max_tokens=self.tokens, ignore_eos=True)
        return Pipeline(part, Target(model), rule, block=5, done=stop, settings=QUIET)

    def drafter(self, way: str) -> Any:
        """One of `WAYS`."""
        made: dict[str, Callable[[], Any]] = {
            "lookup": lambda: PromptLookup(at_least=1),
            "suffix": lambda: Suffix(threshold=0.02),
            "draft model": lambda: DraftModel(self.draft),
            "early exit": lambda: DraftModel(first_layers(self.model, 2)),
            "tree": lambda: DraftTree(DraftModel(self.draft), (2, 2, 1)),
        }
        return made[way]()


def _prompts(lengths: Sequence[int]) -> list[Task]:
    return [
        Task(id=str(n), input={"prompt_ids": [(5 * n + 11 * j * j) % 500 for j in range(n)]}) for n in lengths
    ]


def correctness(lab: Lab, way: str, batch: int) -> dict[str, Any]:
    """Tokens of one way on the device beside plain decoding there and on the CPU and transformers' generate."""
    small = lab.small
    tried = small.pipeline(small.drafter(way), small.model)

    def runs(tasks: Sequence[Task]) -> list[TaskRecord]:
        groups = [tasks[i : i + batch] for i in range(0, len(tasks), batch)]
        return [record for group in groups for record in tried.record(list(group))]

    opened, _ = lab.waited(tried.open)
    first, got = lab.waited(lambda: runs(small.known))
    with watched(lab.device) as counts:
        later = runs(small.others)
    answers = [tuple(record.outcome.value) for record in (*got, *later)]
    tallies = [record.outcome.tally for record in (*got, *later)]
    every = zip((*small.known, *small.others), small.expected["plain_on_cpu"], answers, strict=True)
    return {
        "answers": len(answers),
        **{
            f"equal_to_{name}": sum(a == b for a, b in zip(answers, expected, strict=True))
            for name, expected in small.expected.items()
        },
        "differences": [
            said.text
            for task, expected, answer in every
            if expected != answer and (said := small.on_cpu.explain(task, expected, answer)) is not None
        ],
        "acceptance": sum(t.accepted for t in tallies) / max(1, sum(t.trials for t in tallies)),
        "open_seconds": opened,
        "first_run_seconds": first,
        "after_warm_up": dict(counts),
        "rounds_after_warm_up": sum(len(record.rounds) for record in later),
    }


def generated(module: Any, task: Task, tokens: int, **how: Any) -> tuple[int, ...]:
    """transformers' greedy tokens."""
    ids = torch.tensor([task.input["prompt_ids"]], device=module.device)
    out = module.generate(
        ids,
        attention_mask=torch.ones_like(ids),
        max_new_tokens=tokens,
        do_sample=False,
        pad_token_id=0,
        **how,
    )
    return tuple(out[0, ids.shape[1] :].tolist())


class Run:
    """A whole run of the engine, and of it what came after the prompt was read.

    Args:
        seconds: of all of it.
        records: of its sessions.
    """

    def __init__(self, seconds: float, records: Sequence[TaskRecord]) -> None:
        longest = max(records, key=lambda record: len(record.rounds))
        emitted = [len(round.decision.emitted) for record in records for round in record.rounds[1:]]
        uncut = [len(round.decision.emitted) for record in records for round in record.rounds[1:-1]]
        self.records = records
        self.whole = seconds
        self.seconds = seconds - longest.rounds[0].timing.total  # the first round reads the prompt
        self.rounds = len(longest.rounds) - 1
        self.tokens = sum(emitted)
        self.per_round = statistics.fmean(
            uncut or emitted
        )  # of one session; the last round is cut by the limit
        self.busy = statistics.median(round.timing.total for round in longest.rounds[1:])


def timed(
    lab: Lab, ways: dict[str, Pipeline], tasks: list[Task]
) -> tuple[dict[str, list[Run]], dict[str, Any]]:
    """Every way's timed runs, taking turns; and of each way what its first run took, and what a watched one counted."""
    runs: dict[str, list[Run]] = {name: [] for name in ways}
    warming: dict[str, Any] = {}
    for name, pipeline in ways.items():
        opened, _ = lab.waited(pipeline.open)
        first, _ = lab.waited(partial(pipeline.record, tasks))
        second, _ = lab.waited(partial(pipeline.record, tasks))
        with watched(lab.device) as counts:
            records = pipeline.record(tasks)
        rounds = max(len(record.rounds) for record in records)
        warming[name] = {
            "open_seconds": opened, "first_run_seconds": first, "second_run_seconds": second, "watched_rounds": rounds,
            "watched": dict(counts),
        }  # fmt: skip
    for repeat in range(lab.options.repeats):
        for name in list(ways) if repeat % 2 == 0 else list(ways)[::-1]:
            runs[name].append(Run(*lab.waited(partial(ways[name].record, tasks))))
    return runs, warming


def spread(values: Sequence[float]) -> dict[str, float]:
    """Median, least and greatest."""
    return {"median": statistics.median(values), "least": min(values), "greatest": max(values)}


def decoded(runs: Sequence[Run]) -> dict[str, Any]:
    """Speed behind the prompt and of whole runs, and a round by the records' own timings."""
    return {
        "tokens_per_second": spread([run.tokens / run.seconds for run in runs]),
        "tokens_per_second_whole_run": spread(
            [sum(len(record.outcome.value) for record in run.records) / run.whole for run in runs]
        ),
        "seconds_per_round": statistics.median(run.seconds / run.rounds for run in runs),
        "recorded_seconds_per_round": statistics.median(run.busy for run in runs),
        "emitted_per_round": statistics.fmean(run.per_round for run in runs),
    }


def share_of_copy(lab: Lab, runs: Sequence[Run], batch: int) -> float:
    """Bytes of weights and cache that the rounds of plain decoding must read per second, as a share of a copy's."""
    module, options = lab.model.model, lab.options
    config = module.config
    weights = sum(p.nbytes for p in module.parameters()) - module.get_input_embeddings().weight.nbytes
    entry = 2 * config.num_hidden_layers * config.num_key_value_heads * config.head_dim
    cache = batch * entry * module.dtype.itemsize * (options.prompt + options.tokens / 2)
    return statistics.median(run.rounds * (weights + cache) / run.seconds for run in runs) / lab.bandwidth


def plain(lab: Lab) -> dict[str, Any]:
    """Plain decoding of one session beside what a copy reaches."""
    runs, warming = timed(lab, {"plain": lab.pipeline(NoDraft(), 0)}, lab.tasks(1))
    return {
        **decoded(runs["plain"]),
        "share_of_copy": share_of_copy(lab, runs["plain"], 1),
        "copy_bytes_per_second": lab.bandwidth,
        "warming": warming["plain"],
    }


class Known:
    """Drafts answers that are known: blocks that cost nothing to draft and are accepted.

    Args:
        answers: by the task's id.
    """

    traits = GeneratorTraits(shape="chain", laws={"given"}, reads=frozenset())

    def __init__(self, answers: dict[str, tuple[int, ...]]) -> None:
        self.answers = answers

    def propose(self, context: Context, n: int) -> Proposal:
        """The next `n` tokens."""
        at = len(context.accepted)
        return Proposal.chain(self.answers[context.task.id][at : at + n])


def speculate(lab: Lab, gamma: int, batch: int) -> dict[str, Any]:
    """The early exit's blocks of γ beside what their parts would allow, and beside plain decoding."""
    tasks = lab.tasks(batch)
    early = Target(LocalModel.from_module(lab.drafter.module, NoTokenizer()))
    without = lab.pipeline(NoDraft(), 0)
    answers = {
        task.id: tuple(record.outcome.value)
        for task, record in zip(tasks, without.record(tasks), strict=True)
    }
    ways = {
        "plain": without,
        "speculation": lab.pipeline(lab.drafter, gamma),
        "drafting": lab.pipeline(NoDraft(), 0, early),
        "verifying": lab.pipeline(Known(answers), gamma),
    }
    runs, warming = timed(lab, ways, tasks)
    draft, verify = (
        statistics.median(run.seconds / run.rounds for run in runs[name])
        for name in ("drafting", "verifying")
    )
    spec, base = decoded(runs["speculation"]), decoded(runs["plain"])
    expected = batch * spec["emitted_per_round"] / (gamma * draft + verify)
    return {
        "gamma": gamma, "batch": batch, "agreement": lab.agreement, "factor": lab.factor,
        "exit_layers": lab.layers_of(lab.model.model),
        "plain": {**base, "share_of_copy": share_of_copy(lab, runs["plain"], batch)},
        "speculation": spec, "t_draft": draft, "t_verify": verify,
        "kept_of_known": runs["verifying"][0].per_round - 1,
        "expected_tokens_per_second": expected,
        "share_of_expected": spec["tokens_per_second"]["median"] / expected,
        "against_plain": spec["tokens_per_second"]["median"] / base["tokens_per_second"]["median"],
        "same_as_plain": sum(
            tuple(record.outcome.value) == answers[record.task] for record in runs["speculation"][0].records
        ),
        "warming": warming,
    }  # fmt: skip


def assisted(lab: Lab, gammas: Sequence[int]) -> dict[str, Any]:
    """transformers' assisted generation with the same early exit, and its plain one, taking turns with ours."""
    options, module, task = lab.options, lab.model.model, lab.tasks(1)[0]
    layers = lab.layers_of(lab.model.model)
    ours = {f"gamma {gamma}": lab.pipeline(lab.drafter, gamma) for gamma in gammas}
    calls: dict[str, Callable[[], Any]] = {
        name: partial(pipeline.record, [task]) for name, pipeline in ours.items()
    }
    calls["transformers assisted"] = lambda: generated(
        module, task, options.tokens, assistant_early_exit=layers
    )
    calls["transformers plain"] = lambda: generated(module, task, options.tokens)
    first = {name: lab.waited(call)[0] for name, call in calls.items()}
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    for repeat in range(options.repeats):
        for name in list(calls) if repeat % 2 == 0 else list(calls)[::-1]:
            seconds[name].append(lab.waited(calls[name])[0])
    best = min(ours, key=lambda name: statistics.median(seconds[name]))
    beside = [
        theirs / mine for theirs, mine in zip(seconds["transformers assisted"], seconds[best], strict=True)
    ]
    return {
        "tokens_per_second": {
            name: spread([options.tokens / s for s in each]) for name, each in seconds.items()
        },
        "first_run_seconds": first,
        "best": best,
        "against_transformers_assisted": spread(beside),
        "agreement": lab.agreement,
    }


class NoTokenizer:
    """Stands where a tokenizer would: prompts are ids, and no text is made."""

    eos_token_id = None

    def get_vocab(self) -> dict[str, int]:
        """One word, which says that ids are of these models alone."""
        return {"synthetic": 0}
