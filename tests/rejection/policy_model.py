"""One task's loop, written from the page alone: the section `on_rejection` of docs/configuration.md.

A plain model to read beside that page, in its order and its words. It uses nothing of draftverify: what the parts
and the person answer comes from a `World`, which `test_policy_model` puts behind the engine's parts too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

FAILED_CHECKS = ("error", "timeout")
OPEN_CHECKS = ("error", "timeout", "abstain")


@dataclass(frozen=True)
class Clause:
    """A clause of the policy; `on=()` answers anything, `times=None` is "forever", so is `rounds=None`."""

    do: str
    on: tuple[str, ...] = ()
    times: int | None = 1
    partial: bool = False
    rounds: int | None = 1
    verified: bool = True


@dataclass(frozen=True)
class Case:
    """A pipeline: `rule` is All, First, LongestPrefix or Majority, `enough` is First's, `done` a name and a number.

    `may_abstain` says of the rule that it may say that there is no answer.
    """

    seed: int
    shape: str
    rule: str
    done: tuple[str, int]
    block: int
    rounds: int
    verifier_calls: int | None
    clauses: tuple[Clause, ...]
    enough: int = 1
    threshold: float | None = None
    may_abstain: bool = False


@dataclass(frozen=True)
class Check:
    """What the verifier says of one item."""

    verdict: str
    score: float | None = None
    reason: str = ""
    words: str = ""


@dataclass(frozen=True)
class Draft:
    """A drafted block."""

    items: tuple[int, ...]
    last: bool = False


@dataclass(frozen=True)
class Told:
    """What `context.feedback` says of one item; `reason` is None where the page does not give its wording."""

    item: int
    reason: str | None
    words: str


class World(Protocol):
    """The parts and the person. Each call may raise: a TimeoutError is a `timeout`, anything else an `error`."""

    def draft(
        self, role: str, round: int, n: int, feedback: Sequence[Told], refused: Sequence[int]
    ) -> Draft: ...

    def verify(self, round: int, items: Sequence[int]) -> list[Check]: ...

    def rule(self, round: int) -> bool:
        """Whether the rule says that there is no answer."""
        ...

    def done(self, round: int) -> None: ...

    def ask(self, candidate: int | None) -> tuple[str, int | None]: ...


@dataclass
class Round:
    """A round, open until its steps are known."""

    number: int
    source: str
    items: tuple[int, ...] = ()
    last: bool = False
    checks: list[Check] | None = None
    taken: tuple[int, ...] = ()
    refused_by_rule: tuple[int, ...] = ()
    emitted: tuple[int, ...] = ()
    failure: str = ""
    failed: str = ""  # which call: "draft", "check", "rule"
    trouble: tuple[str, ...] = ()
    steps: list[tuple[int, str, str]] = field(default_factory=list)
    among_refused: bool = False  # of an answer: whether only refused items were drafted again when it came

    @property
    def progress(self) -> bool:
        return bool(self.taken)

    @property
    def judged(self) -> bool:
        """Whether the items were checked and the rule decided."""
        return not self.failed and self.checks is not None

    def refused(self) -> list[int]:
        """The items that were rejected, refused by the rule, or not taken after a check that failed or abstained."""
        if self.checks is None:
            return list(range(len(self.items))) if self.failed == "check" else []
        return [
            place
            for place, check in enumerate(self.checks)
            if place not in self.taken
            and (check.verdict in ("reject", *OPEN_CHECKS) or place in self.refused_by_rule)
        ]

    def open_places(self) -> list[int]:
        """The items whose check is to be made again."""
        if self.checks is None:
            return list(range(len(self.items))) if self.failed == "check" else []
        return [place for place, check in enumerate(self.checks) if check.verdict in OPEN_CHECKS]


@dataclass(frozen=True)
class Candidate:
    """A refused item, as a person may be asked about it."""

    value: int
    score: float | None
    check_failed: bool


@dataclass(frozen=True)
class Ending:
    """How the task ended."""

    status: str
    value: Any
    refused: int | None
    failure: str


class Over(Exception):
    """The task has ended."""

    def __init__(self, status: str, failure: str = "", no_answer: bool = False) -> None:
        self.status, self.failure, self.no_answer = status, failure, no_answer


def kind(error: Exception) -> str:
    """The trouble that a failed call is."""
    return "timeout" if isinstance(error, TimeoutError) else "error"


class Model:
    """The state of one task."""

    def __init__(self, case: Case, world: World) -> None:
        self.case, self.world = case, world
        self.rounds: list[Round] = []
        self.accepted: list[int] = []
        self.ballots: list[int] = []
        self.counts = [0] * len(case.clauses)
        self.verifier_calls = 0
        self.fallback: int | None = None
        self.fallback_rounds: int | None = 0
        self.feedback: list[Told] = []  # for the next draft
        self.told: list[Told] = []  # what the last draft was told
        self.told_by: int | None = None  # the feedback clause directly before the round
        self.redraft: list[int] = []  # context.refused
        self.answered: list[int] = []  # the values that a person has answered about
        self.answers = 0
        self.judged_since_answer = False

    def run(self) -> Ending:
        try:
            while True:
                self.drafted_round()
        except Over as over:
            candidate = self.candidate()
            shown = candidate and not candidate.check_failed and over.status != "accepted"
            refused = candidate.value if candidate and shown else None
            value = None if over.no_answer else self.value(over.status)
            return Ending(over.status, value, refused, over.failure)

    # The loop

    def budget_spent(self) -> bool:
        bound = self.case.verifier_calls
        return len(self.rounds) >= self.case.rounds or (bound is not None and self.verifier_calls >= bound)

    def drafted_round(self) -> None:
        """Draft, verify, decide; then the policy."""
        if self.budget_spent():
            raise Over("refused")
        source, verified = "generator", True
        if self.fallback is not None and self.fallback_rounds != 0:
            source, verified = f"fallback {self.fallback}", self.case.clauses[self.fallback].verified
            if self.fallback_rounds is not None:
                self.fallback_rounds -= 1
        n = len(self.redraft) or self.case.block
        round = Round(len(self.rounds), source)
        self.told, self.feedback = self.feedback, []
        try:
            draft = self.world.draft(source, round.number, n, self.told, self.redraft)
        except Exception as error:
            round.failed, round.failure = "draft", kind(error)
        else:
            round.items, round.last = draft.items, draft.last
            if not verified and round.items:
                round.checks = [Check("pass") for _ in round.items]
            elif round.items or not round.last:
                self.verify(round)
        self.settle(round)

    def verify(self, round: Round) -> None:
        """The whole block."""
        self.verifier_calls += 1
        try:
            round.checks = self.world.verify(round.number, round.items)
            round.failed = round.failure = ""
        except Exception as error:
            round.failed, round.failure = "check", kind(error)

    def settle(self, round: Round) -> None:
        """The rule decides and the policy answers, until the round is closed; then the step is done."""
        while True:
            stop = False
            if round.checks is not None:
                stop = self.decide(round)
            if stop:
                round.trouble = ()
                self.close(round)
                raise Over("accepted" if self.value("accepted") is not None else "abstained")
            round.trouble = self.trouble(round)
            if not round.trouble:
                self.leave_place(round)
                return
            place = self.clause(round)
            if place is None:
                if not round.progress and not self.is_blank(round):
                    self.close(round)
                    self.end(round)
                round.trouble = ()  # what was refused beside the accepted items is dropped
                self.leave_place(round)
                return
            clause = self.case.clauses[place]
            answers = [trouble for trouble in round.trouble if not clause.on or trouble in clause.on]
            round.steps.append((place, clause.do, answers[0]))
            self.counts[place] += 1
            if clause.do != "reverify":
                break
            self.recheck(round)
        self.give_use_back(round, place)
        self.close(round)
        self.step(round, place, clause)

    def is_blank(self, round: Round) -> bool:
        """Whether a rule that collects goes on after a round without progress that no clause answers."""
        if self.case.rule not in ("Majority", "All"):  # every case has a `done`
            return False
        again = bool((self.redraft or round.among_refused) and self.accepted)
        if again or round.last or set(round.trouble) <= set(FAILED_CHECKS):
            return False
        before = self.rounds[-99:]
        return len(before) < 99 or any(earlier.progress for earlier in before)

    # The rule and `done`

    def decide(self, round: Round) -> bool:
        """What is taken and refused; whether the task is to stop."""
        assert round.checks is not None
        case, passed = (
            self.case,
            [place for place, check in enumerate(round.checks) if check.verdict == "pass"],
        )
        round.taken = round.refused_by_rule = round.emitted = ()
        round.failed = round.failure = ""
        try:
            no_answer = self.world.rule(round.number)
        except Exception as error:
            round.failed, round.failure = "rule", kind(error)
            return False
        if no_answer:
            round.trouble = ()
            self.close(round)
            raise Over("abstained", no_answer=True)
        low = [place for place in passed if self.below(round.checks[place])]
        good = [place for place in passed if place not in low]
        done = False
        if case.rule == "First":
            good = good[: case.enough - len(self.accepted)]
            done = len(self.accepted) + len(good) >= case.enough
        elif case.rule == "LongestPrefix":
            good = good[: next((k for k, place in enumerate(good) if place != k), len(good))]
        round.taken, round.refused_by_rule = tuple(good), tuple(low)
        if case.rule != "Majority":
            round.emitted = tuple(round.items[place] for place in good)
        try:
            self.world.done(round.number)
        except Exception as error:
            round.failed, round.failure = "rule", kind(error)
            round.taken = round.refused_by_rule = round.emitted = ()
            return False
        name, number = case.done
        if name == "Limit" and len(self.accepted) + len(round.emitted) >= number:
            round.emitted = round.emitted[: number - len(self.accepted)]
            return True
        return done or (name == "Rounds" and round.number + 1 >= number)

    def below(self, check: Check) -> bool:
        """Whether a passed item is below the rule's threshold; one that a person or a fallback passed is not."""
        threshold = self.case.threshold
        return threshold is not None and check.score is not None and check.score < threshold

    # When the policy is asked

    def trouble(self, round: Round) -> tuple[str, ...]:
        if round.failed:
            return (round.failure,)
        if round.checks is None:
            return ("exhausted",)
        if round.progress and not any(clause.partial for clause in self.case.clauses):
            return ()
        verdicts = [check.verdict for place, check in enumerate(round.checks) if place not in round.taken]
        trouble = [verdict for verdict in OPEN_CHECKS if verdict in verdicts]
        if "reject" in verdicts or round.refused_by_rule:
            trouble.append("reject")
        if not round.progress:
            if round.last:
                trouble.append("exhausted")
            if not trouble:
                trouble.append("reject" if round.items else "exhausted")
        return tuple(trouble)

    # Which clause is taken

    def clause(self, round: Round) -> int | None:
        for place, clause in enumerate(self.case.clauses):
            if clause.on and not set(clause.on) & set(round.trouble):
                continue
            bounded = clause.do not in ("escalate", "give_up") and clause.times is not None
            if bounded and self.counts[place] >= (clause.times or 0):
                continue
            if round.progress and not clause.partial:
                continue
            if clause.do == "reverify":
                nothing = round.failed != "check" and not round.open_places()
                if nothing or round.failed == "rule" or self.budget_spent():
                    continue
            if clause.do == "escalate" and not self.is_news(round):
                continue
            return place
        return None

    def is_news(self, round: Round) -> bool:
        """Whether there is something new to ask a person."""
        candidate = self.candidate(round)
        if candidate is not None:
            return candidate.value not in self.answered
        if round.source == "person":
            return False
        return not self.answers or self.judged_since_answer or (round.judged and bool(round.items))

    # What a step does

    def step(self, round: Round, place: int, clause: Clause) -> None:
        if clause.partial and round.judged and round.refused() and not round.among_refused:
            self.redraft = [round.items[k] for k in round.refused()]
        if clause.do == "feedback":
            self.feedback = self.refusals(round) or self.feedback
            self.told_by = place
        if clause.do == "fallback":
            self.fallback, self.fallback_rounds = place, clause.rounds
        if clause.do == "give_up":
            self.end(round)
        if clause.do == "escalate":
            self.ask()

    def refusals(self, round: Round) -> list[Told]:
        """What a feedback step tells of the round."""
        return [
            Told(
                round.items[place],
                None if place in round.refused_by_rule else check.reason,
                check.words,
            )
            for place, check in enumerate(round.checks or ())
            if place not in round.taken
            and (check.verdict in ("reject", "abstain") or place in round.refused_by_rule)
        ]

    def is_unused(self, round: Round) -> bool:
        """Whether a round has not used what it was told."""
        return not round.progress and set(round.trouble) <= set(FAILED_CHECKS)

    def give_use_back(self, round: Round, place: int) -> None:
        """Another clause answers directly after the feedback: the feedback clause gets its use back."""
        if self.told_by is not None and self.told_by != place and self.is_unused(round):
            self.counts[self.told_by] -= 1
        self.told_by = None

    def recheck(self, round: Round) -> None:
        """The failed checks are made again."""
        if round.checks is None:
            self.verify(round)
            return
        places = round.open_places()
        shown = places if self.case.shape == "alternatives" else list(range(len(round.items)))
        self.verifier_calls += 1
        try:
            checks = self.world.verify(round.number, [round.items[place] for place in shown])
        except Exception as error:
            for place in places:
                round.checks[place] = Check(kind(error))
        else:
            for place, check in zip(shown, checks, strict=True):
                round.checks[place] = check

    def close(self, round: Round) -> None:
        """The round joins the others."""
        self.accepted += round.emitted
        if round.emitted:
            self.answered = []
        if self.case.rule == "Majority":
            self.ballots += [round.items[place] for place in round.taken]
        self.rounds.append(round)
        refused = [round.items[place] for place in round.refused()]
        if round.source == "person":
            self.redraft += refused if round.among_refused and round.judged and round.trouble else []
            return
        self.judged_since_answer = self.judged_since_answer or (round.judged and bool(round.items))
        if self.told and self.is_unused(round):
            self.feedback = self.told  # the next draft is told the same
        if self.redraft and round.judged and round.items:
            self.redraft = refused

    def leave_place(self, round: Round) -> None:
        """The round ends without trouble: the place is left."""
        self.close(round)
        self.counts = [0] * len(self.counts)
        self.told_by = None
        self.feedback = []
        if round.source != "person":
            self.redraft = []

    # What a person is asked

    def candidate(self, open_round: Round | None = None) -> Candidate | None:
        """The best item that was refused since the last answer; of the open round's too."""
        refused: list[Candidate] = []
        rounds = [*self.rounds, *([open_round] if open_round else [])]
        answers = [round.number for round in rounds if round.source == "person"]
        for round in rounds:
            if round.number < max(answers, default=0) or (round.progress and not round.trouble):
                continue
            checks = round.checks or [Check("error") for _ in round.items]
            places = sorted(round.refused(), key=lambda k: (checks[k].verdict == "abstain", k))
            for place in places:
                check = checks[place]
                failed = check.verdict in FAILED_CHECKS and place not in round.refused_by_rule
                refused.append(Candidate(round.items[place], check.score, failed))
        if not refused:
            return None
        ranks = [
            (one.value not in self.answered, not one.check_failed, _rank(one.score), place)
            for place, one in enumerate(refused)
        ]
        return refused[max(ranks)[-1]]

    def ask(self) -> None:
        candidate = self.candidate()
        answer, edited = self.world.ask(None if candidate is None else candidate.value)
        if answer == "skip":
            raise Over("waiting")
        if answer == "reject":
            raise Over("refused")
        self.answers += 1
        self.judged_since_answer = False
        round = Round(len(self.rounds), "person", among_refused=bool(self.redraft))
        if candidate is not None:
            self.answered.append(candidate.value)
            if candidate.value in self.redraft:  # of equal ones the last
                del self.redraft[len(self.redraft) - 1 - self.redraft[::-1].index(candidate.value)]
        if answer == "accept":
            assert candidate is not None
            round.items, round.checks = (candidate.value,), [Check("pass")]
        else:
            assert edited is not None
            round.items = (edited,)
            if self.budget_spent():
                round.trouble = ("exhausted",)
                self.rounds.append(round)
                raise Over("refused")
            self.verify(round)
        self.settle(round)

    # How a task ends

    def end(self, round: Round) -> None:
        """No clause was left."""
        if round.failed:
            raise Over("failed", round.failure)
        if self.budget_spent():
            raise Over("refused")
        trouble = set(round.trouble)
        if trouble <= set(FAILED_CHECKS):
            first = next(check for check in round.checks or () if check.verdict in FAILED_CHECKS)
            raise Over("failed", first.verdict)
        if trouble == {"abstain"} or (
            self.case.may_abstain and trouble <= {"reject", "exhausted", "abstain"}
        ):
            raise Over("abstained")
        raise Over("refused")

    def value(self, status: str) -> Any:
        if status == "waiting":
            return None
        if self.case.rule == "Majority":
            ballots = self.ballots
            return max(ballots, key=lambda item: (ballots.count(item), -ballots.index(item)), default=None)
        if self.case.rule == "First":
            one = self.case.enough == 1
            return (self.accepted[0] if one else tuple(self.accepted)) if self.accepted else None
        if not self.accepted and status == "accepted" and self.case.rule == "LongestPrefix":
            return () if len(self.rounds) == 1 and not self.rounds[0].items else None
        return tuple(self.accepted) or None


def _rank(score: float | None) -> tuple[bool, float]:
    """Items without a score come after all that have one."""
    return (score is not None, score or 0.0)
