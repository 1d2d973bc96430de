"""The stage planner: what it measures, what it plans, and the verifier that does both while it works."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
import pytest

from benchmarks.code.planner import spent
from draftverify import Check, ConfigError, Context, Cost, Pipeline, Proposal, Task, Verification
from draftverify.rules import First
from draftverify.testing import ScriptedGenerator, Subject, make_context, parametrize_with_checks
from draftverify_code.planner import Planned, arranged, measure
from draftverify_code.stage_plan import load_plan, plan_stages, save_plan
from draftverify_code.stages.staged import Stages


@dataclass(eq=False)
class Stage:
    """A stage that passes programs in whose text its name stands, at a cost that it states.

    A program "3 syntax types" passes `syntax` and `types`.
    """

    name: str
    fixed: float = 0.0
    each: float = 0.0
    cost: Callable[[str], float] | None = None
    once: bool = False
    provides: frozenset[str] = frozenset({"verdicts", "scores"})
    sizes: list[int] = field(default_factory=list)
    says: Callable[[str], Any] | None = None
    lock: Any = field(default_factory=Lock)

    def verify(self, context: Context, proposal: Proposal) -> Verification:
        with self.lock:
            self.sizes.append(len(proposal))
        checks: list[Check] = []
        looked_at = []
        for item in proposal.items:
            if (
                context.enough is not None
                and sum(check.verdict == "pass" for check in checks) >= context.enough
            ):
                checks.append(Check("unchecked"))
                continue
            looked_at.append(item)
            said = "pass" if self.name in item else "reject"
            if self.says is not None:
                said = self.says(item) or said
            if isinstance(said, Exception):
                raise said
            checks.append(Check(said, 1.0, feedback=f"{self.name} looked"))
        if self.once:
            looked_at = list(dict.fromkeys(looked_at))
        seconds = self.fixed + sum(self.each if self.cost is None else self.cost(item) for item in looked_at)
        notes = {"integrity": "static"}
        return Verification(checks=tuple(checks), cost=Cost(seconds), notes=notes)


def drafted(
    draw: np.random.Generator, tasks: int, programs: int, **rates: float
) -> list[tuple[Task, list[str]]]:
    """Tasks of which some are easy: a program is `good` by its task's own chance, and good ones pass all filters.

    Args:
        draw: random numbers.
        tasks, programs: how many, and how many of each.
        rates: of each filter, how often it passes a bad program.
    """
    work = []
    for number in range(tasks):
        chance = draw.beta(0.6, 1.2)
        texts = []
        for index in range(programs):
            good = draw.random() < chance
            passed = [name for name, rate in rates.items() if good or draw.random() < rate]
            texts.append(" ".join([f"{number}.{index}", *passed, *(["tests"] if good else [])]))
        work.append((Task(id=f"task {number}"), texts))
    return work


def three(**more: Any) -> list[Stage]:
    """A cheap parser, a type checker with a dear start, the tests."""
    return [Stage("syntax", 0.0001, 0.0001), Stage("types", 0.7, 0.003), Stage("tests", 0.001, 0.02, **more)]


WORK = drafted(np.random.default_rng(0), 12, 20, syntax=0.7, types=0.5)


def test_costs_and_verdicts_are_measured() -> None:
    """Every stage's word on every program, the fixed cost of its passes and what each program adds."""
    found = measure(three(), WORK)
    assert found.names == ("syntax", "types", "tests")
    texts = [text for _, programs in WORK for text in programs]
    assert found.passes.tolist() == [[name in text for name in found.names] for text in texts]
    assert found.tasks.tolist() == [number for number in range(12) for _ in range(20)]
    assert found.fixed == pytest.approx([0.0001, 0.7, 0.001])
    assert found.each == pytest.approx(np.tile([0.0001, 0.003, 0.02], (240, 1)))


def test_a_fixed_cost_is_found_among_unequal_programs() -> None:
    """Programs that take from nothing to three seconds, some of them twice the same, do not pass for a fixed cost."""
    slow = lambda text: 3.0 if "types" in text else 0.0001
    programs = [(task, [text for text in texts[:10] for _ in range(2)]) for task, texts in WORK]
    stages = [Stage("syntax", 0.01, 0.0001, once=True), Stage("tests", 0.05, cost=slow, once=True)]
    assert measure(stages, programs).fixed == pytest.approx([0.01, 0.05])


