"""The probes of a judge: each asks it some more, or looks at what it said, and gives figures with 95 % intervals.

A verdict on a comparison is first, second or tie, turned back to the comparison's own order; or none. Intervals come
from drawing whole questions anew (`stats.bootstrap`); of a share that is 0 or 1 each question counts as one
trial. Being consistent is not being right: the figures of agreement alone say what the labels say of a judge.

References:
    Zheng et al., Judging LLM-as-a-judge with MT-Bench and Chatbot Arena, arXiv 2306.05685 (order swap, padding, own
    family). Norman et al., arXiv 2606.19544 (κ beside accuracy, retest beside position bias).
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

import msgspec
import numpy as np

from draftverify.errors import ConfigError
from draftverify.kit.audit.comparisons import AnswerComparison
from draftverify.kit.audit.judges import Choice, PairVerdict, Presented, ShowsReference, Variation, as_judge
from draftverify.stats.intervals import Estimate, bootstrap, rate
from draftverify.stats.judgement.agreement import kappa_of_places, krippendorff_alpha
from draftverify.stats.judgement.trust import assisted_rate

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
        judge: pairwise, pointwise, recorded, or any verifier that gives scores; opened.
        comparisons: at least one.
        family: the judge's, or None.
        watcher: told how many judgements have been asked for.

    Raises:
        ConfigError: it is no judge, or is shown a right answer that a comparison lacks.
    """

    def __init__(
        self,
        judge: Any,
        comparisons: Sequence[AnswerComparison],
        family: str | None = None,
        watcher: Callable[[int], None] = lambda count: None,
    ) -> None:
        self.judge = as_judge(judge)
        lacking = [case.id for case in comparisons if case.reference is None]
        if lacking and isinstance(judge, ShowsReference) and judge.reference is not None:
            raise ConfigError(
                f"the judge is shown {judge.reference!r} as a right answer, which {lacking[0]} does not have",
                path="comparisons",
            )
        self.comparisons = comparisons
        self.labels = [case.label for case in comparisons]
        self.family = family
        self.varies = self.judge.varies
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

    def plain(self, **variation: Any) -> list[Choice | None]:
        """The verdicts in the comparisons' own order, with other names, wording or repetition where asked for."""
        return self.ask([_shown(case, case.first, case.second, **variation) for case in self.comparisons])

    def swapped(self) -> list[Choice | None]:
        """The verdicts in the other order, turned back."""
        swapped = self.ask([_shown(case, case.second, case.first) for case in self.comparisons])
        return [TURNED[choice] for choice in swapped]

    def verdicts(self) -> list[list[Choice | None]]:
        """One list for each order that the judge can be asked in."""
        return [self.plain(), self.swapped()] if "order" in self.varies else [self.plain()]

    def placed(self) -> list[tuple[int, Choice | None]]:
        """The verdicts of all orders, each with the place of its comparison."""
        return [pair for choices in self.verdicts() for pair in enumerate(choices)]

    def first_trouble(self) -> str:
        """What the judge said where it gave no verdict; "" where it always did."""
        none = (verdict for verdict in self._said.values() if verdict.choice is None)
        return next((f"{verdict.why}: {verdict.words}" for verdict in none), "")

    def duel(self, pairs: Sequence[tuple[AnswerComparison, str, str]]) -> list[list[Choice | None]]:
        """Two other texts under each comparison's question, in each order that the judge can be asked in."""
        direct = self.ask([_shown(*pair) for pair in pairs])
        if "order" not in self.varies:
            return [[choice] for choice in direct]
        back = self.ask([_shown(case, rival, text) for case, text, rival in pairs])
        return [[choice, TURNED[turned]] for choice, turned in zip(direct, back, strict=True)]

    def share(self, name: str, hits: Hits, reads: str = "") -> ProbeFigure:
        """The share of hits among verdicts, each of the comparison at its place."""
        where = self._questions([place for place, _ in hits])
        hit = np.array([float(is_hit) for _, is_hit in hits])
        estimate = bootstrap(lambda weights: _over(weights @ hit, weights.sum()), where)
        if estimate.value in (0.0, 1.0):
            trials = Counter(where)
            estimate = rate(
                [estimate.value * count for count in trials.values()], [*map(float, trials.values())]
            )
        return figure(name, estimate, reads, bounds=(0.0, 1.0))

    def mean(self, name: str, values: Any, places: Any, reads: str, low: float = 0.0) -> ProbeFigure:
        """The mean of values [n] of the comparisons at these places [n]; from `low` to 1."""
        return self.of(name, lambda weights: _over(weights @ values, weights.sum()), places, reads, low)

    def of(
        self,
        name: str,
        statistic: Callable[[Any], float],
        places: Sequence[int],
        reads: str,
        low: float = -1.0,
    ) -> ProbeFigure:
        """A figure of the comparisons at these places, each weighted by the bootstrap; from `low` to 1."""
        return figure(name, bootstrap(statistic, self._questions(places)), reads, bounds=(low, 1.0))

    def assisted(self, name: str, labels: Any, judged: Any, places: Any, reads: str) -> ProbeFigure:
        """The mean label [n], NaN where there is none, by these and the judge's word [n]."""
        has = ~np.isnan(labels)
        where = self._questions([*places[has], *places[~has]])
        estimate = assisted_rate(
            labels[has].tolist(), judged[has].tolist(), judged[~has].tolist(), where
        ).rate
        return figure(name, estimate, reads, (0.0, 1.0))

    def _questions(self, places: Sequence[int]) -> list[str]:
        return [self.comparisons[place].question for place in places]


