"""The audit of a judge: its probes on labelled comparisons, the file they are kept in, and how many labels to plan for.

    found = audit_judge(judge, comparisons)
    write_artifact("audits/judge.json", found)

The file names the judge by its identity, a hash of its model and prompt: the audit of another judge says nothing of
this one, and is refused.
"""

from __future__ import annotations

import hashlib
import math
import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any, ClassVar

import msgspec
import numpy as np

from draftverify.bench.artifact import ArtifactFile, PartIdentity, identify_parts, read_artifact
from draftverify.errors import ConfigError, ContractError
from draftverify.kit.audit.comparisons import AnswerComparison
from draftverify.kit.audit.judge_probes import PROBES, WIN, Asking, Probe, ProbeFigure, ProbeName
from draftverify.stats.judgement.agreement import cohen_kappa
from draftverify.stats.judgement.trust import labels_needed
from draftverify.traits import VerifierTraits, name_of, traits_of


class JudgeAudit(
    ArtifactFile, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="draftverify.judge_audit"
):
    """The results of the audit of one judge.

    Args:
        family: of its model, or None.
        comparisons, questions, labelled: how many it was audited on, and how many of these have a label.
        comparisons_sha256: of these, in hexadecimal and in order.
        asked: how many judgements it was asked for.
        seconds: that they took.
        probes: what each found.
    """

    title: ClassVar[str] = "audit of a judge"
    made_by: ClassVar[str] = "draftverify audit judge CONFIG"

    family: str | None = None
    comparisons: int
    questions: int
    labelled: int
    comparisons_sha256: str
    asked: int
    seconds: float
    probes: tuple[Probe, ...]

    @property
    def judge(self) -> PartIdentity:
        """Whose audit it is."""
        return self.parts["judge"]

    def figure(self, probe: str, name: str) -> ProbeFigure | None:
        """A probe's figure; None where it was not measured."""
        figures = (figure for entry in self.probes if entry.name == probe for figure in entry.figures)
        return next((figure for figure in figures if figure.name == name), None)

    @property
    def mark(self) -> str:
        """What reports say of a pipeline with this judge: "audited: accuracy .81, κ .62, on 200 labels"."""
        if not self.labelled:
            return f"audited on {self.comparisons} comparisons without a label"
        phrases = []
        for name in ("accuracy", "Cohen's κ"):
            figure = self.figure("agreement", name)
            short = name.removeprefix("Cohen's ")
            phrases.append(
                f"{short} {figure.value:.2f}" if figure and figure.value is not None else f"{short} unknown"
            )
        return f"audited: {', '.join(phrases)}, on {self.labelled} labels"


def audit_judge(
    judge: Any,
    comparisons: Sequence[AnswerComparison],
    *,
    probes: Sequence[ProbeName] = tuple(PROBES),
    watcher: Callable[[int], None] = lambda count: None,
) -> JudgeAudit:
    """Audit a judge.

    Args:
        judge: pairwise, pointwise, recorded, or any verifier that gives scores; opened.
        comparisons: what it is audited on.
        probes: these alone, in this order.
        watcher: told how many judgements have been asked for.

    Raises:
        ConfigError: it is no judge or cannot be told from others, a probe is unknown, or there is no probe or no
            comparison.
        ContractError: it gave no verdict at all.
    """
    if not probes:
        raise ConfigError(f"probes is empty; there are {', '.join(PROBES)}", path="probes")
    for name in probes:
        if name not in PROBES:
            raise ConfigError(f"there is no probe {name!r}; there are {', '.join(PROBES)}", path="probes")
    if not comparisons:
        raise ConfigError("there are no comparisons to audit the judge on", path="comparisons")
    parts, started = identify_parts(judge=judge), time.perf_counter()
    families = " and ".join(sorted(traits_of(judge, VerifierTraits).families)) or None
    asking = Asking(judge, comparisons, families, watcher)
    if all(choice is None for choice in asking.plain()):
        raise ContractError(
            f"{name_of(judge)} gave no verdict on any of {len(comparisons)} comparisons; first {asking.first_trouble()}"
        )
    probe_results = tuple(PROBES[name](asking) for name in probes)
    encoded = msgspec.json.encode(list(comparisons))
    return JudgeAudit(
        parts=parts,
        family=asking.family,
        comparisons=len(comparisons),
        questions=len({comparison.question for comparison in comparisons}),
        labelled=sum(comparison.label is not None for comparison in comparisons),
        comparisons_sha256=hashlib.sha256(encoded).hexdigest(),
        asked=asking.asked,
        seconds=time.perf_counter() - started,
        probes=probe_results,
        versions={"draftverify": version("draftverify")},
    )


