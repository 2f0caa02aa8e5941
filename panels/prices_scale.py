"""One turn's prices on a line of time: the way back, the round trip, the recompute, and how long tools keep a turn
waiting. `spec` is pure; `render` puts it on a page.

Each has a lane of its own, so that no two labels meet whatever the context and the rates.
"""

import math
from typing import Any

import streamlit as st

from engine.paper.prices import TOOL_WAIT_P50_S, TOOL_WAIT_P90_S, TOOL_WAIT_S, PriceRow, Prices
from panels import chart, components
from panels.marks import Trace, axis, scatter
from panels.palette import Palette, ThemeName, palette
from panels.prices_axes import around, time_ticks
from panels.prices_text import decimal_size, source, times
from panels.units import seconds

HEIGHT = 372
MARGIN = {"l": 122, "r": 22, "t": 46, "b": 46}
SHORTEST_S, LONGEST_S = 1e-3, 60.0
BACK, TRIP, RATIO, RECOMPUTE, WAITS, EVEN = 5, 4, 3, 2, 1, 0
WAITS_SAID = f"{TOOL_WAIT_S[0] * 1000:g} ms to {TOOL_WAIT_S[1]:g} s"
LANES = {
    BACK: "way back alone",
    TRIP: "out and back",
    RATIO: "ratio",
    RECOMPUTE: "recompute",
    WAITS: f"tool waits<br><sub>{WAITS_SAID}</sub>",
    EVEN: "break-even wait",
}


def reach(row: PriceRow) -> tuple[float, float]:
    """The times that the axis must show, in seconds, with room at both ends."""
    low = min(SHORTEST_S, row.restore_s, row.recompute_s)
    high = max(LONGEST_S, row.swap_s, row.recompute_s)
    span = math.log10(high / low)
    return low * 10 ** (-0.04 * span), high * 10 ** (0.2 * span)


def spec(listed: Prices, theme: ThemeName) -> dict[str, Any]:
    """The chart for the list's context as plain JSON."""
    colours = palette(theme)
    row = listed.row(listed.context)
    low, high = reach(row)
    traces = [
        *_mark(low, row.restore_s, BACK, colours.swap, "circle-open"),
        *_mark(low, row.swap_s, TRIP, colours.swap, "circle"),
        *_mark(low, row.recompute_s, RECOMPUTE, colours.recompute, "diamond"),
        *_ratio(row, colours),
        *_waits(colours),
        _even(row, math.sqrt(low * high), colours),
    ]
    layout = around(colours, HEIGHT, MARGIN, f"A turn of {listed.context:,} tokens, {decimal_size(row.kv_bytes)} of KV")
    layout |= {
        "xaxis": axis(colours) | time_ticks(low, high) | {"range": [math.log10(low), math.log10(high)]},
        "yaxis": {
            "range": [-0.55, 5.5], "tickvals": list(LANES), "ticktext": list(LANES.values()), "showgrid": False,
            "zeroline": False, "fixedrange": True, "color": colours.text, "ticklabelstandoff": 6,
        },
        "showlegend": False,
        "hovermode": False,
        "shapes": [_band(colours), _drop(row, colours)],
        "uirevision": f"{listed.layout.name} {listed.store}",
    }  # fmt: skip
    return {"data": traces, "layout": layout, "alt": sentence(listed), "table": _table(row)}


def sentence(listed: Prices) -> str:
    """What the chart shows, in words."""
    row = listed.row(listed.context)
    return (
        f"A turn of {row.tokens:,} tokens holds {decimal_size(row.kv_bytes)}. Copying it out and back takes "
        f"{seconds(row.swap_s)}, the way back alone {seconds(row.restore_s)}; computing it again takes "
        f"{seconds(row.recompute_s)}, {times(row.ratio)} times the round trip. Swapping it out pays when its wait is "
        f"longer than {seconds(row.swap_s)}; tools typically take {WAITS_SAID}, half of them up to "
        f"{TOOL_WAIT_P50_S:g} s and nine in ten up to {TOOL_WAIT_P90_S:g} s (TraceLab)."
    )


def render(listed: Prices, card: str, theme: ThemeName) -> None:
    files = chart.files("prices", "time", card, "Swap against recompute", source(listed, card))
    components.live_plot(spec(listed, theme) | files, key="prices_scale")
    st.caption(sentence(listed))


