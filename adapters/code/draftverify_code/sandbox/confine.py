"""How a process locks itself in: namespaces and a root of its own, Landlock, a system-call filter, resource limits.

This file runs inside the small server processes (keeper and judge), which import nothing but the standard library;
the harness imports it only to ask what the machine can do. Linux only: elsewhere nothing of it is available.

Sources: landlock(7), user_namespaces(7), pid_namespaces(7), pivot_root(2), seccomp(2), and the kernel's headers
(linux/landlock.h, linux/seccomp.h, linux/bpf_common.h, asm/unistd.h).
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import resource
import socket
import struct
import sys
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long
_libc.prctl.argtypes = [ctypes.c_int] + [ctypes.c_ulong] * 4
_libc.capset.argtypes = [ctypes.c_char_p, ctypes.c_char_p]
_libc.mount.argtypes = [ctypes.c_char_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_ulong, ctypes.c_char_p]

CLONE_NEWNS = 0x00020000
CLONE_NEWUTS = 0x04000000
CLONE_NEWIPC = 0x08000000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000
CLONE_NEW_ANY = 0x7E020080  # every namespace flag, time and cgroup included

PR_SET_PDEATHSIG = 1
PR_SET_DUMPABLE = 4
PR_SET_KEEPCAPS = 8
PR_SET_SECCOMP = 22
PR_CAP_AMBIENT = 47
PR_SET_CHILD_SUBREAPER = 36
PR_SET_NO_NEW_PRIVS = 38

MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC = 1, 2, 4, 8
MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = 32, 4096, 16384, 1 << 18
MNT_DETACH = 2


STREAMS = {"/dev/fd": "/proc/self/fd"} | {
    f"/dev/{name}": f"/proc/self/fd/{number}" for number, name in enumerate(("stdin", "stdout", "stderr"))
}
"""Links that programs expect to find, each with its target."""


def _checked(result: int, label: str) -> int:
    if result < 0:
        error = ctypes.get_errno()
        raise OSError(error, f"{label}: {os.strerror(error)}")
    return result


Step: TypeAlias = tuple[Callable[..., Any], tuple[Any, ...]]
"""A system call and its arguments, which returns None or 0.

