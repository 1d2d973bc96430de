"""The audit of a judge: each probe sees the leaning that it is for, says what it cannot test, and is kept in a file."""

from __future__ import annotations

import math

import pytest

from draftverify import Check, ConfigError, ContractError, Task, Verification
from draftverify.bench.artifact import write_artifact
from draftverify.kit.audit import (
    PROBES,
    AnswerComparison,
    Grade,
    PairVerdict,
    Presented,
    as_judge,
    audit_judge,
    comparisons_of,
    find_audit,
    load_audit,
    plan_labels,
)
from draftverify.traits import VerifierTraits, families

TURNED = {"first": "second", "second": "first", "tie": "tie"}
EVERYTHING = frozenset({"order", "answers", "names", "wording", "repeat"})


class By:
    """A judge that chooses by a function of what it is shown.

    Args:
        choose: what it says of a Presented.
        varies: what it can be asked with.
        name: what its identity is made of.
    """

    def __init__(self, choose, varies=EVERYTHING, name="by", family=None):
        self.choose = choose
        self.varies = varies
        self.identity = name
        self.traits = VerifierTraits(families=families(family))
        self.asked: list[Presented] = []

    def compare(self, asked):
        self.asked += asked
        return [PairVerdict(self.choose(each)) for each in asked]


def pairs(n=40, **more):
    """Questions whose better answer says "good"; the first is better in every other one, the longer in one of four."""
    found = []
    for i in range(n):
        good, bad = "good" + "!" * (8 if i % 4 == 0 else 0), "a bad one"
        first, second = (good, bad) if i % 2 else (bad, good)
        found.append(
            AnswerComparison(
                str(i), f"question {i}", first, second, ("first" if i % 2 else "second",), **more
            )
        )
    return found


def expected(each):
    if "good" in each.first:
        return "first"
    return "second" if "good" in each.second else "tie"


def longer(each):
    return "first" if len(each.first) > len(each.second) else "second"


def value(audit, probe, name):
    found = audit.figure(probe, name)
    assert found is not None, f"{probe} has no {name!r}"
    return found.value


def test_a_judge_that_is_right_passes_every_probe():
    """Accuracy and κ are 1, nothing sways it, and intervals of certain figures are not empty."""
    found = audit_judge(By(expected), pairs())
    assert [each.name for each in found.probes] == list(PROBES)
    for probe, name in (
        ("agreement", "accuracy"), ("agreement", "Cohen's κ"), ("order", "swap consistency"),
        ("order", "accuracy where consistent"), ("names", "name consistency"), ("format", "same in JSON"),
        ("format", "same in Markdown"), ("wording", "same in other words"), ("wording", "accuracy in other words"),
        ("repeat", "retest"), ("empty", "constant answer loses"), ("empty", "vague answer loses"),
    ):  # fmt: skip
        assert value(found, probe, name) == 1.0, name
    accuracy = found.figure("agreement", "accuracy")
    assert 0.85 < accuracy.low < 1.0
    assert (accuracy.n, accuracy.questions) == (80, 40)
    assert value(found, "agreement", "no verdict") == value(found, "padding", "padded wins") == 0.0


def test_a_judge_that_keeps_to_the_first_place():
    """Never consistent, always the first place, half of its verdicts right, κ of 0; and it repeats itself."""
    found = audit_judge(By(lambda each: "first"), pairs())
    assert value(found, "order", "swap consistency") == 0.0
    assert value(found, "order", "position bias") == 1.0
    assert found.figure("order", "accuracy where consistent").value is None
    assert value(found, "agreement", "accuracy") == 0.5
    assert value(found, "agreement", "Cohen's κ") == pytest.approx(0.0)
    assert value(found, "repeat", "retest") == 1.0
    assert value(found, "empty", "vague answer loses") == 0.0


def test_pairs_of_verdicts_are_counted_by_what_they_say():
    """Decisive, a tie in both orders, without a verdict in one; κ between the orders is that of the two readings."""

    def verdict(each):
        number = int(each.id)
        if number % 4 == 0:  # a tie, whatever the order
            return "tie"
        if number % 4 == 1 and "good" in each.first:  # prose, where the better one comes first
            return None
        return expected(each)

    cases = pairs()
    found = audit_judge(By(verdict), cases, probes=["order"])
    kinds = [int(case.id) % 4 for case in cases]
    both = sum(kind != 1 for kind in kinds)
    assert value(found, "order", "pairs without a verdict") == pytest.approx(kinds.count(1) / len(cases))
    assert value(found, "order", "consistent ties") == pytest.approx(kinds.count(0) / both)
    assert value(found, "order", "decisive pairs") == pytest.approx(1 - kinds.count(0) / both)
    assert value(found, "order", "accuracy of decisive pairs") == 1.0
    assert value(found, "order", "κ between orders") == pytest.approx(1.0)


