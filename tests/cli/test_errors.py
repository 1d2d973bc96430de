"""What the command does with mistakes: one screen, no traceback, and an exit code that says whose turn it is."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import click
import pytest

from draftverify import errors
from draftverify.bench.cli import main as command
from draftverify.bench.cli.commands import commands
from draftverify.bench.cli.exits import ExitCode, exit_for
from draftverify.bench.cli.main import main
from draftverify.bench.config.experiment import ConfigErrors
from tests.broken_plugin_packages import put_on_path
from tests.experiments.config_files import CONFIG, write_experiment


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRAFTVERIFY_TEST_KEY", "sk-very-secret")


def raising(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    """Make `draftverify cache` raise this."""

    @click.command()
    def fails() -> None:
        raise error

    monkeypatch.setattr("draftverify.bench.cli.cache.cache", fails)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.ConfigError("x"), 3),
        (errors.PipelineError("x"), 3),
        (errors.PluginError("x"), 4),
        (errors.ContractError("x"), 4),
        (errors.ResourceError("x"), 5),
        (errors.CorruptDownloadError("x"), 5),
        (errors.EndpointTimeout("x"), 5),
        (errors.StoreError("x"), 5),
        (errors.DraftVerifyError("x"), 1),
        (ConfigErrors([errors.PluginError("x"), errors.PluginError("y")]), 4),
        (ConfigErrors([errors.PluginError("x"), errors.ConfigError("y")]), 3),
        (ZeroDivisionError("x"), 1),
        (KeyboardInterrupt(), 130),
        (click.Abort(), 130),
        (click.UsageError("x"), 2),
    ],
)
def test_exit_codes(
    error: BaseException, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each error has the code that --help documents, and leaves no traceback on the screen."""
    raising(monkeypatch, error)
    assert main(["cache"]) == code
    out = capsys.readouterr()
    assert "Traceback" not in out.err
    assert out.err
    assert out.out == ""


