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

from draftverify import Context, Pipeline, Proposal
from draftverify.bench.cli.main import main
from draftverify.bench.config.experiment import load_experiment
from draftverify.bench.records import load_run
from draftverify.bench.records.rows import rows
from draftverify.bench.runner.run import run
from draftverify.bench.tables.expected import differences
from draftverify.bench.tables.trace import TraceStyle, round_lines
from draftverify.exchanges import LONGEST, WHOLE, Exchange, ModelReply, Turn, exchanges_of, noted, read_notes
from draftverify.rules import First
from draftverify.secret import Secret
from draftverify.values import Round
from draftverify.view.page import page_html
from draftverify.view.task_detail import task_detail
from draftverify_llm import Endpoint
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


def made(folder: Path, server: Server, policy: str = "[{do: feedback, times: 1}]") -> Path:
    """The experiment's run."""
    file = folder / "experiment.yaml"
    file.write_text(YAML.format(url=server.url, policy=policy))
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
    asked = task_detail(load_run(made(tmp_path, server, "[{do: escalate}]")), "sum")
    assert asked["pipelines"][0]["question"]["state"] == "pending"
    assert not asked["expected"]
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
    from draftverify_llm import Judge

    judge = Judge(Endpoint(server.url, "m", retries=0))
    round = Pipeline(Fixed(), judge, First()).record("Is it so?").rounds[0]
    ((who, exchange),) = exchanges_of(round)
    assert who == "verify"
    assert "answered 400: too long" in exchange.failure
    assert not exchange.replies


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
