"""Finding and loading parts, with real packages on disk, most of them broken."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from draftverify import ConfigError, PluginError, ResourceError, plugins
from draftverify.plugins import PartsFile
from draftverify.rules import First
from tests.broken_plugin_packages import put_on_path


def examined(name: str) -> plugins.Examined:
    [found] = [each for each in plugins.examine() if each.plugin.name == name]
    return found


def test_built_in_parts_register_like_anybodys() -> None:
    """The core's own parts come from entry points of the distribution draftverify."""
    found = plugins.find("rule", "first")
    assert (found.distribution, found.target) == ("draftverify", "draftverify.rules:First")
    assert plugins.load("rule", "first") is First


def test_every_built_in_part_can_be_used() -> None:
    """No entry point of this distribution is broken, and each stands in its role once."""
    own = [each for each in plugins.examine() if each.plugin.distribution == "draftverify"]
    assert [(each.plugin.name, each.message) for each in own if each.status != "ok"] == []
    assert {each.plugin.role for each in own} == set(plugins.ROLES) - {"function"}
    assert max(Counter((each.plugin.role, each.plugin.name) for each in own).values()) == 1


@pytest.mark.parametrize("what", ["installed", "examine"])
def test_looking_at_parts_imports_nothing_heavy(what: str) -> None:
    """Neither listing names nor importing every built-in part imports torch or another heavy package."""
    code = f"""
import sys
from draftverify import plugins
plugins.{what}()
heavy = {{"torch", "transformers", "xllamacpp", "unified_planning", "gguf"}} & set(sys.modules)
print(sorted(heavy))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_command_starts_without_what_few_runs_need() -> None:
    """NumPy's rarer modules and PostgreSQL's drivers are a sixth of what a start takes, workers' starts too."""
    code = """
import sys
import draftverify.bench
print(sorted({"numpy.f2py", "numpy.testing", "sqlalchemy.dialects.postgresql"} & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("module", "needless"),
    [
        ("draftverify.bench.executors.worker", {"sqlalchemy", "scipy", "rich", "click"}),
        ("draftverify.cluster.ray", {"sqlalchemy", "scipy", "pydantic", "ruamel.yaml", "distributed"}),
    ],
)
def test_a_worker_starts_without_what_the_driver_alone_needs(module: str, needless: set[str]) -> None:
    """It writes no records; and an actor, which hands units to such a worker, reads no config either."""
    code = f"import sys, {module}; print(sorted({needless!r} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_package_is_read_once_however_many_parts_it_has(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its name and its version; ours has more than a hundred parts, and every command looks them up."""
    # Another class's once something has imported importlib_metadata, whose finder takes the standard one's place.
    kind: Any = type(metadata.distribution("draftverify"))
    read = kind.read_text
    asked: list[str] = []

    def counted(distribution: Any, name: str) -> Any:
        asked.append(f"{name} of {distribution._path}")
        return read(distribution, name)

    monkeypatch.setattr(kind, "read_text", counted)
    plugins._scan.cache_clear()
    found = plugins.installed()
    assert len(found) > 100
    assert max(asked.count(each) for each in asked) <= 3


def test_listing_imports_no_plugin(monkeypatch: pytest.MonkeyPatch) -> None:
    """Names are found without importing what stands behind them."""
    put_on_path(monkeypatch, "healthy")
    sys.modules.pop("dv_healthy", None)
    assert "healthy.rolls" in [plugin.name for plugin in plugins.installed()]
    assert "dv_healthy" not in sys.modules


