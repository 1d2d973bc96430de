"""What a verifier's word is worth on items of a run that have a label, and what several get wrong together."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import ClassVar

import msgspec

from draftverify.bench.artifact import ArtifactFile
from draftverify.errors import ConfigError
from draftverify.kit.audit.judge_probes import Figure, Probe, figure
from draftverify.stats import auroc, auroc_within
from draftverify.stats.judgement import Roc, assisted_rate, blind_spots, error_correlation, roc, trust

__all__ = ["Item", "Judged", "VerifierAudit", "audit_verifiers", "score_curves"]


class Item(msgspec.Struct, frozen=True):
    """An item that a verifier judged.

    Args:
        task: whose it is.
        value: the same for equal items.
        passed: whether it was accepted: passed by the verifier, and not refused by the rule.
        right: its label; None without one.
        score: the verifier's; None without one.
        seconds, units: machine seconds and the user's units that it took to draft and to judge, of a shared pass its
            share.
    """

    task: str
    value: str
    passed: bool
    right: bool | None
    score: float | None = None
    seconds: float = 0.0
    units: float = 0.0


class Judged(msgspec.Struct, frozen=True):
    """What one pipeline's verifier judged.

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
    items: tuple[Item, ...] = ()
    untested: str = ""


class VerifierAudit(ArtifactFile, frozen=True, kw_only=True, tag="draftverify.verifier_audit"):
    """What the verifiers of a run are worth.

    Args:
        labels: what they were held against: the name of a metric, or "people".
        written: of the records that it was made from, a word that changes with them.
        pipelines: the figures of each.
        shared: what generators and verifiers get wrong together.
        curves: of each pipeline whose verifier gives scores, its ROC curves.
        versions: of the package.
    """

    title: ClassVar[str] = "audit of verifiers"
    made_by: ClassVar[str] = "draftverify audit verifier RUN"

    labels: str
    written: str
    pipelines: tuple[Probe, ...]
    shared: Probe
    curves: dict[str, Roc]
    versions: dict[str, str]


def audit_verifiers(judged: Sequence[Judged]) -> tuple[tuple[Probe, ...], Probe]:
    """The figures of each pipeline, and those of several together.

    Raises:
        ConfigError: no item of any pipeline has a label; it says why of each.
    """
    pipelines = tuple(map(_of_one, judged))
    if not any(each.figures for each in pipelines):
        why = "; ".join(f"{each.name}: {each.untested}" for each in pipelines)
        raise ConfigError(f"there is nothing to hold a verifier against: {why}")
    labelled = [each for each, probe in zip(judged, pipelines, strict=True) if len(probe.figures) > 1]
    spots = [*_overlooked(labelled), *_alike(labelled)]
    why = (
        ""
        if spots
        else "no two generators under one verifier, and no two verifiers of the same items, have labels"
    )
    return pipelines, Probe("shared blind spots", tuple(spots), why)


def _of_one(judged: Judged) -> Probe:
    known = [each for each in judged.items if each.right is not None]
    if not known:
        why = judged.untested or f"none of {len(judged.items)} judged items has a label"
        return Probe(judged.pipeline, untested=why)
    passed = [each.passed for each in known]
    right = [bool(each.right) for each in known]
    tasks = [each.task for each in known]
    paid = any(each.units for each in known)
    costs = [each.units if paid else each.seconds for each in known]
    word = trust(passed, right, tasks, costs if any(costs) else None)
    precision = figure("precision", word.precision, "the share of what passes that is right")
    missed = figure("right among refused", word.missed, "the share of what is refused that is right")
    if len(set(passed)) == 1 and len({each.passed for each in judged.items}) == 2:
        # Labels of one side alone, such as people's of what was refused, say nothing of the other.
        return Probe(judged.pipeline, (precision if passed[0] else missed,))
    found = [
        figure("T", word.true_pass, "the share of right items that pass"),
        figure("F", word.false_pass, "the share of wrong items that pass"),
        figure("T − F", word.informedness, "0 is a verifier that knows nothing"),
        figure("π", word.base, "the share of items that are right"),
        figure("α", word.acceptance, "the share of items that pass"),
        precision,
        missed,
        figure(
            "resampled",
            word.resampled,
            "the precision of drafting again until something passes, task by task",
        ),
        figure(
            "φ with the generator's errors",
            error_correlation(
                [not each for each in right], [a != b for a, b in zip(passed, right, strict=True)], tasks
            ),
            "of its own errors; above 0 where F is above 1 − T",
        ),
    ]
    if word.cost_per_right is not None:
        reads = "to draft and judge, per right item that passes"
        found.append(figure("units" if paid else "seconds", word.cost_per_right, reads))
    if len(known) < len(judged.items):
        rest = [each for each in judged.items if each.right is None]
        helped = assisted_rate(
            right, passed, [each.passed for each in rest], [*tasks, *(e.task for e in rest)]
        )
        said = f"with {len(rest)} items without a label, if the labelled tasks were drawn by lot"
        found.append(figure("π by PPI++", helped.rate, said))
    if columns := _scored(judged):
        found.append(figure("ROC area", auroc(*columns), "a right item scores more than a wrong one"))
        found.append(figure("ROC area within tasks", auroc_within(*columns), "the same within one task"))
    return Probe(judged.pipeline, tuple(found))