def test_tests_are_timed_apart_on_what_the_filters_pass() -> None:
    """A program that does not parse fails its tests at once: a filter saves the cost of those, not the mean cost."""
    costs = lambda text: 0.1 if "syntax" in text else 0.001
    stages = [Stage("syntax", 0.0, 0.0001), Stage("tests", 0.002, cost=costs)]
    found = measure(stages, WORK)
    parses = found.passes[:, 0]
    assert found.each[parses, 1] == pytest.approx(0.1)
    assert found.each[~parses, 1] == pytest.approx(0.001)
    assert plan_stages(found).cost == pytest.approx(
        spent(arranged(stages, plan_stages(found)), WORK).per_accepted.value
    )


def test_a_plan_costs_what_it_says() -> None:
    """For every block size and early stop, the plan's cost on its calibration is what its stages then spend there."""
    found = measure(three(), WORK)
    for block, enough in ((None, None), (5, None), (20, 1), (4, 2)):
        plan = plan_stages(found, block=block, enough=enough)
        stages = arranged(three(), plan)
        assert [stage.name for stage in stages.stages] == list(plan.order)
        cost = spent(stages, WORK, block=block, enough=enough)
        assert cost.per_accepted.value == pytest.approx(plan.cost)
        assert cost.seconds == pytest.approx(plan.seconds)
        every = spent(Stages(three()), WORK, block=block, enough=enough)
        assert cost.per_accepted.value <= every.per_accepted.value


def test_a_stage_that_does_not_pay_is_dropped_and_the_cost_predicted(tmp_path: Path) -> None:
    """Plan on half of the tasks, write the prediction down, measure on the other half: it is in the interval.

    One seed is one chance in twenty of a miss; ten of them miss more than twice with probability .012.
    """
    misses = 0
    for seed in range(10):
        work = drafted(np.random.default_rng(seed), 60, 10, syntax=0.6, types=0.9)
        plan = plan_stages(measure(three(), work[::2]), block=10)
        assert plan.dropped == ("types",)
        assert plan.order == ("syntax", "tests")
        said = save_plan(tmp_path / "plan.json", plan, new_tasks=30)
        measured = spent(arranged(three(), plan), work[1::2], block=10).per_accepted
        assert load_plan(tmp_path / "plan.json")[1] == said
        misses += not said.low <= measured.value <= said.high
    assert misses <= 2


def test_programs_whose_check_failed_are_left_out() -> None:
    """An error says nothing of a program: it is in no rate; without any other there is no table."""
    broken = lambda text: RuntimeError("crashed") if text.startswith("3.") else None
    found = measure([Stage("syntax", says=broken), Stage("tests")], WORK)
    assert sorted(set(found.tasks.tolist())) == [0, 1, 2, *range(4, 12)]
    with pytest.raises(ConfigError, match="no program was judged"):
        measure([Stage("syntax", says=lambda text: RuntimeError("crashed")), Stage("tests")], WORK)
    with pytest.raises(ConfigError, match="no program was judged"):
        measure(three(), [])


def test_what_nobody_vouches_for_is_not_accepted_in_the_table() -> None:
    """A filter that abstains lets an item go on; where all trusted stages abstain it is not accepted."""
    abstains = lambda text: "abstain" if text[0] in "05" else None
    found = measure(
        [Stage("syntax", says=abstains), Stage("tests"), Stage("types", says=abstains)], WORK, trusted=2
    )
    texts = [text for _, programs in WORK for text in programs]
    for text, (syntax, tests, types) in zip(texts, found.passes.tolist(), strict=True):
        assert syntax == (text[0] in "05" or "syntax" in text)
        assert tests == ("tests" in text)
        assert types == ("tests" in text if text[0] in "05" else "types" in text)


# --- while it works


def feed(planned: Planned, work: Sequence[tuple[Task, Sequence[str]]], **more: Any) -> list[Verification]:
    return [
        planned.verify(make_context(task, **more), Proposal.alternatives(tuple(texts)))
        for task, texts in work
    ]


def test_a_calibrating_verifier_says_what_stages_say() -> None:
    """Verdict, stage and feedback of every item, though every stage saw every item."""
    stages = three()
    planned = Planned(stages, calibrate=10**6)
    for (task, texts), found in zip(WORK, feed(planned, WORK), strict=True):
        expected = Stages(three()).verify(make_context(task), Proposal.alternatives(tuple(texts)))
        assert found.checks == expected.checks
        assert (found.notes["order"], found.notes["plan"]) == (expected.notes["order"], 0)
        assert not found.deterministic
    assert planned.plan is None


