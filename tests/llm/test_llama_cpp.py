"""llama.cpp in this process: settings are followed, accounts are right, errors are ours."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from draftverify.errors import ConfigError, ResourceError
from draftverify_llm import LlamaCpp, LocalModel, TextModel

SMALL = "smollm2-135m-instruct"
pytestmark = pytest.mark.weights


@pytest.fixture(scope="module")
def llama() -> Iterator[LlamaCpp]:
    """The small catalogue model. One thread: waiting for each other, two are slower on a busy machine."""
    model = LlamaCpp(SMALL, context=512, parallel=2, threads=1)
    yield model
    model.close()


def test_it_answers(llama: LlamaCpp) -> None:
    """The chat template is applied: the model answers and ends by itself."""
    (made,) = llama.complete("Say hello.", max_tokens=60, temperature=0)
    assert "ello" in made.text
    assert made.finish_reason == "stop"
    assert isinstance(llama, TextModel)


def test_more_answers_than_slots_come_in_order(llama: LlamaCpp) -> None:
    """Five answers from two slots: five texts, the prompt counted once per request, seeds counted on."""
    five = llama.complete("Name an animal.", n=5, max_tokens=6, seed=9)
    assert len(five) == 5
    assert len({each.text for each in five}) > 1
    length = len(LocalModel(SMALL).encode_prompt({"prompt": "Name an animal."}))
    assert [each.tokens_in for each in five] == [length, 0, length, 0, length]
    (fourth,) = llama.complete("Name an animal.", max_tokens=6, seed=12)
    assert fourth.text == five[3].text


def test_tokens_are_counted_for_every_answer(llama: LlamaCpp) -> None:
    """llama.cpp's own usage counts the first answer only; each of ours has its own count."""
    made = llama.complete("Tell me a long story about a fox.", n=2, max_tokens=9, seed=1)
    assert [(each.tokens_out, each.finish_reason) for each in made] == [(9, "length"), (9, "length")]


def test_logprob_agrees_with_torch(llama: LlamaCpp) -> None:
    """The log-probability is the model's own at temperature 1: near what torch finds with the same weights."""
    import torch

    (made,) = llama.complete("Name a colour.", max_tokens=5, temperature=0)
    local = LocalModel(SMALL)
    ids = local.encode_prompt({"prompt": "Name a colour."})
    out = local.encode_prompt({"prompt": made.text, "chat": False})
    with torch.inference_mode():
        rows = local.model(torch.tensor([ids + out])).logits[0, len(ids) - 1 : -1].log_softmax(-1)
    assert made.logprob == pytest.approx(float(rows[range(len(out)), out].sum()), abs=1.0)


def test_stop_strings_and_plain_text(llama: LlamaCpp) -> None:
    """`chat=False` continues the text; the stop string is left out."""
    (made,) = llama.complete("1, 2, 3, 4,", max_tokens=20, temperature=0, stop=[" 7"], chat=False)
    assert made.text == " 5, 6,"
    assert made.finish_reason == "stop"


def test_a_prompt_that_does_not_fit_is_said_to(llama: LlamaCpp) -> None:
    """The error has both lengths and the setting to change."""
    with pytest.raises(ResourceError, match=r"does not fit into 512; set a larger `context`"):
        llama.complete("word " * 2000)


def test_an_answer_that_fills_the_context_ends_there(llama: LlamaCpp) -> None:
    """No shifting of the context behind the user's back: the answer ends with "length"."""
    (made,) = llama.complete("a b c d e f g " * 68, max_tokens=400, temperature=0, chat=False)
    assert made.tokens_in + made.tokens_out <= 512
    assert made.finish_reason == "length"


def test_turns_without_a_template_are_refused(llama: LlamaCpp) -> None:
    """`chat=False` with turns is a config error."""
    with pytest.raises(ConfigError, match="chat template"):
        llama.complete([{"role": "user", "content": "x"}], chat=False)


def test_threads_may_ask_at_once(llama: LlamaCpp) -> None:
    """Concurrent calls each get their own answer."""
    series = {"1, 2, 3, 4,": "5", "a, b, c, d,": "e", "Monday, Tuesday, Wednesday,": "Thursday"}
    found: dict[str, str] = {}

    def go_on(text: str) -> None:
        found[text] = llama.complete(text, max_tokens=2, temperature=0, chat=False)[0].text

    threads = [threading.Thread(target=go_on, args=(text,)) for text in series]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(series[text] in found[text] for text in series), found


def test_close_frees_and_the_next_use_loads_again() -> None:
    """A closed model answers again."""
    model = LlamaCpp(SMALL, context=128, parallel=1, threads=1)
    first = model.complete("Hi", max_tokens=3, temperature=0)
    model.close()
    assert model.complete("Hi", max_tokens=3, temperature=0) == first
    model.close()


def test_nobody_else_may_ask_its_port(llama: LlamaCpp) -> None:
    """The port that the binding opens on this machine answers to no stranger."""
    import httpx

    llama.open()
    address = llama._server.listening_address
    assert httpx.post(f"{address}/v1/completions", json={"prompt": "x", "max_tokens": 1}).status_code == 401
    assert httpx.get(f"{address}/slots").status_code == 401


@pytest.mark.large
@pytest.mark.exhaustive
def test_the_coder_model_writes_python() -> None:
    """The 1.5B model from the catalogue completes a function that works."""
    model = LlamaCpp("qwen2.5-coder-1.5b-instruct", context=512, parallel=1, threads=2)
    (made,) = model.complete(
        "def add(a, b):\n    return", max_tokens=12, temperature=0, stop=["\n"], chat=False
    )
    model.close()
    assert made.text.split("#")[0].strip() == "a + b"
