"""The VRAM stack: over time and now, against the ceiling. `figure` is pure; `render` puts it on a page.

Bands are sums over the block table (Bands). `forced` is what had to leave, hatched above what is there; the dashed line
is the same turns at the other KV precision; dotted lines are knob changes.
"""

import base64
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from engine.events import Event, EventKind
from engine.geometry import KVDtype
from engine.snapshot import Bands, Sample, Snapshot
from panels import components
from panels.palette import FONT, Palette, ThemeName, palette
from panels.scale import Scale, Stack
from panels.units import short, unit_name

if TYPE_CHECKING:
    import plotly.graph_objects as go

Trace = dict[str, Any]
HEIGHT = 446
MAX_POINTS = 400
MAX_MARKS = 12
HATCH = {"shape": "/", "bgcolor": "rgba(0,0,0,0)", "size": 7, "solidity": 0.35}
BANDS = (
    ("weights", "weights"),
    ("runtime", "runtime"),
    ("running", "running KV"),
    ("paused", "paused KV"),
    ("blocked", "blocked KV"),
)
COLOURS = {"running": "running_kv", "paused": "paused_kv", "blocked": "blocked_kv"}


@dataclass(frozen=True, slots=True)
class StackData:
    """What the chart is drawn from. `utc`: the right edge; `samples` oldest first; `window_s`: how far back."""

    samples: Sequence[Sample]
    events: Sequence[Event]
    bands: Bands | None
    kv_dtype: KVDtype
    utc: float
    scale: Scale
    window_s: float = 300.0


def stack_data(
    snapshot: Snapshot, samples: Sequence[Sample], events: Sequence[Event], scale: Scale, window_s: float
) -> StackData:
    return StackData(samples, events, snapshot.bands, snapshot.knobs.kv_dtype, snapshot.utc, scale, window_s)


def thinned(samples: Sequence[Sample], points: int = MAX_POINTS) -> list[Sample]:
    """At most about `points` samples. Each bucket of time keeps its fullest one, so that a peak over the line is never
    lost; buckets lie at multiples of their width, so that old points do not shimmer as new ones come."""
    if len(samples) <= points:
        return list(samples)
    span = samples[-1].at - samples[0].at
    width = 2.0 ** math.ceil(math.log2(max(span, 1e-6) / points))
    kept: dict[int, Sample] = {}
    for sample in samples:
        bucket = math.floor(sample.at / width)
        best = kept.get(bucket)
        if best is None or _height(sample.bands) > _height(best.bands):
            kept[bucket] = sample
    return list(kept.values())


def figure(data: StackData, theme: ThemeName = "dark") -> "go.Figure":
    """The stack over time with a bar of now beside it, in GiB or MiB."""
    import plotly.graph_objects as go

    return go.Figure(spec(data, theme))


def spec(data: StackData, theme: ThemeName) -> dict[str, Any]:
    """The figure as plain JSON: what a page sends each second, thirty times cheaper than by way of Figure objects."""
    colours = palette(theme)
    unit = data.scale.unit(data.bands)
    start = data.utc - data.window_s
    samples = thinned([sample for sample in data.samples if sample.utc >= start])
    stacks = [data.scale.stack(sample.bands) for sample in samples]
    times = [sample.utc for sample in samples]
    now = data.scale.stack(data.bands) if data.bands is not None else None
    if now is None:
        return {"data": [], "layout": _layout(None, unit, data.scale, colours)}
    stacks.append(now)
    times.append(max(data.utc, times[-1] if times else data.utc))
    x = np.asarray(times, dtype=np.float64) * 1000.0
    traces = _areas(x, stacks, unit, colours)
    traces += _lines(x, stacks, unit, data.kv_dtype, now, colours)
    traces.append(_marks(data.events, times[0], times[-1], now.ceiling / unit, colours))
    traces += _now_bar(now, unit, colours)
    layout = _layout(now, unit, data.scale, colours)
    layout["annotations"] = [_ceiling_label(now, unit, colours), _provenance(data.scale, colours)]
    return {"data": traces, "layout": layout}


def render(data: StackData, theme: ThemeName, *, key: str = "vram_stack") -> None:
    components.live_plot(json.dumps(spec(data, theme)), key=key)


def _scatter(**properties: Any) -> Trace:
    return {"type": "scatter"} | properties


def _bar(**properties: Any) -> Trace:
    return {"type": "bar"} | properties


def _packed(array: Any) -> dict[str, str]:
    """A numpy array of floats as plotly.js takes typed arrays."""
    return {"dtype": f"f{array.itemsize}", "bdata": base64.b64encode(array.tobytes()).decode("ascii")}


