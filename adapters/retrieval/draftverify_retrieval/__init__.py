"""Retrieval as draft and verify: passages drafted by an index, checked by a reader that may say that none answers.

Needs the extra `retrieval` (bm25s, faiss-cpu, torch, transformers). Nothing is imported from it before it is used.
"""

from draftverify_retrieval.encoder import Encoder
from draftverify_retrieval.passages import Passage, Passages, Reading, Retriever, passage_of

__all__ = [
    "Encoder",
    "Passage",
    "Passages",
    "Reading",
    "Retriever",
    "passage_of",
]
