"""Answers as they are compared: SQuAD's normalisation, exact match and token F1, and what an outcome's answers are.

References:
    Rajpurkar et al., SQuAD: 100,000+ questions for machine comprehension of text, EMNLP 2016; Know what you don't know
    (SQuAD 2.0), ACL 2018, and the evaluation scripts of both.
"""

from __future__ import annotations

import string
import unicodedata
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import regex

from draftverify import ContractError, Outcome

_ARTICLES = regex.compile(r"\b(?:a|an|the)\b")
_MARKS = regex.compile(r"(\p{M}{30})\p{M}+")
"""Longer runs of combining marks are no writing (UAX #15 allows 30), and putting them in order is quadratic."""


def normalised(text: str) -> str:
    """An answer as SQuAD's script compares it: lower case, no punctuation, no articles, single spaces.

    Of ASCII texts that is what the script does. Of others it also composes accents (NFC), folds case as Unicode has it,
    leaves out every punctuation mark of Unicode and what cannot be seen (soft hyphens, zero-width spaces).

    Examples:
        >>> normalised("The  Panthers’ “Thieves Avenue”.")
        'panthers thieves avenue'
    """
    folded = unicodedata.normalize("NFD", _MARKS.sub(r"\1", text)).casefold()
    visible = "".join([c for c in unicodedata.normalize("NFC", folded) if not _is_left_out(c)])
    return " ".join(_ARTICLES.sub(" ", visible).split())


@lru_cache(maxsize=4096)
def _is_left_out(character: str) -> bool:
    category = unicodedata.category(character)
    return character in string.punctuation or category[0] == "P" or category == "Cf"


def exact_match(answer: str | None, answers: Sequence[str]) -> float:
    """1 where the answer is one of the right ones, normalised; else 0.

    Args:
        answer: None for an abstention.
        answers: the right ones; none at all where the question has no answer: then an abstention alone is right.
    """
    return _best(answer, answers, lambda text, right: float(normalised(text) == normalised(right)))


def f1(answer: str | None, answers: Sequence[str]) -> float:
    """F1 of the answer's words, normalised, against those of the right answer that it fits best.

    Where no word is left of one of the two, it is 1 if none is left of both, else 0. The arguments are `exact_match`'s.
    """
    return _best(answer, answers, _f1)


def _best(answer: str | None, answers: Sequence[str], score: Callable[[str, str], float]) -> float:
    if answer is None or not answers:
        return float(answer is None and not answers)
    return max(score(answer, right) for right in answers)


def _f1(answer: str, right: str) -> float:
    have, want = normalised(answer).split(), normalised(right).split()
    if not have or not want:
        return float(have == want)
    common = (Counter(have) & Counter(want)).total()
    return 2.0 * common / (len(have) + len(want))


def holds_answer(text: str, answers: Sequence[str]) -> bool:
    """Whether one of the answers stands in a text, as whole words, both normalised."""
    padded = f" {normalised(text)} "
    return any(f" {phrase} " in padded for phrase in map(normalised, answers) if phrase)


def answer_of(value: Any) -> str:
    """One value of an outcome as an answer: a text; of a mapping its `answer`, else its `text`; a number as written.

    Raises:
        ContractError: it is none of these.
    """
    if isinstance(value, Mapping):
        value = value.get("answer", value.get("text"))
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, str):
        raise ContractError(
            f"an answer is a text, or a mapping with `answer` or `text`; the outcome has {value!r:.80}"
        )
    return value


def values_of(outcome: Outcome) -> tuple[Any, ...]:
    """What was accepted, in its order: the values of a tuple, or the one value; nothing of an outcome that was not."""
    if outcome.status != "accepted" or outcome.value is None:
        return ()
    return tuple(outcome.value) if isinstance(outcome.value, (list, tuple)) else (outcome.value,)
