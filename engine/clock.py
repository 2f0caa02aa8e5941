"""The engine's two clocks: a monotonic one for decisions and durations, and epoch seconds derived from it."""

import math
import time
from collections.abc import Callable
from datetime import UTC, datetime


class EngineClock:
    """`utc` is anchored once: setting the machine's wall clock back mid-run never makes a duration negative."""

    def __init__(
        self, monotonic: Callable[[], float] = time.perf_counter, wall: Callable[[], float] = time.time
    ) -> None:
        self._monotonic = monotonic
        self._anchor = wall() - monotonic()

    def now(self) -> float:
        """Seconds, monotonic."""
        return self._monotonic()

    def utc(self, at: float) -> float:
        """Epoch seconds of the monotonic instant `at`."""
        return self._anchor + at

    def lead_s(self) -> float:
        """Real seconds by which it is ahead of its pace; whoever steps the engine waits them out. A real clock is never
        ahead."""
        return 0.0

    def real_s(self, seconds: float) -> float:
        """Real seconds in which `seconds` of this clock pass."""
        return seconds

    def follow(self) -> None:
        """Real time has passed with nothing to do: a clock that keeps to its pace catches up with it."""


class Forward:
    """A clock over another one that may be set back, as an engine's own is when another engine takes its place: then it
    goes on from where it stood. For one thread."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._ahead = 0.0
        self._last = -math.inf

    def __call__(self) -> float:
        now = self._now()
        self._ahead = max(self._ahead, self._last - now)
        self._last = now + self._ahead
        return self._last


def iso_utc(epoch: float) -> str:
    """ISO-8601 in UTC with milliseconds and Z."""
    return datetime.fromtimestamp(epoch, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
