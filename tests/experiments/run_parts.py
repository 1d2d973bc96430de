"""Scripted parts for runs under real executors: slow when told to be, sometimes failing, and the same every time."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from hashlib import blake2b
from pathlib import Path
from typing import Any

from draftverify import (
    Check,
    ConfigError,
    Context,
    Cost,
    Explanation,
    Proposal,
    ResourceError,
    Task,
    Verification,
)
from draftverify.traits import GeneratorTraits, VerifierTraits

LENGTH = 8


def expected(task: str, position: int) -> int:
    """The value that stands at a position of a task's answer."""
    return blake2b(f"{task}/{position}".encode(), digest_size=1).digest()[0]


class Guess:
    """Drafts the next values, each right with the given chance.

    Args:
        chance: that an item is right.
        seconds: to sleep at each call.
        crash: tasks at which the process dies.
        once: a file that is made before the process dies, and that keeps it from dying again.
        log: a file to which a line is added at each call.
    """

    traits = GeneratorTraits(shape="chain")

    def __init__(
        self,
        chance: float = 0.7,
        seconds: float = 0.0,
        crash: tuple[str, ...] = (),
        once: Path | None = None,
        log: Path | None = None,
    ) -> None:
        self.chance = chance
        self.seconds = seconds
        self.crash = crash
        self.once = once
        self.log = log

    def propose(self, context: Context, n: int) -> Proposal:
        """Values after those accepted."""
        time.sleep(self.seconds)
        task = context.task.id
        if self.log is not None:
            with open(self.log, "a") as log:
                log.write(f"{os.getpid()} {task} {context.round} {len(context.memory.records)}\n")
        if task in self.crash and context.round == 1 and not (self.once and self.once.exists()):
            if self.once:
                self.once.touch()
            os._exit(9)
        start = len(context.accepted)
        right = [u < self.chance for u in context.draws.uniforms(range(n))]
        items = [expected(task, start + i) if right[i] else -1 - i for i in range(n)]
        return Proposal.chain(items[: LENGTH - start], cost=Cost(0.001 * n))


class Check1:
    """Passes right values; offers the right one where the first wrong one stood.

    Args:
        seconds: to sleep at each call.
        broken: tasks at which it raises.
        splice: offer the right value.
    """

    def __init__(self, seconds: float = 0.0, broken: tuple[str, ...] = (), splice: bool = True) -> None:
        self.seconds = seconds
        self.broken = broken
        self.splice = splice

    def verify(self, context: Context, proposal: Proposal) -> Verification:
        """One check per item."""
        time.sleep(self.seconds)
        if context.task.id in self.broken:
            raise RuntimeError("the checker is broken")
        start = len(context.accepted)
        checks: list[Check] = []
        for index, item in enumerate(proposal.items):
            if any(check.verdict == "reject" for check in checks):
                checks.append(Check("unchecked"))
                continue
            right = item == expected(context.task.id, start + index)
            checks.append(Check("pass") if right else Check("reject", None, "wrong", f"{item} is wrong"))
        kept = sum(check.verdict == "pass" for check in checks)
        correction = (expected(context.task.id, start + kept),) if self.splice and kept < len(checks) else ()
        if not checks:
            correction = (expected(context.task.id, start),)
        return Verification(checks=tuple(checks), correction=correction, cost=Cost(0.01, amount=1.0))

    def describe(self, values: Any) -> list[str]:
        """Numbers in words."""
        return [f"<{value}>" for value in values]

    def explain(self, task: Task, expected: Any, got: Any, settings: Any) -> Explanation:
        """Nothing much."""
        return Explanation("unexplained", f"{len(expected)} against {len(got)}")


class Mended(Check1):
    """The same, and what is broken is mended once a file is there, but for some tasks.

    Args:
        until: the file.
        always: tasks at which it raises all the same.
    """

    def __init__(
        self,
        until: Path,
        broken: tuple[str, ...] = (),
        always: tuple[str, ...] = (),
        seconds: float = 0.0,
        splice: bool = True,
    ) -> None:
        super().__init__(seconds, broken, splice)
        self.until = until
        self.always = always

    def verify(self, context: Context, proposal: Proposal) -> Verification:
        """One check per item."""
        mended = self.until.exists() and context.task.id not in self.always
        tested = Check1(self.seconds, () if mended else self.broken, self.splice)
        return tested.verify(context, proposal)


