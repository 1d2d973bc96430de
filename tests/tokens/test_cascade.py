"""The sequential cascade: sure answers are the small model's, the others the large one's."""

from __future__ import annotations

import math

import pytest
import torch

from draftverify import ConfigError, Pipeline, Proposal, Task, fallback
from draftverify.kit import check_component, make_context
from draftverify.rules import First, Speculative
from draftverify_llm import LocalModel
from draftverify_tokens import Confidence, NoDraft, Stop, Target, WholeAnswer
from tests.tokens.tiny import byte_tokenizer, context_of, rows, tiny_llama, tiny_model

SMALL = tiny_model(24, seed=3, spread=0.4, layers=1)
LARGE = tiny_model(24, seed=3, spread=0.4)
STOP = Stop(12)
TASKS = [Task(id=str(i), input={"prompt_ids": [i, 2 * i % 23, 7]}) for i in range(12)]


def cascade(threshold: float, settings: dict) -> Pipeline:
    policy = fallback(WholeAnswer(LARGE, STOP), verified=False)
    return Pipeline(
        WholeAnswer(SMALL, STOP),
        Confidence(SMALL, threshold),
        First(),
        policy=policy,
        block=1,
        settings=settings,
    )


def plain(model, settings: dict) -> list[tuple[int, ...]]:
    pipeline = Pipeline(NoDraft(), Target(model), Speculative(), block=0, done=STOP, settings=settings)
    return [tuple(pipeline.run(task).value) for task in TASKS]


def confidence(answer: tuple[int, ...], prompt: list[int]) -> float:
    """The oracle: mean log-probability of the answer under the small model, without a cache."""
    logits = rows(SMALL, [*prompt, *answer], len(answer) + 1)[:-1]
    logs = torch.log_softmax(logits.double(), dim=-1)
    return float(logs[torch.arange(len(answer)), torch.tensor(answer)].mean())


def test_sure_answers_are_the_small_models_and_the_others_the_large_ones():
    """At a threshold in the middle some are deferred, exactly those whose mean log-probability lies under it."""
    quiet = {"temperature": 0}
    small, large = plain(SMALL, quiet), plain(LARGE, quiet)
    scores = [confidence(answer, task.input["prompt_ids"]) for answer, task in zip(small, TASKS, strict=True)]
    threshold = sorted(scores)[len(scores) // 2] - 1e-6
    got = [cascade(threshold, quiet).run(task) for task in TASKS]
    expected = [a if s >= threshold else b for a, b, s in zip(small, large, scores, strict=True)]
    assert [tuple(outcome.value) for outcome in got] == expected
    assert 0 < sum(outcome.rounds == 2 for outcome in got) < len(TASKS)


def test_nothing_and_everything_can_be_deferred():
    """-inf keeps every answer of the small model, 0 none that is not certain."""
    quiet = {"temperature": 0}
    kept, deferred = (
        [tuple(cascade(threshold, quiet).run(task).value) for task in TASKS] for threshold in (-math.inf, 0.0)
    )
    assert kept == plain(SMALL, quiet)
    assert deferred == plain(LARGE, quiet)


def test_an_answer_may_fill_the_models_positions():
    """Its last token is read by nobody, so it may be one more than the model has positions for."""
    short = tiny_model(24, seed=3, spread=0.4, positions=8)
    stop = Stop(6, ignore_eos=True)
    outcome = Pipeline(
        WholeAnswer(short, stop), Confidence(short, -math.inf), First(), settings={"temperature": 0}
    ).run(TASKS[1])
    assert outcome.status == "accepted", outcome
    assert len(TASKS[1].input["prompt_ids"]) + len(outcome.value) == 9


def test_sampled_answers_of_one_block_differ():
    """Several answers asked for at once are drawn apart, and the same ones when asked again."""
    context = context_of(SMALL, [1, 2, 3], settings={"temperature": 1.5})
    first = WholeAnswer(SMALL, STOP).propose(context, 4)
    assert len(set(first.items)) > 1
    assert WholeAnswer(SMALL, STOP).propose(context, 4).items == first.items


def test_the_conformance_kit_finds_nothing():
    """In the confidence check, for answers of any length."""
    contexts = [context_of(SMALL, [4, 5, 6])]
    proposals = [Proposal.alternatives(items) for items in ([], [(1, 2)], [(3,), (1, 2, 3), (3, 3)])]
    check_component(Confidence(SMALL, -2.0), contexts=contexts, proposals=proposals, tolerance=1e-4)


@pytest.mark.parametrize("threshold", [0.1, math.nan])
def test_a_threshold_that_is_no_log_probability_is_refused(threshold):
    """Above 0 nothing would ever pass; the error says what the unit is."""
    with pytest.raises(ConfigError, match="mean log-probability, at most 0"):
        Confidence(SMALL, threshold)


def test_an_answer_without_tokens_abstains():
    """Nothing can be said of nothing."""
    context = make_context(Target(SMALL).prepare(Task(id="a", input={"prompt_ids": [1]})))
    assert Confidence(SMALL, -1.0).verify(context, Proposal.alternatives([()])).checks[0].verdict == "abstain"


@pytest.mark.parametrize(("threshold", "verdict"), [(-1.0, "reject"), (-math.inf, "pass")])
def test_an_answer_that_the_settings_forbid_is_not_sure(threshold, verdict):
    """Its score would be -inf, which is no score that a record could hold: the verdict stands without one."""
    context = context_of(SMALL, [1, 2], settings={"top_k": 1})
    answer = int(rows(SMALL, [1, 2], 1)[0].argmin())
    verification = Confidence(SMALL, threshold).verify(context, Proposal.alternatives([(answer, 3)]))
    assert [(check.verdict, check.score) for check in verification.checks] == [(verdict, None)]


def test_half_precision_is_not_called_deterministic():
    """As of the target, whichever answer stands last."""
    half = LocalModel.from_module(tiny_llama(24).bfloat16(), byte_tokenizer())
    confidence = Confidence(half, -1.0)
    verification = confidence.verify(context_of(half, [1, 2]), Proposal.alternatives([(3, 4), ()]))
    assert not confidence.traits.deterministic
    assert not verification.deterministic
