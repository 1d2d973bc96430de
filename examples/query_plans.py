"""Join orders costed a block at a time, the cheapest of one block or of three kept."""

from itertools import accumulate, permutations
from operator import mul

from draftverify import Check, Pipeline, Proposal, Verification, VerifierTraits
from draftverify.rules import Best, Rounds

ROWS = {"a": 1e6, "b": 1e3, "c": 10, "d": 1e5}


class Orders:
    def propose(self, context, n):
        orders, end = list(permutations(context.task.input["tables"])), context.drafted + n
        return Proposal.alternatives(orders[context.drafted : end], exhausted=end >= len(orders))


class Coster:
    traits = VerifierTraits(provides={"verdicts", "scores"})

    def verify(self, context, proposal):
        costs = [sum(accumulate((ROWS[t] / 1e3 for t in order), mul)) for order in proposal.items]
        return Verification(checks=[Check("pass", score=-cost) for cost in costs])


for done in (None, Rounds(3)):
    print(Pipeline(Orders(), Coster(), Best(), block=8, done=done).run({"tables": "abcd"}))
