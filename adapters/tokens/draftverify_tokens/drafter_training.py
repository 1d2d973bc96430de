"""Training a drafter from a run's records: `draftverify fit part drafter RUN`.

    OUT/config.json, OUT/model.safetensors    the drafter, which `tokens.eagle` or `tokens.medusa` loads
    OUT/checkpoint.safetensors                what is trained and its optimiser, until the training is done

The log says what the target answered, whatever drafted for it. The target reads these answers again, and the network
learns to say what it says next from its states on the way (drafter_learning.py, and of either kind eagle_training.py
and medusa_training.py). The model stays as it is.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from pydantic import Field

from draftverify import ConfigError, Pipeline, TaskRecord
from draftverify_llm import load_checkpoint, optimiser_tensors, restore_optimiser, save_checkpoint
from draftverify_tokens.drafter_config import KIND
from draftverify_tokens.slots import agreement
from draftverify_tokens.target import Target

if TYPE_CHECKING:
    from draftverify_tokens.drafter_learning import Kind, ReadText, TextBatch
    from draftverify_tokens.drafter_network import DrafterNetwork


Progress = Callable[[int, int, str], None]

_FEWEST = 16
"""Tokens of answers below which nothing can be learned."""
_BATCH = 160
"""Places of one optimiser step, about."""
_LOOKS = 8
"""So often a training is looked at on the tasks that were kept apart, and can be gone on from."""
_WARM = 0.05
"""The share of steps in which the rate rises; it falls to 0 along a cosine after them."""
_DECAY = 0.01
_CLIP = 1.0


class DrafterTraining:
    """Trains a drafter that reads the target's hidden states from the target's answers in a run.

    Nine tasks of ten are learned from, as `split_of` chooses them; the others are for the report. The states of all of
    them are held in memory: of an EAGLE layer four of the model's width for each token, of heads two.

    Args:
        run: the directory of a run.
        pipeline: whose answers are learned; the run's only one when None.
        kind: "eagle" (`tokens.eagle`, a decoder layer) or "medusa" (`tokens.medusa`, a head for each token ahead).
        layers: of an EAGLE layer, after how many of the target's layers each of the states is taken that it reads; of n
            layers a quarter, a half and four fifths when None.
        vocabulary: how many tokens the drafter's head has, those that the answers have most often.
        steps: how many tokens ahead it learns to draft.
        epochs: how often each answer is seen.
        rate: the optimiser's, at its highest.
        seed: of the first weights and the order.
        config: the config that the run was made from, where it has moved.

    References:
        Li et al., "EAGLE-3", arXiv:2503.01840; Cai et al., "Medusa", arXiv:2401.10774.
    """

    def __init__(
        self,
        run: Path,
        pipeline: str | None = None,
        kind: Literal["eagle", "medusa"] = "eagle",
        layers: tuple[int, ...] | None = None,
        vocabulary: Annotated[int, Field(ge=1)] = 8192,
        steps: Annotated[int, Field(ge=1)] = 3,
        epochs: Annotated[int, Field(ge=1)] = 6,
        rate: Annotated[float, Field(gt=0)] = 1e-3,
        seed: int = 0,
        config: Path | None = None,
    ) -> None:
        self.run = run
        self.pipeline = pipeline
        self.kind = kind
        self.layers = layers
        self.vocabulary = vocabulary
        self.steps = steps
        self.epochs = epochs
        self.rate = rate
        self.seed = seed
        self.config = config

    @cached_property
    def identity(self) -> str:
        """What was learned from, by its tasks and answers, and how."""
        name, _, records = self._recorded
        answers = [[record.task, _answer(record)] for record in records]
        how = [self.kind, self.layers, self.vocabulary, self.steps, self.epochs, self.rate, self.seed, name]
        return hashlib.sha256(repr([*how, answers]).encode()).hexdigest()[:16]

    def train(self, out: Path, progress: Progress = lambda step, total, message: None) -> dict[str, Any]:
        """Train the drafter, or go on with it.

        Args:
            out: a directory for it.
            progress: told (step, of how many, words).

        Returns:
            The report: how many tasks and tokens were learned from; and of the tasks that were kept apart how often
            the token at each place of a block is the target's where all before it were (`accepted_1`, …), the tokens
            that a pass brings with such blocks, and both after every part of the training (`curve`).

        Raises:
            ConfigError: the run's verifier is no `tokens.target`, there are too few answers to learn from, or the
                target has no such layer.
        """
        from draftverify.bench.records import load_run, split_of
        from draftverify_tokens.drafter_network import save_network

        name, pipeline, records = self._recorded
        verifier = pipeline.verifier
        if not isinstance(verifier, Target):
            raise ConfigError(
                f"the pipeline {name!r} verifies with {type(verifier).__name__}; a drafter learns the answers of a "
                "tokens.target",
                where=str(self.run),
            )
        load_checkpoint(
            out / "checkpoint.safetensors", self.identity
        )  # another's is found before the reading
        with load_run(self.run) as run:
            tasks = {task.id: task for task in run.tasks}
        texts: dict[str, list[tuple[list[int], list[int]]]] = {"train": [], "test": []}
        for record in records:
            if answer := _answer(record):
                prompt = verifier.prepare(tasks[record.task]).input["prompt_ids"]
                texts[split_of(record.task)].append((prompt, answer))
        count = sum(len(answer) for _, answer in texts["train"])
        if count < _FEWEST:
            raise ConfigError(
                f"the log has {count} tokens to learn from, and {_FEWEST} are the fewest; run more tasks",
                where=str(self.run),
            )
        learner = DrafterLearner(self, verifier.model.model, texts)
        network, curve = learner.learn(out, progress)
        save_network(network, out)
        (out / "checkpoint.safetensors").unlink(missing_ok=True)
        last = curve[-1]
        return {
            "learned_tasks": len(texts["train"]),
            "learned_tokens": count,
            "kept_apart_tasks": len(texts["test"]),
            **{f"accepted_{place}": rate for place, rate in enumerate(last["accepted"], 1)},
            "tokens_per_pass": last["tokens_per_pass"],
            "curve": curve,
            "learned_from": [task for task in tasks.values() if split_of(task.id) == "train"],
        }

    @cached_property
    def _recorded(self) -> tuple[str, Pipeline, list[TaskRecord]]:
        """The pipeline's name, the pipeline, which nobody has opened, and its records."""
        from draftverify.bench.records import load_run
        from draftverify.lab import RecordedPipeline  # which few who decode tokens need

        with load_run(self.run) as run:
            if self.pipeline is None and len(run.names) != 1:
                raise ConfigError(
                    f"{run.path} has {len(run.names)} pipelines; name one: --set pipeline={' or '.join(run.names[:8])}",
                    path="pipeline",
                )
            recording = RecordedPipeline(run, self.pipeline, config=self.config)
            return recording.name, recording.pipeline, run.records(recording.name)


