"""Where the tests run: in a process of their own, in which no line of any candidate ever runs.

To the tests a candidate's functions are functions that can be called. A call sends its arguments to the candidate's
process and returns, or raises, what comes back, as `child` describes: plain values (see `codec`), which are compared
here. Whatever else the tests do with a function, whatever else would have to cross, and whatever else the program did
to its process that tests in it could see, ends in the error "needs shared-process"; what the sandbox refused the
program in the error "refused". Neither is a verdict. Standard library only; this file is also imported alone, by a
small server process.
"""

from __future__ import annotations

import builtins
import decimal
import importlib
import os
import signal
import socket
import sys
import threading
import time
import warnings
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, NoReturn, Protocol

from draftverify_code.sandbox import codec
from draftverify_code.sandbox.confine import LONGEST
from draftverify_code.sandbox.link import Gone, Late, Link, LinkAnswer, Unreadable, checked
from draftverify_code.sandbox.suite import ALIASES, MODULE, Broken, CompiledSuite, Test
from draftverify_code.sandbox.words import (
    clean,
    cut,
    named_values,
    short,
    text_of,
    used,
    written,
)

GRACE = 0.2  # seconds that a test may have for itself beyond its candidate's time
# Seconds that the tests of a suite may have for themselves, beyond as many as their candidate has.
COMPARING = 1.0
RESTARTS = 2  # of a candidate that was ended in the middle of a suite of many tests
LEAST = 0.01  # seconds that it is worth to wait for
CHAIN = 100  # exceptions that caused each other


class CandidateSource(Protocol):
    """Where candidates come from, one at a time."""

    def start(self, limits: dict[str, Any], /) -> socket.socket:
        """A socket to a new candidate."""

    def measure(self) -> Mapping[str, float]:
        """Seconds that the candidate used of the processor (`cpu`), and was kept from it (`waited`)."""

    def end(self) -> Mapping[str, Any]:
        """End the candidate, and say how it ended: status, signal, limit, seconds."""

    def drop(self) -> None:
        """End it and say nothing, so that nobody waits."""


class SuiteJudge:
    """Runs one suite on one candidate after the other."""

    def __init__(self, candidates: CandidateSource) -> None:
        self._candidates = candidates
        self._suite: CompiledSuite | None = None
        self._broken = "no suite is loaded"

    def load(self, suite: Mapping[str, Any]) -> str:
        """Compile a suite, and try what can be tried without a candidate.

        Args:
            suite: the fields of `jobs.Suite`.

        Returns:
            What is wrong with it; "" when nothing is.
        """
        self._suite, self._broken = None, ""
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                self._suite = CompiledSuite(**suite)
            self._settle()
            if not self._suite.shared:
                self._suite.rehearse()
        except Broken as error:
            self._broken = str(error)
        except Exception as error:
            self._broken = f"the tests cannot be loaded: {type(error).__name__}: {error}"
        self._broken = clean(self._broken)
        return self._broken

    def run(self, program: str, limits: Mapping[str, Any]) -> dict[str, Any]:
        """Run the suite on a program.

        Args:
            program: its text.
            limits: the fields of `jobs.Limits`; `wall` is for what the program does, in all tests together. The tests
                may take as long again for themselves, and `COMPARING`.

        Returns:
            verdict, reason, feedback, score, passed and seconds, as in `jobs.SuiteFinding`.
        """
        began = time.monotonic()
        passed: list[bool | None] = []
        score = 0.0
        if self._broken or self._suite is None:
            outcome = _TestOutcome("error", "tests", self._broken)
        elif shared := self._suite.shared or self._suite.meddles(program):
            outcome = _apart(f"it {shared}")
        else:
            self._settle()
            run = _SuiteRun(self._suite, self._candidates, program, limits)
            # Signals are for the main thread; who asks from another has a limit of its own.
            run.rings = threading.current_thread() is threading.main_thread()
            handler = signal.signal(signal.SIGALRM, run.ring) if run.rings else None
            try:
                outcomes = run.outcomes()
            finally:
                if run.rings:
                    signal.signal(signal.SIGALRM, handler)
                if run.close():
                    self._candidates.drop()
            outcome = _together(outcomes)
            if run.refused and outcome.reason != "tests":
                calls = ", ".join(dict.fromkeys(run.refused))
                message = f"the sandbox refused the program {cut(calls, 200)}"
                outcome = _TestOutcome("error", "refused", f"{message}\n{outcome.feedback}".strip())
            passed = [None if outcome is None else outcome.verdict == "pass" for outcome in outcomes]
            score = passed.count(True) / len(passed)
            if self._suite.kind in ("check", "script"):
                passed = []
        return {
            "verdict": outcome.verdict,
            "reason": outcome.reason,
            "feedback": clean(outcome.feedback),
            "score": score,
            "passed": passed,
            "seconds": time.monotonic() - began,
        }

    def _settle(self) -> None:
        """What tests change of a process without meaning to, as at the start; and the same random numbers each time."""
        sys.modules.pop(MODULE, None)
        decimal.setcontext(decimal.Context())
        for name in ("random", "numpy.random"):
            if name in sys.modules:
                sys.modules[name].seed(0)


