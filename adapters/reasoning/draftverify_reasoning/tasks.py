"""Problems to reason about: those that reasoning-gym makes from a name and a seed, and files in the layout of GSM8K."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from draftverify import ConfigError, Task
from draftverify_reasoning.gym import make_dataset

__all__ = ["Gym"]


class Gym:
    """Problems that reasoning-gym makes, the same for the same names, seed and config.

    A task's id is "<dataset>-<seed>-<index>", its group the dataset. Its input is `question` and `gym`, which says how
    to make the entry again (the verifier `reasoning.gym` does); its truth is `answer`, where the dataset has a single
    one.

    Args:
        datasets: the name of a dataset, or several.
        size: problems of each.
        seed: of all of them.
        config: options of the datasets by their names, e.g. {chain_sum: {max_terms: 3}}.
    """

    def __init__(
        self,
        datasets: str | Sequence[str],
        size: int = 100,
        seed: int = 0,
        config: Mapping[str, Mapping[str, Any]] = {},
    ) -> None:
        self.datasets = datasets
        self.size = size
        self.seed = seed
        self.config = config

    def load(self) -> list[Task]:
        """The problems, dataset by dataset.

        Raises:
            ConfigError: a dataset is not known, stands twice, or cannot be made with its options.
            ResourceError: reasoning-gym is not installed.
        """
        names = [self.datasets] if isinstance(self.datasets, str) else list(self.datasets)
        if self.size < 1:
            raise ConfigError(f"size is {self.size}; 1 or more is needed", path="size")
        if not names or len(set(names)) < len(names):
            raise ConfigError(f"datasets should name some, each once, not {names}", path="datasets")
        for name in self.config:
            if name not in names:
                raise ConfigError(
                    f"{name!r} is none of the datasets; options stand under a dataset's name", path="config"
                )
        return [task for name in names for task in self._tasks(name)]

    def _tasks(self, name: str) -> list[Task]:
        config = dict(self.config.get(name, {}))
        dataset = make_dataset(name, self.seed, self.size, config)
        made = []
        for index in range(self.size):
            try:
                entry = dataset[index]
            except Exception as error:
                raise ConfigError(
                    f"{name} could make no problem {index}: {error or type(error).__name__}",
                    path=f"config.{name}",
                ) from error
            gym = {"dataset": name, "seed": self.seed, "size": self.size, "index": index, "config": config}
            made.append(
                Task(
                    id=f"{name}-{self.seed}-{index}",
                    input={"question": entry["question"], "gym": gym},
                    group=name,
                    truth={} if entry["answer"] is None else {"answer": entry["answer"]},
                )
            )
        return made
