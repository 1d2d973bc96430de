"""A guess and a check. Replace them with your own: a part is a plain class with one method."""

from draftverify import PASS, Check, Context, Proposal, Verification

PRIMES = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47)


class SmallPrimes:
    """Guesses the primes up to 47, a block at a time.

    Args:
        smallest: the first guess; smaller primes are left out.
    """

    def __init__(self, smallest: int = 2) -> None:
        self.smallest = smallest

    def propose(self, context: Context, n: int) -> Proposal:
        """The next n primes. A part keeps no notes of its own: the context says what was tried."""
        primes = [prime for prime in PRIMES if prime >= self.smallest]
        tried = sum(len(round.items) for round in context.rounds)
        return Proposal.alternatives(primes[tried : tried + n], exhausted=tried + n >= len(primes))


class EveryOddNumber:
    """Guesses odd numbers, from `start` on.

    Args:
        start: the first guess.
    """

    def __init__(self, start: int = 3) -> None:
        self.start = start

    def propose(self, context: Context, n: int) -> Proposal:
        """The next n odd numbers after those that this generator tried."""
        tried = sum(len(round.items) for round in context.rounds if round.source != "generator")
        first = self.start + 2 * tried
        return Proposal.alternatives(range(first, first + 2 * n, 2))


class Divides:
    """Checks whether a guess divides the task's n."""

    def verify(self, context: Context, proposal: Proposal) -> Verification:
        """One verdict per guess, for the whole block at once."""
        n = context.task.input["n"]
        return Verification(checks=tuple(self.check(n, guess) for guess in proposal.items))

    def check(self, n: int, guess: int) -> Check:
        """Pass, or reject with a reason to count by and what was found."""
        if n % guess == 0:
            return PASS
        return Check("reject", reason="remainder", feedback=f"{n} = {n // guess} * {guess} + {n % guess}")
