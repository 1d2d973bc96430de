"""A text model as a reader: it answers from the passage or refuses, and its token probabilities say how surely."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from draftverify import ConfigError, ResourceError
from draftverify.exchanges import Exchange
from draftverify.traits import VerifierTraits
from draftverify_llm import (
    Completion,
    LocalModel,
    TextModel,
    asking,
    by_length,
    check_least,
    evaluating,
    exchange_of,
    model_identity,
    model_traits,
    reading_traits,
)
from draftverify_retrieval.answers import normalised
from draftverify_retrieval.reading import PassageReader, QuestionPassage, ReaderAnswer, place_of

PROMPT = (
    "Answer the question from the passage, in as few words as possible. "
    'If the passage does not say, answer "{refusal}".\n\nPassage: {passage}\n\nQuestion: {question}\nAnswer:'
)
_FIELD = re.compile(r"\{(?:passage|question|refusal)\}")
_TOKENS = 8192
_CERTAIN = 1e-12


@dataclass(eq=False)
class TextReader(PassageReader[TextModel]):
    """Asks a text model for the answer in each passage, or for a refusal.

    With weights that run here (`llm.local`) the score is the log-odds that the model does not refuse, in nats:
    ln((1 − P) / P), P the probability at temperature 1 that its reply begins with the refusal, token by token as the
    tokenizer cuts it. All passages of all blocks go through the model in padded batches of similar length; the answer
    is the greedy reply.

    Other models do not tell P. There each passage is one completion at temperature 0, and the score is the log-odds of
    that reply by its log-probability: ln(p / (1 − p)) where it answers, the negative of it where it refuses. Of an
    answer that is a lower bound of the other score, and the lower the longer the answer is.

    Both are the model's own opinion, and small models are sure without cause: fit them.

    Args:
        model: a text model.
        threshold: the score at which a passage passes, in nats.
        refusal: what the model is to say where the passage has no answer.
        prompt: with {passage}, {question} and {refusal}; it goes through the model's chat template, where it has one.
        max_tokens: the most tokens of an answer; of more only the first line counts.
    """

    model: TextModel
    threshold: float = 0.0
    refusal: str = "no answer"
    prompt: str = PROMPT
    max_tokens: int = 24

    @cached_property
    def traits(self) -> VerifierTraits:  # type: ignore[override]
        """As its model's."""
        return reading_traits(self.model, PassageReader.traits)

    def _members(self) -> list[Any]:
        return [self.model]

    def _make(self) -> TextModel:
        """The model, once the arguments were checked.

        Raises:
            ConfigError: the prompt lacks a field, or there is no refusal.
            ResourceError: the weights are missing.
        """
        for field in ("{passage}", "{question}", "{refusal}"):
            if field not in self.prompt:
                raise ConfigError(f"the prompt must have {field}", path="prompt")
        check_least(1, max_tokens=self.max_tokens)
        if not normalised(self.refusal):
            raise ConfigError("refusal must have a word", path="refusal")
        if model_traits(self.model).logprobs is False:
            raise ConfigError(
                f"{type(self.model).__name__} is not asked for log-probabilities, of which the score is made; give it "
                "logprobs: true where its server has them, or read with retrieval.quote_reader",
                path="model",
            )
        return self.model

    @property
    def identity(self) -> str:
        """A hash of the prompt's settings and of the model."""
        description = json.dumps([self.refusal, self.prompt, self.max_tokens, model_identity(self.model)])
        return hashlib.sha256(description.encode()).hexdigest()[:32]

    def read(self, pairs: Sequence[QuestionPassage]) -> list[ReaderAnswer]:
        model, prompts = self._get(), [self._prompted(pair) for pair in pairs]
        if isinstance(model, LocalModel):
            replies = self._locally(model, prompts)
            scores = [score for score, _ in replies]
            completions = [[Completion(text, 0, 0, "other")] for _, text in replies]
        else:
            with ThreadPoolExecutor(max(model_traits(model).at_once, 1)) as pool:
                completions = list(pool.map(self._completed, prompts))
            scores = [self._score(completion) for (completion,) in completions]
        return [
            self._found(pair, score, completion[0].text, exchange_of(prompt, completion, cost=model.price(completion)))
            for pair, score, prompt, completion in zip(pairs, scores, prompts, completions, strict=True)
        ]  # fmt: skip

    def _completed(self, prompt: str) -> list[Completion]:
        with asking(prompt):
            return self.model.complete(prompt, max_tokens=self.max_tokens, temperature=0.0)

    def _prompted(self, pair: QuestionPassage) -> str:
        fields = {"{passage}": pair.text, "{question}": pair.question, "{refusal}": self.refusal}
        return _FIELD.sub(lambda match: fields[match[0]], self.prompt)  # one pass: a question may hold braces

    def _found(self, pair: QuestionPassage, score: float, reply: str, exchange: Exchange) -> ReaderAnswer:
        answer = reply.strip().partition("\n")[0].strip()
        if not normalised(answer) or self._refuses(answer):
            # Its reply has no answer to give: that it is unsure of refusing does not make one.
            return ReaderAnswer(min(score, -_CERTAIN), exchange=exchange)
        start, end = place_of(answer, pair.text, pair.begin)
        answer = answer if start is None else pair.text[start:end]
        return ReaderAnswer(score, answer, start, end, exchange=exchange)

    def _refuses(self, reply: str) -> bool:
        return f"{normalised(reply)} ".startswith(f"{normalised(self.refusal)} ")

    def _score(self, completion: Completion) -> float:
        """The score of a completion whose log-probability alone is known."""
        if completion.logprob is None:
            raise ResourceError(
                f"{type(self.model).__name__} says no log-probabilities, and a reader's score is made of them; use a "
                "model or a server that gives them"
            )
        if not math.isfinite(completion.logprob):
            return completion.logprob
        p = min(max(math.exp(completion.logprob), _CERTAIN), 1 - _CERTAIN)
        odds = math.log(p / (1 - p))
        return -odds if self._refuses(completion.text) else odds

    def _locally(self, model: LocalModel, prompts: Sequence[str]) -> list[tuple[float, str]]:
        import torch

        chat = bool(model.tokenizer.chat_template)
        refusal = model.tokenizer(
            self.refusal if chat else " " + self.refusal, add_special_tokens=False
        ).input_ids
        ids = [model.encode_prompt({"prompt": prompt}) for prompt in prompts]
        replies: list[tuple[float, str]] = [(0.0, "")] * len(prompts)
        with torch.inference_mode(), evaluating(model.model.modules()):
            for batch in by_length(
                [len(prompt_ids) + len(refusal) + self.max_tokens for prompt_ids in ids], _TOKENS
            ):
                for i, reply in zip(batch, self._batch(model, [ids[i] for i in batch], refusal), strict=True):
                    replies[i] = reply
        return replies

    def _batch(
        self, model: LocalModel, prompts: Sequence[Sequence[int]], refusal: Sequence[int]
    ) -> list[tuple[float, str]]:
        """One padded pass over prompts and refusal for the score, and the greedy reply from its cache."""
        import torch

        module, ends = model.model, model.eos_ids
        width = max(map(len, prompts))
        # On the left, so that all prompts end at the same place.
        rows = [[0] * (width - len(prompt)) + [*prompt, *refusal] for prompt in prompts]
        mask = torch.tensor(
            [[0] * (width - len(prompt)) + [1] * (len(prompt) + len(refusal)) for prompt in prompts]
        ).to(module.device)
        places = (mask.cumsum(1) - 1).clamp(min=0)
        out = module(
            input_ids=torch.tensor(rows).to(module.device), attention_mask=mask, position_ids=places, use_cache=True,
            logits_to_keep=len(refusal) + 1,
        )  # fmt: skip
        logs = out.logits.float().log_softmax(-1)
        refusal_ids = torch.tensor(refusal).to(module.device)
        refused = (
            logs[:, :-1].gather(2, refusal_ids.expand(len(prompts), -1)[:, :, None])[:, :, 0].double().sum(1)
        )
        cache = out.past_key_values
        cache.crop(-len(refusal))
        mask, places, logits = mask[:, :width], places[:, width - 1], out.logits[:, 0]
        answers: list[list[int]] = [[] for _ in prompts]
        ended = [False] * len(prompts)
        for step in range(self.max_tokens):
            chosen = logits.argmax(-1)
            for i, token in enumerate(chosen.tolist()):
                ended[i] = ended[i] or token in ends
                if not ended[i]:
                    answers[i].append(token)
                    ended[i] = "\n" in model.decode(answers[i]).lstrip()
            if all(ended) or step + 1 == self.max_tokens:
                break
            mask = torch.nn.functional.pad(mask, (0, 1), value=1)
            places = places + 1
            logits = module(
                input_ids=chosen[:, None], attention_mask=mask, position_ids=places[:, None], past_key_values=cache,
                use_cache=True,
            ).logits[:, -1]  # fmt: skip
        scores = [_log_odds(-nats) for nats in refused.tolist()]
        return [(score, model.decode(answer)) for score, answer in zip(scores, answers, strict=True)]


def _log_odds(nats: float) -> float:
    """ln((1 − P) / P) of P = exp(−nats), at most `nats` where P is next to nothing."""
    if math.isnan(nats):
        return nats
    return nats + math.log(max(-math.expm1(-nats), _CERTAIN))
