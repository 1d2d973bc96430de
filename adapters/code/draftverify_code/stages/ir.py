"""The IR stage: LLVM reads and verifies the functions of a block, in one process.

Every item is a module of its own there, not a part of one that is joined from all. Joined as text, an item could end a
function early and define its neighbour's, and attribute groups (`#0`), metadata (`!0`), types and declarations would
collide. Joined by LLVM's linker, definitions that nothing refers to (`linkonce`, `available_externally`) would be left
out before they were verified, and it takes seven times as long as all the rest (measured). What makes a block cheap is
the one process: to start it takes as long as to verify a thousand small functions.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from draftverify import Check, Context, Proposal, Verification
from draftverify.traits import VerifierTraits
from draftverify_code.sandbox.host import Sandbox
from draftverify_code.sandbox.jobs import CommandExit, SandboxCommand
from draftverify_code.stages.blocks import (
    Job,
    Static,
    check_block,
    installed,
    limits,
    programs_of,
    verification,
)
from draftverify_code.stages.running import capped, script


@dataclass(eq=False)
class Ir(Static):
    """Rejects LLVM IR that does not parse or verify, or that defines no function.

    An item is what stands in an `.ll` file: functions, and declarations of what they call. Nothing is executed.

    Args:
        sandbox: where LLVM runs; a shared one with the strongest isolation of this machine when None.
    """

    sandbox: Sandbox | None = None

    traits = VerifierTraits(name="ir", reads=frozenset())

    @property
    def packages(self) -> tuple[str, ...]:
        """Distributions that a sandbox must show."""
        return installed("llvmlite")

    def verify(self, context: Context, proposal: Proposal) -> Verification:
        """Verify the whole block in one process.

        Raises:
            ResourceError: llvmlite is not installed, or there is no sandbox.
        """
        box = self.box
        checks = check_block(box, programs_of(proposal), _job, "LLVM", "ir", in_order=True)
        return verification(self.traits.name, checks, box)


def _job(programs: Sequence[str]) -> Job:
    # To LLVM a text ends at its first zero byte, whatever stands behind it; here it does not.
    requests = [json.dumps({"text": program.replace("\0", "\x01")}) + "\n" for program in programs]
    stdin = "".join(requests).encode()
    allowed = limits(len(programs), further=0.05)
    allowed = replace(allowed, output=allowed.output + len(stdin))

    def read(ended: CommandExit) -> dict[int, Check]:
        lines = ended.stdout.decode(errors="replace").split("\n")[:-1]
        return {place: _word(json.loads(line)["wrong"]) for place, line in enumerate(lines)}

    argv = (sys.executable, "-s", "-P", "-c", script("stages/ir_process.py"))
    return Job(SandboxCommand(argv, stdin=stdin, limits=allowed), read)


def _word(wrong: str) -> Check:
    if not wrong:
        return Check("pass")
    message = re.sub(r"^<string>:(\d+):\d+: error: ", r"line \1: ", wrong)
    return Check("reject", None, "missing" if wrong == "it defines no function" else "ir", capped(message))
