"""The audit: whether a pipeline's output is its verifier's own, shown and not assumed.

`lossless(pipeline, tasks)` enumerates the rule on tiny models, plays it at recorded prefixes of real tasks, and
compares greedy text with plain steps. It works on any rule and generator, a plugin's too. See docs/judges.md.

And whether a judge, a verifier that is a model's word, can be believed: `audit_judge(judge, comparisons)`. See
docs/judges.md. `audit_verifiers(judged)` says the same of any verifier, by labels of what it judged. See
docs/statistics.md.
"""

from draftverify.kit.audit.comparisons import AnswerComparison, comparisons_of
from draftverify.kit.audit.enumeration import enumerate_rule
from draftverify.kit.audit.judge_audit import (
    JudgeAudit,
    LabelPlan,
    audit_judge,
    find_audit,
    load_audit,
    plan_labels,
)
from draftverify.kit.audit.judge_probes import PROBES, Probe, ProbeFigure, ProbeName
from draftverify.kit.audit.judges import (
    AnswerComparer,
    AnswerGrader,
    Choice,
    Grade,
    PairVerdict,
    Presented,
    PresentedAnswer,
    Variation,
    as_choice,
    as_judge,
)
from draftverify.kit.audit.lossless import claims_exact, lossless
from draftverify.kit.audit.report import (
    AuditReport,
    DrawsReport,
    Enumeration,
    PipelineReport,
    TextDivergence,
    TextReport,
)
from draftverify.kit.audit.verifier_audit import JudgedItem, JudgedPipeline, VerifierAudit, audit_verifiers

__all__ = [
    "AnswerComparer",
    "AnswerComparison",
    "AnswerGrader",
    "AuditReport",
    "Choice",
    "DrawsReport",
    "Enumeration",
    "Grade",
    "JudgeAudit",
    "JudgedItem",
    "JudgedPipeline",
    "LabelPlan",
    "PROBES",
    "PairVerdict",
    "PipelineReport",
    "Presented",
    "PresentedAnswer",
    "Probe",
    "ProbeFigure",
    "ProbeName",
    "TextDivergence",
    "TextReport",
    "Variation",
    "VerifierAudit",
    "as_choice",
    "as_judge",
    "audit_judge",
    "audit_verifiers",
    "claims_exact",
    "comparisons_of",
    "enumerate_rule",
    "find_audit",
    "load_audit",
    "lossless",
    "plan_labels",
]
