"""Latencies of a whole run: an engine's own figures keep the latest alone."""

from array import array
from collections.abc import Sequence

from engine.stats import Stats, quantile
from engine.turn import Priority


class WholeStats(Stats):
    """Stats that keep every latency besides, 8 bytes each."""

    def __init__(self, started_at: float) -> None:
        super().__init__(started_at)
        self.ttft: dict[Priority, array[float]] = {priority: array("d") for priority in Priority}
        self.itl = array("d")

    def first_token(self, seconds: float, priority: Priority) -> None:
        super().first_token(seconds, priority)
        self.ttft[priority].append(seconds)

    def next_token(self, at: float, seconds: float) -> None:
        super().next_token(at, seconds)
        self.itl.append(seconds)

    def ttft_quantile(self, q: float, only: Sequence[Priority] = tuple(Priority)) -> float | None:
        return quantile([seconds for priority in only for seconds in self.ttft[priority]], q)

    def itl_quantile(self, q: float) -> float | None:
        return quantile(self.itl, q)
