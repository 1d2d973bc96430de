"""`draftverify adapter new`: a package of parts, outside this one, that is complete and runs as it stands.

It is written from the files in templates/adapter: those of `every` package, and those of a small domain that has the
wanted shape. In their names and lines `@name@` and the like are filled in; a line or a name that begins with a choice
(`@scored@`, `@tree@`) is there where it was made.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterator, Mapping
from importlib import util
from pathlib import Path

import click

from draftverify.errors import ConfigError

__all__ = ["adapter"]

TEMPLATES = Path(__file__).parent / "templates" / "adapter"
DOMAINS = {"chain": "routes", "alternatives": "alternatives", "tree": "routes"}
CHOICES = ("plain", "scored", "chain", "alternatives", "tree")


@click.group()
def adapter() -> None:
    """Write packages of parts of your own."""


@adapter.command(short_help="Write the package draftverify-NAME.")
@click.argument("name")
@click.option(
    "--shape",
    type=click.Choice([*DOMAINS]),
    default="alternatives",
    show_default=True,
    help="How the drafted items stand to each other.",
)
@click.option(
    "--scored", is_flag=True, help="The verifier scores what it passes, and a rule compares the scores."
)
@click.option(
    "--into",
    type=click.Path(file_okay=False, path_type=Path),
    default=".",
    help="The directory to write the package's own into; here, when it is left out.",
)
def new(name: str, shape: str, scored: bool, into: Path) -> None:
    """Write the package draftverify-NAME: a generator, a verifier, a metric, their tests, and an experiment.

    It works on a small domain of its own, to be replaced by yours piece by piece: patterns from examples
    (alternatives), or ways through a grid (chain, tree). Parts are named NAME.something in a config.
    """
    names = _names(name)
    target = into / names["project"]
    if target.exists():
        raise ConfigError("is there already; nothing was written", where=str(target))
    chosen = {shape, "scored" if scored else "plain"}
    files = dict(_files(DOMAINS[shape], chosen, names | {"shape": shape}))
    try:
        for path, text in files.items():
            (target / path).parent.mkdir(parents=True, exist_ok=True)
            with (target / path).open("x", encoding="utf-8") as file:
                file.write(text)
    except OSError as error:
        raise ConfigError(f"cannot be written: {error.strerror or error}", where=str(target)) from error
    click.echo(
        f"wrote {len(files)} files into {target}; next:\n"
        f"  cd {target}\n"
        "  pip install -e '.[test]'\n"
        "  pytest\n"
        "  draftverify run examples/experiment.yaml"
    )


def _names(name: str) -> dict[str, str]:
    """What the package, its module and its parts are called.

    Raises:
        click.UsageError: the name cannot be one, or is taken here.
    """
    from draftverify.plugins import installed

    if not re.fullmatch(r"[a-z][a-z0-9]*([_-][a-z0-9]+)*", name) or len(name) > 40:
        raise click.UsageError(
            f"{name!r} cannot name a package; small letters, digits and - can, as in sql-rewrites (at most 40)"
        )
    prefix = name.replace("-", "_")
    if keyword.iskeyword(prefix):
        raise click.UsageError(f"{name!r} is a word of Python's; choose another")
    module = f"draftverify_{prefix}"
    taken = [each.package for each in installed() if each.name.partition(".")[0] == prefix]
    if taken or util.find_spec(module) is not None:
        by = f"by {taken[0]}" if taken else f"by the installed module {module}"
        raise click.UsageError(f"{name!r} is taken, {by}; choose another")
    return {"name": prefix, "module": module, "project": f"draftverify-{name.replace('_', '-')}"}


def _files(domain: str, chosen: set[str], names: Mapping[str, str]) -> Iterator[tuple[Path, str]]:
    """The files of the package, by their paths in it."""
    for root in (TEMPLATES / "every", TEMPLATES / domain):
        for source in sorted(root.rglob("*.in")):
            path = source.relative_to(root)
            own = _kept(path.name, chosen)
            if own is not None:
                parts = [_filled(part, names) for part in (*path.parts[:-1], own.removesuffix(".in"))]
                named = Path(*parts[:-1], "." + parts[-1] if parts[-1] == "gitignore" else parts[-1])
                lines = source.read_text(encoding="utf-8").splitlines(keepends=True)
                kept = (line for each in lines if (line := _kept(each, chosen)) is not None)
                yield named, _filled("".join(kept), names)


def _kept(text: str, chosen: set[str]) -> str | None:
    """A line or a name without the choice that it begins with; None where another was made."""
    for choice in CHOICES:
        if text.startswith(f"@{choice}@"):
            return text.removeprefix(f"@{choice}@") if choice in chosen else None
    return text


def _filled(text: str, names: Mapping[str, str]) -> str:
    for name, value in names.items():
        text = text.replace(f"@{name}@", value)
    return text
