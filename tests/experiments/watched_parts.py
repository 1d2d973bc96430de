"""Parts that change from some task on: answers that are right or wrong, and steps with which the checker goes on."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from draftverify import Check, Context, Proposal, Task, Verification
from draftverify.traits import GeneratorTraits, VerifierTraits


class Numbers:
    """Tasks 0, 1, 2, …, whose answers are their numbers.

    Args:
        count: how many.
        unlabelled: the truth of every other one is not known.
    """

    def __init__(self, count: int, unlabelled: bool = False) -> None:
        self.count = count
        self.unlabelled = unlabelled

    def load(self) -> list[Task]:
        """The tasks."""
        known = [not (self.unlabelled and n % 2) for n in range(self.count)]
        return [
            Task(id=f"t{n}", input={"n": n}, expected={"answer": n} if known[n] else {})
            for n in range(self.count)
        ]


class Guesses:
    """Answers, each right with a chance.

    Args:
        right: that chance.
        then: the same from task `turns` on.
        turns: its number.
        log: a file to which a line is added at each call.
    """

    traits = GeneratorTraits(shape="alternatives", reads=frozenset[str]())

    def __init__(
        self, right: float = 0.7, then: float = 0.7, turns: int = 0, log: Path | None = None
    ) -> None:
        self.right = right
        self.then = then
        self.turns = turns
        self.log = log

    def propose(self, context: Context, n: int) -> Proposal:
        """The task's number, or another one below 0."""
        number = context.task.input["n"]
        if self.log is not None:
            with open(self.log, "a") as log:
                log.write(f"{number}\n")
        chance = self.right if number < self.turns else self.then
        right = [u < chance for u in context.draws.uniforms(range(n))]
        return Proposal.alternatives([number if right[i] else -1 - i for i in range(n)])


class Judge:
    """Passes right answers with one chance and wrong ones with another.

    Args:
        right: the chance of a right one.
        wrong: of a wrong one.
        then: of a wrong one from task `turns` on.
        turns: its number.
        scores: right answers score .9, wrong ones .3, whatever is passed.
    """

    def __init__(
        self,
        right: float = 0.95,
        wrong: float = 0.1,
        then: float = 0.1,
        turns: int = 0,
        scores: bool = False,
    ) -> None:
        self.scores = scores
        self.traits = VerifierTraits(
            provides={"verdicts", "scores"} if scores else {"verdicts"}, reads=frozenset()
        )
        self.right = right
        self.wrong = wrong
        self.then = then
        self.turns = turns

    def verify(self, context: Context, proposal: Proposal) -> Verification:
        """One check per item."""
        number = context.task.input["n"]
        wrong = self.wrong if number < self.turns else self.then
        draws = context.draws.uniforms(range(len(proposal)))
        passed = [
            draws[i] < (self.right if item == number else wrong) for i, item in enumerate(proposal.items)
        ]
        score = [(0.9 if item == number else 0.3) if self.scores else None for item in proposal.items]
        checks = [Check("pass" if each else "reject", score=score[i]) for i, each in enumerate(passed)]
        return Verification(checks=tuple(checks))


class Steps(Guesses):
    """The same as the steps of a plan, each the task's number."""

    traits = replace(Guesses.traits, shape="chain")

    def propose(self, context: Context, n: int) -> Proposal:
        """A chain of them."""
        return Proposal.chain(super().propose(context, n).items)


class Machine:
    """Passes right steps up to the first wrong one, and goes on with a right one itself."""

    traits = VerifierTraits(reads=frozenset[str](), plain_steps=True)

    def verify(self, context: Context, proposal: Proposal) -> Verification:
        """One check per step, and the step that follows those that pass."""
        number = context.task.input["n"]
        kept = next((i for i, item in enumerate(proposal.items) if item != number), len(proposal))
        verdicts = ["pass"] * kept + ["reject"] * (kept < len(proposal))
        verdicts += ["unchecked"] * (len(proposal) - len(verdicts))
        return Verification(checks=tuple([Check(each) for each in verdicts]), correction=(number,))  # type: ignore[arg-type]
