"""Models for the tests of judges: one that answers by a function of the prompt, and a local one with rigged logits."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

from draftverify_llm import Completion, LocalModel
from tests.llm.conftest import build_tiny


class Says:
    """A text model that replies by a function of the prompt.

    Args:
        reply: the reply of a prompt, or what to raise.
        finish: why every reply ended.
    """

    deterministic = True
    family = "scripted"

    def __init__(self, reply: Callable[[str], str], finish: str = "stop") -> None:
        self.reply = reply
        self.finish = finish
        self.asked: list[str] = []

    def complete(self, prompt: Any, **settings: Any) -> list[Completion]:
        self.asked.append(prompt)
        return [Completion(self.reply(prompt), 5, 2, self.finish)]  # type: ignore[arg-type]

    async def acomplete(self, prompt: Any, **settings: Any) -> list[Completion]:
        return self.complete(prompt, **settings)

    def price(self, completions: Sequence[Completion]) -> float:
        return 0.5 * len(completions)


def texts_of(prompt: str) -> list[tuple[str, str]]:
    """The tags' names and the texts between them, as a reader would see them."""
    found = re.findall(r"<([\w ]+) ([0-9a-f]{8})>\n(.*?)\n</\1 \2>", prompt, re.S)
    return [(name, text) for name, _, text in found]


def longer(prompt: str) -> str:
    """The name of the longer answer."""
    found = dict(texts_of(prompt))
    return "A" if len(found["answer A"]) >= len(found["answer B"]) else "B"


def rigged(logits: Callable[[str], dict[str, float]]) -> LocalModel:
    """A local model over bytes whose first token after a prompt has these logits; all others have −10."""
    import torch

    _, tokenizer = build_tiny()

    class Rigged(torch.nn.Module):
        device = torch.device("cpu")
        config = SimpleNamespace(max_position_embeddings=4000)

        def __init__(self) -> None:
            super().__init__()
            self.passes: list[int] = []

        def forward(self, input_ids: Any, attention_mask: Any = None, **_: Any) -> Any:
            self.passes.append(len(input_ids))
            rows = torch.full((len(input_ids), 1, len(tokenizer)), -10.0)
            mask = torch.ones_like(input_ids) if attention_mask is None else attention_mask
            for i, ids in enumerate(input_ids):
                prompt = tokenizer.decode(ids[mask[i].bool()].tolist())
                for word, value in logits(prompt).items():
                    rows[i, 0, tokenizer(word, add_special_tokens=False).input_ids[0]] = value
            return SimpleNamespace(logits=rows, past_key_values=None)

    return LocalModel.from_module(Rigged(), tokenizer)
