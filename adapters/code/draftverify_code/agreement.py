"""Generated tests: every program runs against every test that a model wrote, which is the evidence for CodeT's rule.

The tests are as unsure as the programs, so none of them alone refuses a program: the verifier gives the whole matrix,
for the rule `agreement`, and a score for rules that compare scores. Nothing of a test or a program
is ever executed here: the tests run in a judge's sandboxed process, the programs in theirs; where a test needs more of
a program than values, in one process with it, and the check has the caveat "shared-process".

A test can do to the judge that it runs in what it likes: with its task's evidence, which is a model's word anyway, but
not with anything else, since every pass has a sandbox of its own, and no judge outlives it.
"""

from __future__ import annotations

import ast
import re
import warnings
import zlib
from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np

from draftverify import Check, ConfigError, Context, Cost, Evidence, Proposal, Task, Verification
from draftverify.exchanges import Exchange, noted
from draftverify.traits import VerifierTraits, families
from draftverify_code.generators.recorded import find_task
from draftverify_code.program import program_of
from draftverify_code.sandbox import Sandbox, Suite, SuiteFinding
from draftverify_code.stages.running import capped, integrity_of, numpy_for
from draftverify_code.stages.tests import Tests
from draftverify_llm import (
    RecordedTask,
    Shared,
    TextModel,
    asking,
    exchange_of,
    model_traits,
    read_recording,
    read_rows,
)

STOPS = ("\nclass", "\ndef", "\n#", "\nif", "\nprint", "\n@", "\n```")
"""Where an assertion's text ends at the latest: CodeT's words, a decorator, and the end of a code block."""
LINES, CHARACTERS = 40, 4096  # of one assertion; what is longer is no test but a runaway sample

COMPLETION = "{prompt}    pass\n\n# check the correctness of {entry_point}\nassert "
"""CodeT's template, for models that continue text."""
INSTRUCTION = (
    "{prompt}\n\nDo not write the function. Write at least five tests of `{entry_point}`, each a single line of "
    "the form\n\nassert {entry_point}(...) == ...\n\nin one Python code block, and nothing else."
)
"""For models that answer turns."""


