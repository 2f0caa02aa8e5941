"""A grid in words: values with their units, what all cells share, where the live engine stands in it. Pure."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from engine.snapshot import Snapshot
from engine.twin.grid import AXES, KNOBS, LABELS, TYPED, AxisName, Cell, Grid, Value
from engine.twin_body import chosen_preset
from engine.words import counted
from panels.prices_text import decimal_size
from panels.units import MINUTE, link, seconds

NEAR = 0.01
"""A host pool is in whole units of the engine's, so it is never the figure itself."""


@dataclass(frozen=True, slots=True)
class Live:
    """What the live engine has of the axes. `bytes_factor`: its bytes to the card's."""

    values: Mapping[AxisName, Value]
    bytes_factor: float = 1.0


def live_of(snapshot: Snapshot, agents: int) -> Live:
    """Of an engine that serves; host bytes at the scale at which it stands for the card."""
    factor = snapshot.card.factor if snapshot.card else 1.0
    knobs = snapshot.knobs
    host = round(knobs.host_pool_bytes * factor)
    values: dict[AxisName, Value] = {
        "kv_dtype": str(knobs.kv_dtype), "policy": knobs.policy, "max_running": knobs.max_running, "agents": agents,
        "host_pool_bytes": host,
    }  # fmt: skip
    return Live(values, factor)


def said(name: AxisName, value: Value) -> str:
    """A value with its unit, as short as an axis needs it."""
    if isinstance(value, str):
        return value
    if name == "link":
        return link(value)
    return decimal_size(value) if name == "host_pool_bytes" else f"{value:,}"


def titled(name: AxisName) -> str:
    """The axis with the unit that no value of it says."""
    return f"{LABELS[name]} (out and back)" if name == "link" else LABELS[name]


def cell_words(grid: Grid, cell: Cell) -> str:
    """'KV precision q8, Slots 8'."""
    pairs = ((grid.down.name, cell.down), (grid.across.name, cell.across))
    return ", ".join(f"{LABELS[name]} {said(name, value)}" for name, value in pairs)


def of_what(grid: Grid) -> str:
    """What is the same in all cells."""
    base, named = grid.base, {grid.across.name, grid.down.name}
    parts = [base.card.name] if "card" not in named else []
    parts.append(f"model shape {chosen_preset(base.card, base.twin.preset).name}")
    parts.append(f"workload {base.workload.name}")
    if "agents" not in named:
        parts.append(counted(base.agent_count, "agent"))
    parts.append("each takes its turns once" if base.hours is None else f"{base.hours:g} h of modelled time")
    return " · ".join(parts)


def live_cell(grid: Grid, live: Live | None) -> int | None:
    """The cell whose two values are those of the live engine; None: none is."""
    if live is None:
        return None
    rows = [index for index, value in enumerate(grid.down.values) if _same(live, grid.down.name, value)]
    columns = [index for index, value in enumerate(grid.across.values) if _same(live, grid.across.name, value)]
    return grid.index(rows[0], columns[0]) if rows and columns else None


def live_words(grid: Grid, live: Live | None) -> str:
    """Where the live engine stands in the grid."""
    if live is None:
        return "No engine runs, so no cell is marked as the live engine's."
    place = live_cell(grid, live)
    if place is not None:
        return f"Outlined: the live engine's knobs, {cell_words(grid, grid.cells[place])}."
    alone = [LABELS[name] for name in _axes(grid) if name not in live.values]
    if alone:
        return f"{' and '.join(alone)} is the twin's alone, so no cell is the live engine's."
    own = ", ".join(f"{LABELS[name]} {said(name, live.values[name])}" for name in _axes(grid))
    return f"The live engine has {own}, which is no cell of this grid."


def appliable(grid: Grid) -> tuple[AxisName, ...]:
    """The axes that the live engine has."""
    return tuple(name for name in _axes(grid) if name in KNOBS or name == "agents")


def not_applied(grid: Grid) -> str:
    """Why an axis cannot be applied, one sentence; empty where all can."""
    why = {
        "card": "The card cannot be applied: the live engine runs on the device that it has.",
        "link": "The bandwidth cannot be applied: the live engine's copies are as fast as its bus.",
    }
    return " ".join(why[name] for name in _axes(grid) if name in why)


def knob_changes(grid: Grid, cell: Cell, live: Live) -> dict[str, object]:
    """What `set_knobs` is asked for: host bytes in the live engine's own."""
    values: dict[AxisName, Value] = {grid.down.name: cell.down, grid.across.name: cell.across}
    return {
        name: round(float(value) / live.bytes_factor) if name == "host_pool_bytes" else value
        for name, value in values.items()
        if name in KNOBS
    }


def forecast_words(count: int, forecast: float) -> str:
    return f"{counted(count, 'cell')}, about {roughly(forecast)} on this machine."


def roughly(seconds_left: float) -> str:
    """Whole seconds, from 2 minutes on in a larger unit: a forecast has no tenths."""
    return f"{max(1, round(seconds_left))} s" if seconds_left < 2 * MINUTE else seconds(seconds_left)


def names_of(numbers: bool) -> tuple[AxisName, ...]:
    """The axes whose values are typed, or those whose values are chosen."""
    return tuple(name for name in AXES if (name in TYPED) is numbers)


def _axes(grid: Grid) -> tuple[AxisName, AxisName]:
    return grid.down.name, grid.across.name


def _same(live: Live, name: AxisName, value: Value) -> bool:
    own = live.values.get(name)
    if name == "host_pool_bytes" and own is not None:
        return math.isclose(float(own), float(value), rel_tol=NEAR)
    return own == value
