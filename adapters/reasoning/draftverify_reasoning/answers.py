r"""The final answer of a worked solution: found in its text, brought into one form, compared.

`extract` finds it, `normalised` gives it the one form in which equal answers are equal texts, so that a vote may count
texts. What a model writes is hostile input here: everything takes time linear in the text, whatever the text is.

Conventions are GSM8K's: "$1,000.00", "1000 dollars", "1,000." and "1e3" are the answer 1000, and "50%" is 50.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from typing import Literal, TypeAlias

Form: TypeAlias = Literal["gsm8k", "boxed", "tag", "phrase", "last_number", "auto"]
"""How a solution says its answer; see `extract`."""

FORMS: tuple[Form, ...] = ("gsm8k", "boxed", "tag", "phrase", "last_number")
"""The forms that "auto" tries, in the order in which they are trusted; but a line that begins with "A:" comes after
the phrase, since many a solution begins so."""

LONGEST = 1000  # characters of an answer that is read as a number or as LaTeX; a longer one is text
EXPONENT = 1000  # the largest exponent that is read: 1e999999999 is a text


def extract(text: str, form: Form = "auto") -> str | None:
    r"""The final answer in a solution's text as it stands there, or None where there is none in this form.

    Of several the last counts; one that is cut off (a brace or a tag never closed) is none.

    Args:
        text: the whole solution.
        form: "gsm8k": the rest of the line after "####", or of one that begins with "A:".
            "boxed": what stands in ``\boxed{…}``, nested braces and all.
            "tag": what stands in <answer>…</answer>.
            "phrase": what follows "the answer is", "answer:" or "answer =": a number where one comes first, else the
            sentence up to its reasons ("because", "since").
            "last_number": the last number of the text, with its sign; any text with a number has one.
            "auto": the first of these, in this order, that finds one; a line that begins with "A:" after the phrase.

    Returns:
        The answer without surrounding white space, never empty.
    """
    if form == "auto":
        return next((answer for find in _TRUSTED if (answer := find(text))), None)
    return _FORMS[form](text) or None


def normalised(answer: str) -> str:
    r"""The one form of an answer: equal answers have equal ones.

    A number is written in lowest terms: "1000", "0.5", and "1/3" where no decimal is exact. Commas between groups of
    three, currency signs, a percent sign, a unit after it and LaTeX around it are dropped; thousand, million, billion,
    trillion and dozen count. Anything else is text: case, white space, quotes, LaTeX's spacing and a closing full stop
    do not matter. `normalised(normalised(x)) == normalised(x)`.
    """
    text = _folded(answer)
    for _ in range(50):
        if len(text) > LONGEST:
            return text
        value = number(text)
        if value is not None:
            return _written(value)
        plain = _folded(_undressed(text))
        if plain == text:
            plain = _folded(_spaced(text))
        if plain == text:
            break
        text = plain
    return text


def same(left: str, right: str) -> bool:
    """Whether two answers are the same: numbers by value (1,000 = 1000.0, 1/2 = 0.5), others as normalised texts."""
    return normalised(left) == normalised(right)


_DIGITS = r"(?:[0-9]{1,3}(?:,[0-9]{3})+(?![0-9])|[0-9]+)"
_DECIMAL = rf"(?:{_DIGITS}(?:\.[0-9]*)?|\.[0-9]+)"
# Of a unit: cm², m/s^2.
_POWER = r"[²³]|\^\{?[23]\}?"
_QUANTITY = re.compile(
    rf"""(?P<sign>[-+−–]?)\s*[$€£¥]?\s*(?P<inner>[-+−–]?)
    (?:(?P<whole>[0-9]+)\s+(?P<part>[0-9]+)\s*/\s*(?P<parts>[0-9]+)
      |(?P<over>{_DECIMAL}(?:e[-+−]?[0-9]+)?)(?:\s*/\s*(?P<under>-?{_DECIMAL}))?)
    (?P<gap>\s*)[%$€£¥]?(?P<unit>(?:[a-z](?:{_POWER})?|[°/.\s-])*)""",
    re.VERBOSE | re.IGNORECASE,
)
_SCALES = {"thousand": 10**3, "million": 10**6, "billion": 10**9, "trillion": 10**12, "dozen": 12}
_NO_UNITS = frozenset(
    {"pi", "sqrt", "and", "or", "to", "plus", "minus", "times", "over", "mod", "remainder", "am", "pm"}
)
_SYMBOLS = frozenset(
    {"m", "cm", "mm", "km", "mi", "in", "ft", "g", "kg", "mg", "lb", "lbs", "oz", "l", "ml", "mph", "kmh"}
    | {"h", "hr", "hrs", "min", "mins", "s", "sec", "secs", "usd", "eur", "°c", "°f"}
)
_THOUSANDS = re.compile(r"(?<=[0-9])[ '’_](?=[0-9]{3}(?![0-9]|\s*/))")
"""What stands between groups of three digits beside a comma."""


def number(text: str) -> Fraction | None:
    """The value of a text that is one number and no more than a currency sign, a percent sign or a unit beside it.

    None for any other, and for a number of more digits or a larger exponent than are ever an answer.
    """
    if len(text) > LONGEST or not (match := _QUANTITY.fullmatch(_THOUSANDS.sub("", text.strip()))):
        return None
    scale = _scale(match["unit"], glued=not match["gap"] and not match["unit"][:1].isspace())
    if scale is None or (match["sign"] and match["inner"]):
        return None
    if match["whole"]:
        over, under = _decimal(match["part"]), _decimal(match["parts"])
        integer = Fraction(int(match["whole"]))
    else:
        over, under = _decimal(match["over"]), _decimal(match["under"] or "1")
        integer = Fraction(0)
    if over is None or not under:
        return None
    value = (integer + over / under) * scale
    return -value if {match["sign"], match["inner"]} & {"-", "−", "–"} else value


def _scale(unit: str, glued: bool) -> int | None:
    """What the words after a number multiply it by; None where they are no unit, as in "3 pi"."""
    units = [word for word in re.split(r"[\s/.-]+", re.sub(_POWER, "", unit.casefold())) if word]
    if not units:
        return 1 if not unit.strip(" .") else None
    if glued and "".join(units) not in _SYMBOLS and units[0] != "°":
        return None
    if "".join(units) in _NO_UNITS:  # "3 a.m." too
        return None
    if any(
        unit_word in _NO_UNITS or (len(unit_word) == 1 and unit_word not in _SYMBOLS | {"a", "°"})
        for unit_word in units
    ):
        return None
    return _SCALES.get(units[0], 1)


def _decimal(text: str) -> Fraction | None:
    mantissa, _, exponent = text.replace(",", "").replace("−", "-").casefold().partition("e")
    if len(exponent) > 6 or abs(int(exponent or 0)) > EXPONENT:
        return None
    return Fraction(mantissa.rstrip(".")) * Fraction(10) ** int(exponent or 0)


def _written(value: Fraction) -> str:
    cofactor, places = value.denominator, [0, 0]
    for index, prime in enumerate((2, 5)):
        while cofactor % prime == 0:
            cofactor //= prime
            places[index] += 1
    shift = max(places)
    if cofactor != 1 or shift > EXPONENT:
        return f"{value.numerator}/{value.denominator}"
    if not shift:
        return str(value.numerator)
    digits = str(abs(value.numerator) * 10**shift // value.denominator).rjust(shift + 1, "0")
    return f"{'-' if value < 0 else ''}{digits[:-shift]}.{digits[-shift:]}"


def _folded(text: str) -> str:
    text = " ".join(text.casefold().split())
    return text.lstrip(" =:#*_`\"'$").rstrip(" =:;,.!?*_`\"'$")


_DROPPED = re.compile(
    r"\\(?:left|right|displaystyle|big)(?![a-z])|\\[!,;: ()\[\]$]|\^\{?\\circ\}?|\\degree(?![a-z])"
    r"|^(?:(?:option|choice) (?=\W?[a-z]\W?$)|(?:approximately|about|roughly|around|[≈~]|\\approx) ?(?=[-−$€£¥.0-9]))"
)
_POWER_OF_TEN = re.compile(
    r"(?<=[0-9]) ?(?:\\times|\\cdot|[×x*]) ?10 ?\^ ?(?:\{([-+−]?[0-9]+)\}|([-+−]?[0-9]+))"
)
_VULGAR = re.compile("[¼-¾⅐-⅞]")
_WRAPPED = re.compile(r"\\(?:text|textbf|textit|mathrm|mathbf|mbox|boxed|fbox)\s*\{([^{}]*)\}")
_FRACTION = re.compile(r"\\[dtc]?frac(?:\s*\{([^{}]*)\}\s*\{([^{}]*)\}|\s*([0-9])\s*([0-9]))")
_TERM = re.compile(r"\s*-?[^\W_]+(?:\.[0-9]+)?\s*")
_ENCLOSED = re.compile(r"\(([^(),]*)\)|\{([^{},]*)\}")
_EQUATION = re.compile(r"[a-z]\s*=\s*(?=\S)([^=]*)$")


def _undressed(text: str) -> str:
    """One layer of LaTeX, or of brackets around the whole, taken off."""
    text = _DROPPED.sub("", text).replace("\\%", "%").replace("{,}", ",")
    text = _WRAPPED.sub(r" \1 ", text)
    text = _FRACTION.sub(_quotient, text)
    text = _VULGAR.sub(lambda match: " " + unicodedata.normalize("NFKC", match[0]).replace("⁄", "/"), text)
    text = _POWER_OF_TEN.sub(lambda match: f"e{match[1] or match[2]}", text)
    if enclosed := _ENCLOSED.fullmatch(text):
        text = enclosed[1] or enclosed[2] or ""
    if equation := _EQUATION.match(text):  # "x = 5" answers as "5" does
        text = equation[1]
    return text


def _spaced(text: str) -> str:
    """The one spacing of a text that is no number: "100,200" was one, and "100, 200" must not become it."""
    text = re.sub(r" *, *", ", ", text)
    return re.sub(r" *([^\w\s,]) *", r"\1", text)


def _quotient(match: re.Match[str]) -> str:
    over, under = (match[1], match[2]) if match[1] is not None else (match[3], match[4])
    over, under = (term if _TERM.fullmatch(term) else f"({term})" for term in (over, under))
    return (
        f" {over}/{under}" if re.fullmatch(r".*[0-9]", match.string[: match.start()]) else f"{over}/{under}"
    )


_HASHES = re.compile(r"####([^\n]*)")
_A_LINE = re.compile(r"^[ \t]*A:([^\n]*)", re.MULTILINE)


def _gsm8k(text: str) -> str:
    return _last_line(_HASHES, text) or _last_line(_A_LINE, text)


def _last_line(pattern: re.Pattern[str], text: str) -> str:
    """The last rest of a line that is no white space."""
    lines = [line for match in pattern.finditer(text) if (line := match[1].strip())]
    return lines[-1] if lines else ""


_BRACES = re.compile(r"\\(?:boxed|fbox)\s*\{|\\.|[{}]", re.DOTALL)


def _boxed(text: str) -> str:
    opened: list[int | None] = []
    answer = ""
    for match in _BRACES.finditer(text):
        token = match[0]
        if token[-1] == "{" and token != "\\{":
            opened.append(match.end() if token[0] == "\\" else None)
        elif token == "}" and opened:
            start = opened.pop()
            if start is not None and (inside := text[start : match.start()].strip()):
                answer = inside
    return answer


_TAGS = re.compile(r"<(/?)answer>", re.IGNORECASE)


def _tag(text: str) -> str:
    answer, start = "", None
    for match in _TAGS.finditer(text):
        if not match[1]:
            start = match.end()
        elif start is not None:
            answer, start = text[start : match.start()].strip() or answer, None
    return answer


_PHRASE = re.compile(
    r"""\banswer\b["'*_]{0,4}(?:[ \t]{1,4}(?:to|of|for)[ \t][^.:=\n]{1,40}?)?[ \t]{0,4}
    (?:\b(?:is|are|was|will\ be|would\ be|should\ be)\b[ \t]{0,4}[:=]?|[:=])
    ["'*_]{0,4}(?P<gap>\s{0,8})(?=(?P<said>[^\n]{1,300}))""",
    re.IGNORECASE | re.VERBOSE,
)


def _phrase(text: str) -> str:
    for match in reversed([*_PHRASE.finditer(text)]):
        answer = _sentence(match["said"])
        # On the next line stands an answer where it is a number, and else the beginning of more.
        if (plain := normalised(answer)) and ("\n" not in match["gap"] or number(plain) is not None):
            return answer
    return ""


def _sentence(text: str) -> str:
    """The answer at the beginning of a sentence: its number, or the sentence up to its reasons; emphasis taken off."""
    answer = re.split(r"""\.(?=\s|$|["'*])|["'](?=\s*[,}]|\s*$)""", text, maxsplit=1)[0].strip(" \t*_`\"'")
    answer = answer if "{" in answer else answer.partition("}")[0].strip()  # the end of an object of JSON
    if answer.casefold().startswith("not "):  # "the answer is not clear"
        return ""
    if number(_folded(answer)) is None:
        for clause in _CLAUSE.finditer(answer):
            head = answer[: clause.start()].strip(" \t*_`\"'")
            if clause["reason"] or number(_folded(head)) is not None:
                return head
    return answer


_CLAUSE = re.compile(
    r"(?P<reason>,?\s(?:because|since)\b)|(?:[,;]|\sand\b)\s(?!\W{0,3}[0-9])|\s\(|\s(?:as|so|which|but|not|where|for)\b",
    re.IGNORECASE,
)


_NUMBERS = re.compile(
    rf"(?<![\w.,])(?:(?<![-−)\]}}])[-−])?[$€£¥]?{_DIGITS}(?:\.[0-9]+)?(?:/[0-9]+(?![\w/]))?%?"
    rf"|(?<![\w.,])-?\.[0-9]+"
)


def _last_number(text: str) -> str:
    answer = ""
    for match in _NUMBERS.finditer(text):
        answer = match[0]
    return answer


_FORMS: dict[Form, Callable[[str], str]] = {
    "gsm8k": _gsm8k,
    "boxed": _boxed,
    "tag": _tag,
    "phrase": _phrase,
    "last_number": _last_number,
}
_TRUSTED: tuple[Callable[[str], str], ...] = (
    partial(_last_line, _HASHES), _boxed, _tag, _phrase, partial(_last_line, _A_LINE), _last_number,
)  # fmt: skip