def test_the_plan_is_used_once_it_is_made() -> None:
    """After the calibration a stage that does not pay is not run again; the notes say so, and the table is there."""
    stages = three()
    work = drafted(np.random.default_rng(1), 30, 16, syntax=0.6, types=0.9)
    planned = Planned(stages, calibrate=64)
    feed(planned, work[:4])
    assert planned.plans == 1
    assert planned.plan is not None
    assert (planned.plan.order, planned.plan.dropped) == (("syntax", "tests"), ("types",))
    assert "types   dropped" in str(planned.plan)
    calls = len(stages[1].sizes)
    for (_, texts), found in zip(work[4:], feed(planned, work[4:]), strict=True):
        accepted = [check.verdict == "pass" for check in found.checks]
        assert accepted == ["tests" in text for text in texts]
        assert (found.notes["order"], found.notes["dropped"]) == (["syntax", "tests"], ["types"])
        assert found.notes["plan"] == 1
    assert len(stages[1].sizes) == calls


def test_every_stage_sees_every_calibration_item() -> None:
    """The words are joint: a program that does not parse is given to the tests too, and the first pass is not timed."""
    stages = three()
    planned = Planned(stages, calibrate=64)
    feed(planned, WORK[:1])
    assert stages[0].sizes[:2] == [1, 20]
    assert sum(stages[0].sizes) == 1 + 20 + 20
    # The tests: one item to warm up, the two parts, the whole.
    assert sorted(stages[2].sizes)[-1] == 20
    assert sum(stages[2].sizes) == 1 + 20 + 20


def test_it_waits_for_blocks_and_for_something_accepted() -> None:
    """At least four blocks, however large; and up to four times as many programs until one is accepted."""
    planned = Planned(three(), calibrate=10)
    feed(planned, WORK[:3])
    assert planned.plan is None
    feed(planned, WORK[3:4])
    assert planned.plan is not None
    hopeless = [(task, ["syntax types"] * 5) for task, _ in WORK * 4]
    planned = Planned(three(), calibrate=20)
    feed(planned, hopeless[:15])
    assert planned.plan is None
    feed(planned, hopeless[15:16])
    assert planned.plan is not None
    assert planned.plan.dropped == ()


def test_a_drift_is_planned_for_again() -> None:
    """When programs begin to be of another kind the planner calibrates anew, and finds another plan."""
    draw = np.random.default_rng(2)
    stages = three()
    planned = Planned(stages, calibrate=160)
    feed(planned, drafted(draw, 60, 8, syntax=0.95, types=0.95))
    assert planned.plans == 1
    assert planned.plan is not None
    assert planned.plan.dropped == ("types",)
    found = feed(planned, drafted(draw, 150, 8, syntax=0.2, types=0.95))
    assert planned.plans >= 2
    assert {one.notes["plan"] for one in found} >= {0, 1, 2}


def test_without_a_drift_it_seldom_plans_again() -> None:
    """Of 20 runs over 120 tasks each, with what reaches a stage differing from task to task, at most 3 plan again.

    At a probability of .05, which is the most that is promised, more than 3 happen with probability .016.
    """
    again = 0
    for seed in range(20):
        planned = Planned(three(), calibrate=64, level=0.05)
        feed(
            planned,
            drafted(np.random.default_rng(100 + seed), 120, 8, syntax=0.7, types=0.5),
            enough=seed % 2 or None,
        )
        again += planned.plans > 1 or planned.plan is None
    assert again <= 3


def test_an_early_stop_is_no_drift() -> None:
    """Stopping at the first pass makes a block's share of passes higher: it is compared with its like."""
    planned = Planned(three(), calibrate=800)
    feed(planned, drafted(np.random.default_rng(6), 350, 8, syntax=0.9, types=0.9), enough=1)
    assert (planned.plans, planned.plan is None) == (1, False)


def test_later_rounds_are_no_drift() -> None:
    """A task that comes back because nothing passed is a hard one: its later rounds are judged and not watched."""
    planned = Planned(three(), calibrate=64)
    feed(planned, WORK[:8])
    plan = planned.plan
    assert plan is not None
    feed(planned, [(task, ["syntax"] * 8) for task, _ in WORK * 20], rounds=3)
    assert planned.plan is plan
    feed(planned, [(task, ["syntax"] * 8) for task, _ in WORK * 20])
    assert planned.plans > 1


