"""`draftverify init --adapter`: what it writes is built, installed into a fresh environment, tested and used."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

from draftverify.bench.cli.exits import ExitCode
from draftverify.bench.cli.main import main
from draftverify.bench.records import load_run

ROOT = Path(__file__).parents[2]
FORMS = [
    pytest.param(
        shape, scored, marks=[pytest.mark.exhaustive] if (shape, scored) != ("alternatives", False) else []
    )
    for shape in ("alternatives", "chain", "tree")
    for scored in (False, True)
]


def written(directory: Path, shape: str, scored: bool, name: str = "try-out") -> Path:
    """The package of a form."""
    arguments = ["init", str(directory), "--adapter", name, "--template", shape]
    assert main([*arguments, *(["--scored"] if scored else [])]) == ExitCode.OK
    return directory / f"draftverify-{name}"


def done(*command: str | Path, at: Path, path: str = "") -> str:
    """What a command says; it must succeed."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    ran = subprocess.run(
        list(map(str, command)),
        cwd=at,
        env=environment | ({"PYTHONPATH": path} if path else {}),
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


def fresh(directory: Path) -> Path:
    """The Python of a new environment that finds this checkout, and what the tests' own environment has."""
    venv.create(directory, symlinks=True)
    python = directory / "bin" / "python"
    own = sysconfig.get_path("purelib", vars={"base": str(directory), "platbase": str(directory)})
    site = [ROOT, *dict.fromkeys(sysconfig.get_path(name) for name in ("purelib", "platlib"))]
    Path(own, "tests.pth").write_text("\n".join(map(str, site)))
    return python


@pytest.mark.parametrize(("shape", "scored"), FORMS)
def test_the_package_is_built_installed_tested_and_used(shape: str, scored: bool, tmp_path: Path) -> None:
    """A wheel, an environment of its own, the package's own tests, its experiment from YAML and its conformance."""
    package = written(tmp_path, shape, scored)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    done(*pip, "wheel", "--no-build-isolation", "--no-deps", "-w", tmp_path / "wheels", "./", at=package)
    [wheel] = (tmp_path / "wheels").iterdir()
    python = fresh(tmp_path / "venv")
    done(*pip, "--python", python, "install", "--no-deps", "--no-index", wheel, at=tmp_path)
    told = done(python, "-m", "pytest", "-q", "-p", "no:cacheprovider", at=package)
    assert "failed" not in told
    assert " passed" in told
    done(
        python,
        "-m",
        "draftverify",
        "run",
        package / "examples" / "experiment.yaml",
        "--out",
        "run",
        at=tmp_path,
    )
    [baseline, blocks] = load_run(tmp_path / "run").summary["pipelines"]
    for pipeline in (baseline, blocks):
        assert pipeline["statuses"] == {"accepted": 5}
    part = "examples" if shape == "alternatives" else "shortest"
    inputs = package / "examples" / "inputs.yaml"
    told = done(
        python, "-m", "draftverify", "audit", "part", f"try_out.{part}", "--inputs", inputs, at=tmp_path
    )
    assert "a_crash_is_no_verdict" in told


@pytest.mark.parametrize("scored", [False, True])
@pytest.mark.parametrize("shape", ["alternatives", "chain", "tree"])
def test_the_code_of_every_form_is_clean(shape: str, scored: bool, tmp_path: Path) -> None:
    """ruff finds nothing, no placeholder is left, and the parts take their place in the package."""
    package = written(tmp_path, shape, scored, name="a-somewhat-longer-name")
    ruff = [sys.executable, "-m", "ruff"]
    done(*ruff, "check", "--no-cache", "--select", "E,F,I,B,UP,SIM", "--ignore", "B905", ".", at=package)
    done(*ruff, "format", "--no-cache", "--check", ".", at=package)
    texts = [path.read_text() for path in package.rglob("*") if path.is_file()]
    assert not [text for text in texts if "@module@" in text or "@scored@" in text or "TODO" in text]
    code = (
        f"import draftverify_a_somewhat_longer_name as made; assert ('Detours' in made.__all__) is {scored}"
    )
    code += "; from draftverify import VerifierTraits; from draftverify.traits import traits_of"
    code += f"; assert ('scores' in traits_of(made.Shortest(), VerifierTraits).provides) is {scored}"
    if shape != "alternatives":
        done(sys.executable, "-c", code, at=package, path=f"{package / 'src'}:{ROOT}")


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("Mine", "small letters, digits and - can"),
        ("9th", "small letters, digits and - can"),
        ("../up", "small letters, digits and - can"),
        ("class", "is a word of Python's"),
        ("llm", "'llm' is taken, by draftverify"),
        ("retrieval", "is taken"),
    ],
)
def test_a_name_that_cannot_be_one_is_refused(
    name: str, says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is written."""
    assert main(["init", str(tmp_path), "--adapter", name]) == ExitCode.USAGE
    assert says in " ".join(capsys.readouterr().err.split())
    assert not [*tmp_path.iterdir()]


def test_nothing_is_overwritten(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A directory that is there stays as it is, an empty one too."""
    package = written(tmp_path, "chain", False)
    (package / "README.md").write_text("mine")
    assert main(["init", str(tmp_path), "--adapter", "try-out"]) == ExitCode.CONFIG
    assert "is there already; nothing was written" in capsys.readouterr().err
    assert (package / "README.md").read_text() == "mine"
