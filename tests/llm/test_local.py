"""The local model: prompts to ids and back, and sampling that follows the model's own probabilities."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from draftverify.errors import ConfigError, ResourceError
from draftverify_llm import Completion, LocalModel, TextModel, sampling
from tests.tokens.families import module_of

from .conftest import build_tiny


def logits(model: LocalModel, ids: list[int]) -> Any:
    """The model's logits after each prefix of `ids`."""
    import torch

    with torch.inference_mode():
        return model.model(torch.tensor([ids])).logits[0].double()


def sample(model: Any, prompt: list[int], *, n: int, seed: int, **how: Any) -> list[Completion]:
    """Answers to one prompt."""
    return sampling.sample(model, [prompt], n=[n], seeds=[seed], **how)[0]


def remembering(answers: list[list[int]]) -> Callable[[Sequence[int]], str]:
    """A decoder for `sample` that keeps the ids it is given."""

    def decode(ids: Sequence[int]) -> str:
        answers.append(list(ids))
        return ""

    return decode


def test_text_goes_through_the_template_as_one_turn(tiny: LocalModel) -> None:
    """`prompt` and the same text as `messages` give the same ids, ending in the opening of the answer."""
    ids = tiny.encode_prompt({"prompt": "hi"})
    assert tiny.decode(ids) == "[user]hi[assistant]"
    assert ids == tiny.encode_prompt({"messages": [{"role": "user", "content": "hi"}], "prompt": "not this"})


def test_chat_false_takes_the_text_as_it_stands(tiny: LocalModel) -> None:
    """No template where the task says so; null says nothing."""
    assert tiny.decode(tiny.encode_prompt({"prompt": "hi", "chat": False})) == "hi"
    assert tiny.encode_prompt({"prompt": "hi", "chat": None}) == tiny.encode_prompt({"prompt": "hi"})


@pytest.mark.parametrize("turns", [["system", "user"], ["assistant"]])
def test_a_template_that_refuses_turns_is_named_with_them(turns: list[str]) -> None:
    """As those of models without a system's turn do; and nothing stands before the one that is to be continued."""
    template = "{% if messages[0].role == 'system' %}{{ raise_exception('no system turn') }}{% endif %}x"
    model = LocalModel.from_module(*build_tiny(template=template))
    with pytest.raises(
        ConfigError, match=rf"chat template does not take these turns \({', '.join(turns)}\): "
    ):
        model.encode_prompt({"messages": [{"role": role, "content": "a"} for role in turns]})
    assert model.decode(model.encode_prompt({"prompt": "hi"})) == "x"


def test_a_base_model_takes_text_and_refuses_turns() -> None:
    """Without a template `prompt` is encoded as it stands, and `messages` are a config error."""
    base = LocalModel.from_module(*build_tiny(template=None))
    assert base.decode(base.encode_prompt({"prompt": "hi"})) == "hi"
    with pytest.raises(ConfigError, match="chat template"):
        base.encode_prompt({"messages": [{"role": "user", "content": "hi"}]})


@pytest.mark.parametrize(
    "input",
    [
        {},
        {"prompt": 3},
        {"messages": []},
        {"messages": "hi", "x": 1} | {"messages": [3]},
        {"messages": [{"role": "user"}]},
    ],
)
def test_an_input_without_a_prompt_is_a_config_error(tiny: LocalModel, input: dict[str, Any]) -> None:
    """What is missing or of the wrong form is named."""
    with pytest.raises(ConfigError, match=r"prompt|messages"):
        tiny.encode_prompt(input)


def test_decode_gives_back_any_text(tiny: LocalModel) -> None:
    """Spaces, accents and control characters come back as they went in."""
    for text in ("a  b ,c !", "é 日本 😀", "x\n\t y\r\n", " don't "):
        assert tiny.decode(tiny.encode_prompt({"prompt": text, "chat": False})) == text


def test_a_vocabulary_is_known_by_its_ids(tiny: LocalModel) -> None:
    """It depends on the tokenizer's ids alone."""
    model, tokenizer = build_tiny(template=None)
    assert LocalModel.from_module(model, tokenizer).vocabulary == tiny.vocabulary
    tokenizer.add_tokens(["<more>"])
    assert LocalModel.from_module(model, tokenizer).vocabulary != tiny.vocabulary


def test_end_ids_come_from_model_and_tokenizer() -> None:
    """A generation config with several end tokens has all of them heard."""
    model, tokenizer = build_tiny()
    model.generation_config.eos_token_id = [3, 9]
    assert LocalModel.from_module(model, tokenizer).eos_ids == {3, 9, tokenizer.eos_token_id}


