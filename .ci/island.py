"""The island by itself: its modules and its tests, where nothing but numpy, msgspec and array-api-compat is installed.

Run by a Python that has those three, pytest and hypothesis. What is no wing of `draftverify/` is copied into an empty
directory, with the conformance kit's contexts and scripted parts, which tests use; and of the tests of engine, rules
and rejection those modules that name no wing and no adapter. Fewer passing tests than `AT_LEAST` are an error, so that
the island's tests do not leave it unseen.
"""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
WINGS = ("checks", "stats", "bench", "kit", "lab", "view", "serve", "cluster")
ROOMS = ("engine", "rules", "rejection")
OURS = ("draftverify", "tests")
INSTALLED = ("numpy", "msgspec", "array_api_compat", "pytest", "hypothesis")
NOT_OF_THE_KIT = ("audit", "cli", "inputs.py")
AT_LEAST = 1000


def imports(path: Path) -> set[str]:
    """The modules that a file imports, wherever in it, with the names that it takes from them."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            above = path.relative_to(ROOT).parts[: -node.level] if node.level else ()
            module = ".".join((*above, *([node.module] if node.module else [])))
            found |= {module} | {f"{module}.{alias.name}" for alias in node.names}
    return found


def stands_alone(path: Path, seen: frozenset[Path] = frozenset()) -> bool:
    """Whether a test module needs the island, the kit and what is installed here alone."""
    if path in seen:
        return True
    if ".parents[" in path.read_text(encoding="utf-8"):  # it reads the project's files
        return False
    for name in imports(path):
        package = name.partition(".")[0]
        if package == "tests":
            module = ROOT.joinpath(*name.split(".")).with_suffix(".py")
            if module.is_file() and not (module.parent.name in ROOMS and stands_alone(module, seen | {path})):
                return False
        elif package == "draftverify":
            wing = name.split(".")[1] if "." in name else ""
            if wing in WINGS and (wing != "kit" or name.split(".")[2:3] in (["audit"], ["cli"], ["inputs"])):
                return False
        elif package not in INSTALLED and package not in sys.stdlib_module_names:
            return False
    return True


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        island = Path(folder)
        left_out = {*WINGS, "__pycache__"} - {"kit"}
        shutil.copytree(
            ROOT / "draftverify",
            island / "draftverify",
            ignore=lambda where, names: [
                name
                for name in names
                if name == "__pycache__"
                or (Path(where) == ROOT / "draftverify" and name in left_out)
                or (Path(where) == ROOT / "draftverify" / "kit" and name in NOT_OF_THE_KIT)
            ],
        )
        (island / "tests").mkdir()
        (island / "tests" / "__init__.py").touch()
        for room in ROOMS:
            for path in sorted((ROOT / "tests" / room).glob("*.py")):
                if stands_alone(path):
                    target = island / "tests" / room / path.name
                    target.parent.mkdir(exist_ok=True)
                    shutil.copy(path, target)
        (island / "conftest.py").write_text(
            "from hypothesis import settings\n"
            'settings.register_profile("island", deadline=None)\nsettings.load_profile("island")\n'
        )
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "not exhaustive"]
        options = ["-W", "ignore::pytest.PytestUnknownMarkWarning", "tests"]
        unset = ("PYTHONPATH", "PYTEST_ADDOPTS")
        environment = {name: value for name, value in os.environ.items() if name not in unset}
        done = subprocess.run(
            [*command, *sys.argv[1:], *options], cwd=island, env=environment, capture_output=True, text=True
        )
    print(done.stdout[-4000:], done.stderr[-2000:], sep="")
    passed = re.search(r"(\d+) passed", done.stdout)
    if done.returncode == 0 and (passed is None or int(passed[1]) < AT_LEAST):
        print(f"fewer than {AT_LEAST} tests stand on the island alone")
        return 1
    return done.returncode


if __name__ == "__main__":
    raise SystemExit(main())
