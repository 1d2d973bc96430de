"""What a local model would say first: the probabilities of a few words as the first token of its reply."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from draftverify import ConfigError
from draftverify_llm.local import LocalModel
from draftverify_llm.pretrained import by_length
from draftverify_llm.prompts import apart
from draftverify_llm.sampling import PaddedRows, reads_padded, window_of

_TOKENS = 4096
"""In one padded pass; one prompt that is longer goes by itself."""


class FirstToken(NamedTuple):
    """The first token of a reply.

    Args:
        logprobs: for each word, the natural logarithm of the probability that the reply begins with it.
        verdict: the place of the word that the likeliest token begins; None where that token begins none of them.
        likeliest: the likeliest token's text.
        fits: whether the prompt fits into the model; where it does not, nothing was read.
    """

    logprobs: tuple[float, ...]
    verdict: int | None
    likeliest: str
    fits: bool = True


def word_tokens(model: LocalModel, verdicts: Sequence[str]) -> list[frozenset[int]]:
    """For each word the ids that a reply which is this word can begin with: as it stands, after a space, capitalised.

    Raises:
        ConfigError: the tokenizer begins two of the words with the same token, so that the first does not tell.
    """
    starts: list[set[int]] = []
    for verdict in verdicts:
        forms = {verdict} if len(verdict) == 1 else {verdict, verdict.capitalize(), verdict.upper()}
        ids = [
            model.tokenizer(lead + form, add_special_tokens=False).input_ids
            for form in forms
            for lead in ("", " ")
        ]
        starts.append({tokens[0] for tokens in ids if tokens})
    shared = {token for i, later in enumerate(starts) for earlier in starts[:i] for token in later & earlier}
    distinct = [frozenset(tokens - shared) for tokens in starts]
    if not all(distinct):
        listed = ", ".join(verdicts)
        raise ConfigError(
            f"the model's tokenizer does not tell {listed} apart by their first token; choose other words"
        )
    return distinct


def first_tokens(model: LocalModel, prompts: Sequence[str], verdicts: Sequence[str]) -> list[FirstToken]:
    """Read all prompts in padded passes of similar length, or one by one what the model reads otherwise so.

    Args:
        model: its chat template is used where it has one.
        prompts: texts; special tokens that are spelled in them are text, and spelled apart.
        verdicts: the words that the reply may begin with.

    Raises:
        ConfigError: as of `word_tokens`.
    """
    module, of_word = model.model, word_tokens(model, verdicts)
    longest = window_of(module)
    marks = _marks(model.tokenizer)
    texts = {index: marks.sub(apart, prompt) for index, prompt in enumerate(prompts)}
    short = {index: text for index, text in texts.items() if len(text) <= model.most_characters}
    ids = {index: model.encode_prompt({"prompt": text}) for index, text in short.items()}
    readings = [FirstToken((), None, "", fits=False)] * len(prompts)
    readable = [index for index, tokens in ids.items() if len(tokens) <= longest]
    lengths = [len(ids[index]) for index in readable]
    for places in by_length(lengths, _TOKENS if reads_padded(module, lengths) else 1):
        batch = [readable[place] for place in places]
        logits = PaddedRows(module, [ids[index] for index in batch]).logits
        for index, row in zip(batch, logits.float().log_softmax(-1).cpu(), strict=True):
            likeliest = int(row.argmax())
            readings[index] = FirstToken(
                tuple(float(row[sorted(starts)].logsumexp(0)) for starts in of_word),
                next((place for place, starts in enumerate(of_word) if likeliest in starts), None),
                model.decode([likeliest]),
            )
    return readings


def _marks(tokenizer: Any) -> re.Pattern[str]:
    """The tokenizer's special tokens as they are spelled: in a prompt they would end the turn, and begin another."""
    special = {str(token) for token in tokenizer.added_tokens_decoder.values() if token.special}
    spelled = sorted({*special, *tokenizer.all_special_tokens} - {""}, key=len, reverse=True)
    return re.compile("|".join(map(re.escape, spelled)) or r"(?!)")
