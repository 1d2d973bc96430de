"""`code.sample`: what a model is asked, what its answers become, and how a refusal comes back to it."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from draftverify import (
    Check,
    ConfigError,
    Context,
    Decision,
    Feedback,
    Pipeline,
    Proposal,
    Refusal,
    Round,
    Task,
    Verification,
    feedback,
    give_up,
    retry,
)
from draftverify.kit import Subject, check_component, make_context
from draftverify_code.generators.sample import SamplePrograms, commented
from draftverify_code.tasks import HumanEval
from draftverify_llm import Completion

ADD = 'from typing import List\n\n\ndef add(xs: List[int]) -> int:\n    """ The sum. """\n'
COMPLETE = Task(id="t", input={"prompt": ADD, "form": "completion", "entry_point": "add", "test": "SECRET"})
WORDS = Task(id="t", input={"prompt": "Add up a list.\n", "entry_point": "add", "test_list": ["SECRET"]})


class Scripted:
    """A text model that answers with these texts in turn, and remembers what it was asked."""

    deterministic = True

    def __init__(self, *texts: str) -> None:
        self.texts = texts
        self.asked: list[tuple[Any, dict[str, Any]]] = []

    def complete(self, prompt: Any, **settings: Any) -> list[Completion]:
        self.asked.append((prompt, settings))
        texts = [self.texts[i % len(self.texts)] for i in range(settings["n"])]
        return [Completion(text, 5 if i == 0 else 0, 2, "stop", -1.0) for i, text in enumerate(texts)]

    async def acomplete(self, prompt: Any, **settings: Any) -> list[Completion]:
        return self.complete(prompt, **settings)

    def price(self, completions: Any) -> float:
        return 0.25 * len(completions)


def asked(sample: SamplePrograms, task: Task, *refused: Feedback, checks: Sequence[Check] = ()) -> Any:
    """What the model is asked in a round after these refusals."""
    items = tuple(each.item for each in refused)
    rounds = [Round(index=0, items=items, checks=tuple(checks))] if refused else 0
    sample.propose(make_context(task, feedback=refused, rounds=rounds), 1)
    return sample.model.asked[-1][0]  # type: ignore[attr-defined]


def test_a_chat_model_is_asked_for_the_whole_function() -> None:
    """One user turn with the code in a fence; hidden tests are not in it; no stop strings."""
    model = Scripted("")
    (turn,) = asked(SamplePrograms(model), COMPLETE)
    assert turn["role"] == "user"
    assert f"```python\n{ADD.rstrip()}\n```" in turn["content"]
    assert "SECRET" not in turn["content"]
    assert model.asked[0][1]["stop"] == ()


def test_a_task_in_words_is_put_in_words() -> None:
    """The prompt as it stands, then what form the answer should have."""
    (turn,) = asked(SamplePrograms(Scripted("")), WORDS)
    assert turn["content"].startswith("Add up a list.\n\nAnswer with the whole python program")
    assert "SECRET" not in turn["content"]


def test_programs_are_taken_out_of_a_chat_model_s_answers() -> None:
    """A fenced function, one that lacks the prompt's import, and a body: each is a whole program."""
    model = Scripted(
        "Sure.\n```python\ndef add(xs):\n    return sum(xs)\n```\nEnjoy!",
        "```\ndef add(xs: List[int]) -> int:\n    return 2\n```",
        "    return 3",
    )
    made = SamplePrograms(model).propose(make_context(COMPLETE), 3)
    assert made.items[0] == "def add(xs):\n    return sum(xs)"
    assert made.items[1].startswith("from typing import List\n")
    assert made.items[2] == ADD + "    return 3"
    assert made.shape == "alternatives"


def test_a_model_without_chat_continues_the_code() -> None:
    """The prompt goes to it as it stands; the program is prompt and answer up to a stop string."""
    model = Scripted("    return 1\n\n\ndef other():\n    pass", "    return 2\n")
    made = SamplePrograms(model, chat=False).propose(make_context(COMPLETE), 2)
    assert made.items == (ADD + "    return 1\n\n", ADD + "    return 2\n")
    prompt, settings = model.asked[0]
    assert prompt == ADD
    assert settings["chat"] is False
    assert "\ndef " in settings["stop"]


def test_a_model_without_chat_reads_words_as_a_docstring() -> None:
    """What it writes below is the program, helpers included, up to its own examples."""
    model = Scripted("def half(x):\n    return x\n\ndef add(xs):\n    return half(xs)\n\nprint(add([1]))")
    made = SamplePrograms(model, chat=False).propose(make_context(WORDS), 1)
    assert model.asked[0][0] == '"""\nAdd up a list.\n"""\n'
    assert made.items == ("def half(x):\n    return x\n\ndef add(xs):\n    return half(xs)\n",)


def test_stop_strings_can_be_given() -> None:
    """For chat too; they cut what the backend did not."""
    model = Scripted("    return 1 # no\n    return 2")
    made = SamplePrograms(model, chat=False, stop=["#"]).propose(make_context(COMPLETE), 1)
    assert made.items == (ADD + "    return 1 ",)
    SamplePrograms(model, stop=["END"]).propose(make_context(COMPLETE), 1)
    assert [settings["stop"] for _, settings in model.asked] == [["#"], ["END"]]


