"""Reasoning: solutions sampled and judged whole or step by step, the answers in them, and problems to try them on."""

from draftverify_reasoning.answers import Form, extract, normalised, number, same
from draftverify_reasoning.partials import Partials
from draftverify_reasoning.requirements import need
from draftverify_reasoning.sample import Sample
from draftverify_reasoning.self_refine import SelfRefine
from draftverify_reasoning.solutions import answer_of, solution, solution_text
from draftverify_reasoning.steps import Steps
from draftverify_reasoning.tasks import Gym

__all__ = [
    "Form",
    "Gym",
    "Partials",
    "Sample",
    "SelfRefine",
    "Steps",
    "answer_of",
    "extract",
    "need",
    "normalised",
    "number",
    "same",
    "solution",
    "solution_text",
]
