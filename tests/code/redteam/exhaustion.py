"""Candidates that use up the machine, or do not end.

Each says the token when it reached its aim; with limits that allow it, and no isolation, it does. One that never ends on its
own has no aim but to be there still: it must survive a polite request to end.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from textwrap import dedent

import msgspec

from draftverify_code.sandbox import Limits

__all__ = ["AMPLE", "EXHAUSTIONS", "HOGS", "SHORT", "TIGHT", "Exhaustion", "Hog"]

MIB = 1 << 20
TIGHT = Limits(wall=4.0, cpu=4.0, memory=192 * MIB, output=MIB // 16, disk=8 * MIB, files=64, processes=12)
"""Enough for an honest candidate."""
SHORT = msgspec.structs.replace(TIGHT, wall=0.3)
"""For those that take all the time there is."""
AMPLE = Limits(
    wall=20.0, cpu=20.0, memory=2048 * MIB, output=64 * MIB, disk=512 * MIB, files=20_000, processes=400
)
"""Enough for every aim."""


@dataclass(frozen=True)
class Exhaustion:
    """A command's program.

    Args:
        name: of the test.
        code: after `World.prelude`; its output is sent when it ends.
        limits: under which it must fail.
        limit: for which it is ended; "" when the system refuses what it asks for; several where either may come first.
        proof: "aim": it says the token under ample limits; "stays": it outlives a polite request to end; "leaves": it
            leaves a process behind; "none": it hurts only itself.
        hole: why a tier does not stop it yet.
    """

    name: str
    code: str
    limit: tuple[str, ...] = ("",)
    limits: Limits = TIGHT
    proof: str = "aim"
    hole: dict[str, str] = field(default_factory=dict)


def hungry(name: str, code: str, *limit: str, limits: Limits = TIGHT, **more: object) -> Exhaustion:
    return Exhaustion(name, dedent(code).strip() + "\n", limit or ("",), limits, **more)  # type: ignore[arg-type]


def stays(name: str, code: str, *limit: str, limits: Limits = SHORT, **more: object) -> Exhaustion:
    return hungry(name, code, *(limit or ("wall",)), limits=limits, proof="stays", **more)


ALL = ("bubblewrap", "namespaces", "landlock", "none")
NO_QUOTA = "what is unlinked, or in a directory that cannot be read, is not counted; without mounts nothing else counts"

EXHAUSTIONS = [
    # memory
    hungry("memory of one process", "keep = bytearray(400 << 20); done()", "", "memory"),
    hungry(
        "memory of many processes",
        """
        import time
        for _ in range(6):
            if os.fork() == 0:
                keep = bytearray(os.urandom(1)) * (60 << 20)
                time.sleep(0.4); os._exit(0)
        for _ in range(6): os.wait()
        done()
        """,
        "memory",
        limits=Limits(wall=5.0, memory=192 * MIB, processes=12),
    ),
    hungry(
        "shared memory of many processes",
        """
        import mmap, time
        for _ in range(6):
            if os.fork() == 0:
                keep = mmap.mmap(-1, 60 << 20)
                for at in range(0, 60 << 20, 4096): keep[at] = 1
                time.sleep(0.4); os._exit(0)
        for _ in range(6): os.wait()
        done()
        """,
        "memory",
        limits=Limits(wall=5.0, memory=192 * MIB, processes=12),
    ),
    hungry(
        "memory of processes whose first thread has ended",
        """
        import threading, time
        def fill():
            time.sleep(0.1)
            keep = bytearray(os.urandom(1)) * (60 << 20)
            time.sleep(0.4); os._exit(0)
        for _ in range(6):
            if os.fork() == 0:
                threading.Thread(target=fill).start()
                syscall("exit", 0)
        for _ in range(6): os.wait()
        done()
        """,
        "memory",
        limits=Limits(wall=5.0, memory=192 * MIB, processes=24),
    ),
    hungry(
        "memory by brk and threads' stacks",
        """
        import threading, time
        threading.stack_size(64 << 20)
        for _ in range(10): threading.Thread(target=time.sleep, args=(0.1,)).start()
        done()
        """,
        "",
        "memory",
        "processes",
    ),
    # processes
    hungry(
        "forks",
        """
        import time
        for _ in range(60):
            if os.fork() == 0: time.sleep(0.4); os._exit(0)
        time.sleep(0.2)
        done()
        """,
        "",
        "processes",
    ),
    hungry(
        "forks that fork",
        """
        import time
        for _ in range(7): attempt(os.fork)
        time.sleep(0.3)
        count = sum(name.isdigit() for name in attempt(os.listdir, "/proc") or ())
        done(len(OUT) == 0 and count != 0)
        """,
        "",
        "processes",
        "memory",
        "wall",
        proof="none",
    ),
    hungry(
        "threads",
        """
        import threading, time
        for _ in range(100): threading.Thread(target=time.sleep, args=(0.3,)).start()
        done()
        """,
        "",
        "processes",
    ),
    hungry(
        "zombies",
        """
        import time
        for _ in range(60):
            if os.fork() == 0: os._exit(0)
        time.sleep(0.2)
        done()
        """,
        "",
        "processes",
    ),
    # files
    hungry(
        "many files",
        """
        import time
        for i in range(2000):
            open(f"f{i}", "w").close()
            if i % 100 == 0: time.sleep(0.005)
        time.sleep(0.1)
        done()
        """,
        "",
        "disk",
    ),
    hungry(
        "deep directories",
        """
        import time
        for i in range(1500): os.mkdir("d"); os.chdir("d")
        time.sleep(0.2)
        done()
        """,
        "",
        "disk",
        proof="none",
    ),
    hungry(
        "deep directories within the limit",
        """
        import time
        for i in range(1100): os.mkdir("d"); os.chdir("d")
        time.sleep(0.3)
        """,
        limits=Limits(wall=5.0, files=1200),
        proof="none",
    ),
    hungry(
        "a large file",
        "with open('f', 'wb') as file:\n    for _ in range(40): file.write(bytes(1 << 20)); file.flush()\ndone()",
        "",
        "disk",
    ),
    hungry("a sparse file", "with open('f', 'wb') as file: file.truncate(300 << 20)\ndone()", "", "disk"),
    hungry(
        "many large files",
        """
        import time
        for i in range(20):
            with open(f"f{i}", "wb") as file: file.write(bytes(2 << 20))
            time.sleep(0.01)
        done()
        """,
        "",
        "disk",
    ),
    hungry(
        "files without names",
        """
        import time
        keep = []
        for i in range(20):
            file = open(f"f{i}", "wb")
            os.unlink(f"f{i}")
            keep.append(file)
            file.write(bytes(2 << 20)); file.flush()
            time.sleep(0.01)
        time.sleep(0.1)
        done()
        """,
        "",
        "disk",
        hole=dict.fromkeys(("landlock", "none"), NO_QUOTA),
    ),
    hungry(
        "files in a directory that cannot be listed",
        """
        import time
        os.mkdir("d", 0o300)
        for i in range(20):
            with open(f"d/f{i}", "wb") as file: file.write(bytes(2 << 20))
            time.sleep(0.01)
        time.sleep(0.1)
        done()
        """,
        "",
        "disk",
    ),
    # output
    hungry(
        "a flood of output",
        "for _ in range(200):\n    os.write(1, b'x' * 65536); os.write(2, b'y' * 65536)\n",
        limits=Limits(wall=5.0, output=1000),
        proof="none",
    ),
    stays("output without an end", "while True: os.write(1, b'x' * 65536)"),
    hungry(
        "pipes that hold data",
        """
        import fcntl
        keep = [os.pipe() for _ in range(300)]
        done()
        """,
        proof="none",
    ),
    # time
    stays("sleeps", "import time; time.sleep(600)"),
    stays("loops", "while True: pass"),
    stays(
        "loops, and has little processor time",
        "import signal\nsignal.signal(signal.SIGXCPU, signal.SIG_IGN)\nwhile True: pass",
        "cpu",
        limits=Limits(wall=8.0, cpu=1.0),
    ),
    stays("a regular expression", "import re; re.match('(a+)+$', 'a' * 60 + 'b')"),
    stays("a power", "9 ** 9 ** 9 % 7"),
    stays(
        "ignores signals",
        """
        import signal, time
        for number in set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP}: signal.signal(number, signal.SIG_IGN)
        while True: time.sleep(1)
        """,
    ),
    stays(
        "blocks signals",
        "import signal, time\nsignal.pthread_sigmask(signal.SIG_BLOCK, set(signal.Signals))\ntime.sleep(600)",
    ),
    stays(
        "executes itself",
        "import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nos.execv('/bin/sh', ['sh', '-c', 'while :; do :; done', W['root']])",
    ),
    stays("stops itself", "import signal, time\nos.kill(os.getpid(), signal.SIGSTOP)\ntime.sleep(600)"),
    stays("reads a pipe of its own", "os.read(os.pipe()[0], 1)"),
    # what it leaves
    hungry(
        "leaves a daemon",
        """
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                import signal, time
                for number in set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP}: signal.signal(number, signal.SIG_IGN)
                time.sleep(20)
            os._exit(0)
        os.wait()
        """,
        proof="leaves",
    ),
    hungry(
        "leaves a daemon with a name",
        """
        if os.fork() == 0:
            os.setsid()
            syscall("prctl", 15, b") S 1 1 1 0", 0, 0, 0)
            os.closerange(0, 256)
            import time
            time.sleep(20)
        """,
        proof="leaves",
    ),
    hungry(
        "leaves a stopped process",
        """
        import signal, time
        child = os.fork()
        if child == 0:
            os.setsid(); os.kill(os.getpid(), signal.SIGSTOP); time.sleep(20); os._exit(0)
        time.sleep(0.1)
        """,
        proof="leaves",
    ),
    hungry(
        "leaves processes that replace each other",
        """
        import time
        for _ in range(2):
            if os.fork() == 0:
                until = time.monotonic() + 3
                while time.monotonic() < until:
                    try:
                        if os.fork(): os._exit(0)
                        os.setsid()
                    except OSError:
                        pass
                os._exit(0)
        time.sleep(0.1)
        """,
        "",
        "processes",
        proof="none",
    ),
    # crashes
    hungry(
        "overflows the stack",
        "sys.setrecursionlimit(10 ** 9)\nclass A:\n    def __repr__(self): return repr(self)\nrepr(A())",
        proof="none",
    ),
    hungry("overflows the stack in C", "import ctypes\nctypes.string_at(0)", proof="none"),
    hungry("aborts", "os.abort()", proof="none"),
    hungry("closes everything", "os.closerange(0, 256)", proof="none"),
    hungry(
        "takes its scratch directory away",
        "import shutil; shutil.rmtree(os.getcwd(), ignore_errors=True); os.chmod('.', 0)",
        proof="none",
    ),
]


@dataclass(frozen=True)
class Hog:
    """The same for the judge: a program with a function f, which is called with a number, and its right answer.

    Args:
        name: of the test.
        program: its text.
        verdict, reasons: what it gets.
        hole: why not yet, in any tier.
    """

    name: str
    program: str
    verdict: tuple[str, ...] = ("reject",)
    reasons: tuple[str, ...] = ("wall",)
    limits: Limits = SHORT
    hole: str = ""


def hog(name: str, program: str, **more: object) -> Hog:
    return Hog(name, dedent(program).strip() + "\n", **more)  # type: ignore[arg-type]


RAW = """
import os, struct, time
def channel():
    import socket, stat
    for number in range(3, 256):
        try:
            if stat.S_ISSOCK(os.fstat(number).st_mode): return number
        except OSError: pass
