"""Cascades against speculation: a story model drafts for a larger one. What does a token cost, and how good is it?

    python -m benchmarks.cascades [--prompts 50] [--tokens 32] [--out benchmarks/results/cascades.json]
    python -m benchmarks.cascades --show          # the tables of the results that are there, nothing is run
    python -m benchmarks.cascades --rehearse      # four other prompts; the tables alone, nothing is written

stories15m drafts, tinyllama-1.1b-chat is the target. Every prompt is answered in every way: by either model alone, by
speculative decoding, by its lossy form, and by each speculative cascade of arXiv:2405.19261 at some α. The ways take
turns prompt by prompt, the first one changing, with one seed. The sequential cascade needs no run of its own: its
answer is the draft's where the draft is confident (the mean log-probability of its own tokens), else the target's,
and it has cost both. Quality is the mean log-likelihood per token under the target at temperature 1, read in a pass
of its own afterwards; cost is seconds per token around the whole task, and target passes per token.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.cascade_estimates import (
    Interval,
    Way,
    cost_ratio,
    mixture_gap,
    quality_gap,
    sequential,
    sequential_gap,
    verdict,
)
from benchmarks.provenance import write
from draftverify import Pipeline, Task
from draftverify.rules import Cascade, Lossy, Speculative
from draftverify_llm import LocalModel
from draftverify_tokens import DraftModel, NoDraft, Stop, Target

SMALL, LARGE = "stories15m", "tinyllama-1.1b-chat"

POINTS: dict[str, tuple[float, ...]] = {
    "lossy": (0.6, 0.95),
    "chow": (0.5, 0.7),
    "diff": (-0.2, -0.1),
    "opt": (-0.3, -0.1),
    "token_v1": (-0.2, 0.1),
    "token_v2": (0.2, 0.5),
    "token_v3": (0.6, 0.95),
}
"""The α of each law: those at which TV(π, p) was about one and two thirds of TV(q, p), found on four other prompts."""

SHARES = (0.25, 0.5, 0.75)
"""Of the prompts, that the sequential cascade defers in the table."""

OPENINGS = (
    "Once upon a time, there was a {who} named {name} who lived {where}.",
    "One day, {name} the {who} found a {thing} {where}.",
    "{name} was a {who}. Every morning {name} went for a walk {where}.",
    "It was raining, and {name} the {who} could not find the {thing}.",
    "{name} and a little {who} wanted to build a house {where}.",
)
NAMES = ("Lily", "Tom", "Anna", "Max", "Mia", "Ben", "Sara", "Leo", "Zoe", "Sam", "Nora")
WHOS = ("girl", "fox", "boy", "bear", "rabbit", "king", "bird")
WHERES = (
    "near the river",
    "in the big forest",
    "on a small farm",
    "by the sea",
    "in a quiet village",
    "at the park",
)
THINGS = (
    "red ball",
    "golden key",
    "small boat",
    "big hat",
    "blue kite",
    "shiny stone",
    "wooden box",
    "warm scarf",
)


class Answer(NamedTuple):
    """One answer: its tokens, how long it took, how many target passes, and TV(π, p) summed over its tokens."""

    tokens: tuple[int, ...]
    seconds: float
    passes: int
    drift: float


def prompts(count: int, start: int = 0) -> list[str]:
    """Openings of stories, from number `start` of an endless list without a dice."""
    return [
        OPENINGS[i % len(OPENINGS)].format(
            name=NAMES[i % len(NAMES)], who=WHOS[i % len(WHOS)], where=WHERES[i % len(WHERES)],
            thing=THINGS[i % len(THINGS)],
        )
        for i in range(start, start + count)
    ]  # fmt: skip


def pipelines(
    small: LocalModel, large: LocalModel, laws: Sequence[str], tokens: int, block: int, temperature: float
) -> dict[str, Pipeline]:
    """Every way to answer, by its name."""
    stop, settings = Stop(max_tokens=tokens), {"temperature": temperature}

    def alone(model: LocalModel) -> Pipeline:
        return Pipeline(NoDraft(), Target(model), Speculative(), block=0, done=stop, settings=settings)

    def drafted(rule: Any) -> Pipeline:
        return Pipeline(DraftModel(small), Target(large), rule, block=block, done=stop, settings=settings)

    ways = {"target": alone(large), "draft": alone(small), "speculative": drafted(Speculative())}
    for law in laws:
        for alpha in POINTS[law]:
            ways[f"{law} {alpha:g}"] = drafted(
                Lossy(alpha, measure_drift=True)
                if law == "lossy"
                else Cascade(law, alpha, measure_drift=True)  # type: ignore[arg-type]
            )
    return ways


def answers(ways: dict[str, Pipeline], tasks: Sequence[Task]) -> Iterator[tuple[str, int, Answer]]:
    """Every task in every way, the ways taking turns and their first one changing from task to task."""
    names = list(ways)
    for index, task in enumerate(tasks):
        turn = index % len(names)
        for name in names[turn:] + names[:turn]:
            began = time.perf_counter()
            record = ways[name].record(task)
            seconds = time.perf_counter() - began
            if record.outcome.status != "accepted":
                raise SystemExit(f"{name} on {task.id}: {record.outcome.status}, {record.outcome.reason}")
            passes = 0 if name == "draft" else sum(round.timing.passes for round in record.rounds)
            yield (
                name,
                index,
                Answer(tuple(record.outcome.value), seconds, passes, record.outcome.drift or 0.0),
            )


def logits(model: LocalModel, prompt: Sequence[int], answer: Sequence[int]) -> Any:
    """The model's logits [tokens, V] in float32, a row for each token of the answer, read in one pass."""
    import torch

    with torch.inference_mode():
        return model.model(torch.tensor([[*prompt, *answer]])).logits[0, len(prompt) - 1 : -1].float()


