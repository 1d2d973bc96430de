"""The checks, from cheap to dear: states that refute a whole block in one pass, and z3's proof for all states.

Of a rewrite (`program` in the task) an item has to give the same value everywhere. Of a loop (`start`, `guard`, `body`
and `holds`) an item p is read as the invariant p = 0: it has to be 0 at the start, to stay 0 round the loop, and to
make `holds` 0 where the guard is 0 and the loop ends.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import z3

from draftverify import (
    PASS,
    UNCHECKED,
    Check,
    ConfigError,
    Context,
    Proposal,
    Verification,
    VerifierTraits,
)
from draftverify_proofs.programs import CONSTANTS, Program, parse, run, sample_states

__all__ = ["Proved", "Tested", "differing"]

TERMS = {
    "+": operator.add,
    "-": operator.sub,
    "&": operator.and_,
    "|": operator.or_,
    "^": operator.xor,
    "<<": operator.lshift,
    ">>": z3.LShR,
}
NO_PROGRAM = Check("reject", reason="no program")
REFUTED = Check("reject", reason="refuted by a test")
UNDECIDED = Check("abstain", reason="z3 reached its limit")


class Tested:
    """Refutes programs that are wrong in one of some states. What it passes is not proved: `proofs.proved` comes next.

    Args:
        inputs: how many states.
        seed: of the states.
    """

    traits = VerifierTraits(name="tested")

    def __init__(self, inputs: int = 64, seed: int = 0) -> None:
        self.inputs = inputs
        self.seed = seed

    def verify(self, context: Context, proposal: Proposal) -> Verification:
        """All items in all states, in one pass."""
        programs = _readable(proposal.items, context.task.input["variables"])
        wrong = differing(context.task.input, list(programs.values()), self.inputs, self.seed)
        checks = [NO_PROGRAM] * len(proposal)
        for place, is_wrong in zip(programs, wrong, strict=True):
            checks[place] = REFUTED if is_wrong else PASS
        return Verification(checks=tuple(checks))


class Proved:
    """Passes programs that z3 proves right in all states; where it reaches its limit, it abstains.

    Args:
        effort: the most that z3 may spend on one question, in its own units: another machine answers the same.
    """

    traits = VerifierTraits(name="proved")

    def __init__(self, effort: int = 5_000_000) -> None:
        self.effort = effort

    def verify(self, context: Context, proposal: Proposal) -> Verification:
        """One item after the other, in order, until enough are proved."""
        task = context.task.input
        solver = z3.Solver(ctx=z3.Context())  # of this call alone: z3's objects are not for two threads
        solver.set("rlimit", self.effort)
        checks = [NO_PROGRAM] * len(proposal)
        for place, program in _readable(proposal.items, task["variables"]).items():
            enough = context.enough is not None and checks.count(PASS) >= context.enough
            checks[place] = UNCHECKED if enough else _prove(solver, task, program)
        return Verification(checks=tuple(checks))


def differing(task: Mapping[str, Any], programs: Sequence[Program], inputs: int, seed: int) -> Any:
    """Of each program, whether it is wrong in one of the sampled states: [programs] truth values."""
    states = sample_states(task, inputs, seed)
    wanted = run([parse(task["program"], task["variables"])], states) if "program" in task else 0
    return (run(programs, states) != wanted).any(axis=1)


def _readable(items: Sequence[Any], variables: Sequence[str]) -> dict[int, Program]:
    """The programs among the items, by their places."""
    programs = {}
    for place, item in enumerate(items):
        try:
            programs[place] = parse(item, variables)
        except ConfigError:
            continue
    return programs


def _prove(solver: Any, task: Mapping[str, Any], program: Program) -> Check:
    """Whether z3 finds no state in which one of the claims on a program fails."""
    for reason, refutation in _refutations(solver.ctx, task, program):
        solver.push()
        solver.add(refutation)
        answer = solver.check()
        solver.pop()
        if answer != z3.unsat:
            return Check("reject", reason=reason) if answer == z3.sat else UNDECIDED
    return PASS


def _refutations(ctx: Any, task: Mapping[str, Any], program: Program) -> Iterator[tuple[str, Any]]:
    """Of each claim on a program, what is wrong where it fails, and the formula of a state in which it fails."""
    names = task["variables"]
    state = {name: z3.BitVec(name, 32, ctx) for name in names}

    def value(of: Program | str, state: Mapping[str, Any]) -> Any:
        """A program as a term of z3."""
        registers = [*state.values(), *(z3.BitVecVal(int(name), 32, ctx) for name in CONSTANTS)]
        steps, result = parse(of, names) if isinstance(of, str) else of
        for left, name, right in steps:
            registers.append(TERMS[name](registers[left], registers[right]))
        return registers[result]

    if "program" in task:
        yield "refuted by z3", value(program, state) != value(task["program"], state)
        return
    start, body = (
        {name: value(task[part].get(name, name), state) for name in names} for part in ("start", "body")
    )
    holds, goes_on = value(program, state) == 0, value(task["guard"], state) != 0
    yield "not at the start", value(program, start) != 0
    yield "not kept by the loop", z3.And(holds, goes_on, value(program, body) != 0)
    yield "too weak at the end", z3.And(holds, z3.Not(goes_on), value(task["holds"], state) != 0)
