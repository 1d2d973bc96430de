"""What a driver tells its one listener: progress, monitors and telemetry all hang on this hook.

Tasks that are under way together may have one id; `session` tells the events of one from those of another.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import msgspec

from draftverify.values import Round, Step, Task, TaskRecord


class TaskStarted(msgspec.Struct, frozen=True, eq=False, gc=False):
    """A task begins (or goes on, when rounds of it were restored)."""

    task: Task
    session: int = 0


class RoundDone(msgspec.Struct, frozen=True, eq=False, gc=False):
    """A round was decided and applied."""

    task: Task
    round: Round
    session: int = 0


class StepTaken(msgspec.Struct, frozen=True, eq=False, gc=False):
    """The policy answered a trouble with a step."""

    task: Task
    round: int
    step: Step
    session: int = 0


class TaskDone(msgspec.Struct, frozen=True, eq=False, gc=False):
    """A task ended; `record` is all there is to keep of it."""

    task: Task
    record: TaskRecord
    session: int = 0


Event: TypeAlias = TaskStarted | RoundDone | StepTaken | TaskDone
Listener: TypeAlias = Callable[[Event], None]
