"""Marks that several charts share: hatching, dashes that read on any band, text on a band, the grounds around them."""

from collections.abc import Sequence
from typing import Any

from panels.palette import FONT, Palette

Trace = dict[str, Any]
HATCH = {"shape": "/", "bgcolor": "rgba(0,0,0,0)", "size": 7, "solidity": 0.35}
DARK_INK, LIGHT_INK = "#06181a", "#ffffff"


def scatter(**properties: Any) -> Trace:
    return {"type": "scatter"} | properties


def bar(**properties: Any) -> Trace:
    return {"type": "bar"} | properties


def hatched(colour: str) -> dict[str, Any]:
    """The marker of bars that are over the line: no ground, stripes alone."""
    return {"color": "rgba(0,0,0,0)", "line": {"width": 0}, "pattern": HATCH | {"fgcolor": colour}}


def outlined(x: Any, y: Any, colours: Palette, **properties: Any) -> list[Trace]:
    """The dashes of the other precision over a line in the ground's colour, so that they read on any band."""
    shape = {"shape": properties.pop("shape", "hv")}
    under = {"width": 3.5, "color": colours.surface}
    dashes = {"width": 1.7, "color": colours.other_precision, "dash": "dash"}
    placed = {name: properties[name] for name in ("xaxis", "legendgroup") if name in properties}
    return [
        scatter(x=x, y=y, mode="lines", line=shape | under, opacity=0.75, hoverinfo="skip", showlegend=False, **placed),
        scatter(x=x, y=y, mode="lines", line=shape | dashes, **properties),
    ]


def ceiling_line(x: Sequence[Any], y: Sequence[float], colours: Palette) -> Trace:
    return scatter(
        x=x,
        y=y,
        name="ceiling",
        mode="lines",
        hoverinfo="skip",
        line={"dash": "dash", "width": 2, "color": colours.ceiling},
        showlegend=False,
    )


def ink(colour: str) -> str:
    """Black or white text, whichever reads better on `colour`: by the contrast of WCAG 2."""
    ground = 0.05 + _luminance(colour)
    return DARK_INK if ground / (0.05 + _luminance(DARK_INK)) > 1.05 / ground else LIGHT_INK


def grounds(colours: Palette) -> dict[str, Any]:
    """The layout that every chart has: its grounds, its font, its hover text, its buttons."""
    return {
        "paper_bgcolor": colours.surface,
        "plot_bgcolor": colours.surface,
        "font": {"color": colours.text, "family": FONT, "size": 12.5},
        "modebar": {"bgcolor": "rgba(0,0,0,0)", "color": colours.muted, "activecolor": colours.text},
        "hoverlabel": {"bgcolor": colours.background, "bordercolor": colours.line, "font": {"color": colours.text}},
    }


def axis(colours: Palette) -> dict[str, Any]:
    return {"gridcolor": colours.line, "zeroline": False, "color": colours.muted, "linecolor": colours.line}


def extent(low: float, high: float) -> dict[str, Any]:
    """An axis from `low` to `high`. Not a plain range: plotly would take a new one for the end of a user's zoom."""
    return {"autorangeoptions": {"include": [low, high], "clipmin": low, "clipmax": high}}


def _luminance(colour: str) -> float:
    """Relative luminance of '#rrggbb', from 0 to 1."""
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
