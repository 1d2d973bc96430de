"""Sequence classifiers of transformers as checkers: cross-encoders, entailment, a label by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec import UNSET

from draftverify import ConfigError, ResourceError
from draftverify.kit import check_component
from draftverify_retrieval import Classifier

from . import tiny
from .readers import check_common, checks_of, subject_of

TEXT = "The king of Paris found gold in the river."
NLI = {0: "CONTRADICTION", 1: "ENTAILMENT", 2: "NEUTRAL"}


def saved(path: Path, *, labels: dict[int, str] | None = None) -> Path:
    """A tiny classifier; with one output where no labels are given."""
    more: dict[str, Any] = (
        {"num_labels": 1} if labels is None else {"id2label": labels, "num_labels": len(labels)}
    )
    return tiny.save(path, "BertForSequenceClassification", **more)


def logits(directory: Path, first: str, second: str) -> Any:
    """What transformers itself gives for a pair."""
    import torch
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    tokens = AutoTokenizer.from_pretrained(directory)(first, second, return_tensors="pt")
    with torch.no_grad():
        return (
            AutoModelForSequenceClassification.from_pretrained(directory).eval()(**tokens).logits[0].double()
        )


def test_it_keeps_the_contract(tmp_path: Path) -> None:
    """The kit's checks, as a cross-encoder."""
    check_component(subject_of(Classifier(saved(tmp_path))))


def test_what_holds_of_every_reader(tmp_path: Path) -> None:
    """Empty questions and passages, batches alike, identity."""
    check_common(Classifier(saved(tmp_path)))


def test_one_output_is_the_score(tmp_path: Path) -> None:
    """A cross-encoder's logit of (question, passage); it reads no answer."""
    directory = saved(tmp_path)
    (check,) = checks_of(Classifier(directory), "Who found gold?", TEXT)
    assert check.score == pytest.approx(float(logits(directory, "Who found gold?", TEXT)[0]), abs=1e-5)
    assert check.verdict == ("pass" if check.score >= 0 else "reject")
    assert check.correction is UNSET


def test_entailment_is_the_label_s_log_odds(tmp_path: Path) -> None:
    """Of (passage, claim), the label found whatever its case."""
    directory = saved(tmp_path, labels=NLI)
    (check,) = checks_of(Classifier(directory), "The king found gold.", TEXT)
    found = logits(directory, TEXT, "The king found gold.")
    odds = float(found[1] - found[[0, 2]].logsumexp(0))
    assert check.score == pytest.approx(odds, abs=1e-5)


def test_a_label_is_chosen_by_name(tmp_path: Path) -> None:
    """Its log-odds of (question, passage); another label is another checker."""
    directory = saved(tmp_path, labels={0: "useless", 1: "useful"})
    reader = Classifier(directory, label="useful")
    (check,) = checks_of(reader, "Who?", TEXT)
    found = logits(directory, "Who?", TEXT)
    assert check.score == pytest.approx(float(found[1] - found[0]), abs=1e-5)
    assert reader.identity != Classifier(directory, label="useless").identity


def test_a_long_passage_s_best_window_counts(tmp_path: Path) -> None:
    """Windows share the question; none is longer than the model reads."""
    (check,) = checks_of(Classifier(saved(tmp_path)), "Who found gold?", "The king found gold. " * 80)
    assert check.score is not None


def test_labels_that_say_nothing_are_refused(tmp_path: Path) -> None:
    """The labels are listed, and how to choose; so is a label that is not there, or one too many."""
    directory = saved(tmp_path / "two", labels={0: "useless", 1: "useful"})
    with pytest.raises(ConfigError, match=r"by `label`.*useless, useful"):
        Classifier(directory).open()
    with pytest.raises(ConfigError, match=r"no label 'good'.*useless, useful"):
        Classifier(directory, label="good").open()
    with pytest.raises(ConfigError, match="leave `label` out"):
        Classifier(saved(tmp_path / "one"), label="useful").open()


def test_a_model_without_the_head_is_refused(tmp_path: Path) -> None:
    """Random numbers would decide; what is missing is named."""
    with pytest.raises(ResourceError, match=r"lack.*classifier"):
        Classifier(tiny.save(tmp_path)).open()


def test_logits_that_are_no_numbers_are_errors(tmp_path: Path) -> None:
    """NaN is an error of the check, never a rejection."""
    import torch
    from safetensors.torch import load_file, save_file

    directory = saved(tmp_path, labels=NLI)
    tensors = load_file(directory / "model.safetensors")
    tensors["classifier.bias"] = torch.full((3,), float("nan"))
    save_file(tensors, directory / "model.safetensors", metadata={"format": "pt"})
    (check,) = checks_of(Classifier(directory), "Who?", TEXT)
    assert (check.verdict, check.reason) == ("error", "not finite")
