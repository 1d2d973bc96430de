"""The probes of a judge: each asks it some more, or looks at what it said, and gives figures with 95 % intervals.

A verdict on a comparison is first, second or tie, turned back to the comparison's own order; or none. Intervals come
from drawing whole questions anew (`calibration.bootstrap`); of a share that is 0 or 1 each question counts as one
trial. Being consistent is not being right: the figures of agreement alone say what the labels say of a judge.

References:
    Zheng et al., Judging LLM-as-a-judge with MT-Bench and Chatbot Arena, arXiv 2306.05685 (order swap, padding, own
    family). Norman et al., arXiv 2606.19544 (κ beside accuracy, retest beside position bias).
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Sequence
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

import msgspec
import numpy as np

from draftverify.kit.audit.comparisons import AnswerComparison
from draftverify.kit.audit.judges import AnswerComparer, Choice, PairVerdict, Presented
from draftverify.stats.intervals import Estimate, rate
from draftverify.stats.judgement.agreement import kappa_of_places, krippendorff_alpha
from draftverify.stats.judgement.trust import assisted_rate
from draftverify.stats.selective import bootstrap

__all__ = ["PROBES", "Asking", "Probe", "ProbeFigure", "ProbeName"]

ProbeName: TypeAlias = Literal[
    "agreement", "order", "length", "win_rate", "family",
    "names", "format", "wording", "repeat", "padding", "empty",
]  # fmt: skip

AT_ONCE = 64
"""Judgements that are asked for in one call, so that progress shows."""

SYSTEMS = 12
"""Win rates are told of so many systems, the most frequent ones."""

CONSTANT = "The answer is as stated above."
VAGUE = (
    "There are several ways to look at this. It depends on many factors, and opinions differ. One should weigh all of "
    "them with care before coming to a conclusion."
)

TURNED: dict[Choice | None, Choice | None] = {"first": "second", "second": "first", "tie": "tie", None: None}
WIN: dict[Choice | None, float] = {"first": 1.0, "tie": 0.5, "second": 0.0, None: math.nan}


class ProbeFigure(msgspec.Struct, frozen=True, kw_only=True):
    """One figure of a probe, with its interval.

    Args:
        name: what it is.
        value, low, high: it and its 95 % interval; None where there is none.
        n: verdicts or comparisons that it is of.
        questions: how many questions, or tasks, these are about.
        reads: how to read it.
    """

    name: str
    value: float | None
    low: float | None
    high: float | None
    n: int
    questions: int
    reads: str = ""


class Probe(msgspec.Struct, frozen=True):
    """The figures of one probe.

    Args:
        name: of the probe.
        figures: (), where it was not tested.
        untested: why it was not.
    """

    name: str
    figures: tuple[ProbeFigure, ...] = ()
    untested: str = ""


class Asking:
    """A judge, what it is audited on, and what it has said; each thing is asked once.

    Args:
        judge: pairwise.
        comparisons: at least one.
        family: the judge's, or None.
        watcher: told how many judgements have been asked for.
    """

    def __init__(
        self,
        judge: AnswerComparer,
        comparisons: Sequence[AnswerComparison],
        family: str | None = None,
        watcher: Callable[[int], None] = lambda count: None,
    ) -> None:
        self.judge = judge
        self.comparisons = comparisons
        self.family = family
        self.varies = judge.varies
        self.asked = 0
        self._watcher = watcher
        self._said: dict[Presented, PairVerdict] = {}

    def ask(self, presented: Sequence[Presented]) -> list[Choice | None]:
        """The choices, by place as presented."""
        new = [entry for entry in dict.fromkeys(presented) if entry not in self._said]
        for start in range(0, len(new), AT_ONCE):
            chunk = new[start : start + AT_ONCE]
            self._said.update(zip(chunk, self.judge.compare(chunk), strict=True))
            self.asked += len(chunk)
            self._watcher(self.asked)
        return [self._said[entry].choice for entry in presented]

    def plain(self) -> list[Choice | None]:
        """The verdicts in the comparisons' own order."""
        return self.ask([shown(case) for case in self.comparisons])

    def swapped(self) -> list[Choice | None]:
        """The verdicts in the other order, turned back."""
        swapped = self.ask([shown(case, swapped=True) for case in self.comparisons])
        return [TURNED[choice] for choice in swapped]

    def verdicts(self) -> list[list[Choice | None]]:
        """One list for each order that the judge can be asked in."""
        return [self.plain(), self.swapped()] if "order" in self.varies else [self.plain()]

    def first_trouble(self) -> str:
        """What the judge said where it gave no verdict; "" where it always did."""
        return next(
            (f"{verdict.why}: {verdict.words}" for verdict in self._said.values() if verdict.choice is None),
            "",
        )

    def duel(self, pairs: Sequence[tuple[AnswerComparison, str, str]]) -> list[list[Choice | None]]:
        """Two other texts under each comparison's question, in each order that the judge can be asked in."""
        direct = self.ask([Presented(case.question, text, rival, id=case.id) for case, text, rival in pairs])
        if "order" not in self.varies:
            return [[choice] for choice in direct]
        back = self.ask([Presented(case.question, rival, text, id=case.id) for case, text, rival in pairs])
        return [[choice, TURNED[turned]] for choice, turned in zip(direct, back, strict=True)]

    def share(self, name: str, hits: Sequence[tuple[int, bool]], reads: str = "") -> ProbeFigure:
        """The share of hits among verdicts, each of the comparison at its place."""
        where = [self.comparisons[place].question for place, _ in hits]
        hit = np.array([float(is_hit) for _, is_hit in hits])

        def statistic(weights: Any) -> float:
            return float(weights @ hit / weights.sum()) if weights.sum() > 0 else math.nan

        estimate = bootstrap(statistic, where)
        if estimate.value in (0.0, 1.0):
            trials: dict[str, float] = {}
            for question in where:
                trials[question] = trials.get(question, 0.0) + 1.0
            estimate = rate([estimate.value * count for count in trials.values()], list(trials.values()))
        return figure(name, estimate, reads, bounds=(0.0, 1.0))

    def of(
        self,
        name: str,
        statistic: Callable[[Any], float],
        places: Sequence[int],
        reads: str,
        low: float = -1.0,
    ) -> ProbeFigure:
        """A figure of the comparisons at these places, each weighted by the bootstrap; from `low` to 1."""
        where = [self.comparisons[place].question for place in places]
        return figure(name, bootstrap(statistic, where), reads, bounds=(low, 1.0))


