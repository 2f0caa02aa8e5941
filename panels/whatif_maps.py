"""A grid's figures as heatmaps: what each cell came to, with its unit, in one hue of growing strength. Pure."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from engine.twin.grid import Grid
from engine.twin.grid_run import Outcome
from engine.twin.setup import TwinSummary
from panels import chart
from panels.marks import axis, ink
from panels.palette import Palette, ThemeName, palette, sequential
from panels.prices_axes import around
from panels.units import count, rate, seconds, size
from panels.whatif_words import cell_words, said, titled

MARGIN = {"l": 20, "r": 18, "t": 46, "b": 52}
HEIGHT, ROW = 118, 58
MANY = 5
PENDING, FAILED = "…", "failed"


@dataclass(frozen=True, slots=True)
class Metric:
    """`unit`: of the bare figure, for files; `meaning`: of the palette, whose hue the map has."""

    key: str
    title: str
    unit: str
    meaning: str
    of: Callable[[TwinSummary], float | None]
    said: Callable[[float | None], str]


MAKESPAN = Metric("makespan", "Makespan", "s", "running_kv", lambda s: s.makespan_s, seconds)
RATE = Metric("rate", "Tokens per second", "tok/s", "running_kv", lambda s: s.tokens_per_s, rate)
TTFT = Metric("ttft", "Foreground TTFT p95", "s", "paused_kv", lambda s: s.ttft_foreground_p95_s, seconds)
SWAPPED = Metric("swapped", "Swapped bytes, out and back", "bytes", "swap", lambda s: s.swapped_bytes, size)
RECOMPUTED = Metric("recomputed", "Recomputed tokens", "tokens", "recompute", lambda s: s.recomputed_tokens, count)


@dataclass(frozen=True, slots=True)
class Maps:
    """All that the maps show. `live`, `chosen`: cells by their number, None: none."""

    grid: Grid
    outcomes: Sequence[Outcome | None]
    live: int | None = None
    chosen: int | None = None

    def figure(self, index: int, metric: Metric) -> float | None:
        outcome = self.outcomes[index]
        return None if outcome is None or outcome.result is None else metric.of(outcome.result.summary)


def metrics(grid: Grid) -> tuple[Metric, ...]:
    """The four maps: a run of some hours has no makespan, and is told by its rate."""
    return (MAKESPAN if grid.base.hours is None else RATE), TTFT, SWAPPED, RECOMPUTED


def spec(maps: Maps, metric: Metric, theme: ThemeName) -> dict[str, Any]:
    """One map as plain JSON; a press on a cell gives its number."""
    grid, colours = maps.grid, palette(theme)
    down, across = grid.down.values, grid.across.values
    cells = [[grid.index(row, column) for column in range(len(across))] for row in range(len(down))]
    figures = [[maps.figure(index, metric) for index in row] for row in cells]
    low, high = _span(figures)
    trace = {
        "type": "heatmap", "x": list(range(len(across))), "y": list(range(len(down))), "z": figures,
        "customdata": cells, "hoverongaps": True, "xgap": 3, "ygap": 3, "zmin": low, "zmax": high, "showscale": False,
        "colorscale": [[share, sequential(colours, metric.meaning, share)] for share in (0.0, 1.0)],
        "hovertext": [[_hover(maps, index, metric) for index in row] for row in cells],
        "hovertemplate": "%{hovertext}<extra></extra>",
    }  # fmt: skip
    layout = around(colours, HEIGHT + ROW * len(down), MARGIN, f"{metric.title}, modelled") | {
        "xaxis": _named(colours, titled(grid.across.name), [said(grid.across.name, value) for value in across]),
        "yaxis": _named(colours, titled(grid.down.name), [said(grid.down.name, value) for value in down])
        | {"autorange": False, "range": [len(down) - 0.5, -0.5], "automargin": True},
        "shapes": [
            *_outline(maps.live, len(across), colours, "solid"), *_outline(maps.chosen, len(across), colours, "dot"),
        ],
        "annotations": _written(maps, metric, (low, high), colours),
        "hovermode": "closest",
        "uirevision": f"{metric.key} {len(across)} {len(down)}",
    }  # fmt: skip
    return {"data": [trace], "layout": layout, "alt": sentence(maps, metric), "table": _table(maps, metric)}


def sentence(maps: Maps, metric: Metric) -> str:
    """The least and the most, and how much of the grid is there."""
    numbers = range(len(maps.grid.cells))
    there = [(figure, index) for index in numbers if (figure := maps.figure(index, metric)) is not None]
    if not there:
        return f"{metric.title}: no cell is there yet."
    cells = maps.grid.cells
    least, most = min(there), max(there, key=lambda one: (one[0], -one[1]))
    of_all = "" if len(there) == len(cells) else f" {len(there)} of {len(cells)} cells have it."
    if least[0] == most[0]:
        return f"{metric.title}: {metric.said(least[0])} in every cell that is there.{of_all}"
    return (
        f"{metric.title}, modelled: from {metric.said(least[0])} at {cell_words(maps.grid, cells[least[1]])} "
        f"to {metric.said(most[0])} at {cell_words(maps.grid, cells[most[1]])}.{of_all}"
    )


def cell_text(maps: Maps, index: int, metric: Metric) -> str:
    """What is written into a cell."""
    outcome = maps.outcomes[index]
    if outcome is None:
        return PENDING
    return FAILED if outcome.result is None else metric.said(maps.figure(index, metric))


def _span(figures: Sequence[Sequence[float | None]]) -> tuple[float, float]:
    """Where all are alike, as little ink as the least has."""
    there = [figure for row in figures for figure in row if figure is not None]
    low, high = (min(there), max(there)) if there else (0.0, 1.0)
    return low, high if high > low else low + 1.0


def _hover(maps: Maps, index: int, metric: Metric) -> str:
    outcome = maps.outcomes[index]
    why = f"<br>{outcome.problem.replace('<', '&lt;')}" if outcome and outcome.problem else ""
    live = "<br>the live engine's knobs" if index == maps.live else ""
    words = cell_words(maps.grid, maps.grid.cells[index]).replace("<", "&lt;")
    return f"{words}<br>{metric.title}: {cell_text(maps, index, metric)}{why}{live}"


def _named(colours: Palette, title: str, names: Sequence[str]) -> dict[str, Any]:
    return axis(colours) | {
        "title": {"text": title, "standoff": 8, "font": {"size": 12}}, "tickvals": list(range(len(names))),
        "ticktext": [name.replace("<", "&lt;") for name in names], "showgrid": False, "fixedrange": True,
        "range": [-0.5, len(names) - 0.5], "tickangle": 0,
    }  # fmt: skip


def _written(maps: Maps, metric: Metric, span: tuple[float, float], colours: Palette) -> list[dict[str, Any]]:
    across = len(maps.grid.across.values)
    return [
        {
            "x": index % across, "y": index // across, "showarrow": False, "text": text,
            "font": {
                "size": 11 if across > MANY else 13, "color": _ink(maps.figure(index, metric), metric, span, colours),
            },
        }
        for index, text in ((index, _marked(maps, index, metric)) for index in range(len(maps.grid.cells)))
    ]  # fmt: skip


def _marked(maps: Maps, index: int, metric: Metric) -> str:
    text = cell_text(maps, index, metric)
    return f"<b>{text}</b><br><sub>live</sub>" if index == maps.live else text


def _ink(figure: float | None, metric: Metric, span: tuple[float, float], colours: Palette) -> str:
    if figure is None:
        return colours.muted
    return ink(sequential(colours, metric.meaning, (figure - span[0]) / (span[1] - span[0])))


def _outline(index: int | None, across: int, colours: Palette, dash: str) -> list[dict[str, Any]]:
    """Around one cell; over a wider line of the ground's colour, so that it reads on any cell."""
    if index is None:
        return []
    row, column = divmod(index, across)
    inset = 0.03 if dash == "solid" else 0.07
    box = {
        "type": "rect", "x0": column - 0.5 + inset, "x1": column + 0.5 - inset, "y0": row - 0.5 + inset,
        "y1": row + 0.5 - inset,
    }  # fmt: skip
    under = {"line": {"width": 5, "color": colours.surface}}
    return [box | under, box | {"line": {"width": 2.5, "color": colours.text, "dash": dash}}]


def _table(maps: Maps, metric: Metric) -> dict[str, Any]:
    grid = maps.grid
    numbers = range(len(grid.cells))
    return chart.table(
        (titled(grid.down.name), titled(grid.across.name), f"{metric.title} ({metric.unit}), modelled", "problem"),
        (
            chart.values([cell.down for cell in grid.cells]),
            chart.values([cell.across for cell in grid.cells]),
            chart.values([maps.figure(index, metric) for index in numbers]),
            chart.values([outcome.problem if outcome else "" for outcome in maps.outcomes]),
        ),
    )
