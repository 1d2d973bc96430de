"""Extractive models of transformers as readers: the null-score margin, windows, and numbers that are none."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from draftverify import ResourceError
from draftverify.kit import check_component
from draftverify_retrieval import QuestionAnswering
from draftverify_retrieval.windows import best_span

from . import tiny
from .readers import check_common, checks_of, subject_of

TEXT = "The king of Paris found gold in the river, who else?"


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny model with random weights and a head for spans."""
    return tiny.save(tmp_path_factory.mktemp("spans"), "BertForQuestionAnswering")


def test_it_keeps_the_contract(weights: Path) -> None:
    """The kit's checks."""
    check_component(subject_of(QuestionAnswering(weights)))


def test_what_holds_of_every_reader(weights: Path) -> None:
    """Empty questions and passages, batches alike, places of answers, identity."""
    check_common(QuestionAnswering(weights))


def test_the_score_is_the_margin_over_no_answer(weights: Path) -> None:
    """The best span's logits less those of the first token, by transformers and every pair of tokens."""
    import torch
    from transformers import AutoModelForQuestionAnswering, AutoTokenizer

    (check,) = checks_of(QuestionAnswering(weights, longest_answer=5), "Who found gold?", TEXT)
    tokens = AutoTokenizer.from_pretrained(weights)("Who found gold?", TEXT, return_tensors="pt")
    with torch.no_grad():
        out = AutoModelForQuestionAnswering.from_pretrained(weights).eval()(**tokens)
    start, end = out.start_logits[0], out.end_logits[0]
    inside = [k for k, side in enumerate(tokens.sequence_ids(0)) if side == 1]
    spans = {(i, j): float(start[i] + end[j]) for i in inside for j in inside if i <= j < i + 5}
    (i, j), best = max(spans.items(), key=lambda item: item[1])
    assert check.score == pytest.approx(best - float(start[0] + end[0]), abs=1e-4)
    begin, finish = tokens.token_to_chars(0, i).start, tokens.token_to_chars(0, j).end
    assert check.correction["answer"] == TEXT[begin:finish]
    assert (check.correction["answer_start"], check.correction["answer_end"]) == (begin, finish)


def test_a_long_passage_s_best_window_counts(weights: Path) -> None:
    """Its windows cover all of it, and the answer's place is the passage's own."""
    reader = QuestionAnswering(weights)
    text = " ".join(f"The king number {i} of Paris found gold." for i in range(60))
    (check,) = checks_of(reader, "Who found gold?", text)
    assert (
        text[check.correction["answer_start"] : check.correction["answer_end"]] == check.correction["answer"]
    )
    from draftverify_retrieval.reading import QuestionPassage
    from draftverify_retrieval.windows import rows_of

    rows = rows_of(
        reader._get().encoder, [QuestionPassage("Who found gold?", text, 0)], reader._get().longest
    )
    assert len(rows) > 5
    assert all(len(row.ids) <= 128 for row in rows)
    covered = {at for row in rows for at, ok in zip(row.offsets, row.answers, strict=True) if ok}
    assert max(end for _, end in covered) == len(text)


def test_logits_that_are_no_numbers_are_errors(tmp_path: Path) -> None:
    """NaN in the weights is an error of every check, and no rejection."""
    import torch
    from safetensors.torch import load_file, save_file

    directory = tiny.save(tmp_path, "BertForQuestionAnswering")
    tensors = load_file(directory / "model.safetensors")
    tensors["qa_outputs.bias"] = torch.full((2,), float("nan"))
    save_file(tensors, directory / "model.safetensors", metadata={"format": "pt"})
    for check in checks_of(QuestionAnswering(directory), "Who?", TEXT, "gold"):
        assert (check.verdict, check.reason) == ("error", "not finite")


def test_a_model_without_the_head_is_refused(tmp_path: Path) -> None:
    """An encoder alone would read with random numbers; what it lacks is named."""
    with pytest.raises(ResourceError, match=r"lack.*qa_outputs"):
        QuestionAnswering(tiny.save(tmp_path)).open()


def test_the_best_span_is_the_best_of_all_pairs() -> None:
    """Against every pair of allowed tokens, on random logits."""
    rng = np.random.default_rng(0)
    for _ in range(200):
        n, longest = int(rng.integers(1, 12)), int(rng.integers(1, 6))
        answers = rng.random(n) < 0.6
        start, end = rng.normal(size=(2, n)).astype(np.float32)
        offsets = [(3 * k, 3 * k + 2) for k in range(n)]
        found = best_span(answers, offsets, start, end, longest)
        pairs = [
            (start[i] + end[j], 3 * i, 3 * j + 2)
            for i in range(n)
            for j in range(i, min(n, i + longest))
            if answers[i] and answers[j]
        ]
        if pairs:
            assert (pytest.approx(found.score), found.start, found.end) == max(pairs)
        else:
            assert found.start is None
