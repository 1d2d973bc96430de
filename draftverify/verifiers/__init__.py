"""General verifiers: a regular expression, a JSON schema, a known answer, a command, and verifiers of verifiers.

`draftverify.verifier` makes one of a function. What takes verifiers in stages apart, for stages with an order of their
own, is here too: a `Way`, and `walk`.
"""

from draftverify.verifiers.calibrated import Calibrated
from draftverify.verifiers.combined import AllOf, AnyOf, Combined, stage_pass, walk
from draftverify.verifiers.command import Command
from draftverify.verifiers.exact import Exact
from draftverify.verifiers.json_schema import JsonSchema
from draftverify.verifiers.regex import Regex
from draftverify.verifiers.stages import AllWay, AnyWay, StagePass, Way, names_of

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
    "names_of",
    "stage_pass",
    "walk",
]
