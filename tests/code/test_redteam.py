"""Hostile candidates: none is accepted, none escapes, none is left running, and the next candidate is unharmed."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from draftverify import Proposal, ResourceError, Task
from draftverify.kit import make_context
from draftverify_code.sandbox import CommandExit, Limits, Sandbox, SandboxCommand, Suite, SuiteFinding
from draftverify_code.stages.compile import Compile
from draftverify_code.stages.suites import Suites
from draftverify_code.stages.tests import Tests
from draftverify_code.stages.types import Types

from .redteam.blocks import (
    C_BAD,
    C_BOMBS,
    C_GOOD,
    C_PROGRAMS,
    FULL,
    PYTHON_BAD,
    PYTHON_BOMBS,
    PYTHON_GOOD,
    PYTHON_PROGRAMS,
)
from .redteam.differences import DIFFERENCES
from .redteam.escapes import COLLECTED, COSTS, ESCAPES, INCLUDES, LEGACIES
from .redteam.exhaustion import AMPLE, EXHAUSTIONS, HOGS
from .redteam.forgeries import FORGERIES, HONEST, NAIVES, SUITES
from .redteam.frames import AHEAD_OF_TIME, CHAIN, MUTATED, MUTATES, PEEKS
from .redteam.frameworks import FILES, FRAMEWORKS, RIGHT, WRONG
from .redteam.world import SECRET, World, state
from .redteam.written import ENDLESS, ENDS, WRITTEN

TIERS = ("bubblewrap", "namespaces", "landlock")
NO_TIER = "this machine does not allow this isolation tier"
SLACK = 5.0  # seconds beyond a limit, on a machine that does other things too
SMALL = Limits(wall=5.0, disk=1 << 20)
ROOMY = Limits(wall=40.0, cpu=40.0, files=200_000, disk=1 << 29)
FAIR = Limits(wall=20.0, cpu=20.0)
ASKS = (("error", "needs shared-process"), ("error", "refused"))
"""What the judge says that cannot judge apart, or of a program that was refused something: no verdict, so no pass."""
PYTHON = (sys.executable, "-I", "-S", "-c")
_numbers = itertools.count()


class Arena:
    """A sandbox of one tier, and the world around it."""

    def __init__(self, tier: str, world: World) -> None:
        self.tier = tier
        self.world = world
        self.count = 0  # processes that are the sandbox's own; 0 when that is not known
        self.box = self._open()

    def _open(self) -> Sandbox:
        box = Sandbox(isolation=self.tier, readable=[self.world.shown], workers=1)  # type: ignore[arg-type]
        box.open()
        return box

    def renew(self) -> None:
        """After a failure: nothing of it may reach the next test."""
        with contextlib.suppress(Exception):
            self.box.close()
        self.world.sweep_all()
        self.count = 0
        self.box = self._open()

    def run(self, code: str, limits: Limits = FAIR, **more: object) -> CommandExit:
        """A probe as a command."""
        code = f"{self.world.prelude()}{code}\nprint('|'.join(OUT))"
        return self.box.run([SandboxCommand((*PYTHON, code), limits=limits, **more)])[0]  # type: ignore[arg-type]

    def judge(self, program: str, limits: Limits = FAIR, suite: Suite = SUITES["asserts"]) -> SuiteFinding:
        return self.box.judge(suite, [program], limits)[0]

    def said(self, path: str, code: str, limits: Limits = FAIR) -> str:
        """What a probe told, as a command or as a candidate of the judge."""
        if path == "run":
            exit = self.run(code, limits)
            assert not exit.failure
            return (exit.stdout + exit.stderr).decode(errors="replace")
        # What does not cross is named, whatever else the probe did to its process or was refused.
        name = "'|'.join(dict.fromkeys(filter(None, OUT)))[-150:].replace(chr(0), ' ')"
        program = f"{self.world.prelude()}\ndef f(x):\n    exec({code!r}, globals())\n    return type({name}, (), {{}})()"
        check = self.judge(program, limits).check
        assert check.verdict == "reject" or "an object of type" in check.feedback or check.reason == "refused"
        return check.feedback

    def honest(self, path: str) -> None:
        """An honest command, or an honest program of the judge, passes."""
        n = next(_numbers)
        began = time.monotonic()
        if path == "judge":
            check = self.judge(f"{HONEST}# {n}\n").check
            assert check.verdict == "pass", check
        else:
            code = f"open('x', 'w').write('{n}'); import sys; print(open('x').read(), file=sys.stderr)"
            exit = self.box.run([SandboxCommand((*PYTHON, code), limits=FAIR)])[0]
            assert (exit.status, exit.stderr.decode(), exit.failure) == (0, f"{n}\n", "")
        assert time.monotonic() - began < SLACK

    @contextlib.contextmanager
    def unharmed(self, seconds: float, *paths: str) -> Iterator[None]:
        """What runs inside takes no longer, and leaves world, processes, harness and the next candidate as they were."""
        try:
            self.world.reset()
            if not self.count:
                for path in ("run", "judge"):
                    self.honest(path)
                self.count = self.world.steady()
            before = state()
            began = time.monotonic()
            yield
            assert time.monotonic() - began < seconds + SLACK
            assert self.world.changed() == ""
            for path in paths:
                self.honest(path)
            assert self.world.changed() == ""
            assert len(self.world.settled(self.count)) == self.count
            assert _zombies() == []
            assert state() == before
        except BaseException:
            self.renew()
            raise


def _zombies() -> list[int]:
    """Children of this process that have ended and were not waited for."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError), open(f"/proc/{pid}/stat", "rb") as file:
            status, parent = file.read().rpartition(b")")[2].split()[:2]
            if int(parent) == os.getpid() and status == b"Z":
                found.append(int(pid))
    return found


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    """One with no sandbox in it."""
    made = World()
    yield made
    made.sweep_all()
    made.close()


