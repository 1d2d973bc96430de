"""Random numbers that are not drawn: every comparison with one is followed both ways, with its probability.

A component gets its numbers from a `Stream`, whose numbers are no floats but unknowns on [0, 1). An unknown can be
scaled, shifted and compared. A comparison that is not settled yet forks: both answers are followed, each narrowing the
unknown to an interval, and the probability of a path is the product of its intervals' lengths. So a real rule and a
real generator are integrated over all of their draws, with no sampling and no tolerance but the rounding of doubles.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any, NoReturn, TypeVar

from draftverify.errors import DraftVerifyError

Result = TypeVar("Result")


class NotEnumerable(DraftVerifyError):
    """A component did with a random number what cannot be followed: anything but scale, shift and compare it."""


class Path:
    """One way through the comparisons: the answers in `script` first, then True.

    Args:
        script: what the first comparisons answered on the way to here.
    """

    def __init__(self, script: tuple[bool, ...] = ()) -> None:
        self.script = script
        self.answers: list[bool] = []
        self.bounds: dict[Hashable, tuple[float, float]] = {}

    def below(self, key: Hashable, threshold: float) -> bool:
        """Whether the unknown `key` lies below `threshold`; forks where both are possible."""
        low, high = self.bounds.get(key, (0.0, 1.0))
        if threshold >= high:
            return True
        if not threshold > low:  # a threshold that is nan is above nothing
            return False
        at = len(self.answers)
        answer = self.script[at] if at < len(self.script) else True
        self.answers.append(answer)
        self.bounds[key] = (low, threshold) if answer else (threshold, high)
        return answer

    @property
    def probability(self) -> float:
        """The probability of taking this path."""
        return math.prod(high - low for low, high in self.bounds.values())


class Unknown:
    """A number factor · u + shift, for a u that is uniform on [0, 1); it never equals what it is compared with."""

    __slots__ = ("factor", "key", "path", "shift")

    def __init__(self, path: Path, key: Hashable, factor: float = 1.0, shift: float = 0.0) -> None:
        self.path = path
        self.key = key
        self.factor = factor
        self.shift = shift

    def __mul__(self, by: Any) -> Unknown:
        number = float(by)
        return Unknown(self.path, self.key, self.factor * number, self.shift * number)

    __rmul__ = __mul__

    def __truediv__(self, by: Any) -> Unknown:
        return self * (1.0 / float(by))

    def __add__(self, term: Any) -> Unknown:
        return Unknown(self.path, self.key, self.factor, self.shift + float(term))

    __radd__ = __add__

    def __neg__(self) -> Unknown:
        return Unknown(self.path, self.key, -self.factor, -self.shift)

    def __sub__(self, term: Any) -> Unknown:
        return self + -float(term)

    def __rsub__(self, term: Any) -> Unknown:
        return (-self).__add__(term)

    def __lt__(self, threshold: Any) -> bool:
        room = float(threshold) - self.shift
        if self.factor > 0:
            return self.path.below(self.key, room / self.factor)
        if self.factor < 0:
            return not self.path.below(self.key, room / self.factor)
        return room > 0

    def __ge__(self, threshold: Any) -> bool:
        return not self < threshold

    __le__, __gt__ = __lt__, __ge__

    def __getitem__(self, index: Any) -> Unknown:
        """`u[..., None]`, which a NumPy scalar allows too: `inverse_cdf` compares it with a row."""
        if index != (..., None):
            raise NotEnumerable(f"a random number was indexed with {index!r}; it is one number")
        return self

    def __float__(self) -> NoReturn:
        raise NotEnumerable(
            "a random number was used as a plain float; the audit can follow one that is scaled, shifted and compared"
        )

    __int__ = __index__ = __bool__ = __float__


class Stream:
    """The unknowns of one role in one round, by position and draw: asked twice, the same. Stands in for `Draws`.

    Args:
        path: the path that is being followed.
        name: what tells this stream from others; two components that are given one name share their numbers.
    """

    def __init__(self, path: Path, name: Hashable) -> None:
        self.path = path
        self.name = name

    def uniform(self, position: int = 0, draw: int = 0) -> Any:
        """An unknown on [0, 1)."""
        return Unknown(self.path, (self.name, int(position), int(draw)))

    def uniforms(self, positions: Sequence[int], draw: int = 0) -> list[Any]:
        """One unknown for each position."""
        return [self.uniform(position, draw) for position in positions]

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(name)
        raise NotEnumerable(f"it reads `draws.{name}`; the audit can follow `uniform` and `uniforms`")


def explore(run: Callable[[Path], Result]) -> Iterator[tuple[Result, float]]:
    """Every result of `run`, with its probability. A result can come more than once.

    Args:
        run: called with a path, from which it makes its streams; the same each time but for the path's answers.
    """
    waiting: list[tuple[bool, ...]] = [()]
    while waiting:
        script = waiting.pop()
        path = Path(script)
        result = run(path)
        for at in range(len(script), len(path.answers)):
            waiting.append((*path.answers[:at], not path.answers[at]))
        yield result, path.probability
