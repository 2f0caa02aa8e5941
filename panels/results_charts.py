"""Charts of the results page, for benches whose rows have what a chart needs. Pure; rows without it draw nothing."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from panels.marks import Trace, bar, scatter
from panels.palette import Palette, ThemeName, palette
from panels.prices_axes import around, titled
from panels.units import KIB, MIB, short, size

Row = Mapping[str, Any]
Spec = dict[str, Any]

HEIGHT = 340
MARGIN = {"l": 58, "r": 18, "t": 44, "b": 110}
LEAST_SIZES = 3
"""A line of fewer block sizes is none."""

SWAP_LINES = (
    ("out_gb_per_s", "out", "swap", "solid", "circle"),
    ("in_gb_per_s", "in", "host", "solid", "circle"),
    ("staged_out_gb_per_s", "out, staged", "swap", "dot", "circle-open"),
    ("staged_in_gb_per_s", "in, staged", "host", "dot", "circle-open"),
    ("memcpy_gb_per_s", "memcpy", "muted", "dash", "diamond"),
)
BAR_COLOURS = ("running_kv", "paused_kv", "host", "swap", "recompute", "weights", "blocked_kv", "other")


def specs(bench: str, rows: Sequence[Row], theme: ThemeName) -> list[Spec]:
    """The charts of one bench's rows, as plain JSON with an `alt` text."""
    colours = palette(theme)
    if bench == "swap":
        return _swap(rows, colours)
    if bench == "attention":
        steps = [_named(row, "precision", "context") for row in rows if row.get("what") == "decode"]
        return _bars(steps, "ms", "Decode attention, time of one layer", "ms", colours) + _bars(
            steps, "gb_per_s", "KV read per second", "GB/s", colours
        )
    if bench == "throughput":
        return [chart for work in ("decode", "prefill") for chart in _throughput(rows, work, colours)]
    return []


def number(row: Row, name: str) -> float | None:
    value = row.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return float(value)


def _swap(rows: Sequence[Row], colours: Palette) -> list[Spec]:
    """One chart for each total that several block sizes were moved at."""
    totals: dict[float, list[Row]] = {}
    for row in rows:
        block, total = number(row, "block_kib"), number(row, "mib")
        if row.get("case") == "block-major" and block and block > 0 and total:
            totals.setdefault(total, []).append(row)
    return [_sizes(total, found, colours) for total, found in totals.items() if len(found) >= LEAST_SIZES]


def _sizes(total: float, rows: Sequence[Row], colours: Palette) -> Spec:
    blocks = [row["block_kib"] * KIB for row in rows]
    names = [size(nbytes).replace(".00", "").replace(".0", "") for nbytes in blocks]
    traces, told = [], []
    for column, name, meaning, dash, symbol in SWAP_LINES:
        rates = [number(row, column) for row in rows]
        known = [rate for rate in rates if rate is not None]
        if not known:
            continue
        colour = getattr(colours, meaning)
        told.append(f"{name} {short(min(known))} to {short(max(known))}")
        traces.append(
            scatter(
                x=blocks, y=rates, name=name, mode="lines+markers", text=names,
                line={"color": colour, "width": 2.2, "dash": dash},
                marker={"color": colour, "size": 7, "symbol": symbol},
                hovertemplate=f"{name}, %{{text}} blocks: %{{y:.2f}} GB/s<extra></extra>",
            )
        )  # fmt: skip
    title = f"{size(total * MIB).replace('.0 ', ' ').replace('.00 ', ' ')} in blocks of one size"
    axis = titled(colours, "block") | {"type": "log", "tickvals": blocks[::2], "ticktext": names[::2]}
    return _spec(title, traces, axis, "GB/s", f"{title}, GB/s: {'; '.join(told)}", colours)


def _named(row: Row, series: str, tokens: str) -> Row:
    """The row with its figures, of its texts but the one that names its series."""
    figures = {name: value for name, value in row.items() if not isinstance(value, str)}
    return figures | {"series": row.get(series), "context": row.get(tokens)}


def _throughput(rows: Sequence[Row], work: str, colours: Palette) -> list[Spec]:
    """Our speeds, and the peer's beside them where there was one: one bar for each of its precisions."""
    own = [_named(row, "kv", "tokens_each") for row in rows if row.get("work") == work]
    peers = []
    for row in rows:
        if row.get("work") == work and "peer_kv" in row:
            speed = {"tok_per_s": row.get("peer_tok_per_s"), "series": f"peer {row['peer_kv']}"}
            peers.append({**_named(row, "peer_kv", "tokens_each"), **speed})
    return _bars([*own, *peers], "tok_per_s", f"Throughput, {work}", "tok/s", colours)


def _bars(rows: Sequence[Row], column: str, title: str, unit: str, colours: Palette) -> list[Spec]:
    """Groups of turns x context; a series for each text in the row's other columns."""
    usable = [r for r in rows if None not in (number(r, "turns"), number(r, "context"), number(r, column))]
    groups = list(dict.fromkeys(_group(row) for row in usable))
    traces: list[Trace] = []
    told = []
    for place, series in enumerate(dict.fromkeys(_series(row) for row in usable)):
        heights = {_group(row): float(row[column]) for row in usable if _series(row) == series}
        told.append(f"{series or unit} " + ", ".join(f"{short(v)} at {g}" for g, v in heights.items()))
        traces.append(
            bar(
                x=groups, y=[heights.get(group) for group in groups], name=series,
                marker={"color": getattr(colours, BAR_COLOURS[place % len(BAR_COLOURS)])},
                hovertemplate=f"%{{x}}: %{{y:,.4g}} {unit}<extra>%{{fullData.name}}</extra>",
            )
        )  # fmt: skip
    if not traces:
        return []
    lines = [group.replace(" × ", "<br>× ") for group in groups]
    ticks = {"tickvals": groups, "ticktext": lines, "tickangle": 0}
    axis = titled(colours, "turns × context, tokens") | {"type": "category"} | ticks
    return [_spec(title, traces, axis, unit, f"{title}, {unit}: {'; '.join(told)}", colours)]


def _group(row: Row) -> str:
    return f"{row['turns']:,.0f} × {row['context']:,.0f}"


def _series(row: Row) -> str:
    return ", ".join(_texts(row.values()))


def _texts(cells: Iterable[Any]) -> list[str]:
    return [_quiet(cell) for cell in cells if isinstance(cell, str)]


def _quiet(text: str) -> str:
    """Plotly reads names as HTML of its own kind."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _spec(title: str, traces: list[Trace], x_axis: dict[str, Any], unit: str, alt: str, colours: Palette) -> Spec:
    layout = around(colours, HEIGHT, MARGIN, title) | {
        "xaxis": x_axis,
        "yaxis": titled(colours, unit) | {"rangemode": "tozero", "nticks": 7},
        "legend": {"orientation": "h", "x": 0.5, "xanchor": "center", "y": -0.34, "yanchor": "top"},
        "barmode": "group",
        "bargap": 0.28,
        "showlegend": True,
    }
    return {"data": traces, "layout": layout, "alt": alt}
