"""Training a verifier from labelled solutions: `draftverify fit part verifier CONFIG`.

    OUT/states/*.safetensors       what the layers that stay as they are make of each batch, until the training is done
    OUT/checkpoint.safetensors     what is trained, its optimiser and the best so far, after the last whole epoch
    OUT/verifier.json, OUT/verifier.safetensors    the verifier (verifier.py)

Every token of a solution is taught, as in the paper, whether the whole is right: a wrong step may be seen where it
stands, and a solution can be judged before its end. The last token counts as much as all together. The loss is the
cross-entropy of that (the paper's is the squared error; cross-entropy makes the score a log-odds) and, times
`lm_weight`, of the language model's next tokens, which keeps the trained layers those of a language model. That is
taken at a part of the tokens, since over a large vocabulary it costs more than all else.
"""

from __future__ import annotations

import hashlib
import json
import math
import random
import shutil
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
from draftverify_reasoning.verifier import Saved, save

if TYPE_CHECKING:
    from torch import Tensor

    from draftverify_reasoning.token_scores import TokenRow

__all__ = ["VerifierTraining"]

Progress = Callable[[int, int, str], None]

_STEP = 32
"""Solutions of one optimiser step, about: a step ends with the batch that has as many."""

_LAYER_RATE = 1e-4
_HEAD_RATE = 1e-3
_DECAY = 0.01
_DROPOUT = 0.1
_LAST = 0.5
"""What the last token counts, after which a whole solution is judged; all tokens of the solution share the rest."""

_WORDS = 16
"""Tokens of a solution at which the language model's loss is taken."""

_MOST_STATES = 16 << 30
"""Bytes of states that are kept on disk; of more, each epoch computes them anew."""

_NO_NUMBERS = "the training came to values that are no numbers; choose dtype: float32, or a smaller lm_weight"


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
        layers: of these, how many are trained, from the top; the states of the others are computed once. 0 trains the
            head alone.
        epochs: how often each solution is seen.
        lm_weight: of the language model's loss; it counts where layers are trained.
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
    lm_weight: float = 0.1
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
            sample), the majority of the same answers, the likeliest one, and the share that has a right one; promised
            probability against share. All with 95 % intervals over problems. `learned_from`: the questions.

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
        for name, fits, range_of in (
            ("held_out", 0 <= self.held_out <= 0.5, "from 0 to 0.5"),
            ("epochs", self.epochs >= 1, "at least 1"),
            ("layers", self.layers >= 0, "0 or more"),
            ("lm_weight", 0 <= self.lm_weight < math.inf, "0 or more"),
            ("longest", self.longest >= 2, "at least 2"),
        ):
            if not fits:
                raise ConfigError(f"{name} must be {range_of}, not {getattr(self, name)}", path=name)


class _LabelledSolution(NamedTuple):
    row: TokenRow
    problem: int
    correct: bool
    logprob: float | None
    answer: str | None


