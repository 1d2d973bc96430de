"""The checks for verifiers: one word per item, evidence as promised, and a crash that is never a rejection."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec
import numpy as np

from draftverify.kit.assertions import ensure, exercised
from draftverify.kit.contexts import advanced, as_numpy, difference
from draftverify.kit.registry import check
from draftverify.kit.subject import Subject
from draftverify.values import Check, Context, Proposal, Verification

_ALONE = ["rows_depend_on_their_prefix_alone", "judges_an_item_alone_as_in_the_block"]


def _verifications(subject: Subject) -> list[tuple[Context, Proposal, Verification]]:
    return [(context, proposal, subject.answer((context, proposal))) for context, proposal in subject.calls]


_NO_ALTERNATIVES = (
    "no block had two alternatives; give proposals=[Proposal.alternatives([…, …])] of its domain, or, where it takes "
    "chains alone, leave it at that"
)


_PASSES = "give tasks= and proposals= with an item that passes"


def _provides(kind: str, *, repeats: bool = False) -> Callable[[Subject], bool]:
    return lambda s: kind in s.traits.provides and (s.repeats() or not repeats)


def _target(answer: Verification) -> Any:
    return as_numpy(getattr(answer.evidence, "target", None)).astype(np.float64)


@check("verifier", after=["answers_can_be_read"])
def provides_what_it_says(subject: Subject) -> None:
    """Everything in `provides` is in every verification of a block."""
    provides = subject.traits.provides
    verified = _verifications(subject)
    for _, proposal, answer in verified:
        n = len(proposal.items)
        for kind in set(provides) - {"verdicts", "scores"}:
            array = getattr(answer.evidence, kind, None)
            ensure(array is not None, f"{kind!r} is in `provides`, and not in the evidence")
        for kind in {"verdicts", "scores"} & set(provides):
            ensure(len(answer.checks) == n, f"{kind!r} is in `provides`, and no checks came for {n} items")
        scored = all(
            item_check.score is not None for item_check in answer.checks if item_check.verdict == "pass"
        )
        ensure(
            scored or "scores" not in provides, "'scores' is in `provides`, and an item passed without one"
        )
    if "scores" in provides:
        passed = any(
            item_check.verdict == "pass" for _, _, answer in verified for item_check in answer.checks
        )
        exercised(passed, f"no item passed, and 'scores' is about those that do; {_PASSES}")


@check(
    "verifier",
    after=["provides_what_it_says"],
    when=lambda s: _provides("verdicts")(s) and not _provides("scores")(s),
)
def says_that_it_gives_scores(subject: Subject) -> None:
    """A verifier that gives every item that passes a score has 'scores' in `provides`; rules go by that."""
    verified = _verifications(subject)
    passed = [
        item_check
        for _, _, answer in verified
        for item_check in answer.checks
        if item_check.verdict == "pass"
    ]
    ensure(
        not passed or any(item_check.score is None for item_check in passed),
        "every item that passed has a score, and 'scores' is not in `provides`, so that a rule that compares scores "
        "(best) refuses the verifier; say VerifierTraits(provides={'verdicts', 'scores'}), of a function scores=True, "
        "or leave the score out",
    )
    exercised(passed, f"no item passed, and scores are about those that do; {_PASSES}")


@check("verifier", after=["provides_what_it_says"], when=_provides("target"))
def target_rows_are_distributions(subject: Subject) -> None:
    """Target rows are finite, non-negative and sum to 1; the empty block has its one row."""
    for context, _, answer in _verifications(subject):
        for rows in (_target(answer), _target(subject.answer((context, Proposal.chain(()))))):
            right = (
                np.all(np.isfinite(rows)) and np.all(rows >= 0) and np.all(abs(rows.sum(axis=1) - 1) < 1e-3)
            )
            ensure(right, "target rows are no distributions; give probabilities that sum to 1, not logits")


@check("verifier", after=["provides_what_it_says"], when=lambda s: s.traits.plain_steps)
def an_empty_block_is_a_plain_step(subject: Subject) -> None:
    """A verifier that says `plain_steps` corrects an empty block in at least one context."""
    steps = [subject.answer((context, Proposal.chain(()))) for context, _ in subject.calls]
    ensure(
        any(len(step.correction) for step in steps),
        "`plain_steps` is set, and an empty block brings no correction at any of the contexts; return the value that "
        "the verifier goes on with, or leave `plain_steps` out",
    )


@check(
    "verifier",
    after=["keeps_no_state_about_tasks", "target_rows_are_distributions"],
    when=_provides("target", repeats=True),
)
def rows_depend_on_their_prefix_alone(subject: Subject) -> None:
    """Each row of a chain is that of a plain step after the items before it, accepted."""
    for context, proposal, answer in _verifications(subject):
        n = len(proposal.items) if proposal.fits("chain") else 0
        rows, plain = _target(answer), _PlainSteps(subject, context)
        expected_rows = [plain.row(proposal.items[:i]) for i in range(n + 1)]
        wrong = [i for i in range(n + 1) if not plain.near(rows[i], expected_rows[i])]
        if not wrong or not n:
            continue
        # What it must be is known; what it is tells why.
        i = wrong[0]
        shorter = _target(subject.answer((context, Proposal.chain(list(proposal.items[:i])))))[-1]
        if all(plain.near(rows[j], expected_rows[j + 1]) for j in range(n)):
            why = (
                "it is the row after the next item: all rows stand one place too early, and row 0 is missing"
            )
        elif all(plain.near(rows[j + 1], expected_rows[j]) for j in range(n)):
            why = (
                "it is the row before the item: all rows stand one place too late; row 0 is after the context"
            )
        elif not plain.near(plain.row(proposal.items[:i], anew=True), expected_rows[i]):
            why = "the plain step gets a row of an earlier call: a cache whose key lacks what the row depends on"
        elif i < n and plain.near(shorter, expected_rows[i]):
            why = "it changes when more items follow: mask what comes later"
        else:
            why = "it changes once its items are accepted: context.accepted must be read as the block's items are"
        where = (
            f"the row after item {i - 1} of {n}" if i else f"the row after the context, of a block of {n},"
        )
        ensure(False, f"{where} is not that of a plain step there; {why}")


class _PlainSteps:
    """A verifier's rows of plain steps: an empty block, nothing cached."""

    def __init__(self, subject: Subject, context: Context) -> None:
        self.subject = subject
        self.context = context

    def row(self, items: Sequence[Any], *, anew: bool = False) -> Any:
        """The row [vocabulary] after these items, accepted; of an instance that was asked nothing before, if `anew`."""
        call = (advanced(self.context, *items) if len(items) else self.context, Proposal.chain(()))
        if not anew:
            return _target(self.subject.answer(call))[0]
        with self.subject.outside.as_at_first():
            return _target(self.subject.answer(call, on=self.subject.fresh()))[0]

    def near(self, row: Any, expected_row: Any) -> bool:
        """Whether two rows are the same within the subject's tolerance."""
        tolerance = self.subject.tolerance
        return bool(np.allclose(row, expected_row, rtol=tolerance, atol=tolerance))


