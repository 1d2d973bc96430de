"""Drafting in the target's cache: nothing that the drafter wrote there is ever seen by the target."""

from __future__ import annotations

import copy
import re
from typing import Any

import pytest
import torch

from draftverify import ConfigError, Pipeline, Proposal, Task
from draftverify.kit import make_context
from draftverify.rules import Speculative, Tree
from draftverify_llm import LocalModel
from draftverify_tokens import DraftModel, DraftTree, FirstOf, NoDraft, Stop, Suffix, Target
from tests.tokens.tiny import FAMILIES, byte_tokenizer, shortened, tiny_of

PROMPTS = [
    [1, 2, 3],
    [5],
    [7, 7, 7, 8, 7, 7],
    [0, 4, 9, 4, 0, 4],
    [20, 19, 18],
    list(range(20)),
    [3, 3],
    [11, 2, 11],
]
TASKS = [Task(id=str(i), input={"prompt_ids": prompt}) for i, prompt in enumerate(PROMPTS)]


def model_of(module: Any) -> LocalModel:
    return LocalModel.from_module(module, byte_tokenizer())


def rounded(module: Any, noise: float, seed: int = 0) -> Any:
    """A copy whose weights are a little off, as rounded ones are."""
    made = copy.deepcopy(module)
    torch.manual_seed(seed)
    with torch.no_grad():
        for weight in made.parameters():
            weight += noise * weight.std() * torch.randn_like(weight) if weight.dim() > 1 else 0.0
    return made


class Watching(Target):
    """A target that keeps the rows it has given, by what they come after."""

    def __init__(self, model: LocalModel) -> None:
        super().__init__(model)
        self.seen: list[tuple[list[int], Any]] = []

    def verify_many(self, contexts: Any, proposals: Any) -> Any:
        found = super().verify_many(contexts, proposals)
        for context, proposal, answer in zip(contexts, proposals, found, strict=True):
            prefix = [*context.task.input["prompt_ids"], *context.accepted]
            paths = {-1: prefix}
            for i, item in enumerate(proposal.items):
                parent = i - 1 if proposal.shape == "chain" else proposal.parents[i]
                paths[i] = [*paths[parent], int(item)]
            rows = answer.evidence.target.clone()
            self.seen += [(paths[i - 1], row) for i, row in enumerate(rows)]
        return found


WAYS = {
    "chain": lambda model: (DraftModel(model, own_cache=False), Speculative(), 4),
    "tree": lambda model: (DraftTree(DraftModel(model, own_cache=False)), Tree(), 7),
    "guessing": lambda model: (
        DraftModel(model, own_cache=False, lookup=Suffix(threshold=0)),
        Speculative(),
        6,
    ),
    "after a lookup": lambda model: (
        FirstOf([Suffix(), DraftModel(model, own_cache=False)]),
        Speculative(),
        3,
    ),
}


@pytest.mark.parametrize(
    ("way", "batch", "temperature"),
    [
        pytest.param(
            way,
            batch,
            temperature,
            marks=() if batch == (3 if temperature else (1, 8)[number % 2]) else pytest.mark.exhaustive,
        )
        for number, way in enumerate(WAYS)
        for batch in (1, 3, 8)
        for temperature in (0.0, 1.0)
    ],
)
def test_the_target_sees_what_it_would_see_alone(way: str, batch: int, temperature: float) -> None:
    """Every row that the target gives is the row of a forward pass that has no cache at all."""
    module = tiny_of("llama", 24, seed=5, layers=3)
    generator, rule, block = WAYS[way](model_of(rounded(module, 0.3)))
    target = Watching(model_of(module))
    pipeline = Pipeline(
        generator,
        target,
        rule,
        block=block,
        done=Stop(10, ignore_eos=True),
        settings={"temperature": temperature},
    )
    records = pipeline.record(TASKS, size=batch) if batch > 1 else [pipeline.record(t) for t in TASKS]
    rounds = [round for record in records for round in record.rounds]
    kept, drafted = (
        sum(map(len, found)) for found in ([r.decision.kept for r in rounds], [r.items for r in rounds])
    )
    assert 0 < kept < drafted
    for length in {len(path) for path, _ in target.seen}:
        paths, rows = zip(*(seen for seen in target.seen if len(seen[0]) == length), strict=True)
        with torch.inference_mode():
            logits = module(torch.tensor(paths)).logits[:, -1]
        wanted = (
            logits.softmax(-1) if temperature else torch.nn.functional.one_hot(logits.argmax(-1), 24).float()
        )
        torch.testing.assert_close(torch.stack(rows), wanted, atol=2e-5, rtol=1e-4)