@dataclass(eq=False)
class GeneratedTests(Shared[dict[str, RecordedTask]]):
    """Runs every program of the block against every generated test.

    A task's tests are its input's `tests` (a list of assert statements), or else those of a file or of a model.
    Equal tests are run once and count each: the evidence `cross` [n programs, m tests] has a column for each, True
    or False as 1 or 0, NaN where a test was not run. A program that passes at least one test is passed; one that passes
    none is rejected, unless its check failed or ran out of time before. Where a task has no tests the verifier
    abstains.

    Args:
        path: JSON Lines, one task each: {task_id, tests: [statement, …]}, or {task_id, samples: [text, …]}, texts that
            hold assertions and may go on from the word `assert `, as CodeT's samples do.
        fields: our words (task_id, prompt, samples, text) and their paths in the file, as for `code.recorded`.
        match: how a task finds its line, as for `code.recorded`: by its id, or by the recorded prompt.
        model: a text model that is asked for the tests; in place of a file.
        samples: how many answers to ask the model for.
        limit: how many assertions of each text are taken at most, as in CodeT.
        score: "share" is the share of tests that a program passes; "agreement" is that times the share of the block's
            programs that pass the same tests, as CodeT weighs them. Wrong programs often pass wrong tests, and seldom
            the same ones.
        template: what the model is asked, with `{prompt}` and `{entry_point}` in it; a fitting one when absent.
        chat: whether the model answers turns, or continues text (which it should do from the word `assert `).
        temperature, max_tokens: of the answers.
        timeout: seconds for all tests of one program together.
        memory: MiB of one program.
        sandbox: where they run, in one like it for each pass; the strongest isolation of this machine when absent.

    References:
        Chen et al., CodeT: Code Generation with Generated Tests, 2207.10397.
    """

    path: Path | None = None
    fields: Mapping[str, str] | None = None
    match: Literal["task_id", "prompt"] = "task_id"
    model: TextModel | None = None
    samples: int = 10
    limit: int = 5
    score: Literal["share", "agreement"] = "share"
    template: str | None = None
    chat: bool = True
    temperature: float = 0.8
    max_tokens: int = 300
    timeout: float = 10.0
    memory: int = 1024
    sandbox: Sandbox | None = None

    @cached_property
    def traits(self) -> VerifierTraits:
        """As its model's; recorded tests are the same every time."""
        model = model_traits(self.model)
        return VerifierTraits(
            name="generated_tests",
            provides={"verdicts", "scores", "cross"},
            reads=frozenset(),
            families=families(model.family),
            deterministic=self.model is None or model.deterministic,
            remote=model.remote,
        )

    def open(self) -> None:
        """Check the settings, and read the file.

        Raises:
            ConfigError: a setting is out of its range, or the file is not as it must be.
        """
        if self.samples < 1 or self.limit < 1:
            raise ConfigError(f"samples and limit must be at least 1, not {self.samples} and {self.limit}")
        if self.score not in ("share", "agreement"):
            raise ConfigError(f"score is {self.score!r}; it is 'share' or 'agreement'", path="score")
        if not self.timeout > 0:
            raise ConfigError(f"timeout is {self.timeout}; seconds above 0 are needed", path="timeout")
        if self.path is not None and self.model is not None:
            raise ConfigError("tests come from a file or from a model; give `path` or `model`, not both")
        super().open()

    def _make(self) -> dict[str, RecordedTask]:
        return {} if self.path is None else read_tests(self.path, self.fields or {}, self.match)

    def verify(self, context: Context, proposal: Proposal) -> Verification:
        """One pass of the whole block; `context.enough` is not heeded, since the rule compares all.

        Raises:
            ConfigError: the task has no `entry_point`, or there is no source of tests for it.
            ResourceError: this machine does not allow the isolation asked for.
        """
        programs = [program_of(item, context.task.input) for item in proposal.items]
        tests, exchange = self._tests(context)
        cross = np.full((len(programs), len(tests)), np.nan)
        checks = (Check("abstain", reason="no tests", stage=self.traits.name),) * len(programs)
        notes: dict[str, Any] = {"integrity": "separate-process"}
        if tests and programs:
            entry_point, setup = _entry_point(context.task), str(context.task.input.get("setup") or "")
            distinct = {test: place for place, test in enumerate(dict.fromkeys(tests))}
            suite = Suite("asserts", (entry_point,), asserts=tuple(distinct), setup=setup)
            # A copy of a sandbox is one with the same settings and no processes yet.
            own = Sandbox(packages=tuple(numpy_for(programs))) if self.sandbox is None else copy(self.sandbox)
            with own as box:
                stage = Tests(box, self.timeout, self.memory)
                findings = stage.findings(box, suite, programs, per_test=self.timeout / 4)
                notes = {
                    "isolation": box.tier,
                    "integrity": integrity_of(finding.check for finding in findings),
                }
            places = [distinct[test] for test in tests]
            for row, finding in zip(cross, findings, strict=True):
                row[:] = _row(finding, len(distinct))[places]
            shares = (cross == 1.0).mean(axis=1)
            scores = shares * agreeing(cross) if self.score == "agreement" else shares
            checks = tuple(map(self._check, findings, shares.tolist(), scores.tolist()))
        if exchange is not None:
            notes.update(noted([exchange]))
        cost = Cost(amount=exchange.cost) if exchange is not None and exchange.cost else None
        return Verification(checks=checks, evidence=Evidence(cross=cross), cost=cost, notes=notes)

    def _check(self, finding: SuiteFinding, share: float, score: float) -> Check:
        check = finding.check
        feedback = capped(check.feedback)
        if share > 0.0:
            feedback = feedback if share < 1.0 else ""
            return Check("pass", score, feedback=feedback, stage=self.traits.name, caveat=check.caveat)
        none = 0.0 if check.verdict == "reject" else None
        return Check(check.verdict, none, check.reason, feedback, self.traits.name, caveat=check.caveat)

    def _tests(self, context: Context) -> tuple[tuple[str, ...], Exchange | None]:
        """The task's tests, repeated ones as often as they were written, and what a model was asked for them now."""
        task = context.task
        if "tests" in task.input:
            written = task.input["tests"]
            if not isinstance(written, (list, tuple)) or not all(isinstance(test, str) for test in written):
                raise ConfigError(
                    f"the `tests` of task {task.id!r} should be a list of texts, not {written!r:.80}"
                )
            return tuple(written), None
        if self.path is None and self.model is None:
            raise ConfigError(
                f"task {task.id!r} has no `tests`; give it some, or give the verifier a `path` or a `model`"
            )
        key = (GeneratedTests, "tests")
        exchange = None
        if key not in context.scratch:
            if self.path is not None:
                recorded = find_task(self._get(), task, self.match, self.path)
                texts = [sample.text for sample in recorded.samples]
            else:
                texts, exchange = self._written(task)
            # A file's texts may go on from the word, or have it: what does not compile is left out.
            continued = self.path is not None or not self.chat
            entry_point = _entry_point(task)
            lists = [
                extract_asserts(text, entry_point, limit=self.limit, continued=continued) for text in texts
            ]
            context.scratch[key] = tuple(test for tests in lists for test in tests)
        return context.scratch[key], exchange

    def _written(self, task: Task) -> tuple[list[str], Exchange]:
        """What the model writes, and what it was asked; the same in every round, also where the scratch is gone."""
        assert self.model is not None
        template = self.template or (INSTRUCTION if self.chat else COMPLETION)
        request = template.replace("{entry_point}", _entry_point(task))
        prompt = request.replace("{prompt}", str(task.input.get("prompt", "")))
        with asking(prompt, chat=self.chat):
            completions = self.model.complete(
                prompt,
                n=self.samples,
                max_tokens=self.max_tokens,
                temperature=self.temperature,
                top_p=0.95,
                seed=zlib.crc32(task.id.encode()),
                chat=self.chat,
            )
        exchange = exchange_of(prompt, completions, cost=self.model.price(completions), chat=self.chat)
        return [completion.text for completion in completions], exchange.about(None)


