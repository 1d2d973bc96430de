"""The grammar-forced drafter: it drafts what the settings leave no choice about, and changes no token."""

from __future__ import annotations

import itertools
import json
from functools import lru_cache
from typing import Any

import jsonschema
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from draftverify import ConfigError, Pipeline, Proposal, Task
from draftverify.kit import check_component, make_context
from draftverify.rules import Speculative, Tree
from draftverify.traits import GeneratorTraits, traits_of
from draftverify_llm import LocalModel
from draftverify_tokens import (
    DraftModel,
    DraftTree,
    FirstOf,
    Forced,
    NoDraft,
    PromptLookup,
    Stop,
    Suffix,
    Target,
)
from draftverify_tokens.history import History
from draftverify_tokens.reader import BlockReader
from draftverify_tokens.sampling import CONSTRAINTS, probabilities
from tests.tokens.joint import deviation
from tests.tokens.test_grammar import END, LANGUAGES, SCHEMA
from tests.tokens.tiny import tiny_llama, tiny_model

BYTES = tiny_model(257, seed=1, spread=0.4)
DRAFT = tiny_model(257, seed=1, spread=0.4, layers=1)
JSON = {"json_schema": SCHEMA}
YES = {"regex": "(yes, because|no, although) [a-c]{1,4}\\."}
CALL = {
    "grammar": 'start: call ("; then " call)*\ncall: NAME "(first=" [NAME (", next=" NAME)*] ")"\nNAME: /[a-c]{1,2}/'
}


