"""A draft model of another tokenizer: text goes over and back, and the target's own output comes out."""

from __future__ import annotations

import copy
from functools import lru_cache
from typing import Any

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from draftverify import Pipeline, PipelineError, Task
from draftverify.kit import check_component, make_context
from draftverify.rules import Speculative
from draftverify_llm import LocalModel
from draftverify_tokens import Stop, Target
from draftverify_tokens.other_tokenizer import OtherTokenizer, continuation
from draftverify_tokens.self_test import self_test
from tests.tokens.joint import deviation
from tests.tokens.tiny import byte_tokenizer, rows, tiny_llama

TEXT = (
    "the ferry leaves at nine and the ferry returns at ten; there is no ferry on Monday, and none on a holiday. "
    "Ein Café, zwei Cafés: naïve Gäste aßen Crème brûlée. 12 + 34 = 46, 46 - 12 = 34.\n\n\tdef f(x):\n\t\treturn x\n"
)


@lru_cache
def words(spaces_first: bool = False) -> Any:
    """A small tokenizer of word pieces: of bytes (GPT's kind), or with a space put before every text (Llama's kind)."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    special = ["<|end|>", "<|user|>", "<|bot|>"]
    if spaces_first:
        alphabet = sorted({*map(chr, range(32, 127)), *"\n\té▁"} - {" "})
        tokenizer = Tokenizer(models.BPE(unk_token=None))
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
        tokenizer.decoder = decoders.Metaspace(prepend_scheme="first", split=False)
        trainer = trainers.BpeTrainer(vocab_size=260, initial_alphabet=alphabet, special_tokens=special)
        tokenizer.train_from_iterator(TEXT.split(), trainer)
    else:
        tokenizer = Tokenizer(models.BPE())
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        tokenizer.decoder = decoders.ByteLevel()
        alphabet = pre_tokenizers.ByteLevel.alphabet()
        trainer = trainers.BpeTrainer(vocab_size=320, initial_alphabet=alphabet, special_tokens=special)
        tokenizer.train_from_iterator([TEXT], trainer)
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|end|>")


def wordy(tokenizer: Any = None, **how: Any) -> LocalModel:
    """A random model of word pieces."""
    tokenizer = tokenizer or words()
    module = tiny_llama(len(tokenizer), seed=1, layers=1, **how)
    module.generation_config.eos_token_id = tokenizer.eos_token_id
    return LocalModel.from_module(module, tokenizer)


ASCII = tuple(range(32, 127))


@lru_cache
def writer(seed: int = 8, likely: tuple[int, ...] = (*ASCII, 0xC3, 0xA9, 0xAF)) -> LocalModel:
    """A random model of bytes that mostly writes these; so it is text, but for half a character now and then."""
    module = tiny_llama(257, seed=seed, spread=0.3)
    bias = torch.zeros(257)
    bias[list(likely)] = 4.5
    module.lm_head = torch.nn.Linear(32, 257)
    with torch.no_grad():
        module.lm_head.weight.normal_(0, 0.3, generator=torch.Generator().manual_seed(seed))
        module.lm_head.bias.copy_(bias)
    return LocalModel.from_module(module, byte_tokenizer())


def renamed(model: LocalModel) -> LocalModel:
    """The same model behind a tokenizer whose bytes have other ids."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    order = [*torch.randperm(256, generator=torch.Generator().manual_seed(0)).tolist(), 256]
    vocabulary = {token: order[byte] for token, byte in byte_tokenizer().get_vocab().items() if byte < 256}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    module = copy.deepcopy(model.model)
    with torch.no_grad():
        for weight, old in [
            (module.model.embed_tokens.weight, model.model.model.embed_tokens.weight),
            (module.lm_head.weight, model.model.lm_head.weight),
            *([(module.lm_head.bias, model.model.lm_head.bias)] if module.lm_head.bias is not None else []),
        ]:
            weight[torch.tensor(order)] = old
    return LocalModel.from_module(
        module, PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|end|>")
    )


