"""Parts that are made of parts: opened and closed with them, verifiers as metrics."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Generic, TypeVar

from draftverify.errors import below
from draftverify.protocols import Closes, Opens
from draftverify.traits import offers

T = TypeVar("T")


class Members(Generic[T]):
    """Parts that make one together, and are opened and closed with it.

    Args:
        stages: they, from cheap to dear.
    """

    def __init__(self, stages: tuple[T, ...]) -> None:
        self.stages = stages
        self._opened: list[T] = []

    def open(self) -> None:
        """Open every stage, once where it stands twice; if one cannot be, none stays open.

        Raises:
            ConfigError: a stage cannot be opened as it is configured; the path says which.
        """
        with ExitStack() as closing:
            closing.callback(self.close)
            for place, stage in enumerate(self.stages):
                if any(stage is opened for opened in self._opened):
                    continue
                if offers(stage, Opens):
                    with below(f"stages.{place}"):
                        stage.open()
                self._opened.append(stage)
            closing.pop_all()

    def close(self) -> None:
        """Close every stage that `open` opened, whatever befalls the others."""
        with ExitStack() as closing:
            opened, self._opened = self._opened, []
            for stage in opened:
                if offers(stage, Closes):
                    closing.callback(stage.close)
