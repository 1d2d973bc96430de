"""Any sequence classifier of transformers as a checker: a cross-encoder's relevance, or entailment."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from draftverify_llm import (
    Pretrained,
    by_length,
    label_place,
    label_scores,
    load_pretrained,
    torch_directory,
    weights_identity,
)
from draftverify_retrieval.reading import PassageReader, QuestionPassage, ReaderAnswer
from draftverify_retrieval.windows import rows_of

_LONGEST = 384
_ENTAILMENT = "entailment"


@dataclass(eq=False)
class Classifier(PassageReader[tuple[Pretrained, int | None, bool]]):
    """Judges question and passage together; it reads no answer, so a passage that passes stays the passage.

    - With one output the model is a cross-encoder: the score is its logit, of (question, passage).
    - With a label named "entailment" it checks entailment: the score is that label's log-odds in nats, of (passage,
      question), as premise and hypothesis. The task's `question` is then best a claim.
    - With `label` the score is that label's log-odds in nats, of (question, passage).

    A long passage is read in windows that share 64 tokens; its best window counts.

    Args:
        weights: a directory of transformers, or a hub id. In YAML a path that begins with ./ or ../ is relative to the
            file.
        threshold: the score at which a passage passes.
        label: which of the model's labels means useful, where it has more than one and none is "entailment".
        device: a torch device; "auto" is "cuda" where there is one, else "cpu".

    References:
        Nogueira and Cho, Passage re-ranking with BERT, 2019, arXiv:1901.04085.
    """

    weights: str | Path
    threshold: float = 0.0
    label: str | None = None
    device: str = "auto"

    def _make(self) -> tuple[Pretrained, int | None, bool]:
        """The model, the place of its label, and whether the passage stands first.

        Raises:
            ResourceError: the weights, a package or the device is missing, or the model has no head for classes.
            ConfigError: it cannot be told which of its labels means useful.
        """
        model = load_pretrained(
            str(self.weights), self.device, "AutoModelForSequenceClassification", extra="retrieval"
        )
        config, label = model.model.config, self.label
        if (
            label is None
            and config.num_labels > 1
            and _ENTAILMENT in map(str.lower, config.id2label.values())
        ):
            label = _ENTAILMENT
        passage_first = label is not None and label.lower() == _ENTAILMENT
        return model, label_place(self.weights, config, label), passage_first

    @property
    def identity(self) -> str:
        """A hash of the weights and the label."""
        return weights_identity(torch_directory(str(self.weights)), {"label": self.label})

    def read(self, pairs: Sequence[QuestionPassage]) -> list[ReaderAnswer]:
        import torch

        model, useful, passage_first = self._get()
        rows = rows_of(model.encoder, pairs, min(_LONGEST, model.longest), passage_first=passage_first)
        best: list[float | None] = [None] * len(pairs)
        with torch.inference_mode():
            for batch in by_length([len(row.ids) for row in rows], model.at_once):
                output, _ = model.forward([rows[i] for i in batch])
                scores = label_scores(output.logits, useful)
                for i, score in zip(batch, scores.tolist(), strict=True):
                    best_so_far = best[rows[i].pair]
                    if best_so_far is None or not score <= best_so_far:
                        best[rows[i].pair] = score
        return [
            ReaderAnswer(score) if score is not None else ReaderAnswer(None, reason="nothing to read")
            for score in best
        ]
