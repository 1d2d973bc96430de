"""The trained verifier: scores of blocks in one pass, alike in any company, and what it refuses to score."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from draftverify import Check, ConfigError, ContractError, Proposal, ResourceError
from draftverify.kit import Subject, check_component, make_context
from draftverify_reasoning import StepwiseSolution, TrainedVerifier, VerifierTraining

from . import tiny

QUESTION = "Problem 7: what is 20 + 31?"
SOLUTIONS: list[Any] = [
    {"text": "We add 20 and 31, way 0.\nThat is <<20+31=51>>51.\n#### 51", "answer": "51"},
    "Perhaps we add 20 and 31, way 1.\nThat is <<20+31=55>>55.\n#### 55",
    ["We add.", "That is 51.", "#### 51"],
    "It is fifty-one — so 51.",
]
TASKS = [{"question": QUESTION}, {"prompt": "Problem 8: what is 1 + 1?"}, {"question": "  "}]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A verifier of a tiny model, and the model."""
    folder = tmp_path_factory.mktemp("verifier")
    data = tiny.write(folder / "solutions.jsonl", tiny.problems(12))
    model = tiny.save(folder / "model")
    VerifierTraining(data, model, layers=1, epochs=2, dtype="float32", longest=200).train(folder / "made")
    return folder / "made", model


@pytest.fixture
def verifier(made: tuple[Path, Path]) -> TrainedVerifier:
    """The verifier."""
    return TrainedVerifier(made[0])


def checks(verifier: Any, *solutions: Any, question: str = QUESTION) -> tuple[Check, ...]:
    """What it says of solutions."""
    found = verifier.verify(make_context({"question": question}), Proposal.alternatives(solutions))
    return tuple(found.checks)


def test_it_keeps_the_contract(verifier: TrainedVerifier) -> None:
    """The kit's checks."""
    block = Proposal.alternatives(SOLUTIONS)
    blocks = [block, Proposal.alternatives(SOLUTIONS[:2]), Proposal.alternatives(())]
    check_component(Subject(verifier, tasks=TASKS, proposals=blocks, tolerance=1e-4))


def test_blocks_of_many_tasks_score_as_each_solution_alone(verifier: TrainedVerifier) -> None:
    """Whatever shares a pass, whole and in steps, and with the threshold deciding on the verdict alone."""
    contexts = [make_context(task) for task in TASKS]
    together = verifier.verify_many(contexts, [Proposal.alternatives(SOLUTIONS)] * 3)
    for context, many in zip(contexts[:2], together, strict=False):
        for item, check in zip(SOLUTIONS, many.checks, strict=True):
            (alone,) = verifier.verify(context, Proposal.alternatives([item])).checks
            assert alone.score == pytest.approx(check.score, abs=1e-4)
            assert check.verdict == ("pass" if check.score is not None and check.score >= 0 else "reject")
    assert {(check.verdict, check.reason) for check in together[2].checks} == {("abstain", "empty question")}
    assert together[0].checks[0].score != together[1].checks[0].score  # the question counts
    (one,) = checks(verifier, SOLUTIONS[0])
    assert one.score is not None
    low = TrainedVerifier(verifier.weights, threshold=one.score - 0.01)
    high = TrainedVerifier(verifier.weights, threshold=one.score + 0.01)
    assert [checks(each, SOLUTIONS[0])[0].verdict for each in (low, high)] == ["pass", "reject"]


def test_a_block_is_one_padded_pass(verifier: TrainedVerifier) -> None:
    """Of all tasks together, each solution a row; its width is one of few, since each shape takes memory."""
    verifier.open()
    network, shapes = verifier._get()[2], []
    network.register_forward_pre_hook(lambda _, given: shapes.append(tuple(given[0].shape)))
    verifier.verify_many([make_context(task) for task in TASKS[:2]], [Proposal.alternatives(SOLUTIONS)] * 2)
    assert len(shapes) == 1
    assert shapes[0][0] == 8
    assert shapes[0][1] % 16 == 0


def test_steps_are_scored_where_they_end(verifier: TrainedVerifier) -> None:
    """The last step's score is the whole solution's, an earlier one's that of the solution up to there."""
    text = SOLUTIONS[0]["text"]
    ((first, second, third),) = verifier.step_scores([StepwiseSolution(QUESTION, tuple(text.split("\n")))])
    whole, up_to = checks(verifier, text, "\n".join(text.split("\n")[:2]))
    assert third == pytest.approx(whole.score, abs=1e-5)
    assert second == pytest.approx(up_to.score, abs=1e-5)
    assert first != second


