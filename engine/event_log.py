"""The latest events, and the latest changes by operators even when busier events have come since."""

from collections import deque
from collections.abc import Iterator

from engine.events import Event, EventKind

EVENTS_KEPT = 500
CHANGES_KEPT = 64
CHANGES = frozenset({EventKind.KNOB, EventKind.CARD, EventKind.SWARM})


class EventLog:
    """One thread appends and clears, any thread reads."""

    def __init__(self) -> None:
        self._recent: deque[Event] = deque()
        self._changes: deque[Event] = deque(maxlen=CHANGES_KEPT)

    def append(self, event: Event) -> None:
        if len(self._recent) >= EVENTS_KEPT:
            oldest = self._recent[0]
            # Kept before it is let go, so that no reader finds it in neither.
            if oldest.kind in CHANGES:
                self._changes.append(oldest)
            self._recent.popleft()
        self._recent.append(event)

    def copy(self) -> tuple[Event, ...]:
        """Oldest first."""
        recent = self._recent.copy()
        changes = self._changes.copy()
        there = {id(event) for event in recent} if changes else set()
        return (*(event for event in changes if id(event) not in there), *recent)

    def latest(self, count: int) -> tuple[Event, ...]:
        """The last `count` of all, oldest first."""
        return tuple(self._recent)[-count:]

    def clear(self) -> None:
        self._recent.clear()
        self._changes.clear()

    def __len__(self) -> int:
        return len(self._recent)

    def __iter__(self) -> Iterator[Event]:
        return iter(self.copy())

    def __reversed__(self) -> Iterator[Event]:
        return reversed(self.copy())
