"""The suite's own rule: sweeps run when they are named, and only then."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from tests.conftest import pytest_collection_modifyitems


@pytest.mark.parametrize(
    ("markexpr", "args", "left"),
    [
        ("", ["tests"], ["quick"]),
        ("weights", ["tests/tokens"], ["quick"]),
        ("exhaustive", ["tests"], ["quick", "sweep"]),  # pytest's own -m then leaves out the quick one
        ("", ["tests/a.py::sweep"], ["quick", "sweep"]),
    ],
)
def test_sweeps_are_left_out_until_they_are_named(markexpr, args, left):
    """By their mark or by their own names; what is left out is reported as deselected."""
    deselected: list[str] = []
    config = SimpleNamespace(
        option=SimpleNamespace(markexpr=markexpr),
        args=args,
        hook=SimpleNamespace(pytest_deselected=lambda items: deselected.extend(item.name for item in items)),
    )
    items = [
        SimpleNamespace(name=name, get_closest_marker=lambda mark, name=name: name == "sweep" or None)
        for name in ("quick", "sweep")
    ]
    pytest_collection_modifyitems(config, items)  # type: ignore[arg-type]
    assert [item.name for item in items] == left
    assert deselected == [name for name in ("quick", "sweep") if name not in left]
