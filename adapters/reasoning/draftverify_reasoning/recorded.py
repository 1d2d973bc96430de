"""Solutions that models gave earlier, drawn again in their order, and the scores that were recorded with them."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from draftverify import Check, ConfigError, Context, ContractError, Proposal, Verification
from draftverify.traits import VerifierTraits
from draftverify_llm import (
    RecordedSample,
    RecordedSamples,
    RecordedTask,
    find_recording,
    samples_drawn,
)
from draftverify_reasoning.answers import Form
from draftverify_reasoning.checking import check_solutions
from draftverify_reasoning.solutions import SolutionMaker, answer_of


class RecordedSolutions(RecordedSamples):
    """Proposes recorded solutions as alternatives, each once, in the file's order; exhausted with the last.

    The file is JSON Lines (gzipped or not), or an array. A line is one task with a list of samples, which are texts or
    objects, or one sample, and lines with the same task stand together:

        {"task_id": "t1", "samples": [{"text": "16 - 3 = 13. A: 13", "answer": "13", "correct": true, "score": 0.5}]}
        {"task_id": "t1", "samples": ["16 - 3 = 13. A: 13"]}
        {"task_id": "t1", "text": "16 - 3 = 13. A: 13"}

    Other names are mapped by `fields`: our word, and the path of it in the file, with dots into objects and numbers
    into lists; a `*` stands for the sample's number, where samples are kept in parallel lists:
    `{text: "code.*", score: "rewards.*.0"}`. An empty path says that the file has no such thing. A line that cannot be
    read, a score that is no finite number among them, refuses the whole file, with its place.

    An item is {"text", "answer"} and what was recorded of "correct", "score" and "system". Its answer is the recorded
    one, or extracted from the text where the file has none. A pool smaller than the rounds ask for is exhausted, no
    error.

    Args:
        path: the file.
        fields: our words (task_id, prompt, samples, text, answer, correct, score, system) and their paths; each is
            its own path when absent.
        match: how a task finds its samples: by its id, or by its `question`, else `prompt`, up to white space.
        form: how the answer is found in a text without a recorded one, as of `extract`.
        system: of the samples, those of this system alone, or of several, system by system; all when absent.
    """

    def __init__(
        self,
        path: Path,
        fields: Mapping[str, str] = {},
        match: Literal["task_id", "prompt"] = "task_id",
        form: Form = "auto",
        system: str | Sequence[str] | None = None,
    ) -> None:
        super().__init__(path, fields, match)
        self.form = form
        self.system = system

    def propose(self, context: Context, n: int) -> Proposal:
        """The next `n` solutions of the task.

        Raises:
            ConfigError: the file has no samples of the task, or cannot be read.
        """
        solutions = context.scratch.get(self)
        if solutions is None:
            recording = find_recording(self._get(), context.task, self.match, self.path)
            solutions = context.scratch[self] = [
                self._solution(sample) for sample in self._wanted(recording.samples)
            ]
        start = samples_drawn(solutions, context)
        return Proposal.alternatives(
            tuple(solutions[start : start + n]), exhausted=start + n >= len(solutions)
        )

    @cached_property
    def _maker(self) -> SolutionMaker:
        return SolutionMaker(self.form)

    def _wanted(self, samples: Sequence[RecordedSample]) -> Sequence[RecordedSample]:
        if self.system is None:
            return samples
        return [sample for system in self._systems() for sample in samples if sample.system == system]

    def _systems(self) -> Sequence[str]:
        return [self.system] if isinstance(self.system, str) else list(self.system or ())

    def _check(self, tasks: Mapping[str, RecordedTask]) -> None:
        systems = sorted({sample.system or "" for task in tasks.values() for sample in task.samples})
        for system in self._systems():
            if system not in systems:
                near = difflib.get_close_matches(system, systems, n=1)
                hint = f"did you mean {near[0]!r}?" if near else "is its path among the `fields`?"
                raise ConfigError(f"no sample is of the system {system!r}; {hint}", where=str(self.path))

    def _solution(self, sample: RecordedSample) -> dict[str, Any]:
        beside = {name: getattr(sample, name) for name in ("correct", "score", "system")}
        known = {name: value for name, value in beside.items() if value is not None}
        if sample.answer is None:
            return self._maker.solution(sample.text, **known)
        return {"text": sample.text, "answer": answer_of({"answer": sample.answer}), **known}


class RecordedScore:
    """Passes every solution with the score that was recorded with it; one without a score is an error.

    It stands for the reward model that gave the scores, so that its runs replay without it: a rule decides what score
    is enough.
    """

    traits = VerifierTraits(provides={"verdicts", "scores"}, reads=frozenset())

    def verify(self, context: Context, proposal: Proposal) -> Verification:
        """One check per solution."""
        return check_solutions(proposal, _recorded)


def _recorded(item: Any) -> Check:
    score = item.get("score") if isinstance(item, Mapping) else None
    if isinstance(score, bool) or not isinstance(score, (int, float)) or score != score:
        raise ContractError(f"no score was recorded with {item!r:.80}")
    return Check("pass", float(score))
