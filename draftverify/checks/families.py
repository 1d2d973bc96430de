"""Which models a part's word rests on, and whether a pipeline is checked by the kind of model that drafts for it alone.

A model shares the mistakes of its kind: what one of a family gets wrong, another passes. A check behind it that rests
on no model is what such a pipeline lacks.
"""

from __future__ import annotations

import warnings
from typing import Any

from draftverify.engine.parts import Parts, name_of
from draftverify.errors import PipelineError, SelfVerificationWarning, self_verification_told

__all__ = ["check_families", "families_of", "shared_families", "stands_outside"]


def families_of(part: Any) -> frozenset[str]:
    """The families of the models that a part's word rests on; empty for one that rests on none, or cannot tell.

    A part made of others says theirs, as `families`; one with a model of its own says `family`. A pipeline has those of
    its generators.
    """
    if isinstance(part, Parts):
        return frozenset[str]().union(*map(families_of, part.generators))
    families = getattr(part, "families", None)
    if families is not None:
        return frozenset(families)
    family = getattr(part, "family", None)
    return frozenset() if family is None else frozenset({family})


def stands_outside(verifier: Any) -> bool:
    """Whether an item passes this verifier only where one that rests on no model passed it.

    A verifier made of verifiers says so itself, as `outside`; of another it is true when it has no family.
    """
    outside = getattr(verifier, "outside", None)
    return not families_of(verifier) if outside is None else bool(outside)


def shared_families(pipeline: Parts) -> tuple[str, ...]:
    """The families of models that both draft and judge in a pipeline, with no outside check behind them.

    Distributions are no judgement, and a fallback that is trusted is not judged.
    """
    verifier = pipeline.verifier
    if "target" in getattr(verifier, "provides", ()) or stands_outside(verifier):
        return ()
    return tuple(sorted(_drafting(pipeline) & families_of(verifier)))


def _drafting(pipeline: Parts) -> frozenset[str]:
    trusted = [clause.generator for clause in pipeline.policy.clauses if not clause.verified]
    judged = [part for part in pipeline.generators if not any(part is fallback for fallback in trusted)]
    return frozenset[str]().union(*map(families_of, judged))


def check_families(pipeline: Parts) -> None:
    """Warn of a pipeline that checks itself, and refuse a generator that would refine its work by its own word.

    Raises:
        PipelineError: a generator needs feedback from outside, and the verifier is of its own family.
    """
    verifier = name_of(pipeline.verifier)
    for generator in pipeline.generators:
        common = families_of(generator) & families_of(pipeline.verifier)
        if getattr(generator, "needs_feedback", False) and common and not stands_outside(pipeline.verifier):
            raise PipelineError(
                f"the generator {name_of(generator)} needs feedback from outside, and the verifier {verifier} is of "
                f"its own family, {', '.join(sorted(common))}; have a verifier that checks by other means say what is "
                "wrong (on_rejection: feedback), or give the generator its argument without_outside_feedback"
            )
    shared = shared_families(pipeline)
    if not shared:
        return
    drafting = [part for part in pipeline.generators if families_of(part) & {*shared}]
    drafters = " and ".join(dict.fromkeys(map(name_of, drafting)))
    message = (
        f"the pipeline {pipeline.name!r} checks itself: what {drafters} drafts is judged by {verifier}, which rests on "
        f"models of the same family ({', '.join(shared)}) and passes the mistakes that it makes. Put a check that "
        "rests on no model before it, in all_of, or judge with another family; the reports mark the pipeline"
    )
    listener = self_verification_told.get()
    if listener is None:
        warnings.warn(message, SelfVerificationWarning, stacklevel=2)
    else:
        listener(message)
