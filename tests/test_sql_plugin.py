"""The example of an outside package, examples/plugin: its own tests, run as its author would; public names alone."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest

import draftverify

PLUGIN = Path(__file__).parents[1] / "examples" / "plugin"


def _missing(package: str) -> bool:
    try:
        return not version(package)
    except PackageNotFoundError:
        return True


@pytest.mark.skipif(
    any(map(_missing, ("duckdb", "sqlglot", "tpchgen-cli"))), reason="no duckdb, sqlglot or tpchgen-cli"
)
def test_the_plugin_s_own_tests_pass() -> None:
    """Refutation, hostile SQL, rewrites, the conformance kit, and its example config by entry points."""
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-c",
        "pyproject.toml",
        "tests",
    ]
    root = Path(draftverify.__file__).parents[1]
    adapters = [path for path in sys.path if "adapters" in path]
    paths = [str(root), *adapters, *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "PYTEST_ADDOPTS": ""}
    done = subprocess.run(
        command, cwd=PLUGIN, env=environment, capture_output=True, text=True, timeout=280, check=False
    )
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]
    assert "skipped" not in done.stdout


def test_the_plugin_imports_public_names_alone() -> None:
    """draftverify and its rooms, nothing deeper, and nothing that begins with an underscore."""
    files = sorted(PLUGIN.glob("src/**/*.py"))
    assert len(files) > 10
    for file in files:
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "draftverify":
                assert (node.module or "").count(".") <= 1, f"{file}: {node.module}"
                room = __import__(node.module or "", fromlist=["__all__"])
                private = [each.name for each in node.names if each.name not in room.__all__]
                assert private == [], f"{file}: {private}"
