"""Files of what was measured: versioned JSON that says what was chosen and what it was fitted on."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, TypeVar

import msgspec

from draftverify.bench.records.files import beside
from draftverify.engine.parts import Parts
from draftverify.errors import ConfigError
from draftverify.identity import identity_of
from draftverify.traits import BlockTraits, name_of
from draftverify.values import Context, Round

VERSION = 1
VERIFIER_AUDIT = "verifiers.json"
"""In a run directory, what `draftverify audit verifier` found."""
VAGUE = 4.0
"""The factor between the ends of an interval beyond which it says nothing of use."""
ONE_PASS = 1.25
"""Passes of one item up to which a block is called one pass."""


class PartIdentity(msgspec.Struct, frozen=True):
    """A part: what messages call it, and the identity that tells it from others."""

    name: str
    identity: str


class ArtifactFile(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind"):
    """What a command writes into a file of its own, to be read again. Read as this class, a file of any kind says with
    what it was made.

    Args:
        parts: with which it was made, by role; for others it says nothing.
        learned_from: the tasks that decided what stands in it: a digest of each.
        metric: by which these were right; None where there was none.
        versions: of the packages, and of whatever else it depends on.

    Attributes:
        title: what messages call it.
        made_by: the command.
    """

    title: ClassVar[str] = "file of what was measured"
    made_by: ClassVar[str] = "draftverify fit"

    version: int = VERSION
    parts: Mapping[str, PartIdentity] = {}
    learned_from: tuple[str, ...] = ()
    metric: str | None = None
    versions: Mapping[str, str] = {}

    @property
    def advice(self) -> str:
        """What to do where it was made with another part than the one at hand."""
        return f"Make it again: `{self.made_by}`"

    def check_parts(self, parts: Mapping[str, PartIdentity], file: object) -> None:
        """Refuse other parts than those that it was made with.

        Args:
            parts: those at hand, by role.
            file: what messages call the file: its path, where that is known.

        Raises:
            ConfigError: one is another, or the file does not say with which it was made.
        """
        if parts.keys() != self.parts.keys():
            raise ConfigError(f"{file} is damaged: it is to name {', '.join(parts)}. {self.advice}")
        for role, part in parts.items():
            recorded = self.parts[role]
            if part.identity != recorded.identity:
                raise ConfigError(
                    f"{file} was made with the {role} {recorded.name} ({recorded.identity}), and the {role} is "
                    f"{part.name} ({part.identity}): its class, arguments or files are others. {self.advice}"
                )


T = TypeVar("T", bound=ArtifactFile)


def identify_parts(**parts: object) -> dict[str, PartIdentity]:
    """The names and identities of parts, by role.

    Raises:
        ConfigError: one cannot be told from others of its kind.
    """
    return {role: PartIdentity(name_of(part), identity_of(part)) for role, part in parts.items()}


class Interval(msgspec.Struct, frozen=True):
    """A figure and its 95 % interval as JSON can say them: None for what is unknown or has no bound."""

    value: float | None
    low: float | None
    high: float | None

    @staticmethod
    def of(value: float, low: float, high: float) -> Interval:
        """The figure; NaN and infinity become None."""
        return Interval(*(number if math.isfinite(number) else None for number in (value, low, high)))

    def holds(self, value: float | None) -> bool:
        """Whether a figure lies within."""
        if value is None or self.low is None:
            return False
        return self.low <= value <= (math.inf if self.high is None else self.high)


class DataHash(msgspec.Struct, frozen=True):
    """Some tasks: how many, and the SHA-256 of their ids, groups, inputs and expectations, in the order of the
    ids."""

    tasks: int
    sha256: str


class BlockTrial(msgspec.Struct, frozen=True, kw_only=True):
    """What one block size of one candidate cost.

    Args:
        pipeline: the candidate, of a sweep PIPELINE@CELL.
        block: items that were asked for.
        draft, verify, rest: fitted seconds of a round of that size; None where no round of it was timed.
        solved: tasks that were solved, in all.
        cost: per solved task, as the operating point counts it.
        gain: the baseline's over this, on the tasks of both.
    """

    pipeline: str
    block: int
    draft: float | None
    verify: float | None
    rest: float | None
    solved: float
    cost: Interval
    gain: Interval


class ParallelPass(msgspec.Struct, frozen=True):
    """Whether a verifier checks a block in one pass.

    Args:
        size: n, of the block.
        ratio: its seconds over those of n blocks of one: 1/n where the block costs what one item does, 1 where it costs
            what its items cost one by one.
    """

    size: int
    ratio: Interval

    @property
    def passes(self) -> Interval:
        """What the block costs, in passes of one item: n times the ratio."""
        ends = (self.ratio.value, self.ratio.low, self.ratio.high)
        return Interval(*(None if end is None else self.size * end for end in ends))

    @property
    def verdict(self) -> Literal["one pass", "cheaper", "no gain shown"]:
        """The verdict of the whole interval: about one pass, less than its items one by one, or no less shown."""
        high = self.passes.high
        if high is None or high >= self.size:
            return "no gain shown"
        return "one pass" if high <= ONE_PASS else "cheaper"


class OperatingPointFile(
    ArtifactFile, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="draftverify.operating_point"
):
    """The file of an operating point: what was chosen, on what, and whether it held. Without a metric accepted tasks
    were counted as solved.

    Args:
        experiment: its name.
        pipeline: the candidate that was chosen, of a sweep PIPELINE@CELL.
        changes: what its cell changes in the file, by dotted path.
        baseline: what it was compared with.
        block: items to ask for.
        threshold: of the chosen rule, where it has one.
        drafts: whether drafting is worth it: False says that the baseline, or plain steps (block 0), cost less.
        why: the choice in words.
        of: what a solved task costs: "seconds", or "cost" where the parts say what they cost.
        conditions: what else the costs rest on, resolved: settings, done, on_rejection, budget and executor.
        counted: how many tasks it was chosen on: the first of five or more is not, nor one that was not judged at
            every size.
        unseen: the tasks that it was measured on.
        estimator: how it was chosen and predicted.
        sizes: the resolution: block sizes that were tried.
        tried: every candidate at every size.
        tested: the size that was predicted and measured; with `drafts` false the best of those that draft.
        acceptance: accepted items of those judged, of the candidate at that size.
        shares: the same of each task of which an item was judged, by first tries; what a monitor compares with.
        cost_ratio: seconds to draft an item over seconds to verify a block of the smallest size; None if not timed.
        parallel: whether the verifier checks a block in one pass; None where that was not timed.
        predicted: the gain per solved task on the unseen tasks, written down before they ran.
        basis: what the prediction rests on, or why there is none.
        measured: the same, measured; None until they have run.
        unmeasured: why they measured no gain; "" where they did.
        predicted_at, measured_at: when, ISO times in UTC.
    """

    title: ClassVar[str] = "operating point"
    made_by: ClassVar[str] = "draftverify fit block CONFIG"

    experiment: str
    pipeline: Annotated[str, msgspec.Meta(min_length=1)]
    changes: Mapping[str, Any] = {}
    baseline: str
    block: Annotated[int, msgspec.Meta(ge=0)]
    threshold: float | None = None
    drafts: bool
    why: str
    of: Literal["seconds", "cost"] = "seconds"
    conditions: Mapping[str, Any] = {}
    counted: int
    unseen: DataHash
    estimator: str
    sizes: tuple[int, ...]
    tried: tuple[BlockTrial, ...]
    tested: int
    acceptance: Interval
    shares: tuple[float, ...] = ()
    cost_ratio: float | None = None
    parallel: ParallelPass | None = None
    predicted: Interval
    basis: str
    measured: Interval | None = None
    unmeasured: str = ""
    predicted_at: str = ""
    measured_at: str = ""

    @property
    def advice(self) -> str:
        """The advice of every file; a winning cell of a sweep is other than what stands in the config, and that is to
        be mended there."""
        if not self.changes:
            return super().advice
        return f"It was measured with the changes of its cell; write them into the config: {self.changed}"

    @property
    def changed(self) -> str:
        """The changes of its cell to the config file, as `--set` takes it."""
        return ", ".join(
            f"{path}={msgspec.json.encode(value).decode()}" for path, value in self.changes.items()
        )

    @property
    def doubt(self) -> str:
        """Why the predicted interval decides nothing; "" where it does."""
        value, low, high = self.predicted.value, self.predicted.low, self.predicted.high
        if value is None:
            return f"nothing to predict by: {self.basis}"
        if not low or high is None or high > VAGUE * low:
            return "too few tasks to say what it gains"
        return "too few tasks to say whether it gains" if low < 1.0 < high else ""

    def remarks(self, versions: Mapping[str, str], conditions: Mapping[str, Any]) -> tuple[str, ...]:
        """What weakens the operating point here: drafting was not worth it, the tasks were too few to say, or machine,
        packages or conditions are others now.

        Args:
            versions: of the machine and the packages now, as `versions` has them.
            conditions: of the pipeline that uses it; those that are not known there are left out.
        """
        remarks = [] if self.drafts else ["its fit says: do not draft"]
        if self.doubt:
            remarks.append(f"its fit had {self.doubt}")
        changed = [
            f"{name} {self.versions.get(name, 'none')} then, {versions.get(name, 'none')} now"
            for name in sorted({*self.versions, *versions})
            if self.versions.get(name) != versions.get(name)
        ]
        changed += [f"other {name}" for name, now in conditions.items() if now != self.conditions.get(name)]
        if changed:
            remarks.append(f"fitted elsewhere ({'; '.join(changed)})")
        return tuple(remarks)


class FittedBlock:
    """The block size of an operating point; refused where generator, verifier or rule are others than it was measured
    with.

    Args:
        path: the file that `draftverify fit block` wrote.

    Raises:
        ConfigError: the file is missing or damaged.
    """

    traits: ClassVar[BlockTraits] = BlockTraits(learns=False)

    def __init__(self, path: Path) -> None:
        self.path = Path(path)
        self.point = read_artifact(self.path, OperatingPointFile)

    def size(self, context: Context) -> int:
        """The block size that was chosen."""
        return self.point.block

    def observe(self, context: Context, round: Round) -> None:
        """Nothing is learned."""

    def check_pipeline(self, pipeline: Parts) -> None:
        """Refuse parts that are others than those of the operating point.

        Raises:
            ConfigError: one is.
        """
        parts = identify_parts(generator=pipeline.generator, verifier=pipeline.verifier, rule=pipeline.rule)
        self.point.check_parts(parts, f"the operating point of {self.point.pipeline}")


def write_artifact(path: str | os.PathLike[str], artifact: ArtifactFile) -> None:
    """Write an artifact as JSON; the file is complete or not there.

    Raises:
        ConfigError: it cannot be written there.
    """
    target = Path(path)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with beside(target) as part:
            part.write_bytes(msgspec.json.format(msgspec.json.encode(artifact)) + b"\n")
    except OSError as error:
        raise ConfigError(f"this cannot be written: {error.strerror}", where=str(target)) from error


def read_artifact(path: str | os.PathLike[str], kind: type[T]) -> T:
    """Read back what `write_artifact` wrote.

    Args:
        path: the file.
        kind: what it is to be; `ArtifactFile` where any kind is meant, of which only the common fields are read.

    Raises:
        ConfigError: when the file is missing, is not one, or has a version that this release does not know.
    """
    title = kind.title
    try:
        raw: Any = msgspec.json.decode(Path(path).read_bytes())
    except FileNotFoundError as error:
        raise ConfigError(f"there is no {path}: `{kind.made_by}` writes it") from error
    except OSError as error:
        raise ConfigError(f"the {title} cannot be read: {error.strerror}", where=str(path)) from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigError(f"this is no {title}: {error}", where=str(path)) from error
    expected = kind.__struct_config__.tag
    present = raw.get("kind") if isinstance(raw, dict) else None
    if kind is ArtifactFile and isinstance(present, str):
        raw["kind"] = present = expected
    if not isinstance(raw, dict) or present != expected or type(raw.get("version")) is not int:
        raise ConfigError(f"this is no {title}: its kind is {present!r}, not {expected!r}", where=str(path))
    if raw["version"] != VERSION:
        raise ConfigError(
            f"{title} version {raw['version']} is unknown here (known: {VERSION}); make it again",
            where=str(path),
        )
    try:
        return msgspec.convert(raw, kind)
    except msgspec.ValidationError as error:
        raise ConfigError(f"the {title} is damaged: {error}", where=str(path)) from error
