"""What stands around the VRAM stack: axes, marks of knob changes, where the figures come from."""

import html
import math
import textwrap
from collections.abc import Sequence
from typing import Any

from engine.cards.fields import FIELDS
from engine.events import Event, EventKind
from engine.knob_words import label
from engine.knobs import figure
from engine.live_card import pace_word
from panels.marks import axis, grounds
from panels.palette import Palette
from panels.scale import Scale, Stack
from panels.units import unit_name

HEIGHT = 446
MARGIN = {"l": 54, "r": 84, "t": 56, "b": 34}
NARROW = 700
BESIDE_BUTTONS, BESIDE_BUTTONS_NARROW = 78, 62
"""How many characters fit beside the buttons of a chart that is NARROW pixels wide, and in a window of 1280 pixels."""
MAX_MARKS = 12
MARKED = (EventKind.KNOB, EventKind.CARD)
LETTER = 0.014
"""The share of the plot that a letter of a mark's label takes in a window of 1280 pixels."""


def marks(events: Sequence[Event], first: float, last: float, colours: Palette) -> dict[str, list[dict[str, Any]]]:
    """A dotted line for each change of a knob or a modelled card in the window, with its label above the plot; one
    whose label would touch the last one is a tick inside, and its words are left to the hover text."""
    shapes: list[dict[str, Any]] = []
    annotations: list[dict[str, Any]] = []
    clear_from = -math.inf
    for event in [e for e in events if e.kind in MARKED and first <= e.utc <= last][-MAX_MARKS:]:
        label = mark_label(event)
        half = (last - first) * LETTER * (len(label) + 1) / 2
        roomy = event.utc - half >= clear_from
        clear_from = event.utc + half if roomy else clear_from
        x = event.utc * 1000
        shapes.append(
            {
                "type": "line",
                "x0": x,
                "x1": x,
                "y0": 0,
                "y1": 1,
                "yref": "y domain",
                "line": {"width": 1, "dash": "dot", "color": colours.muted},
            }
        )
        annotations.append(
            {
                "x": x,
                "y": 1,
                "yref": "y domain",
                "yanchor": "bottom" if roomy else "top",
                "showarrow": False,
                "text": label if roomy else "▾",
                "hovertext": f"{event.text}, by {event.author}",
                "font": {"size": 11, "color": colours.muted},
            }
        )
    return {"shapes": shapes, "annotations": annotations}


def mark_label(event: Event) -> str:
    """A change of a knob or of a modelled card in a word or two."""
    value = event.new or ""
    if event.kind is EventKind.CARD:
        return _card_label(event.name or "", value)
    match event.name:
        case "kv_dtype" | "policy":
            return value
        case "high_watermark" | "low_watermark":
            return f"{event.name.removesuffix('_watermark')} {figure(event.name, float(value))} %"
        case "host_pool_bytes":
            return "host pool"
        case "max_running":
            return f"{value} slots"
        case "prefill_chunk":
            return f"chunk {int(value):,}"
        case _:
            return label(event.name).lower() if event.name else ""


def _card_label(name: str, value: str) -> str:
    if name == "pace":
        return pace_word(float(value))
    field = FIELDS.get(name)
    return field.label.lower() if field else f"{name} {'on' if value == 'True' else 'off'}"


def provenance(scale: Scale, colours: Palette, characters: int) -> dict[str, Any]:
    """Where the figures come from, as the chart's title: at the left, as its buttons are at the right."""
    said = f"{scale.label[0].upper()}{scale.label[1:]}"
    lines = textwrap.wrap(said, characters, max_lines=2)
    return {
        "text": "<br>".join(html.escape(line, quote=False) for line in lines),
        "x": 0,
        "xref": "container",
        "xanchor": "left",
        "y": 1,
        "yref": "container",
        "yanchor": "top",
        "pad": {"l": 13, "t": 5 + 7 * len(lines)},
        "font": {"color": colours.muted, "size": 11},
    }


def axis_title(unit: int, scale: Scale) -> str:
    return f"{unit_name(unit)} at card scale" if scale.card else f"{unit_name(unit)}, {scale.name}"


def legend(size: float) -> dict[str, Any]:
    """Left of the plot, so that plotly gives it the margin's width too."""
    return {"orientation": "h", "y": -0.15, "x": -0.05, "font": {"size": size}, "traceorder": "normal"}


def layout(now: Stack | None, unit: int, scale: Scale, colours: Palette) -> dict[str, Any]:
    lines = axis(colours)
    top = now.ceiling / unit * 1.13 if now else 1.0
    return grounds(colours) | {
        "height": HEIGHT,
        "margin": MARGIN,
        "title": provenance(scale, colours, BESIDE_BUTTONS),
        "xaxis": lines
        | {
            "type": "date",
            "domain": [0, 0.87],
            "tickformat": "%H:%M:%S",
            "title": {"text": "time, UTC", "standoff": 4, "font": {"size": 12}},
            "nticks": 6,
            "tickangle": 0,
            "ticklabeloverflow": "hide past domain",
        },
        "xaxis2": lines | {"domain": [0.885, 1.0], "showgrid": False, "fixedrange": True},
        "xaxis3": {
            "domain": [0.885, 1.0],
            "overlaying": "x2",
            "range": [-0.5, 0.5],
            "visible": False,
            "fixedrange": True,
        },
        "yaxis": lines
        | {
            "title": {"text": axis_title(unit, scale), "standoff": 6, "font": {"size": 12}},
            "rangemode": "tozero",
            "autorangeoptions": {"include": [0, top]},
        },
        "barmode": "stack",
        "hovermode": "x unified",
        "legend": legend(11.5),
        "uirevision": scale.name,
    }


def narrow(scale: Scale, colours: Palette) -> dict[str, Any]:
    """Three names of the legend in a row, not two."""
    parts = {"legend": legend(10.5), "title": provenance(scale, colours, BESIDE_BUTTONS_NARROW)}
    return {"below": NARROW, "layout": parts}
