"""Commands of packages join by an entry point; what is wrong with one is told in the list and when it is called."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from draftverify.bench.cli.exits import ExitCode
from draftverify.bench.cli.main import main

GREET = '''
import click
from draftverify.bench.cli import options

@click.command()
@options.limit
def greet(limit):
    """Greet so many times."""
    for _ in range(limit or 1):
        click.echo("hello")
'''


def package(
    directory: Path, name: str, entries: str, code: str, *, group: str = "draftverify.commands"
) -> str:
    """A module and its dist-info, as pip would install them; the directory to put on the path."""
    module = name.replace("-", "_")
    about = directory / name / f"{module}-1.0.dist-info"
    about.mkdir(parents=True)
    sys.modules.pop(module, None)  # that of another test
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(f"[{group}]\n{entries}\n")
    (directory / name / f"{module}.py").write_text(code)
    return str(directory / name)


def words(capsys: pytest.CaptureFixture[str]) -> str:
    """What was printed, on one line."""
    captured = capsys.readouterr()
    return " ".join((captured.out + captured.err).split())


def test_a_third_packages_command_joins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is listed with its own words, has its help, runs, and is near a slip."""
    monkeypatch.syspath_prepend(package(tmp_path, "dv-greet", "greet = dv_greet:greet", GREET))
    assert main(["--help"]) == 0
    assert "greet Greet so many times." in words(capsys)
    assert main(["greet", "--limit", "2"]) == 0
    assert capsys.readouterr().out == "hello\nhello\n"
    assert main(["gret"]) == ExitCode.USAGE
    assert "Did you mean greet?" in words(capsys)


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (
            "raise RuntimeError('no licence')",
            "dv-greet (dv_greet:greet) cannot be imported: RuntimeError: no li",
        ),
        ("greet = 3", "dv-greet (dv_greet:greet) gives a int, which is no click command"),
    ],
)
def test_a_broken_one_is_listed_with_its_reason(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    code: str,
    reason: str,
) -> None:
    """The others work; called, it is a plugin's fault."""
    monkeypatch.syspath_prepend(package(tmp_path, "dv-greet", "greet = dv_greet:greet", code))
    assert main(["--help"]) == 0
    assert f"greet cannot be used: {reason}" in words(capsys)
    assert main(["greet"]) == ExitCode.PLUGIN
    assert f"the command 'greet' cannot be used: {reason}" in words(capsys)
    assert main(["show", str(tmp_path)]) == 0


def test_two_of_one_name_are_an_error_that_names_both(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whichever of them came first; the bench's own names cannot be taken."""
    for name in ("dv-one", "dv-two"):
        module = name.replace("-", "_")
        entries = f"greet = {module}:greet\nshow = {module}:greet"
        monkeypatch.syspath_prepend(package(tmp_path, name, entries, GREET))
    assert main(["greet"]) == ExitCode.PLUGIN
    message = words(capsys)
    assert "two packages join by that name" in message
    assert "dv-one (dv_one:greet)" in message
    assert "dv-two (dv_two:greet)" in message
    assert main(["show", str(tmp_path)]) == 0
    assert "no runs under" in words(capsys)
