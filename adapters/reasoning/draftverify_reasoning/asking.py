"""How generators of reasoning ask a text model: the question within a template, and the sampling settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import msgspec

from draftverify import ConfigError, Task
from draftverify.traits import GeneratorTraits
from draftverify_llm import (
    BatchTextModel,
    Completion,
    Message,
    Sample,
    TextModel,
    asking,
    filled,
    model_traits,
    question_text,
    read_sampling,
)
from draftverify_reasoning.answers import Form
from draftverify_reasoning.solutions import SolutionMaker


class PromptedGenerator:
    """The arguments that these generators share, and what follows from them."""

    chat = True
    model: TextModel
    template: str
    system: str | None
    max_tokens: int
    temperature: float | None
    top_p: float | None
    stop: Sequence[str]
    form: Form

    @cached_property
    def _maker(self) -> SolutionMaker:
        return SolutionMaker(self.form)

    @property
    def traits(self) -> GeneratorTraits:
        """As the model's; they read the settings that they were not given themselves."""
        return self._sampler().traits

    def check_settings(self, settings: Mapping[str, Any]) -> None:
        """Refuse a temperature or top_p that no model can follow.

        Raises:
            ConfigError: naming the setting.
        """
        self._sampler().check_settings(settings)

    def open(self) -> None:
        """Check the arguments, and that the model can be had.

        Raises:
            ConfigError: one is out of its range, or the template cannot be filled.
            ResourceError: the model's weights cannot be found.
        """
        self._sampler(template=self.template).open()
        if isinstance(self.stop, str):  # letter by letter it would end nearly everything at once
            raise ConfigError(
                f"stop is the text {self.stop!r}; a list is needed: [{self.stop!r}]", path="stop"
            )
        if self.system is not None and not self.chat:
            raise ConfigError(
                "a system prompt is a turn; without chat put it into the template", path="system"
            )

    def _sampler(self, system: str | None = None, template: str | None = None) -> Sample:
        """What samples from the model, by a template or by its tasks as they are."""
        return Sample(self.model, system, template, self.max_tokens, self.temperature, self.top_p, self.stop)

    def _needs_continuing(self) -> None:
        """Refuse a model that cannot go on with an answer that was begun."""
        if self.chat and not model_traits(self.model).continues_turns:
            raise ConfigError(
                f"{type(self.model).__name__} cannot go on with a turn that was begun; with `chat: false` the question "
                "and the steps are one text that it continues, or use llm.local",
                path="model",
            )

    def _how(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        """The settings of a call to the model."""
        temperature, top_p = read_sampling(settings, self.temperature, self.top_p)
        arguments: dict[str, Any] = {"temperature": temperature, "top_p": top_p, "chat": self.chat}
        return {**arguments, "max_tokens": self.max_tokens, "stop": tuple(self.stop)}

    def check_tasks(self, tasks: Sequence[Task]) -> None:
        """Refuse tasks without a question, or without a field of the template, before the model is asked.

        Raises:
            ConfigError: naming the task.
        """
        for task in tasks:
            self._asked(task)

    def _asked(self, task: Task, begun: str = "") -> str | list[Message]:
        """The prompt of a task, with the beginning of the answer that the model is to go on with."""
        text = filled(self.template, asked(task))
        if not self.chat:
            return text + begun
        turns: list[Message] = [{"role": "user", "content": text}]
        if self.system is not None:
            turns.insert(0, {"role": "system", "content": self.system})
        if begun:
            turns.append({"role": "assistant", "content": begun})
        return turns


def asked(task: Task) -> Task:
    """The task with its question under `question`, wherever it stood.

    Raises:
        ConfigError: it has none.
    """
    return msgspec.structs.replace(task, input={**task.input, "question": question_text(task)})


def answers_to(
    model: TextModel, prompts: Sequence[Any], *, n: Sequence[int], seeds: Sequence[int], **sampling: Any
) -> list[list[Completion]]:
    """Completions of many prompts, in one batch where the model has batches."""
    if isinstance(model, BatchTextModel):
        return model.complete_many(prompts, n=n, seeds=seeds, **sampling)
    answers = []
    for prompt, count, seed in zip(prompts, n, seeds, strict=True):
        with asking(prompt, chat=sampling.get("chat", True)):
            answers.append(model.complete(prompt, n=count, seed=seed, **sampling))
    return answers


def stop_across(begun: str, continuation: str, stop: Sequence[str]) -> int | None:
    """Where in `begun + continuation` a stop string begins that lies across the cut; None where there is none.

    The model sees the stop strings in what it writes in one go; of a text that is written in pieces one may be half in
    what was there before.
    """
    places = []
    for marker in stop:
        begin = max(len(begun) - len(marker) + 1, 0)
        if (place := (begun[begin:] + continuation[: len(marker) - 1]).find(marker)) >= 0:
            places.append(begin + place)
    return min(places, default=None)


def whole_characters(text: str) -> str:
    """Without what tokens that were cut off inside of a character leave at the end; the model writes it again."""
    return text.rstrip("\N{REPLACEMENT CHARACTER}")