def _over(part: float, total: float) -> float:
    return float(part / total) if total > 0 else math.nan


def figure(
    name: str, estimate: Estimate, reads: str, bounds: tuple[float, float] = (-math.inf, math.inf)
) -> ProbeFigure:
    """An estimate as a figure, its interval cut to what the figure can be; an end that is not finite is None."""
    ends = (estimate.value, max(estimate.low, bounds[0]), min(estimate.high, bounds[1]))
    is_known = not math.isnan(estimate.value)
    value, low, high = (end if is_known and math.isfinite(end) else None for end in ends)
    n, questions = estimate.trials, estimate.clusters
    return ProbeFigure(name=name, value=value, low=low, high=high, n=n, questions=questions, reads=reads)


def _shown(case: AnswerComparison, first: str, second: str, **variation: Any) -> Presented:
    """Two answers to a comparison's question as they are shown to the judge."""
    return Presented(case.question, first, second, id=case.id, reference=case.reference, **variation)


class _Untested(Exception):
    """A probe has nothing more to look at, and why."""


def _probe(needs: Variation | None = None, otherwise: str = "") -> Callable[[_Figures], _Figures]:
    """Register a probe; a judge that cannot be asked with the variation that it needs is not tested."""

    def register(figures_of: _Figures) -> _Figures:
        name: Any = figures_of.__name__

        def probed(asking: Asking) -> Probe:
            if needs is not None and needs not in asking.varies:
                return Probe(name, untested=otherwise)
            figures: list[ProbeFigure] = []
            untested = ""
            try:
                figures += figures_of(asking)
            except _Untested as why:
                untested = str(why)
            return Probe(name, tuple(figures), untested)

        _PROBES[name] = probed
        return figures_of

    return register


Hits: TypeAlias = "Sequence[tuple[int, bool]]"
"""Whether it is so, each with the place of its comparison."""
_Figures: TypeAlias = "Callable[[Asking], Iterator[ProbeFigure]]"
_PROBES: dict[ProbeName, Callable[[Asking], Probe]] = {}
PROBES = MappingProxyType(_PROBES)


@_probe()
def agreement(asking: Asking) -> Iterator[ProbeFigure]:
    """How often the judge says what the labels say, and how far beyond chance.

    accuracy: the share of verdicts, over all orders, that are the label (the majority's); no verdict is a wrong one.
    κ: Cohen's, of the same verdicts and labels, no verdict being a category of its own. annotators' α: Krippendorff's,
    of the annotators among themselves, which is what a judge can be measured against at best. no verdict: their share.
    """
    verdicts, labels = asking.placed(), asking.labels
    labelled = [(place, choice) for place, choice in verdicts if labels[place] is not None]
    none = asking.share(
        "no verdict", [(place, choice is None) for place, choice in verdicts], "prose, cut off, errors"
    )
    if labelled:
        hits = [(place, choice == labels[place]) for place, choice in labelled]
        yield asking.share("accuracy", hits, "verdicts that are the label; none is wrong")
        decided = [hit for hit, (_, choice) in zip(hits, labelled, strict=True) if choice is not None]
        if len(decided) < len(hits):
            yield asking.share("accuracy of verdicts given", decided, "those without a verdict left out")
        kinds: list[Choice | None] = ["first", "second", "tie", None]
        judge_places = np.array([kinds.index(choice) for _, choice in labelled])
        label_places = np.array([kinds.index(labels[place]) for place, _ in labelled])
        yield asking.of(
            "Cohen's κ", lambda weights: kappa_of_places(judge_places, label_places, 4, weights),
            [place for place, _ in labelled], "agreement beyond chance: 0 is chance, 1 is all",
        )  # fmt: skip
    yield none
    if not labelled:
        raise _Untested("no comparison has a label")
    if any(len(case.labels) > 1 for case in asking.comparisons):
        counts = np.array(
            [[case.labels.count(kind) for kind in kinds[:3]] for case in asking.comparisons], float
        )
        reads = "how far the annotators agree among themselves"
        yield asking.of("annotators' α", lambda w: krippendorff_alpha(counts, w), range(len(counts)), reads)


