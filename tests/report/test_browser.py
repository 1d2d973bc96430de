"""The page in a real browser without a network: it opens and complains of nothing, filters, and runs no draft."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import sqlite3
import threading
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import resources
from itertools import combinations
from urllib.parse import parse_qsl, quote

import pytest

from draftverify.bench.records import RunDirectory, load_run
from draftverify.bench.tables import task_rows
from draftverify.bench.tables.task_rows import task_list
from draftverify.values import Check, Decision, Outcome, Refusal, Round, Task, TaskRecord
from draftverify.view import overview, task_detail
from draftverify.view.page import app_html, app_policy, page_html
from tests.browser import watched
from tests.report.runs import shapes

FIGURES = "main section .chart svg"
NAMES = tuple(f"drafted@rule=block_verification,block={size}" for size in (2, 4, 8, 16, 32))


def refused_beside_kept():
    """A round of two items, of which the second is kept."""
    return Round(
        index=0,
        items=("a", "b"),
        parents=(-1, -1),
        checks=(Check("reject", reason="remainder"), Check("pass")),
        decision=Decision(kept=(1,), refused=(Refusal(0, "remainder"),)),
    )


def opened(page, path, at=""):
    """The report, once its list is there."""
    page.goto(f"file://{path}/report.html{at}")
    page.wait_for_selector("html[data-ready]", state="attached")
    page.wait_for_selector(FIGURES)


def shown(page):
    """The ids of the tasks that are listed."""
    return page.locator("#list td.id button").all_inner_texts()


def choose(page, label, value):
    page.get_by_label(label, exact=True).select_option(value)
    page.evaluate("new Promise(requestAnimationFrame)")


@pytest.mark.parametrize("made", ["shaped", "tokens"])
def test_it_opens_without_a_network_and_without_a_complaint(chromium, request, made):
    """Sections, charts and tables are there; nothing was asked for, logged or raised."""
    path = request.getfixturevalue(made)
    with watched(chromium) as seen:
        opened(seen.page, path)
        headings = seen.page.locator("h2").all_inner_texts()
        assert {"Results", "Cost and quality", "Where the time goes", "Tasks", "Config", "Legend"} <= set(
            headings
        )
        sections = seen.page.locator("section:has(.chart)")
        for place in range(sections.count()):
            assert sections.nth(place).locator("table").count(), "a chart without its table"
        seen.page.wait_for_timeout(200)
        assert seen.page.locator(".chart:not(:has(svg))").count() == 0
        told = " ".join(seen.page.locator("#results").inner_text().split())
        with load_run(path) as records:
            waits = any(status == "waiting" for *_, status in records.store.counts())
        assert ("if people solve the" in told) is waits
        assert (seen.errors, seen.requests) == ([], [])


def test_the_list_in_the_file_is_the_server_s(chromium, shaped):
    """Filters, orders and searches give what `task_list` gives, in its order."""
    with watched(chromium) as seen, load_run(shaped) as records:
        page = seen.page
        opened(page, shaped)
        outcomes = ("accepted", "refused", "waiting", "wrong", "differs", "failed", "")
        asked = [(outcome, "place") for outcome in outcomes]
        asked += [("", sort) for sort in ("slowest", "rounds", "score", "place")]
        for pipeline in ("code", ""):
            choose(page, "pipeline", pipeline)
            for outcome, sort in asked:
                choose(page, "outcome", outcome)
                choose(page, "order", sort)
                want = task_list(records, pipeline=pipeline or None, outcome=outcome or None, sort=sort)
                assert shown(page) == [row["task"] for row in want["rows"]], (pipeline, outcome, sort)
        for sought in (
            "Double(3) IS wrong",
            "<b>",
            "y = x",
            "nothing has this",
        ):  # reasons, refused drafts, answers
            page.get_by_label("search tasks").fill(sought)
            want = task_list(records, search=sought)
            page.wait_for_selector(f"#tasks[data-total='{want['total']}']")
            assert shown(page) == [row["task"] for row in want["rows"]], sought
        assert task_list(records, search="double(3) is wrong")["total"] > 0
        page.get_by_label("search tasks").fill("HOSTILE")
        page.wait_for_selector("#tasks[data-total='2']")
        assert shown(page) == ["q4", "q9"]
        assert seen.errors == []


def test_wrong_answers_are_seen_and_named_among_many_pipelines(chromium, shaped):
    """With a square for each of more than four pipelines an accepted answer that is wrong is no green one."""
    with watched(chromium) as seen, load_run(shaped) as records:
        opened(seen.page, shaped)
        wrong = {
            row["task"]: [name for name, cell in row["cells"].items() if cell.get("wrong")]
            for row in task_list(records)["rows"]
        }
        assert any(wrong.values())
        for task, names in wrong.items():
            line = seen.page.locator("#list tr", has=seen.page.get_by_role("button", name=task, exact=True))
            assert line.locator(".square.wrong").count() == len(names)
            titles = [square.get_attribute("title") for square in line.locator(".square.wrong").all()]
            assert [title.partition(": accepted and wrong")[0] for title in titles] == names
            told = line.locator(".wrongly").all_inner_texts()
            assert all(name in told[0] for name in names[:2]) if names else told == []


def test_a_task_opens_to_its_rounds_and_stays_open(chromium, shaped):
    """Drafts with what was said of them, a diff between tries, steps with their correction; a reload keeps it."""
    with watched(chromium) as seen:
        page = seen.page
        opened(page, shaped)
        page.get_by_role("button", name="q1", exact=True).click()
        page.wait_for_selector("tr.detail .pipeline")
        told = page.locator("tr.detail").inner_text()
        for words in (
            "double(3) is wrong",
            "on reject: feedback",
            "Waits for a person",
            "leap over the wall",
        ):
            assert words in told
        second = page.locator(".pipeline:has(h3:has-text('code')) .round").nth(1)
        assert "y = x * 2" in " ".join(second.locator(".diff .add").all_inner_texts())
        assert "y = x - 2" in " ".join(second.locator(".diff .del").all_inner_texts())
        assert page.locator("ol.steps li.corrected").inner_text().endswith("in its place: step 2")
        choose(page, "outcome", "refused")
        page.reload()
        page.wait_for_selector("html[data-ready]", state="attached")
        assert page.get_by_label("outcome", exact=True).input_value() == "refused"
        choose(page, "outcome", "")
        page.wait_for_selector("tr.detail[data-task=q1] .pipeline")
        assert seen.errors == []


def test_a_link_to_a_task_leads_to_it(chromium, tmp_path):
    """Scrolled to and open, also where it is not on the list's first page; other filters in an address stay."""
    with RunDirectory(tmp_path, name="n", config={"pipelines": {"p": {}}}, config_hash="h") as directory:
        tasks = [Task(id=f"t{place}") for place in range(60)]
        directory.store.add_tasks(tasks)
        for task in tasks:
            directory.store.commit(
                "p", TaskRecord(task=task.id, outcome=Outcome(status="accepted", value="x"))
            )
    with load_run(tmp_path) as run:
        (tmp_path / "report.html").write_text(page_html(run))
    with watched(chromium, viewport={"width": 900, "height": 400}) as seen:
        for task in ("t40", "t57"):
            seen.page.goto("about:blank")
            seen.page.goto(f"file://{tmp_path}/report.html#open={task}")
            rounds = seen.page.locator(f"tr.detail[data-task={task}] .pipeline")
            rounds.wait_for()
            seen.page.wait_for_selector("html[data-ready]", state="attached")
            assert 0 <= rounds.bounding_box()["y"] < 400
        assert "1 pipeline" in seen.page.locator(".facts span").all_inner_texts()
        assert seen.errors == []


