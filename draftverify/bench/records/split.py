"""Which tasks are learned from and which are kept apart: a word of the task's id alone, so that exports, trainings and
runs of the same tasks agree, and no row of a task is in both.
"""

from __future__ import annotations

import hashlib
from typing import Literal, TypeAlias

Split: TypeAlias = Literal["train", "test"]

_APART = 10
"""One task of so many is kept apart."""


def split_of(task: str) -> Split:
    """The split of a task: "test" for one task id of ten, by its SHA-256; else "train"."""
    digest = hashlib.sha256(task.encode("utf-8", "backslashreplace")).digest()
    return "test" if int.from_bytes(digest[:8], "big") % _APART == 0 else "train"
