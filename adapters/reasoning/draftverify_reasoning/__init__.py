"""Reasoning: solutions sampled and judged whole or step by step, the answers in them, and problems to try them on."""

from draftverify_reasoning.answers import Form, extract, normalised, number, same
from draftverify_reasoning.requirements import need
from draftverify_reasoning.solutions import answer_of, solution, solution_text
from draftverify_reasoning.tasks import Gym

__all__ = [
    "Form",
    "Gym",
    "answer_of",
    "extract",
    "need",
    "normalised",
    "number",
    "same",
    "solution",
    "solution_text",
]
