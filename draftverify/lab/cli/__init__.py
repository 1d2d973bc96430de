"""The commands of the lab."""

from draftverify.bench.cli.commands import LazyCommand

__all__ = ["CERTIFY", "EXPORT", "FIT", "REPLAY"]

CERTIFY = LazyCommand(
    "draftverify.lab.cli.certify:certify",
    "Prove from a labelled run the threshold at which a pipeline's answers keep a promise.",
)
EXPORT = LazyCommand(
    "draftverify.lab.cli.export:export",
    "Write a run's results as csv, jsonl or parquet, or as training data.",
)
FIT = LazyCommand(
    "draftverify.lab.cli.fit:fit", "Learn what scores mean or how large blocks should be; train a part."
)
REPLAY = LazyCommand(
    "draftverify.lab.cli.replay:replay",
    "Say from a run's records what another rule, block or policy would have come to.",
)
