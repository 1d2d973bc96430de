"""Passages drafted by word overlap and read in one pass; where no score reaches the threshold there is no answer."""

from draftverify import Check, Pipeline, Proposal, Task, Verification, VerifierTraits, retry
from draftverify.rules import Best

FACTS = {f"q{i} color": f"c{i}" for i in range(40)}
CORPUS = [f"q{i} color is c{i}" for i in range(0, 40, 2)] + [f"q{i} size is s{i}" for i in range(40)]
TASKS = [Task(id=str(i), input={"question": f"q{i} color", "answerable": i % 2 == 0}) for i in range(40)]


class Retriever:
    def propose(self, context, n):
        words = set(context.task.input["question"].split())
        ranked = sorted(CORPUS, key=lambda passage: -len(words & set(passage.split())))
        end = context.drafted + n
        return Proposal.alternatives(ranked[context.drafted : end], exhausted=end >= len(ranked))


class Reader:
    traits = VerifierTraits(provides={"verdicts", "scores"})

    def verify(self, context, proposal):
        answer, noise = FACTS[context.task.input["question"]], context.draws.uniform
        found = [0.75 if answer in passage.split() else 0.35 for passage in proposal.items]
        return Verification(
            checks=[Check("pass", 0.3 * noise(i) - 0.15 + score) for i, score in enumerate(found)]
        )


def pipeline(threshold):
    return Pipeline(Retriever(), Reader(), Best(threshold, abstain_after=2), block=4, policy=retry(1))


scores = [(pipeline(None).run(task).score, task.input["answerable"]) for task in TASKS[:20]]
threshold = max(sorted(score for score, _ in scores), key=lambda at: sum((s >= at) == a for s, a in scores))
outcomes = {task: pipeline(threshold).run(task) for task in TASKS[20:]}
for task, outcome in outcomes.items():
    print(task.input["question"], task.input["answerable"], outcome.value or outcome.status)
