"""What each policy came to on the twin: a bar for each policy and figure, the one in force marked. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from engine.twin.grid import Grid
from engine.twin.grid_run import Outcome
from panels import chart
from panels.marks import axis, bar
from panels.palette import Palette, ThemeName, mixed, palette
from panels.prices_axes import around
from panels.whatif_maps import FAILED, MAKESPAN, PENDING, RECOMPUTED, SWAPPED, TTFT, Metric

METRICS: tuple[Metric, ...] = (MAKESPAN, TTFT, SWAPPED, RECOMPUTED)
HEADS = {
    "makespan": "Makespan",
    "ttft": "Foreground TTFT p95",
    "swapped": "Moved, out and back",
    "recomputed": "Recomputed",
}
MARGIN = {"l": 20, "r": 18, "t": 72, "b": 14}
ROW, GAP = 40, 0.025
WRITTEN = 1.5
"""Room right of the longest bar, which its figure takes, as a factor."""
OTHERS = 0.55
"""How strong the bars of the policies are that are not in force."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """`outcomes`: by cell, None for one that is not there yet; `in_force`: the live engine's policy, None without."""

    grid: Grid
    outcomes: Sequence[Outcome | None]
    in_force: str | None = None

    @property
    def policies(self) -> tuple[str, ...]:
        return tuple(map(str, self.grid.down.values))

    def figure(self, index: int, metric: Metric) -> float | None:
        outcome = self.outcomes[index]
        return None if outcome is None or outcome.result is None else metric.of(outcome.result.summary)

    def text(self, index: int, metric: Metric) -> str:
        outcome = self.outcomes[index]
        if outcome is None:
            return PENDING
        return FAILED if outcome.result is None else metric.said(self.figure(index, metric))


def spec(shown: Comparison, theme: ThemeName) -> dict[str, Any]:
    """All figures of all policies as plain JSON: one row per policy, one column per figure."""
    colours = palette(theme)
    rows = list(range(len(shown.policies)))
    layout = around(colours, MARGIN["t"] + MARGIN["b"] + ROW * len(rows), MARGIN, "Every policy, modelled") | {
        "yaxis": axis(colours)
        | {
            "tickvals": rows, "ticktext": [_named(shown, name) for name in shown.policies], "automargin": True,
            "autorange": False, "range": [len(rows) - 0.5, -0.5], "showgrid": False, "fixedrange": True,
            "color": colours.text, "ticklabelstandoff": 8,
        },
        "bargap": 0.42, "showlegend": False, "hovermode": "closest", "annotations": _heads(colours),
        "uirevision": "policies",
    }  # fmt: skip
    traces = []
    for place, metric in enumerate(METRICS):
        layout[f"xaxis{place + 1 if place else ''}"] = _across(shown, metric, place, colours)
        traces.append(_bars(shown, metric, place, colours))
    return {"data": traces, "layout": layout, "alt": sentence(shown), "table": _table(shown)}


def sentence(shown: Comparison) -> str:
    """Who ends first, and who answers a person first."""
    said = []
    for metric in (MAKESPAN, TTFT):
        there = [
            (figure, name)
            for index, name in enumerate(shown.policies)
            if (figure := shown.figure(index, metric)) is not None
        ]
        if not there:
            if metric is TTFT and any(o is not None and o.result is not None for o in shown.outcomes):
                said.append(f"{metric.title}: n/a, as no agent among them is foreground")
            continue
        (least, first), (most, last) = min(there), max(there)
        spread = (
            f"; the most is {metric.said(most)} with {last}" if most > least else " with every policy that is there"
        )
        said.append(
            f"{metric.title}: the least is {metric.said(least)}{f' with {first}' if most > least else ''}{spread}"
        )
    return f"Modelled. {'. '.join(said)}." if said else "No policy is there yet."


def _named(shown: Comparison, name: str) -> str:
    words = name.replace("<", "&lt;")
    return f"<b>{words}</b><br><sub>in force</sub>" if name == shown.in_force else words


def _across(shown: Comparison, metric: Metric, place: int, colours: Palette) -> dict[str, Any]:
    width = (1 - GAP * (len(METRICS) - 1)) / len(METRICS)
    start = place * (width + GAP)
    most = max((shown.figure(index, metric) or 0.0 for index in range(len(shown.policies))), default=0.0)
    return axis(colours) | {
        "domain": [start, start + width], "autorange": False, "range": [0, (most or 1.0) * WRITTEN], "showgrid": False,
        "showticklabels": False, "fixedrange": True, "showline": False, "anchor": "y",
    }  # fmt: skip


def _bars(shown: Comparison, metric: Metric, place: int, colours: Palette) -> dict[str, Any]:
    strong = getattr(colours, metric.meaning)
    rows = range(len(shown.policies))
    texts = [shown.text(index, metric) for index in rows]
    return bar(
        orientation="h", x=[shown.figure(index, metric) or 0.0 for index in rows], y=list(rows),
        xaxis=f"x{place + 1 if place else ''}", yaxis="y", name=HEADS[metric.key],
        marker={
            "color": [
                strong if name == shown.in_force or shown.in_force is None else mixed(strong, colours.surface, OTHERS)
                for name in shown.policies
            ],
        },
        text=texts, textposition="outside", cliponaxis=False,
        textfont={"color": colours.text, "size": 12}, hovertext=[_hover(shown, index, metric) for index in rows],
        hovertemplate="%{hovertext}<extra></extra>",
    )  # fmt: skip


def _hover(shown: Comparison, index: int, metric: Metric) -> str:
    outcome = shown.outcomes[index]
    why = f"<br>{outcome.problem.replace('<', '&lt;')}" if outcome and outcome.problem else ""
    return f"{shown.policies[index]}<br>{metric.title}: {shown.text(index, metric)}{why}"


def _heads(colours: Palette) -> list[dict[str, Any]]:
    width = (1 - GAP * (len(METRICS) - 1)) / len(METRICS)
    return [
        {
            "x": place * (width + GAP), "y": 1, "xref": "paper", "yref": "paper", "xanchor": "left",
            "yanchor": "bottom", "showarrow": False, "text": HEADS[metric.key], "yshift": 6,
            "font": {"size": 12, "color": colours.muted},
        }
        for place, metric in enumerate(METRICS)
    ]  # fmt: skip


def _table(shown: Comparison) -> dict[str, Any]:
    rows = range(len(shown.policies))
    return chart.table(
        ("policy", "in force", *(f"{metric.title} ({metric.unit}), modelled" for metric in METRICS), "problem"),
        (
            chart.values(shown.policies),
            chart.values(["yes" if name == shown.in_force else "" for name in shown.policies]),
            *(chart.values([shown.figure(index, metric) for index in rows]) for metric in METRICS),
            chart.values([outcome.problem if outcome else "" for outcome in shown.outcomes]),
        ),
    )
