"""A sample's own log-probability as its score: it chooses, weighs votes, and is never made up."""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import pytest

from draftverify import Pipeline, Proposal
from draftverify.kit import make_context
from draftverify.rules import Best, Rounds, WeightedVote
from draftverify_llm import Completion, Likelihood, LocalModel, Sample


class Answers:
    """A text model that gives these answers with these log-probabilities, two tokens each."""

    deterministic = True
    family = None

    def __init__(self, *answers: tuple[str, float | None]) -> None:
        self.answers = answers

    def complete(self, prompt: Any, *, n: int = 1, **settings: Any) -> list[Completion]:
        return [Completion(text, 1, 2, "stop", logprob) for text, logprob in self.answers[:n]]

    async def acomplete(self, prompt: Any, **settings: Any) -> list[Completion]:
        return self.complete(prompt, **settings)

    def price(self, completions: Any) -> float:
        return 0.0


def test_the_likeliest_is_the_best_and_votes_weigh_their_probability() -> None:
    """Two unlikely ballots for one answer lose against a likely one; the plain count would have elected them."""
    sampled = Sample(Answers(("a", -3.0), ("b", -0.2), ("a", -4.0)))
    assert Pipeline(sampled, Likelihood(), Best(), block=3).run("x").value == "b"
    vote = Pipeline(sampled, Likelihood(), WeightedVote(log_odds=True), block=3, done=Rounds(1)).run("x")
    a, b = (sum(1 / (1 + math.exp(-logprob)) for logprob in of) for of in ([-3.0, -4.0], [-0.2]))
    assert (vote.value, vote.support) == ("b", pytest.approx(b / (a + b)))


def test_by_answer_or_by_token() -> None:
    """The sum as the model gave it, or its mean over the tokens that were sampled."""
    proposal = Sample(Answers(("a", -3.0))).propose(make_context({"prompt": "x"}), 1)
    for by, score in (("answer", -3.0), ("token", -1.5)):
        (check,) = Likelihood(by=by).verify(make_context("x"), proposal).checks  # type: ignore[arg-type]
        assert (check.verdict, check.score) == ("pass", score)


def test_the_end_token_has_no_part_in_the_mean(tiny: LocalModel) -> None:
    """It has none in the sum: an answer of one token would be made twice as likely by it."""
    proposal = Sample(tiny, max_tokens=40, temperature=1.0).propose(make_context({"prompt": "x"}), 8)
    ended = [place for place, reason in enumerate(proposal.evidence["finish_reason"]) if reason == "stop"]
    assert ended
    checks = Likelihood(by="token").verify(make_context("x"), proposal).checks
    for place in ended:
        count = proposal.evidence["tokens_out"][place] - 1
        expected = proposal.evidence["logprob"][place] / count if count else None
        assert checks[place].score == (None if expected is None else pytest.approx(expected))


def test_a_sample_without_one_is_an_error_and_no_reject() -> None:
    """From an endpoint that gave none, from another generator, and from one whose evidence is not by item."""
    silent = Sample(Answers(("a", None))).propose(make_context({"prompt": "x"}), 1)
    others = Proposal.alternatives(["a"]), Proposal.alternatives(["a", "b"], evidence={"logprob": (-1.0,)})
    for proposal, by in product((silent, *others), ("answer", "token")):
        checks = Likelihood(by=by).verify(make_context("x"), proposal).checks  # type: ignore[arg-type]
        assert [(check.verdict, check.reason) for check in checks] == [("error", "no log-probability")] * len(
            proposal
        )
