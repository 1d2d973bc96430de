"""A config that is wrong: every error says file and line, the dotted path, what is wrong and what to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from draftverify import ConfigError, PluginError, ResourceError
from draftverify.bench.config.experiment import ConfigErrors, load_experiment
from draftverify.bench.runner.run import run
from draftverify.errors import DraftVerifyError
from tests.broken_plugin_packages import put_on_path
from tests.experiments.config_files import CONFIG, write_experiment
from tests.experiments.runs import write


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRAFTVERIFY_TEST_KEY", "sk-very-secret")


def refused(path: Path, *overrides: str) -> ConfigError:
    """The one error of a config; fails when there are several."""
    with pytest.raises(ConfigError) as caught:
        load_experiment(path, overrides=overrides)
    assert not isinstance(caught.value, ConfigErrors), str(caught.value)
    return caught.value


# old text, new text, line, dotted path, what the message says
WRONG = {
    "unknown key at the top": ("seed: 7", "seeds: 7", 2, "seeds", "unknown key 'seeds'; did you mean seed?"),
    "unknown key of a pipeline": (
        "    settings: {t",
        "    setting: {t",
        27,
        "pipelines.blocks.setting",
        "settings?",
    ),
    "unknown key of the budget": (
        "rounds: 50",
        "round: 50",
        33,
        "pipelines.blocks.budget.round",
        "did you mean rounds",
    ),
    "unknown key of a clause": (
        "times: 2}",
        "time: 2}",
        29,
        "pipelines.blocks.on_rejection.0.time",
        "mean times",
    ),
    "unknown argument": (
        "      how: down",
        "      hoe: down",
        19,
        "pipelines.blocks.generator.hoe",
        "did you mean how?",
    ),
    "unknown nested argument": (
        "n: 9}",
        "m: 9, n: 9}",
        26,
        "pipelines.blocks.done.rules.1.m",
        "unknown key 'm'",
    ),
    "an executor of no workers": (
        "executor: {use: thread, workers: 2}",
        "executor: {use: process, workers: 0}",
        35,
        "executor.workers",
        "should be greater than or equal to 1, not 0",
    ),
    "a key twice": ("seed: 7", "seed: 7\nseed: 8", 3, "seed", "stands twice, first at"),
    "a text for a number": ("seed: 7", 'seed: "7"', 2, "seed", "should be a valid integer, not the text '7'"),
    "a float for an integer": ("least: 3", "least: 3.0", 23, "pipelines.blocks.verifier.least", "not 3.0"),
    "a truth for a number": (
        "temperature: 2\n",
        "temperature: yes\n",
        18,
        "pipelines.blocks.generator.temperature",
        "",
    ),
    "a list for a mapping": (
        "settings: {temperature: 0.5, top_k: 4}",
        "settings: [1]",
        8,
        "settings",
        "not a list",
    ),
    "a wrong item": ("[1, 2]", "[1, two]", 20, "pipelines.blocks.generator.only.1", "not the text 'two'"),
    "a wrong word": (
        "how: down",
        "how: sideways",
        19,
        "pipelines.blocks.generator.how",
        "should be 'up' or 'down'",
    ),
    "a wrong trouble": (
        "on: error",
        "on: eror",
        29,
        "pipelines.blocks.on_rejection.0.on",
        "'reject', 'error'",
    ),
    "a missing argument": (
        ", least: 1",
        "",
        12,
        "pipelines.plain.verifier.least",
        "is missing; mine.Check needs it",
    ),
    "a missing part": ("    rule: {use: first}\n", "", 10, "pipelines.plain.rule", "is missing"),
    "an empty part": (
        "rule: {use: first}\n",
        "rule:\n",
        13,
        "pipelines.plain.rule",
        "a part is written {use: NAME",
    ),
    "a part by its name": ("{use: first}\n", "first\n", 13, "pipelines.plain.rule", "{use: first, …}"),
    "an unknown part": (
        "{use: first}\n",
        "{use: frist}\n",
        13,
        "pipelines.plain.rule.use",
        "did you mean first?",
    ),
    "a part of another role": (
        "{use: first}\n",
        "{use: jsonl}\n",
        13,
        "pipelines.plain.rule.use",
        "'jsonl' is a source",
    ),
    "a local part of another role": (
        "verifier: {use: mine.Check, least: 1}",
        "verifier: {use: mine.Guess}",
        12,
        "pipelines.plain.verifier.use",
        "has no verify(), so it is no verifier; it could be a generator",
    ),
    "an unknown local part": (
        "{use: first}\n",
        "{use: mine.Rule}\n",
        13,
        "pipelines.plain.rule.use",
        "mine.py defines no",
    ),
    "an unknown model": (
        "model: large",
        "model: larg",
        17,
        "pipelines.blocks.generator.model",
        "did you mean large?",
    ),
    "a model of the wrong class": (
        "small: {use: mine.Model}",
        "small: {use: mine.Mute}",
        7,
        "models.large.like",
        "the model small is a Mute; a Model is needed here",
    ),
    "an inline part of the wrong class": (
        "model: {use: mine.Model, weights: own}",
        "model: {use: mine.Mute}",
        21,
        "pipelines.blocks.generator.others.0.model.use",
        "mine.Mute is a Mute; a Speaks is needed here",
    ),
    "models in a circle": ("like: small", "like: large", 7, "models.large", "in a circle: large → large"),
    "a secret written out": ('"${DRAFTVERIFY_TEST_KEY}"', "sk-1", 7, "models.large.key", "write ${NAME}"),
    "a secret not set": (
        "TEST_KEY}",
        "OTHER_KEY}",
        7,
        "models.large.key",
        "export DRAFTVERIFY_OTHER_KEY=… first",
    ),
    "a secret in the wrong place": (
        "how: up",
        'how: "${HOME}"',
        31,
        "pipelines.blocks.on_rejection.2.generator.how",
        "",
    ),
    "an unknown baseline": ("baseline: plain", "baseline: plan", 34, "baseline", "did you mean plain?"),
    "a negative block": (
        "block: {use: measured, at_most: 8}",
        "block: -1",
        25,
        "pipelines.blocks.block",
        "0 or more",
    ),
    "a block that is a text": (
        "block: {use: measured, at_most: 8}",
        "block: big",
        25,
        "pipelines.blocks.block",
        "number",
    ),
    "a fallback without generator": (
        "generator: {use: mine.Guess, how: up}, ",
        "",
        31,
        "pipelines.blocks.on_rejection.2.generator",
        "fallback needs another generator",
    ),
    "a generator for another step": (
        "do: feedback}",
        "do: feedback, generator: {use: mine.Guess}}",
        30,
        "pipelines.blocks.on_rejection.1.generator",
        "the step 'feedback' takes no 'generator'",
    ),
    "an option of another step": (
        "{do: escalate}",
        "{do: escalate, rounds: 3}",
        32,
        "pipelines.blocks.on_rejection.3.rounds",
        "the step 'escalate' takes no 'rounds'",
    ),
    "a step that cannot answer this": (
        "on: error, do: reverify",
        "on: reject, do: reverify",
        29,
        "pipelines.blocks.on_rejection.0",
        "reverify answers error",
    ),
    "a missing parts file": (
        "[./mine.py]",
        "[./mine.py, ./yours.py]",
        3,
        "parts.1",
        "cannot be read: No such file",
    ),
    "a name with a dot": ("  blocks:\n", "  bl.ocks:\n", 14, "pipelines.bl.ocks", "letters, digits, _ and -"),
    "no pipelines": (
        CONFIG[CONFIG.index("pipelines:") : CONFIG.index("baseline:")],
        "pipelines: {}\n",
        9,
        "",
        "",
    ),
    "a YAML mistake": ("seed: 7", "seed: [7", 3, "", "not YAML: "),
    "a tag": (
        "seed: 7",
        "seed: !!python/name:os.system ''",
        2,
        "",
        "is not allowed: a config holds data only",
    ),
    "an alias to itself": ("seed: 7", "seed: &s [*s]", 2, "", "refers to what it stands in"),
    "a path with a zero": ("path: tasks.jsonl", 'path: "a\\0b"', 4, "", "#x0000 is not allowed"),
    "no number": ("seed: 7", "seed: .nan", 2, "", ".nan is not a finite number"),
}


@pytest.mark.parametrize("what", WRONG)
def test_one_mistake(what: str, tmp_path: Path) -> None:
    """Each mistake is told alone, at its line and path, with what to do."""
    old, new, line, path, says = WRONG[what]
    assert old in CONFIG
    config = CONFIG.replace(old, new, 1)
    if what == "no pipelines":
        config = config.replace("baseline: plain\n", "")
    file = write_experiment(tmp_path, config)
    error = refused(file)
    assert error.where == f"{file}:{line}", str(error)
    assert error.path == path or not path
    assert says in error.message
    assert len(error.message) < 500


def test_all_mistakes_at_once(tmp_path: Path) -> None:
    """Mistakes of every kind are collected and told in the order of the file."""
    config = (
        CONFIG.replace("seed: 7", "seed: x")
        .replace("{use: first}\n", "{use: frist}\n")
        .replace("least: 3", "lest: 3")
    )
    with pytest.raises(ConfigErrors) as caught:
        load_experiment(write_experiment(tmp_path, config))
    errors = caught.value.errors
    assert [getattr(error, "path", "") for error in errors] == [
        "seed",
        "pipelines.plain.rule.use",
        "pipelines.blocks.verifier.lest",
        "pipelines.blocks.verifier.least",
    ]
    assert caught.value.where == errors[0].where  # type: ignore[attr-defined]
    assert str(caught.value).count("\n") == 3


def test_all_mistakes_of_a_list_at_once(tmp_path: Path) -> None:
    """One element that is wrong does not hide the next."""
    done = "    done: {use: any_of, rules: [{use: limit, items: x}, {use: rounds, m: 3}, {use: round}]}\n"
    config = CONFIG.replace("{use: first}\n", "{use: first}\n" + done, 1)
    with pytest.raises(ConfigErrors) as caught:
        load_experiment(write_experiment(tmp_path, config))
    assert [getattr(error, "path", "") for error in caught.value.errors] == [
        "pipelines.plain.done.rules.0.items",
        "pipelines.plain.done.rules.1.m",
        "pipelines.plain.done.rules.1.n",
        "pipelines.plain.done.rules.2.use",
    ]


def test_a_missing_file(tmp_path: Path) -> None:
    """No such config: the nearest name in that directory, or how to get one."""
    write_experiment(tmp_path)
    with pytest.raises(ConfigError, match=r"did you mean experiment\.yaml"):
        load_experiment(tmp_path / "experimnt.yaml")
    (tmp_path / "empty").mkdir()
    with pytest.raises(ConfigError, match="`draftverify init` writes one"):
        load_experiment(tmp_path / "empty" / "a.yaml")
    with pytest.raises(ConfigError, match="there is no directory"):
        load_experiment(tmp_path / "nowhere" / "a.yaml")
    with pytest.raises(ConfigError, match=r"is a directory; name a config in it: .*experiment\.yaml"):
        load_experiment(tmp_path)


@pytest.mark.parametrize(
    ("override", "path", "says"),
    [
        ("sed=8", "sed", "did you mean seed"),
        ("pipelines.blocks.block.at_mots=8", "pipelines.blocks.block.at_mots", "did you mean at_most"),
        ("pipelines.plain.block.at_most=8", "pipelines.plain.block", "a part is written {use: NAME"),
        ("pipelines.blocks.on_rejection.7.times=8", "", "is no place in a list of 4"),
        ("seed.a=8", "", "cannot be set inside 7"),
        ("pipelines.blocks.generator.model.weights=a", "", "a name from models; write models.large.weights"),
        ("seed=[", "", "not YAML"),
        ("seed", "", "write --set a.b=value"),
        ("settings={temperature: 1, temperature: 2}", "settings", "the key 'temperature' stands twice"),
    ],
)
def test_mistakes_on_the_command_line(override: str, path: str, says: str, tmp_path: Path) -> None:
    """What --set makes wrong is told as --set's, not as the file's."""
    error = refused(write_experiment(tmp_path), override)
    assert error.where == f"--set {override}"
    assert error.path == path or not path
    assert says in error.message


def test_a_limit_for_tasks_that_take_none(tmp_path: Path) -> None:
    """--limit is the file's own key and holds for any source; a source that has none of its own says so."""
    file = write_experiment(
        tmp_path, CONFIG.replace("limit: 3}", "limit: 3}").replace("{use: jsonl", "{use: mine.Two")
    )
    text = (tmp_path / "mine.py").read_text()
    (tmp_path / "mine.py").write_text(
        text + "\nclass Two:\n    def __init__(self, path: str, fields: dict, id: str, group: str): ...\n"
        "    def load(self): return []\n"
    )
    file.write_text(file.read_text().replace(", limit: 3}", "}"))
    with pytest.raises(ConfigError) as caught:
        load_experiment(file, overrides=["tasks.limit=5"])
    assert caught.value.where == "--set tasks.limit=5"
    assert caught.value.path == "tasks.limit"
    assert load_experiment(file, limit=5).limit == 5


