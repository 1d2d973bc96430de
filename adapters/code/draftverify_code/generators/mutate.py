"""Program repair with no language model: blocks of mutants of a failing program, the likeliest fixes first."""

from __future__ import annotations

import hashlib
import heapq
import math
from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import combinations, zip_longest
from statistics import median_low
from typing import ClassVar

from draftverify import UNCHECKED, Check, ConfigError, Context, ContractError, Proposal, Task
from draftverify_code.generators.edits import Edit, Source, applied, fingerprint
from draftverify_code.generators.localise import NOWHERE, Suspicion, from_command, from_suite
from draftverify_code.generators.mutations import PRIORS, mutations
from draftverify_code.program import program_of
from draftverify_code.sandbox import Sandbox
from draftverify_code.stages.tests import Tests

__all__ = ["Mutate"]

FLOOR = 0.02  # of the suspicion: lines that no failing test ran come last, and come
GAIN = (
    2.0  # what an edit of a mutant that passes nearly all tests counts, beside the same edit of the program
)
FURTHER = 8  # how many mutants that passed more tests are mutated further; each costs a run of its tests
LARGEST = 200_000  # characters of a program
LIKELIEST = max(PRIORS.values())  # no mutant of a program has a larger weight
_KEY = "code.mutate"


class Mutate:
    """Proposes mutants of `task.input["program"]`, or of the file `target` of its `files`.

    A mutant is the program with one edit. They come in the order of the edit's prior weight (`PRIORS`) times the
    suspicion of its lines (`localise`): lines that failing tests run and passing tests do not. The best few of the
    mutants that passed more tests than the program are mutated too, their edits weighted by the share of the failing
    tests that they mended. When these are all proposed, pairs of the program's edits follow, those first whose edits
    alone broke the least. No two items have the same syntax tree, and none has the program's. Of a program that does
    not parse there are none.

    The order depends on the program, its tests and `context.rounds` alone.

    Args:
        tests: the stage that runs the tests, for the lines that they run; without it all lines are equally suspect.
        sandbox: where a task's own `command` is run to the same end; without it all lines are equally suspect.
        pairs: how many pairs of edits are proposed at most.

    Source: the order is spectrum-based fault localisation's, the climb GenProg's (Le Goues and others, 2012).
    """

    reads: frozenset[str] = frozenset()
    shape: ClassVar[str] = "alternatives"

    def __init__(self, tests: Tests | None = None, sandbox: Sandbox | None = None, pairs: int = 1000) -> None:
        if pairs < 0:
            raise ConfigError(f"pairs is {pairs}; 0 or more is needed", path="pairs")
        self.tests = tests
        self.sandbox = sandbox
        self.pairs = pairs

    def propose(self, context: Context, n: int) -> Proposal:
        """The next mutants; `exhausted` when there is none.

        Raises:
            ConfigError: the task has no program to mend.
        """
        program = _program(context.task)
        if n < 1 or context.task.input.get("language", "python") != "python":
            return Proposal.alternatives((), exhausted=n > 0)
        known: _Known = context.scratch.setdefault(_KEY, _Known())
        items: list[str] = []
        seen = {known.fingerprint(text) for text in (program, *(text for text, _ in _judged(context)))}
        for item in self._order(context, program, known):
            key = known.fingerprint(item)
            if key is not None and key not in seen:
                seen.add(key)
                items.append(item)
                if len(items) == n:
                    break
        return Proposal.alternatives(tuple(items), exhausted=not items)

    def open(self) -> None:
        """Open the stage and the sandbox that were given."""
        for part in (self.tests, self.sandbox):
            if part is not None:
                part.open()

    def close(self) -> None:
        """Close them."""
        for part in (self.tests, self.sandbox):
            if part is not None:
                part.close()

    def _order(self, context: Context, program: str, known: _Known) -> Iterator[str]:
        """All mutants, in order, those that were proposed before among them."""
        task = context.task

        def ranked(text: str) -> _Ranked:
            found = known.ranked.get(text)
            if found is None:
                found = known.ranked[text] = _Ranked(text, self._suspicion(task, text))
            return found

        def climbed(text: str, gain: float) -> Iterator[tuple[float, str | None]]:
            yield gain * LIKELIEST, None  # none of its mutants comes before, so it is not ranked until here
            yield from ranked(text).mutants(gain)

        own = ranked(program)
        further = _further(context, own.suspicion.score)
        # As better ones are found, those that are no longer mutated are let go.
        known.ranked = {
            text: known.ranked[text] for text in (program, *dict(further)) if text in known.ranked
        }
        streams: list[Iterator[tuple[float, str | None]]] = [own.mutants(1.0)]
        streams += [climbed(text, gain) for text, gain in further]
        for _, mutant in heapq.merge(*streams, key=lambda pair: -pair[0]):
            if mutant is not None:
                yield mutant
        scores: dict[bytes, float] = {}
        for text, score in _scored(context).items():
            if (key := known.fingerprint(text)) is not None:
                scores.setdefault(key, score)
        yield from own.pairs(self.pairs, scores, known)

    def _suspicion(self, task: Task, program: str) -> Suspicion:
        if fingerprint(program) is None:
            return NOWHERE
        if "command" in task.input:
            return from_command(self.sandbox, task, program) if self.sandbox is not None else NOWHERE
        return from_suite(self.tests, task, program) if self.tests is not None else NOWHERE


