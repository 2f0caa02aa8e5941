"""Due times in order, with the scaled ones stretchable."""

import heapq
import itertools
from collections.abc import Callable
from dataclasses import dataclass

Happening = Callable[[float], None]


@dataclass(order=True, slots=True)
class Timer:
    """Order is by due time, then by when it was set. `scaled`: a tool or think time, which a change of speed
    stretches. `agent` and `epoch` say whose it is and whether it still counts."""

    due: float
    order: int
    agent: int
    epoch: int
    scaled: bool
    action: Happening


class Timers:
    def __init__(self) -> None:
        self._heap: list[Timer] = []
        self._order = itertools.count()

    def set(self, due: float, agent: int, epoch: int, action: Happening, *, scaled: bool) -> None:
        heapq.heappush(self._heap, Timer(due, next(self._order), agent, epoch, scaled, action))

    def pop_due(self, now: float) -> Timer | None:
        return heapq.heappop(self._heap) if self._heap and self._heap[0].due <= now else None

    @property
    def next_due(self) -> float | None:
        return self._heap[0].due if self._heap else None

    def stretch(self, factor: float, now: float) -> None:
        """What is left of every scaled wait, times `factor`."""
        for timer in self._heap:
            if timer.scaled:
                timer.due = now + (timer.due - now) * factor
        heapq.heapify(self._heap)
