"""`code.recorded`: layouts and field mapping, order and exhaustion, matching, and files that are wrong."""

from __future__ import annotations

import gzip
import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from draftverify import (
    Check,
    ConfigError,
    Context,
    Pipeline,
    Policy,
    Proposal,
    Round,
    Task,
    TaskRecord,
    Verification,
    fallback,
    retry,
)
from draftverify.kit import Subject, check_component, make_context
from draftverify.rules import First, Majority
from draftverify_code.generators.recorded import RecordedPrograms
from draftverify_llm import RecordedSample, read_recording


def write(folder: Path, *rows: Any, name: str = "samples.jsonl") -> Path:
    """A file with these lines."""
    path = folder / name
    path.write_text("".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows))
    return path


def draw(recorded: RecordedPrograms, sizes: Sequence[int], task: Task | None = None) -> list[Proposal]:
    """Successive rounds of these sizes, as a session would ask for them."""
    rounds: list[Round] = []
    made: list[Proposal] = []
    for size in sizes:
        made.append(recorded.propose(make_context(task or Task(id="t"), rounds=rounds), size))
        rounds.append(Round(index=len(rounds), items=tuple(made[-1].items)))
    return made


LAYOUTS: dict[str, tuple[list[Any], dict[str, str]]] = {
    "documented": (
        [
            {
                "task_id": "t",
                "samples": [
                    {"text": "a", "answer": 1, "correct": True, "score": 0.5},
                    {"text": "b", "answer": 2, "correct": False, "score": 1},
                ],
            }
        ],
        {},
    ),
    "a sample a line": (
        [
            {"task_id": "t", "text": "a", "answer": 1, "correct": 1, "score": 0.5},
            {"task_id": "u", "text": "z"},
            {"task_id": "t", "text": "b", "answer": 2, "correct": 0, "score": 1},
        ],
        {},
    ),
    "parallel lists": (
        [
            {
                "key": "t", "code": ["a", "b"], "pred": [1, 2], "right": [True, False], "rm": [[0.5], [1.0]],
                "answer": "of the task, not of a sample",
            }
        ],
        {"task_id": "key", "text": "code.*", "answer": "pred.*", "correct": "right.*", "score": "rm.*.0"},
    ),
    "nested": (
        [
            {
                "meta": {"id": "t"},
                "choices": [
                    {"message": {"content": "a"}, "eval": [1, True], "rm": 0.5},
                    {"message": {"content": "b"}, "eval": [2, False], "rm": 1.0},
                ],
            }
        ],
        {
            "task_id": "meta.id", "samples": "choices", "text": "message.content", "answer": "eval.0",
            "correct": "eval.1", "score": "rm",
        },
    ),
    "names with dots": (
        [
            {"task.id": "t", "o.t": "a", "x": 1, "y": True, "z": 0.5},
            {"task.id": "t", "o.t": "b", "x": 2, "y": False, "z": 1},
        ],
        {"task_id": "task.id", "text": "o.t", "answer": "x", "correct": "y", "score": "z"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("packed", ["lines", "gzip", "array"])
def test_every_layout_gives_the_same_samples(layout: str, packed: str, tmp_path: Path) -> None:
    """Lists of samples, one a line, parallel lists, nested objects; as lines, gzipped, or one array."""
    rows, fields = LAYOUTS[layout]
    path = write(tmp_path, *rows)
    if packed == "gzip":
        path = tmp_path / "samples.jsonl.gz"
        path.write_bytes(gzip.compress(b"".join(json.dumps(row).encode() + b"\n" for row in rows)))
    elif packed == "array":
        path = write(tmp_path, json.dumps(rows, indent=1))
    found = read_recording(path, fields)["t"]
    assert found.samples == (RecordedSample("a", 1, True, 0.5), RecordedSample("b", 2, False, 1.0))


def test_a_number_is_a_task_id_and_empty_lines_are_skipped(tmp_path: Path) -> None:
    """Ids are compared as text."""
    path = write(tmp_path, "", {"task_id": 7, "samples": ["a"]}, "   ")
    assert [*read_recording(path)] == ["7"]


@pytest.mark.parametrize("half", [rb"\ud800", "\ud800".encode(errors="surrogatepass")])
@pytest.mark.parametrize("match", ["task_id", "prompt"])
def test_half_a_surrogate_pair_is_an_error_of_its_task_alone(half: bytes, match: Any, tmp_path: Path) -> None:
    """As an escape or as bytes: the other tasks have their samples, and the error names the line."""
    path = write(tmp_path, {"task_id": "good", "prompt": "def f(): p", "text": "a"})
    with path.open("ab") as file:
        file.write(b'{"task_id": "bad", "prompt": "def g(): q", "text": "b' + half + b'"}\n')
        file.write(b'{"task_id": "bad", "prompt": "def g(): q", "text": "c"}\n')
    recorded = RecordedPrograms(path, match=match)
    good = Task(id="good", input={"prompt": "def f(): p"})
    assert recorded.propose(make_context(good), 2).items == ("a",)
    for prompt in ("def g(): q", "def g(): q and more"):  # the very prompt, and one like it
        bad = Task(id="bad", input={"prompt": prompt, "entry_point": "g"})
        with pytest.raises(ConfigError, match=r":2: half of a surrogate pair is in this line"):
            recorded.propose(make_context(bad), 2)


def test_blocks_come_in_order_and_the_last_says_so(tmp_path: Path) -> None:
    """2 + 2 + 1 of five; then nothing; a block that ends with the last sample is already exhausted."""
    recorded = RecordedPrograms(write(tmp_path, {"task_id": "t", "samples": list("abcde")}))
    made = draw(recorded, [2, 2, 2, 2])
    assert [tuple(each.items) for each in made] == [("a", "b"), ("c", "d"), ("e",), ()]
    assert [each.exhausted for each in made] == [False, False, True, True]
    assert [each.exhausted for each in draw(recorded, [3, 0, 2])] == [False, False, True]


def test_other_generators_rounds_do_not_move_the_place(tmp_path: Path) -> None:
    """A fallback's block, a person's answer and a failed draft in between leave the order as it is."""
    recorded = RecordedPrograms(write(tmp_path, {"task_id": "t", "samples": list("abcd")}))
    rounds = [
        Round(index=0, items=("a",)),
        Round(index=1, items=("x", "b"), source="fallback"),
        Round(index=2),
        Round(index=3, items=("b", "c")),
    ]
    made = recorded.propose(make_context(Task(id="t"), rounds=rounds), 2)
    assert tuple(made.items) == ("d",)
    assert made.exhausted


def test_equal_samples_are_each_drawn(tmp_path: Path) -> None:
    """The place counts samples, not texts."""
    recorded = RecordedPrograms(write(tmp_path, {"task_id": "t", "samples": ["a", "a", "a", "b"]}))
    assert [tuple(each.items) for each in draw(recorded, [1, 1, 1, 1])] == [("a",), ("a",), ("a",), ("b",)]


class Passes:
    """Passes the items that are in a set."""

    def __init__(self, *wanted: str) -> None:
        self.wanted = wanted

    def verify(self, context: Context, proposal: Proposal) -> Verification:
        return Verification(
            checks=tuple(Check("pass" if item in self.wanted else "reject") for item in proposal.items)
        )


class Says:
    """A fallback that says one thing."""

    def propose(self, context: Context, n: int) -> Proposal:
        return Proposal.alternatives(("other",))


def test_in_a_pipeline_with_a_fallback_between(tmp_path: Path) -> None:
    """Retries draw on; after a fallback's round the next sample follows the last one drawn."""
    recorded = RecordedPrograms(write(tmp_path, {"task_id": "t", "samples": list("abcde")}))

    def run(policy: Policy) -> TaskRecord:
        return Pipeline(recorded, Passes("d"), First(), policy=policy, block=2).record(Task(id="t"))

    record = run(fallback(Says(), times=1).then(retry(None, on=["reject"])))
    items = [tuple(each.items) for each in record.rounds]
    assert items == [("a", "b"), ("other",), ("c", "d")]
    assert record.outcome.value == "d"


def test_completions_are_joined_to_the_prompt_and_cut(tmp_path: Path) -> None:
    """To the task's own, or to the recorded one where the file has it: that is what they continue."""
    task = Task(id="t", input={"prompt": "def f():\n"})
    rows = {"task_id": "t", "samples": ["    return 1\n\nprint(2)", "    pass"]}
    recorded = RecordedPrograms(write(tmp_path, rows), form="completion", stop=["\nprint"])
    assert list(draw(recorded, [2], task)[0].items) == ["def f():\n    return 1\n", "def f():\n    pass"]
    recorded = RecordedPrograms(write(tmp_path, {**rows, "prompt": "def f(): # old\n"}), form="completion")
    assert draw(recorded, [2], task)[0].items[1] == "def f(): # old\n    pass"


def test_answers_have_their_program_taken_out(tmp_path: Path) -> None:
    """With the form "text", as `code.sample` does it."""
    path = write(
        tmp_path, {"task_id": "t", "samples": ["Here:\n```python\ndef f():\n    return 1\n```\nSo."]}
    )
    task = Task(id="t", input={"prompt": "Write f.", "entry_point": "f"})
    (made,) = draw(RecordedPrograms(path, form="text"), [1], task)
    assert list(made.items) == ["def f():\n    return 1"]


def test_what_else_was_recorded_is_evidence(tmp_path: Path) -> None:
    """One entry per item of the block; what no item has is left out."""
    path = write(
        tmp_path,
        {"task_id": "t", "samples": ["a", {"text": "b", "score": 2}, {"text": "c", "correct": False}]},
    )
    first, second = draw(RecordedPrograms(path), [2, 2])
    assert first.evidence == {"score": (None, 2.0)}
    assert second.evidence == {"correct": (False,)}


def test_samples_as_items_vote_by_their_answer(tmp_path: Path) -> None:
    """Items are objects with what was recorded; a majority elects the answer."""
    samples = [
        {"text": "p", "answer": 3},
        {"text": "q", "answer": 4},
        {"text": "r", "answer": 4, "score": 0.5},
    ]
    recorded = RecordedPrograms(write(tmp_path, {"task_id": "t", "samples": samples}), items="sample")
    assert draw(recorded, [1, 2])[1].items == (
        {"text": "q", "answer": 4},
        {"text": "r", "answer": 4, "score": 0.5},
    )

    class All:
        def verify(self, context: Context, proposal: Proposal) -> Verification:
            return Verification(checks=(Check("pass"),) * len(proposal))

    record = Pipeline(recorded, All(), Majority(), block=1).record(Task(id="t"))
    assert [len(each.items) for each in record.rounds] == [1, 1, 1, 0]
    assert record.outcome.value["answer"] == 4


ONE = 'def solve(n):\n    """Count the bits of n.\n    >>> solve(3)\n    2\n    """\n'
TWO = 'def solve(s):\n    """Reverse the text s.\n    >>> solve("ab")\n    \'ba\'\n    """\n'
HELPER = 'def even(n):\n    return n % 2 == 0\n\n\ndef odd(n):\n    """Whether n is odd."""\n'


def test_matching_by_prompt(tmp_path: Path) -> None:
    """Equal up to white space, or alike and defining the entry point last, whatever the order of the file."""
    path = write(
        tmp_path,
        {"prompt": TWO.replace("    >>> solve(\"ab\")\n    'ba'\n", ""), "samples": ["two"]},
        {"prompt": ONE.replace("    >>> solve(3)\n    2\n", ""), "samples": ["one"]},
        {"prompt": HELPER.replace("\n\n\n", "\n\n"), "samples": ["odd"]},
        {"prompt": 'def even(n):\n    """Whether n is even."""\n', "samples": ["even"]},
    )
    recorded = RecordedPrograms(path, match="prompt")
    for prompt, name, wanted in ((ONE, "solve", "one"), (TWO, "solve", "two"), (HELPER, "odd", "odd")):
        (made,) = draw(recorded, [1], Task(id=wanted, input={"prompt": prompt, "entry_point": name}))
        assert list(made.items) == [wanted]


def test_matching_by_prompt_says_when_it_cannot(tmp_path: Path) -> None:
    """No prompt like the task's own; two that fit equally well; a line without a prompt."""
    path = write(
        tmp_path,
        {"prompt": "def f(x):\n    # one", "samples": ["a"]},
        {"prompt": "def f(x):\n    # one one", "samples": ["a"]},
    )
    recorded = RecordedPrograms(path, match="prompt")
    with pytest.raises(ConfigError, match=r"'t'.*no recorded prompt is like its own"):
        draw(recorded, [1], Task(id="t", input={"prompt": "def g():", "entry_point": "g"}))
    with pytest.raises(ConfigError, match=r"samples\.jsonl:1, .*samples\.jsonl:2 fit equally well"):
        draw(recorded, [1], Task(id="t", input={"prompt": "def f(x):\n # one # two", "entry_point": "f"}))
    with pytest.raises(ConfigError, match="no prompt to match by"):
        RecordedPrograms(write(tmp_path, {"task_id": "t", "samples": ["a"]}), match="prompt").open()


def test_a_task_without_samples_is_named(tmp_path: Path) -> None:
    """With the nearest id that the file has."""
    recorded = RecordedPrograms(write(tmp_path, {"task_id": "HumanEval/1", "samples": ["a"]}))
    with pytest.raises(
        ConfigError, match=r"no samples of the task 'HumanEval/2'; did you mean 'HumanEval/1'"
    ):
        draw(recorded, [1], Task(id="HumanEval/2"))


GOOD = {"task_id": "t", "samples": ["a"]}


@pytest.mark.parametrize(
    ("rows", "fields", "message"),
    [
        ([GOOD, "{"], {}, r":2: not JSON"),
        ([GOOD, '"text"'], {}, r":2: a JSON object is needed, not str"),
        ([GOOD, GOOD], {}, r":2: the task 't' stands twice, first at .*:1"),
        ([GOOD, {"task_id": "t", "text": "b"}], {}, r":2: the task 't' stands twice"),
        ([{"task_id": "t", "text": "b"}, GOOD], {}, r":2: the task 't' stands twice"),
        ([{"samples": ["a"]}], {}, r":1: there is no 'task_id'.*'samples'"),
        ([{"task_id": None, "samples": []}], {}, r":1: 'task_id' should be a text or a number"),
        ([{"task_id": True, "samples": []}], {}, r":1: 'task_id' should be"),
        ([{"task_id": "t", "samples": "abc"}], {}, r":1: 'samples' should be a list"),
        ([{"task_id": "t", "samples": [1]}], {}, r":1: sample 0: a sample should be a text or an object"),
        (
            [{"task_id": "t", "samples": ["a", {"txt": "b"}]}],
            {},
            r":1: sample 1: 'text' should be a text.*'txt'",
        ),
        ([{"task_id": "t", "samples": [{"text": 1}]}], {}, r":1: sample 0: 'text' should be a text; not 1"),
        ([{"task_id": "t", "code": "x"}], {"text": "code.*"}, r":1: there is no list at 'code'"),
        ([{"task_id": "t", "c": ["a", 1]}], {"text": "c.*"}, r":1: sample 1: 'c\.\*' should be a text"),
        ([{"task_id": "t", "text": "a", "correct": "yes"}], {}, r":1: 'correct' should be true or false"),
        ([{"task_id": "t", "text": "a", "score": True}], {}, r":1: 'score' should be a number"),
        ([{"task_id": "t", "text": "a", "score": "1"}], {}, r":1: 'score' should be a number"),
        (['{"task_id": "t", "text": "a", "score": NaN}'], {}, r":1: not JSON: NaN"),
        (['{"task_id": "t", "text": "a", "score": 1e999}'], {}, r":1: 'score' should be a number, not inf"),
        ([{"task_id": "t", "prompt": 3, "text": "a"}], {}, r":1: 'prompt' should be a text"),
        (
            [{"task_id": "t", "prompt": p, "text": "a"} for p in "xy"],
            {},
            r":2: the task 't' has another prompt",
        ),
        ([], {}, "the file holds no samples"),
        ([GOOD], {"smaples": "x"}, r"fields\.smaples: 'smaples' is no field"),
        (
            [{"task_id": "t", "code": ["a", "b"], "okay": [True, True]}],
            {"text": "code.*", "correct": "ok.*"},
            r"samples\.jsonl: fields\.correct: nothing stands at 'ok\.\*' in any sample.*'okay'",
        ),
        (
            [{"task_id": "t", "samples": [{"text": "a", "score": 1}]}],
            {"score": "scores"},
            r"fields\.score: nothing",
        ),
        (
            [{"task_id": "t", "c": ["a"], "s": [[1]]}],
            {"text": "c.*", "score": "s.*.-1"},
            r"fields\.score: nothing",
        ),
        ([{"task_id": "t", "text": "a"}], {"prompt": "promt"}, r"fields\.prompt: nothing stands at 'promt'"),
        ([{"task_id": "t", "text": "a"}], {"samples": "smaples"}, r"fields\.samples: nothing stands at"),
        (
            [{"task_id": "t", "c": ["a"], "ok": [1]}, {"task_id": "u", "c": ["a", "b", "c"], "ok": [1, 0]}],
            {"text": "c.*", "correct": "ok.*"},
            r":2: there are 3 texts at 'c' and 2 entries at 'ok'",
        ),
        (
            [{"task_id": "t", "c": ["a"], "r": {"s": [[1], [2]]}}],
            {"text": "c.*", "score": "r.s.*.0"},
            r":1: there are 1 texts at 'c' and 2 entries at 'r\.s'",
        ),
    ],
)
def test_a_wrong_file_is_refused_with_its_place(
    rows: list[Any], fields: dict[str, str], message: str, tmp_path: Path
) -> None:
    """File, line, and what should stand there; at `open`, before any task runs."""
    with pytest.raises(ConfigError, match=message):
        RecordedPrograms(write(tmp_path, *rows), fields).open()


def test_what_some_samples_lack_is_not_recorded_for_them(tmp_path: Path) -> None:
    """A mapped path need not be in every sample, or be more than null; a file without samples has none of it."""
    path = write(tmp_path, {"task_id": "t", "text": "a"}, {"task_id": "t", "text": "b", "ok": None})
    assert [sample.correct for sample in read_recording(path, {"correct": "ok"})["t"].samples] == [None, None]
    path = write(tmp_path, {"task_id": "t", "c": ["a"], "ok": [1]}, {"task_id": "u", "c": ["b"]})
    found = read_recording(path, {"text": "c.*", "correct": "ok.*"})
    assert [found[task].samples[0].correct for task in "tu"] == [True, None]
    path = write(tmp_path, {"task_id": "t", "samples": []})
    assert read_recording(path, {"correct": "ok"})["t"].samples == ()


def test_a_file_is_a_path_or_a_text(tmp_path: Path) -> None:
    """From Python either is given."""
    recorded = RecordedPrograms(str(write(tmp_path, {"task_id": "t", "samples": ["a"]})))  # type: ignore[arg-type]
    assert list(draw(recorded, [1])[0].items) == ["a"]


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    """None, not UTF-8, and a gzip that ends early."""
    for name, content in (
        ("none", None),
        ("latin", b'{"task_id": "\xe9"}'),
        ("cut", gzip.compress(b"{}" * 99)[:-9]),
    ):
        path = tmp_path / name
        if content is not None:
            path.write_bytes(content)
        with pytest.raises(ConfigError, match=name):
            RecordedPrograms(path).open()


def test_it_conforms(tmp_path: Path) -> None:
    """Every check of the kit that applies to a generator."""
    path = write(tmp_path, {"task_id": "t", "samples": [{"text": c, "answer": c} for c in "abcdefgh"]})
    for items in ("text", "sample"):
        check_component(Subject(RecordedPrograms(path, items=items), tasks=[Task(id="t")]))  # type: ignore[arg-type]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["task_id", "samples", "text", "score", "correct", "answer", "prompt", "x", "*", "0"]
            ),
            inner,
            max_size=5,
        )
    ),
    max_leaves=12,
)
PATHS = st.sampled_from(["", "text", "samples", "x", "x.*", "*", "x.0", "samples.*.text", "0", ".", "x..*"])


