"""`draftverify export RUN`: a run's results as a table for other programs, or as training data."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import partial
from io import TextIOWrapper
from typing import Any

import click

from draftverify.bench.records.directory import RunRecords, load_run
from draftverify.bench.records.export import FORMATS, Format, write
from draftverify.bench.records.rows import Level
from draftverify.bench.records.split import Split
from draftverify.errors import ConfigError
from draftverify.lab.training import TRAINING, Training, write_training

__all__ = ["export"]


@click.command()
@click.argument("run", type=click.Path(file_okay=False))
@click.option("--to", "form", type=click.Choice((*FORMATS, *TRAINING)), default="csv", show_default=True)
@click.option("-o", "--out", metavar="FILE", help="The file; the standard output when absent.")
@click.option("--rounds", "level", flag_value="rounds", help="One row per round instead of per task.")
@click.option("--items", "level", flag_value="items", help="One row per drafted item.")
@click.option("--split", type=click.Choice(("train", "test")), help="Of training data the tasks of one side.")
@click.option(
    "--chat", is_flag=True, help="Of training data: write a prompt that is a text as a user's turn."
)
@click.option(
    "--config",
    type=click.Path(exists=True, dir_okay=False),
    help="Of training data: the config that the run was made from, where it has moved.",
)
@click.option("--store", envvar="DRAFTVERIFY_STORE", help="The PostgreSQL URL that the run was given.")
def export(
    run: str,
    form: Format | Training,
    out: str | None,
    level: Level | None,
    split: Split | None,
    chat: bool,
    config: str | None,
    store: str | None,
) -> None:
    """Write what RUN has come to, a row per task of a pipeline, finished or not.

    docs/runs.md says what the columns hold, and how text that a model wrote is kept from being taken for a formula.
    trl-preference and trl-sft are training data (docs/replay.md): lines of JSON, as TRL reads them.
    """
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8", newline="")
    to: Any = sys.stdout if out is None else out
    left_out: list[str] = []
    with load_run(run, url=store) as records:
        if form == "trl-preference" or form == "trl-sft":
            if level is not None:
                raise ConfigError(f"--{level} is of tables; {form} has rows of its own", path=f"--{level}")
            written = write_training(
                records, form, to, text_of=partial(_text_of, records, config), split=split, chat=chat
            )
            count = written.rows
            left_out = [f"no row of {n}: {why}" for why, n in written.left_out.most_common()]
        else:
            if split is not None or chat or config is not None:
                option = "--split" if split is not None else "--chat" if chat else "--config"
                raise ConfigError(f"{option} is of training data: --to {' or '.join(TRAINING)}", path=option)
            count = write(records, form, to, level or "tasks")
    if out is not None:
        click.echo(f"wrote {count} rows to {out}", err=True)
    for line in left_out:
        click.echo(line, err=True)


def _text_of(run: RunRecords, config: str | None, pipeline: str) -> Callable[[Sequence[Any]], str] | None:
    """What makes text of a pipeline's values: its verifier, where that knows how (token ids)."""
    from draftverify.lab.recording import RecordedPipeline

    verifier = RecordedPipeline(run, pipeline, config=config).pipeline.verifier
    own: Callable[[Sequence[Any]], str] | None = getattr(verifier, "text", None)
    return own
