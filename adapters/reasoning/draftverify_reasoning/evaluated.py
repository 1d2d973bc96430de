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

__all__ = ["evaluating", "harmless"]

LONGEST = 10_000  # characters of an answer that is evaluated
BITS = 10_000  # of a number that is worked out
EXPONENT_BITS = 7
_GROWING = frozenset({"exp", "sinh", "cosh"})
_FUNCTIONS = _GROWING | {
    "sin",
    "cos",
    "tan",
    "sec",
    "csc",
    "cot",
    "asin",
    "acos",
    "atan",
    "tanh",
    "asinh",
    "acosh",
}
_FUNCTIONS |= {"atanh", "log", "ln", "sqrt", "Abs"}
_NUMERIC = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.Pow)


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
        tree = ast.parse(answer.strip(), mode="eval")
    except (SyntaxError, ValueError):
        return evaluator == "python"
    except (RecursionError, MemoryError):
        return False
    try:
        _weigh(tree.body)
    except (_Harmful, RecursionError):
        return False
    return True


class _Harmful(Exception):
    """An expression that is not to be evaluated."""


def _weigh(node: ast.AST) -> int:
    """The most bits that the value may have; of what is no number none.

    Raises:
        _Harmful: it calls, reads or builds what it should not.
    """
    if isinstance(node, (ast.List, ast.Tuple, ast.Set)):
        return max([_weigh(element) for element in node.elts], default=0)
    if isinstance(node, ast.Dict):
        return max(
            [_weigh(element) for element in (*node.keys, *node.values) if element is not None], default=0
        )
    if isinstance(node, ast.Constant):
        return _number(node) if isinstance(node.value, (int, float)) else 0
    return _number(node)


def _number(node: ast.AST) -> int:
    bits = BITS + 1
    if isinstance(node, ast.Name):
        bits = 1
    elif (
        isinstance(node, ast.Constant) and isinstance(node.value, (int, float)) and math.isfinite(node.value)
    ):
        bits = max(int(abs(node.value)).bit_length(), 1)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.UAdd, ast.USub)):
        bits = _number(node.operand)
    elif isinstance(node, ast.BinOp) and isinstance(node.op, _NUMERIC):
        left_bits, right_bits = _number(node.left), _number(node.right)
        bits = left_bits + right_bits
        if isinstance(node.op, ast.Pow):
            bits = left_bits << right_bits if right_bits <= EXPONENT_BITS else BITS + 1
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.keywords:
        inside = sum(map(_number, node.args))
        if node.func.id in _FUNCTIONS:
            grows = node.func.id in _GROWING
            bits = 2 << inside if grows and inside <= EXPONENT_BITS else BITS + 1 if grows else inside
    if bits > BITS:
        raise _Harmful
    return bits
