"""The judge's process: it locks itself in, takes suites and programs from the harness, and candidates from its keeper.

Started by `host` with two sockets among its descriptors: to the harness, and to the keeper. Each
suite gets a fork of its own, so that what one suite's tests did to the process (generated tests are a model's work) is
gone with the next.

| request | answer |
|---|---|
| {op: "load", suite} | {broken}: what is wrong with the tests; "" when nothing is |
| {op: "run", program, limits} | a finding (see `judge.SuiteJudge.run`) |
| {op: "drop"} | none; the suite is forgotten |

Before a finding it says {waiting: true} and {waiting: false} where a new candidate has to wait for its place, and
{waiting: false} again where it gets more time, since the machine kept it from the processor.
"""

from __future__ import annotations

import importlib
import json
import os
import re
import select
import signal
import socket
from contextlib import suppress
from typing import Any, NoReturn

from draftverify_code.sandbox import confine, judge, keeper
from draftverify_code.sandbox.frames import receive, send

PROMPT = 0.1  # seconds for a new candidate, where nothing is to be thrown away
MEMORY = 4 << 30  # bytes of address space; a judge holds tests and values, not candidates


class Candidates:
    """New candidates from the keeper, one at a time."""

    def __init__(self, link: socket.socket, host: socket.socket) -> None:
        self.link = link
        self.host = host
        self.current: socket.socket | None = None

    def start(self, limits: dict[str, Any]) -> socket.socket:
        """A socket to a new candidate."""
        send(self.link, {"op": "start", "limits": limits})
        if not select.select([self.link], [], [], PROMPT)[0]:
            # The keeper is still at what the last candidate left, which is nobody's time.
            send(self.host, {"waiting": True})
            select.select([self.link], [], [])
            send(self.host, {"waiting": False})
        _data, descriptors, _, _ = socket.recv_fds(self.link, 1, 1)
        if not descriptors:
            raise OSError("the keeper gave no candidate")
        self.current = socket.socket(fileno=descriptors[0])
        return self.current

    def measure(self) -> dict[str, float]:
        """Seconds that the candidate used of the processor, and was kept from it; the harness waits so much longer."""
        send(self.link, {"op": "measure"})
        measured = receive(self.link)
        send(self.host, {"waiting": False})
        return measured  # type: ignore[no-any-return]

    def drop(self) -> None:
        """End the candidate; nobody waits for it, nor asks how it ended."""
        send(self.link, {"op": "drop"})  # before it sees the end of its channel, and wakes up for nothing
        if self.current is not None:
            self.current.close()
            self.current = None

    def end(self) -> Any:
        """End the candidate, and say how it ended."""
        closed = False
        if self.current is not None:
            with suppress(OSError):
                self.current.setblocking(False)
                closed = self.current.recv(1, socket.MSG_PEEK) == b""
            self.current.close()
            self.current = None
        send(self.link, {"op": "end", "gone": closed})
        return receive(self.link)


def serve(host: socket.socket, candidates: Candidates) -> None:
    """Take suites until the harness is gone."""
    while (request := receive(host)) is not None:
        suite = request["suite"]
        if any(
            re.search(r"numpy|\bnp\b", text) for text in (suite["setup"], suite["source"], *suite["asserts"])
        ):
            with suppress(ImportError):
                importlib.import_module("numpy")  # once, for every suite to come
        pid = os.fork()
        if pid == 0:
            _suite(host, candidates, suite)
        watch, ended = select.poll(), os.pidfd_open(pid)
        watch.register(ended, select.POLLIN)
        watch.register(host, 0)  # its hanging up
        watch.poll()
        os.kill(pid, signal.SIGKILL)  # its tests may be at work for a harness that is gone
        os.close(ended)
        _, status = os.waitpid(pid, 0)
        if status:
            return  # the harness sees the end of the stream, and starts another judge


def _suite(host: socket.socket, candidates: Candidates, suite: dict[str, Any]) -> NoReturn:
    try:
        suite_judge, pid = judge.SuiteJudge(candidates), os.getpid()
        answer: dict[str, Any] = {"broken": suite_judge.load(suite)}
        while os.getpid() == pid:  # a test may fork
            send(host, answer)
            request = receive(host)
            if request is None or request["op"] != "run":
                break
            answer = suite_judge.run(request["program"], request["limits"])
    except BaseException as error:
        os.write(2, f"{type(error).__name__}: {error}\n".encode(errors="replace"))
        os._exit(1)
    os._exit(0)


def main(settings: str) -> None:
    """Lock in, say so, serve."""
    config = json.loads(settings)

    def seal(host: socket.socket, sealed: keeper.Sealed) -> socket.socket:
        confine.take(sealed.seal(cpu=1 << 30, memory=MEMORY, disk=1 << 20, threads=16))
        return host

    host = keeper.locked_in(config, seal)
    serve(host, Candidates(socket.socket(fileno=config["keeper"]), host))
