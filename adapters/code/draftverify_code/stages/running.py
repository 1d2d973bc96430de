"""What the running stages share: which sandbox, how much of a block at once, and what an abnormal end means."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, cached_property, lru_cache
from importlib import metadata
from math import inf
from pathlib import Path
from typing import Any, ClassVar, Literal

from msgspec.structs import replace

from draftverify import UNCHECKED, Check, ConfigError, Context, ContractError, Proposal, Verification
from draftverify.traits import EvidenceKind, VerifierTraits
from draftverify_code.program import program_of
from draftverify_code.sandbox.host import Sandbox, default_sandbox, usable_cores
from draftverify_code.sandbox.jobs import MIB, CommandExit, Integrity, Limits
from draftverify_code.sandbox.paths import WIDELY_USED
from draftverify_code.sandbox.words import used

FEEDBACK = 2000
"""Characters of feedback that one check carries at most."""
NAMED = 5  # failed tests that it names beside the first
LEAST_MEMORY = 32
"""MiB. With 16 an interpreter that runs tests beside a program does not start."""
SHARED: Integrity = "shared-process"
"""Also the caveat of what was found in one process with the program, which could have reached its verdict."""


class Sandboxed:
    """A stage that runs programs: in the sandbox that it was given, or in a shared one."""

    sandbox: Sandbox | None
    stage: ClassVar[str]
    """Its name, in checks and tables."""
    evidence: ClassVar[frozenset[EvidenceKind]] = frozenset({"verdicts", "scores"})

    @cached_property
    def traits(self) -> VerifierTraits:
        """Verdicts; with scores where these are the share of passed tests."""
        return VerifierTraits(
            name=self.stage, provides=self.evidence, reads=frozenset(), at_once=self.at_once
        )

    @property
    def at_once(self) -> int:
        """How many programs run beside each other; where few are enough, as many are begun before one is known."""
        return self.sandbox.at_once if self.sandbox is not None else usable_cores()

    def open(self) -> None:
        """Open the sandbox that was given."""
        if self.sandbox is not None:
            self.sandbox.open()

    def close(self) -> None:
        """Close it."""
        if self.sandbox is not None:
            self.sandbox.close()


class NoTests(ContractError):
    """The task has nothing that the stage could run; the message says what it would need. Stages abstain from it."""


def abstained(proposal: Proposal, stage: str, why: ContractError) -> Verification:
    """What a stage returns that has nothing to say of a task: another stage, or nobody, judges its programs."""
    return Verification(checks=(Check("abstain", feedback=str(why), stage=stage),) * len(proposal))


def sandbox_for(sandbox: Sandbox | None, packages: Iterable[str] = ()) -> Sandbox:
    """The stage's own sandbox, or the shared one that shows these packages."""
    return default_sandbox(tuple(dict.fromkeys(packages)), ()) if sandbox is None else sandbox


@cache
def script(name: str) -> str:
    """The text of a file of this package that runs in a sandbox."""
    return (Path(__file__).parent.parent / name).read_text(encoding="utf-8")


def limits_of(
    timeout: float,
    memory: int,
    output: int = MIB,
    per_test: float | None = None,
    processes: int = Limits().processes,
    threads: int = Limits().threads,
) -> Limits:
    """Limits of `timeout` seconds (of the clock and of the processor) and `memory` MiB.

    Raises:
        ConfigError: they are no numbers, or such as no program can keep.
    """
    for name, count in (("processes", processes), ("threads", threads)):
        if isinstance(count, bool) or not isinstance(count, int) or count < 1:
            raise ConfigError(f"{name} is {count!r:.80}; a whole number of at least 1 is needed", path=name)
    if isinstance(timeout, bool) or not isinstance(timeout, (int, float)) or not 0 < timeout < inf:
        raise ConfigError(
            f"timeout is {timeout!r:.80}; a number of seconds above 0 is needed", path="timeout"
        )
    if isinstance(memory, bool) or not isinstance(memory, int) or memory < LEAST_MEMORY:
        message = f"memory is {memory!r:.80}; a whole number of MiB is needed, at least {LEAST_MEMORY}"
        raise ConfigError(message, path="memory")
    return Limits(
        wall=timeout,
        cpu=timeout,
        memory=memory * MIB,
        output=output,
        processes=processes,
        threads=threads,
        each=per_test,
    )


