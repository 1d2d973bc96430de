"""Answers that a scorer evaluates: several of reasoning-gym's call `eval` or sympy's `parse_expr`, which evaluates too,
on what a model wrote. What could run as a program, or be too large to work out, must not come to them.
"""

from __future__ import annotations

import ast
import inspect
import math
import re
from collections.abc import Callable
from typing import Any

LONGEST = 10_000  # characters of an answer that is evaluated
BITS = 10_000  # of a number that is worked out
EXPONENT_BITS = 7
_GROWING = frozenset({"exp", "sinh", "cosh"})
_FUNCTIONS = _GROWING | {
    "sin", "cos", "tan", "sec", "csc", "cot", "asin", "acos", "atan", "tanh", "asinh", "acosh", "atanh", "log", "ln",
    "sqrt", "Abs",
}  # fmt: skip


def evaluating(scorer: Callable[..., Any]) -> str:
    """How a scorer evaluates answers, by its source: "python", "sympy", or "" where it does not."""
    try:
        source = inspect.getsource(scorer)
    except (OSError, TypeError):
        return "python"  # there is no telling, so as if it did
    calls = set(re.findall(r"\b(eval|exec|parse_expr|sympify)\(", source))
    if calls & {"parse_expr", "sympify"}:
        parse = getattr(scorer, "__globals__", {}).get("parse_expr")
        if parse is None or str(getattr(parse, "__module__", "")).startswith("sympy"):
            return "sympy"
    return "python" if calls & {"eval", "exec"} else ""


def harmless(answer: str, evaluator: str) -> bool:
    """Whether evaluating an answer can do no more than work out a value of bounded size.

    Allowed are numbers, texts, names, lists and the like, sums, products, powers, and the elementary functions. A text
    that is no expression stops Python's `eval` at once; sympy makes programs of some ("5!"), so it gets none.

    Args:
        answer: what a model wrote.
        evaluator: as of `evaluating`.
    """
    if len(answer) > LONGEST:
        return False
    try:
        _bits(ast.parse(answer.strip(), mode="eval").body)
    except (SyntaxError, ValueError):
        return evaluator == "python"
    except (RecursionError, MemoryError, _Harmful):
        return False
    return True


class _Harmful(Exception):
    """An expression that is not to be evaluated."""


def _bits(node: ast.AST, *, number: bool = False) -> int:
    """The most bits that the value may have; of what is no number none.

    Args:
        node: of an expression.
        number: whether it stands where only a number may.

    Raises:
        _Harmful: it calls, reads or builds what it should not.
    """
    bits = BITS + 1
    match node:
        case ast.List(elts=parts) | ast.Tuple(elts=parts) | ast.Set(elts=parts) if not number:
            bits = max(map(_bits, parts), default=0)
        case ast.Dict(keys=keys, values=values) if not number:
            bits = max([_bits(part) for part in (*keys, *values) if part is not None], default=0)
        case ast.Name():
            bits = 1
        case ast.Constant(value=int() | float() as value):
            bits = max(int(abs(value)).bit_length(), 1) if abs(value) < math.inf else bits
        case ast.Constant() if not number:
            bits = 0
        case ast.UnaryOp(op=ast.UAdd() | ast.USub(), operand=operand):
            bits = _bits(operand, number=True)
        case ast.BinOp(
            left=left, op=ast.Add() | ast.Sub() | ast.Mult() | ast.Div() | ast.Pow() as op, right=right
        ):
            left_bits, right_bits = _bits(left, number=True), _bits(right, number=True)
            if not isinstance(op, ast.Pow):
                bits = left_bits + right_bits
            elif right_bits <= EXPONENT_BITS:
                bits = left_bits << right_bits
        case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]) if name in _FUNCTIONS:
            inside = sum(_bits(argument, number=True) for argument in arguments)
            if name not in _GROWING:
                bits = inside
            elif inside <= EXPONENT_BITS:
                bits = 2 << inside
    if bits > BITS:
        raise _Harmful
    return bits
