"""Random cases of one task's loop: the engine does what the model says that was written from the page alone."""

from __future__ import annotations

import random
import zlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

import draftverify as dv
from draftverify.rules import All, First, Limit, LongestPrefix, Majority, Rounds
from draftverify.traits import VerifierTraits

from . import policy_model as model


class ScriptedError(Exception):
    """A part fails as the script says."""


def _in_words(check: model.Check) -> str:
    return check.verdict if check.score is None else f"{check.verdict} at {check.score}"


@dataclass
class ScriptedWorld:
    """Answers as a function of the case's seed, the round, the call within it and the role; logs what was shown."""

    case: model.Case
    log: list[str] = field(default_factory=list)
    calls: Counter[tuple[str, int]] = field(default_factory=Counter)

    def _script(self, role: str, round: int) -> random.Random:
        self.calls[role, round] += 1
        return random.Random(
            zlib.crc32(f"{self.case.seed} {role} {round} {self.calls[role, round]}".encode())
        )

    def _odds(self, name: str, *choices: float) -> float:
        """One of the choices, for the whole case."""
        return random.Random(f"{self.case.seed} {name}").choice(choices)

    def _fail(self, script: random.Random, odds: float, part: str) -> None:
        if script.random() < odds:
            error = TimeoutError("scripted") if script.random() < 0.4 else ScriptedError("scripted")
            self.log.append(f"    a {model.kind(error)} of the {part}")
            raise error

    def draft(
        self, role: str, round: int, n: int, feedback: Sequence[model.Told], refused: Sequence[int]
    ) -> model.Draft:
        told = [(word.item, word.words) for word in feedback]
        self.log.append(f"round {round}: {role} drafts {n}, feedback {told}, refused {list(refused)}")
        script = self._script(role, round)
        self._fail(script, self._odds("draft fails", 0, 0.1, 0.4), "draft")
        last = script.random() < self._odds("last", 0, 0.05, 0.3)
        short = script.random() < self._odds("short", 0.1, 0.5)
        count = script.randint(0, n) if short else n
        return model.Draft(tuple(script.randint(0, 9) for _ in range(count)), last)

    def verify(self, round: int, items: Sequence[int]) -> list[model.Check]:
        self.log.append(f"round {round}: the verifier is shown {list(items)}")
        script = self._script("verifier", round)
        self._fail(script, self._odds("verifier fails", 0, 0.05, 0.3), "verifier")
        checks = [self._check(script, item) for item in items]
        self.log[-1] += f" and says {', '.join(_in_words(check) for check in checks)}"
        return checks

    def _check(self, script: random.Random, item: int) -> model.Check:
        verdicts = ("pass", "reject", "error", "timeout", "abstain")
        weights = self._odds("pass", 0.1, 0.3, 0.6), 0.4, *[self._odds("failed checks", 0, 0.05, 0.2)] * 3
        (verdict,) = script.choices(verdicts, weights)
        scored = script.random() < self._odds("scored", 0, 0.5, 1) or self.case.threshold is not None
        score = script.randint(0, 4) / 4 if scored else None
        return model.Check(verdict, score, f"{verdict} of {item}", f"says {script.randint(0, 99)}")

    def rule(self, round: int) -> bool:
        script = self._script("rule", round)
        self._fail(script, self._odds("rule fails", 0, 0, 0.1), "rule")
        if abstains := self.case.may_abstain and script.random() < 0.05:
            self.log.append("    the rule says that there is no answer")
        return abstains

    def done(self, round: int) -> None:
        self._fail(self._script("done", round), self._odds("done fails", 0, 0, 0.1), "done")

    def ask(self, candidate: int | None) -> tuple[str, int | None]:
        self.log.append(f"a person is asked about {candidate}")
        script = self._script("person", 0)
        answers = ("accept", "edit", "reject", "skip")
        (answer,) = script.choices(answers, (3, 4, 1, 1))
        if candidate is None and answer == "accept":
            answer = "edit"
        edited = script.randint(0, 9) if answer == "edit" else None
        self.log[-1] += f": {answer}" + ("" if edited is None else f" {edited}")
        return answer, edited