def _height(bands: Bands) -> int:
    return bands.running_kv + bands.paused_kv + bands.blocked_kv + bands.forced


def _column(stacks: Sequence[Stack], name: str, unit: int) -> Any:
    return _packed(np.asarray([getattr(stack, name) or 0.0 for stack in stacks], dtype=np.float32) / np.float32(unit))


def _areas(x: Any, stacks: Sequence[Stack], unit: int, colours: Palette) -> list[Trace]:
    hover = f"%{{y:.2f}} {unit_name(unit)}"
    traces: list[Trace] = []
    for name, label in BANDS:
        colour = getattr(colours, COLOURS.get(name, name))
        traces.append(
            _scatter(
                x=_packed(x),
                y=_column(stacks, name, unit),
                name=label,
                mode="lines",
                stackgroup="vram",
                fillcolor=colour,
                line={"width": 0.5, "color": colour, "shape": "hv"},
                hovertemplate=hover,
            )
        )
    if any(stack.other for stack in stacks):
        traces.append(
            _scatter(
                x=_packed(x),
                y=_column(stacks, "other", unit),
                name="other on the device",
                mode="lines",
                stackgroup="vram",
                fillcolor=colours.other,
                line={"width": 0.5, "color": colours.other, "shape": "hv"},
                hovertemplate=hover,
            )
        )
    traces.append(
        _scatter(
            x=_packed(x),
            y=_column(stacks, "forced", unit),
            name="forced to leave",
            mode="lines",
            stackgroup="vram",
            fillpattern=HATCH | {"fgcolor": colours.forced},
            line={"width": 0, "color": colours.forced, "shape": "hv"},
            hovertemplate=hover,
        )
    )
    return traces


def _lines(x: Any, stacks: Sequence[Stack], unit: int, dtype: KVDtype, now: Stack, colours: Palette) -> list[Trace]:
    other = "fp16" if dtype == KVDtype.Q8 else "q8"
    return [
        _scatter(
            x=_packed(x),
            y=_column(stacks, "other_precision", unit),
            name=f"same turns at {other}",
            mode="lines",
            line={"dash": "dash", "width": 1.7, "color": colours.other_precision, "shape": "hv"},
            hovertemplate=f"%{{y:.2f}} {unit_name(unit)}",
        ),
        _scatter(
            x=[x[0], x[-1]],
            y=[now.ceiling / unit] * 2,
            name="ceiling",
            mode="lines",
            hoverinfo="skip",
            line={"dash": "dash", "width": 2, "color": colours.ceiling},
            showlegend=False,
        ),
    ]


