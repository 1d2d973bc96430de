"""For tests: the conformance kit for components, scripted parts, a small exact model, and contexts made by hand."""

from draftverify.testing.conformance import (
    ConformanceError,
    Report,
    Result,
    check_component,
    check_names,
    parametrize_with_checks,
)
from draftverify.testing.contexts import advanced, make_context, make_draws
from draftverify.testing.scripted import ScriptedGenerator, ScriptedVerifier
from draftverify.testing.subject import Subject
from draftverify.testing.tables import DraftFrom, TableModel, TablePair, TargetFrom

__all__ = [
    "ConformanceError",
    "DraftFrom",
    "Report",
    "Result",
    "ScriptedGenerator",
    "ScriptedVerifier",
    "Subject",
    "TableModel",
    "TablePair",
    "TargetFrom",
    "advanced",
    "check_component",
    "check_names",
    "make_context",
    "make_draws",
    "parametrize_with_checks",
]
