"""What hostile candidates attack, and how one sees that they succeeded.

A `World` is everything outside the sandbox that a probe is after: files, sockets, shared memory, and a bystander, a
process of the same user. Each has a canary: a text that a probe cannot know unless it got there, or a state that one can
see from here. `World.reset` makes all of it new.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import resource
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

__all__ = ["SECRET", "World", "state"]

SECRET = "REDTEAM_SECRET"
"""The environment variable of the harness and the bystander that nothing in a sandbox may see."""

BYSTANDER = """
import ctypes, os, signal, sys, time
libc = ctypes.CDLL(None)
libc.prctl(0x59616D61, ctypes.c_ulong(-1), 0, 0, 0)  # where only ancestors may trace a process, anybody may this one
libc.prctl(1, 9, 0, 0, 0)  # it ends with its parent
held = open(sys.argv[1])
os.dup2(held.fileno(), 9)
memory = ctypes.create_string_buffer(("bystander:" + sys.argv[2]).encode())
signal.signal(signal.SIGUSR1, lambda *_: open(sys.argv[3], "w").close())
print(ctypes.addressof(memory), flush=True)
while True:
    time.sleep(60)
"""

MOST = (1 << 63) - 1


class World:
    """What is outside.

    Attributes:
        root: a directory that everybody may enter; its name is in the command line of every sandbox process of a test.
        canary: what only somebody who was outside can know.
        token: what a probe says when it could do what it should not.
    """

    def __init__(self) -> None:
        self.root = Path(tempfile.mkdtemp(prefix="redteam-"))
        self.root.chmod(0o755)
        self.canary = f"canary-{secrets.token_hex(6)}"
        self.token = f"did-it-{secrets.token_hex(6)}"
        self.outside = self.root / "outside"
        self.shown = self.root / "shown"  # granted to every sandbox of the tests
        self.scratch = self.root / "scratch"  # where the sandbox makes its directories
        for place in (self.outside, self.shown, self.scratch):
            place.mkdir()
        self.outside.chmod(0o777)
        self.scratch.chmod(0o777)
        self.sockets: dict[str, socket.socket] = {}
        self.bystander: subprocess.Popen[bytes] | None = None
        self.address = 0
        self.inherited = -1
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._libc.shmat.restype = ctypes.c_void_p
        self._segment, self._memory = -1, 0
        self.reset()

    # --- making it

    def reset(self) -> None:
        """Everything as at the start."""
        for entry in os.scandir(self.outside):
            os.chmod(entry.path, 0o700) if not entry.is_symlink() else None
            shutil.rmtree(entry.path) if entry.is_dir(follow_symlinks=False) else os.unlink(entry.path)
        for name in ("canary", "victim", "other"):
            (self.outside / name).write_text(self.canary)
            (self.outside / name).chmod(0o666)
        (self.outside / "locked").write_text("")
        (self.outside / "locked").chmod(0o400)
        (self.outside / "link").symlink_to(self.canary)
        (self.outside / "script").write_text(f"#!/bin/sh\necho {self.canary}\n")
        (self.outside / "script").chmod(0o755)
        (self.outside / "header.h").write_text(f"#error {self.canary}\n")
        (self.outside / "header.h").chmod(0o644)
        (self.shown / "granted.py").write_text("VALUE = 'clean'\n")
        (self.shown / "granted.py").chmod(0o666)
        shutil.rmtree(self.shown / "__pycache__", ignore_errors=True)
        self.shown.chmod(0o777)
        for name in ("canary", "victim"):
            os.utime(self.outside / name, (1_000_000_000, 1_000_000_000))
        for name in self._strays():
            with contextlib.suppress(OSError):
                os.unlink(name)
        for place in self.sockets.values():
            place.close()
        self._listen()
        if self._segment < 0:
            self._segment = self._libc.shmget(0, 4096, 0o1666)
            self._memory = self._libc.shmat(self._segment, None, 0)
        ctypes.memmove(self._memory, self.canary.encode() + b"\0", len(self.canary) + 1)
        if self.inherited < 0:
            self.inherited = os.open(self.outside / "canary", os.O_RDONLY)
            os.set_inheritable(self.inherited, True)
        if self.bystander is None or self.bystander.poll() is not None or self._touched():
            self._stand_by()

    def _listen(self) -> None:
        kinds = {
            "tcp": (socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", 0)),
            "udp": (socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", 0)),
            "stream": (socket.AF_UNIX, socket.SOCK_STREAM, str(self.outside / "stream")),
            "datagram": (socket.AF_UNIX, socket.SOCK_DGRAM, str(self.outside / "datagram")),
            "abstract": (socket.AF_UNIX, socket.SOCK_DGRAM, f"\0{self.root.name}"),
            "abstract stream": (socket.AF_UNIX, socket.SOCK_STREAM, f"\0{self.root.name} stream"),
        }
        for name, (family, kind, address) in kinds.items():
            place = self.sockets[name] = socket.socket(family, kind)
            place.bind(address)
            place.setblocking(False)
            if kind == socket.SOCK_STREAM:
                place.listen()
        for name in ("stream", "datagram"):
            (self.outside / name).chmod(0o777)

    def _stand_by(self) -> None:
        self.dismiss()
        self.bystander = subprocess.Popen(
            [
                sys.executable,
                "-I",
                "-S",
                "-c",
                BYSTANDER,
                self.outside / "canary",
                self.canary,
                self.outside / "signalled",
            ],
            env={SECRET: self.canary},
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        assert self.bystander.stdout is not None
        self.address = int(self.bystander.stdout.readline())
        self._limits = self._limits_of_bystander()

    def _limits_of_bystander(self) -> tuple[object, ...]:
        assert self.bystander is not None
        pid = self.bystander.pid
        return (
            resource.prlimit(pid, resource.RLIMIT_NOFILE),
            os.getpriority(os.PRIO_PROCESS, pid),
            frozenset(os.sched_getaffinity(pid)),
        )

    def _touched(self) -> bool:
        return self._limits_of_bystander() != self._limits

    def dismiss(self) -> None:
        """End the bystander."""
        if self.bystander is not None:
            self.bystander.kill()
            self.bystander.wait()
            assert self.bystander.stdout is not None
            self.bystander.stdout.close()

    def close(self) -> None:
        """Leave nothing."""
        self.dismiss()
        for place in self.sockets.values():
            place.close()
        self._libc.shmdt(ctypes.c_void_p(self._memory))
        self._libc.shmctl(self._segment, 0, None)
        os.close(self.inherited)
        subprocess.run(["rm", "-rf", "--", self.root], check=True)  # which minds neither depth nor modes

    # --- what probes are told

    def prelude(self) -> str:
        """The beginning of every probe: where things are, and `tell` and `attempt`."""
        assert self.bystander is not None
        facts = {
            "root": str(self.root),
            "outside": str(self.outside),
            "shown": str(self.shown),
            "canary": str(self.outside / "canary"),
            "victim": str(self.outside / "victim"),
            "repository": __file__,
            "token": self.token,
            "stray": f"{self.root.name}-stray",
            "secret": SECRET,
            "harness": os.getpid(),
            "bystander": self.bystander.pid,
            "address": self.address,
            "inherited": self.inherited,
            "segment": self._segment,
            "tcp": self.sockets["tcp"].getsockname()[1],
            "udp": self.sockets["udp"].getsockname()[1],
            "abstract": self.root.name,
        }
        return f"W = {json.dumps(facts)}\n" + PRELUDE

    # --- what happened

    def told(self, output: str) -> bool:
        """Whether a probe's words show that it was outside."""
        return self.canary in output or self.token in output

    def changed(self) -> str:
        """What is not as `reset` left it; "" when all is."""
        assert self.bystander is not None
        found = []
        names = {"canary", "victim", "other", "locked", "link", "script", "header.h", "stream", "datagram"}
        found += [f"file {name}" for name in names ^ set(os.listdir(self.outside))]
        for name in ("canary", "victim"):
            place = self.outside / name
            if (
                not place.is_file()
                or place.stat().st_mode & 0o777 != 0o666
                or place.read_text() != self.canary
            ):
                found.append(name)
            elif place.stat().st_mtime != 1_000_000_000:
                found.append(f"time of {name}")
            elif os.listxattr(place):
                found.append(f"attributes of {name}")
        if (self.outside / "locked").exists() and (self.outside / "locked").stat().st_mode & 0o777 != 0o400:
            found.append("mode of locked")
        if (self.shown / "granted.py").read_text() != "VALUE = 'clean'\n" or len(os.listdir(self.shown)) > 1:
            found.append("a granted directory")
        found += [str(name) for name in self._strays()]
        for name, place in self.sockets.items():
            with contextlib.suppress(BlockingIOError):
                if place.type == socket.SOCK_STREAM:
                    place.accept()[0].close()
                else:
                    place.recv(100)
                found.append(f"socket {name}")
        if ctypes.string_at(self._memory, len(self.canary)) != self.canary.encode():
            found.append("shared memory")
        if self.bystander.poll() is not None:
            found.append("the bystander is dead")
        elif self._touched():
            found.append("limits of the bystander")
        return ", ".join(sorted(found))

    def changed_soon(self, seconds: float) -> str:
        """`changed`, waiting so long for it to be something."""
        until = time.monotonic() + seconds
        while not (what := self.changed()) and time.monotonic() < until:
            time.sleep(0.01)
        return what

    def _strays(self) -> list[Path]:
        places = {
            Path(tempfile.gettempdir()),
            Path("/tmp"),
            Path("/dev/shm"),
            Path("/"),
            self.root,
            self.shown,
        }
        name = f"{self.root.name}-stray"
        return [place / name for place in places if os.path.lexists(place / name)]

    def processes(self, mark: str = "") -> list[int]:
        """The processes with the root's name, and the mark, in their command line: the sandbox's own, and probes."""
        assert self.bystander is not None
        found = []
        for pid in map(int, filter(str.isdigit, os.listdir("/proc"))):
            with contextlib.suppress(OSError):
                line = Path(f"/proc/{pid}/cmdline").read_bytes()
                if (
                    self.root.name.encode() in line
                    and mark.encode() in line
                    and pid not in (os.getpid(), self.bystander.pid)
                ):
                    found.append(pid)
        return found

    def steady(self) -> int:
        """How many there are, once none is about to end."""
        counts = [len(self.processes())]
        while len(counts) < 3 or len(set(counts[-3:])) > 1:
            time.sleep(0.005)
            counts.append(len(self.processes()))
        return counts[-1]

    def settled(self, count: int, seconds: float = 5.0) -> list[int]:
        """The processes, as soon as there are so many or the time is over; those that end take a moment to."""
        until = time.monotonic() + seconds
        while len(found := self.processes()) != count and time.monotonic() < until:
            time.sleep(0.01)
        return found

    def probes(self) -> list[int]:
        """The processes of probes that were started as programs."""
        return self.processes('"bystander"')

    def sweep(self, seconds: float = 10.0) -> None:
        """Kill what probes left."""
        until = time.monotonic() + seconds
        while (found := self.probes()) and time.monotonic() < until:
            for pid in found:
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGKILL)

    def sweep_all(self) -> None:
        """Kill and remove what a failed test left, servers and directories included."""
        self.sweep()
        for pid in self.processes():
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        for name in os.listdir(self.scratch):
            subprocess.run(["rm", "-rf", "--", self.scratch / name], check=False)