def pipeline_of(generator: Any, target: LocalModel, block: int, tokens: int = 40) -> Pipeline:
    done = Stop(tokens, ignore_eos=True)
    return Pipeline(
        generator, Target(target), Speculative(), block=block, done=done, settings={"temperature": 0}
    )


# Text in other tokens

texts = st.text(st.sampled_from("the ferry on Monday.\n\té日😀<|>end "), max_size=12)


@settings(max_examples=200)
@given(texts, texts)
@example("the fer", "ry leaves")
@example("no", "<|end|>")
@example("<|user|>", "a")
@example("", " x")
def test_going_on_adds_exactly_the_text(before, text):
    """Tokens of the text before, then what goes on from them, are the two texts, wherever they were cut."""
    for model in (wordy(), writer()):
        tokens = list(model.tokenizer(before, add_special_tokens=False).input_ids)
        found = continuation(model, tokens, text)
        whole = model.tokenizer.decode(tokens + found, skip_special_tokens=False)
        assert whole == before + text
        # A special token's name in a text is read as the token; the rule has the last word on such a draft.


pieces_of_text = st.sampled_from(
    ["the", " ferry", " on", " Monday", ".", "\n", " x", "ferr", "y", ",", "  a"]
)


@settings(max_examples=200)
@given(st.lists(pieces_of_text, min_size=1, max_size=8), st.lists(pieces_of_text, min_size=1, max_size=8))
@example(["the"], ["y"])
def test_a_tokenizer_that_puts_a_space_first_puts_none_inside(before, after):
    """Words go on without a space, and spaces are not doubled."""
    model = wordy(tokenizer=words(spaces_first=True))
    start, text = "".join(before), "".join(after)
    tokens = list(model.tokenizer(start).input_ids)
    found = continuation(model, tokens[-12:], text)
    assert model.decode(tokens + found) == model.decode(list(model.tokenizer(start + text).input_ids))


def test_words_are_cut_as_the_tokenizer_would_have_cut_them():
    """Between words the tokens are those of the whole text."""
    model = wordy()
    whole = list(model.tokenizer(TEXT).input_ids)
    for cut in [place for place, letter in enumerate(TEXT) if letter == " " and place < 100]:
        found = list(model.tokenizer(TEXT[:cut]).input_ids)
        assert found + continuation(model, found[-12:], TEXT[cut:]) == whole


# What comes out


@pytest.mark.parametrize(
    ("block", "tokenizer"),
    [
        pytest.param(
            block,
            words(spaces_first=spaces_first),
            marks=()
            if (block, spaces_first) in ((1, False), (4, True), (9, False))
            else pytest.mark.exhaustive,
            id=f"{block}-{'spaces_first' if spaces_first else 'bytes'}",
        )
        for block in (1, 4, 9)
        for spaces_first in (False, True)
    ],
)
def test_greedy_output_is_the_targets(block, tokenizer):
    """Text, turns and bare ids; alone and in batches; drafts of a model that knows nothing."""
    target = writer()
    part = OtherTokenizer(wordy(tokenizer=tokenizer), target)
    tasks: list[Any] = [
        {"prompt": "the ferry"}, {"prompt": "é <|end|> 日"}, {"prompt_ids": [0xC3]}, {"prompt_ids": [65, 66, 256, 67]},
        {"prompt": " leading"}, {"prompt": "x\n"}, {"prompt": "naïve"}, {"prompt": "Monday, " * 20},
    ]  # fmt: skip
    tasks = [Task(id=str(i), input=input) for i, input in enumerate(tasks)]
    prompts = [Target(target).prepare(task).input["prompt_ids"] for task in tasks]
    expected = [generated_past_the_end(target, prompt, 30) for prompt in prompts]
    pipeline = pipeline_of(part, target, block, 30)
    for size in (1, 3, 8):
        outcomes = pipeline.run(tasks[:size])
        assert [list(outcome.value) for outcome in outcomes] == expected[:size]


def generated_past_the_end(model: LocalModel, prompt: list[int], n: int) -> list[int]:
    tokens = list(prompt)
    for _ in range(n):
        tokens.append(int(rows(model, tokens, 1)[0].argmax()))
    return tokens[len(prompt) :]


