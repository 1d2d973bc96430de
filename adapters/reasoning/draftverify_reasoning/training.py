"""Training a verifier from labelled solutions: `draftverify fit part verifier CONFIG`.

    OUT/checkpoint.safetensors     what is trained, its optimiser and the best so far, after the last whole epoch
    OUT/verifier.safetensors       the verifier (verifier.py)

Every token of a solution is taught, as in the paper, whether the whole is right: a wrong step may be seen where it
stands, and a solution can be judged before its end. The last token counts as much as all together. The loss is the
cross-entropy of that; the paper's is the squared error, beside the language model's own, which over a large vocabulary
costs more than all else. Cross-entropy makes the score a log-odds.
"""

from __future__ import annotations

import hashlib
import json
import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import msgspec
import numpy as np

from draftverify import ConfigError
from draftverify.lab import LabelledScore, fit_scores
from draftverify.stats.judgement import auroc_within
from draftverify_llm import (
    LocalModel,
    by_length,
    check_least,
    held_out,
    load_checkpoint,
    need,
    optimiser_tensors,
    restore_optimiser,
    save_checkpoint,
    torch_directory,
    weights_identity,
)
from draftverify_reasoning.labelled import Labelled, read_labelled
from draftverify_reasoning.scoring import at_once
from draftverify_reasoning.solutions import answer_of
from draftverify_reasoning.training_report import held_out_figures
from draftverify_reasoning.verifier import FILE, KIND, Saved

if TYPE_CHECKING:
    from torch import Tensor

    from draftverify_reasoning.token_scores import TokenRow


Progress = Callable[[int, int, str], None]

_STEP = 32
"""Solutions of one optimiser step, about: a step ends with the batch that has as many."""

_LAYER_RATE = 1e-4
_HEAD_RATE = 1e-3
_DECAY = 0.01
_LAST = 0.5
"""What the last token counts, after which a whole solution is judged; all tokens of the solution share the rest."""

_NO_NUMBERS = "the training came to values that are no numbers; choose dtype: float32"


@dataclass(eq=False)
class VerifierTraining:
    """Trains a verifier (`reasoning.verifier`) from solutions that are known to be right or wrong.

    Args:
        data: a .jsonl file whose lines are {"question": …, "solutions": [{"text": …, "correct": true or false}, …]}; or
            the directory of a finished run, of which what the verifier passed is right and what it rejected is wrong.
        model: a small causal language model, named as `weights` of `llm.local`.
        fields: the names of the lines' keys for `question`, `solutions`, `text`, `correct` and `logprob`, where they
            differ.
        pipeline: of a run, the one whose items are read; all when None.
        depth: how many of the model's layers are read, from the bottom; half of them when None, which cost half, in
            training and whenever the verifier is asked.
        layers: of these, how many are trained, from the top. 0 trains the head alone.
        epochs: how often each solution is seen.
        held_out: the share of problems that are kept for choosing the epoch and for the report, 0 to 0.5. With 0 the
            last epoch is taken and the report has no figures.
        longest: how many tokens a question and a solution may have together; longer ones are left out.
        likelihood: where every solution of the data has its `logprob`, start from the log-odds that these give alone,
            and learn what the text adds to them.
        seed: of the order and the dropout; which problems are held out does not depend on it.
        dtype: what the model computes in; what is trained stays in float32.
        device: a torch device; "auto" is "cuda" where there is one, else "cpu".

    References:
        Cobbe et al., Training verifiers to solve math word problems, 2021, arXiv:2110.14168.
    """

    data: Path
    model: str | Path = "smollm2-135m-instruct"
    fields: Mapping[str, str] | None = None
    pipeline: str | None = None
    depth: int | None = None
    layers: int = 2
    epochs: int = 4
    held_out: float = 0.2
    longest: int = 512
    likelihood: bool = True
    seed: int = 0
    dtype: Literal["float32", "bfloat16"] = "bfloat16"
    device: str = "auto"

    def train(self, out: Path, progress: Progress = lambda step, total, message: None) -> dict[str, Any]:
        """Train, or go on from what lies in `out`; the result is the same.

        Args:
            out: a directory for the verifier.
            progress: told (step, of how many, what is done).

        Returns:
            The report. Of the held-out problems' solutions: AUC within problems, by which the epoch was chosen, and
            over all; the share of problems whose best-scored solution is right, beside the mean of all solutions (one
            sample), the majority of the same answers, the likeliest one, and the share that has a right one. All with
            95 % intervals over problems. `learned_from`: the questions.

        Raises:
            ConfigError: an argument is out of its range, the data cannot be read or teaches nothing, or `out` has
                another training.
            ResourceError: the model or a package is missing.
        """
        self._check()
        need("torch", "transformers", doing="training a verifier", extra="reasoning")
        problems = read_labelled(Path(self.data), self.fields or {}, self.pipeline)
        report = _VerifierTrainingRun(self, problems, Path(out)).run(progress)
        # The held-out ones too, which chose the epoch.
        return {**report, "learned_from": [problem.question for problem in problems]}

    def _check(self) -> None:
        check_least(0, layers=self.layers, held_out=self.held_out)
        check_least(1, epochs=self.epochs)
        check_least(2, longest=self.longest)
        if self.held_out > 0.5:
            raise ConfigError(f"held_out is {self.held_out}; at most 0.5 can be", path="held_out")


