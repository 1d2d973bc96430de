"""A reader that must show its evidence, over a real server on this machine: quotes, concurrency, refusals, failures."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from draftverify import ConfigError, Pipeline, Proposal, fallback, generator
from draftverify.bench.config.experiment import load_experiment
from draftverify.bench.records import load_run
from draftverify.bench.runner.run import run
from draftverify.kit import Subject, check_component, make_context
from draftverify.rules import First
from draftverify_llm import Endpoint
from draftverify_retrieval import QuoteReader, TextReader
from draftverify_retrieval.quote_reader import find_quote
from tests.llm.conftest import Server

PAGE = Path(__file__).parents[2] / "docs/retrieval.md"
WORDS = "red green blue dark light cold warm old new long short thin thick soft hard rough plain clear dull bright"
PASSAGES = [
    {"id": f"p{place}", "text": f"Item {place} is made of “{word} steel”."}
    for place, word in enumerate(WORDS.split())
]
GATE = threading.Barrier(8, timeout=5)


def told(text: str) -> tuple[int, dict[str, str], bytes]:
    """A server's completion of this text."""
    choice = {"index": 0, "message": {"content": text}, "finish_reason": "stop"}
    usage = {"prompt_tokens": 50, "completion_tokens": 10}
    return 200, {}, json.dumps({"choices": [choice], "usage": usage}).encode()


def reads(request: dict[str, Any]) -> tuple[int, dict[str, str], bytes]:
    """A model that finds the asked item's material, in a fence, with plain quotation marks; else it says null."""
    prompt = request["messages"][-1]["content"]
    asked = re.search(r"What is item (\d+) made of", prompt)
    stands = re.search(r"Item (\d+) is made of “(\w+ steel)”", prompt)
    if asked is None or stands is None or asked[1] != stands[1]:
        return told('{"answer": null, "quote": null}')
    said = {"answer": stands[2], "quote": f'item {stands[1]} is  made of "{stands[2]}"'}
    return told(f"Here it is:\n```json\n{json.dumps(said)}\n```")


@pytest.fixture
def server() -> Iterator[Server]:
    """A server that reads."""
    made = Server()
    made.answer = reads
    yield made
    made.close()


def reader(server: Server, **more: Any) -> QuoteReader:
    return QuoteReader(Endpoint(server.url, "m", price_in=1e6, **more))


def verify(part: QuoteReader, question: str, passages: Any = PASSAGES, enough: int | None = None) -> Any:
    context = make_context({"question": question}, enough=enough)
    return part.verify(context, Proposal.alternatives(tuple(passages)))


def test_a_passage_passes_where_the_quote_stands(server: Server) -> None:
    """In spite of case, spaces and quotation marks; the correction has the answer and the passage's own words."""
    found = verify(reader(server), "What is item 3 made of?")
    assert [check.verdict for check in found.checks] == ["reject"] * 3 + ["pass"] + ["reject"] * 16
    assert found.checks[0].reason == "no answer"
    reading = found.checks[3].correction
    assert (reading["answer"], reading["quote"]) == ("dark steel", "Item 3 is made of “dark steel”")
    assert PASSAGES[3]["text"][reading["answer_start"] : reading["answer_end"]] == "dark steel"
    assert found.cost.amount == 20 * 50


def test_passages_are_asked_about_side_by_side_and_no_more_than_needed(server: Server) -> None:
    """Eight at once, the endpoint's `concurrency`; once enough passed the others are not asked about."""

    def together(request: dict[str, Any]) -> Any:
        GATE.wait()
        return reads(request)

    server.answer = together
    found = verify(reader(server), "What is item 3 made of?", enough=1)
    assert (server.most, len(server.requests)) == (8, 8)
    assert [check.verdict for check in found.checks[8:]] == ["unchecked"] * 12


@pytest.mark.parametrize(
    ("reply", "verdict", "reason"),
    [
        ('{"answer": "gold", "quote": "is made of gold"}', "reject", "quote not in the passage"),
        ('{"answer": "red", "quote": "…"}', "reject", "quote not in the passage"),
        ('{"answer": "red", "quote": ""}', "reject", "quote not in the passage"),
        ('{"answer": "red"}', "reject", "no quote"),
        ('{"answer": "", "quote": "red"}', "reject", "no answer"),
        ("It is made of red steel.", "abstain", "no verdict"),
        ("{" * 5000, "abstain", "no verdict"),
        ('["answer"]', "abstain", "no verdict"),
        ('{"answer": 7, "quote": "item 0"}', "pass", ""),
    ],
)
def test_what_a_reply_is_worth(server: Server, reply: str, verdict: str, reason: str) -> None:
    """An invented quote is a rejection, and what is no answer in the form an abstention, never a rejection."""
    server.answer = lambda request: told(reply)
    (check,) = verify(reader(server), "What?", PASSAGES[:1]).checks
    assert (check.verdict, check.reason) == (verdict, reason)


def test_one_request_that_fails_is_that_passage_s_error(server: Server) -> None:
    """And where all of the first fail nobody is there, and the others are not tried."""

    def sometimes(request: dict[str, Any]) -> Any:
        return (401, {}, b"no") if "Item 5 " in request["messages"][-1]["content"] else reads(request)

    server.answer = sometimes
    found = verify(reader(server), "What is item 3 made of?")
    assert [check.verdict for check in found.checks[3:6]] == ["pass", "reject", "error"]
    server.requests.clear()
    server.answer = lambda request: (401, {}, b"no")
    assert {check.verdict for check in verify(reader(server), "What?").checks} == {"error"}
    assert len(server.requests) == 8