def test_two_answers_stand_side_by_side(chromium, shaped):
    """The first two that differ, word by word; whom a reader chooses stays chosen in the next task."""
    with watched(chromium, viewport={"width": 420, "height": 900}) as seen:
        page = seen.page
        opened(page, shaped, "#open=q1")
        answers = page.locator("tr.detail .answers > div")
        answers.first.wait_for()
        assert [side.locator("select").input_value() for side in answers.all()] == ["sure", "code"]
        texts = [side.locator("pre").text_content() for side in answers.all()]
        assert texts[0].replace("try 0", "try 1") == texts[1]
        assert [side.locator("mark").all_inner_texts() for side in answers.all()] == [["0"], ["1"]]
        page.get_by_label("answer on the right").select_option("escalated")
        assert "waiting" in answers.nth(1).inner_text()
        page.get_by_label("answer on the left").select_option("votes")
        page.get_by_role("button", name="q1", exact=True).click()
        page.get_by_role("button", name="q2", exact=True).click()
        answers.first.wait_for()
        assert [side.locator("select").input_value() for side in answers.all()] == ["votes", "escalated"]
        assert page.evaluate("document.documentElement.scrollWidth") <= 420
        assert seen.errors == []


def test_keys_lead_through_the_tasks_and_take_nothing_from_who_types(chromium, shaped):
    """j and k, the search, closing; `?` says which there are; a field and Ctrl keep theirs, and all can be off."""
    with watched(chromium) as seen:
        page = seen.page
        opened(page, shaped)

        def focused():
            return page.evaluate("document.activeElement.textContent")

        page.keyboard.press("j")
        assert focused() == "q0"
        page.keyboard.press("j")
        page.keyboard.press("Enter")
        page.wait_for_selector("tr.detail[data-task=q1]")
        page.keyboard.press("j")
        page.wait_for_selector("tr.detail[data-task=q2]")
        assert (focused(), page.locator("tr.detail").count()) == ("q2", 1)
        page.keyboard.press("Control+k")
        assert focused() == "q2"
        page.keyboard.press("k")
        page.wait_for_selector("tr.detail[data-task=q1]")
        page.keyboard.press("Escape")
        assert (focused(), page.locator("tr.detail").count()) == ("q1", 0)
        page.keyboard.press("?")
        assert "the next task" in page.get_by_role("dialog", name="Keys").inner_text()
        page.keyboard.press("Escape")
        assert page.get_by_role("dialog").count() == 0
        page.keyboard.press("/")
        page.keyboard.type("j/k?")
        assert page.get_by_label("search tasks").input_value() == "j/k?"
        page.keyboard.press("Escape")
        assert page.evaluate("document.activeElement.type") != "search"
        page.get_by_label("search tasks").fill("")
        page.wait_for_selector("#tasks[data-total='10']")
        page.get_by_role("button", name="keys: ?").click()
        page.get_by_label("keys are on").uncheck()
        page.get_by_role("button", name="close").click()
        page.keyboard.press("j")
        assert focused() != "q2"
        assert seen.errors == []