@lru_cache
def merging_model() -> LocalModel:
    """A model whose tokenizer has learnt words of JSON: one text can be written in many ways."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=310, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False
    )
    texts = [
        '{"name":"ann","legs":2,"tame":true}',
        '{"name":"bo","food":"hay"}',
        "yes, because no, although a.",
    ]
    tokenizer.train_from_iterator(texts * 4, trainer)
    wrapped = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|end|>")
    return LocalModel.from_module(tiny_llama(len(wrapped), seed=1, spread=0.4), wrapped)


def context(answer: list[int], given_settings: dict, scratch: dict | None = None, **more: Any) -> Any:
    return make_context(
        {"prompt_ids": [1], **more}, accepted=answer, settings=given_settings, scratch=scratch
    )


def allowed(model: LocalModel, given_settings: dict, answer: list[int]) -> list[int]:
    """Plain decoding: the tokens that may follow an answer."""
    rows = torch.zeros(1, model.model.config.vocab_size)
    return (
        probabilities(rows, given_settings, [History([1], answer)], model=model)[0][0]
        .nonzero()[:, 0]
        .tolist()
    )


@pytest.mark.parametrize("regex", LANGUAGES)
def test_what_is_drafted_is_what_all_words_go_on_with(regex):
    """Against the language spelt out: after each beginning of a word the bytes that all words share from there on."""
    words = {tuple(word.encode()) for word in LANGUAGES[regex]}
    part = Forced(BYTES)
    for start in {word[:n] for word in words for n in range(min(len(word), 5) + 1)}:
        path = start
        while path not in words:
            follow = {word[len(path)] for word in words if word[: len(path)] == path}
            if len(follow) != 1:
                break
            path += tuple(follow)
        made = part.propose(context(list(start), {"regex": regex}), 20)
        assert (made.items, made.law.kind) == (path[len(start) :], "given")
        assert part.propose(context(list(start), {"regex": regex}), 1).items == path[len(start) :][:1]


@settings(deadline=None, max_examples=30)
@given(st.sampled_from([JSON, YES, CALL]), st.data())
def test_a_token_that_alone_may_stand_there_is_drafted(given_settings, data):
    """Whatever was answered before, with the walk kept, lost, or left over from another answer, and however the
    tokenizer cuts the text: the draft is legal to its end, and stops at no place where one token alone may follow."""
    model = merging_model()
    part, scratch = Forced(model), {}
    answer: list[int] = []
    for _ in range(data.draw(st.integers(1, 12))):
        drafted = list(part.propose(context(answer, given_settings, scratch), 30).items)
        assert drafted == list(part.propose(context(answer, given_settings), 30).items)
        path = [*answer]
        for token in drafted:
            assert token in allowed(model, given_settings, path)
            path.append(token)
        follow = allowed(model, given_settings, path)
        assert len(follow) > 1 or follow == sorted(model.eos_ids) or len(drafted) == 30
        if data.draw(st.booleans()):
            cut = data.draw(st.integers(0, len(drafted)))
            answer = [*answer, *drafted[:cut]]
        follow = allowed(model, given_settings, answer)
        answer.append(data.draw(st.sampled_from(follow)))
        if data.draw(st.integers(0, 3)) == 0:
            scratch.clear()
        if answer[-1] in model.eos_ids:
            break
    again, anew = (part.propose(context([], given_settings, kept), 5) for kept in (scratch, None))
    assert again.items == anew.items


def test_the_likely_end_of_a_forced_text_is_drafted_too():
    """Behind what is certain stand the tokens that the tokenizer would write: a guess, since a longer token could
    take in what comes after."""
    model = merging_model()
    tokenizer = model.tokenizer
    drafted = list(Forced(model).propose(context([], JSON), 30).items)
    assert tokenizer.decode(drafted) == '{"name":"'
    assert drafted == tokenizer('{"name":"').input_ids
    certain = list(
        itertools.takewhile(lambda n: len(allowed(model, JSON, drafted[:n])) == 1, range(len(drafted)))
    )
    assert 0 < len(certain) < len(drafted)


def test_the_end_of_a_forced_text_is_drafted_as_this_answer_wrote_it():
    """One model writes the quote that opens a text with what stands before it, another does not: the second property is
    drafted as the first one was written, and a token that goes on into what was chosen is not drafted again."""
    model = merging_model()
    text = {"type": "string", "maxLength": 3}
    form = {**SCHEMA, "properties": {"name": text, "food": text}, "required": ["name", "food"]}
    given_settings = {"json_schema": form}
    known, part = model.tokenizer.get_vocab(), Forced(model)
    first = list(part.propose(context([], given_settings), 30).items)
    certain = list(
        itertools.takewhile(lambda n: len(allowed(model, given_settings, first[:n])) == 1, range(len(first)))
    )
    one_by_one = [known[letter] for letter in model.tokenizer.decode(first[len(certain) :])]
    assert one_by_one != first[len(certain) :]
    by_default = part.propose(context([*first, known["a"], known['"']], given_settings), 30).items
    drafted = part.propose(
        context([*first[: len(certain)], *one_by_one, known["a"], known['"']], given_settings), 30
    ).items
    assert model.tokenizer.decode(by_default) == model.tokenizer.decode(drafted) == ',"food":"'
    assert by_default[-len(first) + len(certain) :] == tuple(first[len(certain) :])
    assert drafted[-len(one_by_one) :] == tuple(one_by_one)


def test_nothing_is_drafted_without_a_grammar_or_after_the_answer():
    """Neither where the settings have none, nor where the answer can only end, has ended, or breaks the grammar."""
    part = Forced(BYTES)
    for answer, given_settings in (
        ([], {}),
        ([97], {"temperature": 0}),
        ([*b"ab"], {"regex": "ab"}),
        ([*b"ab", END], {"regex": "ab"}),
        ([*b"abab"], {"regex": "(ab)*"}),
        ([*b"ax"], {"regex": "abc"}),
    ):
        made = part.propose(context(answer, given_settings), 5)
        assert (made.items, made.exhausted) == ((), False)
    assert part.propose(context([97], {"regex": "abcd"}), 0).items == ()
    assert part.propose(context([97], {"regex": "abcd"}, positions=4), 5).items == (98, 99)
    assert part.continuation(context([97], {"regex": "abcd"}), 5, (98,)) == (99, 100)
    assert part.continuation(context([97], {"regex": "abcd"}), 5, (99,)) == ()


def test_a_forced_text_without_an_end_fails_by_name_with_and_without_the_drafter():
    """The matcher gives up over it, in the target's rows too: the setting is named, and nobody waits for ever."""
    for part in (Forced(BYTES), NoDraft()):
        outcome = pipeline(part, BYTES, {"grammar": 'start: "a" start'}, tokens=7).run(TASKS[0])
        assert outcome.status == "failed"
        assert "settings.grammar: parser error: Too many items" in str(outcome.failure)


def test_a_limit_inside_forced_text_cuts_it():
    """As it cuts plain decoding, at each place."""
    whole = plain("yes")[0]
    for tokens in range(1, 12):
        assert pipeline(Forced(BYTES), BYTES, greedy("yes"), tokens).run(TASKS[0]).value == whole[:tokens]


