"""Tasks that a part cannot read are told before any is paid for, by the part that reads them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from draftverify import ConfigError, Pipeline, Task, generator
from draftverify.bench import evaluate
from draftverify.checks.verifiers import AllOf, AnyOf, Exact, Regex
from draftverify.rules import First
from draftverify_code import Compile, SamplePrograms
from draftverify_llm import Endpoint, Judge, LocalModel, Sample
from draftverify_reasoning import SolutionSampler
from draftverify_retrieval import Corpus, LexicalReader, QuoteReader, TextReader
from draftverify_tokens import Target

UNASKED: Any = Endpoint("http://127.0.0.1:9/v1", "m")  # nobody answers there, and nobody is asked
UNLOADED = LocalModel("no-such-model")


@pytest.mark.parametrize(
    ("part", "input", "message"),
    [
        (Exact("sum"), {"text": "x"}, r"field: task t has no field 'sum' to compare with; there are text"),
        (AllOf([Regex("x"), Exact("sum")]), {}, "task t has no field 'sum' to compare with; there are none"),
        (Sample(UNASKED), {"text": "x"}, "task t, for a text model, needs `prompt`.* this one has text"),
        (Sample(UNASKED), {"prompt": None}, r"this one has prompt \(null\)"),
        (Sample(UNASKED, template="{a} {b}"), {"a": "x"}, "template: task t has no field 'b'"),
        (Target(UNLOADED), {"text": "x"}, "task t, for a language model, needs `prompt`"),
        (Judge(UNASKED), {"text": "x"}, "task t has no text under `question` or `prompt`; it has text"),
        (Judge(UNASKED, reference="gold"), {"question": "x"}, "has no field 'gold'; there is question"),
        (LexicalReader(Corpus(Path("none"))), {"text": "x"}, "task t has no text under `question`"),
        (QuoteReader(UNASKED), {}, "it has nothing"),
        (TextReader(UNASKED), {"question": None}, "no text under `question`"),
        (SolutionSampler(UNASKED), {"text": "x"}, "no text under `question`"),
        (SamplePrograms(UNASKED), {"text": "x"}, "code.sample needs `prompt`"),
        (Compile("c"), {"language": "Rust"}, "compiles c, and task t is in Rust; name that here"),
    ],
)
def test_a_part_names_the_task_and_what_it_lacks(part: Any, input: dict[str, Any], message: str) -> None:
    """Without a model, a server or a file; in a pipeline, and through `evaluate`, with its place."""
    task = Task(id="t", input=input)
    with pytest.raises(ConfigError, match=message):
        part.check_tasks(
            [Task(id="t", input={"prompt": "x", "question": "x", "sum": 1, "a": 1, "b": 1, "gold": 1}), task]
        )


def test_what_is_no_task_is_told() -> None:
    """With its place; `Pipeline.run` makes a task of a text, and an evaluation needs ids."""
    pipeline = Pipeline(generator(lambda context, n: ["x"]), Regex("x"), First())
    with pytest.raises(ConfigError, match=r"tasks: \[1\] is 'a text' \(str\); a Task is needed"):
        evaluate({"p": pipeline}, [Task(id="t"), "a text"])  # type: ignore[list-item]


@pytest.mark.parametrize(
    ("part", "input"),
    [
        (Sample(UNASKED), {"messages": [{"role": "user", "content": "x"}]}),
        (Target(UNLOADED), {"prompt_ids": [1]}),
        (Compile("c++"), {"language": "cpp"}),
        (Compile(), {}),
        (AnyOf([Exact("sum"), Exact("total")]), {"total": 1}),
    ],
)
def test_what_a_part_can_read_passes(part: Any, input: dict[str, Any]) -> None:
    """Turns, token ids, another name of the language, none; what one of several stages can judge."""
    part.check_tasks([Task(id="t", input=input)])


def test_a_program_drafts_nothing_for_tasks_that_cannot_be_checked() -> None:
    """The first is readable; what the second lacks is told with the pipeline and the part, inner pipelines' too."""
    drafted = []
    numbers = generator(lambda context, n: drafted.append(1) or ["1"])
    pipeline = Pipeline(numbers, Exact("sum"), First())
    tasks = [Task(id="a", input={"sum": "1"}), Task(id="b", input={"total": "1"})]
    for name, each in (
        ("verifier", pipeline),
        (r"generator\.verifier", Pipeline(pipeline, Regex("1"), First())),
    ):
        with pytest.raises(ConfigError, match=rf"pipelines\.p\.{name}\.field: task b has no field 'sum'"):
            evaluate({"p": each}, tasks)
    assert drafted == []
