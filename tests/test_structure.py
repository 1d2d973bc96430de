"""How the packages hang together, beyond what the import contracts say: no module imports itself by way of others."""

from __future__ import annotations

import grimp

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
