"""How the packages hang together, beyond what the import contracts say."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import fields
from inspect import isfunction
from pathlib import Path

import grimp

from draftverify import protocols
from draftverify.traits import BlockTraits, GeneratorTraits, RuleTraits, VerifierTraits

ROOT = Path(__file__).parents[1]

PACKAGES = [
    "draftverify",
    "draftverify_llm",
    "draftverify_tokens",
    "draftverify_plan",
    "draftverify_code",
    "draftverify_retrieval",
    "draftverify_reasoning",
]


def test_no_module_imports_itself_by_way_of_others() -> None:
    """Imports for type checkers and inside functions count: modules in a cycle can only be understood together."""
    graph = grimp.build_graph(*PACKAGES, exclude_type_checking_imports=False, cache_dir=None)
    below = {module: graph.find_upstream_modules(module) for module in graph.modules}
    cycles = {
        frozenset({module, *(other for other in found if module in below[other])})
        for module, found in below.items()
    }
    assert [sorted(cycle) for cycle in cycles if len(cycle) > 1] == []


def probed(path: Path) -> Iterator[str]:
    """The names that a file looks for by getattr or hasattr."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("getattr", "hasattr"):
            name = node.args[1] if len(node.args) > 1 else None
            if isinstance(name, ast.Constant) and isinstance(name.value, str):
                yield name.value


def test_parts_are_asked_in_one_file() -> None:
    """What a part says of itself, and whether it has a method, is read by draftverify.traits and nowhere else.

    Text models, which are no parts, say `family`, `deterministic` and `concurrent`; arrays have a `shape`.
    """
    kinds = [kind for kind in vars(protocols).values() if getattr(kind, "_is_protocol", False)]
    methods = {
        name for kind in kinds for name, value in vars(kind).items() if isfunction(value) and name[0] != "_"
    }
    traits = {
        field.name
        for kind in (GeneratorTraits, VerifierTraits, RuleTraits, BlockTraits)
        for field in fields(kind)
    }
    asked = (methods | traits | {"family", "traits"}) - {"shape", "name", "text"}
    elsewhere = {
        (path.relative_to(ROOT).as_posix(), name)
        for root in ("draftverify", "adapters")
        for path in (ROOT / root).rglob("*.py")
        if path != ROOT / "draftverify" / "traits.py"
        for name in probed(path)
        if name in asked
    }
    assert elsewhere == {
        ("adapters/llm/draftverify_llm/text.py", "concurrent"),
        ("adapters/llm/draftverify_llm/text.py", "deterministic"),
        ("adapters/llm/draftverify_llm/text.py", "family"),
        ("draftverify/kit/subject.py", "deterministic"),  # of a Verification, among answers
    }
