"""A vote with adaptive stopping, by heads and by weight; no answer where nobody leads by enough."""

from draftverify import Check, Pipeline, generator, verifier
from draftverify.rules import AdaptiveConsistency, Majority, WeightedVote

sampled = generator(lambda c, n: [42 if c.draws.uniform(i) < 0.6 else 41 for i in range(n)])
unlike = generator(lambda context, n: [context.round * n + i for i in range(n)])
anything = verifier(lambda context, item: True)
trusts_41 = verifier(lambda context, item: Check("pass", score=0.9 if item == 41 else 0.1), scores=True)
until = AdaptiveConsistency(0.95, at_most=30)
print("heads", Pipeline(sampled, anything, Majority(), block=3, done=until).run("q"))
print("no leader", Pipeline(unlike, anything, Majority(share=0.5), block=3, done=until).run("q"))
print("weights", Pipeline(sampled, trusts_41, WeightedVote(), block=3).run("q"))
