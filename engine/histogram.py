"""Latencies as counts in fixed classes, so that those of any span are the difference of two readings. Pure."""

from bisect import bisect_right
from collections.abc import Sequence

PER_DECADE, DECADES, LEAST_S = 20, 6, 1e-3
EDGES = tuple(LEAST_S * 10 ** (place / PER_DECADE) for place in range(PER_DECADE * DECADES + 1))
"""Seconds between the classes, each 12 % above the last, from 1 ms to 1,000 s; what is beyond is in the outer ones."""
CLASSES = len(EDGES) + 1


def place_of(seconds: float) -> int:
    """The class of a latency."""
    return bisect_right(EDGES, seconds)


def quantile_of(counts: Sequence[int], q: float) -> float | None:
    """Seconds, within the width of a class; None without any."""
    total = sum(counts)
    if not total:
        return None
    rank, before = q * total, 0
    for place, count in enumerate(counts):
        if count and before + count >= rank:
            low, high = EDGES[max(place - 1, 0)], EDGES[min(place, len(EDGES) - 1)]
            return low + (high - low) * max(0.0, rank - before) / count
        before += count
    return EDGES[-1]
