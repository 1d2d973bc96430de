"""Retrieval as draft and verify: passages drafted by an index, checked by a reader that may say that none answers.

Needs the extra `retrieval` (bm25s, faiss-cpu, torch, transformers, …). Nothing is imported from it before it is used.
"""

from draftverify_retrieval.bm25 import Bm25
from draftverify_retrieval.cached import ApproximateSearch, CachedSearch
from draftverify_retrieval.citations import Citations, Cited
from draftverify_retrieval.classifier import Classifier
from draftverify_retrieval.corpus import Changes, Corpus
from draftverify_retrieval.dense import Dense
from draftverify_retrieval.encoder import Encoder
from draftverify_retrieval.endpoint import EndpointEncoder, EndpointReranker
from draftverify_retrieval.everything import Everything
from draftverify_retrieval.exact_search import ExactSearch
from draftverify_retrieval.filtered import Filtered
from draftverify_retrieval.hybrid import Hybrid
from draftverify_retrieval.index import DamagedIndexError
from draftverify_retrieval.judged import AnswerRelevance, Faithfulness
from draftverify_retrieval.lexical_reader import LexicalReader
from draftverify_retrieval.memo import Memo
from draftverify_retrieval.metrics import (
    F1,
    MAP,
    MRR,
    NDCG,
    AnsweredUnanswerable,
    ExactMatch,
    HoldsAnswer,
    PassageRecall,
    Precision,
    UnansweredAnswerable,
)
from draftverify_retrieval.passages import Passage, PassageReading, Passages, Retriever, passage_of
from draftverify_retrieval.question_answering import QuestionAnswering
from draftverify_retrieval.quote_reader import QuoteReader
from draftverify_retrieval.reformulate import Reformulate
from draftverify_retrieval.reranked import Reranked
from draftverify_retrieval.steps import NextQuery, Query, Retrieved, listed
from draftverify_retrieval.subsets import Cacheable, Subset, VectorSubset
from draftverify_retrieval.tasks import Squad, paragraphs
from draftverify_retrieval.text_reader import TextReader
from draftverify_retrieval.vectors import ApproximateVectors, Vectors

__all__ = [
    "AnswerRelevance",
    "AnsweredUnanswerable",
    "ApproximateSearch",
    "ApproximateVectors",
    "Bm25",
    "Cacheable",
    "CachedSearch",
    "Changes",
    "Citations",
    "Cited",
    "Classifier",
    "Corpus",
    "DamagedIndexError",
    "Dense",
    "Encoder",
    "EndpointEncoder",
    "EndpointReranker",
    "Everything",
    "ExactMatch",
    "ExactSearch",
    "F1",
    "Faithfulness",
    "Filtered",
    "HoldsAnswer",
    "Hybrid",
    "LexicalReader",
    "MAP",
    "MRR",
    "Memo",
    "NDCG",
    "NextQuery",
    "Passage",
    "Passages",
    "Precision",
    "Query",
    "QuestionAnswering",
    "PassageReading",
    "PassageRecall",
    "Reformulate",
    "Reranked",
    "Retrieved",
    "Retriever",
    "Squad",
    "Subset",
    "QuoteReader",
    "TextReader",
    "UnansweredAnswerable",
    "VectorSubset",
    "Vectors",
    "listed",
    "paragraphs",
    "passage_of",
]
