"""A config that uses everything the format has, with the parts file and the tasks that it names."""

from __future__ import annotations

from pathlib import Path

PARTS = '''
from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from pathlib import Path
from typing import Literal, Protocol

from draftverify import Context, Generator, GeneratorTraits, PASS, Proposal, REJECT, Verification
from draftverify.secret import Secret


class Speaks(Protocol):
    def say(self) -> str: ...


class Model:
    """A model.

    Args:
        weights: a name, or the path of a file.
        key: opens it.
        like: another model.
    """

    def __init__(
        self,
        weights: str | Path = "tiny",
        key: Secret | None = None,
        like: Model | None = None,
        headers: dict[str, Secret] = {},
    ) -> None:
        self.weights = weights
        self.key = key
        self.like = like
        self.headers = headers

    def say(self) -> str:
        return "so"


class Mute:
    """A model that says nothing."""


class Guess:
    """Guesses numbers.

    Args:
        model: whose numbers.
        temperature: how wild.
        how: in which order.
        only: these alone.
        others: who may guess too.
        file: read by nobody.
    """

    traits = GeneratorTraits(reads={"temperature", "top_k"})

    def __init__(
        self,
        model: Speaks | None = None,
        temperature: float = 1.0,
        how: Literal["up", "down"] = "up",
        only: tuple[int, ...] = (),
        others: Sequence[Generator] = (),
        file: Path | None = None,
    ) -> None:
        self.model = model
        self.temperature = temperature
        self.how = how
        self.only = only
        self.others = others
        self.file = file

    def propose(self, context: Context, n: int) -> Proposal:
        return Proposal.alternatives(range(n))


class Check:
    """Passes numbers from `least` on."""

    def __init__(self, least: int) -> None:
        self.least = least

    def verify(self, context: Context, proposal: Proposal) -> Verification:
        return Verification(checks=tuple(PASS if item >= self.least else REJECT for item in proposal.items))


class Refuses:
    """A rule that does not take what its constructor is given."""

    def __init__(self, n: int = 1) -> None:
        raise ValueError("n is out of season")

    def decide(self, context, proposal, verification, rng):
        pass
'''

CONFIG = """\
name: whole
seed: 7
parts: [./mine.py]
tasks: {use: jsonl, path: tasks.jsonl, fields: {prompt: text}, id: task, group: kind, limit: 3}
models:
  small: {use: mine.Model}
  large: {use: mine.Model, weights: ./weights.bin, key: "${DRAFTVERIFY_TEST_KEY}", like: small}
settings: {temperature: 0.5, top_k: 4}
pipelines:
  plain:
    generator: {use: mine.Guess}
    verifier: {use: mine.Check, least: 1}
    rule: {use: first}
  blocks:
    generator:
      use: mine.Guess
      model: large
      temperature: 2
      how: down
      only: [1, 2]
      others: [{use: mine.Guess, model: {use: mine.Model, weights: own}}]
      file: numbers/list.txt
    verifier: {use: mine.Check, least: 3}
    rule: {use: first, enough: 1}
    block: {use: measured, at_most: 8}
    done: {use: any_of, rules: [{use: limit, items: 5}, {use: rounds, n: 9}]}
    settings: {temperature: 0.1}
    on_rejection:
      - {on: error, do: reverify, times: 2}
      - {on: [reject, timeout], do: feedback}
      - {do: fallback, generator: {use: mine.Guess, how: up}, rounds: forever, verified: false, times: forever}
      - {do: escalate}
    budget: {rounds: 50, seconds: 10, verifier_calls: 60, cost: 1.5}
baseline: plain
executor: {use: thread, workers: 2}
durable: round
memory: {every: 10}
predict: {limit: 1}
"""

TASKS = """\
{"task": "a", "text": "one", "kind": "x"}
{"task": "b", "text": "two", "kind": "y"}
"""


def write_experiment(folder: Path, config: str | bytes = CONFIG) -> Path:
    """Write the config (or another) with its parts and tasks, and return its path."""
    (folder / "mine.py").write_text(PARTS)
    (folder / "tasks.jsonl").write_text(TASKS)
    path = folder / "experiment.yaml"
    path.write_bytes(config.encode() if isinstance(config, str) else config)
    return path
