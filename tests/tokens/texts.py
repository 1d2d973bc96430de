"""Tokenizers that make text hard: tokens with half characters in them, and bytes as a fallback for characters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.tokens.tiny import byte_tokenizer


class Texts:
    """As much of a TokenModel as text needs.

    Args:
        tokenizer: a transformers tokenizer.
        interesting: ids to draw from.
    """

    def __init__(self, tokenizer: Any, interesting: Sequence[int]) -> None:
        self.tokenizer = tokenizer
        self.interesting = list(interesting)

    def decode(self, ids: Sequence[int]) -> str:
        return self.tokenizer.decode(list(ids), skip_special_tokens=True, clean_up_tokenization_spaces=False)

    def certain(self, ids: Sequence[int]) -> str:
        """The text, less what may be the beginning of a character."""
        return self.decode(ids).rstrip("\N{REPLACEMENT CHARACTER}")


class Counting:
    """A model that counts the tokens it was asked to decode."""

    def __init__(self, model: Any) -> None:
        self.tokenizer = model.tokenizer
        self.decoded = 0
        self._model = model

    def decode(self, ids: Sequence[int]) -> str:
        self.decoded += len(ids)
        return self._model.decode(ids)


def _byte_level() -> Texts:
    """Bytes, and tokens of several: inside, across and around characters."""
    from tokenizers import Tokenizer, decoders, models
    from transformers import PreTrainedTokenizerFast
    from transformers.convert_slow_tokenizer import bytes_to_unicode

    letter = bytes_to_unicode()
    longer = [b"ab", b"bab ", b" a", "é€".encode(), b"b\xc3", b"\xa9a", b"\x82\xac", b"\xe2", b"a\xe2\x82"]
    words = [bytes([byte]) for byte in range(256)] + [word for word in longer if len(word) > 1]
    vocabulary = {"".join(letter[byte] for byte in word): id for id, word in enumerate(words)}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.decoder = decoders.ByteLevel()
    wrapped = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|end|>")
    return Texts(wrapped, [*b"ab ", 195, 169, 226, 130, 172, 255, *range(256, len(wrapped))])


def _byte_fallback() -> Texts:
    """As sentencepiece has it: a space before a word that the start of a text loses, and bytes for rare characters."""
    from tokenizers import Tokenizer, decoders, models
    from transformers import PreTrainedTokenizerFast

    vocabulary = {f"<0x{byte:02X}>": byte for byte in range(256)}
    for word in ("▁a", "b", "▁", "ab", "bab▁", "é"):
        vocabulary[word] = len(vocabulary)
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[], byte_fallback=True))
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    wrapped = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="</s>")
    return Texts(wrapped, [195, 169, 226, 130, 172, *range(256, len(wrapped))])


TEXTS = {
    "bytes": Texts(byte_tokenizer(), [*b"ab ", 195, 169, 226, 130, 172, 255, 256]),
    "byte level": _byte_level(),
    "byte fallback": _byte_fallback(),
}
