"""The one call: every form of prompt, model and drafter; why answers end; log-probabilities; streams; errors."""

from __future__ import annotations

import asyncio
import copy
import gc
import json
import weakref
from typing import Any

import numpy as np
import pytest
import torch
from transformers import BatchEncoding

from draftverify import ConfigError, DraftVerifyError, PipelineError, Proposal
from draftverify.stats.block import Measured
from draftverify.traits import GeneratorTraits
from draftverify_llm import LocalModel
from draftverify_tokens import (
    DRAFTERS,
    Decoder,
    DraftModel,
    DraftTree,
    OtherTokenizer,
    PromptLookup,
    Suffix,
    generate,
    stream,
)
from tests.tokens.tiny import byte_tokenizer, tiny_llama, tiny_model

MODULE = tiny_llama(seed=3)
TOKENIZER = byte_tokenizer()
MODEL = LocalModel.from_module(MODULE, TOKENIZER)
SMALL = tiny_model(seed=3, layers=1)
TEXTS = ["abab", "x", "the the the ", "é€"]
WITH_TEMPLATE = copy.deepcopy(TOKENIZER)
WITH_TEMPLATE.chat_template = "{% for m in messages %}{{ m.role }}:{{ m.content }};{% endfor %}>"


def ids_of(text: str) -> list[int]:
    return list(text.encode())


def transformers_greedy(prompt: list[int], n: int, module: Any = MODULE) -> tuple[int, ...]:
    """The answer of transformers' own greedy decoding."""
    ids = torch.tensor([prompt])
    out = module.generate(
        ids,
        attention_mask=torch.ones_like(ids),
        max_new_tokens=n,
        do_sample=False,
        eos_token_id=256,
        pad_token_id=0,
    )
    return tuple(out[0, len(prompt) :].tolist())


EXPECTED = {text: transformers_greedy(ids_of(text), 12) for text in TEXTS}


def padded(rows: list[list[int]], side: str) -> BatchEncoding:
    """What a tokenizer returns for `return_tensors="pt"`."""
    longest = max(map(len, rows))
    pad = lambda row, value: [value] * (longest - len(row))
    made = [(pad(row, 0), row) if side == "left" else (row, pad(row, 0)) for row in rows]
    shown = [
        (pad(row, 0), [1] * len(row)) if side == "left" else ([1] * len(row), pad(row, 0)) for row in rows
    ]
    return BatchEncoding(
        {
            "input_ids": torch.tensor([a + b for a, b in made]),
            "attention_mask": torch.tensor([a + b for a, b in shown]),
        }
    )


@pytest.mark.parametrize(
    "drafter", [*sorted(DRAFTERS.keys() - {"mtp"}), "model", "tree", "other tokenizer", "suffix tree"]
)
def test_the_answers_are_those_of_transformers(drafter):
    """Greedy, whoever drafts, alone and in a batch: the same tokens in no more passes than tokens."""
    made = {
        "model": SMALL,
        "tree": DraftTree(DraftModel(SMALL)),
        "other tokenizer": OtherTokenizer(SMALL, MODEL),
        "suffix tree": Suffix(tree=True),
    }
    with Decoder(MODEL, made.get(drafter, drafter), max_new_tokens=12) as decoder:
        found = decoder.generate(TEXTS, batch_size=3)
        assert [each.ids for each in found] == list(EXPECTED.values())
        assert decoder.generate(TEXTS[0]).ids == EXPECTED[TEXTS[0]]
    for each in found:
        assert 0 < each.passes <= len(each.ids)
        assert each.accepted <= each.drafted
        assert each.share <= 1 - each.passes / len(each.ids) + 1e-9
        assert each.acceptance == (each.accepted / each.drafted if each.drafted else None)
    if drafter in ("none",):
        assert all((each.drafted, each.passes) == (0, len(each.ids)) for each in found)


