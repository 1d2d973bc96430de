"""What the engine refuses of a part's answer, and what it lets pass, at the edges."""

from __future__ import annotations

import numpy as np
import pytest

from draftverify import PASS, ContractError, Decision, Evidence, Proposal, Refusal, Verification, iid
from draftverify.values import check_decision, check_proposal, check_verification

LAWS = frozenset({"given", "iid"})


def q(rows):
    return iid(np.full((rows, 4), 0.25))


def propose(proposal, *, asked=8, shape=None, shapes=None, held=0):
    check_proposal(proposal, asked, shape, shapes, LAWS, held)


@pytest.mark.parametrize(
    "proposal",
    [
        Proposal.chain(()),
        Proposal.chain((), q(0)),
        Proposal.chain((5,), q(1)),
        Proposal.chain((5, 6, 7), q(3)),
        Proposal.chain((5, 6, 7), q(4)),
        Proposal.alternatives((5, 6, 7), q(1)),
        Proposal.tree((5, 6, 7), (-1, 0, 0), q(2)),
    ],
)
def test_a_proposal_with_a_row_of_q_for_each_parent_is_taken(proposal):
    """A chain of n needs n rows, siblings one; more do no harm."""
    propose(proposal)


@pytest.mark.parametrize(
    ("proposal", "words"),
    [
        (Proposal.chain((5, 6, 7), q(2)), r"\[>= 3, vocabulary\]"),
        (Proposal.tree((5, 6, 7), (-1, 0, 1), q(2)), r"\[>= 3, vocabulary\]"),
        (Proposal.tree((5, 6, 7), (-1, 0, 0), q(1)), r"\[>= 2, vocabulary\]"),
        (Proposal.chain((5, 6), iid(np.full(4, 0.25))), "q has shape"),
        (Proposal.tree((5, 6), (-1, 1)), "item 1 has parent 1"),
        (Proposal.tree((5, 6), (-2, 0)), "item 0 has parent -2"),
        (Proposal.tree((5,), (0,)), "item 0 has parent 0"),
        (Proposal(items=(), parents=(-1,)), "0 items came with 1 parents"),
        (Proposal.chain(range(9)), "at most 8"),
    ],
)
def test_a_proposal_with_wrong_parents_or_rows_is_refused(proposal, words):
    """The error names the item, or the rows that are missing."""
    with pytest.raises(ContractError, match=words):
        propose(proposal)


def test_a_shape_is_held_against_what_the_generator_declares_and_the_rule_judges():
    """A chain is refused where alternatives are declared, or alone judged; one item is every shape."""
    chain, one = Proposal.chain((5, 6)), Proposal.chain((5,))
    propose(chain, shape="chain", shapes=frozenset({"chain", "tree"}))
    propose(chain, shape="chain")
    propose(one, shape="alternatives", shapes=frozenset({"alternatives"}))
    with pytest.raises(ContractError, match="declares shape 'alternatives'"):
        propose(chain, shape="alternatives")
    with pytest.raises(ContractError, match="the rule judges alternatives"):
        propose(chain, shape="chain", shapes=frozenset({"alternatives"}))


@pytest.mark.parametrize(("name", "rows"), [("target", 4), ("raw_maxima", 4), ("pairwise", 3), ("cross", 3)])
def test_evidence_has_a_row_for_each_item(name, rows):
    """Distributions have one more, after the last item; the error names the array."""
    check_verification(Verification(evidence=Evidence(**{name: np.ones((rows, 3))})), 3)
    for wrong in (rows - 1, rows + 1):
        verification = Verification(evidence=Evidence(**{name: np.ones((wrong, 3))}))
        with pytest.raises(ContractError, match=f"evidence {name} has {wrong} rows; {rows} are needed"):
            check_verification(verification, 3)


@pytest.mark.parametrize(
    "decision",
    [
        Decision(kept=(0, 1, 2)),
        Decision(kept=(0, 1), refused=(Refusal(2),)),
        Decision(refused=(Refusal(2), Refusal(0)), held=(1,)),
        Decision(kept=(2, 0)),
        Decision(released=(0,)),
    ],
)
def test_a_decision_on_items_that_are_there_is_taken(decision):
    """Each at most once, in any order."""
    check_decision(decision, 3, 1)


@pytest.mark.parametrize(
    ("decision", "words"),
    [
        (Decision(kept=(0, 1, 2, 3)), "item 3 was decided on in a block of 3"),
        (Decision(kept=(0, 1), refused=(Refusal(3),)), "item 3 was decided on"),
        (Decision(kept=(0, 1), refused=(Refusal(1),)), "decided on twice"),
        (Decision(kept=(0, 0)), "decided on twice"),
        (Decision(kept=(0,), held=(0,)), "decided on twice"),
        (Decision(refused=(Refusal(1), Refusal(1))), "decided on twice"),
        (Decision(kept=(-1,)), "item -1 was decided on"),
        (Decision(released=(1,)), "held item 1 was released; 1 are held"),
    ],
)
def test_a_decision_on_absent_items_or_on_one_twice_is_refused(decision, words):
    """The error names the index."""
    with pytest.raises(ContractError, match=words):
        check_decision(decision, 3, 1)


def test_checks_are_one_for_each_item():
    """Too many are refused as too few are, and so is a verification of nothing."""
    check_verification(Verification(checks=(PASS, PASS)), 2)
    for wrong in (Verification(checks=(PASS,)), Verification(checks=(PASS,) * 3), Verification()):
        with pytest.raises(ContractError, match="for 2 items"):
            check_verification(wrong, 2)
