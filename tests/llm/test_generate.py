"""`llm.sample`: completions as alternatives, seeded by the round's draws, with feedback as turns."""

from __future__ import annotations

from typing import Any

import pytest

from draftverify import (
    Check,
    ConfigError,
    Context,
    Decision,
    Pipeline,
    Proposal,
    Refusal,
    ResourceError,
    Task,
    Verification,
    feedback,
    give_up,
    retry,
)
from draftverify.kit import check_component
from draftverify.rules import Best
from draftverify.traits import VerifierTraits
from draftverify_llm import Completion, Endpoint, Likelihood, LlamaCpp, LocalModel, Sample
from draftverify_llm.text import Prompt


class Echo:
    """A text model that answers with its seed and remembers what it was asked."""

    deterministic = True

    def __init__(self) -> None:
        self.asked: list[tuple[Prompt, dict[str, Any]]] = []

    def complete(self, prompt: Prompt, **settings: Any) -> list[Completion]:
        self.asked.append((prompt, settings))
        return [
            Completion(f"{settings['seed']}.{i}", 5 if i == 0 else 0, 2, "stop", -1.0)
            for i in range(settings["n"])
        ]

    async def acomplete(self, prompt: Prompt, **settings: Any) -> list[Completion]:
        return self.complete(prompt, **settings)

    def price(self, completions: Any) -> float:
        return 0.25 * len(completions)


class Refuse:
    """Refuses everything in the first `times` rounds, with feedback; keeps one answer after that."""

    traits = (VerifierTraits(reads=frozenset()),)

    def __init__(self, times: int) -> None:
        self.times = times

    def verify(self, context: Context, proposal: Proposal) -> Verification:
        wanted = context.round >= self.times
        check = (
            Check("pass")
            if wanted
            else Check("reject", reason="wrong", feedback=f"not in round {context.round}")
        )
        return Verification(checks=(check,) * len(proposal.items))

    def decide(self, context: Context, proposal: Proposal, verification: Verification, rng: Any) -> Decision:
        if verification.checks[0].verdict == "pass":
            return Decision(kept=(0,), done=True)
        return Decision(refused=tuple(Refusal(i, "wrong") for i in range(len(proposal.items))))


def run(sample: Sample, input: dict[str, Any], *, refusals: int = 0, **how: Any) -> Any:
    judge = Refuse(refusals)
    return Pipeline(sample, judge, judge, block=2, **how).record(Task(id="t", input=input))


def test_answers_are_alternatives_with_evidence_and_price() -> None:
    """n answers, none on another; the price is the model's."""
    echo = Echo()
    record = run(Sample(echo, max_tokens=9, temperature=0.3, top_p=0.9, stop=("x",)), {"prompt": "hi"})
    (asked,) = echo.asked
    assert asked[0] == "hi"
    assert {key: asked[1][key] for key in ("n", "max_tokens", "temperature", "top_p", "stop", "chat")} == {
        "n": 2, "max_tokens": 9, "temperature": 0.3, "top_p": 0.9, "stop": ("x",), "chat": True,
    }  # fmt: skip
    assert record.rounds[0].parents == (-1, -1)
    assert record.rounds[0].law == "given"
    assert record.outcome.cost == 0.5


def test_the_seed_is_the_round_s_own() -> None:
    """The same run seed gives the same answers, another seed and another round give others."""
    seeds = []
    for seed in (1, 1, 2):
        echo = Echo()
        run(Sample(echo), {"prompt": "hi"}, refusals=1, policy=retry(1).then(give_up()), seed=seed)
        seeds.append([settings["seed"] for _, settings in echo.asked])
    assert seeds[0] == seeds[1]
    assert len({*seeds[0], *seeds[2]}) == 4


def test_feedback_follows_as_turns() -> None:
    """The last refused answer and what was said of it come after the prompt."""
    echo = Echo()
    record = run(Sample(echo), {"prompt": "hi"}, refusals=1, policy=feedback(1).then(give_up()))
    prompt = echo.asked[1][0]
    assert prompt == [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": record.rounds[0].items[-1]},
        {"role": "user", "content": "not in round 0"},
    ]


@pytest.mark.parametrize(
    ("words", "turn"),
    [("{reason}: {feedback}. Again.", "wrong: not in round 0. Again."), ("Answer again.", "Answer again.")],
)
def test_feedback_may_be_put_in_words_of_ones_own(words: str, turn: str) -> None:
    """With what was said of the answer, or without; a field that it has not is an error of this argument."""
    echo = Echo()
    sample = Sample(echo, feedback=words)
    sample.open()
    run(sample, {"prompt": "hi"}, refusals=1, policy=feedback(1).then(give_up()))
    assert echo.asked[1][0][-1] == {"role": "user", "content": turn}
    for wrong in ("{why}", "{reason", "{reason!r}"):
        with pytest.raises(ConfigError) as caught:
            Sample(echo, feedback=wrong).open()
        assert caught.value.path == "feedback"


