"""Differential equations, parallel in time: a coarse solver drafts slices, a fine one checks them all in one pass."""

from draftverify_physics.metrics import PathError
from draftverify_physics.solvers import Coarse, Fine
from draftverify_physics.systems import SYSTEMS, Starts, integrate

__all__ = ["SYSTEMS", "Coarse", "Fine", "PathError", "Starts", "integrate"]
