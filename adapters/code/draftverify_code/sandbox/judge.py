"""Where the tests run: in a process of their own, in which no line of any candidate ever runs.

To the tests a candidate's functions are functions like any other. A call sends its arguments to the candidate's process
and returns, or raises, what comes back, as `child` describes. What comes back is a value: it is compared here, by the
values' own built-in comparison. Standard library only; this file is also imported alone, by a small server process.
"""

from __future__ import annotations

import decimal
import importlib
import io
import signal
import socket
import sys
import threading
import time
import traceback
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

if TYPE_CHECKING or __package__:
    from draftverify_code.sandbox import codec
    from draftverify_code.sandbox.link import Gone, Late, Link, Unforeseen, Unreadable, checked
    from draftverify_code.sandbox.suite import MODULE, Broken, CompiledSuite, Test
    from draftverify_code.sandbox.words import Call, clean, cut, named_values, short, text_of, written
else:
    import codec
    from link import Gone, Late, Link, Unforeseen, Unreadable, checked
    from suite import MODULE, Broken, CompiledSuite, Test
    from words import Call, clean, cut, named_values, short, text_of, written

__all__ = ["Judge"]

GRACE = 0.2  # seconds that a test may have for itself beyond its candidate's time
RESTARTS = 2  # of a candidate that was ended in the middle of a suite of many tests
ALIASES = {"np": "numpy"}
REFUSED = "this suite needs `integrity: shared-process`"


class Judge:
    """Runs one suite on one candidate after the other.

    Args:
        start: gives a socket to a new candidate, for limits and whether lines are traced.
        end: ends the candidate and says how it ended: status, signal, limit, seconds.
        drop: ends it and says nothing, so that nobody waits; `end` where there is none.
    """

    def __init__(
        self,
        start: Callable[[dict[str, Any], bool], socket.socket],
        end: Callable[[], Mapping[str, Any]],
        drop: Callable[[], object] | None = None,
    ) -> None:
        self._start = start
        self._end = end
        self._drop = drop or end
        self._suite: CompiledSuite | None = None
        self._broken = "no suite is loaded"
        self._recursion = sys.getrecursionlimit()

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
            self._suite.rehearse()
        except Broken as error:
            self._broken = str(error)
        except Exception as error:
            self._broken = f"the tests cannot be loaded: {type(error).__name__}: {error}"
        self._broken = clean(self._broken)
        return self._broken

    def run(self, program: str, limits: Mapping[str, Any], lines: bool) -> dict[str, Any]:
        """Run the suite on a program.

        Args:
            program: its text.
            limits: the fields of `jobs.Limits`. A test may take half of the time that is left, the last one all.
            lines: whether to note the lines that each test ran.

        Returns:
            verdict, reason, feedback, score, passed, lines and seconds, as in `jobs.Finding`.
        """
        began = time.monotonic()
        if self._broken or self._suite is None:
            outcome, passed, ran = _Outcome("error", "tests", self._broken), [], []
            score = 0.0
        else:
            # The tests of a suite mostly make the same calls, whatever the program: those that the last program got are
            # sent along with it, and it works on them while the answers are compared. A suite whose calls depend on
            # the answers shows itself by asking for something else; then the program begins anew, without.
            for foresee in (True, False):
                self._settle()
                until = time.monotonic() + limits["wall"]
                run = _Run(self._suite, self._start, self._end, program, limits, lines, until, foresee)
                try:
                    outcomes = run.outcomes()
                finally:
                    if run.close():
                        self._drop()
                if not run.unforeseen:
                    break
            self._suite.learn(run.requests, predictable=foresee)
            outcome = _together(outcomes)
            passed = [None if each is None else each.verdict == "pass" for each in outcomes]
            score = passed.count(True) / len(passed)
            if self._suite.kind in ("check", "script"):
                passed = []
            ran = [sorted(each) for each in run.ran] if lines else []
        return {
            "verdict": outcome.verdict,
            "reason": outcome.reason,
            "feedback": clean(outcome.feedback),
            "score": score,
            "passed": passed,
            "lines": ran,
            "seconds": time.monotonic() - began,
        }

    def _settle(self) -> None:
        """What tests change of a process without meaning to, as at the start; and the same random numbers each time."""
        sys.modules.pop(MODULE, None)
        sys.setrecursionlimit(self._recursion)
        decimal.setcontext(decimal.Context())
        if hasattr(sys, "set_int_max_str_digits"):
            sys.set_int_max_str_digits(codec.DIGITS)
        for name in ("random", "numpy.random"):
            if name in sys.modules:
                sys.modules[name].seed(0)


