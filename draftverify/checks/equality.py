"""When two JSON values are one, and at which places they differ: for the verifier `exact` and metrics alike."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import zip_longest
from typing import Any


def differences(expected: Any, value: Any, path: str = "$") -> Iterator[str]:
    """The places at which a value is not what was expected, as JSON paths; none where the two are one.

    Mappings are equal in any order, texts but for space around them; 1 and 1.0 are one number, and true is none.
    """
    if isinstance(expected, str) and isinstance(value, str):
        is_equal = expected.strip() == value.strip()
    elif isinstance(expected, Mapping) and isinstance(value, Mapping):
        for key in dict.fromkeys([*expected, *value]):
            if key in expected and key in value:
                yield from differences(expected[key], value[key], f"{path}.{key}")
            else:
                yield f"{path}.{key}"
        return
    elif isinstance(expected, (list, tuple)) and isinstance(value, (list, tuple)):
        missing = object()
        for place, (expected_item, item) in enumerate(zip_longest(expected, value, fillvalue=missing)):
            yield from differences(expected_item, item, f"{path}[{place}]")
        return
    else:
        is_equal = expected == value and isinstance(expected, bool) == isinstance(value, bool)
    if not is_equal:
        yield path
