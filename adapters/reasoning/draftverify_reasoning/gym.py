"""Problems of reasoning-gym: entries made again from what a task's input says of them, and scored by their dataset.

A task carries {"dataset", "seed", "size", "index", "config"} under `gym`, never the answer, so that whoever checks it
makes the entry again. The package imports its hundred datasets at once (seconds), so it is imported at first use.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from draftverify import ConfigError, ContractError, Task
from draftverify.plugins import did_you_mean
from draftverify_llm import need
from draftverify_reasoning.evaluated import evaluating, harmless

_KEYS = ("dataset", "seed", "size", "index", "config")
_MAKING = threading.Lock()  # the package's registry is filled while it is imported


class UnreadableAnswer(Exception):
    """A scorer broke on an answer that it could not read, though it reads its own, or was not to be given it; the
    message says why."""


def make_dataset(name: str, seed: int, size: int, config: Mapping[str, Any]) -> Any:
    """The dataset of this name, kept for the next call.

    Raises:
        ConfigError: there is none of this name, or it cannot be made with this config.
        ResourceError: reasoning-gym is not installed.
    """
    try:
        options = json.dumps(dict(config), sort_keys=True)
    except TypeError as error:
        raise ConfigError(
            f"the config of {name} should be plain data: {error}", path=f"config.{name}"
        ) from error
    with _MAKING:
        return _made(name, seed, size, options)


@lru_cache(maxsize=64)
def _made(name: str, seed: int, size: int, options: str) -> Any:
    need("reasoning_gym", doing="reasoning-gym's problems", extra="reasoning")
    import reasoning_gym  # type: ignore[import-untyped,unused-ignore]
    from reasoning_gym.factory import DATASETS  # type: ignore[import-untyped,unused-ignore]

    if name not in DATASETS:
        raise ConfigError(
            f"reasoning-gym has no dataset {name!r}{did_you_mean(name, DATASETS)}", path="datasets"
        )
    arguments = json.loads(options)
    fields = [field for field in DATASETS[name][1].__dataclass_fields__ if field not in ("seed", "size")]
    for option in arguments:
        if option not in fields:
            hint = did_you_mean(option, fields)
            raise ConfigError(f"{name} has no option {option!r}{hint}", path=f"config.{name}")
    try:
        return reasoning_gym.create_dataset(name, seed=seed, size=size, **arguments)
    except Exception as error:  # validation is by assert there, and more
        raise ConfigError(
            f"{name} cannot be made so: {error or type(error).__name__}", path=f"config.{name}"
        ) from error


def entry_of(task: Task) -> tuple[Any, Mapping[str, Any]]:
    """The dataset that a task is of, and its entry there, answer included.

    Raises:
        ContractError: the task's input has no `gym`, or no whole one.
        ConfigError: the dataset cannot be made.
    """
    gym = task.input.get("gym")
    if not isinstance(gym, Mapping) or any(key not in gym for key in _KEYS):
        raise ContractError(
            f"the task {task.id!r} is none of reasoning-gym's: its input should have `gym` with {', '.join(_KEYS)}, as "
            "the tasks `reasoning.gym` have"
        )
    dataset = make_dataset(gym["dataset"], gym["seed"], gym["size"], gym["config"])
    return dataset, dataset[gym["index"]]


def score_answer(task: Task, answer: str) -> float:
    """What the task's own dataset gives an answer, 0 to 1.

    Raises:
        UnreadableAnswer: the scorer broke on it, and does not break on the answer that the dataset has; or it would
            evaluate it, and it is not one that can be evaluated safely (it was not).
        ContractError, ConfigError: as of `entry_of`; ContractError too where the scorer breaks on any answer, or gives
            no number.
    """
    dataset, entry = entry_of(task)
    evaluator = evaluating(dataset.score_answer)
    if evaluator and answer != entry["answer"] and not harmless(answer, evaluator):
        raise UnreadableAnswer("its scorer evaluates answers, and this one could run as a program")
    try:
        score = float(dataset.score_answer(answer=answer, entry=entry))
    except Exception as error:
        problem = f"{type(error).__name__}: {error}"
        try:
            dataset.score_answer(answer=entry["answer"], entry=entry)
        except Exception:
            raise ContractError(f"the scorer of {task.input['gym']['dataset']} broke: {problem}") from error
        raise UnreadableAnswer(problem) from error
    if not 0 <= score <= 1:
        raise ContractError(f"the scorer of {task.input['gym']['dataset']} gave {score}, not 0 to 1")
    return score
