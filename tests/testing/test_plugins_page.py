"""docs/plugins.md against the code: what a part may have, what it is told, and where it is registered."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

from draftverify import Context, protocols
from draftverify.engine.parts import EVIDENCE
from draftverify.kit.registry import CHECKS
from draftverify.plugins import ROLES
from draftverify.values import LawKind, Shape

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "plugins.md").read_text()
READERS = [
    *sorted((ROOT / "draftverify" / "engine").glob("*.py")),
    ROOT / "draftverify" / "identity.py",
    ROOT / "draftverify" / "checks" / "families.py",
    ROOT / "draftverify" / "stats" / "block" / "controller.py",
    ROOT / "draftverify" / "bench" / "runner" / "bench.py",
    ROOT / "draftverify" / "lab" / "fit.py",
    ROOT / "draftverify" / "bench" / "config" / "parameters.py",
    ROOT / "draftverify" / "checks" / "scores.py",
]
"""Where the framework asks a part by name what it has."""
# What is asked of arrays, functions, annotations, packages and the engine's own objects.
NOT_OF_PARTS = {
    *("item", "tolist", "dtype", "raw_maxima", "cancelling", "n", "first", "now", "rest", "kind", "function"),
    *("__index__", "__name__", "__call__", "__init__", "__module__", "__qualname__", "__dataclass_fields__"),
    *("__wrapped__",),
    *(
        "model_fields",
        "_is_protocol",
        "asynchronous",
        "monitor",
        "size",
        "observe",
        "propose",
        "verify",
        "decide",
    ),
}


def rows(heading: str) -> dict[str, str]:
    """The names in the first column of the table under a heading, and the rows."""
    section = PAGE.split(f"# {heading}\n", 1)[1].split("\n#", 1)[0]
    return {match[1]: match[0] for match in re.finditer(r"^\| `(\w+)[^`]*` \|.*$", section, re.M)}


def optional() -> set[str]:
    """What the page lists that a part may have."""
    sections = ("Any part", "Generators", "Verifiers", "Rules", "Block sizes and metrics")
    return {name for section in sections for name in rows(section)}


def asked() -> Iterator[str]:
    """The names that the framework looks for on parts, by getattr, hasattr, or a request that has a method for many."""
    for file in READERS:
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("getattr", "hasattr"):
                name = node.args[1]
                if isinstance(name, ast.Constant) and isinstance(name.value, str):
                    yield name.value
            named = getattr(getattr(node, "target", None), "id", "")
            if isinstance(node, ast.AnnAssign) and named in ("method", "many") and node.value is not None:
                yield from (each.value for each in ast.walk(node.value) if isinstance(each, ast.Constant))


def test_every_name_that_the_framework_asks_a_part_for_is_on_the_page() -> None:
    """A new capability is documented."""
    found = {name for name in asked() if isinstance(name, str)} - NOT_OF_PARTS
    assert found - optional() == set()


def test_every_name_on_the_page_is_asked_for() -> None:
    """A capability that is gone is gone from the page; so are those that only a docstring promised."""
    promised = {
        "chance",
        "exact",
        "describe",
        "explain",
        "at_once",
        "drafts_from",
        "recalled",
        "rejudged",
        "thresholds",
        "text",
    }  # asked for by audits, records, comparisons, replays, exports
    sources = "".join(path.read_text() for path in (ROOT / "draftverify").rglob("*.py"))
    assert all(f'"{name}"' in sources for name in promised)
    assert optional() - {*asked()} - promised == set()


def test_the_protocols_and_the_page_name_the_same() -> None:
    """What stands in the docstrings of draftverify.protocols is on the page."""
    document = protocols.__doc__ or ""
    named = {name for line in re.findall(r"^- (`.+)", document, re.M) for name in re.findall(r"`(\w+)", line)}
    for each in (protocols.Generator, protocols.Verifier, protocols.AcceptanceRule):
        named |= set(re.findall(r"^        (\w+): ", each.__doc__ or "", re.M))
    words = {"async", "propose", "verify", "decide", "arun", "Task", "Done", "Choice", "False", "True"}
    words |= {"Explanation", "BlockSize"}
    assert {name for name in named if f"`{name}" not in PAGE} - words == set()


def test_the_page_has_contexts_fields() -> None:
    """Each field of Context, in its order, and its two properties."""
    assert tuple(rows("What a part is told: Context")) == Context.__struct_fields__
    assert all(f"`{name}`" in PAGE for name, kind in vars(Context).items() if isinstance(kind, property))


def test_the_page_has_every_group_and_word() -> None:
    """Entry-point groups, kinds of evidence, laws and shapes."""
    for role in ROLES.values():
        assert f"`{role.group}`" in PAGE
    for table, name, words in (
        ("Verifiers", "provides", EVIDENCE),
        ("Generators", "laws", get_args(LawKind)),
        ("Generators", "shape", get_args(Shape)),
    ):
        assert set(re.findall(r'"(\w+)"', rows(table)[name])) >= {*words}


def test_what_the_kit_reads_of_a_part_is_on_the_page() -> None:
    """A check is about something that an author can read of."""
    files = (ROOT / "draftverify" / "kit").glob("*.py")
    read = {name for file in files for name in re.findall(r'declared\("(\w+)"', file.read_text())}
    assert read
    assert read <= optional()
    assert CHECKS
