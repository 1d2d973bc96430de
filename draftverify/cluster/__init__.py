"""Executors of clusters: Ray actors and Dask workers that keep their models."""

from draftverify.cluster.dask import Dask
from draftverify.cluster.ray import Placement, Ray

__all__ = ["Dask", "Placement", "Ray"]
