"""Tasks from a folder of PDDL files."""

from __future__ import annotations

from pathlib import Path

from draftverify import ConfigError, Task


class PddlTasks:
    """One task per problem file: DIRECTORY/<domain>/domain.pddl beside DIRECTORY/<domain>/*.pddl.

    A task's id is "<domain>/<problem>", its group the domain, its input the texts of both files: the same on every
    machine.

    Args:
        directory: the folder of domains.
        limit: the first so many problems; all when absent.
    """

    def __init__(self, directory: Path, limit: int | None = None) -> None:
        self.directory = directory
        self.limit = limit

    def load(self) -> list[Task]:
        """The tasks, by domain and name.

        Raises:
            ConfigError: there is no such folder, no problem in it, or a file is no text.
        """
        if self.limit is not None and self.limit < 0:
            raise ConfigError(f"limit is {self.limit}; it cannot be negative", where=str(self.directory))
        if not self.directory.is_dir():
            raise ConfigError("there is no such folder of domains", where=str(self.directory))
        tasks = [
            Task(
                id=f"{domain.parent.name}/{problem.stem}",
                input={"domain": _text(domain), "problem": _text(problem)},
                group=domain.parent.name,
            )
            for domain in sorted(self.directory.glob("*/domain.pddl"))
            for problem in sorted(domain.parent.glob("*.pddl"))
            if problem != domain
        ]
        if not tasks:
            raise ConfigError(
                "no problem is here; <domain>/domain.pddl with other .pddl files beside it is looked for",
                where=str(self.directory),
            )
        return tasks[: self.limit]


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeError) as error:
        raise ConfigError(f"the file cannot be read: {error}", where=str(file)) from error
