"""What the judges of this room share: how they read a task and an item, and what becomes of a missing verdict."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence, Set
from pathlib import Path
from typing import Any, Literal

from draftverify import Check, ContractError, Task
from draftverify.protocols import Closes, Opens
from draftverify.traits import EvidenceKind, VerifierTraits, offers
from draftverify_llm.first_token import word_tokens
from draftverify_llm.identity import model_identity
from draftverify_llm.local import LocalModel
from draftverify_llm.prompts import SHIPPED
from draftverify_llm.text import TextModel, as_text, model_traits

__all__ = [
    "ModelJudge",
    "answer_text",
    "identity_of_judge",
    "no_verdict",
    "open_model",
    "question_text",
    "shown_text",
]


class ModelJudge:
    """What the judges that ask a text model have in common; a subclass has the constructor."""

    model: TextModel
    prompt: Path | None
    paraphrases: Sequence[Path]

    def _traits(self, provides: Set[EvidenceKind], thresholds: Set[str] = frozenset()) -> VerifierTraits:
        """A judge's traits, by its model's; a model's word is no outside check, also where its family is unknown."""
        model = model_traits(self.model)
        return VerifierTraits(
            provides=provides,
            thresholds=thresholds,
            reads=frozenset(),
            families={model.family or "unknown"},
            concurrent=model.concurrent,
            deterministic=model.deterministic,
            remote=model.remote,
            free=model.cached,
        )

    def close(self) -> None:
        """Close the model."""
        if offers(self.model, Closes):
            self.model.close()

    def _prompt_files(self, kind: str) -> list[Path]:
        """The prompt, and the audit's other wordings: the user's, else the package's of this kind."""
        if self.prompt is not None:
            return [self.prompt, *self.paraphrases]
        return [SHIPPED / f"{kind}.txt", *(self.paraphrases or [SHIPPED / f"{kind}_other.txt"])]


def identity_of_judge(model: TextModel, *settings: Any) -> str:
    """A hash of a judge's model and of what else its words depend on.

    Raises:
        ResourceError: the weights cannot be had.
    """
    description = json.dumps([model_identity(model), *settings], sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(description.encode()).hexdigest()[:32]


def open_model(model: TextModel, verdicts: Sequence[str]) -> None:
    """Load a judge's model, and refuse one whose tokenizer cannot tell the verdicts apart.

    Raises:
        ConfigError, ResourceError: as said.
    """
    if offers(model, Opens):
        model.open()
    if isinstance(model, LocalModel):
        word_tokens(model, verdicts)


def no_verdict(why: str, text: str) -> Check:
    """The check of an item on which there was no verdict: what failed is an error, what was said otherwise abstains."""
    verdict: Literal["error", "timeout", "abstain"] = "abstain"
    if why in ("error", "timeout"):
        verdict = "error" if why == "error" else "timeout"
    return Check(verdict, reason=why, feedback=text)


def question_text(task: Task) -> str:
    """A task's `question`, else its `prompt`.

    Raises:
        ContractError: it has neither as a text.
    """
    for name in ("question", "prompt"):
        if isinstance(text := task.input.get(name), str):
            return text
    fields = ", ".join(map(str, task.input)) or "nothing"
    raise ContractError(
        f"the input of task {task.id} has no text under `question` or `prompt`; it has {fields}"
    )


def shown_text(fields: Mapping[str, Any], name: str, of: str) -> str:
    """A field as text; what is none as JSON.

    Args:
        fields: a task's.
        name: of the field.
        of: whose it is, for the message.

    Raises:
        ContractError: it is not there.
    """
    if name not in fields:
        there = ", ".join(map(str, fields)) or "nothing"
        raise ContractError(f"{of} has no field {name!r}; there is {there}")
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
