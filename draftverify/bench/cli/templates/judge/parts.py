"""Drafts, a judge of them, and what people thought. Replace `Drafts` and `Checklist` with models, one at a time."""

from draftverify import PASS, Check, Context, Outcome, Proposal, Task, Verification, VerifierTraits


class Drafts:
    """The drafts that were recorded with the task; a model's samples stand in their place ({use: llm.sample, …})."""

    def propose(self, context: Context, n: int) -> Proposal:
        """The next n of them."""
        drafts, tried = context.task.input["drafts"], context.drafted
        return Proposal.alternatives(drafts[tried : tried + n], exhausted=tried + n >= len(drafts))


class HoldingReply:
    """One reply that promises nothing."""

    def propose(self, context: Context, n: int) -> Proposal:
        """The same for everybody, with the number of the order."""
        order = context.task.input["order"]
        text = f"Thank you for writing about order {order}. A colleague will look at it and answer you today."
        return Proposal.alternatives([text], exhausted=True)


class Anything:
    """Passes every draft."""

    def verify(self, context: Context, proposal: Proposal) -> Verification:
        """One word per draft."""
        return Verification(checks=(PASS,) * len(proposal))


class Checklist:
    """Scores a reply by rules, 0 to 1; which score is enough is for the rule of the pipeline to say."""

    traits = VerifierTraits(provides={"verdicts", "scores"})

    def verify(self, context: Context, proposal: Proposal) -> Verification:
        """One score per draft, and what was missed."""
        order = context.task.input["order"]
        return Verification(checks=tuple(self.judge(order, draft) for draft in proposal.items))

    def judge(self, order: str, draft: str) -> Check:
        """The share of the rules that a reply keeps."""
        text = draft.lower()
        kept = {
            "names the order": order in text,
            "thanks or is sorry": any(word in text for word in ("thank", "sorry")),
            "promises nothing": not any(word in text for word in ("guarantee", "definitely")),
            "blames nobody": "you must" not in text and "you did not" not in text,
            "says something": len(text.split()) >= 5,
        }
        missed = [rule for rule, keeps in kept.items() if not keeps]
        score = sum(kept.values()) / len(kept)
        return Check("pass", score, f"missed: {', '.join(missed)}" if missed else "")


class CalledGood:
    """Whether people called the reply good."""

    def __call__(self, task: Task, outcome: Outcome) -> bool | None:
        """From what the task expects, which no part sees. Of the holding reply nobody was asked: it has no say."""
        if outcome.value not in task.input["drafts"]:
            return None
        return outcome.value in task.expected["good"]