class _VerifierTrainingRun:
    """One training, with what it has read."""

    def __init__(self, settings: VerifierTraining, problems: Sequence[Labelled], out: Path) -> None:
        import torch

        from draftverify_reasoning.token_scores import TokenScores, width_of

        self.settings = settings
        self.out = out
        model = LocalModel(settings.model, dtype=settings.dtype, device=settings.device)
        positions = getattr(model.model.config.get_text_config(), "max_position_embeddings", settings.longest)
        if settings.longest > positions:
            raise ConfigError(
                f"longest is {settings.longest}; {settings.model} reads {positions} tokens", path="longest"
            )
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(settings.seed)
            count = int(model.model.config.get_text_config().num_hidden_layers)
            depth = settings.depth if settings.depth is not None else (count + 1) // 2
            self.network = TokenScores(model.model, settings.layers, depth)
        self.saved = Saved(
            model=str(settings.model),
            identity=weights_identity(torch_directory(str(settings.model)), {}),
            dtype=settings.dtype,
            layers=settings.layers,
            depth=depth,
            longest=settings.longest,
            likelihood=None,
        )
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
        if settings.likelihood and all(example.logprob is not None for example in read):
            self.saved = msgspec.structs.replace(self.saved, likelihood=_log_odds(self.trained))
        rows = [
            (example.row.ids, example.problem in held, example.correct, self._offset(example))
            for example in read
        ]
        tokens = at_once(self.network.device)
        # `longest` and `tokens` say which solutions share a batch, whose states are kept under its number.
        model_read = [self.saved.identity, settings.dtype, self.saved.depth, settings.layers]
        self.read_mark = _hash([model_read, rows, settings.longest, tokens])
        self.mark = _hash([self.read_mark, settings.epochs, settings.lm_weight, settings.seed])
        self.batches = [
            [part[i] for i in batch]
            for part in (self.trained, self.held)
            for batch in by_length([width_of(example.row, settings.longest) for example in part], tokens)
        ]
        self.to_train = [i for i, batch in enumerate(self.batches) if batch[0].problem not in held]
        self.to_measure = [i for i, batch in enumerate(self.batches) if batch[0].problem in held]
        width = int(model.model.config.get_text_config().hidden_size)
        size = sum(len(batch) * width_of(batch[0].row, settings.longest) for batch in self.batches) * width
        self.keeps = size * (2 if settings.dtype == "bfloat16" else 4) <= _MOST_STATES

    def _offset(self, example: _LabelledSolution) -> float:
        """The log-odds that the likelihood alone gives."""
        if self.saved.likelihood is None or example.logprob is None:
            return 0.0
        slope, intercept = self.saved.likelihood
        return slope * example.logprob + intercept

    def run(self, progress: Progress) -> dict[str, Any]:
        reading = len(self.batches) if self.keeps else 0
        total = reading + self.settings.epochs * len(self.to_train)
        # Another training's checkpoint is found before hours are spent on reading.
        load_checkpoint(self.out / "checkpoint.safetensors", self.mark)
        for place in range(reading):
            self._states(place)
            progress(place + 1, total, "reading")
        history, best = self._train(lambda step, message: progress(reading + step, total, message))
        for name, parameter in self.network.trained().items():
            parameter.data.copy_(best[name])
        report = self._report(history)
        save(self.out, self.saved, self.network)
        (self.out / "checkpoint.safetensors").unlink(missing_ok=True)
        shutil.rmtree(self.out / "states", ignore_errors=True)
        return report

    # What the layers that stay make of a batch

    def _states(self, place: int) -> Tensor:
        """States [solutions, tokens, hidden] of a batch, computed once where there is room for all."""
        from draftverify_reasoning.token_scores import padded

        path = self.out / "states" / f"{place:06d}.safetensors"
        if self.keeps and (checkpoint := load_checkpoint(path, self.read_mark)) is not None:
            states: Tensor = checkpoint[0]["states"].to(self.network.device)
            return states
        rows = [example.row for example in self.batches[place]]
        ids = padded(rows, self.settings.longest, self.network.device)
        states = self.network.states(ids)
        if self.keeps:
            save_checkpoint(path, self.read_mark, {"states": states.cpu().contiguous()})
        return states

    # Training

    def _train(self, tell: Callable[[int, str], None]) -> tuple[list[dict[str, Any]], dict[str, Tensor]]:
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
        steps = math.ceil(len(self.trained) / _STEP) * settings.epochs
        schedule = [(group, group["lr"]) for group in optimiser.param_groups]
        with torch.random.fork_rng(devices=[]):
            for epoch in range(history[-1]["epoch"] if history else 0, settings.epochs):
                # Order, dropout and words depend on (seed, epoch) alone, so that a resumed training is the same.
                torch.manual_seed(settings.seed * 1_000_003 + epoch)
                order = random.Random(f"{settings.seed} {epoch}").sample(self.to_train, len(self.to_train))
                network.train()
                done, losses = epoch * len(self.to_train), []
                for group in _steps(order, self.batches):
                    count = sum(len(self.batches[i]) for i in group)
                    for place in group:
                        loss, right, word_loss = self._loss(place)
                        (loss / count).backward()
                        losses.append((right, word_loss, len(self.batches[place])))
                        done += 1
                        tell(done, f"epoch {epoch + 1}")
                    step = done / len(self.to_train) / settings.epochs * steps
                    factor = min(1.0, step / (0.1 * steps), (steps - step + 1) / (0.9 * steps))
                    for parameters, rate in schedule:
                        parameters["lr"] = rate * factor
                    torch.nn.utils.clip_grad_norm_([*trained.values()], 1.0)
                    optimiser.step()
                    optimiser.zero_grad()
                sums = np.array(losses).sum(0)
                if not (
                    np.isfinite(sums).all()
                    and all(bool(parameter.isfinite().all()) for parameter in trained.values())
                ):
                    raise ConfigError(_NO_NUMBERS, path="dtype")
                entry = {"epoch": epoch + 1, "loss": sums[0] / sums[2], "lm_loss": sums[1] / sums[2]}
                entry |= self._epoch_figures()
                history.append(entry)
                if _chosen(history) == len(history) - 1:
                    best = _copied(trained)
                self._save(optimiser, history, best)
        return history, best

    def _loss(self, place: int) -> tuple[Tensor, float, float]:
        """The loss summed over a batch's solutions; of these the verifier's own and the language model's."""
        import torch
        from torch.nn import functional

        batch, network = self.batches[place], self.network
        read = network.read(self._states(place))
        offsets = torch.tensor([self._offset(example) for example in batch], device=read.device)
        scores = network.score(functional.dropout(read, _DROPOUT)) + offsets[:, None]
        labels = torch.tensor(
            [example.correct for example in batch], dtype=torch.float32, device=scores.device
        )
        each_token = functional.binary_cross_entropy_with_logits(
            scores, labels[:, None].expand_as(scores), reduction="none"
        )
        right = torch.stack([
            (1 - _LAST) * line[example.row.begin : len(example.row.ids)].mean() + _LAST * line[len(example.row.ids) - 1]
            for line, example in zip(each_token, batch, strict=True)
        ]).sum()  # fmt: skip
        if not (self.settings.layers and self.settings.lm_weight):
            return right, float(right.detach()), 0.0
        states, ids, shares = [], [], []
        for line, example in zip(read, batch, strict=True):
            begin, end = example.row.begin, len(example.row.ids)
            places = begin + torch.randperm(end - begin)[:_WORDS]
            states.append(line[places.to(line.device) - 1])
            ids += [example.row.ids[at] for at in places.tolist()]
            shares += [1.0 / len(places)] * len(places)
        logits = network.words(torch.cat(states))
        device = logits.device
        lost = functional.cross_entropy(logits, torch.tensor(ids, device=device), reduction="none")
        word_loss = (lost * torch.tensor(shares, device=device)).sum()
        return right + self.settings.lm_weight * word_loss, float(right.detach()), float(word_loss.detach())

    def _restore(self, optimiser: Any) -> tuple[list[dict[str, Any]], dict[str, Tensor]]:
        """What lies in `out`, put into network and optimiser; the epochs so far and the best."""
        checkpoint = load_checkpoint(self.out / "checkpoint.safetensors", self.mark)
        if checkpoint is None:
            return [], {}
        tensors, notes = checkpoint
        for name, tensor in self.network.trained().items():
            tensor.data.copy_(tensors[f"now.{name}"])
        restore_optimiser(optimiser, tensors)
        return json.loads(notes["history"]), {
            name.removeprefix("best."): tensor for name, tensor in tensors.items() if name.startswith("best.")
        }

    def _save(self, optimiser: Any, history: list[dict[str, Any]], best: Mapping[str, Tensor]) -> None:
        tensors = {f"now.{name}": tensor.detach() for name, tensor in self.network.trained().items()}
        tensors |= {f"best.{name}": tensor for name, tensor in best.items()}
        tensors |= optimiser_tensors(optimiser)
        save_checkpoint(self.out / "checkpoint.safetensors", self.mark, tensors, history=json.dumps(history))

    # What was held out

    def _measured(self) -> tuple[list[float], list[bool], list[int]]:
        """Score, rightness and problem of each held-out solution."""
        import torch

        self.network.eval()
        measured: list[tuple[float, bool, int]] = []
        with torch.inference_mode():
            for place in self.to_measure:
                scores = self.network.score(self.network.read(self._states(place))).cpu()
                measured += [
                    (
                        float(line[example.row.ends[-1]]) + self._offset(example),
                        example.correct,
                        example.problem,
                    )
                    for line, example in zip(scores, self.batches[place], strict=True)
                ]
        scores_, right, problems = zip(*measured, strict=True) if measured else ((), (), ())
        if not np.isfinite(scores_).all():
            raise ConfigError(_NO_NUMBERS, path="dtype")
        return list(scores_), list(right), list(problems)

    def _epoch_figures(self) -> dict[str, Any]:
        scores, right, problems = self._measured()
        if not scores:
            return {}
        signs = np.where(right, 1.0, -1.0)
        figures: dict[str, Any] = {"held_out_loss": float(np.logaddexp(0, -signs * scores).mean())}
        auc = auroc_within(scores, right, problems).value
        return figures if math.isnan(auc) else {**figures, "auc_within": auc}

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
        scores, right, problems = self._measured()
        if len(set(right)) < 2:
            return report
        measured = [example for place in self.to_measure for example in self.batches[place]]
        logprobs = None
        if self.saved.likelihood is not None:
            logprobs = [example.logprob or 0.0 for example in measured]
        answers = [example.answer for example in measured]
        return report | held_out_figures(scores, right, problems, answers, logprobs)


def _examples(tokenizer: Any, problems: Sequence[Labelled]) -> list[_LabelledSolution]:
    from draftverify_reasoning.token_scores import row_of

    return [
        _LabelledSolution(
            row_of(tokenizer, problem.question, [text]), place, correct, logprob, answer_of(text)
        )
        for place, problem in enumerate(problems)
        for text, correct, logprob in zip(problem.solutions, problem.correct, problem.logprobs, strict=True)
    ]


def _steps(order: Sequence[int], batches: Sequence[Sequence[_LabelledSolution]]) -> Iterator[list[int]]:
    """Batches in groups, each of which is one step."""
    group: list[int] = []
    for place in order:
        group.append(place)
        if sum(len(batches[i]) for i in group) >= _STEP:
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
