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
from draftverify.values import VERDICTS, Check, Context, Proposal, Verification

_ALONE = ["rows_depend_on_their_prefix_alone", "judges_an_item_alone_as_in_the_block"]


def _found(subject: Subject) -> list[tuple[Context, Proposal, Verification]]:
    return [(context, proposal, subject.answer((context, proposal))) for context, proposal in subject.calls]


_NO_ITEMS = "no block had an item; give proposals= with some"
_NO_ALTERNATIVES = (
    "no block had two alternatives; give proposals=[Proposal.alternatives([…, …])] of its domain, or, where it takes "
    "chains alone, leave it at that"
)


_PASSES = "give tasks= and proposals= with an item that passes"


def _exercised(found: Sequence[tuple[Context, Proposal, Verification]]) -> None:
    exercised(any(len(proposal) for _, proposal, _ in found), _NO_ITEMS)


def _provides(word: str, *, repeats: bool = False) -> Callable[[Subject], bool]:
    return lambda s: word in s.declared("provides", {"verdicts"}) and (s.repeats() or not repeats)


def _target(verification: Verification) -> Any:
    return as_numpy(getattr(verification.evidence, "target", None)).astype(np.float64)


@check("verifier", after=["answers", "answers_stay_as_they_were"])
def returns_a_verification(subject: Subject) -> None:
    """verify() returns a Verification."""
    for _, _, found in _found(subject):
        ensure(
            type(found) is Verification,
            f"verify() returned a {type(found).__name__}; return Verification(checks=…), one Check for each item",
        )


@check("verifier", after=["returns_a_verification"])
def one_check_for_each_item(subject: Subject) -> None:
    """Checks, where there are any, are as many as items."""
    verified = _found(subject)
    for _, proposal, found in verified:
        got, n = len(found.checks), len(proposal.items)
        ensure(
            got in (0, n), f"{got} checks came for {n} items; an item that was not looked at is 'unchecked'"
        )
    _exercised(verified)


@check("verifier", after=["one_check_for_each_item"])
def verdicts_are_known_words(subject: Subject) -> None:
    """Every verdict is one of the six words."""
    for _, _, found in _found(subject):
        for one in found.checks:
            hint = "give a Check for each item: PASS, REJECT, or Check('reject', reason=…)"
            ensure(type(one) is Check, f"{one!r} is no Check; {hint}")
            ensure(one.verdict in VERDICTS, f"{one.verdict!r} is no verdict; one of {', '.join(VERDICTS)} is")


@check("verifier", after=["verdicts_are_known_words"])
def provides_what_it_says(subject: Subject) -> None:
    """Everything in `provides` is in every verification of a block, with a row for each item (and the context)."""
    provides = subject.declared("provides", {"verdicts"})
    verified = _found(subject)
    for _, proposal, found in verified:
        n = len(proposal.items)
        for word, rows in {
            "target": n + 1,
            "raw_maxima": n + 1,
            "cross": n,
            "hidden": None,
        }.items():
            array = getattr(found.evidence, word, None)
            ensure(
                array is not None or word not in provides,
                f"{word!r} is in `provides`, and not in the evidence",
            )
            if array is not None and rows is not None:
                ensure(len(array) == rows, f"{word} has {len(array)} rows for {n} items; {rows} are needed")
        for word in {"verdicts", "scores"} & set(provides):
            ensure(len(found.checks) == n, f"{word!r} is in `provides`, and no checks came for {n} items")
        scored = all(one.score is not None for one in found.checks if one.verdict == "pass")
        ensure(
            scored or "scores" not in provides, "'scores' is in `provides`, and an item passed without one"
        )
    _exercised(verified)
    if "scores" in provides:
        passed = any(one.verdict == "pass" for _, _, found in verified for one in found.checks)
        exercised(passed, f"no item passed, and 'scores' is about those that do; {_PASSES}")


