"""Rankings against judgements, checked against ir_measures (trec_eval's own code)."""

from __future__ import annotations

from typing import Any

import ir_measures
import pytest
from hypothesis import given
from hypothesis import strategies as st
from ir_measures import RR, P, R, nDCG

from draftverify import ConfigError
from draftverify_retrieval.relevance import ndcg, precision, ranked, recall, reciprocal_rank

IDS = st.sampled_from(["a", "b", "B", "a1", "é", "zz", "10", "9", "ß", "𝔞", "￿"])
SCORES = st.sampled_from([0.0, 1.0, -1.0, 1.0 + 1e-9, 0.1, 0.1 + 1e-12]) | st.floats(-1e6, 1e6, width=32)
RUNS = st.dictionaries(st.sampled_from(["1", "2", "3"]), st.dictionaries(IDS, SCORES, min_size=1), min_size=1)
QRELS = st.dictionaries(
    st.sampled_from(["1", "2", "3"]), st.dictionaries(IDS, st.integers(0, 3), min_size=1), min_size=1
)


def trec_eval(measure: Any, run: Any, qrels: Any) -> dict[str, float]:
    """The measure of each query that has something relevant; 0 where the run has not the query."""
    found = {each.query_id: each.value for each in ir_measures.iter_calc([measure], qrels, run)}
    return {query: found.get(query, 0.0) for query in qrels if max(qrels[query].values()) > 0}


@given(RUNS, QRELS, st.integers(1, 12))
def test_the_figures_are_trec_evals(run: Any, qrels: Any, k: int) -> None:
    """Recall, precision, nDCG and reciprocal rank of any run, with ties, ties in 32 bits alone and missing queries."""
    for ours, measure in (
        (recall(run, qrels, k), R @ k),
        (precision(run, qrels, k), P @ k),
        (ndcg(run, qrels, k), nDCG @ k),
        (reciprocal_rank(run, qrels), RR),
    ):
        assert ours == pytest.approx(trec_eval(measure, run, qrels), abs=1e-12)


@given(
    st.dictionaries(IDS, st.integers(-9, 9), min_size=1), st.dictionaries(IDS, st.integers(0, 1), min_size=1)
)
def test_reciprocal_rank_may_stop_at_k(scores: Any, grades: Any) -> None:
    """Beyond k there is no rank; within it is the rank of all."""
    run, qrels = {"1": scores}, {"1": grades}
    whole = reciprocal_rank(run, qrels)
    for k in (1, 2, 5):
        assert reciprocal_rank(run, qrels, k) == {
            q: value if value >= 1 / k else 0.0 for q, value in whole.items()
        }


def test_equal_scores_are_ranked_as_by_trec_eval() -> None:
    """The greater id first, by bytes."""
    assert ranked({"a": 1.0, "b": 1.0, "B": 1.0, "é": 1.0, "c": 2.0}) == ["c", "é", "b", "a", "B"]
    with pytest.raises(ConfigError, match="k is 0"):
        recall({}, {}, 0)