@pytest.mark.parametrize(
    ("prompts", "alone"),
    [
        (TEXTS[0], True),
        (ids_of(TEXTS[0]), True),
        (tuple(ids_of(TEXTS[0])), True),
        (np.array(ids_of(TEXTS[0])), True),
        (list(np.array(ids_of(TEXTS[0]))), True),
        (torch.tensor(ids_of(TEXTS[0])), True),
        ({"prompt_ids": ids_of(TEXTS[0])}, True),
        ({"prompt": TEXTS[0]}, True),
        ({"input_ids": ids_of(TEXTS[0])}, True),
        (torch.tensor([ids_of(TEXTS[0])]), False),
        ({"input_ids": [ids_of(text) for text in TEXTS]}, False),
        (padded(list(map(ids_of, TEXTS)), "left"), False),
        (padded(list(map(ids_of, TEXTS)), "right"), False),
        (TEXTS, False),
        (iter(TEXTS), False),
        (np.array(TEXTS), False),
        (np.array([{"prompt": text} for text in TEXTS]), False),
        (list(map(ids_of, TEXTS)), False),
        ([torch.tensor(ids_of(text)) for text in TEXTS], False),
        ([padded([ids_of(text)], "left") for text in TEXTS], False),
        ([TEXTS[0], ids_of(TEXTS[1]), np.array(ids_of(TEXTS[2])), {"prompt": TEXTS[3]}], False),
    ],
)
def test_a_prompt_may_have_any_form(prompts, alone):
    """One prompt gives one answer, many give a list, whatever they are written in."""
    found = generate(MODULE, prompts, tokenizer=TOKENIZER, max_new_tokens=12)
    if alone:
        assert found.ids == EXPECTED[TEXTS[0]]
    else:
        assert [each.ids for each in found] == list(EXPECTED.values())[: len(found)]
        assert len(found) in (1, len(TEXTS))


@pytest.mark.parametrize("ids", [list(torch.tensor(ids_of("abab"))), list(np.array(ids_of("abab")))])
def test_a_prompt_may_be_a_list_of_single_numbers(ids):
    """As `list(tensor)` makes them."""
    assert generate(MODEL, ids, max_new_tokens=12).ids == EXPECTED["abab"]


def test_a_mask_may_stand_beside_the_ids():
    """As transformers' users pass it."""
    both = padded(list(map(ids_of, TEXTS)), "left")
    found = generate(MODEL, both["input_ids"], attention_mask=both["attention_mask"], max_new_tokens=12)
    assert [each.ids for each in found] == list(EXPECTED.values())
    assert generate(MODEL, []) == []


def test_texts_and_turns_go_through_the_template():
    """A text as one user turn, unless `chat` is false; turns as they are."""
    model = LocalModel.from_module(MODULE, WITH_TEMPLATE)
    expected = transformers_greedy(ids_of("user:abab;>"), 6)
    turns = [{"role": "user", "content": "abab"}]
    assert generate(model, "abab", max_new_tokens=6).ids == expected
    assert generate(model, turns, max_new_tokens=6).ids == expected
    assert [each.ids for each in generate(model, [turns, "abab"], max_new_tokens=6)] == [expected] * 2
    assert generate(model, "abab", max_new_tokens=12, chat=False).ids == EXPECTED["abab"]


def test_why_an_answer_ended():
    """An end token and a stop string are "stop"; the limit, and a model without a position left, are "length"."""
    whole = generate(MODEL, "abab", max_new_tokens=12)
    assert (whole.finish_reason, len(whole.ids)) == ("length", 12)
    ending = copy.deepcopy(MODULE)
    ending.generation_config.eos_token_id = whole.ids[5]
    ended = generate(ending, "abab", tokenizer=TOKENIZER, max_new_tokens=12)
    at = whole.ids.index(whole.ids[5]) + 1
    assert (ended.finish_reason, ended.ids) == ("stop", whole.ids[:at])
    assert ended.text == MODEL.decode(whole.ids[: at - 1])
    short = tiny_model(seed=3, positions=12)
    for limit in (100, None):
        cut = generate(short, "abab", max_new_tokens=limit)
        assert (cut.finish_reason, len(cut.ids)) == ("length", 9)
    full = generate(short, [1] * 12)
    assert (full.finish_reason, len(full.ids)) == ("length", 1)


LETTERS = {"regex": "[ab]{25}"}
"""What makes a random model write letters."""


