"""The trained reader: a sentence encoder that stays as it is, and what was learned to make of its states.

    READER/reader.json           the encoder by name and identity, the weights of answerability, how rare terms are
    READER/reader.safetensors    the span head

`draftverify fit part reader CONFIG` writes such a directory (training.py); matching.py says what is read.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from draftverify import ResourceError
from draftverify_llm import by_length, need, weights_identity
from draftverify_retrieval.pretrained import Pretrained, load
from draftverify_retrieval.reading import PassageReader, QuestionPassage, ReaderAnswer

if TYPE_CHECKING:
    from draftverify_retrieval.matching import EncodedText, Match, Rarity, SpanHead

__all__ = ["FORMAT", "Learned", "TrainedReader"]

FORMAT = 1
_PAIRS = 256
"""How many passages are held as states at once, some 600 KB each."""

_HEAD_TOKENS = 32768
_ANSWER = 24
"""The most tokens of an answer."""


@dataclass
class Learned:
    """What training made.

    Args:
        encoder: the encoder's name, as in `weights`, and its identity.
        head: where an answer begins and ends.
        rarity: how rare terms are.
        weights: of answerability, one for each of matching.PAIR_FEATURES.
        bias: of answerability.
    """

    encoder: tuple[str, str]
    head: SpanHead
    rarity: Rarity
    weights: Sequence[float]
    bias: float

    def save(self, directory: Path) -> None:
        """Write both files; the JSON last, so that a directory that has it is whole."""
        from safetensors.torch import save_file

        directory.mkdir(parents=True, exist_ok=True)
        save_file(self.head.state_dict(), directory / "reader.safetensors")
        description = {
            "format": FORMAT,
            "encoder": {"weights": self.encoder[0], "identity": self.encoder[1]},
            "answerability": {"weights": list(self.weights), "bias": self.bias},
            "passages": self.rarity.passages,
            "terms": dict(sorted(self.rarity.counts.items())),
        }
        (directory / "reader.json").write_text(
            json.dumps(description, ensure_ascii=False) + "\n", encoding="utf-8"
        )

    @staticmethod
    def load(directory: Path, description: Mapping[str, Any], dimension: int) -> Learned:
        """Read them again."""
        from safetensors.torch import load_file

        from draftverify_retrieval.matching import Rarity, SpanHead

        head = SpanHead(dimension)
        head.load_state_dict(load_file(directory / "reader.safetensors"))
        return Learned(
            encoder=(description["encoder"]["weights"], description["encoder"]["identity"]),
            head=head.eval(),
            rarity=Rarity(description["terms"], description["passages"]),
            weights=description["answerability"]["weights"],
            bias=description["answerability"]["bias"],
        )

    def log_odds(self, match: Match) -> float:
        """That the window holds an answer to the question, in nats."""
        return sum(w * x for w, x in zip(self.weights, match.pair.tolist(), strict=True)) + self.bias

    def read(
        self, pairs: Sequence[QuestionPassage], matches: Sequence[tuple[int, Match]]
    ) -> list[ReaderAnswer]:
        """The best window of each pair, and the best span in it.

        Args:
            pairs: what was read.
            matches: (pair, match) of their windows.
        """
        import torch

        from draftverify_retrieval.windows import best_span

        best: dict[int, tuple[float, Match]] = {}
        for index, window_match in matches:
            score = self.log_odds(window_match)
            # Not `score > …` alone: a window that gave no number must be seen.
            if index not in best or not score <= best[index][0]:
                best[index] = score, window_match
        answers = [ReaderAnswer(None, reason="nothing to read")] * len(pairs)
        order = list(best)
        with torch.inference_mode():
            for batch in by_length([len(best[index][1].tokens) for index in order], _HEAD_TOKENS):
                logits = self.head([best[order[i]][1] for i in batch]).numpy()
                for row, i in zip(logits, batch, strict=True):
                    index = order[i]
                    score, window_match = best[index]
                    span = best_span(
                        window_match.answers.numpy(),
                        window_match.window.offsets,
                        row[:, 0],
                        row[:, 1],
                        _ANSWER,
                    )
                    score = math.nan if math.isnan(span.score) else score
                    if span.start is None or span.end is None:
                        answers[index] = ReaderAnswer(score)
                    else:
                        answer = pairs[index].text[span.start : span.end]
                        answers[index] = ReaderAnswer(score, answer, span.start, span.end)
        return answers


class TrainedReader(PassageReader[tuple[Pretrained, Learned]]):
    """Reads an answer and says how sure it is that one stands there, as it was trained to.

    The score is a log-odds in nats: 0 where an answer is as likely as none, among passages like those it was trained on
    (one with an answer, the others found by BM25 for the same question). A long passage is read in windows, and its
    score is its best window's. Passages and questions are encoded each by itself, once each, in padded batches over all
    blocks that are given; scores do not depend on what shares a batch but for rounding (1e-4).

    Args:
        weights: the directory that `draftverify fit part reader` wrote.
        threshold: the score at which a passage passes, in nats.
        device: a torch device for the encoder; "auto" is "cuda" where there is one, else "cpu".
    """

    def __init__(self, weights: Path, threshold: float = 0.0, device: str = "auto") -> None:
        super().__init__(threshold)
        self.weights = weights
        self.device = device

    def _make(self) -> tuple[Pretrained, Learned]:
        """The encoder and what was learned.

        Raises:
            ResourceError: the directory holds no reader, or one of another encoder than is there now.
        """
        need("torch", "transformers", doing="reading", extra="retrieval")
        description = self._said()
        encoder = load(description["encoder"]["weights"], self.device)
        if weights_identity(encoder.directory, {}) != description["encoder"]["identity"]:
            raise ResourceError(
                f"the reader at {self.weights} was trained on another encoder than "
                f"{description['encoder']['weights']} is now; train it again"
            )
        learned = Learned.load(Path(self.weights), description, int(encoder.model.config.hidden_size))
        return encoder, learned

    @property
    def identity(self) -> str:
        """A hash of all that its scores depend on."""
        self._said()
        digest = hashlib.sha256()
        for name in ("reader.json", "reader.safetensors"):
            digest.update((Path(self.weights) / name).read_bytes())
        return digest.hexdigest()[:32]

    def _read(self, pairs: Sequence[QuestionPassage]) -> list[ReaderAnswer]:
        from draftverify_retrieval.matching import match, read_texts

        encoder, learned = self._get()
        answers: list[ReaderAnswer] = []
        for start in range(0, len(pairs), _PAIRS):
            some = pairs[start : start + _PAIRS]
            texts = list(dict.fromkeys([pair.question for pair in some] + [pair.text for pair in some]))
            windows: dict[str, list[EncodedText]] = dict(zip(texts, read_texts(encoder, texts), strict=True))
            matches = [
                (index, window_match)
                for index, pair in enumerate(some)
                for window in windows[pair.text]
                if (window_match := match(windows[pair.question][0], window, pair.begin, learned.rarity))
                is not None
            ]
            answers += learned.read(some, matches)
        return answers

    def _said(self) -> dict[str, Any]:
        path = Path(self.weights) / "reader.json"
        try:
            description: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise ResourceError(
                f"{self.weights} holds no trained reader ({type(error).__name__}: {error}); make one with "
                "`draftverify fit part reader CONFIG`"
            ) from error
        if description.get("format") != FORMAT:
            raise ResourceError(
                f"{path} is of format {description.get('format')}, and {FORMAT} is read; train it again"
            )
        return description