@_probe("order", "the judge sees one answer at a time, or was recorded in one order")
def order(asking: Asking) -> Iterator[ProbeFigure]:
    """Whether the verdict survives that the answers change places.

    swap consistency: the share of comparisons whose two verdicts name the same answer (or both a tie), of those
    with two verdicts; the others are pairs without a verdict. Consistent pairs are decisive (one answer in both
    orders) or consistent ties. κ between orders: Cohen's, of the two verdicts, which chance alone makes 0. accuracy
    where consistent: the share of those that are the label; of decisive pairs: the same of those alone. position
    bias: of the comparisons in which the place was chosen twice, the share in which it was the first place; ½ is no
    leaning, whatever the consistency.
    """
    plain, swapped = asking.plain(), asking.swapped()
    same, placed = _compared(asking, swapped)
    agreed = [plain[at] if is_same else None for at, is_same in same]
    decisive = [(at, choice in ("first", "second")) for (at, _), choice in zip(same, agreed, strict=True)]
    ties = [(at, choice == "tie") for (at, _), choice in zip(same, agreed, strict=True)]
    right = [(at, plain[at] == asking.labels[at]) for at, is_same in same if is_same and asking.labels[at]]
    right_decisive = [(at, is_right) for at, is_right in right if plain[at] != "tie"]
    answered = [at for at, _ in same]
    without = [(at, choice is None or swapped[at] is None) for at, choice in enumerate(plain)]
    kinds: list[Choice | None] = ["first", "second", "tie"]
    places, turned = (
        np.array([kinds.index(choices[at]) for at in answered], int) for choices in (plain, swapped)
    )
    yield asking.share("swap consistency", same, "same answer in both orders; it is not validity")
    yield asking.of(
        "κ between orders", lambda weights: kappa_of_places(places, turned, 3, weights),
        answered, "the same beyond chance",
    )  # fmt: skip
    yield asking.share("decisive pairs", decisive, "one answer in both orders")
    yield asking.share("consistent ties", ties, "a tie in both orders")
    yield asking.share("pairs without a verdict", without, "in one order or both")
    yield asking.share("accuracy where consistent", right, "of the consistent ones, those that are the label")
    yield asking.share("accuracy of decisive pairs", right_decisive, "of these, those that are the label")
    yield asking.share("position bias", placed, "of those that kept to a place, the first; ½ is none")


@_probe()
def length(asking: Asking) -> Iterator[ProbeFigure]:
    """Whether the longer answer (in characters) wins, beside how often the labels themselves prefer it.

    longer, judge: the share of its verdicts for one answer that name the longer. longer, labels: the same of the
    labels. The difference, of both drawn together, is the leaning that is the judge's own.
    """
    differences = [len(case.first) - len(case.second) for case in asking.comparisons]

    def longer(placed: Iterable[tuple[int, Choice | None]]) -> list[tuple[int, bool]]:
        decided = [(at, choice) for at, choice in placed if choice in ("first", "second") and differences[at]]
        return [(at, (choice == "first") == (differences[at] > 0)) for at, choice in decided]

    judge, labels = longer(asking.placed()), longer(enumerate(asking.labels))
    if not judge:
        raise _Untested("no verdict is on two answers of different length")
    yield asking.share("longer, judge", judge, "read it beside the labels' own")
    if labels:
        yield asking.share("longer, labels", labels, "what people preferred")
        hit, n = np.array([float(is_hit) for _, is_hit in [*judge, *labels]]), len(judge)

        def difference(weights: Any) -> float:
            ours, theirs = weights[:n], weights[n:]
            return _over(ours @ hit[:n], ours.sum()) - _over(theirs @ hit[n:], theirs.sum())

        places = [place for place, _ in [*judge, *labels]]
        yield asking.of("judge − labels", difference, places, "0 is no leaning of its own")


