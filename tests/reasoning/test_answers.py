"""The final answer of a solution: found, brought into one form, compared; and texts that are made to break it."""

from __future__ import annotations

import json
import string
import time
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from draftverify import ContractError
from draftverify_llm import answer_text
from draftverify_reasoning.answers import FORMS, Form, extract, normalised, number, same
from draftverify_reasoning.solutions import answer_of, solution

RECORDED = Path(__file__).parents[2] / "../shared/data"


@pytest.mark.parametrize(
    ("form", "text", "answer"),
    [
        ("gsm8k", "3 + 4 = <<3+4=7>>7\n#### 7", "7"),
        ("gsm8k", "#### 6\nno, wait\n####  $1,000.00 \n", "$1,000.00"),
        ("gsm8k", "She has 5.\nA: 5 apples", "5 apples"),
        ("gsm8k", "A: 5\nand then it was cut\nA: ", "5"),
        ("gsm8k", "Plan A: go home", None),
        ("gsm8k", "####\n5", None),
        ("boxed", r"so \boxed{\frac{1}{\sqrt{2}}}.", r"\frac{1}{\sqrt{2}}"),
        ("boxed", r"\boxed{1}, or rather \boxed{2}", "2"),
        ("boxed", r"\boxed{1}, or rather \boxed{2", "1"),
        ("boxed", r"\boxed{\{1, 2\}}", r"\{1, 2\}"),
        ("boxed", r"\fbox{7} \boxed{}", "7"),
        ("boxed", r"\boxed 5", None),
        ("tag", "<think>4</think><ANSWER>\n a\nb </ANSWER>", "a\nb"),
        ("tag", "<answer>4</answer> <answer>5", "4"),
        ("tag", "<answer>4", None),
        ("phrase", "The answer is 3.5. That is all.", "3.5"),
        ("phrase", "The answer is 3.\nNo: the final **answer:** *$18*", "$18"),
        ("phrase", '{"reasoning": "16 - 3", "answer": "13"}', "13"),
        ("phrase", "the answer to the question is yes", "yes"),
        ("phrase", "The answer is:\n\n**12**", "12"),
        ("phrase", "### Final Answer:\n\\[ x = 12 \\]\nDone.", r"\[ x = 12 \]"),
        ("phrase", "### Answer:\nTo find x we add 3.", None),
        ("phrase", "The answer is 5. Wait, the answer is 6.", "6"),
        ("phrase", "The answer is 4 and -2.", "4 and -2"),
        ("phrase", "The answer is 4 and we are done.", "4"),
        ("phrase", '{"answer": 12}', "12"),
        ("phrase", "nobody answered", None),
        ("phrase", "the answer is", None),
        ("last_number", "from 3 to -5.", "-5"),
        ("last_number", "pages 3-5", "5"),
        ("last_number", "it costs $1,234.50.", "$1,234.50"),
        ("last_number", "a share of 3/4", "3/4"),
        ("last_number", "none at all", None),
        ("auto", "<answer>1</answer> \\boxed{2}\n#### 3", "3"),
        ("auto", "<answer>1</answer> \\boxed{2}", "2"),
        ("auto", "<answer>1</answer>, the answer is 4", "1"),
        ("auto", "the answer is 4, not 5", "4"),
        ("auto", "A: Each of the 4 has 3 apples.\n4 * 3 = 12. The answer is 12.", "12"),
        ("auto", "4 * 3 = 12 apples.\nA: 12", "12"),
        ("auto", "A: the answer is 4\n#### 5", "5"),
        ("auto", "it is 5", "5"),
        ("auto", "", None),
    ],
)
def test_forms_of_answers(form: Form, text: str, answer: str | None) -> None:
    """Each form finds its last whole answer and no other; "auto" takes the forms in the order of trust."""
    assert extract(text, form) == answer