def _table(row: PriceRow) -> dict[str, Any]:
    """A row for each mark; what is a stretch of time has both its ends."""
    low, high = TOOL_WAIT_S
    marks: tuple[tuple[str, float, float | None], ...] = (
        (LANES[BACK], row.restore_s, None),
        (LANES[TRIP], row.swap_s, None),
        (f"{LANES[RATIO]}, {times(row.ratio)}×", row.swap_s, row.recompute_s),
        (LANES[RECOMPUTE], row.recompute_s, None),
        ("tool waits", low, high),
        ("tool waits, p50", TOOL_WAIT_P50_S, None),
        ("tool waits, p90", TOOL_WAIT_P90_S, None),
        (LANES[EVEN], row.swap_s, None),
    )
    names, starts, ends = zip(*marks, strict=True)
    return chart.table(
        ("what", "context (tokens)", "time (s)", "until (s)"),
        (chart.values(names), chart.same(row.tokens), chart.values(starts), chart.values(ends)),
    )


def _mark(low: float, at: float, lane: int, colour: str, symbol: str) -> list[Trace]:
    """A line from the left edge to the mark, and the mark with its time; the axis has room for it at the right."""
    return [
        scatter(x=[low, at], y=[lane, lane], mode="lines", line={"width": 3, "color": colour}, opacity=0.45),
        scatter(
            x=[at], y=[lane], mode="markers+text", text=[f"  <b>{seconds(at)}</b>"], textposition="middle right",
            marker={"size": 13, "color": colour, "symbol": symbol, "line": {"width": 2.5, "color": colour}},
        ),
    ]  # fmt: skip


def _ratio(row: PriceRow, colours: Palette) -> list[Trace]:
    """A rule between round trip and recompute with the ratio over its middle."""
    ends = [row.swap_s, row.recompute_s]
    ticks = {"symbol": "line-ns-open", "size": 11, "color": colours.muted, "line": {"width": 2, "color": colours.muted}}
    return [
        scatter(
            x=ends, y=[RATIO, RATIO], mode="lines+markers", line={"width": 1.5, "color": colours.muted, "dash": "dot"},
            marker=ticks,
        ),
        scatter(
            x=[math.sqrt(row.swap_s * row.recompute_s)], y=[RATIO], mode="text", textposition="top center",
            text=[f"<b>{times(row.ratio)}×</b>"], textfont={"size": 15},
        ),
    ]  # fmt: skip


def _waits(colours: Palette) -> list[Trace]:
    low, high = TOOL_WAIT_S
    named = ((TOOL_WAIT_P50_S, "p50"), (TOOL_WAIT_P90_S, "p90"))
    return [
        scatter(x=[low, high], y=[WAITS, WAITS], mode="lines", line={"width": 12, "color": colours.tool_wait}),
        scatter(
            x=[at for at, _ in named], y=[WAITS, WAITS], mode="markers+text",
            text=[f"{name} {at:g} s" for at, name in named], textposition=["top left", "top right"],
            marker={"symbol": "line-ns-open", "size": 17, "color": colours.text, "line": {"width": 2.5}},
        ),
    ]  # fmt: skip


def _even(row: PriceRow, middle: float, colours: Palette) -> Trace:
    """Its words stand on the side where half of the axis is free."""
    return scatter(
        x=[row.swap_s], y=[EVEN], mode="markers+text",
        textposition="middle right" if row.swap_s <= middle else "middle left",
        text=[f"  <b>{seconds(row.swap_s)}</b>: a longer wait pays for the copy  "],
        marker={"symbol": "triangle-down", "size": 12, "color": colours.swap},
    )  # fmt: skip


def _band(colours: Palette) -> dict[str, Any]:
    low, high = TOOL_WAIT_S
    return {
        "type": "rect", "x0": low, "x1": high, "y0": 0, "y1": 1, "yref": "paper", "layer": "below",
        "fillcolor": colours.tool_wait, "opacity": 0.13, "line": {"width": 0},
    }  # fmt: skip


def _drop(row: PriceRow, colours: Palette) -> dict[str, Any]:
    """From the round trip down to the wait that it equals."""
    return {
        "type": "line", "x0": row.swap_s, "x1": row.swap_s, "y0": EVEN, "y1": TRIP, "layer": "below",
        "line": {"width": 1.2, "dash": "dot", "color": colours.swap},
    }  # fmt: skip
