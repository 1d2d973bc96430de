"""Generators of solutions: whole, step by step, and refined."""

from __future__ import annotations

from typing import Any

import pytest

from draftverify import (
    Check,
    ConfigError,
    Pipeline,
    PipelineError,
    Proposal,
    SelfVerificationWarning,
    Task,
    feedback,
    give_up,
    retry,
    verifier,
)
from draftverify.checks.verifiers import check_families
from draftverify.kit import Subject, check_component, make_context
from draftverify.rules import First, LongestPrefix, Majority, Rounds
from draftverify.traits import VerifierTraits
from draftverify_llm import Completion
from draftverify_reasoning import SelfRefine, SolutionSampler, Steps

from .scripted_text import Batched, Script

TASK = Task(id="t", input={"question": "1 + 2?"})
CONTEXTS = [make_context(task) for task in (TASK, Task(id="u", input={"prompt": "two?"}))]


def accept(wanted: str) -> Any:
    """Passes solutions with this answer, and says of others what would be right."""
    return verifier(
        lambda context, item: Check(
            "pass" if item["answer"] == wanted else "reject", feedback=f"not {wanted}"
        )
    )


def numbered(prompt: Any, seed: int, i: int) -> str:
    """Answers 0, 1, 2, … to one prompt."""
    return f"Let me see.\nThe answer is {i}."


# Whole solutions


def test_solutions_are_texts_with_their_answers() -> None:
    """The question stands in the template; the answer is found, or None."""
    script = Script(lambda prompt, seed, i: ["So 1 + 2.\nThe answer is $3.00.", "No idea"][i])
    made = SolutionSampler(script, template="Q: {question}").propose(CONTEXTS[0], 2)
    assert script.prompts == ["Q: 1 + 2?"]
    assert made.items == (
        {"text": "So 1 + 2.\nThe answer is $3.00.", "answer": "3"},
        {"text": "No idea", "answer": None},
    )
    assert made.fits("alternatives")
    assert set(made.evidence) == {"logprob", "weighed", "tokens_out", "finish_reason", "tokens_in", "cached"}
    assert made.cost.amount == sum(made.evidence["tokens_out"])


def test_the_default_template_asks_for_what_is_found() -> None:
    """A model that does as told is understood."""
    script = Script(numbered)
    made = SolutionSampler(script).propose(CONTEXTS[1], 1)
    assert "The answer is" in script.prompts[0]
    assert script.prompts[0].startswith("two?")
    assert made.items[0]["answer"] == "0"


def test_a_refused_solution_is_shown_as_its_text() -> None:
    """With what was said of it as the user's turn."""
    script = Script(lambda prompt, seed, i: f"The answer is {len(prompt) if isinstance(prompt, list) else 0}")
    pipeline = Pipeline(
        SolutionSampler(script, template="{question}"), accept("3"), First(), policy=feedback(1)
    )
    assert pipeline.run(TASK).value["answer"] == "3"
    assert script.prompts[1][1:] == [
        {"role": "assistant", "content": "The answer is 0"},
        {"role": "user", "content": "not 3"},
    ]


def test_solutions_of_many_tasks_are_one_batch_and_a_vote_counts_them() -> None:
    """Two tasks, five solutions each, one call; without batches there is no `propose_many`."""
    batched = Batched(lambda prompt, seed, i: f"The answer is {max(i, 2)}")
    pipeline = Pipeline(SolutionSampler(batched), accept("2"), Majority(), block=5, done=Rounds(1))
    tasks = [TASK, Task(id="u", input={"question": "?"})]
    outcomes = pipeline.run(tasks)
    assert batched.batches == [2]
    assert [each.value["answer"] for each in outcomes] == ["2", "2"]
    assert not hasattr(SolutionSampler(Script(numbered)), "propose_many")


def test_a_task_without_a_question_is_named() -> None:
    """With what it has instead."""
    with pytest.raises(ConfigError, match="task x has no text under `question` or `prompt`; it has text"):
        SolutionSampler(Script(numbered)).propose(make_context(Task(id="x", input={"text": "a"})), 1)


