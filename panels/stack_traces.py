"""The marks of the VRAM stack: bands over time, the lines across them, and the bar of now."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from engine.geometry import KVDtype
from engine.words import counted
from panels.marks import HATCH, Trace, bar, ceiling_line, hatched, outlined, scatter
from panels.packing import packed
from panels.palette import Palette
from panels.scale import Stack
from panels.units import unit_name

BANDS: tuple[tuple[str, str], ...] = (
    ("weights", "weights"),
    ("runtime", "runtime"),
    ("running", "running KV"),
    ("paused", "paused KV"),
    ("blocked", "tool-blocked KV"),
)
OTHER = ("other", "other on the device")
FORCED = "forced swap or recompute"
COLOURS = {"running": "running_kv", "paused": "paused_kv", "blocked": "blocked_kv"}
BAR_WIDTH = 0.8


def areas(x: Any, stacks: Sequence[Stack], unit: int, colours: Palette) -> list[Trace]:
    """Each band ends in a line of the ground's colour, so that neighbours are told apart without their colours."""
    bands = BANDS + ((OTHER,) if any(stack.other for stack in stacks) else ())
    traces = [
        scatter(
            x=packed(x),
            y=_column(stacks, name, unit),
            name=label,
            mode="lines",
            stackgroup="vram",
            fillcolor=band_colour(colours, name),
            line={"width": 1, "color": colours.surface, "shape": "hv"},
            **_hover(name, stacks, unit),
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
            **_hover("forced", stacks, unit),
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
        traces += outlined(
            packed(x),
            y,
            colours,
            name=f"same turns at {dtype}",
            legendgroup=str(dtype),
            hovertemplate=f"%{{y:,.2f}} {unit_name(unit)}",
            showlegend=bool(there.any()),
        )
    return traces


def ceiling(x: Any, now: Stack, unit: int, colours: Palette) -> Trace:
    return ceiling_line([x[0], x[-1]], [now.ceiling / unit] * 2, colours)


def now_bar(now: Stack, unit: int, colours: Palette) -> list[Trace]:
    """The present state beside the chart, on the same axis. Its figures are the layout's (stack_figures.py)."""
    traces = [
        bar(
            x=["now"],
            y=[getattr(now, name) / unit],
            xaxis="x2",
            name=label,
            marker={"color": band_colour(colours, name), "line": {"width": 1, "color": colours.surface}},
            width=BAR_WIDTH,
            showlegend=False,
            hovertemplate=f"{label}: {_amount(now, name, unit)}<extra></extra>",
        )
        for name, label in BANDS + ((OTHER,) if now.other else ())
    ]
    traces.append(
        bar(
            x=["now"],
            y=[now.forced / unit],
            xaxis="x2",
            name=FORCED,
            width=BAR_WIDTH,
            showlegend=False,
            marker=hatched(colours.forced),
            hovertemplate=f"{FORCED}: {_amount(now, 'forced', unit)}<extra></extra>",
        )
    )
    traces += outlined([-0.5, 0.5], [now.other_precision / unit] * 2, colours, xaxis="x3", showlegend=False)
    traces.append(ceiling_line([-0.5, 0.5], [now.ceiling / unit] * 2, colours) | {"xaxis": "x3"})
    traces.append(_headroom(now, unit, colours))
    return traces


def _headroom(now: Stack, unit: int, colours: Palette) -> Trace:
    """A bracket beside the bar, from what is used up to the ceiling."""
    used, top = now.used / unit, now.ceiling / unit
    return scatter(
        x=[0.44, 0.49, 0.49, 0.44],
        y=[used, used, top, top],
        xaxis="x3",
        name="headroom",
        mode="lines",
        line={"width": 1.5, "color": colours.text},
        showlegend=False,
        hovertemplate=f"headroom: {_amount(now, 'headroom', unit)}<extra></extra>",
    )


def _amount(now: Stack, name: str, unit: int) -> str:
    """Bytes with their unit, and whose they are."""
    said = f"{getattr(now, name) / unit:,.2f} {unit_name(unit)}"
    turns = getattr(now.turns, name, None)
    return said if turns is None else f"{said}, {counted(turns, 'turn')}"


def _hover(name: str, stacks: Sequence[Stack], unit: int) -> Trace:
    said = f"%{{y:,.2f}} {unit_name(unit)}"
    if not hasattr(stacks[0].turns, name):
        return {"hovertemplate": said}
    turns = np.asarray([getattr(stack.turns, name) for stack in stacks], dtype=np.int32)
    return {"hovertemplate": said + ", %{customdata}", "customdata": packed(turns), "meta": {"counts": "turn"}}


def _column(stacks: Sequence[Stack], name: str, unit: int) -> Any:
    return packed(np.asarray([getattr(stack, name) or 0.0 for stack in stacks], dtype=np.float32) / np.float32(unit))


def band_colour(colours: Palette, name: str) -> str:
    colour: str = getattr(colours, COLOURS.get(name, name))
    return colour