def test_code_is_coloured_and_stays_text(chromium, shaped):
    """Of a draft and of what a task asks, line by line in a diff; no character is lost or added."""
    with watched(chromium) as seen, load_run(shaped) as records:
        opened(seen.page, shaped, "#open=q1")
        asked = seen.page.locator("tr.detail pre.box").first
        asked.locator(".code-keyword").first.wait_for()
        assert asked.locator(".code-keyword").all_inner_texts() == ["def", "return"]
        assert asked.text_content() == records.tasks[1].input["program"]
        changed = seen.page.locator(".pipeline:has(h3:has-text('code')) .diff .add").first
        assert "code-comment" in changed.inner_html()
        assert (seen.errors, seen.requests) == ([], [])


def test_an_address_that_asks_for_what_there_is_not_shows_all(chromium, shaped):
    """A filter, an order, a pipeline or a page that somebody kept from another run is left out."""
    with watched(chromium) as seen:
        for at in ("#outcome=x&sort=constructor&pipeline=__proto__&offset=-3", "#offset=5000", "#offset=1.5"):
            seen.page.goto("about:blank")
            opened(seen.page, shaped, at)
            assert shown(seen.page) == [f"q{place}" for place in range(10)]
        assert seen.errors == []


def test_tokens_are_one_text_coloured_by_what_became_of_them(chromium, tokens):
    """Kept, refused and spliced ones, in their order; the text is the records'."""
    with watched(chromium) as seen, load_run(tokens) as records:
        task = next(row["task"] for row in task_list(records, pipeline="spec", outcome="accepted")["rows"])
        value = next(iter(records.entries(pipeline="spec", task=task))).record.outcome.value
        opened(seen.page, tokens, f"#open={task}")
        stream = seen.page.locator("tr.detail .pipeline:has(h3:has-text('spec')) .stream")
        stream.wait_for()
        joined = stream.locator(".tok.kept, .tok.spliced").all_inner_texts()
        assert joined == [f"<{each}>" for each in value]
        colours = {
            fate: stream.locator(f".tok.{fate}").first.evaluate(
                "each => getComputedStyle(each).backgroundColor"
            )
            for fate in ("kept", "refused", "spliced")
        }
        assert len(set(colours.values())) == 3
        seen.page.goto("about:blank")
        opened(seen.page, tokens, "#open=t7")
        seen.page.locator("tr.detail .pipeline:has(h3:has-text('spec')) .note.bad").wait_for()
        lines = stream.locator("~ .small.soft").all_inner_texts()
        assert [line.split(":")[0] for line in lines] == ["round 0", "round 1", "round 2"]  # the last ends it


