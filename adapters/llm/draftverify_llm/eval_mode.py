"""Reading with a model that somebody trains: in eval mode for the time of a pass, and afterwards as it was."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Any
from weakref import WeakKeyDictionary

_counting = Lock()
_passes: WeakKeyDictionary[Any, int] = WeakKeyDictionary()
"""By a module that is in training mode but for the passes under way: how many these are. Threads may share a model."""


@contextmanager
def evaluating(modules: Iterable[Any]) -> Iterator[None]:
    """Modules are in eval mode inside, and each is in its own mode again afterwards.

    Only the flags are changed, as `Module.eval` does by itself: a layer's own `eval` may do more (some merge weights).

    Args:
        modules: all parts of a model, as `model.modules()` gives them.
    """
    with _counting:
        training = [module for module in modules if module.training or (_passes and module in _passes)]
        for module in training:
            _passes[module] = _passes.get(module, 0) + 1
            module.training = False
    try:
        yield
    finally:
        with _counting:
            for module in training:
                _passes[module] -= 1
                if not _passes[module]:
                    del _passes[module]
                    module.training = True
