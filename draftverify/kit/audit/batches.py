"""Batches against single calls: `propose_many`, `verify_many` and `decide_many` at the recorded rounds.

Draws are keyed by task and round, so a part must answer in a batch what it answers alone. The recorded rounds are put
into one batch of blocks of unlike lengths, where padding and mixed-up rows show, with nothing cached.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

import msgspec

from draftverify.engine.pipeline import Pipeline
from draftverify.engine.requests import Draft
from draftverify.kit.audit.driving import uncached
from draftverify.kit.audit.recorded import ROWS_APART, RecordedRound, rows_apart
from draftverify.kit.contexts import as_numpy
from draftverify.kit.drafts import on_host
from draftverify.protocols import DecidesMany, ProposesMany, VerifiesMany
from draftverify.randomness import Draws, stream_key
from draftverify.traits import offers
from draftverify.values import Context, Decision, Evidence, Proposal, Verification

DECISIONS = 1000
"""About so many decisions are compared."""

ROUNDING = 2
"""So many of them may differ: a draw within rounding of a threshold, of which there is one in 100,000 at most."""

UNLIKE = 0.25
"""The share of proposals that may differ: rounded rows move an item now and then, other draws move nearly all."""


def batch_problems(
    pipeline: Pipeline, recorded: Sequence[RecordedRound], *, judge_rule: bool, rows: bool
) -> tuple[list[str], list[str]]:
    """What parts do otherwise in a batch than alone, or when they are asked again.

    Args:
        pipeline: opened.
        recorded: its rounds.
        judge_rule: whether the rule is looked at.
        rows: whether the verifier's rows are; not at temperature 0, where rounding can move all of a row's mass.

    Returns:
        Failures, and notes of what is no fault.
    """
    failures: list[str] = []
    notes: list[str] = []

    def check(
        name: str, look: Callable[[Any, Any], list[str]], part: Any, at: Any, messages: list[str]
    ) -> None:
        try:
            messages += look(part, at)
        except Exception as problem:
            failures.append(f"{name}: {type(problem).__name__}: {problem}")

    for generator in pipeline.generators:
        drafts = [entry.drafting for entry in recorded if entry.redrafts]
        drafts = [draft for draft in drafts if draft is not None and draft.part is generator]
        if drafts:
            messages = failures if pipeline.declared[id(generator)].deterministic else notes
            check("propose_many", _generator, generator, drafts, messages)
    cut = [_cut(entry, at) for at, entry in enumerate(recorded)]
    if rows and cut and offers(pipeline.verifier, VerifiesMany):
        bound = max(entry.rows_bound for entry in recorded)
        check("verify_many", partial(_verifier, bound), pipeline.verifier, cut, failures)
    if judge_rule and cut and offers(pipeline.rule, DecidesMany):
        check("decide_many", _rule, pipeline.rule, cut, failures)
    return failures, notes


def _cut(recorded: RecordedRound, at: int) -> tuple[Context, Proposal, Evidence]:
    """The round with its block cut to a length that its neighbours do not have."""
    block, maxima = recorded.proposal, recorded.raw_maxima
    m = len(block) - at % (len(block) + 1)
    block = on_host(msgspec.structs.replace(block, items=block.items[:m], parents=block.parents[:m]))
    evidence = Evidence(
        target=recorded.target[: m + 1], raw_maxima=None if maxima is None else maxima[: m + 1]
    )
    return recorded.context, block, evidence


def _verifier(bound: float, verifier: Any, cut: Sequence[tuple[Context, Proposal, Evidence]]) -> list[str]:
    with _all_uncached([context for context, *_ in cut]) as contexts:
        verifications = verifier.verify_many(contexts, [block for _, block, _ in cut])
    distances = [
        rows_apart(as_numpy(verification.evidence.target), evidence.target)
        for verification, (*_, evidence) in zip(verifications, cut, strict=True)
    ]
    if max(distances) <= bound:
        return []
    return [
        f"in a batch of {len(cut)} blocks the verifier's rows are up to TV {max(distances):.2g} from those of the same "
        "blocks alone (rows of another session, or of the padding)"
    ]


def _rule(rule: Any, cut: Sequence[tuple[Context, Proposal, Evidence]]) -> list[str]:
    proposals = [block for _, block, _ in cut]
    verifications = [Verification(evidence=evidence) for *_, evidence in cut]
    small = cut[0][2].target.shape[-1] < 5000  # type: ignore[union-attr]
    copies = -(-DECISIONS // len(cut)) if small else 16  # large rows take their time
    unlike = 0
    with _all_uncached([context for context, *_ in cut]) as contexts:
        for copy in range(copies):
            rngs = [Draws(stream_key(copy, f"batch {at}", 0, "rule"), 0) for at in range(len(cut))]
            batched = rule.decide_many(contexts, proposals, verifications, rngs)
            for decision, *call in zip(batched, contexts, proposals, verifications, rngs, strict=True):
                unlike += _effect(decision) != _effect(rule.decide(*call))
    if unlike <= ROUNDING:
        return []
    return [
        f"decide_many decides otherwise than decide on the same block with the same draws, in {unlike} of "
        f"{copies * len(cut)} decisions of a batch of unlike lengths"
    ]


def _effect(decision: Decision) -> Any:
    """The parts of a decision that change the answer."""
    spliced = tuple(int(value) for value in decision.spliced)
    return tuple(decision.kept), spliced, tuple(decision.held), decision.done


def _generator(generator: Any, drafts: Sequence[Draft]) -> list[str]:
    ns = [1 + at % draft.n for at, draft in enumerate(drafts)]
    contexts = [draft.context for draft in drafts]

    def propose_one(of: list[Context], n: list[int]) -> list[Proposal]:
        return [generator.propose(of[0], n[0])]

    def proposed_alone() -> list[Proposal]:
        return [_proposed(propose_one, [context], [n])[0] for context, n in zip(contexts, ns, strict=True)]

    baseline = proposed_alone()
    conditions = [("asked twice with the same draws", proposed_alone())]
    if offers(generator, ProposesMany):
        conditions.append(("in a batch", _proposed(generator.propose_many, contexts, ns)))
    problems: list[str] = []
    for condition, proposals in conditions:
        distances = [
            rows_apart(b.law.q, a.law.q)
            for a, b in zip(baseline, proposals, strict=True)
            if _block(a) == _block(b)
        ]
        if max(distances, default=0.0) > ROWS_APART:
            problems.append(
                f"{condition} the generator declares another q for the same items, up to TV {max(distances):.2f} away"
            )
        unlike = sum(_block(a) != _block(b) for a, b in zip(baseline, proposals, strict=True))
        if unlike > max(1, UNLIKE * len(baseline)):
            problems.append(
                f"{condition} the generator proposes otherwise than before, in {unlike} of {len(baseline)} rounds: its "
                "draws are not `context.draws` alone, and nothing shows that they are independent of the rounds before"
            )
            break
    return problems


def _proposed(
    call: Callable[[list[Context], list[int]], Any], contexts: Sequence[Context], ns: list[int]
) -> list[Proposal]:
    with _all_uncached(contexts) as fresh:
        return [on_host(proposal) for proposal in call(fresh, ns)]


def _block(proposal: Proposal) -> Any:
    return tuple(proposal.items), proposal.parents, proposal.law.kind


@contextmanager
def _all_uncached(contexts: Sequence[Context]) -> Iterator[list[Context]]:
    with ExitStack() as stack:
        yield [stack.enter_context(uncached(context)) for context in contexts]