def test_hostile_drafts_run_nothing_and_steer_nothing(chromium, shaped):
    """Script, escapes, bidi marks, NUL and a line of 80,000 characters: text, named where it could not be seen."""
    with watched(chromium, viewport={"width": 375, "height": 800}) as seen:
        page = seen.page
        opened(page, shaped, "#open=q4")
        page.wait_for_selector("tr.detail .pipeline")
        page.wait_for_timeout(100)
        told = page.locator("tr.detail").inner_text()
        assert "<script>document.title='owned'</script>" in told
        assert not any(char in told for char in "\x1b\u202e\u2066\u200b\x00")
        assert {"U+001B", "U+202E", "U+0000"} <= set(
            " ".join(page.locator("tr.detail .ctl").all_inner_texts()).split()
        )
        assert page.title() != "owned"
        assert page.locator("tr.detail img, tr.detail script, tr.detail a").count() == 0
        assert page.evaluate("document.documentElement.scrollWidth") <= 375
        assert (seen.errors, seen.requests) == ([], [])


@pytest.mark.parametrize("made", ["shaped", pytest.param("tokens", marks=pytest.mark.exhaustive)])
def test_a_phone_scrolls_down_alone(chromium, request, made):
    """At 375 pixels no section is wider than the page; wide tables scroll in themselves; "12 accepted" is one line."""
    with watched(chromium, viewport={"width": 375, "height": 800}) as seen:
        opened(seen.page, request.getfixturevalue(made))
        seen.page.wait_for_timeout(200)
        assert seen.page.evaluate("document.documentElement.scrollWidth") <= 375
        lines = "Array.from(document.querySelectorAll('.word'), (word) => word.getClientRects().length)"
        assert set(seen.page.evaluate(lines)) == {1}


def test_a_command_stands_as_a_shell_takes_it(chromium, shaped, tmp_path):
    """Words that a shell would part or read are in quotes."""
    command = ["draftverify", "run", "it's.yaml", "--set", "a.b=[1, 2]", "--limit", "3"]
    shutil.copytree(shaped, tmp_path / "run")
    about = json.loads((tmp_path / "run" / "run.json").read_text())
    about["starts"][-1]["command"] = command
    (tmp_path / "run" / "run.json").write_text(json.dumps(about))
    with load_run(tmp_path / "run") as run:
        (tmp_path / "run" / "report.html").write_text(page_html(run))
    with watched(chromium) as seen:
        opened(seen.page, tmp_path / "run")
        assert shlex.split(seen.page.locator(".command").inner_text()) in (command, ["$", *command])


def test_a_log_axis_ends_at_round_figures(chromium):
    """1, 2 or 5 times a power of ten, around what is shown."""
    charts = resources.files("draftverify.view").joinpath("static/charts.js").read_text()
    ends = "".join(re.findall(r"^const (?:ends|niceLow|niceHigh) = .*$", charts, re.M))
    with watched(chromium) as seen:
        found = seen.page.evaluate(
            f"(() => {{ {ends} return [[4.7, 31], [0.2, 100]].map(([a, b]) => [niceLow(a), niceHigh(b)]) }})()"
        )
    assert found == [[2, 50], [0.2, 100]]


@pytest.fixture
def alike(tmp_path):
    """The report of pipelines whose names begin alike and whose points lie close together."""
    with RunDirectory(
        tmp_path, name="n", config={"pipelines": {name: {} for name in NAMES}}, config_hash="h"
    ) as run:
        run.store.add_tasks([Task(id=f"t{place}", input={}) for place in range(6)])
        for place, name in enumerate(NAMES):
            for task in range(6):
                outcome = Outcome(status="accepted", seconds=(1 + task % 2) * 10.0 ** (-place / 3), rounds=1)
                rounds = (refused_beside_kept(),)
                run.store.commit(name, TaskRecord(task=f"t{task}", outcome=outcome, rounds=rounds))
    with load_run(tmp_path) as records:
        (tmp_path / "report.html").write_text(page_html(records), encoding="utf-8")
    return tmp_path


def texts_of(chart):
    """What stands in a chart, each with its box."""
    return [(text.text_content(), text.bounding_box()) for text in chart.locator("text").all()]


