"""Problems to reason about: those that reasoning-gym makes from a name and a seed, and files in the layout of GSM8K."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Literal

from draftverify import ConfigError, Task
from draftverify.plugins import did_you_mean
from draftverify_llm import check_least, read_rows
from draftverify_reasoning.answers import Form, extract, normalised
from draftverify_reasoning.gym import make_dataset


class Gym:
    """Problems that reasoning-gym makes, the same for the same names, seed and config.

    A task's id is "<dataset>-<seed>-<index>", its group the dataset. Its input is `question` and `gym`, which says how
    to make the entry again (the verifier `reasoning.gym` does); its `expected` is `answer`, where the dataset has a
    single one.

    Args:
        datasets: the name of a dataset, or several.
        size: problems of each.
        seed: of all of them.
        config: options of the datasets by their names, e.g. {chain_sum: {max_terms: 3}}.
        limit: the first so many of all; all when absent.
    """

    def __init__(
        self,
        datasets: str | Sequence[str],
        size: int = 100,
        seed: int = 0,
        config: Mapping[str, Mapping[str, Any]] = {},
        limit: int | None = None,
    ) -> None:
        self.datasets = datasets
        self.size = size
        self.seed = seed
        self.config = config
        self.limit = limit

    def load(self) -> list[Task]:
        """The problems, dataset by dataset.

        Raises:
            ConfigError: a dataset is not known, stands twice, or cannot be made with its options.
            ResourceError: reasoning-gym is not installed.
        """
        names = [self.datasets] if isinstance(self.datasets, str) else list(self.datasets)
        check_least(1, size=self.size)
        check_least(0, limit=self.limit)
        if not names or len(set(names)) < len(names):
            raise ConfigError(f"datasets should name some, each once, not {names}", path="datasets")
        for name in names:
            make_dataset(
                name, self.seed, self.size, dict(self.config.get(name, {}))
            )  # one that is not known first
        for name in self.config:
            if name not in names:
                raise ConfigError(
                    f"{name!r} is none of the datasets; options stand under a dataset's name", path="config"
                )
        return list(islice((task for name in names for task in self._tasks(name)), self.limit))

    def _tasks(self, name: str) -> Iterator[Task]:
        config = dict(self.config.get(name, {}))
        dataset = make_dataset(name, self.seed, self.size, config)
        for index in range(self.size):
            try:
                entry = dataset[index]
            except Exception as error:
                raise ConfigError(
                    f"{name} could make no problem {index}: {error or type(error).__name__}",
                    path=f"config.{name}",
                ) from error
            gym = {"dataset": name, "seed": self.seed, "size": self.size, "index": index, "config": config}
            yield Task(
                id=f"{name}-{self.seed}-{index}",
                input={"question": entry["question"], "gym": gym},
                group=name,
                expected={} if entry["answer"] is None else {"answer": entry["answer"]},
            )


class Problems:
    """Problems of a file in the layout of GSM8K: a line has `question`, and `answer`, a worked solution that ends
    "#### 18".

    JSON Lines, gzipped or not, or an array of objects. A task's input is `question`; its `expected` is `answer`,
    extracted and normalised. A line whose answer cannot be extracted refuses the file, with its place: a benchmark
    that quietly lost a problem is another benchmark.

    Args:
        path: the file.
        fields: our words (id, question, answer, group) and the file's names for them; each is its own when absent. The
            id is the line's number where the file has none, the group empty.
        form: how the answer is found in its field, as of `extract`; "plain": the field is the answer.
        limit: the first so many problems; all when absent.
    """

    def __init__(
        self,
        path: Path,
        fields: Mapping[str, str] = {},
        form: Form | Literal["plain"] = "gsm8k",
        limit: int | None = None,
    ) -> None:
        self.path = Path(path)
        self.fields = fields
        self.form = form
        self.limit = limit

    def load(self) -> list[Task]:
        """The problems, in the file's order.

        Raises:
            ConfigError: with the line, when the file, a line, a field, an answer or an id is not as it must be.
        """
        check_least(0, limit=self.limit)
        keys = ("id", "question", "answer", "group")
        for key in self.fields:
            if key not in keys:
                raise ConfigError(f"{key!r} is no field{did_you_mean(key, keys)}", path=f"fields.{key}")
        tasks: dict[str, Task] = {}
        places: dict[str, str] = {}
        for number, (where, row) in enumerate(read_rows(self.path), 1):
            if self.limit is not None and len(tasks) >= self.limit:
                break
            task = self._task(row, number, where)
            if task.id in tasks:
                raise ConfigError(f"the id {task.id} stands twice, first at {places[task.id]}", where=where)
            tasks[task.id], places[task.id] = task, where
        if not tasks and self.limit != 0:
            raise ConfigError("the file holds no problems", where=str(self.path))
        return list(tasks.values())

    def _task(self, row: Mapping[str, Any], number: int, where: str) -> Task:
        question, worked = self._text(row, "question", where), self._text(row, "answer", where)
        spelled = worked if self.form == "plain" else extract(worked, self.form)
        if spelled is None or not (answer := normalised(spelled)):
            raise ConfigError(
                f"no answer in the form {self.form!r} can be extracted from {worked[-80:]!r}; the forms are those of "
                "`extract`, and plain",
                where=where,
            )
        return Task(
            id=self._word(row, "id", where, str(number)),
            input={"question": question},
            group=self._word(row, "group", where, ""),
            expected={"answer": answer},
        )

    def _text(self, row: Mapping[str, Any], key: str, where: str) -> str:
        name = self.fields.get(key, key)
        value = row.get(name)
        if isinstance(value, (int, float)) and not isinstance(value, bool) and key == "answer":
            value = str(value)
        if not isinstance(value, str) or not value.strip():
            problem = (
                f"not {value!r:.80}" if name in row else f"there are {', '.join(map(repr, row)) or 'none'}"
            )
            raise ConfigError(f"{name!r} should be a text; {problem}", where=where)
        return value

    def _word(self, row: Mapping[str, Any], key: str, where: str, default: str) -> str:
        name = self.fields.get(key, key)
        if name not in row and key not in self.fields:
            return default
        value = row.get(name)
        if isinstance(value, bool) or not isinstance(value, (str, int)) or value == "":
            raise ConfigError(f"{name!r} should be a text or a number, not {value!r:.80}", where=where)
        return str(value)