def test_a_retry_without_feedback_asks_the_plain_prompt() -> None:
    """Turns pass through as they are, and `regenerate` adds none."""
    echo = Echo()
    turns = [{"role": "system", "content": "s"}, {"role": "user", "content": "u"}]
    run(Sample(echo), {"messages": turns}, refusals=1, policy=retry(1).then(give_up()))
    assert [prompt for prompt, _ in echo.asked] == [turns, turns]


def test_plain_text_has_no_turns_for_feedback() -> None:
    """`chat: false` reaches the model; with feedback it cannot be obeyed, and that is said."""
    echo = Echo()
    run(Sample(echo), {"prompt": "def f", "chat": False})
    assert echo.asked[0][1]["chat"] is False
    record = run(Sample(echo), {"prompt": "x", "chat": False}, refusals=1, policy=feedback(1).then(give_up()))
    assert record.outcome.status == "failed"
    assert "use regenerate" in record.outcome.reason


def test_it_says_whether_it_can_be_repeated() -> None:
    """The model's word decides."""
    echo = Echo()
    assert Sample(echo).traits.deterministic is True
    echo.deterministic = False
    assert Sample(echo).traits.deterministic is False


def test_a_template_takes_the_tasks_fields() -> None:
    """A system prompt stands as it is, braces of its own too; what is no text is put in as JSON."""
    echo = Echo()
    sample = Sample(echo, system='Answer as {"total": 1}.', template="{{as JSON}} {text}\nLines: {lines}")
    run(sample, {"text": "a {bill}", "lines": ["ä", 2], "answer": "unseen"}, refusals=1, policy=feedback(1))
    first, second = (prompt for prompt, _ in echo.asked)
    assert first == [
        {"role": "system", "content": 'Answer as {"total": 1}.'},
        {"role": "user", "content": '{as JSON} a {bill}\nLines: ["ä", 2]'},
    ]
    assert second[:2] == first
    assert [turn["role"] for turn in second[2:]] == ["assistant", "user"]
    run(Sample(echo, template="Say {word}"), {"word": "hi"})
    assert echo.asked[-1][0] == "Say hi"


def test_a_system_prompt_stands_before_a_tasks_own_turns() -> None:
    """A model without turns cannot be given one, and that is said."""
    echo = Echo()
    turns = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
    run(Sample(echo, system="Be brief."), {"messages": turns})
    assert echo.asked[0][0] == [{"role": "system", "content": "Be brief."}, *turns]
    record = run(Sample(echo, system="Be brief."), {"prompt": "def f", "chat": False})
    assert "task t says `chat: false`, so a system prompt cannot be a turn" in record.outcome.reason


def test_a_field_that_a_task_lacks_is_named() -> None:
    """With the task; no other task fails for it."""
    judge = Refuse(0)
    pipeline = Pipeline(Sample(Echo(), template="{text} {lines}"), judge, judge)
    tasks = [
        Task(id="whole", input={"text": "a", "lines": 3}),
        Task(id="half", input={"text": "a", "chat": True}),
    ]
    whole, half = pipeline.run(tasks)
    assert whole.status == "accepted"
    assert half.status == "failed"
    assert "task half has no field 'lines', which the template names; there are text, chat" in half.reason


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("Extract the total.", "it names no field of the task"),
        ("{text", "expected '}' before end of string; a brace of its own is doubled"),
        ("{text.__class__}", "{text.__class__} is no field's name"),
        ("{text!r}", "is no field's name"),
        ("{0}", "is no field's name"),
        ('{"total": 1} {text}', "is no field's name; a brace of its own is doubled: {{ and }}"),
    ],
)
def test_a_template_that_cannot_be_filled_is_refused_when_opened(template: str, message: str) -> None:
    """Before the first task, with the argument's name."""
    with pytest.raises(ConfigError) as caught:
        Sample(Echo(), template=template).open()
    assert caught.value.path == "template"
    assert message in caught.value.message


@pytest.mark.parametrize(
    ("model", "error", "message"),
    [
        (LocalModel("smollm2"), ResourceError, "Did you mean 'smollm2-135m-instruct'"),
        (LlamaCpp("nosuch.gguf"), ResourceError, "no such file is there"),
        (LlamaCpp("nosuch.gguf", parallel=0), ConfigError, "parallel is 0; at least 1"),
        (LlamaCpp("nosuch.gguf", threads=-1), ConfigError, "threads is -1; at least 1"),
        (Endpoint("localhost", "large"), ConfigError, "base_url: must be an http"),
        (
            Endpoint("http://localhost/v1/chat/completions", "large"),
            ConfigError,
            "leave /chat/completions out",
        ),
    ],
    ids=lambda given: type(given).__name__,
)
def test_a_model_that_cannot_be_had_is_refused_when_opened(
    model: Any, error: type[Exception], message: str
) -> None:
    """Once, and not by every task; nothing is loaded for it."""
    with pytest.raises(error, match=message):
        Sample(model).open()


