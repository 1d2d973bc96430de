"""Another query by a text model, where the policy gives feedback."""

from __future__ import annotations

import pytest

from draftverify import ConfigError, Pipeline, feedback
from draftverify.kit import ScriptedVerifier
from draftverify.rules import First
from draftverify_llm import Completion
from draftverify_retrieval import Bm25, Reformulate

from .corpora import asked, corpus_of, passages


class Writer:
    """A text model that writes what it was told, and keeps what it was asked."""

    deterministic = True

    def __init__(self, *answers: str) -> None:
        self.answers = answers
        self.asked: list[str] = []

    def complete(self, prompt, **settings):
        self.asked.append(prompt)
        answer = self.answers[(len(self.asked) - 1) % len(self.answers)]
        return [Completion(answer, 10, 5, "stop")] * settings.get("n", 1)

    async def acomplete(self, prompt, **settings):
        return self.complete(prompt, **settings)

    def price(self, completions):
        return 0.25 * len(completions)


def ids(block) -> list[str]:
    return [item["id"] for item in block.items]


def test_without_feedback_it_is_its_retriever(tmp_path):
    """The model is not asked."""
    bm25, model = Bm25(corpus_of(tmp_path)), Writer("rain")
    reformulate = Reformulate(bm25, model)
    assert reformulate.propose(asked("cat"), 2).items == bm25.propose(asked("cat"), 2).items
    assert [each.tolist() for each in reformulate.search(["tea"], 2)] == [
        each.tolist() for each in bm25.search(["tea"], 2)
    ]
    assert model.asked == []


def test_with_feedback_it_ranks_by_what_the_model_writes(tmp_path):
    """The model sees the question and what was refused; nothing is proposed again; its price is the draft's."""
    corpus = corpus_of(tmp_path)
    model = Writer('\n  "rain and cat" \nbecause it rains')
    cats, mice = passages(corpus)[0], passages(corpus)[2]
    block = Reformulate(Bm25(corpus), model).propose(asked("What sleeps?", [cats, mice], feedback=True), 3)
    assert ids(block) == ["rain"]
    assert block.cost.amount == 0.25
    assert "What sleeps?" in model.asked[0]
    assert cats["text"] in model.asked[0]
    assert mice["text"] in model.asked[0]


@pytest.mark.parametrize("answer", ["", ' \n""\n'])
def test_an_empty_answer_leaves_the_question(tmp_path, answer):
    """It goes on down the ranking."""
    corpus = corpus_of(tmp_path)
    block = Reformulate(Bm25(corpus), Writer(answer)).propose(
        asked("cat", [passages(corpus)[0]], feedback=True), 3
    )
    assert ids(block) == ["mice"]


def test_many_tasks_at_once_are_each_as_alone(tmp_path):
    """Only those with feedback ask the model."""
    corpus = corpus_of(tmp_path)
    contexts = [asked("cat"), asked("cat", [passages(corpus)[0]], feedback=True), asked("tea")]
    model = Writer("rain")
    together = Reformulate(Bm25(corpus), model).propose_many(contexts, [2, 2, 2])
    alone = [Reformulate(Bm25(corpus), Writer("rain")).propose(context, 2) for context in contexts]
    assert [block.items for block in together] == [block.items for block in alone]
    assert len(model.asked) == 1


def test_in_a_pipeline_feedback_leads_to_another_query(tmp_path):
    """The first block is refused, the policy gives feedback, and the next one is the other query's."""
    corpus = corpus_of(tmp_path)
    verifier = ScriptedVerifier(lambda context, item: item["id"] == "rain")
    pipeline = Pipeline(
        Reformulate(Bm25(corpus), Writer("rain")), verifier, First(), policy=feedback(1), block=2
    )
    outcome = pipeline.run({"question": "cat"})
    assert outcome.status == "accepted"
    assert outcome.value["id"] == "rain"
    assert outcome.cost == 0.25


def test_a_template_with_another_field_is_refused(tmp_path):
    """When it is opened."""
    with pytest.raises(ConfigError, match="passages"):
        Reformulate(Bm25(corpus_of(tmp_path)), Writer(""), template="{question} {passages}").open()