def _marks(events: Sequence[Event], first: float, last: float, ceiling: float, colours: Palette) -> Trace:
    """One dotted line for each knob change in the window; labels that would touch are left to the hover text."""
    top = ceiling * 1.06
    xs: list[float | None] = []
    labels: list[str] = []
    hovers: list[str] = []
    gap = (last - first) * 0.07
    labelled = -math.inf
    for event in [e for e in events if e.kind == EventKind.KNOB and first <= e.utc <= last][-MAX_MARKS:]:
        roomy = event.utc - labelled >= gap and last - event.utc > gap
        labelled = event.utc if roomy else labelled
        xs += [event.utc * 1000, event.utc * 1000, None]
        labels += ["", mark_label(event) if roomy else "", ""]
        hovers += [event.text, event.text, ""]
    return _scatter(
        x=xs,
        y=[0, top, None] * (len(xs) // 3),
        text=labels,
        hovertext=hovers,
        name="knob changes",
        mode="lines+text",
        textposition="top right",
        textfont={"size": 11, "color": colours.muted},
        cliponaxis=False,
        line={"width": 1, "dash": "dot", "color": colours.muted},
        hovertemplate="%{hovertext}<extra></extra>",
        showlegend=False,
    )


def mark_label(event: Event) -> str:
    """A knob change in a word or two."""
    value = event.new or ""
    match event.name:
        case "kv_dtype" | "policy":
            return value
        case "high_watermark" | "low_watermark":
            return f"{event.name.removesuffix('_watermark')} {float(value):.0%}"
        case "host_pool_bytes":
            return "host pool"
        case "max_running":
            return f"{value} slots"
        case "prefill_chunk":
            return f"chunk {value}"
        case _:
            return (event.name or "").replace("_", " ")


def _now_bar(now: Stack, unit: int, colours: Palette) -> list[Trace]:
    """The present state beside the chart, on the same axis."""
    bars: list[Trace] = []
    segments = [(name, getattr(now, name), getattr(colours, COLOURS.get(name, name))) for name, _ in BANDS]
    if now.other:
        segments.append(("other", now.other, colours.other))
    for name, value, colour in segments:
        tall = value > 0.05 * now.ceiling
        bars.append(
            _bar(
                x=["now"],
                y=[value / unit],
                xaxis="x2",
                name=name,
                marker={"color": colour, "line": {"width": 0}},
                text=[short(value / unit) if tall else ""],
                textposition="inside",
                insidetextanchor="middle",
                textangle=0,
                textfont={"size": 12, "color": _ink(colour)},
                constraintext="none",
                width=0.72,
                showlegend=False,
                hovertemplate=f"{name} %{{y:.2f}} {unit_name(unit)}<extra></extra>",
            )
        )
    bars.append(
        _bar(
            x=["now"],
            y=[now.forced / unit],
            xaxis="x2",
            name="forced",
            width=0.72,
            showlegend=False,
            marker={
                "color": "rgba(0,0,0,0)",
                "line": {"width": 0},
                "pattern": HATCH | {"fgcolor": colours.forced},
            },
            hovertemplate=f"forced %{{y:.2f}} {unit_name(unit)}<extra></extra>",
        )
    )
    for level, colour, width in (
        (now.other_precision, colours.other_precision, 1.7),
        (now.ceiling, colours.ceiling, 2),
    ):
        bars.append(
            _scatter(
                x=[-0.5, 0.5],
                y=[level / unit] * 2,
                xaxis="x3",
                mode="lines",
                hoverinfo="skip",
                showlegend=False,
                line={"dash": "dash", "width": width, "color": colour},
            )
        )
    return bars


def _ink(colour: str) -> str:
    """Black or white text, whichever reads better on `colour`."""
    red, green, blue = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return "#06181a" if 0.299 * red + 0.587 * green + 0.114 * blue > 120 else "#ffffff"


def _ceiling_label(now: Stack, unit: int, colours: Palette) -> dict[str, Any]:
    return {
        "xref": "paper",
        "x": 0.004,
        "y": now.ceiling / unit,
        "yshift": 10,
        "xanchor": "left",
        "showarrow": False,
        "text": f"ceiling {now.ceiling / unit:.4g} {unit_name(unit)}",
        "font": {"color": colours.ceiling, "size": 12.5},
    }


def _provenance(scale: Scale, colours: Palette) -> dict[str, Any]:
    return {
        "xref": "paper",
        "yref": "paper",
        "x": 1,
        "y": 1,
        "yshift": 17,
        "xanchor": "right",
        "showarrow": False,
        "text": scale.label,
        "font": {"color": colours.muted, "size": 11},
    }


def _layout(now: Stack | None, unit: int, scale: Scale, colours: Palette) -> dict[str, Any]:
    axis = {"gridcolor": colours.line, "zeroline": False, "color": colours.muted, "linecolor": colours.line}
    title = f"{unit_name(unit)} at card scale" if scale.card else f"{unit_name(unit)}, this machine"
    top = now.ceiling / unit * 1.13 if now else 1.0
    return {
        "height": HEIGHT,
        "margin": {"l": 54, "r": 14, "t": 26, "b": 34},
        "paper_bgcolor": colours.surface,
        "plot_bgcolor": colours.surface,
        "font": {"color": colours.text, "family": FONT, "size": 12.5},
        "xaxis": axis
        | {
            "type": "date",
            "domain": [0, 0.895],
            "tickformat": "%H:%M:%S",
            "title": {"text": "time, UTC", "standoff": 4, "font": {"size": 12}},
            "nticks": 8,
        },
        "xaxis2": axis | {"domain": [0.915, 1.0], "showgrid": False, "fixedrange": True},
        "xaxis3": {
            "domain": [0.915, 1.0],
            "overlaying": "x2",
            "range": [-0.5, 0.5],
            "visible": False,
            "fixedrange": True,
        },
        "yaxis": axis
        | {
            "title": {"text": title, "standoff": 6, "font": {"size": 12}},
            "rangemode": "tozero",
            "autorangeoptions": {"include": [0, top]},
        },
        "barmode": "stack",
        "hovermode": "x unified",
        "hoverlabel": {"bgcolor": colours.background, "bordercolor": colours.line, "font": {"color": colours.text}},
        "legend": {"orientation": "h", "y": -0.15, "x": 0, "font": {"size": 11.5}, "traceorder": "normal"},
        "uirevision": scale.name,
    }
