"""The command of the kit."""

from draftverify.bench.cli.commands import LazyCommand

__all__ = ["AUDIT"]

AUDIT = LazyCommand(
    "draftverify.kit.cli.audit:audit",
    "Show whether output is the verifier's own, what a word is worth, whether a part is sound.",
)
