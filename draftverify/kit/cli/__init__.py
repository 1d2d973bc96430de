"""The commands of the kit."""

from draftverify.bench.cli.commands import Command

__all__ = ["AUDIT", "CONFORM"]

AUDIT = Command(
    "draftverify.kit.cli.audit:audit", "Show whether output is the verifier's own, or what a judge is worth."
)
CONFORM = Command("draftverify.kit.cli.conform:conform", "Hold a part to the contract that all parts keep.")
