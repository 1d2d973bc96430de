"""The sandbox as the rest of the adapter sees it: it starts the server processes, hands them work, and mends them.

`Sandbox.run` sends a command to a keeper; `Sandbox.judge` sends a suite and programs to a judge, which has a keeper of
its own. The strongest isolation that the machine allows is found by starting a keeper under it.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import site
import socket
import subprocess
import sys
import tempfile
import threading
import weakref
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, fields
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, TypeVar, get_args

import msgspec

from draftverify import Check, ConfigError, ResourceError
from draftverify_code.program import texts_of
from draftverify_code.sandbox.confine import LONGEST, STREAMS
from draftverify_code.sandbox.frames import receive, send
from draftverify_code.sandbox.jobs import (
    CommandExit,
    Isolation,
    Limits,
    SandboxCommand,
    Suite,
    SuiteFinding,
    Tier,
)
from draftverify_code.sandbox.paths import Grants, grants

HERE = os.path.dirname(os.path.abspath(__file__))
SERVER = """
import importlib, sys, types
for name in ("draftverify_code", "draftverify_code.sandbox"):
    sys.modules[name] = types.ModuleType(name)
    sys.modules[name].__path__ = [sys.argv[1]]
module = importlib.import_module(f"draftverify_code.sandbox.{sys.argv[2]}")
"""
"""The beginning of a server: it imports what lies here, and nothing else of the package."""
COMPARING = 2.0  # seconds beyond a program's own that its judge may take
REMOVING = 600.0  # seconds in which what a program left may be thrown away, on nobody's time
LOADING = 30.0  # seconds that a suite may take before its first call of a candidate
PATIENCE = 10.0  # seconds beyond a job's own limits after which its server counts as broken
S = TypeVar("S", bound="_Server")
NO_LIMITS = Limits()
AS_ROOT = "DRAFTVERIFY_NO_ISOLATION_AS_ROOT"
"""The variable that must be 1 for root to take the tier "none": a program of root's may end every process there is."""


@dataclass(eq=False)
class Sandbox:
    """Runs untrusted programs: each in a process of its own, under limits, ended and reaped with all that it started.

    Args:
        isolation: "auto" takes the strongest that this machine has and refuses when there is none; "bubblewrap",
            "namespaces" (user, mount, network, IPC and process namespaces with a root directory of their own, Landlock
            and a system-call filter) and "landlock" (Landlock, the filter and limits alone) take that one or refuse;
            "none" is no isolation but the limits, for programs that you would run yourself; root is asked twice for
            it, since a program of root's may end every process of the machine: the environment variable
            DRAFTVERIFY_NO_ISOLATION_AS_ROOT must be 1.
        packages: installed Python packages that programs may read, with what they depend on.
        readable: further paths that programs may read.
        workers: how many run at once; as many as there are usable cores when 0.
        sockets: let programs have sockets, with which they reach nothing but themselves (127.0.0.1). The tier
            "landlock" cannot.

    Examples:
        >>> with Sandbox(isolation="none") as box:
        ...     box.run([Command(("echo", "hello"))])[0].stdout
        b'hello\\n'
    """

    isolation: Isolation = "auto"
    packages: Sequence[str] = ()
    readable: Sequence[Path] = ()
    workers: int = 0
    sockets: bool = False

    def __post_init__(self) -> None:
        self._lock = threading.RLock()
        self._state: _State | None = None
        self._closed: Callable[[], object] = lambda: None

    def __enter__(self) -> Sandbox:
        self.open()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce__(self) -> tuple[Any, ...]:
        """A copy, and what is unpickled, has the same settings and no processes yet."""
        return type(self), tuple(getattr(self, field.name) for field in fields(self))

    @property
    def at_once(self) -> int:
        """How many programs or commands it runs at once."""
        return self.workers or usable_cores()

    @property
    def tier(self) -> Tier:
        """The isolation in force; finding out opens the sandbox."""
        return self._opened().tier

    @property
    def places(self) -> dict[str, Any]:
        """What a program may read beside its scratch directory, which modules it misses, whether it has sockets."""
        state = self._opened()
        return {} if state.tier == "none" else _places(state.tier, state.grants, self.sockets)

    def open(self) -> None:
        """Choose the isolation and start a first keeper.

        Raises:
            ConfigError: the isolation is no known word, or "none" for root, who was asked once; or `workers` is
                negative.
            ResourceError: this machine does not allow the isolation asked for, or any; or a package is not installed.
        """
        self._opened()

    def close(self) -> None:
        """End every process."""
        with self._lock:
            state, self._state = self._state, None
        if state is not None:
            self._closed()

    def run(self, commands: Sequence[SandboxCommand]) -> list[CommandExit]:
        """Run commands, as many at once as there are workers.

        Returns:
            One Exit for each, in order. What the sandbox itself could not do is an Exit with a `failure`.

        Raises:
            ConfigError: a file's path is absolute or leads out of the scratch directory.
        """
        for command in commands:
            for name in (*command.files, *command.collect, *filter(None, [command.input])):
                parts = name.split("/")
                if not name or os.path.isabs(name) or ".." in parts or "\0" in name or "" in parts:
                    raise ConfigError(f"{name!r} is no path inside the scratch directory", path="files")
        return self._opened().run_all(commands)

    def judge(self, suite: Suite, programs: Sequence[str], limits: Limits = NO_LIMITS) -> list[SuiteFinding]:
        """Run a suite on programs, each in a process of its own, as many at once as there are workers.

        Args:
            suite: the tests.
            programs: Python sources.
            limits: of each program; `wall` is for all its tests together.

        Returns:
            A SuiteFinding per program.

        Raises:
            ContractError: the programs, the asserts or the entry points are no list of texts.
        """
        programs = texts_of(programs, "the programs")
        texts_of(suite.asserts, "the suite's asserts")
        texts_of(suite.entry_points, "the suite's entry points")
        state = self._opened()
        # JSON in ASCII: what a stranger's file escaped may be no text that UTF-8 has.
        encoded = json.dumps(msgspec.to_builtins(suite)).encode()
        return list(state.pool.map(lambda program: state.judge(encoded, program, limits), programs))

    def _opened(self) -> _State:
        with self._lock:
            if self._state is None:
                self._state = _State(self)
                # Who forgets to close it, or may not (the shared ones), leaves nothing behind either.
                self._closed = weakref.finalize(self, self._state.close)
            return self._state