def seconds_of(fields: Mapping[str, Any], timeout: float) -> float:
    """How long a task's tests may take: its own `timeout` where it has one, else the stage's.

    Args:
        fields: the task's input.
        timeout: the stage's.

    Raises:
        ContractError: it is no number of seconds above 0.
    """
    seconds = fields.get("timeout")
    if seconds is None:
        return timeout
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not 0 < seconds < inf:
        raise ContractError(f"a task's `timeout` should be a number of seconds above 0, not {seconds!r:.80}")
    return float(seconds)


def verified(
    context: Context,
    proposal: Proposal,
    sandbox: Sandbox,
    stage: str,
    integrity: Integrity | Literal["auto"],
    check: Callable[[list[str]], Sequence[Check]],
) -> Verification:
    """Check a block's programs, equal ones once.

    Args:
        context: of the call; with `enough` the block is taken in pieces of as many programs as the sandbox runs at
            once.
        proposal: the block.
        sandbox: where they run.
        stage: the name that the checks carry.
        integrity: how far the program could reach the verdict; as the checks say when "auto".
        check: one pass over some programs.

    Returns:
        A verification whose checks after the `enough`-th passed one are "unchecked", whatever was found of them.
    """
    programs = [program_of(item, context.task.input) for item in proposal.items]
    checks = list(_once(programs, check, context.enough, sandbox.at_once))
    if integrity == SHARED:
        checks = list(map(weakened, checks))
    notes = {
        "isolation": sandbox.tier,
        "integrity": integrity_of(checks) if integrity == "auto" else integrity,
    }
    named = (check if check is UNCHECKED else replace(check, stage=stage) for check in checks)
    return Verification(checks=tuple(named), notes=notes)


def _once(
    programs: Sequence[str],
    check: Callable[[list[str]], Sequence[Check]],
    enough: int | None,
    width: int,
) -> Iterable[Check]:
    """The check of each program, equal ones checked once.

    Args:
        programs: of a block.
        check: one pass over some programs.
        enough: once so many passed the others are left "unchecked"; None for all.
        width: with `enough`, how many programs a pass gets.
    """
    checks: dict[str, Check] = {}
    waiting = list(dict.fromkeys(programs))
    passed = 0
    for program in programs:
        if enough is not None and passed >= enough:
            yield UNCHECKED
            continue
        if program not in checks:
            size = len(waiting) if enough is None else width
            piece, waiting = waiting[:size], waiting[size:]
            checks |= zip(piece, check(piece), strict=True)
        yield checks[program]
        passed += checks[program].verdict == "pass"


def integrity_of(checks: Iterable[Check]) -> Integrity:
    """Where the programs of a block were judged, as their checks say."""
    weak = [bool(check.caveat) for check in checks if check.verdict in _JUDGED]
    return SHARED if weak and all(weak) else "mixed" if any(weak) else "separate-process"


_JUDGED = ("pass", "reject", "timeout")


def weakened(check: Check) -> Check:
    """The check of a program that ran in one process with what judged it."""
    return replace(check, caveat=SHARED) if check.verdict in _JUDGED else check


