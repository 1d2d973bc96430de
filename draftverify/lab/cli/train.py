"""`draftverify train NAME CONFIG`: train a part from data, or go on with it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

__all__ = ["train"]

QUIET = 20
"""Lines that a whole training takes where there is no terminal."""


@click.command()
@click.argument("name")
@click.argument("config", type=click.Path())
@click.option(
    "--out",
    metavar="DIR",
    help="Where what was trained lies; when absent named like CONFIG, of a run RUN-NAME.",
)
@click.option(
    "--set", "overrides", multiple=True, metavar="A.B=C", help="Override a value of the config; repeatable."
)
def train(name: str, config: str, out: str | None, overrides: tuple[str, ...]) -> None:
    """Train NAME ("reader", "drafter", …) as CONFIG says; the same command goes on with a training that was stopped.

    CONFIG is YAML: the trainer's arguments. `draftverify plugins NAME` lists them. Of a trainer that learns from a run
    CONFIG may be the run's directory.
    """
    from draftverify.bench.config.experiment import load_training
    from draftverify.bench.runner.build import Builder
    from draftverify.errors import ConfigError
    from draftverify.identity import identity_of

    trainer = Builder().part(load_training(name, config, overrides=overrides))
    named = f"{Path(config).resolve().name}-{name}" if Path(config).is_dir() else Path(config).stem
    directory = Path(out) if out is not None else Path(named)
    training = identity_of(trainer)
    if (done := _trained(directory)) == training:
        click.echo(f"{directory} holds it already, of the same data and settings; remove it to train anew")
        return
    if done is not None:
        raise ConfigError(
            "here lies what was trained with other data or settings; choose another --out, or remove it",
            where=str(directory),
        )
    console = Console(stderr=True, highlight=False)
    try:
        with _Bar(console, name) as bar:
            report: dict[str, Any] = trainer.train(directory, bar)
    except KeyboardInterrupt:
        click.echo(f"{directory}: the same command goes on from the last checkpoint", err=True)
        raise
    # An end of an interval that is not known, infinity, is null: JSON knows no other word for it.
    told = json.loads(json.dumps({"training": training, **report}), parse_constant=lambda _: None)
    text = json.dumps(told, indent=2, ensure_ascii=False)
    (directory / "report.json").write_text(text + "\n", encoding="utf-8")
    for key, value in report.items():
        if isinstance(value, (bool, int, float, str)):
            click.echo(f"{key}: {value:.4g}" if isinstance(value, float) else f"{key}: {value}")
    click.echo(f"wrote {directory}; all figures are in {directory / 'report.json'}")


def _trained(directory: Path) -> str | None:
    """The identity of the training whose report lies in a directory; None where there is no report."""
    try:
        found = json.loads((directory / "report.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return str(found.get("training")) if isinstance(found, dict) else None


class _Bar:
    """A progress bar on a terminal, else a line at every twentieth of the way."""

    def __init__(self, console: Console, name: str) -> None:
        self._console = console
        self._bars = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[words]}", markup=False),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self._task = self._bars.add_task(name, total=None, words="")
        self._said = -1

    def __enter__(self) -> _Bar:
        self._bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bars.stop()

    def __call__(self, step: int, total: int, words: str) -> None:
        self._bars.update(self._task, completed=step, total=total, words=words)
        part = QUIET * step // max(total, 1)
        if not self._console.is_terminal and part != self._said:
            self._said = part
            click.echo(f"step {step} of {total}: {words}", err=True)