@check(
    "verifier",
    after=["provides_what_it_says", "answers_can_be_read"],
    when=lambda s: _provides("verdicts")(s) and not _provides("scores")(s),
)
def says_that_it_gives_scores(subject: Subject) -> None:
    """A verifier that gives every item that passes a score has 'scores' in `provides`; rules go by that."""
    verified = _found(subject)
    passed = [one for _, _, found in verified for one in found.checks if one.verdict == "pass"]
    ensure(
        not passed or any(one.score is None for one in passed),
        "every item that passed has a score, and 'scores' is not in `provides`, so that a rule that compares scores "
        "(best) refuses the verifier; say provides = frozenset({'verdicts', 'scores'}), of a function scores=True, or "
        "leave the score out",
    )
    exercised(passed, f"no item passed, and scores are about those that do; {_PASSES}")


@check("verifier", after=["provides_what_it_says"], when=_provides("target"))
def target_rows_are_distributions(subject: Subject) -> None:
    """Target rows are finite, non-negative and sum to 1; the empty block has its one row."""
    for context, _, found in _found(subject):
        for rows in (_target(found), _target(subject.answer((context, Proposal.chain(()))))):
            ensure(
                rows.ndim == 2 and len(rows),
                f"target has shape {rows.shape}; [items + 1, vocabulary] is needed",
            )
            right = (
                np.all(np.isfinite(rows)) and np.all(rows >= 0) and np.all(abs(rows.sum(axis=1) - 1) < 1e-3)
            )
            ensure(right, "target rows are no distributions; give probabilities that sum to 1, not logits")