@pytest.mark.parametrize(
    ("make", "path"),
    [
        (lambda model: SolutionSampler(model, template="no field"), "template"),
        (lambda model: SolutionSampler(model, max_tokens=0), "max_tokens"),
        (lambda model: SolutionSampler(model, system="s", chat=False), "system"),
        (lambda model: SolutionSampler(model, stop="Question:"), "stop"),
        (lambda model: Steps(model, chains=0), "chains"),
        (lambda model: Steps(model, separator=""), "separator"),
        (lambda model: SelfRefine(model, rounds=0), "rounds"),
    ],
)
def test_arguments_out_of_range_are_refused_when_opened(make: Any, path: str) -> None:
    """With the argument's name."""
    with pytest.raises(ConfigError) as caught:
        make(Script(numbered)).open()
    assert caught.value.path == path


def test_a_model_that_cannot_go_on_with_a_turn_is_refused() -> None:
    """It can still be asked without turns."""
    script = Script(numbered)
    script.continues_turns = False
    with pytest.raises(ConfigError, match="chat: false"):
        Steps(script).open()
    Steps(script, chat=False).open()


# Steps

WAY = ["1 + 2 = 3", "3 + 4 = 7", "7 + 1 = 8", "The answer is 8.", "Thank you."]


def going_on(prompt: Any, seed: int, i: int) -> str:
    """The rest of `WAY` after what the assistant's turn has already."""
    begun = prompt[-1]["content"] if prompt[-1]["role"] == "assistant" else ""
    return "\n\n".join(WAY[begun.count("\n") :])


def test_steps_end_with_the_answer_and_are_at_most_n() -> None:
    """A chain; empty lines are none, and nothing comes after the answer."""
    steps = Steps(Script(going_on))
    assert steps.propose(CONTEXTS[0], 9).items == tuple(WAY[:4])
    made = steps.propose(CONTEXTS[0], 2)
    assert (made.items, made.shape, made.exhausted) == (tuple(WAY[:2]), "chain", False)


def test_steps_go_on_behind_what_was_accepted() -> None:
    """The accepted steps are the beginning of the model's own turn, or of its text; a refused one is not shown."""

    def answer(prompt: Any, seed: int, i: int) -> str:
        text = going_on(prompt, seed, i)
        return text.replace("= 7", "= 9", 1) if len(script.prompts) == 1 else text

    script = Script(answer)
    right = verifier(lambda context, item: Check("reject" if "= 9" in item else "pass"))
    pipeline = Pipeline(
        Steps(script), right, LongestPrefix(), policy=retry(2), block=4,
        done=lambda context, new: len(new) if new and new[-1].startswith("The answer") else None,
    )  # fmt: skip
    outcome = pipeline.run(TASK)
    assert outcome.value == tuple(WAY[:4])
    assert len(script.prompts) == 2
    assert script.prompts[1][-1] == {"role": "assistant", "content": "1 + 2 = 3\n"}
    plain = Script(lambda prompt, seed, i: "c")
    Steps(plain, chat=False, template="{question} ").propose(make_context(TASK, accepted=("a", "b")), 3)
    assert plain.prompts == ["1 + 2? a\nb\n"]


def test_behind_an_answer_there_is_nothing() -> None:
    """Nor where the model adds nothing: the proposal is empty and exhausted."""
    script = Script(lambda prompt, seed, i: "")
    for accepted, asked in ((tuple(WAY[:4]), 0), (("a",), 1)):
        made = Steps(script).propose(make_context(TASK, accepted=accepted), 4)
        assert (made.items, made.exhausted, len(script.prompts)) == ((), True, asked)


def test_a_step_that_was_cut_off_is_left_out() -> None:
    """Unless it is the only one."""
    script = Script(lambda prompt, seed, i: "a b\nc d\ne f")
    assert Steps(script, max_tokens=6).propose(CONTEXTS[0], 9).items == ("a b", "c d")
    assert Steps(script, max_tokens=1).propose(CONTEXTS[0], 9).items == ("a",)


def test_a_stop_string_across_two_blocks_ends_the_chain() -> None:
    """As it would have ended in one go: one half stands at the end of the accepted steps, the other comes first."""
    script = Script(lambda prompt, seed, i: "\nQuestion: another")
    for stop, exhausted in (("\n\n", True), ("\n\nQ", True), ("\n", False), ("a\n", False)):
        made = Steps(script, stop=[stop]).propose(make_context(TASK, accepted=("a",)), 4)
        assert (made.items, made.exhausted) == ((() if exhausted else ("Question: another",)), exhausted)


