"""Any sequence classifier of transformers that scores an answer to a question: a reward model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from draftverify_llm import (
    Pretrained,
    by_length,
    label_place,
    label_scores,
    load_pretrained,
    readable,
    torch_directory,
    weights_identity,
)
from draftverify_reasoning.scoring import (
    TOO_LONG,
    QuestionSolution,
    SolutionScorer,
    StepwiseSolution,
)


@dataclass(eq=False)
class RewardModel(SolutionScorer[tuple[Pretrained, int | None, frozenset[str]]]):
    """Scores a solution by a model of `AutoModelForSequenceClassification`.

    - With one output the score is its logit, the reward, in the model's own unit.
    - With more, `label` names the one that means right, and the score is its log-odds in nats.

    Where the tokenizer has a chat template, question and solution are read as a turn of the user and one of the
    assistant; else as a pair of texts. A text that holds one of the model's special tokens could end its turn and
    speak for the other side, so it is an abstention, "special token"; one that is longer than the model reads is one
    too, "too long".

    Args:
        weights: a directory of transformers, or a hub id. In YAML a path that begins with ./ or ../ is relative to the
            file.
        threshold: the score at which a solution passes.
        label: which of the model's labels means right, where it has more than one output.
        device: a torch device; "auto" is "cuda" where there is one, else "cpu".
        family: of the model that it was trained from ("qwen2.5"); its word is a model's whether that is known or not.
    """

    weights: str | Path
    threshold: float = 0.0
    label: str | None = None
    device: str = "auto"
    family: str = "unknown"

    def _make(self) -> tuple[Pretrained, int | None, frozenset[str]]:
        """The model, the place of its label, and the tokenizer's special tokens.

        Raises:
            ResourceError: the weights, a package or the device is missing, or the model has no head for classes.
            ConfigError: it cannot be told which of its outputs means right.
        """
        model = load_pretrained(
            str(self.weights), self.device, "AutoModelForSequenceClassification", extra="reasoning"
        )
        # No text that holds a special token is read; those of the chat template are meant.
        model.encoder.encode_special_tokens = False
        return model, label_place(self.weights, model.model.config, self.label), _special(model.tokenizer)

    @property
    def identity(self) -> str:
        """A hash of the weights and the label."""
        return weights_identity(torch_directory(str(self.weights)), {"label": self.label})

    def step_scores(self, solutions: Sequence[StepwiseSolution]) -> list[list[float | str]]:
        """The score after each step of each solution: that of the solution up to there, read by itself.

        Returns:
            For each solution as many scores as it has steps; the reason in place of one that cannot be had.
        """
        scores = iter(
            self._score([
                QuestionSolution(solution.question, "\n".join(solution.steps[: end + 1]))
                for solution in solutions
                for end in range(len(solution.steps))
            ])
        )  # fmt: skip
        return [[next(scores) for _ in solution.steps] for solution in solutions]

    def _score(self, pairs: Sequence[QuestionSolution]) -> list[float | str]:
        import torch

        model, right, special = self._get()
        outcomes: list[float | str] = [TOO_LONG] * len(pairs)
        rows: list[tuple[int, Any]] = []
        for i, pair in enumerate(pairs):
            row = _row(model, pair, special)
            if row is None:
                outcomes[i] = "special token"
            elif len(row.ids) <= model.longest:
                rows.append((i, row))
        tokens = 1 if model.pad is None else model.at_once
        with torch.inference_mode():
            for batch in by_length([len(row.ids) for _, row in rows], tokens):
                output, _ = model.forward([rows[k][1] for k in batch])
                for k, score in zip(batch, label_scores(output.logits, right).tolist(), strict=True):
                    outcomes[rows[k][0]] = score
        return outcomes


def _special(tokenizer: Any) -> frozenset[str]:
    """All that the tokenizer reads as a special token: those that have a part ("eos") are not all that end a turn."""
    added = {token.content for token in tokenizer.added_tokens_decoder.values() if token.special}
    return frozenset({*added, *tokenizer.all_special_tokens})


def _row(model: Pretrained, pair: QuestionSolution, special: frozenset[str]) -> Any:
    """The encoded pair; None where one of its texts holds a special token."""
    question, solution = readable(pair.question), readable(pair.solution)
    if any(token in question or token in solution for token in special):
        return None
    if not model.tokenizer.chat_template:
        return model.encoder.encode(question, solution)
    turns = [{"role": "user", "content": question}, {"role": "assistant", "content": solution}]
    text = model.tokenizer.apply_chat_template(turns, tokenize=False)
    return model.encoder.encode(text, add_special_tokens=False)
