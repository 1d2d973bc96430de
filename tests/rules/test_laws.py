"""The position-wise laws as formulas: what they say they emit, and their bounds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from draftverify.rules import Cascade, Ensemble, Lenience, Lossy, Speculative

from . import oracle


@st.composite
def rows(draw: Any) -> tuple[Any, Any]:
    """p and q over up to eight items, with zeros here and there; never the same twice by chance alone."""
    size = draw(st.integers(2, 8))
    made = []
    for _ in range(2):
        weights = draw(st.lists(st.integers(0, 20), min_size=size, max_size=size).filter(any))
        made.append(np.asarray(weights) / sum(weights))
    return made[0], made[1]


alphas = st.floats(0.0, 0.9)
LAWS = [
    (lambda a: Speculative(), lambda a: oracle.speculative),
    (lambda a: Lenience(1 - a), lambda a: oracle.lenience(1 - a)),
    (lambda a: Lossy(a), lambda a: oracle.lossy(a)),
    (lambda a: Lossy(a, 1.0), lambda a: oracle.lenience(1 - a)),
    (lambda a: Ensemble(1 - a), lambda a: oracle.ensemble(1 - a)),
    (lambda a: Cascade("chow", a), oracle.chow),
    (lambda a: Cascade("diff", a), oracle.diff),
    (lambda a: Cascade("opt", a), oracle.opt),
    (lambda a: Cascade("token_v1", a), oracle.token_v1),
    (lambda a: Cascade("token_v2", a), oracle.token_v2),
    (lambda a: Cascade("token_v3", a), oracle.token_v3),
]


@pytest.mark.parametrize(("law", "pi"), LAWS, ids=lambda part: getattr(part, "__name__", ""))
@given(rows=rows(), alpha=alphas)
def test_emitted_is_the_declared_pi(law: Any, pi: Any, rows: Any, alpha: float) -> None:
    """`emitted`, which is made of what the template plays, is the formula of the paper, and a distribution."""
    p, q = rows
    found = law(alpha).emitted(p, q, p.max(), q.max())
    # A tie in a comparison may fall either way by rounding; both sides are computed the same way, so none here.
    assert np.allclose(found, pi(alpha)(p, q, p.max(), q.max()), atol=1e-9)
    assert np.isclose(found.sum(), 1.0)
    assert (found >= -1e-12).all()


@given(rows=rows(), alpha=alphas)
def test_bounds(rows: Any, alpha: float) -> None:
    """Lenience and the lossy law stay below p/ℓ; the ensemble is (1 − w)·TV from p."""
    p, q = rows
    for law in (
        Lenience(1 - alpha),
        Lossy(alpha),
        Lossy(alpha, 1.0),
        Lossy(alpha, 1 - alpha / 2),
    ):
        emitted = law.emitted(p, q)
        assert (emitted <= p / (1 - alpha) + 1e-12).all()
        assert abs(emitted - p).sum() / 2 <= alpha + 1e-12
    mixed = Ensemble(1 - alpha).emitted(p, q)
    assert np.isclose(abs(mixed - p).sum(), alpha * abs(q - p).sum())


@given(rows=rows(), alpha=st.floats(-1.0, 1.0))
def test_bounds_of_the_cascades(rows: Any, alpha: float) -> None:
    """For a whole position π is q or p; item by item it moves no more mass than is kept of q."""
    p, q = rows
    apart = abs(q - p).sum() / 2
    for kind in ("chow", "diff", "opt"):
        tv = abs(Cascade(kind, alpha).emitted(p, q, p.max(), q.max()) - p).sum() / 2
        assert np.isclose(tv, apart, atol=1e-9) or np.isclose(tv, 0.0, atol=1e-9)
    for kind, kept in (("token_v1", q >= p.max() - alpha), ("token_v2", p >= p.max() - alpha)):
        assert abs(Cascade(kind, alpha).emitted(p, q) - p).sum() / 2 <= q[kept].sum() + 1e-12


def test_what_the_notebook_calls_the_lossy_law_is_another() -> None:
    """(p/β − q)₊ shares a rejection's mass out otherwise than (p − q)₊."""
    p, q = np.asarray([0.5, 0.4, 0.1]), np.asarray([0.1, 0.3, 0.6])
    assert np.allclose(Lossy(0.5).emitted(p, q), [4 / 9, 0.8 - 4 / 9, 0.2])
    assert np.allclose(Lossy(0.5, 1.0).emitted(p, q), [0.42, 0.38, 0.2])


def test_rows_of_any_leading_shape() -> None:
    """Laws are maps over the last axis."""
    rng = np.random.default_rng(0)
    p, q = rng.dirichlet(np.ones(4), (2, 3)), rng.dirichlet(np.ones(4), (2, 3))
    for law in (Speculative(), Lossy(0.2), Cascade("opt", 0.3), Cascade("token_v1", 0.2)):
        whole = law.emitted(p, q, p.max(-1), q.max(-1))
        assert whole.shape == (2, 3, 4)
        assert np.allclose(whole[1, 2], law.emitted(p[1, 2], q[1, 2], p[1, 2].max(), q[1, 2].max()))