PRELUDE = """
import os, sys
OUT = []
def tell(text):
    OUT.append((text.decode("latin-1") if isinstance(text, bytes) else str(text))[:80])
def attempt(call, *args):
    try:
        result = call(*args)
    except BaseException:
        return None
    return result
def done(result=True):
    if result:
        tell(W["token"])
def syscall(name, *args):
    import ctypes
    numbers = dict(
        x86_64=dict(ptrace=101, process_vm_readv=310, pidfd_getfd=438, name_to_handle_at=303, open_by_handle_at=304,
            io_uring_setup=425, memfd_create=319, userfaultfd=323, bpf=321, perf_event_open=298, add_key=248, unshare=272,
            setns=308, mount=165, chroot=161, clone=56, landlock_add_rule=445, prctl=157, shmat=30, mq_unlink=241,
            inotify_init1=294, inotify_add_watch=254, personality=135, ioprio_set=251, exit=60, tgkill=234,
            rt_sigqueueinfo=129, openat2=437, clone3=435, fsopen=430, fanotify_init=300, keyctl=250, klogctl=103),
        aarch64=dict(ptrace=117, process_vm_readv=270, pidfd_getfd=438, name_to_handle_at=264, open_by_handle_at=265,
            io_uring_setup=425, memfd_create=279, userfaultfd=282, bpf=280, perf_event_open=241, add_key=217, unshare=97,
            setns=268, mount=40, chroot=51, clone=220, landlock_add_rule=445, prctl=167, shmat=196, mq_unlink=181,
            inotify_init1=26, inotify_add_watch=27, personality=92, ioprio_set=30, exit=93, tgkill=131,
            rt_sigqueueinfo=138, openat2=437, clone3=435, fsopen=430, fanotify_init=262, keyctl=219, klogctl=116),
    )[os.uname().machine]
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall.restype = ctypes.c_long
    whole = [ctypes.c_long(each) if isinstance(each, int) else each for each in args]
    return libc.syscall(ctypes.c_long(numbers[name]), *whole)
"""


def state() -> dict[str, object]:
    """What of the harness's own process no candidate may change."""
    return {
        "directory": os.getcwd(),
        "environment": dict(os.environ),
        "descriptors": len(os.listdir("/proc/self/fd")),
        "limits": [resource.getrlimit(each) for each in range(resource.RLIM_NLIMITS)]
        if hasattr(resource, "RLIM_NLIMITS")
        else [resource.getrlimit(each) for each in range(16)],
        "priority": os.getpriority(os.PRIO_PROCESS, 0),
        "processors": os.sched_getaffinity(0),
        "signals": signal.pthread_sigmask(signal.SIG_BLOCK, ()),
    }
