"""The teacher: a deep network that says how likely each next symbol is, the verifier that asks it, and work for it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from draftverify import Context, Evidence, Outcome, Proposal, Task, Verification, VerifierTraits

__all__ = ["SYMBOLS", "Network", "Starts", "Surprise", "Teacher"]

SYMBOLS = 16
WINDOW = 6
WIDTH = 48


class Network:
    """The distribution of the next of 16 symbols after the last six, of which the later ones weigh more.

    It is deep and narrow, so many histories at once cost little more than one. Its weights are drawn, not trained.

    Args:
        seed: of the weights.
        depth: how many layers.
    """

    def __init__(self, seed: int = 1, depth: int = 512) -> None:
        self.seed = seed
        self.depth = depth

    @cached_property
    def _weights(self) -> tuple[Any, Any, Any]:
        rng = np.random.default_rng(self.seed)
        embedding = rng.normal(size=(WINDOW, SYMBOLS, WIDTH)) * 0.3 ** np.arange(WINDOW)[::-1, None, None]
        layers = rng.normal(size=(self.depth, WIDTH, WIDTH)) / np.sqrt(WIDTH)
        return embedding, layers, 3 * rng.normal(size=(WIDTH, SYMBOLS)) / np.sqrt(WIDTH)

    def probabilities(self, histories: Sequence[Sequence[int]]) -> Any:
        """[histories, 16] probabilities after histories of six symbols or more."""
        embedding, layers, head = self._weights
        latest = np.array([history[-WINDOW:] for history in histories])
        states = embedding[np.arange(WINDOW), latest].sum(axis=1)
        for layer in layers:
            states = states + np.tanh(states @ layer) / np.sqrt(self.depth)
        logits = states @ head
        odds = np.exp(logits - logits.max(axis=1, keepdims=True))
        return odds / odds.sum(axis=1, keepdims=True)


class Teacher:
    """Gives the network's distribution after the context and after each drafted symbol, all in one pass.

    Args:
        network: that is asked.
    """

    traits = VerifierTraits(provides={"target"})

    def __init__(self, network: Network) -> None:
        self.network = network

    def verify(self, context: Context, proposal: Proposal) -> Verification:
        """[items + 1, 16] target rows."""
        known, items = history(context), proposal.items
        paths = [[items[place] for place in proposal.path(index)] for index in range(len(items))]
        target = self.network.probabilities([known, *([*known, *path] for path in paths)])
        return Verification(evidence=Evidence(target=target))


class Surprise:
    """The mean of −log p of an answer's symbols under the network: the same for every exact drafter, but for chance.

    Args:
        network: whose p.
    """

    unit = "nats"

    def __init__(self, network: Network) -> None:
        self.network = network

    def __call__(self, task: Task, outcome: Outcome) -> float | None:
        """None where nothing was accepted."""
        if outcome.status != "accepted":
            return None
        start, answer = list(task.input["start"]), list(outcome.value)
        rows = self.network.probabilities([start + answer[:place] for place in range(len(answer))])
        return float(-np.log(rows[range(len(answer)), answer]).mean())


class Starts:
    """Tasks: random beginnings of six symbols.

    Args:
        count: how many.
        seed: of the beginnings; another one, other tasks.
    """

    def __init__(self, count: int, seed: int = 0) -> None:
        self.count = count
        self.seed = seed

    def load(self) -> list[Task]:
        """The tasks, the seed in their ids."""
        starts = np.random.default_rng(self.seed).integers(0, SYMBOLS, (self.count, WINDOW)).tolist()
        return [Task(id=f"{self.seed}/{n}", input={"start": start}) for n, start in enumerate(starts)]


def history(context: Context) -> list[int]:
    """The task's beginning and what was accepted since."""
    return [*context.task.input["start"], *context.accepted]