def test_a_judge_that_keeps_to_a_name():
    """It follows A when the names are exchanged, which no swap of the order shows apart from the place."""
    found = audit_judge(By(lambda each: "second" if each.names_exchanged else "first"), pairs())
    assert value(found, "names", "name consistency") == 0.0
    assert value(found, "names", "name bias") == 1.0


def test_a_judge_that_likes_length_is_seen_beside_the_labels():
    """Longer wins always; the labels prefer it in a quarter of the pairs; the padded copy wins."""
    found = audit_judge(By(longer), pairs())
    assert value(found, "length", "longer, judge") == 1.0
    assert value(found, "length", "longer, labels") == 0.25
    difference = found.figure("length", "judge − labels")
    assert difference.value == 0.75
    assert 0.5 < difference.low < 0.75 < difference.high < 1.0
    assert value(found, "padding", "padded wins") == 1.0


def test_wording_format_and_repetition_that_change_verdicts_are_seen():
    """Each by its own probe."""

    def moody(each):
        turned = each.wording or each.repeat or each.first.startswith("{")
        return "tie" if turned else expected(each)

    found = audit_judge(By(moody), pairs())
    assert value(found, "wording", "same in other words") == value(found, "repeat", "retest") == 0.0
    assert value(found, "format", "same in JSON") == 0.0
    assert value(found, "format", "same in Markdown") == 1.0


def test_a_family_that_is_preferred_beyond_the_labels():
    """Its own always wins; by the labels half of the time; without a family, or its answers, it is not tested."""
    own = pairs(families=("us", "them"))
    found = audit_judge(
        By(
            lambda each: "first" if each.id and each.first == own[int(each.id)].first else "second",
            family="us",
        ),
        own,
    )
    assert value(found, "family", "own family wins, judge") == 1.0
    assert value(found, "family", "preference") == 0.5
    assert found.figure("family", "preference").low > 0.2
    probes = {each.name: each for each in audit_judge(By(expected), own).probes}
    assert probes["family"].untested == "the judge has no family"
    probes = {each.name: each for each in audit_judge(By(expected, family="others"), own).probes}
    assert "one answer of its family, others" in probes["family"].untested


def test_a_win_rate_is_corrected_by_labels():
    """A judge that gives system x 20 points too much, 100 labels of 300: the corrected rate is near the truth."""
    made = []
    for i in range(300):
        wins = i % 2 == 0  # x wins half
        label = ("first" if wins else "second",) if i % 3 == 0 else ()
        text = "x wins" if wins else "x may win" if i % 5 in (1, 3) else "x loses"
        made.append(AnswerComparison(str(i), f"q{i}", text, "y", label, systems=("x", "y")))
    judge = By(lambda each: "second" if "loses" in each.first + each.second else "first", varies=frozenset())
    found = audit_judge(judge, made, probes=["win_rate"])
    assert value(found, "win_rate", "x: judge") > 0.65
    assert value(found, "win_rate", "x: labels") == 0.5
    corrected = found.figure("win_rate", "x: corrected")
    assert corrected.low < 0.5 < corrected.high


def test_what_was_not_recorded_is_not_tested():
    """Recorded verdicts vary in nothing: those probes say why, and none is passed in silence."""
    found = audit_judge(By(expected, varies=frozenset()), pairs())
    untested = {each.name for each in found.probes if each.untested}
    assert untested == {"order", "names", "format", "wording", "repeat", "padding", "empty", "family"}
    assert all(not each.figures for each in found.probes if each.untested)


def test_without_labels_agreement_is_not_tested():
    """The probes that need none still run."""
    found = audit_judge(By(expected), [AnswerComparison(str(i), f"q{i}", "good", "bad") for i in range(6)])
    probes = {each.name: each for each in found.probes}
    assert probes["agreement"].untested == "no comparison has a label"
    assert value(found, "order", "swap consistency") == 1.0
    assert found.mark == "audited on 6 comparisons without a label"