def usable_cores() -> int:
    """How many processor cores this process may use, which may be fewer than the machine has."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@lru_cache(maxsize=16)
def default_sandbox(packages: tuple[str, ...] = (), readable: tuple[Path, ...] = ()) -> Sandbox:
    """The sandbox that parts share which were given none: the strongest isolation, one for each set of grants.

    Of many sets (the tests of BigCodeBench import hundreds) those that were used last have processes; one that is
    forgotten ends its own.
    """
    return Sandbox(packages=packages, readable=readable)


class _State:
    """What an open sandbox has: its tier, and the idle servers."""

    def __init__(self, sandbox: Sandbox) -> None:
        if sandbox.isolation not in get_args(Isolation):
            raise ConfigError(
                f"{sandbox.isolation!r} is no isolation; one of {', '.join(get_args(Isolation))} is",
                path="isolation",
            )
        if sandbox.isolation == "none" and os.geteuid() == 0 and os.environ.get(AS_ROOT) != "1":
            raise ConfigError(
                "with `isolation: none` a program that root runs may do all that root may: end every process, remove "
                f"every file. Be another user, or ask for it twice: set the environment variable {AS_ROOT}=1",
                path="isolation",
            )
        for name, places in (("packages", sandbox.packages), ("readable", sandbox.readable)):
            if isinstance(places, (str, Path)):
                raise ConfigError(f"put {str(places)!r} into a list", path=name)
        if sandbox.workers < 0:
            raise ConfigError(f"workers is {sandbox.workers}; 0 (as many as usable cores) or more is needed")
        self.workers = sandbox.at_once
        self.sockets = sandbox.sockets
        self.grants = grants(tuple(sandbox.packages), tuple(sandbox.readable))
        self.judges_grants = grants((*sandbox.packages, "numpy"), tuple(sandbox.readable))
        self.preload = tuple(name for name in sandbox.packages if name == "numpy")
        self._lock = threading.Lock()
        self._keepers: list[_Server] = []
        self._judges: list[_JudgeServer] = []
        self.tier, keeper = self._choose(sandbox.isolation)
        self._keepers.append(keeper)
        self.unloadable: dict[bytes, str] = {}
        self.pool = ThreadPoolExecutor(self.workers, "draftverify-sandbox")
        self.process = os.getpid()

    def _choose(self, isolation: Isolation) -> tuple[Tier, _Server]:
        tiers: tuple[Tier, ...] = (
            ("bubblewrap", "namespaces", "landlock") if isolation == "auto" else (isolation,)  # type: ignore[assignment]
        )
        reasons = []
        for tier in tiers:
            try:
                return tier, self.keeper(tier)
            except ResourceError as error:
                reasons.append(f"{tier}: {error}")
        raise ResourceError(
            "this machine does not allow the isolation asked for ("
            + "; ".join(reasons)
            + "). Install bubblewrap, or allow user namespaces or Landlock; or write `isolation: none` to run "
            "untrusted programs with no isolation but limits"
        )

    def keeper(self, tier: Tier) -> _Server:
        """A new keeper under a tier."""
        if self.sockets and tier == "landlock":
            raise ResourceError("it cannot keep a socket from the network (`sockets: true`)")
        return _start("keeper", tier, self.grants, self.preload, sockets=self.sockets)

    def run_all(self, commands: Sequence[SandboxCommand]) -> list[CommandExit]:
        if len(commands) == 1 or self.workers == 1:
            return list(map(self.run, commands))
        return list(self.pool.map(self.run, commands))

    def run(self, command: SandboxCommand) -> CommandExit:
        limits = command.limits
        request = {
            "op": "run",
            "argv": list(command.argv),
            "files": {name: b64encode(content).decode() for name, content in command.files.items()},
            "stdin": b64encode(command.stdin).decode(),
            "input": command.input,
            "collect": list(command.collect),
            "env": dict(command.env),
            "limits": msgspec.to_builtins(limits),
        }
        try:
            with self._idle(self._keepers, lambda: self.keeper(self.tier)) as keeper:
                keeper.ask({"op": "ready"}, REMOVING)
                answer = keeper.ask(request, LONGEST * limits.wall + PATIENCE)
        except ResourceError as error:
            return CommandExit(failure=str(error))
        for name in ("stdout", "stderr"):
            answer[name] = b64decode(answer.get(name, ""))
        answer["files"] = {name: b64decode(content) for name, content in answer.get("files", {}).items()}
        return CommandExit(**answer)

    def judge(self, encoded: bytes, program: str, limits: Limits) -> SuiteFinding:
        request = {"op": "run", "program": program, "limits": msgspec.to_builtins(limits)}
        try:
            with self._idle(
                self._judges, lambda: _JudgeServer(self), lambda judge: judge.has(encoded)
            ) as judge:
                broken = self.unloadable.get(encoded) or judge.load(encoded)
                if not judge.alive:
                    self.unloadable[encoded] = broken
                if broken:
                    return SuiteFinding(Check("error", reason="tests", feedback=broken))
                # The judge keeps the time, and may begin anew once. What takes longer is its own work on an answer.
                answer = judge.ask(request, seconds := 2 * limits.wall + COMPARING)
                while "waiting" in answer:
                    answer = judge._receive(REMOVING if answer["waiting"] else seconds)
        except TimeoutError:
            message = "what the program returned could not be read or compared in time"
            return SuiteFinding(Check("timeout", reason="wall", feedback=message))
        except ResourceError as error:
            return SuiteFinding(Check("error", reason="sandbox", feedback=str(error)))
        try:
            check = Check(answer["verdict"], answer["score"], answer["reason"], answer["feedback"])
            return SuiteFinding(check, tuple(answer["passed"]), answer["seconds"])
        except (KeyError, TypeError) as error:
            return SuiteFinding(
                Check("error", reason="sandbox", feedback=f"the judge's answer is none: {error!r}")
            )

    @contextmanager
    def _idle(
        self, idle: list[S], new: Callable[[], S], fits: Callable[[S], bool] = lambda _: True
    ) -> Iterator[S]:
        """An idle server, one that fits before others, or a new one; one that breaks is ended and not put back."""
        server: S | None = None
        while server is None:
            with self._lock:
                place = next((place for place, member in enumerate(idle) if fits(member)), 0)
                server = idle.pop(place) if idle else None
            if server is None:
                server = new()
            elif not server.alive:
                server.kill()  # it was ended from outside while it was idle
                server = None
        try:
            yield server
        except BaseException:
            server.kill()
            raise
        idle.append(server)

    def close(self) -> None:
        if os.getpid() != self.process:
            return  # of a fork: the servers are its parent's
        self.pool.shutdown(cancel_futures=True)
        for server in (*self._keepers, *self._judges):
            server.kill()


class _Unanswered(ResourceError, TimeoutError):
    """A server did not answer in time."""


class _Server:
    """One server process and the socket to it."""

    def __init__(
        self, process: subprocess.Popen[bytes], link: socket.socket, folders: Sequence[str] = ()
    ) -> None:
        self.process = process
        self.link = link
        self._made = folders

    @property
    def alive(self) -> bool:
        """Whether its process is there."""
        return self.process.poll() is None

    def greet(self) -> None:
        """Read what it says when it is ready."""
        try:
            hello = self._receive(30.0)
            if "error" in hello:
                raise ResourceError(hello["error"])
        except ResourceError:
            self.kill()
            raise

    def ask(self, request: Any, seconds: float) -> Any:
        """One request, one answer.

        Raises:
            ResourceError: it did not answer in time, or ended.
        """
        try:
            self.link.settimeout(seconds)
            send(self.link, request)
        except OSError as error:
            raise ResourceError(f"the sandbox's server is gone: {error}") from error
        return self._receive(seconds)

    def _receive(self, seconds: float) -> Any:
        self.link.settimeout(seconds)
        try:
            answer = receive(self.link)
        except TimeoutError as error:
            raise _Unanswered(f"the sandbox's server did not answer within {seconds:.0f} s") from error
        except (OSError, ValueError) as error:
            raise ResourceError(f"the sandbox's server is gone: {error}") from error
        if answer is None:
            status = self.process.poll()
            errors = self._errors()
            raise ResourceError(f"the sandbox's server ended (status {status}){errors and ': ' + errors}")
        return answer

    def _errors(self) -> str:
        """The last words on its standard error."""
        if self.process.stderr is None:
            return ""
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(1.0)
        os.set_blocking(self.process.stderr.fileno(), False)
        data = self.process.stderr.read() or b""
        return " | ".join(data.decode(errors="replace").strip().splitlines()[-3:])

    def kill(self) -> None:
        """End it; what it started ends with it."""
        with suppress(OSError):
            self.link.close()
        with suppress(subprocess.TimeoutExpired):
            # The link is closed: it ends and reaps its candidate, then itself.
            self.process.wait(1.0)
        # All of the server's own processes are of one group; what it started is not, and ends by the above.
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        if self.process.stderr is not None:
            self.process.stderr.close()
        for path in self._made:
            with suppress(OSError):
                os.chmod(path, 0o700)
            shutil.rmtree(path, ignore_errors=True)


class _JudgeServer(_Server):
    """A judge with a keeper of its own."""

    def __init__(self, state: _State) -> None:
        self._keeper = state.keeper(state.tier)
        to_keeper = self._keeper.link
        to_keeper.setblocking(True)  # the mode is shared with the process that gets it
        try:
            started = _start("bench", state.tier, state.judges_grants, (), keeper=to_keeper.fileno())
        except ResourceError:
            self._keeper.kill()
            raise
        super().__init__(started.process, started.link, started._made)
        to_keeper.close()  # the judge has it now
        self._loaded: bytes | None = None
        self._broken = ""

    @property
    def alive(self) -> bool:
        """Whether it and its keeper are there."""
        return super().alive and self._keeper.alive

    def has(self, encoded: bytes) -> bool:
        """Whether it holds these tests."""
        return self._loaded == encoded

    def load(self, encoded: bytes) -> str:
        """Give it the tests, unless it has them; says what is wrong with them. With some it comes to no end, and is
        ended."""
        if not self.has(encoded):
            if self._loaded is not None:
                send(self.link, {"op": "drop"})
            self._loaded = None
            try:
                answer = self.ask({"op": "load", "suite": json.loads(encoded)}, LOADING)
            except TimeoutError:
                self.kill()
                return f"the tests cannot be loaded within {LOADING:.0f} s"
            self._broken = str(answer.get("broken", "")) if isinstance(answer, dict) else "no answer"
            self._loaded = encoded
        return self._broken

    def kill(self) -> None:
        super().kill()
        self._keeper.kill()


def _places(tier: Tier, grants: Grants, sockets: bool) -> dict[str, Any]:
    """What a tier leaves open to programs, as `surroundings.Refusals` takes it."""
    readable = (*grants.granted, *grants.listed) if tier == "landlock" else (*grants.shown, "/proc")
    return {"readable": [*readable, *grants.packages], "absent": grants.absent, "sockets": sockets}


def _start(
    name: str,
    tier: Tier,
    grants: Grants,
    preload: Sequence[str],
    *,
    keeper: int = -1,
    sockets: bool = False,
) -> _Server:
    """Start a server under a tier.

    Args:
        name: of its module.
        tier: of the isolation.
        grants: what it may read.
        preload: modules that it imports before candidates are forked.
        keeper: a descriptor of the socket to the keeper that it has; -1 for none.
        sockets: whether programs may have them.

    Raises:
        ResourceError: it did not start; the message says why.
    """
    folders: list[str] = []
    user = _nobody()
    scratch = "/scratch/box"
    root = ""
    if tier in ("landlock", "none"):
        parent = tempfile.mkdtemp(prefix="draftverify-")
        folders.append(parent)
        scratch = os.path.join(parent, "box")
        if tier == "landlock" and os.geteuid() == 0:
            os.chown(parent, user, user)
    elif tier == "namespaces":
        root = tempfile.mkdtemp(prefix="draftverify-")
        folders.append(root)
    config = {
        **asdict(grants),
        "tier": tier,
        "root": root,
        "scratch": scratch,
        "user": user,
        "keep_reading": not all(map(_readable_by_others, grants.shown)),
        "preload": list(preload),
        "places": _places(tier, grants, sockets),
        "keeper": keeper,
    }
    ours, theirs = socket.socketpair()
    config["link"] = theirs.fileno()
    environment = {
        "PATH": os.pathsep.join((os.path.dirname(sys.executable), "/usr/local/bin", "/usr/bin", "/bin")),
        "HOME": scratch,
        "TMPDIR": scratch,
        "LANG": "C.UTF-8",
        "PYTHONHASHSEED": "0",
        "PYTHONDONTWRITEBYTECODE": "1",
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "MALLOC_ARENA_MAX": "1",  # what a thread reserves counts as memory
        "LOGNAME": "nobody",  # no file here says who this user is
        "OPENSSL_CONF": "/dev/null",  # Node reads the machine's, which is not shown
    }
    if elsewhere := [path for path in grants.packages if path not in site.getsitepackages()]:
        environment["PYTHONPATH"] = os.pathsep.join(elsewhere)
    code = f"{SERVER}module.main(sys.argv[3])"
    argv = [sys.executable, "-I", "-S", "-B", "-c", code, HERE, name, json.dumps(config)]
    if tier == "bubblewrap":
        argv = [*_bubblewrap(grants, scratch), *argv]
    try:
        process = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env=environment,
            pass_fds=[number for number in (theirs.fileno(), keeper) if number >= 0],
            cwd="/",
            start_new_session=True,
        )
    except OSError as error:
        for path in folders:
            shutil.rmtree(path, ignore_errors=True)
        ours.close()
        raise ResourceError(f"{argv[0]} does not start: {error}") from error
    finally:
        theirs.close()
    server = _Server(process, ours, folders)
    server.greet()
    return server


def _bubblewrap(grants: Grants, scratch: str) -> list[str]:
    program = shutil.which("bwrap")
    if program is None:
        raise ResourceError("the program bwrap is not installed")
    argv = [program, "--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts"]
    # As the machine's root no user namespace is made here, so that the keeper can still become another user.
    argv += ["--cap-add", "ALL"] if os.geteuid() == 0 else ["--unshare-user"]
    parents = {
        str(parent) for path in (*grants.shown, HERE, scratch, "/dev/shm") for parent in Path(path).parents
    }
    for path in sorted(parents - {"/"}):
        argv += ["--perms", "0755", "--dir", path]  # made on the way they would be nobody's to enter
    for path in (*grants.shown, HERE):
        if os.path.islink(path) and path.count("/") == 1:
            argv += ["--symlink", os.readlink(path), path]
        else:
            argv += ["--ro-bind", os.path.realpath(path), path]
    for path in grants.hidden:
        argv += ["--tmpfs", path]
        for entry in grants.shown:
            if entry.startswith(path + "/"):
                argv += ["--ro-bind", os.path.realpath(entry), entry]
        argv += ["--remount-ro", path]
    for path in ("/proc", *(f"/dev/{device}" for device in ("null", "zero", "full", "random", "urandom"))):
        argv += ["--dev-bind", path, path]
    argv += ["--symlink", scratch, "/dev/shm"]  # where semaphores are made, which process pools need
    argv += [word for name, target in STREAMS.items() for word in ("--symlink", target, name)]
    if "/tmp" not in parents:  # something there may be readable
        argv += ["--symlink", scratch, "/tmp"]
    return [*argv, "--dir", scratch, "--remount-ro", "/", "--chdir", "/", "--"]


@cache
def _readable_by_others(path: str) -> bool:
    """Whether a user who owns nothing can reach a path."""
    place = Path(os.path.realpath(path))
    return all(folder.stat().st_mode & 0o001 for folder in (place, *place.parents))


_counter = iter(range(1_000_000))


def _nobody() -> int:
    """A user number that nothing on this machine has; where numbers are few (a container), the one called nobody."""
    number = 2_000_000_000 + (os.getpid() % 10_000) * 1_000 + next(_counter) % 1_000
    with suppress(OSError, ValueError), open("/proc/self/uid_map") as file:
        for start, _, count in map(str.split, file):
            if int(start) <= number < int(start) + int(count):
                return number
    return 65534