def test_every_code_is_documented(capsys: pytest.CaptureFixture[str]) -> None:
    """--help lists every exit code and every command."""
    assert main(["--help"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert all(f"{code.value} {code.meaning}" in text for code in ExitCode)
    assert all(name in text for name in commands())


@pytest.mark.parametrize("name", commands())
def test_every_command_has_help(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Each listed command can be imported and describes itself."""
    assert main([name, "--help"]) == 0
    assert "Usage: draftverify" in capsys.readouterr().out


def test_help_imports_no_command() -> None:
    """--help is quick: neither the config reader nor a database nor a screen library is imported for it."""
    code = "import sys; from draftverify.bench.cli.main import main; main(['--help']); "
    code += "print(*sys.modules, file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    imported = set(done.stderr.split())
    assert not imported & {"torch", "transformers", "sqlalchemy", "ruamel.yaml", "pydantic", "rich.console"}


def test_an_unknown_command_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    """A near miss is suggested."""
    assert main(["rnu"]) == ExitCode.USAGE
    assert "Did you mean run?" in capsys.readouterr().err
    assert main(["xyzzy"]) == ExitCode.USAGE
    assert "There are init, run" in capsys.readouterr().err


def test_several_errors_on_one_screen(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each error has its own place; beyond eight they are counted."""
    config = CONFIG.replace("seed: 7", "seed: x").replace("{use: first}\n", "{use: frist}\n")
    assert main(["run", str(write_experiment(tmp_path, config))]) == ExitCode.CONFIG
    text = capsys.readouterr().err
    assert text.startswith("2 errors\n")
    assert f"{tmp_path}/experiment.yaml:2  seed\n  should be a valid integer, not the text 'x'" in text
    assert (
        "experiment.yaml:13  pipelines.plain.rule.use\n  there is no rule 'frist'; did you mean first?"
        in text
    )

    config = CONFIG.replace("name: whole", "\n".join(f"wrong{n}: 1" for n in range(30)))
    assert main(["run", str(write_experiment(tmp_path, config))]) == ExitCode.CONFIG
    text = capsys.readouterr().err
    assert "… and 22 more" in text
    assert text.count("\n") < 24


def test_markup_in_a_message_is_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What a hostile file says is printed as it is, neither styled nor swallowed."""
    assert (
        main(["run", str(write_experiment(tmp_path, CONFIG.replace("seed: 7", '"[red]x[/blink]": 7')))]) == 3
    )
    assert "unknown key '[red]x[/blink]'" in capsys.readouterr().err


def test_a_hostile_name_cannot_write_to_the_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Control characters are escaped, and a megabyte of a name is cut."""
    for name in ("\\e[2Jx", "y" * 100_000):
        assert main(["run", str(write_experiment(tmp_path, CONFIG.replace("seed: 7", f'"{name}": 7')))]) == 3
        text = capsys.readouterr().err
        assert "\x1b" not in text
        assert len(text) < 3000


@pytest.mark.parametrize("arguments", [["--traceback", "cache"], ["cache", "--traceback"]])
def test_traceback_on_request(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """An unexpected error says how to see more; --traceback, anywhere, shows it."""
    raising(monkeypatch, ZeroDivisionError("over"))
    assert main(["cache"]) == ExitCode.UNEXPECTED
    assert "unexpected error: ZeroDivisionError: over" in (text := capsys.readouterr().err)
    assert "--traceback" in text
    assert main(arguments) == ExitCode.UNEXPECTED
    assert "Traceback (most recent call last)" in capsys.readouterr().err


def test_a_commands_own_exit_code_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """A command that ends with `exit(6)` ends the process with 6."""

    @click.command()
    @click.pass_context
    def some_failed(context: click.Context) -> None:
        context.exit(ExitCode.FAILED_TASKS)

    monkeypatch.setattr("draftverify.bench.cli.cache.cache", some_failed)
    assert main(["cache"]) == 6


def test_the_installed_command_exits_so(tmp_path: Path) -> None:
    """The process itself ends with the code, and says what is wrong on stderr alone."""
    code = "import sys; from draftverify.bench.cli.main import main; sys.exit(main())"
    done = subprocess.run(
        [sys.executable, "-c", code, "run", "nowhere.yaml"], capture_output=True, text=True, cwd=tmp_path
    )
    assert done.returncode == 3
    assert "nowhere.yaml" in done.stderr
    assert "there is no such file" in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize(("command", "first"), [("['plugins']", "g"), ("['plugins', 'llm.sample']", "g")])
def test_a_reader_that_goes_away_is_no_error(command: str, first: str) -> None:
    """`draftverify plugins | head -1` ends quietly."""
    code = f"import sys; from draftverify.bench.cli.main import main; sys.exit(main({command}))"
    shell = f'"{sys.executable}" -c "{code}" | head -c 1'
    done = subprocess.run(["bash", "-c", shell], capture_output=True, text=True)
    assert done.stdout == first
    assert done.stderr == ""


def test_a_reader_that_went_away_before_the_table_is_no_error(tmp_path: Path) -> None:
    """rich ends the program where it finds the pipe closed; that is no defect of anybody's."""
    code = (
        "import sys; from rich.console import Console; from draftverify.bench.cli import main; "
        "main.draftverify.main = lambda **how: Console().print('x\\n' * 50_000); sys.exit(main.main([]))"
    )
    shell = f'"{sys.executable}" -c "{code}" | true'
    done = subprocess.run(["bash", "-c", shell], capture_output=True, text=True, cwd=tmp_path)
    assert done.stderr == ""


def test_broken_plugins_and_misfits_through_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`run` tells a plugin's fault (4), a missing package (5) and parts that do not fit (3) apart."""
    put_on_path(monkeypatch, "raises_at_import", "missing_extra")
    wrong = [("raises", 4, "no licence file"), ("fast.guess", 5, "pip install 'dv-missing-extra[fast]'")]
    for name, code, says in wrong:
        text = CONFIG.replace("generator: {use: mine.Guess}\n", f"generator: {{use: {name}}}\n", 1)
        assert main(["run", str(write_experiment(tmp_path, text))]) == code
        assert says in capsys.readouterr().err
    text = CONFIG.replace("rule: {use: first}\n", "rule: {use: speculative}\n")
    monkeypatch.chdir(tmp_path)
    assert main(["run", str(write_experiment(tmp_path, text))]) == 3
    assert "the rule Speculative needs target" in capsys.readouterr().err


def test_errors_shown_is_one_screen() -> None:
    """Eight errors of two lines and a heading fit into 24 lines."""
    assert 2 * command.ERRORS_SHOWN + 2 <= 24
    assert exit_for(errors.DraftVerifyError("x")) == ExitCode.UNEXPECTED
