"""What was asked of models and what they said: kept with each round, bounded, without secrets, and shown."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from draftverify import PASS, Context, EndpointError, Pipeline, Proposal, Verification, generator
from draftverify.bench.cli.main import main
from draftverify.bench.config.experiment import load_experiment
from draftverify.bench.records import load_run
from draftverify.bench.records.rows import rows
from draftverify.bench.runner.run import run
from draftverify.bench.tables.expected import differences
from draftverify.bench.tables.task_rows import RunFrame
from draftverify.bench.tables.trace import TraceStyle, round_lines
from draftverify.checks.metrics import Score
from draftverify.checks.verifiers import AllOf, Regex
from draftverify.exchanges import (
    LONGEST,
    WHOLE,
    Exchange,
    ModelReply,
    Turn,
    exchanges_of,
    exchanges_of_metric,
    noted,
    read_notes,
)
from draftverify.rejection import reverify
from draftverify.rules import First
from draftverify.secret import Secret
from draftverify.values import Round
from draftverify.view.page import page_html
from draftverify.view.task_detail import detail_of, task_detail
from draftverify_llm import Endpoint, Judge, asking
from tests.browser import chromium as chromium
from tests.browser import watched
from tests.llm.conftest import Server

KEY = "sk-that-nobody-may-read"
YAML = """
name: said
tasks:
  use: inline
  id: name
  fields: {{prompt: question}}
  expected: {{answer: solution}}
  rows: [{{name: sum, question: "How much is 17 and 25?", solution: "It is 42 in all"}}]
models:
  writer:
    use: llm.endpoint
    base_url: "{url}"
    model: w
    api_key: "${{SAID_KEY}}"
    retries: {retries}
    price_in: 2
    price_out: 10
    price_in_cached: 1
pipelines:
  judged:
    generator: {{use: llm.sample, model: writer, system: Be short., feedback: "Wrong: {{reason}}. Again."}}
    verifier:
      use: all_of
      stages: [{{use: regex, pattern: '.*[0-9].*'}}, {{use: llm.judge, model: writer}}]
    rule: {{use: first}}
    block: 2
    on_rejection: {policy}
metrics:
  right: {{use: exact, expected: answer}}
  judged: {{use: llm.judge, model: writer, expected: answer, reasons: true}}
"""


def answering(request: dict[str, Any]) -> tuple[int, dict[str, str], bytes]:
    """Drafts that are wrong at first; a judge who takes what says 41, and says the key aloud."""
    turns = request["messages"]
    if "Be short." not in turns[0]["content"]:
        texts = [f"{'yes' if 'It is 41' in turns[0]['content'] else 'no'}, says {KEY}"]
    elif len(turns) == 2:
        texts = ["It is 40 in all", "no idea"]
    else:
        texts = ["It is 41 in all", "It is 41 in all"]
    reply = {
        "id": "chatcmpl-1",
        "model": "w-2026",
        "choices": [
            {"index": place, "message": {"content": text}, "finish_reason": "stop"}
            for place, text in enumerate(texts[: request.get("n", 1)])
        ],
        "usage": {
            "prompt_tokens": 100,
            "completion_tokens": 10,
            "prompt_tokens_details": {"cached_tokens": 60},
        },
    }
    return 200, {"x-request-id": f"req-{len(turns)}"}, json.dumps(reply).encode()


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A run of one task against a real server: wrong, told why, and then passed by a judge who is wrong too."""
    server = Server()
    server.answer = answering
    folder = tmp_path_factory.mktemp("said")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SAID_KEY", KEY)
        yield made(folder, server)
    server.close()


def made(
    folder: Path, server: Server, policy: str = "[{do: feedback, times: 1}]", *, retries: int = 4
) -> Path:
    """The experiment's run."""
    file = folder / "experiment.yaml"
    file.write_text(YAML.format(url=server.url, policy=policy, retries=retries))
    return run(load_experiment(file), out=folder / "run").path