def test_the_target_s_end_tokens_are_those_that_end():
    """A tokenizer's model may end otherwise than the target: what follows a whole answer is not drafted."""
    model = tiny_model(300)
    given_settings = {"grammar": 'start: "a" <|end|> "b"'}
    assert Forced(model).propose(context([97], given_settings, eos_ids=[0]), 5).items == (256, 98)


def test_special_tokens_of_a_grammar_are_drafted():
    """Their text is none that the tokenizer could encode."""
    model = merging_model()
    end = next(iter(model.eos_ids))
    text = model.tokenizer("name").input_ids
    made = Forced(model).propose(
        context([], {"grammar": 'start: "name" <|end|> "name" /[ab]/'}, eos_ids=[0]), 20
    )
    assert list(made.items) == [*text, end, *text]


def drafter(how: str, model: LocalModel) -> Any:
    """Decoding with the forced drafter alone or with others beside it."""
    forced = Forced(model)
    return {
        "forced": lambda: forced,
        "forced, lookup": lambda: FirstOf([forced, PromptLookup(at_least=1)]),
        "forced, suffix": lambda: FirstOf([forced, Suffix(threshold=0.02)]),
        "forced, model": lambda: FirstOf([forced, DraftModel(DRAFT)]),
        "model that looks at the forced": lambda: DraftModel(DRAFT, lookup=forced),
        "forced, tree": lambda: FirstOf([forced, DraftTree(DraftModel(DRAFT), (2, 1))]),
    }[how]()


class Forgetful:
    """A drafter whose session has lost its scratch at every round."""

    traits = GeneratorTraits(reads=frozenset(CONSTRAINTS))

    def __init__(self, part: Any) -> None:
        self.part = part

    def propose(self, context: Any, n: int) -> Proposal:
        context.scratch.clear()
        return self.part.propose(context, n)


def pipeline(part: Any, model: LocalModel, given_settings: dict, tokens: int = 40) -> Pipeline:
    rule = Tree() if traits_of(part, GeneratorTraits).shape == "tree" else Speculative()
    return Pipeline(part, Target(model), rule, block=6, done=Stop(tokens), settings=given_settings)


TASKS = [Task(id=str(n), input={"prompt_ids": [*b'{"name":', *range(65, 66 + n)]}) for n in range(4)]


@lru_cache
def plain(name: str) -> list[Any]:
    model = merging_model() if name == "merged" else BYTES
    return [outcome.value for outcome in pipeline(NoDraft(), model, greedy(name)).run(TASKS)]


def greedy(name: str) -> dict:
    return {"temperature": 0, "repetition_penalty": 1.3} | {
        "json": JSON,
        "merged": JSON,
        "yes": YES,
        "call": CALL,
    }[name]


HOW = [
    "forced",
    "forced, lookup",
    "forced, suffix",
    "forced, model",
    "model that looks at the forced",
    "forced, tree",
]


@pytest.mark.parametrize(
    ("how", "name"),
    [
        *((how, "json") for how in HOW),
        ("forced", "yes"),
        ("forced, lookup", "call"),
        ("forced, lookup", "merged"),
    ],
)
def test_greedy_output_is_plain_decoding_s(how, name):
    """Token for token, in a batch of prompts of different lengths and alone, under a schema, a regular expression and
    a grammar."""
    model = merging_model() if name == "merged" else BYTES
    tried = pipeline(drafter(how, model), model, greedy(name))
    assert [outcome.value for outcome in tried.run(TASKS)] == plain(name)
    assert tried.run(TASKS[2]).value == plain(name)[2]


@pytest.mark.parametrize("name", ["json", "merged"])
def test_a_lost_walk_changes_nothing(name):
    """With the session's scratch emptied before every round, in the tokens and in the rounds they took."""
    model = merging_model() if name == "merged" else BYTES
    kept, lost = (
        pipeline(part, model, greedy(name)).record(TASKS[1])
        for part in (Forced(model), Forgetful(Forced(model)))
    )
    assert kept.outcome.value == lost.outcome.value == plain(name)[1]
    assert [round.items for round in kept.rounds] == [round.items for round in lost.rounds]


def test_certain_tokens_are_always_accepted():
    """Of a tokenizer of bytes all that is forced is certain: acceptance 1 at any temperature, in fewer rounds."""
    for given_settings in (JSON, YES, CALL):
        for outcome in pipeline(Forced(BYTES), BYTES, {"temperature": 2.0, **given_settings}).run(TASKS):
            assert outcome.status == "accepted", outcome.failure
            assert outcome.tally.trials == outcome.tally.accepted > 8
            assert outcome.rounds < 0.7 * len(outcome.value)


