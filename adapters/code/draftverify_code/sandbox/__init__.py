"""Where untrusted programs run: isolation chosen at the start, limits, and nothing left behind."""

from draftverify_code.sandbox.host import Sandbox, default_sandbox
from draftverify_code.sandbox.jobs import (
    CommandExit,
    Integrity,
    Isolation,
    Limits,
    SandboxCommand,
    Suite,
    SuiteFinding,
    SuiteKind,
    Tier,
)

__all__ = [
    "CommandExit", "Integrity", "Isolation", "Limits", "Sandbox", "SandboxCommand", "Suite", "SuiteFinding",
    "SuiteKind", "Tier", "default_sandbox",
]  # fmt: skip
