"""What the judges of this room share: how they read a task and an item, and what becomes of a missing verdict."""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence, Set
from pathlib import Path
from typing import Any, ClassVar, Literal

from draftverify import Check, ConfigError, Context, ContractError, Proposal, Task, Verification
from draftverify.kit.audit import Variation
from draftverify.protocols import Closes, Opens
from draftverify.traits import EvidenceKind, VerifierTraits, offers
from draftverify_llm.first_token import word_tokens
from draftverify_llm.identity import model_identity
from draftverify_llm.local import LocalModel
from draftverify_llm.prompts import SHIPPED, filled_prompt, read_prompts
from draftverify_llm.text import TextModel, as_text, reading_traits


class ModelJudge(ABC):
    """What the judges that ask a text model have in common.

    Args:
        model: a text model.
        rubric: what answers are to be judged by, in words.
        reference: the field of the task that holds a right answer, which the judge is shown too.
        reasons: ask for the verdict and then for the reason.
        prompt: a file; when absent the one that comes with the package.
        paraphrases: the same in other words, for audits.
        max_tokens: of a reply that is read as text.
    """

    fields: ClassVar[tuple[str, ...]]
    """Of a prompt, each of which must stand in it; it has {rubric} and {expected} where there are such."""

    def __init__(
        self,
        model: TextModel,
        rubric: str | None,
        reference: str | None,
        reasons: bool,
        prompt: Path | None,
        paraphrases: Sequence[Path],
        max_tokens: int,
    ) -> None:
        self.model = model
        self.rubric = rubric
        self.reference = reference
        self.reasons = reasons
        self.prompt = prompt
        self.paraphrases = paraphrases
        self.max_tokens = max_tokens
        self._prompts: tuple[str, ...] | None = None

    @property
    @abstractmethod
    def kind(self) -> str:
        """The name of the package's prompts for it."""

    @property
    @abstractmethod
    def words(self) -> tuple[str, ...]:
        """The verdicts."""

    @property
    def varies(self) -> frozenset[Variation]:
        """What an audit can change: the wording too, where there are several."""
        return frozenset({"answers", "repeat", *(("wording",) if len(self._files()) > 1 else ())})

    def open(self) -> None:
        """Check the arguments, read the prompts and load the model.

        Raises:
            ConfigError: an argument is out of its range, a prompt is not as it must be, or the model's tokenizer cannot
                tell the verdicts apart.
            ResourceError: the weights are missing.
        """
        if self.max_tokens < 1:
            raise ConfigError(f"max_tokens is {self.max_tokens}; at least 1 is needed", path="max_tokens")
        self._read()
        if offers(self.model, Opens):
            self.model.open()
        if isinstance(self.model, LocalModel):
            word_tokens(self.model, self.words)

    def check_tasks(self, tasks: Sequence[Task]) -> None:
        """Refuse tasks without a question, or without the reference, before the model is asked.

        Raises:
            ConfigError: naming the task.
        """
        for task in tasks:
            question_text(task)
            self._right(task)

    def verify(self, context: Context, proposal: Proposal) -> Verification:
        """The block's judgements."""
        return self.verify_many([context], [proposal])[0]

    @abstractmethod
    def verify_many(self, contexts: Sequence[Context], proposals: Sequence[Proposal]) -> list[Verification]:
        """The blocks of many tasks, asked together."""

    def _traits(self, provides: Set[EvidenceKind], thresholds: Set[str] = frozenset()) -> VerifierTraits:
        """A judge's traits, by its model's; a model's word is no outside check, also where its family is unknown."""
        return reading_traits(
            self.model, VerifierTraits(provides=provides, thresholds=thresholds, reads=frozenset())
        )

    def close(self) -> None:
        """Close the model."""
        if offers(self.model, Closes):
            self.model.close()

    def _identity(self, *settings: Any) -> str:
        """A hash of the model, the prompt and what else its words depend on; the audit's other wordings are none.

        Raises:
            ResourceError: the weights cannot be had.
        """
        settings += (self.max_tokens, self.rubric, self.reference is not None, self.reasons, self._read()[0])
        description = json.dumps([model_identity(self.model), *settings], sort_keys=True, ensure_ascii=False)
        return hashlib.sha256(description.encode()).hexdigest()[:32]

    def _right(self, task: Task) -> str | None:
        """The task's right answer, where the judge is shown one.

        Raises:
            ConfigError: it has none.
        """
        if self.reference is None:
            return None
        return shown_text(task.input, self.reference, f"the input of task {task.id}")

    def _filled(
        self, wording: int, texts: Mapping[str, tuple[str, str]], right: str | None, **plain: str
    ) -> str:
        """A prompt with its texts, the rubric and the right answer in their places."""
        plain["rubric"] = "" if self.rubric is None else f"Judge it by this:\n{self.rubric}\n\n"
        if right is None:
            plain["expected"] = ""
        else:
            texts = {**texts, "expected": ("right answer", right)}
        return filled_prompt(self._read()[wording], texts, plain, after={"expected": "\n\n"})

    def _files(self) -> list[Path]:
        """The prompt, and the audit's other wordings: the user's, else the package's of this kind."""
        if self.prompt is not None:
            return [self.prompt, *self.paraphrases]
        kind = f"{self.kind}_why" if self.reasons else self.kind
        return [SHIPPED / f"{kind}.txt", *(self.paraphrases or [SHIPPED / f"{kind}_other.txt"])]

    def _read(self) -> tuple[str, ...]:
        if self._prompts is None:
            optional = ("rubric", "expected", *(("highest",) if self.kind == "grade" else ()))
            self._prompts = read_prompts(self._files(), self.fields, optional)
            for name, given in (("rubric", self.rubric), ("expected", self.reference)):
                if given is not None and not all(f"{{{name}}}" in prompt for prompt in self._prompts):
                    raise ConfigError(
                        f"the prompt has no {{{name}}}, in whose place it would stand", path="prompt"
                    )
        return self._prompts