def test_no_verdict_is_wrong_and_told():
    """A quarter abstains: accuracy over all, accuracy of those given, and their share; all of them end the audit."""

    def shy(each):
        return None if int(each.id) % 4 == 0 else expected(each)

    found = audit_judge(By(shy), pairs())
    assert value(found, "agreement", "accuracy") == 0.75
    assert value(found, "agreement", "accuracy of verdicts given") == 1.0
    assert value(found, "agreement", "no verdict") == 0.25
    with pytest.raises(ContractError, match="no verdict on any of 40 comparisons"):
        audit_judge(By(lambda each: None), pairs())


def test_verdicts_on_one_question_are_no_trials_of_their_own():
    """Forty pairs of four questions: the interval is that of four."""
    many = [
        AnswerComparison(str(i), f"q{i}", "good", "bad", ("first" if i % 8 < 4 else "second",))
        for i in range(40)
    ]
    few = [AnswerComparison(e.id, f"q{int(e.id) % 8 // 4}", e.first, e.second, e.labels) for e in many]
    own, shared = (audit_judge(By(expected), each).figure("agreement", "accuracy") for each in (many, few))
    assert own.value == shared.value == 0.5
    assert shared.high - shared.low > 2 * (own.high - own.low)


def test_annotators_are_compared_with_each_other():
    """α beside the judge's κ; the label is the majority's, and three that all differ have none."""
    three = [AnswerComparison(str(i), f"q{i}", "good", "bad", ("first", "first", "second")) for i in range(4)]
    three.append(AnswerComparison("x", "qx", "good", "bad", ("first", "second", "tie")))
    found = audit_judge(By(expected), three)
    assert found.labelled == 4
    assert value(found, "agreement", "annotators' α") < 0.2
    assert value(found, "agreement", "accuracy") == 1.0


class Grader:
    """Grades by length, under one wording."""

    varies = frozenset({"answers", "repeat"})
    identity = "grader"

    def grade(self, asked):
        assert len(set(asked)) == len(asked), "an answer is graded once"
        return [
            Grade(float(len(each.answer))) if each.answer else Grade(None, "no verdict", "hm")
            for each in asked
        ]


class Scores:
    """A verifier that gives scores and knows nothing of judging."""

    traits = VerifierTraits(provides={"verdicts", "scores"})

    def verify(self, context, proposal):
        assert context.task.input["question"].startswith("question")
        return Verification(checks=tuple(Check("pass", float("good" in each)) for each in proposal.items))


def test_pointwise_judges_and_plain_verifiers_are_compared_by_their_scores():
    """The higher grade wins, equal ones tie, and the place has no say."""
    found = audit_judge(Grader(), pairs())
    assert value(found, "length", "longer, judge") == 1.0
    assert next(each for each in found.probes if each.name == "order").untested
    assert value(audit_judge(Scores(), pairs()), "agreement", "accuracy") == 1.0
    with pytest.raises(ConfigError, match="cannot be audited as a judge"):
        audit_judge(object(), pairs())


def test_a_score_that_is_no_number_is_an_error_and_infinite_ones_compare():
    """NaN is neither higher nor lower than another score, and is no tie for all that."""

    class Odd(Scores):
        def verify(self, context, proposal):
            score = math.nan if context.task.input["question"] == "question 3" else math.inf
            return Verification(checks=tuple(Check("pass", score) for _ in proposal.items))

    said = as_judge(Odd()).compare([Presented("question 3", "a", "b"), Presented("question 4", "a", "b")])
    assert [(each.choice, each.why) for each in said] == [(None, "error"), ("tie", "")]
    assert said[1].score == 0.0


def test_win_rates_of_pairs_of_which_some_are_named():
    """Each pair goes by the names that it has, whichever pair is the first."""
    named = pairs(systems=("x", "y"))
    for some in ([pairs()[0], *named[1:]], [*named[1:], pairs()[0]]):
        (probe,) = audit_judge(By(expected), some, probes=["win_rate"]).probes
        of = {each.name.partition(":")[0] for each in probe.figures}
        assert of == {"x", "y", "first listed"}


def test_the_file_holds_the_audit_and_is_refused_for_another_judge(tmp_path):
    """Written whole, read back equal, found by the judge's identity among other files."""
    judge, other = By(expected), By(expected, name="another prompt")
    audit = audit_judge(judge, pairs(), probes=["agreement"])
    write_artifact(tmp_path / "audits" / "judge.json", audit)
    (tmp_path / "audits" / "notes.json").write_text("{}")
    assert load_audit(tmp_path / "audits" / "judge.json", judge=judge) == audit
    with pytest.raises(ConfigError, match=r"made with the judge By .* the judge is By"):
        load_audit(tmp_path / "audits" / "judge.json", judge=other)
    with pytest.raises(ConfigError, match="no audit of a judge"):
        load_audit(tmp_path / "audits" / "notes.json")
    write_artifact(
        tmp_path / "audits" / "a_small_one.json", audit_judge(judge, pairs(8), probes=["agreement"])
    )
    assert find_audit(tmp_path / "audits", judge) == audit
    assert find_audit(tmp_path / "audits", other) is None
    assert find_audit(tmp_path / "nowhere", judge) is None
    assert audit.mark == "audited: accuracy 1.00, κ 1.00, on 40 labels"


