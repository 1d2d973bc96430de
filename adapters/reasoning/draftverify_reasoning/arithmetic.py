r"""The calculations that a text states, read by a small grammar and worked out exactly: `reasoning.arithmetic`.

A statement is "left = right" with a calculation on its left: "3 + 4 = 7", "<<3+4=7>>", "20% of 50 = 10",
"$9 × 2 = $18", ``\frac{1}{2} \cdot 6 = 3``. What cannot be read for certain (variables, functions, mixed units) is
passed over: it is no statement. Nothing is evaluated but numbers of bounded size, in time linear in the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Literal, NamedTuple

from draftverify import PASS, Check, Context, Proposal, Verification
from draftverify_reasoning.checking import check_solutions
from draftverify_reasoning.solutions import solution_text

__all__ = ["Arithmetic", "Statement", "statements"]

LONGEST = 200_000  # characters of a text; what follows is not read
MOST = 1000  # statements of a text
WIDEST = 60  # tokens of one side
DEEPEST = 20  # parentheses in one another
DIGITS = 60  # of a number, and, in bits times four, of what is worked out


class Statement(NamedTuple):
    """One stated calculation.

    Args:
        text: as it stands, white space made plain.
        left: its left side.
        holds: whether both sides are equal, up to the rounding that the decimals show.
        value: what the left side is.
    """

    text: str
    left: str
    holds: bool
    value: Fraction


class Arithmetic:
    """Checks every calculation that a solution or a step states: "3 + 4 = 7", with + - × ÷ ^, parentheses, %, decimals.

    All hold: pass. One does not: reject, with the first wrong one and its value as feedback. None is stated: abstain.
    Each step of a chain is judged by itself.

    **It says nothing of whether the solution is right**: models that fail a problem nearly always calculate correctly
    what they should not have calculated. On recorded solutions of GSM8K it passes almost all wrong ones
    (docs/reasoning.md has the figures). It is a check of steps, not a verifier of answers.

    Args:
        silent: what it says of a text that states no calculation; "pass" for chains of steps in which some steps are
            words alone.
        tolerance: the relative error that is let pass beyond the rounding that the stated decimals show.
    """

    reads: frozenset[str] = frozenset()

    def __init__(self, silent: Literal["abstain", "pass"] = "abstain", tolerance: float = 1e-9) -> None:
        self.silent = silent
        self.tolerance = tolerance

    def verify(self, context: Context, proposal: Proposal) -> Verification:
        """One check per solution or step."""
        return check_solutions(proposal, lambda item: self._check(solution_text(item)))

    def _check(self, text: str) -> Check:
        found = False
        for each in statements(text, self.tolerance):
            if not each.holds:
                said = f"{each.text!r} is wrong: {each.left} is {_shown(each.value)}"
                return Check("reject", reason="wrong calculation", feedback=said)
            found = True
        return PASS if found or self.silent == "pass" else Check("abstain", reason="no calculation is stated")


def statements(text: str, tolerance: float = 1e-9) -> Iterator[Statement]:
    """The calculations that a text states, those in <<…>> first, the others in their order."""
    text = _plain(text[:LONGEST])
    made = 0
    noted = [each[1] for each in _NOTES.finditer(text)]
    for line in [*noted, *_NOTES.sub(" ", text).split("\n")]:
        tokens = _tokens(line)
        for place, token in enumerate(tokens):
            if token.kind == "=":
                if made == MOST:
                    return
                made += 1
                if (found := _statement(tokens, place, tolerance)) is not None:
                    yield found


class _Token(NamedTuple):
    kind: str  # "number", "word", "=", "+", "-", "*", "/", "^", "(", ")", "?" (anything else)
    text: str
    glued: bool  # no white space before it


class _Unreadable(Exception):
    """What stands here is no calculation that can be read for certain."""


_NO_UNITS = frozenset(
    {"is", "are", "was", "were", "equals", "equal", "gives", "makes", "and", "or", "so", "then"}
    | {"plus", "minus", "times", "divided", "mod"}
)
_NOTES = re.compile(r"<<([^<>\n]{0,200})>>")
_TOKEN = re.compile(
    r"(?P<number>(?:[0-9]{1,3}(?:,[0-9]{3})+(?![0-9])|[0-9]+)(?:\.[0-9]+)?%?|\.[0-9]+%?)"
    r"|(?P<word>[^\W\d_]+)|(?P<other>\*\*|\S)"
)
_OPERATORS = {
    "+": "+",
    "-": "-",
    "−": "-",
    "–": "-",
    "*": "*",
    "×": "*",
    "·": "*",
    "⋅": "*",
    "/": "/",
    "÷": "/",
}
_OPERATORS |= {"^": "^", "**": "^", "=": "=", "≈": "=", "(": "(", ")": ")"}
_SIGNS = {
    r"\times": "×",
    r"\cdot": "×",
    r"\div": "÷",
    r"\approx": "≈",
    r"\left": "",
    r"\right": "",
    r"\%": "%",
}
_LATEX = re.compile(r"\\(?:times|cdot|div|approx|left|right|%)(?![a-z])")
_FRACTION = re.compile(r"\\[dt]?frac\{([^{}\n]{1,80})\}\{([^{}\n]{1,80})\}")
_TEXT = re.compile(r"\\(?:text|mathrm)\{([^{}\n]{0,80})\}")
_MIXED = re.compile(r"(?<![0-9.])([0-9]{1,12})[ \t]?\\[dt]?frac\{([0-9]{1,12})\}\{([0-9]{1,12})\}")
_POWER = re.compile(r"\^\{([^{}\n]{1,80})\}")
_EMPHASIS = re.compile(r"(?<![0-9)])(?<![0-9)] )\*\*|\*\*(?! ?[0-9(])")  # and no power: 2**3
_PUNCTUATION = re.compile(r"\\[()\[\]!,;: ]|\\?\$|[{}]|`")


def _plain(text: str) -> str:
    """LaTeX and Markdown made plain signs; bullets at the beginning of lines taken away."""
    text = _TEXT.sub(r" \1 ", text.replace("{,}", ","))
    text = _POWER.sub(r"^(\1)", _MIXED.sub(r"(\1+\2/\3)", text))
    text = _FRACTION.sub(r"((\1)/(\2))", _FRACTION.sub(r"((\1)/(\2))", text))
    text = _LATEX.sub(lambda found: _SIGNS[found[0]], text)
    return re.sub(
        r"^[ \t]*[-*•][ \t]+", "", _EMPHASIS.sub("", _PUNCTUATION.sub("", text)), flags=re.MULTILINE
    )


def _tokens(line: str) -> list[_Token]:
    found: list[_Token] = []
    end = 0
    for each in _TOKEN.finditer(line):
        said = each[0]
        if each["number"] is not None:
            kind = "number"
        elif each["word"] is not None:
            kind = "word"
        else:
            kind = _OPERATORS.get(said, "?")
        found.append(_Token(kind, said, each.start() == end and bool(found)))
        end = each.end()
    return [_times(found, place) for place in range(len(found))]


def _times(tokens: Sequence[_Token], place: int) -> _Token:
    """The token; an "x" between two numbers is a sign, and so is "of" after a percentage."""
    token = tokens[place]
    if token.kind != "word" or not 0 < place < len(tokens) - 1:
        return token
    before, after = tokens[place - 1], tokens[place + 1]
    if token.text in ("x", "X") and before.kind in ("number", "word", ")") and after.kind in ("number", "("):
        return token._replace(kind="*")
    if token.text == "of" and before.text.endswith("%") and after.kind in ("number", "("):
        return token._replace(kind="*")
    return token


def _statement(tokens: Sequence[_Token], equals: int, tolerance: float) -> Statement | None:
    """The statement around an equals sign; None where one side cannot be read, or nothing is calculated."""
    left = _left(tokens, equals)
    try:
        right = _Reader(tokens[equals + 1 : equals + 1 + WIDEST])
        if left is None or right.expression() is None or not left.signs:
            return None
        _whole_right(tokens[equals + 1 + right.place :][:2])
    except (_Unreadable, IndexError):
        return None
    rounded = tokens[equals].text == "≈"
    pairs = [(left.value(percent), right.value(percent)) for percent in (True, False)]
    holds = any(_equal(a, b, right, tolerance, rounded) for a, b in pairs)
    if not holds and len(left.units | right.units) > 1:
        return None  # "1 hour + 30 minutes = 90 minutes": what is added up is not the numbers
    stop = equals + 1 + right.place
    text = _said(tokens[left.start : stop])
    return Statement(text, _said(tokens[left.start : equals]), holds, pairs[0][0])


def _said(tokens: Sequence[_Token]) -> str:
    return "".join(
        token.text if token.glued and place else f" {token.text}" for place, token in enumerate(tokens)
    ).strip()


def _whole_right(after: Sequence[_Token]) -> None:
    """Raises: _Unreadable: what follows a right side goes on with it: "= 2x", "= 5 + y"."""
    if not after:
        return
    first = after[0]
    operand = len(after) > 1 and (after[1].kind == "word" or after[1].text == "\\")
    if (first.glued and first.kind == "word") or (
        first.kind in "+-*/^" and operand and len(after[1].text) == 1
    ):
        raise _Unreadable
    if first.text.casefold() in ("!", "_", "\\", "r", "remainder") or (
        first.kind == "?" and first.text == ":" and len(after) > 1
    ):
        raise _Unreadable


def _left(tokens: Sequence[_Token], equals: int) -> _Reader | None:
    """The longest calculation that ends at an equals sign."""
    low = equals
    while low > 0 and equals - low < WIDEST and tokens[low - 1].kind not in ("=", "?"):
        low -= 1
    if equals - low == WIDEST:
        return None
    for start in range(low, equals):
        if not _may_start(tokens, start):
            continue
        reader = _Reader(tokens[start:equals], start)
        try:
            if reader.expression() is not None and reader.place == equals - start:
                return reader
        except (_Unreadable, IndexError):
            pass
    return None


def _may_start(tokens: Sequence[_Token], start: int) -> bool:
    token = tokens[start]
    if token.kind not in ("number", "(", "-"):
        return False
    if start == 0:
        return True
    before = tokens[start - 1]
    if token.glued and (before.kind in ("word", "number", ")") or before.text in (".", "_", "\\", "!", "/")):
        return False  # f(3), x2, 1.2.3
    if before.kind in ("+", "-", "*", "/", "^", "(", "number", ")"):
        return False  # the rest of something longer
    # "a - 3 + 4" begins with a name, or with a dash; "is -3 + 4" with a negative number
    return not (token.kind == "-" and before.kind == "word" and not tokens[start + 1].glued)


class _Value(NamedTuple):
    shares: Fraction  # percentages as shares
    plain: Fraction  # percentages as the numbers before the sign
    percent: bool


class _Reader:
    """Reads one side by recursive descent; `place` stands behind what was read."""

    def __init__(self, tokens: Sequence[_Token], start: int = 0) -> None:
        self.tokens = tokens
        self.start = start
        self.place = 0
        self.signs = 0
        self.decimals = 0
        self.units: set[str] = set()
        self._found: _Value | None = None
        self._depth = 0

    def value(self, shares: bool) -> Fraction:
        assert self._found is not None
        return self._found.shares if shares else self._found.plain

    def expression(self) -> _Value | None:
        """The whole side: a sum.

        Raises:
            _Unreadable, IndexError: it is none.
        """
        self._found = self._sum()
        return self._found

    def _kind(self, ahead: int = 0) -> str:
        place = self.place + ahead
        return self.tokens[place].kind if place < len(self.tokens) else ""

    def _sum(self) -> _Value:
        total = self._product()
        while self._kind() in ("+", "-") and self._operand_follows():
            sign = 1 if self._kind() == "+" else -1
            self._sign()
            other = self._product()
            if other.percent != total.percent:
                raise _Unreadable  # "100 + 20%": of what?
            total = _Value(
                total.shares + sign * other.shares, total.plain + sign * other.plain, total.percent
            )
        return total

    def _product(self) -> _Value:
        total = self._power()
        while self._kind() in ("*", "/", "("):
            if self._kind() == "(":
                if not self.tokens[self.place].glued or self.tokens[self.place - 1].kind == "word":
                    break
                kind = "*"
                self.signs += 1
            elif self._operand_follows():
                kind = self._kind()
                self._sign()
            else:
                break
            other = self._power()
            if kind == "/" and not (other.shares and other.plain):
                raise _Unreadable
            pairs = ((total.shares, other.shares), (total.plain, other.plain))
            shares, plain = (_bounded(a * b if kind == "*" else a / b) for a, b in pairs)
            total = _Value(shares, plain, False)
        return total

    def _power(self) -> _Value:
        base = self._operand()
        if self._kind() != "^":
            return base
        self._sign()
        power = self._power().shares
        if power.denominator != 1 or abs(power) > 64 or (power < 0 and not base.shares):
            raise _Unreadable
        raised = _bounded(base.shares**power.numerator)
        return _Value(raised, raised, False)

    def _operand(self) -> _Value:
        if self._kind() in ("+", "-"):
            sign = 1 if self._kind() == "+" else -1
            self.place += 1
            if self._kind() not in ("number", "("):
                raise _Unreadable
            found = self._operand()
            return _Value(sign * found.shares, sign * found.plain, found.percent)
        token = self.tokens[self.place]
        self.place += 1
        if token.kind == "(":
            self._depth += 1
            if self._depth > DEEPEST:
                raise _Unreadable
            found = self._sum()
            self._depth -= 1
            if self._kind() != ")":
                raise _Unreadable
            self.place += 1
        elif token.kind == "number" and len(token.text) <= DIGITS:
            digits = token.text.rstrip("%").replace(",", "")
            self.decimals = max(self.decimals, len(digits.partition(".")[2]))
            plain = Fraction(digits)
            percent = token.text.endswith("%")
            found = _Value(plain / 100 if percent else plain, plain, percent)
        else:
            raise _Unreadable
        self._unit()
        return found

    def _unit(self) -> None:
        """Steps over the words that name what is counted, where the calculation goes on after them or ends there."""
        ahead = 0
        while ahead < 3 and self._kind(ahead) == "word":
            word = self.tokens[self.place + ahead].text
            if word == "a" and self._kind(ahead + 1) == "word":
                break  # "18 a day"
            glued = self.tokens[self.place + ahead].glued and not ahead
            if len(word) == 1 or word.casefold() in _NO_UNITS or glued:
                raise _Unreadable  # a variable, or a sentence: 3 x, 2ab, 3 is
            ahead += 1
        if ahead and self._kind(ahead) in ("+", "-", "*", "/", ")", ""):
            self.units.add(self.tokens[self.place + ahead - 1].text.casefold().rstrip("s"))
            self.place += ahead

    def _operand_follows(self) -> bool:
        """Whether an operand stands behind the sign here; else the sign is punctuation, or stands before a variable."""
        after = self._kind(1)
        return after in ("number", "(") or (after in ("+", "-") and self._kind(2) in ("number", "("))

    def _sign(self) -> None:
        self.place += 1
        self.signs += 1


def _bounded(value: Fraction) -> Fraction:
    if max(value.numerator.bit_length(), value.denominator.bit_length()) > 4 * DIGITS * 4:
        raise _Unreadable
    return value


def _equal(a: Fraction, b: Fraction, right: _Reader, tolerance: float, rounded: bool) -> bool:
    error = abs(a - b)
    if error <= Fraction(tolerance) * max(abs(a), abs(b)):
        return True
    if rounded and error <= max(abs(a) / 100, Fraction(1, 2)):
        return True
    # A stated number may be rounded or cut off after its decimals; one without decimals is meant exactly.
    if right.signs or not right.decimals:
        return False
    last = Fraction(1, 10**right.decimals)
    return error <= last / 2 or (error < last and abs(b) < abs(a))


def _shown(value: Fraction) -> str:
    if value.denominator == 1 and value.numerator.bit_length() < 200:
        return str(value.numerator)
    return f"{float(value):.6g}"
