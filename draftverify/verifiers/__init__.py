"""General verifiers: a regular expression, a JSON schema, a known answer, a command, and verifiers of verifiers.

`draftverify.verifier` makes one of a function. What takes verifiers in stages apart, for stages with an order of their
own, is here too: `Combined` and a `Way`; for those whose scores decide `at_threshold`, and for those that rest on
models `families_of` and `stands_outside`.
"""

from draftverify.engine.families import families_of, stands_outside
from draftverify.verifiers.calibrated import Calibrated
from draftverify.verifiers.combined import AllOf, AnyOf, Combined
from draftverify.verifiers.command import Command
from draftverify.verifiers.exact import Exact
from draftverify.verifiers.json_schema import JsonSchema
from draftverify.verifiers.regex import Regex
from draftverify.verifiers.stages import AllWay, AnyWay, StagePass, Way, names_of, resting_on
from draftverify.verifiers.thresholds import at_threshold

__all__ = [
    "AllOf",
    "AllWay",
    "AnyOf",
    "AnyWay",
    "Calibrated",
    "Combined",
    "Command",
    "Exact",
    "JsonSchema",
    "Regex",
    "StagePass",
    "Way",
    "at_threshold",
    "families_of",
    "names_of",
    "resting_on",
    "stands_outside",
]
