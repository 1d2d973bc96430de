"""The target: one pass a block, the model's own distributions, and words for people."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest
import torch

from draftverify import ConfigError, ContractError, Pipeline, Proposal, Task, Trail
from draftverify.kit import check_component, make_context
from draftverify.rules import Speculative
from draftverify.traits import vocabulary_of
from draftverify_llm import LocalModel
from draftverify_tokens import PromptLookup, Stop, Target, probabilities
from tests.tokens.tiny import byte_tokenizer, context_of, rows, rows_of, tiny_llama, tiny_model

MODEL = tiny_model()
PROMPT = [5, 6, 7, 5, 6]
GREEDY = {"temperature": 0}


def passes(model: LocalModel, call) -> list[int]:
    """How many tokens each forward pass reads while `call` runs."""
    with rows_of("embedding", model.model.model.embed_tokens.weight) as read:
        call()
    return read


@pytest.mark.parametrize("settings", [{"temperature": 0}, {}, {"temperature": 0.7, "top_k": 9, "top_p": 0.8}])
def test_rows_are_the_models_distributions(settings):
    """Row 0 stands after the context, row i + 1 after item i, each under the sampling settings."""
    context = context_of(MODEL, PROMPT, accepted=[9, 8], settings=settings)
    evidence = Target(MODEL).verify(context, Proposal.chain((1, 2, 3))).evidence
    target, maxima = probabilities(rows(MODEL, [*PROMPT, 9, 8, 1, 2, 3], 4), settings)
    assert torch.allclose(evidence.target, target, atol=1e-5)
    assert torch.allclose(evidence.raw_maxima, maxima, atol=1e-5)


def test_a_block_is_one_pass_over_what_the_cache_lacks():
    """The prompt and the first block; then the spliced token and the next block; refused tokens are cut off."""
    target, context = Target(MODEL), context_of(MODEL, PROMPT)

    def rounds() -> None:
        target.verify(context, Proposal.chain((1, 2, 3)))
        later = msgspec.structs.replace(context, accepted=Trail.of([1, 2, 4]))  # 3 was refused, 4 spliced
        target.verify(later, Proposal.chain((5, 6)))
        plain = msgspec.structs.replace(context, accepted=Trail.of([1, 2, 4, 5, 6, 9]))
        target.verify(plain, Proposal.chain(()))

    assert passes(MODEL, rounds) == [5 + 3, 1 + 2, 1]


def test_the_conformance_kit_finds_nothing():
    """Emptied scratch, untouched proposals, one row per item and the rest of the kit's checks."""
    contexts = [context_of(MODEL, PROMPT, accepted=accepted) for accepted in ([], [1], [1, 2, 3])]
    proposals = [Proposal.chain(tuple(range(n))) for n in (0, 1, 4)]
    check_component(Target(MODEL), contexts=contexts, proposals=proposals, tolerance=1e-4)


def test_a_tree_is_one_pass_and_each_token_sees_its_own_path():
    """Row i + 1 is what the model says after item i's path; later the accepted path is in the cache."""
    target, context = Target(MODEL), context_of(MODEL, PROMPT)
    tree = Proposal.tree((1, 2, 3, 4), (-1, -1, 1, 1))

    def rounds() -> None:
        evidence = target.verify(context, tree).evidence
        for row, path in zip(evidence.target, ([], [1], [2], [2, 3], [2, 4]), strict=True):
            expected, _ = probabilities(rows(MODEL, [*PROMPT, *path], 1), {})
            assert torch.allclose(row, expected[0], atol=1e-5)
        later = msgspec.structs.replace(context, accepted=Trail.of([2, 4, 9]))
        row = target.verify(later, Proposal.chain(())).evidence.target[0]
        assert torch.allclose(row, probabilities(rows(MODEL, [*PROMPT, 2, 4, 9], 1), {})[0][0], atol=1e-5)

    read = passes(MODEL, rounds)
    assert read[0] == 5 + 4
    assert read[-2:] == [1, 8]  # the spliced token alone; then the oracle's own reading