def test_a_stop_string_ends_the_text_before_it():
    """Its tokens are among the ids, and it is no part of the text."""
    whole = generate(MODEL, "abab", max_new_tokens=30, **LETTERS)
    stop = whole.text[10:13]
    place = whole.text.index(stop)
    for given in (stop, [stop], (stop, "zzz")):
        found = generate(MODEL, "abab", max_new_tokens=30, stop=given, **LETTERS)
        assert (found.finish_reason, found.text) == ("stop", whole.text[:place])
        assert MODEL.decode(found.ids) == whole.text[: place + 3]


@pytest.mark.parametrize("drafter", [MODEL, DraftTree(DraftModel(SMALL))])
def test_logprobs_are_the_model_s_own(drafter):
    """The log-softmax of its logits without a cache, whatever settings chose the tokens; one for each token."""
    settings: dict[str, Any] = {"repetition_penalty": 1.3, "logit_bias": {97: 3.0}}
    if drafter is MODEL:
        settings |= {"temperature": 0.7, "top_k": 5, "seed": 4}
    found = generate(MODEL, TEXTS, drafter, max_new_tokens=10, logprobs=True, batch_size=2, **settings)
    assert any(each.accepted for each in found)
    for text, each in zip(TEXTS, found, strict=True):
        tokens = [*ids_of(text), *each.ids]
        with torch.inference_mode():
            rows = MODULE(torch.tensor([tokens]), use_cache=False).logits[0, -len(each.ids) - 1 : -1]
        expected = rows.log_softmax(-1)[range(len(each.ids)), list(each.ids)]
        assert each.logprobs == pytest.approx(expected.tolist(), abs=1e-4)
        assert len(each.logprobs) == len(each.ids)
    assert generate(MODEL, "x", max_new_tokens=2).logprobs is None


def test_samples_have_draws_of_their_own():
    """n answers to each prompt; a seed gives them again, another seed or none gives others."""
    draw = {"n": 3, "temperature": 1.0, "max_new_tokens": 8}
    first = generate(MODEL, TEXTS[:2], seed=5, **draw)
    assert [len(each) for each in first] == [3, 3]
    assert len({sample.ids for each in first for sample in each}) == 6
    assert generate(MODEL, TEXTS[:2], seed=5, **draw) == first
    assert generate(MODEL, TEXTS[:2], seed=5, batch_size=1, **draw) == first
    assert generate(MODEL, TEXTS[0], seed=5, **draw) == first[0]
    assert generate(MODEL, TEXTS[0], seed=5, temperature=1.0, max_new_tokens=8) == first[0][0]
    assert generate(MODEL, TEXTS[0], seed=6, **draw) != first[0]
    with Decoder(MODEL, temperature=1.0, max_new_tokens=8) as decoder:
        assert decoder.generate("x").ids != decoder.generate("x").ids


def test_a_call_may_have_options_of_its_own():
    """They stand over the decoder's for this call alone."""
    with Decoder(MODEL, max_new_tokens=12) as decoder:
        drawn = decoder.generate("abab", temperature=1.0, top_k=20, seed=3, max_new_tokens=6)
        assert drawn == generate(MODEL, "abab", temperature=1.0, top_k=20, seed=3, max_new_tokens=6)
        whole = decoder.generate("abab", logprobs=True)
        assert (whole.ids, len(whole.logprobs)) == (EXPECTED["abab"], 12)
        assert decoder.generate("abab").logprobs is None
        stopped = decoder.stream("abab", max_new_tokens=30, stop="b", **LETTERS)
        assert "".join(stopped) == generate(MODEL, "abab", max_new_tokens=30, stop="b", **LETTERS).text
        with pytest.raises(ConfigError, match=r"max_tokens: .* did you mean max_new_tokens"):
            decoder.generate("abab", max_tokens=3)
        with pytest.raises(ConfigError, match="there is no argument 'tokenizer'"):
            decoder.generate("abab", tokenizer=TOKENIZER)


PER_PROMPT: list[dict[str, Any]] = [
    {},
    {"temperature": 0.9, "seed": 2, "top_k": 30, "max_new_tokens": 9},
    {"regex": "[ab]{25}", "max_new_tokens": 5, "logprobs": 2},
    {"repetition_penalty": 1.5, "eos_token_id": np.array([97]), "min_new_tokens": 3},
]


