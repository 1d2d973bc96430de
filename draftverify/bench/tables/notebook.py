"""An evaluation's tables as HTML, for notebooks: no scripts. Model text is cleaned and escaped."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from string import Template

from draftverify.bench.tables.summary import Summary
from draftverify.bench.tables.tables import cells, remarks, step_cells
from draftverify.bench.tables.words import clean
from draftverify.secret import redact

__all__ = ["report_html"]

_PAGE = Template(
    """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>$title</title>
<style>
body { font: 15px/1.5 system-ui, sans-serif; max-width: 72rem; margin: 2rem auto; padding: 0 1rem; color: #1b1b1b }
table { border-collapse: collapse; margin: 1rem 0 }
th, td { padding: .3rem .7rem; border-bottom: 1px solid #ddd; text-align: right; white-space: nowrap }
th:nth-child(-n+2), td:nth-child(-n+2) { text-align: left }
tr.all td { font-weight: 600 }
.scroll { overflow-x: auto }
pre { white-space: pre-wrap; overflow-wrap: anywhere; background: #f6f6f6; padding: .7rem }
</style>
<h1>$title</h1>
<p>$count tasks. Speed-ups are of seconds per $per, against <b>$baseline</b>, paired by task; below 1 is a loss.
Brackets hold 95 % intervals with the task as the unit.</p>
$body
</html>
"""
)


def report_html(summary: Summary) -> str:
    """The tables of a summary as one HTML page without scripts, links or anything to load."""
    headings, rows = cells(summary)
    body = [_html_table(headings, rows)]
    lines = list(remarks(summary, None))
    if lines:
        body.append(f"<pre>{_escape(chr(10).join(lines))}</pre>")
    headings, rows = step_cells(summary)
    if rows:
        body.append("<h2>Policy steps</h2>" + _html_table(headings, rows))
    return _PAGE.substitute(
        title=_escape(clean(summary.name)),
        count=summary.tasks,
        per="solved task" if summary.metrics else "task that both finished",
        baseline=_escape(summary.baseline or "nothing"),
        body="\n".join(body),
    )


def _escape(text: str) -> str:
    return escape(redact(text))


def _html_table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    head = "".join(f"<th>{_escape(heading)}</th>" for heading in headings)
    lines = []
    for row in rows:
        kind = ' class="all"' if row[0] == "all" else ""
        lines.append(f"<tr{kind}>" + "".join(f"<td>{_escape(cell)}</td>" for cell in row) + "</tr>")
    return f'<div class="scroll"><table><tr>{head}</tr>\n' + "\n".join(lines) + "\n</table></div>"
