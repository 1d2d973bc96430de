"""Questions and passages for readers, and what every reader must do with them."""

from __future__ import annotations

from typing import Any

from draftverify import Check, Proposal, Verification
from draftverify.kit import Subject, make_context

PASSAGES = [
    {"id": "a", "text": "The river of the city is old. The king of Paris found gold in the river."},
    {"id": "b", "text": "Where the gold was, nobody knew."},
    {"id": "c", "text": "Kings and cities. " * 30, "heading": "Of kings"},
    "What the king did in winter?",
]
TASKS = [{"question": "Who found gold in the river?"}, {"question": "What is old?"}, {"question": "  "}]
BLOCK = Proposal.alternatives(PASSAGES)


def subject_of(reader: Any, **more: Any) -> Subject:
    """The conformance kit's subject: these questions, whole blocks and parts of them."""
    blocks = [BLOCK, Proposal.alternatives(PASSAGES[:2]), Proposal.alternatives(())]
    return Subject(reader, tasks=TASKS, proposals=blocks, tolerance=1e-4, **more)


def checks_of(reader: Any, question: str, *passages: Any) -> tuple[Check, ...]:
    """What a reader says of passages."""
    found: Verification = reader.verify(make_context({"question": question}), Proposal.alternatives(passages))
    return found.checks


def check_common(reader: Any) -> None:
    """What holds of every reader: the empty question, an empty passage, and a batch of tasks as each alone."""
    assert {check.verdict for check in checks_of(reader, " \n", *PASSAGES)} == {"abstain"}
    (empty,) = checks_of(reader, "Who?", {"text": "  "})
    assert (empty.verdict, empty.reason) == ("reject", "empty passage")
    contexts = [make_context(task) for task in TASKS]
    together = reader.verify_many(contexts, [BLOCK] * 3)
    for context, many in zip(contexts, together, strict=True):
        alone = [reader.verify(context, Proposal.alternatives([item])).checks[0] for item in PASSAGES]
        for one, other in zip(many.checks, alone, strict=True):
            assert one.verdict == other.verdict
            assert one.correction == other.correction
            assert (one.score is None) == (other.score is None)
            assert one.score is None or abs(one.score - other.score) < 1e-4
    for check, item in zip(together[0].checks, PASSAGES, strict=True):
        if isinstance(check.correction, dict) and "answer_start" in check.correction:
            text = item if isinstance(item, str) else item["text"]
            begin, end = check.correction["answer_start"], check.correction["answer_end"]
            assert text[begin:end] == check.correction["answer"]
    assert isinstance(reader.identity, str)
    assert len(reader.identity) == 32
