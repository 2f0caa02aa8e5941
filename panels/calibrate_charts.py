"""What a calibration measured, as two small charts: prefill by chunk, copies by block size. Pure; plain JSON."""

import math
from collections.abc import Sequence
from typing import Any

from engine.cards.profile import Calibration, PrefillPoint
from panels import chart
from panels.marks import Trace, scatter
from panels.palette import Palette, ThemeName, palette
from panels.prices_axes import around, titled
from panels.units import GB, size

HEIGHT = 280
MARGIN = {"l": 58, "r": 18, "t": 52, "b": 46}
SHOWN_SIZES = tuple((64 << 10) << shift for shift in (0, 2, 4, 6, 8))


def prefill_spec(points: Sequence[PrefillPoint], theme: ThemeName) -> dict[str, Any]:
    """Tokens per second over the tokens of a chunk."""
    colours = palette(theme)
    line = _line([point.chunk for point in points], [point.tokens_per_s for point in points], colours.recompute)
    line |= {"name": "prefill", "hovertemplate": "%{x:,} tokens: %{y:,.0f} tok/s<extra></extra>"}
    chunks = [point.chunk for point in points]
    x_axis = _log_axis(chunks, [f"{chunk:,}" for chunk in chunks], "chunk, tokens", colours)
    told = ", ".join(f"{point.chunk:,} tokens {point.tokens_per_s:,.0f} tok/s" for point in points)
    layout = _layout("Prefill by chunk", x_axis, "tok/s", colours)
    table = chart.table(("chunk (tokens)", "prefill (tok/s)"), (chart.part(0, "x"), chart.part(0, "y")))
    return {"data": [line], "layout": layout, "alt": f"Prefill by chunk: {told}", "table": table}


def copies_spec(calibration: Calibration, theme: ThemeName) -> dict[str, Any]:
    """GB per second over the bytes of a block, to the host and back; a dotted line at the engine's own blocks."""
    colours = palette(theme)
    points = calibration.copies
    sizes = [point.block_bytes for point in points]
    names = [size(nbytes) for nbytes in sizes]
    traces = []
    for name, rates, dash, symbol in (
        ("to host", [point.out_bytes_per_s for point in points], "solid", "circle"),
        ("from host", [point.back_bytes_per_s for point in points], "dot", "circle-open"),
    ):
        line = _line(sizes, [rate / GB for rate in rates], colours.swap, dash, symbol)
        hover = f"%{{text}} blocks {name}: %{{y:.2f}} GB/s<extra></extra>"
        traces.append(line | {"name": name, "text": names, "hovertemplate": hover, "showlegend": True})
    wide = len(sizes) > 1
    shown = [nbytes for nbytes in SHOWN_SIZES if sizes[0] <= nbytes <= sizes[-1]] if wide else sizes
    x_axis = _log_axis(shown, [size(nbytes).replace(".00", "").replace(".0", "") for nbytes in shown], "block", colours)
    layout = _layout("Copies by block size", x_axis, "GB/s", colours)
    if wide:
        layout |= _mark(calibration.block_bytes, colours)
    told = ", ".join(
        f"{size(p.block_bytes)} {p.out_bytes_per_s / GB:.1f} out and {p.back_bytes_per_s / GB:.1f} back" for p in points
    )
    alt = f"Copies by block size, GB/s: {told}"
    table = chart.table(
        ("block (bytes)", "to host (GB/s)", "from host (GB/s)"),
        (chart.part(0, "x"), chart.part(0, "y"), chart.part(1, "y")),
    )
    return {"data": traces, "layout": layout, "alt": alt, "table": table}


def _line(x: Sequence[int], y: Sequence[float], colour: str, dash: str = "solid", symbol: str = "circle") -> Trace:
    return scatter(
        mode="lines+markers",
        x=list(x),
        y=list(y),
        line={"color": colour, "width": 2, "dash": dash},
        marker={"color": colour, "size": 7, "symbol": symbol},
        showlegend=False,
    )


def _log_axis(ticks: Sequence[int], names: Sequence[str], title: str, colours: Palette) -> dict[str, Any]:
    return titled(colours, title) | {"type": "log", "tickvals": list(ticks), "ticktext": list(names)}


def _mark(own: int, colours: Palette) -> dict[str, Any]:
    line = {"width": 1, "dash": "dot", "color": colours.muted}
    where = {"x0": own, "x1": own, "y0": 0, "y1": 1, "yref": "y domain"}
    label = {
        "xref": "x", "x": math.log10(own), "xanchor": "left", "xshift": 5,
        "yref": "y domain", "y": 0.04, "yanchor": "bottom",
        "text": f"this model's block, {size(own)}", "showarrow": False, "font": {"size": 11, "color": colours.muted},
    }  # fmt: skip
    # A log axis places shapes by value and annotations by exponent.
    return {"shapes": [{"type": "line", "line": line, **where}], "annotations": [label]}


def _layout(title: str, x_axis: dict[str, Any], unit: str, colours: Palette) -> dict[str, Any]:
    return around(colours, HEIGHT, MARGIN, title) | {
        "xaxis": x_axis,
        "yaxis": titled(colours, unit) | {"rangemode": "tozero", "nticks": 6},
        "legend": {"orientation": "h", "x": 1, "xanchor": "right", "y": 1, "yanchor": "bottom", "font": {"size": 11.5}},
        "uirevision": title,
    }
