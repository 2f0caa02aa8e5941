"""The planner's columns: running turns, then paused ones or one long one beside them, against the ceiling.

`spec` is pure. What lies over the ceiling is hatched, a band that crosses it is split there; the dashed line is the
same turns at q8, scales counted. Everything is modelled; sizes are in GiB, or MiB for a card of less than 2 GiB.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from engine.paper.ceiling import Plan, State
from panels import chart, components
from panels.marks import Trace, axis, bar, ceiling_line, extent, grounds, hatched, ink, outlined
from panels.palette import Palette, ThemeName, palette
from panels.planner_words import states_text
from panels.units import axis_unit, trimmed, unit_name

HEIGHT = 470
MARGIN = {"l": 54, "r": 176, "t": 34, "b": 58}
PLOT_PX = HEIGHT - MARGIN["t"] - MARGIN["b"]
WIDTH = 0.72
LONG_GAP = 0.3
TOTAL_PX, TEXT_PX = 40, 17
FEW, TITLE_PX = 7, 28
CHAR_PX, WORD_GAP_PX = 7.2, 4
LONGEST = 100_000
FORCED = "forced swap or recompute"
BANDS = (
    ("weights", "weights"),
    ("runtime", "runtime"),
    ("running KV", "running_kv"),
    ("paused KV", "paused_kv"),
    ("one long turn", "paused_kv"),
)


@dataclass(frozen=True, slots=True)
class Column:
    """One state in units of the axis: `whole` bands of BANDS, what of each is `under` the ceiling, and the rest."""

    x: float
    state: State
    whole: tuple[float, ...]
    under: tuple[float, ...]
    over: float
    used: float
    used_q8: float


def columns(plan: Plan) -> tuple[Column, ...]:
    """The states of the plan, the long turn's a little apart."""
    unit, last = unit_of(plan), len(plan.states) - 1
    ceiling = plan.card.usable.amount
    fixed = (plan.card.weights.amount, plan.card.runtime.amount)
    made = []
    for index, state in enumerate(plan.states):
        whole = (*fixed, float(state.running_bytes), float(state.paused_bytes), float(state.long_bytes))
        tops = [min(top, ceiling) for top in itertools.accumulate(whole, initial=0.0)]
        under = tuple(top - bottom for bottom, top in itertools.pairwise(tops))
        made.append(
            Column(
                index + (LONG_GAP if index == last else 0.0),
                state,
                tuple(size / unit for size in whole),
                tuple(size / unit for size in under),
                state.over_bytes / unit,
                state.used_bytes / unit,
                state.used_q8_bytes / unit,
            )
        )
    return tuple(made)


def unit_of(plan: Plan) -> int:
    return axis_unit(plan.card.usable.amount)


def spec(plan: Plan, theme: ThemeName) -> dict[str, Any]:
    """The figure as trimmed JSON."""
    colours, unit = palette(theme), unit_of(plan)
    drawn = columns(plan)
    ceiling = plan.card.usable.amount / unit
    tallest = max(ceiling, *(column.used for column in drawn), *(column.used_q8 for column in drawn))
    top = tallest * PLOT_PX / (PLOT_PX - TOTAL_PX)
    edges = [drawn[0].x - 0.5, drawn[-1].x + 0.5]
    traces = [*_bands(drawn, top, unit, colours), _over(drawn, unit, colours)]
    traces += outlined(
        *_steps(drawn), colours, shape="linear", name="same turns at q8", hoverinfo="skip", showlegend=False
    )
    traces.append(ceiling_line(edges, [ceiling] * 2, colours))
    notes = [*_totals(drawn, ceiling, top, colours), *_labels(drawn[-1], ceiling, top, unit, colours)]
    if note := _forced(drawn, colours):
        notes.append(note)
    layout = _layout(plan, drawn, edges, top, colours, len(drawn) <= FEW) | {"annotations": notes}
    narrow = _layout(plan, drawn, edges, top, colours, False)
    parts = {part: narrow[part] for part in ("height", "margin", "xaxis")}
    below = _wide_px(layout["xaxis"]["ticktext"], edges)
    figure = {"data": traces, "layout": layout, "narrow": {"below": below, "layout": parts}}
    return figure | {"alt": states_text(plan), "table": _table(drawn, ceiling, unit)}


