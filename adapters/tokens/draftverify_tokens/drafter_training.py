"""Training a drafter from a run's records: `draftverify fit part drafter RUN`.

    OUT/drafter.safetensors   the map before the head of `tokens.early_exit` (exit_adapter.py)

The log says what the target accepted, where drafts were refused, and what the target put there. The target and its
first layers read these answers again, and a linear map is fitted from what the head would read of the first layers to
what it reads of all: least squares with a ridge, in closed form, so that the same log gives the same drafter. The model
stays as it is.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

import numpy as np
from pydantic import Field

from draftverify import ConfigError, Pipeline, TaskRecord, identity_of
from draftverify.stats import PairedTest, paired_difference
from draftverify_tokens.draft_tree import DraftTree
from draftverify_tokens.early_exit import EarlyExit, first_layers
from draftverify_tokens.first_of import FirstOf
from draftverify_tokens.target import Target

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["DrafterTraining", "refused_places"]

Progress = Callable[[int, int, str], None]

_FEWEST = 16
"""Positions below which nothing can be learned."""


class _LearnedText(NamedTuple):
    """A task's text: the prompt, the answer, and at which tokens of the answer a draft was refused."""

    prompt: list[int]
    answer: list[int]
    refused: list[int]


class DrafterTraining:
    """Trains the early exit (`tokens.early_exit`) that drafted in a run.

    Nine tasks of ten are learned from, as `split_of` chooses them; the others are for the report.

    Args:
        run: the directory of a run.
        pipeline: whose records are read, and whose drafter is trained; the run's only one when None.
        places: which tokens of the answers are learned: "all"; "refused", those in whose place something else was
            drafted; or "random", as many drawn from the same answers.
        most: at most so many places, drawn from those; None for all of them.
        ridge: how far the map is held back, as a share of the states' mean square.
        seed: of the draws of places.
        config: the config that the run was made from, where it has moved.

    References:
        Belrose et al., "Eliciting latent predictions from transformers with the tuned lens", arXiv:2303.08112.
    """

    def __init__(
        self,
        run: Path,
        pipeline: str | None = None,
        places: Literal["all", "refused", "random"] = "all",
        most: Annotated[int, Field(ge=1)] | None = None,
        ridge: float = 0.01,
        seed: int = 0,
        config: Path | None = None,
    ) -> None:
        self.run = run
        self.pipeline = pipeline
        self.places = places
        self.most = most
        self.ridge = ridge
        self.seed = seed
        self.config = config

    @property
    def identity(self) -> str:
        """What was learned from, by its tasks and answers, and how."""
        name, pipeline, records = self._recorded
        answers = [[record.task, _answer(record), refused_places(record)] for record in records]
        drafter = identity_of(pipeline.generator)
        parts = [self.places, self.most, self.ridge, self.seed, name, drafter, answers]
        return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]

    def train(self, out: Path, progress: Progress = lambda step, total, message: None) -> dict[str, Any]:
        """Train the drafter.

        Args:
            out: a directory for it.
            progress: told (step, of how many, words).

        Returns:
            The report: how many tasks and places were learned from; and of the tasks that were kept apart the share of
            the target's tokens that the drafter names first, as it drafted in the log and as it is trained now, and the
            difference with its 95 % interval over tasks.

        Raises:
            ConfigError: an argument is out of its range, the run has no early exit, or too few places to learn from.
        """
        from draftverify.bench.records import load_run, split_of

        if not self.ridge > 0:
            raise ConfigError(f"ridge must be above 0, not {self.ridge}", path="ridge")
        name, pipeline, records = self._recorded
        verifier = pipeline.verifier
        drafter = _early_exit(pipeline.generator)
        if drafter is None or not isinstance(verifier, Target):
            raise ConfigError(
                f"the pipeline {name!r} drafts with {type(pipeline.generator).__name__}, which has nothing to train; "
                "tokens.early_exit has (tokens.suffix learns while it runs, with `epoch`)",
                where=str(self.run),
            )
        texts: dict[str, list[_LearnedText]] = {"train": [], "test": []}
        with load_run(self.run) as run:
            tasks = {task.id: task for task in run.tasks}
        for record in records:
            if answer := _answer(record):
                prompt = verifier.prepare(tasks[record.task]).input["prompt_ids"]
                texts[split_of(record.task)].append(_LearnedText(prompt, answer, refused_places(record)))
        chosen = self._chosen(texts["train"])
        count = sum(map(len, chosen))
        if count < _FEWEST:
            raise ConfigError(
                f"the log has {count} places to learn from, and {_FEWEST} are the fewest; run more tasks",
                where=str(self.run),
            )
        report = _fitted(drafter, texts, chosen, self.ridge, out, progress)
        return {**report, "learned_from": [task for task in tasks.values() if split_of(task.id) == "train"]}

    @cached_property
    def _recorded(self) -> tuple[str, Pipeline, list[TaskRecord]]:
        """The pipeline's name, the pipeline, which nobody has opened, and its records."""
        from draftverify.bench.records import load_run
        from draftverify.lab import RecordedPipeline  # which few who decode tokens need

        with load_run(self.run) as run:
            if self.pipeline is None and len(run.names) != 1:
                raise ConfigError(
                    f"{run.path} has {len(run.names)} pipelines; name one: {' or '.join(run.names[:8])}",
                    path="pipeline",
                )
            recording = RecordedPipeline(run, self.pipeline, config=self.config)
            return recording.name, recording.pipeline, run.records(recording.name)

    def _chosen(self, texts: Sequence[_LearnedText]) -> list[list[int]]:
        """Of each text the tokens of the answer that are learned."""
        refused = [(place, token) for place, text in enumerate(texts) for token in text.refused]
        every = [(place, token) for place, text in enumerate(texts) for token in range(len(text.answer))]
        rng = np.random.default_rng(self.seed)
        pool = refused if self.places == "refused" else every
        count = len(refused) if self.places == "random" else len(pool)
        count = count if self.most is None else min(count, self.most)
        picked: list[list[int]] = [[] for _ in texts]
        for index in sorted(rng.permutation(len(pool))[:count].tolist()):
            place, token = pool[index]
            picked[place].append(token)
        return picked


