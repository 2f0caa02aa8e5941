"""A decode step as base + turns x per_turn + KV bytes x per_kv_byte, fitted to measured points.

Least squares of the RELATIVE deviations, so that short steps count as much as long ones, with coefficients that are
never negative: every choice of the three that may be above their least value is solved, and the best that is allowed
wins. Among equals the one with fewer coefficients does, so that points that cannot tell two of them apart (a single
point; one context for all) make up none.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from engine.cards.profile import DecodePoint
from engine.errors import Refused

LEAST_BASE_S = 1e-6
"""No step is free."""
_CHOICES = ((0,), (0, 1), (0, 2), (0, 1, 2), (), (1,), (2,), (1, 2))
_BETTER = 1e-9


@dataclass(frozen=True, slots=True)
class DecodeFit:
    """Seconds, seconds per turn, seconds per byte. `error`: root mean square of (fitted / measured - 1), `worst` the
    largest absolute value."""

    base_s: float
    per_turn_s: float
    per_kv_byte_s: float
    error: float
    worst: float

    def seconds(self, turns: int, kv_bytes: float) -> float:
        return self.base_s + turns * self.per_turn_s + kv_bytes * self.per_kv_byte_s


def fit_decode(points: Sequence[DecodePoint]) -> DecodeFit:
    """Raises Refused without a point, and for one whose time is not above 0."""
    if not points or not all(point.seconds > 0 for point in points):
        raise Refused("a decode step can only be fitted to measured times above 0; measure at least one")
    measured = np.array([point.seconds for point in points])
    rows = np.array([[1.0, point.turns, point.kv_bytes] for point in points]) / measured[:, None]
    target = 1.0 - LEAST_BASE_S / measured
    scale = np.maximum(np.linalg.norm(rows, axis=0), np.finfo(float).tiny)
    best, least = np.zeros(3), np.inf
    for choice in _CHOICES:
        found = _solved(rows / scale, target, choice)
        if found is None:
            continue
        off = float(np.linalg.norm(rows / scale @ found - target))
        if off < least - _BETTER:
            best, least = found, off
    base, per_turn, per_kv_byte = best / scale
    deviations = rows @ (best / scale) - target
    return DecodeFit(
        float(base) + LEAST_BASE_S,
        float(per_turn),
        float(per_kv_byte),
        error=float(np.sqrt(np.mean(deviations**2))),
        worst=float(np.max(np.abs(deviations))),
    )


def _solved(rows: np.ndarray, target: np.ndarray, choice: tuple[int, ...]) -> np.ndarray | None:
    """All three coefficients with only those of `choice` above 0; None where they are negative or not determined."""
    found = np.zeros(3)
    if choice:
        columns = rows[:, choice]
        part, _, rank, _ = np.linalg.lstsq(columns, target, rcond=1e-7)
        if rank < len(choice) or (part < 0).any():
            return None
        found[list(choice)] = part
    return found
