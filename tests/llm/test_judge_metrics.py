"""Judges as metrics: one that sees what is expected, panels of them, and many scores asked for at once."""

from __future__ import annotations

import json
import time

import pytest

from draftverify import ConfigError, Outcome, Task
from draftverify.bench.config.experiment import load_experiment
from draftverify.bench.records import load_run
from draftverify.bench.records.rows import rows as rows_of
from draftverify.bench.runner.run import run
from draftverify.checks.metrics import Score
from draftverify.checks.metrics import score as verdict_of
from draftverify_llm import JudgedAnswer
from tests.llm.judged import Says, texts_of


@pytest.mark.parametrize(
    ("asks", "reply", "score"), [("yes_no", "yes", 1.0), ("yes_no", "no", 0.0), ("grade", "4", 0.75)]
)
def test_a_judge_is_a_metric_that_sees_what_is_expected(asks, reply, score):
    """From 0 to 1; what was not accepted is not right, and nobody is asked; no verdict is a problem and no score."""
    model = Says(lambda prompt: reply)
    metric = JudgedAnswer(model, expected="answer", asks=asks, rubric="Be strict.")
    metric.open()
    task = Task(id="t", input={"question": "2 + 2?"}, expected={"answer": {"is": 4}})
    metric.check_tasks([task])
    assert metric(task, Outcome(status="accepted", value={"sum": 4})).value == score
    assert dict(texts_of(model.asked[0])) == {
        "question": "2 + 2?",
        "answer": '{"sum": 4}',
        "right answer": '{"is": 4}',
    }
    assert metric(task, Outcome(status="refused")) == Score(0.0)
    assert len(model.asked) == 1
    silent = JudgedAnswer(Says(lambda prompt: "well"), expected="answer")
    assert "no verdict" in verdict_of(silent, task, Outcome(status="accepted", value="4")).problem
    with pytest.raises(ConfigError, match="what task u expects has no field 'answer'"):
        metric.check_tasks([Task(id="u", input={"question": "?"})])


PANEL = """
name: panel
parts: [parts.py]
tasks:
  use: inline
  id: id
  fields: {{question: question}}
  expected: {{answer: answer}}
  rows: [{{id: t, question: 2 + 2?, answer: 4}}]
models:
  a: {{use: llm.endpoint, base_url: "{url}", model: a, retries: 0, price_in: 1000}}
  b: {{use: llm.endpoint, base_url: "{url}", model: b, retries: 0, price_in: 1000}}
  c: {{use: llm.endpoint, base_url: "{url}", model: c, retries: 0, price_in: 1000}}
pipelines:
  one:
    generator: {{use: python, function: parts.draft}}
    verifier: {{use: regex, pattern: .*}}
    rule: {{use: first}}
metrics:
  voted:
    use: most_of
    stages: [{{use: llm.judge, model: a}}, {{use: llm.judge, model: b}}, {{use: llm.judge, model: c}}]
  graded:
    use: mean_of
    stages: [{{use: llm.judge, model: a, asks: grade}}, {{use: llm.judge, model: b, asks: grade}}]
"""


@pytest.mark.parametrize(
    ("replies", "voted", "graded", "asked"),
    [
        ({"a": ("yes", "4"), "b": ("yes", "5")}, 1.0, 0.875, "ab"),
        ({"a": ("no", "1"), "b": ("yes", "5"), "c": ("no", "")}, 0.0, 0.5, "abc"),
        ({"a": ("yes", "1"), "b": (500, 500), "c": ("yes", "")}, 1.0, None, "abc"),
        ({"a": ("yes", "1"), "b": (500, 500), "c": ("no", "")}, None, None, "abc"),
        ({"a": (500, 500), "b": (500, 500), "c": (500, 500)}, None, None, "abc"),
    ],
)
def test_a_panel_of_judges_is_a_metric(replies, voted, graded, asked, tmp_path, server):
    """By vote and by the mean of grades, from a config, at a real server; who fails has not said no."""

    def answer(request):
        reply = replies[request["model"]]["Grade" in request["messages"][0]["content"]]
        if reply == 500:
            return 500, {}, b"away"
        body = {"choices": [{"message": {"content": reply}}], "usage": {"prompt_tokens": 1000}}
        return 200, {}, json.dumps(body).encode()

    server.answer = answer
    (tmp_path / "parts.py").write_text("def draft(context, n):\n    return ['4']\n")
    (tmp_path / "e.yaml").write_text(PANEL.format(url=server.url))
    result = run(load_experiment(tmp_path / "e.yaml"), out=tmp_path / "run")
    with load_run(tmp_path / "run") as records:
        (row,) = rows_of(records)
        assert (row["metric_voted"], row["metric_graded"], row["cost"]) == (voted, graded, 0.0)
        judgements = records.store.judgements("t")["one"]
    said = [entry for entry in row["judgements"] if entry["who"].startswith("metric voted, ")]
    models = [request["model"] for request in server.requests if "Grade" not in str(request)]
    assert "".join(models) == asked
    assert len(said) == len(asked)
    assert bool(judgements["voted"].problem) == (voted is None)
    assert bool(judgements["graded"].problem) == (graded is None)
    answered = sum(reply != 500 for model in asked for reply in replies[model][:1])
    answered += sum(replies[model][1] != 500 for model in "ab")
    assert result.summary.pipelines[0].judging == pytest.approx(answered)


def test_a_run_asks_a_judge_for_many_scores_at_once(tmp_path, server):
    """As a metric behind an endpoint: side by side, each once, and not again when the run is looked at again."""
    first = server.answer

    def slowly(request):
        time.sleep(0.1)
        status, headers, body = first(request)
        return status, headers, body.replace(b"answer 0", b"yes")

    server.answer = slowly
    listed = ", ".join(f"{{id: t{place}, question: What is {place}?, answer: a}}" for place in range(16))
    (tmp_path / "parts.py").write_text("def draft(context, n):\n    return ['a']\n")
    (tmp_path / "e.yaml").write_text(f"""
name: judged
parts: [parts.py]
tasks: {{use: inline, id: id, fields: {{question: question}}, expected: {{answer: answer}}, rows: [{listed}]}}
models: {{j: {{use: llm.endpoint, base_url: "{server.url}", model: j}}}}
pipelines:
  one: {{generator: {{use: python, function: parts.draft}}, verifier: {{use: regex, pattern: a}}, rule: {{use: first}}}}
metrics: {{right: {{use: llm.judge, model: j, expected: answer}}}}
""")
    experiment = load_experiment(tmp_path / "e.yaml")
    assert run(experiment, out=tmp_path / "run").summary.pipelines[0].problem is None
    with load_run(tmp_path / "run") as records:
        assert [row["metric_right"] for row in rows_of(records)] == [1.0] * 16
    assert (len(server.requests), server.most > 3) == (16, True)
    run(experiment, out=tmp_path / "run")
    assert len(server.requests) == 16