def test_a_record_has_messages_and_replies_of_drafts_and_judgements(said: Path) -> None:
    """By whom they were asked, with tokens, those the server had cached, cost and the request's id; each reply with its
    item, also where a stage before left others out."""
    (entry,) = load_run(said).store.entries()
    first, second = entry.record.rounds
    drafted, judged = exchanges_of(first)
    assert (drafted[0], judged[0]) == ("draft", "judge")
    assert drafted[1].asked == (Turn("system", "Be short."), Turn("user", "How much is 17 and 25?"))
    assert [(reply.item, reply.text) for reply in drafted[1].replies] == [
        (0, "It is 40 in all"),
        (1, "no idea"),
    ]
    assert (drafted[1].model, drafted[1].tokens_in, drafted[1].tokens_in_cached) == ("w-2026", 100, 60)
    assert drafted[1].cost == pytest.approx((40 * 2 + 60 * 1 + 10 * 10) / 1e6)
    assert [reply.id for reply in drafted[1].replies] == ["req-2"] * 2
    assert "It is 40 in all" in judged[1].asked[0].content
    assert [reply.item for reply in judged[1].replies] == [0]  # item 1 has no digits, and came to no judge
    again = next(exchanges_of(second))[1]
    assert again.asked[2:] == (
        Turn("assistant", "no idea"),  # the last that was refused
        Turn("user", "Wrong: no match. Again."),
    )
    total = sum(exchange.cost for round in (first, second) for _, exchange in exchanges_of(round))
    assert entry.record.outcome.cost == pytest.approx(total)


def test_no_secret_is_kept(said: Path) -> None:
    """The judge said the key; neither the record nor what is made of it has it."""
    assert KEY.encode() not in b"".join(path.read_bytes() for path in said.rglob("*") if path.is_file())
    (entry,) = load_run(said).store.entries()
    assert dict(exchanges_of(entry.record.rounds[0]))["judge"].replies[0].text == "no, says ***"


def test_the_trace_shows_what_was_said_and_what_was_expected(said: Path, capsys: Any) -> None:
    """The messages as sent, the replies, and where the answer is not as labelled."""
    assert main(["show", str(said), "--trace", "sum"]) == 0
    shown = capsys.readouterr().out
    assert "asked by draft  w-2026 · 100 tokens in · 60 of them cached" in shown
    assert "system: Be short." in shown
    assert "user: Wrong: no match. Again." in shown
    assert "reply · item 1 · 5 tokens · req-2: no idea" in shown
    assert "expected answer: It is 42 in all" in shown
    assert "It is [-42-] {+41+} in all" in shown


def test_exports_have_what_was_said_and_expected(said: Path) -> None:
    """By round what was said; by task the labels."""
    records = load_run(said)
    first, second = rows(records, "rounds")
    assert [one["who"] for one in first["exchanges"]] == ["draft", "judge"]
    assert second["exchanges"][0]["replies"][0]["text"] == "It is 41 in all"
    assert next(rows(records, "tasks"))["expected"] == {"answer": "It is 42 in all"}


def test_what_a_metric_asked_is_kept_with_its_value(said: Path, capsys: Any) -> None:
    """In the store, the trace, the page's data and exports, with its cost, which is no part of the pipeline's."""
    records = load_run(said)
    (score,) = [scores["judged"] for scores in records.store.judgements("sum").values()]
    ((who, exchange),) = exchanges_of_metric("judged", score.notes)
    assert (score.value, who) == (1.0, "metric judged")
    assert "It is 42 in all" in exchange.asked[0].content
    assert [(reply.text, reply.id) for reply in exchange.replies] == [("yes, says ***", "req-1")]
    cost = (40 * 2 + 60 * 1 + 10 * 10) / 1e6
    assert score.cost == exchange.cost == pytest.approx(cost)
    assert main(["show", str(said), "--trace", "sum"]) == 0
    shown = capsys.readouterr().out
    assert "metric right: 0\n" in shown
    assert "metric judged: 1\n    asked by metric judged  w-2026 · 100 tokens in" in shown
    assert main(["show", str(said)]) == 0
    assert f"judged: its metrics, apart from its own cost: cost {cost:.4g}" in capsys.readouterr().out
    (row,) = rows(records, "tasks")
    assert [(one["who"], one["cost"]) for one in row["judgements"]] == [("metric judged", cost)]
    assert row["cost"] == pytest.approx(sum(one["cost"] for one in rows(records, "rounds")))
    last = task_detail(records, "sum")["pipelines"][0]["rounds"][-1]
    assert [one["who"] for one in last["exchanges"]] == ["draft", "judge", "metric judged"]


