"""docs/cli.md and the tutorial show what the commands print: they run, and their outputs are so, but for figures."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from draftverify.bench.cli.exits import ExitCode
from draftverify.bench.cli.main import draftverify, main

DOCS = Path(__file__).parents[2] / "docs"


def commands(page: str) -> Iterator[tuple[str, list[str]]]:
    """Each command of a console block, and the lines that stand under it."""
    for block in re.findall(r"^```console\n(.*?)^```$", page, re.M | re.S):
        for part in block.split("$ draftverify ")[1:]:
            command, *lines = part.splitlines()
            yield command, [line for line in lines if line and line != "…"]


def plain(line: str) -> str:
    """A line without its figures, the units of times, and what depends on their widths."""
    line = re.sub(r"\b0 (µs|ms|min)\b", "0 s", re.sub(r"\d+(\.\d+)?", "0", line))
    return re.sub(r"\s+", " ", re.sub(r"─+", "─", line)).strip()


@pytest.mark.parametrize(("page", "least"), [("cli.md", 7), ("tutorial.md", 2)])
def test_outputs_are_what_is_printed(
    page: str, least: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In order, in one directory, with the files that the page writes."""
    monkeypatch.chdir(tmp_path)
    text = (DOCS / page).read_text(encoding="utf-8")
    for name, content in re.findall(r"^```\w+\n# file: (\S+)\n(.*?)^```$", text, re.M | re.S):
        (tmp_path / name).write_text(content)
    found = list(commands(text))
    assert len(found) >= least
    for command, lines in found:
        assert main(shlex.split(command)) == 0, command
        said = capsys.readouterr()
        text = said.out + said.err
        printed = {plain(line) for line in text.splitlines()}
        assert lines
        # Where a table is cut depends on its figures, which are times: of it every word is printed.
        tables = [place for place, line in enumerate(lines) if "──" in line]
        rows = {near for place in tables for near in range(place - 1, place + 3)}
        for place, line in enumerate(lines):
            if place in rows:
                words, told = (set(re.findall(r"[A-Za-z/]{3,}", each)) for each in (line, text))
                assert words <= told, command
            else:
                assert plain(line) in printed, command


def test_every_command_and_option_stands_in_the_page() -> None:
    """In the table of commands, each with its own options; what many share stands below it."""
    text = (DOCS / "cli.md").read_text(encoding="utf-8").partition("## Every command and option\n")[2]
    text = text.partition("## When something is wrong\n")[0]
    rows = dict(re.findall(r"^\| `([a-z ]+?)(?: [\[A-Z].*?)?` \|(.*)$", text, re.M))
    shared = text[text.rindex(" |\n") :]
    found = {}

    def collect(command: click.Command, name: str) -> None:
        found[name] = command
        if isinstance(command, click.Group):
            context = click.Context(command)
            for each in command.list_commands(context):
                below = command.get_command(context, each)
                assert below is not None
                collect(below, f"{name} {each}".strip())

    collect(draftverify, "")
    groups = {name for name in found if any(other.startswith(f"{name} ") for other in found)} - {"cache"}
    assert set(rows) == set(found) - groups - {""}
    for name, row in rows.items():
        for parameter in found[name].params:
            for option in parameter.opts if isinstance(parameter, click.Option) else ():
                assert f"`{option}" in (shared if option == "--store" else row), (name, option)
    for option in (each for parameter in draftverify.params for each in parameter.opts):
        assert f"{option}`" in shared


def test_every_exit_code_is_documented() -> None:
    """The page and the command agree on the codes."""
    for code in ExitCode:
        [row] = re.findall(
            rf"^\| {code.value} \| (.*) \|$", (DOCS / "cli.md").read_text(), flags=re.MULTILINE
        )
        assert code.meaning.startswith(row.replace("`", "")), row
