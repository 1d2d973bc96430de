"""The page for reviewers in a real browser: by keyboard, several at once, and nothing lost when it comes too late."""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from draftverify import Check, Pipeline, escalate, generator, verifier
from draftverify.bench.cli.main import main
from draftverify.bench.records import RunDirectory, load_run
from draftverify.bench.review import Reply, give_answer, labels
from draftverify.bench.runner.bench import Bench, Unit
from draftverify.bench.runner.run import run
from draftverify.rules import First
from draftverify.secret import Secret
from draftverify.values import Task
from tests.experiments.runs import load
from tests.viewer.serving import serving


def waiting(path: Path, *candidates: Any, prompt: str = "p", reason: str = "no") -> Path:
    """A run in which a task waits with each of these candidates."""
    pipeline = Pipeline(
        generator(lambda context, n: [candidates[int(context.task.id[1:])]]),
        verifier(lambda context, item: Check("reject", 0.25, reason)),
        First(),
        policy=escalate(),
    )
    bench = Bench({"p": pipeline})
    config = {"name": "n", "pipelines": {"p": {}}}
    with RunDirectory(path / "waits", name="n", config=config, config_hash="h") as directory:
        tasks = [Task(id=f"t{i}", input={"prompt": prompt}) for i in range(len(candidates))]
        directory.store.add_tasks(tasks)
        for task in tasks:
            done = bench.perform(Unit(pipeline="p", task=task))
            assert done.question is not None
            directory.store.park("p", done.record, done.question)
    return path / "waits"


def next_one(*pages: Any) -> None:
    """Wait until each page shows another question than before, and takes keys for it."""
    for page in pages:
        page.wait_for_function(
            "() => { const now = document.getElementById('question').dataset.id;"
            " return now && now !== window.lastSeen && (window.lastSeen = now) }"
        )
    pages[0].wait_for_timeout(205)


def said(page: Any) -> str:
    """What the page tells its reader."""
    return str(page.locator("#message").text_content())


def test_two_reviewers_decide_eight_items_and_none_twice(chromium: Any, tmp_path: Path) -> None:
    """Two servers, two browsers, keys pressed side by side; the same run takes every decision up."""
    waits = load(tmp_path, policy="[{do: escalate}]", check=", splice: false", count=8, chance=0.0)
    path = tmp_path / "run"
    assert run(waits, out=path).waiting == 8
    posted: list[int] = []
    with (
        serving(path) as one,
        serving(path) as other,
        one.page(chromium, "review") as ann,
        other.page(chromium, "review") as bob,
    ):
        for page in (ann, bob):
            page.on("response", lambda answer: "api/answer" in answer.url and posted.append(answer.status))
        for number in range(4):
            next_one(ann, bob)
            ann.keyboard.press("a")
            bob.keyboard.press("r")
            bob.keyboard.insert_text(f"no {number}")
            bob.keyboard.press("Enter")
        for page in (ann, bob):
            page.get_by_text("All is decided").wait_for()
            assert page.locator("#counts").text_content() == "8 of 8 decided"
            assert page.said == []
    assert Counter(posted) == {200: 8}
    with load_run(path) as records:
        answers = {question.task: (question.answer, question.note) for question in records.questions}
        assert len(answers) == len(records.questions) == 8
        assert len({question.holder for question in records.questions}) == 2
    assert sorted(note for _, note in answers.values() if note) == sorted(f"no {i}" for i in range(4))
    main(["run", str(tmp_path / "experiment.yaml"), "--out", str(path)])
    with load_run(path) as records:
        spec = {record.task: record.outcome for record in records.records("spec")}
        for task, (answer, note) in answers.items():
            if answer == "reject":
                assert (spec[task].status, spec[task].reason) == ("refused", note)
            else:
                assert any(each.by == "person" for each in records.store.rounds("spec", task, 0))
        assert Counter(each.right for each in labels(records)) == {True: 4, False: 4}


def test_edits_are_checked_before_they_are_sent(chromium: Any, tmp_path: Path) -> None:
    """Broken JSON stays in the editor and a long number stays exact; a text is taken as it is, with its lines."""
    path = waiting(tmp_path, {"n": 1}, "one\ntwo")
    sent: list[str] = []
    with serving(path) as served, served.page(chromium, "review") as page:
        page.on("request", lambda request: "api/answer" in request.url and sent.append(request.post_data))
        next_one(page)
        page.keyboard.press("e")
        page.locator("#text").fill('{"n": ')
        page.keyboard.press("Control+Enter")
        assert "not JSON yet" in page.locator("#note").text_content()
        assert sent == []
        page.keyboard.press("Escape")
        page.keyboard.press("e")
        assert page.locator("#text").input_value() == '{"n": '
        page.locator("#text").fill('{"n": 9007199254740993}')
        page.keyboard.press("Control+Enter")
        next_one(page)
        page.keyboard.press("e")
        assert page.locator("#text").input_value() == "one\ntwo"
        page.keyboard.press("Control+End")
        page.keyboard.type(" and s, a, r, e are letters")
        page.keyboard.press("Control+Enter")
        page.get_by_text("All is decided").wait_for()
    with load_run(path) as records:
        values = [question.value for question in records.questions]
    assert values == [{"n": 9007199254740993}, "one\ntwo and s, a, r, e are letters"]


