"""What the user wants to know, apart from what the verifier believes: how right an outcome is, by what the task
expects.

A metric is any function of (task, outcome). It says how right the outcome is, from 0 (or False) to 1 (or True), or None
where it has no say, as for a task without expectation. Accepted is the verifier's word; solved is the metric's. One
with a `unit` is a measure and says how much: seconds saved, a speed-up, rows.
"""

from draftverify.checks.metrics.panel import MetricMean, MetricVote
from draftverify.checks.metrics.text import Contains, EqualAnswer, Numeric, RegexMatch
from draftverify.checks.scores import Measure, Score, check_metrics, function, measure_of, measures_of, score

__all__ = [
    "Contains",
    "EqualAnswer",
    "Measure",
    "MetricMean",
    "MetricVote",
    "Numeric",
    "RegexMatch",
    "Score",
    "check_metrics",
    "function",
    "measure_of",
    "measures_of",
    "score",
]
