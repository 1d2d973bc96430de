"""`draftverify init`: a small experiment that runs as it stands, needs no model, and is meant to be edited."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from draftverify.errors import ConfigError

__all__ = ["TEMPLATES", "init"]

TEMPLATES = {
    "alternatives": "which number divides n: guesses that stand beside each other",
    "chain": "a rhyme word by word: each guess stands on the one before",
    "tree": "the same with several guesses for each word",
    "retrieval": "questions answered from passages that a search finds",
    "judge": "the best of several drafts, by a judge and a threshold",
}
FOLDER = Path(__file__).parent / "templates"
SCHEMA = "draftverify.schema.json"


@click.command()
@click.option(
    "--template",
    type=click.Choice(list(TEMPLATES)),
    help="The shape that it shows; alternatives when absent.",
)
@click.argument("directory", type=click.Path(file_okay=False, path_type=Path), default=".")
def init(template: str | None, directory: Path) -> None:
    """Write a small experiment into DIRECTORY (here, when it is left out). It needs no model and runs as it stands.

    \b
    alternatives  which number divides n: guesses beside each other
    chain         a rhyme word by word: each guess on the one before
    tree          the same with several guesses for each word
    retrieval     questions answered from passages that a search finds
    judge         the best of several drafts, by a judge and a threshold
    """
    from draftverify.bench.config.experiment import parts_of
    from draftverify.bench.config.schema import schema

    if template is None and str(directory) in TEMPLATES:
        raise click.UsageError(
            f"{directory} is a template; write: draftverify init --template {directory} DIRECTORY"
        )
    files = {
        path.name: path.read_bytes()
        for path in sorted((FOLDER / (template or "alternatives")).iterdir())
        if path.is_file()
    }
    there = [name for name in (*files, SCHEMA) if (directory / name).exists()]
    if there:
        raise ConfigError(
            f"{', '.join(there)} stand{'s' * (len(there) == 1)} there already; name another directory",
            where=str(directory),
        )
    config = directory / "experiment.yaml"
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for name, data in files.items():
            (directory / name).write_bytes(data)
        with _nothing_beside():
            text = json.dumps(schema(parts_of(config)), indent=2, ensure_ascii=False) + "\n"
        (directory / SCHEMA).write_text(text, encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"cannot be written: {error.strerror or error}", where=str(directory)) from error
    click.echo(f"wrote {', '.join((*files, SCHEMA))} into {directory}\nnext: draftverify run {config}")


@contextmanager
def _nothing_beside() -> Iterator[None]:
    """Parts are imported, and leave no folder of bytecode in a directory that was just made."""
    before, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        yield
    finally:
        sys.dont_write_bytecode = before