def refused_places(record: TaskRecord) -> list[int]:
    """Of a task's answer the places, from 0, at which a drafted token was refused and another one was put.

    In a tree they are those at which a sibling of a kept token was refused too.
    """
    places: set[int] = set()
    start = 0
    for round in record.rounds:
        depth = {-1: 0} | {index: place + 1 for place, index in enumerate(round.decision.kept)}
        emitted = len(round.decision.emitted)
        for refusal in round.decision.refused:
            place = depth.get(round.parents[refusal.index])
            if place is not None and place < emitted:
                places.add(start + place)
        start += emitted
    return sorted(places)


def _answer(record: TaskRecord) -> list[int]:
    return [value for round in record.rounds for value in round.decision.emitted]


def _early_exit(generator: Any) -> EarlyExit | None:
    """The early exit that a generator is, or drafts with."""
    if isinstance(generator, EarlyExit):
        return generator
    if isinstance(generator, FirstOf):
        return next(filter(None, map(_early_exit, generator.drafters)), None)
    return _early_exit(generator.drafter) if isinstance(generator, DraftTree) else None


def _fitted(
    drafter: EarlyExit,
    texts: dict[str, list[_LearnedText]],
    chosen: Sequence[Sequence[int]],
    ridge: float,
    out: Path,
    progress: Progress,
) -> dict[str, Any]:
    """Fit the map and write it; the report."""
    import torch

    from draftverify_tokens.exit_adapter import save_adapter

    model = drafter.model.model
    short = first_layers(model, drafter.layers)
    width = model.config.get_text_config().hidden_size
    total = len(texts["train"]) + len(texts["test"])
    step = 0

    def states(text: _LearnedText) -> tuple[Tensor, Tensor]:
        """[answer, width] each: what the head reads before each token of the answer, of the first layers and of all."""
        nonlocal step
        step += 1
        progress(step, total, "reading")
        ids = torch.tensor([[*text.prompt, *text.answer]], device=model.device)
        at = slice(len(text.prompt) - 1, ids.shape[1] - 1)
        with torch.inference_mode():
            early, late = (network.base_model(ids).last_hidden_state[0, at] for network in (short, model))
        return early.double(), late.double()

    moments = _Moments(width)
    for text, places in zip(texts["train"], chosen, strict=True):
        if places:
            early, late = states(text)
            moments.add(early[places], late[places])
    weight, bias = moments.solved(ridge)
    path = out / "drafter.safetensors"
    save_adapter(path, weight, bias, layers=drafter.layers)
    head, shares_before, shares_after = short.get_output_embeddings(), [], []
    drafted = drafter.module.get_output_embeddings()  # through the adapter that it had in the log, if any
    adapter = weight.to(model.dtype).to(model.device), bias.to(model.dtype).to(model.device)
    for text in texts["test"]:
        early = states(text)[0].to(model.dtype)
        target = torch.tensor(text.answer, device=model.device)
        with torch.inference_mode():
            trained = head(early + torch.nn.functional.linear(early, *adapter))
        for logits, shares in ((drafted(early), shares_before), (trained, shares_after)):
            shares.append((logits.argmax(-1) == target).double().mean().item())
    gained: PairedTest = paired_difference(shares_before, shares_after)
    return {
        "layers": drafter.layers,
        "learned_tasks": len(texts["train"]),
        "learned_places": moments.count,
        "kept_apart_tasks": len(shares_before),
        "named_first_before": gained.base,
        "named_first_after": gained.other,
        "gain": gained.effect,
        "gain_interval": [gained.low, gained.high],
        "adapter": path.name,
    }


class _Moments:
    """The sums that a least-squares fit of y − x on x needs, in double precision."""

    def __init__(self, width: int) -> None:
        import torch

        self.count = 0
        self.x, self.y = torch.zeros(width, dtype=torch.float64), torch.zeros(width, dtype=torch.float64)
        self.xx = torch.zeros((width, width), dtype=torch.float64)
        self.xy = torch.zeros((width, width), dtype=torch.float64)

    def add(self, x: Tensor, y: Tensor) -> None:
        """Add [n, width] states."""
        x, y = x.cpu(), (y - x).cpu()
        self.count += len(x)
        self.x += x.sum(dim=0)
        self.y += y.sum(dim=0)
        self.xx += x.T @ x
        self.xy += x.T @ y

    def solved(self, ridge: float) -> tuple[Tensor, Tensor]:
        """W [width, width] and b [width] of y − x ≈ W x + b, of the least Σ|…|² + ridge · n · mean(x²) · |W|²."""
        import torch

        x, y = self.x / self.count, self.y / self.count
        xx = self.xx / self.count - torch.outer(x, x)
        xy = self.xy / self.count - torch.outer(x, y)
        held = xx + ridge * xx.diagonal().mean() * torch.eye(len(x), dtype=torch.float64)
        weight = torch.linalg.solve(held, xy).T
        return weight, y - weight @ x