What each candidate does before its program runs is prepared before the fork: all that it touches itself, down to the
reference counts of a function's code, is copied for it page by page.
"""


def take(steps: Iterable[Step]) -> None:
    """Do one after the other, raising OSError."""
    for call, arguments in steps:
        if call(*arguments):
            _checked(-1, f"{call}{arguments}")


def prctl(option: int, a: int = 0, b: int = 0, c: int = 0, d: int = 0) -> None:
    """prctl(2), raising OSError."""
    _checked(_libc.prctl(option, a, b, c, d), f"prctl {option}")


# --- Landlock

FS_EXECUTE, FS_WRITE_FILE, FS_READ_FILE, FS_READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
FS_REFER, FS_TRUNCATE, FS_IOCTL_DEV = 1 << 13, 1 << 14, 1 << 15
_FS_ABI_1 = (1 << 13) - 1
_ON_FILES = FS_EXECUTE | FS_WRITE_FILE | FS_READ_FILE | FS_TRUNCATE | FS_IOCTL_DEV

READ = FS_EXECUTE | FS_READ_FILE | FS_READ_DIR


def landlock_abi() -> int:
    """The version of Landlock that this kernel has; 0 when it has none."""
    if sys.platform != "linux":
        return 0
    return max(int(_libc.syscall(444, None, 0, 1)), 0)


def new_ruleset(
    readable: list[str], listed: list[str], writable: list[str], devices: list[str], *, sockets: bool = False
) -> int:
    """A Landlock ruleset that allows nothing but these paths, no TCP, and no signal or abstract socket to the outside.

    Args:
        readable: files and directories that may be read and executed.
        listed: directories of which the names inside may be read, at any depth.
        writable: directories in which everything is allowed but making devices.
        devices: files that may be read and written.
        sockets: whether TCP is allowed.

    Returns:
        Its file descriptor, for `restrict`.
    """
    abi = landlock_abi()
    handled = _FS_ABI_1
    handled |= FS_REFER if abi >= 2 else 0
    handled |= FS_TRUNCATE if abi >= 3 else 0
    handled |= FS_IOCTL_DEV if abi >= 5 else 0
    attributes = struct.pack("=Q", handled)
    if abi >= 4:
        attributes += struct.pack("=Q", 0 if sockets else 3)  # bind and connect, TCP
    if abi >= 6:
        attributes += struct.pack("=Q", 3)  # abstract sockets and signals
    ruleset = _checked(int(_libc.syscall(444, attributes, len(attributes), 0)), "landlock_create_ruleset")
    no_devices = ~((1 << 6) | (1 << 11))
    for paths, access in (
        (readable, READ),
        (listed, FS_READ_DIR),
        (writable, handled & no_devices),
        (devices, FS_READ_FILE | FS_WRITE_FILE | FS_TRUNCATE | FS_IOCTL_DEV),
    ):
        for path in paths:
            try:
                place = os.open(path, os.O_PATH | os.O_CLOEXEC)
            except OSError:
                continue  # what is not there needs no rule
            try:
                rights = access & handled
                if not os.path.isdir(path):
                    rights &= _ON_FILES
                rule = struct.pack("=Qi", rights, place)
                _checked(int(_libc.syscall(445, ruleset, 1, rule, 0)), f"landlock_add_rule {path}")
            finally:
                os.close(place)
    return ruleset


def no_new_privileges() -> None:
    """Nothing that is executed from here on gains a privilege."""
    prctl(PR_SET_NO_NEW_PRIVS, 1)


def restrict(ruleset: int) -> Step:
    """Entering a Landlock ruleset, for good (`no_new_privileges` first)."""
    return _libc.syscall, (446, ruleset, 0)


# --- System calls

# What no candidate needs: looking into other processes, changing mounts or namespaces, kernel facilities that reach
# around the other layers, memory that no limit counts (memfd, System V), sockets (a socketpair is no socket(2)).
_DENIED = {
    "x86_64": (
        *(101, 310, 311, 312, 438, 440),  # ptrace, process_vm_*, kcmp, pidfd_getfd, process_madvise
        *(155, 161, 429, 428, 430, 431, 432, 433, 442),  # pivot_root, chroot, move_mount … mount_setattr
        *(303, 304),  # *_handle_at
        *(425, 426, 427, 321, 298, 323),  # io_uring_*, bpf, perf_event_open, userfaultfd
        *(248, 249, 250),  # keys
        *(246, 320, 175, 313, 176, 169, 167, 168, 163, 164, 227, 179, 103, 135),  # the machine's own matters
        *(41, 319, 447, 240, 241),  # socket, memfd_*, mq_*
        *(29, 30, 31, 64, 65, 66, 220, 68, 69, 70, 71),  # System V: shared memory, semaphores, messages
        *(253, 254, 294, 300),  # inotify_*, fanotify_init
    ),
    "aarch64": (
        *(117, 270, 271, 272, 438, 440),
        *(41, 51, 429, 428, 430, 431, 432, 433, 442),
        *(264, 265),
        *(425, 426, 427, 280, 241, 282),
        *(217, 218, 219),
        *(104, 294, 105, 273, 106, 142, 224, 225, 89, 170, 112, 60, 116, 92),
        *(198, 279, 447, 180, 181),
        *(194, 195, 196, 190, 191, 192, 193, 186, 187, 188, 189),
        *(26, 27, 262),
    ),
}
# unshare, setns, mount, umount2
_KEEPERS_OWN = {"x86_64": (272, 308, 165, 166), "aarch64": (97, 268, 40, 39)}
# AUDIT_ARCH_*, the number of clone
_ARCHITECTURE = {"x86_64": (0xC000003E, 56), "aarch64": (0xC00000B7, 220)}
_SIGNALLING = {"x86_64": (62, 200, 234, 424, 129, 297), "aarch64": (129, 130, 131, 424, 138, 240)}
# Where neighbours are visible and files have their owners: what reaches another process of the same user by its number
# (the first argument, 0 being oneself), and what changes a file's modes, owners, times and attributes, which Landlock
# does not look at.
_BY_NUMBER = {  # prlimit64, sched_set*, migrate_pages, move_pages, get*id
    "x86_64": (302, 203, 144, 142, 314, 256, 279, 121, 124),
    "aarch64": (261, 122, 119, 118, 274, 238, 239, 155, 156),
}
_OUTRIGHT = {
    "x86_64": (
        *(141, 251),  # setpriority, ioprio_set
        *(90, 91, 268, 452, 92, 93, 94, 260),  # chmod and chown
        *(132, 235, 261, 280),  # utime
        *(188, 189, 190, 197, 198, 199, 463, 466),  # extended attributes
    ),
    "aarch64": (*(140, 30), *(52, 53, 452, 54, 55), *(88,), *(5, 6, 7, 14, 15, 16, 463, 466)),
}
_SOCKET = {"x86_64": 41, "aarch64": 198}
_SOCKETPAIR = {"x86_64": 53, "aarch64": 199}
_IOCTL = {"x86_64": 16, "aarch64": 29}

_LOAD, _EQUAL, _AT_LEAST, _SET, _AND, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x54, 0x06
_ALLOW, _ERRNO, _KILL = 0x7FFF0000, 0x00050000, 0x80000000
EPERM, ENOTTY, ENOSYS = 1, 25, 38


class _FilterProgram(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_char_p)]


class Filter:
    """A system-call filter, built once."""

    def __init__(self, instructions: bytes) -> None:
        self._instructions = instructions
        self._program = _FilterProgram(len(instructions) // 8, instructions)

    def install(self) -> Step:
        """Entering it, for good (`no_new_privileges` first)."""
        return _libc.prctl, (PR_SET_SECCOMP, 2, ctypes.addressof(self._program), 0, 0)


def syscall_filters(
    *, alone: bool = True, signals: bool = True, sockets: bool = False
) -> tuple[Filter, Filter] | None:
    """Two filters for this machine's architecture; None when there is none for it.

    The first is entered once by the keeper, and inherited; it leaves the keeper what it needs to begin namespaces. The
    second, short since it is compiled for each candidate, takes that away too.

    Args:
        alone: whether namespaces keep the candidate apart from other processes and files of its user.
        signals: whether signals to other processes are allowed; without, where nothing else keeps a candidate from
            signalling its neighbours, not even to its own children.
        sockets: whether there may be sockets of IPv4 and IPv6.
    """
    machine = os.uname().machine
    if sys.platform != "linux" or machine not in _DENIED:
        return None
    audit, clone = _ARCHITECTURE[machine]

    def step(code: int, value: int, yes: int = 0, no: int = 0) -> bytes:
        return struct.pack("=HBBI", code, yes, no, value)

    def deny(numbers: tuple[int, ...]) -> list[bytes]:
        no = step(_RETURN, _ERRNO | EPERM)
        return [part for number in numbers for part in (step(_EQUAL, number, 0, 1), no)]

    allow_sockets = [
        step(_EQUAL, _SOCKET[machine], 0, 4),
        step(_LOAD, 16),  # its family
        step(_EQUAL, 2, 1, 0),
        step(_EQUAL, 10, 0, 1),
        step(_RETURN, _ALLOW),
        step(_LOAD, 0),
    ]
    keeper_filter = [
        step(_LOAD, 4),  # the architecture
        step(_EQUAL, audit, 1, 0),
        step(_RETURN, _KILL),
        step(_LOAD, 0),  # the call's number
        step(_AT_LEAST, 0x40000000, 0, 1),  # the x32 interface
        step(_RETURN, _ERRNO | ENOSYS),
        # clone3, whose flags a filter cannot read: the C library falls back to clone.
        step(_EQUAL, 435, 0, 1),
        step(_RETURN, _ERRNO | ENOSYS),
        *(allow_sockets if sockets else []),
        *deny(_DENIED[machine]),
        # One of a pair sends anywhere, unless the two are connected: a stream (1), or a sequence of packets (5), with
        # which rustc starts its linker. Without their third bit both types are 1, and no other one is.
        step(_EQUAL, _SOCKETPAIR[machine], 0, 5),
        step(_LOAD, 24),  # its type
        step(_AND, 0xB),
        step(_EQUAL, 1, 1, 0),
        step(_RETURN, _ERRNO | EPERM),
        step(_LOAD, 0),
        step(_EQUAL, _IOCTL[machine], 0, 5),  # the terminals' alone, which all descriptors share: none sets
        step(_LOAD, 24),  # a file's flags, which would outlive the candidate
        step(_AND, 0xFF00),
        step(_EQUAL, ord("T") << 8, 1, 0),
        step(_RETURN, _ERRNO | ENOTTY),
        step(_LOAD, 0),
        step(_EQUAL, clone, 0, 3),
        step(_LOAD, 16),  # clone's flags
        step(_SET, CLONE_NEW_ANY, 0, 1),
        step(_RETURN, _ERRNO | EPERM),
        step(_RETURN, _ALLOW),
    ]
    second = [step(_LOAD, 0), *deny(_KEEPERS_OWN[machine])]
    second += deny(() if signals else _SIGNALLING[machine])
    second += deny(() if alone else _OUTRIGHT[machine])
    for number in () if alone else _BY_NUMBER[machine]:
        second += [
            step(_EQUAL, number, 0, 4),
            step(_LOAD, 16),  # the first argument
            step(_EQUAL, 0, 1, 0),
            step(_RETURN, _ERRNO | EPERM),
            step(_LOAD, 0),
        ]
    second.append(step(_RETURN, _ALLOW))
    return Filter(b"".join(keeper_filter)), Filter(b"".join(second))


# --- Namespaces and a root of its own


def unshare(flags: int) -> None:
    """unshare(2), raising OSError."""
    _checked(int(_libc.unshare(flags)), f"unshare {flags:#x}")


def unshare_processes(original: int) -> None:
    """Let the next fork begin a process namespace of its own.

    Args:
        original: a descriptor of /proc/self/ns/pid, to come back to first: a namespace can be left only from there.
    """
    _checked(int(_libc.setns(original, CLONE_NEWPID)), "setns")
    unshare(CLONE_NEWPID)


def _mount(source: str, target: str, kind: str | None, flags: int, data: str = "") -> None:
    result = _libc.mount(
        source.encode(), target.encode(), kind.encode() if kind else None, flags, data.encode() or None
    )
    _checked(result, f"mount {source} on {target}")


def _bind(source: str, target: str) -> None:
    """Show a file or directory at another place, read-only with all below it."""
    if os.path.isdir(source):
        os.makedirs(target, exist_ok=True)
    else:
        os.makedirs(os.path.dirname(target), exist_ok=True)
        os.close(os.open(target, os.O_CREAT | os.O_WRONLY, 0o600))
    _mount(source, target, None, MS_BIND | MS_REC)
    # mount_setattr(AT_RECURSIVE, read-only + nosuid) where the kernel has it (5.12); else a remount of the top alone.
    attributes = struct.pack("=QQQQ", 1 | 2, 0, 0, 0)
    if _libc.syscall(442, -100, target.encode(), 0x8000, attributes, len(attributes)) < 0:
        held = os.statvfs(target).f_flag & (MS_NOSUID | MS_NODEV | MS_NOEXEC)
        _mount(source, target, None, MS_BIND | MS_REMOUNT | MS_RDONLY | held)


def _write(path: str, text: str) -> None:
    with open(path, "w") as file:
        file.write(text)


def _own_user_namespace(flags: int) -> None:
    """Enter a user namespace with these others; the user stays the same one there, and holds its capabilities."""
    user, group = os.geteuid(), os.getegid()
    unshare(CLONE_NEWUSER | flags)
    _write("/proc/self/setgroups", "deny")
    _write("/proc/self/uid_map", f"{user} {user} 1")
    _write("/proc/self/gid_map", f"{group} {group} 1")


def make_root(root: str, readable: list[str], hidden: list[str], scratch: str) -> None:
    """Make `root` the root directory: nothing in it but what is readable, a few devices, and an empty scratch place."""
    _mount("none", "/", None, MS_REC | MS_PRIVATE)
    _mount("tmpfs", root, "tmpfs", MS_NOSUID | MS_NODEV, "mode=755,size=4m,nr_inodes=16k")
    for path in readable:
        if os.path.islink(path) and len(os.path.normpath(path).split("/")) == 2:
            os.symlink(os.readlink(path), root + path)  # /bin -> usr/bin
        elif os.path.exists(path):
            _bind(os.path.realpath(path), root + path)
    for path in hidden:
        if os.path.isdir(root + path):
            _mount("tmpfs", root + path, "tmpfs", MS_NOSUID | MS_NODEV, "mode=755,size=1m,nr_inodes=4k")
            for entry in readable:
                if entry.startswith(path + "/") and os.path.exists(entry):
                    _bind(os.path.realpath(entry), root + entry)
    for device in ("null", "zero", "full", "random", "urandom"):
        target = f"{root}/dev/{device}"
        os.makedirs(os.path.dirname(target), exist_ok=True)
        os.close(os.open(target, os.O_CREAT | os.O_WRONLY, 0o600))
        _mount(f"/dev/{device}", target, None, MS_BIND)
    os.symlink(scratch, root + "/dev/shm")  # where semaphores are made, which process pools need
    for name, target in STREAMS.items():
        os.symlink(target, root + name)
    if not os.path.exists(root + "/tmp"):  # something there may be readable
        os.symlink(scratch, root + "/tmp")
    os.makedirs(root + scratch, mode=0o755)
    os.makedirs(root + "/proc", exist_ok=True)
    _mount("/proc", root + "/proc", None, MS_BIND | MS_REC)
    os.makedirs(root + "/old")
    _checked(int(_libc.pivot_root(root.encode(), (root + "/old").encode())), "pivot_root")
    os.chdir("/")
    _checked(int(_libc.umount2(b"/old", MNT_DETACH)), "umount")
    os.rmdir("/old")
    attributes = struct.pack("=QQQQ", 1, 0, 0, 0)
    _libc.syscall(442, -100, b"/", 0, attributes, len(attributes))  # the directories made above, read-only


def mount_scratch(place: str, disk: int, files: int) -> None:
    """An empty file system of at most `disk` bytes and `files` entries."""
    _mount("tmpfs", place, "tmpfs", MS_NOSUID | MS_NODEV, f"mode=700,size={disk},nr_inodes={files + 2}")


def unmount(place: str) -> None:
    """Take a file system away, whoever still looks at it."""
    _checked(int(_libc.umount2(place.encode(), MNT_DETACH)), "umount")


def become_nobody(user: int, *, keep_reading: bool = False) -> None:
    """Give up root for a user that owns nothing.

    Args:
        user: its number, and its group's.
        keep_reading: keep the one capability of reading what the rules allow although the modes forbid it, for an
            interpreter that lies in another user's home; only under Landlock, which then says alone what is readable.
    """
    if keep_reading:
        prctl(PR_SET_KEEPCAPS, 1)
    os.setgroups([])
    os.setresgid(user, user, user)
    os.setresuid(user, user, user)
    prctl(PR_SET_DUMPABLE, 1)  # else /proc/self stays root's, and the new user's maps could not be written
    if keep_reading:
        take([_set_capabilities(1 << 2, inheritable=1 << 2)])  # CAP_DAC_READ_SEARCH
        prctl(PR_CAP_AMBIENT, 2, 2)


def _set_capabilities(allowed: int, inheritable: int = 0) -> Step:
    low, high, inheritable_low = allowed & 0xFFFFFFFF, allowed >> 32, inheritable & 0xFFFFFFFF
    data = struct.pack("=IIIIII", low, low, inheritable_low, high, high, 0)
    return _libc.capset, (struct.pack("=Ii", 0x20080522, 0), data)


def drop_privileges() -> Step:
    """Giving up every capability; with `no_new_privileges` none comes back."""
    return _set_capabilities(0)


def enter_namespaces(
    root: str, readable: list[str], hidden: list[str], scratch: str, user: int, *, sockets: bool = False
) -> None:
    """Into namespaces of its own (users, mounts, network, IPC, names, processes) and a root directory of its own.

    Forks: the caller goes on in the child, which is the first process of its namespace; the parent waits for it
    and ends with it.

    Args:
        root: an empty directory to mount on.
        readable: paths to show, read-only.
        hidden: directories below them to show empty, but for readable paths inside.
        scratch: where the scratch place is to be.
        user: the unprivileged user to become when this is root's process.
        sockets: whether the network namespace can reach itself.

    Raises:
        OSError: the machine does not allow it.
    """
    namespaces = CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS
    if os.geteuid() == 0:
        # Mounts are made while root may still read every source; then root becomes nobody, in a second user namespace.
        unshare(namespaces)
        if sockets:
            raise_loopback()
        make_root(root, readable, hidden, scratch)
        become_nobody(user)
        _own_user_namespace(CLONE_NEWPID | CLONE_NEWNS)
        fork_and_follow()
    else:
        _own_user_namespace(namespaces | CLONE_NEWPID)
        if sockets:
            raise_loopback()
        fork_and_follow()
        make_root(root, readable, hidden, scratch)
    mount_processes()


def nest_namespaces(user: int) -> None:
    """Inside a container that is there already: nobody, and a process namespace to begin others from."""
    if os.geteuid() == 0:
        become_nobody(user)
    _own_user_namespace(CLONE_NEWPID | CLONE_NEWNS)
    fork_and_follow()
    mount_processes()


def fork_and_follow() -> None:
    """Go on in a forked child; the parent only waits for it. When the parent dies the child is killed."""
    child = os.fork()
    if child:
        for number in range(3, 256):
            with contextlib.suppress(OSError):
                os.close(number)
        _, status = os.waitpid(child, 0)
        os._exit(os.waitstatus_to_exitcode(status) & 0xFF)
    prctl(PR_SET_PDEATHSIG, 9)


def raise_loopback() -> None:
    """Let this network namespace reach itself, as 127.0.0.1; it has no other interface."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, 0x8914, struct.pack("16sH14x", b"lo", 1))  # SIOCSIFFLAGS: IFF_UP


def mount_processes() -> None:
    """Show this process namespace in /proc, in place of the machine's."""
    _mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC)


# --- Limits

LONGEST = 10
"""Times its limit of seconds that a candidate may take on a machine that keeps it from the processor."""


def limits(cpu: float, memory: int, disk: int, threads: int) -> list[Step]:
    """Resource limits of this process and what it starts: the backstop behind the keeper's own watch.

    Args:
        cpu: seconds, rounded up; then SIGKILL, since the first process of a namespace ignores anything less.
        memory: bytes of address space.
        disk: bytes of one file.
        threads: how many of this user in this user namespace (no effect for the machine's root).
    """
    bounds = {
        resource.RLIMIT_CPU: max(int(-(-cpu // 1)), 1),
        resource.RLIMIT_AS: memory,
        resource.RLIMIT_FSIZE: disk,
        resource.RLIMIT_NPROC: threads,
        resource.RLIMIT_NOFILE: 128,
        resource.RLIMIT_CORE: 0,
    }
    return [(resource.setrlimit, (which, (bound, bound))) for which, bound in bounds.items()]