def figure(
    name: str, estimate: Estimate, reads: str, bounds: tuple[float, float] = (-math.inf, math.inf)
) -> ProbeFigure:
    """An estimate as a figure, its interval cut to what the figure can be; an end that is not finite is None."""
    ends = (estimate.value, max(estimate.low, bounds[0]), min(estimate.high, bounds[1]))
    is_known = not math.isnan(estimate.value)
    value, low, high = (end if is_known and math.isfinite(end) else None for end in ends)
    return ProbeFigure(
        name=name,
        value=value,
        low=low,
        high=high,
        n=estimate.trials,
        questions=estimate.clusters,
        reads=reads,
    )


def shown(case: AnswerComparison, *, swapped: bool = False, **variation: Any) -> Presented:
    """A comparison as it is shown to the judge."""
    first_answer, second_answer = (case.second, case.first) if swapped else (case.first, case.second)
    return Presented(case.question, first_answer, second_answer, id=case.id, **variation)


def agreement(asking: Asking) -> Probe:
    """How often the judge says what the labels say, and how far beyond chance.

    accuracy: the share of verdicts, over all orders, that are the label (the majority's); no verdict is a wrong one.
    κ: Cohen's, of the same verdicts and labels, no verdict being a category of its own. annotators' α: Krippendorff's,
    of the annotators among themselves, which is what a judge can be measured against at best. no verdict: their share.
    """
    verdicts = [(place, choice) for choices in asking.verdicts() for place, choice in enumerate(choices)]
    labels = [case.label for case in asking.comparisons]
    labelled = [(place, choice) for place, choice in verdicts if labels[place] is not None]
    none = asking.share(
        "no verdict", [(place, choice is None) for place, choice in verdicts], "prose, cut off, errors"
    )
    if not labelled:
        return Probe("agreement", (none,), "no comparison has a label")
    hits = [(place, choice == labels[place]) for place, choice in labelled]
    decided = [(place, choice == labels[place]) for place, choice in labelled if choice is not None]
    kinds: list[Choice | None] = ["first", "second", "tie", None]
    judge_places = np.array([kinds.index(choice) for _, choice in labelled])
    label_places = np.array([kinds.index(labels[place]) for place, _ in labelled])
    figures = [
        asking.share("accuracy", hits, "verdicts that are the label; none is wrong"),
        asking.of(
            "Cohen's κ", lambda w: kappa_of_places(judge_places, label_places, 4, w), [place for place, _ in labelled],
            "agreement beyond chance: 0 is chance, 1 is all",
        ),
        none,
    ]  # fmt: skip
    if len(decided) < len(hits):
        figures.insert(
            1, asking.share("accuracy of verdicts given", decided, "those without a verdict left out")
        )
    if any(len(case.labels) > 1 for case in asking.comparisons):
        counts = np.array(
            [[case.labels.count(kind) for kind in kinds[:3]] for case in asking.comparisons], dtype=float
        )
        places = range(len(counts))
        reads = "how far the annotators agree among themselves"
        figures.append(asking.of("annotators' α", lambda w: krippendorff_alpha(counts, w), places, reads))
    return Probe("agreement", tuple(figures))