def test_a_metric_that_failed_is_kept_and_asked_again(
    server: Server, tmp_path: Path, monkeypatch: Any
) -> None:
    """With what it asked, and the server's words without the key; the next look at the run asks it anew."""
    monkeypatch.setenv("SAID_KEY", KEY)
    server.answer = lambda request: (
        (500, {}, f"busy: {KEY}".encode()) if "right answer" in str(request) else answering(request)
    )
    run_path = made(tmp_path, server, retries=0).resolve()
    with load_run(run_path) as records:
        (score,) = [scores["judged"] for scores in records.store.judgements("sum").values()]
        ((_, exchange),) = exchanges_of_metric("judged", score.notes)
        assert (score.value, "busy: ***" in score.problem, "busy: ***" in exchange.failure) == (
            None,
            True,
            True,
        )
        assert ("judged", "sum", "judged") not in records.store.named_scores()
        assert "judged" not in task_detail(records, "sum")["pipelines"][0]["scores"]
    assert KEY.encode() not in b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    server.answer = answering
    with load_run(made(tmp_path, server, retries=0)) as records:
        assert records.store.named_scores()["judged", "sum", "judged"] == 1.0
        (score,) = [scores["judged"] for scores in records.store.judgements("sum").values()]
        assert not score.problem


def test_a_wrong_answer_is_explained_by_the_page(said: Path, tmp_path: Path, chromium: Any) -> None:
    """What was asked, expected, said, and why it passed, opened by clicks alone."""
    page = tmp_path / "report.html"
    page.write_text(page_html(load_run(said)))
    with watched(chromium) as seen:
        seen.page.goto(f"file://{page}")
        seen.page.wait_for_selector("html[data-ready]", state="attached")
        seen.page.locator("#list td.id button").first.click()
        detail = seen.page.locator("tr.detail")
        assert detail.locator(".unmet del").last.inner_text().strip() == "42"
        assert detail.locator(".unmet ins").last.inner_text().strip() == "41"
        assert detail.locator("pre.expected").inner_text() == "It is 42 in all"
        asked = detail.locator("details.exchanges").last
        asked.locator("summary").click()
        told = asked.inner_text()
        assert "Wrong: no match. Again." in told
        assert "yes, says ***" in told
        assert "req-1" in told


def test_who_decides_sees_no_label(said: Path, tmp_path: Path, server: Server, monkeypatch: Any) -> None:
    """A task about which a person is asked shows no labels while the question stands open."""
    assert task_detail(load_run(said), "sum")["expected"] == {"answer": "It is 42 in all"}
    monkeypatch.setenv("SAID_KEY", KEY)
    server.answer = answering
    records = load_run(made(tmp_path, server, "[{do: escalate}]"))
    asked = task_detail(records, "sum")
    assert asked["pipelines"][0]["question"]["state"] == "pending"
    assert not asked["expected"]
    (task,), entries = records.tasks, {entry.pipeline: entry for entry in records.store.entries()}
    notes = noted([Exchange(asked=(Turn("user", "It is 42 in all"),))])
    judged = detail_of(RunFrame.of(records), task, entries, {"judged": {"right": Score(1.0, notes=notes)}})
    assert "It is 42" not in json.dumps(judged)
    assert "unmet" not in asked["pipelines"][0]


@given(st.lists(st.text(max_size=30_000), max_size=4), st.integers(0, 40))
def test_what_is_kept_is_bounded(texts: list[str], times: int) -> None:
    """A text to a length, all of a call's together too; what is left out is counted, and what is kept is read again."""
    exchange = Exchange(
        asked=tuple(Turn("user", text) for text in texts),
        replies=tuple(ModelReply(text=text) for text in texts),
    )
    notes = noted([exchange] * times)
    kept = read_notes(notes)
    assert len(kept) == times
    sizes = [len(turn.content) for one in kept for turn in one.asked]
    assert all(size <= LONGEST + 30 for size in sizes)
    assert sum(sizes) <= WHOLE + 30 * len(sizes)
    whole = [one for text in texts if len(text) <= LONGEST for one in [text]]
    if times and len(whole) == len(texts):
        assert kept[0] == exchange


def test_a_secret_is_struck_out_before_the_cut() -> None:
    """Half of one would be too much of it."""
    key = Secret("sk-0123456789abcdef")
    cut = LONGEST - LONGEST // 4
    (kept,) = read_notes(noted([Exchange(asked=(Turn("user", "x" * (cut - 8) + key + "y" * LONGEST),))]))
    assert "sk-0" not in kept.asked[0].content


