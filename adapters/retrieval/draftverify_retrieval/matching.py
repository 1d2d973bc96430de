"""How a question matches a passage, in the eyes of a sentence encoder that read each by itself.

The encoder's last states say which words mean alike (late interaction: the best match of each word of the question,
weighted by its rarity), its middle states what kind of thing a word is. What is learned stands on these: how to weigh
the matches, and where an answer begins and ends.

References:
    Khattab and Zaharia, ColBERT, SIGIR 2020, arXiv:2004.12832: the best match of each token, summed.
    Chen et al., Reading Wikipedia to answer open-domain questions, ACL 2017, arXiv:1704.00051: exact and aligned
    matches as features of a span reader.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional

from draftverify_llm import by_length, readable
from draftverify_retrieval.pretrained import Pretrained
from draftverify_retrieval.splitting import Splitting, pieces
from draftverify_retrieval.words import TermExtractor

__all__ = ["PAIR_FEATURES", "Match", "Rarity", "SpanHead", "EncodedText", "match", "read_texts"]

LONGEST = 384
"""The most tokens of a window; a longer passage has several."""

STRIDE = 64
"""How many tokens two windows share: more than an answer has."""

PAIR_FEATURES = ("tokens", "tokens of a sentence", "sentence", "terms", "terms of a sentence")
"""What `Match.pair` holds, in this order; each is at most 1."""

_SENTENCES = Splitting(by="sentence")
_WORD = re.compile(r"\w+")
_NEAR = (3, 8, 16)
_TOKEN_FEATURES = 9 + 2 * len(_NEAR)
_WEAK = 0.3
"""The cosine below which two tokens' likeness is chance."""


@dataclass(frozen=True)
class EncodedText:
    """A question, or a window of a passage, as the encoder read it; special tokens left out.

    Args:
        text: all of it, also of a window.
        ids: [tokens].
        offsets: [tokens], where each stands in the text, in characters.
        last: [tokens, d], the last layer's states, each of length 1.
        middle: [tokens, d], the states two thirds of the way up.
        mean: [d], the mean of the last layer's states, of length 1.
    """

    text: str
    ids: list[int]
    offsets: list[tuple[int, int]]
    last: torch.Tensor
    middle: torch.Tensor
    mean: torch.Tensor


