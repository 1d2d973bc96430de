"""Programs from any text model, asked in turns or left to continue code: `code.sample`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import msgspec
from msgspec.structs import replace

from draftverify import ConfigError, Context, ContractError, Feedback, Proposal, Task
from draftverify.traits import GeneratorTraits
from draftverify_code.generators.extract import program_in, truncate
from draftverify_code.program import language_of, program_of
from draftverify_llm import Message, TextModel, read_sampling, sampling_traits
from draftverify_llm import Sample as SampleText

COMPLETION_STOP = ("\nclass ", "\ndef ", "\n#", "\nif ", "\nprint", "\nassert", "\n@", "\n```")
"""Where the continuation of a Python function ends: at whatever begins a statement of its own."""

WRITING_STOP = ("\nassert", "\nprint", "\nif __name__", '\n"""', "\n```")
"""Where a Python program ends that follows a description in words."""


@dataclass(eq=False)
class SamplePrograms:
    """Proposes `n` sampled programs as alternatives.

    A task has `prompt`, and `form: "completion"` where that is code to be continued; else it is a task in words. A chat
    model is asked for the whole program in one fenced block, which is taken out of its answer (see `extract`). A model
    without chat gets the code as it stands, or the words as a docstring; the program is the prompt and the
    answer up to the first of `stop`.

    When the policy hands back refusals, a chat model sees its own attempt as its turn and what was said of it (stage,
    reason, feedback with values) as the user's next; a model without chat sees both as a block of comments above the
    prompt, which is no part of the program. Of several refused programs the best scored are shown, the best one last;
    of equals the later ones.

    The evidence and the cost are those of `llm.sample`.

    Args:
        model: any text model.
        chat: whether the model is asked in turns; False for one that only continues text.
        max_tokens: the most tokens in one answer.
        temperature: 0 takes the likeliest token each time, so that all programs are the same. When absent the
            pipeline's setting, without one 0.8.
        top_p: sample among the likeliest tokens that hold this probability together. When absent the pipeline's
            setting, without one 0.95.
        stop: strings that end an answer. When absent: none for chat; without chat the task's `stop_tokens`, or else
            those that end a function in Python.
        attempts: how many refused programs are shown at most.
        at_most: the most programs in a block; as many as asked for when absent. A dear model that steps in for a cheap
            one is asked in that one's block size.
    """

    model: TextModel
    chat: bool = True
    max_tokens: int = 512
    temperature: float | None = None
    top_p: float | None = None
    stop: Sequence[str] | None = None
    attempts: int = 1
    at_most: int | None = None

    @cached_property
    def traits(self) -> GeneratorTraits:
        """As its model's; it reads the settings that it was not given itself."""
        return sampling_traits(self.model, self.temperature, self.top_p)

    def check_settings(self, settings: Mapping[str, Any]) -> None:
        """Refuse a temperature or top_p that no model can follow.

        Raises:
            ConfigError: naming the setting.
        """
        self._sampling(settings)

    def open(self) -> None:
        """Check the settings.

        Raises:
            ConfigError: a setting is out of its range.
        """
        if self.attempts < 1:
            raise ConfigError(f"attempts is {self.attempts}; at least 1 is needed", path="attempts")
        if self.at_most is not None and self.at_most < 1:
            raise ConfigError(f"at_most is {self.at_most}; at least 1 is needed", path="at_most")
        self._sampler((), {}).open()

    def check_tasks(self, tasks: Sequence[Task]) -> None:
        """Refuse tasks without a prompt, before the model is asked.

        Raises:
            ConfigError: naming the task.
        """
        for task in tasks:
            _CodeTask(task)

    def propose(self, context: Context, n: int) -> Proposal:
        """Sample at most `n` programs, seeded by this round's draws.

        Raises:
            ConfigError: the task has no prompt.
            EndpointError: the model is remote and did not answer.
        """
        task = _CodeTask(context.task)
        stop = task.stop(self.chat) if self.stop is None else self.stop
        refusals = _best(context, self.attempts)
        request = self._turns(task, refusals) if self.chat else self._text(task, refusals)
        # What the model is asked is a task of its own; the draws, and so the seed, stay this round's.
        inner = replace(context, task=Task(id=context.task.id, input=request), feedback=())
        proposal = self._sampler(stop, context.settings).propose(
            inner, n if self.at_most is None else min(n, self.at_most)
        )
        return replace(proposal, items=tuple(self._program(task, text, stop) for text in proposal.items))

    def _sampling(self, settings: Mapping[str, Any]) -> tuple[float, float]:
        return read_sampling(settings, self.temperature, self.top_p, default=(0.8, 0.95))

    def _sampler(self, stop: Sequence[str], settings: Mapping[str, Any]) -> SampleText:
        temperature, top_p = self._sampling(settings)
        return SampleText(
            self.model, max_tokens=self.max_tokens, temperature=temperature, top_p=top_p, stop=stop
        )

    def _turns(self, task: _CodeTask, refusals: Sequence[_RefusedProgram]) -> dict[str, Any]:
        turns: list[Message] = [{"role": "user", "content": task.request}]
        for refused in refusals:
            turns += [
                {"role": "assistant", "content": f"```{task.language}\n{refused.program.rstrip()}\n```"},
                {
                    "role": "user",
                    "content": refused.remark("patch" if task.language == "diff" else "program"),
                },
            ]
        return {"messages": turns}

    def _text(self, task: _CodeTask, refusals: Sequence[_RefusedProgram]) -> dict[str, Any]:
        comments = "".join(commented(refused.comment, task.language) + "\n" for refused in refusals)
        text = task.prompt if task.continues else f'"""\n{task.prompt.rstrip()}\n"""\n'
        return {"prompt": comments + text, "chat": False}

    def _program(self, task: _CodeTask, text: str, stop: Sequence[str]) -> str:
        if self.chat:
            return program_in(text, task.fields)
        # A backend may know only some of the stop strings.
        return (task.prompt if task.continues else "") + truncate(text, stop)


