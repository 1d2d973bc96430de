"""Where untrusted programs run: isolation chosen at the start, limits, and nothing left behind."""

from draftverify_code.sandbox.host import Sandbox, default_sandbox
from draftverify_code.sandbox.jobs import (
    Command,
    Exit,
    Finding,
    Integrity,
    Isolation,
    Limits,
    Suite,
    SuiteKind,
    Tier,
)

__all__ = [
    "Command",
    "Exit",
    "Finding",
    "Integrity",
    "Isolation",
    "Limits",
    "Sandbox",
    "Suite",
    "SuiteKind",
    "Tier",
    "default_sandbox",
]
