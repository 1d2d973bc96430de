"""A cascade from cheap models to a dear one by agreement, replayed on recorded answers to GSM8K.

    python -m benchmarks.reasoning_cascade --data ../shared/data [--out benchmarks/results/reasoning_cascade.json]

Read is `zeroeval_gsm/gsm.jsonl.gz` under `--data`: 44 models, one answer each at temperature 0 to 1,319 problems.

The cheap models answer; what enough of them agree on is taken, the rest is asked of the dear one. As a pipeline: the
generator is itself a pipeline, a vote of the cheap ones that abstains below so many ballots, and the policy falls
back to the dear model. Candidates are the first two of the cheap models and two votes, all three and two votes, all
three and three votes. At each price the one with the largest gain over random mixing on one half of the problems
(even and odd places in the file) is measured on the other half, both ways round.

Prices: one call of any cheap model costs `ratio` calls of the dear one, from .02 to 1; all cheap calls are paid for.
`assumed` is the ratio that the models' sizes (parameters, as their makers state them; for closed models list prices
of the year of the recording) suggest, an assumption and no measurement. Input lengths are taken as equal.

Random mixing asks the dear model for a share of the problems drawn at random, and the most accurate of the cheap ones
(on the other half) for the rest; at the cascade's cost. Where that is the dear model's price or more, mixing is the
dear model. Differences are paired by problem; intervals are of 95 % and draw problems anew.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.provenance import write
from draftverify import Pipeline, Task, fallback
from draftverify.rules import First, Majority, Rounds
from draftverify.stats import Estimate, bootstrap
from draftverify_llm import read_rows
from draftverify_reasoning import Answered, AnswerMatches, RecordedSolutions, normalised

RATIOS = (0.02, 0.05, 0.1, 0.2, 0.33, 0.5, 0.75, 1.0)
SMALL = ("gemma-2-9b-it", "Meta-Llama-3.1-8B-Instruct", "Qwen2-7B-Instruct")
MEDIUM = ("gemma-2-27b-it@together", "Yi-1.5-34B-Chat", "Mixtral-8x7B-Instruct-v0.1")
LARGE = ("Meta-Llama-3.1-70B-Instruct", "Meta-Llama-3-70B-Instruct", "Qwen2-72B-Instruct")
CLOSED = ("gpt-4o-mini-2024-07-18", "claude-3-haiku-20240307", "gemini-1.5-flash")
PAIRS: dict[str, tuple[tuple[str, ...], str, float]] = {
    "8B to 405B": (SMALL, "Llama-3.1-405B-Instruct-Turbo", 0.02),
    "8B to 70B": (SMALL, "Meta-Llama-3.1-70B-Instruct", 0.11),
    "30B to 405B": (MEDIUM, "Llama-3.1-405B-Instruct-Turbo", 0.08),
    "70B to 405B": (LARGE, "Llama-3.1-405B-Instruct-Turbo", 0.17),
    "small closed to large closed": (CLOSED, "claude-3-5-sonnet-20240620", 0.07),
}
WAYS = {"two agree of two": (2, 2), "two agree of three": (3, 2), "three agree of three": (3, 3)}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/reasoning_cascade.json"))
    given = parser.parse_args()
    models = {name for cheap, dear, _ in PAIRS.values() for name in (*cheap, dear)}
    rows: dict[str, dict[str, Mapping[str, Any]]] = {}
    for _, row in read_rows(given.data / "zeroeval_gsm/gsm.jsonl.gz"):
        if row["model"] in models:
            rows.setdefault(row["id"], {})[row["model"]] = row
    tasks = []
    for id, by_model in rows.items():
        first = next(iter(by_model.values()))
        expected = {"answer": normalised(first["answer"])}
        tasks.append(Task(id=id, input={"question": first["question"]}, expected=expected))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "answers.jsonl")
        path.write_text("".join(json.dumps(row) + "\n" for each in rows.values() for row in each.values()))
        replayed = Replay(path, tasks)
        figures = {name: pair(replayed, *parts) for name, parts in PAIRS.items()}
    found = {"problems": len(tasks), "accuracy": replayed.accuracies(), "pairs": figures}
    write(given.out, "benchmarks.reasoning_cascade", found)
    print(json.dumps(found, indent=1))


class Replay:
    """Pipelines over the recorded answers, each run once."""

    def __init__(self, path: Path, tasks: Sequence[Task]) -> None:
        self.path = path
        self.tasks = tasks
        self.alone: dict[str, Any] = {}

    def recorded(self, *systems: str) -> RecordedSolutions:
        fields = {"task_id": "id", "prompt": "question", "text": "output", "system": "model", "answer": ""}
        return RecordedSolutions(self.path, fields, match="prompt", system=list(systems))

    def right(self, model: str) -> Any:
        """[problems]: whether a model alone is right."""
        if model not in self.alone:
            pipeline = Pipeline(self.recorded(model), Answered(), First())
            self.alone[model] = self._scored([pipeline.record(task) for task in self.tasks])
        return self.alone[model]

    def cascade(self, cheap: Sequence[str], dear: str, votes: int) -> tuple[Any, Any]:
        """[problems] twice: whether the cascade is right, and whether it asked the dear model."""
        vote = Pipeline(
            self.recorded(*cheap), Answered(), Majority(ballots=votes), block=len(cheap), done=Rounds(1)
        )
        pipeline = Pipeline(vote, Answered(), First(), policy=fallback(self.recorded(dear), name="dear"))
        records = [pipeline.record(task) for task in self.tasks]
        asked = [float(any(round.source == "dear" for round in record.rounds)) for record in records]
        return self._scored(records), np.array(asked)

    def accuracies(self) -> dict[str, float]:
        return {model: round(float(right.mean()), 4) for model, right in sorted(self.alone.items())}

    def _scored(self, records: Sequence[Any]) -> Any:
        metric = AnswerMatches()
        return np.array([float(metric(t, r.outcome) or 0) for t, r in zip(self.tasks, records, strict=True)])


def pair(replay: Replay, cheap: Sequence[str], dear: str, assumed: float) -> dict[str, Any]:
    """One set of cheap models and a dear one, at every price."""
    alone = {model: replay.right(model) for model in cheap}
    strong = replay.right(dear)
    ways = {name: (many, *replay.cascade(cheap[:many], dear, votes)) for name, (many, votes) in WAYS.items()}
    return {
        "cheap": list(cheap),
        "dear": dear,
        "assumed_ratio": assumed,
        "ways": {
            name: {"accuracy": round(float(right.mean()), 4), "asked_the_dear": round(float(asked.mean()), 4)}
            for name, (_, right, asked) in ways.items()
        },
        "by_ratio": {
            str(ratio): at_price(ways, alone, strong, ratio) for ratio in sorted({*RATIOS, assumed})
        },
    }


def at_price(ways: Mapping[str, Any], alone: Mapping[str, Any], strong: Any, ratio: float) -> dict[str, Any]:
    """The way that was best on one half, on the other half, both ways round."""
    size = len(strong)
    right, cost, mixed, cheap = (np.zeros(size) for _ in range(4))
    chosen = []
    for parity in (0, 1):
        fit, test = (np.arange(size) % 2 == each for each in (parity, 1 - parity))
        best = max(alone, key=lambda model: alone[model][fit].mean())

        def gain(name: str, part: Any, best: str = best) -> float:
            many, hit, asked = ways[name]
            share = mixing(many * ratio + asked[part].mean(), ratio)
            return float((hit - share * strong - (1 - share) * alone[best])[part].mean())

        name = max(ways, key=lambda name: gain(name, fit))
        many, hit, asked = ways[name]
        chosen.append(name)
        right[test], cost[test], cheap[test] = hit[test], (many * ratio + asked)[test], alone[best][test]
        share = mixing(cost[test].mean(), ratio)
        mixed[test] = share * strong[test] + (1 - share) * cheap[test]
    return {
        "chosen": chosen,
        "cost": shown(mean(cost)),
        "accuracy": shown(mean(right)),
        "cheap_alone": shown(mean(cheap)),
        "dear_alone": shown(mean(strong)),
        "mixing_at_equal_cost": shown(mean(mixed)),
        "over_mixing": shown(mean(right - mixed)),
        "over_cheap": shown(mean(right - cheap)),
        "over_dear": shown(mean(right - strong)),
    }


def mixing(cost: float, ratio: float) -> float:
    """The share of problems for the dear model at which mixing costs as much; 1 where even that is cheaper."""
    return 1.0 if ratio >= 1.0 else min(max((cost - ratio) / (1.0 - ratio), 0.0), 1.0)


def mean(values: Any) -> Estimate:
    return bootstrap(lambda weights: float(weights @ values / weights.sum()), range(len(values)))


def shown(found: Estimate) -> dict[str, float]:
    return {"value": round(found.value, 4), "low": round(found.low, 4), "high": round(found.high, 4)}


if __name__ == "__main__":
    main()