def write(data):
    at, sent = channel(), 0
    os.set_blocking(at, True)
    while sent < len(data): sent += os.write(at, data[sent:])
def answer(text):
    write(struct.pack(">I", len(text)) + text.encode())
"""
REJECT = {"limits": TIGHT}

BUSY = ("reject", "timeout")
"""A timeout where the machine had other things to do, or where the judge's own work took the time."""

HOGS = [
    hog("sleeps at the start", "import time; time.sleep(600)"),
    hog("sleeps when called", "import time\ndef f(x): time.sleep(600)"),
    hog("loops when called", "def f(x):\n    while True: pass", verdict=BUSY),
    hog(
        "loops, and has little processor time",
        "def f(x):\n    while True: pass",
        reasons=("cpu",),
        limits=Limits(wall=8.0, cpu=1.0),
    ),
    hog(
        "catches everything",
        "def f(x):\n    while True:\n        try:\n            while True: pass\n        except BaseException: pass",
        verdict=BUSY,
    ),
    hog(
        "blocks signals",
        "import signal, time\nsignal.pthread_sigmask(signal.SIG_BLOCK, set(signal.Signals))\ndef f(x): time.sleep(600)",
    ),
    hog(
        "stops itself",
        "import os, signal, time\ndef f(x):\n    os.kill(os.getpid(), signal.SIGSTOP)\n    time.sleep(600)",
    ),
    hog(
        "a generator that waits",
        "import time\ndef f(x):\n    while True:\n        time.sleep(0.01)\n        yield x",
        verdict=("reject", "error"),
        reasons=("wall", "needs shared-process"),
    ),
    hog("half an answer", RAW + 'def f(x):\n    write(struct.pack(">I", 100) + b"[1")\n    time.sleep(600)'),
    hog(
        "an answer byte by byte",
        RAW
        + 'def f(x):\n    write(struct.pack(">I", 10000))\n    while True:\n        write(b" ")\n        time.sleep(0.01)',
    ),
    hog(
        "a child that holds the channel",
        "import os, time\ndef f(x):\n    if os.fork() == 0:\n        try: os.setsid()\n        except OSError: pass\n        time.sleep(20)\n    os._exit(0)",
        reasons=("wall", "exit"),
    ),
    hog("memory", "def f(x): return len(bytearray(400 << 20))", reasons=("memory",), **REJECT),
    hog(
        "memory it says nothing about",
        "def f(x):\n    try: keep = bytearray(400 << 20)\n    except MemoryError: return 0",
        reasons=("assertion",),
        **REJECT,
    ),
    hog(
        "recursion",
        "import sys\nsys.setrecursionlimit(10 ** 9)\ndef f(x): return f(x) + f(x)",
        verdict=BUSY,
        reasons=("exit", "memory", "exception", "wall"),
    ),
    hog(
        "forks",
        "import os, time\ndef f(x):\n    for _ in range(60):\n        if os.fork() == 0: time.sleep(0.4); os._exit(0)\n    return 0",
        reasons=("exception", "processes", "assertion", "memory"),
        **REJECT,
    ),
    hog(
        "output",
        "def f(x):\n    for _ in range(300): print('x' * 65536)\n    return 0",
        reasons=("assertion",),
        **REJECT,
    ),
    hog(
        "standard error",
        "import os\ndef f(x):\n    for _ in range(10): os.write(2, b'x' * 65536)\n    return 0",
        reasons=("assertion",),
        **REJECT,
    ),
    hog(
        "numbers with one hash",
        RAW
        + """
def f(x):
    answer('[1,"value",{"set":[%s]},null,[],""]' % ",".join(str(k * ((1 << 61) - 1)) for k in range(1, 60000)))
    time.sleep(600)
""",
        verdict=BUSY,
        reasons=("wall", "value", "assertion"),
    ),
    hog(
        "millions of lists",
        RAW
        + """
def f(x):
    answer('[1,"value",[' + ",".join(["[]"] * 5_500_000) + '],null,[],""]')
    time.sleep(600)
""",
        verdict=BUSY,
        reasons=("wall", "value", "assertion"),
        limits=Limits(wall=2.0),
    ),
]
"""None of them may take much longer than its limit, whoever spends the time."""
