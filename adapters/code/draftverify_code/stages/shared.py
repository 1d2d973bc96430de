"""Tests in the program's own process: the command that runs them, and what its report says.

`runner.py` is what runs inside; here is decided what it means. The report counts only where every line stands behind
a nonce that the program never saw, where each expected test is in it, and where the run came to its end.
"""

from __future__ import annotations

import json
import secrets
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from doctest import SKIP, DocTestParser
from functools import cached_property
from signal import SIGKILL, SIGUSR1
from typing import Any

import msgspec
from msgspec.structs import replace

from draftverify import Check
from draftverify_code.program import REASONS
from draftverify_code.sandbox import Sandbox
from draftverify_code.sandbox.jobs import MIB, CommandExit, Limits, SandboxCommand, Suite, SuiteFinding
from draftverify_code.stages.running import abnormal, capped, denied, is_refusal, lacking, script, weakened

OUTPUT = 24 * MIB
"""Bytes of report that a run may write."""


class Event(msgspec.Struct, frozen=True):
    """One line of a report.

    Args:
        id: the test of which this is the result.
        outcome: "passed", "failed" or "skipped".
        reason, text: why it failed, or why the run stopped.
        start: the test that begins.
        tests: those that were collected, each with whether it may be skipped.
        stop: the run could not go on, for this reason.
        tampered: the program reached for the tests; how.
        broken: the tests cannot be run at all.
        refused: what the sandbox refused.
        internal: the test framework itself failed.
        end: the runner came to its end.
        ended: how its process ended.
        cpu: seconds of processor time that this took.
    """

    id: str = ""
    outcome: str = ""
    reason: str = ""
    text: str = ""
    start: str = ""
    tests: list[tuple[str, bool]] | None = None
    stop: str = ""
    tampered: str = ""
    broken: str = ""
    refused: list[str] = []
    internal: str = ""
    end: bool = False
    ended: int | None = None
    cpu: float = 0.0


class ExpectedTests(msgspec.Struct, frozen=True):
    """What a report must show for a pass.

    Args:
        tests: id → whether it may be skipped.
        wrong: tests that must fail: a framework in which they pass was tampered with.
    """

    tests: Mapping[str, bool]
    wrong: frozenset[str] = frozenset()


class Run(msgspec.Struct, frozen=True):
    """A command and the nonce that its report stands behind."""

    command: SandboxCommand
    nonce: str

    @staticmethod
    def of(job: Mapping[str, Any], files: Mapping[str, bytes], limits: Limits) -> Run:
        """A run of `runner.py`."""
        nonce = secrets.token_hex(16)
        stdin = nonce.encode() + b"\n" + json.dumps(job).encode()
        argv = (sys.executable, "-s", "-c", script("stages/runner.py"))
        return Run(SandboxCommand(argv, files, stdin, limits=limits), nonce)


UNASKED = """\
import os
import signal

_process = os.getpid()


def _asked(*args, **kwargs):
    os.kill(_process, signal.SIGUSR1)


"""
"""The beginning of a program that ends as soon as it is asked for something."""


_NOTHING = "the tests ask nothing of a program: they end without a call of it"
_ASKS_NOTHING = SuiteFinding(Check("error", reason="tests", feedback=_NOTHING))


@dataclass(eq=False)
class Beside:
    """A suite that runs on programs, each in one process with its tests.

    Args:
        box: where.
        suite: the tests; they need not name what they take from the program.
        limits: of one program, and all its tests together.
    """

    box: Sandbox
    suite: Suite
    limits: Limits

    def findings(self, programs: Sequence[str]) -> list[SuiteFinding]:
        """A SuiteFinding per Python source, its check with the caveat.

        Tests that end with a program as they end with one that they ask for nothing are an error, and no word on it.
        """
        findings = _findings(self.box, self.suite, programs, self.limits)
        return [_ASKS_NOTHING if self._is_unasked(finding.check) else finding for finding in findings]

    def _is_unasked(self, check: Check) -> bool:
        if check.verdict not in ("pass", "reject") or check.reason == "missing":
            return False
        unasked = self._unasked
        timed = check.reason in ("wall", "cpu")  # and the feedback says how long it took
        return check == unasked or (
            timed and (check.verdict, check.reason) == (unasked.verdict, unasked.reason)
        )

    @cached_property
    def _unasked(self) -> Check:
        """How the tests end with a program that is ended as soon as they ask it."""
        program = UNASKED + "".join(f"{name} = _asked\n" for name in self.suite.entry_points)
        [finding] = _findings(self.box, self.suite, [program], self.limits)
        asked = f"by signal {SIGUSR1:d} " in finding.check.feedback
        return Check("abstain") if asked else finding.check