def test_hidden_states_are_given_where_they_are_asked_for():
    """Of the whole prompt and the block at first, then of what is new; and `provides` says so."""
    target, context = Target(MODEL, hidden=(-1,)), context_of(MODEL, PROMPT)
    assert "hidden" in target.traits.provides
    assert "hidden" not in Target(MODEL).traits.provides
    first = target.verify(context, Proposal.chain((1, 2))).evidence.hidden
    assert (first.start, first.end) == (0, 5)
    later = msgspec.structs.replace(context, accepted=Trail.of([1, 9]))
    second = target.verify(later, Proposal.chain((3,))).evidence.hidden
    assert (second.start, second.end) == (6, 7)


def test_sessions_with_settings_of_their_own_share_a_pass():
    """Each session's rows are under its own settings."""
    target = Target(MODEL)
    settings = [{"temperature": 0}, {"temperature": 0.5}, {"repetition_penalty": 2.0}]
    contexts = [context_of(MODEL, PROMPT, settings=each) for each in settings]
    found = target.verify_many(contexts, [Proposal.chain((1, 2))] * 3)
    for context, verification in zip(contexts, found, strict=True):
        alone = Target(MODEL).verify(msgspec.structs.replace(context, scratch={}), Proposal.chain((1, 2)))
        assert torch.allclose(verification.evidence.target, alone.evidence.target, atol=1e-5)


def test_prepare_puts_what_parts_need_into_the_task():
    """Prompt ids, end tokens, the size of the vocabulary and the number of positions; the rest of the input stays."""
    task = Target(MODEL).prepare(Task(id="a", input={"prompt": "hé", "note": 1}, group="g"))
    assert task.id == "a"
    assert task.group == "g"
    assert task.input == {
        "prompt": "hé", "note": 1, "prompt_ids": [104, 195, 169], "eos_ids": [256], "vocabulary": 257, "positions": 512,
    }  # fmt: skip


@pytest.mark.parametrize(
    "ids", [(5, 6, 7), np.array([5, 6, 7]), torch.tensor([5, 6, 7]), [np.int64(5), 6, torch.tensor(7)]]
)
def test_ids_may_be_arrays(ids):
    """A task's prompt, the answers that are compared and the ids of a bias, as lists or arrays."""
    target = Target(MODEL)
    target.check_settings({"logit_bias": {np.int64(5): 1.0}})
    task = Task(id="a", input={"prompt_ids": ids})
    assert target.prepare(task).input["prompt_ids"] == [5, 6, 7]
    assert target.explain(task, ids, ids, {"temperature": 0}).text == "no difference"
    assert target.text(ids) == target.text([5, 6, 7])


@pytest.mark.parametrize(
    ("input", "message"),
    [
        ({}, "needs `prompt`"),
        ({"prompt": ""}, "the prompt of task 'a' has no tokens"),
        ({"prompt_ids": [1, 257]}, "must be whole numbers from 0 to 256"),
        ({"prompt_ids": [1, "2"]}, "must be whole numbers"),
        ({"prompt_ids": [1] * 513}, "has 513 tokens; the model takes 512"),
    ],
)
def test_a_prompt_that_cannot_be_decoded_is_refused(input, message):
    """No prompt, no tokens, tokens of another model, or more than fit."""
    with pytest.raises(ConfigError, match=message):
        Target(MODEL).prepare(Task(id="a", input=input))


@pytest.mark.parametrize(
    ("proposal", "message"),
    [
        (Proposal.chain((1, 257)), "the target's tokens go from 0 to 256"),
        (Proposal.chain((-1,)), "the target's tokens go from 0 to 256"),
        (Proposal.chain((1,) * 508), "are 513 tokens; the model takes 512"),
    ],
)
def test_a_block_that_cannot_be_read_is_refused(proposal, message):
    """Tokens outside the vocabulary, another shape, or more than the model has positions for."""
    with pytest.raises(ContractError, match=message):
        Target(MODEL).verify(context_of(MODEL, PROMPT), proposal)


def test_settings_can_be_checked_before_any_task():
    """The same error as in the middle of a run, early."""
    with pytest.raises(ConfigError, match="temperature must be 0 or a number >= 1e-6"):
        Target(MODEL).check_settings({"temperature": -1})


def test_an_unprepared_task_is_an_error_that_says_so():
    """A drafter or target that finds no prompt_ids names the verifier that makes them."""
    with pytest.raises(
        ConfigError, match=r"no prompt_ids; a verifier that prepares the task \(tokens.target\)"
    ):
        Target(MODEL).verify(make_context("text alone"), Proposal.chain((1,)))


