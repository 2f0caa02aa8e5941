"""The planner's table: one precision beside the other, q8 with its scales and as studies count it, all modelled."""

import csv
import io
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import streamlit as st

from engine.cards.profile import Preset
from engine.paper.ceiling import Fit, Plan
from engine.record.cells import neutralised
from engine.words import counted
from panels import components
from panels.palette import ThemeName, palette
from panels.planner_words import HEADS, notes
from panels.units import axis_unit, common_unit, speed, unit_name


@dataclass(frozen=True, slots=True)
class Cell:
    """`tone`: bad where it does not fit, none where there is no number."""

    text: str
    unit: str = ""
    tone: str = ""


@dataclass(frozen=True, slots=True)
class Row:
    """One figure at each precision of HEADS."""

    key: str
    label: str
    hint: str
    cells: tuple[Cell, ...]


def rows(plan: Plan) -> tuple[Row, ...]:
    """The figures in the order in which they build on each other; a row's sizes are in one unit."""
    load = plan.load
    turn, long_turn = counted(load.mean_context, "token"), counted(load.long_context, "token")
    fits = [plan.fits[store] for store in HEADS]
    chart = axis_unit(plan.card.usable.amount)
    return (
        Row("bytes_per_token", "KV of a token", "2 x KV layers x heads x width x bytes, layer by layer, while no "
            "window is full.", tuple(Cell(f"{fit.bytes_per_token:,}", "B") for fit in fits)),
        _sizes("turn", f"A turn of {turn}", "Its KV, and its fixed state where the model has one.", fits,
               lambda fit: fit.turn_bytes, chart),
        _sizes("running", f"{load.slots:,} running", "Slots x an average turn.", fits,
               lambda fit: fit.running_bytes, chart),
        _sizes("used", "Used: weights, runtime, running", "Weights and runtime are the card profile's.", fits,
               lambda fit: fit.used_bytes, chart),
        _sizes("headroom", "Headroom under the ceiling", "Ceiling minus used; below zero it does not fit.", fits,
               lambda fit: fit.headroom_bytes, chart),
        Row("paused_fit", "Paused average turns that fit", "Headroom / an average turn, whole turns.",
            tuple(Cell(f"{fit.paused_fit:,}") for fit in fits)),
        _sizes("long_turn", f"A long turn of {long_turn}", "Its KV, and its fixed state.", fits,
               lambda fit: fit.long_turn_bytes, chart),
        Row("long_fits", "One long turn fits beside them", "It is no larger than the headroom.",
            tuple(Cell("yes") if fit.long_fits else Cell("no", tone="bad") for fit in fits)),
        Row("fill_context", "Context at which they alone fill the card", "The longest at which the running turns alone "
            "still fit.", tuple(_filling(fit.fill_context) for fit in fits)),
        Row("step", "Decode step", "Base + turns + reading the running KV once.", tuple(map(_step, fits))),
        Row("rate", "Decode, each turn", "1 / step.", tuple(Cell(speed(1 / fit.step_s), "tok/s") for fit in fits)),
        Row("together", "Decode, together", "Slots / step.",
            tuple(Cell(speed(load.slots / fit.step_s), "tok/s") for fit in fits)),
    )  # fmt: skip


def as_csv(plan: Plan) -> bytes:
    """The table, unrounded: sizes in bytes, times in seconds, rates in tokens per second; empty where there is none."""
    text = io.StringIO()
    out = csv.writer(text)
    out.writerow(["figure", "unit", *(str(store) for store in HEADS)])
    for key, unit, value in (
        ("card", "", neutralised(plan.card.name)),
        ("model", "", neutralised(plan.layout.name)),
        ("ceiling", "B", plan.card.usable.amount),
        ("weights", "B", plan.card.weights.amount),
        ("runtime", "B", plan.card.runtime.amount),
        *((name, "turns" if name == "slots" else "tokens", number) for name, number in asdict(plan.load).items()),
    ):
        out.writerow([key, unit, *[value] * len(HEADS)])
    for name, unit in CSV_UNITS.items():
        out.writerow([name, unit, *(_said(getattr(plan.fits[store], name)) for store in HEADS)])
    for name, unit in (("slots", "turns"), ("slot_bytes", "B"), ("reserved_bytes", "B"), ("skipped_bytes", "B")):
        out.writerow([f"reserve_{name}", unit, *(getattr(plan.reserves[store], name) for store in HEADS)])
    return text.getvalue().encode()


CSV_UNITS = {
    "bytes_per_token": "B",
    "turn_bytes": "B",
    "running_bytes": "B",
    "used_bytes": "B",
    "headroom_bytes": "B",
    "paused_fit": "turns",
    "long_turn_bytes": "B",
    "long_fits": "",
    "fill_context": "tokens",
    "step_s": "s",
}


def render(plan: Plan, theme: ThemeName) -> None:
    table: dict[str, Any] = {
        "head": ["Modelled", *HEADS.values()],
        "rows": [asdict(row) for row in rows(plan)],
        "notes": (),
        "colours": components.colours(palette(theme)),
    }
    components.figures(table, key="planner_table")


def render_notes(plan: Plan, preset: Preset, theme: ThemeName) -> None:
    """Nothing where there is nothing to note."""
    if told := notes(plan, preset):
        table = {"head": [], "rows": [], "notes": told, "colours": components.colours(palette(theme))}
        components.figures(table, key="planner_notes")


def _sizes(key: str, label: str, hint: str, fits: list[Fit], of: Callable[[Fit], float], chart: int) -> Row:
    """`chart`: the columns' unit, which a row never exceeds."""
    values = [of(fit) for fit in fits]
    unit = min(chart, common_unit(values))
    return Row(key, label, hint, tuple(size_cell(value, unit) for value in values))


def size_cell(nbytes: float, unit: int) -> Cell:
    """Three decimals, so that 0.9375 and 15.375 are told from what they are near to; none of bytes and of thousands."""
    amount = abs(nbytes) / unit
    text = f"{amount:,.{0 if unit == 1 or amount >= 1000 else 3}f}"
    return Cell(f"−{text}", unit_name(unit), "bad") if nbytes < 0 else Cell(text, unit_name(unit))


def _step(fit: Fit) -> Cell:
    slow = fit.step_s >= 10
    return Cell(f"{fit.step_s if slow else fit.step_s * 1000:,.2f}", "s" if slow else "ms")


def _filling(tokens: int | None) -> Cell:
    return Cell("never", tone="none") if tokens is None else Cell(f"{tokens:,}", "tok", "" if tokens else "bad")


def _said(value: object) -> object:
    return "" if value is None else value


def download(plan: Plan) -> None:
    name = components.file_name(f"parkdeck-plan-{plan.card.id}-{plan.layout.name}")
    st.download_button(
        "Table as CSV",
        as_csv(plan),
        f"{name}.csv",
        "text/csv",
        key="planner_csv",
        icon=":material/download:",
        help="Unrounded, sizes in bytes, times in seconds.",
        on_click="ignore",
    )