def _findings(box: Sandbox, suite: Suite, programs: Sequence[str], limits: Limits) -> list[SuiteFinding]:
    job = {
        "mode": "suite",
        "target": "program.py",
        "suite": msgspec.to_builtins(suite),
        "places": box.places,
        "surroundings": script("sandbox/surroundings.py"),
    }
    limits = replace(limits, output=OUTPUT)
    runs = [
        Run.of(job, {"program.py": program.encode(errors="surrogatepass")}, limits) for program in programs
    ]
    count = 1
    if suite.kind == "asserts":
        count = len(suite.asserts)
    elif suite.kind == "doctest":
        count = sum(SKIP not in example.options for example in DocTestParser().get_examples(suite.source))
    names = [str(number) for number in range(count)]
    expected = ExpectedTests(dict.fromkeys(names, False))
    findings = []
    for run, ended in zip(runs, box.run([run.command for run in runs]), strict=True):
        events = report(run, ended)
        outcome = {event.id: event.outcome == "passed" for event in events if event.id}
        passed = tuple(map(outcome.get, names)) if suite.kind in ("asserts", "doctest") else ()
        findings.append(
            SuiteFinding(weakened(judged(events, run, ended, expected)), passed, seconds=ended.seconds)
        )
    return findings


def report(run: Run, ended: CommandExit) -> list[Event]:
    """The lines that stand behind the nonce; the rest was not written by the supervisor."""
    nonce = run.nonce.encode() + b" "
    lines = [line.removeprefix(nonce) for line in ended.stdout.splitlines() if line.startswith(nonce)]
    try:
        return [msgspec.json.decode(line, type=Event) for line in lines]
    except (msgspec.DecodeError, UnicodeDecodeError):
        # The supervisor passes on only what carries the token, and the runner writes no such line.
        return [Event(tampered="it wrote where only the tests' results are written")]


def judged(events: Sequence[Event], run: Run, ended: CommandExit, expected: ExpectedTests) -> Check:
    """What a program's run shows.

    A test that failed is a rejection, whatever came after it, unless the sandbox refused something. A score is the
    share of the expected tests that passed.

    Args:
        events: those of its report that count.
        run, ended: the run, and how it ended.
        expected: what the report must show.
    """
    check = _judged(events, run, ended, expected)
    calls = ", ".join(dict.fromkeys(call for event in events for call in event.refused))
    if not calls or check.reason in ("sandbox", "tests", "tool"):
        return check
    message = f"the sandbox refused the program {calls:.300}\n{check.feedback}".strip()
    return Check("error", check.score, "refused", message + lacking(message))


def _judged(events: Sequence[Event], run: Run, ended: CommandExit, expected: ExpectedTests) -> Check:
    for event in events:
        if event.broken:
            reason = "refused" if "[Errno" in event.broken and is_refusal(event.broken) else "tests"
            return Check("error", reason=reason, feedback=capped(event.broken) + lacking(event.broken))
    results: dict[str, Event] = {}
    for event in events:
        if event.id and (event.id not in results or results[event.id].outcome != "failed"):
            results[event.id] = event
    passed = sum(test in results and results[test].outcome == "passed" for test in expected.tests)
    score = passed / len(expected.tests) if expected.tests else None

    def reject(reason: str, feedback: str) -> Check:
        if reason in ("exception", "missing") and is_refusal(feedback):
            return denied(feedback, score)
        advice = lacking(feedback) if reason == "exception" else ""
        return Check("reject", score, reason, capped(feedback) + advice)

    if ended.failure:
        return Check("error", reason="sandbox", feedback=capped(ended.failure))
    for event in events:
        if event.tampered:
            return reject("no tests", event.tampered)
    failed = [
        event for event in results.values() if event.outcome == "failed" and event.id not in expected.wrong
    ]
    if failed:
        failure = failed[0]
        counted = f"{passed} of {len(expected.tests)} tests passed. " if len(expected.tests) > 1 else ""
        name = f"{failure.id}\n" if failure.id and not failure.id.isdigit() else ""
        return reject(_known(failure.reason), f"{counted}{name}{failure.text}")
    for event in events:
        if event.stop:
            return reject(_known(event.stop), event.text)
        if event.internal:
            return Check("error", reason="tool", feedback=capped(event.internal))
    running = next((event.start for event in reversed(events) if event.start), "")
    during = f", in {running}" if running and not running.isdigit() else ""
    limits = run.command.limits
    ended_by = next((event for event in reversed(events) if event.ended is not None), Event())
    if not any(event.end for event in events) and ended_by.ended == -SIGKILL and not ended.limit:
        # The kernel counts ticks for the limit, and they may run ahead of what usage says.
        ended = replace(ended, limit="cpu" if ended_by.cpu >= limits.cpu / 2 else "")
    strange = abnormal(ended, limits)
    if strange is not None:
        return replace(strange, score=score, feedback=strange.feedback + during)
    if not any(event.end for event in events):
        status = ended_by.ended
        ending = (
            "" if status is None else f" with status {status}" if status >= 0 else f" by signal {-status}"
        )
        return reject("exit", f"its process ended{ending} before the tests did{during}")
    for test, lenient in expected.tests.items():
        if test not in results:
            return reject("no tests", f"{test} was not run")
        if results[test].outcome != "passed" and not lenient:
            return reject("no tests", f"{test} was skipped: {results[test].text}")
    if not passed:
        return reject("no tests", "no test passed")
    if any(test not in results or results[test].outcome != "failed" for test in expected.wrong):
        return reject("no tests", "a test that must fail did not: the test framework was tampered with")
    return Check("pass", score)


def _known(reason: str) -> str:
    return reason if reason in REASONS else "exception"
