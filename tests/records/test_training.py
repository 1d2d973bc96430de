"""Training data: what was refused beside what was taken instead; tasks stay whole; nothing hostile gets through."""

from __future__ import annotations

import io
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from draftverify.bench.cli.exits import ExitCode
from draftverify.bench.cli.main import main
from draftverify.bench.records import Question, RunDirectory, RunRecords, load_run, split_of
from draftverify.errors import ConfigError
from draftverify.lab.training import UNSURE, UNTOLD, RunMetric, training_rows, write_lines
from draftverify.secret import Secret
from draftverify.token_summary import pack_summaries
from draftverify.values import (
    Candidate,
    Check,
    Correction,
    Decision,
    Outcome,
    Refusal,
    Round,
    Task,
    TaskRecord,
)

PASS, REJECT = Check("pass", 1.0), Check("reject", 0.0, "fails")


def run_of(
    path: Path,
    records: list[tuple[Task, TaskRecord]],
    questions: Sequence[Question] = (),
    config: Mapping[str, Any] = {"settings": {"temperature": 0}},
) -> RunRecords:
    """A run of one pipeline with these records."""
    with RunDirectory(path, name="n", config={"pipelines": {"p": {}}, **config}, config_hash="h") as opened:
        opened.store.add_tasks([task for task, _ in records])
        for question in questions:
            record = next(record for _, record in records if record.task == question.task)
            waiting = msgspec.structs.replace(
                record, outcome=Outcome(status="waiting", rounds=len(record.rounds))
            )
            opened.store.park("p", waiting, question)
            (asked,) = opened.store.questions("pending")
            assert opened.store.answer(asked, question.answer, question.value, question.note)
        for _, record in records:
            opened.store.commit("p", record)
    return load_run(path)


def one(
    task: str, rounds: tuple[Round, ...], *, value: Any = None, status: Any = "accepted", **given: Any
) -> Any:
    made = Task(id=task, input=given or {"prompt": "ask:"})
    return made, TaskRecord(
        task=task, outcome=Outcome(status=status, value=value, rounds=len(rounds)), rounds=rounds
    )


def preferences(run: RunRecords, **how: Any) -> tuple[list[dict[str, Any]], Counter[str]]:
    left_out: Counter[str] = Counter()
    return list(training_rows(run, "trl-preference", left_out, **how)), left_out