@pytest.fixture(scope="module")
def arenas(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Arena]]:
    """A sandbox of each tier, each in a world of its own."""
    tmp_path_factory.getbasetemp()  # before the place for temporary files is another one
    opened: dict[str, Arena] = {}
    yield opened
    for each in opened.values():
        each.box.close()
        left = each.world.settled(0), os.listdir(each.world.scratch)
        each.world.sweep_all()
        each.world.close()
        assert left == ([], []), f"what {each.tier} left after close"


@pytest.fixture
def arena(request: pytest.FixtureRequest, arenas: dict[str, Arena], monkeypatch: pytest.MonkeyPatch) -> Arena:
    tier = request.param
    world = arenas[tier].world if tier in arenas else World()
    monkeypatch.setattr(tempfile, "tempdir", str(world.scratch))
    monkeypatch.setenv(SECRET, world.canary)
    if tier not in arenas:
        try:
            arenas[tier] = Arena(tier, world)
        except ResourceError:
            world.close()
            pytest.skip(NO_TIER)
    return arenas[tier]


def each_tier(
    cases: object, tiers: tuple[str, ...] = (*TIERS, "none"), sweep: tuple[str, ...] = ()
) -> pytest.MarkDecorator:
    """Every case in every tier, some of them in the sweep alone; what a tier does not stop yet is expected to fail."""
    params = []
    for tier in tiers:
        for case in cases:  # type: ignore[attr-defined]
            if tier in getattr(case, "open", ()) or (tier == "none" and not getattr(case, "none", True)):
                continue
            hole = case.hole if isinstance(case.hole, str) else case.hole.get(tier, "")
            marks = [pytest.mark.xfail(strict=True, reason=hole)] if hole else []
            if tier in sweep:
                marks.append(pytest.mark.exhaustive)
            params.append(pytest.param(tier, case, id=f"{tier}-{case.name}", marks=marks))
    return pytest.mark.parametrize(("arena", "case"), params, indirect=["arena"])


def named(cases: object) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("case", [pytest.param(case, id=case.name) for case in cases])  # type: ignore[attr-defined]


# --- forged verdicts