def test_settings_evidence_and_price_are_the_model_s() -> None:
    """As for `llm.sample`: sampling settings reach it, tokens come back."""
    model = Scripted("    return 1")
    sample = SamplePrograms(model, max_tokens=9, temperature=0.3, top_p=0.9)
    made = sample.propose(make_context(COMPLETE), 2)
    settings = model.asked[0][1]
    assert (settings["n"], settings["max_tokens"], settings["temperature"], settings["top_p"]) == (
        2,
        9,
        0.3,
        0.9,
    )
    assert made.evidence["tokens_out"] == (2, 2)
    assert made.evidence["tokens_in"] == 5
    assert made.cost is not None
    assert made.cost.amount == 0.5
    assert sample.propose(make_context(COMPLETE), 0).items == ()


def test_a_dear_model_gives_fewer_than_asked() -> None:
    """`at_most` bounds the block, whatever size the cheap generator's block has."""
    model = Scripted("    return 1")
    sample = SamplePrograms(model, at_most=2)
    assert [len(sample.propose(make_context(COMPLETE), n)) for n in (0, 1, 4)] == [0, 1, 2]
    assert [settings["n"] for _, settings in model.asked] == [1, 2]


class Refuse:
    """Refuses everything, with feedback that names the round."""

    def verify(self, context: Context, proposal: Proposal) -> Verification:
        check = Check("reject", 0.5, "assertion", f"add([1]) == 1, not {context.round}", "tests")
        return Verification(checks=(check,) * len(proposal))

    def decide(self, context: Context, proposal: Proposal, verification: Verification, rng: Any) -> Decision:
        return Decision(refused=tuple(Refusal(i) for i in range(len(proposal))))


def test_the_seed_is_the_round_s_own() -> None:
    """The same run asks with the same seeds; rounds and runs differ."""
    seeds = []
    for seed in (1, 1, 2):
        model = Scripted("    return 1")
        Pipeline(
            SamplePrograms(model), Refuse(), Refuse(), policy=retry(1).then(give_up()), seed=seed
        ).record(COMPLETE)
        seeds.append([settings["seed"] for _, settings in model.asked])
    assert seeds[0] == seeds[1]
    assert len({*seeds[0], *seeds[2]}) == 4


def test_a_chat_model_sees_its_attempt_and_what_was_said() -> None:
    """Through a whole pipeline: prompt, attempt as its own turn, then stage, reason and values as the user's."""
    model = Scripted("```python\ndef add(xs):\n    return 0\n```")
    Pipeline(SamplePrograms(model), Refuse(), Refuse(), policy=feedback(1).then(give_up())).record(COMPLETE)
    first, second = (prompt for prompt, _ in model.asked)
    assert [turn["role"] for turn in second] == ["user", "assistant", "user"]
    assert second[0] == first[0]
    assert second[1]["content"] == "```python\ndef add(xs):\n    return 0\n```"
    assert "(tests: assertion)" in second[2]["content"]
    assert "add([1]) == 1, not 0" in second[2]["content"]


def test_a_model_without_chat_reads_the_refusal_as_comments() -> None:
    """Above the prompt, and no part of the program."""
    model = Scripted("    return 0")
    sample = SamplePrograms(model, chat=False)
    refused = Feedback(ADD + "    return 9", "assertion", "add([]) == 0\ngot 9")
    check = Check("reject", reason="assertion", feedback=refused.feedback, stage="tests")
    prompt = asked(sample, COMPLETE, refused, checks=[check])
    above, below = prompt[: -len(ADD)], prompt[-len(ADD) :]
    assert below == ADD
    assert all(line.startswith("#") or not line for line in above.split("\n"))
    assert {"# add([]) == 0", "# got 9", "#     return 9"} <= set(above.split("\n"))
    assert "tests: assertion" in above
    again = sample.propose(make_context(COMPLETE, feedback=[refused]), 1)
    assert again.items == (ADD + "    return 0",)


def test_of_several_refusals_the_best_are_shown_best_last() -> None:
    """By score, of equals the later; the same program once; no more than `attempts`."""
    scores = {"a": 0.1, "b": 0.9, "c": None, "d": 0.9}
    refused = [Feedback(item, "assertion", f"on {item}") for item in "abcda"]
    checks = [Check("reject", scores[item], "assertion", f"on {item}", "tests") for item in "abcda"]
    for attempts, wanted in ((1, "d"), (2, "bd"), (9, "cabd")):
        turns = asked(SamplePrograms(Scripted(""), attempts=attempts), WORDS, *refused, checks=checks)
        said = [turn["content"] for turn in turns[1:]]
        assert [said[i] for i in range(0, len(said), 2)] == [f"```python\n{item}\n```" for item in wanted]
        assert all(f"on {item}" in said[2 * i + 1] for i, item in enumerate(wanted))


