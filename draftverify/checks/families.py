"""Which models a part's word rests on, and whether a pipeline is checked by the kind of model that drafts for it alone.

A model shares the mistakes of its kind: what one of a family gets wrong, another passes. A check behind it that rests
on no model is what such a pipeline lacks.
"""

from __future__ import annotations

import warnings

from draftverify.engine.parts import Parts
from draftverify.errors import PipelineError, SelfVerificationWarning, self_verification_told
from draftverify.traits import name_of


def shared_families(pipeline: Parts) -> tuple[str, ...]:
    """The families of models that both draft and judge in a pipeline, with no outside check behind them.

    Distributions are no judgement, and a fallback that is trusted is not judged.
    """
    judging = pipeline.verifier_traits
    if "target" in judging.provides or judging.stands_outside:
        return ()
    return tuple(sorted(_drafting(pipeline) & judging.families))


def _drafting(pipeline: Parts) -> frozenset[str]:
    trusted = [clause.generator for clause in pipeline.policy.clauses if not clause.verified]
    judged = [part for part in pipeline.generators if not any(part is fallback for fallback in trusted)]
    return frozenset[str]().union(*(pipeline.declared[id(part)].families for part in judged))


def check_families(pipeline: Parts) -> None:
    """Warn of a pipeline that checks itself, and refuse a generator that would refine its work by its own word.

    Raises:
        PipelineError: a generator needs feedback from outside, and the verifier is of its own family.
    """
    verifier, judging = name_of(pipeline.verifier), pipeline.verifier_traits
    for generator in pipeline.generators:
        drafting = pipeline.declared[id(generator)]
        common = drafting.families & judging.families
        if drafting.needs_feedback and common and not judging.stands_outside:
            raise PipelineError(
                f"the generator {name_of(generator)} needs feedback from outside, and the verifier {verifier} is of "
                f"its own family, {', '.join(sorted(common))}; have a verifier that checks by other means say what is "
                "wrong (on_rejection: feedback), or give the generator its argument without_outside_feedback"
            )
    shared = shared_families(pipeline)
    if not shared:
        return
    same_kind = [part for part in pipeline.generators if pipeline.declared[id(part)].families & {*shared}]
    drafters = " and ".join(dict.fromkeys(map(name_of, same_kind)))
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
