"""Steps: keeping the sound prefix against drawing whole solutions, predicted and measured.

    python -m benchmarks.reasoning_steps --out benchmarks/results/reasoning_steps.json

**Scripted.** A solution has k steps; a drawn step is right with probability p, whatever came before, and the verifier
passes a right one with probability T and a wrong one with F. A step passes with a = pT + (1 − p)F, and one that passed
is right with r = pT / a. Both ways go on until all k steps passed:

- whole solutions, a block being k new steps: blocks a^−k, steps drawn k a^−k;
- keeping the prefix, a block being all steps that are missing: each refusal costs one block more, and a step is refused
  (1 − a) / a times on average, so blocks 1 + k (1 − a) / a; a refusal with j steps missing has j drawn anew, so steps
  drawn k + (1 − a) / a · k (k + 1) / 2.

Either ends with a solution that is right with probability r^k, the same for both: keeping the prefix saves samples and
mends no verifier. Per solved problem everything is divided by r^k. Measured over `--tasks` tasks of the engine, with
95 % intervals by bootstrap over tasks; that of a ratio draws both its sides together.

**A real model.** SmolLM2-135M-Instruct adds up three numbers of one digit (reasoning-gym's `chain_sum`), a line
for each addition, after two worked examples. The outside verifier of a step, `running sum`, knows the problem and
passes exactly the right next line. Both ways have the same model, prompt and verifier, and at most `AT_MOST` blocks; a
problem counts as solved where the dataset's scorer says so of the accepted solution.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.provenance import write
from benchmarks.reasoning_problems import MODEL, Counted, distinct
from draftverify import Budget, Check, Context, Pipeline, Proposal, Task, Verification, retry
from draftverify.rules import First, Limit, LongestPrefix
from draftverify.stats import bootstrap
from draftverify_llm import answer_text
from draftverify_reasoning import Gym, SolutionSampler, Steps, UntilAnswered, answer_of
from draftverify_reasoning.gym import score_answer

SCRIPTED = [(k, p, 1.0, 0.0) for k, p in ((4, 0.9), (4, 0.6), (8, 0.9), (8, 0.7))]
SCRIPTED += [(4, 0.7, 0.9, 0.1), (8, 0.9, 0.95, 0.2)]
AT_MOST = 8
CONFIG = {"chain_sum": {"min_terms": 3, "max_terms": 3, "min_digits": 1, "max_digits": 1}}
HOW: Mapping[str, Any] = {"max_tokens": 40, "temperature": 0.7, "chat": False, "stop": ("\n\n", "Question:")}
TEMPLATE = """\
Question: State the final answer to the following arithmetic problem: 6 + 3 - 4 =
6 + 3 = 9
9 - 4 = 5
The answer is 5.

Question: State the final answer to the following arithmetic problem: 2 - 7 + 8 + 1 =
2 - 7 = -5
-5 + 8 = 3
3 + 1 = 4
The answer is 4.

Question: {question}
"""


def main() -> None:
    """Both parts."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--tasks", type=int, default=1000, help="scripted tasks for each (k, p, T, F)")
    parser.add_argument("--problems", type=int, default=64, help="of the real model")
    asked = parser.parse_args()
    figures = {"scripted": [scripted(*each, asked.tasks) for each in SCRIPTED]}
    for each in figures["scripted"]:
        print(each, flush=True)
    if asked.problems:
        figures["real"] = real(asked.problems)  # type: ignore[assignment]
        print(figures["real"])
    write(asked.out, "benchmarks.reasoning_steps", {"model": MODEL, "at most": AT_MOST, **figures})


# Scripted


class Drawing:
    """Draws steps that are right with probability p: all that are missing, as a chain, or whole solutions."""

    def __init__(self, k: int, p: float, whole: bool) -> None:
        self.k = k
        self.p = p
        self.whole = whole

    def propose(self, context: Context, n: int) -> Proposal:
        """The next block."""
        missing = self.k - len(context.accepted)
        steps = [context.draws.uniform(i) < self.p for i in range(missing)]
        return Proposal.alternatives([steps]) if self.whole else Proposal.chain(steps)


class Erring:
    """Passes a right step with probability T and a wrong one with F; a whole solution if all its steps pass."""

    def __init__(self, T: float, F: float) -> None:
        self.T = T
        self.F = F

    def verify(self, context: Context, proposal: Proposal) -> Verification:
        """One check per item."""
        if proposal.items and isinstance(proposal.items[0], list):
            (steps,) = proposal.items
            return Verification(
                checks=(_check(all(self._passes(context, i, s) for i, s in enumerate(steps))),)
            )
        return Verification(
            checks=tuple([_check(self._passes(context, i, s)) for i, s in enumerate(proposal.items)])
        )

    def _passes(self, context: Context, i: int, right: bool) -> bool:
        return context.draws.uniform(i) < (self.T if right else self.F)


def _check(passes: bool) -> Check:
    return Check("pass" if passes else "reject")