def texts(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return [(row["prompt"], row["chosen"], row["rejected"], row["position"]) for row in rows]


CHAIN = (
    Round(
        index=0, items=(104, 105, 33), parents=(-1, 0, 1), asked=3,
        decision=Decision(kept=(0,), refused=(Refusal(1, "improbable"),), spliced=(111,), emitted=(104, 111)),
    ),
    Round(
        index=1, items=(63,), parents=(-1,), asked=3,
        decision=Decision(refused=(Refusal(0, "improbable"),), spliced=(46,), emitted=(46,)),
    ),
)  # fmt: skip


def decoded(values: Any) -> str:
    return bytes(values).decode("utf-8", "replace")


def test_a_refused_token_stands_beside_the_targets(tmp_path: Path) -> None:
    """The prompt goes on up to the place; the two tokens follow, as text."""
    with run_of(tmp_path / "run", [one("a", CHAIN, value=[104, 111, 46])]) as run:
        rows, left_out = preferences(run, text_of=lambda pipeline: decoded)
        assert texts(rows) == [("ask:h", "o", "i", 1), ("ask:ho", ".", "?", 2)]
        first = rows[0]
        assert (first["verdict"], first["reason"], first["source"]) == ("refused", "improbable", "generator")
        assert (first["task"], first["pipeline"], first["run"]) == ("a", "p", run.about.run)
        assert not left_out
        (sft,) = training_rows(run, "trl-sft", left_out, text_of=lambda pipeline: decoded)
        assert (sft["prompt"], sft["completion"], sft["task"]) == ("ask:", "ho.", "a")


def drawn(shares: dict[int, float], drafted: int = 105, instead: int = 111) -> tuple[Round, ...]:
    """A round that refused a token for another one, where the target gave these their probabilities."""
    ids = sorted(shares, key=shares.__getitem__, reverse=True)
    figures = [shares[drafted], 0.9, 0.5, max(shares.values()), 0.9, 1.0, 0.0]
    return (Round(
        index=0, items=(drafted,), parents=(-1,), law="iid", asked=1,
        decision=Decision(refused=(Refusal(0, "improbable"),), spliced=(instead,), emitted=(instead,)),
        tokens=pack_summaries([figures], [ids], [[shares[token] for token in ids]]),
    ),)  # fmt: skip


@pytest.mark.parametrize(
    ("config", "shares", "rows"),
    [
        ({}, {105: 0.4, 111: 0.05, 9: 0.55}, 0),  # p .4 and q .9: refused by chance, for a worse one
        ({}, {105: 0.05, 111: 0.4, 9: 0.55}, 1),
        ({}, {105: 0.4, 9: 0.6}, 0),  # what came instead is not among the likeliest
        ({"settings": {"temperature": 0.7}}, {105: 0.4, 111: 0.05}, 0),
        ({"settings": {"temperature": 0}}, {105: 0.0, 111: 1.0}, 1),
        (
            {"settings": {"temperature": 1}, "pipelines": {"p": {"settings": {"temperature": 0}}}},
            {105: 0.4},
            1,
        ),
        ({}, None, 0),  # nothing is recorded of them
    ],
)
def test_what_was_drawn_teaches_only_what_the_target_prefers(
    tmp_path: Path, config: dict[str, Any], shares: dict[int, float] | None, rows: int
) -> None:
    """A token that the target likes may be refused by chance, and a rare one come: that pair is left out."""
    rounds = drawn(shares or {105: 0.05, 111: 0.4})
    if shares is None:
        rounds = (msgspec.structs.replace(rounds[0], tokens=b""),)
    with run_of(tmp_path / "run", [one("a", rounds, value=[111])], config=config) as run:
        made, left_out = preferences(run, text_of=lambda pipeline: decoded)
    assert [(row["chosen"], row["rejected"]) for row in made] == [("o", "i")] * rows
    assert left_out == ({} if rows else {UNSURE: 1})


def test_an_answer_that_lost_the_vote_is_not_chosen(tmp_path: Path) -> None:
    """Of a rule that chooses at the end the outcome stands beside what was rejected, before a sibling that passed."""
    round = msgspec.structs.replace(
        alternatives(PASS, REJECT, PASS, PASS), decision=Decision(held=(0, 2, 3), refused=(Refusal(1),))
    )
    with run_of(tmp_path / "run", [one("a", (round,), value="program 0.2")]) as run:
        rows, _ = preferences(run)
    assert [(row["chosen"], row["rejected"], row["chosen_from"]) for row in rows] == [
        ("program 0.2", "program 0.1", "outcome")
    ]


def test_turns_stay_turns(tmp_path: Path) -> None:
    """A task of messages gives whole turns of the assistant; what it had begun is their beginning."""
    begun = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "Oh "}]
    with run_of(tmp_path / "run", [one("a", CHAIN, value=[104, 111, 46], messages=begun)]) as run:
        rows, _ = preferences(run, text_of=lambda pipeline: decoded)
    said = [{"role": "assistant", "content": "Oh ho"}], [{"role": "assistant", "content": "Oh hi"}]
    assert (rows[0]["prompt"], rows[0]["chosen"], rows[0]["rejected"]) == (begun[:1], *said)


def test_a_text_can_be_written_as_a_turn(tmp_path: Path) -> None:
    """As chat models read a prompt."""
    with run_of(tmp_path / "run", [one("a", CHAIN, value=[104, 111, 46])]) as run:
        rows, _ = preferences(run, text_of=lambda pipeline: decoded, chat=True)
    assert rows[0]["prompt"] == [{"role": "user", "content": "ask:"}]
    assert rows[0]["chosen"] == [{"role": "assistant", "content": "ho"}]


