"""The types stage: a type checker over the whole block in one invocation.

What a program says to the checker is taken out of it first: all its comments, and `no_type_check`. A program can still
keep a checker from looking (everything `Any`, code that is never reached), so a pass means that the checker found
nothing. Installed packages are not looked at, and an import that cannot be followed is no error: whether it works is
for the tests to find out.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import util
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

import msgspec

from draftverify import Check, ConfigError, Context, Proposal, ResourceError, Verification
from draftverify_code.sandbox.host import Sandbox, usable_cores
from draftverify_code.sandbox.jobs import Command, Exit
from draftverify_code.stages.blocks import (
    ALONE,
    Finding,
    Job,
    Static,
    check_block,
    distributions,
    executable,
    file_names,
    limits,
    outside,
    programs_of,
    verification,
    words,
)
from draftverify_code.stages.syntax import read_programs

__all__ = ["Checker", "Types"]

Checker: TypeAlias = Literal["mypy", "pyright", "ty", "zuban", "pyrefly"]


class Types(Static):
    """Rejects Python programs in which a type checker finds an error.

    Functions without annotations are checked too, and a variable may change its type, where the checker can be told so.
    A program that does not compile is rejected for its syntax. Programs with which the checker does not end in time are
    looked for in ever smaller parts of the block; only one that hangs it alone is a timeout.

    Args:
        checker: its name; the checker itself, and for pyright Node.js, must be installed.
        sandbox: where it runs; a shared one with the strongest isolation of this machine when None.
        timeout: seconds that the checker may take for one program alone, its own start included; it has a little more
            for each further one of a block.
    """

    name = "types"

    def __init__(
        self, checker: Checker = "mypy", sandbox: Sandbox | None = None, timeout: float = ALONE
    ) -> None:
        self.checker = checker
        self.sandbox = sandbox
        self.timeout = timeout

    @property
    def packages(self) -> tuple[str, ...]:
        """Distributions that a sandbox must show."""
        return distributions([self.checker])

    @property
    def readable(self) -> tuple[Path, ...]:
        """Further paths that a sandbox must show.

        Raises:
            ResourceError: the checker is not installed.
        """
        return self._tool().readable

    def verify(self, context: Context, proposal: Proposal) -> Verification:
        """Check the whole block in one invocation.

        Raises:
            ResourceError: the checker is not installed, or there is no sandbox.
        """
        tool = self._tool()
        programs = programs_of(proposal)
        box = self.box
        readings = read_programs(programs, lambda: box, bare=True)
        parsed = [program for program in programs if readings[program].check.verdict == "pass"]

        def job(group: Sequence[str]) -> Job:
            return _job(tool, group, [readings[program].bare for program in group], self.timeout)

        found = dict(zip(parsed, check_block(box, parsed, job, self.checker, "type"), strict=True))
        checks = [found[program] if program in found else readings[program].check for program in programs]
        return verification(self.name, checks, box)

    def open(self) -> None:
        """Open the sandbox.

        Raises:
            ConfigError: no checker has this name.
            ResourceError: the checker is not installed, or there is no sandbox.
        """
        self._tool()
        self.box.open()

    def _tool(self) -> _Tool:
        if self.checker not in get_args(Checker):
            raise ConfigError(
                f"{self.checker!r} is no type checker; one of {', '.join(get_args(Checker))} is",
                path="checker",
            )
        return _TOOLS[self.checker]()


class _Diagnostic(msgspec.Struct, frozen=True):
    """What a checker wrote: an error in a file; `rule` is "" where it names none."""

    file: str
    line: int
    column: int
    rule: str
    message: str


class _Tool(msgspec.Struct, frozen=True):
    """How a checker is called and read.

    Args:
        argv: the names of the programs' files are put after it, unless `finds_files`.
        read: standard output → diagnostics. It raises ValueError when the output is not whole.
        readable: paths that a sandbox does not show by itself.
        files: of its configuration, so that none is looked for elsewhere.
        env: variables.
        finds_files: it checks what lies in its working directory.
    """

    argv: tuple[str, ...]
    read: Callable[[str], Iterator[_Diagnostic]]
    readable: tuple[Path, ...] = ()
    files: Mapping[str, bytes] = {}
    env: Mapping[str, str] = {}
    finds_files: bool = False


def _job(tool: _Tool, programs: Sequence[str], texts: Sequence[str], timeout: float) -> Job:
    names = file_names(len(texts) + 1, ".py")
    control = names[-1]
    files = {name: text.encode() for name, text in zip(names, (*texts, _FAULTY), strict=True)}
    argv = tool.argv if tool.finds_files else (*tool.argv, *names)
    allowed = limits(len(texts), alone=timeout, size=sum(map(len, files.values())))

    def read(ended: Exit) -> dict[int, Check]:
        # 2 is mypy's word for an error after which it looked at nothing more.
        if ended.status not in (0, 1, 2) or ended.truncated or _CRASHED.search(ended.stderr):
            return {}
        findings: dict[str, list[Finding]] = {name: [] for name in names}
        try:
            for each in tool.read(ended.stdout.decode(errors="replace")):
                name = os.path.basename(each.file)
                if _BROKEN.match(each.rule or each.message):
                    return {}
                if name in findings and each.rule not in _NO_FAULT:
                    findings[name].append(_finding(each, name))
        except (ValueError, KeyError, TypeError):
            return {}
        looked = bool(findings.pop(control))
        found = words(programs, list(findings.values()))
        if ended.status == 2:
            return {place: check for place, check in found.items() if check.verdict != "pass"}
        return found if looked else {}

    return Job(Command(argv, {**files, **tool.files}, env=tool.env, limits=allowed), read)


_FAULTY = "x: int = ''\n"
"""A program that goes with every block: a checker that finds nothing in it did not look, whatever its status says."""

_NO_FAULT = frozenset(
    {
        *("import", "import-not-found", "import-untyped"),  # mypy and zuban
        *("reportMissingImports", "reportMissingModuleSource", "reportMissingTypeStubs"),  # pyright
        "unresolved-import",  # ty
        *("missing-import", "missing-source", "missing-source-for-stubs", "untyped-import"),  # pyrefly
        "unreachable",  # of zuban an error; what is never reached does no harm
    }
)
"""Rules about what lies outside the program."""

_BROKEN = re.compile(r"panic|internal[- ]error|an internal error|io$", re.IGNORECASE)
"""What stands in a diagnostic when the checker itself failed."""

_CRASHED = re.compile(rb"Traceback \(most recent call last\)|panicked at|INTERNAL ERROR")
"""What stands on standard error then."""


def _finding(found: _Diagnostic, name: str) -> Finding:
    # A module is called after its file; that name means nothing to anybody.
    message = found.message.replace(name.removesuffix(".py"), "program").replace("\xa0", " ")
    said = f"{message} [{found.rule}]" if found.rule else message
    syntax = found.rule in ("syntax", "invalid-syntax", "parse-error")
    return Finding(said, found.line, found.column, "syntax" if syntax else "type")


PYTHON = "{}.{}".format(*sys.version_info[:2])
# These start as many threads as there are processors, and each wants memory of its own.
THREADS = str(min(8, usable_cores()))


def _mypy() -> _Tool:
    if util.find_spec("mypy") is None:
        raise ResourceError(
            "mypy is not installed; pip install mypy, or install draftverify with the extra `code`"
        )
    flags = "--config-file= --cache-dir=/dev/null --no-site-packages --ignore-missing-imports --check-untyped-defs"
    flags += " --allow-redefinition --disable-error-code=var-annotated --output=json --no-error-summary"
    return _Tool((sys.executable, "-I", "-c", _START_MYPY, *flags.split()), _read_mypy)


# Called this way mypy writes nothing before it has come to its end. Where psutil is installed mypy asks it for the
# number of processors, which it reads where a sandbox does not let it.
_START_MYPY = """
import sys
sys.modules["psutil"] = None
from mypy import api
output, errors, status = api.run(sys.argv[1:])
sys.stdout.write(output)
sys.stderr.write(errors)
sys.exit(status)
"""


def _read_mypy(output: str) -> Iterator[_Diagnostic]:
    for line in output.splitlines():
        given = json.loads(line)
        if given["severity"] == "error":
            yield _Diagnostic(
                given["file"], given["line"], given["column"] + 1, given["code"] or "", given["message"]
            )


def _zuban() -> _Tool:
    path = executable("zuban", "pip install zuban, or install draftverify with the extra `code`")
    flags = ("check", "--python-version", PYTHON, "--show-column-numbers", "--config-file", "mypy.ini")
    env = {"RAYON_NUM_THREADS": THREADS}
    spec = util.find_spec("zuban")
    for place in (spec.submodule_search_locations or ()) if spec is not None else ():
        # Looking for it means listing directories, which a sandbox need not allow.
        env["ZUBAN_TYPESHED"] = os.path.join(place, "third_party", "typeshed")
    return _Tool((str(path), *flags), _read_zuban, outside(path), {"mypy.ini": b"[mypy]\n"}, env)


_ZUBAN = re.compile(r"([^:]+):(\d+):(?:(\d+):)? error: (.*?)(?:  \[([\w-]+)\])?")


def _read_zuban(output: str) -> Iterator[_Diagnostic]:
    *lines, summary = output.strip().split("\n")
    if not re.match(r"Found \d+ errors?|Success: ", summary):
        raise ValueError("no summary")
    for line in lines:
        # A message may have lines that the program chose; the file's name is one that it cannot.
        if found := _ZUBAN.fullmatch(line):
            file, row, column, message, rule = found.groups()
            yield _Diagnostic(file, int(row), int(column or 0), rule or "", message)


def _ty() -> _Tool:
    path = executable("ty", "pip install ty")
    flags = ("check", "--output-format", "gitlab", "--python-version", PYTHON, "--config-file", "ty.toml")
    env = {"RAYON_NUM_THREADS": THREADS, "TY_MAX_PARALLELISM": THREADS}
    return _Tool((str(path), *flags), _read_ty, outside(path), {"ty.toml": b""}, env)


def _read_ty(output: str) -> Iterator[_Diagnostic]:
    for given in json.loads(output):
        if given["severity"] in ("major", "critical", "blocker"):
            place = given["location"]["positions"]["begin"]
            rule = given["check_name"]
            message = given["description"].removeprefix(f"{rule}: ")
            yield _Diagnostic(given["location"]["path"], place["line"], place["column"], rule, message)


def _pyrefly() -> _Tool:
    path = executable("pyrefly", "pip install pyrefly")
    flags = f"check --output-format json --summary=none --threads {THREADS} --config pyrefly.toml"
    flags += f" --python-version {PYTHON} --skip-interpreter-query"
    return _Tool((str(path), *flags.split()), _read_pyrefly, outside(path), {"pyrefly.toml": b""})


def _read_pyrefly(output: str) -> Iterator[_Diagnostic]:
    for given in json.loads(output)["errors"]:
        if given["severity"] == "error":
            yield _Diagnostic(
                given["path"], given["line"], given["column"], given["name"], given["description"]
            )


def _pyright() -> _Tool:
    how = "pyright needs Node.js, and its Python package (pip install pyright) in a version that brings its program"
    node = executable("node", how)
    spec = util.find_spec("pyright")
    places = (
        [Path(place, "dist", "index.js") for place in (spec.submodule_search_locations or ())] if spec else []
    )
    script = next((place for place in places if place.is_file()), None)
    if script is None:
        raise ResourceError(f"pyright is not installed; {how}")
    config = {
        "include": ["."],
        "pythonVersion": PYTHON,
        "typeCheckingMode": "standard",
        "enableTypeIgnoreComments": False,
        "useLibraryCodeForTypes": False,
    }
    return _Tool(
        (str(node), "--max-old-space-size=2048", str(script), "--outputjson"),
        _read_pyright,
        outside(node),
        {"pyrightconfig.json": json.dumps(config).encode()},
        {"OPENSSL_CONF": "/dev/null"},  # Node.js does not start where it cannot read the machine's
        finds_files=True,
    )


def _read_pyright(output: str) -> Iterator[_Diagnostic]:
    for given in json.loads(output)["generalDiagnostics"]:
        if given["severity"] == "error":
            place: dict[str, Any] = given.get("range", {}).get("start", {"line": -1, "character": -1})
            yield _Diagnostic(
                given["file"],
                place["line"] + 1,
                place["character"] + 1,
                given.get("rule", ""),
                given["message"],
            )


_TOOLS: Mapping[str, Callable[[], _Tool]] = {
    "mypy": _mypy,
    "pyright": _pyright,
    "ty": _ty,
    "zuban": _zuban,
    "pyrefly": _pyrefly,
}
