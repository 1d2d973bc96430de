"""The examples of outside packages: their own tests, run as their authors would; public names alone."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
import tomllib
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest

import draftverify

EXAMPLES = Path(__file__).parents[1] / "examples"
NEEDED = {
    "distilled": (),
    "physics": (),
    "plugin": ("duckdb", "sqlglot", "tpchgen-cli"),
    "proofs": ("z3-solver",),
}
"""The packages, and what each needs that draftverify does not."""


def _missing(package: str) -> bool:
    try:
        return not version(package)
    except PackageNotFoundError:
        return True


def _entry_points(package: Path, folder: Path) -> list[str]:
    """Where a package that is not installed is found, its entry points too: paths, and metadata in a folder."""
    project = tomllib.loads((package / "pyproject.toml").read_text())["project"]
    if not _missing(project["name"]):
        return []
    info = folder / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    info.mkdir()
    info.joinpath("METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    )
    groups = (
        f"[{group}]\n" + "".join(f"{name} = {target}\n" for name, target in entries.items())
        for group, entries in project["entry-points"].items()
    )
    info.joinpath("entry_points.txt").write_text("\n".join(groups))
    return [str(package / "src"), str(folder)]


@pytest.mark.parametrize("name", NEEDED)
def test_a_package_s_own_tests_pass(name: str, tmp_path: Path) -> None:
    """The conformance kit, the behaviour of its parts, and its experiments by entry points."""
    missing = [package for package in NEEDED[name] if _missing(package)]
    if missing:
        pytest.skip(f"no {' or '.join(missing)}")
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
    own = _entry_points(EXAMPLES / name, tmp_path)
    paths = [str(root), *adapters, *own, *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    environment.pop("PYTEST_ADDOPTS", None)
    done = subprocess.run(
        command,
        cwd=EXAMPLES / name,
        env=environment,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]
    assert "skipped" not in done.stdout


@pytest.mark.parametrize("name", NEEDED)
def test_a_package_imports_public_names_alone(name: str) -> None:
    """draftverify's and its rooms', nothing that begins with an underscore."""
    files = sorted((EXAMPLES / name).glob("src/**/*.py"))
    assert len(files) > 2
    for file in files:
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "draftverify":
                assert (node.module or "").count(".") <= 2, f"{file}: {node.module}"
                room = __import__(node.module or "", fromlist=["__all__"])
                private = [alias.name for alias in node.names if alias.name not in room.__all__]
                assert private == [], f"{file}: {private}"
