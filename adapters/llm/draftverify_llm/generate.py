"""A text model as a generator: whole answers, sampled side by side: `llm.sample`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from string import Formatter
from typing import Any

import regex

from draftverify import ConfigError, Context, Cost, Proposal, Task
from draftverify.exchanges import noted
from draftverify.traits import GeneratorTraits
from draftverify_llm.text import (
    BatchTextModel,
    Completion,
    Prompt,
    TextModel,
    as_messages,
    as_text,
    asking,
    check_model,
    check_sampling,
    exchange_of,
    model_traits,
    read_prompt,
    read_sampling,
    sampling_traits,
)


class Sample:
    """Proposes `n` sampled answers to the task's prompt as alternatives.

    The prompt is the `template`, filled from the task's fields; without one the task's `messages` or `prompt`. `chat:
    false` in the task gives the text to the model as it stands. When the policy hands back a refusal, the refused
    answer and what was said of it follow as two more turns.

    Of the pipeline's settings it reads `temperature` and `top_p`, unless it is given its own. The seed of each round
    comes from the pipeline's.

    The proposal's evidence has one entry per item under "logprob" (the sum over as many tokens as "weighed" says),
    "tokens_out" and "finish_reason", the prompt tokens read under "tokens_in", and how many answers were bought before
    under "cached". Its cost is the model's price; time is the driver's to take.

    Args:
        model: any text model.
        system: a system prompt, as it stands; none when absent.
        template: the user's turn, with a task's field wherever its name stands in braces: "Summarise: {text}". A field
            that is no text is put in as JSON; a brace of its own is doubled.
        max_tokens: the most tokens in one answer.
        temperature: 0 takes the likeliest token each time, so that all answers are the same. When absent the pipeline's
            setting, without one 0.8.
        top_p: sample among the likeliest tokens that hold this probability together. When absent the pipeline's
            setting, without one 1.
        stop: strings that end an answer; they are not part of it.
        structured: hold the model to the JSON schema that the verifier offers (`json_schema` does); of models that can
            be held to one (`llm.endpoint`).
        take: a regular expression (Python's): the item is the first part of the answer that it matches, such as the
            object in braces without the words around it; the whole answer where it matches nothing, or is absent.
        feedback: the turn after an answer that was refused: "It is wrong ({reason}): {feedback}. Answer again." When
            absent what the verifier said of it, as it stands.
    """

    def __init__(
        self,
        model: TextModel,
        system: str | None = None,
        template: str | None = None,
        max_tokens: int = 512,
        temperature: float | None = None,
        top_p: float | None = None,
        stop: Sequence[str] = (),
        take: str | None = None,
        structured: bool = False,
        feedback: str | None = None,
    ) -> None:
        self.model = model
        self.system = system
        self.template = template
        self.max_tokens = max_tokens
        self.temperature = temperature
        self.top_p = top_p
        self.stop = stop
        self.take = take
        self.structured = structured
        self.feedback = feedback

    @cached_property
    def traits(self) -> GeneratorTraits:
        """As its model's; it reads the settings that it was not given itself."""
        return sampling_traits(self.model, self.temperature, self.top_p)

    def check_settings(self, settings: Mapping[str, Any]) -> None:
        """Refuse a temperature or top_p that no model can follow.

        Raises:
            ConfigError: naming the setting.
        """
        read_sampling(settings, self.temperature, self.top_p)

    def open(self) -> None:
        """Check the arguments, and that the model can be had.

        Raises:
            ConfigError: one is out of its range, the template cannot be filled, `take` is no regular expression, or the
                model cannot be held to a schema.
            ResourceError: the model's weights cannot be found.
        """
        check_sampling(1, self.max_tokens, *read_sampling({}, self.temperature, self.top_p), self.stop)
        if self.template is not None:
            fields_of(self.template)
        if unknown := set(_fields(self.feedback or "", "feedback")) - {"reason", "feedback"}:
            raise ConfigError(
                f"{{{min(unknown)}}} is no field of feedback; there are {{reason}} and {{feedback}}",
                path="feedback",
            )
        if self.structured and not model_traits(self.model).structured:
            raise ConfigError(
                f"{type(self.model).__name__} cannot be held to a schema; leave structured out",
                path="structured",
            )
        try:
            regex.compile(self.take or "")
        except regex.error as error:
            raise ConfigError(f"{self.take!r} is no regular expression: {error}", path="take") from error
        check_model(self.model)

    def check_tasks(self, tasks: Sequence[Task]) -> None:
        """Refuse tasks without a prompt, or without a field of the template, before the model is asked.

        Raises:
            ConfigError: naming the task.
        """
        for task in tasks:
            self._request(task)

    def propose(self, context: Context, n: int) -> Proposal:
        """Sample `n` answers, seeded by this round's draws.

        Raises:
            ConfigError: the task has no prompt, or lacks a field of the template; or it says `chat: false`, and there
                is a system prompt or feedback, which must be turns.
            EndpointError: the model is remote and did not answer.
        """
        if n == 0:
            return Proposal.alternatives(())
        prompt, options = self._asked(context)
        with asking(prompt, chat=options["chat"]):
            completions = self.model.complete(prompt, n=n, seed=context.draws.seed(), **options)
        return self._proposal(prompt, options["chat"], completions)

    @property
    def propose_many(self) -> Callable[[Sequence[Context], Sequence[int]], list[Proposal]]:
        """`propose` for many sessions in one batch, of a model that has `complete_many`; absent with another."""
        if not isinstance(self.model, BatchTextModel):
            raise AttributeError(f"{type(self.model).__name__} answers one prompt at a time")
        return partial(self._propose_many, self.model)

    def _propose_many(
        self, model: BatchTextModel, contexts: Sequence[Context], ns: Sequence[int]
    ) -> list[Proposal]:
        proposals = [Proposal.alternatives(())] * len(contexts)
        requests = {place: self._asked(contexts[place]) for place, n in enumerate(ns) if n}
        batches: dict[str, list[int]] = {}
        for place, (_, options) in requests.items():
            # One batch has one temperature, one top_p, one way to be asked.
            batches.setdefault(repr(options), []).append(place)
        for places in batches.values():
            prompts, (options, *_) = zip(*map(requests.__getitem__, places), strict=True)
            n = [ns[place] for place in places]
            seeds = [contexts[place].draws.seed() for place in places]
            answers = model.complete_many(prompts, n=n, seeds=seeds, **options)
            for place, prompt, completions in zip(places, prompts, answers, strict=True):
                proposals[place] = self._proposal(prompt, options["chat"], completions)
        return proposals

    def _asked(self, context: Context) -> tuple[Prompt, dict[str, Any]]:
        """What the model is asked, and how."""
        temperature, top_p = read_sampling(context.settings, self.temperature, self.top_p)
        chat = context.task.input.get("chat", True) is not False
        return self._prompt(context, chat), {
            "max_tokens": self.max_tokens,
            "temperature": temperature,
            "top_p": top_p,
            "stop": self.stop,
            "chat": chat,
            **({"schema": self._schema(context.task)} if self.structured else {}),
        }

    def _schema(self, task: Task) -> Mapping[str, Any]:
        schema = task.input.get("json_schema")
        if not isinstance(schema, Mapping):
            raise ConfigError(
                "structured: true needs a verifier that offers its schema, such as json_schema, or tasks with a field "
                f"json_schema; task {task.id} has neither"
            )
        return schema

    def _proposal(self, prompt: Prompt, chat: bool, completions: Sequence[Completion]) -> Proposal:
        amount = self.model.price(completions)
        return Proposal.alternatives(
            tuple(self._taken(completion.text) for completion in completions),
            evidence=_evidence(completions),
            cost=Cost(amount=amount),
            notes=noted([exchange_of(prompt, completions, cost=amount, chat=chat)]),
        )

    def _taken(self, answer: str) -> str:
        if self.take is None:
            return answer
        try:
            match = regex.search(self.take, answer, timeout=1.0)
        except TimeoutError:  # an answer that makes it backtrack without end stays whole
            return answer
        return match[0] if match else answer

    def _request(self, task: Task) -> Prompt:
        if self.template is not None:
            return filled(self.template, task)
        return read_prompt(task.input, f"task {task.id}, for a text model,")

    def _prompt(self, context: Context, chat: bool) -> Prompt:
        """What the model is asked: the task, within a system prompt and what was said of a refused answer."""
        task = context.task
        prompt = self._request(task)
        if self.system is None and not context.feedback:
            return prompt
        if not chat:
            turn = "a system prompt" if self.system is not None else "feedback"
            raise ConfigError(
                f"task {task.id} says `chat: false`, so {turn} cannot be a turn; leave it out"
                + (", or use regenerate in place of feedback" if context.feedback else "")
            )
        turns = as_messages(prompt)
        if self.system is not None:
            turns.insert(0, {"role": "system", "content": self.system})
        if context.feedback:
            refusal = context.feedback[-1]
            why = refusal.feedback or refusal.reason or "This answer was refused."
            if self.feedback is not None:
                why = self.feedback.format(reason=refusal.reason, feedback=refusal.feedback)
            turns += [{"role": "assistant", "content": str(refusal.item)}, {"role": "user", "content": why}]
        return turns


def fields_of(template: str) -> list[str]:
    """The names of the fields that a template puts in.

    Raises:
        ConfigError: it has none, or one that is no plain name.
    """
    names = _fields(template, "template")
    if not names:
        raise ConfigError(
            "it names no field of the task, such as {text}: every task would be alike", path="template"
        )
    return names


def _fields(template: str, path: str) -> list[str]:
    """As `fields_of`; [] of a text without one."""
    try:
        parsed = list(Formatter().parse(template))
    except ValueError as error:
        raise ConfigError(f"{error}; a brace of its own is doubled", path=path) from error
    names = []
    for _, name, form, conversion in parsed:
        if name is None:
            continue
        if form or conversion or not name.isidentifier():
            raise ConfigError(
                f"{{{name}}} is no field's name; a brace of its own is doubled: {{{{ and }}}}", path=path
            )
        names.append(name)
    return names


def filled(template: str, task: Task) -> str:
    """The template with the task's fields.

    Raises:
        ConfigError: the task has no such field.
    """
    texts = {}
    for name in fields_of(template):
        if name not in task.input:
            fields = ", ".join(map(str, task.input)) or "none"
            raise ConfigError(
                f"task {task.id} has no field {name!r}, which the template names; there are {fields}",
                path="template",
            )
        texts[name] = as_text(task.input[name])
    return template.format(**texts)


def _evidence(completions: Sequence[Completion]) -> dict[str, object]:
    return {
        "logprob": tuple(completion.logprob for completion in completions),
        "tokens_out": tuple(completion.tokens_out for completion in completions),
        "weighed": tuple(
            completion.tokens_out if completion.weighed is None else completion.weighed
            for completion in completions
        ),
        "finish_reason": tuple(completion.finish_reason for completion in completions),
        "cached": sum(completion.cached for completion in completions),
        "tokens_in": sum(completion.tokens_in for completion in completions),
    }
