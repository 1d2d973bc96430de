"""Ids and groups that one database would take and another not: the same answer under both, before anything is run."""

from __future__ import annotations

from pathlib import Path

import pytest

from draftverify.bench.config.experiment import load_experiment
from draftverify.bench.records import load_run
from draftverify.bench.runner.run import run
from draftverify.errors import ConfigError

PARTS = """
from draftverify import GeneratorTraits, PASS, Proposal, Task, Verification

class One:
    def __init__(self, id: str, group: str) -> None:
        self.id, self.group = eval(id), eval(group)

    def load(self):
        return [Task(id=self.id, group=self.group, input={"text": "a\\0b"})]

class Echo:
    traits = (GeneratorTraits(shape="alternatives"),)

    def propose(self, context, n):
        return Proposal.alternatives((context.task.input["text"],))

    def verify(self, context, proposal):
        return Verification(checks=(PASS,))

    def describe(self, values):
        return values
"""

CONFIG = """
parts: [odd.py]
tasks: {{use: odd.One, id: {id!r}, group: {group!r}}}
pipelines: {{{name}: {{generator: {{use: odd.Echo}}, verifier: {{use: odd.Echo}}, rule: {{use: first}}}}}}
"""


def perform(folder: Path, url: str, id: str = "'i'", group: str = "'g'", name: str = "one") -> None:
    """Run one task of this id and group, given as Python writes them, in a pipeline of this name."""
    (folder / "odd.py").write_text(PARTS)
    (folder / "odd.yaml").write_text(CONFIG.format(id=id, group=group, name=name))
    store = url if url.startswith("postgresql") else None
    run(load_experiment(folder / "odd.yaml"), out=folder / "run", store=store)
    with load_run(folder / "run", url=store) as found:
        [record] = found
    assert (record.task, record.group) == (eval(id), eval(group))
    assert record.outcome.value == ["a\0b"] or record.outcome.value == "a\0b"


@pytest.mark.parametrize(
    ("what", "odd"),
    [
        ("id", "'x' * 513"),
        ("id", "'a\\0b'"),
        ("id", "chr(0xd800)"),
        ("group", "'x' * 257"),
        ("group", "'a\\0b'"),
        ("group", "chr(0xd800)"),
    ],
)
def test_what_not_every_database_takes_none_is_given(tmp_path: Path, url: str, what: str, odd: str) -> None:
    """Too long, a NUL byte, half a surrogate pair: a mistake of the config, and no directory is left."""
    with pytest.raises(ConfigError, match=f"the {what} .* cannot be recorded"):
        perform(tmp_path, url, **{what: odd})
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("loads", "says"),
    [
        ('[Task(id="a"), Task(id=1)]', r"load\(\) of Odd: the id of \[1\] is 1 \(int\); a text is needed"),
        ('[Task(id="a", group=None)]', r"the group of \[0\] is None \(NoneType\); a text is needed"),
        ('[{"id": "a"}]', r"must return a list of Tasks; \[0\] is \{'id': 'a'\} \(dict\)"),
        ("None", r"must return a list of Tasks, not None"),
        ('"task"', r"must return a list of Tasks, not 'task'"),
        ('(Task(id=each) for each in ("a", "a"))', "two tasks have the id 'a'"),
        (
            '[Task(id="a", expected="42")]',
            r"the expected of task 'a' is '42' \(str\); a mapping is needed, as expected=\{'answer'",
        ),
        ('[Task(id="a", input=["x"])]', r"the input of task 'a' is \['x'\] \(list\); a mapping is needed"),
    ],
)
def test_what_is_no_list_of_tasks_with_texts_is_refused(tmp_path: Path, loads: str, says: str) -> None:
    """By the name of the source and the place in what it gave, before anything runs."""
    source = f"\nclass Odd:\n    def load(self):\n        return {loads}\n"
    (tmp_path / "odd.py").write_text(PARTS + source)
    config = CONFIG.format(id="", group="", name="one").replace(
        "{use: odd.One, id: '', group: ''}", "{use: odd.Odd}"
    )
    (tmp_path / "odd.yaml").write_text(config)
    with pytest.raises(ConfigError, match=says) as caught:
        run(load_experiment(tmp_path / "odd.yaml"), out=tmp_path / "run")
    assert caught.value.path == "tasks"
    assert not (tmp_path / "run").exists()


def test_a_name_that_is_too_long_is_refused(tmp_path: Path, url: str) -> None:
    """Of a pipeline."""
    with pytest.raises(ConfigError, match="at most 100"):
        perform(tmp_path, url, name="x" * 101)


def test_the_longest_that_are_taken_are_taken_by_both(tmp_path: Path, url: str) -> None:
    """Of characters of four bytes each, in no order that a database could compress; NUL inside values is no matter."""
    odd = "''.join(chr(0x10000 + i * 7919 %% 65000) for i in range(%d))"
    perform(tmp_path, url, odd % 512, odd % 256, "".join(chr(0x20000 + i * 397) for i in range(100)))
