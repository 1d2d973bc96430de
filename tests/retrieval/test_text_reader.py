"""Text models as readers: the probability of refusing, read in padded batches, and completions of models elsewhere."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pytest

from draftverify import ConfigError, ResourceError
from draftverify.kit import check_component
from draftverify_llm import Completion, LocalModel
from draftverify_retrieval import TextReader
from draftverify_retrieval.text_reader import PROMPT
from tests.llm.conftest import build_tiny

from .readers import BLOCK, check_common, checks_of, make_context, subject_of

TEXT = "The king of Paris found Gold in the river."
SHORT = "{refusal}|{passage}|{question}|"


@pytest.fixture(scope="module")
def tiny() -> LocalModel:
    """A tiny llama over bytes with random weights."""
    return LocalModel.from_module(*build_tiny())


def reader_of(model: Any, **more: Any) -> TextReader:
    """A reader with a short prompt, since the tiny model has few positions."""
    return TextReader(model, **{"prompt": SHORT, "max_tokens": 6, "refusal": "no", **more})


class Says:
    """A model elsewhere, which says what it is told with a log-probability."""

    deterministic = True

    def __init__(self, *replies: tuple[str, float | None]) -> None:
        self.replies = replies
        self.asked: list[str] = []

    def complete(self, prompt: str, **settings: Any) -> list[Completion]:
        self.asked.append(prompt)
        text, logprob = self.replies[(len(self.asked) - 1) % len(self.replies)]
        return [Completion(text, 10, 2, "stop", logprob)]

    async def acomplete(self, prompt: str, **settings: Any) -> list[Completion]:
        return self.complete(prompt, **settings)

    def price(self, completions: Sequence[Completion]) -> float:
        return 0.5 * len(completions)


def test_it_keeps_the_contract(tiny: LocalModel) -> None:
    """The kit's checks, with weights that run here."""
    check_component(subject_of(reader_of(tiny)))


def test_what_holds_of_every_reader(tiny: LocalModel) -> None:
    """Empty questions and passages, batches alike to 1e-4, identity."""
    check_common(reader_of(tiny))


def test_score_and_reply_come_of_one_reading(tiny: LocalModel) -> None:
    """A block's prompts go through the model once; after that one token at a time, to the reply's end at most."""
    widths: list[int] = []
    hook = tiny.model.register_forward_pre_hook(
        lambda module, args, kwargs: widths.append(kwargs["input_ids"].shape[1]), with_kwargs=True
    )
    try:
        checks_of(reader_of(tiny), "Who?", TEXT, TEXT[:20])
    finally:
        hook.remove()
    assert sum(width > 1 for width in widths) == 1
    assert len(widths) <= 6


def test_the_score_is_the_log_odds_of_not_refusing(tiny: LocalModel) -> None:
    """By hand: the product of the refusal's token probabilities after the prompt, one token at a time."""
    import torch

    (check,) = checks_of(reader_of(tiny, threshold=-1e9), "Who?", TEXT)
    ids = tiny.encode_prompt({"prompt": f"no|{TEXT}|Who?|"})
    p = 1.0
    for token in tiny.tokenizer("no", add_special_tokens=False).input_ids:
        with torch.no_grad():
            p *= float(tiny.model(torch.tensor([ids])).logits[0, -1].double().softmax(-1)[token])
        ids.append(token)
    assert check.score == pytest.approx(math.log((1 - p) / p), abs=1e-4)


def test_the_answer_is_the_greedy_reply(tiny: LocalModel) -> None:
    """What the model itself completes at temperature 0, whoever shares the batch."""
    reader = reader_of(tiny, threshold=-1e9)
    texts = [TEXT, "gold", "A much longer passage about kings. " * 3]
    for check, text in zip(checks_of(reader, "Who?", *texts), texts, strict=True):
        (made,) = tiny.complete(f"no|{text}|Who?|", max_tokens=6, temperature=0.0)
        assert check.correction["answer"] == made.text.strip().partition("\n")[0].strip()


def test_the_passage_s_braces_and_fields_are_text(tiny: LocalModel) -> None:
    """A passage that holds {question} does not get the question."""
    model = Says(("Gold", -0.1))
    checks_of(TextReader(model), "Who?", "A {question} and {refusal} {0}.")
    assert "A {question} and {refusal} {0}." in model.asked[0]


def test_completions_elsewhere_score_by_their_probability() -> None:
    """The log-odds of the reply where it answers, the negative where it refuses; answers are found in the passage."""
    model = Says(
        ("gold.", math.log(0.8)), ("No answer.", math.log(0.9)), ("no answer\nreally", math.log(0.5))
    )
    gold, refused, unsure = checks_of(TextReader(model), "Who found what?", TEXT, "a", "b")
    assert (gold.verdict, gold.score) == ("pass", pytest.approx(math.log(4)))
    assert gold.correction["answer"] == "gold."
    assert (refused.verdict, refused.score) == ("reject", pytest.approx(-math.log(9)))
    assert unsure.verdict == "reject"
    (found,) = checks_of(TextReader(Says(("GOLD", -0.1))), "Who found what?", TEXT)
    assert found.correction["answer"] == "Gold"
    assert TEXT[found.correction["answer_start"] : found.correction["answer_end"]] == "Gold"


def test_a_price_is_shared_by_the_blocks() -> None:
    """What the model charged is the verification's cost."""
    found = TextReader(Says(("gold", -0.1))).verify(make_context({"question": "Who?"}), BLOCK)
    assert found.cost is not None
    assert found.cost.amount == pytest.approx(0.5 * len(BLOCK))


def test_a_model_that_says_no_probabilities_is_refused() -> None:
    """There is nothing to make a score of, and the error says what to use."""
    with pytest.raises(ResourceError, match="no log-probabilities"):
        checks_of(TextReader(Says(("gold", None))), "Who?", TEXT)


def test_a_probability_that_is_no_number_is_an_error() -> None:
    """NaN is never a rejection."""
    (check,) = checks_of(TextReader(Says(("gold", math.nan))), "Who?", TEXT)
    assert (check.verdict, check.reason) == ("error", "not finite")


def test_prompts_without_their_fields_are_refused() -> None:
    """The missing field is named."""
    with pytest.raises(ConfigError, match="passage"):
        TextReader(Says(), prompt="{question} {refusal}").open()
    with pytest.raises(ConfigError, match="a word"):
        TextReader(Says(), refusal="!").open()


def test_braces_in_a_question_stay_as_they_are() -> None:
    """What a user asks is no template."""
    model = Says(("Paris", -0.1))
    checks_of(reader_of(model), "What is {passage}?", TEXT)
    assert model.asked == [f"no|{TEXT}|What is {{passage}}?|"]


def test_identity_follows_prompt_and_model(tiny: LocalModel) -> None:
    """Another prompt or refusal is another reader."""
    found = {reader_of(tiny).identity, reader_of(tiny, refusal="nothing").identity, TextReader(tiny).identity}
    assert len(found) == 3


@pytest.mark.weights
def test_a_small_model_reads_a_date() -> None:
    """SmolLM2 copies the answer, and is surer of it than where the passage speaks of something else."""
    reader = TextReader(LocalModel("smollm2-135m-instruct", dtype="float32"), prompt=PROMPT)
    there, elsewhere = checks_of(
        reader,
        "When was the Eiffel Tower built?",
        "The Eiffel Tower was built in 1889 for the World's Fair.",
        "Bananas are rich in potassium and grow in warm places.",
    )
    assert "1889" in there.correction["answer"]
    assert there.score > elsewhere.score
