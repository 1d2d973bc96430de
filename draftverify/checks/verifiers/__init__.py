"""General verifiers: a regular expression, a JSON schema, a known answer, a command, and verifiers of verifiers.

`draftverify.verifier` makes one of a function. What takes verifiers in stages apart, for stages with an order of their
own, is here too: `Combined` and a `Way`; for those whose scores decide `at_threshold`, and of those that rest on
models which families they are (`shared_families`, `check_families`).
"""

from draftverify.checks.combined import AllOf, AnyOf, Combined, MostOf
from draftverify.checks.families import check_families, shared_families
from draftverify.checks.stages import AllWay, AnyWay, MostWay, StagePass, Way, names_of, resting_on
from draftverify.checks.verifiers.command import Command
from draftverify.checks.verifiers.exact import Exact
from draftverify.checks.verifiers.json_schema import JsonSchema
from draftverify.checks.verifiers.regex import Regex
from draftverify.checks.verifiers.thresholds import at_threshold

__all__ = [
    "AllOf",
    "AllWay",
    "AnyOf",
    "AnyWay",
    "Combined",
    "Command",
    "Exact",
    "JsonSchema",
    "MostOf",
    "MostWay",
    "Regex",
    "StagePass",
    "Way",
    "at_threshold",
    "check_families",
    "names_of",
    "resting_on",
    "shared_families",
]