@check(
    "verifier",
    after=["reproducible_under_its_seed", "provides_what_it_says"],
    when=lambda s: _provides("verdicts", repeats=True)(s) and "cross" not in s.traits.provides,
)
def judges_an_item_alone_as_in_the_block(subject: Subject) -> None:
    """An alternative verified by itself, as in a re-verification, gets the verdict and score that it has in a block."""
    compared = 0
    for context, proposal, answer in _verifications(subject):
        for index, item_check in enumerate(
            answer.checks if answer.deterministic and proposal.fits("alternatives") else ()
        ):
            check_alone = subject.answer((context, proposal.subset([index]))).checks[0]
            if "unchecked" in (check_alone.verdict, item_check.verdict):
                continue
            compared += len(proposal) > 1
            hint = "judge each alternative by itself, or provide 'cross'"
            problem = f"item {index} is judged {item_check.verdict!r} in the block and {check_alone.verdict!r} alone"
            ensure(check_alone.verdict == item_check.verdict, f"{problem}; {hint}")
            scores = difference(item_check.score, check_alone.score, subject.tolerance)
            problem = f"item {index} has the score {item_check.score!r} in the block and {check_alone.score!r} alone"
            hint = (
                "a score that is relative to the block cannot be compared over rounds; score each by itself"
            )
            ensure(scores is None, f"{problem}; {hint}")
    exercised(compared, _NO_ALTERNATIVES)