@given(
    st.lists(JSON.map(json.dumps), max_size=4).map(lambda lines: "\n".join(lines).encode())
    | st.binary(max_size=60),
    st.dictionaries(st.sampled_from(["task_id", "text", "samples", "score", "answer"]), PATHS),
    st.sampled_from(["task_id", "prompt"]),
)
@example(b"[" * 100_000, {}, "task_id")
@example(b'{"a":' * 100_000, {}, "task_id")
@example(b"1" * 5000, {}, "task_id")
@example(b'{"task_id": "t", "text": "a", "score": ' + b"9" * 400 + b"}", {}, "task_id")
@example(b"\x1f\x8b\x08rubbish", {}, "task_id")
def test_any_file_is_samples_or_a_config_error(content: bytes, fields: dict[str, str], match: Any) -> None:
    """Whatever the bytes and the mapping: samples of the right types, or one exception, which names the file."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "samples.jsonl")
        path.write_bytes(content)
        found, refused = {}, str(path)
        try:
            found = read_recording(path, fields, match)
        except ConfigError as error:
            refused = str(error)
    assert str(path) in refused
    for each in found.values():
        if each.wrong:
            continue
        for sample in each.samples:
            sample.text.encode()
            assert sample.score is None or isinstance(sample.score, float)
            assert sample.correct in (None, True, False)


@given(st.lists(st.sampled_from("abc"), max_size=9), st.lists(st.integers(0, 4), max_size=8))
def test_the_rounds_together_are_the_file(texts: list[str], sizes: list[int]) -> None:
    """Law: whatever the block sizes, what was drawn is the beginning of the file, and all of it when exhausted."""
    with tempfile.TemporaryDirectory() as folder:
        recorded = RecordedPrograms(write(Path(folder), {"task_id": "t", "samples": texts}))
        made = draw(recorded, sizes)
    drawn = [item for each in made for item in each.items]
    assert drawn == texts[: sum(sizes)]
    assert [each.exhausted for each in made] == [sum(sizes[: i + 1]) >= len(texts) for i in range(len(sizes))]