def test_temperature_zero_is_the_model_s_own_greedy_text(tiny: LocalModel) -> None:
    """The answer is the argmax at every step, as a plain loop without a cache finds it."""
    ids = tiny.encode_prompt({"prompt": "count"})
    expected: list[int] = []
    for _ in range(30):
        token = int(logits(tiny, ids + expected)[-1].argmax())
        if token in tiny.eos_ids:
            break
        expected.append(token)
    (made,) = tiny.complete("count", temperature=0, max_tokens=30)
    assert made.text == tiny.decode(expected)


def test_logprob_is_the_model_s_own(tiny: LocalModel) -> None:
    """The log-probability of what was sampled equals that of scoring it in one pass, at any temperature."""
    prompt = tiny.encode_prompt({"prompt": "abc"})
    answers: list[list[int]] = []
    drawn = sample(
        tiny.model, prompt, n=3, max_tokens=6, temperature=0.7, top_p=0.9, seed=1, ends=(),
        decode=remembering(answers),
    )  # fmt: skip
    for each, out in zip(drawn, answers, strict=True):
        rows = logits(tiny, prompt + out).log_softmax(-1)[len(prompt) - 1 : -1]
        assert each.logprob == pytest.approx(float(rows[range(6), out].sum()), abs=1e-4)


@pytest.mark.parametrize(("temperature", "top_p"), [(1.0, 1.0), (0.6, 1.0), (1.0, 0.5)])
def test_samples_follow_the_law(tiny: LocalModel, temperature: float, top_p: float) -> None:
    """First tokens of 4,000 answers have the frequencies of the model's distribution (chi-square, p > 1e-4)."""
    from scipy.stats import chisquare

    p = (
        (logits(tiny, tiny.encode_prompt({"prompt": "z", "chat": False}))[-1] / temperature)
        .softmax(-1)
        .numpy()
    )
    order = np.argsort(-p)
    keep = order[np.cumsum(p[order]) - p[order] < top_p]
    law = np.zeros_like(p)
    law[keep] = p[keep] / p[keep].sum()

    drawn: list[list[int]] = []
    sample(
        tiny.model, tiny.encode_prompt({"prompt": "z", "chat": False}), n=4000, max_tokens=1, temperature=temperature,
        top_p=top_p, seed=11, ends=(), decode=remembering(drawn),
    )  # fmt: skip
    counts = np.bincount([ids[0] for ids in drawn], minlength=len(p)).astype(float)
    assert counts[law == 0].sum() == 0
    common = law * 4000 >= 5
    observed = np.append(counts[common], counts[~common & (law > 0)].sum())
    expected = np.append(law[common], law[~common].sum()) * 4000
    if expected[-1] == 0:
        observed, expected = observed[:-1], expected[:-1]
    assert chisquare(observed, expected * observed.sum() / expected.sum()).pvalue > 1e-4


def test_a_seed_fixes_the_answers_and_n_only_adds(tiny: LocalModel) -> None:
    """The same seed gives the same texts; three answers are the first three of five; another seed gives others."""
    five = tiny.complete("hello", n=5, max_tokens=12, seed=4)
    assert tiny.complete("hello", n=5, max_tokens=12, seed=4) == five
    assert [each.text for each in tiny.complete("hello", n=3, max_tokens=12, seed=4)] == [
        each.text for each in five[:3]
    ]
    assert len({each.text for each in five}) == 5
    assert tiny.complete("hello", n=5, max_tokens=12, seed=5) != five


def test_no_seed_leaves_torch_s_generator_alone(tiny: LocalModel) -> None:
    """Sampling never touches global random state, seeded or not."""
    import torch

    before = torch.get_rng_state()
    tiny.complete("x", max_tokens=3, seed=1)
    tiny.complete("x", max_tokens=3)
    assert torch.equal(before, torch.get_rng_state())


def test_a_stop_string_ends_the_answer_and_is_left_out(tiny: LocalModel) -> None:
    """Sampling ends with the token that completes the stop string, in the middle of a batch too."""
    free = tiny.complete("go", n=4, max_tokens=40, seed=2)
    stop = free[0].text[5:7]
    cut = tiny.complete("go", n=4, max_tokens=40, seed=2, stop=[stop])
    for whole, short in zip(free, cut, strict=True):
        assert short.text == whole.text.partition(stop)[0]
    assert cut[0].finish_reason == "stop"
    assert cut[0].tokens_out < free[0].tokens_out