@pytest.mark.parametrize("batch", [pytest.param(1, marks=pytest.mark.exhaustive), 3])
@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_decodes_as_it_does_alone(family: str, batch: int) -> None:
    """With windows and with other attention, too, a draft in the same cache changes no token."""
    module = tiny_of(family, 24, seed=5, layers=3)
    target, done = Target(model_of(module)), Stop(20)
    plain = Pipeline(NoDraft(), target, Speculative(), block=0, done=done, settings={"temperature": 0})
    drafter = DraftModel(model_of(rounded(module, 0.1)), own_cache=False)
    both = Pipeline(drafter, target, Speculative(), block=3, done=done, settings={"temperature": 0})
    found = [outcome.value for outcome in both.run(TASKS, size=batch)]
    assert found == [plain.run(task).value for task in TASKS]


def test_early_layers_draft_the_same_without_a_cache_of_their_own() -> None:
    """The target's first layers hold what the drafter's own cache would: from the second round on the same drafts."""
    model = model_of(tiny_of("llama", 24, seed=5, layers=3))
    found = []
    for own in (True, False):
        pipeline = Pipeline(
            DraftModel(shortened(model, 2), own_cache=own), Target(model), Speculative(), block=3,
            done=Stop(12, ignore_eos=True), settings={"temperature": 0},
        )  # fmt: skip
        first = pipeline.record(TASKS[3]).rounds[0]
        found.append(dict(_drafts(pipeline.record(TASKS[3]))))
        assert bool(first.items) == own
    with_own, without = found
    shared = with_own.keys() & without.keys()
    assert len(shared) >= 3
    assert all(with_own[place] == without[place] for place in shared if without[place])


def _drafts(record: Any) -> list[tuple[int, tuple[Any, ...]]]:
    place, found = 0, []
    for round in record.rounds:
        found.append((place, tuple(round.items)))
        place += len(round.decision.emitted)
    return found


@pytest.mark.parametrize("broken", ["drafter", "target"])
def test_a_pass_that_fails_leaves_no_cache(broken: str) -> None:
    """After a failure in the drafter's pass or in the target's, the target reads everything again, and rightly."""
    module = tiny_of("llama", 24, seed=5, layers=3)
    drafter, target = DraftModel(model_of(rounded(module, 0.3)), own_cache=False), Target(model_of(module))
    task, scratch = target.prepare(TASKS[0]), {}

    def turn(accepted: list[int]) -> Any:
        context = make_context(task, accepted=accepted, scratch=scratch)
        return target.verify(context, drafter.propose(context, 3)).evidence.target[0]

    turn([])
    turn([4])
    reader = (drafter if broken == "drafter" else target)._reader
    inner = reader._forward

    def failing(groups: Any, want: Any, tail: Any) -> Any:
        inner(groups, want)
        raise RuntimeError("out of memory")

    for name in ("windows", "needs_masks", "compiled"):
        setattr(failing, name, getattr(inner, name))
    reader._forward = failing
    with pytest.raises(RuntimeError):
        turn([4, 9])
    reader._forward = inner
    for accepted in ([4, 9], [4, 9, 1], [4, 9, 1, 1]):
        with torch.inference_mode():
            wanted = module(torch.tensor([[*PROMPTS[0], *accepted]])).logits[0, -1].softmax(-1)
        torch.testing.assert_close(turn(accepted), wanted, atol=2e-5, rtol=1e-4)