def test_what_cannot_work_is_refused_before_a_request(server: Server) -> None:
    """A score of log-probabilities that nobody asks for; a prompt with a field that nobody fills."""
    with pytest.raises(ConfigError, match=r"logprobs: true .* or read with retrieval\.quote_reader"):
        TextReader(Endpoint(server.url, "m")).open()
    TextReader(Endpoint(server.url, "m", logprobs=True)).open()
    with pytest.raises(ConfigError, match=r"\{passage\} and \{question\}"):
        QuoteReader(Endpoint(server.url, "m"), prompt="{passage} {question} {refusal}").open()
    assert server.requests == []


def test_it_keeps_the_contract(server: Server) -> None:
    """The kit's checks, and passages that are none."""
    tasks = [{"question": f"What is item {place} made of?"} for place in (0, 2, 9)]
    blocks = [Proposal.alternatives(tuple(PASSAGES[:n])) for n in (0, 1, 3)]
    contexts = [make_context(task) for task in tasks]
    check_component(Subject(reader(server), contexts=contexts, proposals=blocks))


def test_quotes_are_found_where_they_stand() -> None:
    """Places are of the original text, whose ligatures and spaces are other characters than the quote's."""
    text = "The  ﬁrst\n“king” — of Paris"
    for quote, stands in (
        ("the first 'KING'", None),
        ('first "king"', "ﬁrst\n“king”"),
        ("king” - of", "king” — of"),
    ):
        place = find_quote(text, quote)
        assert (None if place is None else text[place[0] : place[1]]) == stands
    assert find_quote(text, " … ") is None


def test_a_quote_is_of_whole_words() -> None:
    """Part of a word says something else; letters and their marks are one, however they are written."""
    for text, quote, stands in (
        ("It costs 1250 francs.", "costs 125", None),
        ("unlikely, or likely", "likely", "likely"),
        ("It is 5 m long", "is 5", "is 5"),
        ("Cafe\u0301 Müller", "café", "Cafe\u0301"),
        ("Café Mu\u0308ller", "müller", "Mu\u0308ller"),
        ("art of artful art", "of art", None),
    ):
        place = find_quote(text, quote)
        assert (None if place is None else text[place[0] : place[1]]) == stands
    assert find_quote("unlikely, or likely", "likely") == (13, 19)


def test_in_a_pipeline_with_a_larger_retriever_behind(server: Server) -> None:
    """What the first passages do not have is read from more; an unanswerable question gets no answer."""
    first, more = (generator(lambda context, n, size=size: PASSAGES[:size]) for size in (4, 20))
    pipeline = Pipeline(first, reader(server), First(), block=20, policy=fallback(more, times=1))
    answers = [pipeline.run({"question": f"What is item {place} made of?"}) for place in (2, 15, 99)]
    assert [outcome.status for outcome in answers] == ["accepted", "accepted", "refused"]
    assert [outcome.value["answer"] for outcome in answers[:2]] == ["blue steel", "rough steel"]


def test_the_page_s_pipeline_answers_what_is_there_and_nothing_else(server: Server, tmp_path: Path) -> None:
    """Its YAML as it stands: of twelve questions six are answered only from the passages behind the first, and six more
    have no answer anywhere."""
    (text,) = (
        block
        for block in re.findall(r"```yaml\n(.*?)```", PAGE.read_text(), re.DOTALL)
        if "quote_reader" in block
    )
    key = ', api_key: "${MODEL_KEY}"'
    assert key in text
    (tmp_path / "e.yaml").write_text(
        "name: quoted\ntasks: {use: jsonl, path: questions.jsonl}\n"
        + text.replace("https://models.example/v1", server.url).replace(key, "")
    )
    questions = (json.dumps({"question": f"What is item {40 + place} made of?"}) for place in range(18))
    (tmp_path / "questions.jsonl").write_text("\n".join(questions))
    (tmp_path / "manual").mkdir()
    for place, word in enumerate(WORDS.split()[:12]):
        (tmp_path / "manual" / f"{place}.md").write_text(f"Item {40 + place} is made of “{word} steel”.")
        for decoy in range(12 if place < 6 else 3):
            asked = (
                f"What is item {40 + place} made of? Is item {40 + place} made? Page {chr(97 + decoy) * 3}."
            )
            (tmp_path / "manual" / f"{place}-{decoy}.md").write_text(asked)
    result = run(load_experiment(tmp_path / "e.yaml"), out=tmp_path / "run")
    with load_run(result.path) as records:
        ended = {record.task: record.outcome for record in records}
    outcomes = [ended[str(line)] for line in range(1, 19)]
    assert [outcome.value["answer"] for outcome in outcomes[:12]] == [
        f"{word} steel" for word in WORDS.split()[:12]
    ]
    assert {outcome.status for outcome in outcomes[12:]} == {"abstained"}
    assert [outcome.rounds for outcome in outcomes[:12]] == [2] * 6 + [1] * 6
    assert server.most <= 8  # of all tasks together
