"""What the page shows, as data: sums that must hold, lists that filter and sort, rounds as they were."""

from __future__ import annotations

import json
import os
import sqlite3
from collections import Counter
from contextlib import closing

import pytest

from draftverify.bench.records import load_run
from draftverify.bench.runner.run import run
from draftverify.bench.tables import task_rows
from draftverify.errors import ConfigError
from draftverify.secret import Secret
from draftverify.view import overview, task_detail
from tests.experiments.runs import load
from tests.report.report_parts import HOSTILE


@pytest.fixture(params=["shaped", "tokens"])
def records(request):
    with load_run(request.getfixturevalue(request.param)) as found:
        yield found


def test_the_overview_s_counts_are_the_records_own(records):
    """Of every pipeline: endings, positions, refused items, seconds by part, all summed from what was committed."""
    shown = overview.overview(records)
    assert json.loads(json.dumps(shown, allow_nan=False)) == shown
    for pipeline in shown["pipelines"]:
        own = records.records(pipeline["name"])
        row = pipeline["rows"][-1]
        ended = Counter(each.outcome.status for each in own)
        assert row["statuses"] == ended
        assert row["tasks"] == len(own)
        assert sum(one["trials"] for one in pipeline["positions"]) == row["acceptance"]["trials"]
        seconds = sum(each.outcome.seconds for each in own)
        assert sum(row["split"].values()) == pytest.approx(seconds, rel=1e-6, abs=1e-9)
        refused = sum(
            task_detail.fate_of(round, index, round.decision.joined) in ("refused", "corrected", "unjudged")
            for each in own
            for round in each.rounds
            if round.failure is None
            for index in range(len(round.items))
        )
        failed = sum(round.failure is not None for each in own for round in each.rounds)
        assert sum(each["items"] for each in pipeline["flow"]) == refused + failed
        checks = sum(len(round.checks) for each in own for round in each.rounds)
        assert sum(pipeline["trust"]["verdicts"].values()) == checks


def test_the_list_and_the_overview_agree(records):
    """As many tasks of an outcome in the list as the overview counts, for every pipeline."""
    shown = overview.overview(records)
    word: dict[str, str] = {}
    for pipeline in shown["pipelines"]:
        for outcome in ("accepted", "failed", "refused", "waiting", "abstained"):
            found = task_rows.task_list(records, pipeline=pipeline["name"], outcome=outcome)
            assert found["total"] == pipeline["rows"][-1]["statuses"].get(word.get(outcome, outcome), 0)
        differ = task_rows.task_list(records, pipeline=pipeline["name"], outcome="differs")["total"]
        same = pipeline["identical"]
        assert differ == (0 if same is None else same["of"] - same["same"])


def test_a_list_is_searched_sorted_and_cut_into_pages(records):
    """Pages joined are the whole; an order is the figures' own; what there is not is an error."""
    every = task_rows.task_list(records, limit=1000)["rows"]
    pages = [task_rows.task_list(records, offset=at, limit=3)["rows"] for at in range(0, len(every), 3)]
    assert [row for page in pages for row in page] == every
    name = next(iter(every[0]["cells"]))
    slow = task_rows.task_list(records, pipeline=name, sort="slowest")["rows"]
    took = [row["cells"][name].get("seconds", 0) for row in slow]
    assert took == sorted(took, reverse=True)
    one = every[-1]["task"]
    assert one in [row["task"] for row in task_rows.task_list(records, search=one.upper())["rows"]]
    for wrong in ({"outcome": "lost"}, {"sort": "random"}, {"pipeline": "none"}):
        with pytest.raises(ConfigError):
            task_rows.task_list(records, **wrong)
    with pytest.raises(ConfigError, match="no task"):
        task_detail.task_detail(records, "nowhere")


def test_a_wrong_answer_that_was_accepted_is_found(shaped):
    """The metric's word beside the verifier's: votes for the other side are accepted and wrong."""
    with load_run(shaped) as records:
        wrong = task_rows.task_list(records, pipeline="votes", outcome="wrong")
        assert 0 < wrong["total"] < 10
        assert all(row["cells"]["votes"]["solved"] == 0 for row in wrong["rows"])


def test_a_task_s_rounds_are_told_as_they_were(shaped):
    """Drafts with what was said of them, what the policy did, who drafted next, and who is waited for."""
    with load_run(shaped) as records:
        found = task_detail.task_detail(records, "q1")
    by = {each["name"]: each for each in found["pipelines"]}
    first, second = by["code"]["rounds"]
    assert [item["fate"] for item in first["items"]] == ["refused", "refused"]
    assert first["items"][0]["check"]["feedback"].startswith("double(3) is wrong")
    assert first["steps"] == [{"clause": 0, "do": "feedback", "on": "reject"}]
    assert [item["fate"] for item in second["items"]] == ["refused", "kept"]
    assert second["tries"] == 1
    assert by["escalated"]["status"] == "waiting"
    assert by["escalated"]["question"]["state"] == "pending"
    assert by["escalated"]["rounds"][1]["source"] == "report_parts.Votes"
    corrected = by["plan"]["rounds"][0]["items"][2]
    assert (corrected["fate"], corrected["instead"]) == ("corrected", "step 2")
    assert {each["name"]: each["kind"] for each in found["pipelines"]}.items() >= {
        "code": "drafts",
        "votes": "drafts",
        "plan": "steps",
    }.items()


