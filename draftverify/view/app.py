"""The pages and the data behind them, as a Starlette app without any guard: `guard.py` stands before it.

/                     the list of runs; of a single run its report
/run?run=NAME         the report of one run, which follows it
/review?run=NAME      the page on which people decide
/api/…                what they fetch and send: JSON, errors as {"error": words}
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Awaitable, Callable
from importlib.resources import files
from typing import Any, NamedTuple
from urllib.parse import quote

import msgspec
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from draftverify.bench.records import RunRecords
from draftverify.bench.tables.compare import compare
from draftverify.bench.tables.compared import comparison_words
from draftverify.bench.tables.task_rows import all_rows, task_list
from draftverify.errors import ConfigError, ContractError, DraftVerifyError
from draftverify.secret import quiet, redact, redacted
from draftverify.view.overview import changes, overview
from draftverify.view.page import app_html, app_policy, kept_overview
from draftverify.view.reviewing import Reviewing, Stale
from draftverify.view.runs import Runs, UnknownRun
from draftverify.view.task_detail import task_detail

_log = quiet(logging.getLogger(__name__))

KEPT = 8
"""Overviews and lists of tasks that are kept, of as many runs."""

REST = 4.0
"""How many times as long as it took to make one it stands, so that following a run takes a fifth of a core."""

_STATIC = {
    "pages.css": "text/css",
    "around.js": "text/javascript",
    "dom.js": "text/javascript",
    "index.js": "text/javascript",
    "review.js": "text/javascript",
}
_PAGES = ("index.html", "review.html")


def application(runs: Runs) -> Starlette:
    """The app that shows these runs."""
    pages = _Pages(runs)
    reviewing = Reviewing(runs)
    routes = [
        Route("/", _safe(pages.index)),
        Route("/run", _safe(pages.report)),
        Route("/review", _safe(pages.review)),
        Route("/static/{name}", _safe(pages.static)),
        Route("/api/runs", _data(pages.runs_data)),
        Route("/api/compare", _data(pages.compare_data)),
        Route("/api/overview", _safe(pages.overview_data)),
        Route("/api/tasks", _data(pages.tasks_data)),
        Route("/api/task", _data(pages.task_data)),
        Route("/api/changes", _data(pages.changes_data)),
        Route("/api/questions", _data(reviewing.questions)),
        Route("/api/claim", _taken(reviewing.claim), methods=["POST"]),
        Route("/api/answer", _taken(reviewing.answer), methods=["POST"]),
    ]
    return Starlette(routes=routes)


class _Snapshot(NamedTuple):
    """A value made of a run's records: of which version, and how long it stands though there is a newer one."""

    version: str
    value: Any
    stands: float


class _Snapshots:
    """The snapshots of runs, made anew when there are newer records.

    Args:
        make: of a run and its version.
    """

    def __init__(self, make: Callable[[RunRecords, str], Any]) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._snapshots: dict[str, _Snapshot] = {}

    def of(self, name: str, run: RunRecords, version: str) -> _Snapshot:
        """The snapshot of a run, made once for all who ask, and not again and again while the run goes on."""
        with self._lock:
            snapshot = self._snapshots.get(name)
            if snapshot is None or (snapshot.version != version and time.monotonic() > snapshot.stands):
                began = time.monotonic()
                value = self._make(run, version)
                ended = time.monotonic()
                snapshot = _Snapshot(version, value, ended + REST * (ended - began))
                self._snapshots = {**dict(list(self._snapshots.items())[-KEPT:]), name: snapshot}
            return snapshot


def _overview(run: RunRecords, version: str) -> bytes:
    """The overview as JSON; that of a run that came to its end stands in its report, and no record is read."""
    return kept_overview(run, version) or msgspec.json.encode(overview(run))


