"""A run's report as one HTML file that opens with no network, and the same page for the local server.

The page is plain JavaScript modules in static/, joined here into one script without their imports: a file that is
opened from a disk may load no module. Data stand in it as JSON, packed (gzip, base64) where they are large: figures
first, then the list of all tasks, then as many tasks' rounds as a budget of bytes allows, those that went wrong first.
Nothing that a model wrote is markup: it is JSON here, and the script puts it into the page as text.
"""

from __future__ import annotations

import base64
import gzip
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from hashlib import sha256
from html import escape
from importlib.resources import files
from itertools import groupby
from string import Template
from typing import Any

import msgspec

from draftverify.bench.records import Entry, RunRecords
from draftverify.bench.tables.task_rows import Plain, RunFrame, row_of
from draftverify.bench.tables.words import clean
from draftverify.secret import redact
from draftverify.values import Outcome
from draftverify.view.overview import Gathering
from draftverify.view.task_detail import detail_of, detail_of_open

DETAILS = 3_000_000
"""Characters that the rounds of tasks may take in a file."""
ROWS = 40_000
"""Tasks that a file lists; of more, those that went wrong come first."""
BLOCK = 400_000
"""Characters of JSON that are packed together: what opening a task unpacks."""
LEVEL = 6
"""Of packing: 9 takes three times as long and saves less than a tenth."""
USUAL = {"clipped": 20_000, "rounds": 200, "drafts": 24}
"""Of a task in a file: characters of one text, rounds of one record, drafts of one round."""
SHORT = {"clipped": 2_000, "rounds": 16, "drafts": 6}
"""The same of a task that would fill a block alone."""

MODULES = (
    "text.js",
    "source.js",
    "code.js",
    "charts.js",
    "overview.js",
    "detail.js",
    "tasks.js",
    "keyboard.js",
    "main.js",
)
"""Each after those that it imports."""

LIBRARIES = {"echarts": "echarts/echarts.min.js", "prism": "prism/prism.min.js"}
"""Charts, and the colours of code: packed into the page, and run when the first of them is shown."""

_PAGE = Template(
    """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
$policy<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<link rel="icon" href="data:,">
<title>$title</title>
<style$nonce>
$style</style>
</head>
<body>
<header></header>
<nav><div></div></nav>
<main>
<noscript><p>JavaScript draws this page; <code>draftverify show</code> says the same in a terminal.</p></noscript>
</main>
$data
$libraries
<script$nonce>$script</script>
</body>
</html>
"""
)


def page_html(run: RunRecords, *, details: int = DETAILS) -> str:
    """The report of a run, finished or not, as one HTML file without anything to load.

    Reads the rounds of all records once.

    Args:
        run: whose.
        details: characters that the rounds of tasks may take; those of the others are named with the command that
            shows them.
    """
    gathering = Gathering(run)
    frame = RunFrame.of(run)
    begun = {task for _, task, _ in run.store.open_tasks()}
    blocks = _Blocks(details)
    rows: list[Plain] = []
    kept = {True: 0, False: 0}
    every = groupby(_counted(gathering, run.entries()), key=lambda entry: entry.record.task)
    ended = next(every, None)
    for task in run.tasks:
        task_entries: dict[str, Entry] = {}
        if ended is not None and ended[0] == task.id:
            task_entries = {entry.pipeline: entry for entry in ended[1]}
            ended = next(every, None)
        outcomes: Mapping[str, Outcome] = {name: entry.record.outcome for name, entry in task_entries.items()}
        row = row_of(frame, task, outcomes)
        wrong = _went_wrong(row)
        if blocks.wants(wrong):
            if task.id in begun:
                task_entries.update(detail_of_open(run, frame, task, task_entries))
            judgements = run.store.judgements(task.id) if frame.metrics else {}
            text = _json(detail_of(frame, task, task_entries, judgements, **USUAL))
            if len(text) > BLOCK:
                text = _json(detail_of(frame, task, task_entries, judgements, **SHORT))
            blocks.add(row, text, wrong=wrong)
        if kept[wrong] < ROWS:  # no more of a kind can be listed
            kept[wrong] += 1
            rows.append(row)
    packed = blocks.packed()
    data = [_element("overview", _json(gathering.overview()).replace("<", "\\u003c"), "application/json")]
    data.append(_element("rows", _packed(_json(_listed(rows)))))
    data += [_element(f"block-{number}", text) for number, text in packed.items()]
    script = _script()
    return _PAGE.substitute(
        policy=f'<meta http-equiv="Content-Security-Policy" content="{_file_policy(script)}">\n',
        nonce="",
        title=escape(clean(redact(str(run.config.get("name", run.path.name))))),
        style=_static("style.css"),
        data="\n".join(data),
        libraries=_libraries(),
        script=script,
    )


