"""The suffix automaton: longest matches, counts and cost against searches of every place."""

from __future__ import annotations

import random
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from draftverify_tokens.suffix_automaton import NOWHERE, SuffixAutomaton

texts = st.lists(st.integers(0, 2), max_size=30)
many_texts = st.lists(st.lists(st.integers(0, 2), max_size=12), max_size=4)


def read(sequences: list[list[int]]) -> SuffixAutomaton:
    automaton = SuffixAutomaton()
    for sequence in sequences:
        automaton.begin()
        automaton.extend(sequence)
    return automaton


def ends(sequences: list[list[int]], string: list[int]) -> set[tuple[int, int]]:
    """Where a string ends: (sequence, place)."""
    return {
        (which, end)
        for which, text in enumerate(sequences)
        for end in range(len(string), len(text) + 1)
        if text[end - len(string) : end] == string
    }


def counted(sequences: list[list[int]], string: list[int]) -> dict[int, int]:
    """The oracle of what followed a string: every token at its first time there, and later where no longer context had
    known it, which is where the longest one that had has the same end positions as the string."""
    counts: dict[int, int] = {}
    read: list[list[int]] = []
    for text in sequences:
        read.append([])
        for place, token in enumerate(text):
            before = text[:place]
            if before[place - len(string) :] == string and len(string) <= place:
                known = [
                    context
                    for context in (before[start:] for start in range(place + 1))
                    if ends(read, [*context, token])
                ]
                if token not in counts:
                    counts[token] = 1
                elif ends(read, known[0]) == ends(read, string):
                    counts[token] += 1
            read[-1].append(token)
    return counts


@given(texts, st.integers(1, 5))
def test_the_match_is_the_longest_suffix_that_occurred_before(text, piece):
    """As a search of every earlier place finds it, however the text was cut into pieces."""
    automaton = SuffixAutomaton()
    for start in range(0, len(text), piece):
        automaton.extend(text[start : start + piece])
    longest = max(n for n in range(len(text) + 1) if n == 0 or ends([text[:-1]], text[len(text) - n :]))
    assert automaton.repeated()[1] == longest


@given(many_texts, texts)
def test_steps_find_the_longest_suffix_of_another_text(sequences, text):
    """After each token the place is that of the longest suffix that occurs within one of the sequences."""
    automaton, place = read(sequences), NOWHERE
    for end in range(1, len(text) + 1):
        place = automaton.step(place, text[end - 1])
        assert place[1] == max(n for n in range(end + 1) if n == 0 or ends(sequences, text[end - n : end]))


@given(many_texts, texts)
def test_an_open_end_is_the_longest_suffix_that_went_on(sequences, text):
    """Of the match, the longest suffix that some token followed."""
    automaton, place = read(sequences), NOWHERE
    for token in text:
        place = automaton.step(place, token)
    match = text[len(text) - place[1] :]
    went_on = [match[start:] for start in range(len(match)) if counted(sequences, match[start:])]
    assert automaton.open_end(place)[1] == len(max(went_on, key=len, default=[]))


@given(many_texts, texts)
def test_followers_are_counted_where_no_longer_context_knew_them(sequences, text):
    """Tokens and shares after the longest match, likeliest first; and the likeliest of them is followed."""
    automaton, place = read(sequences), NOWHERE
    for token in text:
        place = automaton.step(place, token)
    state, length = place
    if not length:
        return
    counts = counted(sequences, text[len(text) - length :])
    total = sum(counts.values())
    found = automaton.followers(state, 9)
    assert dict(found) == {token: count / total for token, count in counts.items()}
    assert [share for _, share in found] == sorted((share for _, share in found), reverse=True)
    assert automaton.followers(state, 1) == found[:1]
    if found:
        items, probability, _ = automaton.follow(place, 1, 1.0, 0.0)
        assert items == [found[0][0]]
        assert probability == pytest.approx(found[0][1] * length / (length + 1))


def test_of_equals_the_latest_comes_first():
    """After 1 came 2, then 3, then 2 again by way of another context, then 3 likewise."""
    assert read([[1, 2], [1, 3]]).followers(read([[1]])._last, 2) == [(3, 0.5), (2, 0.5)]
    automaton = read([[1, 2], [1, 3], [5, 1, 2], [6, 1, 3]])
    state, _ = automaton.step(NOWHERE, 1)
    assert [token for token, _ in automaton.followers(state, 2)] == [3, 2]
    assert automaton.follow((state, 1), 1, 1.0, 0.0)[0] == [3]


def test_copies_of_one_passage_weigh_less_than_other_contexts():
    """What followed in a passage that is copied ten times falls behind what followed in three other places."""
    automaton = read([[4, 5, 6, 1, 2] * 10, [7, 1, 3], [8, 1, 3], [9, 1, 3]])
    state, _ = automaton.step(NOWHERE, 1)
    assert dict(automaton.followers(state, 3)) == {2: 2 / 5, 3: 3 / 5}


def test_no_string_reaches_from_one_sequence_into_the_next():
    """What begins a sequence did not follow what ended the one before."""
    automaton = read([[1, 2], [3, 4]])
    assert automaton.step(automaton.step(NOWHERE, 2), 3)[1] == 1


def fibonacci(n: int) -> list[int]:
    before, word = [1], [0]
    while len(word) < n:
        before, word = word, word + before
    return word[:n]


HARD = {
    "one token": lambda n: [0] * n,
    "a period": lambda n: [0, 1, 2] * (n // 3),
    "random, 2 tokens": lambda n: random.Random(1).choices(range(2), k=n),
    "random, many tokens": lambda n: random.Random(1).choices(range(1000), k=n),
    "all different": lambda n: list(range(n)),
    "fibonacci": fibonacci,
    "runs": lambda n: [0 if i % 40 else 1 for i in range(n)],
    "half and half": lambda n: [0] * (n // 2) + [1] * (n // 2),
    "most states (abb…b)": lambda n: [0] + [1] * (n - 1),
    "most transitions (abb…bc)": lambda n: [0] + [1] * (n - 2) + [2],
}


@pytest.mark.parametrize("kind", HARD)
def test_a_token_costs_constant_time(kind):
    """Lines executed per token, and transitions made (which bounds what is copied), on texts known to be hard."""
    lines = 0

    def trace(frame, event, _):
        nonlocal lines
        if frame.f_code.co_filename.endswith("suffix_automaton.py"):
            lines += event == "line"
            return trace
        return None

    for n in (600, 4800):
        text, automaton, lines = HARD[kind](n), SuffixAutomaton(), 0
        before = sys.gettrace()
        sys.settrace(trace)
        try:
            automaton.extend(text)
        finally:
            sys.settrace(before)
        assert lines <= 50 * len(text)
        assert len(automaton._next) <= 2 * len(text)
        assert sum(map(len, automaton._next)) <= 3 * len(text)
