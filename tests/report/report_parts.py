"""Parts whose drafts are of each shape that the page shows, and some of which are hostile."""

from __future__ import annotations

from draftverify import Check, Context, Outcome, Proposal, Task, Verification
from draftverify.traits import GeneratorTraits

HOSTILE = (
    "<script>document.title='owned'</script><img src=x onerror=\"alert(1)\">\n"
    "\x1b[31mred\x1b]8;;http://evil.example\x07link\x1b[0m \u202egnp.exe\u2066 zero\u200bwidth \x00 end\n"
    "</script></textarea><!-- ]]> {{7*7}} ${7*7} `x`\n" + "long" * 20_000
)
PROGRAM = "def double(x):\n    # {mark}\n    y = x {op} 2\n    return y\n"


class Asked:
    """Tasks with a program to mend; of every fifth the drafts are hostile.

    Args:
        count: how many.
    """

    def __init__(self, count: int = 10, limit: int | None = None) -> None:
        self.count = count
        self.limit = limit

    def load(self) -> list[Task]:
        """q0, q1, …"""
        count = self.count if self.limit is None else min(self.count, self.limit)
        program = PROGRAM.format(mark="mend me", op="+")
        return [
            Task(
                id=f"q{place}",
                input={"program": program, "n": place},
                group="hostile" if place % 5 == 4 else "plain",
                expected={"answer": "right"},
            )
            for place in range(count)
        ]


class Programs:
    """Alternatives: wrong programs first; after feedback a right one, but for every third task.

    Args:
        right: give the right one at once.
    """

    traits = GeneratorTraits(shape="alternatives")

    def __init__(self, right: bool = False) -> None:
        self.right = right

    def propose(self, context: Context, n: int) -> Proposal:
        """n programs."""
        place = int(context.task.input["n"])
        if context.task.group == "hostile":
            return Proposal.alternatives([HOSTILE, HOSTILE + "2"][:n])
        wrong = [
            PROGRAM.format(mark=f"try {context.round}.{index}", op="-" if index else "/")
            for index in range(n)
        ]
        if self.right or (context.feedback and place % 3):
            wrong[-1] = PROGRAM.format(mark=f"try {context.round}", op="*")
        return Proposal.alternatives(wrong)


class Doubles:
    """Passes a program that multiplies; says of others what is wrong with them, and times out on some."""

    def verify(self, context: Context, proposal: Proposal) -> Verification:
        """One check per program."""
        checks = []
        for item in proposal.items:
            if "* 2" in item:
                checks.append(Check("pass", 1.0, stage="run"))
            elif "/ 2" in item and context.task.input["n"] == 2:
                checks.append(Check("timeout", reason="too slow", stage="run"))
            else:
                said = f"double(3) is wrong\n{HOSTILE if 'script' in item else ''}"
                checks.append(Check("reject", 0.25, "assertion", said, stage="run"))
        return Verification(checks=tuple(checks))


class Votes:
    """Ballots: "right" mostly."""

    traits = GeneratorTraits(shape="alternatives")

    def propose(self, context: Context, n: int) -> Proposal:
        """n answers."""
        chosen = context.draws.uniforms(range(n))
        return Proposal.alternatives(["right" if u < 0.7 else "left" for u in chosen])


class Fine:
    """Passes everything."""

    def verify(self, context: Context, proposal: Proposal) -> Verification:
        """One check per item."""
        return Verification(checks=tuple(Check("pass") for _ in proposal.items))


class Walk:
    """A chain of steps, of which the third is wrong at first."""

    traits = GeneratorTraits(shape="chain")

    def propose(self, context: Context, n: int) -> Proposal:
        """The next steps."""
        start = len(context.accepted)
        names = [f"step {start + index}" for index in range(min(n, 6 - start))]
        if context.round == 0 and len(names) > 2:
            names[2] = "leap over the wall"
        return Proposal.chain(names)


class Follows:
    """Passes the steps in order; puts its own in the place of the first wrong one."""

    def verify(self, context: Context, proposal: Proposal) -> Verification:
        """One check per step."""
        start, checks = len(context.accepted), list[Check]()
        for index, item in enumerate(proposal.items):
            if any(check.verdict == "reject" for check in checks):
                checks.append(Check("unchecked"))
            elif item == f"step {start + index}":
                checks.append(Check("pass"))
            else:
                checks.append(
                    Check("reject", reason="unmet precondition", correction=f"step {start + index}")
                )
        return Verification(checks=tuple(checks))


def right(task: Task, outcome: Outcome) -> float | None:
    """Whether a vote is right, and a program has no trace of tries; no say of the rest."""
    if outcome.status != "accepted":
        return 0.0
    text = str(outcome.value)
    return float("right" in text or "* 2" in text) if task.group != "hostile" else None