@pytest.mark.parametrize(
    "written",
    [
        "1000",
        "1,000",
        "1000.",
        "1,000.00",
        "$1,000",
        "$ 1000",
        "+1000",
        "1000 dollars",
        "1,000 cubic feet per day.",
        "1e3",
        "1000%",
        "2000/2",
        "1 thousand",
        "**1000**",
        "# 1000",
        "$1000$",
        r"\$1000",
        r"1,\!000",
        "1{,}000",
        r"1000\text{ cm}",
        r"\boxed{1000}",
        r"x = 1000",
        r"\(1000\)",
        r"\frac{2000}{2}",
        "(1000)",
        "1000°",
        r"1000^\circ",
        "1000°C",
        "1 000",
        "1'000",
        "1_000 km",
        "1000 m/s²",
        r"1000\text{ cm}^2",
        "about 1,000",
        r"\approx 1000",
        r"1.0 \times 10^3 m",
        "1 x 10^{3}",
        r"\frac{-3000}{-3}",
    ],
)
def test_one_number_is_written_in_many_ways(written: str) -> None:
    """Commas, currency, per cent, units, LaTeX and trailing dots do not change a number."""
    assert normalised(written) == "1000"
    assert same(written, "1000.0")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("1/2", "0.5"),
        ("-1/2", r"-\dfrac{1}{2}"),
        ("1 1/2", "1.5"),
        (r"1\frac12", "3/2"),
        ("-1 1/2", "-1.5"),
        ("−3", "-3"),
        ("-$18", "$-18"),
        ("2/6", "1/3"),
        ("-0", "0"),
        (r"\frac{-3}{4}", "-0.75"),
        (r"\frac{3}{-4}", "-3/4"),
        ("– 5", "-5"),
        ("3½", "3 1/2"),
        ("−¾", "-0.75"),
        (r"4 \cdot 10^{−2}", "0.04"),
        ("option B", "(b)"),
        ("5/0.5", "10"),
        ("-1.8 billion", "-1,800,000,000"),
        ("1/0", "1 / 0"),
        ("Yes.", "yes"),
        ("(A)", "a"),
        ("[1,2]", "[1, 2]"),
        (r"7 \pi", r"7\pi"),
        (r"x^2 + 1", "x^2+1"),
    ],
)
def test_equal_answers(one: str, other: str) -> None:
    """Numbers are equal by value, other answers by their plain text."""
    assert same(one, other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("0.333", "1/3"),
        ("100, 200", "100200"),
        ("(100,200)", "100200"),
        ("12,34", "1234"),
        ("5²", "5"),
        ("3 x²", "3"),
        ("10^2", "10"),
        ("12 34", "1234"),
        ("3 100/200", "3100/200"),
        ("about x", "x"),
        ("3 pi", "3"),
        (r"3\pi", "3"),
        ("3x", "3"),
        ("5", "-5"),
        ("3:00", "3"),
        ("1.2.3", "1.2"),
        ("yes", "no"),
        ("1e999999999", "1e999999998"),
    ],
)
def test_unequal_answers(one: str, other: str) -> None:
    """What only looks alike stays apart: lists, multiples of a symbol, rounded values."""
    assert not same(one, other)


NUMBERS = st.fractions(min_value=-(10**12), max_value=10**12, max_denominator=10**6)


@given(NUMBERS)
def test_a_number_comes_back_from_its_normal_form(value: Fraction) -> None:
    """The normal form of a fraction is exact, and is its own normal form."""
    text = normalised(f"{value.numerator}/{value.denominator}")
    assert number(text) == value
    assert normalised(text) == text


@given(st.integers(-(10**15), 10**15))
def test_an_integer_with_commas_is_that_integer(value: int) -> None:
    """Groups of three, currency, a fraction of zero and a unit change nothing."""
    assert normalised(f"{value:,}") == normalised(f"${value:,}.00 apples") == str(value)


@given(st.text(max_size=40) | st.text(r"0123456789.,-/\{}()$% eboxdfractext=", max_size=30))
def test_normalising_twice_changes_nothing(text: str) -> None:
    """The normal form is one: equality of answers is equality of texts."""
    assert normalised(normalised(text)) == normalised(text)


@given(st.text(string.printable, max_size=200), st.sampled_from([*FORMS, "auto"]))
def test_extracting_finds_a_part_of_the_text(text: str, form: Form) -> None:
    """Whatever the text, an answer is a non-empty piece of it with no white space around."""
    found = extract(text, form)
    assert found is None or (found and found in text and found == found.strip())


@given(st.integers(-(10**6), 10**6), st.sampled_from(FORMS))
def test_every_form_returns_what_was_written_in_it(value: int, form: Form) -> None:
    """A number said in a form is found in that form, and by "auto"."""
    said = {
        "gsm8k": f"so\n#### {value}",
        "boxed": rf"so $\boxed{{{value}}}$.",
        "tag": f"so <answer>{value}</answer>.",
        "phrase": f"So the answer is {value}.",
        "last_number": f"Of 3 we have {value} left.",
    }[form]
    assert normalised(extract(said, form) or "") == normalised(extract(said) or "") == str(value)


