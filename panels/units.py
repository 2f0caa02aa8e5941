"""Figures as people read them. GiB and MiB are powers of two and always printed; what was not measured is 'n/a'."""

import math
from collections.abc import Iterable
from datetime import UTC, datetime

from engine.words import percent

GIB = 1 << 30
MIB = 1 << 20
KIB = 1 << 10
GB = 10**9
MISSING = "n/a"
MINUTE, HOUR, DAY, YEAR = 60.0, 3_600.0, 86_400.0, 31_557_600.0
TIMES = (
    (2 * YEAR, YEAR, "years"), (2 * DAY, DAY, "days"), (2 * HOUR, HOUR, "h"), (2 * MINUTE, MINUTE, "min"),
    (1.0, 1.0, "s"), (1e-3, 1e-3, "ms"), (1e-6, 1e-6, "µs"),
)  # fmt: skip
"""From how many seconds on a time is given in a unit, and the unit in seconds."""


def size(nbytes: float | None) -> str:
    """Bytes with the unit that leaves one to three digits before the point."""
    if nbytes is None or not math.isfinite(nbytes):
        return MISSING
    for unit, name in ((GIB << 10, "TiB"), (GIB, "GiB"), (MIB, "MiB"), (KIB, "KiB")):
        if abs(nbytes) >= 0.9995 * unit:
            return f"{short(nbytes / unit)} {name}"
    return f"{nbytes:.0f} B"


def size_in(nbytes: float | None, unit: int) -> str:
    """Bytes in a given unit, so that figures side by side can be compared."""
    if nbytes is None:
        return MISSING
    return f"{short(nbytes / unit)} {unit_name(unit)}"


def axis_unit(nbytes: float) -> int:
    """GIB or MIB, whichever suits a chart that reaches up to `nbytes`."""
    return GIB if nbytes >= 2 * GIB else MIB


def unit_name(unit: int) -> str:
    return {GIB: "GiB", MIB: "MiB", KIB: "KiB", 1: "B"}[unit]


def seconds(value: float | None) -> str:
    """A duration in the unit that leaves few digits, from ns to years: '40.6 ms', '5 min', '2.5 h'."""
    if value is None or not math.isfinite(value):
        return MISSING
    if value == 0:
        return "0 s"
    unit, name = next(((unit, name) for least, unit, name in TIMES if abs(value) >= 0.9995 * least), (1e-9, "ns"))
    amount = value / unit
    return f"{short(amount) if unit < MINUTE or abs(amount) >= 100 else f'{amount:.1f}'.removesuffix('.0')} {name}"


def rate(value: float | None, unit: str = "tok/s") -> str:
    return MISSING if value is None else f"{short(value)} {unit}"


def link(bytes_per_s: float) -> str:
    """How fast copies are, in GB/s."""
    return rate(bytes_per_s / GB, "GB/s")


def count(value: float | None) -> str:
    return MISSING if value is None else f"{value:,.0f}"


def fraction(value: float | None) -> str:
    return MISSING if value is None else f"{value:.2f}"


def mean(value: float | None) -> str:
    """A mean of a few or many, one decimal where it is below a hundred."""
    return MISSING if value is None else short(value) if value >= 10 else f"{value:.1f}"


def share(value: float | None) -> str:
    """'43 %'."""
    return MISSING if value is None else percent(value)


def clock(utc: float) -> str:
    """Epoch seconds as hh:mm:ss in UTC."""
    return datetime.fromtimestamp(utc, UTC).strftime("%H:%M:%S")


def short(value: float) -> str:
    """Three or four significant digits, thousands separated."""
    magnitude = abs(value)
    if magnitude >= 1000:
        return f"{value:,.0f}"
    if magnitude >= 100:
        return f"{value:.0f}"
    if magnitude >= 10:
        return f"{value:.1f}"
    return f"{value:.2f}"


def trimmed(value: float) -> str:
    """Up to three decimals where they say it exactly, else two: 13.5, 14.44, 15.375, 16.0; short from 100 on; what is
    there is never rounded to nothing."""
    if 0 < abs(value) < 0.005:
        return "under 0.01"
    if abs(value) >= 100:
        return short(value)
    places = 3 if math.isclose(value * 1000, round(value * 1000), abs_tol=1e-6) else 2
    text = f"{value:.{places}f}".rstrip("0")
    return text + "0" if text.endswith(".") else text


def speed(value: float) -> str:
    """A rate without its unit; never rounded to nothing."""
    return short(value) if value >= 0.01 else "under 0.01"


def common_unit(values: Iterable[float]) -> int:
    """The largest of GiB, MiB, KiB and bytes in which the largest of `values` is at least a tenth."""
    largest = max((abs(value) for value in values), default=0.0)
    return next((unit for unit in (GIB, MIB, KIB) if largest >= unit / 10), 1)
