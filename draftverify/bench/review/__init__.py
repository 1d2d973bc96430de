"""The queue of questions to a person: what waits, who answers it, how answers get into the store, what they teach."""

from draftverify.bench.review.labels import Label, Reviewed, labels
from draftverify.bench.review.queue import (
    Reply,
    check_reply,
    fate,
    give_answer,
    key,
    pending,
    read_answers,
    take,
)
from draftverify.bench.review.shown import shown

__all__ = [
    "Label",
    "Reply",
    "Reviewed",
    "check_reply",
    "fate",
    "give_answer",
    "key",
    "labels",
    "pending",
    "read_answers",
    "shown",
    "take",
]
