"""The stages of a staged verifier: each a Verifier of its own that judges the whole block in one pass."""

from draftverify_code.stages.cases import Cases
from draftverify_code.stages.command import ExitStatus
from draftverify_code.stages.compile import Compile
from draftverify_code.stages.ir import Ir
from draftverify_code.stages.language import LanguageTests
from draftverify_code.stages.lint import Lint
from draftverify_code.stages.staged import CodeStages
from draftverify_code.stages.suites import Suites
from draftverify_code.stages.syntax import Syntax
from draftverify_code.stages.tests import Tests
from draftverify_code.stages.types import Types

__all__ = [
    "Cases", "CodeStages", "Compile", "ExitStatus", "Ir", "LanguageTests", "Lint", "Suites", "Syntax", "Tests", "Types",
]  # fmt: skip