def test_words_around_an_answer_can_be_left_out() -> None:
    """The item is the first part that matches, the whole answer where none does; so it is what feedback shows."""

    class Chatty(Echo):
        def complete(self, prompt: Prompt, **settings: Any) -> list[Completion]:
            self.asked.append((prompt, settings))
            texts = ['JSON:\n```\n{"a":\n 1}\n``` and {"b": 2}', "I cannot say."]
            return [Completion(text, 1, 1, "stop") for text in texts]

    chatty = Chatty()
    record = run(Sample(chatty, take=r"(?s)\{.*?\}"), {"prompt": "hi"}, refusals=1, policy=feedback(1))
    assert record.rounds[0].items == ('{"a":\n 1}', "I cannot say.")
    assert chatty.asked[1][0][1] == {"role": "assistant", "content": "I cannot say."}
    with pytest.raises(ConfigError, match=r"take: '\(a' is no regular expression"):
        Sample(chatty, take="(a").open()


def test_temperature_and_top_p_are_the_pipelines_settings() -> None:
    """Unless the part has its own, which is then what counts."""

    def asked(sample: Sample, **how: Any) -> tuple[float, float]:
        run(sample, {"prompt": "hi"}, **how)
        settings = sample.model.asked[-1][1]
        return settings["temperature"], settings["top_p"]

    assert asked(Sample(Echo())) == (0.8, 1.0)
    assert asked(Sample(Echo()), settings={"temperature": 0, "top_p": 0.5}) == (0.0, 0.5)
    assert asked(Sample(Echo(), temperature=1.5), settings={"top_p": 0.5}) == (1.5, 0.5)
    with pytest.raises(ConfigError, match=r"settings\.temperature: no part of this pipeline reads"):
        asked(Sample(Echo(), temperature=1.5), settings={"temperature": 0.2})
    with pytest.raises(ConfigError, match=r"settings\.seed: no part"):
        asked(Sample(Echo()), settings={"seed": 3})


@pytest.mark.parametrize("value", [-0.1, "1", True, None, float("nan"), float("inf")])
def test_a_setting_out_of_its_range_is_refused_when_built(value: Any) -> None:
    """With its name, whether it is the pipeline's or the part's own."""
    with pytest.raises(ConfigError, match=r"settings\.temperature: temperature must be a number >= 0"):
        run(Sample(Echo()), {"prompt": "hi"}, settings={"temperature": value})
    with pytest.raises(ConfigError, match=r"settings\.top_p: top_p must be a number in \(0, 1\]"):
        run(Sample(Echo()), {"prompt": "hi"}, settings={"top_p": value})
    if value is not None:
        with pytest.raises(ConfigError, match="temperature must be"):
            Sample(Echo(), temperature=value).open()


def test_it_samples_from_a_torch_model(tiny: LocalModel) -> None:
    """With a real module behind it the same run gives the same texts."""
    first = run(Sample(tiny, max_tokens=6), {"prompt": "hi"})
    again = run(Sample(tiny, max_tokens=6), {"prompt": "hi"})
    assert first.rounds[0].items == again.rounds[0].items
    assert all(isinstance(item, str) for item in first.rounds[0].items)


def test_tasks_of_a_run_are_sampled_in_one_batch(tiny: LocalModel) -> None:
    """The answers are those of single calls, those with other settings or no chat in a batch of their own."""
    sample, judge = Sample(tiny, max_tokens=8), Refuse(0)
    inputs = [{"prompt": "a"}, {"prompt": "bcd", "chat": False}, {"prompt": "ef" * 9}, {"prompt": "g"}]
    tasks = [Task(id=str(i), input=input) for i, input in enumerate(inputs)]
    pipeline = Pipeline(sample, judge, judge, block=3)
    asked: list[int] = []
    many = tiny.complete_many
    tiny.complete_many = lambda prompts, **how: asked.append(len(prompts)) or many(prompts, **how)
    try:
        together = pipeline.run(tasks)
    finally:
        del tiny.complete_many
    assert sorted(asked) == [1, 3]
    assert [each.value for each in together] == [pipeline.run(task).value for task in tasks]


def test_a_task_of_a_batch_that_is_too_long_fails_alone(tiny: LocalModel) -> None:
    """The call for all is made again one by one, and the others have their answers."""
    pipeline = Pipeline(Sample(tiny, max_tokens=4), Likelihood(), Best(), block=2)
    records = pipeline.record(["a", "x" * 600, "b"], size=3)
    assert [record.outcome.status for record in records] == ["accepted", "failed", "accepted"]
    assert "the model takes 512 at most" in records[1].outcome.reason


def test_a_model_of_one_prompt_at_a_time_makes_no_batch(tiny: LocalModel) -> None:
    """The engine finds `propose_many` only where the model has `complete_many`."""
    assert not hasattr(Sample(Echo()), "propose_many")
    assert hasattr(Sample(tiny), "propose_many")


def test_it_conforms(tiny: LocalModel) -> None:
    """Every check of the conformance kit that applies to a generator."""
    check_component(Sample(tiny, max_tokens=2), trials=30)