def _answer(record: TaskRecord) -> list[int]:
    return [value for round in record.rounds for value in round.decision.emitted]


def config_of(training: DrafterTraining, module: Any) -> dict[str, Any]:
    """The config of a training's network for a target's module, in the form of speculators.

    Raises:
        ConfigError: the module has not what the network reads.
    """
    kind, text = _kind(training), module.config.get_text_config()
    return {
        KIND: kind.name,
        "speculators_version": "0.9.0",
        "speculators_config": {
            "algorithm": kind.name,
            "default_proposal_method": "greedy",
            "proposal_methods": [{"proposal_type": "greedy", "speculative_tokens": training.steps}],
            "verifier": {
                "name_or_path": module.config.name_or_path or None,
                "architectures": module.config.architectures or [type(module).__name__],
            },
        },
        "draft_vocab_size": min(training.vocabulary, text.vocab_size),
        **kind.config_of(module, training.layers, training.steps),
    }


def _kind(training: DrafterTraining) -> Kind:
    if training.kind == "medusa":
        from draftverify_tokens.medusa_training import MEDUSA

        return MEDUSA
    from draftverify_tokens.eagle_training import EAGLE

    return EAGLE


class DrafterLearner:
    """One training.

    Args:
        training: its settings.
        module: the target's.
        texts: prompts and answers, to learn from ("train") and kept apart ("test").
    """

    def __init__(
        self, training: DrafterTraining, module: Any, texts: dict[str, list[tuple[list[int], list[int]]]]
    ) -> None:
        import torch

        self.training, self.module, self.texts = training, module, texts
        self.kind = _kind(training)
        self.network = self.kind.network(config_of(training, module)).to(module.device)
        counts = Counter(token for _, answer in texts["train"] for token in answer)
        size, rows = len(self.network.d2t), len(self.network.t2d)
        likeliest = [token for token, _ in counts.most_common(size)]
        others = set(range(rows)).difference(likeliest)
        self.tokens = [*likeliest, *sorted(others)[: size - len(likeliest)]]
        self.embeddings = module.get_input_embeddings()
        with torch.inference_mode():
            # What the head makes of the states that are 1 at one place and 0 elsewhere are its weights, however packed;
            # what it makes of 0 is its bias.
            head = module.get_output_embeddings()
            units = torch.eye(self.embeddings.weight.shape[1], dtype=module.dtype, device=module.device)
            weights = head(units) - head(torch.zeros_like(units[:1]))
            self.head = weights.T[sorted(self.tokens)].clone()

    def learn(self, out: Path, progress: Progress) -> tuple[DrafterNetwork, list[dict[str, Any]]]:
        """The trained network, in the target's type, and its learning curve."""
        import torch

        from draftverify_tokens.drafter_learning import TextBatch, losses

        training, network, path = self.training, self.network, out / "checkpoint.safetensors"
        epochs = [self._batches(epoch) for epoch in range(training.epochs)]
        total, reading, step, seen = sum(map(len, epochs)), sum(map(len, self.texts.values())), 0, 0
        read: dict[str, list[ReadText]] = {"train": [], "test": []}
        for split, texts in self.texts.items():
            for text in texts:
                progress(sum(map(len, read.values())) + 1, reading + total, "reading")
                read[split].append(self._read(*text))
        self.kind.initialise(network, read["train"], training.seed)
        network.take_head(self.tokens, self.head)
        learned = [weight for weight in network.parameters() if weight.requires_grad]
        optimiser = torch.optim.AdamW(learned, lr=training.rate, weight_decay=_DECAY)
        looks = {math.ceil(total * look / _LOOKS) for look in range(1, _LOOKS + 1)}
        curve: list[dict[str, Any]] = []
        if (checkpoint := load_checkpoint(path, training.identity)) is not None:
            tensors, notes = checkpoint
            network.load_state_dict({name: tensors[name] for name in network.state_dict()})
            restore_optimiser(optimiser, tensors)
            curve = json.loads(notes["curve"])
        # Prompts teach as well, but for the words that all of them begin with.
        taught = [text._replace(start=min(text.start, self._opening)) for text in read["train"]]
        for batch in chain(*epochs):
            step += 1
            seen += sum(len(self.texts["train"][index][1]) for index in batch)
            if curve and step <= curve[-1]["step"]:
                continue
            ahead = 1 if step <= total * self.kind.alone else training.steps
            for group in optimiser.param_groups:
                group["lr"] = training.rate * _share(step, total)
            with self._autocast():
                texts_ahead = TextBatch([taught[index] for index in batch], ahead)
                loss = losses(self._drafted(texts_ahead, ahead), self.head, texts_ahead).mean()
            optimiser.zero_grad()
            (loss * ahead).backward()
            torch.nn.utils.clip_grad_norm_(learned, _CLIP)
            optimiser.step()
            status = f"loss {loss.item():.3f}"
            if step in looks:
                curve.append({"step": step, "tokens_seen": seen, **self._look(read["test"])})
                tensors = {**network.state_dict(), **optimiser_tensors(optimiser)}
                save_checkpoint(path, training.identity, tensors, curve=json.dumps(curve))
                status = f"{curve[-1]['tokens_per_pass']:.2f} tokens a pass"
            progress(reading + step, reading + total, status)
        return network.to(self.module.dtype), curve

    def _read(self, prompt: list[int], answer: list[int]) -> ReadText:
        """A text with the target's states."""
        import torch

        from draftverify_tokens.drafter_learning import ReadText
        from draftverify_tokens.forward import recording

        ids = torch.tensor([[*prompt, *answer]], device=self.module.device)
        with torch.no_grad(), recording(self.module):
            out = self.module.base_model(input_ids=ids, use_cache=False, output_hidden_states=True)
        states = [out.hidden_states[layer][0] for layer in self.network.reads]
        return ReadText(ids[0], len(prompt), torch.stack(states, 1), out.last_hidden_state[0])

    def _autocast(self) -> Any:
        import torch

        half = self.module.dtype in (torch.bfloat16, torch.float16)
        return torch.autocast(
            self.module.device.type, self.module.dtype if half else torch.bfloat16, enabled=half
        )

    def _drafted(self, batch: TextBatch, steps: int) -> Iterable[Any]:
        """The network's logits at each of so many steps."""
        return self.kind.steps_of(self.network, self.embeddings, batch, steps)

    def _look(self, texts: Sequence[ReadText]) -> dict[str, Any]:
        """How the network does on the texts that were kept apart."""
        import torch

        from draftverify_tokens.drafter_learning import TextBatch, rates_by_place

        steps = self.training.steps
        with torch.no_grad(), self._autocast():
            batches = [TextBatch([text], steps) for text in texts]
            rates, per_pass = rates_by_place(self._drafted, self.network.tokens, batches, steps)
        return {"accepted": rates, "tokens_per_pass": per_pass}

    @cached_property
    def _opening(self) -> int:
        """How many tokens all prompts begin with, 1 at least."""
        prompts = [prompt for prompt, _ in self.texts["train"]]
        return max(1, agreement(min(prompts), max(prompts)))

    def _batches(self, epoch: int) -> list[list[int]]:
        """Indices of the texts, in an order of the epoch's own, of about `_BATCH` places together."""
        texts = self.texts["train"]
        batches: list[list[int]] = [[]]
        places = 0
        for index in np.random.default_rng((self.training.seed, epoch)).permutation(len(texts)).tolist():
            if places >= _BATCH:
                batches.append([])
                places = 0
            batches[-1].append(index)
            places += sum(map(len, texts[index])) - self._opening
        return batches


def _share(step: int, total: int) -> float:
    """Of the rate at its highest."""
    warm = max(1, round(total * _WARM))
    if step <= warm:
        return step / warm
    return 0.5 * (1 + math.cos(math.pi * (step - warm) / max(1, total - warm)))