def test_chains_are_a_tree_in_which_shared_steps_stand_once() -> None:
    """Depth by depth, at most n items in all."""
    ways = ["a\nb\nc", "a\nd", "e\nb", "a\nb\nf"]
    steps = Steps(Script(lambda prompt, seed, i: ways[i]), chains=4)
    made = steps.propose(CONTEXTS[0], 20)
    assert made.items == ("a", "e", "b", "d", "b", "c", "f")
    assert made.parents == (-1, -1, 0, 0, 1, 2, 2)
    assert [[made.items[i] for i in made.path(leaf)] for leaf in (5, 6)] == [["a", "b", "c"], ["a", "b", "f"]]
    assert steps.propose(CONTEXTS[0], 4).items == ("a", "e", "b", "d")
    assert steps.propose(CONTEXTS[0], 1).items == ("a",)


def test_a_character_that_a_block_cuts_is_written_again() -> None:
    """Tokens of a byte can end inside of it; the replacement character would stand in the steps for good."""
    cut = Completion("2 \ufffd", 1, 1, "length")
    script = Script(numbered)
    script.complete = lambda prompt, **how: [cut]  # type: ignore[method-assign]
    assert Steps(script).propose(CONTEXTS[0], 3).items == ("2",)


# Refining


def test_without_outside_feedback_it_is_refused() -> None:
    """When the pipeline is built with no feedback clause; when it is looked at, with a verifier of the same family."""
    script = Script(numbered)
    judge: Any = accept("1")
    for policy in (None, retry(2).then(give_up()), feedback(2, on=("exhausted",))):
        with pytest.raises(PipelineError, match="the policy has no feedback clause"):
            Pipeline(SelfRefine(script), judge, First(), policy=policy)
    Pipeline(SelfRefine(script), judge, First(), policy=feedback(2))

    class Own:
        traits = VerifierTraits(families={"script"})

        def verify(self, context: Any, proposal: Proposal) -> Any: ...

    with pytest.raises(PipelineError, match="own family, script"):
        check_families(Pipeline(SelfRefine(script), Own(), First(), policy=feedback(2)))
    spoken = SelfRefine(script, without_outside_feedback="it may make answers worse")
    with pytest.warns(SelfVerificationWarning):
        check_families(Pipeline(spoken, Own(), First()))
    # A verifier that has the family's word beside an outside check is one.
    Own.traits = VerifierTraits(families={"script"}, outside=True)
    check_families(Pipeline(SelfRefine(script), Own(), First(), policy=feedback(2)))


def test_the_verifiers_words_are_put_into_the_next_prompt() -> None:
    """With the refused solution; each item answers one of the refused."""
    script = Script(lambda prompt, seed, i: f"The answer is {len(prompt) - 1}")
    outcome = Pipeline(
        SelfRefine(script, template="{question}"), accept("2"), First(), policy=feedback(1), block=2
    ).run(TASK)
    assert outcome.value == {"text": "The answer is 2", "answer": "2"}
    refined = script.prompts[-1]
    assert [turn["role"] for turn in refined] == ["user", "assistant", "user", "assistant"]
    assert refined[1]["content"] == "The answer is 0"
    assert "not 2" in refined[2]["content"]
    assert refined[2]["content"].endswith("1 + 2?")


@pytest.mark.parametrize("kind", [Script, Batched])
def test_alone_it_reviews_and_improves(kind: Any) -> None:
    """So many rounds of two turns; the drafts on the way are kept; items have seeds of their own."""
    script = kind(lambda prompt, seed, i: f"The answer is {len(prompt)} {seed}")
    alone = SelfRefine(script, without_outside_feedback="it may make answers worse", rounds=2)
    made = alone.propose(CONTEXTS[0], 2)
    first, second = made.items
    assert [text.split()[3] for text in (*first["drafts"], first["text"])] == ["1", "5", "9"]
    assert len({how["seed"] for how in script.how}) == len(script.how) == 10
    assert first["text"] != second["text"]
    assert made.evidence["tokens_out"] == (25, 25)


# All of them


@pytest.mark.parametrize("model", [Script(numbered), Batched(numbered)], ids=["single", "batched"])
@pytest.mark.parametrize(
    "make",
    [
        SolutionSampler,
        Steps,
        lambda model: Steps(model, chains=3),
        lambda model: SelfRefine(model, "it may make answers worse"),
    ],
    ids=["sample", "steps", "tree", "self_refine"],
)
def test_they_conform(make: Any, model: Any) -> None:
    """Every check of the conformance kit that applies to a generator."""
    check_component(Subject(make(model), trials=30, contexts=CONTEXTS))
