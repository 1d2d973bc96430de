"""The drafter: every program over a task's variables, the short ones first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import combinations, permutations

from draftverify import Context, GeneratorTraits, Proposal
from draftverify_proofs.programs import parse

__all__ = ["Enumeration"]

UNARY = ("-1 ^ {}", "0 - {}", "{} + 1", "{} - 1", "{} & 1", "{} | 1", "{} << 1", "{} >> 1")


class Enumeration:
    """Proposes programs as alternatives, each step of use to a later one; of a rewrite, only shorter ones.

    Args:
        longest: the most steps.
    """

    traits = GeneratorTraits(shape="alternatives", drafts_from="list")

    def __init__(self, longest: int = 2) -> None:
        self.longest = longest

    def default_block(self) -> int:
        """Many: running one more costs microseconds."""
        return 256

    def propose(self, context: Context, n: int) -> Proposal:
        """The next `n` programs."""
        task = context.task.input
        variables, longest = tuple(task["variables"]), self.longest
        if "program" in task:
            longest = min(longest, len(parse(task["program"], variables).steps) - 1)
        drafts, end = _programs(variables, longest), context.drafted + n
        return Proposal.alternatives(drafts[context.drafted : end], exhausted=end >= len(drafts))


@lru_cache(maxsize=16)
def _programs(variables: tuple[str, ...], longest: int) -> tuple[str, ...]:
    texts = list(variables) if longest >= 0 else []
    for length in range(1, longest + 1):
        texts += map("; ".join, _extended([], variables, frozenset(), length))
    return tuple(texts)


def _extended(
    steps: Sequence[str], operands: tuple[str, ...], unused: frozenset[str], left: int
) -> Iterator[list[str]]:
    """The programs that go on with so many more steps, and use all earlier ones."""
    if not left:
        yield list(steps)
        return
    name = f"t{len(steps)}"
    for step, used in _steps(operands):
        still = unused - used
        if len(still) < left:  # a step takes up two values and gives one
            yield from _extended([*steps, step], (*operands, name), still | {name}, left - 1)


def _steps(operands: Sequence[str]) -> Iterator[tuple[str, frozenset[str]]]:
    for a in operands:
        yield from ((form.format(a), frozenset((a,))) for form in UNARY)
    for a, b in combinations(operands, 2):
        yield from ((f"{a} {operator} {b}", frozenset((a, b))) for operator in "+&|^")
    for a, b in permutations(operands, 2):
        yield f"{a} - {b}", frozenset((a, b))
