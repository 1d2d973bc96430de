"""The trained verifier: a causal language model with a scalar head, trained on solutions known to be right or wrong.

    VERIFIER/verifier.safetensors    the layers that were trained and the head; and, beside them, which language model
                                     they are of, and how much of it is read, in which type

`draftverify fit part verifier CONFIG` writes such a directory (training.py); token_scores.py is the network.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from draftverify import ConfigError, ResourceError
from draftverify_llm import (
    LocalModel,
    by_length,
    load_checkpoint,
    need,
    torch_directory,
    weights_identity,
)
from draftverify_reasoning.scoring import (
    TOO_LONG,
    QuestionSolution,
    SolutionScorer,
    StepwiseSolution,
    at_once,
)

if TYPE_CHECKING:
    from draftverify_reasoning.token_scores import TokenScores


FILE = "verifier.safetensors"
KIND = "a verifier, version 3"
"""By which a verifier's file is known."""


class Saved(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What stands beside the tensors.

    Args:
        model: the language model's name, as in `weights` of `llm.local`.
        identity: its weights' hash.
        dtype: what it computes in.
        layers, depth: as `TokenScores` takes them.
        longest: how many tokens a question and a solution have together at most.
        likelihood: slope and intercept of the log-odds that a sample's own log-probability, in nats, gives, to which
            the network's score is added; None where it learned from none.
    """

    model: str
    identity: str
    dtype: Literal["float32", "bfloat16"]
    layers: int
    depth: int
    longest: int
    likelihood: tuple[float, float] | None


@dataclass(eq=False)
class TrainedVerifier(SolutionScorer["tuple[Saved, Any, TokenScores]"]):
    """Scores a solution by reading it to its end, as it was trained to (Cobbe et al. 2021).

    The score is the log-odds in nats that the solution is right, after its last token: 0 where right is as likely as
    wrong, among solutions like those it was trained on. All blocks that it is given are read in padded passes of
    similar length; scores do not depend on what shares a pass but for rounding, in bfloat16 up to some hundredths. A
    question and solution that are longer than the longest it was trained for are an abstention, "too long"; so is,
    where it learned from samples with their log-probabilities, one without ("no log-probability").

    Args:
        weights: the directory that `draftverify fit part verifier` wrote.
        threshold: the score at which a solution passes, in nats.
        device: a torch device; "auto" is "cuda" where there is one, else "cpu".

    References:
        Cobbe et al., Training verifiers to solve math word problems, 2021, arXiv:2110.14168.
    """

    weights: Path
    threshold: float = 0.0
    device: str = "auto"

    @property
    def identity(self) -> str:
        """A hash of all that its scores depend on."""
        saved, tensors = self._read_file()
        digest = hashlib.sha256(msgspec.json.encode(saved))
        for _, tensor in sorted(tensors.items()):
            digest.update(tensor.numpy().tobytes())
        return digest.hexdigest()[:32]

    @property
    def family(self) -> str:
        """The language model's; "unknown" where that cannot be told: its word is a model's all the same."""
        return LocalModel(self._read_file()[0].model).family or "unknown"

    def step_scores(self, solutions: Sequence[StepwiseSolution]) -> list[list[float | str]]:
        """The score after each step of each solution, read where the step ends, in one reading of the solution.

        Returns:
            For each solution as many scores as it has steps; "too long" in place of those that it cannot read.

        Raises:
            ConfigError: it was trained to judge whole samples, by their log-probability too.
        """
        if self._get()[0].likelihood is not None:
            raise ConfigError(
                f"the verifier at {self.weights} reads the log-probability of whole samples; for steps train one with "
                "`likelihood: false`"
            )
        return self._read(solutions)

    def _read(self, solutions: Sequence[StepwiseSolution]) -> list[list[float | str]]:
        """What the network alone says after each step."""
        import torch

        from draftverify_reasoning.token_scores import padded, row_of, width_of

        saved, tokenizer, network = self._get()
        rows = [row_of(tokenizer, solution.question, solution.steps) for solution in solutions]
        scores_of: list[list[float | str]] = [[TOO_LONG] * len(row.ends) for row in rows]
        cut = [row._replace(ids=row.ids[: saved.longest]) for row in rows]
        with torch.inference_mode():
            for batch in by_length([width_of(row, saved.longest) for row in cut], at_once(network.device)):
                ids = padded([cut[i] for i in batch], saved.longest, network.device)
                scores = network(ids).double().cpu()
                for line, i in zip(scores, batch, strict=True):
                    for place, end in enumerate(rows[i].ends):
                        if end < len(cut[i].ids):
                            scores_of[i][place] = float(line[end])
        return scores_of

    def _score(self, pairs: Sequence[QuestionSolution]) -> list[float | str]:
        read = self._read([StepwiseSolution(pair.question, (pair.solution,)) for pair in pairs])
        scores = [score for (score,) in read]
        if (likelihood := self._get()[0].likelihood) is None:
            return scores
        slope, intercept = likelihood
        return [
            score
            if isinstance(score, str)
            else "no log-probability"
            if pair.logprob is None
            else score + slope * pair.logprob + intercept
            for pair, score in zip(pairs, scores, strict=True)
        ]

    def _make(self) -> tuple[Saved, Any, TokenScores]:
        """What was saved, the tokenizer and the network.

        Raises:
            ResourceError: the directory holds no verifier, or one of another language model than is there now; or a
                package or the device is missing.
        """
        saved, tensors = self._read_file()
        need("torch", "transformers", doing="verifying solutions", extra="reasoning")
        if weights_identity(torch_directory(saved.model), {}) != saved.identity:
            raise ResourceError(
                f"the verifier at {self.weights} was trained on another language model than {saved.model} is now; "
                "train it again"
            )
        from draftverify_reasoning.token_scores import TokenScores

        model = LocalModel(saved.model, dtype=saved.dtype, device=self.device)
        network = TokenScores(model.model.base_model, saved.layers, saved.depth)
        if set(tensors) != set(network.trained()):
            raise ResourceError(
                f"the verifier at {self.weights} has other layers than {saved.model} has here; train it again"
            )
        network.load_state_dict(tensors, strict=False)
        return saved, model.tokenizer, network.eval()

    def _read_file(self) -> tuple[Saved, dict[str, Any]]:
        """What the directory holds."""
        try:
            checkpoint = load_checkpoint(Path(self.weights) / FILE, KIND)
            if checkpoint is not None:
                tensors, notes = checkpoint
                return msgspec.json.decode(notes["verifier"], type=Saved), tensors
            problem = f"there is no {FILE}"
        except ConfigError as error:
            problem = error.message
        raise ResourceError(
            f"{self.weights} holds no trained verifier ({problem}); make one with "
            "`draftverify fit part verifier CONFIG`"
        )
