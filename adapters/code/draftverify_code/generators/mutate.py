"""Program repair with no language model: blocks of mutants of a failing program, the likeliest fixes first."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import suppress
from heapq import nlargest
from itertools import zip_longest
from statistics import median_low

from draftverify import UNCHECKED, Check, ConfigError, Context, ContractError, Proposal, Task
from draftverify.traits import GeneratorTraits
from draftverify_code.generators.edits import ProgramSource, fingerprint
from draftverify_code.generators.mutations import mutations
from draftverify_code.program import in_python, program_of

FURTHER = 8  # how many mutants that passed more tests are mutated further
LARGEST = 200_000  # characters of a program
_KEY = "code.mutate"


class Mutate:
    """Proposes mutants of `task.input["program"]`, or of the file `target` of its `files`.

    A mutant is the program with one edit. They come in the order of the edit's prior weight (`PRIORS`). When they are
    all proposed, the best few of those that passed more tests than most are mutated too. No two items have the same
    syntax tree, and none has the program's. Of a program that does not parse there are none.

    The order depends on the program and `context.rounds` alone.

    Source: the climb is GenProg's (Le Goues and others, 2012).
    """

    traits = GeneratorTraits(shape="alternatives", reads=frozenset())

    def propose(self, context: Context, n: int) -> Proposal:
        """The next mutants; `exhausted` when there is none.

        Raises:
            ConfigError: the task has no program to mend.
        """
        program = _program(context.task)
        if n < 1 or not in_python(context.task.input):
            return Proposal.alternatives((), exhausted=n > 0)
        fingerprints: dict[str, bytes | None] = context.scratch.setdefault(_KEY, {})

        def identify(text: str) -> bytes | None:
            if text not in fingerprints:
                fingerprints[text] = fingerprint(text)
            return fingerprints[text]

        items: list[str] = []
        tried = {identify(text) for text in (program, *(text for text, _ in _judged(context)))}
        for mutant in _mutants(context, program):
            key = identify(mutant)
            if key is not None and key not in tried:
                tried.add(key)
                items.append(mutant)
                if len(items) == n:
                    break
        return Proposal.alternatives(tuple(items), exhausted=not items)


def _program(task: Task) -> str:
    fields = task.input
    try:
        program = str(fields["program"] if "program" in fields else fields["files"][fields["target"]])
    except KeyError as error:
        raise ConfigError(
            f"task {task.id} has no {error.args[0]!r}; the program to be mended is its input's `program`, or the file "
            "`target` of its `files`"
        ) from error
    if len(program) > LARGEST:
        raise ConfigError(
            f"the program of task {task.id} has {len(program):,} bytes; at most {LARGEST:,} are mutated"
        )
    return program


def _mutants(context: Context, program: str) -> Iterator[str]:
    """All mutants, in order, those that were proposed before among them."""
    yield from _edited(program)
    for better in _better(context):
        yield from _edited(better)


def _edited(program: str) -> Iterator[str]:
    """The program with one edit each; none of one that does not parse."""
    with suppress(SyntaxError):
        source = ProgramSource(program)
        for edit in mutations(source):
            yield source.replaced(edit.start, edit.end, edit.text)


def _judged(context: Context) -> Iterator[tuple[str, Check]]:
    """The programs proposed so far, and the check of each."""
    for round in context.rounds:
        for item, check in zip_longest(round.items, round.checks[: len(round.items)], fillvalue=UNCHECKED):
            with suppress(ContractError):  # another generator's, and no program
                yield program_of(item), check


def _better(context: Context) -> list[str]:
    """The best few of the refused programs that passed more tests than most did."""
    scores = {
        text: check.score
        for text, check in _judged(context)
        if check.verdict == "reject" and check.score is not None and not math.isnan(check.score)
    }
    base = median_low(scores.values()) if scores else 1.0
    return nlargest(
        FURTHER, (text for text, score in scores.items() if base < score < 1), key=scores.__getitem__
    )