def read_texts(encoder: Pretrained, texts: Sequence[str]) -> list[list[EncodedText]]:
    """The windows of texts, in order, read in padded passes of similar length.

    Args:
        encoder: loaded; its tokenizer neither truncates nor pads.
        texts: each with at least one window, though it may have no token.
    """
    longest = min(LONGEST, encoder.longest)
    special = encoder.tokenizer.num_special_tokens_to_add(False)
    rows, owners = [], []
    for owner, row in enumerate(
        encoder.tokenizer.encode_batch([readable(text) for text in texts], add_special_tokens=False)
    ):
        row.truncate(longest - special, stride=min(STRIDE, longest // 4))
        for window in [row, *row.overflowing]:
            rows.append(encoder.tokenizer.post_process(window))
            owners.append(owner)
    windows_read: list[EncodedText | None] = [None] * len(rows)
    with torch.no_grad():  # and not inference_mode: the head is trained on these
        for batch in by_length([len(row.ids) for row in rows], encoder.at_once):
            output, _ = encoder.forward([rows[i] for i in batch], output_hidden_states=True)
            final_states, layers = output.last_hidden_state, output.hidden_states
            middle = layers[round(2 * (len(layers) - 1) / 3)]
            for place, i in enumerate(batch):
                text_tokens = [
                    k for k, is_special in enumerate(rows[i].special_tokens_mask) if not is_special
                ]
                states = final_states[place, text_tokens]
                windows_read[i] = EncodedText(
                    text=texts[owners[i]],
                    ids=[rows[i].ids[k] for k in text_tokens],
                    offsets=[rows[i].offsets[k] for k in text_tokens],
                    last=functional.normalize(states, dim=-1),
                    middle=middle[place, text_tokens].clone(),
                    mean=functional.normalize(final_states[place, : len(rows[i].ids)].mean(0), dim=-1),
                )
    windows: list[list[EncodedText]] = [[] for _ in texts]
    for owner, text in zip(owners, windows_read, strict=True):
        assert text is not None
        windows[owner].append(text)
    return windows


class Rarity:
    """How much a term says: ln(1 + (N − df + ½) / (df + ½)) over the passages of the training data.

    Args:
        counts: in how many passages each term stands.
        passages: how many there were.
    """

    def __init__(self, counts: Mapping[str, int], passages: int) -> None:
        self.counts = counts
        self.passages = passages
        self.words = TermExtractor("english", "english_plus")

    def terms(self, text: str) -> set[str]:
        """The terms of a text."""
        return set(self.words.terms(text))

    def weight(self, term: str) -> float:
        """The rarity of a term; one that no passage has is the rarest."""
        df = self.counts.get(term, 0)
        return math.log1p((self.passages - df + 0.5) / (df + 0.5))

    def of_tokens(self, text: EncodedText) -> torch.Tensor:
        """Each token's weight, that of its word shared by the word's tokens; they sum to 1 [tokens]."""
        weights = torch.zeros(len(text.ids))
        for match in _WORD.finditer(text.text):
            inside = [
                k
                for k, (start, end) in enumerate(text.offsets)
                if start < match.end() and end > match.start()
            ]
            weight = sum(self.weight(term) for term in self.words.terms(match.group()))
            for k in inside:
                weights[k] = weight / len(inside)
        total = float(weights.sum())
        return weights / total if total else torch.full_like(weights, 1 / max(1, len(weights)))


@dataclass(frozen=True)
class Match:
    """A question and a window together.

    Args:
        question: [2 d], the mean of the question's middle states, and of its first three.
        window: what was read.
        tokens: [tokens, features], how each token of the window and what stands near it match the question.
        pair: [5], `PAIR_FEATURES`.
        answers: bool [tokens], whether an answer may stand there.
    """

    question: torch.Tensor
    window: EncodedText
    tokens: torch.Tensor
    pair: torch.Tensor
    answers: torch.Tensor


def match(question: EncodedText, window: EncodedText, begin: int, rarity: Rarity) -> Match | None:
    """How a window of a passage matches a question; None where one of them has no token.

    Args:
        question, window: read by the same encoder.
        begin: where answers may begin, in characters of the window's text; before it stands its heading.
        rarity: of terms.
    """
    if not question.ids or not window.ids:
        return None
    weights = rarity.of_tokens(question)[:, None]
    likeness = question.last @ window.last.T
    sentences = _sentences(window, begin)
    best = torch.stack(
        [likeness[:, inside].amax(1) for _, inside in sentences], 1
    )  # [question tokens, sentences]
    by_tokens = (best * weights).sum(0)
    means = functional.normalize(
        torch.stack([window.last[inside].mean(0) for _, inside in sentences]), dim=-1
    )
    by_meaning = means @ question.mean
    rarity_of = {term: rarity.weight(term) for term in rarity.terms(question.text)}
    ceiling = sum(rarity_of.values()) or 1.0

    def share(text: str) -> float:
        return sum(rarity_of[term] for term in rarity_of.keys() & rarity.terms(text)) / ceiling

    by_terms = torch.tensor([share(text) for text, _ in sentences])
    begin_char, end_char = window.offsets[0][0], window.offsets[-1][1]
    pair = torch.stack([
        (likeness.amax(1) * weights[:, 0]).sum(),
        by_tokens.max(),
        by_meaning.max(),
        torch.tensor(share(window.text[begin_char:end_char])),
        by_terms.max(),
    ])  # fmt: skip
    return Match(
        question=torch.cat([question.middle.mean(0), question.middle[:3].mean(0)]),
        window=window,
        tokens=_token_features(
            question, window, likeness, weights, sentences, by_tokens, by_terms, by_meaning
        ),
        pair=pair,
        answers=torch.tensor([start >= begin and end > start for start, end in window.offsets]),
    )


def _token_features(
    question: EncodedText,
    window: EncodedText,
    likeness: torch.Tensor,
    weights: torch.Tensor,
    sentences: Sequence[tuple[str, torch.Tensor]],
    *by: torch.Tensor,
) -> torch.Tensor:
    strong = functional.relu(likeness - _WEAK)
    features = [5 * (strong * weights).amax(0), strong.amax(0)]
    question_ids = set(question.ids)
    features.append(torch.tensor([float(id in question_ids) for id in window.ids]))
    by_tokens, by_terms, by_meaning = by
    for scores in (by_tokens, by_terms, 3 * by_tokens + by_terms + by_meaning):
        behind, is_best = torch.full((len(window.ids),), -3.0), torch.zeros(len(window.ids))
        for (_, inside), score in zip(sentences, scores, strict=True):
            behind[inside] = 3 * (score - scores.max())
            is_best[inside] = float(score == scores.max())
        features += [behind, is_best]
    for reach in _NEAR:
        for side in ((reach, 0), (0, reach)):
            near = functional.max_pool1d(functional.pad(strong, side), reach + 1, stride=1)
            features.append(5 * (near * weights).sum(0))
    return torch.stack(features, 1)


def _sentences(window: EncodedText, begin: int) -> list[tuple[str, torch.Tensor]]:
    """The sentences that stand in a window, each with its text there and its tokens; the heading is none."""
    starts = [begin + piece.start for piece in pieces(window.text[begin:], _SENTENCES)] or [begin]
    owner, owners = -1, []
    for start, _ in window.offsets:
        while owner + 1 < len(starts) and starts[owner + 1] <= start:
            owner += 1
        owners.append(owner)
    of = torch.tensor(owners)
    sentences = []
    for sentence in sorted({owner for owner in owners if owner >= 0}) or [-1]:
        inside = torch.nonzero(of == sentence)[:, 0]
        text = window.text[window.offsets[int(inside[0])][0] : window.offsets[int(inside[-1])][1]]
        sentences.append((text, inside))
    return sentences


class SpanHead(nn.Module):
    """Where an answer begins and ends: two convolutions over what each token is and how its surroundings match.

    A token is its middle state, brought down to 32 numbers; the product of 32 projections of it and of the question,
    which tells whether it is the kind of thing that is asked for; and its features.

    Args:
        d: the encoder's dimension.
    """

    def __init__(self, d: int) -> None:
        super().__init__()
        kind, hidden = 32, 64
        self.question, self.token, self.state = nn.Linear(2 * d, kind), nn.Linear(d, kind), nn.Linear(d, kind)
        self.first = nn.Conv1d(2 * kind + _TOKEN_FEATURES, hidden, 5, padding=2)
        self.second = nn.Conv1d(hidden, hidden, 5, padding=2)
        self.out, self.direct = nn.Linear(hidden, 2), nn.Linear(_TOKEN_FEATURES, 2)
        self.drop = nn.Dropout(0.4)

    def forward(self, matches: Sequence[Match]) -> torch.Tensor:
        """The logits of starts and ends, [matches, tokens, 2]; −inf where no answer may stand."""
        width = max(len(match.tokens) for match in matches)

        def padded(rows: Iterator[torch.Tensor]) -> torch.Tensor:
            return torch.stack([functional.pad(row, (0, 0, 0, width - len(row))) for row in rows])

        states, features = (
            padded(match.window.middle for match in matches),
            padded(match.tokens for match in matches),
        )
        present = padded(torch.ones(len(match.tokens), 1) for match in matches)
        answers = padded(match.answers[:, None].float() for match in matches).bool()
        questions = torch.stack([match.question for match in matches])
        states = self.drop(states)
        kind = self.question(self.drop(questions))[:, None] * self.token(states)
        x = (torch.cat([self.state(states), kind, features], -1) * present).transpose(1, 2)
        y = functional.gelu(self.first(x)) * present.transpose(1, 2)
        y = y + functional.gelu(self.second(self.drop(y)))
        logits = self.out(self.drop(y).transpose(1, 2)) + self.direct(features)
        return logits.masked_fill(~answers, -math.inf)
