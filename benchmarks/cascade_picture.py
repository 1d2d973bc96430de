"""The cost and the quality of every way of `benchmarks.cascades`, as an SVG picture.

python -m benchmarks.cascade_picture > docs/cascades.svg      # from benchmarks/results/cascades.json
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, TypeAlias

WIDTH, HEIGHT = 860, 560
LEFT, RIGHT, TOP, BOTTOM = 70, 20, 20, 50
KINDS = {"sequential": "#b45309", "lossy": "#6b7280"}
Box: TypeAlias = "tuple[float, float, float, float]"
"""Left, top, right and bottom, y downwards."""
ENDS = ("target", "draft", "speculative")
"""The ends of the dial, which are joined: draft and speculative decoding mixed lie on that line."""


def picture(figures: dict[str, Any]) -> str:
    """Every way as a point with its 95 % interval in quality; cost to the right, quality upwards."""
    rows = figures["table"]
    points = {
        name: (row["cost_to_target"]["value"], row["quality_to_target"]["value"])
        for name, row in rows.items()
    }
    lowest = min(row["quality_to_target"]["low"] for row in rows.values()) - 0.03
    highest = max(row["quality_to_target"]["high"] for row in rows.values()) + 0.03

    def x(cost: float) -> float:
        return round(LEFT + cost / 1.05 * (WIDTH - LEFT - RIGHT), 1)

    def y(quality: float) -> float:
        return round(TOP + (highest - quality) / (highest - lowest) * (HEIGHT - TOP - BOTTOM), 1)

    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        'font-family="sans-serif" font-size="11">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
    ]
    for step in range(0, 11, 2):
        at = x(step / 10)
        lines.append(f'<line x1="{at}" y1="{TOP}" x2="{at}" y2="{HEIGHT - BOTTOM}" stroke="#e5e7eb"/>')
        lines.append(f'<text x="{at}" y="{HEIGHT - BOTTOM + 16}" text-anchor="middle">{step / 10:.1f}</text>')
    for step in range(int(lowest * 10), 1):
        at = y(step / 10)
        lines.append(f'<line x1="{LEFT}" y1="{at}" x2="{WIDTH - RIGHT}" y2="{at}" stroke="#e5e7eb"/>')
        lines.append(f'<text x="{LEFT - 8}" y="{at + 4}" text-anchor="end">{step / 10:.1f}</text>')
    lines.append(
        f'<text x="{(LEFT + WIDTH) / 2}" y="{HEIGHT - 12}" text-anchor="middle">'
        "seconds per token, over the target's</text>"
    )
    lines.append(
        f'<text transform="translate(16 {HEIGHT / 2}) rotate(-90)" text-anchor="middle">'
        "log-likelihood per token, less the target's own</text>"
    )
    for names, colour in (
        (("draft", "speculative"), "#111827"),
        (("draft", *sorted(n for n in points if n.startswith("sequential")), "target"), KINDS["sequential"]),
    ):
        path = " ".join(f"{x(points[name][0])},{y(points[name][1])}" for name in names)
        lines.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-dasharray="4 4"/>')
    bars: list[Box] = []
    labels: list[str] = []
    taken = [(x(cost) - 5, y(quality) - 5, x(cost) + 5, y(quality) + 5) for cost, quality in points.values()]
    for name, row in rows.items():
        cost, low, high = (
            x(points[name][0]), y(row["quality_to_target"]["low"]), y(row["quality_to_target"]["high"])
        )  # fmt: skip
        bars.append((cost, high, cost, low))
        lines.append(
            f'<line x1="{cost}" y1="{low}" x2="{cost}" y2="{high}" stroke="{_colour(name)}" '
            'stroke-opacity="0.35"/>'
        )
    for name, (cost, quality) in points.items():
        at, down = x(cost), y(quality)
        lines.append(f'<circle cx="{at}" cy="{down}" r="4" fill="{_colour(name)}"/>')
        left, top, right, bottom = _place(at, down, 6.0 * len(name), taken, bars)
        # White behind a label, so that the bars and lines that it crosses leave it readable.
        labels.append(
            f'<rect x="{left}" y="{top}" width="{right - left:.1f}" height="{bottom - top:.1f}" fill="white" '
            'fill-opacity="0.6"/>'
        )
        near = min(max(at, left), right), min(max(down, top), bottom)
        if abs(near[0] - at) + abs(near[1] - down) > 12:
            labels.append(
                f'<line x1="{at}" y1="{down}" x2="{near[0]}" y2="{near[1]}" stroke="{_colour(name)}" '
                'stroke-width="0.7"/>'
            )
        labels.append(f'<text x="{left + 1:.1f}" y="{bottom - 3:.1f}" fill="{_colour(name)}">{name}</text>')
    lines += labels
    return "\n".join([*lines, "</svg>"])


def _colour(name: str) -> str:
    return "#111827" if name in ENDS else KINDS.get(name.split()[0], "#1d4ed8")


def _place(x: float, y: float, width: float, taken: list[Box], bars: list[Box]) -> Box:
    """Where a point's label of this width goes: on no point and no other label, inside the picture, on few bars, near.

    The place is then taken.
    """
    high = 13.0
    reach = [(step * 9.0, step) for step in range(5)]
    spots = [(x + side, y - high / 2 + sign * off, far) for off, far in reach for sign in (1, -1)
             for side in (7.0, -7.0 - width, *((-width / 2,) if far > 1 else ()))]  # fmt: skip

    def cost(spot: tuple[float, float, int]) -> float:
        box = (spot[0], spot[1], spot[0] + width, spot[1] + high)
        if box[0] < LEFT or box[2] > WIDTH - RIGHT or box[1] < TOP or box[3] > HEIGHT - BOTTOM:
            return 1000.0
        return 100.0 * sum(_meet(box, other) for other in taken) + sum(_meet(box, b) for b in bars) + spot[2]

    left, top, _ = min(spots, key=cost)
    best = (round(left, 1), round(top, 1), round(left + width, 1), round(top + high, 1))
    taken.append(best)
    return best


def _meet(one: Box, other: Box) -> bool:
    return one[2] > other[0] and one[0] < other[2] and one[3] > other[1] and one[1] < other[3]


if __name__ == "__main__":
    print(picture(json.loads(Path("benchmarks/results/cascades.json").read_text())))
