"""Problems of reasoning-gym that a small model solves now and then, and how it is asked.

The model is SmolLM2-135M-Instruct, the smallest of the catalogue that answers questions. It is shown four solved
problems and goes on in plain text, which it does better than it follows instructions in turns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from draftverify import Task
from draftverify_llm import Completion, LocalModel
from draftverify_reasoning import Gym

__all__ = ["CONFIG", "MODEL", "STOP", "TEMPLATE", "Counted", "distinct", "problems"]

MODEL = "smollm2-135m-instruct"

CONFIG: Mapping[str, Mapping[str, Any]] = {
    "chain_sum": {"min_terms": 2, "max_terms": 2, "min_digits": 1, "max_digits": 1},
    "products": {"min_digits": 1, "max_digits": 1},
    "gcd": {"max_value": 20},
    "lcm": {"max_value": 12},
}
"""Options of the datasets; its sampled answers are right on 57, 34, 14 and 23 % of their problems."""

TEMPLATE = """\
Question: State the final answer to the following arithmetic problem: 5 + 2 =
The answer is 7.

Question: Solve the following multiplication: 3 * 6. Give only the result as your final answer.
The answer is 18.

Question: Find the Greatest Common Divisor (GCD) of these numbers: 8, 12. Give only the GCD as your final answer.
The answer is 4.

Question: Find the Least Common Multiple (LCM) of these numbers: 2, 3
The answer is 6.

Question: {question}
"""

STOP = ("\n", "Question:")


class Counted(LocalModel):
    """A model whose price is the tokens that it sampled.

    Attributes:
        read: the prompt tokens that it read so far, for completions whose price was asked.
    """

    read = 0

    def price(self, completions: Sequence[Completion]) -> float:
        """One for each sampled token."""
        self.read += sum(each.tokens_in for each in completions)
        return float(sum(each.tokens_out for each in completions))


def problems(each: int, seed: int) -> list[Task]:
    """`each` problems of each dataset, every question once."""
    return [
        task
        for name, config in CONFIG.items()
        for task in distinct(Gym(name, size=4 * each, seed=seed, config={name: config}).load())[:each]
    ]


def distinct(tasks: Sequence[Task]) -> list[Task]:
    """The tasks without those whose question came before: small numbers make few questions."""
    found: dict[str, Task] = {}
    for task in tasks:
        found.setdefault(task.input["question"], task)
    return list(found.values())
