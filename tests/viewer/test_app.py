"""The data of the server: runs by name only, each error on the page, and the report as a run goes on."""

from __future__ import annotations

import json
import re
import shutil
import sqlite3
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest

from draftverify.bench.cli.main import main
from draftverify.bench.records import RunRecords, load_run
from draftverify.bench.records.listing import list_runs
from draftverify.bench.runner.run import run
from draftverify.bench.tables.task_rows import all_rows
from draftverify.secret import Secret
from draftverify.view import app
from draftverify.view.overview import overview
from tests.experiments.runs import load
from tests.viewer.serving import Served, serving


def test_the_list_says_how_far_each_run_is(served: Served) -> None:
    """Newest first."""
    with served.entered() as client:
        waits, done = client.get("/api/runs").json()["runs"]
    assert (done["run"], done["finished"], done["done"], done["units"]) == ("done", True, 6, 6)
    assert (waits["run"], waits["done"], waits["waiting"]) == ("waits", waits["units"] - 3, 3)
    assert waits["questions"]["pending"] == 3


def test_the_list_says_what_each_pipeline_came_to(served: Served, tmp_path: Path) -> None:
    """The share and the cost, as its tables have them; a run without a summary has none."""
    with served.entered() as client:
        waits, done = client.get("/api/runs").json()["runs"]
    assert [score["pipeline"] for score in done["scores"]] == ["plain", "spec"]
    assert all(score["share"] == "100 %" and score["what"] == "accepted" for score in done["scores"])
    assert all(
        re.fullmatch(r"[0-9.]+ (µs|ms|s), cost [0-9.]+ a task", score["cost"]) for score in done["scores"]
    )
    assert waits["scores"][1]["share"] == "0 %"
    run(load(tmp_path, count=2), out=tmp_path / "runs" / "scored")
    (tmp_path / "runs" / "scored" / "summary.json").unlink()
    with serving(tmp_path / "runs") as server, server.entered() as client:
        assert client.get("/api/runs").json()["runs"][0]["scores"] == []


