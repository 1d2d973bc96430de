"""EvalPlus' own layout: a test made of inputs and a reference solution, whose results are what is right.

A line of `HumanEvalPlus.jsonl` or `MbppPlus.jsonl` has `base_input` and `plus_input` (lists of calls' arguments, as
JSON has them), `canonical_solution`, and `atol`. Which arguments are tuples, sets or complex numbers, and for which
problems something else than the reference's result is right too, EvalPlus' program says task by task; the tables here
say the same (version 0.3.1: `data/mbpp.py`, `eval/__init__.py`, `eval/_special_oracle.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from draftverify import ConfigError


def is_native(row: Mapping[str, Any]) -> bool:
    """Whether a line is in EvalPlus' own layout."""
    return "base_input" in row or "plus_input" in row


def differential_test(row: Mapping[str, Any], entry_point: str, solution: str, where: str) -> str:
    """A script that compares a program with the reference solution on every input.

    Numbers agree as in EvalPlus: |a − b| ≤ atol + 1e-7 · |b|, where floats that are to be exact have an atol of 1e-6.

    Args:
        row: the line.
        entry_point: the function's name.
        solution: a program that defines it; it runs in the judge's process, which no candidate's code enters.
        where: the line's place, for errors.

    Raises:
        ConfigError: the inputs are no lists of arguments, or not of the shape that this problem's have.
    """
    task = str(row.get("task_id"))
    calls = [*_calls(row, "base_input", where), *_calls(row, "plus_input", where)]
    if not calls:
        raise ConfigError("`base_input` and `plus_input` hold no input", where=where)
    convert = _CONVERSIONS.get(task.removeprefix("Mbpp/"))
    if convert is not None:
        try:
            calls = [convert(call) for call in calls]
        except (TypeError, ValueError, IndexError, AttributeError) as error:
            raise ConfigError(f"the inputs are not those of {task} in MBPP+: {error}", where=where) from error
    atol = row.get("atol") or 0
    if isinstance(atol, bool) or not isinstance(atol, (int, float)):
        raise ConfigError(f"`atol` should be a number, not {atol!r:.80}", where=where)
    right = _ORACLES.get((task.removeprefix("Mbpp/"), entry_point), "agree(got, expected)")
    return _TEST.format(atol=atol, inputs=calls, solution=solution, entry_point=entry_point, right=right)


def _calls(row: Mapping[str, Any], field: str, where: str) -> list[list[Any]]:
    calls = row.get(field) or []  # one problem of MBPP+ has {} for no inputs
    if not isinstance(calls, list) or not all(isinstance(call, list) for call in calls):
        raise ConfigError(f"`{field}` should be a list of lists of arguments, not {calls!r:.80}", where=where)
    return calls


# All of it stands in one function, since a problem's function may be called anything; one is called `check`.
_TEST = """\
def _test(candidate):
    from copy import deepcopy
    from math import inf, nan, sqrt

    atol = {atol!r}
    inputs = {inputs!r}
    program = {{"__name__": "solution"}}
    exec({solution!r}, program)
    reference = program[{entry_point!r}]

    def agree(got, expected):
        if got == expected:
            return True
        many = isinstance(expected, (list, tuple)) and expected
        exact = not all(isinstance(each, float) for each in (many or [expected]))
        tolerance = atol or (0 if exact else 1e-6)
        return tolerance != 0 and type(got) is type(expected) and close(got, expected, tolerance)

    def close(got, expected, tolerance):
        if isinstance(expected, (list, tuple)):
            return len(got) == len(expected) and all(map(close, got, expected, [tolerance] * len(got)))
        return got == expected or abs(got - expected) <= tolerance + 1e-7 * abs(expected)

    for given in inputs:
        expected = reference(*deepcopy(given))
        got = candidate(*deepcopy(given))
        assert {right}


_test({entry_point})
"""

_ORACLES: Mapping[tuple[str, str], str] = {
    ("HumanEval/32", "find_zero"): "abs(sum(c * got ** i for i, c in enumerate(given[0]))) <= atol",
    ("164", "are_equivalent"): "True",  # any answer will do; what raises fails
    ("295", "sum_div"): "got == expected or got == 0",
    ("558", "digit_distance_nums"): "got == expected or got == sum(abs(int(a) - int(b)) for a, b in zip("
    "*(str(each).zfill(max(len(str(n)) for n in given)) for each in given)))",
    ("581", "surface_Area"): "agree(got, expected) or abs(got - round("
    "given[0] ** 2 + 2 * given[0] * sqrt((given[0] / 2) ** 2 + given[1] ** 2))) <= atol",
    **dict.fromkeys(
        (
            *(("2", "similar_elements"), ("7", "find_char_long"), ("111", "common_in_nested_lists")),
            *(("140", "extract_singly"), ("232", "larg_nnum"), ("249", "intersection_array")),
            *(("579", "find_dissimilar"), ("769", "Diff")),
        ),
        "set(got) == set(expected)",
    ),
    **dict.fromkeys(
        (("737", "check_str"), ("787", "text_match_three"), ("794", "text_starta_endb")),
        "(got if isinstance(got, bool) else got is not None) == (expected is not None)",
    ),
}
"""What is right, by problem, where that is not the reference's result alone."""


def _frozen(value: Any) -> Any:
    return tuple(map(_frozen, value)) if isinstance(value, list) else value


def _by_problem(
    *rows: tuple[Callable[[list[Any]], list[Any]], str],
) -> dict[str, Callable[[list[Any]], list[Any]]]:
    return {problem: convert for convert, problems in rows for problem in problems.split()}


_CONVERSIONS = _by_problem(
    (
        lambda call: [tuple(argument) for argument in call],
        "2 116 132 143 222 261 273 394 399 421 424 429 470 560 579 596 616 630 726 740 744 809",
    ),
    (
        lambda call: [[tuple(value) for value in some] for some in call],
        "63 64 70 94 120 237 272 299 400 409 417 438 473 614 780",
    ),
    (lambda call: [[tuple(value) for value in call[0]], *call[1:]], "75 413 444 753"),
    (lambda call: [call[0], tuple(call[1])], "106 750"),
    (lambda call: [tuple(call[0]), *call[1:]], "250 307 405 446 617 720 763 808"),
    (lambda call: list(map(_frozen, call)), "259 401 445 580 615 791"),
    (lambda call: [tuple(tuple(value) if isinstance(value, list) else value for value in call[0])], "278"),
    (lambda call: [{key: tuple(value) for key, value in call[0].items()}, *call[1:]], "722"),
    (lambda call: [[set(value) if isinstance(value, list) and value else {} for value in call[0]]], "115"),
    (lambda call: [float(call[0]), complex(call[1])], "124"),
    (lambda call: [complex(call[0])], "252"),
)
"""What JSON could not say of the arguments, by problem of MBPP+."""
