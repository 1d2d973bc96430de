"""The command that shows runs in a browser, writes their page, and takes answers to what waits for a person."""

from draftverify.bench.cli.commands import LazyCommand

__all__ = ["VIEW"]

VIEW = LazyCommand(
    "draftverify.view.cli.view:view",
    "Show runs in the browser, or as one file; answer what waits for a person.",
)
