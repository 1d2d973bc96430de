"""Checkpoints of llama2.c, a tokenizer behind them, written as GGUF, which torch's and llama.cpp's readers know.

The format is the project's first one (`legacy_export` in its export.py, `checkpoint_init_weights` and
`build_tokenizer` in its run.c; github.com/karpathy/llama2.c): seven int32 (dim, hidden_dim, n_layers, n_heads,
n_kv_heads, vocab_size, seq_len; a negative vocab_size says that the classifier is not the embedding), then float32
tensors in a fixed order, each kind for all layers together, then two tables of rotary factors, then the classifier
where it is its own. The tokenizer is an int32, the longest token's length, and for each id a float32 score, an int32
length and the text. Everything is little-endian.

Queries and keys stay as they are: llama2.c rotates neighbouring pairs, and so does GGUF's architecture "llama".
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np

from draftverify.errors import ResourceError
from draftverify_llm.requirements import need

EPSILON = 1e-5
ROPE_BASE = 10_000.0
"""Both are written into llama2.c's program, not into its files."""

UNKNOWN, BOS, EOS, FIRST_BYTE = 0, 1, 2, 3
"""Ids of the Llama tokenizer; 256 bytes begin at the last."""


def write_gguf(checkpoint: Path, out: Path, name: str) -> None:
    """Write a checkpoint and its tokenizer as a float32 GGUF file; no value is changed.

    Args:
        checkpoint: the file.
        out: where the GGUF file goes.
        name: the model's name, for the file's metadata.

    Raises:
        ResourceError: the package gguf is missing, or the file is no such checkpoint.
    """
    need("gguf", doing=f"converting {name}")
    from gguf import GGMLQuantizationType, GGUFWriter, LlamaFileType

    data = checkpoint.read_bytes()
    try:
        settings, tensors, end = _tensors(data)
        tokens, scores = _tokens(data[end:], settings["vocab_size"])
    except (struct.error, ValueError) as error:
        raise ResourceError(f"{name}: {checkpoint.name} is no checkpoint of llama2.c ({error})") from error
    writer: Any = GGUFWriter(out, "llama")
    writer.add_name(name)
    writer.add_context_length(settings["seq_len"])
    writer.add_embedding_length(settings["dim"])
    writer.add_block_count(settings["n_layers"])
    writer.add_feed_forward_length(settings["hidden_dim"])
    writer.add_rope_dimension_count(settings["dim"] // settings["n_heads"])
    writer.add_rope_freq_base(ROPE_BASE)
    writer.add_head_count(settings["n_heads"])
    writer.add_head_count_kv(settings["n_kv_heads"])
    writer.add_layer_norm_rms_eps(EPSILON)
    writer.add_vocab_size(settings["vocab_size"])
    writer.add_file_type(LlamaFileType.ALL_F32)
    writer.add_tokenizer_model("llama")
    writer.add_token_list(tokens)
    writer.add_token_scores(scores)
    writer.add_token_types(_types(len(tokens)))
    writer.add_unk_token_id(UNKNOWN)
    writer.add_bos_token_id(BOS)
    writer.add_eos_token_id(EOS)
    writer.add_pad_token_id(EOS)
    for tensor, values in tensors.items():
        writer.add_tensor(tensor, values, raw_dtype=GGMLQuantizationType.F32)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _tensors(data: bytes) -> tuple[dict[str, int], dict[str, Any], int]:
    """The header's numbers, the tensors by their GGUF names ([out, in]), and where they end in the file.

    Raises:
        ValueError: the header's numbers fit no model, or the file is too short for them.
        struct.error: it has no header.
    """
    names = ("dim", "hidden_dim", "n_layers", "n_heads", "n_kv_heads", "vocab_size", "seq_len")
    settings = dict(zip(names, struct.unpack_from("<7i", data), strict=True))
    shared, settings["vocab_size"] = settings["vocab_size"] > 0, abs(settings["vocab_size"])
    dim, hidden, heads, kv_heads = (settings[n] for n in ("dim", "hidden_dim", "n_heads", "n_kv_heads"))
    if min(settings.values()) < 1 or dim % (2 * heads) or heads % kv_heads:
        raise ValueError(f"its header says {settings}")
    head = dim // heads
    at, tensors = struct.calcsize("<7i"), {}

    def take(*shape: int) -> Any:
        nonlocal at
        values = np.frombuffer(data, "<f4", int(np.prod(shape)), at).reshape(shape)
        at += values.nbytes
        return values

    tensors["token_embd.weight"] = take(settings["vocab_size"], dim)
    for kind, *shape in (
        ("attn_norm", dim),
        ("attn_q", dim, dim),
        ("attn_k", kv_heads * head, dim),
        ("attn_v", kv_heads * head, dim),
        ("attn_output", dim, dim),
        ("ffn_norm", dim),
        ("ffn_gate", hidden, dim),
        ("ffn_down", dim, hidden),
        ("ffn_up", hidden, dim),
    ):
        for layer, values in enumerate(take(settings["n_layers"], *shape)):
            tensors[f"blk.{layer}.{kind}.weight"] = values
    tensors["output_norm.weight"] = take(dim)
    take(2, settings["seq_len"], head // 2)  # the rotary tables, which every reader computes itself
    if not shared:
        tensors["output.weight"] = take(settings["vocab_size"], dim)
    return settings, tensors, at


def _tokens(data: bytes, count: int) -> tuple[list[bytes], list[float]]:
    """Each id's text as GGUF writes it, and its score.

    llama2.c writes the tokens as they are printed: a space for ▁, a byte as the character of its number, the ends
    of a text on lines of their own.

    Raises:
        ValueError: the tokens do not fill the data exactly.
        struct.error: they run over its end.
    """
    texts, scores, at = [], [], 4
    for _ in range(count):
        score, length = struct.unpack_from("<fi", data, at)
        texts.append(data[at + 8 : at + 8 + length])
        scores.append(score)
        at += 8 + length
    if at != len(data):
        raise ValueError(f"{count} tokens end at byte {at} of {len(data)}")
    texts = [text.replace(b" ", "▁".encode()) for text in texts]
    texts[UNKNOWN], texts[BOS], texts[EOS] = b"<unk>", b"<s>", b"</s>"
    texts[FIRST_BYTE : FIRST_BYTE + 256] = [b"<0x%02X>" % byte for byte in range(256)]
    return texts, scores


def _types(count: int) -> list[int]:
    from gguf import TokenType

    types = [TokenType.NORMAL] * count
    types[UNKNOWN], types[BOS], types[EOS] = TokenType.UNKNOWN, TokenType.CONTROL, TokenType.CONTROL
    types[FIRST_BYTE : FIRST_BYTE + 256] = [TokenType.BYTE] * 256
    return [int(kind) for kind in types]