class _LabelledSolution(NamedTuple):
    row: TokenRow
    problem: int
    correct: bool
    logprob: float | None
    answer: str | None


class _VerifierTrainingRun:
    """One training, with what it has read."""

    def __init__(self, settings: VerifierTraining, problems: Sequence[Labelled], out: Path) -> None:
        from draftverify_reasoning.token_scores import TokenScores

        self.settings = settings
        self.out = out
        model = LocalModel(settings.model, dtype=settings.dtype, device=settings.device)
        config = model.model.config.get_text_config()
        positions = getattr(config, "max_position_embeddings", settings.longest)
        if settings.longest > positions:
            raise ConfigError(
                f"longest is {settings.longest}; {settings.model} reads {positions} tokens", path="longest"
            )
        depth = settings.depth if settings.depth is not None else (config.num_hidden_layers + 1) // 2
        self.network = TokenScores(model.model.base_model, settings.layers, depth)
        examples = _examples(model.tokenizer, problems)
        read = [example for example in examples if len(example.row.ids) <= settings.longest]
        self.too_long = len(examples) - len(read)
        held = _held(problems, settings.held_out)
        self.trained = [example for example in read if example.problem not in held]
        self.held = [example for example in read if example.problem in held]
        if len({example.correct for example in self.trained}) < 2:
            raise ConfigError(
                f"of {len(self.trained)} solutions to train on, of at most {settings.longest} tokens, none is right or "
                "none is wrong; a verifier learns from both",
                where=str(settings.data),
            )
        all_likely = settings.likelihood and all(example.logprob is not None for example in read)
        self.saved = Saved(
            model=str(settings.model),
            identity=weights_identity(torch_directory(str(settings.model)), {}),
            dtype=settings.dtype,
            layers=settings.layers,
            depth=depth,
            longest=settings.longest,
            likelihood=_log_odds(self.trained) if all_likely else None,
        )
        rows = [
            (example.row.ids, example.problem in held, example.correct, self._offset(example))
            for example in read
        ]
        # `longest` and how many tokens are read at once say which solutions share a batch.
        tokens = at_once(self.network.device)
        self.mark = _hash([msgspec.to_builtins(self.saved), rows, tokens, settings.epochs, settings.seed])

    def _offset(self, example: _LabelledSolution) -> float:
        """The log-odds that the likelihood alone gives."""
        if self.saved.likelihood is None or example.logprob is None:
            return 0.0
        slope, intercept = self.saved.likelihood
        return slope * example.logprob + intercept

    def run(self, progress: Progress) -> dict[str, Any]:
        history, best = self._train(progress)
        self.network.load_state_dict(best, strict=False)
        report = self._report(history)
        save_checkpoint(self.out / FILE, KIND, best, verifier=msgspec.json.encode(self.saved).decode())
        (self.out / "checkpoint.safetensors").unlink(missing_ok=True)
        return report

    def _batches(self, examples: Sequence[_LabelledSolution]) -> list[list[_LabelledSolution]]:
        """Solutions of similar length, as many as are read at once."""
        from draftverify_reasoning.token_scores import width_of

        widths = [width_of(example.row, self.settings.longest) for example in examples]
        return [[examples[i] for i in batch] for batch in by_length(widths, at_once(self.network.device))]

    def _scores(self, batch: Sequence[_LabelledSolution]) -> Tensor:
        """Log-odds after every token [solutions, tokens], those of the likelihood among them."""
        import torch

        from draftverify_reasoning.token_scores import padded

        ids = padded([example.row for example in batch], self.settings.longest, self.network.device)
        offsets = torch.tensor([self._offset(example) for example in batch], device=ids.device)
        scores: Tensor = self.network(ids) + offsets[:, None]
        return scores

    # Training

    def _train(self, progress: Progress) -> tuple[list[dict[str, Any]], dict[str, Tensor]]:
        """What each epoch came to, and what was trained by the end of the best."""
        import torch

        settings, network = self.settings, self.network
        trained = network.trained()
        head = [parameter for name, parameter in trained.items() if name.startswith("head.")]
        layers = [parameter for name, parameter in trained.items() if not name.startswith("head.")]
        optimiser = torch.optim.AdamW(
            [{"params": head, "lr": _HEAD_RATE}, {"params": layers, "lr": _LAYER_RATE}], weight_decay=_DECAY
        )
        share = float(np.mean([example.correct for example in self.trained]))
        if self.saved.likelihood is None:
            torch.nn.init.constant_(network.head.bias, math.log(share / (1 - share)))
        history, best = self._restore(optimiser)
        if self.saved.likelihood is not None and not history:
            # Before the first epoch it is the likelihood; no epoch is taken that is no better.
            history.append({"epoch": 0, **self._epoch_figures()})
            best = _copied(trained)
        batches = self._batches(self.trained)
        total = settings.epochs * len(batches)
        schedule = [(group, group["lr"]) for group in optimiser.param_groups]
        with torch.random.fork_rng(devices=[]):
            for epoch in range(history[-1]["epoch"] if history else 0, settings.epochs):
                # Order and dropout depend on (seed, epoch) alone, so that a resumed training is the same.
                torch.manual_seed(settings.seed * 1_000_003 + epoch)
                order = random.Random(f"{settings.seed} {epoch}").sample(batches, len(batches))
                network.train()
                done, loss_sum = epoch * len(batches), 0.0
                for group in _steps(order):
                    for batch in group:
                        loss = self._loss(batch)
                        (loss / sum(map(len, group))).backward()
                        loss_sum += float(loss.detach())
                        done += 1
                        progress(done, total, f"epoch {epoch + 1}")
                    factor = min(1.0, done / (0.1 * total), (total - done + 1) / (0.9 * total))
                    for parameters, rate in schedule:
                        parameters["lr"] = rate * factor
                    torch.nn.utils.clip_grad_norm_([*trained.values()], 1.0)
                    optimiser.step()
                    optimiser.zero_grad()
                if not (
                    math.isfinite(loss_sum)
                    and all(bool(parameter.isfinite().all()) for parameter in trained.values())
                ):
                    raise ConfigError(_NO_NUMBERS, path="dtype")
                entry = {"epoch": epoch + 1, "loss": loss_sum / len(self.trained), **self._epoch_figures()}
                history.append(entry)
                if _chosen(history) == len(history) - 1:
                    best = _copied(trained)
                self._save(optimiser, history, best)
        return history, best

    def _loss(self, batch: Sequence[_LabelledSolution]) -> Tensor:
        """The loss summed over a batch's solutions."""
        import torch
        from torch.nn import functional

        scores = self._scores(batch)
        right = torch.tensor([float(example.correct) for example in batch], device=scores.device)
        each_token = functional.binary_cross_entropy_with_logits(
            scores, right[:, None].expand_as(scores), reduction="none"
        )
        return torch.stack([
            (1 - _LAST) * line[example.row.begin : len(example.row.ids)].mean() + _LAST * line[len(example.row.ids) - 1]
            for line, example in zip(each_token, batch, strict=True)
        ]).sum()  # fmt: skip

    def _restore(self, optimiser: Any) -> tuple[list[dict[str, Any]], dict[str, Tensor]]:
        """What lies in `out`, put into network and optimiser; the epochs so far and the best."""
        checkpoint = load_checkpoint(self.out / "checkpoint.safetensors", self.mark)
        if checkpoint is None:
            return [], {}
        tensors, notes = checkpoint
        now, best = (
            {name[len(kind) :]: tensor for name, tensor in tensors.items() if name.startswith(kind)}
            for kind in ("now.", "best.")
        )
        self.network.load_state_dict(now, strict=False)
        restore_optimiser(optimiser, tensors)
        return json.loads(notes["history"]), best

    def _save(self, optimiser: Any, history: list[dict[str, Any]], best: Mapping[str, Tensor]) -> None:
        tensors = {f"now.{name}": tensor.detach() for name, tensor in self.network.trained().items()}
        tensors |= {f"best.{name}": tensor for name, tensor in best.items()}
        tensors |= optimiser_tensors(optimiser)
        save_checkpoint(self.out / "checkpoint.safetensors", self.mark, tensors, history=json.dumps(history))

    # What was held out

    def _measured(self) -> list[tuple[float, _LabelledSolution]]:
        """The held-out solutions, each with its score."""
        import torch

        self.network.eval()
        measured: list[tuple[float, _LabelledSolution]] = []
        with torch.inference_mode():
            for batch in self._batches(self.held):
                lines = self._scores(batch).cpu()
                measured += [
                    (float(line[example.row.ends[-1]]), example)
                    for line, example in zip(lines, batch, strict=True)
                ]
        if not all(math.isfinite(score) for score, _ in measured):
            raise ConfigError(_NO_NUMBERS, path="dtype")
        return measured

    def _epoch_figures(self) -> dict[str, Any]:
        measured = self._measured()
        if not measured:
            return {}
        scores, held = zip(*measured, strict=True)
        right = [example.correct for example in held]
        loss = float(np.logaddexp(0, np.where(right, -1.0, 1.0) * scores).mean())
        auc = auroc_within(scores, right, [example.problem for example in held]).value
        return {"held_out_loss": loss, **({} if math.isnan(auc) else {"auc_within": auc})}

    def _report(self, history: list[dict[str, Any]]) -> dict[str, Any]:
        report: dict[str, Any] = {
            "problems": len({example.problem for example in self.trained}),
            "solutions": len(self.trained),
            "too_long": self.too_long,
            "held_out_problems": len({example.problem for example in self.held}),
            "held_out_solutions": len(self.held),
            "epochs": history[-1]["epoch"],
            "epoch": history[_chosen(history)]["epoch"],
            "history": history,
        }
        if len({example.correct for example in self.held}) < 2:
            return report
        scores, held = zip(*self._measured(), strict=True)
        return report | held_out_figures(
            scores,
            [example.correct for example in held],
            [example.problem for example in held],
            [example.answer for example in held],
            [example.logprob or 0.0 for example in held] if self.saved.likelihood is not None else None,
        )