@pytest.mark.parametrize("seed", [8, 9, 10])
def test_the_target_behind_another_tokenizer_is_accepted(seed):
    """What it writes is what the target writes: nine of ten drafted tokens are kept, and few passes are needed."""
    target = writer(seed, ASCII)
    outcome = pipeline_of(OtherTokenizer(renamed(target), target), target, 6, 60).run(
        {"prompt": "the ferry "}
    )
    assert list(outcome.value) == generated_past_the_end(
        target, Target(target).prepare(Task(id="a", input={"prompt": "the ferry "})).input["prompt_ids"], 60
    )
    assert outcome.tally.trials > 40
    assert outcome.tally.accepted >= 0.9 * outcome.tally.trials


@pytest.mark.slow
def test_sampled_output_has_the_targets_distribution():
    """1,200 answers against the enumerated joint; an honest drafter fails once in a million seeds."""
    target = LocalModel.from_module(tiny_llama(6, seed=5, layers=1, spread=0.6), byte_tokenizer())
    how = {"block": 2, "tasks": 1200, "prompt": [0, 3, 1], "settings": {"temperature": 1.2}, "batch": 60}
    found, limit = deviation(OtherTokenizer(wordy(), target), target, Speculative(), **how)
    assert found < limit


# One round


def spelling(text: str, ends: bool = False, tokenizer: Any = None) -> LocalModel:
    """A model that writes one text over and over, whatever it reads: the token after each is fixed."""
    tokenizer = tokenizer or words()
    ids = list(tokenizer(text, add_special_tokens=False).input_ids) + (
        [tokenizer.eos_token_id] if ends else []
    )
    assert len(set(ids)) == len(ids)
    model = wordy(tokenizer=tokenizer)
    module = model.model
    size, width = len(tokenizer), len(ids) + 1
    with torch.no_grad():
        for weight in (each for layer in module.model.layers for each in layer.parameters()):
            weight.zero_()
        module.model.norm.weight.fill_(1.0)
        embeddings = torch.zeros(size, module.config.hidden_size)
        embeddings[:, width - 1] = 1.0  # any other token
        for place, token in enumerate(ids):
            embeddings[token] = torch.eye(module.config.hidden_size)[place]
        module.model.embed_tokens.weight.copy_(embeddings)
        head = torch.zeros(size, module.config.hidden_size)
        head[ids[0], width - 1] = 1.0
        for place in range(len(ids)):
            head[ids[(place + 1) % len(ids)], place] = 1.0
        module.lm_head.weight.copy_(head)
    return model


@pytest.mark.parametrize("tokenizer", [words(), words(spaces_first=True)], ids=["bytes", "spaces_first"])
def test_text_is_drafted_in_the_targets_tokens(tokenizer):
    """A word piece is many bytes, the space before the first one among them; the block is cut to its size."""
    target = writer()
    part = OtherTokenizer(spelling(" ferry leaves", tokenizer=tokenizer), target)
    context = make_context(Target(target).prepare(Task(id="a", input={"prompt": "the"})))
    assert bytes(part.propose(context, 9).items) == b" ferry le"
    again = part.propose(make_context(context.task, accepted=list(b" ferry")), 7)
    assert len(again.items) == 7
    assert again.law.kind == "given"


def test_the_end_of_the_draft_models_answer_is_the_targets_end():
    """Its end token has no text, and stands for the target's."""
    target = writer()
    part = OtherTokenizer(spelling(" no ferry", ends=True), target)
    context = make_context(Target(target).prepare(Task(id="a", input={"prompt": "the"})))
    assert part.propose(context, 40).items == (*b" no ferry", 256)


def test_nothing_is_drafted_inside_a_character():
    """The text of half a character is not known; when it is whole, drafting goes on."""
    target = writer()
    part = OtherTokenizer(spelling(" ferry"), target)
    task = Target(target).prepare(Task(id="a", input={"prompt": "Caf"}))
    scratch: dict[Any, Any] = {}
    half = part.propose(make_context(task, accepted=[0xC3], scratch=scratch), 6)
    assert len(half) == 0
    assert not half.exhausted
    whole = part.propose(make_context(task, accepted=[0xC3, 0xA9], rounds=1, scratch=scratch), 6)
    assert bytes(whole.items) == b" ferry"


