"""The calls that a component is tested with: for each task, the arguments of successive rounds."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence, Set
from itertools import product
from typing import Any, TypeAlias

import msgspec
import numpy as np
from msgspec import UNSET

from draftverify.kit.contexts import advanced, make_draws
from draftverify.kit.tables import DraftFrom, TableModel, TargetFrom
from draftverify.traits import EvidenceKind, RuleTraits
from draftverify.values import (
    VERDICTS,
    Check,
    Context,
    Evidence,
    Held,
    LawKind,
    Proposal,
    Shape,
    Verification,
)

Call: TypeAlias = "tuple[Any, ...]"
"""The arguments of one call."""
Answer: TypeAlias = "Callable[[Call], Any]"
"""What the component answers to a call."""
SHAPES: tuple[Shape, ...] = ("chain", "alternatives", "tree")
LAWS: tuple[LawKind, ...] = ("given", "iid", "without_replacement")


def drafting(answer: Answer, context: Context, n: int) -> list[Call]:
    """Three rounds, in each of which the first item was accepted and the others were dropped; then one for the dropped
    ones alone, as after a policy step for partial progress.
    """
    history: list[Call] = []
    refused: tuple[Any, ...] = ()
    for _ in range(3):
        history.append((context, n))
        proposal = answer(history[-1])
        if type(proposal) is not Proposal or not len(proposal.items):
            break
        context = advanced(context, proposal.items[0])
        refused = tuple(proposal.items[1:])
        retry = msgspec.structs.replace(context, refused=refused), len(refused)
    return [*history, retry] if refused else history


def verifying(
    answer: Answer, context: Context, proposals: Sequence[Proposal] | None, *, by_target: bool
) -> list[Call]:
    """Some blocks, then blocks after other values were accepted than the last one held: a cache must roll back.

    Args:
        answer: the verifier.
        context: of the first block.
        proposals: the author's blocks; None: small integers, or texts, whichever it takes without an exception.
        by_target: whether it gives distributions.
    """
    blocks = list(proposals) if proposals is not None else _blocks(answer, context, by_target)
    history: list[Call] = [(context, block) for block in blocks]
    chain = next((block for block in blocks if block.fits("chain") and len(block)), None)
    chosen = chain or (blocks[0] if proposals is None else None)
    if chosen is None:
        return history  # nobody knows what of the author's items may stand on another
    a, b, c = (chosen.items[i % len(chosen)] for i in range(3))
    if by_target:
        for values, items in (
            ((), [c, a, b]),
            ((), [b]),
            ((a, c), [b, a]),
            ((a, c, b), []),
            ((a, c, b, b), [c]),
        ):
            history.append((advanced(context, *values) if values else context, Proposal.chain(items)))
    elif chain is not None:
        checks = getattr(answer((context, chain)), "checks", ())
        refused = [i for i, check in enumerate(checks) if getattr(check, "verdict", "") != "pass"]
        passed = min(refused, default=len(checks))
        for continuation in (chain.items[passed:], ()) if passed else ():
            history.append((advanced(context, *chain.items[:passed]), Proposal.chain(list(continuation))))
    tree = (context, Proposal.tree([a, b, c, b, a], (-1, 0, 0, -1, 3)))
    try:
        answer(tree)
    except Exception:
        return history  # it refuses what it cannot read, as it should
    return [*history, tree]


def _blocks(answer: Answer, context: Context, by_target: bool) -> list[Proposal]:
    if by_target:
        evidence = getattr(answer((context, Proposal.chain(()))), "evidence", None)
        V = getattr(getattr(evidence, "target", None), "shape", (0, 2))[-1]
        # After a prompt that ends in 0, rows unlike each other.
        return [Proposal.chain([V - 1, 1 % V, V // 2])]
    for pool in ([0, 1, 2, 3, 4, 5], ["a", "b", "the cat", "mat", "", "1"]):
        blocks = [Proposal.alternatives(pool), Proposal.alternatives(pool[3:] + pool[:3]), Proposal.chain([])]
        try:
            answer((context, blocks[0]))
        except Exception as error:
            refused = error
        else:
            return blocks
    raise refused


def deciding(traits: RuleTraits, contexts: Sequence[Context]) -> Iterator[Call]:
    """Blocks of every shape, law and size that a rule takes, with just the evidence that it needs.

    Args:
        traits: what the rule says of itself.
        contexts: taken in turn.
    """
    laws, shapes, needs = traits.laws or LAWS, traits.shapes or SHAPES, traits.needs
    by_target = bool({"target", "raw_maxima"} & needs)
    held = (Held("a", 0.5, 0, 0), Held("b", 0.25, 0, 1))
    for index, (shape, law, n, repetition) in enumerate(product(shapes, laws, range(5), range(3))):
        context = contexts[index % len(contexts)]
        context = advanced(context, 1) if repetition == 1 else context
        ballots = held if repetition == 2 and not by_target else context.held
        context = msgspec.structs.replace(context, attempt=index, enough=traits.enough, held=ballots)
        proposal = DraftFrom(TableModel(seed=1), shape=shape, law=law).propose(context, n)
        if not by_target:
            proposal = msgspec.structs.replace(proposal, items=["abcc"[item] for item in proposal.items])
        verification = _verification(context, proposal, needs, index)
        yield context, proposal, verification, make_draws(context.task.id, attempt=index, round=context.round)


def _verification(context: Context, proposal: Proposal, needs: Set[EvidenceKind], index: int) -> Verification:
    n = len(proposal)
    checks: list[Check] = []
    uniforms = make_draws("synthetic", role="verdicts").uniforms(range(n), draw=index)
    for u in uniforms if {"verdicts", "scores"} & needs else ():
        verdict = "pass" if u < 0.4 else VERDICTS[int((u - 0.4) / 0.6 * 6)]
        scored = verdict in ("pass", "reject") and ("scores" in needs or u < 0.2)
        correction = "d" if verdict == "reject" and u < 0.46 else UNSET
        checks.append(Check(verdict, score=u if scored else None, correction=correction))
    # As of pairs: what one item has of another the other has not of it; on the diagonal ties.
    grid = np.asarray([0.5 if i == j else float((i - j) % 5 < 3) for i in range(n) for j in range(n)])
    grid = grid.reshape(n, n)
    arrays: dict[str, Any] = {"cross": grid, "hidden": np.zeros((n + 1, 4))}
    if {"target", "raw_maxima"} & needs:
        table = TargetFrom(TableModel(seed=2)).verify(context, proposal).evidence
        arrays |= {name: getattr(table, name) for name in ("target", "raw_maxima")}
    evidence = Evidence(**{name: array for name, array in arrays.items() if name in needs})
    goes_on = ("d", "e")[: index % 3] if checks and proposal.fits("chain") else ()
    return Verification(
        checks=tuple(checks), evidence=evidence if needs & {*arrays} else None, correction=goes_on
    )
