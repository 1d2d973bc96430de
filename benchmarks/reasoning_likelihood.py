"""Who chooses best among eight samples of a small model: the majority, their own likelihood, a trained verifier.

    python -m benchmarks.reasoning_likelihood --work DIR --out benchmarks/results/reasoning_likelihood.json

The pool is that of examples/reasoning-bestofn.yaml: SmolLM2-135M, its 48 problems of reasoning-gym, eight samples each.
The verifier is trained by examples/reasoning/verifier.yaml on examples/reasoning/solutions.jsonl, samples of other
questions of the same kinds with their log-probabilities, which `--verifier` writes into that file first; without it
the others choose alone. The problems' own
scorers say what is right. Of equal scores the share of right ones counts. `one` is the mean of the eight. Intervals
are 95 %, by bootstrap over problems, and differences are of the same problems.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from ruamel.yaml import YAML

from benchmarks.provenance import write
from benchmarks.reasoning_problems import CONFIG, MODEL, TEMPLATE
from draftverify import Proposal, Task
from draftverify.kit import make_context
from draftverify.stats import Estimate, bootstrap
from draftverify.stats.judgement import auroc_within
from draftverify_llm import Likelihood, LocalModel
from draftverify_reasoning import Gym, GymScorer, SolutionSampler, TrainedVerifier, VerifierTraining

EXAMPLE = Path("examples/reasoning")
SOLUTIONS = EXAMPLE / "solutions.jsonl"
SAMPLES = 8


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--work", type=Path, required=True, help="where the verifier is trained")
    parser.add_argument("--verifier", action="store_true", help="train one, and have it choose too")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args(arguments)
    model = LocalModel(MODEL, dtype="bfloat16")
    tasks = Gym([*CONFIG], size=12, seed=1, config=CONFIG).load()
    proposals = sample(model, tasks, options.work / "pool.json")
    right = [solved(task, proposal) for task, proposal in zip(tasks, proposals, strict=True)]
    scores = {
        "likelihood": scored(Likelihood(), tasks, proposals),
        "likelihood by token": scored(Likelihood(by="token"), tasks, proposals),
    }
    report = None
    if options.verifier:
        label(model)
        report = train(options.work / "verifier")
        verifier = TrainedVerifier(options.work / "verifier", threshold=-100.0)
        scores["verifier"] = scored(verifier, tasks, proposals)
    chosen = {"one": [good.mean() for good in right], "any": [good.max() for good in right]}
    chosen |= {name: list(map(best, of, right)) for name, of in scores.items()}
    answers = [[item["answer"] for item in proposal.items] for proposal in proposals]
    ones = [np.ones(SAMPLES)] * len(tasks)
    chosen["majority"] = list(map(elected, answers, ones, right))
    for name, of_problems in scores.items():
        weights = [1 / (1 + np.exp(-of)) for of in of_problems]
        chosen[f"weighted_vote by {name}"] = list(map(elected, answers, weights, right))
    problem = np.repeat(np.arange(len(tasks)), SAMPLES).tolist()
    figures = {
        "model": MODEL,
        "problems": len(tasks),
        "samples": SAMPLES,
        "right": {name: shares(values) for name, values in chosen.items()},
        "over_one": {
            name: shares(np.subtract(values, chosen["one"]))
            for name, values in chosen.items()
            if name not in ("one", "any")
        },
        "auc_within": {
            name: plain(auroc_within(np.concatenate(of).tolist(), np.concatenate(right).tolist(), problem))
            for name, of in scores.items()
        },
        "training": report,
    }
    write(options.out, "benchmarks.reasoning_likelihood", figures)
    print(json.dumps({key: figures[key] for key in ("right", "over_one", "auc_within")}, indent=1))


def sample(model: LocalModel, tasks: list[Task], path: Path) -> list[Proposal]:
    """The pool, as an earlier call left it."""
    if not path.exists():
        sampler = SolutionSampler(
            model, TEMPLATE, "phrase", chat=False, max_tokens=16, temperature=0.8, stop=["\n"]
        )
        drawn = sampler.propose_many([make_context(task) for task in tasks], [SAMPLES] * len(tasks))
        path.parent.mkdir(parents=True, exist_ok=True)
        kept = [
            {"items": [dict(item) for item in one.items], "evidence": dict(one.evidence)} for one in drawn
        ]
        path.write_text(json.dumps(kept), encoding="utf-8")
    pool = json.loads(path.read_text(encoding="utf-8"))
    return [Proposal.alternatives(one["items"], evidence=one["evidence"]) for one in pool]


def label(model: LocalModel) -> None:
    """Write into the example's solutions what log-probability the model gives each of them after its prompt."""
    rows = [json.loads(line) for line in SOLUTIONS.read_text(encoding="utf-8").splitlines()]
    for row in rows:
        prompt = model.encode_prompt({"prompt": TEMPLATE.format(question=row["question"]), "chat": False})
        texts = list(dict.fromkeys(solution["text"] for solution in row["solutions"]))
        logprobs = dict(zip(texts, forced(model, prompt, texts), strict=True))
        for solution in row["solutions"]:
            solution["logprob"] = round(logprobs[solution["text"]], 4)
    SOLUTIONS.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def forced(model: LocalModel, prompt: list[int], texts: list[str]) -> list[float]:
    """ln p of each text and the line's end that ends it, after the prompt."""
    ids = [model.tokenizer(f"{text}\n", add_special_tokens=False).input_ids for text in texts]
    longest = max(map(len, ids))
    padded = torch.tensor([[*tokens, *[0] * (longest - len(tokens))] for tokens in ids])
    with torch.inference_mode():
        read = model.model(torch.tensor([prompt]), use_cache=True, logits_to_keep=1)
        cache = read.past_key_values
        cache.batch_repeat_interleave(len(ids))
        logits = model.model(padded, past_key_values=cache, use_cache=True).logits
        first = read.logits.expand(len(ids), -1, -1)
        rows = torch.cat([first, logits[:, :-1]], 1).float().log_softmax(-1)
    each = rows.gather(-1, padded[..., None])[..., 0]
    return [float(line[: len(tokens)].sum()) for line, tokens in zip(each, ids, strict=True)]


