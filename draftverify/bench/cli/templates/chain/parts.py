"""A drafter and a writer. The writer is a table of which word followed which; a language model stands in its place."""

from collections import Counter
from pathlib import Path

from draftverify import PASS, Check, Context, Cost, Proposal, Verification


def words_so_far(context: Context) -> list[str]:
    """The prompt and what was accepted since."""
    return [*context.task.input["prompt"].split(), *context.accepted]


class LookBack:
    """Guesses that what came after the last words will come again.

    Args:
        words: how many last words are looked for; 0 guesses nothing.
    """

    def __init__(self, words: int = 2) -> None:
        self.words = words

    def propose(self, context: Context, n: int) -> Proposal:
        """What followed the last place with the same words: at most n guesses, each on the one before."""
        text, k = words_so_far(context), self.words
        for place in range(len(text) - k - 1, -1, -1) if k else ():
            if text[place : place + k] == text[-k:]:
                return Proposal.chain(text[place + k : place + k + n])
        return Proposal.chain(())  # no guess: the writer's own word is all that this round brings


class Writer:
    """Writes the likeliest next word, by the longest context that the text knows.

    Args:
        text: the file that it has read.
    """

    def __init__(self, text: Path) -> None:
        self.text = text

    def open(self) -> None:
        """Heavy things are loaded here, and not in the constructor."""
        words = self.text.read_text(encoding="utf-8").split()
        self.after: dict[tuple[str, ...], Counter[str]] = {}
        for end in range(len(words)):
            for length in range(min(end, 4) + 1):
                self.after.setdefault(tuple(words[end - length : end]), Counter())[words[end]] += 1

    def next_word(self, text: list[str]) -> str:
        """What it would write after this text."""
        context = next(text[-k:] for k in (4, 3, 2, 1) if tuple(text[-k:]) in self.after)
        return self.after[tuple(context)].most_common(1)[0][0]

    def verify(self, context: Context, proposal: Proposal) -> Verification:
        """One pass: each guess passes while it is the writer's own next word; then the writer goes on."""
        text = words_so_far(context)
        checks: list[Check] = []
        for guess in proposal.items:
            own = self.next_word(text)
            if guess != own:
                checks.append(Check("reject", reason="another word", feedback=f"{own}, not {guess}"))
                break
            checks.append(PASS)
            text.append(guess)
        checks += [Check("unchecked")] * (len(proposal) - len(checks))
        # A pass costs one unit, however many guesses it judges: that is what makes guessing worth it.
        return Verification(checks=tuple(checks), correction=(self.next_word(text),), cost=Cost(amount=1))
