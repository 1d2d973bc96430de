"""The figures in the docs are those of the committed JSON: this writes them there, and says where they differ.

A figure in a page is a link to the file that it comes from, and the link's title says where in the file it stands, as a
JSON pointer (RFC 6901):

    runs at [1.58 [1.47, 1.71]](../benchmarks/results/tokens.json "/categories/rag/lookup/against plain") times …

A pointer to a number gives that number, one to a figure with an interval ({"value": …, "low": …, "high": …} or a list
of three, or of four that ends in how many there were) gives all three. `POINTER over POINTER` is a ratio, `POINTER
times 1000` another unit. How many digits are shown, and whether as a percentage, is taken from what the page says
now. A table is made by a benchmark's own `--show`:

    <!-- table: python -m benchmarks.tokens --show benchmarks/results/tokens.json -->
    …
    <!-- end of table -->

    python -m benchmarks.figures            # exits with 1 where a page says something else
    python -m benchmarks.figures --write    # writes what the JSON says
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import re
import runpy
import shlex
import sys
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
LINK = re.compile(r"\[((?:[^\[\]\n]|\[[^\[\]\n]*\])*)\]\(([^()\s]+\.json) \"(/[^\"\n]*)\"\)")
NUMBER = re.compile(r"[-−]?(?:\d+(?:,\d{3})*(?:\.\d+)?|\.\d+)")
TABLE = re.compile(r"(<!-- table: python -m (.+?) -->\n)(.*?)(<!-- end of table -->)", re.S)
MIDDLE = ("value", "mean", "median", "ratio", "measured")
ENDS = (("low", "high"), ("least", "greatest"), ("least", "largest"))


class Misplaced(Exception):
    """A page asks for a figure that its JSON does not have."""


def pages() -> list[Path]:
    """The README, the docs and the histories of measurements."""
    return [
        ROOT / "README.md",
        *sorted((ROOT / "docs").rglob("*.md")),
        *sorted((ROOT / "benchmarks").glob("*.md")),
        *sorted((ROOT / "examples").glob("*/README.md")),
    ]


def renewed(page: Path, text: str) -> str:
    """The page's text with the figures that the JSON holds.

    Raises:
        Misplaced: naming the page and the pointer.
    """

    def figure(link: re.Match[str]) -> str:
        shown, file, pointer = link.groups()
        try:
            return f'[{written(shown, looked_up(_read((page.parent / file).resolve()), pointer))}]({file} "{pointer}")'
        except Misplaced as error:
            raise Misplaced(f"{page}: {file} {pointer}: {error}") from None

    return TABLE.sub(lambda found: found[1] + _table(found[2]) + found[4], LINK.sub(figure, text))


def looked_up(data: Any, expression: str) -> list[float]:
    """The figure that an expression stands for: one number, or a value with its interval."""
    expression, _, factor = expression.partition(" times ")
    over = [_numbers(_at(data, pointer)) for pointer in expression.split(" over ")]
    found = over[0]
    if len(over) == 2:
        if len(found) != 1 or len(over[1]) != 1:
            raise Misplaced("a ratio is of two numbers; one of an interval is no interval")
        found = [found[0] / over[1][0]]
    return [number * float(factor or 1) for number in found]


def written(shown: str, numbers: list[float]) -> str:
    """Numbers in the form in which they were shown: as many digits, as a percentage, with its words around them."""
    places = list(NUMBER.finditer(shown))
    if len(places) != len(numbers):
        raise Misplaced(f"{shown!r} shows {len(places)} numbers, the JSON has {len(numbers)}")
    percent = 100 if re.search(r"\d ?%", shown) else 1
    made, end = [], 0
    for place, number in zip(places, numbers, strict=True):
        made += [shown[end : place.start()], _digits(place[0], number * percent)]
        end = place.end()
    return "".join(made) + shown[end:]


def _digits(shown: str, number: float) -> str:
    text = f"{abs(number):,.{len(shown.partition('.')[2])}f}"
    if "," not in shown and len(shown.strip("-−").partition(".")[0]) > 3:
        text = text.replace(",", "")
    if shown.lstrip("-−").startswith(".") and text.startswith("0."):
        text = text[1:]
    return ("−" if number < 0 and text.strip("0.,") else "") + text


def _numbers(found: Any) -> list[float]:
    if isinstance(found, dict):
        middle = next((name for name in MIDDLE if name in found), None)
        ends = next((pair for pair in ENDS if set(pair) <= set(found)), None)
        if middle is None or ends is None:
            raise Misplaced(f"no figure stands there but {', '.join(found)}")
        found = [found[middle], *(found[end] for end in ends)]
    if isinstance(found, list) and len(found) == 4 and type(found[3]) is int:
        found = found[:3]
    numbers = found if isinstance(found, list) else [found]
    if len(numbers) not in (1, 3) or not all(type(each) in (int, float) for each in numbers):
        raise Misplaced(f"a number or a value with its interval is needed, not {json.dumps(found)[:80]}")
    return [float(each) for each in numbers]


def _at(data: Any, pointer: str) -> Any:
    for step in pointer.split("/")[1:]:
        key = step.replace("~1", "/").replace("~0", "~")
        try:
            data = data[int(key)] if isinstance(data, list) else data[key]
        except (KeyError, IndexError, ValueError, TypeError):
            there = ", ".join(data) if isinstance(data, dict) else f"{type(data).__name__}"
            raise Misplaced(f"there is no {key!r} in {there[:200]}") from None
    return data


@lru_cache
def _read(file: Path) -> Any:
    try:
        return json.loads(file.read_text())
    except OSError as error:
        raise Misplaced(f"cannot be read: {error.strerror}") from None


@lru_cache
def _table(command: str) -> str:
    """What the command prints, run in this process: a process for each would import the library each time."""
    told, before = io.StringIO(), (sys.argv, Path.cwd())
    sys.argv = shlex.split(command)
    os.chdir(ROOT)
    try:
        with contextlib.redirect_stdout(told):
            runpy.run_module(sys.argv[0], run_name="__main__")
    except (Exception, SystemExit) as error:
        if not isinstance(error, SystemExit) or error.code:
            raise Misplaced(f"python -m {command} ended with {error!r}") from error
    finally:
        sys.argv = before[0]
        os.chdir(before[1])
    return told.getvalue().strip("\n") + "\n"


def differing(write: bool) -> Iterator[str]:
    """The pages that say something else than their JSON, with the first such line; mended if asked for."""
    for page in pages():
        text = page.read_text()
        new = renewed(page, text)
        if new != text:
            lines = zip(text.splitlines(), new.splitlines(), strict=False)
            old, now = next(pair for pair in lines if pair[0] != pair[1])
            yield f"{page.relative_to(ROOT)}\n  says {old}\n  JSON {now}"
            if write:
                page.write_text(new)


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--write", action="store_true", help="write what the JSON says")
    write = parser.parse_args().write
    found = list(differing(write))
    print("\n".join(found))
    return int(bool(found) and not write)


if __name__ == "__main__":
    sys.exit(main())