@pytest.mark.parametrize("drafter", ["lookup", SMALL])
def test_each_prompt_of_a_batch_may_have_options_of_its_own(drafter):
    """What comes out is what each would give alone, and the passes are shared."""
    with Decoder(MODEL, drafter, max_new_tokens=12, block=4) as decoder:
        together = decoder.generate(TEXTS, batch_size=4, per_prompt=PER_PROMPT, n=2)
        seen: list[int] = []
        read, decoder._target.verify_many = decoder._target.verify_many, None
        decoder._target.verify_many = lambda contexts, blocks: (
            seen.append(len(contexts)) or read(contexts, blocks)
        )
        decoder.generate(TEXTS, batch_size=4, per_prompt=PER_PROMPT)
        assert seen[0] == 4
        del decoder._target.verify_many
        for place, (text, own) in enumerate(zip(TEXTS, PER_PROMPT, strict=True)):
            if "seed" not in own:  # which tokens a seed draws depends on the place
                alone = decoder.generate(text, **own)
                assert [answer.ids for answer in together[place]] == [alone.ids] * 2
                assert together[place][0].logprobs == pytest.approx(alone.logprobs)
        singly = decoder.generate(TEXTS, batch_size=1, per_prompt=PER_PROMPT, n=2)
        ids_by_prompt = lambda answers: [[sample.ids for sample in samples] for samples in answers]
        assert ids_by_prompt(together) == ids_by_prompt(singly)
        for wrong, message in (
            ([{}], "per_prompt has 1 entries and there are 4"),
            ([{"top_p": 2}] * 4, "top_p"),
            ([{"chat": True}] * 4, r"per_prompt\[0\].chat"),
        ):
            with pytest.raises(ConfigError, match=message):
                decoder.generate(TEXTS, per_prompt=wrong)


@pytest.mark.parametrize(
    "form", [int, lambda id: [id, 3], np.int64, lambda id: np.array([id]), torch.tensor, lambda id: {id}]
)
def test_other_tokens_may_end_an_answer(form):
    """They are the last of its ids and not of its text; the drafter's blocks end at them too."""
    end = EXPECTED["abab"][4]
    cut = EXPECTED["abab"][: EXPECTED["abab"].index(end) + 1]
    for drafter in ("lookup", SMALL):
        found = generate(MODEL, "abab", drafter, max_new_tokens=12, eos_token_id=form(end), block=4)
        assert (found.ids, found.text, found.finish_reason) == (cut, MODEL.decode(cut[:-1]), "stop")


def test_the_end_may_be_ignored_or_put_off():
    """`ignore_eos` goes on to the limit; no end token comes before `min_new_tokens`, as of transformers."""
    ends = list(EXPECTED["abab"][3:5])
    ended = generate(MODEL, "abab", max_new_tokens=12, eos_token_id=ends)
    assert (ended.finish_reason, ended.text) == ("stop", MODEL.decode(ended.ids[:-1]))
    assert len(ended.ids) <= 5
    ignored = generate(MODEL, "abab", max_new_tokens=12, eos_token_id=ends, ignore_eos=True)
    assert (ignored.ids, ignored.finish_reason) == (EXPECTED["abab"], "length")
    ids = torch.tensor([ids_of("abab")])
    for least in (2, 7, 12):
        expected = MODULE.generate(
            ids, attention_mask=torch.ones_like(ids), max_new_tokens=12, do_sample=False,
            eos_token_id=ends, min_new_tokens=least, pad_token_id=0,
        )[0, 4:].tolist()  # fmt: skip
        for drafter in ("none", "lookup", SMALL, DraftTree(DraftModel(SMALL))):
            found = generate(
                MODEL, "abab", drafter, max_new_tokens=12, eos_token_id=ends, min_new_tokens=least, block=4
            )
            assert list(found.ids) == expected


