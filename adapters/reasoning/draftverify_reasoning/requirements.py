"""Optional packages of the extra `reasoning`: refused early and clearly where they are missing."""

from __future__ import annotations

from functools import partial

from draftverify_llm import need as need_of

__all__ = ["need"]

need = partial(need_of, extra="reasoning")
