"""How many turns were in which phase over a run, in a bounded number of points."""

from typing import NamedTuple

from engine.events import Event, Interval
from engine.snapshot import Sample, Snapshot

MOST_POINTS = 240


class Point(NamedTuple):
    """`at`: modelled seconds. Turns by phase; `running` is prefill and decode. `host_bytes`: in use of the pool."""

    at: float
    running: int
    paused: int
    blocked: int
    waiting: int
    host_bytes: int


class Timeline:
    """A sink. Where the points become too many every other one goes and the next ones are taken half as often, so the
    whole run is always there, evenly."""

    behind = 0

    def __init__(self, most: int = MOST_POINTS) -> None:
        self._most = most
        self._every = 1
        self._seen = 0
        self._points: list[Point] = []
        self._last: Point | None = None

    @property
    def points(self) -> tuple[Point, ...]:
        """The last one seen is among them."""
        last = self._last
        ends = [] if last is None or (self._points and self._points[-1].at == last.at) else [last]
        return (*self._points, *ends)

    def begin(self, session: str, snapshot: Snapshot) -> None:
        """Not kept."""

    def event(self, event: Event) -> None:
        """Not kept."""

    def interval(self, interval: Interval) -> None:
        """Not kept."""

    def sample(self, sample: Sample) -> None:
        one = sample
        point = Point(one.at, one.running, one.paused, one.blocked, one.waiting, one.host_used_bytes)
        self._last = point
        if self._seen % self._every == 0:
            self._points.append(point)
        self._seen += 1
        if len(self._points) >= self._most:
            del self._points[1::2]
            self._every *= 2
