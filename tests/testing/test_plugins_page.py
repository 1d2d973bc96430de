"""docs/plugins.md against the code: what a part may have, what it is told, and where it is registered."""

from __future__ import annotations

import re
from dataclasses import fields
from inspect import isfunction
from pathlib import Path
from typing import Protocol, get_args

import pytest

from draftverify import Context, protocols
from draftverify.plugins import ROLES
from draftverify.traits import EvidenceKind, GeneratorTraits, RuleTraits, VerifierTraits
from draftverify.values import LawKind, Shape

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "plugins.md").read_text()


ROLES_OF_TRAITS = {
    "Generators": GeneratorTraits,
    "Verifiers": VerifierTraits,
    "Rules": RuleTraits,
}


def rows(heading: str) -> dict[str, str]:
    """The names in the first column of the table under a heading, and the rows."""
    section = PAGE.split(f"# {heading}\n", 1)[1].split("\n#", 1)[0]
    return {match[1]: match[0] for match in re.finditer(r"^\| `(\w+)[^`]*` \|.*$", section, re.M)}


def names(heading: str) -> set[str]:
    """All names in the first column of the table under a heading."""
    section = PAGE.split(f"# {heading}\n", 1)[1].split("\n#", 1)[0]
    cells = re.findall(r"^\| (`[^|]+) \|", section, re.M)
    return {name for cell in cells for name in re.findall(r"`(\w+)`", cell)}


@pytest.mark.parametrize("heading", ROLES_OF_TRAITS)
def test_every_trait_is_on_the_page(heading: str) -> None:
    """And no other word: the table of the role and that of any part are the fields of its traits."""
    assert names("Any part") | names(heading) == {field.name for field in fields(ROLES_OF_TRAITS[heading])}


def test_every_optional_method_is_on_the_page() -> None:
    """And has a Protocol of its own."""
    section = PAGE.split("# Optional methods\n", 1)[1].split("\n#", 1)[0]
    listed = set(re.findall(r"^\|[^|]*\| `(\w+)\(", section, re.M))
    kinds = [
        kind
        for kind in vars(protocols).values()
        if getattr(kind, "_is_protocol", False) and kind is not Protocol
    ]
    methods = [
        {name for name, value in vars(kind).items() if isfunction(value) and name[0] != "_"} for kind in kinds
    ]
    own = {"propose", "verify", "decide", "size", "observe"}
    assert listed == set().union(*methods) - own
    assert all(len(found) == 1 for found in methods if not found & own)


def test_the_page_has_contexts_fields() -> None:
    """Each field of Context, in its order, and its two properties."""
    assert tuple(rows("What a part is told: Context")) == Context.__struct_fields__
    assert all(f"`{name}`" in PAGE for name, kind in vars(Context).items() if isinstance(kind, property))


def test_the_page_has_every_group_and_word() -> None:
    """Entry-point groups, kinds of evidence, laws and shapes."""
    for role in ROLES.values():
        assert f"`{role.group}`" in PAGE
    for table, name, words in (
        ("Verifiers", "provides", get_args(EvidenceKind)),
        ("Generators", "laws", get_args(LawKind)),
        ("Generators", "shape", get_args(Shape)),
    ):
        assert set(re.findall(r'"(\w+)"', rows(table)[name])) >= {*words}