def test_criteria_of_transformers_end_an_answer():
    """At the very token at which they say so, asked with all ids; the reason is "stop"."""
    calls: list[int] = []

    def has_seven(ids: Any, scores: Any) -> Any:
        calls.append(ids.shape[1])
        return torch.tensor([ids.shape[1] == 4 + 7])

    found = generate(MODEL, "abab", max_new_tokens=12, stopping_criteria=[has_seven], block=3)
    assert (found.ids, found.finish_reason) == (EXPECTED["abab"][:7], "stop")
    assert calls == list(range(5, 12))


def test_a_number_of_logprobs_gives_the_likeliest_tokens_too():
    """By id, the likeliest first, of the model's own logits; 0 gives the chosen tokens' alone."""
    found = generate(MODEL, "abab", max_new_tokens=6, logprobs=3)
    tokens = [*ids_of("abab"), *found.ids]
    with torch.inference_mode():
        rows = MODULE(torch.tensor([tokens]), use_cache=False).logits[0, 3:-1].log_softmax(-1).topk(3)
    for place, likeliest in enumerate(found.top_logprobs):
        assert list(likeliest) == rows.indices[place].tolist()
        assert list(likeliest.values()) == pytest.approx(rows.values[place].tolist(), abs=1e-4)
        assert likeliest[found.ids[place]] == found.logprobs[place]
    assert generate(MODEL, "abab", max_new_tokens=2, logprobs=0).top_logprobs is None
    assert generate(MODEL, "abab", max_new_tokens=2, logprobs=True).top_logprobs is None


def test_a_call_under_asyncio_leaves_the_loop_free():
    """Others go on while passes run, gathered calls share these, and the answers are `generate`'s."""

    async def main(decoder: Decoder) -> tuple[int, list[Any]]:
        ticks, made = 0, asyncio.gather(*[decoder.agenerate(text, max_new_tokens=12) for text in TEXTS])
        while not made.done():
            await asyncio.sleep(0.001)
            ticks += 1
        return ticks, made.result()

    with Decoder(MODEL) as decoder:
        ticks, found = asyncio.run(main(decoder))
        assert [answer.ids for answer in found] == list(EXPECTED.values())
        assert ticks > 3
        assert [
            a.ids for a in asyncio.run(decoder.agenerate(TEXTS, per_prompt=[{"max_new_tokens": 12}] * 4))
        ] == list(EXPECTED.values())


def test_a_call_that_is_cancelled_leaves_the_decoder_usable():
    """It ends after the pass that is under way; the next call gives what it should."""

    async def main(decoder: Decoder) -> Any:
        doomed = asyncio.create_task(decoder.agenerate(TEXTS, max_new_tokens=400, ignore_eos=True))
        beside = asyncio.create_task(decoder.agenerate("abab", max_new_tokens=12))
        await asyncio.sleep(0.05)
        doomed.cancel()
        with pytest.raises(asyncio.CancelledError):
            await doomed
        return await beside, await decoder.agenerate("x", max_new_tokens=12)

    with Decoder(MODEL) as decoder:
        assert [answer.ids for answer in asyncio.run(main(decoder))] == [EXPECTED["abab"], EXPECTED["x"]]
        assert decoder.generate("abab", max_new_tokens=12).ids == EXPECTED["abab"]


def test_the_block_is_measured_unless_draws_are_to_come_again():
    """It is the drafter's own, of one that brings none the measured one; a seeded draw needs one without a clock."""

    class Bare:
        def propose(self, context, n):
            return Proposal.chain(())

    def block_of(*drafter, **how):
        with Decoder(MODEL, *drafter, **how) as decoder:
            return decoder.pipeline.block

    assert type(block_of()) is type(block_of(Bare())) is type(block_of(seed=1)) is Measured
    assert type(block_of(temperature=1.0)) is Measured
    assert block_of(temperature=1.0, seed=1).n == 8
    assert block_of("none", temperature=1.0, seed=1).n == 0
    assert block_of(Suffix(tree=True)).n == 16
    assert block_of(block=3).n == 3


def test_a_decoder_keeps_what_was_measured():
    """Its controller learns from call to call; another's knows nothing of it."""
    with Decoder(MODEL, PromptLookup(at_least=1), max_new_tokens=12) as decoder:
        decoder.generate("abab")
        before = decoder.pipeline.block.report()["rounds"]
        decoder.generate(TEXTS)
        assert decoder.pipeline.block.report()["rounds"] > before > 0


