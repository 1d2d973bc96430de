"""The executor of a Ray cluster: actors that keep models resident, placed by what each pipeline needs.

An actor holds a process that performs units (watched.py), so that a task that crashes or hangs costs the actor nothing
but that process. What Ray itself loses, an actor or a whole node, is replaced, and the units that were there run again.
Only bytes of JSON are sent to actors and come back from them.
"""

from __future__ import annotations

import logging
import os
import queue
import threading
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from time import monotonic
from typing import Annotated, Any, ClassVar, TypeAlias

import msgspec
from annotated_types import Ge

from draftverify.bench.executors.frames import Begin, Frame, bundled, failing, lost, unbundled
from draftverify.bench.executors.watched import WatchedProcess
from draftverify.bench.executors.workers import (
    Count,
    OnSent,
    Pace,
    Seconds,
    Team,
    Workers,
    at_least_one,
    check_deadline,
)
from draftverify.errors import ConfigError, DraftVerifyError, ResourceError, check_known
from draftverify.plugins import required
from draftverify.secret import quiet

_log = quiet(logging.getLogger(__name__))

LOCAL = "local"
STORE_BYTES = 100 << 20
"""Of the object store of a cluster of our own: units and records are small, and models never pass through it."""

PATIENCE = 300.0
"""Seconds without a single actor of a kind before the run is stopped: a cluster that grows on demand takes its time."""

GATHER = 0.2
"""Seconds for which an actor that has something to say waits for half of its units to have ended: with units ahead it
works on meanwhile."""

FAILED_STARTS = 5
"""Actors of a kind that failed as they began, one after the other, before the run is stopped."""


Amount: TypeAlias = Annotated[float, Ge(0)]


@dataclass(frozen=True)
class Placement:
    """What each actor of some pipelines needs.

    Args:
        actors: how many; None for as many as the cluster has room for when the run begins.
        batch: how many tasks are under way at once in each.
        cpus, gpus: of each; parts of one are fine (0.25: four on a GPU).
        memory: of each, in gigabytes, for Ray to reckon with.
        resources: of each, by the names that the cluster's nodes have for them.
    """

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}  # a misspelt key is an error

    actors: Count | None = None
    batch: Count = 1
    cpus: Amount = 1.0
    gpus: Amount = 0.0
    memory: Amount | None = None
    resources: Mapping[str, Amount] = field(default_factory=dict)

    def __post_init__(self) -> None:
        at_least_one("batch", self.batch)
        if self.actors is not None:
            at_least_one("actors", self.actors)
        amounts = {"cpus": self.cpus, "gpus": self.gpus, "memory": self.memory or 0.0}
        amounts |= {f"resources.{name}": amount for name, amount in self.resources.items()}
        for name, amount in amounts.items():
            if not 0 <= amount < float("inf"):
                raise ConfigError(f"{name} is {amount:g}; a number of at least 0 is needed", path=name)


@dataclass(frozen=True)
class Ray(Placement):
    """Actors of a Ray cluster, which keep models resident.

    Args:
        actors: how many; None for as many as the cluster has room for when the run begins.
        batch: how many tasks are under way at once in each: those that wait for the same part share one pass of it.
        cpus, gpus: of each actor; parts of one are fine (0.25: four actors on a GPU).
        memory: of each actor, in gigabytes, for Ray to reckon with.
        resources: of each actor, by the names that the cluster's nodes have for them.
        address: of the cluster (`auto`: the one of this machine, `host:6379`, `ray://host:10001`), or `local` for one
            of our own, which ends with the run.
        pipelines: by name, those that have actors of their own, and what those need.
        deadline: seconds after which a task that has begun and not ended is recorded as failed, and its process ended,
            whatever it is doing; None for no bound.
    """

    local: ClassVar[bool] = False
    workers: ClassVar[int] = 1

    address: str = LOCAL
    pipelines: Mapping[str, Placement] = field(default_factory=dict)
    deadline: Seconds | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_deadline(self.deadline)

    def pool(self) -> Workers:
        """Fresh actors."""
        return _Actors(self)