def scripted(k: int, p: float, T: float, F: float, tasks: int) -> dict[str, Any]:
    """Both ways, predicted and measured."""
    a = p * T + (1 - p) * F
    right = (p * T / a) ** k
    predicted = {
        "whole": {"blocks": a**-k / right, "steps": k * a**-k / right},
        "prefix": {
            "blocks": (1 + k * (1 - a) / a) / right,
            "steps": (k + (1 - a) / a * k * (k + 1) / 2) / right,
        },
    }
    found: dict[str, Any] = {}
    for way, rule in (("whole", First()), ("prefix", LongestPrefix())):
        whole = way == "whole"
        pipeline = Pipeline(
            Drawing(k, p, whole),
            Erring(T, F),
            rule,
            policy=retry(None),
            block=k,
            done=None if whole else Limit(k),
        )
        rows = []
        for i in range(tasks):
            record = pipeline.record(Task(id=f"{k}-{p}-{i}", input={}))
            value = record.outcome.value
            drawn = sum(len(round.items[0]) if whole else len(round.items) for round in record.rounds)
            rows.append((len(record.rounds), drawn, all(value)))
        blocks, drawn, solved = np.array(rows, float).T
        found[way] = {
            word: {**ratio(spent, solved), "predicted": predicted[way][word]}
            for word, spent in (("blocks", blocks), ("steps", drawn))
        }
        found[way]["solved"] = {**ratio(solved, np.ones(tasks)), "predicted": right}
    return {"k": k, "p": p, "T": T, "F": F, "per solved problem": found}


def ratio(over: np.ndarray, under: np.ndarray) -> dict[str, float]:
    """Σ over / Σ under, with its 95 % interval by bootstrap over tasks."""
    found = bootstrap(
        lambda counts: (
            float((counts * over).sum() / (counts * under).sum()) if (counts * under).sum() else float("nan")
        ),
        range(len(over)),
    )
    return {"measured": found.value, "low": found.low, "high": found.high}


# A real model


class RunningSum:
    """Passes the line that adds the next number to the sum so far, and at the end the line that says the sum."""

    def verify(self, context: Context, proposal: Proposal) -> Verification:
        """One check per step of a chain that goes on behind the accepted ones."""
        wanted = lines_of(context.task.input["question"])[len(context.accepted) :]
        checks = [
            _check(i < len(wanted) and "".join(str(step).split()) == "".join(wanted[i].split()))
            for i, step in enumerate(proposal.items)
        ]
        return Verification(checks=tuple(checks))


def lines_of(question: str) -> list[str]:
    """The lines of a right solution."""
    terms = [
        int(each.replace(" ", ""))
        for each in re.findall(r"[+-]?\s*\d+", question.split(":")[1].split("=")[0])
    ]
    found, total = [], terms[0]
    for term in terms[1:]:
        found.append(f"{total} {'-' if term < 0 else '+'} {abs(term)} = {total + term}")
        total += term
    return [*found, f"The answer is {total}."]


class WholeBy:
    """Passes a solution whose every line passes a verifier of steps."""

    def __init__(self, steps: Any) -> None:
        self.steps = steps

    def verify(self, context: Context, proposal: Proposal) -> Verification:
        """One check per solution; one without an answer is rejected."""
        return Verification(checks=tuple([_check(self._sound(context, item)) for item in proposal.items]))

    def _sound(self, context: Context, item: Mapping[str, Any]) -> bool:
        lines = [line.strip() for line in item["text"].split("\n") if line.strip()]
        lines = lines[: UntilAnswered()(context, tuple(lines)) or 0]
        checks = self.steps.verify(context, Proposal.chain(lines)).checks
        return bool(lines) and all(check.verdict == "pass" for check in checks)


def real(many: int) -> dict[str, Any]:
    """Both ways."""
    tasks = distinct(Gym("chain_sum", size=2 * many, seed=5, config=CONFIG).load())[:many]
    model = Counted(MODEL, dtype="bfloat16")
    found: dict[str, Any] = {"problems": len(tasks)}
    ways: Mapping[str, tuple[Any, Any, Any, Any]] = {
        "whole": (
            SolutionSampler(model, TEMPLATE, form="phrase", **HOW),
            WholeBy(RunningSum()),
            First(),
            None,
        ),
        "prefix": (Steps(model, template=TEMPLATE, **HOW), RunningSum(), LongestPrefix(), UntilAnswered()),
    }
    for way, (generator, verifier, rule, done) in ways.items():
        pipeline = Pipeline(
            generator,
            verifier,
            rule,
            policy=retry(None),
            block=8 if way == "prefix" else 1,
            done=done,
            budget=Budget(rounds=AT_MOST),
        )
        found[f"running sum, {way}"] = summary(model, pipeline, tasks)
        print(way, found[f"running sum, {way}"], flush=True)
    return found


def summary(model: Counted, pipeline: Pipeline, tasks: Sequence[Task]) -> dict[str, Any]:
    """What a way took and solved."""
    read = model.read
    outcomes = list(pipeline.run(tasks))
    solved = np.array([right(task, each) for task, each in zip(tasks, outcomes, strict=True)], float)
    accepted = np.array([each.status == "accepted" for each in outcomes], float)
    sampled = np.array([each.cost for each in outcomes])
    blocks = np.array([each.rounds for each in outcomes], float)
    return {
        "accepted": accepted.mean(),
        "solved": ratio(solved, np.ones(len(tasks))),
        "sampled tokens per solved problem": ratio(sampled, solved),
        "blocks per solved problem": ratio(blocks, solved),
        "read tokens per solved problem": (model.read - read) / max(solved.sum(), 1),
    }


def right(task: Task, outcome: Any) -> bool:
    """Whether the accepted solution, steps or whole, has the right answer."""
    if outcome.status != "accepted":
        return False
    answer = answer_of(answer_text(outcome.value), "phrase")
    return answer is not None and score_answer(task, answer) >= 1


if __name__ == "__main__":
    main()
