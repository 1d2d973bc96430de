"""Tells the probe when a test of pytest begins and how it ends."""

import sitecustomize

_bad = set()


def pytest_runtest_logstart(nodeid, location):
    sitecustomize.begin(nodeid)


def pytest_runtest_logreport(report):
    if report.failed:
        _bad.add(report.nodeid)
    if report.when == "teardown":
        sitecustomize.end(report.nodeid not in _bad)


def pytest_collectreport(report):
    if report.failed:
        sitecustomize.failed(report.nodeid or "collection")
