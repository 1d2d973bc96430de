"""An index in scratch: it reads what is new and nothing else, and notices when it is of another text."""

from __future__ import annotations

import msgspec
import pytest

from draftverify import ConfigError
from draftverify.kit import advanced, make_context
from draftverify_tokens.prompt_lookup import PromptLookup
from draftverify_tokens.suffix import Suffix
from draftverify_tokens.text_index import caught_up


class Notes:
    """An index that only writes down what it is given to read."""

    def __init__(self) -> None:
        self.tokens: list[int] = []
        self.pieces: list[list[int]] = []

    def extend(self, new):
        self.tokens += new
        self.pieces.append(list(new))


class Untouchable(list):
    """A prompt that counts how often it is gone through."""

    reads = 0

    def __iter__(self):
        self.reads += 1
        return super().__iter__()


def rounds_of(prompt, *pieces):
    """Contexts of successive rounds of one session, with one scratch."""
    scratch, context = {}, make_context({"prompt_ids": prompt})
    yield msgspec.structs.replace(context, scratch=scratch)
    for piece in pieces:
        context = advanced(context, *piece)
        yield msgspec.structs.replace(context, scratch=scratch)


def test_only_new_tokens_are_read():
    """One index for the whole session; the prompt is read once, each accepted token once, also after skipped rounds."""
    prompt = Untouchable([5, 6, 7])
    contexts = list(rounds_of(prompt, [1, 2], [], [3], [4]))
    indexes = [caught_up(contexts[0], "k", Notes)]
    once = prompt.reads
    indexes += [caught_up(contexts[i], "k", Notes) for i in (1, 2, 4)]
    assert all(index is indexes[0] for index in indexes)
    assert indexes[0].pieces == [[5, 6, 7], [1, 2], [3, 4]]
    assert prompt.reads == once > 0


@pytest.mark.parametrize("part", [PromptLookup(3, 1), Suffix()])
def test_a_lookup_does_not_go_through_the_text_again(part):
    """In later rounds neither drafter iterates over the prompt."""
    prompt = Untouchable([1, 2, 3] * 5)
    reads = []
    for context in rounds_of(prompt, [1], [2, 3], [1]):
        assert len(part.propose(context, 4)) > 0
        reads.append(prompt.reads)
    assert reads == [reads[0]] * 4


@pytest.mark.parametrize(
    "other",
    [
        make_context({"prompt_ids": [5, 6, 8]}),
        make_context({"prompt_ids": [5, 6]}),
        make_context({"prompt_ids": [5, 6, 7]}, accepted=[2]),
        advanced(make_context({"prompt_ids": [5, 6, 7]}), 2, 1),
        make_context({"prompt_ids": [5, 6, 7]}, accepted=[2, 1], rounds=1),
    ],
    ids=["another prompt", "a shorter one", "another answer", "another round", "made by hand"],
)
def test_an_index_of_another_text_is_noticed(other):
    """Whatever is in scratch, the index has read the text of the context."""
    first = advanced(make_context({"prompt_ids": [5, 6, 7]}), 1)
    caught_up(first, "k", Notes)
    found = caught_up(msgspec.structs.replace(other, scratch=first.scratch), "k", Notes)
    assert found.tokens == [*other.task.input["prompt_ids"], *other.accepted]


def test_equal_text_in_other_objects_is_recognised():
    """A copied context goes on with the same index."""
    first = make_context({"prompt_ids": [5, 6, 7]}, accepted=[1])
    index = caught_up(first, "k", Notes)
    copied = make_context({"prompt_ids": [5, 6, 7]}, accepted=[1, 2], scratch=first.scratch)
    assert caught_up(copied, "k", Notes) is index
    assert index.pieces == [[5, 6, 7], [1], [2]]


def test_an_index_that_broke_while_it_read_is_not_kept():
    """The next round begins with a new one."""

    class Breaks(Notes):
        def extend(self, new):
            super().extend(new)
            if 13 in new:
                raise ValueError("13")

    first, second = rounds_of([5, 6], [13])
    caught_up(first, "k", Breaks)
    with pytest.raises(ValueError, match="13"):
        caught_up(second, "k", Breaks)
    assert not second.scratch


@pytest.mark.parametrize("part", [PromptLookup(), Suffix()])
def test_a_task_without_prompt_ids_is_refused(part):
    """The message says who puts them there."""
    with pytest.raises(ConfigError, match="prompt_ids"):
        part.propose(make_context("text"), 2)


@pytest.mark.parametrize("part", [PromptLookup(2, 1), Suffix(), Suffix(tree=True)])
def test_many_sessions_are_drafted_as_one(part):
    """One call for many sessions gives what a call each gives."""
    contexts = [make_context({"prompt_ids": [1, 2, 3, 1, 2][i:]}, accepted=[3, 1][:i]) for i in range(3)]
    many = part.propose_many(contexts, [4, 2, 0])
    one = [part.propose(context, n) for context, n in zip(contexts, [4, 2, 0], strict=True)]
    assert [(each.items, each.parents) for each in many] == [(each.items, each.parents) for each in one]
    assert len(many[0]) > 0