def written_reason(words: str) -> str:
    """A reply that says more than a verdict; "" of a verdict alone."""
    return words if len(words.split()) > 1 else ""


def no_verdict(why: str, text: str) -> Check:
    """The check of an item on which there was no verdict: what failed is an error, what was said otherwise abstains."""
    verdict: Literal["error", "timeout", "abstain"] = "abstain"
    if why in ("error", "timeout"):
        verdict = "error" if why == "error" else "timeout"
    return Check(verdict, reason=why, feedback=text)


def question_text(task: Task) -> str:
    """A task's `question`, else its `prompt`.

    Raises:
        ConfigError: it has neither as a text.
    """
    for name in ("question", "prompt"):
        if isinstance(text := task.input.get(name), str):
            return text
    fields = ", ".join(map(str, task.input)) or "nothing"
    raise ConfigError(
        f"the input of task {task.id} has no text under `question` or `prompt`; it has {fields}"
    )


def shown_text(fields: Mapping[str, Any], name: str, of: str) -> str:
    """A field as text; what is none as JSON.

    Args:
        fields: a task's.
        name: of the field.
        of: whose it is, for the message.

    Raises:
        ConfigError: it is not there.
    """
    if name not in fields:
        there = ", ".join(map(str, fields)) or "nothing"
        raise ConfigError(f"{of} has no field {name!r}; there is {there}")
    return as_text(fields[name])


def answer_text(item: object) -> str:
    """An item as text: a text, the `text` of a mapping, or steps, a line each.

    Raises:
        ContractError: it is none of these.
    """
    if isinstance(item, Mapping):
        item = item.get("text")
    if isinstance(item, (list, tuple)) and all(isinstance(step, str) for step in item):
        return "\n".join(item)
    if not isinstance(item, str):
        raise ContractError(f"{item!r:.80} is no text, no mapping with a `text`, and no list of steps")
    return item
