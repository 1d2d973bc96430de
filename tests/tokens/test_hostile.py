"""A drafter that is always wrong, then right, before a real model: drafting stops within its bound, and comes back."""

from __future__ import annotations

from typing import Any

from draftverify import Pipeline, Task, Verification
from draftverify.rules import Speculative
from draftverify_tokens import NoDraft, Stop, Target
from tests.hostile import Drafts, must_stop_and_come_back, priced
from tests.tokens.tiny import tiny_model


class Priced(Target):
    """A target whose passes have a declared cost, and no other that could be timed."""

    def pass_seconds(self) -> dict[int, float]:
        return {}

    def verify_many(self, contexts: Any, proposals: Any) -> list[Verification]:
        return list(map(priced, super().verify_many(contexts, proposals), proposals))


def test_a_drafter_that_is_always_wrong_is_stopped_and_comes_back_when_the_traffic_turns():
    """Through the adapter as it is; the answers are the model's own."""
    target = Priced(tiny_model(24, seed=3, spread=0.4))

    def build(generator: Any, block: Any) -> Pipeline:
        done = Stop(40, ignore_eos=True)
        return Pipeline(generator, target, Speculative(), block=block, done=done, settings={"temperature": 0})

    tasks = [Task(id=str(i), input={"prompt_ids": [7, i, 7, 8]}) for i in range(3)]
    answers = {task.id: build(NoDraft(), 0).run(task).value for task in tasks}
    drafts = Drafts(answers, spoil=lambda token: (token + 1) % 24)
    turned = [Task(id=f"{task.id}+", input=task.input) for task in tasks]
    must_stop_and_come_back(lambda block: build(drafts, block), tasks, turned)
