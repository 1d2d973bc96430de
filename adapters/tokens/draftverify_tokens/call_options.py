"""What the arguments of a decoder or of a call may be, and what other libraries call them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from draftverify import ConfigError
from draftverify_tokens.models import end_ids
from draftverify_tokens.sampling import SETTINGS, is_whole

ELSEWHERE = {
    "assistant_model": "drafter",
    "batch_size": "batch_size of generate",
    "device": "model=LocalModel(…, device=…)",
    "do_sample": "temperature, where 0 takes the likeliest token",
    "dtype": "model=LocalModel(…, dtype=…)",
    "gamma": "block",
    "guided_json": "json_schema",
    "max_length": "max_new_tokens",
    "max_tokens": "max_new_tokens",
    "min_tokens": "min_new_tokens",
    "n": "n of generate",
    "num_assistant_tokens": "block",
    "num_return_sequences": "n",
    "prompt_lookup_num_tokens": "drafter='lookup', and block for a fixed number of tokens",
    "sampling_params": "the arguments themselves, and per_prompt of generate",
    "stop_strings": "stop",
    "stop_token_ids": "eos_token_id",
    "stream": "the function stream(), which yields text",
    "streamer": "the function stream(), which yields text",
}
"""What other libraries call it."""


def check_names(options: Mapping[str, Any], names: Sequence[str]) -> None:
    """Refuse arguments that are neither of these names nor a setting.

    Raises:
        ConfigError: with the name that may be meant.
    """
    for name in options:
        if name in SETTINGS or name in names:
            continue
        meant = ELSEWHERE.get(name) or next(iter(get_close_matches(name, [*names, *SETTINGS], n=1)), None)
        known = ", ".join(sorted({*names, *SETTINGS}))
        hint = f"did you mean {meant}?" if meant else f"there are {known}"
        raise ConfigError(f"there is no argument {name!r}; {hint}", path=name)


def check_whole(name: str, value: Any, needed: str, *, least: float = 1) -> None:
    """Refuse what is no whole number, or is below the least.

    Raises:
        ConfigError: with what is needed.
    """
    if not is_whole(value, least):
        raise ConfigError(f"{name} is {value!r}; {needed}", path=name)


def read_options(options: Mapping[str, Any]) -> tuple[tuple[str, ...], frozenset[int] | None]:
    """The stop strings and the end tokens of options; None for the model's own.

    Raises:
        ConfigError: an option is of no such form.
    """
    stop, limit, logprobs = (options[name] for name in ("stop", "max_new_tokens", "logprobs"))
    strings = tuple(stop) if isinstance(stop, Sequence) and not isinstance(stop, str) else (stop,)
    if not all(isinstance(string, str) and string for string in strings):
        raise ConfigError(
            f"stop is {stop!r}; texts with a character at least are needed, or () for none", path="stop"
        )
    if limit is not None:
        check_whole("max_new_tokens", limit, "1 or more is needed, or None for as many as fit")
    if type(logprobs) is not bool:
        check_whole("logprobs", logprobs, "True, False or a number of likeliest tokens is needed", least=0)
    if (seed := options["seed"]) is not None:
        check_whole("seed", seed, "a whole number is needed, or None for any", least=-math.inf)
    for name in ("chat", "ignore_eos"):
        if type(options[name]) is not bool:
            raise ConfigError(f"{name} is {options[name]!r}; True or False is needed", path=name)
    criteria = options["stopping_criteria"]
    if not isinstance(criteria, Sequence) or not all(map(callable, criteria)):
        raise ConfigError(
            f"stopping_criteria is {criteria!r:.80}; a list of callables (input_ids, scores) -> bool is needed",
            path="stopping_criteria",
        )
    if (ends := options["eos_token_id"]) is None:
        return strings, None
    ids = end_ids(ends)
    if not ids or not all(type(id) is int for id in ids):
        raise ConfigError(
            f"eos_token_id is {ends!r:.80}; one token id or several are needed", path="eos_token_id"
        )
    return strings, frozenset(ids)