def render(plan: Plan, theme: ThemeName, *, key: str = "planner_chart") -> None:
    files = chart.files("planner", "turns", subject(plan), "What fits under the ceiling", source(plan))
    components.live_plot(spec(plan, theme) | files, key=key)


def subject(plan: Plan) -> str:
    """What names the plan's files."""
    return f"{plan.card.id}-{plan.layout.name}"


def source(plan: Plan) -> str:
    return f"{plan.card.name} · model shape {plan.layout.name} · modelled from the card's profile"


def _table(drawn: Sequence[Column], ceiling: float, unit: int) -> dict[str, Any]:
    """A row for each column of the chart: each band as far as it lies under the ceiling, and what is over it."""
    at_fp16, last = f"({unit_name(unit)} at fp16)", len(BANDS)
    under = [f"{label} under the ceiling {at_fp16}" for label, _ in BANDS]
    head = ["turns", *under, f"{FORCED} {at_fp16}", f"in all {at_fp16}", f"same turns at q8 ({unit_name(unit)})",
            f"ceiling ({unit_name(unit)})"]  # fmt: skip
    block = [
        chart.values([column.state.label for column in drawn]),
        *(chart.part(index, "y") for index in range(last + 1)),
        chart.values([column.used for column in drawn]),
        chart.values([column.used_q8 for column in drawn]),
        chart.same(ceiling),
    ]
    return chart.table(head, block)


def _bands(drawn: Sequence[Column], top: float, unit: int, colours: Palette) -> list[Trace]:
    traces = []
    for index, (label, meaning) in enumerate(BANDS):
        colour = getattr(colours, meaning)
        own = meaning == "paused_kv"
        traces.append(
            bar(
                x=[column.x for column in drawn],
                y=[column.under[index] for column in drawn],
                name=label,
                width=WIDTH,
                marker={"color": colour, "line": {"width": 0}},
                text=[_inside(column, index, top) if own else "" for column in drawn],
                textposition="inside",
                insidetextanchor="end",
                textangle=0,
                textfont={"size": 12, "color": ink(colour)},
                constraintext="none",
                customdata=[f"{label} {trimmed(column.whole[index])} {unit_name(unit)}" for column in drawn],
                hovertemplate="%{customdata}<extra></extra>",
                showlegend=False,
            )
        )
    return traces


def _inside(column: Column, index: int, top: float) -> str:
    """The whole band's size, where what is drawn of it is tall enough for a line of text."""
    return trimmed(column.whole[index]) if column.under[index] / top * PLOT_PX >= TEXT_PX else ""


def _over(drawn: Sequence[Column], unit: int, colours: Palette) -> Trace:
    return bar(
        x=[column.x for column in drawn],
        y=[column.over for column in drawn],
        name=FORCED,
        width=WIDTH,
        marker=hatched(colours.forced),
        customdata=[f"{FORCED}: {trimmed(column.over)} {unit_name(unit)} over" for column in drawn],
        hovertemplate="%{customdata}<extra></extra>",
        showlegend=False,
    )


def _steps(drawn: Sequence[Column]) -> tuple[list[float | None], list[float | None]]:
    """Over each column a flat piece, joined while the columns stand side by side."""
    x: list[float | None] = []
    y: list[float | None] = []
    for column in drawn:
        if column is drawn[-1]:
            x.append(None)
            y.append(None)
        x += [column.x - 0.5, column.x + 0.5]
        y += [column.used_q8] * 2
    return x, y


def _totals(drawn: Sequence[Column], ceiling: float, top: float, colours: Palette) -> list[dict[str, Any]]:
    """Above each column what it takes; above the line where the dashes would cross the number."""
    px = PLOT_PX / top
    placed = []
    for column in drawn:
        crossed = column.used <= ceiling and (ceiling - column.used) * px < TEXT_PX
        placed.append(
            {
                "x": column.x,
                "y": ceiling if crossed else column.used,
                "yshift": 2 if crossed else 0,
                "yanchor": "bottom",
                "showarrow": False,
                "text": f"<b>{trimmed(column.used)}</b>",
                "font": {"size": 13, "color": colours.text},
            }
        )
    return placed


