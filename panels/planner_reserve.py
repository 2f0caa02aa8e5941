"""Reserving each slot's largest context up front, against what average turns hold: two bars under one ceiling."""

from typing import Any

from engine.layout import Store
from engine.paper.ceiling import Plan
from panels import chart, components
from panels.marks import Trace, axis, bar, ceiling_line, extent, grounds, hatched, ink
from panels.palette import Palette, ThemeName, palette
from panels.planner_chart import source, subject, unit_of
from panels.planner_words import reserve_text
from panels.units import trimmed, unit_name

HEIGHT = 226
MARGIN = {"l": 148, "r": 26, "t": 44, "b": 46}
RESERVED, HELD = "reserved<br>up front", "held by<br>average turns"
WIDTH = 0.58


def spec(plan: Plan, theme: ThemeName) -> dict[str, Any]:
    """The figure as trimmed JSON: fp16, modelled."""
    colours, unit = palette(theme), unit_of(plan)
    ceiling = plan.card.usable.amount / unit
    fixed = (plan.card.weights.amount + plan.card.runtime.amount) / unit
    reserved, held = (
        plan.reserves[Store.FP16].reserved_bytes / unit,
        plan.fits[Store.FP16].running_bytes / unit,
    )
    totals = (fixed + reserved, fixed + held)
    right = max(ceiling, *totals) * 1.04
    traces = [
        _bar([min(fixed, ceiling)] * 2, "weights,<br>runtime", colours.weights, unit, right),
        _bar([min(total, ceiling) - min(fixed, ceiling) for total in totals], "KV", colours.running_kv, unit, right),
        bar(
            x=[max(0.0, total - ceiling) for total in totals],
            y=[RESERVED, HELD],
            orientation="h",
            width=WIDTH,
            name="over the ceiling",
            marker=hatched(colours.forced),
            showlegend=False,
            hovertemplate=f"over the ceiling %{{x:.2f}} {unit_name(unit)}<extra></extra>",
        ),
        ceiling_line([ceiling] * 2, [-0.5, 1.5], colours) | {"yaxis": "y2"},
    ]
    figure = {"data": traces, "layout": _layout(plan, ceiling, totals, right, unit, colours)}
    return figure | {"alt": reserve_text(plan), "table": _table(totals, ceiling, f"({unit_name(unit)} at fp16)")}


def render(plan: Plan, theme: ThemeName, *, key: str = "planner_reserve") -> None:
    heading = "Reserving the largest context against overcommitting"
    files = chart.files("planner", "reserve", subject(plan), heading, source(plan))
    components.live_plot(spec(plan, theme) | files, key=key)


def _table(totals: tuple[float, float], ceiling: float, unit: str) -> dict[str, Any]:
    bands = ("weights and runtime under the ceiling", "KV under the ceiling", "over the ceiling")
    head = ["context", *(f"{band} {unit}" for band in (*bands, "in all", "ceiling"))]
    rows = [name.replace("<br>", " ") for name in (RESERVED, HELD)]
    parts = (chart.part(index, "x") for index in range(len(bands)))
    return chart.table(head, [chart.values(rows), *parts, chart.values(totals), chart.same(ceiling)])


def _bar(x: list[float], label: str, colour: str, unit: int, right: float) -> Trace:
    return bar(
        x=x,
        y=[RESERVED, HELD],
        orientation="h",
        width=WIDTH,
        name=label,
        marker={"color": colour, "line": {"width": 0}},
        text=[label if value / right > 0.09 else "" for value in x],
        textposition="inside",
        insidetextanchor="middle",
        textfont={"size": 12, "color": ink(colour)},
        constraintext="none",
        showlegend=False,
        hovertemplate=f"{label.replace('<br>', ' ')} %{{x:.2f}} {unit_name(unit)}<extra></extra>",
    )


def _layout(
    plan: Plan, ceiling: float, totals: tuple[float, float], right: float, unit: int, colours: Palette
) -> dict[str, Any]:
    reserved, held = totals
    name = unit_name(unit)
    skipped = plan.reserves[Store.FP16].skipped_bytes / unit
    anchor = "left" if ceiling <= 0.1 * right else "center" if ceiling < 0.9 * right else "right"
    notes = [
        _note(ceiling, 1, colours, f"<b>ceiling {trimmed(ceiling)} {name}</b>", colour=colours.ceiling, yref="paper",
              yanchor="bottom", xanchor=anchor),
    ]  # fmt: skip
    slots = plan.reserves[Store.FP16].slots
    notes += _over(reserved, RESERVED, ceiling, right, f" · {slots:,} of {plan.load.slots:,} slots fit", name, colours)
    notes += _over(held, HELD, ceiling, right, "", name, colours)
    if skipped > 0.3 * right:
        text = f"{trimmed(skipped)} {name} not reserved:<br>the headroom that preemption then lacks"
        notes.append(_note(held + skipped / 2, HELD, colours, text, bgcolor=colours.surface))
        notes += [_arrow(held, reserved, colours), _arrow(reserved, held, colours)]
    lines = axis(colours)
    return grounds(colours) | {
        "height": HEIGHT,
        "margin": MARGIN,
        "barmode": "stack",
        "xaxis": lines
        | extent(0, right)
        | {"title": {"text": f"{name} at fp16, modelled", "standoff": 4, "font": {"size": 12}}},
        "yaxis": lines
        | {
            "categoryorder": "array",
            "categoryarray": [HELD, RESERVED],
            "showgrid": False,
            "fixedrange": True,
            "tickfont": {"size": 12.5, "color": colours.text},
        },
        "yaxis2": {"overlaying": "y", "range": [-0.5, 1.5], "visible": False, "fixedrange": True},
        "annotations": notes,
        "hovermode": "closest",
        "showlegend": False,
        "uirevision": f"{plan.card.id} {plan.layout.name}",
    }


def _note(x: float, y: Any, colours: Palette, text: str, colour: str | None = None, **more: Any) -> dict[str, Any]:
    return {
        "x": x,
        "y": y,
        "showarrow": False,
        "text": text,
        "font": {"size": 12, "color": colour or colours.text},
    } | more


def _over(
    total: float, row: str, ceiling: float, right: float, more: str, unit: str, colours: Palette
) -> list[dict[str, Any]]:
    """What a bar has above the ceiling: on the hatching where there is room, else beside the bar or before the line."""
    over = total - ceiling
    if over <= 0:
        return []
    placed: dict[str, Any] = {"x": ceiling + over / 2}
    if over < 0.35 * right:
        beside = total < 0.6 * right
        placed = {
            "x": total if beside else ceiling,
            "xanchor": "left" if beside else "right",
            "xshift": 8 if beside else -8,
        }
    text = f"<b>{trimmed(over)} {unit} over</b>{more}"
    return [_note(0, row, colours, text, bgcolor=colours.surface, borderpad=3) | placed]


def _arrow(start: float, end: float, colours: Palette) -> dict[str, Any]:
    """Along the lower bar's foot, from one bar's end to the other's."""
    return {
        "x": end,
        "ax": start,
        "y": -0.36,
        "ay": -0.36,
        "yref": "y2",
        "ayref": "y2",
        "axref": "x",
        "xref": "x",
        "showarrow": True,
        "arrowhead": 2,
        "arrowwidth": 1,
        "arrowcolor": colours.muted,
        "text": "",
    }