class Drafter:
    """The world's generator, or one of its fallbacks."""

    def __init__(self, world: ScriptedWorld, role: str, shape: Any) -> None:
        self.world, self.role, self.shape = world, role, shape

    def propose(self, context: dv.Context, n: int) -> dv.Proposal:
        feedback = [model.Told(word.item, word.reason, word.feedback) for word in context.feedback]
        draft = self.world.draft(self.role, context.round, n, feedback, context.refused)
        make = dv.Proposal.chain if self.shape == "chain" else dv.Proposal.alternatives
        return make(draft.items, exhausted=draft.last)


class Judge:
    """The world's verifier."""

    traits = VerifierTraits(provides={"verdicts", "scores"})

    def __init__(self, world: ScriptedWorld) -> None:
        self.world = world

    def verify(self, context: dv.Context, proposal: dv.Proposal) -> dv.Verification:
        checks = self.world.verify(context.round, proposal.items)
        return dv.Verification(
            checks=tuple([dv.Check(c.verdict, c.score, c.reason, c.words) for c in checks])  # type: ignore[arg-type]
        )


class ScriptedRule:
    """A rule that fails, or says that there is no answer, where the world says so."""

    def __init__(self, world: ScriptedWorld, rule: Any) -> None:
        self.world, self.rule = world, rule
        self.traits = replace(rule.traits, abstains=world.case.may_abstain)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "rule":
            raise AttributeError(name)
        return getattr(self.rule, name)

    def decide(
        self, context: dv.Context, proposal: dv.Proposal, verification: dv.Verification, rng: dv.Draws
    ) -> dv.Decision:
        if self.world.rule(context.round):
            return dv.Decision(abstain=True)
        decision: dv.Decision = self.rule.decide(context, proposal, verification, rng)
        return decision


def build(case: model.Case, world: ScriptedWorld) -> dv.Pipeline:
    """The case's pipeline on the world."""
    rules: dict[str, Any] = {
        "All": lambda: All(case.threshold),
        "First": lambda: First(case.enough, threshold=case.threshold),
        "LongestPrefix": LongestPrefix,
        "Majority": Majority,
    }
    stop: Any = {"Rounds": Rounds, "Limit": Limit}[case.done[0]](case.done[1])

    def done(context: dv.Context, new: tuple[Any, ...]) -> int | None:
        world.done(context.round)
        count: int | None = stop(context, new)
        return count

    policy = dv.Policy()
    for place, clause in enumerate(case.clauses):
        answers: dict[str, Any] = {"on": clause.on, "partial": clause.partial}
        if clause.do == "fallback":
            answers |= {"rounds": clause.rounds, "verified": clause.verified, "name": f"fallback {place}"}
            generator = Drafter(world, f"fallback {place}", case.shape)
            policy = policy.then(dv.fallback(generator, times=clause.times, **answers))
        elif clause.do in ("escalate", "give_up"):
            policy = policy.then(getattr(dv, clause.do)(**answers))
        else:
            step = {"regenerate": dv.retry, "feedback": dv.feedback, "reverify": dv.reverify}[clause.do]
            policy = policy.then(step(clause.times, **answers))
    return dv.Pipeline(
        Drafter(world, "generator", case.shape),
        Judge(world),
        ScriptedRule(world, rules[case.rule]()),
        policy=policy,
        block=case.block,
        done=done,
        budget=dv.Budget(rounds=case.rounds, verifier_calls=case.verifier_calls),
    )


def random_case(seed: int) -> model.Case:
    """The case of a seed."""
    r = random.Random(seed)
    shape = r.choice(("chain", "alternatives", "alternatives"))
    rule = "LongestPrefix" if shape == "chain" else r.choice(("All", "All", "First", "First", "Majority"))
    ons: Any = [(), (), ("reject",), ("error",), ("timeout",), ("abstain",), ("exhausted",)]
    ons += [("error", "timeout"), ("reject", "exhausted"), ("error", "timeout", "abstain")]
    checks: Any = [
        ("error", "timeout"),
        ("error",),
        ("timeout",),
        ("abstain",),
        ("error", "timeout", "abstain"),
    ]
    dos = ("regenerate", "feedback", "feedback", "reverify", "fallback", "escalate", "escalate", "give_up")
    clauses = [
        model.Clause(
            do=(do := r.choice(dos)),
            on=r.choice(checks if do == "reverify" else ons),
            times=r.choice((1, 1, 2, 3, None)),
            partial=r.random() < 0.35,
            rounds=r.choice((1, 2, None)),
            verified=r.random() < 0.7,
        )
        for _ in range(r.randint(0, 5))
    ]
    endless = any(clause.do == "reverify" and clause.times is None for clause in clauses)
    return model.Case(
        seed=seed,
        shape=shape,
        rule=rule,
        done=("Limit", r.randint(1, 6))
        if r.random() < 0.5 and rule != "Majority"
        else ("Rounds", r.randint(1, 8)),
        block=r.randint(1, 4),
        rounds=r.choice((4, 12)),
        verifier_calls=r.choice((None, None, 3, 6)) or (6 if endless else None),
        clauses=tuple(clauses),
        enough=r.choice((1, 1, 3)) if rule == "First" else 1,
        threshold=0.4 if rule in ("All", "First") and r.random() < 0.2 else None,
        may_abstain=r.random() < 0.3,
    )