@pytest.mark.parametrize(
    ("made", "width"),
    [
        ("shaped", 420),
        ("tokens", 1400),
        ("alike", 420),
        *(
            pytest.param(*case, marks=pytest.mark.exhaustive)
            for case in (("shaped", 1400), ("tokens", 420), ("alike", 1400))
        ),
    ],
)
def test_no_text_of_a_chart_lies_over_another(chromium, request, made, width):
    """Names, numbers, ticks and titles of axes; none leaves the chart, and none is cut."""
    with watched(chromium, viewport={"width": width, "height": 900}) as seen:
        opened(seen.page, request.getfixturevalue(made))
        seen.page.wait_for_timeout(200)
        for chart in seen.page.locator(FIGURES).all():
            edge, texts = chart.bounding_box(), texts_of(chart)
            for text, box in texts:
                assert edge["x"] - 1 <= box["x"], text
                assert box["x"] + box["width"] <= edge["x"] + edge["width"] + 1, text
            for (text, one), (other_text, other) in combinations(texts, 2):
                across = min(one["x"] + one["width"], other["x"] + other["width"]) - max(one["x"], other["x"])
                down = min(one["y"] + one["height"], other["y"] + other["height"]) - max(one["y"], other["y"])
                assert across < 2 or down < 4, (text, other_text)


@pytest.mark.parametrize("width", [pytest.param(1400, marks=pytest.mark.exhaustive), 420])
def test_every_point_has_its_name_or_the_number_of_the_table(chromium, shaped, alike, width):
    """Names where all find room, else numbers; names that begin alike are cut so that they stay apart."""
    with watched(chromium, viewport={"width": width, "height": 900}) as seen:
        for path, names in (
            (shaped, ["sure (baseline)", "code", "escalated", "votes", "plan"]),
            (alike, ["1", "2", "3", "4", "5"]),
        ):
            opened(seen.page, path)
            chart = seen.page.get_by_label("Cost per task against quality, a point per pipeline").locator(
                "svg"
            )
            points = [text for text, _ in texts_of(chart) if text in names]
            assert sorted(points) == sorted(names)
        numbers = seen.page.locator("#results .dot").evaluate_all(
            "dots => dots.map((dot) => dot.dataset.number)"
        )
        assert numbers == names
        bars = [
            text for text, _ in texts_of(seen.page.get_by_label("Seconds per task by part").locator("svg"))
        ]
        lines = [text.strip() for text in bars if "block" in text]
        assert len(set(lines)) == len(NAMES)
        assert all(name.endswith(line.removeprefix("…")) for line, name in zip(lines, NAMES, strict=True))
        assert [text for text in bars if text in names] == names
        cells = seen.page.locator("#results tbody td:first-child")
        assert cells.all_inner_texts() == list(NAMES)
        cut = "names => names.filter((name) => name.scrollWidth > name.clientWidth).length"
        assert seen.page.locator("#results .name").evaluate_all(cut) == 0
        ends = seen.page.locator("[aria-label^='What became of refused items'] svg text").all_text_contents()
        assert any(text.startswith("accepted  ") and "…" not in text for text in ends)


def test_a_chart_is_laid_out_anew_when_the_window_changes(chromium, alike):
    """Names that were placed for a desk are not those of a phone."""
    with watched(chromium, viewport={"width": 1400, "height": 900}) as seen:
        opened(seen.page, alike)
        chart = seen.page.get_by_label("Seconds per task by part").locator("svg")
        assert [text for text, _ in texts_of(chart) if "drafted@" in text]
        seen.page.set_viewport_size({"width": 420, "height": 900})
        seen.page.wait_for_timeout(300)
        lines = [text for text, _ in texts_of(chart) if "block" in text]
        assert len({*lines}) == len(NAMES)
        assert all(text.startswith("…") for text in lines)


def test_a_colour_means_one_thing(chromium, shaped):
    """Pipelines, how something ended, and parts of a whole share none; the parts of the time are no pipeline's."""
    with watched(chromium) as seen:
        opened(seen.page, shaped)
        for _ in ("light", "dark"):
            seen.page.locator("button.theme").click()
            colours = seen.page.evaluate("""() => ["c0", "c1", "c2", "c3", "c4", "c5", "c6", "c7", "gain", "loss",
              "wait", "unclear", "part0", "part1", "part2"].map((name) => {
                const probe = document.body.appendChild(document.createElement("i"));
                probe.style.color = `var(--${name})`;
                return getComputedStyle(probe).color;
              })""")
            assert len({*colours}) >= len(colours) - 1  # no difference seen and a part may be one grey
            bars = seen.page.get_by_label("Seconds per task by part").locator("svg path[fill]")
            fills = set(bars.evaluate_all("bars => bars.map((bar) => getComputedStyle(bar).fill)"))
            assert {*colours[-3:]} <= fills
            assert not fills & {*colours[:12]} - {*colours[:5]}  # which are the numbers of the five