@pytest.mark.parametrize(
    ("package", "name", "kind", "says"),
    [
        ("raises_at_import", "raises", PluginError, "RuntimeError: no licence file was found"),
        ("missing_extra", "fast.guess", ResourceError, "pip install 'dv-missing-extra[fast]'"),
        ("unresolvable_annotation", "unresolvable", PluginError, "name 'Engine' is not defined"),
    ],
)
def test_a_broken_plugin_is_an_error_where_it_is_named(
    package: str,
    name: str,
    kind: type[DraftVerifyError],
    says: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A config that does not name it loads; one that does is told which line names it."""
    put_on_path(monkeypatch, package)
    file = write_experiment(tmp_path)
    load_experiment(file)
    file.write_text(CONFIG.replace("generator: {use: mine.Guess}\n", f"generator: {{use: {name}}}\n", 1))
    with pytest.raises(kind) as caught:
        load_experiment(file)
    assert str(caught.value).startswith(f"{file}:11: pipelines.plain.generator.use: ")
    assert says in str(caught.value)


def test_two_plugins_of_one_name_in_a_config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The config that names them is told both packages."""
    put_on_path(monkeypatch, "twin_one", "twin_two")
    file = write_experiment(tmp_path, CONFIG.replace("rule: {use: first}\n", "rule: {use: twin}\n", 1))
    with pytest.raises(
        PluginError, match=r":13: pipelines\.plain\.rule\.use: .*dv-twin-one 1\.0.*dv-twin-two 1\.0"
    ):
        load_experiment(file)


def test_a_plugins_parts_are_checked_like_the_built_in_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A third party's model, generator and factory function are used and checked by their signatures."""
    put_on_path(monkeypatch, "healthy")
    config = CONFIG.replace(
        "generator: {use: mine.Guess}\n", "generator: {use: healthy.rolls, dice: {use: healthy.dice}}\n"
    )
    config = config.replace("rule: {use: first}\n", "rule: {use: healthy.first_of, n: 2}\n")
    load_experiment(write_experiment(tmp_path, config))
    error = refused(write_experiment(tmp_path, config.replace("n: 2", "n: two")))
    assert error.path == "pipelines.plain.rule.n"
    error = refused(write_experiment(tmp_path, config.replace("healthy.dice}", "mine.Mute}")))
    assert "a Dice is needed here" in error.message


@pytest.mark.parametrize("value", ["everything", "[summary]"])
def test_what_records_keep_of_tokens_is_a_known_word(tmp_path: Path, value: str) -> None:
    """With its place; no distribution can be kept whole."""
    error = refused(write_experiment(tmp_path), f"records.tokens={value}")
    assert error.path == "records.tokens"


def test_tokens_without_distributions_cannot_be_summarised(tmp_path: Path) -> None:
    """Of pipelines that judge by verdicts alone, it is said before anything runs."""
    experiment = load_experiment(write(tmp_path), overrides=["records.tokens=summary"])
    with pytest.raises(ConfigError, match=r"records\.tokens: no pipeline has a rule that reads"):
        run(experiment, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()