def test_a_decision_that_comes_too_late_loses_nothing(chromium: Any, tmp_path: Path) -> None:
    """Somebody else's answer stands and is named; what was typed stays to be copied; a key leads on."""
    path = waiting(tmp_path, "x", "y")
    with serving(path) as served, load_run(path) as records, served.page(chromium, "review") as page:
        next_one(page)
        (first, _) = records.store.questions()
        assert records.store.claim(first, first.holder, 0)
        assert give_answer(records, first, Reply(task="t0", answer="reject"), "another")
        page.keyboard.press("e")
        page.locator("#text").fill("an hour's work")
        page.keyboard.press("Control+Enter")
        page.get_by_text("somebody else has answered this one (reject); that answer stands").wait_for()
        assert page.locator("#text").input_value() == "an hour's work"
        page.locator("#title").click()
        page.keyboard.press("n")
        next_one(page)
        assert said(page) == ""
        page.keyboard.press("a")
        page.get_by_text("All is decided").wait_for()
        assert [question.answer for question in records.questions] == ["reject", "accept"]


def test_a_server_that_goes_away_loses_nothing(chromium: Any, tmp_path: Path) -> None:
    """The page says so; what was typed is still there, and is not sent twice."""
    path = waiting(tmp_path, "x")
    with ExitStack() as opened:
        with serving(path) as served:
            page = opened.enter_context(served.page(chromium, "review"))
            next_one(page)
            page.keyboard.press("e")
            page.locator("#text").fill("kept")
        page.keyboard.press("Control+Enter")
        page.get_by_text("The server does not answer. Nothing was taken").wait_for()
        assert page.locator("#text").input_value() == "kept"
    with load_run(path) as records:
        assert records.questions[0].state == "pending"


def test_skipped_items_go_to_others_and_come_back(chromium: Any, tmp_path: Path) -> None:
    """A skip lets go of the item at once; a closed page does too."""
    path = waiting(tmp_path, "x", "y")
    with serving(path) as served, load_run(path) as records, served.page(chromium, "review") as page:
        next_one(page)
        page.keyboard.press("s")
        next_one(page)
        assert [each.task for each in records.store.questions(free_for="another")] == ["t0"]
        page.keyboard.press("s")
        page.get_by_text("You skipped 2; they are still open.").wait_for()
        page.keyboard.press("s")
        page.locator("#candidate").wait_for()
        assert len(records.store.questions(free_for="another")) == 1
        page.goto("about:blank")
        for _ in range(50):
            if len(free := records.store.questions(free_for="another")) == 2:
                break
            page.wait_for_timeout(20)
        assert len(free) == 2


def test_hostile_drafts_stay_text_and_secrets_stay_out(chromium: Any, tmp_path: Path) -> None:
    """Nothing of a task, draft or reason runs, loads or steers; what cannot be seen is shown; a secret is ***."""
    word = Secret("correct-horse-battery")
    evil = f"<script>window.hit=1</script><img src=x onerror=window.hit=1>\x1b[2J\u202eabc\u2028 {word}"
    path = waiting(tmp_path, evil, prompt=evil, reason=evil)
    with serving(path) as served, served.page(chromium, "review") as page:
        next_one(page)
        text = page.locator("main").inner_text()
        assert page.evaluate("window.hit") is None
        assert page.locator("main img, main script").count() == 0
        # The prompt, the candidate and its reason, the same among the drafts.
        assert text.count("<script>window.hit=1</script>") == 5
        assert not {"\x1b", "\u202e", "\u2028"} & set(text)
        assert "�[2J�abc� ***" in text
        assert "battery" not in page.content()
        page.keyboard.press("e")
        assert "battery" not in page.locator("#text").input_value()
        assert "A secret stands as ***" in page.locator("#note").text_content()
        assert page.said == []


def test_a_phone_shows_the_whole_page(chromium: Any, tmp_path: Path) -> None:
    """Nothing is wider than the screen, light or dark, and every answer has a button."""
    path = waiting(tmp_path, "a_word_without_an_end_" * 40)
    with serving(path) as served:
        for scheme in ("light", "dark"):
            phone = {"viewport": {"width": 360, "height": 640}, "color_scheme": scheme, "has_touch": True}
            with served.page(chromium, "review", **phone) as page:
                next_one(page)
                assert page.evaluate("document.documentElement.scrollWidth") <= 360
                names = page.locator(".actions button").all_inner_texts()
                assert [name[:4] for name in names] == ["Acce", "Edit", "Reje", "Skip"]
                page.locator(".actions button").nth(3).click()
                page.get_by_text("You skipped 1").wait_for()
