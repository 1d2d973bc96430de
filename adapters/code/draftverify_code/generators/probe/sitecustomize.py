"""Notes which lines of one file each test of a run executes. In the sandbox, Python imports it at its start.

It runs beside the program under test, so what it reports is not trusted: it only says where to try mutations first.
"""

import atexit
import json
import os
import sys
import threading

_here = os.path.dirname(os.path.abspath(__file__))
_target = os.path.realpath(os.path.join(os.path.dirname(_here), os.environ.get("DRAFTVERIFY_TARGET", "")))
_report = os.path.join(_here, "lines.jsonl")
_is_target = {}
_outside = set()
_lines = _outside
_test = ""


def _on_call(frame, event, argument):
    name = frame.f_code.co_filename
    if name not in _is_target:
        _is_target[name] = os.path.realpath(name) == _target
    if not _is_target[name]:
        return None
    _lines.add(frame.f_lineno)
    return _on_line


def _on_line(frame, event, argument):
    if event == "line":
        _lines.add(frame.f_lineno)
    return _on_line


def begin(test):
    """A test begins."""
    global _lines, _test
    _lines, _test = set(), test


def end(passed):
    """The test that began last has ended."""
    global _lines, _test
    if _test:
        _write(_test, passed, _lines)
    _lines, _test = _outside, ""


def failed(test):
    """Something failed that is no test, such as the import of the file."""
    _write(test, False, _outside)


def _write(test, passed, lines):
    with open(_report, "a") as file:
        file.write(json.dumps({"test": test, "passed": passed, "lines": sorted(lines)}) + "\n")


def _late():
    # A test that does not end is told before the run is ended for it.
    _write(_test or "the run", False, set(_lines))


def _finish():
    sys.settrace(None)
    if _test:
        _write(_test, False, _lines)
    if _outside:
        _write("", None, _outside)


def _watch_unittest():
    import unittest

    run = unittest.TestCase.run

    def watched(self, result=None):
        counted = ("failures", "errors", "unexpectedSuccesses")
        if result is None or not all(hasattr(result, name) for name in counted):
            return run(self, result)
        before = sum(len(getattr(result, name)) for name in counted)
        begin(self.id())
        try:
            return run(self, result)
        finally:
            end(sum(len(getattr(result, name)) for name in counted) == before)

    unittest.TestCase.run = watched


if os.environ.get("DRAFTVERIFY_TARGET"):
    atexit.register(_finish)
    _watch_unittest()
    _timer = threading.Timer(float(os.environ["DRAFTVERIFY_SECONDS"]), _late)
    _timer.daemon = True
    _timer.start()
    threading.settrace(_on_call)
    sys.settrace(_on_call)
