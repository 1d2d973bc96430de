"""Probes that reach out of the sandbox: they read, write, connect, signal, trace and change what is outside.

Each is a few lines after `World.prelude`. It succeeded when it tells a canary that it read, or the token because a call
that must fail did not, or when `World.changed` sees what it did.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from textwrap import dedent

__all__ = [
    "COLLECTED",
    "COSTS",
    "ESCAPES",
    "INCLUDES",
    "LEGACIES",
    "Collected",
    "Cost",
    "Escape",
    "Include",
    "Legacy",
]


@dataclass(frozen=True)
class Escape:
    """A probe.

    Args:
        name: of the test.
        code: of the probe.
        none: whether it succeeds where there is no isolation; if not, it succeeds in a plain child process.
        maybe: whether this machine may refuse it to anybody, or to anybody but root.
        open: the tiers that do not stop it, by their nature (documented).
        hole: why a tier does not stop it yet.
    """

    name: str
    code: str
    none: bool = True
    maybe: bool = False
    open: tuple[str, ...] = ()
    hole: dict[str, str] = field(default_factory=dict)


def escape(name: str, code: str, **more: object) -> Escape:
    return Escape(name, dedent(code).strip() + "\n", **more)  # type: ignore[arg-type]


READING = [
    escape("reads a file", 'attempt(lambda: tell(open(W["canary"]).read()))'),
    escape(
        "reads a file by a path of dots", 'attempt(lambda: tell(open("../" * 12 + W["canary"][1:]).read()))'
    ),
    escape(
        "reads a file from its directory",
        'attempt(os.chdir, W["outside"]); attempt(lambda: tell(open("canary").read()))',
    ),
    escape(
        "reads a file through a symlink",
        'os.symlink(W["canary"], "s"); attempt(lambda: tell(open("s").read()))',
    ),
    escape(
        "reads a file through a symlinked directory",
        'os.symlink(W["outside"], "d"); attempt(lambda: tell(open("d/canary").read()))',
    ),
    escape(
        "reads a file through a hard link",
        'attempt(os.link, W["canary"], "h"); attempt(lambda: tell(open("h").read()))',
    ),
    escape(
        "moves a file to itself",
        'attempt(os.rename, W["canary"], "h"); attempt(lambda: tell(open("h").read()))',
    ),
    escape(
        "reopens a path descriptor",
        """
        at = attempt(os.open, W["canary"], os.O_PATH)
        attempt(lambda: tell(open(f"/proc/self/fd/{at}").read()))
        """,
    ),
    escape(
        "reads a file by openat2",
        """
        import struct
        found = syscall("openat2", -100, W["canary"].encode(), struct.pack("=QQQ", 0, 0, 0), 24)
        if found >= 0: tell(os.pread(found, 80, 0))
        """,
    ),
    escape("lists a directory", 'attempt(lambda: done("canary" in os.listdir(W["outside"])))'),
    escape(
        "reads a symlink's text",
        'attempt(lambda: tell(os.readlink(W["outside"] + "/link")))',
        open=("landlock",),
    ),
    escape(
        "finds out that a file is there",
        'attempt(lambda: done(os.stat(W["canary"]).st_size > 5))',
        open=("landlock",),
    ),
    escape("reads the tests' own source", 'attempt(lambda: done("hostile" in open(W["repository"]).read()))'),
    escape("reads the users", 'attempt(lambda: done("root:" in open("/etc/passwd").read()))'),
    escape("lists /sys", 'attempt(lambda: done("kernel" in os.listdir("/sys")))'),
    escape(
        "executes a program outside",
        """
        import subprocess
        attempt(lambda: tell(subprocess.run([W["outside"] + "/script"], capture_output=True).stdout))
        """,
    ),
    escape(
        "opens by handle",
        """
        import ctypes, struct
        handle = ctypes.create_string_buffer(struct.pack("Ii", 128, 0), 136)
        mount = ctypes.c_int()
        syscall("name_to_handle_at", -100, W["canary"].encode(), handle, ctypes.byref(mount), 0)
        at = os.open(".", os.O_RDONLY)
        found = syscall("open_by_handle_at", at, handle, 0)
        if found >= 0: tell(os.pread(found, 80, 0))
        """,
        maybe=True,
    ),
    escape(
        "watches a directory",
        'done(syscall("inotify_add_watch", syscall("inotify_init1", 0), W["outside"].encode(), 2) > 0)',
    ),
]

PROCESSES = [
    escape("lists processes", 'attempt(lambda: done(str(W["harness"]) in os.listdir("/proc")))'),
    escape(
        "reads a command line",
        "attempt(lambda: tell(open(f\"/proc/{W['bystander']}/cmdline\").read()[-80:]))",
    ),
    escape(
        "reads an environment",
        """
        for pid in (W["bystander"], W["harness"], os.getppid(), 1):
            text = attempt(lambda: open(f"/proc/{pid}/environ").read()) or ""
            if W["secret"] in text: tell(text[text.index(W["secret"]):])
        """,
    ),
    escape("reads its own environment", 'tell(os.environ.get(W["secret"], ""))', none=False),
    escape(
        "reads inherited descriptors",
        """
        for number in range(256):
            attempt(lambda: tell(os.pread(number, 80, 0)))
        """,
        none=False,
    ),
    escape(
        "reads memory by /proc",
        """
        attempt(lambda: tell(os.pread(os.open(f"/proc/{W['bystander']}/mem", os.O_RDONLY), 40, W["address"])))
        """,
    ),
    escape(
        "reads memory by process_vm_readv",
        """
        import ctypes, struct
        here = ctypes.create_string_buffer(64)
        mine, theirs = (struct.pack("QQ", at, 40) for at in (ctypes.addressof(here), W["address"]))
        if syscall("process_vm_readv", W["bystander"], mine, 1, theirs, 1, 0) > 0: tell(here.value)
        """,
    ),
    escape(
        "reads through another's root",
        "attempt(lambda: tell(open(f\"/proc/{W['bystander']}/root{W['canary']}\").read()))",
    ),
    escape(
        "takes another's descriptor",
        """
        at = attempt(os.pidfd_open, W["bystander"])
        got = syscall("pidfd_getfd", -1 if at is None else at, 9, 0)
        if got >= 0: tell(os.pread(got, 80, 0))
        """,
    ),
    escape("traces", 'done(syscall("ptrace", 0x4206, W["bystander"], 0, 0) == 0)'),
    escape("signals the bystander", 'import signal; attempt(os.kill, W["bystander"], signal.SIGUSR1)'),
    escape("signals a group", 'import signal; attempt(os.killpg, W["bystander"], signal.SIGUSR1)'),
    escape(
        "signals by descriptor",
        'import signal; attempt(lambda: signal.pidfd_send_signal(os.pidfd_open(W["bystander"]), signal.SIGUSR1))',
    ),
    escape(
        "signals through a pipe's owner",
        """
        import ctypes, fcntl, signal
        out, into = os.pipe()
        fcntl.fcntl(out, fcntl.F_SETFL, fcntl.fcntl(out, fcntl.F_GETFL) | os.O_ASYNC)
        attempt(fcntl.fcntl, out, 10, int(signal.SIGUSR1))
        attempt(fcntl.fcntl, out, fcntl.F_SETOWN, W["bystander"])
        os.write(into, b"x")
        """,
    ),
    escape("signals a thread", 'syscall("tgkill", W["bystander"], W["bystander"], 10)'),
    escape(
        "queues a signal",
        """
        import struct
        syscall("rt_sigqueueinfo", W["bystander"], 10, struct.pack("=iii4xii", 10, 0, -1, os.getpid(), os.getuid()) + bytes(104))
        """,
    ),
    escape("may signal the harness", 'attempt(lambda: done(os.kill(W["harness"], 0) is None))'),
    escape(
        "may signal its parent", "attempt(lambda: done(os.getppid() and os.kill(os.getppid(), 0) is None))"
    ),
    escape(
        "limits the bystander",
        'import resource; attempt(resource.prlimit, W["bystander"], resource.RLIMIT_NOFILE, (99, 99))',
    ),
    escape(
        "limits its parent",
        """
        import resource
        parent = os.getppid()
        if parent: attempt(lambda: done(resource.prlimit(parent, resource.RLIMIT_CORE, resource.prlimit(parent, resource.RLIMIT_CORE))))
        """,
    ),
    escape(
        "moves its parent to one processor",
        """
        parent = os.getppid()
        if parent: attempt(lambda: done(os.sched_setaffinity(parent, os.sched_getaffinity(parent)) is None))
        """,
    ),
    escape(
        "slows its parent down",
        """
        parent = os.getppid()
        if parent: attempt(lambda: done(os.setpriority(os.PRIO_PROCESS, parent, os.getpriority(os.PRIO_PROCESS, parent)) is None))
        """,
    ),
    escape(
        "attaches shared memory",
        """
        import ctypes
        at = syscall("shmat", W["segment"], 0, 0)
        if at > 0: tell(ctypes.string_at(at, 30).partition(b"\\0")[0])
        """,
    ),
    escape(
        "writes shared memory",
        """
        import ctypes
        at = syscall("shmat", W["segment"], 0, 0)
        if at > 0: ctypes.memmove(at, b"changed", 7)
        """,
    ),
]

WRITING = [
    escape("writes a file", 'attempt(lambda: open(W["victim"], "w").write("changed"))'),
    escape(
        "appends through a symlink",
        'os.symlink(W["victim"], "s"); attempt(lambda: open("s", "a").write("changed"))',
    ),
    escape("truncates a file", 'attempt(os.truncate, W["victim"], 0)'),
    escape("removes a file", 'attempt(os.unlink, W["victim"])'),
    escape("renames a file", 'attempt(os.rename, W["victim"], W["victim"] + "2")'),
    escape("creates a file", 'attempt(lambda: open(W["outside"] + "/new", "w").close())'),
    escape("creates a directory", 'attempt(os.mkdir, W["outside"] + "/new")'),
    escape("links a file out", 'open("mine", "w").close(); attempt(os.link, "mine", W["outside"] + "/new")'),
    escape(
        "moves a file out", 'open("mine", "w").close(); attempt(os.rename, "mine", W["outside"] + "/new")'
    ),
    escape("makes a symlink outside", 'attempt(os.symlink, "/", W["outside"] + "/new")'),
    escape(
        "writes to common places",
        """
        for place in ("/tmp", "/dev/shm", "/var/tmp", "/", "..", "../..", W["root"], W["shown"], os.path.expanduser("~") + "/.."):
            attempt(lambda: open(f"{place}/{W['stray']}", "w").close())
        """,
    ),
    escape(
        "changes a granted module",
        'attempt(lambda: open(W["shown"] + "/granted.py", "w").write("VALUE = \'poisoned\'"))',
    ),
    escape(
        "poisons a granted module's cache",
        """
        attempt(os.mkdir, W["shown"] + "/__pycache__")
        attempt(lambda: open(W["shown"] + "/__pycache__/granted.pyc", "w").close())
        """,
    ),
    escape("changes a mode", 'attempt(os.chmod, W["victim"], 0o600)'),
    escape("changes a time", 'attempt(os.utime, W["victim"])'),
    escape(
        "changes attributes",
        'attempt(os.setxattr, W["victim"], "user.note", b"x")',
        maybe=True,
    ),
]

NETWORK = [
    escape(
        "connects by TCP", 'import socket; attempt(socket.create_connection, ("127.0.0.1", W["tcp"]), 0.3)'
    ),
    escape(
        "sends by UDP",
        """
        import socket
        attempt(lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", ("127.0.0.1", W["udp"])))
        """,
    ),
    escape(
        "listens by TCP",
        """
        import socket
        def listen():
            place = socket.socket()
            place.bind(("127.0.0.1", 0))
            place.listen()
            return True
        done(attempt(listen))
        """,
    ),
    escape(
        "opens a netlink socket",
        "import socket; done(attempt(lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)))",
    ),
    escape(
        "connects to a path",
        'import socket; attempt(lambda: socket.socket(socket.AF_UNIX).connect(W["outside"] + "/stream"))',
    ),
    escape(
        "connects to an abstract name",
        'import socket; attempt(lambda: socket.socket(socket.AF_UNIX).connect("\\0" + W["abstract"] + " stream"))',
    ),
    escape(
        "sends to a path from a pair",
        """
        import socket
        for kind in (socket.SOCK_DGRAM, socket.SOCK_RAW, socket.SOCK_SEQPACKET, socket.SOCK_STREAM):
            for one in attempt(socket.socketpair, socket.AF_UNIX, kind) or ():
                attempt(one.sendto, b"x", W["outside"] + "/datagram")
        """,
    ),
    escape(
        "connects one of a pair to an abstract name",
        """
        import socket
        for kind in (socket.SOCK_SEQPACKET, socket.SOCK_STREAM):
            for one in attempt(socket.socketpair, socket.AF_UNIX, kind) or ():
                done(attempt(lambda: one.connect("\\0" + W["abstract"] + " stream") or True))
                attempt(one.sendto, b"x", "\\0" + W["abstract"])
        """,
    ),
    escape(
        "sends to an abstract name from a pair",
        """
        import socket
        for kind in (socket.SOCK_DGRAM, socket.SOCK_RAW):
            for one in attempt(socket.socketpair, socket.AF_UNIX, kind) or ():
                attempt(one.sendto, b"x", "\\0" + W["abstract"])
        """,
    ),
]

KERNEL = [
    escape("begins a user namespace", 'done(syscall("unshare", 0x10000000) == 0)', maybe=True),
    escape("begins a mount namespace", 'done(syscall("unshare", 0x20000) == 0)', maybe=True),
    escape(
        "clones into a user namespace",
        """
        pid = syscall("clone", 0x10000000 | 17, 0, 0, 0, 0)
        if pid == 0: os._exit(0)
        done(pid > 0)
        """,
        maybe=True,
    ),
    escape(
        "enters another's namespace",
        """
        for pid in (W["bystander"], os.getppid(), 1):
            at = attempt(os.open, f"/proc/{pid}/ns/net", os.O_RDONLY)
            done(at is not None and syscall("setns", at, 0) == 0)
        """,
        maybe=True,
    ),
    escape(
        "mounts",
        """
        import ctypes
        os.mkdir("m")
        if syscall("mount", b"none", b"m", b"tmpfs", 0, 0) == 0:
            ctypes.CDLL(None).umount2(b"m", 2)
            done()
        """,
        maybe=True,
    ),
    escape("changes the root directory", 'done(syscall("chroot", b".") == 0)', maybe=True),
    escape("becomes root", "attempt(lambda: done(os.setuid(0) is None))", maybe=True),
    escape(
        "runs a set-user-id program",
        """
        import subprocess
        said = attempt(lambda: subprocess.run(["su", "-c", "id -u"], capture_output=True, stdin=subprocess.DEVNULL).stdout)
        done(said == b"0\\n")
        """,
        maybe=True,
    ),
    escape(
        "makes a device",
        'attempt(lambda: done(os.mknod("zero", 0o20666, os.makedev(1, 5)) is None))',
        maybe=True,
    ),
    escape("uses io_uring", 'done(syscall("io_uring_setup", 1, bytes(120)) >= 0)', maybe=True),
    escape("makes a memfd", 'done(syscall("memfd_create", b"m", 0) >= 0)'),
    escape(
        "clones by the newer call",
        """
        import struct
        pid = syscall("clone3", struct.pack("=QQQQQQQQ", 0x10000000, 0, 0, 0, 17, 0, 0, 0), 64)
        if pid == 0: os._exit(0)
        done(pid > 0)
        """,
        maybe=True,
    ),
    escape(
        "begins any other namespace",
        'for flag in (0x4000000, 0x8000000, 0x40000000, 0x2000000, 0x80): done(syscall("unshare", flag) == 0)',
        maybe=True,
    ),
    escape("mounts by the newer calls", 'done(syscall("fsopen", b"tmpfs", 0) >= 0)', maybe=True),
    escape("watches the file system", 'done(syscall("fanotify_init", 0, 0) >= 0)', maybe=True),
    escape("finds a keyring", 'done(syscall("keyctl", 0, -3, 1) >= 0)', maybe=True),
    escape("reads the kernel's log", 'done(syscall("klogctl", 10, 0, 0) > 0)', maybe=True),
    escape(
        "changes the host's name",
        "import socket; attempt(lambda: done(socket.sethostname(socket.gethostname()) is None))",
        maybe=True,
    ),
    escape(
        "opens sockets of other families",
        """
        import socket
        for family in (38, 40, 17, 31, 29):  # AF_ALG, AF_VSOCK, AF_PACKET, AF_BLUETOOTH, AF_CAN
            for kind in (socket.SOCK_STREAM, socket.SOCK_SEQPACKET, socket.SOCK_RAW): done(attempt(socket.socket, family, kind))
        """,
        maybe=True,
    ),
    escape(
        "becomes a real-time process",
        "attempt(lambda: done(os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1)) is None))",
        maybe=True,
    ),
    escape("takes precedence", "attempt(lambda: done(os.nice(-5) is not None))", maybe=True),
    escape(
        "has others killed for memory first",
        'attempt(lambda: done(open("/proc/self/oom_score_adj", "w").write("-500")))',
        maybe=True,
    ),
    escape(
        "makes a control group",
        """
        for place in ("/sys/fs/cgroup", "/sys/fs/cgroup/memory"):
            if attempt(os.mkdir, f"{place}/{W['stray']}") is None and attempt(os.rmdir, f"{place}/{W['stray']}") is None:
                done(os.access(place, os.W_OK))
        """,
        maybe=True,
    ),
    escape(
        "may change the kernel's settings",
        """
        for name in ("core_pattern", "hostname", "modprobe"):
            done(attempt(os.open, f"/proc/sys/kernel/{name}", os.O_WRONLY) is not None)
        """,
        maybe=True,
    ),
    escape(
        "opens devices",
        """
        import stat
        names = attempt(os.listdir, "/dev") or ()
        for name in (*names, "net/tun", "mem", "kmsg", "kvm", "fuse"):
            if name in ("null", "zero", "full", "random", "urandom", "tty", "ptmx"): continue
            kind = attempt(lambda: os.stat(f"/dev/{name}").st_mode) or 0
            if stat.S_ISBLK(kind) or name in ("net/tun", "mem", "kmsg", "kvm", "fuse"):
                done(attempt(os.open, f"/dev/{name}", os.O_RDONLY) is not None)
        """,
        maybe=True,
    ),
    escape("uses bpf", 'done(syscall("bpf", 0, bytes(72), 72) >= 0)', maybe=True),
    escape("uses userfaultfd", 'done(syscall("userfaultfd", 1) >= 0)', maybe=True),
    escape("adds a key", 'done(syscall("add_key", b"user", b"redteam", b"x", 1, -2) >= 0)', maybe=True),
    escape("changes its personality", 'done(syscall("personality", 0x0040000) >= 0)', maybe=True),
    escape(
        "raises a limit",
        """
        import resource
        for each in (resource.RLIMIT_CPU, resource.RLIMIT_AS, resource.RLIMIT_FSIZE, resource.RLIMIT_NOFILE, resource.RLIMIT_CORE):
            most = resource.getrlimit(each)[1]
            attempt(lambda: done(most >= 0 and resource.setrlimit(each, (most, most + 1)) is None))
        """,
        maybe=True,
    ),
]

ESCAPES = [*READING, *PROCESSES, *WRITING, *NETWORK, *KERNEL]


@dataclass(frozen=True)
class Legacy:
    """What one candidate leaves for the next.

    Args:
        name: of the test.
        first: the code of the one that leaves something.
        then: of the next, which must be as if there had been none: it tells the token when it finds something.
        paths: how both are run: as a command, by the judge.
        none: whether that holds with no isolation too; nothing keeps such a candidate from its keeper.
        proof: whether `then` finds it where nothing stops it.
        hole: why a tier does not stop it yet.
    """

    name: str
    first: str
    then: str = ""
    paths: tuple[str, ...] = ("run", "judge")
    none: bool = True
    proof: bool = True
    hole: dict[str, str] = field(default_factory=dict)


def legacy(name: str, first: str, then: str = "", **more: object) -> Legacy:
    return Legacy(name, dedent(first).strip() + "\n", dedent(then).strip() + "\n", **more)  # type: ignore[arg-type]


EMPTY = 'done(os.listdir("."))'
USABLE = 'done(attempt(lambda: open("mine", "w").close() or os.listdir(".")) != ["mine"])'

LEGACIES = [
    legacy("a file", 'open("left", "w").write("x"); open(".hidden", "w").close()', EMPTY),
    legacy(
        "a directory nobody may enter",
        'os.makedirs("a/b"); open("a/b/c", "w").close(); os.chmod("a/b", 0); os.chmod("a", 0)',
        EMPTY,
    ),
    legacy(
        "a symlink to a directory",
        'os.symlink(W["outside"], "s")',
        EMPTY,
    ),
    legacy(
        "symlinks to large directories",
        'for i in range(8): os.symlink("/usr", f"s{i}")',
        EMPTY,
        none=False,
    ),
    legacy(
        "odd names",
        """
        for name in (b"-rf", b"--help", b"new\\nline", bytes(range(128, 192)), b"\\xff" * 200, b"*", b" ", b"\\\\"):
            open(name, "w").close()
        """,
        EMPTY,
    ),
    legacy(
        "a pipe and a socket",
        """
        os.mkfifo("fifo")
        import socket
        attempt(lambda: socket.socket(socket.AF_UNIX).bind("place"))
        """,
        EMPTY,
    ),
    legacy(
        "a scratch directory without permissions",
        'os.chmod(".", 0)',
        USABLE,
        proof=os.geteuid() != 0,
    ),
    legacy(
        "an attribute of the scratch directory",
        'attempt(os.setxattr, ".", "user.note", b"x")',
        'done(attempt(os.listxattr, "."))',
    ),
    legacy(
        "flags of the scratch directory and of the one above",
        """
        import fcntl, struct
        for place in (".", ".."):
            opened = attempt(os.open, place, os.O_RDONLY)
            for flags in (0x40, 0x80, 0x08, 0x10, 0x20):  # no dump, no access times, synchronous; immutable, append
                attempt(fcntl.ioctl, opened, 0x40086602, struct.pack("q", flags))
        """,
        """
        import fcntl, struct
        for place in (".", ".."):
            found = attempt(fcntl.ioctl, attempt(os.open, place, os.O_RDONLY), 0x80086601, bytes(8))
            done(found and struct.unpack("q", found)[0] & 0xF8)
        """,
        none=False,
        proof=False,
    ),
    legacy(
        "files beside the scratch directory",
        'attempt(lambda: open("../left", "w").close()); attempt(os.rename, os.getcwd(), "../other")',
        'done({"left", "other"} & set(attempt(os.listdir, "..") or ()))',
        none=False,
        proof=False,
    ),
    legacy(
        "a variable and a module",
        'os.environ["LEFT"] = "x"; os.putenv("LEFT", "x"); sys.modules["left"] = sys',
        'done("LEFT" in os.environ or "left" in sys.modules)',
    ),
    legacy(
        "a patched interpreter",
        """
        import builtins, json
        builtins.len = lambda x: 7
        json.dumps = None
        sys.settrace(lambda *_: None)
        sys.setrecursionlimit(50)
        """,
        """
        import json
        done(len("") or json.dumps is None or sys.gettrace() or sys.getrecursionlimit() < 900)
        """,
    ),
    legacy(
        "another directory, mask, priority and limits",
        """
        import resource
        os.umask(0o777); os.chdir("/"); os.nice(19)
        resource.setrlimit(resource.RLIMIT_NOFILE, (20, 20))
        """,
        """
        import resource
        old = os.umask(0); os.umask(old)
        done(old == 0o777 or os.getcwd() == "/" or os.nice(0) == 19 or resource.getrlimit(resource.RLIMIT_NOFILE)[0] == 20)
        """,
    ),
    legacy(
        "standard error that is full",
        """
        for number in (1, 2):
            os.set_blocking(number, False)
            try:
                for _ in range(100): os.write(number, b"x" * 4096)
            except OSError:
                pass
        """,
        'os.write(2, b"y" * 10); os.write(1, b"y" * 10); done(not os.get_blocking(2))',
        proof=False,
    ),
    legacy(
        "a rule for Landlock",
        """
        import struct
        at = os.open("/", os.O_PATH)
        for number in range(3, 64):
            for access in (0xffff, 0x7fff, 0x3fff, 0x1fff):
                if syscall("landlock_add_rule", number, 1, struct.pack("=Qi", access, at), 0) == 0: break
        """,
        'attempt(lambda: done("root:" in open("/etc/passwd").read())); attempt(lambda: tell(open(W["canary"]).read())); attempt(lambda: done(os.listdir("/sys")))',
        paths=("judge",),
        none=False,
    ),
    legacy(
        "limits of its keeper",
        """
        import resource
        if os.getppid(): attempt(resource.prlimit, os.getppid(), resource.RLIMIT_NOFILE, (50, 50))
        """,
        none=False,
        proof=False,
    ),
    legacy(
        "a directory that was large",
        """
        names = [f"{number:03}" + "x" * 240 for number in range(500)]
        for name in names: open(name, "w").close()
        for name in names: os.unlink(name)
        """,
        'done(os.stat(".").st_size > 20000)',
        proof=False,
    ),
    legacy(
        "files anywhere",
        """
        places = ["/", *(f"/{name}" for name in attempt(os.listdir, "/") or ())]
        places += [f"{place}/{name}" for place in places[1:] for name in attempt(os.listdir, place) or ()]
        for place in ("/dev/shm", "/tmp", "/var/tmp", "/run", "..", *places):
            attempt(lambda: open(f"{place}/{W['stray']}", "w").close())
        """,
        """
        places = ["/", *(f"/{name}" for name in attempt(os.listdir, "/") or ())]
        places += [f"{place}/{name}" for place in places[1:] for name in attempt(os.listdir, place) or ()]
        for place in ("/dev/shm", "/tmp", "/var/tmp", "/run", "..", *places):
            done(os.path.exists(f"{place}/{W['stray']}"))
        """,
        none=False,
        proof=False,
    ),
    legacy(
        "shared memory, semaphores and messages",
        """
        import ctypes
        libc = ctypes.CDLL(None)
        for make in (lambda: libc.shmget(0x52544D, 4096, 0o1666), lambda: libc.semget(0x52544D, 1, 0o1666), lambda: libc.msgget(0x52544D, 0o1666)): attempt(make)
        """,
        """
        import ctypes
        libc = ctypes.CDLL(None)
        for find, end in (
            (lambda: libc.shmget(0x52544D, 0, 0), lambda at: libc.shmctl(at, 0, None)),
            (lambda: libc.semget(0x52544D, 0, 0), lambda at: libc.semctl(at, 0, 0)),
            (lambda: libc.msgget(0x52544D, 0), lambda at: libc.msgctl(at, 0, None)),
        ):
            at = find()
            if at >= 0: end(at); done()
        """,
        none=False,
    ),
    legacy(
        "a lock on the scratch directory",
        """
        import fcntl
        at = os.open(".", os.O_RDONLY)
        fcntl.flock(at, fcntl.LOCK_EX)
        if os.fork() == 0:
            attempt(os.setsid)
            import time
            time.sleep(30)
        """,
        """
        import fcntl
        done(attempt(lambda: fcntl.flock(os.open(".", os.O_RDONLY), fcntl.LOCK_EX | fcntl.LOCK_NB) or True) is None)
        """,
        proof=False,
    ),
    legacy(
        "a name that listens",
        """
        import socket
        place = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) if attempt(socket.socket, socket.AF_UNIX, socket.SOCK_DGRAM) else None
        if place and attempt(lambda: place.bind("\\0" + W["stray"]) or True) and os.fork() == 0:
            attempt(os.setsid)
            import time
            time.sleep(30)
        """,
        """
        import socket
        attempt(lambda: done(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).connect("\\0" + W["stray"]) is None))
        """,
        proof=False,
    ),
    legacy(
        "a process",
        """
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                import signal, time
                for number in set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP}: signal.signal(number, signal.SIG_IGN)
                time.sleep(30)
            os._exit(0)
        """,
        EMPTY,
        proof=False,
    ),
]


@dataclass(frozen=True)
class Cost:
    """What one candidate leaves that takes long to remove: the next one's time is its own.

    Args:
        name: of the test.
        code: of the candidate.
        whole: whether only the sweep has it.
    """

    name: str
    code: str
    whole: bool = False
    hole: dict[str, str] = field(default_factory=dict)


COSTS = [
    Cost("1,000 empty files", 'for i in range(1000): open(f"f{i}", "w").close()'),
    Cost("1,000 directories", "for i in range(1000): os.mkdir(str(i), 0o300)"),
    Cost("1,000 symlinks", 'for i in range(1000): os.symlink("/usr", str(i))'),
    Cost("a deep directory", "for i in range(1000): os.mkdir('d'); os.chdir('d')"),
    Cost(
        "processes that fork",
        """
