"""`draftverify certify RUN`: the threshold at which a pipeline's answers keep a promise, from one labelled run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.text import Text

from draftverify.bench.cli import options
from draftverify.bench.cli.progress import new_bars
from draftverify.bench.cli.screen import new_table, print_json, wide_console
from draftverify.bench.records import load_run
from draftverify.bench.tables.words import clean

SHOWN = 12
"""Thresholds that the terminal shows, at equal steps; the file has every one."""


@click.command()
@options.run
@click.option(
    "--precision", type=options.SHARE, help="Of its answers so many are to be right; .9 when absent."
)
@click.option("--wrong", type=options.SHARE, help="Or: of all tasks at most so many are answered wrongly.")
@click.option("--delta", type=options.SHARE, default=0.1, help="The chance that this is broken.")
@click.option("--pipeline", metavar="NAME", help="Of a run of several, which one.")
@options.out("FILE", "Where the certificate goes")
@options.overlap
@options.moved_config
@options.as_json
@options.store
def certify(
    run: str,
    precision: float | None,
    wrong: float | None,
    delta: float,
    pipeline: str | None,
    out: str | None,
    overlap: bool,
    config: str | None,
    as_json: bool,
    store: str | None,
) -> None:
    """Prove from RUN, whose tasks have labels, the lowest threshold at which a pipeline's answers keep a promise.

    Each threshold is replayed with the whole rule and policy; the run's first metric says which answers are right. Make
    the run with `draftverify run --complete`, which judges every item that any threshold could need: what the records
    cannot say counts as wrong. Writes a file that a rule takes: threshold: {use: certified, path: FILE}.
    """
    from draftverify.bench.artifact import write_artifact
    from draftverify.lab.certificate import Promise
    from draftverify.lab.certificate import certify as certified
    from draftverify.lab.recording import Recording

    if precision is not None and wrong is not None:
        raise click.UsageError("--precision and --wrong are two promises; certify them one by one")
    promise = (
        Promise("precision", precision or 0.9, delta) if wrong is None else Promise("wrong", wrong, delta)
    )
    with load_run(run, url=store) as records:
        recording = Recording(records, pipeline, config=config)
    with recording, new_bars(Console(stderr=True)) as bars:
        bar: Any = bars.add_task(f"{recording.name}: thresholds", total=None, now="")
        certificate = certified(
            recording,
            promise,
            overlap=overlap,
            watcher=lambda done, total: bars.update(bar, completed=done, total=total),
        )
    file = Path(out) if out is not None else Path(run) / f"{recording.name}.certificate.json"
    write_artifact(file, certificate)
    if as_json:
        print_json(certificate)
        return
    console = wide_console()
    console.print(Text(clean(f"{certificate.pipeline}: {promise}, by the metric {certificate.metric}")))
    table = new_table(">threshold", ">answered", ">right", ">p")
    tried = certificate.tried
    steps = {round(step * (len(tried) - 1) / (SHOWN - 1)) for step in range(SHOWN)}
    for trial in (tried[place] for place in sorted(steps)):
        right = f"{1 - trial.wrong / trial.answered:.3f}" if trial.answered else "–"
        table.add_row(
            f"{trial.threshold:.4g}", f"{trial.answered / certificate.tasks:.0%}", right, f"{trial.p:.3g}"
        )
    console.print(table)
    if certificate.threshold is None:
        console.print(Text(clean(f"no threshold: {certificate.why}"), "bold red"))
    else:
        console.print(Text(clean(f"accept from score {certificate.threshold:.6g}: {certificate.why}")))
        console.print(Text(f"in the rule: threshold: {{use: certified, path: {file}}}"))
    console.print(Text(f"wrote {file}"))