def _examples(tokenizer: Any, problems: Sequence[Labelled]) -> list[_LabelledSolution]:
    from draftverify_reasoning.token_scores import row_of

    return [
        _LabelledSolution(
            row_of(tokenizer, problem.question, [text]), place, correct, logprob, answer_of(text)
        )
        for place, problem in enumerate(problems)
        for text, correct, logprob in zip(problem.solutions, problem.correct, problem.logprobs, strict=True)
    ]


def _steps(batches: Sequence[list[_LabelledSolution]]) -> Iterator[list[list[_LabelledSolution]]]:
    """Batches in groups, each of which is one step."""
    group: list[list[_LabelledSolution]] = []
    for batch in batches:
        group.append(batch)
        if sum(map(len, group)) >= _STEP:
            yield group
            group = []
    if group:
        yield group


def _chosen(history: Sequence[Mapping[str, Any]]) -> int:
    """The epoch that is taken: of the highest AUC within problems, the first of equals; without it of the lowest loss
    on what was held out; with nothing held out the last.
    """
    if "auc_within" in history[0]:
        return max(range(len(history)), key=lambda i: (history[i]["auc_within"], -i))
    if "held_out_loss" in history[0]:
        return min(range(len(history)), key=lambda i: (history[i]["held_out_loss"], i))
    return len(history) - 1


def _log_odds(examples: Sequence[_LabelledSolution]) -> tuple[float, float]:
    """Slope and intercept of the log-odds of being right by the log-probability."""
    fit = fit_scores(
        LabelledScore(str(example.problem), float(example.logprob or 0.0), example.correct)
        for example in examples
    )
    return fit.slope, fit.intercept


def _copied(parameters: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: parameter.detach().cpu().clone() for name, parameter in parameters.items()}


def _held(problems: Sequence[Labelled], share: float) -> set[int]:
    """The problems that are held out.

    Questions that differ by white space or case stay together: one is no test of what was learned from the other.
    """
    spelling_of: dict[str, str] = {}
    questions = [
        spelling_of.setdefault(" ".join(problem.question.split()).casefold(), problem.question)
        for problem in problems
    ]
    return held_out(questions, share)


def _hash(content: Any) -> str:
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()
