"""The figures of a card profile: what each is called, the units it may be given in, and its range. The reader, the
editor on the page and the writer all go by this table."""

import math
from dataclasses import dataclass

from engine.cards.profile import KNOWN, UNITS, Figure, Known
from engine.errors import BadField

LARGEST_BYTES = 2.0**44
LARGEST_TOKENS = 10_000_000
LARGEST_TURNS = 1_024
LARGEST_RATE = 1e9
BYTES = ("GiB", "GB", "MiB", "B")


@dataclass(frozen=True, slots=True)
class Field:
    """`low` and `high` in the base unit of UNITS; `low` itself is allowed. `whole`: a count."""

    name: str
    label: str
    units: tuple[str, ...]
    low: float
    high: float
    hint: str
    whole: bool = False


FIELDS: dict[str, Field] = {
    field.name: field
    for field in (
        Field("usable", "Usable memory", BYTES, 1.0, LARGEST_BYTES, "The ceiling: what a process can really have."),
        Field("weights", "Weights", BYTES, 1.0, LARGEST_BYTES, "The model's weights as they lie on the device."),
        Field("runtime", "Runtime buffers", BYTES, 0.0, LARGEST_BYTES, "Scratch and activations."),
        Field("slots", "Slots", ("turns",), 1, LARGEST_TURNS, "Turns that decode together.", whole=True),
        Field("mean_context", "Mean context", ("tokens",), 1, LARGEST_TOKENS, "Of an average turn.", whole=True),
        Field("long_context", "Long context", ("tokens",), 1, LARGEST_TOKENS, "Of one long turn.", whole=True),
        Field(
            "max_context", "Largest context", ("tokens",), 1, LARGEST_TOKENS,
            "What a server that reserves up front would keep for each slot.", whole=True,
        ),
        Field("decode_base", "Decode step, base", ("ms", "s"), 1e-6, 1e3, "Reading the weights: paid once a step."),
        Field("decode_per_turn", "Decode step, per turn", ("ms", "s"), 0.0, 1e3, "What each further turn adds."),
        Field("decode_per_kv_byte", "Decode step, per KV", ("ms/GB",), 0.0, 1e-3, "Reading the KV of all turns."),
        Field("prefill", "Prefill rate", ("tok/s",), 1e-3, LARGEST_RATE, "Prompt tokens computed per second."),
        Field("link_out", "Copy to host", ("GB/s",), 1e3, 1e15, "Pinned copies from the device to the host."),
        Field("link_back", "Copy from host", ("GB/s",), 1e3, 1e15, "Pinned copies from the host to the device."),
        Field("pinned_host", "Pinned host memory", BYTES, 0.0, LARGEST_BYTES, "How much of it parked turns may take."),
    )
}  # fmt: skip


def checked_figure(name: str, value: object, unit: object, known: object, source: object) -> Figure:
    """One figure of FIELDS. Raises BadField, whose sentence names the field, what was given and what is allowed."""
    field = FIELDS[name]
    if unit not in field.units:
        raise BadField(name, f"{field.label} has the unit {_said(unit)}; choose {', '.join(field.units)}")
    unit = str(unit)
    number = checked_number(field, value, unit)
    kind = checked_known(name, field.label, known)
    return Figure(number, unit, kind, checked_source(name, field.label, source))


def checked_number(field: Field, value: object, unit: str) -> float:
    """The value in `unit`, one of the field's. Raises BadField."""
    if value is None or value == "":
        raise BadField(field.name, f"{field.label} is empty; give {allowed(field, unit)}")
    number = finite(value)
    if number is None:
        raise BadField(field.name, f"{field.label} {_said(value)} is not a number; give {allowed(field, unit)}")
    if not field.low <= number * UNITS[unit] <= field.high or (field.whole and not number.is_integer()):
        raise BadField(field.name, f"{field.label} {_said(value)} {unit} is out of range; give {allowed(field, unit)}")
    return number


def finite(value: object) -> float | None:
    """The value as a finite float, or None for anything that is not one."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def checked_known(name: str, label: str, known: object) -> Known:
    """Raises BadField for anything but measured, published or assumed."""
    for kind in KNOWN:
        if known == kind:
            return kind
    raise BadField(name, f"{label} known {_said(known)} is not known; choose {', '.join(KNOWN)}")


def checked_source(name: str, label: str, source: object) -> str:
    """Raises BadField for a figure that does not say where it is from."""
    if not isinstance(source, str) or not source.strip():
        raise BadField(name, f"{label} names no source; say where the figure is from")
    return source.strip()


def allowed(field: Field, unit: str) -> str:
    """The range in words, in the unit that was chosen."""
    if field.whole:
        return f"a whole number from {field.low:,.0f} to {field.high:,.0f} {unit}"
    low, high = (bound / UNITS[unit] for bound in (field.low, field.high))
    least = "more than 0 and at most" if 0 < low < 1e-3 else f"{low:,.6g} to"
    return f"{least} {high:,.0f} {unit}" if high >= 1e4 else f"{least} {high:,.6g} {unit}"


def _said(value: object) -> str:
    text = f"{value:.15g}" if isinstance(value, float) else repr(value)
    return text if len(text) <= 40 else text[:40] + "..."
