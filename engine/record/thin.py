"""Fewer points for a chart without losing its peaks."""

from collections.abc import Callable, Sequence
from typing import TypeVar

from engine.snapshot import Sample

T = TypeVar("T")


def used_bytes(sample: Sample) -> float:
    return float(sample.bands.used)


def thin(
    samples: Sequence[T],
    limit: int = 1000,
    keys: Sequence[Callable[[T], float]] = (used_bytes,),  # type: ignore[assignment]
) -> list[T]:
    """At most `limit` of the samples, in their order: the first, the last, and from each bucket of neighbours the
    lowest and the highest by each key. All of them if they are no more than `limit`. Raises ValueError when `limit`
    leaves no room for one bucket (under 2 + 2 x keys)."""
    least = 2 + 2 * len(keys)
    if limit < least:
        raise ValueError(f"limit {limit} is under {least}, the first, the last and the extremes of one bucket")
    count = len(samples)
    if count <= limit:
        return list(samples)
    buckets = (limit - 2) // (2 * len(keys))
    kept = {0, count - 1}
    for bucket in range(buckets):
        span = range(bucket * count // buckets, (bucket + 1) * count // buckets)
        for key in keys:
            kept.add(min(span, key=lambda at: key(samples[at])))
            kept.add(max(span, key=lambda at: key(samples[at])))
    return [samples[at] for at in sorted(kept)]
