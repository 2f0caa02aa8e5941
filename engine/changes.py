"""Changes of knobs, and of a running twin's card, as operators make them: all that one set changed, and whether it can
still be taken back."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from engine.events import PACE, Event, EventKind
from engine.knob_words import parsed

SETS = (EventKind.KNOB, EventKind.CARD)


@dataclass(frozen=True, slots=True)
class Change:
    """What one set changed, of knobs or of the card: one event for each, all at one instant, in their order."""

    events: tuple[Event, ...]

    @property
    def of_card(self) -> bool:
        return self.events[0].kind is EventKind.CARD

    @property
    def at(self) -> float:
        """When it was done, engine clock, seconds."""
        return self.events[0].at

    @property
    def utc(self) -> float:
        return self.events[0].utc

    @property
    def step(self) -> int:
        return self.events[0].step

    @property
    def author(self) -> str:
        return self.events[0].author

    @property
    def seconds(self) -> float:
        """How long it took, with what had to leave for it."""
        return sum(event.seconds or 0.0 for event in self.events)

    @property
    def began_at(self) -> float:
        return self.at - self.seconds

    @property
    def text(self) -> str:
        """'KV precision fp16 → q8; Low watermark 90 → 70 %'."""
        return "; ".join(event.text for event in self.events)

    @property
    def key(self) -> str:
        """Tells it from every other of its session."""
        return f"{self.at:.6f}-{self.step}-{'-'.join(event.name or '' for event in self.events)}"

    @property
    def old(self) -> dict[str, object]:
        """The values that were in force before, by name, as `set_knobs` or `set_card` takes them."""
        value = _of_card if self.of_card else parsed
        return {event.name: value(event.name, event.old) for event in self.events if event.name and event.old}


def changes(events: Sequence[Event], kinds: Collection[EventKind] = SETS) -> tuple[Change, ...]:
    """Of these kinds, oldest first. A twin's pace is none: no figure in modelled time is another for it."""
    sets: list[list[Event]] = []
    for event in events:
        if event.kind not in kinds or event.name == PACE:
            continue
        if sets and _of_one_set(sets[-1], event):
            sets[-1].append(event)
        else:
            sets.append([event])
    return tuple(Change(tuple(found)) for found in sets)


def latest_change(events: Sequence[Event], kinds: Collection[EventKind] = SETS) -> Change | None:
    found = changes(events, kinds)
    return found[-1] if found else None


def overruled(change: Change, known: Sequence[Change]) -> tuple[Event, Change] | None:
    """The first knob of `change` that was set again since, and the latest change that did; `known` oldest first."""
    later = known[known.index(change) + 1 :] if change in known else known
    for event in change.events:
        for since in reversed(later):
            if any(other.name == event.name for other in since.events):
                return event, since
    return None


def _of_one_set(found: Sequence[Event], event: Event) -> bool:
    first = found[0]
    same = (first.kind, first.at, first.step, first.author) == (event.kind, event.at, event.step, event.author)
    return same and all(event.name != other.name for other in found)


def _of_card(name: str, text: str) -> object:
    return text == str(True) if text in (str(True), str(False)) else float(text)
