"""A headless Chromium for the tests of pages: one for each of their files, each test in a context of its own.

A page is watched while a test has it: what it logs as an error, what its scripts raise, and what it asks the network
for. A test that uses `watched` fails when there is any of that which it did not expect.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

QUIET = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)
HURRIED = """(wait => {
    window.setTimeout = (then, after, ...rest) => wait(then, after < 1000 ? after : after / 10, ...rest)
})(window.setTimeout)"""
"""For pages that ask their server again every few seconds."""


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    """Debian's Chromium, or Chrome; the tests are skipped where there is none.

    Not for the whole session: while Playwright's synchronous interface is open, an event loop counts as running in this
    thread, and tests that begin one of their own would fail.
    """
    program = shutil.which("chromium") or shutil.which("google-chrome") or shutil.which("chromium-browser")
    if program is None:
        pytest.skip("no chromium")
    playwright = pytest.importorskip("playwright.sync_api")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=program, args=list(QUIET))
        yield browser
        browser.close()


@dataclass
class Watched:
    """A page, and what it did that nobody asked for.

    Args:
        page: Playwright's.
        errors: logged by the page, or raised by its scripts.
        requests: addresses that it asked for, but its own.
    """

    page: Any
    errors: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)


@contextmanager
def watched(chromium: Any, *, offline: bool = True, **context: Any) -> Iterator[Watched]:
    """A new page in a context of its own.

    Args:
        chromium: the browser.
        offline: refuse whatever is not a file.
        context: Playwright's options: viewport, color_scheme, …
    """
    own = chromium.new_context(**{"viewport": {"width": 1280, "height": 900}, **context})
    try:
        page = own.new_page()
        page.set_default_timeout(10_000)
        page.add_init_script(HURRIED)
        found = Watched(page)
        page.on("console", lambda said: found.errors.append(said.text) if said.type == "error" else None)
        page.on("pageerror", lambda error: found.errors.append(str(error)))
        page.on("dialog", lambda dialog: (found.errors.append(f"dialog: {dialog.message}"), dialog.dismiss()))
        if offline:

            def refuse(route: Any) -> None:
                if route.request.url.startswith(("file:", "data:")):
                    route.continue_()
                else:
                    found.requests.append(route.request.url)
                    route.abort()

            page.route("**/*", refuse)
        yield found
    finally:
        own.close()