def test_calls_with_one_model_teach_each_other():
    """A call begins with what earlier ones of its drafter and its way to choose have learned; the model may go."""
    module = tiny_llama(seed=5)
    block = lambda *how, **more: Decoder(module, *how, tokenizer=TOKENIZER, **more).pipeline.block
    assert block() is block()
    assert len({id(block()), id(block("suffix")), id(block(temperature=1))}) == 3
    assert block(drafter=PromptLookup()) is not block()
    generate(module, "abab", tokenizer=TOKENIZER, max_new_tokens=8)
    assert block().report()["rounds"]
    module = weakref.ref(module)
    gc.collect()
    assert module() is None


def test_a_schema_is_followed():
    """The settings are a pipeline's, grammar and all."""
    schema = {"type": "object", "properties": {"a": {"enum": [1, 2]}}, "required": ["a"]}
    schema |= {"additionalProperties": False, "x-guidance": {"whitespace_flexible": False}}
    found = generate(MODEL, "x", max_new_tokens=60, json_schema=schema)
    assert json.loads(found.text)["a"] in (1, 2)
    assert found.finish_reason == "stop"


def test_a_stream_yields_the_text_and_ends_with_the_result():
    """Pieces, none empty, that together are the text; `result` is what `generate` gives, read to its end or not."""
    expected = generate(MODEL, "é€", max_new_tokens=20, logprobs=True)
    reading = stream(MODEL, "é€", max_new_tokens=20, logprobs=True)
    pieces = list(reading)
    assert all(pieces)
    assert "".join(pieces) == reading.result.text == expected.text
    assert (reading.result.ids, reading.result.logprobs) == (expected.ids, pytest.approx(expected.logprobs))
    with stream(MODEL, torch.tensor([ids_of("é€")]), max_new_tokens=20) as again:
        assert next(again) == pieces[0]
        assert again.result.ids == expected.ids


@pytest.mark.parametrize("drafter", ["none", SMALL])
def test_no_piece_holds_part_of_a_stop_string(drafter):
    """What may become one is held back, and shown where it does not."""
    whole = generate(MODEL, "abab", max_new_tokens=30, **LETTERS).text
    for stop in (whole[6:12], whole[:1], "zz", [whole[3:9], whole[20:24]], [whole[8:9] * 2]):
        expected = generate(MODEL, "abab", max_new_tokens=30, stop=stop, **LETTERS)
        reading = stream(MODEL, "abab", drafter, max_new_tokens=30, stop=stop, **LETTERS)
        assert "".join(reading) == expected.text
        assert reading.result.finish_reason == expected.finish_reason


def test_a_stream_may_be_left():
    """Closed early it frees the task, and has no result."""
    with stream(MODEL, "abab", max_new_tokens=20) as reading:
        next(reading)
    assert list(reading) == []
    with pytest.raises(DraftVerifyError, match="closed, or failed, before its end"):
        _ = reading.result


@pytest.fixture
def saved(tmp_path):
    MODULE.save_pretrained(tmp_path / "tiny")
    TOKENIZER.save_pretrained(tmp_path / "tiny")
    return tmp_path / "tiny"


def test_a_directory_is_loaded_and_let_go(saved, monkeypatch):
    """As the model and as the drafter; what was loaded here is closed here, after an error too."""
    closed = []
    monkeypatch.setattr(LocalModel, "close", lambda self: closed.append(str(self.weights)))
    assert generate(saved, "abab", max_new_tokens=12).ids == EXPECTED["abab"]
    assert generate(str(saved), "abab", str(saved), max_new_tokens=12).ids == EXPECTED["abab"]
    assert closed == [str(saved)] * 3
    with pytest.raises(ConfigError):
        generate(saved, "abab", top_p=2)
    assert len(closed) == 4
    assert generate(MODEL, "abab", MODULE, max_new_tokens=12).ids == EXPECTED["abab"]
    assert len(closed) == 4


