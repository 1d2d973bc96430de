"""Best-of-n reasoning with a reward for each step, in the four ways that it is done."""

from draftverify import Check, Pipeline, Proposal, Verification, generator, retry, verifier
from draftverify.rules import Beam, Best, BestStep, Limit, LongestPrefix, Rounds


def step(context, place, *more):
    return f"step{place}" if context.draws.uniform(*more) < 0.7 else "slip"


def whole(context, n):
    return [[step(context, k, 4 * i + k) for k in range(4)] for i in range(n)]


def reward(context, steps):
    return Check("pass", score=min(0.1 if each == "slip" else 0.9 for each in steps))


solutions, steps = verifier(reward, scores=True), verifier(lambda c, step: reward(c, [step]), scores=True)
print("whole solutions", Pipeline(generator(whole), solutions, Best(0.5), block=8, policy=retry(3)).run("q"))

following = generator(lambda context, n: [step(context, len(context.accepted), i) for i in range(n)])
print("step by step", Pipeline(following, steps, BestStep(0.5), block=4, done=Limit(4)).run("q"))


class Sound:
    def verify(self, context, proposal):
        return Verification(checks=[Check("reject" if step == "slip" else "pass") for step in proposal.items])


ahead = generator(lambda c, n: [step(c, len(c.accepted) + k, k) for k in range(n)], shape="chain")
chain = Pipeline(ahead, Sound(), LongestPrefix(), block=4, policy=retry(20), done=Limit(8))
print("the longest sound prefix", chain.run("q"))


def grow(context, n):
    grown = [i % max(len(context.held), 1) - (not context.held) for i in range(n)]
    before = [context.held[i].value if context.held else [] for i in grown]
    items = [[*steps, step(context, len(steps), i)] for i, steps in enumerate(before)]
    return Proposal.alternatives(items, extends=grown)


print("n chains", Pipeline(generator(grow), solutions, Beam(2), block=6, done=Rounds(4)).run("q"))
