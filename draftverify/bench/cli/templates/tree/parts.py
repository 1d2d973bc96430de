"""A drafter that branches and a writer. Both are tables of which word followed which: the drafter looks at one word,
the writer at four; a small and a large language model stand in their places."""

from collections import Counter
from pathlib import Path

from draftverify import PASS, Check, Context, Cost, Proposal, Verification

Table = dict[tuple[str, ...], Counter[str]]


def table_of(file: Path, longest: int) -> Table:
    """How often which word followed each context of up to `longest` words."""
    words = file.read_text(encoding="utf-8").split()
    found: Table = {}
    for end in range(len(words)):
        for length in range(min(end, longest) + 1):
            found.setdefault(tuple(words[end - length : end]), Counter())[words[end]] += 1
    return found


def words_so_far(context: Context) -> list[str]:
    """The prompt and what was accepted since."""
    return [*context.task.input["prompt"].split(), *context.accepted]


class Branches:
    """Guesses the likeliest words after the last one, and after each of them again.

    Args:
        text: the file that it has read.
        width: how many words after each; 0 guesses nothing.
    """

    def __init__(self, text: Path, width: int = 2) -> None:
        self.text = text
        self.width = width

    def open(self) -> None:
        """Heavy things are loaded here, and not in the constructor."""
        self.after = table_of(self.text, 1)

    def propose(self, context: Context, n: int) -> Proposal:
        """A tree of at most n words, level by level. A parent is the index of a word, -1 for the end of the text."""
        items: list[str] = []
        parents: list[int] = []
        for parent in range(-1, n):
            if parent >= len(items) or len(items) >= n:
                break
            last = items[parent] if parent >= 0 else words_so_far(context)[-1]
            for word, _ in self.after.get((last,), Counter[str]()).most_common(self.width)[: n - len(items)]:
                items.append(word)
                parents.append(parent)
        return Proposal.tree(items, parents)


class Writer:
    """Writes the likeliest next word, by the longest context that the text knows.

    Args:
        text: the file that it has read.
    """

    def __init__(self, text: Path) -> None:
        self.text = text

    def open(self) -> None:
        """Heavy things are loaded here, and not in the constructor."""
        self.after = table_of(self.text, 4)

    def next_word(self, text: list[str]) -> str:
        """What it would write after this text."""
        context = next(text[-k:] for k in (4, 3, 2, 1) if tuple(text[-k:]) in self.after)
        return self.after[tuple(context)].most_common(1)[0][0]

    def verify(self, context: Context, proposal: Proposal) -> Verification:
        """One pass over the tree: a guess passes when it is the writer's next word after all the words above it."""
        text = words_so_far(context)
        checks = []
        for index, guess in enumerate(proposal.items):
            above = [proposal.items[each] for each in proposal.path(index)[:-1]]
            own = self.next_word(text + above)
            # The rule puts the correction in the place of a guess where the longest path ends.
            checks.append(PASS if guess == own else Check("reject", reason="another word", correction=own))
        plain = () if len(proposal) else (self.next_word(text),)
        # A pass costs one unit, however many guesses it judges: that is what makes guessing worth it.
        return Verification(checks=tuple(checks), correction=plain, cost=Cost(amount=1))
