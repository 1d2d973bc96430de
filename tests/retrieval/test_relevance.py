"""Rankings against judgements, and TREC's files, checked against ir_measures (trec_eval's own code)."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import ir_measures
import pytest
from hypothesis import given
from hypothesis import strategies as st
from ir_measures import RR, P, R, nDCG

from draftverify import ConfigError, Task
from draftverify_retrieval.relevance import ndcg, precision, qrels_of, ranked, recall, reciprocal_rank, run_of
from draftverify_retrieval.trec import read_qrels, read_run, write_qrels, write_run

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


@given(RUNS, QRELS)
def test_files_come_back_as_they_were(tmp_path_factory: Any, run: Any, qrels: Any) -> None:
    """Ids, scores to the last bit, grades; and ir_measures reads the same."""
    folder = tmp_path_factory.mktemp("trec")
    write_run(run, folder / "run.txt")
    write_qrels(qrels, folder / "qrels.txt")
    assert read_run(folder / "run.txt") == run
    assert read_qrels(folder / "qrels.txt") == qrels
    theirs = list(ir_measures.read_trec_run(str(folder / "run.txt")))
    assert {(each.query_id, each.doc_id): each.score for each in theirs} == {
        (query, id): score for query, scores in run.items() for id, score in scores.items()
    }


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("1 Q0 b 2 0.5", "5 columns; 6 are needed"),
        ("1 Q0 b c 2 0.5 x", "7 columns"),
        ("1 Q0 b 2 high x", "score cannot be 'high'"),
        ("1 Q0 b 2 nan x", "score cannot be 'nan'"),
        ("1 Q0 a 2 0.5 x", "'a' stands twice for query '1', first in line 1"),
        ("\udcff", "no UTF-8"),
    ],
)
def test_a_bad_line_of_a_run_is_named(tmp_path: Path, line: str, message: str) -> None:
    """With file and line, empty lines counted."""
    path = tmp_path / "run.txt"
    path.write_bytes(("\ufeff1 Q0 a 1 0.9 x\n\n" + line + "\n").encode("utf-8", "surrogateescape"))
    with pytest.raises(ConfigError, match=message) as caught:
        read_run(path)
    assert caught.value.where == f"{path}:3"


def test_a_bad_line_of_qrels_is_named(tmp_path: Path) -> None:
    """A grade is a whole number; a file that is not there is said to be so."""
    path = tmp_path / "qrels.txt"
    path.write_text("1 0 a 1\n1 0 b 0.5\n")
    with pytest.raises(ConfigError, match=r"qrels.txt:2: the grade cannot be '0.5'"):
        read_qrels(path)
    with pytest.raises(ConfigError, match="cannot be read"):
        read_qrels(tmp_path / "none.txt")


def test_what_would_not_come_back_is_not_written(tmp_path: Path) -> None:
    """Ids with space or none, and scores that are no numbers."""
    for id, score in (("a b", 1.0), ("", 1.0), ("a", math.inf)):
        with pytest.raises(ConfigError):
            write_run({"1": {id: score}}, tmp_path / "run.txt")
    assert not (tmp_path / "run.txt").exists()


def test_tasks_and_outcomes_as_qrels_and_run() -> None:
    """Of tasks what their truth says, of rankings their order, of a passage that came twice its first place."""
    tasks = [
        Task(id="1", truth={"passages": ["a", "b"]}),
        Task(id="2", truth={"passages": {"a": 2}}),
        Task(id="3", truth={"document": "d", "answers": ["x"]}),
        Task(id="4", truth={"answers": []}),
    ]
    assert qrels_of(tasks) == {"1": {"a": 1, "b": 1}, "2": {"a": 2}, "3": {"d": 1}}
    run = run_of({"1": [{"id": id, "text": ""} for id in ("c", "a", "c", "b")]})
    assert ranked(run["1"]) == ["c", "a", "b"]
    with pytest.raises(ConfigError, match="has no id"):
        run_of({"1": ["a text"]})