def test_an_end_token_ends_the_answer(tiny: LocalModel) -> None:
    """The end token is counted, and is in neither the text nor the log-probability."""
    prompt = tiny.encode_prompt({"prompt": "q"})
    texts: list[list[int]] = []

    def draw(max_tokens: int, ends: tuple[int, ...]) -> Any:
        return sample(
            tiny.model, prompt, n=1, max_tokens=max_tokens, temperature=0, top_p=1, seed=0, ends=ends,
            decode=remembering(texts),
        )[0]  # fmt: skip

    draw(20, ())
    (free,) = texts
    at = free.index(free[5])
    before = draw(at, ())
    ended = draw(20, (free[5],))
    assert texts[-1] == free[:at]
    assert (ended.finish_reason, ended.tokens_out) == ("stop", at + 1)
    assert ended.logprob == before.logprob


def test_the_prompt_is_counted_once(tiny: LocalModel) -> None:
    """Tokens in, summed over answers that share one reading of the prompt, are the prompt's length."""
    made = tiny.complete("hello", n=3, max_tokens=4, seed=0)
    assert sum(each.tokens_in for each in made) == len(tiny.encode_prompt({"prompt": "hello"}))
    assert all(1 <= each.tokens_out <= 4 for each in made)
    assert tiny.price(made) == 0


MANY: list[Any] = ["a", "count to ten, one number a line", [{"role": "user", "content": "q" * 60}], "a"]


@pytest.mark.parametrize("n", [[2, 3, 1, 4], [1, 1, 1, 1]])
@pytest.mark.parametrize("at_once", [1, 3, 64])
@pytest.mark.parametrize("temperature", [0, 0.8])
def test_prompts_in_one_batch_are_answered_as_one_by_one(
    tiny: LocalModel, temperature: float, at_once: int, n: list[int]
) -> None:
    """Prompts of any lengths and numbers of answers, whatever shares the batch, with rows that end before others."""
    model = LocalModel.from_module(tiny.model, tiny.tokenizer)
    model.at_once = at_once
    how: dict[str, Any] = {"max_tokens": 24, "temperature": temperature, "stop": [*"etaoin"]}
    seeds = [3, 4, 5, 6]
    together = model.complete_many(MANY, n=n, seeds=seeds, **how)
    assert len({each.tokens_out for answers in together for each in answers}) >= 2
    for k, answers in enumerate(together):
        alone = tiny.complete(MANY[k], n=n[k], seed=seeds[k], **how)
        assert [(each.text, each.tokens_out, each.finish_reason) for each in answers] == [
            (each.text, each.tokens_out, each.finish_reason) for each in alone
        ]
        for one, other in zip(answers, alone, strict=True):
            assert one.logprob == pytest.approx(other.logprob, abs=1e-4)