class _Outcome(NamedTuple):
    verdict: str
    reason: str = ""
    feedback: str = ""


_PASS = _Outcome("pass")
_CALLED = ("function", "class", "exception")
"""Kinds of a program's names that can be called."""


def _together(outcomes: Sequence[_Outcome | None]) -> _Outcome:
    """One word on all tests: one that failed is certain; then what could not be found out; a timeout says least."""
    found = [each for each in outcomes if each is not None]
    for verdict in ("reject", "error", "timeout"):
        for each in found:
            if each.verdict == verdict:
                return each
    return _PASS


# ---------------------------------------------------------------------------------------------------------------------
# One program
# ---------------------------------------------------------------------------------------------------------------------


class _Stop(BaseException):
    """Leave the test: its outcome is known. Not an Exception, so that tests that catch those do not catch it."""


class _Run:
    """One program's way through the suite."""

    def __init__(
        self,
        suite: CompiledSuite,
        start: Callable[[dict[str, Any], bool], socket.socket],
        end: Callable[[], Mapping[str, Any]],
        program: str,
        limits: Mapping[str, Any],
        lines: bool,
        until: float,
        foresee: bool,
    ) -> None:
        self.suite = suite
        self.start, self.end = start, end
        self.program = program
        self.limits = limits
        self.lines = lines
        self.until = until
        self.deadline = self.until
        self.link: Link | None = None
        self.stop: _Outcome | None = None  # the running test's outcome, when it is known before the test ends
        self.left: Exception | None = None  # why the running test's candidate must be ended
        self.trail: deque[Call] = deque(maxlen=3)  # the running test's last calls
        self.calls = 0
        self.raised: list[BaseException] = []  # what the candidate raised; a test may let it through
        self.traced: set[int] = set()  # lines, since they were last taken
        self.ran: list[set[int]] = [set() for _ in suite.tests]
        self.asking = False
        self.foresee = foresee
        self.unforeseen = False
        self.restarts = 0
        self.requests: list[bytes] = []  # the calls, in order
        self.stdout = sys.stdout
        self.functions: dict[str, Any] = {name: self._function(name) for name in suite.entry_points}
        self.others: dict[str, Any] = {}
        self.exceptions: dict[str, type[BaseException]] = {}
        self.classes: set[str] = set()
        self.made = ""  # the last class of the program of which the tests have an object
        self.scope: dict[str, Any] = {}

    def close(self) -> bool:
        """Let go of everything; says whether there is a candidate to end."""
        left, self.link = self.link is not None, None
        self.raised.clear()  # they hold frames, and the frames hold this
        return left

    def outcomes(self) -> list[_Outcome | None]:
        """An outcome per test; None where it was not run."""
        count = len(self.suite.tests)
        failed = self._begin()
        loaded = self.traced.copy()
        if failed is _PASS:
            failed = self._attempt(self._set_up)
        if failed is not _PASS:
            self.ran = [loaded] * count
            # A program that does not load passes no test; one that did not load in time might have.
            return [failed] * count if failed.verdict == "reject" else [failed] + [None] * (count - 1)
        found: list[_Outcome | None] = [None] * count
        for index, test in enumerate(self.suite.tests):
            now = time.monotonic()
            if now >= self.until:
                found[index] = _Outcome("timeout", "wall", "the time was over before all tests had run")
                break
            if self.link is None:
                if self.restarts == RESTARTS:
                    break
                self.restarts += 1
                failed = self._begin()
                if failed is not _PASS:
                    found[index] = failed
                    break
            self.deadline = now + (self.until - now) / (1 if index == count - 1 else 2)
            self.traced = loaded.copy()
            found[index] = self._attempt(partial(self._test, test))
            self.ran[index] = self.traced
            if self.unforeseen:
                break
        if not self.calls and _together(found) is _PASS:
            said = "the tests never call " + " or ".join(self.suite.entry_points)
            found = [_Outcome("error", "tests", said)] * count
        return found

    # --- the candidate

    def _begin(self) -> _Outcome:
        """A new candidate, with the program loaded."""
        self.deadline = self.until
        left = max(self.until - time.monotonic(), 0.001)
        foreseen = self.suite.foreseen if self.foresee and not self.restarts else ()
        self.link = Link(self.start({**self.limits, "wall": left}, self.lines), foreseen)
        return self._attempt(self._load)

    def _load(self) -> None:
        request = codec.dumps(["load", self.program, list(self.suite.names), self.lines])
        if len(request) > codec.FRAME:
            self._halt(_Outcome("reject", "syntax", f"the program is longer than {codec.FRAME >> 20} MiB"))
        kind, fields = self._ask("", request, codec.Known())
        if kind in ("raised", "syntax"):
            self._halt(self._not_loaded(kind, fields))
        if kind != "value":
            self._leave(Unreadable(fields[0]))
        self._take_names(fields[0])

    def _take_names(self, found: Any) -> None:
        """What the program's names are to the tests."""
        try:
            names = {name: (kind, value) for name, kind, value in found}
            kinds = {name: names[name][0] for name in self.suite.names}
        except (TypeError, ValueError, KeyError):
            self._leave(Unreadable("not the names that were asked for"))
        absent = [name for name in self.suite.entry_points if kinds[name] not in _CALLED]
        if absent:
            missing = " and ".join(absent)
            self._halt(_Outcome("reject", "missing", f"the program does not define a function {missing}"))
        self.classes = {name for name, kind in kinds.items() if kind == "class"}
        for name in self.suite.names[len(self.suite.entry_points) :]:
            kind, value = names[name]
            if kind == "exception" and type(value) is str:
                # The tests' own class of that name: what the candidate raises is made one of these.
                self.exceptions[name] = self.others[name] = _class(
                    name, codec.EXCEPTIONS.get(value, Exception)
                )
            elif kind in _CALLED:
                self.others[name] = self._function(name)
            elif kind == "value":
                self.others[name] = value
            elif kind == "module" and value in (name, ALIASES.get(name)) and _importable(value):
                # The tests use a module that the program imported. The name is the tests', not the candidate's choice.
                self.others[name] = importlib.import_module(value)

    def _function(self, name: str) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            return self._call(name, args, kwargs)

        call.__name__ = call.__qualname__ = name
        return call

    def _call(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call the candidate's function: to the tests this looks as if it were theirs."""
        if self.stop is not None or self.left is not None:
            raise _Stop  # a test that catches everything goes on, to no avail
        self.calls += 1
        known = codec.Known()
        try:
            request = codec.dumps(["call", name, list(args), kwargs], known, strict=True)
        except codec.CannotCross as error:
            self._halt(self._foreign(name, error.value))
        if len(request) > codec.FRAME:
            self._halt(
                _Outcome("error", "tests", f"the arguments of {name} are too large to cross; {REFUSED}")
            )
        kind, fields = self._ask(name, request, known)
        if kind == "refused":
            self._halt(self._refused(fields[0], known))
        if kind != "value":
            name, own_name, *told = fields[:4]
            if name in ("StopIteration", "StopAsyncIteration"):
                # It would end a loop over calls in the tests as if all were done; Python's generators do the same.
                name, own_name, told = "RuntimeError", "RuntimeError", [(), f"the call raised {name}"]
            raised = _rebuilt(name, own_name, *told, self.exceptions)
            self.raised.append(raised)
            raise raised from None
        if type(fields[0]) is codec.Opaque and name in self.classes:
            self.made = name
        return fields[0]

    def _ask(self, name: str, request: bytes, known: codec.Known) -> tuple[str, list[Any]]:
        """Ask, and do at once what the answer says happened beside the call: changed arguments, output, lines."""
        assert self.link is not None
        number, count = self.link.asked, len(known.objects)
        self.trail.append(Call(name, request, None))
        if number:
            self.requests.append(request)
        try:
            self.asking = True
            try:
                data = self.link.ask(request, self.deadline)
            finally:
                self.asking = False
            self.trail[-1] = Call(name, request, data)
            kind, fields = checked(codec.loads(data, known), number)
            if kind != "refused":
                changed, lines, output = fields[-3:]
                if changed is not None:
                    codec.apply_changes(known, count, changed)
                if lines and self.lines:
                    last = self.program.count("\n") + 1
                    self.traced.update(line for line in lines if type(line) is int and 0 < line <= last)
                if output and sys.stdout is not self.stdout:
                    sys.stdout.write(output)
        except (Late, Gone, Unforeseen) as error:
            self._leave(error)
        except ValueError as error:
            self._leave(Unreadable(error))
        return kind, fields

    def _leave(self, why: Exception) -> NoReturn:
        """Leave the test: the candidate will be ended."""
        self.left = why
        raise _Stop from None

    def _over(self, why: Exception) -> _Outcome:
        """End the candidate; the outcome is by what it was ended for."""
        self.link = self.left = None
        ended = self.end()
        if isinstance(why, Unforeseen):
            self.unforeseen = True
            return _PASS  # of no meaning: the program will be run again
        doing = self._last_call()
        if isinstance(why, Unreadable):
            return _Outcome("reject", "value", f"{doing}: what came back cannot be read ({why})")
        limit = ended.get("limit") or ("wall" if isinstance(why, Late) else "")
        if limit in ("cpu", "wall"):
            what = "processor time" if limit == "cpu" else "time"
            return _Outcome("timeout", limit, f"{doing} did not end before the {what} was over")
        if limit:
            return _Outcome("reject", limit, f"{doing} used more {limit} than it may")
        how = f"signal {ended['signal']}" if ended.get("signal") else f"exit status {ended.get('status')}"
        return _Outcome("reject", "exit", f"{doing} ended the process ({how})")

    def _halt(self, outcome: _Outcome) -> NoReturn:
        self.stop = outcome
        raise _Stop from None

    # --- the tests

    def _set_up(self) -> None:
        self.scope = self.suite.scope(self.functions, self.others)

    def _test(self, test: Test) -> None:
        if test.example is not None:
            self._example(test)
            return
        exec(test.code, self.scope)
        if self.suite.kind == "check":
            self.scope["check"](self.functions[self.suite.entry_points[0]])

    def _example(self, test: Test) -> None:
        """An example of a doctest, by doctest's own comparison."""
        import doctest

        example, hook = test.example, sys.displayhook
        flags = sum(flag for flag, on in example.options.items() if on)
        same = doctest.OutputChecker().check_output
        sys.displayhook = lambda value: None if value is None else print(repr(value))
        try:
            with redirect_stdout(io.StringIO()) as output:
                exec(test.code, self.scope)
            wanted, got = example.want, output.getvalue()
        except Exception as error:
            if example.exc_msg is None:
                raise
            wanted, got = example.exc_msg, traceback.format_exception_only(type(error), error)[-1]
            if flags & doctest.IGNORE_EXCEPTION_DETAIL:
                wanted, got = (
                    text.partition(":")[0].rpartition(".")[2].strip() + "\n" for text in (wanted, got)
                )
        finally:
            sys.displayhook = hook
        if not same(wanted, got, flags):
            source = example.source.strip()
            self._halt(
                _Outcome(
                    "reject",
                    "value" if self._opaque() else "assertion",
                    f">>> {cut(source, 200)}\nexpected: {cut(wanted.strip(), 150)}\n"
                    f"got: {cut(got.strip(), 150) or 'nothing'}",
                )
            )

    def _attempt(self, action: Callable[[], None]) -> _Outcome:
        """Run one test, whatever it does."""
        self.stop = None
        self.trail.clear()
        try:
            with self._alarm():
                action()
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt) and error not in self.raised:
                raise  # from the terminal
            if self.stop is None and self.left is None:
                return self._failed(error)
        if self.left is not None:  # only here: if ending it fails, the tests must not catch that
            return self._over(self.left)
        return self.stop or _PASS

    @contextmanager
    def _alarm(self) -> Iterator[None]:
        """End the test itself, a little after a candidate that does not answer would be ended."""

        def ring(*_: object) -> NoReturn:
            if self.asking:
                self._leave(Late())
            if self.trail:
                self._halt(
                    _Outcome(
                        "timeout", "wall", f"{self._last_call()}: what came back was not compared in time"
                    )
                )
            self._halt(_Outcome("error", "tests", "the test does not end, though it called nothing"))

        if threading.current_thread() is not threading.main_thread():
            yield  # signals are for the main thread; who asked has a limit of its own
            return
        before = signal.signal(signal.SIGALRM, ring)
        # Again and again: a test may catch everything.
        signal.setitimer(signal.ITIMER_REAL, max(self.deadline - time.monotonic(), 0.0) + GRACE, GRACE)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)

    def _failed(self, error: BaseException) -> _Outcome:
        """The outcome of a test that let an exception through."""
        name = type(error).__name__
        cause: BaseException | None = error
        while cause is not None:
            if any(cause is each for each in self.raised):
                reason = "memory" if isinstance(cause, MemoryError) else "exception"
                return _Outcome("reject", reason, self._explain(error))
            cause = cause.__cause__
        if isinstance(error, NameError) and getattr(error, "name", None) in self.suite.names:
            return _Outcome("reject", "missing", f"the program does not define {error.name}")
        if isinstance(error, SystemExit):
            return _Outcome("error", "tests", f"{self.suite.place(error)} ends the process")
        if isinstance(error, AssertionError):
            return _Outcome("reject", "value" if self._opaque() else "assertion", self._explain(error))
        if isinstance(error, codec.CutShort):
            return _Outcome("error", "tests", f"{self._last_call()}: {error}; {REFUSED}")
        # What the tests' own process lacks is nobody's fault but theirs, whatever came back before.
        if not self.trail or isinstance(error, (ImportError, OSError, MemoryError)):
            return _Outcome(
                "error", "tests", f"{self.suite.place(error)} raises {name}: {cut(str(error), 200)}"
            )
        if isinstance(error, (AttributeError, TypeError)) and (self.made or self._opaque()):
            return self._remote()
        # The tests work with the right values: what they stumble over is what came back.
        return _Outcome("reject", "value", self._explain(error))

    # --- words

    def _foreign(self, name: str, value: Any) -> _Outcome:
        """The outcome of a call with an argument that cannot cross."""
        if isinstance(value, codec.Opaque):
            if self.made:
                return self._remote()
            return _Outcome("reject", "value", f"{name} is given what a call returned: {value!r}")
        what = f"{name} is given an argument of type {type(value).__name__}, which cannot leave the tests' process"
        return _Outcome("error", "tests", f"{what}; {REFUSED}")

    def _remote(self) -> _Outcome:
        """The outcome of a test that does more with an object of the program's than compare it."""
        said = (
            f"the test works with an object of the program's class {self.made or self._opaque()}; {REFUSED}"
        )
        return _Outcome("error", "tests", said)

    def _refused(self, why: str, known: codec.Known) -> _Outcome:
        if any(hasattr(each, "dtype") for each in known.objects):
            # These tests hand over arrays. A candidate can say this too, and gains nothing: it is no pass.
            return _Outcome("error", "tests", f"{self._last_call()} could not be given its arguments: {why}")
        return _Outcome("reject", "value", f"{self._last_call()}: {why}")

    def _not_loaded(self, kind: str, fields: list[Any]) -> _Outcome:
        type_name, own_name, _, message, line, *_ = fields
        if kind == "syntax":
            place = self._program_line(line)
            return _Outcome("reject", "syntax", f"{cut(message, 300)}{place}")
        reason = "memory" if type_name == "MemoryError" else "exception"
        text = (
            f"loading the program raised {cut(own_name, 60)}: {cut(message, 300)}{self._program_line(line)}"
        )
        return _Outcome("reject", reason, text)

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
        if message and not any(message in part for part in parts) and error not in self.raised:
            parts.append(f"{type(error).__name__}: {cut(message, 150)}")
        return "\n".join(parts + [self._told(call) for call in list(self.trail)[-max(calls, 1) :]])

    def _told(self, call: Call) -> str:
        """A call with what came back. It is read again: the tests may have changed the values since."""
        known = codec.Known()
        text = written(call, known)
        if call.answer is None:
            return f"{text} was not answered"
        _, kind, *fields = codec.loads(call.answer, known)
        if kind == "raised":
            return f"{text} raised {cut(fields[1], 60)}: {cut(fields[3], 150)}{self._program_line(fields[4])}"
        return f"{text} returned {short(fields[0], 200)}" if kind == "value" else text

    def _last_call(self) -> str:
        return written(self.trail[-1], codec.Known())

    def _opaque(self) -> str:
        """The type of an object in what came back last that could not cross; "" when there is none."""
        known = codec.Known()
        if self.trail and self.trail[-1].answer is not None:
            codec.loads(self.trail[-1].request, known)
            codec.loads(self.trail[-1].answer, known)
        return next((each.name for each in known.objects if type(each) is codec.Opaque), "")


def _importable(name: str) -> bool:
    return name in sys.stdlib_module_names or name in sys.modules


def _class(name: str, base: type[BaseException]) -> type[BaseException]:
    try:
        return type(name, (base,), {"__module__": "builtins"})
    except (TypeError, ValueError):  # no name for a class
        return base


def _rebuilt(
    name: str, own_name: str, args: tuple[Any, ...], message: str, known: Mapping[str, type[BaseException]]
) -> BaseException:
    """The candidate's exception, as the built-in type that is nearest to its own, under its own type's name."""
    kind = codec.EXCEPTIONS.get(name, Exception)
    if own_name in known:
        kind = known[own_name]
    elif own_name != name:
        kind = _class(own_name, kind)
    for given in (args, (message,), ()):
        try:
            error = kind(*given)
        except Exception:
            continue  # an argument that this type does not take
        if text_of(error)[: len(message) or None] == message:
            return error
    return kind()
