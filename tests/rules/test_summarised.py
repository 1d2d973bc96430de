"""Summaries of drafted tokens: what a record keeps of two distributions is what they were; no decision is changed."""

from __future__ import annotations

import math
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from draftverify import Context, Draws, Evidence, Pipeline, Proposal, Verification, without_replacement
from draftverify.bench.runner.summarised import Summarised
from draftverify.errors import ConfigError, StoreError
from draftverify.kit import make_context
from draftverify.rules import First, GreedyMatch, Speculative, Tree
from draftverify.token_summary import TokenSummary, pack_summaries, read_summaries
from draftverify.traits import GeneratorTraits, VerifierTraits
from draftverify.values import Law, iid


def distributions(rng: np.random.Generator, rows: int, vocabulary: int, zeros: float) -> Any:
    weights = rng.gamma(0.3, size=(rows, vocabulary)) * (rng.random((rows, vocabulary)) >= zeros)
    weights[:, rng.integers(vocabulary)] += 1e-3
    return (weights / weights.sum(axis=-1, keepdims=True)).astype(np.float32)


def block(seed: int, *, vocabulary: int, n: int, kind: str, zeros: float = 0.0) -> tuple[Any, Any]:
    """A block of n tokens: a chain that was drawn or given, or a tree."""
    rng = np.random.default_rng(seed)
    p = distributions(rng, n + 1, vocabulary, zeros)
    q = distributions(rng, n + 1, vocabulary, zeros)
    if kind == "tree":
        parents = [int(rng.integers(-1, i)) for i in range(n)]
        used: dict[int, set[int]] = {}
        items = []
        for parent in parents:
            taken = used.setdefault(parent, set())
            free = [x for x in np.flatnonzero(q[parent + 1]).tolist() if x not in taken] or [0]
            items.append(int(rng.choice(free)))
            taken.add(items[-1])
        proposal = Proposal.tree(tuple(items), parents, without_replacement(q))
    else:
        items = tuple(int(rng.choice(np.flatnonzero(row))) for row in q[:n])
        proposal = Proposal.chain(items, iid(q[:n]) if kind == "iid" else Law("given"))
    return proposal, Verification(evidence=Evidence(target=p))


def expected(proposal: Proposal, verification: Verification) -> list[dict[str, Any]]:
    """The definition, token by token, in double precision."""
    made = []
    for x, parent in zip(proposal.items, proposal.parents, strict=True):
        p = np.asarray(verification.evidence.target[parent + 1], dtype=np.float64)
        q = np.zeros_like(p)
        if proposal.law.q is None:
            q[x] = 1
        else:
            q = np.asarray(proposal.law.q[parent + 1], dtype=np.float64)
        top = sorted(((share, -token) for token, share in enumerate(p.tolist()) if share > 0), reverse=True)[
            :32
        ]
        made.append({
            "p": p[x], "q": q[x], "tv": np.abs(p - q).sum() / 2, "p_max": p.max(), "q_max": q.max(),
            "entropy": -sum(share * math.log(share) for share in p.tolist() if share > 0),
            "tail": 1 - sum(share for share, _ in top), "top": [(-token, share) for share, token in top],
        })  # fmt: skip
    return made


def decided(rule: Any, blocks: list[tuple[Any, Any]]) -> list[Any]:
    contexts = [make_context() for _ in blocks]
    return rule.decide_many(
        contexts, *map(list, zip(*blocks, strict=True)), [Draws((1, 2), i) for i in range(len(blocks))]
    )


@given(
    seed=st.integers(0, 2**32 - 1),
    vocabulary=st.integers(2, 90),
    lengths=st.lists(st.integers(0, 5), min_size=1, max_size=4),
    kind=st.sampled_from(["iid", "given", "tree"]),
    zeros=st.sampled_from([0.0, 0.7]),
)
@settings(max_examples=60)
def test_a_summary_is_what_the_distributions_say(
    seed: int, vocabulary: int, lengths: list[int], kind: str, zeros: float
) -> None:
    """Every figure by its definition; probabilities of the likeliest tokens but for half precision; the decision is the
    rule's own, and a batch says of a block what it says of it alone."""
    rule: Any = Tree() if kind == "tree" else Speculative()
    blocks = [
        block(seed + i, vocabulary=vocabulary, n=n, kind=kind, zeros=zeros) for i, n in enumerate(lengths)
    ]
    made = decided(Summarised(rule), blocks)
    assert [msgspec.structs.replace(each, tokens=b"") for each in made] == decided(rule, blocks)
    for decision, (proposal, verification) in zip(made, blocks, strict=True):
        summaries = read_summaries(decision.tokens)
        assert len(summaries) == len(proposal.items)
        for found, wanted in zip(summaries, expected(proposal, verification), strict=True):
            for name in ("p", "q", "tv", "p_max", "q_max", "entropy", "tail"):
                assert getattr(found, name) == pytest.approx(wanted[name], rel=1e-5, abs=2e-6), name
            assert [token for token, _ in found.top] == [token for token, _ in wanted["top"]]
            for (_, share), (_, true) in zip(found.top, wanted["top"], strict=True):
                assert share == pytest.approx(true, rel=2**-11, abs=3.1e-8)
    alone = [decided(Summarised(rule), [each])[0].tokens for each in blocks]
    assert [each.tokens for each in made] == alone


