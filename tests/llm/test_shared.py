"""Parts that several others open."""

from __future__ import annotations

import threading

import pytest

from draftverify_llm import Shared


class Member:
    def __init__(self):
        self.open_now = 0

    def open(self):
        self.open_now += 1

    def close(self):
        self.open_now -= 1


class Part(Shared[list]):
    def __init__(self, *members, fails=False):
        super().__init__()
        self.members = members
        self.fails = fails
        self.made = 0

    def _members(self):
        return self.members

    def _make(self):
        self.made += 1
        if self.fails:
            raise RuntimeError("no")
        return []

    def use(self):
        return self._get()


def test_the_last_user_closes():
    """Made once, with its members open once; gone when the last one closed it; closing again is harmless."""
    member = Member()
    part = Part(member, None, object())
    part.open()
    part.open()
    held = part.use()
    assert (part.made, member.open_now) == (1, 1)
    part.close()
    assert part.use() is held
    part.close()
    part.close()
    assert member.open_now == 0
    assert part.use() is not held
    assert (part.made, member.open_now) == (2, 1)
    part.close()
    assert member.open_now == 0


def test_what_cannot_be_made_leaves_nothing_open():
    """Its members are closed again, and the next try is a new one."""
    member = Member()
    part = Part(member, fails=True)
    for _ in range(2):
        with pytest.raises(RuntimeError):
            part.open()
    assert member.open_now == 0
    part.fails = False
    part.open()
    assert member.open_now == 1


def test_many_threads_make_it_once():
    """Whoever comes first."""
    part = Part()
    found = []
    threads = [threading.Thread(target=lambda: found.append(part.use())) for _ in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert part.made == 1
    assert all(each is found[0] for each in found)
