"""The cost and the quality of every way of `benchmarks.cascades`, as an SVG picture.

python -m benchmarks.cascade_picture > docs/cascades.svg      # from benchmarks/results/cascades.json
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

WIDTH, HEIGHT = 860, 560
LEFT, RIGHT, TOP, BOTTOM = 70, 20, 20, 50
KINDS = {"sequential": "#b45309", "lossy": "#6b7280"}
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
    taken = [(x(cost) - 4, y(quality) - 4, x(cost) + 4, y(quality) + 4) for cost, quality in points.values()]
    for name, row in rows.items():
        cost, quality = points[name]
        colour = "#111827" if name in ENDS else KINDS.get(name.split()[0], "#1d4ed8")
        low, high = row["quality_to_target"]["low"], row["quality_to_target"]["high"]
        lines.append(
            f'<line x1="{x(cost)}" y1="{y(low)}" x2="{x(cost)}" y2="{y(high)}" stroke="{colour}" '
            'stroke-opacity="0.35"/>'
        )
        lines.append(f'<circle cx="{x(cost)}" cy="{y(quality)}" r="4" fill="{colour}"/>')
        at, down = _place(x(cost), y(quality), 6.0 * len(name), taken)
        lines.append(f'<text x="{at}" y="{down}" fill="{colour}">{name}</text>')
    return "\n".join([*lines, "</svg>"])


def _place(
    x: float, y: float, width: float, taken: list[tuple[float, float, float, float]]
) -> tuple[float, float]:
    """Where a label of this width may begin: beside its point, on no point and no other label; it is then taken."""
    sides = [(x + 7, y + 4), (x - 7 - width, y + 4)]
    sides += [(x - width * part, y + off) for off in (-7, 16, -20, 29) for part in (0.0, 1.0, 0.5)]
    boxes = [(at, down - 9, at + width, down + 2) for at, down in sides]
    free = [
        box
        for box in boxes
        if all(box[2] < a or box[0] > c or box[3] < b or box[1] > d for a, b, c, d in taken)
    ]
    best = (free or boxes)[0]
    taken.append(best)
    return round(best[0], 1), round(best[3] - 2, 1)


if __name__ == "__main__":
    print(picture(json.loads(Path("benchmarks/results/cascades.json").read_text())))