def order(asking: Asking) -> Probe:
    """Whether the verdict survives that the answers change places.

    swap consistency: the share of comparisons whose two verdicts name the same answer (or both a tie), of those
    with two verdicts; the others are pairs without a verdict. Consistent pairs are decisive (one answer in both
    orders) or consistent ties. κ between orders: Cohen's, of the two verdicts, which chance alone makes 0. accuracy
    where consistent: the share of those that are the label; of decisive pairs: the same of those alone. position
    bias: of the comparisons in which the place was chosen twice, the share in which it was the first place; ½ is no
    leaning, whatever the consistency.
    """
    if "order" not in asking.varies:
        return Probe("order", untested="the judge sees one answer at a time, or was recorded in one order")
    both = [
        (place, choice, turned)
        for place, (choice, turned) in enumerate(zip(asking.plain(), asking.swapped(), strict=True))
        if choice is not None and turned is not None
    ]
    consistent = [(place, choice == turned) for place, choice, turned in both]
    labels = [case.label for case in asking.comparisons]
    right = [
        (place, choice == labels[place])
        for place, choice, turned in both
        if choice == turned and labels[place]
    ]
    decisive = [(place, choice in ("first", "second") and choice == turned) for place, choice, turned in both]
    ties = [(place, choice == turned == "tie") for place, choice, turned in both]
    right_decisive = [(place, is_right) for place, is_right in right if asking.plain()[place] != "tie"]
    whole = {place for place, _, _ in both}
    without = [(place, place not in whole) for place in range(len(labels))]
    kinds: list[Choice] = ["first", "second", "tie"]
    plain_kinds = np.array([kinds.index(choice) for _, choice, _ in both], dtype=int)
    swapped_kinds = np.array([kinds.index(turned) for _, _, turned in both], dtype=int)
    # Turned back, the second verdict names the other answer where the same place was chosen again.
    placed = [
        (place, choice == "first")
        for place, choice, turned in both
        if {choice, turned} == {"first", "second"}
    ]
    return Probe(
        "order",
        (
            asking.share("swap consistency", consistent, "same answer in both orders; it is not validity"),
            asking.of(
                "κ between orders",
                lambda w: kappa_of_places(plain_kinds, swapped_kinds, 3, w),
                [place for place, *_ in both],
                "the same beyond chance",
            ),
            asking.share("decisive pairs", decisive, "one answer in both orders"),
            asking.share("consistent ties", ties, "a tie in both orders"),
            asking.share("pairs without a verdict", without, "in one order or both"),
            asking.share(
                "accuracy where consistent", right, "of the consistent ones, those that are the label"
            ),
            asking.share("accuracy of decisive pairs", right_decisive, "of these, those that are the label"),
            asking.share("position bias", placed, "of those that kept to a place, the first; ½ is none"),
        ),
    )


