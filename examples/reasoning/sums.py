"""The step verifier of examples/reasoning-steps.yaml: it knows the sum, and so each next line of a right solution."""

import re

from draftverify import Check, Verification


class RunningSum:
    """Passes the line that adds the next number to the sum so far, and at the end the line that says the sum."""

    def verify(self, context, proposal):
        """One check per line; the accepted ones stand before them."""
        right = lines(context.task.input["question"])[len(context.accepted) :]
        checks = []
        for place, line in enumerate(proposal.items):
            passes = place < len(right) and "".join(line.split()) == "".join(right[place].split())
            checks.append(Check("pass" if passes else "reject", reason="" if passes else "not the next line"))
        return Verification(checks=checks)


def lines(question):
    """A right solution, line by line."""
    sides = question.split(":")[1].split("=")[0]
    total, *terms = [int(term.replace(" ", "")) for term in re.findall(r"[+-]?\s*\d+", sides)]
    solution = []
    for term in terms:
        solution.append(f"{total} {'-' if term < 0 else '+'} {abs(term)} = {total + term}")
        total += term
    return [*solution, f"The answer is {total}."]