def kept_overview(run: RunRecords, version: str) -> bytes | None:
    """The overview as JSON out of the run's report.html; None where that is of another state of the run, or was not
    made by this version of the page.

    Args:
        run: whose.
        version: of its records, as `changes` gives it.
    """
    try:
        html = (run.path / "report.html").read_text(encoding="utf-8")
    except (OSError, UnicodeError):
        return None
    match = _OVERVIEW.search(html)
    if match is None or _file_policy(_script()) not in html[: match.start()]:
        return None
    try:
        overview = msgspec.json.decode(match[1])
    except msgspec.DecodeError:
        return None
    if not isinstance(overview, dict) or (overview.get("run"), overview.get("version")) != (
        run.about.run,
        version,
    ):
        return None
    return msgspec.json.encode({**overview, "path": str(run.path)})  # it may have been moved since


def app_html(nonce: str) -> str:
    """The page for the server: without data, which it fetches from `api/…`.

    Args:
        nonce: of the answer's Content-Security-Policy, see `app_policy`.
    """
    return _PAGE.substitute(
        policy="",
        nonce=f' nonce="{escape(nonce)}"',
        title="draftverify",
        style=_static("style.css"),
        data="",
        libraries=_libraries(),
        script=_script(),
    )


def app_policy(nonce: str) -> str:
    """The Content-Security-Policy that the server sends with `app_html`: its own script, and its own addresses."""
    return (
        f"default-src 'none'; script-src 'nonce-{nonce}'; style-src 'unsafe-inline'; img-src data:; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )


_OVERVIEW = re.compile(r'<script type="application/json" id="overview">(.*?)</script>', re.DOTALL)


class _Blocks:
    """Tasks' details, packed some together, until a budget is spent: those that went wrong before the others."""

    def __init__(self, budget: int) -> None:
        self._budget = budget
        self._open: dict[bool, list[tuple[Plain, str]]] = {True: [], False: []}
        self._closed: dict[bool, list[tuple[list[Plain], str]]] = {True: [], False: []}
        self._sizes = {(wrong, closed): 0 for wrong in (True, False) for closed in (True, False)}

    def wants(self, wrong: bool) -> bool:
        """Whether another detail of this kind could still find a place."""
        return self._sizes[wrong, True] < self._budget

    def add(self, row: Plain, text: str, *, wrong: bool) -> None:
        """Take a task's detail; its row is told of the block once that is sure of its place."""
        if len(text) > BLOCK:
            return
        self._open[wrong].append((row, text))
        self._sizes[wrong, False] += len(text)
        if self._sizes[wrong, False] > BLOCK:
            self._close(wrong)

    def packed(self) -> dict[int, str]:
        """The blocks that fit, by their numbers; the rows in them say which."""
        blocks: dict[int, str] = {}
        remaining = self._budget
        for wrong in (True, False):
            self._close(wrong)
            for rows, text in self._closed[wrong]:
                if len(text) > remaining:
                    break
                remaining -= len(text)
                for row in rows:
                    row["block"] = len(blocks)
                blocks[len(blocks)] = text
        return blocks

    def _close(self, wrong: bool) -> None:
        waiting = self._open[wrong]
        if waiting:
            joined = ",".join(f"{_json(row['task'])}:{text}" for row, text in waiting)
            self._closed[wrong].append(([row for row, _ in waiting], packed := _packed(f"{{{joined}}}")))
            self._sizes[wrong, True] += len(packed)
        self._open[wrong] = []
        self._sizes[wrong, False] = 0


def _counted(gathering: Gathering, entries: Iterable[Entry]) -> Iterator[Entry]:
    for entry in entries:
        gathering.add(entry)
        yield entry


def _went_wrong(row: Plain) -> bool:
    return any(
        cell["status"] not in ("accepted", "open") or cell.get("wrong") or cell.get("differs")
        for cell in row["cells"].values()
    )


def _listed(rows: list[Plain]) -> list[Plain]:
    """The rows that a file holds, in order."""
    if len(rows) <= ROWS:
        return rows
    order = sorted(range(len(rows)), key=lambda place: (not _went_wrong(rows[place]), place))
    return [rows[place] for place in sorted(order[:ROWS])]


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def _packed(text: str) -> str:
    return base64.b64encode(gzip.compress(text.encode(), LEVEL, mtime=0)).decode()


def _element(name: str, text: str, kind: str = "text/plain") -> str:
    return f'<script type="{kind}" id="{name}">{text}</script>'


def _static(name: str) -> str:
    return (files("draftverify.view") / "static" / name).read_text(encoding="utf-8")


def _script() -> str:
    """The page's modules as one script."""
    joined = "\n".join(_without_modules(_static(name)) for name in MODULES)
    return f'"use strict";\n(() => {{\n{joined}}})();\n'


def _without_modules(text: str) -> str:
    text = re.sub(r"^import .*\n", "", text, flags=re.MULTILINE)
    return re.sub(r"^export (?=(?:async )?function|const|class)", "", text, flags=re.MULTILINE)


@cache
def _libraries() -> str:
    return "\n".join(_element(name, _packed(_static(path))) for name, path in LIBRARIES.items())


def _file_policy(script: str) -> str:
    """The Content-Security-Policy of a file: only the page's script and its libraries run, and nothing is loaded."""
    scripts = (script, *map(_static, LIBRARIES.values()))
    hashes = " ".join(
        f"'sha256-{base64.b64encode(sha256(text.encode()).digest()).decode()}'" for text in scripts
    )
    return (
        f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; "
        "form-action 'none'"
    )