def solved(task: Task, proposal: Proposal) -> np.ndarray:
    """[samples], by the dataset's own scorer."""
    checks = GymScorer().verify(make_context(task), proposal).checks
    return np.array([check.verdict == "pass" for check in checks])


def train(work: Path) -> dict[str, Any]:
    settings = YAML(typ="safe").load((EXAMPLE / "verifier.yaml").read_text(encoding="utf-8"))
    return VerifierTraining(**{**settings, "data": SOLUTIONS}).train(work)


def scored(verifier: Any, tasks: list[Task], proposals: list[Proposal]) -> list[np.ndarray]:
    scores = []
    for task, proposal in zip(tasks, proposals, strict=True):
        checks = verifier.verify(make_context(task), proposal).checks
        scores.append(np.array([-np.inf if check.score is None else check.score for check in checks]))
    return scores


def best(scores: np.ndarray, right: np.ndarray) -> float:
    return float(right[scores == scores.max()].mean())


def elected(answers: list[str | None], weights: np.ndarray, right: np.ndarray) -> float:
    votes: dict[str, float] = {}
    for answer, weight in zip(answers, weights, strict=True):
        if answer is not None:
            votes[answer] = votes.get(answer, 0.0) + weight
    leaders = [answer for answer, vote in votes.items() if vote == max(votes.values())]
    return float(np.mean([right[answers.index(answer)] for answer in leaders])) if leaders else 0.0


def shares(values: Any) -> dict[str, float]:
    of = np.asarray(values, dtype=float)
    return plain(bootstrap(lambda w: float(w @ of / w.sum()), range(len(of))))


def plain(estimate: Estimate) -> dict[str, float]:
    return {"value": estimate.value, "low": estimate.low, "high": estimate.high}


if __name__ == "__main__":
    main()