def test_the_target_reads_itself_what_the_drafter_has_read_first() -> None:
    """Several tokens that were not drafted, as after another generator's round: the drafter reads them before the
    target does, and the target takes none of its keys."""
    module = tiny_of("llama", 24, seed=5, layers=3)
    drafter, target = DraftModel(model_of(rounded(module, 0.3)), own_cache=False), Target(model_of(module))
    task, scratch = target.prepare(TASKS[0]), {}
    for accepted in ([], [4], [4, 9, 1, 17, 2], [4, 9, 1, 17, 2, 8, 8, 3]):
        context = make_context(task, accepted=accepted, scratch=scratch)
        row = target.verify(context, drafter.propose(context, 3)).evidence.target[0]
        with torch.inference_mode():
            wanted = module(torch.tensor([[*PROMPTS[0], *accepted]])).logits[0, -1].softmax(-1)
        torch.testing.assert_close(row, wanted, atol=2e-5, rtol=1e-4)


@pytest.mark.parametrize("ended", [False, True])
def test_a_new_session_takes_nothing_that_a_guest_wrote(ended: bool) -> None:
    """What the drafter read behind the target is not lent, neither by a session that goes on nor after its end."""
    module = tiny_of("llama", 24, seed=5, layers=3)
    drafter, target = DraftModel(model_of(rounded(module, 0.3)), own_cache=False), Target(model_of(module))
    first, scratch = target.prepare(TASKS[5]), {}
    target.verify(make_context(first, scratch=scratch), Proposal.chain(()))
    drafter.propose(make_context(first, accepted=[4, 9, 1], scratch=scratch), 3)
    if ended:
        scratch.clear()
    longer = [*PROMPTS[5], 4, 9, 1, 8, 8]
    second = make_context(target.prepare(Task(id="b", input={"prompt_ids": longer})))
    with torch.inference_mode():
        wanted = module(torch.tensor([longer])).logits[0, -1].softmax(-1)
    got = target.verify(second, Proposal.chain(())).evidence.target[0]
    torch.testing.assert_close(got, wanted, atol=2e-5, rtol=1e-4)


def test_a_model_of_another_make_is_refused() -> None:
    """Keys and values of another size or kind: an error that names what differs, before anything is written."""
    target = Target(model_of(tiny_of("llama", 24, seed=5, layers=2)))
    for other, named in (
        (tiny_of("llama", 24, seed=5, layers=3), "3 layers, the target 2"),
        (tiny_of("qwen3", 24, seed=5, layers=2), "its model_type is qwen3, the target's llama"),
        (
            tiny_of("llama", 24, seed=5, layers=2, dtype="bfloat16"),
            "its type is torch.bfloat16, the target's torch.float32",
        ),
    ):
        guest = DraftModel(model_of(other), own_cache=False)
        pipeline = Pipeline(guest, target, Speculative(), block=3, done=Stop(8, ignore_eos=True))
        outcome = pipeline.run(TASKS[0])
        assert outcome.status == "failed"
        assert re.search(named, outcome.reason)
        for drafter, place in (
            (guest, "generator"),
            (FirstOf([Suffix(), guest]), "generator.drafters.1"),
            (DraftTree(guest), "generator.drafter"),
        ):
            rule = Tree() if drafter.traits.shape == "tree" else Speculative()
            with pytest.raises(ConfigError, match=rf"^{place}\.own_cache: .*{named}"):
                Pipeline(drafter, target, rule, block=3).open()


def test_a_model_with_a_cache_of_its_own_may_be_of_any_make() -> None:
    """Only the vocabulary is shared."""
    target = Target(model_of(tiny_of("llama", 24, seed=5, layers=2)))
    other = model_of(tiny_of("qwen3", 24, seed=5, layers=3))
    Pipeline(DraftModel(other), target, Speculative(), block=3).open()


def test_without_a_target_s_cache_nothing_is_drafted() -> None:
    """Before the target has read the prompt there is nothing to read on in: an empty proposal, a plain step."""
    model = model_of(tiny_of("llama", 24, seed=5, layers=2))
    pipeline = Pipeline(
        DraftModel(model, own_cache=False), Target(model), Speculative(), block=3, done=Stop(9, ignore_eos=True),
        settings={"temperature": 0},
    )  # fmt: skip
    sizes = [len(round.items) for round in pipeline.record(TASKS[0]).rounds]
    assert sizes == [0, 3, 3]
