"""Best-of-n, sequential sampling, votes and their early stopping, replayed on recorded solutions with recorded scores.

    python -m benchmarks.reasoning_replay --data ../shared/data [--orders 20]
        [--out benchmarks/results/reasoning_replay.json]

Read are `rsd_math100/math_cot_100.jsonl` under `--data` (100 MATH problems, 8 samples of one model each, whether each
is right, the score of a reward model) and, for `extraction`, `gsm8k/example_model_solutions.jsonl`. For its `forms`,
which say of how many samples each form extracts an answer, and of how many the right one, `zeroeval_gsm/gsm.jsonl.gz`
too (one answer each of 44 models, in JSON).

`best_of_n` is exact: the mean over all subsets of the eight (benchmarks.best_of_n). `first` (take the
first sample above a threshold, else the best of the eight) and `majority_of_8` are exact too: the mean over all orders.
Everything else is measured by pipelines over `--orders` random orders of each pool, and `pipelines` has what
pipelines give for the exact ones. Intervals are of 95 % and draw whole problems anew; differences are paired by
problem.

`first`: thresholds are quantiles of the scores of the other half of the problems (even and odd places in the file), so
neither a label nor the problem itself chose them. It is compared with best-of-n at as many samples: the mixture of the
two nearest n that costs the same.

`stop`: from which n more samples bring less than a margin, or hurt, as of `best_of_n`.

`adaptive`: votes that stop early, beside the vote of all eight in the same order: samples drawn, and how often the
answer is the same.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from msgspec.structs import replace

from benchmarks.best_of_n import best_of_n
from benchmarks.provenance import write
from draftverify import Context, Pipeline, Proposal, Task, TaskRecord, retry
from draftverify.kit import make_context
from draftverify.rules import AdaptiveConsistency, Best, First, FirstStop, Majority, Rounds, SureMajority
from draftverify.stats import Estimate, bootstrap, pass_at_k
from draftverify.stats.judgement import auroc
from draftverify.traits import GeneratorTraits
from draftverify_llm import read_rows
from draftverify_reasoning import Problems, RecordedScore, RecordedSolutions, extract, same
from draftverify_reasoning.answers import FORMS

FIELDS = {
    "task_id": "idx",
    "prompt": "question",
    "text": "code.*",
    "answer": "pred.*",
    "correct": "score.*",
    "score": "pred_score.*.0",
}
QUANTILES = (0.05, 0.1, 0.2, 0.3, 0.5)
SYSTEMS = ("6b_finetuning", "6b_verification", "175b_finetuning", "175b_verification")


class Shuffled:
    """A pool drawn in another order."""

    traits = GeneratorTraits(shape="alternatives", reads=frozenset())

    def __init__(self, pool: RecordedSolutions, orders: Mapping[str, Sequence[int]]) -> None:
        self.pool = pool
        self.orders = orders

    def propose(self, context: Context, n: int) -> Proposal:
        whole = self.pool.propose(make_context(context.task), 1000).items
        order, start = self.orders[context.task.id], context.drafted
        items = tuple(whole[i] for i in order[start : start + n])
        return Proposal.alternatives(items, exhausted=start + n >= len(order))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--orders", type=int, default=20)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/reasoning_replay.json"))
    given = parser.parse_args()
    path = given.data / "rsd_math100/math_cot_100.jsonl"
    figures = {**replay(path, given.orders), **gsm8k(given.data / "gsm8k/example_model_solutions.jsonl")}
    figures["extraction"]["forms"] = {
        name: forms(samples) for name, samples in recordings(given.data).items()
    }
    write(given.out, "benchmarks.reasoning_replay", figures)
    print(json.dumps(figures, indent=1))


def replay(path: Path, orders: int) -> dict[str, Any]:
    """All figures of the scored pools."""
    pool = RecordedSolutions(path, FIELDS, match="prompt")
    tasks = Problems(path, {"id": "idx"}, form="plain").load()
    items = [pool.propose(make_context(task), 1000).items for task in tasks]
    scores = np.array([[item["score"] for item in each] for each in items])
    right = np.array([[float(item["correct"]) for item in each] for each in items])
    curves = per_problem(scores, right)
    rng = np.random.default_rng(0)
    drawn = [{task.id: rng.permutation(scores.shape[1]).tolist() for task in tasks} for _ in range(orders)]

    def piped(**parts: Any) -> list[list[TaskRecord]]:
        """[orders][problems]: how each problem ends, pools drawn in each of the orders."""
        made = [Pipeline(Shuffled(pool, order), RecordedScore(), **parts) for order in drawn]
        return [[pipeline.record(task) for task in tasks] for pipeline in made]

    curve = best_of_n(scores.tolist(), right.tolist())
    sizes = (1, 2, 4, 8)
    best = {n: piped(rule=Best(), block=n, done=Rounds(1)) for n in sizes}
    full = piped(rule=Majority(), block=8, done=Rounds(1))
    return {
        "problems": len(tasks),
        "samples_each": scores.shape[1],
        "pass_at_8": float(np.mean([pass_at_k(8, int(each.sum()), 8) for each in right])),
        "best_of_n": {n: shown(each) for n, each in enumerate(curve.accuracy, 1)},
        "majority_of_8": shown(over_problems(majority(items))),
        "auc": {
            "over all": shown(
                auroc(scores.ravel().tolist(), right.ravel().tolist(), np.repeat(range(100), 8).tolist())
            ),
            "within problem": within(scores, right),
        },
        "first": first(scores, right, curves),
        "stop": {
            margin: {"enough": found.enough, "hurts": found.hurts}
            for margin in (0.01, 0.02, 0.05)
            if (found := best_of_n(scores.tolist(), right.tolist(), margin=margin))
        },
        "most_still_to_gain": {n: shown(each) for n, each in enumerate(curve.gain, 1)},
        "adaptive": adaptive(piped, full),
        "pipelines": {
            "orders": orders,
            "best_of_n": {n: float(accuracy(best[n]).mean()) for n in sizes},
            "majority_of_8": float(accuracy(full).mean()),
            "first": first_piped(scores, tasks, pool, drawn),
        },
    }


def per_problem(scores: Any, right: Any) -> Any:
    """[problems, n]: the exact accuracy of the best of n for each problem alone."""
    pools = zip(scores.tolist(), right.tolist(), strict=True)
    return np.array([[each.value for each in best_of_n([s], [r]).accuracy] for s, r in pools])


def accuracy(runs: Sequence[Sequence[TaskRecord]]) -> Any:
    """[problems]: how often each was answered rightly, over orders."""
    return np.array(
        [[float((each.outcome.value or {}).get("correct", False)) for each in run] for run in runs]
    ).mean(0)


def over_problems(values: Any) -> Estimate:
    """The mean; where no problem differs from another, the interval is of what as many problems could hide."""
    found = bootstrap(lambda weights: float(weights @ values / weights.sum()), range(len(values)))
    if np.ptp(values) > 0:
        return found
    hidden = 1 - 0.025 ** (1 / len(values))
    return replace(found, low=found.value - hidden, high=min(found.value + hidden, 1.0))


def shown(found: Estimate) -> dict[str, float]:
    return {"value": round(found.value, 4), "low": round(found.low, 4), "high": round(found.high, 4)}


def within(scores: Any, right: Any) -> dict[str, Any]:
    """How often a right sample scores above a wrong one of the same problem: over all such pairs, and over problems."""
    mixed = [i for i in range(len(right)) if 0 < right[i].sum() < right.shape[1]]
    areas = np.array([auroc(scores[i].tolist(), right[i].tolist()).value for i in mixed])
    pairs = np.array([right[i].sum() * (1 - right[i]).sum() for i in mixed])
    pooled = bootstrap(lambda w: float(w @ (areas * pairs) / (w @ pairs)) if w @ pairs else np.nan, mixed)
    return {
        "problems": len(mixed),
        "over pairs": shown(pooled),
        "mean over problems": shown(over_problems(areas)),
    }


def majority(items: Sequence[Sequence[Mapping[str, Any]]]) -> Any:
    """[problems]: how often the most frequent answer is right over all orders, equal ones with equal chance."""
    found = []
    for pool in items:
        votes = Counter(item["answer"] for item in pool if item["answer"] is not None)
        most = max(votes.values())
        right = {item["answer"]: float(item["correct"]) for item in pool}
        found.append(np.mean([right[answer] for answer, count in votes.items() if count == most]))
    return np.array(found)


def thresholds(scores: Any, quantile: float) -> Any:
    """[problems]: the quantile of the scores of the other half."""
    halves = [np.quantile(scores[1 - parity :: 2], quantile) for parity in (0, 1)]
    return np.array([halves[i % 2] for i in range(len(scores))])


def first(scores: Any, right: Any, curves: Any) -> dict[str, Any]:
    """The first sample above a threshold, exactly: over all orders, it is any of those above with equal chance."""
    size = scores.shape[1]
    found = {}
    for quantile in QUANTILES:
        above = scores >= thresholds(scores, quantile)[:, None]
        many = above.sum(1)
        samples = np.where(many > 0, (size + 1) / (many + 1), size)
        hits = np.where(many > 0, (right * above).sum(1) / np.maximum(many, 1), curves[:, -1])
        cost = float(samples.mean())
        low = min(int(cost), size - 1)
        beside = curves[:, low - 1] * (low + 1 - cost) + curves[:, low] * (cost - low)
        found[str(quantile)] = {
            "samples": shown(over_problems(samples)),
            "accuracy": shown(over_problems(hits)),
            "best_of_n_at_equal_samples": shown(over_problems(beside)),
            "difference_at_equal_samples": shown(over_problems(hits - beside)),
            "difference_to_best_of_8": shown(over_problems(hits - curves[:, -1])),
        }
    return found


def first_piped(scores: Any, tasks: Sequence[Task], pool: RecordedSolutions, drawn: Any) -> dict[str, Any]:
    """The same by pipelines."""
    found = {}
    for quantile in QUANTILES:
        at = thresholds(scores, quantile)
        rules = {float(t): First(threshold=float(t), otherwise="best") for t in set(at.tolist())}
        runs = [
            [
                Pipeline(Shuffled(pool, order), RecordedScore(), rules[float(t)], policy=retry(8)).record(
                    task
                )
                for task, t in zip(tasks, at, strict=True)
            ]
            for order in drawn
        ]
        found[str(quantile)] = {
            "samples": float(
                np.mean([[sum(len(r.items) for r in each.rounds) for each in run] for run in runs])
            ),
            "accuracy": float(accuracy(runs).mean()),
        }
    return found


def adaptive(piped: Callable[..., Any], full: Sequence[Sequence[TaskRecord]]) -> dict[str, Any]:
    """Votes that stop early against the full vote."""
    stops = {
        "adaptive_consistency .95": AdaptiveConsistency(0.95, at_most=8),
        "adaptive_consistency .8": AdaptiveConsistency(0.8, at_most=8),
        "sure_majority .05": FirstStop([SureMajority(0.05), Rounds(8)]),
        "sure_majority .2": FirstStop([SureMajority(0.2), Rounds(8)]),
    }
    found = {}
    for name, stop in stops.items():
        runs = piped(rule=Majority(), block=1, done=stop)
        samples = np.array([[sum(len(r.items) for r in each.rounds) for each in run] for run in runs]).mean(0)
        agree = np.array(
            [
                [float(answer(one) == answer(other)) for one, other in zip(run, whole, strict=True)]
                for run, whole in zip(runs, full, strict=True)
            ]
        ).mean(0)
        found[name] = {
            "samples_of_8": shown(over_problems(samples)),
            "saved": shown(over_problems(1 - samples / 8)),
            "agreement_with_the_full_vote": shown(over_problems(agree)),
            "accuracy": shown(over_problems(accuracy(runs))),
            "difference_to_the_full_vote": shown(over_problems(accuracy(runs) - accuracy(full))),
        }
    return found


def answer(record: TaskRecord) -> Any:
    return record.outcome.value["answer"] if record.outcome.value else None


def gsm8k(path: Path) -> dict[str, Any]:
    """Extraction against the labels."""
    rows = [row for _, row in read_rows(path)]
    agreed, accuracies = 0, {}
    for system in SYSTEMS:
        judged = []
        for row in rows:
            text, label = row[system]["solution"], row[system]["is_correct"]
            expected, found = extract(row["ground_truth"], "gsm8k") or "", extract(text, "gsm8k")
            judged.append(found is not None and same(found, expected))
            agreed += judged[-1] == label
        accuracies[system] = round(sum(judged) / len(judged), 4)
    return {
        "extraction": {"labels": len(rows) * len(SYSTEMS), "agreed": agreed, "accuracy": accuracies},
    }


def recordings(data: Path) -> dict[str, list[tuple[str, str]]]:
    """Samples of each recording with the right answers."""
    return {
        "GSM8K": [
            (row[system]["solution"], extract(row["ground_truth"], "gsm8k") or "")
            for _, row in read_rows(data / "gsm8k/example_model_solutions.jsonl")
            for system in SYSTEMS
        ],
        "MATH": [
            (text, row["answer"])
            for _, row in read_rows(data / "rsd_math100/math_cot_100.jsonl")
            for text in row["code"]
        ],
        "ZeroEval": [
            (row["output"], row["answer"].removeprefix("# "))
            for _, row in read_rows(data / "zeroeval_gsm/gsm.jsonl.gz")
        ],
    }


def forms(samples: Sequence[tuple[str, str]]) -> dict[str, Any]:
    """Of how many samples each form extracts an answer, and of how many the right one."""
    figures: dict[str, Any] = {"samples": len(samples)}
    for form in (*FORMS, "auto"):
        answers = [(extract(text, form), right) for text, right in samples]
        extracted = [(answer, right) for answer, right in answers if answer is not None]
        figures[form] = {
            "extracted": len(extracted), "right": sum(same(answer, right) for answer, right in extracted)
        }  # fmt: skip
    return figures


if __name__ == "__main__":
    main()
