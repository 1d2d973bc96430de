"""The keeper: a small server process that locks itself in, then forks one candidate after the other.

Started by `host` with a socket among its descriptors; it imports nothing but the standard library
and its neighbours in this directory. It keeps one candidate at a time, in a process of its own with limits and, where
the tier has them, a process namespace, a Landlock domain and a system-call filter of its own; it ends the candidate
with all that it started, and hands the next one an empty scratch directory. It never reads a program or a test.

Requests and answers are frames: 4 bytes of length, big-endian, and JSON (bytes inside as base64).

| request | answer |
|---|---|
| {op: "start", limits} | one byte with a descriptor: a stream socket to `child.serve` in a new candidate |
| {op: "end", gone} | how it ended; `gone` says that it is known to be ending by itself |
| {op: "drop"} | none; it is ended |
| {op: "ready"} | {}, when its place is empty |
| {op: "measure"} | {cpu, waited}: seconds that the candidate used of the processor, and was kept from it |
| {op: "run", argv, files, stdin, input, collect, env, limits} | how the command ended, with its output |
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import select
import signal
import socket
import sys
import time
from base64 import b64decode, b64encode
from collections.abc import Callable
from typing import Any, NoReturn, TypeVar

from draftverify_code.sandbox import child, confine
from draftverify_code.sandbox.frames import receive, send
from draftverify_code.sandbox.scratch import Scratch
from draftverify_code.sandbox.surroundings import Refusals

T = TypeVar("T")
TICK = 0.05  # seconds between looks at what a running candidate uses
TICKS = os.sysconf("SC_CLK_TCK")  # in which the kernel counts processor time, a second

# What ordinary programs import, loaded once before any fork. Each module makes every fork dearer (its pages are mapped
# anew), so those that few programs use stay out: `statistics` costs as much as all of these together.
WARM = (
    "bisect", "collections", "collections.abc", "copy", "datetime", "functools", "heapq", "itertools", "json",
    "linecache", "math", "operator", "re", "string", "traceback", "typing",
)  # fmt: skip


class Sealed:
    """This process's confinement: what it entered itself, and what each candidate enters."""

    def __init__(self, config: dict[str, Any]) -> None:
        tier = config["tier"]
        self.own_processes = tier in ("namespaces", "bubblewrap")
        self.sockets = bool(config["places"]["sockets"])
        self.scratch = Scratch(config["scratch"], mounts=self.own_processes)
        self.ruleset = -1
        self.filter: confine.Filter | None = None
        self._reads_on = False
        self._others = 2  # the keeper and the process that waits for it
        if tier == "namespaces":
            places = (config[name] for name in ("root", "shown", "hidden", "scratch"))
            confine.enter_namespaces(*places, config["user"], sockets=self.sockets)
        elif tier == "bubblewrap":
            confine.nest_namespaces(config["user"])
        elif tier == "landlock" and os.geteuid() == 0:
            self._reads_on = bool(config["keep_reading"])
            confine.become_nobody(config["user"], keep_reading=self._reads_on)
        if tier in ("landlock", "none") and os.geteuid() != config["user"]:
            # The limit counts all that this user runs on the machine; the keeper's watch is what holds here.
            self._others = 1024 + sum(map(str.isdigit, os.listdir("/proc")))
        self.confined = tier != "none"
        if self.confined:
            confine.no_new_privileges()
            abi = confine.landlock_abi()
            if abi:
                place = os.path.dirname(config["scratch"])
                devices = [f"/dev/{name}" for name in ("null", "zero", "full", "random", "urandom")]
                # A root directory of its own shows nothing hidden; fewer rules make each candidate cheaper.
                # Python lists the directories that it imports from; what is hidden there is not readable for that.
                readable, listed = (
                    (config["granted"], [*config["listed"], *config["packages"]])
                    if tier == "landlock"
                    else ([*config["shown"], "/proc"], config["packages"])
                )
                self.ruleset = confine.new_ruleset(readable, listed, [place], devices, sockets=self.sockets)
            filters = confine.syscall_filters(
                alone=tier != "landlock", signals=tier != "landlock" or abi >= 6, sockets=self.sockets
            )
            if filters is not None:
                confine.take([filters[0].install()])
                self.filter = filters[1]
            elif tier == "landlock" or not abi:
                raise OSError("this processor's system calls have no filter here, and the tier needs one")

    def refusals(self, config: dict[str, Any]) -> Refusals | None:
        """What sees that a candidate is refused something; None where nothing is."""
        if not self.confined:
            return None
        writable = [config["scratch"], "/dev"]
        if self.own_processes and os.path.islink("/tmp"):
            writable.append("/tmp")
        return Refusals(writable=writable, **config["places"])

    def seal(self, cpu: float, memory: int, disk: int, threads: int) -> list[confine.Step]:
        """What a process does to enter what cannot be left, before anything of the candidate."""
        steps = confine.limits(cpu, memory, disk, threads + self._others)
        if self.confined and not self._reads_on:
            steps.append(confine.drop_privileges())
        if self.ruleset >= 0:
            steps.append(confine.restrict(self.ruleset))
            steps.append((os.close, (self.ruleset,)))  # who has it could add to it, for those to come
        if self.filter is not None:
            steps.append(self.filter.install())
        return steps


