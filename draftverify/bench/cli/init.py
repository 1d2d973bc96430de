"""`draftverify init`: an experiment that runs as it stands, an example, a package of parts, or a schema for editors.

A package is written from the files in templates/adapter: those of `every` package, and those of a small domain that
has the wanted shape. In their names and lines `@name@` and the like are filled in; a line or a name that begins with a
choice (`@scored@`, `@tree@`) is there where it was made.
"""

from __future__ import annotations

import json
import keyword
import re
import sys
from collections.abc import Iterator, Mapping
from importlib import util
from pathlib import Path
from shlex import quote

import click

from draftverify.errors import ConfigError, did_you_mean

TEMPLATES = {
    "alternatives": "which number divides n: guesses beside each other",
    "chain": "a rhyme word by word: each guess on the one before",
    "tree": "the same with several guesses for each word",
    "retrieval": "questions answered from passages that a search finds",
    "judge": "the best of several drafts, by a judge and a threshold",
}
DOMAINS = {"chain": "routes", "alternatives": "alternatives", "tree": "routes"}
CHOICES = ("plain", "scored", "chain", "alternatives", "tree")
FOLDER = Path(__file__).parent / "templates"
PACKAGE = Path(__file__).parents[2]
CONFIG = "experiment.yaml"
SCHEMA = "draftverify.schema.json"


@click.command(epilog="\b\n" + "\n".join(f"{name:<14}{words}" for name, words in TEMPLATES.items()))
@click.argument("directory", type=click.Path(path_type=Path), default=".")
@click.option("--template", type=click.Choice([*TEMPLATES]), help="The shape; alternatives when absent.")
@click.option(
    "--example", metavar="NAME", help="Write an example of the documentation into DIRECTORY/examples."
)
@click.option("--adapter", metavar="NAME", help="Write the package draftverify-NAME into DIRECTORY instead.")
@click.option("--scored", is_flag=True, help="With --adapter: its verifier scores, and a rule compares.")
@click.option("--schema", "only_schema", is_flag=True, help="Write the schema anew, and nothing else.")
def init(
    directory: Path,
    template: str | None,
    example: str | None,
    adapter: str | None,
    scored: bool,
    only_schema: bool,
) -> None:
    """Write a small experiment into DIRECTORY (here, when it is left out). It needs no model and runs as it stands.

    --adapter NAME writes a package to publish: a generator, a verifier, a metric, their tests and an experiment, on a
    small domain to be replaced by yours: patterns from examples (alternatives), or ways through a grid (chain, tree).
    --schema writes the JSON schema for editors beside the config that stands in DIRECTORY's place, with its own parts.
    """
    if scored and adapter is None:
        raise click.UsageError("--scored goes with --adapter NAME")
    if only_schema and (template or example or adapter):
        raise click.UsageError("--schema writes the schema alone")
    if example and (template or adapter):
        raise click.UsageError("--example writes an example alone")
    if only_schema:
        config = directory / CONFIG if directory.is_dir() else directory
        lacking = directory.is_dir() and not config.exists()
        _write(config.parent, {SCHEMA: _schema(None if lacking else config)})
        click.echo(f"wrote {config.parent / SCHEMA}")
    elif example is not None:
        _write_example(example, directory)
    elif adapter is not None:
        _write_package(adapter, directory, template or "alternatives", scored)
    else:
        _write_experiment(directory, template)


def _write_experiment(directory: Path, template: str | None) -> None:
    if template is None and str(directory) in TEMPLATES:
        form = f"draftverify init --template {directory} DIRECTORY"
        raise click.UsageError(f"{directory} is a template; write: {form}")
    folder = FOLDER / (template or "alternatives")
    files = {path.name: path.read_bytes() for path in sorted(folder.iterdir()) if path.is_file()}
    present = [name for name in (*files, SCHEMA) if (directory / name).exists()]
    if present:
        raise ConfigError(
            f"{', '.join(present)} stand{'s' * (len(present) == 1)} there already; name another directory",
            where=str(directory),
        )
    config = directory / CONFIG
    _write(directory, files)
    # Parts are imported, and leave no folder of bytecode in a directory that was just made.
    caches, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        _write(directory, {SCHEMA: _schema(config)})
    finally:
        sys.dont_write_bytecode = caches
    click.echo(
        f"wrote {', '.join((*files, SCHEMA))} into {directory}\nnext: draftverify run {quote(str(config))}"
    )


