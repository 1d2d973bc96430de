"""Sentences as vectors: what transformers and a hand-written pooling give, whatever shares the pass."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from draftverify import ResourceError
from draftverify_llm import torch_directory
from draftverify_retrieval import Encoder

from . import tiny

TEXTS = [
    "the river of the city",
    "who was the king?",
    "",
    "gold, " * 60,
    "what the kinging kinged of paris",
    "日本語 naïve 😀",
]


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny encoder without sentence-transformers' files."""
    return tiny.save(tmp_path_factory.mktemp("encoder"))


def by_hand(directory: Path, text: str, longest: int, pooling: str = "mean") -> np.ndarray:
    """The vector as the documentation of sentence-transformers says it is made."""
    import torch
    from transformers import AutoModel, AutoTokenizer

    tokens = AutoTokenizer.from_pretrained(directory)(
        [text], truncation=True, max_length=longest, return_tensors="pt"
    )
    with torch.no_grad():
        hidden = AutoModel.from_pretrained(directory).eval()(**tokens).last_hidden_state[0]
    pooled = hidden[0] if pooling == "cls" else hidden.mean(0)
    return np.asarray(pooled / pooled.norm())


@pytest.mark.parametrize("pooling", ["mean", "cls"])
def test_vectors_are_the_pooled_hidden_states(tmp_path: Path, pooling: str) -> None:
    """Each row is the mean, or the first, of transformers' hidden states, of length 1, cut where the directory says."""
    mode = "mean_tokens" if pooling == "mean" else "cls_token"
    directory = tiny.add_modules(tiny.save(tmp_path), pooling=mode, longest=20)
    vectors = Encoder(directory).encode(TEXTS)
    assert vectors.dtype == np.float32
    assert vectors.shape == (len(TEXTS), 32)
    for text, vector in zip(TEXTS, vectors, strict=True):
        np.testing.assert_allclose(vector, by_hand(directory, text, 20, pooling), atol=1e-5)


def test_a_plain_directory_is_pooled_by_the_mean(plain: Path) -> None:
    """Without modules.json it is a transformers encoder, read to the end of its positions."""
    vectors = Encoder(plain).encode(TEXTS)
    np.testing.assert_allclose(vectors[3], by_hand(plain, TEXTS[3], 128), atol=1e-5)


def test_a_text_s_vector_does_not_depend_on_the_others(plain: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One by one, all at once, in another order and in small passes: the same to 1e-5."""
    encoder = Encoder(plain)
    together = encoder.encode(TEXTS)
    np.testing.assert_allclose(
        together, np.concatenate([encoder.encode([text]) for text in TEXTS]), atol=1e-5
    )
    np.testing.assert_allclose(together[::-1], encoder.encode(TEXTS[::-1]), atol=1e-5)
    monkeypatch.setattr("draftverify_llm.pretrained.Pretrained.at_once", 30)
    np.testing.assert_allclose(together, encoder.encode(TEXTS), atol=1e-5)


def test_threads_get_their_own_vectors(plain: Path) -> None:
    """Four threads that encode at once, the first use among them, get what one gets."""
    encoder = Encoder(plain)
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda i: encoder.encode([TEXTS[i % len(TEXTS)]])[0], range(24)))
    for i, vector in enumerate(found):
        np.testing.assert_allclose(vector, encoder.encode([TEXTS[i % len(TEXTS)]])[0], atol=1e-5)


def test_no_text_and_broken_text(plain: Path) -> None:
    """Nothing to encode is an empty array; half of a surrogate pair is read as a question mark."""
    encoder = Encoder(plain)
    assert encoder.encode([]).shape == (0, 32)
    np.testing.assert_array_equal(encoder.encode(["a\ud800b"]), encoder.encode(["a?b"]))


def test_a_separator_in_a_text_is_text(plain: Path) -> None:
    """What a text says about tokens is read as letters, not as the token."""
    encoder = Encoder(plain)
    ids = encoder._get()[0].encoder.encode("[SEP]").ids
    assert ids.count(3) == 1
    assert len(ids) > 3


def test_identity_follows_weights_and_pooling(plain: Path, tmp_path: Path) -> None:
    """The same files elsewhere are the same encoder; other weights or another pooling are another."""
    same = Encoder(tiny.save(tmp_path / "same")).identity
    assert same == Encoder(plain).identity
    assert Encoder(tiny.save(tmp_path / "other", seed=4)).identity != same
    directory = tiny.add_modules(tiny.save(tmp_path / "pooled"), pooling="cls_token")
    assert Encoder(directory).identity != same


def test_close_lets_go_and_the_next_use_loads(plain: Path) -> None:
    """Closing twice is fine, and encoding goes on afterwards."""
    encoder = Encoder(plain)
    before = encoder.encode(TEXTS[:1])
    encoder.close()
    encoder.close()
    np.testing.assert_array_equal(encoder.encode(TEXTS[:1]), before)


def test_what_is_not_followed_is_refused(tmp_path: Path) -> None:
    """A pooling or a module that would change the vectors is named, and so is a model without its weights."""
    directory = tiny.add_modules(tiny.save(tmp_path / "max"), pooling="max_tokens")
    with pytest.raises(ResourceError, match="pooling_mode_max_tokens"):
        Encoder(directory).open()
    directory = tiny.add_modules(tiny.save(tmp_path / "dense"), extra="Dense")
    with pytest.raises(ResourceError, match="module Dense"):
        Encoder(directory).open()
    (directory / "modules.json").unlink()
    (directory / "model.safetensors").write_bytes(b"cut")
    with pytest.raises(ResourceError, match="could not be loaded"):
        Encoder(directory).open()


@pytest.mark.weights
def test_minilm_says_which_sentences_are_alike() -> None:
    """The catalogue's encoder gives hand-pooled vectors, and puts a question near its answer."""
    encoder = Encoder()
    directory = torch_directory(str(encoder.weights))
    texts = [
        "Who wrote Hamlet?",
        "Hamlet is a tragedy by William Shakespeare.",
        "Bananas are rich in potassium.",
    ]
    vectors = encoder.encode(texts)
    for text, vector in zip(texts, vectors, strict=True):
        np.testing.assert_allclose(vector, by_hand(directory, text, 256), atol=1e-5)
    near, far = vectors[0] @ vectors[1], vectors[0] @ vectors[2]
    assert near > 0.6 > 0.2 > far