def test_raw_maxima_are_taken_where_parts_bring_them() -> None:
    """A row after filters or at temperature 0 does not show how sure the model was; the parts do."""
    proposal, verification = block(3, vocabulary=20, n=2, kind="iid")
    raw_p, raw_q = np.asarray([0.5, 0.25, 0.125]), np.asarray([0.75, 0.375])
    law = Law("iid", proposal.law.q, raw_q)
    evidence = Evidence(target=verification.evidence.target, raw_maxima=raw_p)
    made = decided(
        Summarised(Speculative()),
        [(msgspec.structs.replace(proposal, law=law), Verification(evidence=evidence))],
    )
    found = read_summaries(made[0].tokens)
    assert [(each.p_max, each.q_max) for each in found] == [(0.5, 0.75), (0.25, 0.375)]


def test_torch_on_the_host_is_summarised_as_numpy() -> None:
    """The same bytes, also where the draft's rows are of another library than the target's."""
    torch = pytest.importorskip("torch")
    proposal, verification = block(5, vocabulary=50, n=4, kind="iid")
    p, q = verification.evidence.target, proposal.law.q
    wanted = decided(Summarised(Speculative()), [(proposal, verification)])
    for target, drafted in ((torch.from_numpy(p), torch.from_numpy(q)), (torch.from_numpy(p), q)):
        block_ = Proposal.chain(proposal.items, iid(drafted)), Verification(evidence=Evidence(target=target))
        assert decided(Summarised(Speculative()), [block_]) == wanted


@pytest.mark.parametrize("damage", [b"\x02", b"\x01\x00", None])
def test_damaged_summaries_are_told(damage: bytes | None) -> None:
    """What is no summary, or ends in the middle, is a StoreError and no wrong figure."""
    whole = pack_summaries(np.zeros((1, 7)), np.zeros((1, 2)), np.ones((1, 2)))
    assert read_summaries(whole) == (TokenSummary(*[0.0] * 7, top=((0, 1.0), (0, 1.0))),)
    with pytest.raises(StoreError, match="cannot be read"):
        read_summaries(whole[:-1] if damage is None else damage)


def test_a_token_takes_the_bytes_that_are_promised() -> None:
    """221 at most, however large the vocabulary."""
    proposal, verification = block(1, vocabulary=5000, n=3, kind="iid")
    packed = decided(Summarised(Speculative()), [(proposal, verification)])[0].tokens
    assert len(packed) == 1 + 3 * 221
    assert len(msgspec.json.encode(packed)) / 3 <= 300


def test_a_rule_without_distributions_is_refused() -> None:
    """There is nothing to summarise; the message names the rule."""
    with pytest.raises(ConfigError, match="First"):
        Summarised(First())


class Coin:
    """A generator and a verifier over two tokens, whose distributions are known."""

    traits = (GeneratorTraits(shape="chain", laws={"iid"}), VerifierTraits(provides={"target"}))
    q = np.asarray([[0.25, 0.75]])

    def propose(self, context: Context, n: int) -> Proposal:
        return Proposal.chain((1,), iid(self.q))

    def verify(self, context: Context, proposal: Proposal) -> Verification:
        return Verification(evidence=Evidence(target=np.asarray([[0.5, 0.5]] * (len(proposal) + 1))))


def test_a_round_keeps_them_and_the_rest_is_as_without() -> None:
    """In a pipeline: the round has the summaries, the decision has not, and everything else is the same."""
    coin = Coin()

    def rounds(rule: Any) -> Any:
        return Pipeline(coin, coin, rule, done=lambda context, new: 3, seed=4).record("x").rounds

    plain, kept = rounds(Speculative())[0], rounds(Summarised(Speculative()))[0]
    (summary,) = read_summaries(kept.tokens)
    assert (summary.p, summary.q, summary.tv) == (0.5, 0.75, 0.25)
    assert kept.decision == plain.decision
    assert kept.items == plain.items
    assert plain.tokens == b""
    again = msgspec.json.decode(msgspec.json.encode(kept), type=type(kept))
    assert again.tokens == kept.tokens


def test_it_stands_in_for_the_rule_everywhere() -> None:
    """Same needs, laws and identity; messages call it by the rule's name."""
    from draftverify.engine.parts import name_of
    from draftverify.identity import identity_of

    rule = GreedyMatch()
    made = Summarised(rule)
    assert (made.traits.needs, made.traits.laws, identity_of(made)) == (
        rule.traits.needs,
        rule.traits.laws,
        identity_of(rule),
    )
    assert name_of(made) == "GreedyMatch"
    assert hasattr(made, "finish") == hasattr(rule, "finish")
