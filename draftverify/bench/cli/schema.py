"""`draftverify schema`: the JSON schema of a config, for editors."""

from __future__ import annotations

import json
from pathlib import Path

import click

from draftverify.errors import ResourceError

__all__ = ["schema"]

NAME = "draftverify.schema.json"


@click.command()
@click.argument("config", type=click.Path(dir_okay=False, path_type=Path), required=False)
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    is_flag=False,
    flag_value=NAME,
    help=f"Write it to this file; without a name to {NAME} beside CONFIG.",
)
def schema(config: Path | None, output: Path | None) -> None:
    """Write the JSON schema of a config, with every installed part's arguments and those of CONFIG's own parts files.

    \b
    An editor with a YAML language server uses it when the config begins with
    # yaml-language-server: $schema=draftverify.schema.json
    """
    from draftverify.bench.config.experiment import parts_of
    from draftverify.bench.config.schema import schema as whole

    if output is not None and output.suffix in (".yaml", ".yml", ".py"):
        raise click.UsageError(f"-o {output} would overwrite it with the schema; write: schema {output} -o")
    text = json.dumps(whole(parts_of(config) if config else {}), indent=2, ensure_ascii=False) + "\n"
    if output is None:
        click.echo(text, nl=False)
        return
    if config is not None and output == Path(NAME):
        output = config.parent / NAME
    try:
        output.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ResourceError(f"{output} cannot be written: {error.strerror or error}") from error
    click.echo(f"wrote {output}")