class _TestOutcome(NamedTuple):
    verdict: str
    reason: str = ""
    feedback: str = ""


_PASS = _TestOutcome("pass")


def _apart(why: str) -> _TestOutcome:
    """What cannot be judged from another process."""
    return _TestOutcome(
        "error", "needs shared-process", f"{why}; this suite needs `integrity: shared-process`"
    )


def _together(outcomes: Sequence[_TestOutcome | None]) -> _TestOutcome:
    """One word on all tests: one that failed is certain; then what could not be found out; a timeout says least."""
    known_outcomes = [outcome for outcome in outcomes if outcome is not None]
    for verdict in ("reject", "error", "timeout"):
        for outcome in known_outcomes:
            if outcome.verdict == verdict:
                return outcome
    return _PASS


# ---------------------------------------------------------------------------------------------------------------------
# One program
# ---------------------------------------------------------------------------------------------------------------------


class _Stop(BaseException):
    """Leave the test: its outcome is known. Not an Exception, so that tests that catch those do not catch it."""


class _Raised(Exception):
    """An exception of the program's that tests could not tell from its own, because they catch none."""


class function:  # noqa: N801 - as Python calls them, in messages
    """One of the program's: to be called, and nothing else."""

    __slots__ = ("_name", "_run")

    def __init__(self, run: _SuiteRun, name: str) -> None:
        object.__setattr__(self, "_run", run)
        object.__setattr__(self, "_name", name)

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        read = object.__getattribute__
        return read(self, "_run").call(read(self, "_name"), args, kwargs)


def _stop(self: function, *_: Any) -> NoReturn:
    read = object.__getattribute__
    read(self, "_run").apart(f"does more with {read(self, '_name')} than to call it")


for _operation in (
    "getattribute", "setattr", "delattr", "get", "dir", "repr", "str", "format", "eq", "ne", "hash", "reduce_ex",
):  # fmt: skip
    setattr(function, f"__{_operation}__", _stop)


class _ProgramCall(NamedTuple):
    """A request and what came back, to be put into words when a test fails."""

    name: str
    request: bytes
    answer: bytes = b""


