"""Any extractive question-answering model of transformers as a reader, by the null-score margin of SQuAD 2.0."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from draftverify_llm import Pretrained, by_length, load_pretrained, torch_directory, weights_identity
from draftverify_retrieval.reading import PassageReader, QuestionPassage, ReaderAnswer
from draftverify_retrieval.windows import best_span, rows_of

_LONGEST = 384


@dataclass(eq=False)
class QuestionAnswering(PassageReader[Pretrained]):
    """Reads with a model that was trained for spans (a `…ForQuestionAnswering` of transformers).

    The score is the best span's start and end logits, less those of the first token, which SQuAD 2.0's models take for
    'no answer': a margin in nats, above 0 where the span is the likelier. A long passage is read in windows that share
    64 tokens; its best window's margin counts. A model trained on SQuAD 1.1, where everything has an answer, has no
    such margin: its scores say little.

    Args:
        weights: a directory of transformers, or a hub id. In YAML a path that begins with ./ or ../ is relative to the
            file.
        threshold: the score at which a passage passes, in nats.
        longest_answer: the most tokens of an answer.
        device: a torch device; "auto" is "cuda" where there is one, else "cpu".

    References:
        Devlin et al., BERT, NAACL 2019, section 4.3; Rajpurkar et al., SQuAD 2.0, ACL 2018.
    """

    weights: str | Path
    threshold: float = 0.0
    longest_answer: int = 30
    device: str = "auto"

    def _make(self) -> Pretrained:
        """The model.

        Raises:
            ResourceError: the weights, a package or the device is missing, or the model has no head for spans.
        """
        return load_pretrained(
            str(self.weights), self.device, "AutoModelForQuestionAnswering", extra="retrieval"
        )

    @property
    def identity(self) -> str:
        """A hash of the weights and of the longest answer."""
        return weights_identity(torch_directory(str(self.weights)), {"longest_answer": self.longest_answer})

    def read(self, pairs: Sequence[QuestionPassage]) -> list[ReaderAnswer]:
        import torch

        model = self._get()
        rows = rows_of(model.encoder, pairs, min(_LONGEST, model.longest))
        best: list[ReaderAnswer | None] = [None] * len(pairs)
        with torch.inference_mode():
            for batch in by_length([len(row.ids) for row in rows], model.at_once):
                output, _ = model.forward([rows[i] for i in batch])
                starts, ends = output.start_logits.cpu().numpy(), output.end_logits.cpu().numpy()
                for i, start, end in zip(batch, starts, ends, strict=True):
                    row = rows[i]
                    span = best_span(row.answers, row.offsets, start, end, self.longest_answer)
                    if span.score == -math.inf:  # a window of nothing but the heading
                        continue
                    margin = span.score - float(start[0] + end[0])
                    best_so_far = best[row.pair]
                    if best_so_far is None or not margin <= best_so_far.score:  # type: ignore[operator]
                        text = pairs[row.pair].text[span.start : span.end] if span.start is not None else None
                        best[row.pair] = ReaderAnswer(margin, text, span.start, span.end)
        return [answer or ReaderAnswer(None, reason="nothing to read") for answer in best]
