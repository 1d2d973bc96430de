"""The sequential cascade: a small model writes the whole answer, and a large one writes it again where the small one
was not sure. The baseline of speculative cascades, and itself a draft-verify pipeline whose items are whole answers.

```
Pipeline(
    WholeAnswer(small, stop),
    Confidence(small, threshold),
    First(),
    policy=fallback(WholeAnswer(large, stop), verified=False),
)
```
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

from draftverify import Check, ConfigError, Context, Pipeline, Proposal, Task, Verification
from draftverify.rules import Speculative
from draftverify.traits import GeneratorTraits, VerifierTraits
from draftverify_tokens.models import TokenModel
from draftverify_tokens.no_draft import NoDraft
from draftverify_tokens.sampling import SETTINGS, own_settings, read_settings
from draftverify_tokens.stopping import Stop
from draftverify_tokens.target import Target


class _OfModel:
    """A part with a target of its own, which takes turns with whatever else reads the model."""

    model: TokenModel

    @cached_property
    def _target(self) -> Target:
        return Target(self.model)

    def open(self) -> None:
        """Load the weights."""
        self._target.open()

    def close(self) -> None:
        """Let the cache's memory go."""
        self._target.close()


class WholeAnswer(_OfModel):
    """Proposes whole answers, each decoded plainly by one model under the pipeline's settings.

    Args:
        model: the language model.
        stop: where an answer ends.
    """

    def __init__(self, model: TokenModel, stop: Stop) -> None:
        self.model = model
        self.stop = stop

    @cached_property
    def traits(self) -> GeneratorTraits:
        """Whole answers in the model's vocabulary; it takes turns, as the target does."""
        return GeneratorTraits(
            shape="alternatives",
            reads=SETTINGS,
            vocabulary=lambda: self.model.vocabulary,
            concurrent=False,
            shares=lambda: (self.model.model,),
        )

    def propose(self, context: Context, n: int) -> Proposal:
        """`n` answers, each a tuple of token ids, decoded as a batch; their records nest in the proposal."""
        plain = Pipeline(
            NoDraft(), self._target, Speculative(), block=0, done=self.stop, settings=own_settings(context.settings),
            seed=context.draws.seed(), name="answer",
        )  # fmt: skip
        return plain.propose(context, n)


class Confidence(_OfModel):
    """Passes an answer whose tokens were likely: mean log-probability at least `threshold`, read in one pass.

    The probabilities are the model's own, at the pipeline's settings but for a temperature of 0, which is read as 1: at
    0 every greedy token is certain. The score is the mean log-probability, in nats per token.

    Args:
        model: whose confidence counts; the one that wrote the answer.
        threshold: nats per token, at most 0. 0 defers nearly all, -inf nothing.
    """

    def __init__(self, model: TokenModel, threshold: float) -> None:
        if math.isnan(threshold) or threshold > 0:
            raise ConfigError(
                f"threshold is a mean log-probability, at most 0, not {threshold}", path="threshold"
            )
        self.model = model
        self.threshold = threshold

    @cached_property
    def traits(self) -> VerifierTraits:
        """Verdicts with scores, of the target's kind otherwise."""
        return replace(self._target.traits, provides={"verdicts", "scores"})

    def check_settings(self, settings: Mapping[str, Any]) -> None:
        """Refuse settings that decoding cannot follow.

        Raises:
            ConfigError: naming the setting.
        """
        read_settings(settings)

    def prepare(self, task: Task) -> Task:
        """As the target's."""
        return self._target.prepare(task)

    def verify(self, context: Context, proposal: Proposal) -> Verification:
        """One check per answer, with its score; an answer without tokens abstains."""
        checks = []
        for score in (self._score(context, answer) for answer in proposal.items):
            if score is None:
                checks.append(Check("abstain", reason="no tokens"))
                continue
            sure = score >= self.threshold
            # The settings may leave a token no probability at all, and a record holds no infinite score.
            finite = score if math.isfinite(score) else None
            checks.append(Check("pass" if sure else "reject", finite, "" if sure else "not sure"))
        return Verification(checks=tuple(checks), deterministic=self.traits.deterministic)

    def _score(self, context: Context, answer: Sequence[int]) -> float | None:
        import msgspec
        import torch

        if not len(answer):
            return None
        settings = dict(context.settings)
        if settings.get("temperature") == 0:
            settings["temperature"] = 1.0
        scored_context = msgspec.structs.replace(context, settings=settings, scratch={})
        # The row after the last token is nobody's, and the model may have no position left for it.
        verification = self._target.verify(scored_context, Proposal.chain(tuple(answer[:-1])))
        assert verification.evidence is not None
        rows = verification.evidence.target
        picked = rows[torch.arange(len(answer)), torch.as_tensor(answer, device=rows.device)]
        return float(picked.double().log().mean())
