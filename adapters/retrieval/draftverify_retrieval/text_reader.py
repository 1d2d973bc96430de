"""A text model as a reader: it answers from the passage or refuses, and its token probabilities say how surely."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from typing import Any

from draftverify import ConfigError, Context, Proposal, ResourceError, Task, Verification
from draftverify.protocols import Closes, Opens
from draftverify.traits import VerifierTraits, families, offers
from draftverify_llm import (
    Completion,
    LocalModel,
    TextModel,
    asking,
    by_length,
    evaluating,
    exchange_of,
    model_traits,
    torch_directory,
    weights_identity,
)
from draftverify_retrieval.answers import normalised
from draftverify_retrieval.reading import QuestionPassage, ReaderAnswer, check_questions, read_blocks

__all__ = ["TextReader"]

PROMPT = (
    "Answer the question from the passage, in as few words as possible. "
    'If the passage does not say, answer "{refusal}".\n\nPassage: {passage}\n\nQuestion: {question}\nAnswer:'
)
_FIELD = re.compile(r"\{(?:passage|question|refusal)\}")
_TOKENS = 8192
_CERTAIN = 1e-12


class TextReader:
    """Asks a text model for the answer in each passage, or for a refusal.

    With weights that run here (`llm.local`) the score is the log-odds that the model does not refuse, in nats:
    ln((1 − P) / P), P the probability at temperature 1 that its reply begins with the refusal, token by token as the
    tokenizer cuts it. All passages of all blocks go through the model in padded batches of similar length; each prompt
    is read once, for the score and for the answer, which is the greedy reply.

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

    def __init__(
        self,
        model: TextModel,
        threshold: float = 0.0,
        refusal: str = "no answer",
        prompt: str = PROMPT,
        max_tokens: int = 24,
    ) -> None:
        self.model = model
        self.threshold = threshold
        self.refusal = refusal
        self.prompt = prompt
        self.max_tokens = max_tokens

    @cached_property
    def traits(self) -> VerifierTraits:
        """As its model's."""
        model = model_traits(self.model)
        return VerifierTraits(
            provides={"verdicts", "scores"},
            reads=frozenset(),
            families=families(model.family),
            concurrent=model.concurrent,
            deterministic=model.deterministic,
            remote=model.remote,
            free=model.cached,
        )

    def open(self) -> None:
        """Check the arguments, and load the model.

        Raises:
            ConfigError: the prompt lacks a field, or there is no refusal.
            ResourceError: the weights are missing.
        """
        for field in ("{passage}", "{question}", "{refusal}"):
            if field not in self.prompt:
                raise ConfigError(f"the prompt must have {field}", path="prompt")
        if not normalised(self.refusal) or self.max_tokens < 1:
            raise ConfigError("refusal must have a word, and max_tokens be at least 1", path="refusal")
        if model_traits(self.model).logprobs is False:
            raise ConfigError(
                f"{type(self.model).__name__} is not asked for log-probabilities, of which the score is made; give it "
                "logprobs: true where its server has them, or read with retrieval.quote_reader",
                path="model",
            )
        if offers(self.model, Opens):
            self.model.open()

    def close(self) -> None:
        """Close the model."""
        if offers(self.model, Closes):
            self.model.close()

    @property
    def identity(self) -> str:
        """A hash of the prompt's settings and of the model: its weights where they run here, else its arguments."""
        description: dict[str, Any] = {
            name: getattr(self, name) for name in ("refusal", "prompt", "max_tokens")
        }
        if isinstance(self.model, LocalModel):
            try:
                weights = weights_identity(torch_directory(str(self.model.weights)), {})
            except ResourceError:  # a live module has no files; its vocabulary stands for it
                weights = self.model.vocabulary
            description["model"] = [weights, str(self.model.dtype), str(self.model.packed)]
        else:
            arguments = {key: value for key, value in vars(self.model).items() if not key.startswith("_")}
            description["model"] = [
                type(self.model).__name__,
                {key: repr(value) for key, value in arguments.items()},
            ]
        return hashlib.sha256(json.dumps(description, sort_keys=True).encode()).hexdigest()[:32]

    def check_tasks(self, tasks: Sequence[Task]) -> None:
        """Refuse tasks without a question, before any passage is searched.

        Raises:
            ConfigError: naming the task.
        """
        check_questions(tasks)

    def verify(self, context: Context, proposal: Proposal) -> Verification:
        """One check per passage."""
        return self.verify_many([context], [proposal])[0]

    def verify_many(self, contexts: Sequence[Context], proposals: Sequence[Proposal]) -> list[Verification]:
        """The blocks of many tasks."""
        return read_blocks(contexts, proposals, self._read, self.threshold)

    def _read(self, pairs: Sequence[QuestionPassage]) -> list[ReaderAnswer]:
        prompts = [self._prompted(pair) for pair in pairs]
        if isinstance(self.model, LocalModel):
            replies = self._locally(self.model, prompts)
            exchanges = [
                exchange_of(prompt, [Completion(text, 0, 0, "other")])
                for prompt, (_, text) in zip(prompts, replies, strict=True)
            ]
        else:
            with ThreadPoolExecutor(max(model_traits(self.model).at_once, 1)) as pool:
                completions = list(pool.map(self._completed, prompts))
            replies = [self._judged(completion[0]) for completion in completions]
            exchanges = [
                exchange_of(prompt, completion, cost=self.model.price(completion))
                for prompt, completion in zip(prompts, completions, strict=True)
            ]
        return [
            self._found(pair, *reply)._replace(exchange=exchange)
            for pair, reply, exchange in zip(pairs, replies, exchanges, strict=True)
        ]

    def _completed(self, prompt: str) -> list[Completion]:
        with asking(prompt):
            return self.model.complete(prompt, max_tokens=self.max_tokens, temperature=0.0)

    def _prompted(self, pair: QuestionPassage) -> str:
        fields = {"{passage}": pair.text, "{question}": pair.question, "{refusal}": self.refusal}
        return _FIELD.sub(lambda match: fields[match[0]], self.prompt)  # one pass: a question may hold braces

    def _found(self, pair: QuestionPassage, score: float, reply: str) -> ReaderAnswer:
        answer = reply.strip().partition("\n")[0].strip()
        if not normalised(answer) or self._refuses(answer):
            # Its reply has no answer to give: that it is unsure of refusing does not make one.
            return ReaderAnswer(min(score, -_CERTAIN))
        place = pair.text.casefold().find(answer.casefold(), pair.begin)
        if place < 0 or pair.text[place : place + len(answer)].casefold() != answer.casefold():
            return ReaderAnswer(score, answer)
        return ReaderAnswer(score, pair.text[place : place + len(answer)], place, place + len(answer))

    def _refuses(self, reply: str) -> bool:
        return f"{normalised(reply)} ".startswith(f"{normalised(self.refusal)} ")

    def _judged(self, completion: Any) -> tuple[float, str]:
        """The score and text of a completion whose log-probability alone is known."""
        if completion.logprob is None:
            raise ResourceError(
                f"{type(self.model).__name__} says no log-probabilities, and a reader's score is made of them; use a "
                "model or a server that gives them"
            )
        if not math.isfinite(completion.logprob):
            return completion.logprob, completion.text
        p = min(max(math.exp(completion.logprob), _CERTAIN), 1 - _CERTAIN)
        odds = math.log(p / (1 - p))
        return (-odds if self._refuses(completion.text) else odds), completion.text

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
