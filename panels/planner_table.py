"""The planner's table: one precision beside the other, q8 with its scales and as studies count it, all modelled."""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from engine.cards.profile import Preset
from engine.paper.ceiling import Fit, Plan
from engine.words import counted
from panels import components, table_csv
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
    """The table, for the plan's card, model and load."""
    card, load = plan.card, plan.load
    about = (
        ("card", card.name),
        ("model", plan.layout.name),
        ("kv_precision", ", ".join(HEADS)),
        *((f"{name}_bytes", getattr(card, name).amount) for name in ("usable", "weights", "runtime")),
        ("slots", load.slots),
        *((f"{name}_tokens", getattr(load, name)) for name in ("mean_context", "long_context", "max_context")),
    )
    fits = [(name, unit, *(getattr(plan.fits[store], name) for store in HEADS)) for name, unit in CSV_UNITS.items()]
    reserves = [
        (f"reserve_{name}", unit, *(getattr(plan.reserves[store], name) for store in HEADS))
        for name, unit in CSV_RESERVE_UNITS.items()
    ]
    return table_csv.content(about, ("figure", "unit", *HEADS), (*fits, *reserves))


CSV_UNITS = {
    "bytes_per_token": "bytes",
    "turn_bytes": "bytes",
    "running_bytes": "bytes",
    "used_bytes": "bytes",
    "headroom_bytes": "bytes",
    "paused_fit": "turns",
    "long_turn_bytes": "bytes",
    "long_fits": "",
    "fill_context": "tokens",
    "step_s": "seconds",
}
CSV_RESERVE_UNITS = {"slots": "turns", "slot_bytes": "bytes", "reserved_bytes": "bytes", "skipped_bytes": "bytes"}


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


def download(plan: Plan) -> None:
    table_csv.download(as_csv(plan), f"parkdeck-plan-{plan.card.id}-{plan.layout.name}", key="planner_csv")