@pytest.mark.parametrize("kind", ["Bloom", "Gemma3", "Lfm2"])
def test_other_kinds_of_models_answer_a_batch_as_one_by_one(kind: str) -> None:
    """Places by a bias, windows that the padding fills, and layers that are no attention and cannot leave it out."""
    import torch
    import transformers

    shape: dict[str, Any] = {"vocab_size": 60, "hidden_size": 32, "num_hidden_layers": 2}
    heads = {"intermediate_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2}
    config: Any = {
        "Bloom": lambda: transformers.BloomConfig(**shape, n_head=4),
        "Gemma3": lambda: transformers.Gemma3TextConfig(**shape, **heads, head_dim=8, sliding_window=6),
        "Lfm2": lambda: transformers.Lfm2Config(**shape, **heads, layer_types=["conv", "full_attention"]),
    }[kind]()
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = getattr(transformers, f"{kind}ForCausalLM")(config).eval()
    with torch.no_grad():
        for each in model.parameters():
            each.mul_(3 if each.dim() > 1 else 1)  # so that it is sure of something
    prompts, n, seeds = [[5, 6, 7], [9] * 11 + [3, 4], [2]], [2, 1, 3], [1, 2, 3]
    how: dict[str, Any] = {"max_tokens": 12, "temperature": 0.9, "top_p": 0.95, "ends": {1}, "decode": str}
    together = sampling.sample(model, prompts, n=n, seeds=seeds, **how)
    alone = [
        [sample(model, prompt, n=i + 1, seed=seed, **how)[i] for i in range(count)]
        for prompt, count, seed in zip(prompts, n, seeds, strict=True)
    ]
    assert [[each.text for each in row] for row in together] == [[each.text for each in row] for row in alone]
    for some, others in zip(together, alone, strict=True):
        assert [each.logprob for each in some] == pytest.approx([each.logprob for each in others], abs=1e-4)


@pytest.mark.parametrize("family", ["llama", "mpt", "mamba", "bamba", "minimax", "roformer"])
def test_greedy_answers_are_the_module_s_own(family: str) -> None:
    """Whatever it keeps of what it has read, and whatever it calls that: the tokens of reading all anew each time."""
    import torch

    model, prompts = module_of(family), [[3, 4, 5], [6, 7, 8, 9, 10, 11]]
    expected = [list(prompt) for prompt in prompts]
    with torch.inference_mode():
        for ids in expected * 5:
            ids.append(int(model(torch.tensor([ids]), use_cache=False).logits[0, -1].argmax()))
    answers: list[list[int]] = []
    sampling.sample(
        model, prompts, n=[1, 1], seeds=[0, 0], max_tokens=5, temperature=0, top_p=1, ends=(),
        decode=remembering(answers),
    )  # fmt: skip
    assert answers == [ids[len(prompt) :] for ids, prompt in zip(expected, prompts, strict=True)]


def test_a_model_without_a_cache_is_refused() -> None:
    """It would begin each token anew, from nothing."""
    model = module_of("openai-gpt")
    for n in (1, 2):
        with pytest.raises(ConfigError, match="OpenAIGPTLMHeadModel gives no cache back"):
            sample(model, [3, 4], n=n, seed=0, max_tokens=2, temperature=0, top_p=1, ends=(), decode=str)


def test_an_empty_prompt_is_refused_whatever_shares_the_batch(tiny: LocalModel) -> None:
    """Of nothing there is no next token; in a batch its padding would have answered."""
    for prompts in ([""], ["", "a"]):
        with pytest.raises(ConfigError, match="a prompt is empty"):
            tiny.complete_many(prompts, n=[1] * len(prompts), seeds=[1] * len(prompts), chat=False)


def test_a_batch_has_no_more_rows_than_allowed(tiny: LocalModel) -> None:
    """Of 11 answers with at most 4 at once none are sampled beside more than three others."""
    model, rows = LocalModel.from_module(tiny.model, tiny.tokenizer), []
    model.at_once = 4
    hook = tiny.model.register_forward_pre_hook(
        lambda module, args, kwargs: rows.append(args[0].shape[0]), with_kwargs=True
    )
    try:
        made = model.complete_many(["a", "bb", "c"], n=[7, 1, 3], seeds=[1, 2, 3], max_tokens=5)
    finally:
        hook.remove()
    assert [len(answers) for answers in made] == [7, 1, 3]
    assert max(rows) == 4
    # A prompt whose answers lie in two batches is read, and counted, twice.
    assert sum(each.tokens_in for each in made[0]) == 2 * len(tiny.encode_prompt({"prompt": "a"}))
    model.at_once = 0
    with pytest.raises(ConfigError, match="at_once is 0"):
        model.complete("a")


def test_rows_that_ended_leave_the_batch(tiny: LocalModel) -> None:
    """The last passes have only the rows that are still being sampled."""
    rows: list[int] = []
    stop = tiny.complete("go", max_tokens=8, seed=1)[0].text[:2]
    hook = tiny.model.register_forward_pre_hook(
        lambda module, args, kwargs: rows.append(args[0].shape[0]), with_kwargs=True
    )
    try:
        first, *_ = tiny.complete_many(
            ["go", "go", "other"], n=[1, 1, 1], seeds=[1, 1, 2], max_tokens=30, stop=[stop]
        )
    finally:
        hook.remove()
    assert first[0].finish_reason == "stop"
    assert rows[:2] == [3, 3]
    assert rows[-1] == 1


def test_turns_that_end_with_the_assistants_are_continued(tiny: LocalModel) -> None:
    """The answer goes on from the words that the last turn has."""
    turns = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "Step 1.\n"}]
    assert tiny.decode(tiny.encode_prompt({"messages": turns})) == "[user]hi[assistant]Step 1.\n"


@pytest.mark.parametrize(
    "bad",
    [
        {"n": 0},
        {"max_tokens": 0},
        {"temperature": -1.0},
        {"top_p": 0.0},
        {"top_p": 1.5},
        {"stop": "END"},
        {"stop": ["a", ""]},
        {"stop": None},
    ],
)
def test_settings_out_of_range_are_refused(tiny: LocalModel, bad: dict[str, Any]) -> None:
    """Before anything is computed."""
    with pytest.raises(ConfigError):
        tiny.complete("x", **bad)


def test_a_directory_loads_on_first_use_and_again_after_close(tiny_directory: Path, tiny: LocalModel) -> None:
    """The constructor loads nothing; `close` frees, and the next use loads again with equal answers."""
    model = LocalModel(str(tiny_directory), dtype="float32")
    first = model.complete("hello", n=2, max_tokens=8, seed=3)
    assert [each.text for each in first] == [
        each.text for each in tiny.complete("hello", n=2, max_tokens=8, seed=3)
    ]
    before = model.model
    model.close()
    assert model.model is not before
    assert model.complete("hello", n=2, max_tokens=8, seed=3) == first


