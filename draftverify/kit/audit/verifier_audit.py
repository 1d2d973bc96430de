"""What a verifier's word is worth on items of a run that have a label, and what several get wrong together."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import ClassVar

import msgspec

from draftverify.bench.artifact import ArtifactFile
from draftverify.errors import ConfigError
from draftverify.kit.audit.judge_probes import Probe, ProbeFigure, figure
from draftverify.stats.judgement import (
    Roc,
    assisted_rate,
    auroc,
    auroc_within,
    blind_spots,
    error_correlation,
    roc,
    trust,
)


class JudgedItem(msgspec.Struct, frozen=True):
    """An item that a verifier judged.

    Args:
        task: whose it is.
        value: the same for equal items.
        passed: whether it was accepted: passed by the verifier, and not refused by the rule.
        right: its label; None without one.
        score: the verifier's; None without one.
        seconds, cost: machine seconds, and what its parts said that it cost, to draft and to judge; of a shared pass
            its share.
    """

    task: str
    value: str
    passed: bool
    right: bool | None
    score: float | None = None
    seconds: float = 0.0
    cost: float = 0.0


class JudgedPipeline(msgspec.Struct, frozen=True):
    """The items that one pipeline's verifier judged.

    Args:
        pipeline: its name.
        generator, verifier, rule: the same for equal ones.
        related: whether models of one family draft and judge.
        items: all that were judged, with a label or without.
        untested: why there are none, in words.
    """

    pipeline: str
    generator: str
    verifier: str
    rule: str = ""
    related: bool = False
    items: tuple[JudgedItem, ...] = ()
    untested: str = ""


class VerifierAudit(
    ArtifactFile, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="draftverify.verifier_audit"
):
    """The audit of a run's verifiers: how far their word goes, by labels.

    Args:
        labels: what they were held against: the name of a metric, or "people".
        written: of the records that it was made from, a word that changes with them.
        pipelines: the figures of each.
        shared: what generators and verifiers get wrong together.
        curves: of each pipeline whose verifier gives scores, its ROC curves.
    """

    title: ClassVar[str] = "audit of verifiers"
    made_by: ClassVar[str] = "draftverify audit verifier RUN"

    labels: str
    written: str
    pipelines: tuple[Probe, ...]
    shared: Probe
    curves: dict[str, Roc]


def audit_verifiers(judged: Sequence[JudgedPipeline]) -> tuple[tuple[Probe, ...], Probe]:
    """The figures of each pipeline, and those of several together.

    Raises:
        ConfigError: no item of any pipeline has a label; it says why of each.
    """
    pipelines = tuple(map(_of_one, judged))
    if not any(probe.figures for probe in pipelines):
        why = "; ".join(f"{probe.name}: {probe.untested}" for probe in pipelines)
        raise ConfigError(f"there is nothing to hold a verifier against: {why}")
    labelled = [entry for entry, probe in zip(judged, pipelines, strict=True) if len(probe.figures) > 1]
    spots = [*_overlooked(labelled), *_alike(labelled)]
    why = (
        ""
        if spots
        else "no two generators under one verifier, and no two verifiers of the same items, have labels"
    )
    return pipelines, Probe("shared blind spots", tuple(spots), why)


def _of_one(judged: JudgedPipeline) -> Probe:
    labelled = [item for item in judged.items if item.right is not None]
    if not labelled:
        why = judged.untested or f"none of {len(judged.items)} judged items has a label"
        return Probe(judged.pipeline, untested=why)
    passed = [item.passed for item in labelled]
    right = [bool(item.right) for item in labelled]
    tasks = [item.task for item in labelled]
    paid = any(item.cost for item in labelled)
    costs = [item.cost if paid else item.seconds for item in labelled]
    worth = trust(passed, right, tasks, costs if any(costs) else None)
    precision = figure("precision", worth.precision, "the share of what passes that is right")
    missed = figure("right among refused", worth.missed, "the share of what is refused that is right")
    if len(set(passed)) == 1 and len({item.passed for item in judged.items}) == 2:
        # Labels of one side alone, such as people's of what was refused, say nothing of the other.
        return Probe(judged.pipeline, (precision if passed[0] else missed,))
    errors = [a != b for a, b in zip(passed, right, strict=True)]
    phi = error_correlation([not is_right for is_right in right], errors, tasks)
    figures = [
        figure("T", worth.true_pass, "the share of right items that pass"),
        figure("F", worth.false_pass, "the share of wrong items that pass"),
        figure("T − F", worth.informedness, "0 is a verifier that knows nothing"),
        figure("π", worth.base, "the share of items that are right"),
        figure("α", worth.acceptance, "the share of items that pass"),
        precision,
        missed,
        figure(
            "resampled", worth.resampled, "the precision of drafting again until something passes, by task"
        ),
        figure("φ with the generator's errors", phi, "of its own errors; above 0 where F is above 1 − T"),
    ]
    if worth.cost_per_right is not None:
        reads = "to draft and judge, per right item that passes"
        figures.append(figure("cost" if paid else "seconds", worth.cost_per_right, reads))
    if len(labelled) < len(judged.items):
        unlabelled = [item for item in judged.items if item.right is None]
        helped = assisted_rate(
            right, passed, [item.passed for item in unlabelled], [*tasks, *(e.task for e in unlabelled)]
        )
        condition = f"with {len(unlabelled)} items without a label, if the labelled tasks were drawn by lot"
        figures.append(figure("π by PPI++", helped.rate, condition))
    if columns := _scored(judged):
        figures.append(figure("ROC area", auroc(*columns), "a right item scores more than a wrong one"))
        figures.append(figure("ROC area within tasks", auroc_within(*columns), "the same within one task"))
    return Probe(judged.pipeline, tuple(figures))


def score_curves(judged: Sequence[JudgedPipeline]) -> dict[str, Roc]:
    """The ROC curves of the scores of labelled items, by pipeline; of those that have right and wrong ones."""
    curves = {entry.pipeline: roc(*columns) for entry in judged if (columns := _scored(entry))}
    return {name: curve for name, curve in curves.items() if curve.points}


def _scored(judged: JudgedPipeline) -> tuple[list[float], list[bool], list[str]] | None:
    """Score, label and task of the items that have a score and a label."""
    scored = [item for item in judged.items if item.right is not None and item.score is not None]
    if not scored:
        return None
    return (
        [item.score or 0.0 for item in scored],
        [bool(item.right) for item in scored],
        [e.task for e in scored],
    )


def _overlooked(judged: Sequence[JudgedPipeline]) -> list[ProbeFigure]:
    """How much more often wrong items of some generators pass than those of the others, by verifier."""
    figures = []
    for verifier in dict.fromkeys((entry.verifier, entry.rule) for entry in judged):
        # Of pipelines with the same parts the first stands for all: the others have its items again.
        first_by_generator = {
            entry.generator: entry for entry in reversed(judged) if (entry.verifier, entry.rule) == verifier
        }
        distinct = [entry for entry in judged if first_by_generator.get(entry.generator) is entry]
        related = [entry for entry in distinct if entry.related]
        suspects = [related] if 0 < len(related) < len(distinct) else [[entry] for entry in distinct]
        # Of two the second's ratio is one over the first's.
        for group in suspects if len(distinct) > 2 else suspects[: len(distinct) - 1]:
            wrong = [(entry, item) for entry in distinct for item in entry.items if item.right is False]
            if not wrong:
                continue
            ratio = blind_spots(
                [item.passed for _, item in wrong],
                [entry in group for entry, _ in wrong],
                [item.task for _, item in wrong],
                strata=[item.task for _, item in wrong],
            ).ratio
            names = ", ".join(entry.pipeline for entry in group)
            reads = "wrong items pass so many times as often as those of the other generators, task by task"
            figures.append(figure(f"F of {names} over the others'", ratio, reads))
    return figures


def _alike(judged: Sequence[JudgedPipeline]) -> list[ProbeFigure]:
    """How far each two verifiers err on the same items. Whether one passed includes the rule's word."""
    figures = []
    representatives = {(entry.verifier, entry.rule): entry for entry in reversed(judged)}
    for earlier, later in combinations(
        [entry for entry in judged if representatives[entry.verifier, entry.rule] is entry], 2
    ):
        if earlier.verifier == later.verifier:
            continue
        errs = [
            {
                (item.task, item.value): item.passed != item.right
                for entry in judged
                if (entry.verifier, entry.rule) == (side.verifier, side.rule)
                for item in entry.items
                if item.right is not None
            }
            for side in (earlier, later)
        ]
        both = [key for key in errs[0] if key in errs[1]]
        if both:
            phi = error_correlation(
                [errs[0][key] for key in both], [errs[1][key] for key in both], [task for task, _ in both]
            )
            name = f"φ of the errors of {earlier.pipeline} and {later.pipeline}"
            figures.append(figure(name, phi, "on the same items; 0 of verifiers that err independently"))
    return figures