def abnormal(ended: CommandExit, limits: Limits) -> Check | None:
    """The check of a run that did not end by itself; None when it did, with whatever status.

    A program that used up what it may use has failed. One that was ended before it had its time, since the machine
    kept it from the processor for much longer, is a timeout: nothing is known of it.
    """
    if ended.failure:
        return Check("error", reason="sandbox", feedback=capped(ended.failure))
    match ended.limit:
        case "wall" | "cpu":
            spent = ended.seconds, ended.cpu, ended.waited
            seconds = limits.wall if ended.limit == "wall" else limits.cpu
            kind = "" if ended.limit == "wall" else " of processor time"
            machines = ended.limit == "wall" and max(ended.seconds - ended.waited, ended.cpu) < limits.wall
            message = f"it ran longer than {seconds:g} s{kind} ({used(*spent)})"
            return Check("timeout" if machines else "reject", reason=ended.limit, feedback=message)
        case "memory":
            message = f"it used more than {limits.memory // MIB} MiB of memory"
        case "disk":
            message = f"it wrote more than {limits.disk // MIB} MiB, or {limits.files} files"
        case "processes":
            message = f"it ran more than {limits.processes} processes, or {limits.threads} threads"
        case _ if ended.status is not None:
            return None
        case _:
            output = (ended.stdout + ended.stderr).decode(errors="replace")
            message = capped(f"it was ended by signal {ended.signal}\n{output}".strip())
    return Check("reject", reason=ended.limit or "exit", feedback=message)


def also_failed(check: Check, tests: Sequence[str]) -> Check:
    """A rejection whose feedback names further tests that failed."""
    if check.verdict != "reject" or not tests:
        return check
    more = f" and {len(tests) - NAMED} more" if len(tests) > NAMED else ""
    feedback = f"{check.feedback}\nalso failed: {', '.join(tests[:NAMED])}{more}"
    return replace(check, feedback=feedback)


def capped(text: str, most: int = FEEDBACK) -> str:
    """The text, or its beginning and its end."""
    if len(text) <= most:
        return text
    half = (most - 5) // 2
    return f"{text[:half]}\n…\n{text[len(text) - half :]}"


def numpy_for(programs: Iterable[str]) -> set[str]:
    """NumPy, which a shared sandbox shows where a program imports it."""
    return {"numpy"}.intersection(imported(program for program in programs if "numpy" in program))


def imported(sources: Iterable[str], local_files: Iterable[str] = ()) -> tuple[str, ...]:
    """Installed distributions that Python sources import.

    Args:
        sources: Python; what does not parse counts as importing nothing.
        local_files: paths of files beside them, which are no installed packages.
    """
    local = {part.removesuffix(".py") for path in local_files for part in path.split("/")}
    names: set[str] = set()
    for source in sources:
        try:
            tree = ast.parse(source)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                names |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                names.add(node.module.split(".")[0])
    names -= local | sys.stdlib_module_names
    if not names:
        return ()
    distributions = _distributions()
    return tuple(sorted({distributions[name][0] for name in names if name in distributions}))


@lru_cache(maxsize=1)
def _distributions() -> dict[str, list[str]]:
    return dict(metadata.packages_distributions())


def lacking(text: str) -> str:
    """What to do about what failed for a package which the sandbox does not show; "" when none is named."""
    named = _PACKAGE.search(text)
    if named is None:
        return ""
    module = next(filter(None, named.groups()))
    names = _distributions().get(module)
    if names is None:
        return f"; {module} is not installed"
    return f"; add {names[0]} to the sandbox's `packages`"


_PACKAGE = re.compile(
    r"No module named '(\w+)|Permission denied: '[^']*/(?:site|dist)-packages/(\w+)|the program import (\w+)"
)


def denied(errors: str, score: float | None = None) -> Check:
    """The error of a program that wanted what the sandbox does not give it, in the words of its exception."""
    message = f"the sandbox refused what the program asks for. {capped(errors)}{lacking(errors)}"
    return Check("error", score, "refused", message)


def denied_at_end(errors: str) -> Check | None:
    """The same of a Python process, by its standard error; None where it did not end for that."""
    last_line = errors.rpartition("\n")[2]
    return denied(errors) if "Traceback (most recent" in errors and is_refusal(last_line) else None


def is_refusal(text: str) -> bool:
    """Whether a program's exception is the sandbox's doing: a package that it does not show, a call that it refuses."""
    named = re.search(r"No module named '(\w+)", text)
    if named is not None:
        return named[1] in WIDELY_USED or named[1] in _distributions()
    return re.search(r"\[Errno (?:1|13|30|38)\]|can't start new thread", text) is not None
