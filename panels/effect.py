"""What became of the knob that was moved last: the line under the knobs (DESIGN rule 3)."""

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
    """`before`: the reading when it was asked; `change`: the latest knob event when it was answered; `line` stands once
    there is a reading from after that."""

    name: str
    before: Snapshot
    answer: Answer
    change: Event | None
    line: str | None = None


def note(name: str, before: Snapshot, answer: Answer, control: Control) -> Note:
    return Note(name, before, answer, latest(control.events()))


def latest(events: Sequence[Event]) -> Event | None:
    return next((event for event in reversed(events) if event.kind == EventKind.KNOB), None)


def overtaken(shown: Note, events: Sequence[Event]) -> bool:
    """A refusal is old news once any knob has been changed since."""
    return shown.answer.tone == "bad" and latest(events) != shown.change


def settle(shown: Note, after: Snapshot, scale: Scale) -> str:
    """The note's text; a good answer becomes its effect with the first reading after it."""
    change = shown.change
    if shown.answer.tone == "good" and shown.line is None and change is not None and after.at >= change.at:
        shown.line = line(change, shown.before, after, scale)
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
