"""κ and α against worked examples."""

from __future__ import annotations

import math

import numpy as np
import pytest

from draftverify.stats.judgement import cohen_kappa, krippendorff_alpha


def test_kappa_of_a_worked_table():
    """20 both yes, 5 and 10 apart, 15 both no: p_o = .7, p_e = .5, κ = .4."""
    one = ["yes"] * 25 + ["no"] * 25
    other = ["yes"] * 20 + ["no"] * 5 + ["yes"] * 10 + ["no"] * 15
    assert cohen_kappa(one, other) == pytest.approx(0.4)
    assert cohen_kappa(one, one) == 1.0


def test_a_rater_who_always_says_the_same_has_no_kappa_above_0():
    """Agreement of .9 with a lopsided expected is none beyond chance."""
    assert cohen_kappa(["a"] * 10, ["a"] * 9 + ["b"]) == pytest.approx(0.0)
    assert math.isnan(cohen_kappa(["a"] * 3, ["a"] * 3))


def test_alpha_of_krippendorffs_own_example():
    """The nominal example of his 2011 paper: four raters, twelve units, values missing: α = .743."""
    ratings = [
        [1, 2, 3, 3, 2, 1, 4, 1, 2, None, None, None],
        [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, None, 3],
        [None, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, None],
        [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, None],
    ]
    counts = [[unit.count(kind) for kind in range(1, 6)] for unit in zip(*ratings, strict=True)]
    assert krippendorff_alpha(counts) == pytest.approx(0.743, abs=5e-4)


def test_weights_count_a_unit_as_often():
    """A unit of weight 2 is the unit twice."""
    one, other = ["a", "b", "b", "a"], ["a", "b", "a", "b"]
    weights = np.array([2.0, 1.0, 1.0, 1.0])
    assert cohen_kappa(one, other, weights) == pytest.approx(cohen_kappa(["a", *one], ["a", *other]))
    units = [(2, 0), (1, 1), (0, 2)]
    assert krippendorff_alpha(units, np.array([1.0, 2.0, 1.0])) == pytest.approx(
        krippendorff_alpha([units[0], units[1], units[1], units[2]])
    )