class _Pages:
    def __init__(self, runs: Runs) -> None:
        self._runs = runs
        self._overviews = _Snapshots(_overview)
        self._lists = _Snapshots(lambda run, _: list(all_rows(run)))
        static = files("draftverify.view") / "static"
        self._files = {name: (static / name).read_bytes() for name in (*_STATIC, *_PAGES)}

    # Pages

    def index(self, request: Request) -> Response:
        if self._runs.single:
            return RedirectResponse(f"run?run={quote(self._runs.names()[0])}", 303)
        return HTMLResponse(self._files["index.html"])

    def report(self, request: Request) -> Response:
        nonce = request.state.nonce
        listed = "no" if self._runs.single else "yes"
        around = f'<script type="module" nonce="{nonce}" src="static/around.js"></script>'
        page, _, end = app_html(nonce).rpartition("</body>")
        page = page.replace("<body>", f'<body data-list="{listed}">', 1)
        policy = {"content-security-policy": app_policy(nonce)}
        return HTMLResponse(f"{page}{around}</body>{end}", headers=policy)

    def review(self, request: Request) -> Response:
        if self._runs.single and "run" not in request.query_params:
            return RedirectResponse(f"review?run={quote(self._runs.names()[0])}", 303)
        return HTMLResponse(self._files["review.html"])

    def static(self, request: Request) -> Response:
        name = request.path_params["name"]
        if name not in _STATIC:
            return _json({"error": "there is no such file"}, 404)
        return Response(self._files[name], media_type=_STATIC[name])

    # Data

    def runs_data(self, request: Request) -> Any:
        return {"runs": self._runs.rows()}

    def compare_data(self, request: Request) -> Any:
        sides = [self._runs.open(request.query_params.get(side, "")) for side in ("base", "other")]
        return redacted(comparison_words(compare([(side, None) for side in sides])))

    def overview_data(self, request: Request) -> Response:
        name = _run(request)
        records = self._runs.open(name)
        body = self._overviews.of(name, records, changes(records)["version"]).value
        return Response(body, media_type="application/json")

    def tasks_data(self, request: Request) -> Any:
        query = request.query_params
        try:
            offset, limit = int(query.get("offset", 0)), int(query.get("limit", 100))
        except ValueError as error:
            raise ConfigError("offset and limit are whole numbers") from error
        name = _run(request)
        records = self._runs.open(name)
        listed = self._lists.of(name, records, changes(records)["version"])
        tasks = task_list(
            records,
            rows=listed.value,
            pipeline=query.get("pipeline") or None,
            outcome=query.get("outcome") or None,
            search=query.get("search", ""),
            sort=query.get("sort", "place"),
            offset=max(0, offset),
            limit=min(max(1, limit), 1000),
        )
        return {**tasks, "version": listed.version}

    def task_data(self, request: Request) -> Any:
        return task_detail(self._runs.open(_run(request)), request.query_params.get("task", ""))

    def changes_data(self, request: Request) -> Any:
        return changes(self._runs.open(_run(request)))


def _run(request: Request) -> str:
    return str(request.query_params.get("run", ""))


def _safe(function: Callable[[Request], Response]) -> Callable[[Request], Response]:
    """An endpoint, run in a thread, whose errors are told on the page."""

    def endpoint(request: Request) -> Response:
        try:
            return function(request)
        except Exception as error:
            return _failed(request, error)

    return endpoint


def _data(function: Callable[[Request], Any]) -> Callable[[Request], Response]:
    """An endpoint of a function that gives plain data."""
    return _safe(lambda request: _json(function(request)))


def _taken(function: Callable[[dict[str, Any]], Any]) -> Callable[[Request], Awaitable[Response]]:
    """An endpoint of a function of a JSON object that was sent."""

    def take(sent: bytes) -> Any:
        try:
            value = msgspec.json.decode(sent)
        except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
            raise ConfigError(f"what was sent is no JSON: {error}") from error
        if not isinstance(value, dict):
            raise ConfigError("what was sent is no JSON object")
        return function(value)

    async def endpoint(request: Request) -> Response:
        try:
            return _json(await run_in_threadpool(take, await request.body()))
        except Exception as error:
            return _failed(request, error)

    return endpoint


def _json(value: Any, status: int = 200) -> Response:
    return Response(msgspec.json.encode(value), status, media_type="application/json")


def _failed(request: Request, error: Exception) -> Response:
    """The answer to a request that raised: an error on the page, and not the end of the server."""
    if isinstance(error, DraftVerifyError):
        status = 409
        if isinstance(error, UnknownRun):
            status = 404
        elif isinstance(error, (ConfigError, ContractError)):
            status = 400
        return _json({"error": str(error), "stale": isinstance(error, Stale)}, status)
    _log.error("%s %s failed", request.method, request.url.path, exc_info=error)
    return _json({"error": redact(f"unexpected error: {type(error).__name__}: {error}")}, 500)
