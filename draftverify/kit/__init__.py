"""For tests: the conformance kit for components, scripted parts, a small exact model, and contexts made by hand."""

from draftverify.kit.conformance import (
    ConformanceError,
    ConformanceReport,
    Result,
    check_component,
    check_names,
    parametrize_with_checks,
)
from draftverify.kit.contexts import advanced, make_context, make_draws
from draftverify.kit.scripted import ScriptedGenerator, ScriptedVerifier
from draftverify.kit.subject import Subject
from draftverify.kit.tables import DraftFrom, TableModel, TablePair, TargetFrom

__all__ = [
    "ConformanceError",
    "ConformanceReport",
    "DraftFrom",
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
