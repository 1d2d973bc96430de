"""What else than generator, verifier and rule the costs of a pipeline rest on, as it stands."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from draftverify.bench.config.specs import ComponentSpec
from draftverify.engine.pipeline import Pipeline
from draftverify.errors import ConfigError
from draftverify.identity import identity_of
from draftverify.rejection import Clause
from draftverify.traits import name_of
from draftverify.values import EMPTY


def conditions_of(
    pipeline: Pipeline, executor: ComponentSpec | None, inherited: Mapping[str, Any] = EMPTY
) -> dict[str, Any]:
    """Settings, stopping rule, policy, budget and executor as plain data, under the names that a config has for them.

    Args:
        pipeline: built.
        executor: of its experiment; None where that is not known, and then it is left out.
        inherited: settings of the pipelines that it drafts for.
    """
    settings = {**inherited, **pipeline.settings}
    reads = pipeline.traits.reads
    conditions: dict[str, Any] = {
        "settings": {name: value for name, value in settings.items() if reads is None or name in reads},
        "done": _part(pipeline.done),
        "on_rejection": [_clause(clause) for clause in pipeline.policy.clauses],
        "budget": pipeline.budget,
    }
    if executor is not None:
        conditions["executor"] = {"use": executor.use, **executor.arguments}
    plain: dict[str, Any] = msgspec.to_builtins(conditions)
    return plain


def _clause(clause: Clause) -> dict[str, Any]:
    """A clause as a config would have it, what it leaves out left out."""
    usual = Clause(do="give_up")
    names = [field for field in clause.__struct_fields__ if field not in ("do", "generator")]
    changed = {
        field: getattr(clause, field) for field in names if getattr(clause, field) != getattr(usual, field)
    }
    return {
        "do": clause.do,
        **changed,
        **({"generator": _part(clause.generator)} if clause.generator is not None else {}),
    }


def _part(part: object) -> dict[str, str] | None:
    if part is None:
        return None
    try:
        return {"name": name_of(part), "identity": identity_of(part)}
    except ConfigError:  # it cannot be told from others, and is no reason to refuse what it stands beside
        return {"name": name_of(part)}
