"""The cache as a whole: what it holds, how it grows and shrinks, and what two sequences read only once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import pytest
import torch

from draftverify import Pipeline, Proposal, Task
from draftverify.kit import make_context
from draftverify.rules import Speculative
from draftverify_llm import LocalModel
from draftverify_tokens import DraftModel, NoDraft, PromptLookup, Stop, Target, slots
from draftverify_tokens.reader import BlockReader
from tests.tokens.tiny import byte_tokenizer, rows_of, tiny_llama, tiny_of

VOCABULARY = 24
NOTHING = Proposal.chain(())


def text(n: int, seed: int = 0) -> list[int]:
    return torch.randint(VOCABULARY, (n,), generator=torch.Generator().manual_seed(seed)).tolist()


def held(reader: BlockReader) -> int:
    """Bytes of all buffers."""
    return sum(b.nbytes for shelf in reader.slots.shelves.values() for b in (*shelf.keys, *shelf.values))


def counted(module: Any) -> AbstractContextManager[list[int]]:
    """The tokens of each pass, padding counted."""
    return rows_of("embedding", module.model.embed_tokens.weight)


@pytest.mark.parametrize("long", [4000, 2600, 129])
def test_a_long_session_does_not_make_the_short_ones_long(long: int) -> None:
    """Fifteen of 100 tokens and one long one hold at most one and a half times what their tokens need."""
    reader = BlockReader(tiny_of("llama", VOCABULARY, layers=1), owned=True)

    def forward(groups: Any, want: Any, tail: Any) -> Any:  # reading takes seconds, and holds the same
        for shelf in {group.shelf for group in groups if not group.shelf.keys}:
            shelf.keys, shelf.values = ([shelf.new(torch.empty(1, 2, 1, 8))] for _ in range(2))
        return None if want is None else torch.zeros(len(want), VOCABULARY), None

    for name in ("windows", "needs_masks", "compiled"):
        setattr(forward, name, getattr(reader._forward, name))
    reader._forward = forward
    lengths = [*[100] * 15, long]
    contexts = [make_context({"prompt_ids": text(n, n + i)}) for i, n in enumerate(lengths)]
    reader.read(contexts, [NOTHING] * 16)
    entry = 2 * 2 * 8 * 4  # keys and values, two heads of width 8, float32
    assert held(reader) <= 1.5 * entry * sum(lengths)


def test_answers_that_grow_past_each_other_hold_little_more_than_they_need() -> None:
    """Sessions that cross classes at different times, end and are replaced: never more than one and a half times."""
    module = tiny_of("llama", VOCABULARY, layers=1)
    reader = BlockReader(module)
    sessions: list[tuple[list[int], dict[Any, Any]]] = [(text(70 + 9 * i, i), {}) for i in range(12)]
    accepted: list[list[int]] = [[] for _ in sessions]
    for turn in range(14):
        for i in range(12):
            accepted[i] += text(7 + i, turn)
            if (turn + i) % 9 == 8:
                sessions[i], accepted[i] = (text(64 + turn, 100 + turn), {}), []
        contexts = [
            make_context({"prompt_ids": prompt}, accepted=own, scratch=scratch)
            for (prompt, scratch), own in zip(sessions, accepted, strict=True)
        ]
        reader.read(contexts, [NOTHING] * 12)
        needed = sum(len(prompt) + len(own) for (prompt, _), own in zip(sessions, accepted, strict=True))
        grown = held(reader) / (2 * 2 * 8 * 4 * needed)
        assert grown <= 1.5, (turn, grown)


def test_one_growing_answer_leaves_no_shelves_behind() -> None:
    """Each class that it has left is let go."""
    reader = BlockReader(tiny_of("llama", VOCABULARY, layers=1))
    scratch: dict[Any, Any] = {}
    for n in (10, 90, 200, 300, 301):
        reader.read([make_context({"prompt_ids": [1]}, accepted=text(n), scratch=scratch)], [NOTHING])
        assert len(reader.slots.shelves) == 1


# What is read once

PROMPT = text(200, 7)
SYSTEM = text(120, 8)
SAMPLES = [Task(id=str(i), input={"prompt_ids": PROMPT}) for i in range(8)]
TASKS = [Task(id=str(i), input={"prompt_ids": [*SYSTEM, *text(5 + i % 7, 20 + i)]}) for i in range(20)]


def gathered(pipeline: Pipeline, tasks: list[Task]) -> list[Any]:
    async def main() -> list[Any]:
        return list(await asyncio.gather(*[pipeline.arun(task) for task in tasks]))

    return asyncio.run(main())


DRIVERS: dict[str, Callable[[Pipeline, list[Task]], list[Any]]] = {
    "serial": lambda pipeline, tasks: [pipeline.run(task) for task in tasks],
    "batch": lambda pipeline, tasks: pipeline.run(tasks),
    "batches of 3": lambda pipeline, tasks: pipeline.run(tasks, size=3),
    "asyncio": gathered,
}


def pipeline_of(model: Any, temperature: float, generator: Any = None) -> Pipeline:
    return Pipeline(
        generator or NoDraft(), Target(model), Speculative(), block=0 if generator is None else 3,
        done=Stop(4, ignore_eos=True), settings={"temperature": temperature}, seed=3,
    )  # fmt: skip


def owned(seed: int = 0) -> LocalModel:
    """A model of the library's own, whose ended tasks lend what they have read."""
    return LocalModel.from_module(tiny_llama(VOCABULARY, seed=seed), byte_tokenizer(), own=True)


