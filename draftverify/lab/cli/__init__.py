"""The commands of the lab."""

from draftverify.bench.cli.commands import Command

__all__ = ["CALIBRATE", "FIT", "REPLAY", "TRAIN", "TUNE"]

CALIBRATE = Command(
    "draftverify.lab.cli.calibrate:calibrate",
    "Measure how large blocks should be, and whether to draft at all.",
)
FIT = Command("draftverify.lab.cli.fit:fit", "Learn from labelled tasks what scores mean.")
REPLAY = Command(
    "draftverify.lab.cli.replay:replay",
    "Say from a run's records what another rule, block or policy would have come to.",
)
TRAIN = Command("draftverify.lab.cli.train:train", "Train a part from data.")
TUNE = Command(
    "draftverify.lab.cli.tune:tune",
    "Find the best rule, block and policy that a run's records can answer for.",
)
