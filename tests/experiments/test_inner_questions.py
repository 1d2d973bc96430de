"""Questions of inner tasks: an answer goes to the one that asked, whichever asks first when the task is taken up."""

from __future__ import annotations

import msgspec

from draftverify import Answer, Pipeline, Task, escalate, generator, retry, verifier
from draftverify.bench.runner.bench import Bench, Unit
from draftverify.rules import All, First


def test_an_answer_goes_to_the_inner_task_that_asked() -> None:
    """The second inner task asks a round before the first one does; taken up, both ask at once."""

    def late(context, item):
        return None if context.task.id.endswith(".0") and context.round == 0 else False

    inner = Pipeline(
        generator(lambda context, n: [context.task.id]),
        verifier(late),
        First(),
        policy=retry(on=["abstain"]).then(escalate()),
    )
    bench = Bench({"only": Pipeline(inner, verifier(lambda context, item: True), All(), block=2)})
    unit = Unit(pipeline="only", task=Task(id="t"))
    first = bench.perform(unit)
    assert first.question is not None
    assert (first.question.asking, first.question.candidate.value) == ("t/0.1", "t/0.1")  # type: ignore[union-attr]

    def taken_up(question, answer):
        more = {"inner": question.inner, "asking": question.asking, "answer": answer}
        return bench.perform(msgspec.structs.replace(unit, **more))

    second = taken_up(first.question, Answer("reject"))
    assert second.question is not None
    assert second.question.asking == "t/0.0"
    assert taken_up(second.question, Answer("accept")).record.outcome.value == ("t/0.0",)