@pytest.fixture(scope="module")
def model() -> Any:
    return owned()


def alone(model: Any, tasks: list[Task], temperature: float) -> list[Any]:
    """Answers of pipelines that have read nothing before."""
    return [pipeline_of(model, temperature).run(task).value for task in tasks]


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("driver", DRIVERS)
def test_a_prompt_is_read_once_for_all_its_samples(model: Any, driver: str, temperature: float) -> None:
    """Eight samples of 200 tokens read them once, and each its last token and its own answer."""
    pipeline = pipeline_of(model, temperature)
    with counted(model.model) as read:
        found = DRIVERS[driver](pipeline, SAMPLES)
    assert sum(read) <= 200 + 8 + 8 * 3 + 4  # the answers' tokens but the last; a row or two of padding
    assert [outcome.value for outcome in found] == alone(model, SAMPLES, temperature)


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("driver", DRIVERS)
def test_a_system_prompt_is_read_once_for_a_run(model: Any, driver: str, temperature: float) -> None:
    """Twenty tasks that begin alike: each reads its own question, the first one the rest too."""
    pipeline = pipeline_of(model, temperature)
    with counted(model.model) as read:
        found = DRIVERS[driver](pipeline, TASKS)
    own = sum(len(task.input["prompt_ids"]) - 120 + 3 for task in TASKS)
    assert sum(read) <= 120 + own + 100  # padding of ragged rows
    assert [outcome.value for outcome in found] == alone(model, TASKS, temperature)


@pytest.mark.parametrize("size", [1, 5])
def test_drafters_share_too(model: Any, size: int) -> None:
    """A draft model with a cache of its own, one in the target's, and a lookup: the answers of plain decoding."""
    small = owned(seed=4)
    wanted = alone(model, TASKS, 0.0)
    for generator in (DraftModel(small), DraftModel(model, own_cache=False), PromptLookup()):
        pipeline = pipeline_of(model, 0.0, generator)
        with counted(small.model) as read:
            assert [outcome.value for outcome in pipeline.run(TASKS, size=size)] == wanted
        assert sum(read) < 1200


def test_hidden_states_are_shared_with_keys_and_values(model: Any) -> None:
    """A prompt that another session has read gives all its states, without a pass over it."""
    reader = BlockReader(model.model, hidden=(-1,), owned=True)
    contexts = [make_context({"prompt_ids": PROMPT}) for _ in range(2)]
    with counted(model.model) as read:
        first, second = reader.read(contexts, [NOTHING] * 2).hidden
    assert first.shape[0] == len(PROMPT)
    assert sum(read) < 2 * len(PROMPT)
    torch.testing.assert_close(first, second)


@pytest.mark.parametrize("change", ["in place", "converted", "where it lies, uncounted"])
def test_a_model_that_has_changed_forgets_what_it_read(change: str) -> None:
    """After training, or in another type, nothing that the old weights gave is used; nor after a change that cannot be
    seen, once no session is under way."""
    module = tiny_of("llama", VOCABULARY)
    reader = BlockReader(module)
    live = make_context({"prompt_ids": PROMPT})
    for context in (live, make_context({"prompt_ids": PROMPT})):
        reader.read([context], [NOTHING])
    if change == "converted":
        module.double()
    with torch.no_grad():
        if change.startswith("where"):
            for weight in module.parameters():
                weight.data.mul_(1.5)
            live.scratch.popitem()[1].close()
        else:
            module.model.layers[0].mlp.down_proj.weight.mul_(-1)
        wanted = module(input_ids=torch.tensor([PROMPT]), use_cache=False).logits[0, -1:]
    for context in (make_context({"prompt_ids": PROMPT}), live):
        torch.testing.assert_close(reader.read([context], [NOTHING]).logits, wanted, atol=1e-4, rtol=0)