class _Performer:
    """The class of the actors: it hands units to its process, and gives back its replies in bundles of frames."""

    def __init__(self, begin: bytes, deadline: float | None) -> None:
        self._outgoing: queue.SimpleQueue[Frame] = queue.SimpleQueue()
        self._out: set[int] = set()  # units that came and were not taken back
        self._watched = WatchedProcess(
            msgspec.json.decode(begin, type=Begin),
            deadline=deadline,
            on_sent=lambda data: self._outgoing.put(Frame(b"d", 0, data)),
        )

    def ready(self) -> None:
        """The actor is there."""

    def send(self, bundle: bytes) -> None:
        """Take units: "u", and "a" those that are to be alone."""
        for frame in unbundled(bundle):
            self._out.add(frame.number)
            future = self._watched.perform(frame.data, solo=frame.kind == b"a")
            future.add_done_callback(partial(self._ended, frame.number))

    def take(self) -> bytes:
        """Wait for a frame, and give all that there are then: replies ("r") and the rounds before them ("d")."""
        frames = [self._outgoing.get()]
        ended = int(frames[0].kind == b"r")
        # A call costs the driver more than what it carries, and with units ahead nobody waits for this one.
        until = monotonic() + GATHER
        with suppress(queue.Empty):
            while 2 * ended < len(self._out) or not self._outgoing.empty():
                frames.append(self._outgoing.get(timeout=max(0.0, until - monotonic())))
                ended += frames[-1].kind == b"r"
        self._out.difference_update(frame.number for frame in frames if frame.kind == b"r")
        return bundled(frames)

    def close(self) -> None:
        """Close the parts, and end."""
        self._watched.close()

    def _ended(self, number: int, future: Future[bytes]) -> None:
        self._outgoing.put(Frame(b"r", number, future.result()))


class _Actor:
    """One of a group's actors, as a member of its team."""

    def __init__(self, group: _Group, handle: Any) -> None:
        self.group = group
        self.handle = handle
        self.ready = False
        self._units: dict[int, Future[bytes]] = {}
        self._since = 0.0  # when it said something last, or began anew
        self._outbox: deque[Frame] = deque()
        self._numbers = count()

    @property
    def room(self) -> int:
        """The number of units that the actor takes."""
        return self.group.units_per_actor

    def perform(self, unit: bytes, *, solo: bool) -> Future[bytes]:
        """Have the actor perform a unit, as `Workers` says."""
        future: Future[bytes] = Future()
        number = next(self._numbers)
        if not self._units:
            self._since = monotonic()
        self._units[number] = future
        self._outbox.append(Frame(b"a" if solo else b"u", number, unit))
        self.group.actors.post(self._send)
        return future

    def listen(self) -> None:
        """Ask the actor for what it has to say, once."""
        call = self.handle.take.remote().future()
        call.add_done_callback(lambda call: self.group.actors.post(partial(self._took, call)))

    def lose(self, error: BaseException) -> None:
        """Answer the units of an actor that is gone with its loss."""
        self._outbox.clear()
        units, self._units = self._units, {}
        for future in units.values():
            future.set_result(_loss(error))

    def _send(self) -> None:
        bundle = [self._outbox.popleft() for _ in range(len(self._outbox))]
        if bundle:
            self.handle.send.options(num_returns=0).remote(bundled(bundle))

    def _took(self, call: Future[bytes]) -> None:
        if self not in self.group.living:
            return  # its units are with others by now, and what it says of them comes too late
        error = call.exception()
        if error is not None:
            self.group.lost(self, error)
            return
        self.listen()
        actors = self.group.actors
        frames = list(unbundled(call.result()))
        ended = sum(frame.kind == b"r" for frame in frames)
        if ended:
            now = monotonic()
            self.group.pace.ended(ended, now - self._since)
            self._since = now
        for frame in frames:
            if frame.kind == b"r":
                if (future := self._units.pop(frame.number, None)) is not None:
                    future.set_result(frame.data)
            elif actors.on_sent is not None:
                actors.on_sent(frame.data)