def test_refused_files_of_another_generator_are_left_out() -> None:
    """A mapping of paths to texts is a patch, and no attempt of a model that writes one text."""
    files = Feedback({"a.py": "x = 1"}, reason="assertion", feedback="no")
    (turn,) = asked(SamplePrograms(Scripted("")), WORDS, files)
    assert turn["role"] == "user"


@pytest.mark.parametrize(("language", "mark"), [("lua", "--"), ("julia", "#"), ("racket", ";"), ("go", "//")])
def test_comments_are_those_of_the_language(language: str, mark: str) -> None:
    """What a model reads above its prompt is in the language that it goes on in."""
    assert commented("refused\n\nwhy", language) == f"{mark} refused\n{mark}\n{mark} why\n"


def test_feedback_without_a_check_or_words_still_reads() -> None:
    """A refusal by the rule has no stage and no feedback; a mapping's text is the program."""
    turns = asked(SamplePrograms(Scripted("")), WORDS, Feedback({"text": "pass"}, "", ""))
    assert turns[1]["content"] == "```python\npass\n```"
    said, wish = turns[2]["content"].split("\n\n")
    assert said == "This program was refused (the check: refused)."
    assert wish == "Answer with the whole corrected program in one block of code."


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda model: SamplePrograms(model, temperature=-1.0), "temperature"),
        (lambda model: SamplePrograms(model, max_tokens=0), "max_tokens"),
        (lambda model: SamplePrograms(model, attempts=0), "attempts"),
        (lambda model: SamplePrograms(model, at_most=0), "at_most"),
    ],
)
def test_wrong_settings_are_found_at_open(make: Callable[[Any], SamplePrograms], message: str) -> None:
    """Before any task runs, with the name of what is wrong."""
    with pytest.raises(ConfigError, match=message):
        make(Scripted("")).open()


def test_a_task_without_a_prompt_is_told() -> None:
    """With the fields that it has."""
    with pytest.raises(ConfigError, match=r"needs `prompt`.*t has messages"):
        asked(SamplePrograms(Scripted("")), Task(id="t", input={"messages": []}))


def test_another_language_is_asked_for_by_name() -> None:
    """The fence, the wording and the comment marks follow the task's language."""
    task = Task(id="t", input={"prompt": "Print 1.", "language": "c"})
    model = Scripted("```c\nint main() { return 0; }\n```")
    assert SamplePrograms(model).propose(make_context(task), 1).items == ("int main() { return 0; }",)
    assert "whole c program" in model.asked[0][0][0]["content"]
    prompt = asked(SamplePrograms(Scripted(""), chat=False), task, Feedback("x", "compile", "no"))
    assert prompt.startswith("// This attempt was refused")


def test_a_patch_is_asked_for_as_a_diff() -> None:
    """And a refused one comes back as a patch, not as a program."""
    task = Task(id="t", input={"prompt": "Mend it.", "language": "diff"})
    patch = "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n"
    model = Scripted(f"Here:\n```diff\n{patch}```")
    assert SamplePrograms(model).propose(make_context(task), 1).items[0].strip() == patch.strip()
    first, attempt, wish = asked(SamplePrograms(model), task, Feedback(patch, "patch", "no such file"))
    assert first["content"].endswith("Answer with a unified diff in one block of code.")
    assert attempt["content"] == f"```diff\n{patch}```"
    assert wish["content"].startswith("This patch was refused (the check: patch).")
    assert wish["content"].endswith("Answer with the whole corrected patch in one block of code.")


def test_it_says_whether_it_can_be_repeated() -> None:
    """The model's word decides."""
    model = Scripted("")
    assert SamplePrograms(model).traits.deterministic is True
    model.deterministic = False
    assert SamplePrograms(model).traits.deterministic is False


def test_it_conforms() -> None:
    """Every check of the conformance kit that applies to a generator."""
    for chat in (True, False):
        check_component(
            Subject(
                SamplePrograms(Scripted("    return 1", "```\nx = 1\n```"), chat=chat),
                tasks=[COMPLETE, WORDS],
            )
        )


def test_the_empty_lines_of_a_program_stay() -> None:
    """Its line numbers count them."""
    program = "import os\n\n\n\ndef f():\n    return 1"
    task = Task(id="t", input={"prompt": "Repair it."})
    turns = asked(SamplePrograms(Scripted("")), task, Feedback(program, "syntax", "line 5"))
    assert turns[1]["content"] == f"```python\n{program}\n```"


@given(st.text(st.characters(blacklist_categories=["Cs"]), max_size=60))
@example("a\rx = 1")
@example("a\n\nx = 1")
def test_comments_hold_no_code(text: str) -> None:
    """Law: whatever was said of a program, above a prompt it is comments to Python and nothing else."""
    tree = ast.parse(commented(text.replace("\0", ""), "python"))
    assert tree.body == []


@pytest.mark.parametrize("index", [0, 32, 50])
def test_a_humaneval_task_is_asked_whole(index: int) -> None:
    """Signature, docstring and helpers reach the model; the checks do not."""
    task = HumanEval().load()[index]
    (turn,) = asked(SamplePrograms(Scripted("")), task)
    assert task.input["prompt"].rstrip() in turn["content"]
    assert "def check" not in turn["content"]
