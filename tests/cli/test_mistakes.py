"""Mistakes that newcomers make on the command line and in small configs: each message says what to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from draftverify.bench.cli.init import FOLDER
from draftverify.bench.cli.main import main


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with the files of `draftverify init`, in which the commands are typed."""
    for file in (FOLDER / "alternatives").iterdir():
        if file.is_file():
            (tmp_path / file.name).write_bytes(file.read_bytes())
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("command", "code", "said"),
    [
        ("run experiment.yml", 3, "did you mean experiment.yaml?"),
        ("run .", 3, "this is a directory; name a config in it: experiment.yaml"),
        ("run tasks.jsonl", 3, "a config is a YAML file, and tasks.jsonl is another"),
        ("run parts.py", 3, "a config is a YAML file, and parts.py is another"),
        ("run experiment.yaml --set pipelines.blocks.blok=3", 3, "unknown key 'blok'; did you mean block?"),
        ("run experiment.yaml --limit 0", 3, "should be greater than 0"),
        ("show runs/none", 5, "there is no such directory"),
        ("show experiment.yaml", 5, "not a run directory but a file"),
        ("init", 3, "experiment.yaml, parts.py, tasks.jsonl stand there already"),
        ("init tree", 2, "tree is a template; write: draftverify init --template tree"),
        ("init --template tre x", 2, "'tre' is not one of"),
        ("plugins frist", 2, "did you mean first?"),
        ("plugins xyzzy", 2, "`draftverify plugins` lists them all"),
        ("plugins first --role generator", 2, "'first' is a rule, not a generator"),
        ("audit experiment.yaml", 2, "draftverify audit lossless CONFIG"),
        ("help", 2, "Did you mean --help?"),
        ("init --schema none.yaml", 3, "there is no such file"),
        ("init --schema --adapter x", 2, "--schema writes the schema alone"),
        ("init --scored x", 2, "--scored goes with --adapter"),
        ("init --adapter x --template judge", 2, "of the template chain, alternatives, tree, not judge"),
        ("fit experiment.yaml", 2, "Write draftverify fit block CONFIG or draftverify fit scores RUN"),
        ("calibrate experiment.yaml", 2, "Write draftverify fit block CONFIG."),
        ("report runs/x", 2, "Write draftverify view RUN --out FILE."),
        ("shema", 2, "Write draftverify init --schema CONFIG."),
        ("view --review --port 8000 runs", 2, "are three ways; choose one"),
        ("replay runs --tune --set block=1", 2, "leave out --set"),
        ("run experiment.yaml --max-cost nan", 2, "nan is no finite number"),
        ("serve experiment.yaml --timeout inf", 2, "inf is no finite number"),
    ],
)
def test_on_the_command_line(
    here: Path, capsys: pytest.CaptureFixture[str], command: str, code: int, said: str
) -> None:
    """What was meant, or what there is; nothing is written."""
    before = sorted(here.iterdir())
    assert main(command.split()) == code
    assert said in capsys.readouterr().err
    assert sorted(here.iterdir()) == before


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("parts: [./parts.py]", "", "for a class of parts.py write parts: [./parts.py]"),
        ("parts.SmallPrimes", "parts.SmallPrime", "did you mean parts.SmallPrimes?"),
        ("on: exhausted", "on: exhaust", "should be a list, not the text 'exhaust' or should be 'reject'"),
        ("use: serial", "use: parallel", "there are auto, batch,"),
        ("verifier: {use: parts.Divides}", "verifier: {use: parts.SmallPrimes}", "it could be a generator"),
        (
            "verifier: {use: parts.Divides}",
            "verifier: parts.Divides",
            "a part is written {use: parts.Divides, …}",
        ),
        ("baseline: one_by_one", "baseline: one_by", "did you mean one_by_one?"),
        ("  blocks:", "  one_by_one:", "the key 'one_by_one' stands twice"),
        ("n: number", "n: nubmer", "there is no field 'nubmer'; there are id, number, kind"),
        ("tasks.jsonl", "task.jsonl", "the tasks file cannot be read"),
        ("block: 8", "block: many", "should be a number of items"),
        ("rounds: 200", "round: 200", "did you mean rounds?"),
        ("rounds: 200", "rounds: 0", "should be greater than 0"),
        (
            "on: reject, do: regenerate",
            "on: error, do: reverify",
            "is taken for ever where the check goes on failing",
        ),
        (
            "verifier: {use: parts.Divides}",
            "verifier: {use: exact, field: product}",
            "task a has no field 'product' to compare with; there are n",
        ),
    ],
)
def test_in_a_config(here: Path, capsys: pytest.CaptureFixture[str], old: str, new: str, said: str) -> None:
    """On one screen, with the line; names that a part cannot have are not offered, nor lists of forty."""
    config = here / "experiment.yaml"
    assert old in config.read_text()
    config.write_text(config.read_text().replace(old, new))
    assert main(["run", "experiment.yaml"]) == 3
    err = capsys.readouterr().err
    assert said in err
    assert "parts.EveryOddNumber," not in err
    assert max(map(len, err.splitlines())) < 300
    assert not (here / "runs").exists()


def test_runs_that_are_near_are_named(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Where a folder of runs was given in a run's place, or a name was misspelt."""
    assert main(["run", "experiment.yaml"]) == 0
    capsys.readouterr()
    assert main(["show", "runs", "--tasks"]) == 5
    assert "(there is no run.json in it); there is runs/divisors" in capsys.readouterr().err
    assert main(["show", "runs/divisor"]) == 5
    assert "there is no such directory; there is runs/divisors" in capsys.readouterr().err