def test_an_audit_of_the_order_alone_does_not_hide_another_s_accuracy(tmp_path):
    """However many labels its comparisons had."""
    full = audit_judge(By(expected), pairs(10), probes=["agreement"])
    write_artifact(tmp_path / "a.json", full)
    write_artifact(tmp_path / "b.json", audit_judge(By(expected), pairs(20), probes=["order"]))
    assert find_audit(tmp_path, By(expected)) == full


def test_planning_labels():
    """The worst case without a pilot; with one, a good judge and many pairs besides save labels of a win rate."""
    worst = {each.figure: each.labels for each in plan_labels(0.1)}
    assert worst == {"accuracy": 385, "Cohen's κ": 1537, "win rate": 385}
    pilot = [*pairs(30), *[AnswerComparison(f"u{i}", f"other {i}", "good", "bad") for i in range(2000)]]
    judge = By(lambda each: "first" if each.id in ("0", "2") else expected(each))
    found = {each.figure: each.labels for each in plan_labels(0.1, pilot, judge)}
    assert found["accuracy"] < worst["accuracy"]
    assert found["Cohen's κ"] < worst["Cohen's κ"]
    assert found["win rate, with the judge"] < found["win rate, labels alone"] / 2
    assert len(judge.asked) == 60  # in both orders, as the audit asks


def test_comparisons_out_of_tasks():
    """Every field of what is expected is a label; what is none, and what is missing, is named with its task."""
    input = {"prompt": "q", "first": "a", "second": "b", "systems": ["x", "y"]}
    (made,) = comparisons_of(
        [Task(id="t", input=input, expected={"ann": 1, "bob": "B", "others": ["tie", None]})]
    )
    assert made == AnswerComparison("t", "q", "a", "b", ("first", "second", "tie"), ("x", "y"))
    for task, told in (
        (Task(id="t", input=input, expected={"ann": "good"}), "ann of t is 'good'"),
        (Task(id="t", input={"question": "q", "first": "a"}), "second of t is None"),
        (Task(id="t", input={**input, "systems": ["x"]}), "systems of t"),
    ):
        with pytest.raises(ConfigError, match=told):
            comparisons_of([task])
    with pytest.raises(ConfigError, match="no comparisons"):
        comparisons_of([])
    with pytest.raises(ConfigError, match="two tasks have the id 't'"):
        comparisons_of([Task(id="t", input=input)] * 2)
    with pytest.raises(ConfigError, match="should be Tasks"):
        comparisons_of(["t"])


def test_an_unknown_probe_is_refused():
    """With the ones that there are."""
    with pytest.raises(ConfigError, match="no probe 'ordr'"):
        audit_judge(By(expected), pairs(), probes=["ordr"])
    with pytest.raises(ConfigError, match="probes is empty"):
        audit_judge(By(expected), pairs(), probes=[])


def test_a_judge_that_cannot_be_told_from_others_is_refused_before_it_is_asked():
    """Its audit could never be found again."""

    class Untold:
        varies = EVERYTHING
        asked = 0

        @property
        def identity(self):
            raise ConfigError("there is no telling")

        def compare(self, asked):
            self.asked += len(asked)
            return [PairVerdict(expected(each)) for each in asked]

    judge = Untold()
    with pytest.raises(ConfigError, match="no telling"):
        audit_judge(judge, pairs())
    assert not judge.asked


def test_a_pilot_that_is_always_wrong_still_plans_for_some_labels():
    """A pilot without a right verdict has no variance, which is no reason to plan for one label."""
    planned = plan_labels(0.1, pairs(4), By(lambda each: TURNED[expected(each)]))
    assert all(each.labels > 100 for each in planned)


def test_asked_is_what_was_asked():
    """Each judgement is asked once, whichever probes want it, and told as it goes."""
    judge, told = By(expected), []
    found = audit_judge(judge, pairs(20), watcher=told.append)
    assert found.asked == len(judge.asked) == len(set(judge.asked)) == told[-1]
