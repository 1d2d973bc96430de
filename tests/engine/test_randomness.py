"""Random draws: a published generator, the same numbers everywhere, streams kept apart."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from draftverify.randomness import Draws, inverse_cdf, philox, stream_key, uniforms

ONES = 0xFFFFFFFF


@pytest.mark.parametrize(
    ("key", "counter", "expected"),
    [
        ((0, 0), (0, 0, 0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
        ((ONES, ONES), (ONES, ONES, ONES, ONES), (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
        (
            (0xA4093822, 0x299F31D0),
            (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
            (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
        ),
    ],
)
def test_philox_gives_the_published_answers(key, counter, expected):
    """The known-answer vectors of Random123's philox4x32-10."""
    assert philox(key, counter) == expected


@given(
    st.integers(0, 2**40), st.text(max_size=8), st.integers(0, 3), st.integers(0, 10**6), st.integers(0, 40)
)
def test_arrays_and_scalars_draw_alike(seed, task, attempt, round, positions):
    """NumPy batches, torch batches and single draws give the same 53-bit numbers."""
    torch = pytest.importorskip("torch")
    key = stream_key(seed, task, attempt, "rule")
    single = [Draws(key, round).uniform(i) for i in range(positions + 1)]
    steps = np.arange(positions + 1)
    batch = uniforms(np.array([key]), np.array([round]), steps)
    device = uniforms(torch.tensor([key]), torch.tensor([round]), torch.tensor(steps))
    assert batch[0].tolist() == single
    assert device[0].tolist() == single


def test_every_coordinate_matters():
    """Another seed, task, attempt, role, round, position or draw is another number."""
    coordinates = [(0, "a", 0, "draft", 0, 0, 0)]
    for place, value in enumerate((1, "b", 1, "rule", 1, 1, 1)):
        changed = list(coordinates[0])
        changed[place] = value
        coordinates.append(tuple(changed))
    drawn = {Draws(stream_key(*c[:4]), c[4]).uniform(c[5], c[6]) for c in coordinates}
    assert len(drawn) == len(coordinates)


@pytest.mark.parametrize("position", [-1, 1 << 32, (1 << 70) + 5])
def test_any_position_gives_a_number_on_the_unit_interval(position):
    """Of a position that is out of range the low 32 bits count."""
    draws = Draws((1, 2), 0)
    assert 0 <= draws.uniform(position) < 1
    assert draws.uniform(position) == draws.uniform(position % (1 << 32))


@given(st.integers(-(2**70), 2**70))
def test_a_seed_is_one_at_any_position(position):
    """Libraries take 63 bits, and none below 0."""
    assert 0 <= Draws((1, 2), 3).seed(position) < 2**63


def test_draws_are_uniform_and_streams_independent():
    """Mean, variance and the correlation of two roles over 40,000 draws; each bound is 5 standard errors (p < 1e-5)."""
    n = 40_000
    first = uniforms(np.array([stream_key(1, "t", 0, "draft")]), np.array([0]), np.arange(n))[0]
    second = uniforms(np.array([stream_key(1, "t", 0, "rule")]), np.array([0]), np.arange(n))[0]
    assert abs(first.mean() - 0.5) < 5 * np.sqrt(1 / 12 / n)
    assert abs(first.var() - 1 / 12) < 5 * np.sqrt(1 / 180 / n)
    assert abs(np.corrcoef(first, second)[0, 1]) < 5 / np.sqrt(n)


@given(
    st.lists(st.floats(0, 1), min_size=1, max_size=6).filter(lambda w: sum(w) > 1e-9),
    st.floats(0, 1, exclude_max=True),
)
def test_inverse_cdf_never_picks_weight_zero(weights, u):
    """Whatever the rounding, an index of weight zero is not drawn."""
    index = int(inverse_cdf(np.array(weights), np.array(u)))
    assert weights[index] > 0


def test_inverse_cdf_inverts():
    """The index changes exactly at the cumulative sums."""
    weights = np.array([0.25, 0.0, 0.5, 0.25])
    points = np.array([0.0, 0.2499, 0.25, 0.7499, 0.75, 1 - 2**-53])
    assert inverse_cdf(np.tile(weights, (6, 1)), points).tolist() == [0, 0, 2, 2, 3, 3]


@given(st.integers(1, 700), st.integers(0, 10**6), st.integers(0, 2**53 - 1))
def test_inverse_cdf_of_a_wide_row_is_that_of_its_running_sum(size, seed, u):
    """Runs of items are summed first; the index is the same, and never one of weight zero."""
    rng = np.random.default_rng(seed)
    weights = rng.random((2, size)) * (rng.random((2, size)) < 0.3)
    weights[:, rng.integers(size)] = 0.5
    points = np.array([u / 2**53, rng.random()])
    cumulative = np.cumsum(weights, axis=-1)
    found = inverse_cdf(weights, points)
    assert (weights[[0, 1], found] > 0).all()
    level = points * cumulative[:, -1]
    assert (cumulative[[0, 1], found] >= level - 1e-12).all()
    assert ((found == 0) | (cumulative[[0, 1], found - 1] <= level + 1e-12)).all()


def test_inverse_cdf_of_what_is_no_distribution_fails_nowhere():
    """The caller finds it by its mass, when the draw has been made."""
    for bad in (0.0, np.nan, np.inf):
        for size in (5, 1000):
            with np.errstate(invalid="ignore"):
                found = inverse_cdf(np.full((3, size), bad), np.array([0.0, 0.5, 1 - 2**-53]))
            assert (found >= 0).all()
