"""The marks of the VRAM stack: bands over time, the lines across them, and the bar of now."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from engine.geometry import KVDtype
from panels.marks import HATCH, Trace, bar, ceiling_line, hatched, ink, outlined, scatter
from panels.packing import packed
from panels.palette import Palette
from panels.scale import Stack
from panels.units import short, unit_name

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
        scatter(
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
        scatter(
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
        traces += outlined(
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
    return ceiling_line([x[0], x[-1]], [now.ceiling / unit] * 2, colours)


def now_bar(now: Stack, unit: int, colours: Palette) -> list[Trace]:
    """The present state beside the chart, on the same axis."""
    bars: list[Trace] = []
    labels = BANDS + ((("other", "other on the device"),) if now.other else ())
    for name, label in labels:
        value, colour = getattr(now, name), _colour(colours, name)
        tall = value > 0.05 * now.ceiling
        bars.append(
            bar(
                x=["now"],
                y=[value / unit],
                xaxis="x2",
                name=label,
                marker={"color": colour, "line": {"width": 0}},
                text=[short(value / unit) if tall else ""],
                textposition="inside",
                insidetextanchor="middle",
                textangle=0,
                textfont={"size": 12, "color": ink(colour)},
                constraintext="none",
                width=0.72,
                showlegend=False,
                hovertemplate=f"{label} %{{y:.2f}} {unit_name(unit)}<extra></extra>",
            )
        )
    bars.append(
        bar(
            x=["now"],
            y=[now.forced / unit],
            xaxis="x2",
            name=FORCED,
            width=0.72,
            showlegend=False,
            marker=hatched(colours.forced),
            hovertemplate=f"{FORCED} %{{y:.2f}} {unit_name(unit)}<extra></extra>",
        )
    )
    bars += outlined([-0.5, 0.5], [now.other_precision / unit] * 2, colours, xaxis="x3", showlegend=False)
    bars.append(ceiling_line([-0.5, 0.5], [now.ceiling / unit] * 2, colours) | {"xaxis": "x3"})
    return bars


def _column(stacks: Sequence[Stack], name: str, unit: int) -> Any:
    return packed(np.asarray([getattr(stack, name) or 0.0 for stack in stacks], dtype=np.float32) / np.float32(unit))


def _colour(colours: Palette, name: str) -> str:
    colour: str = getattr(colours, COLOURS.get(name, name))
    return colour
