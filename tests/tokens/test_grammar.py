"""Constrained answers: what the grammar allows at each place, along drafted paths as in plain decoding, and no more."""

from __future__ import annotations

import itertools
import json
import random
import re
from typing import Any

import jsonschema
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from draftverify import ConfigError, ContractError, Pipeline, Task
from draftverify.rules import Speculative, Tree
from draftverify_llm import LocalModel
from draftverify_tokens import DraftModel, DraftTree, NoDraft, PromptLookup, Stop, Target
from draftverify_tokens.history import History
from draftverify_tokens.sampling import check_settings, probabilities
from tests.tokens.tiny import byte_tokenizer, rows, tiny_llama, tiny_model

MODEL = tiny_model(300)  # 257 tokens and 43 rows of padding
END = 256
NUMBERS = {"regex": "-?(0|[1-9][0-9]*)"}
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 3},
        "legs": {"type": "integer", "minimum": 0, "maximum": 8},
        "tame": {"type": "boolean"},
        "food": {"enum": ["hay", "fish", None]},
    },
    "required": ["name", "legs"],
    "additionalProperties": False,
    "x-guidance": {"whitespace_flexible": False},
}
CALLS = {"grammar": 'start: call (";" call)*\ncall: NAME "(" [NAME ("," NAME)*] ")"\nNAME: /[a-c]{1,2}/'}


def masks(rows: int, settings: dict, *histories: History, model: LocalModel = MODEL) -> list[frozenset[int]]:
    """Which tokens have a probability in each row, all logits being equal."""
    probs, _ = probabilities(torch.zeros(rows, 300), settings, histories, model=model)
    return [frozenset(row.nonzero()[:, 0].tolist()) for row in probs]


def after(settings: dict, answer: list[int]) -> frozenset[int]:
    """Plain decoding: the tokens that may follow an answer, with nothing remembered."""
    return masks(1, settings, History([1], answer))[0]


LANGUAGES = {
    "ab?c{1,2}": {"ac", "acc", "abc", "abcc"},
    "(a|ab)(c|bcd)": {"ac", "abcd", "abc", "abbcd"},
    "(aa)*b": {"a" * n + "b" for n in range(0, 12, 2)},
    "é|[0-2]{2}": {"é", *map("".join, itertools.product("012", repeat=2))},
}


@pytest.mark.parametrize("regex", LANGUAGES)
def test_what_may_follow_is_what_the_language_says(regex):
    """Against the language spelt out: after a text, the bytes that some word of it goes on with; the end token after
    a whole word alone."""
    words = {tuple(word.encode()) for word in LANGUAGES[regex]}
    for start in {word[:n] for word in words for n in range(min(len(word), 5) + 1)}:
        follow = {
            word[len(start)] for word in words if word[: len(start)] == start and len(word) > len(start)
        }
        assert after({"regex": regex}, list(start)) == follow | ({END} if start in words else set())


def test_after_the_end_only_the_end_follows():
    """Whether or not the text could have gone on, so that a measurement that ignores the end stays in the grammar."""
    for regex in ("a", "a*"):
        assert after({"regex": regex}, [97, END]) == after({"regex": regex}, [97, END, END]) == {END}


def legal(draw: Any, settings: dict, n: int) -> list[int]:
    """An answer of up to n tokens that the grammar allows."""
    answer: list[int] = []
    for _ in range(n):
        answer.append(draw(st.sampled_from(sorted(after(settings, answer)))))
    return answer


@st.composite
def blocks(draw: Any) -> tuple[dict, list[int], list[int], list[int]]:
    """Settings, an answer, and a tree drafted after it: mostly tokens that may stand there, some that may not."""
    given_settings = draw(st.sampled_from([NUMBERS, {"json_schema": SCHEMA}, CALLS]))
    answer = legal(draw, given_settings, draw(st.integers(0, 6)))
    items: list[int] = []
    parents: list[int] = []
    for index in range(draw(st.integers(0, 6))):
        parent = draw(st.integers(-1, index - 1))
        path, at = [], parent
        while at >= 0:
            path.insert(0, items[at])
            at = parents[at]
        try:
            good = sorted(after(given_settings, [*answer, *path]))
        except ContractError:
            good = [97]
        items.append(draw(st.one_of(st.sampled_from(good), st.sampled_from([97, 48, END, 290]))))
        parents.append(parent)
    return given_settings, answer, items, parents


