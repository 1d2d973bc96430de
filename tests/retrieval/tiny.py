"""Tiny BERTs with random weights over letters, saved as transformers and sentence-transformers save theirs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789.,?!'-"


def tokenizer() -> Any:
    """A WordPiece tokenizer that knows letters and some words, in BERT's layout of texts and pairs."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *LETTERS, *(f"##{letter}" for letter in LETTERS)]
    words += ["the", "of", "who", "what", "where", "paris", "river", "city", "king", "gold", "##ing", "##ed"]
    made = Tokenizer(models.WordPiece({word: i for i, word in enumerate(words)}, unk_token="[UNK]"))
    made.normalizer = normalizers.BertNormalizer()
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    made.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=made, unk_token="[UNK]", pad_token="[PAD]", cls_token="[CLS]", sep_token="[SEP]",
        mask_token="[MASK]", model_max_length=128, model_input_names=["input_ids", "token_type_ids", "attention_mask"],
    )  # fmt: skip


def save(directory: Path, auto: str = "BertModel", seed: int = 3, **config: Any) -> Path:
    """A two-layer BERT of the transformers class named, with its tokenizer, in a directory."""
    import torch
    import transformers

    made = tokenizer()
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        settings = transformers.BertConfig(
            vocab_size=len(made), hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64,
            max_position_embeddings=128, initializer_range=0.3, **config,
        )  # fmt: skip
        getattr(transformers, auto)(settings).eval().save_pretrained(directory)
    made.save_pretrained(directory)
    return directory


def add_modules(
    directory: Path, *, pooling: str = "mean_tokens", longest: int = 64, extra: str | None = None
) -> Path:
    """sentence-transformers' files, beside a model's: one pooling, and the name of a module too many."""
    names = ["Transformer", "Pooling", "Normalize"] + ([extra] if extra else [])
    paths = {"Transformer": "", "Pooling": "1_Pooling"}
    modules = [
        {"type": f"sentence_transformers.models.{name}", "path": paths.get(name, name)} for name in names
    ]
    (directory / "modules.json").write_text(json.dumps(modules))
    (directory / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": longest}))
    (directory / "1_Pooling").mkdir(exist_ok=True)
    modes = {f"pooling_mode_{mode}": mode == pooling for mode in ("mean_tokens", "cls_token", "max_tokens")}
    (directory / "1_Pooling" / "config.json").write_text(json.dumps(modes))
    return directory