def test_what_cannot_be_scored_is_told_apart(verifier: TrainedVerifier) -> None:
    """Empty is rejected, too long is an abstention, and what is no solution is the caller's error."""
    empty, long, odd = checks(
        verifier, {"text": " \n", "answer": None}, "five " * 100, "half \ud800 a pair <end>"
    )
    assert (empty.verdict, empty.reason, empty.score) == ("reject", "empty solution", None)
    assert (long.verdict, long.reason, long.score) == ("abstain", "too long", None)
    assert odd.score is not None
    with pytest.raises(ContractError, match="is no text, no mapping"):
        checks(verifier, 3)
    with pytest.raises(ConfigError, match="question"):
        verifier.verify(make_context({"other": "x"}), Proposal.alternatives(["x"]))
    ((one, two),) = verifier.step_scores([StepwiseSolution(QUESTION, ("We add.", "five " * 100))])
    assert isinstance(one, float)
    assert two == "too long"


def test_what_looks_like_a_special_token_is_text_in_every_thread() -> None:
    """A solution cannot end its turn, nor while another thread encodes: the tokenizer is one."""
    from draftverify_reasoning.token_scores import row_of

    tokenizer = tiny.tokenizer()
    with ThreadPoolExecutor(4) as pool:
        rows = list(pool.map(lambda i: row_of(tokenizer, "Q<end>", [f"{i % 10}<end>5"]), range(4000)))
    assert not any(tokenizer.eos_token_id in row.ids for row in rows)
    assert len(rows[0].ids) == len("Q<end>\n0<end>5\n")


def test_a_score_that_is_no_number_is_an_error(verifier: TrainedVerifier) -> None:
    """Never a rejection."""
    import torch

    verifier.open()
    with torch.no_grad():
        verifier._get()[2].head.bias.fill_(float("nan"))
    (check,) = checks(verifier, "We add.")
    assert (check.verdict, check.reason) == ("error", "not finite")


def test_another_model_or_no_verifier_is_refused(made: tuple[Path, Path], tmp_path: Path) -> None:
    """A verifier follows its language model's weights; a directory without one says how to make it."""
    directory, model = made
    kept = {path.name: path.read_bytes() for path in model.iterdir()}
    identity = TrainedVerifier(directory).identity
    assert len(identity) == 32
    try:
        tiny.save(model, seed=9)
        with pytest.raises(ResourceError, match="another language model"):
            TrainedVerifier(directory).open()
    finally:
        for name, content in kept.items():
            (model / name).write_bytes(content)
    TrainedVerifier(directory).open()
    with pytest.raises(ResourceError, match="draftverify fit part verifier"):
        TrainedVerifier(tmp_path).open()
    whole = (directory / "verifier.safetensors").read_bytes()
    for content in (whole[:-8], b"{", whole.replace(b"a verifier, version 3", b"a verifier, version 2")):
        (tmp_path / "verifier.safetensors").write_bytes(content)
        with pytest.raises(ResourceError, match="holds no trained verifier"):
            TrainedVerifier(tmp_path).open()
    (tmp_path / "verifier.safetensors").write_bytes(whole.replace(b"q_proj", b"a_proj"))
    with pytest.raises(ResourceError, match="other layers"):
        TrainedVerifier(tmp_path).open()


@pytest.mark.parametrize(
    ("family", "dtype"), [("Granite", "float32"), ("GPT2", "float32"), ("Gemma2", "bfloat16")]
)
def test_any_causal_model_is_read_as_far_as_is_said(family: str, dtype: str) -> None:
    """Also one that scales what it embeds, that calls its layers otherwise, or whose layers differ; what is trained is
    in float32, and of the rest nothing is."""
    import torch
    import transformers

    from draftverify_reasoning.token_scores import TokenScores

    size = dict.fromkeys(("hidden_size", "intermediate_size"), 16)
    size |= {"num_attention_heads": 2, "num_key_value_heads": 2, "vocab_size": 50, "num_hidden_layers": 3}
    tokens = {"bos_token_id": 0, "eos_token_id": 1, **({} if family == "GPT2" else {"head_dim": 8})}
    config = getattr(transformers, f"{family}Config")(**size, **tokens)
    model = transformers.AutoModelForCausalLM.from_config(config).to(getattr(torch, dtype)).eval()
    ids = torch.tensor([[1, 2, 3]])
    with torch.no_grad():
        states = model(ids, output_hidden_states=True).hidden_states[2].float()
    network = TokenScores(model.base_model, layers=1, depth=2).eval()
    *_, layers, norm = [part for part in network.base.children() if "Rotary" not in type(part).__name__]
    read: list[torch.Tensor] = []
    norm.register_forward_hook(lambda _, given, __: read.append(given[0].float()))
    assert network(ids).shape == (1, 3)
    assert torch.allclose(read[0], states, atol=0.1 if dtype == "bfloat16" else 1e-5)
    trained = network.trained()
    assert {tensor.dtype for tensor in trained.values()} == {torch.float32}
    assert len(trained) == 2 + len([*layers[1].parameters()])
    for count, depth in ((1, 4), (3, 2)):
        with pytest.raises(ConfigError, match="layers"):
            TokenScores(model.base_model, count, depth)
