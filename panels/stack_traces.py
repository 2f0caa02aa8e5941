"""The marks of the VRAM stack: bands over time, the lines across them, and the bar of now."""

import base64
from collections.abc import Sequence
from typing import Any

import numpy as np

from engine.geometry import KVDtype
from panels.palette import Palette
from panels.scale import Stack
from panels.units import short, unit_name

Trace = dict[str, Any]
HATCH = {"shape": "/", "bgcolor": "rgba(0,0,0,0)", "size": 7, "solidity": 0.35}
BANDS: tuple[tuple[str, str], ...] = (
    ("weights", "weights"),
    ("runtime", "runtime"),
    ("running", "running KV"),
    ("paused", "paused/waiting KV"),
    ("blocked", "blocked KV"),
)
FORCED = "forced to leave"
COLOURS = {"running": "running_kv", "paused": "paused_kv", "blocked": "blocked_kv"}


def areas(x: Any, stacks: Sequence[Stack], unit: int, colours: Palette) -> list[Trace]:
    hover = f"%{{y:.2f}} {unit_name(unit)}"
    bands = BANDS + ((("other", "other on the device"),) if any(stack.other for stack in stacks) else ())
    traces = [
        _scatter(
            x=packed(x),
            y=_column(stacks, name, unit),
            name=label,
            mode="lines",
            stackgroup="vram",
            fillcolor=_colour(colours, name),
            line={"width": 0.5, "color": _colour(colours, name), "shape": "hv"},
            hovertemplate=hover,
        )
        for name, label in bands
    ]
    traces.append(
        _scatter(
            x=packed(x),
            y=_column(stacks, "forced", unit),
            name=FORCED,
            mode="lines",
            stackgroup="vram",
            fillpattern=HATCH | {"fgcolor": colours.forced},
            line={"width": 0, "color": colours.forced, "shape": "hv"},
            hovertemplate=hover,
        )
    )
    return traces


def other_precision(
    x: Any, stacks: Sequence[Stack], others: Sequence[KVDtype], unit: int, colours: Palette
) -> list[Trace]:
    """One line for each precision that was the other one, with a gap where it was not. Always the same traces, so that
    the legend's state belongs to the same line after a switch."""
    heights = np.asarray([stack.other_precision for stack in stacks], dtype=np.float32) / np.float32(unit)
    traces: list[Trace] = []
    for dtype in (KVDtype.FP16, KVDtype.Q8):
        there = np.asarray([other == dtype for other in others])
        y = packed(np.where(there, heights, np.float32("nan")))
        hover = f"%{{y:.2f}} {unit_name(unit)}"
        traces += _outlined(
            packed(x),
            y,
            colours,
            name=f"same turns at {dtype}",
            legendgroup=str(dtype),
            hovertemplate=hover,
            showlegend=bool(there.any()),
        )
    return traces


def ceiling(x: Any, now: Stack, unit: int, colours: Palette) -> Trace:
    return _ceiling([x[0], x[-1]], now, unit, colours)


def now_bar(now: Stack, unit: int, colours: Palette) -> list[Trace]:
    """The present state beside the chart, on the same axis."""
    bars: list[Trace] = []
    labels = BANDS + ((("other", "other on the device"),) if now.other else ())
    for name, label in labels:
        value, colour = getattr(now, name), _colour(colours, name)
        tall = value > 0.05 * now.ceiling
        bars.append(
            _bar(
                x=["now"],
                y=[value / unit],
                xaxis="x2",
                name=label,
                marker={"color": colour, "line": {"width": 0}},
                text=[short(value / unit) if tall else ""],
                textposition="inside",
                insidetextanchor="middle",
                textangle=0,
                textfont={"size": 12, "color": _ink(colour)},
                constraintext="none",
                width=0.72,
                showlegend=False,
                hovertemplate=f"{label} %{{y:.2f}} {unit_name(unit)}<extra></extra>",
            )
        )
    bars.append(
        _bar(
            x=["now"],
            y=[now.forced / unit],
            xaxis="x2",
            name=FORCED,
            width=0.72,
            showlegend=False,
            marker={
                "color": "rgba(0,0,0,0)",
                "line": {"width": 0},
                "pattern": HATCH | {"fgcolor": colours.forced},
            },
            hovertemplate=f"{FORCED} %{{y:.2f}} {unit_name(unit)}<extra></extra>",
        )
    )
    bars += _outlined([-0.5, 0.5], [now.other_precision / unit] * 2, colours, xaxis="x3", showlegend=False)
    bars.append(_ceiling([-0.5, 0.5], now, unit, colours) | {"xaxis": "x3"})
    return bars


def _ink(colour: str) -> str:
    """Black or white text, whichever reads better on `colour`."""
    red, green, blue = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return "#06181a" if 0.299 * red + 0.587 * green + 0.114 * blue > 120 else "#ffffff"


def _column(stacks: Sequence[Stack], name: str, unit: int) -> Any:
    return packed(np.asarray([getattr(stack, name) or 0.0 for stack in stacks], dtype=np.float32) / np.float32(unit))


def packed(array: Any) -> dict[str, str]:
    """A numpy array of floats as plotly.js takes typed arrays."""
    return {"dtype": f"f{array.itemsize}", "bdata": base64.b64encode(array.tobytes()).decode("ascii")}


def _outlined(x: Any, y: Any, colours: Palette, **properties: Any) -> list[Trace]:
    """The dashes of the other precision over a line in the ground's colour, so that they read on any band."""
    line = {"shape": "hv"}
    under = {"width": 3.5, "color": colours.surface}
    dashes = {"width": 1.7, "color": colours.other_precision, "dash": "dash"}
    placed = {name: properties[name] for name in ("xaxis", "legendgroup") if name in properties}
    return [
        _scatter(x=x, y=y, mode="lines", line=line | under, opacity=0.75, hoverinfo="skip", showlegend=False, **placed),
        _scatter(x=x, y=y, mode="lines", line=line | dashes, **properties),
    ]


def _ceiling(x: Sequence[Any], now: Stack, unit: int, colours: Palette) -> Trace:
    return _scatter(
        x=x,
        y=[now.ceiling / unit] * 2,
        name="ceiling",
        mode="lines",
        hoverinfo="skip",
        line={"dash": "dash", "width": 2, "color": colours.ceiling},
        showlegend=False,
    )


def _colour(colours: Palette, name: str) -> str:
    colour: str = getattr(colours, COLOURS.get(name, name))
    return colour


def _scatter(**properties: Any) -> Trace:
    return {"type": "scatter"} | properties


def _bar(**properties: Any) -> Trace:
    return {"type": "bar"} | properties
