"""A sample's own log-probability as its score: `llm.likelihood`, which costs no pass and reads no text."""

from __future__ import annotations

import math
from typing import Literal

from draftverify import Check, Context, Proposal, Verification
from draftverify.traits import VerifierTraits


class Likelihood:
    """Passes every sample, scored by the log-probability in nats that its model gave it (temperature 1, no top-p).

    It is the model's word on its own answer. A sample that came without one is an error: it was not drawn from a text
    model, or from an endpoint without `logprobs: true`.

    Args:
        by: "answer", the sum over its tokens, or "token", their mean, which favours short answers less.
    """

    traits = VerifierTraits(provides={"verdicts", "scores"}, reads=frozenset(), families={"unknown"})

    def __init__(self, by: Literal["answer", "token"] = "answer") -> None:
        self.by = by

    def verify(self, context: Context, proposal: Proposal) -> Verification:
        """One check per sample."""
        logprobs = sample_logprobs(proposal)
        evidence = proposal.evidence
        weighed = evidence.get("weighed", evidence.get("tokens_out", ()))
        counts = [1] * len(proposal) if self.by == "answer" else weighed
        if len(counts) != len(proposal):
            counts = [0] * len(proposal)
        return Verification(
            checks=tuple(
                [
                    Check("error", reason="no log-probability", feedback=_NONE)
                    if logprob is None or not math.isfinite(logprob) or count < 1
                    else Check("pass", logprob / count)
                    for logprob, count in zip(logprobs, counts, strict=True)
                ]
            )
        )


_NONE = "the generator gave none; samples of llm.local have one, those of llm.endpoint with `logprobs: true`"


def sample_logprobs(proposal: Proposal) -> tuple[float | None, ...]:
    """The log-probability of each item, as `llm.sample` and its kin give it as evidence; None where there is none."""
    logprobs = proposal.evidence.get("logprob", ())
    return tuple(logprobs) if len(logprobs) == len(proposal) else (None,) * len(proposal)