@_probe()
def win_rate(asking: Asking) -> Iterator[ProbeFigure]:
    """How often a system wins by the judge, by the labels, and by both together without the judge's bias.

    A win counts 1, a tie ½; over both orders the mean. bias: judge − labels, on the labelled comparisons. corrected:
    PPI++ (`stats.judgement.assisted_rate`) of the labels and of the judge's verdicts on comparisons without a label.
    Without names of systems it is the rate of the answer that is listed first.
    """
    wins = np.array([[WIN[choice] for choice in choices] for choices in asking.verdicts()])
    has_verdict = ~np.isnan(wins)
    judge = np.where(has_verdict.any(0), np.nansum(wins, 0) / np.maximum(has_verdict.sum(0), 1), math.nan)
    labels = np.array([WIN[label] for label in asking.labels])
    names = [case.systems or ("first listed", "second listed") for case in asking.comparisons]
    counts = Counter(
        name
        for case, pair in zip(asking.comparisons, names, strict=True)
        for name in pair[: 2 if case.systems else 1]
    )
    if not has_verdict.any():
        raise _Untested("there is no verdict")
    for system in sorted(counts, key=lambda name: (-counts[name], name))[:SYSTEMS]:
        judged = [system in pair and pair[0] != pair[1] for pair in names] & ~np.isnan(judge)
        places = np.flatnonzero(judged)
        if not len(places):
            continue
        turned = np.array([names[place][1] == system for place in places], float)
        # What it won by: 1 − x when second.
        ours, theirs = (
            abs(turned - judge[places]),
            abs(turned - labels[places]),
        )
        has = ~np.isnan(theirs)
        yield asking.mean(f"{system}: judge", ours, places, "wins by the judge alone")
        if has.any():
            yield asking.mean(f"{system}: labels", theirs[has], places[has], "wins by the labels alone")
            bias = ours[has] - theirs[has]
            yield asking.mean(f"{system}: bias", bias, places[has], "judge − labels; 0 is none", -1.0)
            if not has.all():
                reads = "labels and judge together, without its bias"
                yield asking.assisted(f"{system}: corrected", theirs, ours, places, reads)


@_probe()
def family(asking: Asking) -> Iterator[ProbeFigure]:
    """Whether the judge favours answers of its own family, measured against the labels on the same comparisons.

    preference: the share of wins (a tie ½) of its own family by the judge, minus that by the labels, where exactly one
    answer is of its family. A family may simply be better: a high rate alone shows nothing.
    """
    if asking.family is None:
        raise _Untested("the judge has no family")
    own = {}
    for place, case in enumerate(asking.comparisons):
        is_own = [name == asking.family for name in case.families or ()]
        if sum(is_own) == 1 and case.label is not None:
            own[place] = float(is_own[1])
    if not own:
        raise _Untested(f"no labelled comparison has one answer of its family, {asking.family}")
    placed = [(place, choice) for place, choice in asking.placed() if place in own and choice is not None]
    places = [place for place, _ in placed]
    ours = np.array([abs(own[place] - WIN[choice]) for place, choice in placed])
    theirs = np.array([abs(own[place] - WIN[asking.labels[place]]) for place in places])
    yield asking.mean("own family wins, judge", ours, places, "read it beside the labels'")
    yield asking.mean("own family wins, labels", theirs, places, "what people preferred")
    yield asking.mean("preference", ours - theirs, places, "judge − labels; above 0 it favours its own", -1.0)


@_probe("names", "the judge cannot be asked under other names")
def names(asking: Asking) -> Iterator[ProbeFigure]:
    """Whether the verdict survives that the answers exchange their names in the prompt (A for B), in the same order.

    name consistency: the share of verdicts that still name the same answer. name bias: of those that kept to a name,
    the share that kept to the first, "A"; ½ is no leaning.
    """
    same, kept = _compared(asking, asking.plain(names_exchanged=True))
    yield asking.share("name consistency", same, "same answer under the other name")
    yield asking.share("name bias", kept, 'of those that kept to a name, "A"; ½ is none')