def test_dark_is_dark_and_can_be_chosen(chromium, shaped):
    """By the reader's system, and by the button; charts take the colours."""
    paper = "getComputedStyle(document.body).backgroundColor"
    lightness = f"{paper}.match(/[0-9.]+/g).slice(0, 3).reduce((a, b) => a + +b, 0)"
    with watched(chromium, color_scheme="dark") as seen:
        page = seen.page
        opened(page, shaped)
        assert page.evaluate(lightness) < 150
        page.locator("button.theme").click()
        assert page.evaluate(lightness) > 600
        ink = page.locator(f"{FIGURES} text").first.evaluate("each => getComputedStyle(each).fill")
        page.locator("button.theme").click()
        assert page.evaluate(lightness) < 150
        assert page.locator(f"{FIGURES} text").first.evaluate("each => getComputedStyle(each).fill") != ink
        assert seen.errors == []


def test_it_prints_on_paper(chromium, shaped):
    """Without filters and buttons, in light colours, no wider than the sheet."""
    with watched(chromium, color_scheme="dark", viewport={"width": 720, "height": 1000}) as seen:
        page = seen.page
        opened(page, shaped)
        page.emulate_media(media="print")
        assert page.locator(".filters").first.is_hidden()
        assert page.locator("nav").is_hidden()
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
        assert page.evaluate("document.documentElement.scrollWidth") <= 720
        assert len(page.pdf()) > 20_000
        assert seen.errors == []


def test_a_task_that_is_not_in_the_file_is_named_with_its_command(chromium, shaped, tmp_path):
    """Beyond the budget the page says where its rounds are shown, as a shell takes it."""
    place = tmp_path / "a run"
    shutil.copytree(shaped, place)
    with load_run(place) as records:
        (tmp_path / "report.html").write_text(page_html(records, details=0))
    with watched(chromium) as seen:
        opened(seen.page, tmp_path, f"#open={quote('q1')}")
        seen.page.wait_for_selector("tr.detail .note")
        assert f"draftverify view '{place}'" in seen.page.locator("tr.detail .note").inner_text()


@pytest.fixture
def served(tmp_path):
    """A run whose last task is not there yet, behind a server as plain as can be; and a function that brings it."""
    made = shapes(tmp_path, count=6)
    database = made / "records.db"
    with closing(sqlite3.connect(database)) as store, store:
        store.execute(
            "create table late as select * from draftverify_records where task = 'q5' and pipeline = 'code'"
        )
        store.execute("delete from draftverify_records where task = 'q5' and pipeline = 'code'")

    def arrive() -> None:
        with closing(sqlite3.connect(database)) as store, store:
            store.execute("insert into draftverify_records select * from late")

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path, _, query = self.path.partition("?")
            given = dict(parse_qsl(query))
            with load_run(made) as records:
                if path == "/":
                    kind, body = "text/html; charset=utf-8", app_html("abc")
                else:
                    kind, body = "application/json", json.dumps(self.answer(path, given, records))
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Security-Policy", app_policy("abc"))
            self.end_headers()
            self.wfile.write(body.encode())

        def answer(self, path, given, records):
            assert given.pop("run") == "it"
            if path == "/api/tasks":
                numbers = {key: int(given.pop(key)) for key in ("offset", "limit")}
                return task_rows.task_list(records, **given, **numbers)
            if path == "/api/task":
                return task_detail.task_detail(records, given["task"])
            return {"/api/overview": overview.overview, "/api/changes": overview.changes}[path](records)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/?run=it", arrive
    server.shutdown()
    server.server_close()


def test_the_page_follows_a_run_that_goes_on(chromium, served):
    """From a server the same page asks for what it shows, and what is new comes by itself; filters and tasks stay."""
    address, arrive = served
    with watched(chromium, offline=False) as seen:
        page = seen.page
        page.goto(address)
        page.wait_for_selector("html[data-ready]", state="attached")
        page.wait_for_selector(FIGURES)
        choose(page, "pipeline", "code")
        page.wait_for_selector("#tasks[data-total='6']")
        page.get_by_role("button", name="q1", exact=True).click()
        page.wait_for_selector("tr.detail[data-task=q1] .pipeline")
        before = page.locator("header").inner_text()
        arrive()
        page.wait_for_function("before => document.querySelector('header').innerText !== before", arg=before)
        page.wait_for_selector("tr.detail[data-task=q1] .pipeline")
        assert page.get_by_label("pipeline", exact=True).input_value() == "code"
        assert seen.errors == []
