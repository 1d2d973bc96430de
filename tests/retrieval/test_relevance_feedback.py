"""RM3's weights."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from draftverify_retrieval.relevance_feedback import expanded

TERMS = st.lists(st.integers(0, 5), max_size=6)


def test_the_weights_are_those_of_the_formula():
    """Worked by hand: two passages of scores 3 and 1, two terms kept of three."""
    found = expanded([7, 7, 8], [[1, 1, 2, 8], [3]], [3.0, 1.0], terms=2, weight=0.6)
    # RM1: term 1 ¾·½, terms 2 and 8 ¾·¼, term 3 ¼·1; kept are 1 (.375) and 3 (.25), scaled to .6 and .4.
    assert found == pytest.approx({7: 0.6 * 2 / 3, 8: 0.6 / 3, 1: 0.4 * 0.6, 3: 0.4 * 0.4})


@given(TERMS, st.lists(st.tuples(TERMS, st.floats(0, 9)), max_size=4), st.integers(1, 5), st.floats(0, 1))
def test_weights_are_shares(query, passages, terms, weight):
    """None is negative, they sum to 1 unless nothing has a term, and at most so many are new."""
    found = expanded(query, [p for p, _ in passages], [s for _, s in passages], terms=terms, weight=weight)
    assert all(each >= 0 for each in found.values())
    assert sum(found.values()) == pytest.approx(1) or found == {}
    assert len(found.keys() - set(query)) <= terms
    if not any(p for p, _ in passages):
        assert found == {term: query.count(term) / len(query) for term in query}


def test_passages_without_a_score_count_alike():
    """As those of another retriever, which share no term with the question."""
    assert expanded([0], [[1], [2]], [0.0, 0.0], terms=5, weight=0.5) == {0: 0.5, 1: 0.25, 2: 0.25}