import time
for _ in range(3):
    if os.fork() == 0:
        until = time.monotonic() + 3
        while time.monotonic() < until:
            try:
                if os.fork(): os._exit(0)
                os.setsid()
            except OSError: time.sleep(0.001)
        os._exit(0)
""",
    ),
    Cost("100,000 empty files", 'for i in range(100_000): open(f"f{i}", "w").close()', True),
]


@dataclass(frozen=True)
class Include:
    """A source that brings a file from outside into a compiler's message or object.

    Args:
        name: of the test.
        file: its name.
        source: with {outside} for a directory that has header.h (an #error with the canary) and canary.
    """

    name: str
    file: str
    source: str
    hole: dict[str, str] = field(default_factory=dict)


INCLUDES = [
    Include("include", "x.c", '#include "{outside}/header.h"\n'),
    Include("include by dots", "x.c", '#include "{dots}/header.h"\n'),
    Include("include of what is no source", "x.c", '#include "{outside}/canary"\n'),
    Include("incbin", "x.c", '__asm__(".incbin \\"{outside}/canary\\"");\n'),
    Include("incbin by dots", "x.s", '.incbin "{dots}/canary"\n'),
    Include("a diagnostic that quotes a file", "x.c", '# 1 "{outside}/canary"\nint x = y;\n'),
    Include("import", "x.c", '#import "{outside}/header.h"\n'),
    Include("include through its own root", "x.c", '#include "/proc/self/root{outside}/header.h"\n'),
    Include("include through its directory", "x.c", '#include "/proc/self/cwd/{dots}/header.h"\n'),
    Include("incbin of a part", "x.s", '.incbin "{outside}/canary",0,19\n'),
    Include("include of the assembler", "x.s", '.include "{outside}/canary"\n'),
]


@dataclass(frozen=True)
class Collected:
    """A command that leaves things under the names "out" and "d/out" which are no files of its own.

    Args:
        name: of the test.
        code: of the command.
    """

    name: str
    code: str
    hole: dict[str, str] = field(default_factory=dict)


def collected(name: str, code: str, **more: object) -> Collected:
    return Collected(name, 'open("honest", "w").write("x")\n' + dedent(code).strip() + "\n", **more)  # type: ignore[arg-type]


COLLECTED = [
    collected("a symlink", 'os.symlink(W["canary"], "out")'),
    collected("a symlinked directory", 'os.mkdir("e"); os.symlink(W["outside"], "d")'),
    collected("a symlink to a file of its own", 'os.symlink("honest", "out")'),
    collected("a pipe", 'os.mkfifo("out"); os.mkdir("d"); os.mkfifo("d/out")'),
    collected("a directory", 'os.makedirs("out"); os.makedirs("d/out")'),
    collected(
        "a socket", 'import socket; os.mkdir("d"); attempt(lambda: socket.socket(socket.AF_UNIX).bind("out"))'
    ),
    collected(
        "a file that is too large",
        'attempt(lambda: open("out", "w").truncate(2 << 20)); os.path.exists("out") and os.path.getsize("out") or os.unlink("out")',
    ),
    collected("a link to a device", 'os.symlink("/dev/zero", "out")'),
]