class _CodeTask:
    """What is read of a task."""

    def __init__(self, task: Task) -> None:
        prompt = task.input.get("prompt")
        if not isinstance(prompt, str):
            fields = ", ".join(map(str, task.input)) or "nothing"
            raise ConfigError(f"a task for code.sample needs `prompt` (text); {task.id} has {fields}")
        self.fields = task.input
        self.prompt = prompt
        self.continues = task.input.get("form") == "completion"
        self.language = language_of(str(task.input.get("language") or "python"))
        self.stop_tokens: Sequence[str] = task.input.get("stop_tokens", ())

    @property
    def request(self) -> str:
        """What a chat model is asked first."""
        prompt = self.prompt.rstrip()
        if not self.continues:
            whole = "a unified diff" if self.language == "diff" else f"the whole {self.language} program"
            return f"{prompt}\n\nAnswer with {whole} in one block of code."
        return (
            f"Complete this {self.language} function. Answer with the whole function, with the imports it needs, "
            f"in one block of code.\n\n```{self.language}\n{prompt}\n```"
        )

    def stop(self, chat: bool) -> tuple[str, ...]:
        """The strings that end an answer."""
        if chat or self.language != "python" or self.stop_tokens:
            return () if chat else tuple(self.stop_tokens)
        return COMPLETION_STOP if self.continues else WRITING_STOP


class _RefusedProgram(msgspec.Struct, frozen=True):
    """A refused program, and what its check says: the stage and the reason in one word each, the feedback."""

    program: str
    reason: str
    feedback: str

    def remark(self, kind: str) -> str:
        """What a chat model is told of it, a program or a patch."""
        end = f"Answer with the whole corrected {kind} in one block of code."
        return _paragraphs(f"This {kind} was refused ({self.reason}).", self.feedback, end)

    @property
    def comment(self) -> str:
        """What a model without chat reads of it."""
        start = f"This attempt was refused ({self.reason}):"
        return _paragraphs(start, self.program.rstrip(), self.feedback, "The corrected program:")


def _paragraphs(*texts: str) -> str:
    return "\n\n".join(text for text in texts if text)


def commented(text: str, language: str) -> str:
    """The text as a block of comments."""
    mark = next((mark for mark, languages in _MARKS.items() if language in languages.split()), "//")
    return "".join(f"{mark} {line}".rstrip() + "\n" for line in text.splitlines())


_MARKS = {"#": "python ruby r bash perl julia elixir", "--": "lua haskell ada", ";": "racket clojure"}
"""What begins a comment, but in the languages that have it from C."""


def _best(context: Context, most: int) -> list[_RefusedProgram]:
    """The best scored of the refused programs, best last, each text once."""
    round = context.rounds[-1] if context.rounds else None
    ranked: dict[str, tuple[float, int, _RefusedProgram]] = {}
    for index, entry in enumerate(context.feedback):
        check = _check_of(entry, round)
        score = getattr(check, "score", None)
        reason = f"{getattr(check, 'stage', '') or 'the check'}: {entry.reason or 'refused'}"
        with suppress(ContractError):  # another generator's, and no text
            program = program_of(entry.item)
            refused = _RefusedProgram(program, reason, entry.feedback.strip())
            ranked[program] = (float("-inf") if score is None else score, index, refused)
    return [refused for _, _, refused in sorted(ranked.values(), key=lambda rank: rank[:2])[-most:]]


def _check_of(entry: Feedback, round: Any) -> Any:
    """The check that a feedback came from, which knows its stage and score."""
    pairs = zip(round.items, round.checks, strict=False) if round is not None else ()
    return next(
        (check for item, check in pairs if item == entry.item and check.feedback == entry.feedback), None
    )
