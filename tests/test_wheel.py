"""What pip installs without a clone: the wheel has all that the documentation names."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
HEAVY = ("torch", "transformers", "pandas", "pyarrow", "ray", "distributed", "starlette", "httpx")
COMMANDS = f"""
import sys
sys.modules.update(dict.fromkeys({HEAVY!r}))
from draftverify.bench.cli.main import main
for command in (
    "init first", "run first/experiment.yaml",
    "init --example extract", "init --example plugin",
    "init --example code-repair", "run examples/code-repair.yaml --dry-run",
):
    if code := main(command.split()):
        sys.exit(f"{{command}} ended with {{code}}")
"""


def test_the_wheel_works_without_the_clone_and_without_extras(tmp_path: Path) -> None:
    """The first experiment runs where no heavy package can be imported, and examples are written and read."""
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    [wheel] = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "site")
    place = tmp_path / "empty"
    place.mkdir()
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "site")}
    done = subprocess.run(
        [sys.executable, "-c", COMMANDS], cwd=place, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert list(place.glob("runs/*/summary.json"))
    assert (place / "examples" / "plugin" / "pyproject.toml").is_file()
