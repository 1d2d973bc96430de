"""Settings for all tests, and two rules of the whole suite.

A skipped test that allowed_skips.txt does not list fails the run. A test marked `exhaustive` is left out, unless the
command line names that mark (`-m exhaustive`) or the test itself (`file.py::test`). Where it names the mark, a property
is tried with 200 examples and not with 25.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from draftverify import secret
from tests.browser import chromium as chromium  # a fixture of every test below

# Machines are shared and imports are lazy: a slow example is no failure.
settings.register_profile("draftverify", deadline=None, max_examples=25)
settings.register_profile("exhaustive", deadline=None, max_examples=200)
settings.load_profile("draftverify")

# A shell's background job, as a CI's may be, ignores Ctrl-C; what the tests are about is a process that does not.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# A machine may be set to keep no compiled modules. There each of the many processes that the tests start would compile
# the whole library again, and every run the tests.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# Each of several workers computes on a core of its own; threads of all of them on all cores would wait for each other.
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OMP_NUM_THREADS", "1")

# What the tests run with no isolation is their own; root is asked twice for that.
os.environ.setdefault("DRAFTVERIFY_NO_ISOLATION_AS_ROOT", "1")

ALLOWED = Path(__file__).parent / "allowed_skips.txt"
_skipped = pytest.StashKey[list[str]]()


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_skipped] = []
    if "exhaustive" in config.option.markexpr:
        settings.load_profile("exhaustive")
    config.pluginmanager.register(_Skips(config), "skips")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol() -> Generator[None, object, object]:
    """What a test calls a secret is none in the next one: hypothesis draws its texts from our code's own words."""
    known = secret._known
    try:
        return (yield)
    finally:
        secret._known = known


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Here and not as `-m "not exhaustive"` in addopts, which a `-m` of the user's would take away."""
    if "exhaustive" in config.option.markexpr or any("::" in each for each in config.args):
        return
    sweeps = [item for item in items if item.get_closest_marker("exhaustive")]
    if sweeps:
        config.hook.pytest_deselected(items=sweeps)
        items[:] = [item for item in items if not item.get_closest_marker("exhaustive")]


class _Skips:
    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        lines = ALLOWED.read_text().splitlines()
        self.allowed = tuple(line.split(": ")[0] for line in lines if line and not line.startswith("#"))

    def _note(self, report: Any) -> None:
        if not report.skipped or hasattr(report, "wasxfail"):
            return
        # A check of the conformance kit that has nothing to look at in a part is no test that this machine lacks.
        aside = report.longrepr[-1].startswith("Skipped: not run: ")
        if not aside and not report.nodeid.startswith(self.allowed or ("\0",)):
            self.config.stash[_skipped].append(f"{report.nodeid}: {report.longrepr[-1]}")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._note(report)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        self._note(report)

    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        if self.config.stash[_skipped] and exitstatus == 0:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        for line in self.config.stash[_skipped]:
            terminalreporter.write_line(f"skipped, and not in tests/allowed_skips.txt: {line}", red=True)
