"""One pool of sessions, sans-IO: it hands out groups of requests that one call can serve, and takes their answers.

Every driver is a loop over a pool: of one session or of thousands, of one pipeline or of several. A draft that an inner
pipeline makes becomes sessions of the same pool, so inner tasks share their passes across all outer ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from draftverify.engine.events import Listener
from draftverify.engine.parts import Parts
from draftverify.engine.requests import Draft, Request
from draftverify.engine.session import Session
from draftverify.errors import ConfigError


class Group(NamedTuple):
    """Requests for one method of one part, and the sessions that made them, in the order of the pool."""

    sessions: list[Session]
    requests: list[Request]


class Answers(NamedTuple):
    """What came of a group's calls, for each request: the value, or a Failure; how long the call took; the machine
    seconds that are this session's own."""

    values: Sequence[Any]
    seconds: Sequence[float]
    busy: Sequence[float]


class _Family(NamedTuple):
    parent: Session
    request: Draft
    children: list[Session]
    open: set[Session]


class Scheduler:
    """A pool of sessions.

    Args:
        sessions: taken one by one, as places become free; a None among them says that there is none just now.
        size: how many are under way at once, inner ones not counted; all when None.

    Raises:
        ConfigError: `size` is below 1.
    """

    def __init__(self, sessions: Iterable[Session | None], *, size: int | None = None) -> None:
        if size is not None and size < 1:
            raise ConfigError(
                f"size is {size}; at least one task is under way at once, or None for all", path="size"
            )
        self._coming: Iterator[Session | None] | None = iter(sessions)
        self._size = size
        self._outer = 0  # sessions under way that are no inner ones
        self._active: list[Session] = []  # those that want something
        self._families: dict[Session, _Family] = {}  # by each child that has not ended
        self._ended: list[Session] = []

    def alone(self) -> Session | None:
        """The session under way when it is the only one and none can join: what it wants is all that can be done."""
        return self._active[0] if len(self._active) == 1 and self._coming is None else None

    def groups(self) -> list[Group]:
        """What can be done now; empty when all sessions have ended, or those that there are just now.

        Where sessions are at different steps only the earliest is handed out, so that one that has just joined (and is
        being prepared), or that a policy sent back, catches up with the others and the passes stay full.
        """
        while self._coming is not None and (self._size is None or self._outer < self._size):
            try:
                session = next(self._coming)
            except StopIteration:
                self._coming = None
                break
            if session is None:
                break
            session.listened = session.on_event is not None
            self._outer += 1
            self._join(session)
        groups: dict[tuple[type, int], Group] = {}
        kind: type | None = None
        part: object = None
        sessions: list[Session] = []
        requests: list[Request] = []
        for session in self._active:
            request: Any = session.request
            # Nearly always a session waits for what the one before it waits for.
            if request.part is not part or type(request) is not kind:
                kind, part = type(request), request.part
                sessions, requests = groups.setdefault((kind, id(part)), Group([], []))
            sessions.append(session)
            requests.append(request)
        if len(groups) < 2:
            return list(groups.values())
        first = min(group.requests[0].step for group in groups.values())
        return [group for group in groups.values() if group.requests[0].step == first]

    def take(self, group: Group, answers: Answers) -> None:
        """Give a group's answers to its sessions."""
        for session, request, value, seconds, busy in zip(*group, *answers, strict=True):
            self._answer(session, request, value, seconds, busy)

    def answer(self, session: Session, value: Any, seconds: float, busy: float) -> Session | None:
        """Give the session that is alone the answer to what it wants; the one that is alone then."""
        request: Any = session.request
        self._answer(session, request, value, seconds, busy)
        return self.alone()

    def _answer(self, session: Session, request: Request, value: Any, seconds: float, busy: float) -> None:
        """Give a session an answer, tell what happened, and put it where it belongs now."""
        session.answer(request.id, value, seconds, busy)
        if session.on_event is not None:
            _tell(session, session.on_event)
        if session.outcome is not None or (session.pipeline.nests and _nests(session)):
            self._active.remove(session)
            self._join(session)

    def ended(self) -> list[Session]:
        """The sessions that ended since this was last asked, released: what remains is their record."""
        ended = self._ended
        if ended:
            self._ended = []
        return ended

    def leave(self, session: Session) -> None:
        """Let go of a session under way, and of those inside it, for which nobody waits any more."""
        for child in [child for child, family in self._families.items() if family.parent is session]:
            if child in self._families:
                self.leave(child)
        if session in self._active:
            self._active.remove(session)
        if self._families.pop(session, None) is None:
            self._outer -= 1
        session.release()

    def release(self) -> None:
        """Let go of all that is under way."""
        for session in self._active:
            session.release()
        for parent in {family.parent for family in self._families.values()}:
            parent.release()

    def _join(self, session: Session) -> None:
        """Put a session where it belongs: among those that want something, behind its inner ones, or at the end."""
        coming = [session]  # a stack: a parent whose inner ones end at once may go on for many rounds here
        while coming:
            session = coming.pop()
            if session.outcome is not None:
                session.release()
                family = self._families.pop(session, None)
                if family is None:
                    self._outer -= 1
                    self._ended.append(session)
                else:
                    family.open.remove(session)
                    if not family.open:
                        self._reunite(family)
                        coming.append(family.parent)
            elif _nests(session):
                request: Any = session.request
                children = request.part.expand(request, session)
                family = _Family(session, request, children, set(children))
                for child in children:
                    child.listened = False
                    self._families[child] = family
                coming += reversed(children)
            else:
                self._active.append(session)

    def _reunite(self, family: _Family) -> None:
        """All inner tasks have ended: their parent has its draft, or waits as they do."""
        parent, request, children, _ = family
        records = [child.record() for child in children]
        if any(record.outcome.status == "waiting" for record in records):
            parent.wait(records, request.part.cost_of(children))
        else:
            parent.answer(request.id, request.part.gather(request, children))
        if parent.on_event is not None:
            _tell(parent, parent.on_event)


def _tell(session: Session, listener: Listener) -> None:
    for event in session.events():
        listener(event)


def _nests(session: Session) -> bool:
    """Whether the session wants a draft of an inner pipeline."""
    return type(session.request) is Draft and isinstance(session.request.part, Parts)