def extract_asserts(text: str, entry_point: str, *, limit: int = 5, continued: bool = True) -> list[str]:
    """The first assertions of a sampled text that name the entry point and compile.

    As CodeT does it, but for two things: an assertion ends where its statement does, whatever follows, and the entry
    point must be a name in it, where CodeT also takes a message or a comment that mentions it.

    Args:
        text: what the model wrote.
        entry_point: the function that is tested.
        limit: how many at most.
        continued: whether the text goes on from the word `assert `.

    Returns:
        Assert statements, in order, equal ones as often as they stand there.
    """
    asserts: list[str] = []
    for piece in re.split(r"assert(?=[ \t([{])", f"assert {text}" if continued else text)[1:]:
        if len(asserts) == limit:
            break
        if entry_point in piece and (statement := _statement(piece)) is not None:
            tree = ast.parse(statement)
            if any(isinstance(node, ast.Name) and node.id == entry_point for node in ast.walk(tree)):
                asserts.append(statement)
    return asserts


def _statement(piece: str) -> str | None:
    """The assert statement that a piece of text begins with, the word itself cut off; None when there is none."""
    piece = piece[:CHARACTERS]
    for stop in STOPS:
        piece = piece.split(stop, 1)[0]
    lines = piece.strip().split("\n")[:LINES]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for end in range(1, len(lines) + 1):
            statement = "assert " + "\n".join(lines[:end]).rstrip()
            try:
                tree = ast.parse(statement)
                compile(tree, "<generated test>", "exec", dont_inherit=True)
            except (SyntaxError, ValueError, RecursionError, MemoryError):
                continue  # it may go on in the next line
            return statement if len(tree.body) == 1 else None
    return None


def read_tests(
    path: Path, fields: Mapping[str, str] = {}, match: Literal["task_id", "prompt"] = "task_id"
) -> dict[str, RecordedTask]:
    """Read recorded tests; see `GeneratedTests` for the layouts.

    Raises:
        ConfigError: with the line, when the file or a line is not as it must be.
    """
    if "samples" not in fields:
        _, row = next(read_rows(path), ("", {}))
        if "tests" in row and "samples" not in row:
            fields = {**fields, "samples": "tests"}
    return read_recording(path, fields, match)


def agreeing(cross: Any) -> Any:
    """[n]: of each program the share of the n that pass the same tests, itself among them, by [n, m] evidence."""
    _, which, counts = np.unique(cross == 1.0, axis=0, return_inverse=True, return_counts=True)
    return counts[which.reshape(-1)] / len(cross)


def _entry_point(task: Task) -> str:
    name = task.input.get("entry_point")
    if not isinstance(name, str) or not name.isidentifier():
        raise ConfigError(
            f"task {task.id!r} needs `entry_point`, the name of the function that the tests call"
        )
    return name


def _row(finding: SuiteFinding, m: int) -> Any:
    """What one program did on m different tests; it fails those that it did not get to by its own fault."""
    row = np.full(m, 0.0 if finding.check.verdict == "reject" else np.nan)
    for place, passed in enumerate(finding.passed[:m]):
        if passed is not None:
            row[place] = float(passed is True)
    return row