def test_numbers_that_the_verifier_can_say_are_tokens(tokens):
    """Words as they were recorded, each token's fate beside it."""
    with load_run(tokens) as records:
        task = task_rows.task_list(records)["rows"][0]["task"]
        found = task_detail.task_detail(records, task)["pipelines"]
        entry = next(iter(records.entries(pipeline="spec", task=task)))
    spec = next(each for each in found if each["name"] == "spec")
    assert spec["kind"] == "tokens"
    assert spec["words"] == "".join(f"<{value}>" for value in entry.record.outcome.value)
    fates = {item["fate"] for round in spec["rounds"] for item in round["items"]}
    assert {"kept", "refused"} <= fates
    assert any("spliced" in round for round in spec["rounds"])


def test_strings_come_as_they_were_recorded(shaped):
    """Nothing is cleaned or escaped here: who displays it does that."""
    with load_run(shaped) as records:
        found = task_detail.task_detail(records, "q4")
    drafted = found["pipelines"][0]["rounds"][0]["items"][0]["text"]
    assert drafted == HOSTILE


def test_long_texts_many_rounds_and_many_drafts_are_cut_and_counted(shaped):
    """What is left out is said; drafts that were kept stay."""
    with load_run(shaped) as records:
        frame = task_rows.RunFrame.of(records)
        task = next(each for each in records.tasks if each.id == "q1")
        entries = {each.pipeline: each for each in records.entries(task="q1")}
        found = task_detail.detail_of(frame, task, entries, clipped=20, rounds=1, drafts=1)
    by = {each["name"]: each for each in found["pipelines"]}
    assert by["code"]["left_out"] == [1, 1]
    assert by["code"]["rounds"][0]["drafted"] == 2
    assert "more characters" in by["sure"]["rounds"][0]["items"][0]["text"]


def test_no_secret_is_in_what_is_shown(tmp_path):
    """A key that a draft repeats is taken out before texts are cut, and out of the command too."""
    key = Secret("sk-shown-by-a-draft")
    made = run(
        load(tmp_path, count=2),
        out=tmp_path / "run",
        command=("draftverify", "run", "x.yaml", "--store", f"postgresql://me:{key}@host/db"),
    )
    with closing(sqlite3.connect(made.path / "records.db")) as store, store:
        store.execute(
            "update draftverify_records set outcome = replace(outcome, '\"accepted\"', '\"failed\"')"
        )
        store.execute(
            "update draftverify_records set outcome = json_set(outcome, '$.reason', ?)", (f"it said {key}",)
        )
    with load_run(made.path) as records:
        task = records.tasks[0].id
        told = json.dumps(
            [overview.overview(records), task_rows.task_list(records), task_detail.task_detail(records, task)]
        )
    assert "it said ***" in told
    assert key not in told
    assert key not in (made.path / "run.json").read_text()


def test_an_unfinished_run_has_an_overview_and_its_changes_are_seen(tmp_path):
    """Progress counts what was committed; the version changes with it; nothing is finished until the run is."""
    experiment = load(tmp_path, count=4)
    made = run(experiment, out=tmp_path / "run")
    os.remove(made.path / "summary.json")
    with load_run(made.path) as records:
        before = overview.changes(records)
        assert (before["done"], before["total"], before["finished"]) == (8, 8, False)
        with closing(sqlite3.connect(made.path / "records.db")) as store, store:
            store.execute("delete from draftverify_records where task = 't3' and pipeline = 'spec'")
        after = overview.changes(records)
        assert (after["done"], after["pipelines"]["spec"]["done"]) == (7, 3)
        assert after["version"] != before["version"]
        shown = overview.overview(records)
        assert shown["finished"] is False
        assert next(each for each in shown["pipelines"] if each["name"] == "spec")["rows"][-1]["tasks"] == 3
        assert task_rows.task_list(records, outcome="open", pipeline="spec")["total"] == 1
        assert task_detail.task_detail(records, "t3")["pipelines"][1]["status"] in ("open", "waiting")


def test_a_summary_of_before_is_not_shown_as_of_now(tmp_path):
    """Tasks that were ended since are counted anew, whatever summary.json says."""
    made = run(load(tmp_path, count=3), out=tmp_path / "run")
    with closing(sqlite3.connect(made.path / "records.db")) as store, store:
        store.execute("delete from draftverify_records where task = 't0' and pipeline = 'spec'")
    with load_run(made.path) as records:
        shown = overview.overview(records)
    assert next(each for each in shown["pipelines"] if each["name"] == "spec")["rows"][-1]["tasks"] == 2


def test_a_loss_is_called_one_only_where_its_interval_lies_below_1(tokens):
    """The word of each speed-up is what its interval says."""
    with load_run(tokens) as records:
        rows = [
            row for each in overview.overview(records)["pipelines"] for row in each["rows"] if row["speedup"]
        ]
    assert rows
    for row in rows:
        low, high = row["speedup"]["low"], row["speedup"]["high"]
        word = (
            "gain" if low is not None and low > 1 else "loss" if high is not None and high < 1 else "unclear"
        )
        assert row["verdict"] in (word, None)