def load_audit(path: str | os.PathLike[str], *, judge: Any = None) -> JudgeAudit:
    """Read an audit back.

    Args:
        path: the file.
        judge: the judge that it is to be of; any when None.

    Raises:
        ConfigError: the file is missing, is no audit, or is the audit of another judge.
    """
    audit = read_artifact(path, JudgeAudit)
    if judge is not None:
        audit.check_parts(identify_parts(judge=judge), path)
    return audit


def find_audit(directory: str | os.PathLike[str], judge: Any) -> JudgeAudit | None:
    """The audit of this judge among the .json files of a directory, that with an accuracy on the most labels; None
    where there is none.

    Files that cannot be read as audits, and audits of other judges, are passed over: they say nothing of this one.
    """
    folder = Path(directory)
    if not folder.is_dir():
        return None
    parts, audits = identify_parts(judge=judge), []
    for path in sorted(folder.glob("*.json")):
        with suppress(ConfigError):
            audits.append(load_audit(path))
    matching = [audit for audit in audits if audit.parts == parts]
    # One that asked for other probes alone has no accuracy to tell, on however many labels.
    return max(
        matching,
        key=lambda audit: (audit.figure("agreement", "accuracy") is not None, audit.labelled),
        default=None,
    )


class LabelPlan(msgspec.Struct, frozen=True):
    """How many labels one figure needs.

    Args:
        figure: which.
        labels: so many, for the wanted width.
        assumed: what the number rests on, in words.
    """

    figure: str
    labels: int
    assumed: str


def plan_labels(
    width: float, comparisons: Sequence[AnswerComparison] = (), judge: Any = None
) -> list[LabelPlan]:
    """How many labels a 95 % interval of this width needs, for accuracy, κ and a win rate.

    With labelled comparisons and a judge these are a pilot; without, the worst case is assumed: an accuracy of ½, a κ
    between two equally frequent verdicts, and a judge that is of no help. By the normal approximation, for comparisons
    whose questions are all different.

    Args:
        width: from the lower to the upper end, such as 0.1.
        comparisons: those without a label are the ones that the judge could be asked about besides.
        judge: opened; None for the worst case.

    Raises:
        ConfigError: the width is not above 0; or the judge is none.
    """
    pilot = [comparison for comparison in comparisons if comparison.label is not None]
    unlabelled = len(comparisons) - len(pilot)
    if judge is None or len(pilot) < 2:
        why = "the worst case"
        return [
            LabelPlan("accuracy", labels_needed(width, 0.25), f"{why}: an accuracy of ½"),
            LabelPlan("Cohen's κ", labels_needed(width, 1.0), f"{why}: two verdicts, as frequent, κ = 0"),
            LabelPlan("win rate", labels_needed(width, 0.25), f"{why}: a rate of ½, labels alone"),
        ]
    orders = Asking(judge, pilot).verdicts()  # all of them, as the audit's agreement takes them
    choices = [choice for verdicts in orders for choice in verdicts]
    labels = [comparison.label for comparison in pilot] * len(orders)
    p = float(np.mean([choice == label for choice, label in zip(choices, labels, strict=True)]))
    kappa = cohen_kappa(choices, labels)
    # κ = (p − c) / (1 − c), so that 1 − c, which κ's variance is over, follows from both.
    beyond = (1.0 - p) / (1.0 - kappa) if kappa < 1.0 else math.nan
    y = np.array([WIN[label] for label in labels])
    j = np.array([WIN[choice] if choice is not None else 0.5 for choice in choices])
    rho = float(np.corrcoef(y, j)[0, 1]) if y.std() > 0 and j.std() > 0 else 0.0
    of = f"a pilot of {len(pilot)} labels"
    spread = float(y.var()) or 0.25
    plans = [
        LabelPlan("accuracy", labels_needed(width, p * (1.0 - p) or 0.25), f"{of}: an accuracy of {p:.2f}")
    ]
    if beyond > 0:
        label_count = labels_needed(width, (p * (1.0 - p) or 0.25) / beyond**2)
        plans.append(LabelPlan("Cohen's κ", label_count, f"{of}: κ = {kappa:.2f}"))
    plans.append(LabelPlan("win rate, labels alone", labels_needed(width, spread), of))
    assisted = labels_needed(width, spread, correlation=rho, unlabelled=unlabelled)
    besides = f"{of}: correlation {rho:.2f}, {unlabelled} comparisons judged besides"
    return [*plans, LabelPlan("win rate, with the judge", assisted, besides)]