def test_half_precision_is_not_called_deterministic():
    """A block and single steps round differently in bfloat16, and the records say so."""
    half = LocalModel.from_module(tiny_llama().bfloat16(), byte_tokenizer())
    found = Target(half).verify(context_of(half, PROMPT), Proposal.chain((1,)))
    assert not Target(half).traits.deterministic
    assert not found.deterministic
    assert found.evidence.target.dtype == torch.float32
    assert Target(MODEL).traits.deterministic
    assert vocabulary_of(Target(MODEL).traits) == MODEL.vocabulary


def test_tokens_are_described_so_that_they_join_to_the_text():
    """A character in several tokens belongs to the last of them; a token without text has the tokenizer's spelling."""
    tokens = [*"né".encode(), 256]
    assert Target(MODEL).describe(tokens) == ["n", "Ã", "é", "<|end|>"]
    assert Target(MODEL).describe([]) == []


class Scripted:
    """A model whose next logits are fixed, in a given dtype."""

    def __init__(self, logits: list[float], dtype: torch.dtype) -> None:
        self.module = tiny_llama(257).to(dtype)
        row = torch.full((257,), -9.0, dtype=dtype)
        row[: len(logits)] = torch.tensor(logits, dtype=dtype)
        self.module.lm_head.register_forward_hook(lambda _, given, out: row.expand(*out.shape[:2], -1))
        self.model = LocalModel.from_module(self.module, byte_tokenizer())


@pytest.mark.parametrize(
    ("logits", "dtype", "got", "cause"),
    [
        ([20.0, 19.75], torch.bfloat16, 1, "rounding"),
        ([20.0, 19.75], torch.float32, 1, "bug"),
        ([20.0, 20.0 - 1e-5], torch.float32, 1, "rounding"),
        ([20.0, 12.0], torch.bfloat16, 1, "bug"),
        ([20.0, 19.75, 12.0], torch.bfloat16, 2, "bug"),  # the top two are near, but the third came
        ([20.0, 19.75, 22.0], torch.float32, 1, "bug"),  # near each other, but greedy decoding takes neither
    ],
)
def test_a_divergence_is_judged_by_the_gap(logits, dtype, got, cause):
    """Rounding where both tokens' logits are as near to the top as the dtype's rounding reaches, else a bug."""
    model = Scripted(logits, dtype).model
    said = Target(model).explain(Task(id="a", input={"prompt": "x"}), [7, 0, 3], [7, got], GREEDY)
    assert said.cause == cause
    assert said.text.startswith("token 1: ")
    assert f": {cause}: " in said.text


def test_a_divergence_names_tokens_and_gap():
    """Position, both tokens, the top two and how far they are apart."""
    model = Scripted([20.0, 19.75], torch.bfloat16).model
    said = Target(model).explain(Task(id="a", input={"prompt": "x"}), [65, 0], [65, 1], GREEDY)
    assert "token 1: '\\x00' (0) and '\\x01' (1) differ" in said.text
    assert "the likeliest two are '\\x00' (0) and '\\x01' (1), 0.25 apart" in said.text


# Likeliest first, by token; all others have -9. The prompt is token 0, the answer's first token 5.
@pytest.mark.parametrize(
    ("logits", "settings", "cause"),
    [
        ({1: 20.0, 2: 20.0 - 1e-5}, {"logit_bias": {2: -4.0}}, "bug"),  # near without the bias
        ({1: 20.0, 2: 19.0}, {"logit_bias": {2: 1.0}}, "rounding"),
        ({0: 20.0, 2: 10.0}, {"repetition_penalty": 2.0}, "rounding"),  # the prompt counts
        ({0: 20.0, 2: 19.5}, {"frequency_penalty": 0.5}, "bug"),  # the prompt does not
        ({5: 20.0, 2: 19.5}, {"presence_penalty": 0.5}, "rounding"),
        ({1: 20.0, 2: 19.0}, {"processors": [lambda ids, scores: scores * 0]}, "rounding"),
        ({97: 20.0, 98: 20.0 - 1e-5}, {"regex": "\\x05a*"}, "bug"),  # "b" may not stand there
        ({97: 20.0, 98: 20.0 - 1e-5, 99: 30.0}, {"regex": "\\x05[ab]*"}, "rounding"),  # nor may "c"
    ],
)
def test_a_divergence_is_judged_under_the_settings(logits, settings, cause):
    """A penalty, a bias, a processor or a grammar brings tokens near each other, or apart, or leaves out the top."""
    row = [logits.get(token, -9.0) for token in range(100)]
    first, second, *_ = logits
    task = Task(id="a", input={"prompt_ids": [0]})
    said = Target(Scripted(row, torch.float32).model).explain(
        task, [5, first], [5, second], GREEDY | {"top_k": 1} | settings
    )
    assert said.cause == cause


