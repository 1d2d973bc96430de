"""Which models a part's word rests on, and whether a pipeline is checked by the kind of model that drafts for it alone.

A model shares the mistakes of its kind: what one of a family gets wrong, another passes. A check behind it that rests
on no model is what such a pipeline lacks.
"""

from __future__ import annotations

from typing import Any

__all__ = ["families_of", "stands_outside"]


def families_of(part: Any) -> frozenset[str]:
    """The families of the models that a part's word rests on; empty for one that rests on none, or cannot tell.

    A part made of others says theirs, as `families`; one with a model of its own says `family`.
    """
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