@pytest.mark.parametrize("to", ["trl-preference", "trl-sft", "trl-kto"])
@pytest.mark.parametrize("messages", ["none", "some", "all"])
def test_the_rows_are_what_trl_loads(tmp_path: Path, to: Any, messages: str) -> None:
    """Read by Arrow, as `load_dataset("json")` reads them, each column has one type in all rows. TRL's columns are
    there, text throughout or turns throughout, also where only some tasks are conversations."""
    from pyarrow import json as arrow
    from pyarrow import list_, string, struct

    talk = [{"role": "user", "content": "hi"}]
    made = [
        one(
            f"t{i}",
            CHAIN,
            value=[104, 111, 46],
            **({"messages": talk} if messages != "none" and i % 2 else {}),
        )
        for i in range(4)
    ]
    if messages == "all":
        made = made[1::2]
    out = tmp_path / "rows.jsonl"
    with run_of(tmp_path / "run", made) as run:
        count = write_lines(training_rows(run, to, Counter(), text_of=lambda pipeline: decoded), out)
    table = arrow.read_json(out)
    assert table.num_rows == count > 0
    columns = ("prompt", "chosen", "rejected") if to == "trl-preference" else ("prompt", "completion")
    text = string() if messages == "none" else list_(struct([("role", string()), ("content", string())]))
    for column in columns:
        assert table.schema.field(column).type == text
        values = table.column(column).to_pylist()
        assert all(values)
        if messages != "none":
            last = "user" if column == "prompt" else "assistant"
            assert {turns[-1]["role"] for turns in values} == {last}


@pytest.mark.parametrize("odd", [["hi"], [{"role": "user"}], "hi", [{"role": "user", "content": [1]}]])
def test_messages_that_are_no_turns_are_written_as_json(tmp_path: Path, odd: Any) -> None:
    """Whatever a task holds, there is a row, and nothing raises."""
    with run_of(tmp_path / "run", [one("a", CHAIN, value=[104, 111, 46], messages=odd)]) as run:
        rows, _ = preferences(run, text_of=lambda pipeline: decoded)
    assert rows[0]["prompt"].endswith("h")
    assert "messages" in rows[0]["prompt"] or odd == "hi"


def test_half_a_character_is_no_text(tmp_path: Path) -> None:
    """A token of a few bytes of a character makes no row, and is counted."""
    rounds = (Round(index=0, items=(195,), parents=(-1,), asked=1, decision=Decision(
        refused=(Refusal(0),), spliced=(65,), emitted=(65,))),)  # fmt: skip
    with run_of(tmp_path / "run", [one("a", rounds, value=[65])]) as run:
        rows, left_out = preferences(run, text_of=lambda pipeline: decoded)
    assert not rows
    assert left_out.total() == 1


def alternatives(*checks: Check, kept: tuple[int, ...] = (), index: int = 0) -> Round:
    items = tuple(f"program {index}.{place}" for place in range(len(checks)))
    return Round(
        index=index, items=items, parents=(-1,) * len(items), asked=len(items), checks=checks,
        decision=Decision(kept=kept, emitted=tuple(items[i] for i in kept)),
    )  # fmt: skip


def test_siblings_and_later_rounds_are_chosen(tmp_path: Path) -> None:
    """The accepted program, though it came a round later; else one that passed; an error rejects nothing."""
    later = one("later", (alternatives(REJECT, Check("error")), alternatives(PASS, kept=(0,), index=1)))
    sibling = one("sibling", (alternatives(REJECT, PASS),), status="refused")
    nothing = one("nothing", (alternatives(REJECT, REJECT),), status="refused")
    with run_of(tmp_path / "run", [later, sibling, nothing]) as run:
        rows, left_out = preferences(run)
    assert [(row["task"], row["chosen"], row["rejected"], row["chosen_from"]) for row in rows] == [
        ("later", "program 1.0", "program 0.0", "answer"),
        ("sibling", "program 0.1", "program 0.0", "sibling"),
    ]
    assert left_out == {"nothing better is known": 2}


