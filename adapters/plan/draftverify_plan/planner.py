"""The expensive generator: a real planner, any that unified-planning can name, in a process of its own.

A search cannot be interrupted from within, so the planner runs in a child process that is ended when its time is
up. The child stays for the next call; it talks in lines of JSON, and it hashes with a fixed seed, since pyperplan
breaks ties in the order of its sets.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import subprocess
import sys
import threading
import weakref
from collections.abc import Sequence
from typing import IO, Any

from draftverify import Context, DraftVerifyError, Proposal
from draftverify.traits import GeneratorTraits
from draftverify_plan.problem import problem_of


class PlannerError(DraftVerifyError):
    """The planner failed: it is not installed, cannot read this kind of problem, or broke down."""


class Planner:
    """Plans from the current state to the goal, and drafts that plan block by block.

    Args:
        engine: unified-planning's name for the planner; its package must be installed.
        timeout: seconds for one plan.
    """

    traits = GeneratorTraits(shape="chain", reads=frozenset())

    def __init__(self, engine: str = "pyperplan", timeout: float = 60.0) -> None:
        self.engine = engine
        self.timeout = timeout
        self._child: _Child | None = None
        self._lock = threading.Lock()

    def propose(self, context: Context, n: int) -> Proposal:
        """The next n steps of a plan; none when the goal holds, `exhausted` when there is no plan.

        Raises:
            TimeoutError: no plan was found in time.
            PlannerError: the planner failed.
            PddlError: the problem cannot be read.
        """
        problem = problem_of(context)
        if problem.is_goal(problem.states(context.accepted, context.scratch)[-1]):
            return Proposal.chain(())
        accepted = tuple(context.accepted)
        start = _start(context)
        plan = self.plan(context, accepted[:start])
        followed = accepted[start:]
        if plan is None or plan[: len(followed)] != followed:
            followed = ()
            plan = self.plan(context, accepted)
        if plan is None:
            return Proposal.chain((), exhausted=True)
        return Proposal.chain(plan[len(followed) :][:n])

    def plan(self, context: Context, steps: Sequence[str]) -> tuple[str, ...] | None:
        """A plan from the state after `steps` to the goal; None when the planner says that there is none.

        Raises:
            TimeoutError: no plan was found in time.
            PlannerError: the planner failed.
        """
        key = ("plan.planner", self.engine, tuple(steps))
        if key not in context.scratch:
            fields = context.task.input
            request = {
                "engine": self.engine,
                "domain": fields["domain"],
                "problem": fields["problem"],
                "steps": list(steps),
            }
            context.scratch[key] = self._ask(request, context.task.id)
        plan: tuple[str, ...] | None = context.scratch[key]
        return plan

    def open(self) -> None:
        """Start the child process, which takes a second or two; else the first plan waits for it."""
        with self._lock:
            self._child = self._child or _Child()

    def close(self) -> None:
        """End the child process; a later call starts another."""
        with self._lock:
            if self._child is not None:
                self._child.end()
                self._child = None

    def _ask(self, request: dict[str, Any], task: str) -> tuple[str, ...] | None:
        about = f"{self.engine} on {task}"
        with self._lock:
            if self._child is None:
                self._child = _Child()
            try:
                answer = self._child.ask(request, self.timeout)
            except BaseException as error:
                # Whatever it is doing now, its next answer would be to the wrong question.
                self._child.end()
                self._child = None
                if isinstance(error, TimeoutError):
                    raise TimeoutError(f"{about}: no plan within {self.timeout:g} s") from None
                raise
        if "error" in answer:
            raise PlannerError(f"{about}: {answer['error']}")
        return None if answer["plan"] is None else tuple(answer["plan"])


def _start(context: Context) -> int:
    """How many steps were accepted before the last run of rounds that were accepted whole.

    Such rounds may follow one plan. This is read off the records and not remembered, so a restored session goes on
    with the plan that it had.
    """
    length = len(context.accepted)
    for round in reversed(context.rounds):
        if not round.items or round.decision.emitted != round.items:
            break
        length -= len(round.items)
    return length


class _Child:
    """The process that plans: one line of JSON in, one out."""

    def __init__(self) -> None:
        # The child imports what this process can, however this process came by its path.
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
            "PYTHONHASHSEED": "0",
        }
        self._process = subprocess.Popen(
            [sys.executable, "-m", "draftverify_plan.planner_process"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
            encoding="utf-8",
        )
        self._answers: queue.Queue[str] = queue.Queue()
        threading.Thread(target=_read, args=(self._process.stdout, self._answers), daemon=True).start()
        self.end = weakref.finalize(self, _end, self._process)
        # Importing takes seconds on a cold disk, and is not the planner's doing.
        self._answers.get()

    def ask(self, request: dict[str, Any], timeout: float) -> dict[str, Any]:
        """The answer to one request.

        Raises:
            TimeoutError: the time is up.
            PlannerError: the process is gone.
        """
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
            line = self._answers.get(timeout=timeout)
        except queue.Empty:
            raise TimeoutError from None
        except OSError:
            line = ""
        if not line:
            raise PlannerError(f"the planner's process ended (code {self._process.wait()}); out of memory?")
        answer: dict[str, Any] = json.loads(line)
        return answer


def _read(lines: IO[str], answers: queue.Queue[str]) -> None:
    with lines:
        for line in lines:
            answers.put(line)
    answers.put("")


def _end(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.wait()
    with contextlib.suppress(OSError):  # what was not flushed yet has nobody to read it
        assert process.stdin is not None
        process.stdin.close()