def length(asking: Asking) -> Probe:
    """Whether the longer answer (in characters) wins, beside how often the labels themselves prefer it.

    longer, judge: the share of its verdicts for one answer that name the longer. longer, labels: the same of the
    labels. The difference, of both drawn together, is the leaning that is the judge's own.
    """
    differences = [len(case.first) - len(case.second) for case in asking.comparisons]
    verdicts = [(place, choice) for choices in asking.verdicts() for place, choice in enumerate(choices)]

    def longer(places: Sequence[tuple[int, Choice | None]]) -> list[tuple[int, bool]]:
        decided = [
            (place, choice)
            for place, choice in places
            if choice in ("first", "second") and differences[place]
        ]
        return [(place, (choice == "first") == (differences[place] > 0)) for place, choice in decided]

    judge = longer(verdicts)
    if not judge:
        return Probe("length", untested="no verdict is on two answers of different length")
    labels = longer([(place, case.label) for place, case in enumerate(asking.comparisons)])
    figures = [asking.share("longer, judge", judge, "read it beside the labels' own")]
    if labels:
        figures.append(asking.share("longer, labels", labels, "what people preferred"))
        figures.append(_difference(asking, "judge − labels", judge, labels, "0 is no leaning of its own"))
    return Probe("length", tuple(figures))


def win_rate(asking: Asking) -> Probe:
    """How often a system wins by the judge, by the labels, and by both together without the judge's bias.

    A win counts 1, a tie ½; over both orders the mean. bias: judge − labels, on the labelled comparisons. corrected:
    PPI++ (`calibration.assisted_rate`) of the labels and of the judge's verdicts on comparisons without a label.
    Without names of systems it is the rate of the answer that is listed first.
    """
    wins = np.array([[WIN[choice] for choice in choices] for choices in asking.verdicts()])
    with np.errstate(invalid="ignore"):
        has_verdict = ~np.isnan(wins)
        judge = np.where(has_verdict.any(0), np.nansum(wins, 0) / np.maximum(has_verdict.sum(0), 1), math.nan)
    labels = np.array([WIN[case.label] for case in asking.comparisons])
    names = [case.systems or ("first listed", "second listed") for case in asking.comparisons]
    every = [
        name
        for case, pair in zip(asking.comparisons, names, strict=True)
        for name in pair[: 2 if case.systems else 1]
    ]
    systems = sorted(dict.fromkeys(every), key=lambda name: (-every.count(name), name))[:SYSTEMS]
    figures: list[ProbeFigure] = []
    for system in systems:
        places = [
            i
            for i, pair in enumerate(names)
            if system in pair and pair[0] != pair[1] and not math.isnan(judge[i])
        ]
        turned = [names[i][1] == system for i in places]
        ours = np.array(
            [1.0 - judge[i] if turn else judge[i] for i, turn in zip(places, turned, strict=True)]
        )
        theirs = np.array(
            [1.0 - labels[i] if turn else labels[i] for i, turn in zip(places, turned, strict=True)]
        )
        if not places:
            continue
        has = ~np.isnan(theirs)
        figures.append(asking.of(f"{system}: judge", _mean(ours), places, "wins by the judge alone", 0.0))
        if not has.any():
            continue
        labelled_places = [place for place, is_labelled in zip(places, has, strict=True) if is_labelled]
        figures.append(
            asking.of(
                f"{system}: labels", _mean(theirs[has]), labelled_places, "wins by the labels alone", 0.0
            )
        )
        figures.append(
            asking.of(
                f"{system}: bias",
                _mean(ours[has] - theirs[has]),
                labelled_places,
                "judge − labels; 0 is none",
            )
        )
        if not has.all():
            where = [
                asking.comparisons[place].question
                for place in (*labelled_places, *(p for p in places if p not in set(labelled_places)))
            ]
            estimate = assisted_rate(
                theirs[has].tolist(), ours[has].tolist(), ours[~has].tolist(), where
            ).rate
            figures.append(
                figure(
                    f"{system}: corrected",
                    estimate,
                    "labels and judge together, without its bias",
                    (0.0, 1.0),
                )
            )
    if not figures:
        return Probe("win_rate", untested="there is no verdict")
    return Probe("win_rate", tuple(figures))