def by_model(case: model.Case) -> list[str]:
    """What happens in the model, as lines."""
    world = ScriptedWorld(case)
    task = model.Model(case, world)
    ending = task.run()
    rounds = [
        f"round {round.number}: of {round.source}, items {list(round.items)}, trouble {list(round.trouble)}, "
        f"steps {round.steps}, emitted {list(round.emitted)}"
        for round in task.rounds
    ]
    return [*world.log, *rounds, *_ending(ending.status, ending.value, ending.refused, ending.failure)]


def by_engine(case: model.Case) -> list[str]:
    """What happens in the engine, as lines."""
    world = ScriptedWorld(case)

    def person(request: dv.Ask) -> dv.Answer | None:
        answer, value = world.ask(None if request.candidate is None else request.candidate.value)
        if answer == "skip":
            return dv.Answer("skip") if case.seed % 2 else None
        return dv.Answer(answer, value)  # type: ignore[arg-type]

    record = build(case, world).record("task", ask=person)
    rounds = [
        f"round {round.index}: of {round.source}, items {list(round.items)}, trouble {list(round.trouble)}, "
        f"steps {[(step.clause, step.do, step.on) for step in round.steps]}, "
        f"emitted {list(round.decision.emitted)}"
        for round in record.rounds
    ]
    outcome = record.outcome
    refused = None if outcome.refused is None else outcome.refused.value
    failure = "" if outcome.failure is None else outcome.failure.kind
    return [*world.log, *rounds, *_ending(outcome.status, outcome.value, refused, failure)]


def _ending(status: str, value: Any, refused: int | None, failure: str) -> list[str]:
    return [f"ends {status}", f"value {value}", f"refused {refused}", f"failure {failure!r}"]


def difference(case: model.Case) -> str:
    """The case and both accounts of it, for people, where they differ; else ""."""
    expected, got = by_model(case), by_engine(case)
    if expected == got:
        return ""
    pairs = list(zip(expected, got, strict=False))
    same = next((k for k, pair in enumerate(pairs) if pair[0] != pair[1]), len(pairs))
    lines = [f"{name}={getattr(case, name)!r}" for name in case.__dataclass_fields__ if name != "clauses"]
    lines = [", ".join(lines), *[f"  clause {place}: {clause}" for place, clause in enumerate(case.clauses)]]
    lines += ["  both:", *[f"    {line}" for line in expected[:same]]]
    lines += ["  the model:", *[f"    {line}" for line in expected[same:]]]
    return "\n".join([*lines, "  the engine:", *[f"    {line}" for line in got[same:]]])


def differences(seeds: range) -> str:
    """All of them, the short ones first."""
    return "\n\n".join(sorted(filter(None, map(difference, map(random_case, seeds))), key=len)[:5])


@pytest.mark.parametrize("seeds", [range(150), range(150, 300)], ids=str)
def test_the_engine_does_what_the_page_says(seeds: range) -> None:
    """In 300 random cases, round by round: items, troubles, steps, what was shown to whom, and the ending."""
    assert (found := differences(seeds)) == "", found


@pytest.mark.exhaustive
@pytest.mark.parametrize("seeds", [range(k, k + 500) for k in range(300, 5300, 500)], ids=str)
def test_the_engine_does_what_the_page_says_in_many_cases(seeds: range) -> None:
    """The same in 5,000 random cases."""
    assert (found := differences(seeds)) == "", found
