"""A disk that is full or may not be written to: the error says where and what to do, and the same command goes on."""

from __future__ import annotations

import os
import resource
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from draftverify.bench.cli.main import main
from draftverify.bench.records import RunDirectory, load_run
from draftverify.bench.records.listing import list_runs
from draftverify.bench.runner.run import run
from draftverify.errors import StoreError
from tests.experiments.runs import load, results, write

GOES_ON = "what was committed stays, and the same command goes on from it"


@contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    """The kernel refuses to let a file of this process grow beyond it (EFBIG)."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def fill(path: Path) -> None:
    """Write a file until the disk is full."""
    file = os.open(path, os.O_WRONLY | os.O_CREAT)
    with suppress(OSError):
        while os.write(file, bytes(1024)):
            pass
    os.close(file)


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A disk of 1 MB of our own."""
    disk = tmp_path / "disk"
    disk.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", disk], capture_output=True, check=False
    )
    if done.returncode:
        pytest.skip("may not mount a small disk")
    try:
        yield disk
    finally:
        subprocess.run(["umount", "-l", disk], check=True)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> object:
    """What the run records where there is room."""
    folder = tmp_path_factory.mktemp("undisturbed")
    run(load(folder), out=folder / "run")
    return results(folder / "run")


@pytest.mark.parametrize("size", [500, 1300, 40_000])
def test_a_limit_on_files_stops_the_run_wherever_it_strikes(
    tmp_path: Path, size: int, undisturbed: object
) -> None:
    """In config.json, in the database's first page, between two tasks; without the limit it goes on."""
    experiment = load(tmp_path)
    with files_of_at_most(size), pytest.raises(StoreError, match=GOES_ON) as error:
        run(experiment, out=tmp_path / "run")
    assert str(tmp_path / "run") in str(error.value)
    assert not list((tmp_path / "run").glob("*.part"))
    run(experiment, out=tmp_path / "run")
    assert results(tmp_path / "run") == undisturbed


@pytest.mark.parametrize("name", ["summary.json", "run.json"])
def test_a_file_that_has_no_room_is_named(tmp_path: Path, name: str, undisturbed: object) -> None:
    """The kernel's own ENOSPC as each is written; no task runs again once there is room."""
    experiment = load(tmp_path)
    path = tmp_path / "run"
    if name == "run.json":
        with RunDirectory(path, name="n", config=experiment.config, config_hash=experiment.fingerprint):
            pass
        os.unlink(path / "run.json")
        os.unlink(path / "records.db")
    path.mkdir(exist_ok=True)
    (path / f"{name}.part").symlink_to("/dev/full")
    with pytest.raises(StoreError, match=rf"{name}: cannot be written \(No space left.*make room: {GOES_ON}"):
        run(experiment, out=path)
    assert not list(path.glob("*.part"))
    again = run(experiment, out=path)
    assert again.ran == (12 if name == "run.json" else 0)
    assert results(path) == undisturbed


def test_a_full_disk_stops_the_run_and_can_still_be_read(
    small: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """In the middle and at the end; every command that reads works on it, and the run goes on once there is room."""
    file = write(tmp_path, count=120)
    command = ["run", str(file), "--out", str(small / "run")]
    assert main(command) == 5
    said = " ".join(capsys.readouterr().err.split())
    assert f"{small}/run/records.db: there is no room left on the disk" in said
    assert GOES_ON in said
    (listed,) = list_runs(small)
    assert 0 < listed.done < 240
    before = listed.done
    subprocess.run(["mount", "-o", "remount,size=9m", small], check=True)
    assert main(command) == 0
    assert f"task runs now: {240 - before}" in " ".join(capsys.readouterr().out.split())
    (small / "run" / "summary.json").unlink()
    fill(small / "fill")
    assert main(command) == 5
    assert "summary.json: cannot be written (No space left" in " ".join(capsys.readouterr().err.split())
    for reader in ("show", "compare", "export"):
        assert main([reader, str(small / "run")]) == 0, capsys.readouterr().err
    assert [each.state for each in list_runs(small)] == ["240 of 240"]
    assert main(["export", str(small / "run"), "-o", str(small / "x.csv")]) == 5
    assert "make room, or write it elsewhere" in " ".join(capsys.readouterr().err.split())
    (small / "fill").unlink()
    capsys.readouterr()
    assert main(command) == 0
    assert "task runs now: 0" in " ".join(capsys.readouterr().out.split())


def test_a_directory_that_may_only_be_read_says_so(tmp_path: Path) -> None:
    """To who would drive it, and not that somebody else does; readers are let in."""
    experiment = load(tmp_path)
    run(experiment, out=tmp_path / "run")
    for path in (tmp_path / "run", *(tmp_path / "run").iterdir()):
        path.chmod(0o555 if path.is_dir() else 0o444)
    root = os.geteuid() == 0
    if root:  # who may write anywhere, but for a disk that may only be read
        for options in (["--bind"], ["-o", "remount,ro,bind"]):
            mounted = subprocess.run(["mount", *options, tmp_path / "run", tmp_path / "run"], check=False)
            if mounted.returncode:
                pytest.skip("may not mount a disk that may only be read")
    why = r"\((Permission denied|Read-only file system)\)"
    try:
        with pytest.raises(StoreError, match=rf"run/lock: cannot be written {why}; make it writable"):
            run(experiment, out=tmp_path / "run")
        with pytest.raises(StoreError, match=rf"cannot be made {why}; choose another --out"):
            run(experiment, out=tmp_path / "run" / "new")
        with load_run(tmp_path / "run") as read:
            assert len(list(read)) == 12
        assert [each.state for each in list_runs(tmp_path)] == ["finished"]
    finally:
        if root:
            subprocess.run(["umount", "-l", tmp_path / "run"], check=True)
        (tmp_path / "run").chmod(0o755)