def test_a_third_partys_package_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A package on the path adds its parts, with its own name and version."""
    put_on_path(monkeypatch, "healthy")
    found = plugins.find("model", "healthy.dice")
    assert found.package == "dv-healthy 1.0"
    assert plugins.load("model", "healthy.dice")(sides=8).sides == 8


@pytest.mark.parametrize(
    ("package", "name", "says"),
    [
        ("raises_at_import", "raises", "RuntimeError: no licence file was found"),
        ("exits_at_import", "exits", "SystemExit: this plugin is not for your machine"),
        ("renamed_class", "renamed", "has no attribute 'OldName'"),
    ],
)
def test_a_broken_plugin_is_listed_with_its_traceback(
    package: str, name: str, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A failed import spoils neither the list nor other parts; using the name says what failed and whose it is."""
    put_on_path(monkeypatch, package)
    each = examined(name)
    assert each.status == "broken"
    assert says in each.message
    assert says in each.traceback
    assert "Traceback" in each.traceback
    assert plugins.load("rule", "first") is First
    with pytest.raises(PluginError, match=f"generator '{name}' of dv-") as error:
        plugins.load("generator", name)
    assert f"draftverify plugins {name}" in str(error.value)


@pytest.mark.parametrize(
    ("role", "name", "says"),
    [
        ("generator", "wrong.role", "has no propose(), so it is no generator; it could be a verifier"),
        ("rule", "wrong.number", "is a int, not a class or a function"),
        ("rule", "wrong.target", "'not a target' is not of the form module:Class"),
    ],
)
def test_what_cannot_build_a_part_is_broken(
    role: plugins.Role, name: str, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An entry point that imports but is no part of its role says which part it is instead."""
    put_on_path(monkeypatch, "wrong_role")
    assert examined(name).status == "broken"
    with pytest.raises(PluginError) as error:
        plugins.load(role, name)
    assert says in str(error.value)


def test_two_plugins_of_one_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both are listed as duplicates; using the name is an error that names both packages."""
    put_on_path(monkeypatch, "twin_one", "twin_two")
    twins = [each for each in plugins.examine() if each.plugin.name == "twin"]
    assert [each.status for each in twins] == ["duplicate", "duplicate"]
    with pytest.raises(PluginError, match=r"registered twice, by dv-twin-one 1\.0 .* and dv-twin-two 1\.0"):
        plugins.load("rule", "twin")


def test_a_group_that_is_none_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """A misspelt group in a package's pyproject.toml is no silence: the list and whoever uses the name say so."""
    put_on_path(monkeypatch, "stray_group")
    says = (
        "dv-stray-group 1.0 registers 'stray.dice' in the group 'draftverify.generator', which there is not"
    )
    assert examined("stray.dice").status == "broken"
    assert examined("stray.dice").message.startswith(says)
    with pytest.raises(PluginError, match=r"did you mean draftverify\.generators") as error:
        plugins.load("generator", "stray.dice")
    assert says in str(error.value)


def test_one_package_found_twice_on_the_path_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same directory twice on the path makes no duplicates."""
    put_on_path(monkeypatch, "healthy", "healthy")
    assert plugins.find("model", "healthy.dice")


def test_a_missing_package_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """An import that fails for want of an extra's package says what to install."""
    put_on_path(monkeypatch, "missing_extra")
    assert examined("fast.guess").status == "missing"
    with pytest.raises(ResourceError) as error:
        plugins.load("generator", "fast.guess")
    assert "needs no_such_accelerator" in str(error.value)
    assert "pip install 'dv-missing-extra[fast]'" in str(error.value)


def test_the_builtin_extras_are_named() -> None:
    """A missing torch or planner leads to draftverify's own extras."""
    assert "install draftverify with the extra 'tokens'" in plugins.missing_package(
        ModuleNotFoundError(name="torch"), prefer="tokens.target"
    )
    assert "install draftverify with the extra 'plan'" in plugins.missing_package(
        ModuleNotFoundError(name="unified_planning.shortcuts")
    )
    assert plugins.missing_package(ModuleNotFoundError(name="nobody_knows")) == ""
    assert plugins.missing_package(RuntimeError("torch")) == ""


def test_unreadable_entry_points_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A package whose entry points cannot be parsed is listed as broken and hides nobody else's."""
    put_on_path(monkeypatch, "unreadable_entry_points")
    [found] = [each for each in plugins.examine() if each.plugin.distribution == "dv-unreadable"]
    assert found.status == "broken"
    assert "the entry points of dv-unreadable 1.0 cannot be read" in found.message
    assert plugins.load("rule", "first") is First


def test_unknown_names_suggest(monkeypatch: pytest.MonkeyPatch) -> None:
    """A near miss is suggested; a name of another role says so; a far one lists what there is."""
    with pytest.raises(PluginError, match=r"there is no rule 'frist'; did you mean first"):
        plugins.load("rule", "frist")
    with pytest.raises(PluginError, match="'first' is a rule, not a verifier"):
        plugins.load("verifier", "first")
    with pytest.raises(
        PluginError, match=r"there is no block size 'xyzzy'; there are fitted, fixed, measured"
    ):
        plugins.load("block", "xyzzy")


def test_a_parts_file_gives_its_own_classes(tmp_path: Path) -> None:
    """Public classes and functions that the file defines are named stem.Name; what it imports is not."""
    path = tmp_path / "mine.py"
    path.write_text("from pathlib import Path\nclass Guess: ...\ndef make(): ...\nclass _Own: ...\nX = 3\n")
    assert sorted(PartsFile.read(path).load()) == ["mine.Guess", "mine.make"]


def test_a_parts_file_is_imported_once(tmp_path: Path) -> None:
    """The same bytes give the same classes, so that equal specs build equal parts."""
    path = tmp_path / "mine.py"
    path.write_text("class Guess: ...\n")
    assert PartsFile.read(path).load() == PartsFile.read(path).load()


def test_a_changed_parts_file_is_refused(tmp_path: Path) -> None:
    """A worker that finds other bytes than the config's reader did does not run them."""
    path = tmp_path / "mine.py"
    path.write_text("class Guess: ...  # one\n")
    file = PartsFile.read(path)
    path.write_text("class Guess: ...  # two\n")
    with pytest.raises(ConfigError, match="has changed since the config was read"):
        file.load()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("import sys\nraise ValueError('no')\n", "failed at line 2: ValueError: no"),
        ("def f(:\n", "failed at line 1: SyntaxError"),
        ("import sys\n\nsys.exit(3)\n", "failed at line 3: SystemExit: 3"),
    ],
)
def test_a_broken_parts_file_says_its_line(text: str, says: str, tmp_path: Path) -> None:
    """What goes wrong while the file runs is told with the line of the file."""
    path = tmp_path / "mine.py"
    path.write_text(text)
    with pytest.raises(ConfigError, match=says):
        PartsFile.read(path).load()