ANYTHING = st.recursive(
    st.none() | st.integers() | st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)
)


@given(ANYTHING)
def test_what_strangers_noted_under_the_name_is_left_out(value: Any) -> None:
    """A part may note anything; a reader gets exchanges or nothing."""
    round = Round(
        index=0, notes={"exchanges": value, "heard": value}, draft_notes={"exchanges": [value, value]}
    )
    assert all(isinstance(exchange, Exchange) for _, exchange in exchanges_of(round))


def test_a_request_that_fails_is_told_with_the_judgement(server: Server) -> None:
    """The messages stay, with what went wrong in the reply's place."""
    server.answer = lambda request: (400, {}, b'{"error": {"message": "too long"}}')
    judge = Judge(Endpoint(server.url, "m", retries=0))
    round = Pipeline(Fixed(), judge, First()).record("Is it so?").rounds[0]
    ((who, exchange),) = exchanges_of(round)
    assert who == "verify"
    assert "answered 400: too long" in exchange.failure
    assert not exchange.replies


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ((500, {}, f"overloaded, {KEY}".encode()), "answered 500 at try 1 of 1: overloaded, ***"),
        (
            (400, {}, b'{"error": {"code": "content_filter", "message": "filtered"}}'),
            "answered 400: filtered",
        ),
        ((200, {}, b'{"choices": [{"mess'), 'no whole JSON: {"choices": [{"mess'),
        ((200, {}, b"<html>" + b"x" * 1_000_000), "sent no completion"),
    ],
    ids=["overloaded", "filtered", "broken off", "no JSON"],
)
def test_a_draft_that_failed_is_kept_with_what_was_asked(
    answer: Any, words: str, server: Server, tmp_path: Path, monkeypatch: Any, capsys: Any
) -> None:
    """The round that ended in an error has the messages and the server's words: in the trace, the page and exports."""
    monkeypatch.setenv("SAID_KEY", KEY)
    server.answer = lambda request: answer
    records = load_run(made(tmp_path, server, "[]", retries=0))
    (entry,) = records.store.entries()
    (round,) = entry.record.rounds
    assert round.failure is not None
    assert not round.failure.notes
    ((who, exchange),) = exchanges_of(round)
    assert (who, exchange.asked[1]) == ("draft", Turn("user", "How much is 17 and 25?"))
    assert words in exchange.failure
    assert len(exchange.failure) < 500
    assert not exchange.replies
    assert main(["show", str(tmp_path / "run"), "--trace", "sum"]) == 0
    assert f"no reply: {exchange.failure}"[:60] in " ".join(capsys.readouterr().out.split())
    (shown,) = task_detail(records, "sum")["pipelines"][0]["rounds"]
    assert shown["exchanges"][0]["failure"] == exchange.failure
    assert next(rows(records, "rounds"))["exchanges"][0]["failure"] == exchange.failure
    assert KEY.encode() not in b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())


def test_a_judgement_that_failed_and_was_made_again_is_kept_with_the_later_one(server: Server) -> None:
    """Neither takes the other's place in the round's record."""
    yes = json.dumps({"choices": [{"message": {"content": "yes"}}]}).encode()
    server.in_turn((500, {}, b"busy"), (200, {}, yes))
    pipeline = Pipeline(Fixed(), Judge(Endpoint(server.url, "m", retries=0)), First(), policy=reverify(1))
    (round,) = pipeline.record("Is it so?").rounds
    assert round.decision.kept
    first, second = [exchange for _, exchange in exchanges_of(round)]
    assert "busy" in first.failure
    assert [reply.text for reply in second.replies] == ["yes"]


def test_a_stage_that_raises_keeps_what_it_asked(server: Server) -> None:
    """A reader without a verdict of its own for the failure, behind another stage."""
    server.answer = lambda request: (400, {}, b'{"error": {"message": "too long"}}')
    verifier = AllOf([Regex(".*"), Raising(Endpoint(server.url, "m", retries=0))])
    (round,) = Pipeline(Fixed(), verifier, First()).record("Is it so?").rounds
    ((who, exchange),) = exchanges_of(round)
    assert (who, exchange.asked) == ("raising", (Turn("user", "It is."),))
    assert "answered 400: too long" in exchange.failure