def other_words() -> LocalModel:
    """A model whose tokenizer has one more word."""
    tokenizer = copy.deepcopy(TOKENIZER)
    tokenizer.add_tokens(["word"])
    return LocalModel.from_module(tiny_llama(258), tokenizer)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"model": MODULE},
            r"tokenizer: model is a LlamaForCausalLM, .* tokenizer=AutoTokenizer.from_pretrained",
        ),
        ({"tokenizer": TOKENIZER}, "tokenizer: tokenizer is given, and model has its own"),
        (
            {"model": 3},
            "model: model is 3; a transformers module, a LocalModel, a name or a directory is needed",
        ),
        ({"drafter": "lokup"}, "drafter: there is no drafter 'lokup'; did you mean 'lookup'?"),
        ({"drafter": "qqq"}, "a name is one of lookup, suffix, forced, mtp, none"),
        ({"drafter": other_words()}, r"drafter: .* of another tokenizer.*OtherTokenizer\(small, target\)"),
        ({"drafter": tiny_llama(100)}, r"drafter: .* of 100 tokens, where the model's tokenizer has 257"),
        ({"max_tokens": 3}, "max_tokens: there is no argument 'max_tokens'; did you mean max_new_tokens?"),
        ({"stream": True}, r"did you mean the function stream\(\)"),
        ({"temprature": 1}, "did you mean temperature?"),
        ({"top_p": 2}, "settings.top_p: top_p must be"),
        (
            {"eos_token_id": 257},
            r"eos_token_id: eos_token_id is \[257\]; the model's tokens go from 0 to 256",
        ),
        ({"eos_token_id": "x"}, "eos_token_id: eos_token_id is 'x'; one token id or several"),
        ({"logprobs": -1}, "logprobs: logprobs is -1; True, False or a number"),
        ({"stopping_criteria": 3}, "stopping_criteria: stopping_criteria is 3; a list of callables"),
        ({"min_new_tokens": -1}, "settings.min_new_tokens: min_new_tokens must be a whole number"),
        ({"min_tokens": 3}, "did you mean min_new_tokens?"),
        ({"max_new_tokens": 0}, "max_new_tokens: max_new_tokens is 0; 1 or more"),
        ({"n": 0}, "n: n is 0; 1 or more"),
        ({"batch_size": 2.0}, "batch_size: batch_size is 2.0"),
        ({"stop": ["a", ""]}, "stop: stop is"),
        ({"prompts": ""}, "prompts: the prompt of task '0' has no tokens"),
        ({"prompts": ["a", ""]}, r"prompts\[1\]: the prompt of task '1' has no tokens"),
        ({"prompts": ["a", []]}, r"prompts\[1\]: the prompt of task '1' has no tokens"),
        ({"prompts": [5, 257]}, "prompts: .* from 0 to 256; at place 1 stands 257"),
        ({"prompts": [[5], [-1]]}, r"prompts\[1\]: .* at place 0 stands -1"),
        ({"prompts": torch.tensor([1.5])}, "at place 0 stands 1.5"),
        ({"prompts": [1] * 513}, "prompts: .* has 513 tokens; the model takes 512"),
        ({"prompts": 3}, "prompts: prompts is 3; a text, a list of messages"),
        ({"prompts": {"text": "a"}}, "prompts: prompts is {'text': 'a'}; a text"),
        ({"prompts": ["a", 3]}, r"prompts\[1\]: is 3; a text"),
        ({"prompts": ["a", torch.ones(2, 2, dtype=int)]}, r"prompts\[1\]: holds 2 prompts"),
        ({"prompts": torch.ones(1, 1, 1)}, "more than two dimensions"),
        (
            {"prompts": torch.ones(1, 2, dtype=int), "attention_mask": torch.ones(1, 3)},
            r"attention_mask: attention_mask has rows of \[3\] and the ids have \[2\]",
        ),
        ({"prompts": [{"role": "user", "content": "a"}]}, "prompts: turns need a model with a chat template"),
        ({"prompts": b"abc"}, "prompts: prompts is b'abc'; a text"),
        ({"prompts": [b"abc"]}, r"prompts\[0\]: is b'abc'; a text"),
        ({"prompts": {"a", "b"}}, "prompts: prompts is {'.', '.'}; a text"),
        ({"prompts": [1, 2.0]}, "prompts: .* from 0 to 256; at place 1 stands 2.0"),
        ({"prompts": ["a", [1, 2.5]]}, r"prompts\[1\]: .* at place 1 stands 2.5"),
        ({"prompts": "a\ud800"}, "prompts: .* half a character"),
        ({"attention_mask": [1]}, "attention_mask: attention_mask is given beside 'a'"),
        ({"model": MODULE, "tokenizer": "gpt2"}, "tokenizer: tokenizer is 'gpt2'; .*AutoTokenizer"),
        ({"model": MODULE, "tokenizer": type(TOKENIZER)}, "tokenizer: tokenizer is <class"),
        ({"model": MODULE.model, "tokenizer": TOKENIZER}, "LlamaModel .* no logits; .* AutoModelForCausalLM"),
        (
            {"model": MODULE, "tokenizer": other_words().tokenizer, "prompts": "a word"},
            "another model's tokenizer",
        ),
        ({"stop": None}, r"stop: stop is None; .* or \(\) for none"),
        ({"stop": 5}, "stop: stop is 5; texts"),
        (
            {"drafter": None},
            "drafter: drafter is None; a name .lookup, suffix, forced, mtp, none., a generator",
        ),
        (
            {"drafter": "tokens.prompt_lookup"},
            r"a name is one of lookup, suffix, forced, mtp, none\. Else give a generator",
        ),
        ({"drafters": "none"}, "did you mean drafter?"),
        ({"gamma": 4}, "did you mean block?"),
        ({"device": "cuda"}, r"model=LocalModel\("),
        ({"chat": "no"}, "chat: chat is 'no'; True or False"),
        ({"ignore_eos": 1}, "ignore_eos: ignore_eos is 1; True or False"),
        ({"seed": "x"}, "seed: seed is 'x'; a whole number is needed"),
        ({"per_prompt": {"stop": "x"}}, "per_prompt: per_prompt is .*; a list of mappings is needed"),
        ({"per_prompt": 5}, "per_prompt: per_prompt is 5; a list of mappings"),
        ({"per_prompt": [None]}, "per_prompt: per_prompt is .None.; a list of mappings"),
    ],
)
def test_what_cannot_be_meant_is_refused(arguments, message):
    """Before anything runs: the argument, what is wrong with it, and what to do."""
    with pytest.raises(ConfigError, match=message):
        generate(**{"model": MODEL, "prompts": "a"} | arguments)


