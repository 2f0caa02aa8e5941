"""The books of the host pool: which units are free. A unit holds one block of every KV tensor of every worker."""

import heapq
from collections.abc import Iterable


class Units:
    """`total` units, numbered from 0; the lowest free one is taken first, so that runs stay contiguous."""

    def __init__(self, total: int) -> None:
        self.total = total
        self._free = list(range(total))

    @property
    def free(self) -> int:
        return len(self._free)

    @property
    def used(self) -> int:
        return self.total - len(self._free)

    def take(self, count: int) -> tuple[int, ...] | None:
        """`count` units, ascending; None, with nothing changed, if so many are not free."""
        if count > len(self._free):
            return None
        return tuple(heapq.heappop(self._free) for _ in range(count))

    def give(self, units: Iterable[int]) -> None:
        for unit in units:
            heapq.heappush(self._free, unit)

    def is_free(self) -> frozenset[int]:
        return frozenset(self._free)


def runs(source: Iterable[int], target: Iterable[int]) -> list[tuple[int, int, int]]:
    """(first source, first target, length) of the longest stretches in which both numbers rise by one."""
    found: list[tuple[int, int, int]] = []
    for a, b in zip(source, target, strict=True):
        if found and (a, b) == (found[-1][0] + found[-1][2], found[-1][1] + found[-1][2]):
            first, other, length = found[-1]
            found[-1] = (first, other, length + 1)
        else:
            found.append((a, b, 1))
    return found