def score_curves(judged: Sequence[Judged]) -> dict[str, Roc]:
    """By pipeline, the ROC curves of the scores of its labelled items; of those that have both right and wrong ones."""
    found = {each.pipeline: roc(*columns) for each in judged if (columns := _scored(each))}
    return {name: curve for name, curve in found.items() if curve.points}


def _scored(judged: Judged) -> tuple[list[float], list[bool], list[str]] | None:
    """Score, label and task of the items that have a score and a label."""
    scored = [each for each in judged.items if each.right is not None and each.score is not None]
    if not scored:
        return None
    return (
        [each.score or 0.0 for each in scored],
        [bool(each.right) for each in scored],
        [e.task for e in scored],
    )


def _overlooked(judged: Sequence[Judged]) -> list[Figure]:
    """For each verifier: do wrong items of some generators pass more often than those of the others?"""
    found = []
    for verifier in dict.fromkeys((each.verifier, each.rule) for each in judged):
        # Of pipelines with the same parts the first stands for all: the others have its items again.
        first = {each.generator: each for each in reversed(judged) if (each.verifier, each.rule) == verifier}
        own = [each for each in judged if first.get(each.generator) is each]
        related = [each for each in own if each.related]
        suspects = [related] if 0 < len(related) < len(own) else [[each] for each in own]
        # Of two the second's ratio is one over the first's.
        for some in suspects if len(own) > 2 else suspects[: len(own) - 1]:
            wrong = [(each, item) for each in own for item in each.items if item.right is False]
            if not wrong:
                continue
            ratio = blind_spots(
                [item.passed for _, item in wrong],
                [each in some for each, _ in wrong],
                [item.task for _, item in wrong],
                strata=[item.task for _, item in wrong],
            ).ratio
            names = ", ".join(each.pipeline for each in some)
            reads = "wrong items pass so many times as often as those of the other generators, task by task"
            found.append(figure(f"F of {names} over the others'", ratio, reads))
    return found


def _alike(judged: Sequence[Judged]) -> list[Figure]:
    """For each two verifiers: do they err on the same items? Whether one passed includes the rule's word."""
    found = []
    first = {(each.verifier, each.rule): each for each in reversed(judged)}
    for one, other in combinations([each for each in judged if first[each.verifier, each.rule] is each], 2):
        if one.verifier == other.verifier:
            continue
        errs = [
            {
                (item.task, item.value): item.passed != item.right
                for each in judged
                if (each.verifier, each.rule) == (side.verifier, side.rule)
                for item in each.items
                if item.right is not None
            }
            for side in (one, other)
        ]
        both = [key for key in errs[0] if key in errs[1]]
        if both:
            phi = error_correlation(
                [errs[0][key] for key in both], [errs[1][key] for key in both], [task for task, _ in both]
            )
            name = f"φ of the errors of {one.pipeline} and {other.pipeline}"
            found.append(figure(name, phi, "on the same items; 0 of verifiers that err independently"))
    return found
