"""Reasoning: solutions sampled and judged whole or step by step, the answers in them, and problems to try them on."""

from draftverify_reasoning.requirements import need

__all__ = [
    "need",
]
