"""Operating points on disk."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from draftverify.bench.artifact import (
    BlockTrial,
    DataHash,
    Interval,
    OperatingPointFile,
    ParallelPass,
    PartIdentity,
    read_artifact,
    write_artifact,
)
from draftverify.errors import ConfigError

POINT = OperatingPointFile(
    experiment="e",
    pipeline="spec@rule=a",
    changes={"pipelines.spec.rule": {"use": "a"}},
    baseline="plain",
    block=4,
    threshold=0.5,
    drafts=True,
    why="blocks of 4 cost less",
    metric=None,
    parts={
        "generator": PartIdentity("Guess", "01"),
        "verifier": PartIdentity("Check", "02"),
        "rule": PartIdentity("Rule", "03"),
    },
    conditions={"settings": {}, "on_rejection": [{"do": "give_up"}], "executor": {"use": "serial"}},
    learned_from=tuple("abcdefghijkl"),
    counted=11,
    unseen=DataHash(4, "cd"),
    estimator="least cost",
    sizes=(0, 4),
    tried=(
        BlockTrial(
            pipeline="spec", block=4, draft=0.1, verify=None, rest=0.0, solved=11.5,
            cost=Interval(1.0, 0.9, 1.1), gain=Interval(1.4, 1.2, None),
        ),
    ),
    tested=4,
    acceptance=Interval(0.7, 0.6, 0.8),
    predicted=Interval(1.4, 1.2, 1.6),
    basis="11 tasks, seconds per solved task",
    versions={"draftverify": "0.1", "cores": "2"},
)  # fmt: skip


def written(tmp_path: Path, point: OperatingPointFile = POINT) -> Path:
    path = tmp_path / "point.json"
    write_artifact(path, point)
    return path


def test_what_was_saved_is_loaded(tmp_path: Path) -> None:
    """An operating point comes back whole; an open interval stays open."""
    assert read_artifact(written(tmp_path), OperatingPointFile) == POINT
    assert [entry.name for entry in tmp_path.iterdir()] == ["point.json"]


def test_what_is_not_finite_has_no_bound() -> None:
    """An interval without an upper end holds all above its lower one, and nothing holds what is unknown."""
    open_ended = Interval.of(1.0, 0.5, math.inf)
    assert open_ended == Interval(1.0, 0.5, None)
    assert open_ended.holds(100.0)
    assert not open_ended.holds(0.4)
    assert not open_ended.holds(None)
    assert Interval.of(math.nan, 0.0, math.inf).value is None


@pytest.mark.parametrize(
    ("ends", "said"),
    [
        ((0.87, 55.7), "what it gains"),
        ((1.4, None), "what it gains"),
        ((0.0, 2.0), "what it gains"),
        ((0.9, 1.4), "whether it gains"),
        ((1.1, 4.3), ""),
        ((0.5, 0.9), ""),
    ],
)
def test_an_interval_that_decides_nothing_is_said_in_words(
    ends: tuple[float, float | None], said: str
) -> None:
    """Wider than a factor of four, or on both sides of 1; a pipeline that uses it says so too."""
    point = replace(POINT, predicted=Interval(1.2, *ends))
    assert point.doubt == (f"too few tasks to say {said}" if said else "")
    assert ("its fit had " + point.doubt in point.remarks(POINT.versions, {})) == bool(said)


def test_without_a_prediction_it_is_said_why() -> None:
    """Of a baseline that solved nothing it is not said that the tasks were too few."""
    point = replace(POINT, predicted=Interval(None, 0.0, None), basis="the baseline solved no task")
    assert point.doubt == "nothing to predict by: the baseline solved no task"


def test_what_differs_here_is_said_by_name() -> None:
    """Another version, a package that is new, other settings or another policy; nothing where all is the same, and
    nothing of an executor that is not known."""
    same = {name: POINT.conditions[name] for name in ("settings", "on_rejection")}
    assert POINT.remarks(POINT.versions, same) == ()
    now = {"settings": {"temperature": 0}, "on_rejection": [], "executor": {"use": "serial"}}
    (told,) = POINT.remarks({"draftverify": "0.2", "cores": "2", "torch": "2"}, now)
    assert "draftverify 0.1 then, 0.2 now" in told
    assert "torch none then, 2 now" in told
    assert told.endswith("other settings; other on_rejection)")


@pytest.mark.parametrize(
    ("ratio", "verdict"),
    [
        ((0.06, 0.06, 0.07), "one pass"),
        ((0.25, 0.2, 0.3), "cheaper"),
        ((0.8, 0.71, 0.9), "cheaper"),
        ((1.01, 0.93, 1.1), "no gain shown"),
        ((0.3, 0.05, 1.2), "no gain shown"),
        ((0.06, 0.0, None), "no gain shown"),
    ],
)
def test_whether_a_block_is_one_pass_is_said_by_the_whole_interval(
    ratio: tuple[float, float, float | None], verdict: str
) -> None:
    """A sixteenth is a free block of 16; .8 is cheaper than 16 passes, and far from one; an interval that holds 1 shows
    nothing."""
    found = ParallelPass(16, Interval(*ratio))
    assert found.verdict == verdict
    assert found.passes.value == pytest.approx(16 * ratio[0])


def test_a_winning_cell_is_not_told_to_be_made_again() -> None:
    """Where a part is another than the one measured, the advice is to write down what the cell changes."""
    assert POINT.advice.endswith('write them into the config: pipelines.spec.rule={"use":"a"}')
    assert replace(POINT, changes={}).advice == "Make it again: `draftverify fit block CONFIG`"


def test_an_unknown_version_is_refused(tmp_path: Path) -> None:
    """A file of a later release is not guessed at: the error names both versions and the file."""
    path = written(tmp_path)
    path.write_text(json.dumps({**json.loads(path.read_text()), "version": 2}))
    with pytest.raises(ConfigError, match=r"point.json: operating point version 2 .*known: 1"):
        read_artifact(path, OperatingPointFile)


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"kind": "cat", "version": 1, "point": {}}', '{"kind": 1}', "\x00", '"high"']
)
def test_other_files_are_refused(tmp_path: Path, text: str) -> None:
    """What is not an operating point is a ConfigError that names the file."""
    path = tmp_path / "other.json"
    path.write_text(text)
    with pytest.raises(ConfigError, match=r"other.json: this is no operating point"):
        read_artifact(path, OperatingPointFile)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    """No file, no traceback from the operating system."""
    with pytest.raises(ConfigError, match=r"gone\.json"):
        read_artifact(tmp_path / "gone.json", OperatingPointFile)


@given(st.data())
def test_a_damaged_file_never_gives_anything_but_a_config_error(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    """Any bytes changed: the file loads as an operating point or is refused as a whole."""
    path = written(tmp_path_factory.mktemp("damaged"))
    raw = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 3))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    path.write_bytes(raw)
    try:
        assert isinstance(read_artifact(path, OperatingPointFile), OperatingPointFile)
    except ConfigError:
        return
