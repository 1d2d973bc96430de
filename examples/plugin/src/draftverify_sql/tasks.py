"""Queries as tasks: TPC-H's twenty-two, a set as people write them badly, and folders of one's own."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from draftverify import ConfigError, Task

__all__ = ["Queries"]

SHIPPED = Path(__file__).with_name("queries")


class Queries:
    """One task a query: its text in the field `sql`, its set as the group.

    Args:
        sets: of the shipped ones: "tpch" (the specification's, with its validation parameters; query 11's constant is
            that of scale 1) and "everyday" (as an ORM or a hurried colleague writes them).
        folder: instead, a folder with one query in each .sql file; its name is the group.
        only: the names of the queries to take; all when empty.
    """

    def __init__(
        self,
        sets: Sequence[Literal["tpch", "everyday"]] = ("tpch", "everyday"),
        folder: Path | None = None,
        only: Sequence[str] = (),
    ) -> None:
        self.sets = sets
        self.folder = folder
        self.only = only

    def load(self) -> list[Task]:
        """The tasks, by name.

        Raises:
            ConfigError: there are none, or one of `only` is not there.
        """
        folders = [self.folder] if self.folder is not None else [SHIPPED / each for each in self.sets]
        files = [file for folder in folders for file in sorted(folder.glob("*.sql"))]
        unknown = set(self.only) - {file.stem for file in files}
        if unknown or not files:
            what = f"there is no query {sorted(unknown)[0]!r}" if unknown else "there are no .sql files"
            raise ConfigError(
                f"{what} in {', '.join(map(str, folders))}", path="only" if unknown else "folder"
            )
        return [
            Task(
                id=f"{file.parent.name}/{file.stem}", input={"sql": file.read_text()}, group=file.parent.name
            )
            for file in files
            if not self.only or file.stem in self.only
        ]