def test_a_parts_file_that_was_interrupted_is_run_anew(tmp_path: Path) -> None:
    """No half of it is taken for the whole."""
    path = tmp_path / "mine.py"
    path.write_text(
        "import pathlib\nmark = pathlib.Path(__file__ + '.ran')\n"
        "if not mark.exists():\n    mark.touch()\n    raise KeyboardInterrupt\nclass Guess: ...\n"
    )
    with pytest.raises(KeyboardInterrupt):
        PartsFile.read(path).load()
    assert list(PartsFile.read(path).load()) == ["mine.Guess"]


@pytest.mark.parametrize("name", ["my-parts.py", "parts.txt", "nothing_there.py"])
def test_a_file_that_cannot_be_parts_is_refused(name: str, tmp_path: Path) -> None:
    """A name that cannot stand before a dot, another suffix, or no file at all."""
    if name != "nothing_there.py":
        (tmp_path / name).write_text("")
    with pytest.raises(ConfigError, match=r"cannot name parts|cannot be read"):
        PartsFile.read(tmp_path / name)


def test_a_parts_file_that_was_changed_at_once_is_run_as_it_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Within a second, and of the same length: no compiled module of the old text is taken for it."""
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    path = tmp_path / "quick.py"
    said = []
    for word in ("one", "two"):
        path.write_text(f"def say():\n    return {word!r}\n")
        os.utime(path, (1_700_000_000, 1_700_000_000))
        said.append(PartsFile.read(path).load()["quick.say"]())
    assert said == ["one", "two"]
