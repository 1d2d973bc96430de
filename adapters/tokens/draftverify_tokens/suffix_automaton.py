"""A suffix automaton that counts: which suffix of a text occurred before, and what followed how often."""

from __future__ import annotations

from collections.abc import Iterable
from heapq import nlargest
from itertools import islice
from typing import TypeAlias

Place: TypeAlias = tuple[int, int]
"""A string that occurs in what was read: its state, and how many tokens it has."""

NOWHERE: Place = (0, 0)
"""The empty string."""


class _Repeats:
    """Of one state, the tokens that were counted more than once there."""

    __slots__ = ("counts", "most", "surplus", "token")

    def __init__(self) -> None:
        self.counts: dict[int, int] = {}  # the token that was counted last stands last
        self.surplus = 0  # counts beyond the first, of all tokens
        self.token, self.most = -1, 0  # the likeliest token and its count

    def add(self, token: int) -> None:
        count = self.counts[token] = self.counts.pop(token, 1) + 1
        self.surplus += 1
        if count >= self.most:
            self.token, self.most = token, count

    def copy(self) -> _Repeats:
        copied = _Repeats()
        copied.counts = self.counts.copy()
        copied.surplus, copied.token, copied.most = self.surplus, self.token, self.most
        return copied


class SuffixAutomaton:
    """Every string that occurs in the sequences read so far, and what followed it.

    States are sets of strings with the same end positions. Reading a token costs amortised constant time: it follows
    the suffix links from the longest context to the first one in which the token is known, adding it on the way, and
    counts it there and in no shorter one. This is the update exclusion of PPM compressors: a long passage that is
    copied again and again gives little reason to believe that its last word is followed by the same elsewhere.

    There are at most 2n states and 3n transitions after n tokens (some hundreds of bytes per token).

    References:
        A. Blumer et al., "The smallest automaton recognizing the subwords of a text" (1985): the construction.
        A. Moffat, "Implementing the PPM data compression scheme" (1990): update exclusion.
    """

    def __init__(self) -> None:
        self._next: list[dict[int, int]] = [{}]
        self._link = [-1]
        self._length = [0]
        self._repeats: dict[int, _Repeats] = {}
        self._last = 0

    def extend(self, tokens: Iterable[int]) -> None:
        """Read on in the current sequence."""
        following, link, length = self._next, self._link, self._length
        end = self._last
        for token in tokens:
            goal = following[end].get(token)
            if goal is not None:  # as an earlier sequence went on
                self._count(end, token)
                end = goal if length[goal] == length[end] + 1 else self._split(end, token, goal)
                continue
            new = len(link)
            following.append({})
            link.append(0)
            length.append(length[end] + 1)
            state = end
            while state >= 0:
                goal = following[state].get(token)
                if goal is not None:
                    self._count(state, token)
                    exact = length[goal] == length[state] + 1
                    link[new] = goal if exact else self._split(state, token, goal)
                    break
                following[state][token] = new
                state = link[state]
            end = new
        self._last = end

    def begin(self) -> None:
        """Begin another sequence; no string reaches from one into the other."""
        self._last = 0

    def _count(self, state: int, token: int) -> None:
        repeats = self._repeats.get(state)
        if repeats is None:
            repeats = self._repeats[state] = _Repeats()
        repeats.add(token)

    def _split(self, state: int, token: int, successor: int) -> int:
        """Part the strings of `successor` that end positions no longer join: those up to `state` + `token`."""
        following, link = self._next, self._link
        clone = len(link)
        following.append(following[successor].copy())
        link.append(link[successor])
        self._length.append(self._length[state] + 1)
        repeats = self._repeats.get(successor)
        if repeats is not None:
            self._repeats[clone] = repeats.copy()
        link[successor] = clone
        while state >= 0 and following[state].get(token) == successor:
            following[state][token] = clone
            state = link[state]
        return clone

    def repeated(self) -> Place:
        """The longest suffix of the current sequence that occurred before it."""
        state = self._link[self._last]
        return (state, self._length[state]) if state > 0 else NOWHERE

    def step(self, place: Place, token: int) -> Place:
        """The longest suffix of the place's string and `token` that occurs; amortised constant time along a text."""
        state, length = place
        following = self._next
        while token not in following[state]:
            state = self._link[state]
            if state < 0:
                return NOWHERE
            length = self._length[state]
        return following[state][token], length + 1

    def open_end(self, place: Place) -> Place:
        """The longest suffix of the place's string that was followed by something; NOWHERE for none."""
        state, length = place
        while not self._next[state]:
            state = self._link[state]
            if state <= 0:
                return NOWHERE
            length = self._length[state]
        return state, length

    def follow(
        self, place: Place, n: int, probability: float, threshold: float
    ) -> tuple[list[int], float, Place]:
        """The likeliest continuation of a place's string; of equally likely tokens the one that was counted last.

        A string of L tokens is believed L / (L + 1), and a token its share of the counts after it.

        Args:
            place: not the empty string.
            n: the most tokens.
            probability: of the path so far.
            threshold: the path ends before a token that would bring its probability below this.

        Returns:
            The tokens; the path's probability, below the threshold if that ended it; and the place after them. Fewer
            tokens than `n` without that mean that the string was never followed by anything.
        """
        following, all_repeats = self._next, self._repeats
        state, length = place
        items: list[int] = []
        while len(items) < n:
            followers = following[state]
            if len(followers) == 1:
                (token,) = followers
            elif not followers:
                break
            else:
                repeats = all_repeats.get(state)
                if repeats is None:
                    token = next(reversed(followers))
                    probability /= len(followers)
                else:
                    token = repeats.token
                    probability *= repeats.most / (len(followers) + repeats.surplus)
            probability *= length / (length + 1)
            if probability < threshold:
                break
            items.append(token)
            state = followers[token]
            length += 1
        return items, probability, (state, length)

    def followers(self, state: int, n: int | None = None) -> list[tuple[int, float]]:
        """The `n` tokens (None: all) that were counted most often after a state, likeliest first, the latest of equals
        first; each with its share of the counts."""
        followers = self._next[state]
        n = len(followers) if n is None else n
        repeats = self._repeats.get(state)
        if repeats is None:
            share = 1.0 / len(followers) if followers else 0.0
            return [(token, share) for token in islice(reversed(followers), n)]
        counts, total = repeats.counts, len(followers) + repeats.surplus
        often = nlargest(n, reversed(counts), key=counts.__getitem__)
        once = islice((token for token in reversed(followers) if token not in counts), n - len(often))
        return [(token, counts[token] / total) for token in often] + [(token, 1 / total) for token in once]
