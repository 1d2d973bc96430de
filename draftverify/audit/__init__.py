"""The audit: whether a pipeline's output is its verifier's own, shown and not assumed.

`lossless(pipeline, tasks)` enumerates the rule on tiny models, plays it at recorded prefixes of real tasks, and
compares greedy text with plain steps. It works on any rule and generator, a plugin's too. See docs/audit.md.
"""

from draftverify.audit.enumeration import enumerate_rule
from draftverify.audit.judges import (
    Asked,
    Choice,
    Grade,
    Grading,
    Judging,
    Presented,
    Said,
    Variation,
    as_choice,
    as_judge,
)
from draftverify.audit.lossless import claims_exact, lossless
from draftverify.audit.report import Divergence, Draws, Enumeration, PipelineReport, Report, Text
from draftverify.audit.unknowns import NotEnumerable, Path, Stream, Unknown, explore

__all__ = [
    "Asked",
    "Choice",
    "Divergence",
    "Draws",
    "Enumeration",
    "Grade",
    "Grading",
    "Judging",
    "NotEnumerable",
    "Path",
    "PipelineReport",
    "Presented",
    "Report",
    "Said",
    "Stream",
    "Text",
    "Unknown",
    "Variation",
    "as_choice",
    "as_judge",
    "claims_exact",
    "enumerate_rule",
    "explore",
    "lossless",
]