@pytest.mark.parametrize("how", ["forced", "forced, lookup"])
def test_sampled_answers_have_the_target_s_joint(how):
    """Under a schema of whose forced text a part is a guess, at any cut of it (chi-square below its 1e-6 quantile)."""
    model = merging_model()
    given_settings = {"temperature": 3.0, "regex": '("name":"(a|b|ann)","|,"legs":[12])'}
    found, limit = deviation(
        drafter(how, model), model, Speculative(), block=4, tasks=600, prompt=[*b'ab"name"'], length=5,
        settings=given_settings, batch=100,
    )  # fmt: skip
    assert found < limit


def test_a_draft_model_that_looks_at_the_forced_text_reads_less_often(monkeypatch):
    """The same drafts in fewer passes."""
    passes = []
    read, extend = BlockReader.read, BlockReader.extend
    monkeypatch.setattr(BlockReader, "read", lambda *args: passes.append(0) or read(*args))
    monkeypatch.setattr(BlockReader, "extend", lambda *args: passes.append(0) or extend(*args))
    counts, made = [], []
    for lookup in (None, Forced(BYTES)):
        passes.clear()
        record = pipeline(DraftModel(DRAFT, lookup=lookup), BYTES, greedy("json")).record(TASKS[0])
        counts.append(len(passes))
        made.append([round.items for round in record.rounds])
    assert made[0] == made[1]
    assert counts[1] < 0.8 * counts[0]


class Copying:
    """A drafter with a continuation, which remembers what it was asked."""

    traits = GeneratorTraits(shape="chain")
    certain = False

    def __init__(self, items: tuple[int, ...]) -> None:
        self.items = items
        self.asked: list[tuple[int, tuple[int, ...]]] = []

    def propose(self, context: Any, n: int) -> Proposal:
        return Proposal.chain(self.continuation(context, n, ()))

    def continuation(self, context: Any, n: int, drafted: Any) -> tuple[int, ...]:
        self.asked.append((n, tuple(drafted)))
        return self.items[:n]


class Sure(Copying):
    certain = True


def test_the_next_drafter_goes_on_behind_a_certain_one():
    """In the same block, up to its size and the model's positions; behind one that is not certain nobody does."""
    first, second, third = Sure((1, 2)), Copying((3, 4, 5, 6, 7, 8)), Copying((9,))
    part = FirstOf([first, NoDraft(), second, third])
    assert part.propose(context([], {}), 5).items == (1, 2, 3, 4, 5)
    assert part.propose(context([], {}), 2).items == (1, 2)
    assert part.propose(context([5], {}, positions=5), 9).items == (1, 2, 3)
    assert second.asked == [(3, (1, 2)), (1, (1, 2))]
    assert third.asked == []
    assert FirstOf([second, third]).propose(context([], {}), 9).items == (3, 4, 5, 6, 7, 8)
    assert FirstOf([Sure(()), third]).propose(context([], {}), 9).items == (9,)
    assert FirstOf([third, first]).propose(context([], {}), 9).items == (9,)


def test_a_bad_constraint_is_refused_by_name():
    """When the pipeline is built; a setting of the target's own business is not this drafter's."""
    with pytest.raises(ConfigError, match=r"(?s)settings\.regex: .*unclosed group"):
        Forced(BYTES).check_settings({"regex": "a(b"})
    Forced(BYTES).check_settings({"temperature": -1, "regex": "a"})


def test_the_conformance_kit_finds_nothing():
    """Contexts with a schema, a regular expression and none, at the beginning, inside and after the answer."""
    contexts = [
        context([], JSON), context([*b'{"name":"a'], JSON), context([*b"yes"], YES), context([97], {}),
        context([*b"a(first=a)", END], CALL), context([*b"a(first=a); "], CALL),
    ]  # fmt: skip
    check_component(Forced(BYTES), contexts=contexts)
    check_component(FirstOf([Forced(BYTES), PromptLookup(at_least=1)]), contexts=contexts)


def test_a_finished_answer_is_of_the_schema():
    """Forced text and a lookup's behind it, at a temperature at which the model has no say."""
    part = drafter("forced, lookup", BYTES)
    for outcome in pipeline(part, BYTES, {"temperature": 2.0, **JSON}, tokens=80).run(TASKS):
        if outcome.value[-1] == END:
            jsonschema.validate(json.loads(bytes(outcome.value[:-1])), SCHEMA)
            return
    raise AssertionError("no answer came to its end")
