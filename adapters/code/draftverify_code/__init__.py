"""Drafts of code, checked by syntax, types, compilers and tests, in a sandbox."""

from draftverify_code.agreement import GeneratedTests
from draftverify_code.checking import check
from draftverify_code.generators import Mutate, Recorded, Sample
from draftverify_code.hidden_tests import HiddenTests
from draftverify_code.program import REASONS, Reason, program_of
from draftverify_code.repair import Repair
from draftverify_code.sandbox import Command, Exit, Finding, Limits, Sandbox, Suite, Tier
from draftverify_code.stages import Cases, Compile, ExitStatus, Ir, Lint, Stages, Suites, Syntax, Tests, Types
from draftverify_code.tasks import HumanEval, Mbpp

__all__ = [
    "REASONS",
    "Cases",
    "Command",
    "Compile",
    "Exit",
    "ExitStatus",
    "Finding",
    "GeneratedTests",
    "HiddenTests",
    "HumanEval",
    "Ir",
    "Limits",
    "Lint",
    "Mbpp",
    "Mutate",
    "Reason",
    "Recorded",
    "Repair",
    "Sample",
    "Sandbox",
    "Stages",
    "Suite",
    "Suites",
    "Syntax",
    "Tests",
    "Tier",
    "Types",
    "check",
    "program_of",
]