@check(
    "verifier",
    after=["reproducible_under_its_seed", "provides_what_it_says"],
    when=_provides("verdicts", repeats=True),
)
def leaves_items_unchecked_only_for_cause(subject: Subject) -> None:
    """An item is unchecked only when enough passed, lowest index first, or when one that it stands on did not pass."""
    passes = False
    # One item is a chain as well as an alternative: where there are longer blocks these say which.
    least = min(2, max((len(proposal) for _, proposal in subject.calls), default=0))
    for context, proposal in subject.calls:
        passing = _ensure_unchecked_for_cause(subject, context, proposal)
        if passing and len(proposal) >= least and proposal.fits("alternatives"):
            # Everything twice, so that something that passes stands behind what is enough.
            twice = Proposal.alternatives([*proposal.items, *proposal.items])
            _ensure_unchecked_for_cause(subject, context, twice)
        passes |= passing
    exercised(passes, f"no item passed, so that there was never enough; {_PASSES}")


def _ensure_unchecked_for_cause(subject: Subject, context: Context, proposal: Proposal) -> bool:
    """Fail the check where an item is left out without cause; says whether any passes."""
    full_checks: Sequence[Check] = ()
    for enough in (None, 1, 2):
        checks = subject.answer((msgspec.structs.replace(context, enough=enough), proposal)).checks
        full_checks = full_checks or checks
        passed = [i for i, item_check in enumerate(checks) if item_check.verdict == "pass"]
        all_passes = [i for i, item_check in enumerate(full_checks) if item_check.verdict == "pass"]
        with_enough = f"with context.enough = {enough}"
        for index, item_check in enumerate(checks):
            stopped = enough is not None and passed[enough - 1 : enough] and passed[enough - 1] < index
            if item_check.verdict == "unchecked":
                stands = all(checks[ancestor].verdict == "pass" for ancestor in proposal.path(index)[:-1])
                problem = f"item {index} of {len(checks)} is unchecked {with_enough}"
                ensure(stopped or not stands, f"{problem} and {len(passed)} passed before it; check it")
            elif stopped and full_checks[index].verdict != "unchecked":
                full_verdict = full_checks[index].verdict
                problem = f"item {index} of {len(checks)} is judged {item_check.verdict!r} {with_enough}"
                problem += f" and {full_verdict!r} without"
                hint = "what is left unlooked at once enough passed is 'unchecked'"
                ensure(item_check.verdict == full_verdict, f"{problem}; {hint}")
        expected = all_passes[:enough]
        problem = f"{with_enough}, {passed} passed; {expected} would have"
        ensure(passed[: len(expected)] == expected, problem)
    return bool(all_passes)


@check(
    "verifier",
    after=["keeps_no_state_about_tasks", "provides_what_it_says", *_ALONE],
    when=lambda s: s.repeats() and "cross" not in s.traits.provides,
)
def follows_the_paths_of_a_tree(subject: Subject) -> None:
    """An item of a tree is judged after its own path, as the chain of that path is; or the tree is refused."""
    hint = "read proposal.parents (row i + 1 is after item i), or raise where not proposal.fits('chain')"
    trees = 0
    for context, proposal, answer in _verifications(subject):
        if proposal.fits("chain") or not answer.deterministic:
            continue
        trees += proposal.shape == "tree"
        plain, measures = _PlainSteps(subject, context), _provides("target")(subject)
        rows = _target(answer) if measures else np.empty(0)
        where = f"in a block with the parents {proposal.parents}"
        for index in range(len(proposal)) if measures else ():
            path = [proposal.items[i] for i in proposal.path(index)]
            problem = (
                f"{where} the row after item {index} is not that after its path {list(proposal.path(index))}"
            )
            ensure(plain.near(rows[index + 1], plain.row(path)), f"{problem}; {hint}")
        for index, item_check in enumerate(answer.checks if proposal.shape == "tree" else ()):
            path = [proposal.items[i] for i in proposal.path(index)]
            verdict_alone = subject.answer((context, Proposal.chain(path))).checks[-1].verdict
            problem = f"{where} item {index} is judged {item_check.verdict!r}, "
            problem += f"and {verdict_alone!r} in the chain of its path"
            ensure(
                verdict_alone == item_check.verdict or "unchecked" in (verdict_alone, item_check.verdict),
                f"{problem}; {hint}",
            )
    problem = "no tree was verified: it refused the kit's, as is right where it cannot read them, or there was no chain"
    exercised(trees, f"{problem} of its items to make one of; give one among proposals=")