@settings(deadline=None)
@given(blocks(), st.data())
def test_a_drafted_path_is_masked_as_plain_decoding_masks_it(block, data):
    """Row for row, in any tree; a row behind a token that may not stand there has some distribution, and nobody can
    reach it. With a memo of any earlier round, of another answer, or none."""
    given_settings, answer, items, parents = block
    memo: dict = {}
    for _ in range(data.draw(st.integers(0, 2))):
        other, cut = (
            data.draw(st.sampled_from([[], answer[:2], answer])),
            data.draw(st.integers(0, len(items))),
        )
        masks(cut + 1, given_settings, History([1], other, items[:cut], parents[:cut], memo=memo))
    if data.draw(st.booleans()):
        memo.clear()
    history = History([1], answer, items, parents, memo=memo)
    for path, got in zip(history.paths(), masks(len(history), given_settings, history), strict=True):
        try:
            expected = after(given_settings, [*answer, *path])
        except ContractError:
            assert got
        else:
            assert got == expected


@settings(deadline=None)
@given(blocks(), st.integers(0, 6))
def test_a_draft_model_sees_the_target_s_masks(block, start):
    """Asked step by step for its last row alone, with a memo of its own, it gets the rows that the target gets at
    once; and sessions in one batch get what each gets alone."""
    given_settings, answer, items, _ = block
    memo: dict = {}
    whole = History([1], answer, items)
    together = masks(len(whole), given_settings, whole)
    for n in range(len(items) + 1):
        step = History([1], answer, items[:n], start=n, memo=memo)
        assert masks(1, given_settings, step) == together[n : n + 1]
    start = min(start, len(items))
    pair = History([1], answer, items, start=start), History([2], [], [])
    assert masks(len(items) - start + 2, given_settings, *pair) == [
        *together[start:],
        after(given_settings, []),
    ]


def test_an_end_token_that_is_text_ends_no_half_answer():
    """Of a model whose answers end at a line, too: before the answer is complete that token may not stand."""
    module = tiny_llama(300)
    module.generation_config.eos_token_id = [END, ord("x")]
    model = LocalModel.from_module(module, byte_tokenizer())
    wanted = {"regex": "[ax]a"}
    assert masks(1, wanted, History([1], []), model=model) == [{97}]
    assert masks(1, wanted, History([1], [*b"aa"]), model=model) == [{END, ord("x")}]
    settings = {"temperature": 1.0, "regex": "(x|a){3}"}
    pipeline = Pipeline(
        DraftModel(model), Target(model), Speculative(), block=3, done=Stop(9), settings=settings
    )
    for seed in range(8):
        outcome = pipeline.run(Task(id=str(seed), input={"prompt_ids": [seed]}))
        assert tuple(outcome.value[:3]) == tuple(b"aaa"), outcome
        assert outcome.value[3] in (END, ord("x"))


def test_a_memo_of_another_grammar_is_not_used():
    """Settings may change between the runs of a pipeline; a memo says which grammar it is of."""
    memo: dict = {}
    assert masks(1, {"regex": "1[ab]"}, History([1], [*b"1"], memo=memo)) == [{97, 98}]
    assert masks(1, {"regex": "1[cd]"}, History([1], [*b"1"], memo=memo)) == [{99, 100}]


def test_padding_has_no_probability():
    """Rows of logits beyond the tokenizer's tokens are never drawn, even by a grammar of everything."""
    assert after({"regex": "(.|\\n)*"}, [97]) <= set(range(257))


def test_a_model_with_fewer_rows_than_tokens_is_cut():
    """A draft model's narrower logits get the mask's beginning."""
    probs, _ = probabilities(torch.zeros(1, 100), {"regex": "[a-z]"}, [History([1], [])], model=MODEL)
    assert probs[0].nonzero()[:, 0].tolist() == [97, 98, 99]


# Whole answers of a random model of bytes, which without the grammar would be noise.


def decode(given_settings: dict, seed: int, how: str, tokens: int = 120) -> tuple[list[int], bool]:
    """An answer drawn by the plain loop, or by rounds that keep what a chain or a tree of guesses has right.

    Returns:
        The tokens and whether the end came.
    """
    generator = torch.Generator().manual_seed(seed)
    chance = random.Random(seed)
    table = torch.randn(300, 300, generator=generator) * 2  # a model that looks at the last token alone
    answer: list[int] = []
    memo: dict = {}
    while len(answer) < tokens:
        n = 0 if how == "plain" else chance.randint(0, 6)
        items = [chance.choice(b'{"name":legs0123}tru, ') if chance.random() < 0.7 else END for _ in range(n)]
        parents = [i - 1 if how == "chain" else chance.randint(-1, i - 1) for i in range(n)]
        history = History([1], answer, items, parents, memo=memo)
        last = torch.tensor([(path or answer or [1])[-1] for path in history.paths()])
        probs, _ = probabilities(table[last], given_settings, [history], model=MODEL)
        row = 0
        while True:
            token = int(torch.multinomial(probs[row], 1, generator=generator))
            answer.append(token)
            if token == END:
                return answer[:-1], True
            child = [i for i in range(n) if parents[i] == row - 1 and items[i] == token]
            if not child:
                break
            row = child[0] + 1
        if chance.random() < 0.1:
            memo.clear()
    return answer, False