def _program(task: Task) -> str:
    given = task.input
    try:
        program = str(given["program"] if "program" in given else given["files"][given["target"]])
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


class _Known:
    """What is worth remembering of a task; all of it can be found out again."""

    def __init__(self) -> None:
        self.ranked: dict[str, _Ranked] = {}
        self._fingerprints: dict[bytes, bytes | None] = {}

    def fingerprint(self, text: str) -> bytes | None:
        """The text's, worked out once."""
        name = hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=16).digest()
        if name not in self._fingerprints:
            self._fingerprints[name] = fingerprint(text)
        return self._fingerprints[name]


class _Ranked:
    """A program's edits in the order in which they are tried.

    Args:
        program: its text.
        suspicion: of its lines.
    """

    def __init__(self, program: str, suspicion: Suspicion) -> None:
        self.program = program
        self.suspicion = suspicion
        self.edits: list[Edit] = []
        with suppress(SyntaxError):
            self.edits = mutations(Source(program))
        self.edits.sort(key=lambda edit: -self._weight(edit))

    def _weight(self, edit: Edit) -> float:
        return edit.weight * max(self.suspicion.of(edit.first, edit.last), FLOOR)

    def mutants(self, gain: float) -> Iterator[tuple[float, str]]:
        """The program with one edit each, and how promising each is: the edit's weight times `gain`."""
        for edit in self.edits:
            yield gain * self._weight(edit), applied(self.program, edit)

    def pairs(self, most: int, scores: Mapping[bytes, float], known: _Known) -> Iterator[str]:
        """The program with two edits each, of those that do most for their weight.

        Args:
            most: how many.
            scores: the shares of tests that mutants passed, by fingerprint.
            known: the fingerprints.
        """
        weighed: list[tuple[float, int]] = []
        for place, edit in enumerate(self.edits):
            key = known.fingerprint(applied(self.program, edit))
            if key is not None:
                weighed.append((self._weight(edit) * (FLOOR + scores.get(key, 0.0)), place))
        weighed.sort(key=lambda pair: (-pair[0], pair[1]))
        # More than enough, since some of the pairs overlap.
        weighed = weighed[: 2 * math.isqrt(most) + 2]
        couples = sorted(
            combinations(weighed, 2),
            key=lambda couple: (-couple[0][0] * couple[1][0], couple[0][1], couple[1][1]),
        )
        done = 0
        for (_, one), (_, other) in couples:
            first, second = sorted(
                (self.edits[one], self.edits[other]), key=lambda edit: (edit.start, edit.end)
            )
            if first.end <= second.start and first.start < second.start:
                if done == most:
                    return
                done += 1
                yield applied(self.program, first, second)


def _judged(context: Context) -> Iterator[tuple[str, Check]]:
    """The programs proposed so far, and what was said of each."""
    for round in context.rounds:
        for item, check in zip_longest(round.items, round.checks[: len(round.items)], fillvalue=UNCHECKED):
            with suppress(ContractError):  # another generator's, and no program
                yield program_of(item), check


def _scored(context: Context) -> dict[str, float]:
    """The refused programs that have a score, and the score."""
    return {
        text: check.score
        for text, check in _judged(context)
        if check.verdict == "reject" and check.score is not None and not math.isnan(check.score)
    }


def _further(context: Context, base: float | None) -> list[tuple[str, float]]:
    """Of the refused programs that passed more tests than the first one those whose edits count most, and how much.

    Args:
        context: of the call; its rounds say how many tests the items passed.
        base: the share of tests that the first one passes; None when that is not known.
    """
    scored = _scored(context)
    if not scored:
        return []
    if base is None:
        base = median_low(scored.values())  # what most edits lead to
    equals: dict[float, int] = {}
    better: list[tuple[str, float]] = []
    for text, score in scored.items():
        if base < score < 1:
            place = equals[score] = equals.get(score, -1) + 1
            # One of many that pass as much is likelier to pass it for no reason.
            better.append((text, GAIN * (score - base) / (1 - base) / (1 + place)))
    return heapq.nlargest(FURTHER, better, key=lambda pair: pair[1])
