"""The language: straight-line programs over 32-bit words, and one NumPy pass that runs a block of them.

A program's text is its steps, `x | y; x & y; t0 - t1`: each an operator between two operands, which are variables, the
constants 0, 1 and -1, or earlier steps (t0, t1, …). Its value is that of the last step. A single operand is a program,
too.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from draftverify import ConfigError

__all__ = ["CONSTANTS", "OPERATORS", "Program", "parse", "run", "sample_states"]

CONSTANTS = ("0", "1", "-1")
OPERATORS = {
    "+": np.add,
    "-": np.subtract,
    "&": np.bitwise_and,
    "|": np.bitwise_or,
    "^": np.bitwise_xor,
    "<<": np.left_shift,
    ">>": np.right_shift,  # of unsigned words: zeros come in
}
CORNERS = (0, 1, 2, 2**31 - 1, 2**31, 2**32 - 1)


class Program(NamedTuple):
    """A program whose operands are numbers of registers: the variables, the constants, then a register for each step.

    Args:
        steps: each the register of the left operand, the operator, and the register of the right one.
        result: the register of the value.
    """

    steps: tuple[tuple[int, str, int], ...]
    result: int


def parse(text: Any, variables: Sequence[str]) -> Program:
    """Read a program's text.

    Raises:
        ConfigError: it is none.
    """
    registers = {name: place for place, name in enumerate((*variables, *CONSTANTS))}
    first, steps = len(registers), []
    lines = text.split("; ") if isinstance(text, str) else []
    try:
        if len(lines) == 1 and lines[0] in registers:
            return Program((), registers[lines[0]])
        for line in lines:
            left, operator, right = line.split(" ")
            OPERATORS[operator]
            steps.append((registers[left], operator, registers[right]))
            registers[f"t{len(steps) - 1}"] = first + len(steps) - 1
    except (KeyError, ValueError):
        steps = []
    if not steps:
        raise ConfigError(
            f"{text!r:.80} is no program over {', '.join(variables)}; write steps like 'x | y; t0 - 1'"
        )
    return Program(tuple(steps), first + len(steps) - 1)


def run(programs: Sequence[Program], states: Any) -> Any:
    """What each program gives in each state; the steps of one place and operator are one call of NumPy.

    Args:
        states: [variables, states], uint32.

    Returns:
        [programs, states].
    """
    constants = np.array([int(name) % 2**32 for name in CONSTANTS], np.uint32)
    first = len(states) + len(constants)
    longest = max((len(program.steps) for program in programs), default=0)
    registers = np.empty((len(programs), first + longest, states.shape[1]), np.uint32)
    registers[:, : len(states)] = states
    registers[:, len(states) : first] = constants[:, None]
    for place in range(longest):
        rows: dict[str, list[int]] = defaultdict(list)
        for row, program in enumerate(programs):
            if place < len(program.steps):
                rows[program.steps[place][1]].append(row)
        for operator, chosen in rows.items():
            left, right = ([programs[row].steps[place][side] for row in chosen] for side in (0, 2))
            operands = registers[chosen, left], registers[chosen, right]
            registers[chosen, first + place] = OPERATORS[operator](*operands)
    return registers[range(len(programs)), [program.result for program in programs]]


def sample_states(task: Mapping[str, Any], count: int, seed: int) -> Any:
    """States in which to try a draft: [variables, count] words, some of them corners; of a loop, states it reaches."""
    variables = task["variables"]
    rng = np.random.default_rng(seed)
    words = rng.integers(0, 2**32, (len(variables), count), dtype=np.uint32)
    corners = rng.choice(np.array(CORNERS, np.uint32), words.shape)
    states = np.where(rng.random(words.shape) < 0.25, corners, words)
    if "body" not in task:
        return states
    moves = [
        [parse(task[part].get(name, name), variables) for name in variables] for part in ("start", "body")
    ]
    guard = parse(task["guard"], variables)
    states = run(moves[0], states)
    for turn in range(8):  # the first states stay at the start, the next go round once, and so on
        goes_on = (np.arange(count) % 8 > turn) & (run([guard], states)[0] != 0)
        states = np.where(goes_on, run(moves[1], states), states)
    return states
