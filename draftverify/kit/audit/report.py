"""What an audit says: plain values that the command prints as a table or as JSON."""

from __future__ import annotations

import msgspec

from draftverify.values import Explanation


class Enumeration(msgspec.Struct, frozen=True, kw_only=True):
    """The rule, enumerated on tiny models.

    Args:
        cases: how many pairs of a tiny drafter and target were enumerated.
        paths: how many ways through all random draws were followed.
        worst: the largest difference of an answer's probability from the target's own.
        laws, shapes: of the drafters.
        blocks: the block sizes.
        failures: what was wrong, the worst answer of each failed case; () when the rule passed.
    """

    cases: int
    paths: int
    worst: float
    laws: tuple[str, ...]
    shapes: tuple[str, ...]
    blocks: tuple[int, ...]
    failures: tuple[str, ...] = ()


class DrawsReport(msgspec.Struct, frozen=True, kw_only=True):
    """The rule and the generator, played at recorded prefixes.

    Args:
        prefixes: how many rounds of real tasks were recorded.
        drafted: how many of them had a drafted item.
        copies: rounds played with fresh draws at each prefix.
        redrawn: proposals that the generator made again with fresh draws, in all.
        tests: how many counts were tested.
        error: the probability that a sound pipeline fails one of them, at most.
        detects: a distance TV between what is emitted and p, over a test's cells, that is seen with probability .9 at
            any one prefix; None where the rule was not judged.
        detects_together: the same for one that all prefixes have on average.
        detects_generator: the same for a distance between what items are drawn from and the q that is declared, over
            the tenths of q and on average over all that were drawn anew; None where nothing was.
        farthest: the largest TV between the rule's counts and their expectation that was found.
        rows_apart: the largest TV between a row of a block and the same row of a plain step; None at temperature 0,
            where greedy text says more.
        rows_bound: the TV of such rows that is no rounding; less is not seen.
        failures: what was wrong.
    """

    prefixes: int
    drafted: int
    copies: int
    redrawn: int
    tests: int
    error: float
    detects: float | None
    detects_together: float | None
    farthest: float | None
    detects_generator: float | None = None
    rows_apart: float | None = None
    rows_bound: float | None = None
    failures: tuple[str, ...] = ()


class TextDivergence(msgspec.Struct, frozen=True):
    """A task whose greedy text is not that of plain steps, and why."""

    task: str
    why: Explanation


class TextReport(msgspec.Struct, frozen=True, kw_only=True):
    """Greedy text with blocks against the same with plain steps.

    Args:
        tasks: how many were decoded both ways.
        same: how many came out equal.
        divergences: the others.
    """

    tasks: int
    same: int
    divergences: tuple[TextDivergence, ...] = ()

    @property
    def failures(self) -> tuple[str, ...]:
        """The divergences that rounding does not explain."""
        return tuple(
            f"task {divergence.task}: {divergence.why.text}"
            for divergence in self.divergences
            if divergence.why.cause != "rounding"
        )


class PipelineReport(msgspec.Struct, frozen=True, kw_only=True):
    """One pipeline's audit.

    Args:
        pipeline, rule: names.
        exact: whether the rule says that it emits the target's distribution, under these settings.
        enumeration, draws, text: the three parts; None where one does not apply, and `notes` say why.
        drift: of a rule that is not exact: Σ TV(π, p) over a task's values, the mean over tasks; None where
            its meter is off.
        failures: what speaks against the pipeline beside the parts.
        notes: what was left out, and why.
    """

    pipeline: str
    rule: str
    exact: bool
    enumeration: Enumeration | None = None
    draws: DrawsReport | None = None
    text: TextReport | None = None
    drift: float | None = None
    failures: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def found(self) -> tuple[str, ...]:
        """Everything that is wrong, part by part."""
        parts = (self.enumeration, self.draws, self.text)
        return (*self.failures, *(finding for part in parts if part is not None for finding in part.failures))

    @property
    def passed(self) -> bool:
        """Whether an exact claim holds; a rule that claims nothing passes."""
        return not (self.exact and self.found)

    @property
    def tested(self) -> tuple[str, ...]:
        """What was looked at, in words, and the least that would have been seen."""
        tiny, draws, text = self.enumeration, self.draws, self.text
        phrases = []
        if tiny:
            blocks = ", ".join(map(str, tiny.blocks))
            phrases.append(f"the rule on {tiny.cases} tiny models in blocks of {blocks}, exactly")
        if draws and draws.detects is not None and draws.detects_together is not None:
            part = f"to TV {draws.detects:.3f} at one and {draws.detects_together:.3f} over all"
            phrases.append(f"the rule in {draws.copies} rounds at each of {draws.prefixes} prefixes, {part}")
        if draws and draws.detects_generator is not None:
            phrases.append(
                f"{draws.redrawn} proposals of the generator, to TV {draws.detects_generator:.3f} from its q"
            )
        if draws and draws.rows_bound is not None:
            phrases.append(f"the verifier's rows of blocks, to TV {draws.rows_bound:g} from plain steps")
        return (*phrases, *([f"the greedy text of {text.tasks} tasks"] if text else []))

    @property
    def untested(self) -> tuple[str, ...]:
        """What was not looked at, in words; `notes` say why."""
        draws = self.draws
        drafted = bool(draws and draws.drafted)
        looked = {
            "the rule on tiny models": self.enumeration is not None,
            "the rule at recorded prefixes": bool(draws and draws.detects is not None),
            "the generator and blocks": drafted,
            "the verifier's rows": self.text is not None or bool(draws and draws.rows_bound is not None),
        }
        return tuple(name for name, done in looked.items() if not done)

    @property
    def verdict(self) -> str:
        """The audit's word: "lossless" only where rule, generator and verifier were looked at."""
        if not self.exact:
            measured = "not measured" if self.drift is None else f"{self.drift:.3g} a task"
            return f"lossy, drift {measured}"
        if self.found:
            return "NOT lossless"
        if self.untested:
            return "nothing found in what was tested" if self.tested else "not tested"
        return "lossless as far as tested"


class AuditReport(msgspec.Struct, frozen=True, kw_only=True):
    """An experiment's audit, in the order of its pipelines."""

    experiment: str
    pipelines: tuple[PipelineReport, ...]

    @property
    def passed(self) -> bool:
        """Whether every exact claim holds."""
        return all(pipeline.passed for pipeline in self.pipelines)

    def to_json(self) -> bytes:
        """The report as JSON, with what its properties say."""
        plain = msgspec.to_builtins(self)
        plain["passed"] = self.passed
        for entry, pipeline in zip(plain["pipelines"], self.pipelines, strict=True):
            entry["passed"] = pipeline.passed
            entry |= {name: getattr(pipeline, name) for name in ("found", "verdict", "tested", "untested")}
        return msgspec.json.format(msgspec.json.encode(plain), indent=1)
