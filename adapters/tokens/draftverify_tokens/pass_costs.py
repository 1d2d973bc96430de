"""What a pass of a model takes by the size of its block, timed once per module, type and device of a process.

Blocks do not cost what their rows let expect: in float32 on a CPU two rows may take longer than four. A controller that
knows it from the beginning need not find out at a text's expense.
"""

from __future__ import annotations

from collections.abc import Mapping
from time import perf_counter
from typing import Any
from weakref import WeakKeyDictionary

from draftverify_tokens.sampling import probabilities
from draftverify_tokens.self_test import chain_of, later, ordinary_tokens, session_of
from draftverify_tokens.states import reader_of

SIZES = (0, 1, 2, 3, 4, 8, 16)
REPEATS, ENOUGH = 3, 0.5
"""Each size is timed so often, or until so many seconds are spent."""
PROMPT = 64
"""Tokens before the first pass."""

_KNOWN: WeakKeyDictionary[Any, dict[Any, Mapping[int, float]]] = WeakKeyDictionary()
"""By the module: seconds by block size, for each type and device."""


def pass_seconds(module: Any, positions: int | None) -> Mapping[int, float]:
    """Seconds of a greedy pass of one sequence by its drafted tokens, 0 a plain step: the least of a few.

    Args:
        module: a transformers causal language model that has stood the self-test.
        positions: how many tokens it takes; None: no limit known.

    Returns:
        Seconds for blocks of `SIZES`; {} for a model of too few positions to try.
    """
    weight = module.get_input_embeddings().weight
    known = _KNOWN.setdefault(module, {})
    key = weight.dtype, weight.device
    if key not in known:
        length = PROMPT + REPEATS * len(SIZES) + SIZES[-1]
        known[key] = {} if positions is not None and positions < length else _timed(module)
    return known[key]


def _timed(module: Any) -> Mapping[int, float]:
    reader = reader_of(module, compiled=False)
    tokens = ordinary_tokens(module)
    text = [tokens[place % len(tokens)] for place in range(PROMPT + REPEATS * len(SIZES))]
    session = session_of(text[:PROMPT])
    reader.read([session], [chain_of(())])
    seconds: dict[int, float] = {}
    begun = perf_counter()
    for repeat in range(REPEATS):
        for place, size in enumerate(SIZES, 1 + repeat * len(SIZES)):
            session = later(session, text[PROMPT : PROMPT + place])
            start = perf_counter()
            reading = reader.read([session], [chain_of(text[:size])])
            float(probabilities(reading.logits, {"temperature": 0})[1].sum())  # waits for a device
            seconds[size] = min(perf_counter() - start, seconds.get(size, float("inf")))
        if perf_counter() - begun > ENOUGH:
            break
    return seconds