def _write_example(name: str, directory: Path) -> None:
    """Write an example, and whatever it names of what stands beside it, where the documentation has it.

    Raises:
        ConfigError: another file stands in the place of one of them, or it reads what only a clone has. Nothing is
            written.
    """
    # A wheel has the examples in the package, a clone beside it.
    folder = next(path for path in (PACKAGE / "examples", PACKAGE.parent / "examples") if path.is_dir())
    examples = {path: path.stem for path in sorted(folder.iterdir()) if path.suffix in (".yaml", ".py")}
    examples |= {path: path.parent.name for path in sorted(folder.glob("*/README.md"))}
    chosen = [path for path, stem in examples.items() if stem == name]
    if not chosen:
        raise click.UsageError(f"there is no example {name!r}{did_you_mean(name, examples.values())}")
    text = "\n".join(path.read_text(encoding="utf-8") for path in chosen if path.parent == folder)
    if "path: ../docs" in text and not (directory / "docs").is_dir():
        raise ConfigError("the example reads ../docs, which a clone of the repository has", where=name)
    entries = {path if path.parent == folder else path.parent for path in chosen}
    entries |= {folder / word for word in re.findall(r"\w[\w.-]*", text) if (folder / word).exists()}
    sources = sorted(path for entry in entries for path in (entry, *entry.rglob("*")) if path.is_file())
    files = {
        str(path.relative_to(folder.parent)): path.read_bytes()
        for path in sources
        if "__pycache__" not in path.parts
    }
    differing = [path for path, data in files.items() if _differs(directory / path, data)]
    if differing:
        trouble = f"{differing[0]} stands there already, and differs; name another directory"
        raise ConfigError(trouble, where=str(directory))
    _write(directory, files)
    steps = {".yaml": "draftverify run", ".py": "python", ".md": "read"}
    click.echo(f"wrote {len(files)} files into {directory / 'examples'}; next:")
    for path in chosen:
        click.echo(f"  {steps[path.suffix]} {directory / path.relative_to(folder.parent)}")


def _differs(path: Path, data: bytes) -> bool:
    return path.exists() and (path.is_dir() or path.read_bytes() != data)


def _schema(config: Path | None) -> bytes:
    """The schema with every installed part, and those of a config's own parts files."""
    from draftverify.bench.config.experiment import parts_of
    from draftverify.bench.config.schema import schema

    parts = {} if config is None else parts_of(config)
    return (json.dumps(schema(parts), indent=2, ensure_ascii=False) + "\n").encode()


def _write(directory: Path, files: Mapping[str, bytes]) -> None:
    try:
        for name, data in files.items():
            (directory / name).parent.mkdir(parents=True, exist_ok=True)
            (directory / name).write_bytes(data)
    except OSError as error:
        raise ConfigError(f"cannot be written: {error.strerror or error}", where=str(directory)) from error


def _write_package(name: str, directory: Path, shape: str, scored: bool) -> None:
    if shape not in DOMAINS:
        raise click.UsageError(f"a package is of the template {', '.join(DOMAINS)}, not {shape}")
    names = _names(name)
    target = directory / names["project"]
    if target.exists():
        raise ConfigError("is there already; nothing was written", where=str(target))
    choices = {shape, "scored" if scored else "plain"}
    files = dict(_package_files(DOMAINS[shape], choices, names | {"shape": shape}))
    _write(target, files)
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
    owners = [plugin.package for plugin in installed() if plugin.name.partition(".")[0] == prefix]
    if owners or util.find_spec(module) is not None:
        owner = owners[0] if owners else f"the installed module {module}"
        raise click.UsageError(f"{name!r} is taken, by {owner}; choose another")
    return {"name": prefix, "module": module, "project": f"draftverify-{name.replace('_', '-')}"}


def _package_files(domain: str, choices: set[str], names: Mapping[str, str]) -> Iterator[tuple[str, bytes]]:
    """The files of the package, by their paths in it."""
    for root in (FOLDER / "adapter" / "every", FOLDER / "adapter" / domain):
        for source in sorted(root.rglob("*.in")):
            path = source.relative_to(root)
            name = _chosen(path.name, choices)
            if name is not None:
                name = name.removesuffix(".in")
                path = path.with_name(".gitignore" if name == "gitignore" else name)
                lines = source.read_text(encoding="utf-8").splitlines(keepends=True)
                text = "".join(_chosen(line, choices) or "" for line in lines)
                yield _filled(str(path), names), _filled(text, names).encode()


def _chosen(text: str, choices: set[str]) -> str | None:
    """A line or a name without the choice that it begins with; None where another was made."""
    for choice in CHOICES:
        if text.startswith(f"@{choice}@"):
            return text.removeprefix(f"@{choice}@") if choice in choices else None
    return text


def _filled(text: str, names: Mapping[str, str]) -> str:
    for name, value in names.items():
        text = text.replace(f"@{name}@", value)
    return text