def test_numbers_may_be_numpy_s():
    """As they come out of a sweep or a table; and an array of no rows is no prompt."""
    how = {"temperature": 0.5, "seed": 3, "max_new_tokens": 5, "logprobs": 2, "top_k": 4, "block": 2}
    numbers = {
        name: np.float32(value) if name == "temperature" else np.int64(value) for name, value in how.items()
    }
    assert generate(MODEL, "abab", n=np.int64(2), batch_size=np.int64(2), **numbers) == generate(
        MODEL, "abab", n=2, batch_size=2, **how
    )
    assert generate(MODEL, np.zeros((0, 3), dtype=int)) == []


def test_a_drafter_is_no_class():
    """The pipeline says so."""
    with pytest.raises(PipelineError, match="the generator is the class PromptLookup; an instance is needed"):
        generate(MODEL, "a", PromptLookup)


def test_a_stream_takes_one_prompt():
    """Many are for generate."""
    with pytest.raises(ConfigError, match="prompt: stream takes one prompt, not 2; generate decodes many"):
        stream(MODEL, ["a", "b"])


def test_a_task_that_fails_raises():
    """With the prompt's place and why; a stream does so where it comes to it."""

    class Broken:
        traits = GeneratorTraits(shape="chain")

        def propose(self, context, n):
            if len(context.accepted) > 3:
                raise RuntimeError("out of ideas")
            return Proposal.chain(())

    with pytest.raises(DraftVerifyError, match=r"prompt 0 ended as failed: .*out of ideas"):
        generate(MODEL, TEXTS, Broken(), block=2)
    with pytest.raises(DraftVerifyError, match=r"prompt 0 ended as failed: .*out of ideas"):
        list(stream(MODEL, "abab", Broken(), block=2))
