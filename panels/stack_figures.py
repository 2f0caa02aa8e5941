"""Figures that stand in and beside the bar of now: of each band, the ceiling's, headroom, what was forced out."""

import itertools
from collections.abc import Sequence
from typing import Any

from engine.words import counted
from panels.marks import ink
from panels.palette import Palette
from panels.scale import Stack
from panels.stack_traces import BANDS, OTHER, band_colour
from panels.units import short, size_in

LEAST = 0.05
ROOMY = 0.14
CLEAR = 0.035
"""Shares of the ceiling: the lowest band with a figure, with its turns below it, how far a line stays from a figure."""


def in_the_bar(now: Stack, unit: int, colours: Palette) -> list[dict[str, Any]]:
    """The figure of each band that is tall enough, where no dashed line runs over it."""
    notes, low = [], 0.0
    for name, _ in BANDS + ((OTHER,) if now.other else ()):
        height = getattr(now, name)
        turns = getattr(now.turns, name, None)
        if height > LEAST * now.ceiling:
            tall = height > ROOMY * now.ceiling and turns is not None
            said = short(height / unit) + (f"<br>{counted(turns or 0, 'turn')}" if tall else "")
            y, covered = place(low, low + height, (now.other_precision, now.ceiling), CLEAR * now.ceiling * (1 + tall))
            notes.append(_figure(said, y / unit, band_colour(colours, name), covered))
        low += height
    return notes


def place(low: float, high: float, lines: Sequence[float], clear: float) -> tuple[float, bool]:
    """The height for a figure in a band, and whether a line runs there all the same: the band's middle if no line in it
    is within `clear` of that, else the middle of the band's largest part between lines."""
    inside = sorted(line for line in lines if low < line < high)
    middle = (low + high) / 2
    if all(abs(line - middle) >= clear for line in inside):
        return middle, False
    below, above = max(itertools.pairwise([low, *inside, high]), key=lambda part: part[1] - part[0])
    middle = (below + above) / 2
    return middle, any(abs(line - middle) < clear for line in inside)


def beside_the_bar(now: Stack, unit: int, colours: Palette) -> list[dict[str, Any]]:
    """In the margin, where nothing is drawn over them: the ceiling's name at its line, the others below."""
    ceiling = f"ceiling<br>{size_in(now.ceiling, unit)}"
    notes = [_beside(now, unit, ceiling, 0, colours.ceiling, 12, "middle")]
    notes.append(_beside(now, unit, f"headroom<br>{size_in(now.headroom, unit)}", -20, colours.text, 11, "top"))
    if now.forced:
        said = f"forced swap<br>or recompute<br>{size_in(now.forced, unit)}<br>{counted(now.turns.forced, 'turn')}"
        notes.append(_beside(now, unit, said, -58, colours.text, 11, "top"))
    return notes


def _beside(now: Stack, unit: int, text: str, shift: int, colour: str, size: int, anchor: str) -> dict[str, Any]:
    return {
        "xref": "paper",
        "x": 1,
        "xshift": 4,
        "y": now.ceiling / unit,
        "yshift": shift,
        "xanchor": "left",
        "yanchor": anchor,
        "align": "left",
        "showarrow": False,
        "text": text,
        "font": {"color": colour, "size": size},
    }


def _figure(text: str, y: float, ground: str, covered: bool) -> dict[str, Any]:
    """`covered`: on the band's own colour, so that a line behind it stops at the figure."""
    note = {
        "xref": "x3",
        "x": 0,
        "y": y,
        "showarrow": False,
        "text": text,
        "font": {"size": 11.5, "color": ink(ground)},
        "borderpad": 0,
    }
    return note | ({"bgcolor": ground} if covered else {})
