"""Log axes of time and of tokens with named ticks, and what the charts of the price list share."""

import math
from typing import Any

from panels.marks import axis, grounds
from panels.palette import Palette
from panels.units import DAY, HOUR, MINUTE, YEAR

TICKS = (
    *((10.0**power, f"{10 ** (power % 3)} {unit}") for power, unit in zip(
        range(-12, 0), ("ps", "ps", "ps", "ns", "ns", "ns", "µs", "µs", "µs", "ms", "ms", "ms"), strict=True
    )),
    (1.0, "1 s"), (10.0, "10 s"), (MINUTE, "1 min"), (10 * MINUTE, "10 min"), (HOUR, "1 h"), (DAY, "1 day"),
    (10 * DAY, "10 days"), (YEAR, "1 year"), (10 * YEAR, "10 years"), (100 * YEAR, "100 years"),
    (1_000 * YEAR, "1,000 years"),
)  # fmt: skip
MOST_TICKS = 9


def time_ticks(low: float, high: float, most: int = MOST_TICKS) -> dict[str, Any]:
    """Named ticks between two times in seconds, every second or third of them where there would be too many."""
    inside = [(at, name) for at, name in TICKS if low <= at <= high]
    shown = inside[:: max(1, math.ceil(len(inside) / most))]
    return {"type": "log", "tickvals": [at for at, _ in shown], "ticktext": [name for _, name in shown]}


def token_ticks(low: float, high: float) -> dict[str, Any]:
    """A tick for each power of ten between two contexts."""
    powers = range(math.ceil(math.log10(low) - 1e-9), math.floor(math.log10(high) + 1e-9) + 1)
    at = [10**power for power in powers]
    return {"type": "log", "tickvals": at, "ticktext": [f"{value:,}" for value in at]}


def titled(colours: Palette, title: str) -> dict[str, Any]:
    """An axis with its title."""
    return axis(colours) | {"title": {"text": title, "standoff": 6, "font": {"size": 12}}}


def around(colours: Palette, height: int, margin: dict[str, int], title: str) -> dict[str, Any]:
    """Grounds, and the chart's title; its buttons are at the right."""
    return grounds(colours) | {
        "height": height,
        "margin": margin,
        "title": {
            "text": title, "x": 0, "xref": "container", "xanchor": "left", "y": 1, "yref": "container",
            "yanchor": "top", "pad": {"l": 14, "t": 12}, "font": {"size": 14, "color": colours.text},
        },
    }  # fmt: skip