class _SuiteRun:
    """One program's way through the suite."""

    def __init__(
        self,
        suite: CompiledSuite,
        candidates: CandidateSource,
        program: str,
        limits: Mapping[str, Any],
    ) -> None:
        self.suite = suite
        self.candidates = candidates
        self.program = program
        self.limits = limits
        self.left_to_it = float(limits["wall"])  # seconds that the program may still take
        self.given = self.left_to_it  # the same when the candidate began, and what it was given since
        self.granted = 0.0  # seconds of these, for those in which the candidate was kept from the processor
        self.is_held_up = False  # whether that was too long to wait for
        self.began = 0.0  # when the candidate did
        self.before = time.monotonic(), self.left_to_it  # when the running test began, and the same then
        self.until = time.monotonic() + 2 * limits["wall"] + COMPARING
        self.test_until = self.until
        self.link: Link | None = None
        self.refused: list[str] = []  # by the sandbox
        self.stop: _TestOutcome | None = None  # the running test's outcome, when that is known before its end
        self.left: Exception | None = None  # why the running test's candidate must be ended
        self.trail: deque[_ProgramCall] = deque(maxlen=3)  # the running test's last calls
        self.calls = 0
        # By the candidate, each with its type; a test may let it through.
        self.raised: list[tuple[BaseException, str]] = []
        self.asking = False
        self.rings = False  # whether the alarm is this run's
        self.restarts = 0
        self.stdout = sys.stdout
        self.place = os.getpid(), threading.get_ident()
        self.names: dict[str, Any] = {}  # what the program defines of what the tests take
        self.scope: dict[str, Any] = {}

    def close(self) -> bool:
        """Let go of everything; says whether there is a candidate to end."""
        running, self.link = self.link is not None, None
        self.raised.clear()  # they hold frames, and the frames hold this
        return running

    def outcomes(self) -> list[_TestOutcome | None]:
        """An outcome per test; None where it was not run."""
        count = len(self.suite.tests)
        failed = self._begin()
        if failed is _PASS:
            failed = self._attempt(self._set_up)
        if failed is not _PASS:
            # A program that does not load passes no test; one that nobody let load might have.
            return [failed] * count if failed.verdict == "reject" else [failed] + [None] * (count - 1)
        outcomes: list[_TestOutcome | None] = [None] * count
        for index, test in enumerate(self.suite.tests):
            if self.left_to_it <= 0 or time.monotonic() >= self.until:
                if _together(outcomes) is _PASS:
                    self.link = None
                    outcomes[index] = self._late(
                        "the time was over before all tests had run", self.candidates.end()
                    )
                break
            if self.link is None:
                if self.restarts == RESTARTS:
                    break
                self.restarts += 1
                failed = self._begin()
                if failed is not _PASS:
                    outcomes[index] = failed
                    break
            seconds = self.limits.get("each")
            self.test_until = min(self.until, time.monotonic() + seconds) if seconds else self.until
            outcomes[index] = outcome = self._attempt(partial(self._test, test))
            self.test_until = self.until
            if outcome.reason == "needs shared-process":
                break  # the next ones may rest on it
        if not self.calls and _together(outcomes).reason in ("", "assertion"):
            message = "the tests never call " + " or ".join(self.suite.entry_points)
            outcomes = [_TestOutcome("error", "tests", message)] * count
        return outcomes

    # --- the candidate

    def _begin(self) -> _TestOutcome:
        """A new candidate, with the program loaded."""
        # The clock is kept here. The keeper's own ends what this process does not get to end.
        wall = max(self.until - time.monotonic(), 0.001)
        cpu = self.limits["cpu"] + (self.limits["cpu"] >= self.limits["wall"])
        self.given, self.granted = self.left_to_it, 0.0
        began = time.monotonic()
        self.link = Link(self.candidates.start({**self.limits, "wall": wall, "cpu": cpu}))
        self.began = time.monotonic()
        self.until += self.began - began  # it may have waited for its place
        self.test_until = self.until
        return self._attempt(self._load)

    def _load(self) -> None:
        names = [*self.suite.names, *self.suite.pythons]
        try:
            answer = self._ask("", ["load", self.program, names, list(self.suite.modules)])
        except codec.CannotCross:  # a request that is too large
            self._halt(
                _TestOutcome("reject", "syntax", f"the program is longer than {codec.FRAME >> 20} MiB")
            )
        if answer.kind != "value":
            self._halt(self._not_loaded(answer))
        try:
            defined = {str(name): str(what) for name, what in answer.content if name in names}
        except (TypeError, ValueError):
            self._leave(Unreadable("not the names that were asked for"))
        if shadowed := sorted(defined.keys() & set(self.suite.pythons)):
            self.apart(f"reads {shadowed[0]}, which the program defines")
        absent = [name for name in self.suite.entry_points if defined.get(name) not in ("function", "object")]
        if absent:
            missing = " and ".join(absent)
            self._halt(_TestOutcome("reject", "missing", f"the program does not define a function {missing}"))
        self.names = {}
        for name, what in defined.items():
            module = ALIASES.get(name, name)
            if what == "function":
                self.names[name] = function(self, name)
            elif what == f"module {module}" and module in self.suite.modules and not self.suite.changes(name):
                # A module that the program imported: the tests use their own. The name is theirs, not its choice.
                self.names[name] = importlib.import_module(module)
            else:
                self.apart(f"reads {name}, which is no function of the program's")

    def call(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call one of the program's functions: to the tests this looks as if it were theirs."""
        self.calls += 1
        answer = self._ask(name, ["call", name, list(args), kwargs])
        if answer.kind == "value":
            return answer.content
        kind, arguments, message, _, missing = answer.content
        if kind in ("StopIteration", "StopAsyncIteration", "GeneratorExit"):
            # It would end a loop over calls in the tests as if all were done.
            self._halt(_apart(f"{name} raises {kind}"))
        if missing in self.suite.own:
            self._halt(_apart(f"the program uses {missing}, which the tests define"))
        error: Any
        if not self.suite.catches:
            error = _Raised(f"{kind}: {message}")
        elif arguments is not None and _is_exception(kind):
            error = getattr(builtins, kind)(*arguments)
        else:
            self._halt(
                _apart(f"{name} raises {kind}, which is more than its arguments, and the tests may catch it")
            )
        self.raised.append((error, kind))
        raise error

    def apart(self, action: str) -> NoReturn:
        """Leave the test, which does what cannot be done from here."""
        self._halt(_apart(f"the test {action}"))

    def _ask(self, name: str, request: list[Any]) -> LinkAnswer:
        """Ask, and do at once what the answer says happened beside the call: changed arguments, output."""
        if self.stop is not None or self.left is not None or self.link is None:
            raise _Stop  # a test that catches everything goes on, to no avail
        if (os.getpid(), threading.get_ident()) != self.place:
            self.apart("calls the program from a thread or a process of its own")
        number, exchange = self.link.asked, codec.WireExchange()
        try:
            sent = exchange.dumps(request)
        except codec.CannotCross as error:
            if not number:
                raise
            self.apart(f"gives {name} {error}, which does not cross to its process")
        bound = len(exchange.containers)
        self.trail.append(_ProgramCall(name, sent))
        try:
            self.asking, began = True, time.monotonic()
            try:
                data = self._received(sent, began)
            finally:
                self.asking = False
                self.left_to_it -= time.monotonic() - began
            self.trail[-1] = _ProgramCall(name, sent, data)
            answer = checked(exchange.loads(data), number)
            self.refused = [*self.refused, *(cut(call, 100) for call in answer.refused)][:9]
            if answer.kind == "apart":
                (why,) = answer.content
                self._halt(_apart(f"{name or 'loading the program'} does not stay apart: {cut(why, 200)}"))
            exchange.change(answer.changes, bound)
        except (Late, Gone) as error:
            self._leave(error)
        except codec.CannotCross as error:
            self._halt(_apart(f"{name} returned {error}"))
        except ValueError as error:
            self._leave(Unreadable(error))
        if sys.stdout is not self.stdout:
            if answer.output is None:
                self.apart(f"catches what {name} prints, which is too much")
            sys.stdout.write(answer.output)
        return answer

    def _received(self, sent: bytes, began: float) -> bytes:
        """The answer to a request, for which the candidate has its own time, whatever the machine does beside it.

        Raises:
            Late, Gone, ValueError: there is none.
        """
        receive = partial(self.link.ask, sent)  # type: ignore[union-attr]
        while True:
            try:
                return receive(min(began + self.left_to_it, self.test_until))
            except Late:
                if self.rings:  # not while it asks
                    signal.setitimer(signal.ITIMER_REAL, 0)
                measured = self.candidates.measure()
                more, self.granted = measured["waited"] - self.granted, max(measured["waited"], self.granted)
                self.is_held_up = time.monotonic() - self.began > LONGEST * self.limits["wall"]
                is_over = more < LEAST or measured["cpu"] >= self.limits["wall"] or self.is_held_up
                if not is_over:
                    self.given += more
                    self.left_to_it += more
                    self.until += more
                    self.test_until += more
                self._ring_later()
                if is_over:
                    raise
                receive = self.link.receive  # type: ignore[union-attr]

    def _ring_later(self) -> None:
        if self.rings:  # again and again: a test may catch everything
            delay = max(self.test_until - time.monotonic(), 0.0) + GRACE
            signal.setitimer(signal.ITIMER_REAL, delay, GRACE)

    def _leave(self, why: Exception) -> NoReturn:
        """Leave the test: the candidate will be ended."""
        self.left = why
        raise _Stop from None

    def _over(self, why: Exception) -> _TestOutcome:
        """End the candidate; the outcome is by what it was ended for."""
        self.link = self.left = None
        ended = self.candidates.end()
        doing = self._last_call()
        if isinstance(why, Unreadable):
            return _TestOutcome("reject", "value", f"{doing}: what came back cannot be read ({why})")
        limit = ended.get("limit") or ("wall" if isinstance(why, Late) else "")
        if limit == "wall":
            return self._late(f"{doing} did not end before the time was over", ended)
        if limit == "cpu":
            message = f"{doing} did not end before the processor time was over ({self._used(ended)})"
            return _TestOutcome("reject", "cpu", message)
        if limit:
            return _TestOutcome("reject", limit, f"{doing} used more {limit} than it may")
        ending = f"signal {ended['signal']}" if ended.get("signal") else f"exit status {ended.get('status')}"
        return _TestOutcome("reject", "exit", f"{doing} ended the process ({ending})")

    def _late(self, message: str, ended: Mapping[str, Any]) -> _TestOutcome:
        """The outcome where the time is over: the program's failure, if it took the time.

        It did if it took all that it may, or half of what the running test took at least, unless the machine kept it
        from the processor for very long.
        """
        began, had = self.before
        is_programs = self.left_to_it < 0.001 or had - self.left_to_it >= (time.monotonic() - began) / 2
        message = f"{message} ({self._used(ended)})"
        if not is_programs:
            return _TestOutcome("timeout", "wall", f"{message}; the tests took the time themselves")
        return _TestOutcome("timeout" if self.is_held_up else "reject", "wall", message)

    def _used(self, ended: Mapping[str, Any]) -> str:
        return used(*self._spent(ended))

    def _spent(self, ended: Mapping[str, Any]) -> tuple[float, float, float]:
        """The seconds that the candidate took, of the processor, and waiting for it."""
        return self.given - self.left_to_it, float(ended.get("cpu", 0.0)), float(ended.get("waited", 0.0))

    def _halt(self, outcome: _TestOutcome) -> NoReturn:
        self.stop = self.stop or outcome
        if threading.get_ident() != self.place[1]:
            signal.raise_signal(signal.SIGALRM)  # the test waits for this thread, maybe for ever
        raise _Stop from None

    # --- the tests

    def _set_up(self) -> None:
        entries = {name: self.names[name] for name in self.suite.entry_points}
        self.scope = self.suite.scope(entries, self.names)

    def _test(self, test: Test) -> None:
        if test.shared:
            self._halt(_apart(f"it {test.shared}"))
        if test.example is not None:
            self._example(test)
            return
        exec(test.code, self.scope)
        if self.suite.kind == "check":
            self.scope["check"](self.names[self.suite.entry_points[0]])

    def _example(self, test: Test) -> None:
        """An example of a doctest, by doctest itself."""
        import doctest

        halt = self._halt

        class JudgedExamples(doctest.DocTestRunner):
            def report_failure(self, out: Any, test: Any, example: Any, got: str) -> NoReturn:
                expected, got = (example.exc_msg or example.want).strip(), got.strip()
                got = got.rpartition("\n")[2] if example.exc_msg else got  # of a traceback the exception
                message = f">>> {cut(example.source.strip(), 200)}\nexpected: {cut(expected, 150)}\n"
                halt(_TestOutcome("reject", "assertion", f"{message}got: {cut(got, 150) or 'nothing'}"))

            def report_unexpected_exception(self, out: Any, test: Any, example: Any, exc_info: Any) -> None:
                raise exc_info[1]

        name = test.code.co_filename.removeprefix("<doctest ").removesuffix("[0]>")
        case = doctest.DocTest([test.example], {}, name, None, None, None)
        case.globs = self.scope  # and no copy: examples go on from each other
        JudgedExamples(verbose=False).run(case, clear_globs=False)

    def _attempt(self, action: Callable[[], None]) -> _TestOutcome:
        """Run one test, whatever it does."""
        self.stop = None
        self.before = time.monotonic(), self.left_to_it
        self.trail.clear()
        try:
            try:
                self._ring_later()
                action()
            finally:
                if self.rings:
                    signal.setitimer(signal.ITIMER_REAL, 0)
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt) and not self._type_raised(error):
                raise  # from the terminal
            if self.stop is None and self.left is None:
                return self._failed(error)
        if self.left is not None:  # only here: if ending it fails, the tests must not catch that
            return self._over(self.left)
        return self.stop or _PASS

    def ring(self, *_: object) -> NoReturn:
        """End the running test itself, a little after a candidate that does not answer would be ended."""
        if self.stop is not None or self.left is not None:
            raise _Stop
        if self.asking:
            self._leave(Late())
        if self.trail:
            message = f"{self._last_call()}: what came back was not compared in time"
            self._halt(_TestOutcome("timeout", "wall", message))
        self._halt(_TestOutcome("error", "tests", "the test does not end, though it called nothing"))

    def _failed(self, error: BaseException) -> _TestOutcome:
        """The outcome of a test that let an exception through."""
        name = type(error).__name__
        cause: BaseException | None = error
        for _ in range(CHAIN):  # it may be its own
            if cause is None:
                break
            if kind := self._type_raised(cause):
                reason = "memory" if kind == "MemoryError" else "exception"
                return _TestOutcome("reject", reason, self._explain(error))
            cause = cause.__cause__
        if isinstance(error, NameError) and error.name in self.suite.names:
            return _TestOutcome("reject", "missing", f"the program does not define {error.name}")
        if isinstance(error, SystemExit):
            return _TestOutcome("error", "tests", f"{self.suite.place(error)} ends the process")
        if isinstance(error, AssertionError):
            return _TestOutcome("reject", "assertion", self._explain(error))
        if self.trail and isinstance(error, MemoryError):
            message = (
                f"{self._last_call()}: what the tests do with what came back takes more memory than they have"
            )
            return _TestOutcome("error", "memory", f"{self.suite.place(error)}\n{message}")
        # What the tests' own process lacks is nobody's fault but theirs, whatever came back before.
        if not self.calls or isinstance(error, (ImportError, OSError, MemoryError)):
            return _TestOutcome(
                "error", "tests", f"{self.suite.place(error)} raises {name}: {cut(text_of(error), 200)}"
            )
        # The tests work with the right values: what they stumble over is what came back.
        return _TestOutcome("reject", "value", self._explain(error))

    def _type_raised(self, error: BaseException) -> str:
        """The name of the type of an exception that the candidate raised; "" for others."""
        return next((kind for own, kind in self.raised if own is error), "")

    # --- words

    def _not_loaded(self, answer: LinkAnswer) -> _TestOutcome:
        if answer.kind == "syntax":
            message, line = answer.content
            return _TestOutcome("reject", "syntax", f"{cut(message, 300)}{self._program_line(line)}")
        kind, _, message, line, missing = answer.content
        if missing in self.suite.own:
            return _apart(f"the program uses {missing}, which the tests define")
        reason = "memory" if kind == "MemoryError" else "exception"
        said = f"{cut(kind, 60)}{message and ': '}{cut(message, 300)}"
        return _TestOutcome("reject", reason, f"loading the program raised {said}{self._program_line(line)}")

    def _program_line(self, line: int) -> str:
        lines = self.program.splitlines()
        return f" (line {line}: {cut(lines[line - 1].strip(), 120)})" if 0 < line <= len(lines) else ""

    def _explain(self, error: BaseException) -> str:
        """The statement that failed and the one that led there, with values of names, and what the calls returned."""
        parts: list[str] = []
        calls = 0
        for file, line, variables in self.suite.frames(error)[:2]:
            statement = self.suite.statement(file, line)
            calls += len(self.suite.called.findall(statement))
            values = "; ".join(
                f"{name} = {short(value, 80)}" for name, value in named_values(statement, variables)
            )
            parts.append(("in " if parts else "") + cut(statement, 200) + (f"  # {values}" if values else ""))
        message = text_of(error)
        if message and not any(message in part for part in parts) and not self._type_raised(error):
            parts.append(f"{type(error).__name__}: {cut(message, 150)}")
        return "\n".join(
            parts + [_told(call, self._program_line) for call in list(self.trail)[-max(calls, 1) :]]
        )

    def _last_call(self) -> str:
        return _written(self.trail[-1], codec.WireExchange())


def _is_exception(name: str) -> bool:
    kind = getattr(builtins, name, None)
    return isinstance(kind, type) and issubclass(kind, BaseException)


def _told(call: _ProgramCall, program_line: Callable[[int], str]) -> str:
    """A call with what came back. It is read again: the tests may have changed the values since."""
    exchange = codec.WireExchange()
    text = _written(call, exchange)
    if not call.answer:
        return f"{text} was not answered"
    _, kind, content, *_ = exchange.loads(call.answer)
    if kind != "raised":
        return f"{text} returned {short(content, 200)}"
    name, _, message, line, _ = content
    return f"{text} raised {cut(name, 60)}{message and ': '}{cut(message, 150)}{program_line(line)}"


def _written(call: _ProgramCall, exchange: codec.WireExchange) -> str:
    operation, name, args, kwargs, *_ = [*exchange.loads(call.request), None]
    return written(name, args, kwargs) if operation == "call" else "loading the program"