def family(asking: Asking) -> Probe:
    """Whether the judge favours answers of its own family, measured against the labels on the same comparisons.

    preference: the share of wins (a tie ½) of its own family by the judge, minus that by the labels, where exactly one
    answer is of its family. A family may simply be better: a high rate alone shows nothing.
    """
    if asking.family is None:
        return Probe("family", untested="the judge has no family")
    own_family: list[tuple[int, bool]] = []
    for place, case in enumerate(asking.comparisons):
        is_own = [name == asking.family for name in case.families or ()]
        if sum(is_own) == 1 and case.label is not None:
            own_family.append((place, is_own[1]))
    if not own_family:
        return Probe(
            "family", untested=f"no labelled comparison has one answer of its family, {asking.family}"
        )
    rows = []
    for choices in asking.verdicts():
        for place, turn in own_family:
            if choices[place] is not None:
                judge, label = WIN[choices[place]], WIN[asking.comparisons[place].label]
                rows.append((place, *((1.0 - judge, 1.0 - label) if turn else (judge, label))))
    places, ours, theirs = (
        [row[0] for row in rows],
        np.array([row[1] for row in rows]),
        np.array([row[2] for row in rows]),
    )
    return Probe(
        "family",
        (
            asking.of("own family wins, judge", _mean(ours), places, "read it beside the labels'", 0.0),
            asking.of("own family wins, labels", _mean(theirs), places, "what people preferred", 0.0),
            asking.of(
                "preference", _mean(ours - theirs), places, "judge − labels; above 0 it favours its own"
            ),
        ),
    )


def names(asking: Asking) -> Probe:
    """Whether the verdict survives that the answers exchange their names in the prompt (A for B), in the same order.

    name consistency: the share of verdicts that still name the same answer. name bias: of those that kept to a name,
    the share that kept to the first, "A"; ½ is no leaning.
    """
    if "names" not in asking.varies:
        return Probe("names", untested="the judge cannot be asked under other names")
    renamed = asking.ask([shown(case, names_exchanged=True) for case in asking.comparisons])
    both = [
        (place, *pair)
        for place, pair in enumerate(zip(asking.plain(), renamed, strict=True))
        if None not in pair
    ]
    kept_names = [
        (place, choice == "first")
        for place, choice, renamed_choice in both
        if {choice, renamed_choice} == {"first", "second"}
    ]
    return Probe(
        "names",
        (
            asking.share(
                "name consistency",
                [(place, choice == renamed_choice) for place, choice, renamed_choice in both],
                "same answer under the other name",
            ),
            asking.share("name bias", kept_names, 'of those that kept to a name, "A"; ½ is none'),
        ),
    )


def format(asking: Asking) -> Probe:
    """Whether the verdict survives that both answers are wrapped alike: as JSON, and as a quotation in Markdown."""
    if "answers" not in asking.varies:
        return Probe("format", untested="recorded verdicts know no other answers")
    ways: dict[str, Callable[[str], str]] = {
        "JSON": lambda text: json.dumps({"answer": text}, ensure_ascii=False),
        "Markdown": lambda text: "## Answer\n\n" + "\n".join(f"> {line}" for line in text.split("\n")),
    }
    figures = []
    for name, wrap in ways.items():
        wrapped = asking.ask(
            [Presented(e.question, wrap(e.first), wrap(e.second), id=e.id) for e in asking.comparisons]
        )
        figures.append(_same(asking, f"same in {name}", wrapped, "same answer when both are wrapped"))
    return Probe("format", tuple(figures))


def wording(asking: Asking) -> Probe:
    """Whether the verdict survives another wording of the judging prompt, and how right it is under that one."""
    if "wording" not in asking.varies:
        return Probe("wording", untested="the judge has one wording; give it `paraphrases`")
    reworded = asking.ask([shown(case, wording=1) for case in asking.comparisons])
    figures = [_same(asking, "same in other words", reworded, "same answer under the second prompt")]
    labels = [case.label for case in asking.comparisons]
    if any(labels):
        hits = [(place, choice == labels[place]) for place, choice in enumerate(reworded) if labels[place]]
        figures.append(
            asking.share("accuracy in other words", hits, "in the comparisons' own order; none is wrong")
        )
    return Probe("wording", tuple(figures))