@pytest.mark.parametrize("how", ["plain", "chain", "tree"])
def test_answers_under_a_schema_validate(how):
    """Whatever the model would have liked to say, what it finished is JSON of the schema."""
    finished = 0
    for seed in range(40):
        answer, ended = decode({"json_schema": SCHEMA, "top_k": 20}, seed, how)
        if ended:
            jsonschema.validate(json.loads(bytes(answer)), SCHEMA)
            finished += 1
    assert finished >= 30


@pytest.mark.parametrize("how", ["plain", "chain", "tree"])
def test_answers_under_a_regex_match(how):
    """The whole answer, not a part of it."""
    for seed in range(30):
        answer, ended = decode(NUMBERS, seed, how, tokens=300)
        assert ended
        assert re.fullmatch(NUMBERS["regex"], bytes(answer).decode())


# Whole pipelines: the same, through the target, the drafters and the rules.

TARGET = tiny_model(257, seed=1, spread=0.4)
DRAFT = tiny_model(257, seed=1, spread=0.4, layers=1)


def pipeline(how: str, given_settings: dict) -> Pipeline:
    """Decoding without drafts, or with chains, or with trees of one law or another."""
    generator: Any = {
        "plain": lambda: NoDraft(),
        "lookup": lambda: PromptLookup(at_least=1),
        "model": lambda: DraftModel(DRAFT),
        "itself": lambda: DraftModel(TARGET),
        "likeliest tree": lambda: DraftTree(DraftModel(DRAFT), (3, 2, 1)),
        "sampled tree": lambda: DraftTree(DraftModel(DRAFT), (3, 2, 1), "without_replacement"),
    }[how]()
    rule = Tree() if "tree" in how else Speculative()
    return Pipeline(generator, Target(TARGET), rule, block=6, done=Stop(60), settings=given_settings)


HOW = ["plain", "lookup", "model", "itself", "likeliest tree", "sampled tree"]
TASKS = [Task(id=str(seed), input={"prompt_ids": [*b'{"name":', 65 + seed]}) for seed in range(8)]


@pytest.mark.parametrize("how", HOW)
def test_constrained_greedy_output_is_plain_decoding_s(how):
    """Token for token, in a batch and alone."""
    given_settings = {"temperature": 0, "json_schema": SCHEMA, "repetition_penalty": 1.3}
    expected = [outcome.value for outcome in pipeline("plain", given_settings).run(TASKS)]
    assert len(set(expected)) > 1
    tried = pipeline(how, given_settings)
    assert [outcome.value for outcome in tried.run(TASKS)] == expected
    assert tried.run(TASKS[0]).value == expected[0]


@pytest.mark.parametrize("how", HOW)
def test_every_finished_answer_of_a_pipeline_validates(how):
    """Sampled at a temperature at which the model has no say."""
    finished = 0
    for outcome in pipeline(how, {"temperature": 2.0, "json_schema": SCHEMA}).run(TASKS):
        assert outcome.status == "accepted", outcome.failure
        if outcome.value[-1] == END:
            jsonschema.validate(json.loads(bytes(outcome.value[:-1])), SCHEMA)
            finished += 1
    assert finished >= 6


def test_a_draft_of_the_target_itself_is_kept_whole():
    """p and q are cut alike: the target as its own greedy drafter has every token accepted."""
    for outcome in pipeline("itself", {"temperature": 0, "json_schema": SCHEMA}).run(TASKS):
        assert outcome.tally.trials == outcome.tally.accepted > 10


def test_an_answer_that_breaks_the_grammar_is_refused():
    """It was begun under other settings; going on would be in no grammar."""
    with pytest.raises(
        ContractError, match=r"token 1 of the answer, 120, may not stand there under settings\.regex"
    ):
        after(NUMBERS, [*b"1x2"])
    with pytest.raises(ContractError, match=r"token 1 of the answer, 256, may not stand there"):
        after(NUMBERS, [*b"-", END])
    with pytest.raises(ContractError, match=r"token 2 of the answer, 49, may not stand there"):
        after(NUMBERS, [*b"1", END, *b"1"])


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"json_schema": '{"type":'}, r"settings\.json_schema: it is no JSON"),
        ({"json_schema": "3"}, r"settings\.json_schema: a schema is a mapping, not 3"),
        ({"json_schema": {"type": "objekt"}}, r"settings\.json_schema: Invalid type: objekt"),
        ({"json_schema": {"not": {}}}, r'settings\.json_schema: Unimplemented keys: \["not"\]'),
        ({"json_schema": {"const": {1}}}, r"settings\.json_schema: it is no JSON \(Object of type set"),
        ({"json_schema": 3}, r"settings\.json_schema: json_schema must be a mapping or JSON text, not 3"),
        ({"regex": "a(b"}, r"settings\.regex: .*unclosed group"),
        ({"regex": "(?=a)b"}, r"settings\.regex: .*look-around"),
        ({"grammar": "start: word"}, r'settings\.grammar: .*unknown name: "word"'),
        ({"grammar": ["start"]}, r"settings\.grammar: grammar must be text"),
        ({"regex": "a\ud800"}, r"settings\.regex: it holds half a character"),
        ({"regex": "a", "grammar": 'start: "a"'}, r"settings\.grammar: regex and grammar are given"),
    ],
)
def test_a_bad_constraint_is_refused_without_a_model(bad, message):
    """When the pipeline is built, with the setting's path; the message is a few lines, not llguidance's state."""
    with pytest.raises(ConfigError, match=f"(?s){message}") as error:
        check_settings(bad)
    assert "<state>" not in str(error.value)