def log_likelihood(model: LocalModel, prompt: Sequence[int], answer: Sequence[int]) -> float:
    """The model's log-probability of the answer, at temperature 1, in nats."""
    import torch

    rows = logits(model, prompt, answer).log_softmax(-1)
    return float(rows.gather(1, torch.tensor(answer)[:, None]).double().sum())


def drift_alone(
    small: LocalModel, large: LocalModel, prompt: Sequence[int], answer: Sequence[int], temperature: float
) -> float:
    """TV(q, p) summed over an answer that the small model wrote alone: its pipeline, in which nothing stands for p,
    says 0."""
    cold = max(temperature, 1e-6)  # at 0 all mass is on the likeliest
    q, p = ((logits(model, prompt, answer) / cold).softmax(-1) for model in (small, large))
    return float((q - p).clamp(min=0).double().sum())


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Run every way and score every answer."""
    import torch

    if options.threads:
        torch.set_num_threads(options.threads)
    small, large = LocalModel(SMALL, dtype="float32"), LocalModel(LARGE, dtype="bfloat16")
    texts = prompts(4, options.prompts) if options.rehearse else prompts(options.prompts)
    ids = [large.encode_prompt({"prompt": text, "chat": False}) for text in texts]
    tasks = [Task(id=f"story-{i:02d}", input={"prompt_ids": each}) for i, each in enumerate(ids)]
    ways = pipelines(small, large, options.laws, options.tokens, options.block, options.temperature)
    for name in ("draft", "speculative"):  # both models' first passes are slower
        ways[name].record(Task(id="warm-up", input={"prompt_ids": ids[0]}))

    began = time.perf_counter()
    made: dict[str, list[Answer]] = {name: [] for name in ways}
    for name, index, answer in answers(ways, tasks):
        made[name].append(answer)
        if name == "target":
            print(f"{index + 1}/{len(tasks)}", f"{time.perf_counter() - began:.0f} s", flush=True)
    rows: dict[str, dict[str, list[float]]] = {}
    for name, each in made.items():
        rows[name] = {
            "log_likelihood": [log_likelihood(large, p, a.tokens) for p, a in zip(ids, each, strict=True)],
            "tokens": [len(a.tokens) for a in each],
            "seconds": [a.seconds for a in each],
            "passes": [a.passes for a in each],
            "drift": [a.drift for a in each],
        }
    rows["draft"]["drift"] = [
        drift_alone(small, large, p, a.tokens, options.temperature)
        for p, a in zip(ids, made["draft"], strict=True)
    ]
    confidence = [
        log_likelihood(small, p, a.tokens) / len(a.tokens) for p, a in zip(ids, made["draft"], strict=True)
    ]
    return {
        "settings": {
            "draft": SMALL, "target": LARGE, "prompts": len(texts), "tokens": options.tokens, "block": options.block,
            "temperature": options.temperature, "threads": torch.get_num_threads(),
        },
        "example": {name: [texts[0], large.decode(each[0].tokens)] for name, each in made.items()},
        "confidence": confidence,
        "ways": rows,
    }  # fmt: skip


def judge(measured: dict[str, Any]) -> dict[str, Any]:
    """Every way's figures, each hybrid's standing to its rivals, and what that says of the paper's claim.

    The comparisons with one rival hold together at 95 % over all hybrids (Bonferroni, two intervals a hybrid where
    quality and cost are both compared).
    """
    wanted = [field.name for field in fields(Way)]
    ways = {
        name: Way(*(np.array(row[field], dtype=float) for field in wanted))
        for name, row in measured["ways"].items()
    }
    confidence = np.array(measured["confidence"])
    draft, target, speculative = ways["draft"], ways["target"], ways["speculative"]
    for share in SHARES:
        ways[f"sequential {share:g}"] = sequential(draft, target, confidence, share)
    table = {
        name: {
            "quality": way.quality(),
            "quality_to_target": asdict(quality_gap(way, target)),
            "seconds_per_token": way.cost(),
            "cost_to_target": asdict(cost_ratio(way, target)),
            "passes_per_token": way.passes_per_token(),
            "drift_per_token": sum(row["drift"]) / sum(row["tokens"])
            if (row := measured["ways"].get(name))
            else None,
        }
        for name, way in ways.items()
    }
    hybrids = [name for name in measured["ways"] if name not in ("draft", "target", "speculative")]
    standing = {}
    for name in hybrids:
        quality = quality_gap(ways[name], speculative, comparisons=2 * len(hybrids))
        cost = cost_ratio(ways[name], speculative, comparisons=2 * len(hybrids))
        cascade = sequential_gap(ways[name], draft, target, confidence, comparisons=len(hybrids))
        mixture = mixture_gap(ways[name], draft, speculative, comparisons=len(hybrids))
        standing[name] = {
            "speculative": {
                "quality": asdict(quality),
                "cost": asdict(cost),
                "verdict": verdict(quality, cost),
            },
            "sequential_at_equal_cost": {"quality": asdict(cascade), "verdict": _side(cascade)},
            "mixture_at_equal_cost": {"quality": asdict(mixture), "verdict": _side(mixture)},
        }
    cascades = {name: each for name, each in standing.items() if not name.startswith("lossy")}
    better = [n for n, each in cascades.items() if each["sequential_at_equal_cost"]["verdict"] == "better"]
    dominates = [n for n, each in cascades.items() if each["speculative"]["verdict"] == "dominates"]
    answer = {
        "cascades": len(cascades),
        "better_than_sequential_at_equal_cost": better,
        "worse_than_sequential_at_equal_cost": [
            n for n, each in cascades.items() if each["sequential_at_equal_cost"]["verdict"] == "worse"
        ],
        "dominate_speculative": dominates,
        "better_than_mixture_at_equal_cost": [
            n for n, each in cascades.items() if each["mixture_at_equal_cost"]["verdict"] == "better"
        ],
        "dominate_both": [n for n in dominates if n in better],
    }
    return {"table": table, "standing": standing, "answer": answer}


def _side(gap: Interval) -> str:
    return "better" if gap.low > 0 else "worse" if gap.high < 0 else "undecided"


def shown(figures: dict[str, Any]) -> str:
    """The tables as they stand in benchmarks/README.md, the ways by falling cost."""

    def interval(found: dict[str, float], digits: int = 2) -> str:
        return f"{found['value']:.{digits}f} [{found['low']:.{digits}f}, {found['high']:.{digits}f}]"

    lines = [
        "| way | log-likelihood per token | less the target's own | ms per token | over the target's | "
        "target passes per token | TV(π, p) per token |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, row in sorted(figures["table"].items(), key=lambda item: -item[1]["seconds_per_token"]):
        drift = "" if row["drift_per_token"] is None else f"{row['drift_per_token']:.2f}"
        lines.append(
            f"| {name} | {row['quality']:.2f} | {interval(row['quality_to_target'])} | "
            f"{1000 * row['seconds_per_token']:.0f} | {interval(row['cost_to_target'])} | "
            f"{row['passes_per_token']:.2f} | {drift} |"
        )
    lines += [
        "",
        "| cascade | quality less speculative decoding's | cost over its | to speculative decoding | quality less the "
        "sequential cascade's at equal cost | less draft and speculative decoding mixed, at equal cost |",
        "|---|---|---|---|---|---|",
    ]
    for name, row in figures["standing"].items():
        to, cascade, mixture = (
            row[key] for key in ("speculative", "sequential_at_equal_cost", "mixture_at_equal_cost")
        )
        lines.append(
            f"| {name} | {interval(to['quality'])} | {interval(to['cost'])} | {to['verdict']} | "
            f"{interval(cascade['quality'])} {cascade['verdict']} | "
            f"{interval(mixture['quality'])} {mixture['verdict']} |"
        )
    answer = figures["answer"]
    lines += ["", f"Of {answer['cascades']} speculative cascades:", ""]
    for key, said in (
        ("better_than_sequential_at_equal_cost", "better than the sequential cascade at equal cost"),
        ("worse_than_sequential_at_equal_cost", "worse than it"),
        ("dominate_speculative", "better and cheaper than speculative decoding"),
        (
            "better_than_mixture_at_equal_cost",
            "better than draft and speculative decoding mixed, at equal cost",
        ),
        ("dominate_both", "both better than the sequential cascade and dominating speculative decoding"),
    ):
        lines.append(f"- {said}: {', '.join(answer[key]) or 'none'}")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--prompts", type=int, default=50)
    parser.add_argument("--tokens", type=int, default=32)
    parser.add_argument("--temperature", type=float, default=0.5)
    parser.add_argument("--block", type=int, default=5)
    parser.add_argument("--threads", type=int, help="torch's threads; by default as torch chooses")
    parser.add_argument("--laws", nargs="*", default=list(POINTS), choices=list(POINTS))
    parser.add_argument("--rehearse", action="store_true", help="on four other prompts")
    parser.add_argument("--show", action="store_true", help="print the tables of what stands at --out")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/cascades.json"))
    options = parser.parse_args()
    if options.show:
        print(shown(json.loads(options.out.read_text())))
        return
    measured = measure(options)
    figures = {"repeats": 1, **measured, **judge(measured)}
    if not options.rehearse:  # its four prompts must not stand where the fifty were
        write(options.out, "benchmarks.cascades", figures)
    print(shown(figures))


if __name__ == "__main__":
    main()