HOSTILE = {
    "an exponent": "1e999999999",
    "digits": "9" * 2_000_000,
    "digits and commas": "1,000," * 200_000,
    "braces": "{" * 1_000_000,
    "boxes": r"\boxed{" * 150_000,
    "closed boxes": r"\boxed{" * 100_000 + "}" * 100_000,
    "tags": "<answer>" * 150_000,
    "phrases": "the answer to " * 70_000,
    "fractions": r"\frac{1}{" * 100_000,
    "white space": "answer" + " " * 1_000_000 + "is",
    "signs": "-" * 1_000_000,
    "backslashes": "\\" * 1_000_000,
    "half a character": "\ud800 = 5",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_texts_take_no_time(name: str) -> None:
    """Megabytes of digits or braces are read in a moment, in every form; they are text, not numbers."""
    text = HOSTILE[name]
    start = time.process_time()
    for form in FORMS:
        extract(text, form)
    assert normalised(normalised(text)) == normalised(text)
    normalised(text[:900])
    assert number(text) is None
    assert time.process_time() - start < 10


def test_a_long_number_is_compared_as_text() -> None:
    """A number beyond what is ever an answer has no value, and equals itself alone."""
    assert number("9" * 1001) is None
    assert same("9" * 5000, "9" * 5000)
    assert not same("9" * 5000, "9" * 5001)
    assert number("1e1000") == 10**1000
    assert number("1e1001") is None


def test_a_solution_has_its_text_and_its_normalised_answer() -> None:
    """Text, mapping and steps are read in one place; no answer is None, as is one of which nothing is left."""
    made = solution("so\n#### $1,000", score=0.5)
    assert made == {"text": "so\n#### $1,000", "answer": "1000", "score": 0.5}
    assert solution("I do not know")["answer"] is None
    assert answer_text(made) == answer_text("so\n#### $1,000")
    assert answer_text(("one", "two")) == "one\ntwo"
    assert (
        answer_of(made)
        == answer_of(("so", "#### 1e3"))
        == answer_of({"text": "", "answer": 1000.0})
        == "1000"
    )
    assert answer_of({"text": "#### 7", "answer": None}) is None
    assert answer_of({"text": "#### 7", "answer": "$"}) is None
    assert answer_of({"text": "#### 7"}) == "7"


@pytest.mark.parametrize("item", [None, 7, {"answer": "7"}, {"text": 7}, ["a", 7]])
def test_what_is_no_solution_is_refused(item: object) -> None:
    """An item without a text breaks the contract, and the message shows it."""
    with pytest.raises(ContractError, match="is no text, no mapping"):
        answer_text(item)


def test_an_answer_that_is_no_text_is_refused() -> None:
    """A list is no answer."""
    with pytest.raises(ContractError, match="should be a text"):
        answer_of({"text": "", "answer": [7]})


def test_agrees_with_all_labels_of_gsm8k_s_recorded_solutions() -> None:
    """The four systems' 5,276 labels, through our own extraction; their accuracies are the published ones."""
    path = RECORDED / "gsm8k/example_model_solutions.jsonl"
    if not path.exists():
        pytest.skip("GSM8K's recorded solutions are not here")
    rows = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    systems = ("6b_finetuning", "6b_verification", "175b_finetuning", "175b_verification")
    found = {}
    for system in systems:
        judged = []
        for row in rows:
            expected, answer = (
                extract(row["ground_truth"], "gsm8k"),
                extract(row[system]["solution"], "gsm8k"),
            )
            assert expected is not None
            judged.append(answer is not None and same(answer, expected))
            assert judged[-1] == row[system]["is_correct"], (answer, expected)
        found[system] = round(sum(judged) / len(judged), 4)
    assert found == dict(zip(systems, (0.2168, 0.3904, 0.3472, 0.5625), strict=True))


@pytest.mark.parametrize("other", ["3", "3 pm", "3 p.m."])
def test_the_time_of_day_is_no_unit(other: str) -> None:
    """Three in the morning is another answer than three, and than three in the afternoon."""
    assert not same("3 am", other)
    assert not same("3 a.m.", other)
    assert same("3 AM", " 3  am.")


@pytest.mark.parametrize(
    ("said", "answer"),
    [
        ("18, because 9*2=18.", "18"), ("18 because 9*2=18.", "18"), ("18 since 9*2 is that", "18"),
        ("7 and not 8", "7"),
        ("18 (9 * 2).", "18"), ("$1,000, which is a lot.", "1000"), ("Paris, because it is.", "paris"),
        ("100, 200", "100, 200"), ("1/2 of it", "0.5"), ("(3, 4)", "(3, 4)"), ("not clear.", None),
    ],
)  # fmt: skip
def test_reasons_behind_an_answer_are_no_part_of_it(said: str, answer: str | None) -> None:
    """A number that comes first is the answer; words go on to their reasons; what is not an answer is none."""
    assert solution(f"The answer is {said}")["answer"] == answer