@_probe("answers", "recorded verdicts know no other answers")
def format(asking: Asking) -> Iterator[ProbeFigure]:
    """Whether the verdict survives that both answers are wrapped alike: as JSON, and as a quotation in Markdown."""
    ways: dict[str, Callable[[str], str]] = {
        "JSON": lambda text: json.dumps({"answer": text}, ensure_ascii=False),
        "Markdown": lambda text: "## Answer\n\n" + "\n".join(f"> {line}" for line in text.split("\n")),
    }
    for name, wrap in ways.items():
        wrapped = asking.ask(
            [_shown(case, wrap(case.first), wrap(case.second)) for case in asking.comparisons]
        )
        yield asking.share(
            f"same in {name}", _compared(asking, wrapped)[0], "same answer when both are wrapped"
        )


@_probe("wording", "the judge has one wording; give it `paraphrases`")
def wording(asking: Asking) -> Iterator[ProbeFigure]:
    """Whether the verdict survives another wording of the judging prompt, and how right it is under that one."""
    reworded = asking.plain(wording=1)
    same, _ = _compared(asking, reworded)
    yield asking.share("same in other words", same, "same answer under the second prompt")
    hits = [(at, choice == asking.labels[at]) for at, choice in enumerate(reworded) if asking.labels[at]]
    if hits:
        yield asking.share("accuracy in other words", hits, "in the comparisons' own order; none is wrong")


@_probe("repeat", "recorded verdicts are of one call each")
def repeat(asking: Asking) -> Iterator[ProbeFigure]:
    """Whether the judge says the same when asked again. A judge can repeat itself and lean all the same."""
    same, _ = _compared(asking, asking.plain(repeat=1))
    yield asking.share("retest", same, "same answer when asked again; it is not validity")


@_probe("answers", "recorded verdicts know no other answers")
def padding(asking: Asking) -> Iterator[ProbeFigure]:
    """Whether an answer wins against itself once it is padded with a list of its own sentences (Zheng et al., 3.3).

    padded wins: the share of comparisons in which the padded copy of the first answer is preferred in every order that
    the judge can be asked in. The list says nothing new; theirs was rephrased, this one repeats. It is a weak probe:
    few judges fail it.
    """
    duels = asking.duel([(case, padded(case.first), case.first) for case in asking.comparisons])
    hits = [(place, {*choices} == {"first"}) for place, choices in enumerate(duels) if None not in choices]
    yield asking.share("padded wins", hits, "the padded copy is preferred; 0 is right")


@_probe("answers", "recorded verdicts know no other answers")
def empty(asking: Asking) -> Iterator[ProbeFigure]:
    """Whether an answer that says nothing loses: a constant one (null models, arXiv 2410.07137), and a vague one.

    It stands against the answer that the label prefers, else the first. The share in which the real answer wins in
    every order that the judge can be asked in; no verdict is no win.
    """
    real = [case.second if case.label == "second" else case.first for case in asking.comparisons]
    for name, nothing in (("constant answer loses", CONSTANT), ("vague answer loses", VAGUE)):
        duels = asking.duel(
            [(case, text, nothing) for case, text in zip(asking.comparisons, real, strict=True)]
        )
        hits = [(place, {*choices} == {"first"}) for place, choices in enumerate(duels)]
        yield asking.share(name, hits, "the real answer is preferred in every order; 1 is right")


def padded(text: str) -> str:
    """An answer and, behind it, its own sentences twice over as a numbered list."""
    sentences = [sentence for sentence in re.split(r"(?<=[.!?])\s+|\n+", text.strip()) if sentence]
    lines = [f"{number}. {sentence}" for number, sentence in enumerate([*sentences, *sentences], 1)]
    return "\n".join([text, "", *lines])


def _compared(asking: Asking, varied: Sequence[Choice | None]) -> tuple[Hits, Hits]:
    """Which plain verdicts survive a variation; and which of those that turned over said "first"."""
    pairs = enumerate(zip(asking.plain(), varied, strict=True))
    both = [(place, choice, other) for place, (choice, other) in pairs if choice and other]
    same = [(place, choice == other) for place, choice, other in both]
    # One that turned over named the same place, or name, again.
    turned = [(at, choice == "first") for at, choice, other in both if {choice, other} == {"first", "second"}]
    return same, turned
