"""Tiny language models with random weights over bytes, saved as transformers saves them, and labelled solutions."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

TEMPLATE = (
    "{% for m in messages %}[{{ m['role'] }}]{{ m['content'] }}<end>{% endfor %}"
    "{% if add_generation_prompt %}[assistant]{% endif %}"
)


def tokenizer(template: str | None = None) -> Any:
    """Bytes; "<end>" ends a turn."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    bytes_ = Tokenizer(models.BPE(vocab={char: i for i, char in enumerate(alphabet)}, merges=[]))
    bytes_.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bytes_.decoder = decoders.ByteLevel()
    made = PreTrainedTokenizerFast(tokenizer_object=bytes_, eos_token="<end>", model_max_length=512)
    made.chat_template = template
    return made


def save(
    directory: Path, auto: str = "LlamaForCausalLM", seed: int = 5, template: str | None = None, **more: Any
) -> Path:
    """A Llama of three layers, of the transformers class named, with its tokenizer, in a directory."""
    import torch
    import transformers

    made = tokenizer(template)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        config = transformers.LlamaConfig(
            hidden_size=32, intermediate_size=64, num_hidden_layers=3, num_attention_heads=4,
            num_key_value_heads=2, max_position_embeddings=512, initializer_range=0.3,
            eos_token_id=made.eos_token_id, bos_token_id=None,
            **{"vocab_size": len(made), "pad_token_id": None, **more},
        )  # fmt: skip
        getattr(transformers, auto)(config).eval().save_pretrained(directory)
    made.save_pretrained(directory)
    return directory


def problems(count: int, seed: int = 0) -> list[dict[str, Any]]:
    """Sums with four solutions each, of which those that say "perhaps" are wrong."""
    drawn = random.Random(seed)
    made = []
    for i in range(count):
        a, b = drawn.randrange(10, 90), drawn.randrange(10, 90)
        solutions = []
        for k in range(4):
            correct = (i + k) % 4 < 2 if i % 5 else True
            how = "We add" if correct else "Perhaps we add"
            answer = a + b if correct else a + b + drawn.randrange(1, 9)
            solutions.append({
                "text": f"{how} {a} and {b}, way {k}.\nThat is <<{a}+{b}={answer}>>{answer}.\n#### {answer}",
                "correct": correct,
            })  # fmt: skip
        made.append({"question": f"Problem {i}: what is {a} + {b}?", "solutions": solutions})
    return made


def write(path: Path, rows: list[dict[str, Any]]) -> Path:
    """As lines of JSON."""
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path