def test_threads_that_open_at_once_load_once(tiny_directory: Path) -> None:
    """Eight threads get one and the same module."""
    model = LocalModel(str(tiny_directory))
    found: list[Any] = []
    threads = [threading.Thread(target=lambda: found.append(model.model)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    assert len({id(each) for each in found}) == 1


def test_the_dtype_is_obeyed(tiny_directory: Path) -> None:
    """ "auto" is the type on disk, a name is that type."""
    import torch

    assert LocalModel(str(tiny_directory)).model.dtype == torch.float32
    assert LocalModel(str(tiny_directory), dtype="bfloat16").model.dtype == torch.bfloat16


def test_a_broken_directory_or_device_is_a_clear_error(tiny_directory: Path, tmp_path: Path) -> None:
    """What transformers or torch says is passed on under the name of the weights."""
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(ResourceError, match="could not be loaded"):
        LocalModel(str(tmp_path)).open()
    with pytest.raises(ResourceError, match="warp"):
        LocalModel(str(tiny_directory), device="warp").open()


def test_a_model_of_several_kinds_takes_as_many_tokens_as_its_text_model() -> None:
    """Its own config says nothing of them."""
    import transformers

    module = SimpleNamespace(config=transformers.Gemma3Config(text_config={"max_position_embeddings": 77}))
    assert sampling.window_of(module) == 77


@pytest.mark.parametrize("most", [5, 40])
def test_an_answer_ends_where_the_model_has_no_position_left(most: int) -> None:
    """Its last token is the one after a full text; beside it shorter texts go on. A longer prompt is refused."""
    import transformers

    _, tokenizer = build_tiny()
    config = transformers.GPT2Config(
        vocab_size=len(tokenizer), n_positions=32, n_embd=32, n_layer=2, n_head=4, eos_token_id=None
    )
    model = LocalModel.from_module(transformers.GPT2LMHeadModel(config).eval(), tokenizer)
    answers = model.complete_many(
        ["x" * 30, "y" * 12], n=[1, 2], seeds=[1, 2], max_tokens=most, temperature=0, chat=False
    )
    ended = [[(answer.tokens_out, answer.finish_reason) for answer in row] for row in answers]
    assert ended == [[(3, "length")], [(min(most, 21), "length")] * 2]
    assert answers[1][0].text == model.complete("y" * 12, max_tokens=most, temperature=0, chat=False)[0].text
    with pytest.raises(ConfigError, match="the prompt has 33 tokens, and the model takes 32"):
        model.complete("x" * 33, chat=False)


def test_weights_without_a_head_are_refused(tmp_path: Path) -> None:
    """What the files lack would be random numbers, and the answers noise."""
    model, tokenizer = build_tiny()
    model.model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    with pytest.raises(ResourceError, match=r"lack lm_head\.weight, which would be random numbers"):
        LocalModel(str(tmp_path)).open()


def test_acomplete_answers_as_complete(tiny: LocalModel) -> None:
    """The awaited form gives the same."""
    assert asyncio.run(tiny.acomplete("hello", max_tokens=5, seed=1)) == tiny.complete(
        "hello", max_tokens=5, seed=1
    )
    assert isinstance(tiny, TextModel)


@pytest.mark.weights
def test_the_catalogue_s_model_answers() -> None:
    """The real weights know a capital, and end their answer."""
    model = LocalModel("smollm2-135m-instruct")
    (made,) = model.complete("What is the capital of France?", max_tokens=30, temperature=0)
    assert "Paris" in made.text
    assert made.finish_reason == "stop"


@pytest.mark.weights
@pytest.mark.exhaustive
def test_the_catalogue_s_model_answers_a_batch_as_one_by_one() -> None:
    """In float32 ragged prompts in one batch have the texts of single calls, greedy and sampled."""
    model = LocalModel("smollm2-135m-instruct", dtype="float32")
    prompts = [f"What is {i} plus {i * i}?" + " Think." * 3 * i for i in range(3)]
    for temperature in (0.0, 0.8):
        how: dict[str, Any] = {"max_tokens": 10, "temperature": temperature}
        together = model.complete_many(prompts, n=[1] * 3, seeds=list(range(3)), **how)
        alone = [model.complete(prompt, seed=k, **how)[0].text for k, prompt in enumerate(prompts)]
        assert [answers[0].text for answers in together] == alone