class _Group:
    """The actors of one placement."""

    def __init__(self, actors: _Actors, name: str, placement: Placement) -> None:
        self.actors = actors
        self.name = name
        self.placement = placement
        self.team = Team()
        self.pace = Pace()
        self.living: set[_Actor] = set()
        self.failed_starts = 0
        self.alone_since = monotonic()
        self.count = 0

    @property
    def units_per_actor(self) -> int:
        """How many units an actor takes: with so many ahead it has work while bundles are on their way."""
        return self.placement.batch + self.pace.ahead

    def begin(self, number: int) -> None:
        """Ask for the actors."""
        self.count = number
        for _ in range(number):
            self._add()

    def _add(self) -> None:
        actor = _Actor(self, self.actors.create(self.placement))
        self.living.add(actor)
        ready = actor.handle.ready.remote().future()
        ready.add_done_callback(lambda call: self.actors.post(partial(self._joined, actor, call)))

    def _joined(self, actor: _Actor, call: Future[None]) -> None:
        error = call.exception()
        if error is None:
            self.failed_starts = 0
            actor.ready = True
            actor.listen()
            self.team.join(actor)
            return
        self.failed_starts += 1
        if self.failed_starts >= FAILED_STARTS:
            self.team.answer(failing(ResourceError(f"{self._what} cannot begin: {_first_line(error)}")))
        self.lost(actor, error)

    def lost(self, actor: _Actor, error: BaseException) -> None:
        """An actor is gone: another takes its place."""
        if actor not in self.living or self.actors.closing:
            return
        _log.warning("an actor was lost, and is replaced: %s", _first_line(error))
        self.living.discard(actor)
        self.team.leave(actor)
        with suppress(Exception):  # one that is only out of reach would keep its place, and work on
            _ray().kill(actor.handle)
        actor.lose(error)
        self.alone_since = monotonic()
        if self.failed_starts < FAILED_STARTS:
            self._add()

    def look(self) -> None:
        """Give up waiting for actors that do not come."""
        if self.failed_starts >= FAILED_STARTS:
            self.team.answer(failing(ResourceError(f"{self._what} cannot begin; the log says why")))
        elif len(self.team):
            self.alone_since = monotonic()
        elif self.team.waiting and monotonic() - self.alone_since > PATIENCE:
            why = f"{self._what} have found no room for {PATIENCE:g} s: each needs {_needs(self.placement)}, and the "
            why += f"cluster has {self.actors.has()}"
            self.team.answer(failing(ResourceError(why)))

    @property
    def _what(self) -> str:
        return f"the Ray actors of {self.name}" if self.name else "the Ray actors"