@pytest.mark.parametrize("compiled", [False, True])
def test_a_model_that_was_handed_in_is_lent_nothing_of_ended_tasks(
    compiled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever begins alone reads all; those that are under way together share, with one that was there before too."""
    monkeypatch.setattr(torch, "compile", lambda function, **_: function)
    module = tiny_of("llama", VOCABULARY, layers=1)
    reader = BlockReader(module, compiled=compiled)
    contexts = [make_context(Task(id=str(i), input={"prompt_ids": PROMPT})) for i in range(4)]
    with counted(module) as read:
        for turn in (contexts[:1], contexts[:3], contexts[3:]):
            reader.read(turn, [NOTHING] * len(turn))
    assert max(read[1:]) <= 4
    buffers = [shelf.keys[0] for shelf in reader.slots.shelves.values()]
    with torch.inference_mode():
        for buffer in buffers:
            buffer.fill_(torch.nan)  # as weights that went astray would leave
    for context in contexts:
        context.scratch.popitem()[1].close()
    with counted(module) as read:
        logits = reader.read(contexts[:1], [NOTHING]).logits
    assert sum(read) == 200
    assert logits.isfinite().all()
    if compiled:  # graphs hold the addresses
        assert all(shelf.keys[0] is buffers[0] for shelf in reader.slots.shelves.values())


def test_pipelines_that_are_compared_on_a_task_read_its_prompt_themselves(model: Any) -> None:
    """Whichever runs first: it would pay for all, and look slow. What tasks have in common is shared all the same."""
    plain, other = pipeline_of(model, 0.0), pipeline_of(model, 0.0)
    first, second = TASKS[:2]
    with counted(model.model) as read:
        values = [pipeline.run(first).value for pipeline in (plain, other)]
    assert values[0] == values[1]
    assert read.count(len(first.input["prompt_ids"])) == 2
    with counted(model.model) as read:
        plain.run(second)
    assert max(read) <= len(second.input["prompt_ids"]) - 120


def test_the_row_that_ended_first_is_used_again_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows remember what they hold until they are needed; shelves do not grow for it."""
    module = tiny_of("llama", VOCABULARY, layers=1)
    reader = BlockReader(module, owned=True)
    texts = [text(40, seed) for seed in range(4)]
    contexts = [make_context({"prompt_ids": own}) for own in texts[:3]]
    reader.read(contexts, [NOTHING] * 3)
    for context in contexts:
        context.scratch.popitem()[1].close()
    with counted(module) as read:
        for own in (texts[3], texts[1], texts[2], texts[0]):
            reader.read([make_context(Task(id="again", input={"prompt_ids": own}))], [NOTHING])
    assert read == [40, 1, 1, 40]
    assert [shelf.rows for shelf in reader.slots.shelves.values()] == [3]


def test_what_was_made_of_weights_is_made_anew_after_training() -> None:
    """Of every layer, also where the first one stayed as it was."""
    module = tiny_of("qwen3", VOCABULARY)
    reader = BlockReader(module)
    reader.read([make_context({"prompt_ids": PROMPT})], [NOTHING])
    with torch.no_grad():
        module.model.layers[1].self_attn.k_norm.weight.mul_(-2)
        wanted = module(input_ids=torch.tensor([PROMPT]), use_cache=False).logits[0, -1:]
    found = reader.read([make_context({"prompt_ids": PROMPT})], [NOTHING]).logits
    torch.testing.assert_close(found, wanted, atol=1e-4, rtol=0)


def test_few_tokens_in_common_are_read_again() -> None:
    """A copy is not worth a pass of its own."""
    module = tiny_of("llama", VOCABULARY, layers=1)
    few = slots.SHARED - 1
    contexts = [make_context({"prompt_ids": [*PROMPT[:few], i]}) for i in range(3)]
    with counted(module) as read:
        BlockReader(module).read(contexts, [NOTHING] * 3)
    assert read == [3 * (few + 1)]


@pytest.mark.parametrize("amid", ["shared", "CacheShelf._zeros", "upload"])
def test_a_session_that_ends_in_the_midst_of_a_pass_disturbs_nobody(amid: str, monkeypatch: Any) -> None:
    """Other threads let go of their rows at any time: while one is sought, while a shelf grows or shrinks."""
    shelves = slots.Slots()
    ending, first, held = (shelves.take() for _ in range(3))
    shelves.place([first, ending, held], [10] * 3)
    assert held.shelf is not None
    shelf = held.shelf
    for buffers in (shelf.keys, shelf.values):
        buffers.append(torch.arange(3.0).view(3, 1, 1, 1).expand(3, 1, shelf.capacity, 1).clone())
    number = shelf.keys[0][held.row, 0, 0, 0]
    first.close()
    owner, _, name = f"draftverify_tokens.slots.{amid}".rpartition(".")
    inner = getattr(slots.CacheShelf if "CacheShelf" in owner else slots, name)
    with monkeypatch.context() as patched:
        patched.setattr(f"{owner}.{name}", lambda *how: (ending.close(), inner(*how))[1])
        # Two more than there are rows; then the long one makes free rows too many.
        some, long = [shelves.take() for _ in range(3)], shelves.take()
        shelves.place(some, [10] * 3, [list(range(20))] * 3)
        for slot in (some.pop(), some.pop()):
            slot.close()
        shelves.place([long], [100], [list(range(20))])
    last = shelves.take()
    shelves.place([last], [10])
    assert len({slot.row for slot in (held, last, *some)}) == 3
    assert shelf.keys[0][held.row, 0, 0, 0] == number
    assert ending.shelf is None
