"""Modelled time: a clock that stands still until somebody advances it, and one that keeps to a pace of real time."""

import math
import time
from collections.abc import Callable

from engine.clock import EngineClock

LATELY_S = 2.0
"""Real seconds over which the pace that was kept is measured."""
FASTEST = math.inf
"""The pace of a clock that waits for nobody."""
IDLE_PACE = 100.0
"""What it goes by where nothing is to be computed: agents on other threads could not follow a leap to what is due."""
TOLD_ANEW = 0.15
"""A pace told as fallen short of is told anew when it has changed by so much of itself."""


class VirtualClock(EngineClock):
    """As fast as it goes: only `advance` and `advance_to` move it. `at`: where it starts, seconds; `epoch`: epoch
    seconds of that instant. One thread advances it, any thread reads it."""

    def __init__(self, at: float = 0.0, epoch: float = 0.0) -> None:
        self._at = at
        super().__init__(monotonic=self.now, wall=lambda: epoch)

    def now(self) -> float:
        return self._at

    def advance(self, seconds: float) -> None:
        """`seconds` pass; never negative."""
        self._at += seconds

    def advance_to(self, at: float) -> None:
        """Until `at`; an instant already past changes nothing."""
        self._at = max(self._at, at)

    def shortfall(self) -> str | None:
        """A sentence while it cannot keep its pace; this clock has none."""
        return None


class PacedClock(VirtualClock):
    """`pace` modelled seconds for each real one. What takes longer to compute than its modelled time makes it go
    slower; the time lost is not caught up with. At `FASTEST` it waits for nobody. It starts where `real` stands, which
    is any clock in seconds."""

    def __init__(
        self,
        pace: float = 1.0,
        real: Callable[[], float] = time.perf_counter,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self.pace = pace
        self._real = real
        super().__init__(real(), wall())
        self._begin()

    def _begin(self) -> None:
        self._kept: float | None = None
        self._told: float | None = None
        self._anchor_at = self._lately_at = self._at
        self._anchor_real = self._lately_real = self._real()

    @property
    def kept(self) -> float | None:
        """Modelled seconds for each real one, lately while it worked; None until that is measured."""
        return self._kept

    def set_pace(self, pace: float) -> None:
        """From now on; on the thread that steps the engine."""
        self.follow()
        self.pace = pace
        self._begin()

    def lead_s(self) -> float:
        real = self._real()
        lead = (self._at - self._anchor_at) / self.pace - (real - self._anchor_real)
        if lead < 0:
            self._anchor_at, self._anchor_real = self._at, real
        if real - self._lately_real >= LATELY_S:
            self._kept = (self._at - self._lately_at) / (real - self._lately_real)
            self._lately_at, self._lately_real = self._at, real
        return max(lead, 0.0)

    def real_s(self, seconds: float) -> float:
        return seconds / self._idle_pace

    def follow(self) -> None:
        self.advance_to(self._anchor_at + (self._real() - self._anchor_real) * self._idle_pace)

    @property
    def _idle_pace(self) -> float:
        return IDLE_PACE if self.pace == FASTEST else self.pace

    def shortfall(self) -> str | None:
        """While less than nine tenths of the pace were kept lately."""
        kept = self._kept
        if kept is None or self.pace == FASTEST or kept >= 0.9 * self.pace:
            self._told = None
            return None
        if self._told is None or abs(kept - self._told) > TOLD_ANEW * self._told:
            self._told = kept
        return f"the twin runs at {self._told:.2g}x real time, not at the {self.pace:g}x asked for"