class Keeper:
    """Serves one client; one candidate at a time."""

    def __init__(self, link: socket.socket, sealed: Sealed, errors: int, config: dict[str, Any]) -> None:
        self.link = link
        self.refusals = sealed.refusals(config)
        self.sealed = sealed
        self.pid = 0
        self.started = 0.0
        self.limits: dict[str, Any] = {}
        self.limit = ""
        self.killed = False
        self.looked = 0.0
        self.cpu = 0.0  # seconds of processor time, when it was last measured
        self.waited = 0.0  # seconds that it was kept from the processor, then
        self.stalled = 0.0  # seconds in which this process was not let run either
        self.reaped: tuple[int, Any] | None = None
        self.original = -1
        self.own_processes = sealed.own_processes
        self.scratch = sealed.scratch
        # What a process has started is read there; a kernel that does not say (CONFIG_PROC_CHILDREN) would leave a
        # candidate unwatched, so that this raises.
        os.stat(f"/proc/self/task/{os.getpid()}/children")
        if self.own_processes:
            self.original = os.open("/proc/self/ns/pid", os.O_RDONLY | os.O_CLOEXEC)
            # That a candidate can begin a namespace of its own is found out here, not at the first candidate.
            confine.unshare_processes(self.original)
            if (pid := os.fork()) == 0:
                os._exit(0)
            os.waitpid(pid, 0)
        else:
            confine.prctl(confine.PR_SET_CHILD_SUBREAPER, 1)

        self.own = [number for number in (link.fileno(), errors, self.original) if number >= 0]
        self.program = child.rehearse()

    # --- the client's requests

    def serve(self) -> None:
        """Answer requests until the client is gone."""
        while True:
            self._watch_until(self.link.fileno())
            request = receive(self.link)
            if request is None:
                break
            operation = request["op"]
            if operation == "start":
                self._start(request["limits"])
                continue
            if operation == "measure":
                self._measure()
                send(self.link, {"cpu": self.cpu, "waited": self.waited})
                continue
            if operation == "drop":
                self._end(False)
            elif operation == "end":
                if self.pid and not self.limit and not request.get("gone"):
                    self._measure()
                send(self.link, self._end(bool(request.get("gone"))))
            elif operation == "ready":
                send(self.link, {})
            elif operation == "run":
                send(self.link, self._run(request))
            self.scratch.discard()  # on this process's own time: whoever asked has the answer
        if self.pid:
            self._end(False)

    def _start(self, limits: dict[str, Any]) -> None:
        if self.pid:
            self._end(False)
            self.scratch.discard()
        self.scratch.ready(limits["disk"], limits["files"])
        # All that can be is done before the fork: there it touches pages that are copied for the candidate.
        ours, theirs = socket.socketpair()
        outer = ours.fileno()
        nowhere = os.open("/dev/null", os.O_RDWR)  # of its own: modes of an open file are shared
        for number in (0, 1, 2):
            os.dup2(nowhere, number)
        os.close(nowhere)
        steps = [(os.close, (outer,)), *self._steps(limits)]
        if self._fork(limits) == 0:
            try:
                confine.take(steps)
                child.serve(theirs, self.program, self.refusals)
            finally:
                os._exit(96)  # whatever happens, this process never goes on as a keeper
        os.close(theirs.detach())
        socket.send_fds(self.link, [b"+"], [outer])
        os.close(ours.detach())

    def _run(self, request: dict[str, Any]) -> dict[str, Any]:
        limits = request["limits"]
        try:
            self.scratch.ready(limits["disk"], limits["files"], request["files"])
        except OSError as error:
            return {"failure": f"the files could not be written: {error}"}
        pipes = [os.pipe() for _ in range(4)]  # stdin, stdout, stderr, and why the start failed
        if self._fork(limits) == 0:
            self._execute(request, pipes)
        (into, feed), (out, out_in), (err, err_in), (why, why_in) = pipes
        for number in (into, out_in, err_in, why_in):
            os.close(number)
        try:
            stdout, stderr, truncated, failure = self._talk(
                feed, out, err, why, b64decode(request["stdin"]), limits["output"]
            )
        finally:
            for number in (out, err, why):
                os.close(number)
        ended = self._end(False)
        collected = self.scratch.collect(request["collect"], limits["disk"])
        files = {name: _text(content) for name, content in collected.items()}
        output = {"stdout": _text(stdout), "stderr": _text(stderr), "truncated": truncated}
        return {**ended, **output, "failure": failure, "files": files}

    # --- the candidate's process

    def _fork(self, limits: dict[str, Any]) -> int:
        self.limits, self.limit, self.killed, self.reaped = limits, "", False, None
        self.cpu = self.waited = self.stalled = 0.0
        if self.own_processes:
            confine.unshare_processes(self.original)
        self.started = self.looked = time.monotonic()
        pid = os.fork()
        if pid:
            self.pid = pid
        return pid

    def _steps(self, limits: dict[str, Any]) -> list[confine.Step]:
        """What makes a candidate of a forked process."""
        # Who may be busy for as long as the clock lets him is ended by this process's clock, with all that he started.
        cpu = limits["cpu"] + (limits["cpu"] >= limits["wall"])
        memory = limits["memory"] + limits["reserve"]
        sealing = self.sealed.seal(cpu, memory, limits["disk"], limits["threads"])
        closing: list[confine.Step] = [(os.close, (number,)) for number in self.own]
        return [(os.setsid, ()), *closing, (os.chdir, (self.scratch.path,)), *sealing]

    def _execute(self, request: dict[str, Any], pipes: list[tuple[int, int]]) -> NoReturn:
        why = pipes[3][1]
        try:
            os.dup2(pipes[0][0], 0)
            if request["input"]:
                path = os.path.join(self.scratch.path, request["input"])
                number = os.open(path, os.O_RDONLY)
                os.dup2(number, 0)
                os.close(number)
                os.unlink(path)
            os.dup2(pipes[1][1], 1)
            os.dup2(pipes[2][1], 2)
            for number in (n for pair in pipes for n in pair if n != why):
                os.close(number)
            environment = {**os.environ, **request["env"]}
            argv = request["argv"]
            for number in (signal.SIGPIPE, signal.SIGXFSZ):
                signal.signal(number, signal.SIG_DFL)
            confine.take(self._steps(request["limits"]))
            os.set_inheritable(why, False)
            os.execvpe(argv[0], argv, environment)
        except BaseException as error:
            os.write(why, f"{request['argv'][0]} could not be started: {error}".encode()[:4000])
        os._exit(127)

    # --- watching and ending

    def _watch_until(self, ready: int) -> None:
        """Wait for a descriptor; meanwhile end a candidate that uses more than it may."""
        poll = select.poll()
        poll.register(ready, select.POLLIN)
        while not poll.poll(TICK * 1000 if self.pid and self.reaped is None else None):
            self._look()

    def _look(self) -> None:
        if self.limit:
            return
        now = time.monotonic()
        # Who comes to look so late was not let run himself: the machine stood still, for the candidate too.
        self.stalled += max(now - self.looked - 2 * TICK, 0.0)
        self.looked = now
        seconds, wall = now - self.started, self.limits["wall"]
        if seconds > wall:
            self._measure()
            if max(seconds - self.waited, self.cpu) > wall or seconds > confine.LONGEST * wall:
                self._stop("wall")
                return
        usage = self._usage()
        if sum(resident for _, resident in usage) > self.limits["memory"]:
            self._stop("memory")
        elif (
            len(usage) > self.limits["processes"]
            or sum(threads for threads, _ in usage) > self.limits["threads"]
        ):
            self._stop("processes")
        elif self.scratch.overfull():
            self._stop("disk")

    def _stop(self, limit: str) -> None:
        self.limit = limit
        self._measure()
        self._kill()

    def _measure(self) -> None:
        """What the candidate has used of the processor, and how long it was kept from that.

        The latter is what its thread that waited most has waited. A kernel that does not say how long a thread waited
        (no CONFIG_SCHED_INFO) leaves what this process noticed itself.
        """
        self.cpu, self.waited = 0.0, self.stalled
        for pid in self._family():
            with contextlib.suppress(OSError, ValueError):  # it is gone
                with open(f"/proc/{pid}/stat", "rb") as file:
                    fields = file.read().rpartition(b")")[2].split()
                # Its threads' that have ended too, and its children's that have ended and that it waited for.
                self.cpu += sum(map(int, fields[11:15])) / TICKS
                for thread in os.listdir(f"/proc/{pid}/task"):
                    with open(f"/proc/{pid}/task/{thread}/schedstat", "rb") as file:
                        self.waited = max(self.waited, int(file.read().split()[1]) / 1e9)

    def _kill(self) -> None:
        self.killed = True
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(self.pid, signal.SIGKILL)  # which ends all of its namespace
        if not self.own_processes:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)
            self._kill_family()

    def _end(self, closed: bool) -> dict[str, Any]:
        """End and reap the candidate with all that it started, and say how it ended."""
        if not self.pid:
            return {"status": None, "signal": 0, "limit": "", "seconds": 0.0, "cpu": 0.0, "waited": 0.0}
        if not self._poll_end(0.5 if closed else 0):
            self._kill()
            self.reaped = os.wait4(self.pid, 0)[1:]
        status, usage = self.reaped  # type: ignore[misc]
        seconds = time.monotonic() - self.started
        if not self.own_processes:
            self._bury()
        self.pid = 0
        code = os.waitstatus_to_exitcode(status)
        limit = self.limit
        if not limit and code == -signal.SIGXFSZ:
            limit = "disk"
        elif not limit and code == -signal.SIGKILL and not self.killed:
            # The kernel's own doing. It counts ticks for the limit, and they may run ahead of what usage says.
            limit = "cpu" if usage.ru_utime + usage.ru_stime >= 0.5 * self.limits["cpu"] else ""
        ending = {
            "status": code if code >= 0 else None,
            "signal": max(-code, 0),
            "limit": limit,
            "seconds": seconds,
        }
        return {**ending, "cpu": max(self.cpu, usage.ru_utime + usage.ru_stime), "waited": self.waited}

    def _poll_end(self, seconds: float) -> bool:
        """Whether the candidate's first process has ended, waiting for it so long."""
        if self.reaped is not None:
            return True
        if seconds:
            number = os.pidfd_open(self.pid)
            select.select([number], [], [], seconds)
            os.close(number)
        pid, status, usage = os.wait4(self.pid, os.WNOHANG)
        if pid:
            self.reaped = status, usage
        return pid != 0

    def _bury(self) -> None:
        """Without a process namespace: kill and reap what the candidate left behind, until there is nothing.

        This process is the subreaper: whoever loses its parent becomes its child.
        """
        until = time.monotonic() + 5
        while time.monotonic() < until:
            try:
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass
            except ChildProcessError:
                return  # the usual case, before anybody has been looked for
            self._kill_family()

    def _kill_family(self) -> None:
        for pid in self._family():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)

    def _family(self) -> list[int]:
        """Every process that descends from this one; no other is looked at."""
        members, waiting = list[int](), [os.getpid()]
        while waiting:
            place = f"/proc/{waiting.pop()}/task"
            with contextlib.suppress(OSError):  # it is gone
                for thread in os.listdir(place):
                    with open(f"{place}/{thread}/children", "rb") as file:
                        born = list(map(int, file.read().split()))
                    members += born
                    waiting += born
        return members

    def _usage(self) -> list[tuple[int, int]]:
        """Threads and resident bytes of each of the candidate's processes."""
        usage = []
        for pid in self._family():
            try:
                # A process whose first thread has ended shows its memory in the others alone.
                threads = os.listdir(f"/proc/{pid}/task")
                with open(f"/proc/{pid}/task/{max(threads, key=int)}/status", "rb") as file:
                    lines = dict(line.split(b":", 1) for line in file.read().splitlines() if b":" in line)
                # Pages of files (the interpreter's, the libraries') are everybody's: they are left out.
                resident = sum(int(lines.get(name, b"0").split()[0]) for name in (b"RssAnon", b"RssShmem"))
                usage.append((len(threads), resident * 1024))
            except (OSError, ValueError, KeyError):
                pass
        return usage

    # --- a command's input, output and files

    def _talk(
        self, feed: int, out: int, err: int, why: int, stdin: bytes, most: int
    ) -> tuple[bytes, bytes, bool, str]:
        """Feed a command, and read it until it ends."""
        buffers = {out: bytearray(), err: bytearray(), why: bytearray()}
        truncated = False
        ended = os.pidfd_open(self.pid)
        poll = select.poll()
        for number in (out, err, why, ended):
            poll.register(number, select.POLLIN)
        poll.register(self.link, 0)  # its hanging up: nobody waits for the command any more
        for number in (out, err, why, feed):
            os.set_blocking(number, False)
        remaining = memoryview(stdin)
        poll.register(feed, select.POLLOUT)
        next_look = time.monotonic() + TICK
        running = True
        try:
            while running:
                events = poll.poll(TICK * 1000)
                for number, _ in events:
                    if number == feed:
                        try:
                            remaining = remaining[os.write(feed, remaining[: 1 << 16]) :]
                        except BlockingIOError:
                            pass
                        except OSError:
                            remaining = remaining[:0]
                        if not remaining:
                            poll.unregister(feed)
                            os.close(feed)
                            feed = -1
                    elif number == ended:
                        running = False
                    elif number == self.link.fileno():
                        self._kill()
                        poll.unregister(number)
                    else:
                        truncated |= self._read(number, buffers[number], most, poll)
                if time.monotonic() >= next_look:
                    self._look()
                    next_look = time.monotonic() + TICK
            for number in (out, err, why):
                # What was written before the end is still in the pipe; who else holds it is killed by now, or soon.
                for _ in range(64):
                    if not select.select([number], [], [], 0)[0]:
                        break
                    truncated |= self._read(number, buffers[number], most, None)
        finally:
            os.close(ended)
            if feed >= 0:
                os.close(feed)
        reason = buffers[why].decode(errors="replace")
        return bytes(buffers[out]), bytes(buffers[err]), truncated, reason

    @staticmethod
    def _read(number: int, buffer: bytearray, most: int, poll: Any) -> bool:
        """Read what is there; says whether something was thrown away."""
        try:
            data = os.read(number, 1 << 16)
        except BlockingIOError:
            return False
        except OSError:
            data = b""
        if not data and poll is not None:
            poll.unregister(number)
        room = most - len(buffer)
        buffer += data[:room] if room > 0 else b""
        return len(data) > max(room, 0)


def _text(data: bytes) -> str:
    return b64encode(data).decode()


def locked_in(config: dict[str, Any], make: Callable[[socket.socket, Sealed], T]) -> T:
    """What a server is, made once this process is locked in; the harness is told that, or why not."""
    link = socket.socket(fileno=config["link"])
    try:
        sys.path += config["packages"]
        for name in (*WARM, *config["preload"]):
            importlib.import_module(name)
        server = make(link, Sealed(config))
    except Exception as error:
        send(link, {"error": f"{type(error).__name__}: {error}"})
        os._exit(1)
    gc.collect()
    gc.freeze()
    send(link, {})
    return server


def main(settings: str) -> None:
    """Lock in, say so, serve."""
    config = json.loads(settings)
    errors = os.dup(2)  # each candidate gets another one
    keeper = locked_in(config, lambda link, sealed: Keeper(link, sealed, errors, config))
    try:
        keeper.serve()
    except Exception as error:
        os.write(errors, f"{type(error).__name__}: {error}\n".encode())
        raise
