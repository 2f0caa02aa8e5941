"""What became of the knobs that were changed last: the line under the knobs (DESIGN rule 3)."""

from collections.abc import Sequence
from dataclasses import dataclass

from engine.control import Control
from engine.events import Event, EventKind
from engine.snapshot import Snapshot
from panels.asking import Answer
from panels.scale import Scale
from panels.units import count, seconds


@dataclass(slots=True)
class Note:
    """`names`: of the knobs; `before`: the reading when it was asked; `changes`: each knob's latest event when it was
    answered, `newest`: that of any; `line` stands once there is a reading from after that."""

    names: tuple[str, ...]
    before: Snapshot
    answer: Answer
    changes: tuple[Event, ...]
    newest: Event | None
    line: str | None = None


def note(names: tuple[str, ...], before: Snapshot, answer: Answer, control: Control) -> Note:
    events = control.events()
    changes = (latest(events, name) for name in names)
    return Note(names, before, answer, tuple(change for change in changes if change), latest(events))


def latest(events: Sequence[Event], name: str | None = None) -> Event | None:
    """The latest change of the knob `name`; None: of any."""
    return next(
        (event for event in reversed(events) if event.kind == EventKind.KNOB and name in (None, event.name)), None
    )


def overtaken(shown: Note, events: Sequence[Event]) -> bool:
    """A refusal is old news once any knob has been changed since."""
    return shown.answer.tone == "bad" and latest(events) != shown.newest


def settle(shown: Note, after: Snapshot, scale: Scale) -> str:
    """The note's text; a good answer becomes its effect with the first reading after it."""
    changes = shown.changes
    if shown.answer.tone == "good" and shown.line is None and changes and after.at >= max(c.at for c in changes):
        shown.line = "; ".join(line(change, shown.before, after, scale) for change in changes)
    return shown.line or shown.answer.text


def line(change: Event, before: Snapshot, after: Snapshot, scale: Scale) -> str:
    """Old and new value; for the precision also how long the switch took and what it brought, measured."""
    if change.name != "kv_dtype" or before.bands is None or after.bands is None:
        return change.text
    room = [scale.size(scale.stack(bands).headroom, bands) for bands in (before.bands, after.bands)]
    fit = [count(snapshot.paused_fit) for snapshot in (before, after)]
    return (
        f"{change.text} in {seconds(change.seconds)}; headroom {' → '.join(room)}, {scale.name}; "
        f"paused that fit {' → '.join(fit)}"
    )