def _forced(drawn: Sequence[Column], colours: Palette) -> dict[str, Any] | None:
    """What the hatching means, once, over the columns that have it."""
    over = [column for column in drawn if column.over > 0]
    if not over:
        return None
    return {
        "x": sum(column.x for column in over) / len(over),
        "y": max(column.used for column in over),
        "yshift": 17,
        "yanchor": "bottom",
        "showarrow": False,
        "text": f'<span style="color:{colours.forced}">▨</span> {FORCED}',
        "font": {"size": 12, "color": colours.text},
    }


def _labels(last: Column, ceiling: float, top: float, unit: int, colours: Palette) -> list[dict[str, Any]]:
    """Beside the last column, each at the height of what it names, none on another."""
    words: list[tuple[float, str]] = [
        (ceiling, f'<b><span style="color:{colours.ceiling}">ceiling {trimmed(ceiling)} {unit_name(unit)}</span></b>'),
        (last.used_q8, f'<span style="color:{colours.other_precision}">╌ same turns at q8</span>'),
    ]
    base = 0.0
    for index, (label, meaning) in enumerate(BANDS):
        under, whole = last.under[index], last.whole[index]
        if whole > 0 and under > 0:
            square = f'<span style="color:{getattr(colours, meaning)}">■</span>'
            amount = f" {trimmed(whole)} {unit_name(unit)}" if whole < LONGEST else ""
            words.append((base + under / 2, f"{square} {label}{amount}"))
        base += under
    return [
        {
            "xref": "paper",
            "x": 1,
            "xshift": 6,
            "y": y,
            "xanchor": "left",
            "align": "left",
            "showarrow": False,
            "text": text,
            "font": {"size": 12, "color": colours.text},
        }
        for y, text in apart(words, TEXT_PX * top / PLOT_PX)
    ]


def apart(words: Sequence[tuple[float, str]], gap: float) -> list[tuple[float, str]]:
    """Heights moved so that neighbours are at least `gap` apart, none below half of it; the highest stays."""
    placed: list[tuple[float, str]] = []
    for y, text in sorted(words, reverse=True):
        placed.append((min(y, placed[-1][0] - gap) if placed else y, text))
    floor = gap / 2
    for index in reversed(range(len(placed))):
        y, text = placed[index]
        placed[index] = (max(y, floor), text)
        floor = placed[index][0] + gap
    return placed


def _layout(
    plan: Plan, drawn: Sequence[Column], edges: list[float], top: float, colours: Palette, few: bool
) -> dict[str, Any]:
    """`few`: the columns stand far enough apart for whole words below each."""
    unit = unit_name(unit_of(plan))
    below = 0 if few else TITLE_PX
    return grounds(colours) | {
        "height": HEIGHT + below,
        "margin": MARGIN | {"b": MARGIN["b"] + below},
        "barmode": "stack",
        "xaxis": axis(colours)
        | {
            "tickvals": [column.x for column in drawn],
            "ticktext": [_tick(column, unit, few) for column in drawn],
            "title": {
                "text": "" if few else "paused turns beside the running ones",
                "standoff": 8,
                "font": {"size": 12},
            },
            "tickangle": 0,
            "tickfont": {"size": 12 if few else 11, "color": colours.text},
            **extent(*edges),
            "showgrid": False,
        },
        "yaxis": axis(colours)
        | {"title": {"text": f"{unit} at fp16, modelled", "standoff": 6, "font": {"size": 12}}, **extent(0, top)},
        "hovermode": "closest",
        "showlegend": False,
        "uirevision": f"{plan.card.id} {plan.layout.name}",
    }


def _wide_px(ticks: Sequence[str], edges: Sequence[float]) -> int:
    """How wide the chart must be for the longest line below a column to stay clear of its neighbour's."""
    longest = max(len(line.removeprefix("<b>").removesuffix("</b>")) for tick in ticks for line in tick.split("<br>"))
    return round(MARGIN["l"] + MARGIN["r"] + (edges[1] - edges[0]) * (CHAR_PX * longest + WORD_GAP_PX))


def _tick(column: Column, unit: str, few: bool) -> str:
    """State and verdict; where columns stand close, the axis' title says what the bare numbers are."""
    if few:
        verdict = f"<b>{trimmed(column.over)} {unit} over</b>" if column.over > 0 else "fits"
        return f"{column.state.label}<br>{verdict}"
    verdict = f"<b>{trimmed(column.over)} {unit}<br>over</b>" if column.over > 0 else "fits"
    return f"{column.state.label.removesuffix(' paused').removesuffix(' only')}<br>{verdict}"