def right_if(*values: Any, run: RunRecords, stepwise: bool = False) -> RunMetric:
    """A metric by which these values are right, and of "unknown" nobody can tell."""

    def metric(task: Task, outcome: Outcome) -> bool | None:
        return None if outcome.value == "unknown" else outcome.value in values

    return RunMetric(run, "right", metric, lambda pipeline: stepwise)


def rows_of(run: RunRecords, to: Any, **how: Any) -> list[dict[str, Any]]:
    return list(training_rows(run, to, Counter(), **how))


def test_the_metric_says_what_is_right(tmp_path: Path) -> None:
    """A wrong item that the verifier passed is rejected, for a right one that it rejected; a completion is right, or
    there is none; what the metric cannot tell makes no row."""
    fooled = one("fooled", (alternatives(REJECT, PASS, kept=(1,)),), value="program 0.1")
    kept = one("kept", (alternatives(PASS, REJECT, kept=(0,)),), value="program 0.0")
    unknown = Round(index=0, items=("unknown", "program 0.0"), parents=(-1, -1), asked=2, checks=(REJECT, PASS),
                    decision=Decision(kept=(1,), emitted=("program 0.0",)))  # fmt: skip
    made = [fooled, kept, one("untold", (unknown,), value="program 0.0")]
    with run_of(tmp_path / "run", made) as run:
        metric = right_if("program 0.0", run=run)
        rows, left_out = preferences(run, metric=metric)
        completions, labelled = (rows_of(run, to, metric=metric) for to in ("trl-sft", "trl-kto"))
        by_the_verifier, _ = preferences(run)
    assert [(row["task"], row["chosen"], row["rejected"], row["verdict"]) for row in rows] == [
        ("fooled", "program 0.0", "program 0.1", "pass"),
        ("kept", "program 0.0", "program 0.1", "reject"),
    ]
    assert {row["chosen_by"] for row in rows} == {row["rejected_by"] for row in rows} == {"metric right"}
    assert left_out == {UNTOLD: 1}
    assert [(row["task"], row["completion"]) for row in completions] == [
        ("kept", "program 0.0"),
        ("untold", "program 0.0"),
    ]
    assert {(row["completion"], row["label"]) for row in labelled} == {
        ("program 0.0", True),
        ("program 0.1", False),
    }
    assert {row["by"] for row in (*completions, *labelled)} == {"metric right"}
    wrong_way = by_the_verifier[0]
    assert (wrong_way["chosen"], wrong_way["chosen_by"], wrong_way["rejected_by"]) == (
        "program 0.1", "verifier", "verifier")  # fmt: skip


@pytest.mark.parametrize("answer", ["accept", "reject", "edit"])
def test_what_a_person_and_the_metric_judge_differently_teaches_nothing(tmp_path: Path, answer: str) -> None:
    """In no format, and it is counted."""
    value = "mended" if answer == "edit" else None
    rounds = (alternatives(PASS if answer == "accept" else REJECT, REJECT),)
    question = Question(
        pipeline="p", task="a", round=1, candidate=Candidate("program 0.0"), answer=answer, value=value
    )
    with run_of(tmp_path / "run", [one("a", rounds, value="program 0.0")], [question]) as run:
        metric = right_if("program 0.0" if answer == "reject" else "", run=run)
        rows = {to: rows_of(run, to, metric=metric) for to in ("trl-preference", "trl-sft", "trl-kto")}
    assert not rows["trl-preference"]
    assert not rows["trl-sft"]
    disputed = {"accept": "program 0.0", "reject": "program 0.0", "edit": "mended"}[answer]
    assert disputed not in {row["completion"] for row in rows["trl-kto"]}


STEPS = (
    Round(
        index=0, items=("go", "jump"), parents=(-1, 0), asked=2, checks=(PASS, REJECT),
        decision=Decision(kept=(0,), refused=(Refusal(1),), emitted=("go",)),
    ),
    Round(
        index=1, items=("climb",), parents=(-1,), asked=2, checks=(PASS,),
        decision=Decision(kept=(0,), emitted=("climb",)),
    ),
)  # fmt: skip


