"""Drafts of code, checked by syntax, types, compilers and tests, in a sandbox."""

from draftverify_code.agreement import GeneratedTests
from draftverify_code.checking import check
from draftverify_code.generators import Mutate, RecordedPrograms, SamplePrograms
from draftverify_code.hidden_tests import HiddenTests
from draftverify_code.program import REASONS, Reason, program_of
from draftverify_code.published import Apps, BigCodeBench, LiveCodeBench, MultiplE
from draftverify_code.repair import Repair
from draftverify_code.sandbox import CommandExit, Limits, Sandbox, SandboxCommand, Suite, SuiteFinding, Tier
from draftverify_code.stages import (
    Cases,
    CodeStages,
    Compile,
    ExitStatus,
    Ir,
    LanguageTests,
    Lint,
    Suites,
    Syntax,
    Tests,
    Types,
)
from draftverify_code.tasks import HumanEval, Mbpp, SweBench

__all__ = [
    "REASONS", "Apps", "BigCodeBench", "Cases", "CodeStages", "CommandExit", "Compile", "ExitStatus",
    "GeneratedTests", "HiddenTests", "HumanEval", "Ir", "LanguageTests", "Limits", "Lint", "LiveCodeBench",
    "Mbpp", "MultiplE", "Mutate", "Reason", "RecordedPrograms", "Repair", "SamplePrograms", "Sandbox",
    "SandboxCommand", "Suite", "SuiteFinding", "Suites", "SweBench", "Syntax", "Tests", "Tier", "Types",
    "check", "program_of",
]  # fmt: skip