class Alone(Check1):
    """The same, and not to be called from two threads at once; says so when it is."""

    traits = VerifierTraits(concurrent=False)
    inside = 0

    def verify(self, context: Context, proposal: Proposal) -> Verification:
        """One check per item."""
        Alone.inside += 1
        try:
            if Alone.inside > 1:
                raise RuntimeError("two threads at once")
            return super().verify(context, proposal)
        finally:
            Alone.inside -= 1


class Missing(Check1):
    """The same, and cannot be opened."""

    def open(self) -> None:
        """Look for weights."""
        raise ResourceError("the weights are missing")


class Opened(Check1):
    """The same, and logs that it was opened.

    Args:
        log: a file to which a line is added each time.
    """

    def __init__(self, log: Path, seconds: float = 0.0) -> None:
        super().__init__(seconds)
        self.log = log

    def open(self) -> None:
        """Load heavy weights."""
        with open(self.log, "a") as log:
            log.write(f"{os.getpid()} {id(self)}\n")


class Unfitting(Guess):
    """The same, and refuses every verifier."""

    def check_verifier(self, verifier: Any) -> None:
        """Say what is wrong with it."""
        raise ConfigError("its type is another one", path="own_cache")


class Numbered:
    """So many tasks.

    Args:
        count: how many.
        groups: how many kinds.
    """

    def __init__(self, count: int, groups: int = 2, limit: int | None = None) -> None:
        self.count = count
        self.groups = groups
        self.limit = limit

    def load(self) -> list[Task]:
        """t0, t1, …"""
        count = self.count if self.limit is None else min(self.count, self.limit)
        return [Task(id=f"t{i}", input={"n": i}, group=f"g{i % self.groups}") for i in range(count)]


def is_whole(task: Task, outcome: Any) -> float:
    """Whether an answer came to its end."""
    return float(outcome.status == "accepted")


class Trial(Check1):
    """The same, and at some tasks it holds up its whole process, or ends it.

    Args:
        hang: tasks at which no other thread of the process runs any more either.
        die: tasks at which the process is killed, as it is when memory runs out.
        fell: tasks at which the process above it is killed: Ray takes an actor for the one that uses the memory.
        hog: tasks that take 200 MB.
        group: a control group that has less, which the process joins before.
        log: a file to which a line is added for each pass: the process, and the tasks that shared it.
        children: a file to which the number of a process is added that this one began before it was killed.
    """

    def __init__(
        self,
        seconds: float = 0.0,
        hang: tuple[str, ...] = (),
        die: tuple[str, ...] = (),
        fell: tuple[str, ...] = (),
        hog: tuple[str, ...] = (),
        group: str = "",
        log: Path | None = None,
        children: Path | None = None,
    ) -> None:
        super().__init__(seconds)
        self.hang = hang
        self.die = die
        self.fell = fell
        self.hog = hog
        self.group = group
        self.log = log
        self.children = children

    def verify(self, context: Context, proposal: Proposal) -> Verification:
        """One check per item."""
        return self.verify_many([context], [proposal])[0]

    def verify_many(self, contexts: list[Context], proposals: list[Proposal]) -> list[Verification]:
        """A pass for several tasks."""
        if self.log is not None:
            with open(self.log, "a") as log:
                log.write(f"{os.getpid()} {' '.join(context.task.id for context in contexts)}\n")
        for context in contexts:
            if context.task.id in self.hang:
                re.match(r"(a+)+$", "a" * 60 + "b")
            if context.task.id in self.die:
                if self.children is not None:
                    with open(self.children, "a") as children:
                        children.write(f"{subprocess.Popen(['sleep', '600']).pid}\n")
                os.kill(os.getpid(), signal.SIGKILL)
            if context.task.id in self.fell:
                os.kill(os.getppid(), signal.SIGKILL)
                time.sleep(60)
            if context.task.id in self.hog:
                Path(self.group, "cgroup.procs").write_text(str(os.getpid()))
                bytearray(200 << 20)
        pairs = zip(contexts, proposals, strict=True)
        return [super(Trial, self).verify(context, proposal) for context, proposal in pairs]
