"""Questions and passages as rows of tokens: one row per window of a long passage, and the best span of each row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from draftverify_llm import readable
from draftverify_retrieval.reading import QuestionPassage

STRIDE = 64
"""How many tokens two windows of a passage share: more than an answer has."""

_QUESTION = 64
"""The most tokens of a question that are read, as in SQuAD's scripts."""


class WindowRow(NamedTuple):
    """One row of a batch.

    Args:
        pair: which pair it belongs to.
        ids, type_ids: token ids and types, special tokens among them.
        offsets: [tokens], where each token stands in the pair's text.
        answers: bool [tokens], whether an answer may begin or end there: tokens of the passage's own text.
    """

    pair: int
    ids: list[int]
    type_ids: list[int]
    offsets: list[tuple[int, int]]
    answers: NDArray[np.bool_]


class Span(NamedTuple):
    """The best span of a row.

    Args:
        score: of its first token as a start plus its last as an end.
        start, end: its place in the pair's text, in characters; None where the row has no token of the passage.
    """

    score: float
    start: int | None
    end: int | None


def rows_of(
    tokenizer: Any, pairs: Sequence[QuestionPassage], longest: int, *, passage_first: bool = False
) -> list[WindowRow]:
    """The windows of pairs, in order.

    Args:
        tokenizer: a Rust tokenizer that neither truncates nor pads.
        pairs: what is read.
        longest: the most tokens in a row.
        passage_first: whether the passage stands before the question, as a premise before its hypothesis.
    """
    question_texts = list(dict.fromkeys(pair.question for pair in pairs))
    questions = dict(zip(question_texts, _encoded(tokenizer, question_texts), strict=True))
    for question in questions.values():
        question.truncate(min(_QUESTION, longest // 2))
    special = tokenizer.num_special_tokens_to_add(True)
    rows = []
    for index, (pair, passage) in enumerate(
        zip(pairs, _encoded(tokenizer, [p.text for p in pairs]), strict=True)
    ):
        question = questions[pair.question]
        room = longest - len(question.ids) - special
        passage.truncate(room, stride=min(STRIDE, room // 2))
        for window in [passage, *passage.overflowing]:
            row = tokenizer.post_process(*((window, question) if passage_first else (question, window)))
            passage_side = 0 if passage_first else 1
            # A token that stands for no character (a mark that a tokenizer adds) cannot be pointed at.
            answers = [
                side == passage_side and pair.begin <= start < end
                for side, (start, end) in zip(row.sequence_ids, row.offsets, strict=True)
            ]
            rows.append(WindowRow(index, row.ids, row.type_ids, row.offsets, np.array(answers, dtype=bool)))
    return rows


def _encoded(tokenizer: Any, texts: Sequence[str]) -> list[Any]:
    return list(tokenizer.encode_batch([readable(text) for text in texts], add_special_tokens=False))


def best_span(
    answers: NDArray[np.bool_],
    offsets: Sequence[tuple[int, int]],
    start: NDArray[np.float32],
    end: NDArray[np.float32],
    longest: int,
) -> Span:
    """The span with the highest sum of its two logits, the shortest and earliest of equal ones.

    Args:
        answers: bool [tokens], where an answer may begin and end.
        offsets: [tokens], the tokens' places in the text.
        start, end: [tokens or more], the logits; read where an answer may stand.
        longest: the most tokens in an answer.

    Returns:
        The span; its score is NaN where a logit is no finite number, and it has no place then.
    """
    places = np.flatnonzero(answers)
    if not len(places):
        return Span(-np.inf, None, None)
    start_token, end_token = places[0], places[-1] + 1
    allowed = answers[start_token:end_token]
    if not np.isfinite([start[start_token:end_token][allowed], end[start_token:end_token][allowed]]).all():
        return Span(np.nan, None, None)
    begins = np.where(allowed, start[start_token:end_token], -np.inf)
    ends = np.where(allowed, end[start_token:end_token], -np.inf)
    # Diagonal by diagonal: of equal sums the shortest span counts, and of these the earliest.
    sums = [begins[: len(begins) - length] + ends[length:] for length in range(min(longest, len(begins)))]
    length = int(np.argmax([diagonal.max() for diagonal in sums]))
    place = int(sums[length].argmax())
    first, last = start_token + place, start_token + place + length
    return Span(float(sums[length][place]), int(offsets[first][0]), int(offsets[last][1]))