def poison(error: type[Exception] = RuntimeError) -> tuple[Any, list[str]]:
    """An item that raises whatever is done with it, and the list of what was.

    Args:
        error: what it raises.
    """
    touched: list[str] = []

    def method(name: str) -> Any:
        def fail(self: object, *args: object) -> Any:
            touched.append(name)
            raise error(f"{name} of an item that makes checks crash")

        return fail

    names = "repr str format bytes hash eq ne lt le gt ge bool len iter next getitem contains call int float index"
    names += " round add radd sub rsub mul rmul truediv rtruediv floordiv rfloordiv mod rmod pow rpow neg abs and or"
    names += " xor reversed getattribute setattr reduce_ex enter fspath array"
    return type("Poison", (), {f"__{name}__": method(f"__{name}__") for name in names.split()})(), touched


_CRASHES = (RuntimeError, TimeoutError)
_NOT_REACHED = "the verifier did nothing with the item that was to make its check crash"
_OWN_POISON = "give poison=[…], items of its domain whose check crashes"


def _poisons(subject: Subject) -> Iterator[tuple[str, Any, list[str]]]:
    """Items that make a check crash: what they raise, the item, and the list of what was done with it."""
    if subject.poison is None:
        for error in _CRASHES:
            yield error.__name__, *poison(error)
    for item in subject.poison or ():
        yield "an exception", item, ["it"]


@check("verifier", after=["answers_can_be_read"], when=_provides("verdicts"))
def a_crash_is_no_verdict(subject: Subject) -> None:
    """An item whose check crashes is an "error" (a "timeout"), or the exception comes out; it is not judged by that."""
    hint = "catch only what means a refusal, let the rest out or say Check('error')"
    reached, outcomes = 0, set[str]()
    for context in subject.contexts:
        for kind, item, touched in _poisons(subject):
            try:
                checks = subject.answer((context, Proposal.chain([item]))).checks
            except Exception as error:  # coming out is right: the driver makes a Failure of it
                reached += len(touched)
                outcomes |= {f"raised {type(error).__name__}"}
                continue
            reached += len(touched)
            verdict = checks[0].verdict if checks else ""
            outcomes |= {f"said {verdict!r}"}
            problem = f"an item whose check crashed ({kind}, at {touched[-1:]}) was judged {verdict!r}"
            ensure(not touched or verdict not in ("pass", "reject", "unchecked"), f"{problem}; {hint}")
    exercised(
        reached, f"poison not exercised: {_NOT_REACHED} (it {', '.join(sorted(outcomes))}); {_OWN_POISON}"
    )


@check(
    "verifier",
    after=["a_crash_is_no_verdict", "judges_an_item_alone_as_in_the_block"],
    when=_provides("verdicts", repeats=True),
)
def a_crash_is_its_own_items_alone(subject: Subject) -> None:
    """Where the check of one alternative crashes, the others are judged as without it, or left as errors."""
    blocks = reached = 0
    for context, proposal in subject.calls:
        if not proposal.fits("alternatives") or not len(proposal):
            continue
        checks_without = subject.answer((context, proposal)).checks
        _, bad, touched = next(_poisons(subject), ("", None, []))
        half, blocks = len(proposal) // 2, blocks + 1
        items = [*proposal.items[:half], bad, *proposal.items[half:]]
        try:
            checks = subject.answer((context, Proposal.alternatives(items))).checks
        except Exception:
            reached += len(touched)
            continue
        reached += len(touched)
        checks_beside = (*checks[:half], *checks[half + 1 :])
        for index, (check_without, check_beside) in enumerate(
            zip(checks_without, checks_beside, strict=True)
        ):
            without, beside = check_without.verdict, check_beside.verdict
            unaffected = without == beside or beside in ("error", "timeout", "unchecked")
            problem = f"item {index} is judged {without!r}, and {beside!r} beside an item whose check crashes"
            ensure(unaffected, f"{problem}; guard each item's check by itself")
    exercised(blocks, _NO_ALTERNATIVES)
    exercised(reached, f"poison not exercised: {_NOT_REACHED}; {_OWN_POISON}")