def test_what_both_begin_with_must_be_allowed():
    """Outputs that part after what the grammar forbids were not made under it."""
    model = Scripted([20.0, 19.0], torch.float32).model
    task = Task(id="a", input={"prompt_ids": [0]})
    said = Target(model).explain(task, [98, 97], [98, 99], GREEDY | {"regex": "a*"})
    assert said.cause == "bug"


def test_sampled_outputs_may_part():
    """No cause: a block's draws are not those of single steps."""
    task = Task(id="a", input={"prompt_ids": [1]})
    said = Target(MODEL).explain(task, [1, 2], [1, 3], {"temperature": 0.7})
    assert "sampled" in said.text
    assert said.cause == "unexplained"


def test_outputs_of_different_length_are_no_rounding():
    """One output that only goes on longer was stopped otherwise."""
    task = Task(id="a", input={"prompt": "x"})
    shorter, longer = (
        Target(MODEL).explain(task, *outputs, GREEDY) for outputs in (([1, 2], [1]), ([1], [1, 2]))
    )
    assert "the second output ends after 1 tokens" in shorter.text
    assert {shorter.cause, longer.cause} == {"bug"}
    assert Target(MODEL).explain(task, [1], [1], GREEDY).text == "no difference"


@pytest.mark.parametrize("index", [3, -4, 99])
def test_a_hidden_state_that_is_not_there_is_refused(index):
    """Two layers have the states 0, 1 and 2; another index is an error before any task, never another layer."""
    with pytest.raises(ConfigError, match=r"hidden: hidden has .* the states 0 \(the embeddings\) to 2"):
        Target(MODEL, hidden=(index,)).open()


def test_a_drafter_s_layer_that_is_not_there_changes_nothing():
    """The target that refused it goes on, with whoever asks for layers that it has."""
    target = Target(tiny_model(24))
    target.open()
    with pytest.raises(ConfigError, match="hidden has 99"):
        target.keep_hidden({99})
    assert "hidden" not in target.traits.provides
    target.keep_hidden({1})
    context = context_of(target.model, [1, 2, 3])
    assert target.verify(context, Proposal.chain((4,))).evidence.hidden.layers == (1,)


@pytest.mark.parametrize("ends", ["7", 7.5, [[7]], [True]])
def test_end_tokens_that_are_none_are_refused(ends):
    """A task's own may be a list, an array or one; null is the model's."""
    with pytest.raises(ConfigError, match="eos_ids of task 'a' must be token ids"):
        Target(MODEL).prepare(Task(id="a", input={"prompt_ids": PROMPT, "eos_ids": ends}))
    for own, expected in ((7, [7]), (np.asarray([7, 8]), [7, 8]), (None, [256])):
        task = Target(MODEL).prepare(Task(id="a", input={"prompt_ids": PROMPT, "eos_ids": own}))
        assert task.input["eos_ids"] == expected


@pytest.mark.parametrize("block", [0, 3])
def test_a_pipeline_without_a_stopping_rule_ends_as_the_model_does(block):
    """At an end token, where plain decoding with a limit beyond it ends too; else at the model's last position."""
    for eos, positions in ((None, 40), (256, 400)):
        model = tiny_model(257, seed=4, spread=0.3, positions=positions)
        settings = {"temperature": 1.0, "logit_bias": {256: -100.0 if eos is None else 4.0}}
        task = {"prompt_ids": [1, 2, 3]}
        own = Pipeline(PromptLookup(), Target(model), Speculative(), block=block, settings=settings)
        outcome = own.run(task)
        assert outcome.status == "accepted"
        if eos is None:
            assert len(outcome.value) == positions - len(task["prompt_ids"]) + 1
        else:
            assert outcome.value.index(eos) == len(outcome.value) - 1
            done = Stop(300)
            limited = Pipeline(
                PromptLookup(), Target(model), Speculative(), block=block, done=done, settings=settings
            )
            assert limited.run(task).value == outcome.value
