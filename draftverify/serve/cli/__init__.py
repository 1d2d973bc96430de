"""The command that serves pipelines to OpenAI's clients."""

from draftverify.bench.cli.commands import LazyCommand

__all__ = ["SERVE"]

SERVE = LazyCommand(
    "draftverify.serve.cli.serve:serve",
    "Serve the pipelines of an experiment as models of an OpenAI-compatible server.",
)