def test_half_a_character_of_the_draft_model_is_not_drafted():
    """Its text is brought over as far as it is text."""
    target = writer()
    first = list(words()("日", add_special_tokens=False).input_ids)
    model = spelling("ab日")
    part = OtherTokenizer(model, target)
    context = make_context(Target(target).prepare(Task(id="a", input={"prompt": "xx"})))
    assert len(first) == 3
    # The two prompts have as many tokens, so four drafted tokens are "ab" and two thirds of a character.
    assert bytes(part.propose(context, 4).items) == b"ab"


def read_by(model: LocalModel) -> list[list[int]]:
    """The ids of every pass of the model from now on, those of its self-test apart."""
    seen: list[list[int]] = []
    model.model.model.embed_tokens.register_forward_pre_hook(
        lambda _, given: seen.append(given[0][0].tolist())
    )
    self_test(model.model)  # with the hook, which makes it another model
    seen.clear()
    return seen


TEMPLATE = "{% for m in messages %}<|user|>{{ m['content'] }}{% endfor %}<|bot|>"


@pytest.mark.parametrize(
    ("input", "text"),
    [
        ({"prompt": "the ferry"}, "<|user|>the ferry<|bot|>"),
        ({"prompt": "the ferry", "chat": False}, "the ferry"),
        ({"messages": [{"role": "user", "content": "the ferry"}]}, "<|user|>the ferry<|bot|>"),
        ({"prompt_ids": list(b"the ferry")}, "the ferry"),
    ],
)
def test_the_draft_model_gets_the_prompt_in_its_own_way(input, text):
    """Its own chat template for text and turns; the text of bare ids."""
    target = copy.copy(writer())
    target._loaded = (target.model, copy.deepcopy(target.tokenizer))
    target.tokenizer.chat_template = "{% for m in messages %}[{{ m['content'] }}]{% endfor %}"
    tokenizer = copy.deepcopy(words())
    tokenizer.chat_template = TEMPLATE
    model = wordy(tokenizer=tokenizer)
    seen = read_by(model)
    context = make_context(Target(target).prepare(Task(id="a", input=input)), accepted=list(b" on"))
    OtherTokenizer(model, target).propose(context, 1)
    assert seen[0] == list(tokenizer(text + " on").input_ids)


def test_turns_without_a_template_are_read_as_text():
    """The target's text of them."""
    target = copy.copy(writer())
    target._loaded = (target.model, copy.deepcopy(target.tokenizer))
    target.tokenizer.chat_template = "{% for m in messages %}[{{ m['content'] }}]{% endfor %}"
    model = wordy()
    seen = read_by(model)
    input = {"messages": [{"role": "user", "content": "the ferry"}]}
    OtherTokenizer(model, target).propose(make_context(Target(target).prepare(Task(id="a", input=input))), 1)
    assert seen[0] == list(words()("[the ferry]").input_ids)


class Measuring:
    """A tokenizer that notes how long the texts were that it encoded."""

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer
        self.lengths: list[int] = []

    def __call__(self, text: str, **how: Any) -> Any:
        self.lengths.append(len(text))
        return self.tokenizer(text, **how)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.tokenizer, name)


@settings(max_examples=4)
@given(st.integers(0, 10_000), st.sampled_from([b"abc     e\xc3\xa9", b"abcdefgh", b"\xc3\xa9"]))
def test_a_long_answer_is_followed_piece_by_piece(seed, letters):
    """Round by round or from nothing, the draft is the same; and no more than two stretches are encoded anew."""
    target, model = writer(), wordy(positions=2048)
    generator = torch.Generator().manual_seed(seed)
    answer = [letters[i] for i in torch.randint(len(letters), (700,), generator=generator)]
    measuring, seen = Measuring(model.tokenizer), read_by(model)
    part = OtherTokenizer(LocalModel.from_module(model.model, measuring), target)
    task = Target(target).prepare(Task(id="a", input={"prompt": "the"}))
    scratch: dict[Any, Any] = {}
    for place in range(0, len(answer), 100):
        measuring.lengths.clear()
        kept = part.propose(make_context(task, accepted=answer[:place], rounds=place, scratch=scratch), 3)
        assert max(measuring.lengths, default=0) < 280
        seen.clear()
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr("draftverify_tokens.slots.SHARED", 10**9)  # else it takes the other's words
            lost = part.propose(make_context(task, accepted=answer[:place], rounds=place), 3)
        assert kept.items == lost.items
        assert not seen or model.decode(seen[0]) == target.decode([*b"the", *answer[:place]])


