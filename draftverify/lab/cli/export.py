"""`draftverify export RUN`: a run's results as a table for other programs, or as training data."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import cache, partial
from io import TextIOWrapper
from typing import Any, cast, get_args

import click

from draftverify.bench.cli import options
from draftverify.bench.records.directory import RunRecords, load_run
from draftverify.bench.records.export import FORMATS, Format, write
from draftverify.bench.records.rows import LEVELS, Level
from draftverify.bench.records.split import Split
from draftverify.bench.runner.bench import Bench
from draftverify.errors import ConfigError
from draftverify.lab.recording import RecordedPipeline
from draftverify.lab.training import TRAINING, RunMetric, Training, training_rows, write_lines
from draftverify.protocols import WritesText
from draftverify.traits import offers


@click.command()
@options.run
@click.option("--to", "form", type=click.Choice((*FORMATS, *TRAINING)), default="csv", help="The format.")
@options.out("FILE", "The file; the standard output when absent.")
@click.option("--rows", type=click.Choice(LEVELS), help="Of a table: a row for each; tasks when absent.")
@click.option("--split", type=click.Choice(get_args(Split)), help="Of training data: one side's tasks.")
@click.option("--chat", is_flag=True, help="Of training data: a prompt that is a text is a user's turn.")
@options.moved_config
@options.store
def export(
    run: str,
    form: Format | Training,
    out: str | None,
    rows: Level | None,
    split: Split | None,
    chat: bool,
    config: str | None,
    store: str | None,
) -> None:
    """Write what RUN has come to, a row per task of a pipeline, finished or not.

    docs/runs.md says what the columns hold, and how text that a model wrote is kept from being taken for a formula.
    The formats trl-… are training data (docs/replay.md): lines of JSON, as TRL reads them. What is right is what the
    run's first metric says; without one, what the verifier, the rule and people said.
    """
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8", newline="")
    to: Any = sys.stdout if out is None else out
    of_training = {"--split": split is not None, "--chat": chat, "--config": config is not None}
    of_table = {"--rows": rows is not None}
    for option, is_used in (of_table if form in TRAINING else of_training).items():
        if is_used:
            kind = f"tables; {form} has rows of its own" if form in TRAINING else ""
            kind = kind or f"training data: --to {' or '.join(TRAINING)}"
            raise ConfigError(f"{option} is of {kind}", path=option)
    left_out: Counter[str] = Counter()
    with load_run(run, url=store) as records, ExitStack() as closing:
        if form in FORMATS:
            count = write(records, form, to, rows or "tasks")
        else:
            recorded = cache(partial(RecordedPipeline, records, config=config))
            metric = _run_metric(records, recorded, closing)
            if metric is None:
                click.echo(
                    "the run has no metric: right is what the verifier, the rule and people say", err=True
                )
            lines = training_rows(
                records,
                cast(Training, form),
                left_out,
                text_of=lambda pipeline: _text_of(recorded(pipeline)),
                split=split,
                chat=chat,
                metric=metric,
            )
            count = write_lines(lines, to)
    if out is not None:
        click.echo(f"wrote {count} rows to {out}", err=True)
    for reason, lacking in left_out.most_common():
        click.echo(f"no row of {lacking}: {reason}", err=True)


def _run_metric(
    run: RunRecords, recorded: Callable[[str], RecordedPipeline], closing: ExitStack
) -> RunMetric | None:
    """The run's metric, opened; None where it has none."""
    judging = recorded(run.names[0]).judging_metric() if run.config.get("metrics") and run.names else None
    if judging is None:
        return None
    bench = Bench({})
    closing.callback(bench.close)
    name, metric = judging
    return RunMetric(
        run, name, bench.opened(metric), lambda pipeline: recorded(pipeline).pipeline.rule_traits.stepwise
    )


def _text_of(recorded: RecordedPipeline) -> Callable[[Sequence[Any]], str] | None:
    """What makes text of a pipeline's values: its verifier, where that knows how (token ids)."""
    verifier = recorded.pipeline.verifier
    return verifier.text if offers(verifier, WritesText) else None