def test_steps_are_labelled_up_to_the_wrong_one(tmp_path: Path) -> None:
    """The answer's are right; and those up to one that was rejected, which is wrong."""
    with run_of(tmp_path / "run", [one("a", STEPS, value=["go", "climb"])]) as run:
        rows = rows_of(run, "trl-stepwise")
        with_metric = rows_of(run, "trl-stepwise", metric=right_if(("go", "climb"), ["go", "climb"], run=run))
    assert [(row["completions"], row["labels"], row["by"]) for row in rows] == [
        (["go", "climb"], [True, True], "verifier"),
        (["go", "jump"], [True, False], "verifier"),
    ]
    assert [row["by"] for row in with_metric] == ["metric right", "verifier"]


def test_an_answer_in_steps_that_is_wrong_teaches_nothing(tmp_path: Path) -> None:
    """Whatever the verifier said of its steps: of a right one its word on those beside it counts, and says so."""
    with run_of(tmp_path / "run", [one("a", STEPS, value=["go", "climb"])]) as run:
        for to in ("trl-preference", "trl-sft", "trl-stepwise"):
            assert not rows_of(run, to, metric=right_if("", run=run))
        ((row,), left_out) = preferences(run, metric=right_if(["go", "climb"], ("go", "climb"), run=run))
        (labelled,) = rows_of(run, "trl-kto", metric=right_if("", run=run))
    assert (row["chosen"], row["rejected"], row["chosen_by"], row["rejected_by"]) == (
        "\nclimb", "\njump", "metric right", "verifier")  # fmt: skip
    assert not left_out
    assert (labelled["completion"], labelled["label"]) == ("go\nclimb", False)


def test_tokens_and_whole_answers_have_no_steps(tmp_path: Path) -> None:
    """They make no row of stepwise supervision, and are counted."""
    whole = one("whole", (alternatives(PASS, kept=(0,)),), value="program 0.0")
    left_out: Counter[str] = Counter()
    with run_of(tmp_path / "run", [whole, one("tokens", CHAIN, value=[104, 111, 46])]) as run:
        assert not list(training_rows(run, "trl-stepwise", left_out, text_of=lambda pipeline: decoded))
    assert left_out == {"its answer has no steps": 2}


def test_a_correction_is_chosen_in_its_place(tmp_path: Path) -> None:
    """Of steps, line by line, with those before them in the prompt."""
    round = Round(
        index=0, items=("go", "jump"), parents=(-1, 0), asked=2, checks=(PASS, REJECT),
        decision=Decision(kept=(0,), corrected=(Correction(1, "climb"),), emitted=("go", "climb")),
    )  # fmt: skip
    with run_of(tmp_path / "run", [one("a", (round,), value=["go", "climb"])]) as run:
        rows, _ = preferences(run)
    assert texts(rows) == [("ask:go", "\nclimb", "\njump", 1)]


@pytest.mark.parametrize(
    ("answer", "value", "wanted"),
    [
        ("accept", None, [("program 0.0", "program 0.1")]),
        ("edit", "mended", [("mended", "program 0.0"), ("program 1.0", "program 0.1")]),
        ("reject", None, [("program 1.0", "program 0.0"), ("program 1.0", "program 0.1")]),
    ],
)
def test_a_persons_word_wins(tmp_path: Path, answer: str, value: Any, wanted: list[Any]) -> None:
    """Accepted is right though the verifier refused it; edited is what they wrote; rejected is rejected."""
    rounds: tuple[Round, ...] = (alternatives(REJECT, REJECT),)
    question = Question(
        pipeline="p", task="a", round=1, candidate=Candidate("program 0.0"), answer=answer, value=value
    )
    last = alternatives(PASS, kept=(0,), index=1)
    if answer == "accept":
        last = Round(index=1, source="person", by="person", items=("program 0.0",), parents=(-1,), asked=1,
                     checks=(PASS,), decision=Decision(kept=(0,), emitted=("program 0.0",)))  # fmt: skip
    with run_of(tmp_path / "run", [one("a", (*rounds, last))], [question]) as run:
        rows, _ = preferences(run)
    assert [(row["chosen"], row["rejected"]) for row in rows] == wanted
    if answer != "accept":
        assert [row["rejected_by"] for row in rows] == ["person", "verifier"]
        assert [row["verdict"] for row in rows] == ["reject", "reject"]