def test_an_early_stop_is_kept_by_the_plan() -> None:
    """With `enough` the last stage stops after the first pass, lowest index first."""
    planned = Planned(three(), calibrate=64)
    feed(planned, WORK[:8], enough=1)
    assert planned.plan is not None
    assert planned.plan.enough == 1
    context = make_context("t", enough=1)
    found = planned.verify(
        context, Proposal.alternatives(("no", "1 syntax types tests", "2 syntax types tests"))
    )
    assert [check.verdict for check in found.checks] == ["reject", "pass", "unchecked"]


def test_a_failing_stage_loses_nothing_while_calibrating() -> None:
    """Its items are errors, others are judged; what it said nothing of is not calibrated on."""
    broken = lambda text: RuntimeError("crashed") if text.startswith("3.") else None
    planned = Planned([Stage("syntax"), Stage("types", says=broken), Stage("tests")], calibrate=64)
    found = feed(planned, WORK[:8])
    assert {check.verdict for check in found[3].checks} == {"error", "reject"}
    assert {check.stage for check in found[3].checks if check.verdict == "error"} == {"types"}
    assert planned.plan is not None
    assert planned.plan.items % 20 == 0
    always = Planned([Stage("syntax", says=lambda text: OSError("gone")), Stage("tests")], calibrate=4)
    assert {check.verdict for one in feed(always, WORK) for check in one.checks} == {"error"}
    assert always.plan is None


def test_eight_threads_get_right_answers() -> None:
    """Blocks verified at the same time, before, while and after a plan is made, are judged like one by one."""
    planned = Planned(three(), calibrate=40)
    work = drafted(np.random.default_rng(5), 80, 8, syntax=0.6, types=0.9)

    def one(entry: tuple[Task, list[str]]) -> Verification:
        return planned.verify(make_context(entry[0]), Proposal.alternatives(tuple(entry[1])))

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(one, work))
    for (_, texts), verification in zip(work, found, strict=True):
        assert [check.verdict == "pass" for check in verification.checks] == [
            "tests" in text for text in texts
        ]
    assert planned.plans >= 1
    assert planned.plan is not None


def test_in_a_pipeline() -> None:
    """Records carry the plan's number, and that their rounds are not deterministic."""
    script = ScriptedGenerator(
        lambda context, n: [f"{i} syntax types tests" for i in range(n)], shape="alternatives"
    )
    pipeline = Pipeline(script, Planned(three(), calibrate=8), First(), block=4)
    records = [pipeline.record(Task(id=str(i), input={})) for i in range(6)]
    notes = [record.rounds[0].notes for record in records]
    assert [own and own["plan"] for own in notes] == [0, 0, 0, 0, 1, 1]
    assert not records[0].rounds[0].deterministic
    assert records[-1].rounds[0].notes["dropped"] == ["syntax", "types"]


def test_bad_arguments_are_refused() -> None:
    """No stage, too many trusted, a calibration on nothing, more filters than can be tried in every order."""
    with pytest.raises(ConfigError, match="cannot be trusted"):
        Planned([])
    with pytest.raises(ConfigError, match="cannot be trusted"):
        measure(three(), WORK, trusted=4)
    with pytest.raises(ConfigError, match="one program or more"):
        Planned(three(), calibrate=0)
    with pytest.raises(ConfigError, match="13 stages are left to order"):
        Planned([Stage(str(k)) for k in range(14)])


def test_its_stages_are_closed_when_it_is() -> None:
    """Those that it opened, each once."""
    log: list[str] = []

    class Held(Stage):
        def open(self) -> None:
            log.append(f"open {self.name}")

        def close(self) -> None:
            log.append(f"close {self.name}")

    planned = Planned([Held("syntax"), Held("tests")], calibrate=4)
    planned.open()
    planned.close()
    assert log == ["open syntax", "open tests", "close tests", "close syntax"]


@parametrize_with_checks(
    [
        Subject(
            Planned(three(), calibrate=20),
            proposals=[
                Proposal.alternatives(tuple(WORK[0][1])),
                Proposal.alternatives(("1 syntax",)),
                Proposal.chain(()),
            ],
        )
    ]
)
def test_conformance(component: Any, check: Any) -> None:
    """A planned verifier keeps the contract, while it calibrates and after."""
    check(component)
