"""Whether a measure that is read again and again grows: by how much since it has settled, and how fast at the end."""

from collections.abc import Sequence
from dataclasses import dataclass

from engine.stats import quantile

SETTLES_S = 300.0
WINDOW = 0.25
HOUR_S = 3600.0


@dataclass(frozen=True, slots=True)
class Growth:
    """In the measure's own unit. `start`, `end`: medians of the first and the last quarter of the time since it has
    settled (5 min, or half of a shorter run); `per_hour` over the second half: the median of the slopes between all
    its readings, `low` and `high` their quartiles."""

    start: float
    end: float
    per_hour: float
    low: float
    high: float

    @property
    def grown(self) -> float:
        return self.end - self.start


def growth(times: Sequence[float], values: Sequence[float]) -> Growth | None:
    """`times` in seconds, rising, one to a value. None: too few readings to tell."""
    if len(times) < 8:
        return None
    first, last = times[0], times[-1]
    settled = first + min(SETTLES_S, (last - first) / 2)
    quarter = (last - settled) * WINDOW
    start = _middle([v for t, v in zip(times, values, strict=True) if settled <= t <= settled + quarter])
    end = _middle([v for t, v in zip(times, values, strict=True) if t >= last - quarter])
    slopes = _slopes([(t, v) for t, v in zip(times, values, strict=True) if t >= (first + last) / 2])
    low, middle, high = (HOUR_S * (quantile(slopes, q) or 0.0) for q in (0.25, 0.5, 0.75))
    return Growth(start, end, middle, low, high)


def _slopes(points: Sequence[tuple[float, float]]) -> list[float]:
    return [
        (later - value) / (then - time)
        for place, (time, value) in enumerate(points)
        for then, later in points[place + 1 :]
    ]


def _middle(values: Sequence[float]) -> float:
    return quantile(values, 0.5) or 0.0
