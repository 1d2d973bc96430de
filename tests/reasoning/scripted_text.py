"""A text model that answers from a script, and remembers what it was asked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from draftverify_llm import Completion


class Script:
    """Answers each prompt with what a function makes of (prompt, seed, i); each word is a token."""

    deterministic = True
    continues_turns = True
    family = "script"

    def __init__(self, answer: Callable[[Any, int, int], str]) -> None:
        self.answer = answer
        self.prompts: list[Any] = []
        self.how: list[dict[str, Any]] = []

    def complete(self, prompt: Any, *, n: int = 1, seed: int | None = None, **how: Any) -> list[Completion]:
        self.prompts.append(prompt)
        self.how.append({"n": n, "seed": seed, **how})
        return [self._completion(self.answer(prompt, seed or 0, i), how["max_tokens"]) for i in range(n)]

    async def acomplete(self, prompt: Any, **how: Any) -> list[Completion]:
        return self.complete(prompt, **how)

    def price(self, completions: Sequence[Completion]) -> float:
        return float(sum(each.tokens_out for each in completions))

    def _completion(self, text: str, most: int) -> Completion:
        # Words with the white space after them, so that what was cut can be gone on with.
        words = [word for line in text.split("\n") for word in [*line.split(" "), "\n"]][:-1]
        kept = words[:most]
        cut = " ".join(kept).replace(" \n ", "\n").replace(" \n", "\n")
        return Completion(cut, 1, len(kept), "stop" if len(kept) == len(words) else "length", -1.0)


class Batched(Script):
    """The same for many prompts in one call."""

    def __init__(self, answer: Callable[[Any, int, int], str]) -> None:
        super().__init__(answer)
        self.batches: list[int] = []

    def complete_many(
        self, prompts: Sequence[Any], *, n: Sequence[int], seeds: Sequence[int | None], **how: Any
    ) -> list[list[Completion]]:
        self.batches.append(len(prompts))
        return [
            self.complete(prompt, n=each, seed=seed, **how)
            for prompt, each, seed in zip(prompts, n, seeds, strict=True)
        ]