def test_tasks_and_not_rows_are_split(tmp_path: Path) -> None:
    """Every row is on the side of its task, and both sides together are all."""
    made = [one(f"t{i}", CHAIN, value=[104, 111, 46]) for i in range(40)]
    with run_of(tmp_path / "run", made) as run:
        whole, _ = preferences(run, text_of=lambda pipeline: decoded)
        sides = {
            side: preferences(run, text_of=lambda pipeline: decoded, split=side)[0]
            for side in ("train", "test")
        }
    assert {row["task"] for row in sides["train"]}.isdisjoint(row["task"] for row in sides["test"])
    assert sides["test"]
    assert sorted(map(repr, whole)) == sorted(map(repr, [*sides["train"], *sides["test"]]))
    for side, rows in sides.items():
        assert {row["split"] for row in rows} == {side} == {split_of(row["task"]) for row in rows}


@given(st.text())
def test_any_id_has_a_side(task: str) -> None:
    """The same one each time."""
    assert split_of(task) == split_of(task) in ("train", "test")


def test_a_tenth_is_kept_apart() -> None:
    """Of 5,000 ids 10 %, within five standard errors."""
    share = sum(split_of(f"task-{i}") == "test" for i in range(5000)) / 5000
    assert abs(share - 0.1) < 5 * (0.09 / 5000) ** 0.5


def test_hostile_text_and_secrets_do_nothing(tmp_path: Path) -> None:
    """Escapes and bidirectional marks are written as escapes of JSON; a secret is not written."""
    Secret("opensesame77")
    hostile = "\x1b[31mred\u202e opensesame77"
    rounds = (alternatives(REJECT, PASS, kept=(1,)),)
    task, record = one("a", rounds, prompt=hostile)
    out = io.StringIO()
    with run_of(tmp_path / "run", [(task, record)]) as run:
        assert write_lines(training_rows(run, "trl-preference", Counter()), out) == 1
    text = out.getvalue()
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert "opensesame77" not in text
    assert json.loads(text)["prompt"] == "\x1b[31mred\u202e ***"


def test_an_unknown_format_is_refused(tmp_path: Path) -> None:
    """Naming those that there are."""
    with run_of(tmp_path / "run", [one("a", CHAIN)]) as run, pytest.raises(ConfigError, match="trl-sft"):
        write_lines(training_rows(run, "dpo", Counter()), io.StringIO())  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--to", "csv", "--split", "train"], "--split is of training data"),
        (["--to", "jsonl", "--chat"], "--chat is of training data"),
        (["--to", "trl-sft", "--rows", "items"], "--rows is of tables"),
    ],
)
def test_options_of_the_other_kind_are_refused(
    tmp_path: Path, options: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is written, and the message says what the option is for."""
    run_of(tmp_path / "run", [one("a", (alternatives(REJECT, PASS, kept=(1,)),))]).close()
    assert main(["export", str(tmp_path / "run"), *options]) == ExitCode.CONFIG
    assert said in capsys.readouterr().err


def test_the_command_says_what_it_left_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """How many rejected items made no row, and why."""
    nothing = one("a", (alternatives(REJECT, REJECT),), status="refused")
    run_of(tmp_path / "run", [nothing]).close()
    out = tmp_path / "rows.jsonl"
    assert main(["export", str(tmp_path / "run"), "--to", "trl-preference", "-o", str(out)]) == 0
    whose = "the run has no metric: right is what the verifier, the rule and people say\n"
    assert capsys.readouterr().err == f"{whose}wrote 0 rows to {out}\nno row of 2: nothing better is known\n"