class Raising:
    """Asks about each item, and lets what fails be raised."""

    def __init__(self, model: Endpoint) -> None:
        self.model = model

    def verify(self, context: Context, proposal: Proposal) -> Verification:
        """Pass what was answered."""
        for item in proposal.items:
            with asking(item):
                self.model.complete(item)
        return Verification(checks=(PASS,) * len(proposal))


@pytest.mark.parametrize("notes", [{"x": object()}, 7, {"exchanges": [1]}])
def test_an_error_with_notes_that_cannot_be_kept_is_still_that_error(notes: Any) -> None:
    """They hide nothing, and no record is lost."""

    def draft(context: Context, n: int) -> list[str]:
        error = EndpointError("down")
        error.notes = notes
        raise error

    record = Pipeline(generator(draft), Regex(".*"), First()).record("?")
    assert str(record.outcome.failure) == "EndpointError: down"
    assert not list(exchanges_of(record.rounds[0]))


class Fixed:
    """Drafts one text."""

    def propose(self, context: Context, n: int) -> Proposal:
        """It."""
        return Proposal.alternatives(["It is."])


@pytest.mark.parametrize(
    ("value", "expected", "found"),
    [
        ("a b c", {"answer": "a b c"}, {}),
        ("a x c", {"answer": "a b c"}, {"answer": "a[- b-]{+ x+} c"}),
        ('{"total": 7, "to": "Ann"}', {"json": {"total": 8, "to": "Ann"}}, {"json.total": "[-8-]{+7+}"}),
        ({"answer": "41", "text": "…"}, {"answer": "42"}, {"answer": "[-42-]{+41+}"}),
        ({"a": 1}, {"json": {"a": 1, "b": 2}}, {"json.b": "[-2-]"}),
        ("def f(): pass " * 40, {"tests": "assert f() == 1; " * 40}, {}),
        (None, {"answer": "42"}, {}),
        ({"text": "long"}, {"answers": ["a", "b"]}, {}),
        ("[" * 5000, {"answer": {"a": 1}}, {}),
    ],
)
def test_an_answer_is_laid_beside_its_labels(value: Any, expected: Any, found: Any) -> None:
    """Text by words, objects by key; what is of another kind is not laid there."""
    marks = {"same": "{}", "missing": "[-{}-]", "extra": "{{+{}+}}"}
    assert {
        field: "".join(marks[kind].format(text) for kind, text in parts)
        for field, parts in differences(value, expected)
    } == found


def test_long_and_odd_answers_are_laid_beside_their_labels_in_no_time() -> None:
    """A model that repeats itself makes a comparison word by word cubic; half a character can be written nowhere."""
    begun = time.monotonic()
    (found,) = differences("a " * 5000, {"answer": "a x " * 2500})
    many = {str(n): "b" for n in range(100_000)}
    assert len(differences({str(n): "a" for n in range(100_000)}, {"json": many})) == 100
    (near,) = differences("word " * 4000 + "x end", {"answer": "word " * 4000 + "y end"})
    assert time.monotonic() - begun < 3
    assert {kind for kind, _ in found.parts} >= {"missing", "extra"}
    assert [text.strip() for kind, text in near.parts if kind != "same"] == ["y", "x"]
    (half,) = differences('{"answer": "\\ud800"}', {"answer": "42"})
    json.dumps(half, ensure_ascii=False).encode()


def test_names_that_a_server_gives_are_cut_and_forge_no_line() -> None:
    """A model's name, a role, a reason and an id, which are no texts of the conversation."""
    key = Secret("sk-named-secret-key")
    long = f"x\n  accepted  1 round {key}" + "y" * 10_000
    reply = ModelReply(text="t", finish=long, id=long)
    asked = Exchange(asked=(Turn(long, "c"),), replies=(reply,), model=long, failure=long)
    (kept,) = read_notes(noted([asked]))
    assert key not in str(kept)
    assert max(map(len, (kept.model, kept.asked[0].role, kept.replies[0].finish, kept.replies[0].id))) < 300
    round = Round(index=0, items=("t",), parents=(-1,), draft_notes=noted([asked]))
    lines = [line.plain for line in round_lines((round,), (None,), TraceStyle(marks=True))]
    assert not [line for line in lines if line.lstrip().startswith("accepted  1 round")]
