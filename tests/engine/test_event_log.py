"""Which events are kept."""

from engine.event_log import CHANGES_KEPT, EVENTS_KEPT, EventLog
from engine.events import Event, EventKind


def event(at: float, kind: EventKind = EventKind.SUBMIT) -> Event:
    return Event(at, at, 0, kind, "engine", str(at))


def test_changes_by_operators_stay_when_busier_events_have_come_since() -> None:
    log = EventLog()
    kept = [event(0, EventKind.KNOB), event(1, EventKind.SWARM)]
    for one in (*kept, *(event(at) for at in range(2, 2000))):
        log.append(one)
    assert list(log)[:2] == kept
    assert [e.at for e in log][2:] == list(range(2000 - EVENTS_KEPT, 2000))
    assert list(reversed(log)) == list(log)[::-1]
    assert [e.at for e in log.latest(3)] == [1997, 1998, 1999]
    assert len(log) == EVENTS_KEPT


def test_it_is_bounded() -> None:
    log = EventLog()
    for at in range(3000):
        log.append(event(at, EventKind.KNOB))
    assert [e.at for e in log.copy()] == list(range(3000 - EVENTS_KEPT - CHANGES_KEPT, 3000))
    log.clear()
    assert log.copy() == ()
    assert not log