class _Actors(Workers):
    """The cluster's end in the driver's process. Whatever Ray tells is handled in one thread, the clerk's."""

    def __init__(self, where: Ray) -> None:
        self._where = where
        self._groups: dict[str, _Group] = {}
        self._shared: _Group | None = None
        self._begin = b""
        self._remote: Any = None
        self._ours = False
        self._posted: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._clerk = threading.Thread(target=self._work, daemon=True)
        self.on_sent: OnSent | None = None
        self.closing = False

    @property
    def room(self) -> int:
        return sum(group.count * group.units_per_actor for group in self._all) + 1

    @property
    def _all(self) -> list[_Group]:
        return [*self._groups.values(), *([self._shared] if self._shared is not None else [])]

    def begin(self, spec: bytes, on_sent: OnSent | None) -> None:
        from draftverify.bench.config.specs import Experiment  # not with the module, which actors import

        experiment = Experiment.from_json(spec)
        names = {name.partition("@")[0] for name in experiment.names} | set(experiment.names)
        for name in self._where.pipelines:
            check_known("pipeline", name, names, path="executor.pipelines")
        self._connect()
        begin = Begin(spec, rounds=on_sent is not None, parts=experiment.parts())
        self._begin = msgspec.json.encode(begin)
        self.on_sent = on_sent
        placed = self._where.pipelines
        self._groups = {name: _Group(self, name, placement) for name, placement in placed.items()}
        if any(self._group_name(name) is None for name in experiment.names):
            self._shared = _Group(self, "", self._where)
        self._clerk.start()
        for group in self._all:
            try:
                group.begin(self._count(group.placement))
            except ValueError as error:  # Ray's own word on amounts, and on names of resources
                place = f"executor.pipelines.{group.name}" if group.name else "executor"
                raise ConfigError(str(error), path=place) from error

    def perform(self, pipeline: str, unit: bytes, *, solo: bool) -> Future[bytes]:
        name = self._group_name(pipeline)
        group = self._shared if name is None else self._groups[name]
        assert group is not None
        return group.team.perform(unit, solo=solo)

    def close(self, *, kill: bool) -> None:
        self.closing = True
        actors = [actor for group in self._all for actor in group.living]
        closed = [] if kill else [actor.handle.close.remote() for actor in actors if actor.ready]
        if closed:  # those that have found no room have nothing to close
            _ray().wait(closed, num_returns=len(closed), timeout=PATIENCE)
        for actor in actors:
            with suppress(Exception):
                _ray().kill(actor.handle)
        self._posted.put(None)
        if self._clerk.is_alive():
            self._clerk.join()
        if self._ours:
            _ray().shutdown()

    def post(self, work: Callable[[], None]) -> None:
        """Have something done by the clerk."""
        self._posted.put(work)

    def create(self, placement: Placement) -> Any:
        """A new actor; it begins when and where there is room."""
        begin = msgspec.json.decode(self._begin, type=Begin)
        begin = msgspec.structs.replace(begin, size=placement.batch)
        memory = {} if placement.memory is None else {"memory": int(placement.memory * 1e9)}
        return self._remote.options(
            num_cpus=placement.cpus,
            num_gpus=placement.gpus,
            resources=dict(placement.resources),
            max_concurrency=4,  # it listens to units while it waits for what they come to, and it can be closed
            max_restarts=0,
            max_task_retries=0,
            scheduling_strategy="SPREAD",
            **memory,
        ).remote(msgspec.json.encode(begin), self._where.deadline)

    def has(self) -> str:
        """What the cluster's nodes have, in words."""
        words = []
        for resources in (node["Resources"] for node in _ray().nodes() if node["Alive"]):
            amounts = {name: n / 1e9 if "memory" in name else n for name, n in sorted(resources.items())}
            own = (name for name in amounts if not name.startswith(("node:", "object_store")))
            words.append(f"a node of {', '.join(f'{name} {amounts[name]:g}' for name in own)}")
        return "; ".join(words) or "no nodes"

    def _group_name(self, pipeline: str) -> str | None:
        """The placement of a pipeline: its own, or that of the pipeline whose variant it is."""
        names = (pipeline, pipeline.partition("@")[0])
        return next((name for name in names if name in self._where.pipelines), None)

    def _connect(self) -> None:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
        ray = _ray()
        self._remote = ray.remote(_Performer)
        if ray.is_initialized():
            return
        local = self._where.address == LOCAL
        how: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
        if local:  # which is nobody else's business
            how |= {"include_dashboard": False, "_node_ip_address": "127.0.0.1"}
            how["object_store_memory"] = STORE_BYTES
        try:
            ray.init(self._where.address, namespace="draftverify", **how)
        except Exception as error:
            problem = "a Ray cluster of our own cannot begin" if local else f"no Ray at {self._where.address}"
            raise ResourceError(f"{problem}: {_first_line(error)}") from error
        self._ours = True

    def _count(self, placement: Placement) -> int:
        if placement.actors is not None:
            return placement.actors
        has = _ray().cluster_resources()
        wants = {"CPU": placement.cpus, "GPU": placement.gpus, **placement.resources}
        return max(1, min((int(has.get(name, 0) // n) for name, n in wants.items() if n > 0), default=1))

    def _work(self) -> None:
        looked = monotonic()
        while True:
            work: list[Callable[[], None] | None] = []
            with suppress(queue.Empty):
                work.append(self._posted.get(timeout=1.0))
                while not self._posted.empty():
                    work.append(self._posted.get())
            if monotonic() - looked >= 1.0:
                looked = monotonic()
                work += [group.look for group in self._all]
            for job in work:
                if job is None:
                    return
                try:
                    job()
                except Exception as error:
                    for group in self._all:
                        group.team.answer(failing(error))


def _ray() -> Any:
    """The ray package, which is imported when it is needed."""
    return required("ray", "executor 'ray'", "ray")


def _needs(placement: Placement) -> str:
    needs = {
        "cpus": placement.cpus,
        "gpus": placement.gpus,
        "memory": placement.memory,
        **placement.resources,
    }
    return ", ".join(f"{name} {amount:g}" for name, amount in needs.items() if amount) or "nothing"


def _loss(error: BaseException) -> bytes:
    """The reply for a unit whose call failed: its actor is lost, or the call itself cannot be made."""
    ray = _ray()
    if isinstance(error, ray.exceptions.RayTaskError) or not isinstance(error, ray.exceptions.RayError):
        return failing(DraftVerifyError(f"a Ray actor failed: {error}"))
    return lost(f"Ray lost its actor ({_first_line(error)})")


def _first_line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