def test_words_that_are_cut_from_their_end_are_read_anew():
    """Where new text moves the cuts before it, the draft model's cache follows, though a token stayed at its place."""
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    groups = ["5", "57", "7", "77", "777", "\n", "1", "12", "123", "3", "<|end|>"]
    tokenizer = Tokenizer(
        models.WordLevel({group: place for place, group in enumerate(groups)}, unk_token="1")
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(r"\d{1,3}(?=(?:\d{3})*(?:\D|$))"), "isolated")
    tokenizer.decoder = decoders.Fuse()
    model = wordy(PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|end|>"))
    assert [groups[i] for i in model.tokenizer("57777").input_ids] == ["57", "777"]
    assert [groups[i] for i in model.tokenizer("5777777").input_ids] == ["5", "777", "777"]
    target = writer()
    part = OtherTokenizer(model, target)
    task = Target(target).prepare(Task(id="a", input={"prompt": "\n"}))
    for seed in range(8):
        torch.manual_seed(seed)
        torch.nn.init.normal_(model.model.lm_head.weight)
        scratch: dict[Any, Any] = {}
        part.propose(make_context(task, accepted=list(b"57777"), scratch=scratch), 5)
        kept = part.propose(make_context(task, accepted=list(b"5777777"), rounds=1, scratch=scratch), 5)
        lost = part.propose(make_context(task, accepted=list(b"5777777"), rounds=1), 5)
        assert kept.items == lost.items


def test_of_the_settings_the_penalties_reach_the_draft_model():
    """It penalises its own tokens; a bias or a filter speaks of the target's, and changes nothing."""
    target = writer(8, ASCII)
    part = OtherTokenizer(renamed(target), target)
    task = Target(target).prepare(Task(id="a", input={"prompt": "the ferry"}))

    def drafted(**how: Any) -> Any:
        return part.propose(make_context(task, accepted=list(b" is here is here"), settings=how), 8).items

    assert drafted(logit_bias={101: 50.0}, top_k=1, temperature=0.3) == drafted()
    assert drafted(frequency_penalty=2.0, repetition_penalty=1.5) != drafted()


def test_positions_bound_the_block():
    """No more tokens than the target has positions for."""
    target = writer()
    part = OtherTokenizer(spelling(" ferry"), target)
    task = Target(target).prepare(Task(id="a", input={"prompt": "the"}))
    near = make_context({**task.input, "positions": 5})
    assert bytes(part.propose(near, 9).items) == b" f"
    assert len(part.propose(make_context({**task.input, "positions": 3}), 9)) == 0


def test_the_conformance_kit_finds_nothing():
    """Law, batches, scratch with other answers than were drafted."""
    target = writer()
    tasks = [{"prompt": "the ferry"}, {"prompt": "no"}]
    contexts = [
        make_context(Target(target).prepare(Task(id=str(i), input=input)), accepted=accepted)
        for i, input in enumerate(tasks)
        for accepted in ([], list(b" on"), list(b"x"))
    ]
    check_component(OtherTokenizer(wordy(), target), contexts=contexts, tolerance=1e-4, trials=100)


def test_a_target_of_another_tokenizer_is_refused_before_any_task():
    """What is proposed are tokens of the drafter's `target`; another verifier would check something else."""
    drafter = OtherTokenizer(wordy(), wordy())
    with pytest.raises(PipelineError, match="vocabular"):
        Pipeline(
            drafter, Target(LocalModel.from_module(tiny_llama(257), byte_tokenizer())), Speculative(), block=3
        )