def repeat(asking: Asking) -> Probe:
    """Whether the judge says the same when asked again. A judge can repeat itself and lean all the same."""
    if "repeat" not in asking.varies:
        return Probe("repeat", untested="recorded verdicts are of one call each")
    repeated = asking.ask([shown(case, repeat=1) for case in asking.comparisons])
    return Probe(
        "repeat", (_same(asking, "retest", repeated, "same answer when asked again; it is not validity"),)
    )


def padding(asking: Asking) -> Probe:
    """Whether an answer wins against itself once it is padded with a list of its own sentences (Zheng et al., 3.3).

    padded wins: the share of comparisons in which the padded copy of the first answer is preferred in every order that
    the judge can be asked in. The list says nothing new; theirs was rephrased, this one repeats. It is a weak probe:
    few judges fail it.
    """
    if "answers" not in asking.varies:
        return Probe("padding", untested="recorded verdicts know no other answers")
    duels = asking.duel([(case, padded(case.first), case.first) for case in asking.comparisons])
    hits = [
        (place, all(choice == "first" for choice in choices))
        for place, choices in enumerate(duels)
        if None not in choices
    ]
    return Probe("padding", (asking.share("padded wins", hits, "the padded copy is preferred; 0 is right"),))


def empty(asking: Asking) -> Probe:
    """Whether an answer that says nothing loses: a constant one (null models, arXiv 2410.07137), and a vague one.

    It stands against the answer that the label prefers, else the first. The share in which the real answer wins in
    every order that the judge can be asked in; no verdict is no win.
    """
    if "answers" not in asking.varies:
        return Probe("empty", untested="recorded verdicts know no other answers")
    figures = []
    for name, nothing in (("constant answer loses", CONSTANT), ("vague answer loses", VAGUE)):
        real = [case.second if case.label == "second" else case.first for case in asking.comparisons]
        duels = asking.duel(
            [(case, text, nothing) for case, text in zip(asking.comparisons, real, strict=True)]
        )
        hits = [(place, all(choice == "first" for choice in choices)) for place, choices in enumerate(duels)]
        figures.append(asking.share(name, hits, "the real answer is preferred in every order; 1 is right"))
    return Probe("empty", tuple(figures))


def padded(text: str) -> str:
    """An answer and, behind it, its own sentences twice over as a numbered list."""
    sentences = [sentence for sentence in re.split(r"(?<=[.!?])\s+|\n+", text.strip()) if sentence]
    lines = [f"{number}. {sentence}" for number, sentence in enumerate([*sentences, *sentences], 1)]
    return "\n".join([text, "", *lines])


def _same(asking: Asking, name: str, varied: Sequence[Choice | None], reads: str) -> ProbeFigure:
    pairs = enumerate(zip(asking.plain(), varied, strict=True))
    return asking.share(
        name,
        [
            (place, choice == varied_choice)
            for place, (choice, varied_choice) in pairs
            if choice and varied_choice
        ],
        reads,
    )


def _mean(values: Any) -> Callable[[Any], float]:
    return lambda weights: float(weights @ values / weights.sum()) if weights.sum() > 0 else math.nan


def _difference(
    asking: Asking,
    name: str,
    ours: Sequence[tuple[int, bool]],
    theirs: Sequence[tuple[int, bool]],
    reads: str,
) -> ProbeFigure:
    """The difference of two shares whose questions are drawn together."""
    hit = np.array([float(is_hit) for _, is_hit in [*ours, *theirs]])

    def statistic(weights: Any) -> float:
        (our_weights, their_weights), n = (weights[: len(ours)], weights[len(ours) :]), len(ours)
        if not (our_weights.sum() > 0 and their_weights.sum() > 0):
            return math.nan
        return float(
            our_weights @ hit[:n] / our_weights.sum() - their_weights @ hit[n:] / their_weights.sum()
        )

    return asking.of(name, statistic, [place for place, _ in [*ours, *theirs]], reads)


PROBES: MappingProxyType[ProbeName, Callable[[Asking], Probe]] = MappingProxyType(
    {
        "agreement": agreement,
        "order": order,
        "length": length,
        "win_rate": win_rate,
        "family": family,
        "names": names,
        "format": format,
        "wording": wording,
        "repeat": repeat,
        "padding": padding,
        "empty": empty,
    }
)