def test_two_runs_are_compared_as_by_the_command(
    served: Served, runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every figure and sentence is the command's; what cannot be compared is told."""
    with served.entered() as client:
        words = client.get("/api/compare", params={"base": "done", "other": "waits"}).json()
        assert client.get("/api/compare", params={"base": "done", "other": "no"}).status_code == 404
        same = client.get("/api/compare", params={"base": "done", "other": "done"})
        assert (same.status_code, "no pipeline differs from itself" in same.json()["error"]) == (400, True)
    assert main(["compare", str(runs / "done"), str(runs / "waits")]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert {outcome["outcome"] for outcome in words["outcomes"]} >= {"accepted"}
    texts = [text for outcome in words["outcomes"] for row in outcome["rows"] for text in row.values()]
    texts += [text for side in words["sides"] for text in (side["name"], *side["notes"])] + words["explained"]
    for text in texts:
        assert " ".join(text.split()) in printed


def test_the_list_is_filtered_and_two_runs_are_compared_on_it(chromium: Any, served: Served) -> None:
    """By name, tag or pipeline; a third choice lets the first one go; on a phone nothing is wider than the page."""
    with served.page(chromium, "", viewport={"width": 420, "height": 900}) as page:
        rows = page.locator("#runs tbody tr")
        page.get_by_label("filter runs").fill("DON")
        page.wait_for_function("document.querySelectorAll('#runs tbody tr').length === 1")
        page.get_by_label("filter runs").fill("no run has this")
        page.get_by_text("No run has this text").wait_for()
        page.get_by_label("filter runs").fill("spec")
        assert rows.count() == 2
        assert "100 % accepted" in rows.nth(1).inner_text()
        assert page.locator("#compare").is_disabled()
        page.get_by_label("compare done").check()
        page.get_by_label("compare waits").check()
        page.get_by_role("button", name="compare done with waits").click()
        told = page.locator("#comparison")
        told.get_by_text("no difference seen").first.wait_for()
        assert "waits:spec" in told.inner_text()
        page.wait_for_timeout(500)  # the list is read again
        assert page.get_by_label("compare done").is_checked()
        assert page.evaluate("document.documentElement.scrollWidth") <= 420
        assert page.said == []


NOT_NAMES = (
    "../runs/done",
    "done/../done",
    "/etc",
    "done/",
    "./done",
    "%2e%2e",
    "..",
    ".",
    "",
    "done\0",
    "no",
)


@pytest.mark.parametrize("path", ["overview", "tasks", "task", "changes", "questions"])
def test_only_names_that_were_found_are_opened(served: Served, path: str) -> None:
    """Nothing of a request becomes a path."""
    with served.entered() as client:
        for name in NOT_NAMES:
            answer = client.get(f"/api/{path}", params={"run": name, "task": "t0"})
            assert answer.status_code == 404, name
            assert "there is no run" in answer.json()["error"]


def test_a_path_never_leaves_the_static_files(served: Served) -> None:
    """Files are taken from a list."""
    with served.entered() as client:
        for path in (
            "/static/../app.py",
            "/static/..%2fapp.py",
            "/static/%2e%2e%2fapp.py",
            "/static/app.py",
            "/static/",
        ):
            assert client.get(path).status_code in (404, 405)
        assert client.get("/static/dom.js").headers["content-type"].startswith("text/javascript")


def test_a_task_is_found_by_list_and_by_id(served: Served) -> None:
    """What the report's page asks for; what is wrong in the question is told."""
    with served.entered() as client:
        listed = client.get("/api/tasks", params={"run": "done", "sort": "slowest", "limit": 2}).json()
        assert (listed["total"], len(listed["rows"])) == (3, 2)
        assert client.get("/api/task", params={"run": "done", "task": "t1"}).status_code == 200
        for wrong in ({"offset": "x"}, {"sort": "colour"}, {"outcome": "colour"}):
            answer = client.get("/api/tasks", params={"run": "done", **wrong})
            assert (answer.status_code, bool(answer.json()["error"])) == (400, True)
        assert client.get("/api/task", params={"run": "done", "task": "no"}).status_code in (400, 404, 409)


def test_runs_that_go_away_or_are_damaged_are_errors_of_their_own(runs: Path, tmp_path: Path) -> None:
    """The others and the server go on; a run that comes back is read again."""
    root = tmp_path / "runs"
    shutil.copytree(runs, root)
    with serving(root) as served, served.entered() as client:
        before = client.get("/api/overview?run=done").json()
        (root / "waits" / "run.json").write_text("{")
        shutil.move(root / "done", tmp_path / "aside")
        assert client.get("/api/overview?run=done").status_code == 404
        assert "run.json" in client.get("/api/changes?run=waits").json()["error"]
        (row,) = client.get("/api/runs").json()["runs"]
        assert (row["run"], "run.json" in row["problem"]) == ("waits", True)
        shutil.move(tmp_path / "aside", root / "done")
        assert client.get("/api/overview?run=done").json() == before
        for file in root.glob("done/records.db*"):
            file.unlink()
        (root / "done" / "records.db").write_bytes(b"no database at all" * 100)
        answer = client.get("/api/changes?run=done")
        assert (answer.status_code, "damaged" in answer.json()["error"]) == (409, True)


def test_runs_in_folders_are_listed_as_by_the_command(runs: Path, tmp_path: Path) -> None:
    """By their path below the directory, which opens them."""
    shutil.copytree(runs, tmp_path / "all" / "of" / "june")
    with serving(tmp_path / "all") as served, served.entered() as client:
        listed = [each["run"] for each in client.get("/api/runs").json()["runs"]]
        assert sorted(listed) == ["of/june/done", "of/june/waits"]
        assert client.get("/api/overview", params={"run": "of/june/done"}).status_code == 200
        assert client.get("/api/overview", params={"run": "of/../of/june/done"}).status_code == 404
    assert sorted(str(each.path.relative_to(tmp_path / "all")) for each in list_runs(tmp_path)) == sorted(
        listed
    )


def test_a_config_of_another_hand_hides_no_other_run(runs: Path, tmp_path: Path) -> None:
    """It is listed with what is wrong with it."""
    shutil.copytree(runs, tmp_path / "runs")
    config = tmp_path / "runs" / "done" / "config.json"
    config.write_text(json.dumps({**json.loads(config.read_text()), "pipelines": 5}))
    with serving(tmp_path / "runs") as served, served.entered() as client:
        listed = {each["run"]: each for each in client.get("/api/runs").json()["runs"]}
    assert "TypeError" in listed["done"]["problem"]
    assert listed["waits"]["waiting"] == 3


def test_changes_follow_a_run_that_another_connection_writes(runs: Path, tmp_path: Path) -> None:
    """The version stays while nothing is written and differs after each commit; the overview is then made anew."""
    root = tmp_path / "runs"
    shutil.copytree(runs, root)
    with serving(root / "waits") as served, served.entered() as client:
        first = client.get("/api/changes?run=waits").json()
        assert client.get("/api/changes?run=waits").json() == first
        before = client.get("/api/overview?run=waits").json()
        with load_run(root / "waits") as records:
            question = records.store.questions("pending")[0]
            records.store.answer(question, "reject")
        second = client.get("/api/changes?run=waits").json()
        assert second["version"] != first["version"]
        with load_run(root / "waits") as records:
            plain = records.records("plain")[0]
            records.store.commit("spec", plain)
        third = client.get("/api/changes?run=waits").json()
        assert third["done"] == first["done"] + 1
        deadline = time.monotonic() + 20
        while (now := client.get("/api/overview?run=waits").json()) == before and time.monotonic() < deadline:
            time.sleep(0.02)
        assert now["version"] == third["version"] != before["version"]


def test_an_overview_is_made_once_for_all_and_stands_a_while(
    runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pages that ask at once wait for one; a run that changes all the time does not keep the server busy."""
    made: list[float] = []

    def slow(run: RunRecords) -> dict[str, int]:
        time.sleep(0.2)
        made.append(time.monotonic())
        return {"number": len(made)}

    monkeypatch.setattr(app, "overview", slow)
    root = tmp_path / "waits"
    shutil.copytree(runs / "waits", root)
    (root / "report.html").unlink()
    with serving(root) as served, served.entered() as client, load_run(root) as records:
        ask = partial(client.get, "/api/overview?run=waits")
        with ThreadPoolExecutor(4) as pool:
            assert [each.result().json() for each in [pool.submit(ask) for _ in range(4)]] == [
                {"number": 1}
            ] * 4
        for question in records.store.questions("pending"):
            records.store.answer(question, "reject")
            ask()
        while len(made) < 2:
            ask()
    assert made[1] - made[0] > 0.2 * app.REST


def test_the_figures_of_a_run_that_ended_come_out_of_its_report(
    runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are what would be made; when something was written since, or the page was another one, they are made."""
    root = tmp_path / "moved"
    shutil.copytree(runs / "waits", root)
    made: list[str] = []
    monkeypatch.setattr(app, "overview", lambda run: made.append("") or overview(run))
    with load_run(root) as records:
        want = msgspec.json.decode(msgspec.json.encode(overview(records)))
        with serving(root) as served, served.entered() as client:
            assert client.get("/api/overview?run=moved").json() == want
        assert made == []
        html = (root / "report.html").read_text()
        (root / "report.html").write_text(html.replace("sha256-", "sha256-0", 1))
        with serving(root) as served, served.entered() as client:
            assert client.get("/api/overview?run=moved").json() == want
        assert made == [""]
        (root / "report.html").write_text(html)
        records.store.answer(records.store.questions("pending")[0], "reject")
        with serving(root) as served, served.entered() as client:
            now = client.get("/api/overview?run=moved").json()
        assert (len(made), now["version"] != want["version"]) == (2, True)


def test_the_list_is_read_once_for_all_its_pages(
    runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Filters, orders and further pages read no outcome again; an answer that was given since does."""
    root = tmp_path / "waits"
    shutil.copytree(runs / "waits", root)
    read: list[str] = []
    monkeypatch.setattr(app, "all_rows", lambda run: read.append("") or all_rows(run))
    with serving(root) as served, served.entered() as client, load_run(root) as records:
        for asked in ("", "&outcome=waiting", "&sort=slowest&offset=1", "&search=t1"):
            found = client.get(f"/api/tasks?run=waits{asked}").json()
        assert (found["total"], read) == (1, [""])
        records.store.answer(records.store.questions("pending")[0], "reject")
        now = client.get("/api/changes?run=waits").json()["version"]
        deadline = time.monotonic() + 20
        while client.get("/api/tasks?run=waits").json()["version"] != now and time.monotonic() < deadline:
            time.sleep(0.02)
        assert read == ["", ""]


def test_an_unexpected_error_is_told_without_its_secrets(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server answers the next request."""
    word = Secret("correct-horse-battery")

    def fail(run: object, task: str) -> None:
        raise RuntimeError("the key is " + word)

    monkeypatch.setattr(app, "task_detail", fail)
    with served.entered() as client:
        answer = client.get("/api/task", params={"run": "done", "task": "t0"})
        assert answer.status_code == 500
        assert "RuntimeError: the key is ***" in answer.json()["error"]
        assert client.get("/api/runs").status_code == 200


def test_a_locked_database_holds_no_reader_up(runs: Path, tmp_path: Path) -> None:
    """A process that is in the middle of a write is read past."""
    root = tmp_path / "runs"
    shutil.copytree(runs, root)
    writer = sqlite3.connect(root / "done" / "records.db", isolation_level=None)
    writer.execute("PRAGMA journal_mode=WAL")
    writer.execute("BEGIN IMMEDIATE")
    writer.execute("DELETE FROM draftverify_records")
    try:
        with serving(root) as served, served.entered() as client:
            assert client.get("/api/changes?run=done").json()["done"] == 6
    finally:
        writer.close()