@each_tier(FORGERIES, sweep=TIERS)  # the judge is the same in all
def test_no_forged_verdict_is_believed(arena, case):
    """A candidate that lies, leaves, patches, writes verdicts or looks for the tests is refused, for a reason that is true."""
    with arena.unharmed(10.0, "judge"):
        # What the judge makes of a form of tests does not depend on the tier.
        for name in case.suites if arena.tier == "none" else case.suites[:1]:
            check = arena.judge(case.program, suite=SUITES[name]).check
            refused = (check.verdict, check.reason in case.reasons) == (case.verdict, True)
            # What does not cross, or is changed, is no reason to refuse a program: the judge asks for one process.
            assert refused or (check.verdict, check.reason) in ASKS, (name, check)


@pytest.mark.exhaustive
@named([case for case in FORGERIES if case.fools is not None])
def test_a_judge_in_the_same_process_believes_it(case, naive, tmp_path):
    """The forgeries are real: a judge that shares its process with the candidate takes them for passes."""
    assert naive(tmp_path, case.program, SUITES[case.suites[0]].source) is case.fools


def test_the_judge_in_the_same_process_can_tell_right_from_wrong(naive, tmp_path):
    """It believes an honest program and refuses a wrong one, so that what it believes of the others says something."""
    for name in ("check", "script", "library", "unittest"):
        (tmp_path / name).mkdir()
        assert naive(tmp_path / name, HONEST, SUITES[name].source)
        assert not naive(tmp_path / name, "def f(x): return 0", SUITES[name].source)


