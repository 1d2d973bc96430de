"""What several files of audits share."""

from __future__ import annotations

from importlib import import_module

import pytest

from draftverify.kit.audit import enumerate_rule


@pytest.fixture
def short_enumerations(monkeypatch):
    """Blocks of one over few items, where something else is looked at; test_enumeration.py has the longer ones."""
    short = lambda rule, *, most, **how: enumerate_rule(rule, most=min(most, 1), **how)
    # The package's attribute of the first name is the function.
    monkeypatch.setattr(import_module("draftverify.kit.audit.lossless"), "enumerate_rule", short)
    monkeypatch.setattr("draftverify.kit.audit.enumeration.PATHS", 300)
