"""How a judge's verdict is read from a model: from the first token's probabilities where it tells them, else the reply.

A reply has a verdict where it is one of the words, or begins with one that ends there ("B.", "Answer A: …", "yes,
because …"), or has it in double square brackets, [[A]]. A reply that begins with one and has another in brackets has
none. Anything else is prose, and prose is no verdict.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from operator import itemgetter
from typing import NamedTuple

import numpy as np

from draftverify import ResourceError
from draftverify.errors import EndpointError, EndpointTimeout
from draftverify.exchanges import Exchange, ModelReply, Turn
from draftverify_llm.first_token import FirstToken, first_tokens
from draftverify_llm.local import LocalModel
from draftverify_llm.text import TextModel, exchange_of, model_traits

_SHOWN = 400
"""Characters of a reply that are kept."""


class VerdictReply(NamedTuple):
    """What a model said, as a verdict.

    Args:
        verdict: the place of the word that it chose; None where it chose none.
        logprobs: of the words, by the first token; () where the model does not tell them.
        why: of no word, "no verdict", "cut off", "too long", "error" or "timeout".
        text: the reply, or its first token.
        cost: what it cost.
        exchange: what was asked, and the reply whole.
    """

    verdict: int | None
    logprobs: tuple[float, ...] = ()
    why: str = ""
    text: str = ""
    cost: float = 0.0
    exchange: Exchange | None = None


def ask(
    model: TextModel, prompts: Sequence[str], verdicts: Sequence[str], max_tokens: int, *, whole: bool = False
) -> list[VerdictReply]:
    """Ask a model for one of the words, at temperature 0; the same prompt is asked once.

    A local model's first token is read, in padded passes over all prompts; another completes each prompt. Where that
    has the log-probabilities of its likeliest first tokens they count; a word that is not among them counts as the last
    of them, which is the most that it can be.

    Args:
        model: any text model.
        prompts: texts.
        verdicts: the words.
        max_tokens: of a reply that is read as text.
        whole: a local model writes its whole reply too.
    """
    once = {prompt: place for place, prompt in enumerate(dict.fromkeys(prompts))}
    if isinstance(model, LocalModel) and not whole:
        distinct = [
            _by_token(token)._replace(exchange=_turn(prompt, ModelReply(text=token.likeliest)))
            for prompt, token in zip(once, first_tokens(model, list(once), verdicts), strict=True)
        ]
    else:
        # As many at once as the model says that it takes.
        with ThreadPoolExecutor(max_workers=max(min(model_traits(model).at_once, 32), 1)) as pool:
            distinct = list(pool.map(lambda prompt: _by_reply(model, prompt, verdicts, max_tokens), once))
    replies = []
    for prompt in prompts:
        replies.append(distinct[once[prompt]])
        distinct[once[prompt]] = replies[-1]._replace(cost=0.0)  # what was asked once is paid once
    return replies


def _by_token(token: FirstToken) -> VerdictReply:
    logprobs, verdict, likeliest, fits = token
    if not fits:
        return VerdictReply(None, why="too long")
    if not all(map(math.isfinite, logprobs)):
        return VerdictReply(None, why="error", text=f"the first token's log-probabilities are {logprobs}")
    if verdict is None:
        return VerdictReply(None, why="no verdict", text=f"its reply begins with {likeliest!r}")
    return VerdictReply(verdict, logprobs, text=likeliest)


def _by_reply(model: TextModel, prompt: str, verdicts: Sequence[str], max_tokens: int) -> VerdictReply:
    try:
        completions = model.complete(prompt, max_tokens=max_tokens, temperature=0.0)
    except (ResourceError, EndpointError) as error:
        why = "timeout" if isinstance(error, EndpointTimeout) else "error"
        return VerdictReply(
            None, why=why, text=str(error)[:_SHOWN], exchange=_turn(prompt, failure=str(error))
        )
    amount, (reply, *_) = model.price(completions), completions
    verdict = read_word(reply.text, verdicts)
    why = "" if verdict is not None else "cut off" if reply.finish_reason == "length" else "no verdict"
    exchange = exchange_of(prompt, completions, cost=amount)
    logprobs = _weights(reply.first, verdicts) if verdict is not None else ()
    return VerdictReply(verdict, logprobs, why, reply.text[:_SHOWN], amount, exchange)


def _weights(first: Sequence[tuple[str, float]], verdicts: Sequence[str]) -> tuple[float, ...]:
    """The log-probabilities of the words as the first token; () where the likeliest one is none of them."""
    tokens = [
        (token.strip().strip('[*"').casefold(), logprob)
        for token, logprob in first
        if abs(logprob) < 1e9  # beyond it a difference of two may be no number
    ]
    words = [verdict.casefold() for verdict in verdicts]
    # A reply that begins otherwise ("Answer: no") has its verdict further on, of which these say nothing.
    if not tokens or max(tokens, key=itemgetter(1))[0] not in words:
        return ()
    least = min(logprob for _, logprob in tokens)
    forms = [[logprob for token, logprob in tokens if token == word] for word in words]
    return tuple(float(np.logaddexp.reduce(logprobs)) if logprobs else least for logprobs in forms)


def _turn(prompt: str, *replies: ModelReply, failure: str = "") -> Exchange:
    return Exchange(asked=(Turn("user", prompt),), replies=replies, failure=failure)


def read_word(reply: str, verdicts: Sequence[str]) -> int | None:
    """The place of the word that a reply gives as its verdict; None where it gives none, or several.

    Examples:
        >>> [
        ...     read_word(each, ["A", "B"])
        ...     for each in ("B", "Output (a)", "A good start.", "So: [[B]]", "[[A]] [[B]]")
        ... ]
        [1, 0, None, 1, None]
    """
    choices = "|".join(map(re.escape, verdicts))
    verdict_words = {mark.casefold() for mark in re.findall(rf"\[\[({choices})\]\]", reply, re.I)}
    # A letter can be an article or a name's beginning: after it the sentence ends. After a word it may go on.
    single, graded = all(len(verdict) == 1 for verdict in verdicts), verdicts[-1].isdecimal()
    ends = r"[:;!)\]*\"]|\.(?!\d)" if single else r"[.,:;!)\]*\"]"
    if graded:
        ends += rf"|/{verdicts[-1]}(?!\d)"  # "4/5" is a grade of five, "4/10" of another scale
    lead = r"(?:(?:answer|output|response|reply|option|verdict|grade|score|rating)\b\W*)?"
    opening = re.match(
        rf"\W*{lead}(?<![-−.])({choices})(?=$|{ends}|\s*\n|\s+is\s+(?:the\s+)?better\b|\s*$)", reply, re.I
    )
    if opening:
        # "A: …" and on another line "B: …" is a comparison, and its first line no verdict.
        named = re.findall(rf"^[^\w\n]*{lead}({choices})\s*:", reply, re.I | re.M)
        listed, first = {name.casefold() for name in named}, opening[1].casefold()
        if not verdict_words:
            verdict_words = {first, *(listed if first in listed else ())}
        elif first not in listed or graded or not single:
            verdict_words.add(first)  # what is quoted behind a verdict does not replace it
    if len(verdict_words) != 1:
        return None
    return [verdict.casefold() for verdict in verdicts].index(verdict_words.pop())