@pytest.fixture(scope="module")
def naive() -> Iterator[Callable[[Path, str, str], bool]]:
    """Whether a judge that shares its process with the candidate takes a program for right."""
    process = subprocess.Popen(
        [sys.executable, "-c", NAIVES],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdin
    assert process.stdout

    def judge(place: Path, program: str, tests: str) -> bool:
        (place / "program.py").write_text(program)
        (place / "tests.py").write_text(tests)
        print(place, file=process.stdin, flush=True)
        return bool(json.loads(process.stdout.readline()))

    with process:
        yield judge


@pytest.mark.parametrize("arena", TIERS[:1], indirect=True)
def test_no_stand_in_answers_for_the_program(arena):
    """What plain Python refuses, no judge in another process passes: it rejects, or asks for one process."""
    with arena.unharmed(0.3 * len(DIFFERENCES), "judge"):
        found = {case.name: stand_in(arena, case) for case in DIFFERENCES}
        wrong = {name: check for name, check in found.items() if not refused(check)}
        assert wrong.keys() == {case.name for case in DIFFERENCES if case.hole}, wrong


@pytest.mark.exhaustive
@each_tier(DIFFERENCES)
def test_no_stand_in_leaves_anything(arena, case):
    """The same for each, and for the next candidate."""
    with arena.unharmed(10.0, "judge"):
        check = stand_in(arena, case)
        assert refused(check), check


def stand_in(arena, case):
    return arena.judge(case.program, suite=Suite("script", ("f",), source=case.tests)).check


def refused(check):
    return check.verdict == "reject" or (check.verdict, check.reason) in ASKS


@pytest.mark.exhaustive
@named(DIFFERENCES)
def test_plain_python_refuses_it(case, naive, tmp_path):
    """The differences are real: tests and program in one process end in an exception."""
    assert not naive(tmp_path, case.program, case.tests)


@each_tier(PEEKS, sweep=("namespaces", "landlock", "none"))
def test_no_candidate_sees_the_calls_of_another(arena, case):
    """What was asked of the ones before, and answered, is not in the process of the next."""
    with arena.unharmed(10.0, "judge"):
        _, finding = arena.box.judge(CHAIN, [case.before, case.program], FAIR)
        assert finding.check.verdict == "reject"
        assert finding.passed[:3] == (False, False, False)


def test_calls_that_lie_in_its_process_are_seen(tmp_path):
    """The candidate that looks for them is real."""
    done = subprocess.run(
        [*PYTHON, PEEKS[0].program + AHEAD_OF_TIME], cwd=tmp_path, capture_output=True, timeout=20
    )
    assert done.stdout.split() == [b"100913", b"101344"], done


@pytest.mark.parametrize("arena", TIERS[:1], indirect=True)
@pytest.mark.parametrize("kind", MUTATED)
def test_no_changed_frame_is_a_pass(arena, kind):
    """A sample of all changes to an answer: each is refused in time, and the judge goes on."""
    _mutate(arena, kind, [*range(0, 600, 40), *range(601, 6000, 401)])


@pytest.mark.exhaustive
@pytest.mark.parametrize("arena", ["none", *TIERS], indirect=True)
@pytest.mark.parametrize("kind", MUTATED)
def test_no_changed_frame_at_all_is_a_pass(arena, kind):
    """Every seventh of them."""
    _mutate(arena, kind, range(0, 14_000, 7))


def _mutate(arena, kind, numbers):
    numbers = list(numbers)
    with arena.unharmed(0.3 * len(numbers), "judge"):
        programs = [f"N, KIND = {number}, {kind!r}\n{MUTATES}" for number in numbers]
        for number, found in zip(numbers, arena.box.judge(MUTATED[kind], programs, FAIR), strict=True):
            check = found.check
            assert refused(check), (number, check)
            assert found.seconds < SLACK, number


@pytest.mark.parametrize("arena", TIERS[2:], indirect=True)
def test_no_answer_written_by_hand_is_a_pass(arena):
    """Forged classes, objects, numbers and changes: what they say is not believed, and the next is judged as ever."""
    with arena.unharmed(0.3 * len(WRITTEN), "judge"):
        found = {case.name: arena.judge(case.program, ENDS, case.suite).check for case in WRITTEN}
        wrong = {name: check for name, check in found.items() if not refused(check)}
        assert wrong.keys() == {case.name for case in WRITTEN if case.hole}, wrong


@pytest.mark.exhaustive
@each_tier([*WRITTEN, *ENDLESS])
def test_no_answer_written_by_hand_harms_the_next(arena, case):
    """The same for each, with those that take all the time there is: a right program passes then, a wrong one does not."""
    with arena.unharmed(3 * ENDS.wall + 2.0, "judge"):
        check = arena.judge(case.program, ENDS, case.suite).check
        assert refused(check) or check.verdict == "timeout", check
        assert arena.judge("def f(x): return 0").check.verdict == "reject"


@pytest.mark.parametrize(
    "arena",
    [TIERS[0], *(pytest.param(each, marks=pytest.mark.exhaustive) for each in (*TIERS[1:], "none"))],
    indirect=True,
)
def test_no_pass_that_is_not_deserved_is_unmarked(arena):
    """Judged in one process where that is needed, a program can forge; then its word, and the block's, say where it was."""
    forged = [(case.program, SUITES[name]) for case in FORGERIES for name in case.suites[:1]]
    stage = Tests(arena.box, timeout=5.0)
    with arena.unharmed(5.0 * len(forged)):
        for suite in {id(suite): suite for _, suite in forged}.values():
            task = Task(id="redteam", input=_as_task(suite))
            programs = [program for program, its in forged if its is suite]
            verification = stage.verify(make_context(task), Proposal.alternatives([*programs, HONEST]))
            *checks, honest = verification.checks
            assert (honest.verdict, honest.caveat) == ("pass", "")
            marked = {check.caveat for check in checks if check.verdict == "pass"}
            assert marked <= {"shared-process"}
            if marked:
                assert verification.notes["integrity"] == "mixed"


def _as_task(suite):
    return {"entry_point": "f", "test": suite.source} if suite.source else {"test_list": list(suite.asserts)}


# --- escapes


@each_tier(ESCAPES, TIERS, sweep=("namespaces",))  # which is what bubblewrap stands on
def test_no_probe_gets_out(arena, case):
    """What a probe reads, writes, connects to, signals or asks of the kernel outside is denied to it."""
    with arena.unharmed(10.0, "run", "judge"):
        for path in ("run", "judge"):
            assert not arena.world.told(arena.said(path, case.code)), path


@pytest.mark.exhaustive
@pytest.mark.parametrize("arena", ["none"], indirect=True)
@named(ESCAPES)
def test_with_no_isolation_the_probe_gets_out(arena, case, tmp_path):
    """The probes are real: in a plain child process they succeed, and with isolation "none" too."""
    world = arena.world

    def plain() -> str:
        code = f"{world.prelude()}{case.code}\nprint('|'.join(OUT))"
        done = subprocess.run([*PYTHON, code], cwd=tmp_path, capture_output=True, close_fds=False, timeout=20)
        return (done.stdout + done.stderr).decode(errors="replace")

    def succeeds(attempt) -> bool:
        world.reset()
        output = attempt()
        return world.told(output) or bool(world.changed_soon(0.3))

    try:
        possible = succeeds(plain)
        assert possible or case.maybe
        for path in ("run", "judge"):
            assert succeeds(lambda path=path: arena.said(path, case.code)) is (possible and case.none), path
        world.reset()
    except BaseException:
        arena.renew()
        raise


@pytest.mark.parametrize(
    ("arena", "case"),
    [pytest.param(tier, case, id=f"{tier}-{case.name}") for case in ESCAPES for tier in case.open],
    indirect=["arena"],
)
def test_the_documented_gaps_are_what_is_documented(arena, case):
    """What a tier does not hide by its nature, docs/code.md says; when it does, the docs are to change."""
    with arena.unharmed(10.0, "run"):
        assert arena.world.told(arena.said("run", case.code))


@each_tier(INCLUDES, TIERS)
def test_a_compiler_reads_nothing_outside(arena, case):
    """No include, .incbin or .include brings a file's content into a message or an object."""
    with arena.unharmed(20.0, "run"):
        exit = _compile(arena, case)
        assert not exit.failure
        assert arena.world.canary not in _all_of(exit)


@pytest.mark.exhaustive
@pytest.mark.parametrize("arena", ["none"], indirect=True)
@named(INCLUDES)
def test_with_no_isolation_a_compiler_reads_outside(arena, case):
    """The sources are real."""
    arena.world.reset()
    assert arena.world.canary in _all_of(_compile(arena, case))


def _compile(arena, case) -> CommandExit:
    if shutil.which("cc") is None:
        pytest.skip("this machine has no C compiler")
    outside = str(arena.world.outside)
    source = case.source.replace("{outside}", outside).replace("{dots}", "../" * 12 + outside[1:])
    command = SandboxCommand(
        ("cc", "-c", case.file, "-o", "out.o"), {case.file: source.encode()}, collect=("out.o",), limits=FAIR
    )
    return arena.box.run([command])[0]


def _all_of(exit: CommandExit) -> str:
    return b"\n".join((exit.stdout, exit.stderr, *exit.files.values())).decode("latin-1")


@each_tier(COLLECTED, sweep=("namespaces", "landlock"))  # the keeper is the same in all
def test_only_files_of_the_scratch_directory_are_collected(arena, case):
    """A link, a pipe, a directory or a file that is too large is not brought back; nothing waits for it."""
    with arena.unharmed(10.0, "run"):
        exit = arena.run(case.code, SMALL, collect=("out", "d/out", "honest"))
        assert not exit.failure
        assert exit.files == {"honest": b"x"}


@each_tier(LEGACIES, sweep=("namespaces", "landlock"))
def test_the_next_candidate_finds_nothing(arena, case):
    """Files, modes, processes, patches and rules of one candidate are gone when the next one starts."""
    with arena.unharmed(20.0, *case.paths):
        for path in case.paths:
            arena.said(path, case.first, SMALL)
            assert not arena.world.told(arena.said(path, case.then, SMALL)), path


@pytest.mark.exhaustive
@named([case for case in LEGACIES if case.proof])
def test_in_one_process_the_next_would_find_it(case, world, tmp_path):
    """What they leave is real: code that runs after them in the same process and directory finds it."""
    world.reset()
    code = f"{world.prelude()}{case.first}{case.then}\nprint('|'.join(OUT))"
    done = subprocess.run([*PYTHON, code], cwd=tmp_path, capture_output=True, timeout=20)
    assert world.token in done.stdout.decode()


@each_tier([each for each in COSTS if not each.whole], sweep=("bubblewrap", "namespaces", "none"))
def test_the_next_candidate_has_its_whole_time(arena, case):
    """What one leaves is removed on nobody's time but the harness's."""
    _cost(arena, case)


@pytest.mark.exhaustive
@each_tier([each for each in COSTS if each.whole])
def test_the_next_candidate_has_its_whole_time_whatever_was_left(arena, case):
    """The same with a hundred times as much."""
    _cost(arena, case)


def _cost(arena, case):
    with arena.unharmed(240.0 if case.whole else 60.0):
        for path in ("run", "judge"):
            arena.said(path, case.code, ROOMY)
            check = arena.judge(HONEST, Limits(wall=2.0)).check
            assert check.verdict == "pass", (path, check)


# --- exhaustion


@each_tier(
    EXHAUSTIONS, sweep=("bubblewrap", "namespaces", "none")
)  # test_sandbox has each limit in every tier
def test_no_candidate_uses_up_the_machine(arena, case):
    """What takes more than its limits is ended for the right one, with all that it started."""
    with arena.unharmed(case.limits.wall, "run"):
        exit = arena.run(case.code, case.limits)
        assert not exit.failure
        assert exit.limit in case.limit, exit
        assert arena.world.token.encode() not in exit.stdout
        assert len(exit.stdout) <= case.limits.output
        assert len(exit.stderr) <= case.limits.output


@pytest.mark.exhaustive
@pytest.mark.parametrize("arena", ["none"], indirect=True)
@named([case for case in EXHAUSTIONS if case.proof == "aim"])
def test_with_ample_limits_it_reaches_its_aim(arena, case):
    """They are real: it is the limits that stop them."""
    try:
        exit = arena.run(case.code, AMPLE)
        assert arena.world.token.encode() in exit.stdout, exit
    except BaseException:
        arena.renew()
        raise


@pytest.mark.exhaustive
@named([case for case in EXHAUSTIONS if case.proof in ("stays", "leaves")])
def test_in_a_plain_process_it_stays(case, world, tmp_path):
    """They are real: by itself it would go on, or leave something that does."""
    code = world.prelude() + case.code
    process = subprocess.Popen(
        [*PYTHON, code],
        cwd=tmp_path,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        if case.proof == "leaves":
            assert process.wait(10) == 0
            assert any(world.probes() for _ in range(100))
        else:
            with pytest.raises(subprocess.TimeoutExpired):
                process.wait(0.3)
            if "signals" in case.name:
                process.terminate()
                with pytest.raises(subprocess.TimeoutExpired):
                    process.wait(0.1)
    finally:
        process.kill()
        process.wait()
        world.sweep()
        assert not world.probes()


@each_tier(HOGS, sweep=("namespaces", "landlock", "none"))
def test_no_candidate_holds_up_the_judge(arena, case):
    """A candidate that does not answer, or answers with what takes long to read, has its limits' time and no more."""
    with arena.unharmed(2 * case.limits.wall, "judge"):
        check = arena.judge(case.program, case.limits, SUITES["check"]).check
        if (check.verdict, check.reason) not in ASKS:
            assert check.verdict in case.verdict, check
            assert check.reason in case.reasons, check


# --- programs in one block


@contextlib.contextmanager
def stage_box(arena, packages=(), readable=()):
    """A sandbox for a stage, in the arena's world."""
    with Sandbox(isolation=arena.tier, packages=packages, readable=readable, workers=1) as box:
        box.open()
        yield box


def block(arena, stage, between, good, bad):
    """The words on hostile programs, each between an honest one and one with a fault, which have theirs as ever."""
    arena.world.reset()
    programs = [good + "\n"]
    for number, each in enumerate(between):
        programs += [each.program.replace("{outside}", str(arena.world.outside)), bad + "\n" * number]
    found = stage.verify(make_context(), Proposal.alternatives([*programs, good])).checks
    assert (found[0].verdict, found[-1].verdict) == ("pass", "pass")
    assert {check.verdict for check in found[2:-1:2]} == {"reject"}
    assert arena.world.canary not in repr(found)
    assert arena.world.changed() == ""
    words = dict(zip((each.name for each in between), found[1:-1:2], strict=True))
    wrong = {each.name: words[each.name] for each in between if words[each.name].verdict not in each.verdict}
    assert wrong == {}


def each_place(everyday):
    """One tier every day, all of them in the sweep."""
    tiers = ("none", *TIERS)
    marks = {tier: [] if tier in everyday else [pytest.mark.exhaustive] for tier in tiers}
    return pytest.mark.parametrize(
        "arena", [pytest.param(each, marks=marks[each]) for each in tiers], indirect=True
    )


@each_place(TIERS[:1])
def test_no_c_program_reaches_another(arena):
    """Nor its files, nor the machine's, nor its own word."""
    if shutil.which("cc") is None:
        pytest.skip("this machine has no C compiler")
    # A file outside is there for all where there is no isolation.
    outside = [each for each in C_PROGRAMS if arena.tier != "none" or "{outside}" not in each.program]
    block(arena, Compile(sandbox=arena.box), outside, C_GOOD, C_BAD)
    arena.renew()


@each_place(TIERS[1:2])
def test_a_full_disk_is_no_word_on_a_program(arena):
    """What one object leaves no room for is compiled as it is alone."""
    if shutil.which("cc") is None:
        pytest.skip("this machine has no C compiler")
    stage = Compile(sandbox=arena.box)
    found = stage.verify(make_context(), Proposal.alternatives(FULL)).checks
    assert [check.verdict for check in found] == ["pass"] * 3 + ["error", "pass", "pass", "reject"]


@pytest.mark.exhaustive
@each_place(())
def test_no_c_program_uses_up_the_others_time(arena):
    """Each has the compiler's time for itself, also one that waits."""
    if shutil.which("cc") is None:
        pytest.skip("this machine has no C compiler")
    with arena.unharmed(8.0 * len(C_BOMBS)):
        block(arena, Compile(timeout=1, sandbox=arena.box), C_BOMBS, C_GOOD, C_BAD)


@each_place(TIERS[:1])
def test_no_python_program_speaks_to_a_type_checker(arena):
    """Called like a configuration, a plugin, a stub or a finding, it is a program like the others."""
    with stage_box(arena, ["mypy"], ()) as box:
        block(arena, Types(box), PYTHON_PROGRAMS, PYTHON_GOOD, PYTHON_BAD)


@pytest.mark.exhaustive
@each_place(())
@pytest.mark.parametrize("case", [pytest.param(case, id=case.name) for case in PYTHON_BOMBS])
def test_no_python_program_keeps_a_type_checker_busy(arena, case):
    """One that takes the checker's time has its own limit, and the others their word."""
    with stage_box(arena, ["mypy"], ()) as box:
        began = time.monotonic()
        block(arena, Types(box), [case], PYTHON_GOOD, PYTHON_BAD)
        assert time.monotonic() - began < 90  # it alone takes 20, and the block is tried in parts


# --- programs beside their own tests


@each_place(TIERS[:1])
@pytest.mark.parametrize("runner", ["unittest", pytest.param("pytest", marks=pytest.mark.exhaustive)])
def test_no_program_beside_its_tests_passes_unmarked(arena, runner):
    """Each is refused but those that docs/code.md says can forge; what passes is marked, and the next is unharmed."""
    task = Task(id="calc", input={"files": {**FILES[runner], "calc.py": WRONG}, "target": "calc.py"})
    with stage_box(arena, ["pytest"]) as box:
        programs = [RIGHT, *(each.program for each in FRAMEWORKS), WRONG, RIGHT + "\n"]
        verification = Suites(box, runner, timeout=10.0).verify(
            make_context(task), Proposal.alternatives(programs)
        )
    first, *found, wrong, last = verification.checks
    assert (first.verdict, wrong.verdict, last.verdict) == ("pass", "reject", "pass")
    assert verification.notes["integrity"] == "shared-process"
    passed = {each.name for each, check in zip(FRAMEWORKS, found, strict=True) if check.verdict == "pass"}
    assert passed <= {each.name for each in FRAMEWORKS if runner in each.forges}
    assert arena.world.changed() == ""
