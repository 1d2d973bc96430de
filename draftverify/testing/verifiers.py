"""The checks for verifiers: one word per item, evidence as promised, and a crash that is never a rejection."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np

from draftverify.testing.assertions import ensure
from draftverify.testing.contexts import advanced, as_numpy
from draftverify.testing.registry import check
from draftverify.testing.subject import Subject
from draftverify.values import VERDICTS, Context, Proposal, Verification


def _found(subject: Subject) -> list[tuple[Context, Proposal, Verification]]:
    return [(context, proposal, subject.answer((context, proposal))) for context, proposal in subject.calls]


def _provides(word: str, *, repeats: bool = False) -> Callable[[Subject], bool]:
    return lambda s: word in s.declared("provides", {"verdicts"}) and (s.repeats() or not repeats)


def _target(verification: Verification) -> Any:
    return as_numpy(getattr(verification.evidence, "target", None)).astype(np.float64)


@check("verifier", after=["answers"])
def returns_a_verification(subject: Subject) -> None:
    """verify() returns a Verification."""
    for _, _, found in _found(subject):
        ensure(
            type(found) is Verification,
            f"verify() returned a {type(found).__name__}; return Verification(checks=…)",
        )


@check("verifier", after=["returns_a_verification"])
def one_check_for_each_item(subject: Subject) -> None:
    """Checks, where there are any, are as many as items."""
    for _, proposal, found in _found(subject):
        got, n = len(found.checks), len(proposal.items)
        ensure(
            got in (0, n), f"{got} checks came for {n} items; an item that was not looked at is 'unchecked'"
        )


@check("verifier", after=["one_check_for_each_item"])
def verdicts_are_known_words(subject: Subject) -> None:
    """Every verdict is one of the six words."""
    for _, _, found in _found(subject):
        for verdict in (getattr(one, "verdict", one) for one in found.checks):
            ensure(verdict in VERDICTS, f"{verdict!r} is no verdict; one of {', '.join(VERDICTS)} is")


@check("verifier", after=["verdicts_are_known_words"])
def provides_what_it_says(subject: Subject) -> None:
    """Everything in `provides` is in every verification of a block, with a row for each item (and the context)."""
    provides = subject.declared("provides", {"verdicts"})
    for _, proposal, found in _found(subject):
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


@check(
    "verifier",
    after=["reproducible_under_its_seed", "target_rows_are_distributions"],
    when=_provides("target", repeats=True),
)
def rows_depend_on_their_prefix_alone(subject: Subject) -> None:
    """The rows of a shorter chain begin the longer one's, and accepted values count like items."""
    for context, proposal, found in _found(subject):
        n = len(proposal.items) if proposal.fits("chain") else 0
        shorter = [(context, Proposal.chain(list(proposal.items[:i]))) for i in range(n)]
        accepted = (advanced(context, *proposal.items[:n]), Proposal.chain(()))
        for i, call in enumerate([*shorter, accepted] if n else ()):
            row = _target(subject.answer(call))[-1]
            near = np.allclose(_target(found)[i], row, rtol=subject.tolerance, atol=subject.tolerance)
            what = "when more items follow; mask what comes later" if i < n else "once its items are accepted"
            ensure(near, f"the row after item {i - 1} of {n} changes {what}")


@check(
    "verifier",
    after=["reproducible_under_its_seed", "provides_what_it_says"],
    when=_provides("verdicts", repeats=True),
)
def judges_an_item_alone_as_in_the_block(subject: Subject) -> None:
    """An alternative verified by itself, as re-verification does, gets the verdict that it got in the block."""
    if "cross" in subject.declared("provides", ()):
        return
    for context, proposal, found in _found(subject):
        for index, one in enumerate(
            found.checks if found.deterministic and proposal.fits("alternatives") else ()
        ):
            alone = subject.answer((context, proposal.subset([index]))).checks[0].verdict
            what = f"item {index} is judged {one.verdict!r} in the block and {alone!r} alone"
            alike = alone == one.verdict or "unchecked" in (alone, one.verdict)
            ensure(alike, f"{what}; judge each alternative by itself, or provide 'cross'")


@check(
    "verifier",
    after=["reproducible_under_its_seed", "provides_what_it_says"],
    when=_provides("verdicts", repeats=True),
)
def leaves_items_unchecked_only_for_cause(subject: Subject) -> None:
    """An item is unchecked only when enough passed, lowest index first, or when one that it stands on did not pass."""
    for context, proposal in subject.calls:
        passes: dict[int | None, list[int]] = {}
        for enough in (None, 1, 2):
            checks = subject.answer((msgspec.structs.replace(context, enough=enough), proposal)).checks
            passes[enough] = passed = [i for i, one in enumerate(checks) if one.verdict == "pass"]
            for index in (i for i, one in enumerate(checks) if one.verdict == "unchecked"):
                stands = all(checks[above].verdict == "pass" for above in proposal.path(index)[:-1])
                stopped = enough is not None and passed[enough - 1 : enough] and passed[enough - 1] < index
                what = f"item {index} of {len(checks)} is unchecked with context.enough = {enough}"
                ensure(stopped or not stands, f"{what} and {len(passed)} passed before it; check it")
            first = passes[None][:enough]
            ensure(
                passed[: len(first)] == first,
                f"with context.enough = {enough}, {passed} passed; {first} would have",
            )


def poison() -> tuple[Any, list[str]]:
    """An item that raises whatever is done with it, and the list of what was."""
    touched: list[str] = []

    def method(name: str) -> Any:
        def fail(self: object, *args: object) -> Any:
            touched.append(name)
            raise RuntimeError(f"{name} of an item that makes checks crash")

        return fail

    words = "repr str format bytes hash eq ne lt le gt ge bool len iter next getitem contains call int float index"
    words += " round add radd sub rsub mul rmul truediv rtruediv floordiv rfloordiv mod rmod pow rpow neg abs and or"
    words += " xor reversed getattribute setattr reduce_ex enter fspath array"
    return type("Poison", (), {f"__{word}__": method(f"__{word}__") for word in words.split()})(), touched


@check("verifier", after=["verdicts_are_known_words"], when=_provides("verdicts"))
def an_error_is_not_a_reject(subject: Subject) -> None:
    """An item whose check crashes is an "error", or the exception comes out; never a "reject"."""
    for context in subject.contexts:
        for item, touched in (
            [poison()] if subject.poison is None else [(item, ["it"]) for item in subject.poison]
        ):
            try:
                checks = subject.answer((context, Proposal.chain([item]))).checks
            except Exception:  # coming out is right: the driver makes a Failure of it
                continue
            crashed = touched and checks and checks[0].verdict == "reject"
            what = f"an item whose check crashed (at {touched[-1:]}) was judged 'reject'"
            ensure(
                not crashed,
                f"{what}; catch only what means a refusal, let the rest out or say Check('error')",
            )