def test_a_form_that_no_text_has_is_refused_with_the_model():
    """When the pipeline is built, and not as a dead end in its first round; an empty answer is one."""
    with pytest.raises(ConfigError, match=r"settings\.regex: no text is of this form"):
        check_settings({"regex": r"[^\s\S]"}, MODEL)
    check_settings({"regex": ""}, MODEL)
    assert after({"regex": ""}, []) == {END}


def test_a_tokenizer_that_will_not_do_is_refused():
    """Without an end token a complete answer could not end; a tokenizer that is not the library's has no bytes."""

    class Endless:
        tokenizer = byte_tokenizer()
        eos_ids: frozenset[int] = frozenset()
        model = MODEL.model

    class Slow(Endless):
        class Tokenizer:
            def get_vocab(self) -> dict[str, int]:
                return {"a": 0}

        tokenizer = Tokenizer()
        eos_ids = frozenset({0})

    with pytest.raises(ConfigError, match=r"settings\.regex: the tokenizer has no end token"):
        check_settings(NUMBERS, Endless())  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"settings\.regex: the tokenizer Tokenizer cannot be constrained"):
        check_settings(NUMBERS, Slow())  # type: ignore[arg-type]
    check_settings(NUMBERS, MODEL)


def test_a_dead_end_is_said_where_it_is_reached():
    """A processor that strikes out all the grammar allows: an error for the row that is needed, a row that sums to nan
    for one that may be out of reach."""

    def no_digits(ids: Any, scores: Any) -> Any:
        return scores.index_fill(1, torch.arange(48, 58), float("-inf"))

    contradiction = {**NUMBERS, "processors": [no_digits]}
    for before in ((), (History([1], [], [*b"x0"]),)):
        with pytest.raises(ContractError, match="leave no token after 1 tokens of answer:"):
            masks(1 + 3 * len(before), contradiction, *before, History([1], [*b"-"]))
    for temperature in (0, 1):
        given_settings = {**contradiction, "temperature": temperature}
        probs, _ = probabilities(
            torch.zeros(2, 300), given_settings, [History([1], [], [*b"-"])], model=MODEL
        )
        assert torch.isfinite(probs[0]).all()
        assert torch.isnan(probs[1].sum())


@pytest.mark.parametrize("lookup", [None, PromptLookup()])
def test_a_draft_ends_before_a_dead_end(lookup):
    """A draft model that goes where the settings leave no token has drafted up to there; the target goes elsewhere."""
    small, prompt = tiny_model(300, seed=5), [1, 2, 3]
    tasks = [{"prompt_ids": prompt}, {"prompt_ids": [4, 5]}]
    likeliest = int(rows(small, prompt, 1)[0].argmax())

    def nothing_behind(ids: Any, scores: Any) -> Any:
        return scores.fill_(float("-inf")) if int(ids[0, -1]) == likeliest else scores

    how: dict[str, Any] = {"done": Stop(4), "settings": {"temperature": 0, "processors": [nothing_behind]}}
    plain = Pipeline(NoDraft(), Target(MODEL), Speculative(), block=0, **how).run(tasks)
    pipeline = Pipeline(DraftModel(small, lookup=lookup), Target(MODEL), Speculative(), block=4, **how)
    drafted = pipeline.run(tasks, size=2)
    assert [outcome.unwrap() for outcome in drafted] == [outcome.unwrap() for outcome in plain]
    assert drafted[0].tally.trials > 0


def test_a_grammar_is_compiled_once():
    """For all sessions of a tokenizer; a session's own matcher is a copy."""
    from draftverify_tokens.grammar import Constraint, compiled

    constraint = Constraint("regex", "once")
    assert compiled(constraint, MODEL) is compiled(Constraint("regex", "once"), MODEL)
    other = LocalModel.from_module(tiny_llama(257), byte_tokenizer())
    assert compiled(constraint, other) is not compiled(constraint, MODEL)  # another set of end tokens
