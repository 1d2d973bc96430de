"""Stated calculations: which are found, whether they hold, and what is passed over because it cannot be read."""

from __future__ import annotations

import time
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from draftverify import Check, Proposal
from draftverify.kit import make_context
from draftverify_reasoning import Arithmetic, statements


def check(*items: object, **given: object) -> list[Check]:
    verifier = Arithmetic(**given)  # type: ignore[arg-type]
    return list(verifier.verify(make_context("q"), Proposal.chain(items)).checks)


TRUE = [
    "3 + 4 = 7",
    "<<3+4=7>>7",
    "16 - 3 - 4 = <<16-3-4=9>>9 eggs",
    "9 × 2 = $18 a day",
    "$9 * 2 = $18",
    "3 x 4 = 12",
    "12 ÷ 4 = 3",
    "20% of 50 = 10",
    "3/4 = 75%",
    "3 / 4 * 100 = 75%",
    "10/3 = 3.33",
    "10/3 = 3.333333333333",
    "2/3 = 0.66",
    "10/3 ≈ 3",
    "0.1 + 0.2 = 0.30000000000000004",
    "(1 + 2) * (3 - 1) = 6",
    "2(3 + 4) = 14",
    "2^10 = 1024",
    "2**3 = 8",
    "2^{1+2} = 8",
    "-3 + 5 = 2",
    "3 - -2 = 5",
    "- 3 + 4 = 7",
    "1. 3 + 4 = 7",
    "**3 + 4 = 7**",
    "1,000 + 500 = 1,500",
    "3 apples + 4 apples = 7 apples",
    "y = 3 + 4 = 7",
    "2 * 3 + 4 = 6 + 4 = 10",
    r"\frac{1}{2} \cdot 6 = 3",
    r"$2\frac{1}{2} \times 2 = 5$",
    r"\(20\% \text{ of } 50 = 10\)",
    "3 + 4 = 7 - so it is seven",
]

WRONG = {
    "3 + 4 = 8": "7",
    "<<3+4=8>>7": "7",
    "16 - 3 - 4 = 10 eggs": "9",
    "20% of 50 = 12": "10",
    "10/3 = 3": "3.33333",
    "10/3 = 3.34": "3.33333",
    "2 * 3 + 4 = 6 + 4 = 11": "10",
    "so 5 - 2 = 4 left": "3",
    r"\frac{1}{2} \times 6 = 4": "3",
    "**3 + 4 = 8**": "7",
}

UNREADABLE = [
    "nothing at all",
    "x = 5",
    "7 = 7",
    "20 dozen = 20 × 12",
    "2x + 3 = 13",
    "x + 3 + 4 = 9",
    "3 y + 2 = 11",
    "3 + 4 = 7x",
    "3 + 4 = 2 + y",
    "f(3) + 1 = 3",
    "P(3) = 1/6",
    "1 1/2 + 1 = 2.5",
    "1 hour + 30 minutes = 90 minutes",
    "100 + 20% = 120",
    "63 ÷ 5 = 12 remainder 3",
    "5! + 1 = 6",
    "1/0 = 3",
    "9^9^9^9 = 1",
    "((1 + 2 = 3",
    "1.2.3 + 1 = 2",
]


@pytest.mark.parametrize("text", TRUE)
def test_what_holds_passes(text: str) -> None:
    """Signs, brackets, percentages, units, LaTeX and rounding to the decimals shown."""
    assert check(text)[0].verdict == "pass"


@pytest.mark.parametrize("text", WRONG)
def test_what_does_not_hold_is_rejected_with_its_value(text: str) -> None:
    """The feedback names the first wrong one and what it is."""
    (found,) = check(text)
    assert (found.verdict, found.reason) == ("reject", "wrong calculation")
    assert found.feedback.endswith(f" is {WRONG[text]}")


@pytest.mark.parametrize("text", UNREADABLE)
def test_what_cannot_be_read_for_certain_is_no_statement(text: str) -> None:
    """Variables, functions, mixed units and bare equations are passed over, and nothing is made up about them."""
    assert list(statements(text)) == []
    (found,) = check(text)
    assert (found.verdict, found.reason) == ("abstain", "no calculation is stated")
    assert check(text, silent="pass")[0].verdict == "pass"


def test_each_step_is_judged_by_itself_and_the_first_wrong_statement_is_named() -> None:
    """A wrong step does not touch its neighbours; what is no text is that step's error."""
    steps = ["3 + 4 = 7", "so 7 * 2 = 15, and 15 - 1 = 13", "words", 7]
    found = check(*steps)
    assert [each.verdict for each in found] == ["pass", "reject", "abstain", "error"]
    assert "7 * 2 is 14" in found[1].feedback


def test_the_tolerance_is_relative() -> None:
    """A result nearly right passes where it is asked for."""
    assert check("1000 * 2 = 2001")[0].verdict == "reject"
    assert check("1000 * 2 = 2001", tolerance=0.001)[0].verdict == "pass"


@given(st.integers(-999, 999), st.integers(-999, 999), st.sampled_from("+-*"), st.integers(-3, 3))
def test_agrees_with_exact_arithmetic(a: int, b: int, sign: str, off: int) -> None:
    """Whatever the numbers, a statement holds exactly when it is true."""
    true = {"+": a + b, "-": a - b, "*": a * b}[sign]
    (found,) = statements(f"So {a} {sign} {b} = {true + off} in all.")
    assert (found.holds, found.value) == (off == 0, Fraction(true))


@given(st.text("0123456789+-*/=()^%.,<>x $\\{}\n", max_size=80) | st.text(max_size=80))
def test_any_text_is_read_without_a_crash(text: str) -> None:
    """Every statement found has a left side that stands in it."""
    for each in statements(text):
        assert each.left in each.text


HOSTILE = {
    "one long sum": "1+" * 100_000 + "1=1\n",
    "many statements": "1+1=2 " * 50_000,
    "long statements": ("1+" * 25 + "1=26 ") * 8000,
    "parentheses": "(" * 200_000 + "=1",
    "deep parentheses": "(" * 50 + "1+1" + ")" * 50 + "=2",
    "powers": "2^" * 1000 + "2=1",
    "a tower": "9^64^64=1",
    "products": "9999999999*" * 25 + "9=1",
    "equals signs": "=" * 200_000,
    "notes": "<<" * 100_000,
    "emphasis": "**" * 100_000,
    "digits": "9" * 100_000 + "+1=2",
    "fractions": r"\frac{" * 30_000,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_texts_take_no_time(name: str) -> None:
    """Sizes are bounded, and nothing is evaluated that could grow."""
    start = time.process_time()
    found = list(statements(HOSTILE[name]))
    assert time.process_time() - start < 5
    assert len(found) <= 1000