@check("verifier", after=["provides_what_it_says"], when=lambda s: s.declared("plain_steps", False))
def an_empty_block_is_a_plain_step(subject: Subject) -> None:
    """What says `plain_steps` goes on from somewhere by itself, asked about no items."""
    found = [subject.answer((context, Proposal.chain(()))) for context, _ in subject.calls]
    ensure(
        any(len(each.correction) for each in found),
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
    for context, proposal, found in _found(subject):
        n = len(proposal.items) if proposal.fits("chain") else 0
        rows, plain = _target(found), _Plain(subject, context)
        after = [plain.row(proposal.items[:i]) for i in range(n + 1)]
        wrong = [i for i in range(n + 1) if not plain.near(rows[i], after[i])]
        if not wrong or not n:
            continue
        # What it must be is known; what it is tells why.
        i = wrong[0]
        shorter = _target(subject.answer((context, Proposal.chain(list(proposal.items[:i])))))[-1]
        if all(plain.near(rows[j], after[j + 1]) for j in range(n)):
            why = (
                "it is the row after the next item: all rows stand one place too early, and row 0 is missing"
            )
        elif all(plain.near(rows[j + 1], after[j]) for j in range(n)):
            why = (
                "it is the row before the item: all rows stand one place too late; row 0 is after the context"
            )
        elif not plain.near(plain.row(proposal.items[:i], anew=True), after[i]):
            why = "the plain step gets a row of an earlier call: a cache whose key lacks what the row depends on"
        elif i < n and plain.near(shorter, after[i]):
            why = "it changes when more items follow: mask what comes later"
        else:
            why = "it changes once its items are accepted: context.accepted must be read as the block's items are"
        where = (
            f"the row after item {i - 1} of {n}" if i else f"the row after the context, of a block of {n},"
        )
        ensure(False, f"{where} is not that of a plain step there; {why}")


class _Plain:
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

    def near(self, one: Any, other: Any) -> bool:
        """Whether two rows are the same within the subject's tolerance."""
        tolerance = self.subject.tolerance
        return bool(np.allclose(one, other, rtol=tolerance, atol=tolerance))


@check(
    "verifier",
    after=["reproducible_under_its_seed", "provides_what_it_says", "answers_can_be_read"],
    when=lambda s: _provides("verdicts", repeats=True)(s) and "cross" not in s.declared("provides", ()),
)
def judges_an_item_alone_as_in_the_block(subject: Subject) -> None:
    """An alternative verified by itself, as in a re-verification, gets the verdict and score that it has in a block."""
    compared = 0
    for context, proposal, found in _found(subject):
        for index, one in enumerate(
            found.checks if found.deterministic and proposal.fits("alternatives") else ()
        ):
            alone = subject.answer((context, proposal.subset([index]))).checks[0]
            if "unchecked" in (alone.verdict, one.verdict):
                continue
            compared += len(proposal) > 1
            hint = "judge each alternative by itself, or provide 'cross'"
            what = f"item {index} is judged {one.verdict!r} in the block and {alone.verdict!r} alone"
            ensure(alone.verdict == one.verdict, f"{what}; {hint}")
            scores = difference(one.score, alone.score, subject.tolerance)
            what = f"item {index} has the score {one.score!r} in the block and {alone.score!r} alone"
            hint = (
                "a score that is relative to the block cannot be compared over rounds; score each by itself"
            )
            ensure(scores is None, f"{what}; {hint}")
    exercised(compared, _NO_ALTERNATIVES)


@check(
    "verifier",
    after=["reproducible_under_its_seed", "provides_what_it_says"],
    when=_provides("verdicts", repeats=True),
)
def leaves_items_unchecked_only_for_cause(subject: Subject) -> None:
    """An item is unchecked only when enough passed, lowest index first, or when one that it stands on did not pass."""
    passes = False
    for context, proposal in subject.calls:
        whole = subject.answer((msgspec.structs.replace(context, enough=None), proposal)).checks
        again = proposal.fits("alternatives") and any(one.verdict == "pass" for one in whole)
        passes |= any(one.verdict == "pass" for one in whole)
        # Everything twice, so that something that passes stands behind what is enough.
        twice = Proposal.alternatives([*proposal.items, *proposal.items]) if again else proposal
        for block in (proposal, twice)[: 1 + again]:
            _ensure_unchecked_for_cause(subject, context, block)
    exercised(passes, f"no item passed, so that there was never enough; {_PASSES}")


def _ensure_unchecked_for_cause(subject: Subject, context: Context, proposal: Proposal) -> None:
    whole: Sequence[Check] = ()
    for enough in (None, 1, 2):
        checks = subject.answer((msgspec.structs.replace(context, enough=enough), proposal)).checks
        whole = whole or checks
        passed = [i for i, one in enumerate(checks) if one.verdict == "pass"]
        with_enough = f"with context.enough = {enough}"
        for index, one in enumerate(checks):
            stopped = enough is not None and passed[enough - 1 : enough] and passed[enough - 1] < index
            if one.verdict == "unchecked":
                stands = all(checks[above].verdict == "pass" for above in proposal.path(index)[:-1])
                what = f"item {index} of {len(checks)} is unchecked {with_enough}"
                ensure(stopped or not stands, f"{what} and {len(passed)} passed before it; check it")
            elif stopped and whole[index].verdict != "unchecked":
                what = f"item {index} of {len(checks)} is judged {one.verdict!r} {with_enough}"
                hint = "what is left unlooked at once enough passed is 'unchecked'"
                ensure(
                    one.verdict == whole[index].verdict,
                    f"{what} and {whole[index].verdict!r} without; {hint}",
                )
        first = [i for i, one in enumerate(whole) if one.verdict == "pass"][:enough]
        ensure(passed[: len(first)] == first, f"{with_enough}, {passed} passed; {first} would have")


@check(
    "verifier",
    after=["keeps_no_state_about_tasks", "provides_what_it_says", *_ALONE],
    when=lambda s: s.repeats() and "cross" not in s.declared("provides", ()),
)
def follows_the_paths_of_a_tree(subject: Subject) -> None:
    """An item of a tree is judged after its own path, as the chain of that path is; or the tree is refused."""
    hint = "read proposal.parents (row i + 1 is after item i), or raise where not proposal.fits('chain')"
    trees = 0
    for context, proposal, found in _found(subject):
        if proposal.fits("chain") or not found.deterministic:
            continue
        trees += proposal.shape == "tree"
        plain, measures = _Plain(subject, context), _provides("target")(subject)
        rows = _target(found) if measures else np.empty(0)
        where = f"in a block with the parents {proposal.parents}"
        for index in range(len(proposal)) if measures else ():
            path = [proposal.items[i] for i in proposal.path(index)]
            what = (
                f"{where} the row after item {index} is not that after its path {list(proposal.path(index))}"
            )
            ensure(plain.near(rows[index + 1], plain.row(path)), f"{what}; {hint}")
        for index, one in enumerate(found.checks if proposal.shape == "tree" else ()):
            path = [proposal.items[i] for i in proposal.path(index)]
            alone = subject.answer((context, Proposal.chain(path))).checks[-1].verdict
            what = f"{where} item {index} is judged {one.verdict!r}, and {alone!r} in the chain of its path"
            ensure(alone == one.verdict or "unchecked" in (alone, one.verdict), f"{what}; {hint}")
    what = "no tree was verified: it refused the kit's, as is right where it cannot read them, or there was no chain"
    exercised(trees, f"{what} of its items to make one of; give one among proposals=")


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

    words = "repr str format bytes hash eq ne lt le gt ge bool len iter next getitem contains call int float index"
    words += " round add radd sub rsub mul rmul truediv rtruediv floordiv rfloordiv mod rmod pow rpow neg abs and or"
    words += " xor reversed getattribute setattr reduce_ex enter fspath array"
    return type("Poison", (), {f"__{word}__": method(f"__{word}__") for word in words.split()})(), touched


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


@check("verifier", after=["verdicts_are_known_words"], when=_provides("verdicts"))
def a_crash_is_no_verdict(subject: Subject) -> None:
    """An item whose check crashes is an "error" (a "timeout"), or the exception comes out; it is not judged by that."""
    hint = "catch only what means a refusal, let the rest out or say Check('error')"
    reached, said = 0, set[str]()
    for context in subject.contexts:
        for kind, item, touched in _poisons(subject):
            try:
                checks = subject.answer((context, Proposal.chain([item]))).checks
            except Exception as error:  # coming out is right: the driver makes a Failure of it
                reached += len(touched)
                said |= {f"raised {type(error).__name__}"}
                continue
            reached += len(touched)
            verdict = checks[0].verdict if checks else ""
            said |= {f"said {verdict!r}"}
            what = f"an item whose check crashed ({kind}, at {touched[-1:]}) was judged {verdict!r}"
            ensure(not touched or verdict not in ("pass", "reject", "unchecked"), f"{what}; {hint}")
    exercised(reached, f"poison not exercised: {_NOT_REACHED} (it {', '.join(sorted(said))}); {_OWN_POISON}")


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
        before = subject.answer((context, proposal)).checks
        _, bad, touched = next(_poisons(subject), ("", None, []))
        half, blocks = len(proposal) // 2, blocks + 1
        items = [*proposal.items[:half], bad, *proposal.items[half:]]
        try:
            checks = subject.answer((context, Proposal.alternatives(items))).checks
        except Exception:
            reached += len(touched)
            continue
        reached += len(touched)
        after = (*checks[:half], *checks[half + 1 :])
        for index, (one, other) in enumerate(zip(before, after, strict=True)):
            alike = one.verdict == other.verdict or other.verdict in ("error", "timeout", "unchecked")
            what = f"item {index} is judged {one.verdict!r}, and {other.verdict!r} beside an item whose check crashes"
            ensure(alike, f"{what}; guard each item's check by itself")
    exercised(blocks, _NO_ALTERNATIVES)
    exercised(reached, f"poison not exercised: {_NOT_REACHED}; {_OWN_POISON}")
