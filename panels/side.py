"""Host pool and events, the column beside the chart."""

import itertools
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from engine.events import Event, EventKind
from engine.knob_words import label
from engine.snapshot import Snapshot
from engine.turn import Tier
from engine.words import counted
from panels import components
from panels.palette import ThemeName, palette
from panels.scale import Scale
from panels.units import clock, seconds, size

SHOWN_EVENTS = 60
GROUPED = 3
SENT_MEMBERS = 30
ENGINES_OWN = frozenset({"engine", "governor"})
ALONE = frozenset({EventKind.FAIL, EventKind.STALL, EventKind.REFUSE, EventKind.ENGINE, EventKind.SWARM})
EMPTY = {
    True: "No move and no knob change yet. Change a knob, pause a turn, or choose all events.",
    False: "Nothing has happened yet. Start the swarm, or send a foreground turn.",
}
"""By whether quiet events are left out."""
QUIET = frozenset({EventKind.SUBMIT, EventKind.FINISH, EventKind.BLOCK, EventKind.UNBLOCK})
TONES = {
    EventKind.KNOB: "knob",
    EventKind.CARD: "knob",
    EventKind.PREEMPT: "pause",
    EventKind.PAUSE: "pause",
    EventKind.SWAP_OUT: "swap",
    EventKind.SWAP_IN: "swap",
    EventKind.DROP: "drop",
    EventKind.RECOMPUTE: "recompute",
    EventKind.BLOCK: "tool",
    EventKind.UNBLOCK: "tool",
    EventKind.STALL: "bad",
    EventKind.THRASH: "bad",
    EventKind.FAIL: "bad",
    EventKind.REFUSE: "bad",
}


@dataclass(frozen=True, slots=True)
class Pool:
    """The host pool in words; `fraction` from 0 to 1."""

    line: str
    tokens: str
    fraction: float


def pool(snapshot: Snapshot, scale: Scale) -> Pool:
    """Bytes and tokens of the host pool; tokens of the whole pool at the present precision."""
    memory = snapshot.memory
    if memory is None:
        return Pool("n/a", "", 0.0)
    used, total = memory.host_used_bytes, memory.host_total_bytes
    parked = [row for row in snapshot.turns if row.tier == Tier.HOST]
    held = sum(row.kv_tokens for row in parked)
    room = total // snapshot.bytes_per_token if snapshot.bytes_per_token else 0
    return Pool(
        f"{size(scale.kv(used))} of {size(scale.kv(total))} · {counted(len(parked), 'turn')}",
        f"{held:,} of about {room:,} tokens, {scale.name}",
        used / total if total else 0.0,
    )


def event_rows(events: Sequence[Event], scale: Scale, quiet: bool = True) -> list[dict[str, Any]]:
    """Newest first. `quiet` leaves out what every turn does: submit, finish, block, unblock. GROUPED and more of one
    kind and author in a row become one row with `members`; failures, stalls and refusals always stand alone."""
    chosen = [event for event in events if not (quiet and event.kind in QUIET)]
    rows: list[dict[str, Any]] = []
    for _, run in itertools.groupby(reversed(chosen), key=_alike):
        if len(rows) >= SHOWN_EVENTS:
            break
        members = list(run)
        rows += [_group(members, scale)] if _groups(members) else [_row(event, scale) for event in members]
    return rows[:SHOWN_EVENTS]


def render(snapshot: Snapshot, events: Sequence[Event], scale: Scale, theme: ThemeName, quiet: bool = True) -> None:
    state = pool(snapshot, scale)
    data = {
        "pool": {"line": state.line, "tokens": state.tokens, "fraction": min(1.0, state.fraction)},
        "events": event_rows(events, scale, quiet),
        "empty": EMPTY[quiet],
        "colours": components.colours(palette(theme)),
    }
    components.side(data, key="side")


def _alike(event: Event) -> tuple[str | None, ...]:
    return (event.kind, event.author, event.name)


def _groups(members: Sequence[Event]) -> bool:
    return len(members) >= GROUPED and members[0].kind not in ALONE


def _row(event: Event, scale: Scale) -> dict[str, Any]:
    return {
        "id": _id(event),
        "time": clock(event.utc),
        "text": f"failed: {event.text}" if event.kind is EventKind.FAIL else event.text,
        "note": ", ".join(filter(None, (_moved(event, scale), _by(event)))),
        "tone": TONES.get(event.kind, "plain"),
        "detail": _detail(event, scale),
        "members": [],
    }


def _group(members: Sequence[Event], scale: Scale) -> dict[str, Any]:
    """`members` newest first. The id is made of the oldest one, so that it stays while others join."""
    newest, oldest = members[0], members[-1]
    nbytes = sum(event.nbytes or 0 for event in members)
    parts = [f"{label(newest.name or '') if newest.kind is EventKind.KNOB else newest.kind} × {len(members):,}"]
    if nbytes:
        parts.append(size(scale.kv(nbytes)))
    row = _row(newest, scale)
    first, last = clock(oldest.utc), clock(newest.utc)
    notes = ["" if first == last else f"{first} to {last}", _by(newest)]
    return row | {
        "id": f"group-{_id(oldest)}",
        "text": ", ".join(parts),
        "note": ", ".join(filter(None, notes)),
        "detail": f"{counted(len(members), 'event')}, {scale.name}: open to see "
        + ("each" if len(members) <= SENT_MEMBERS else f"the latest {SENT_MEMBERS}; all are in events.csv"),
        "members": [_row(event, scale) for event in members[:SENT_MEMBERS]],
    }


def _id(event: Event) -> str:
    return f"{event.step}-{event.at:.4f}-{event.kind}-{event.turn}-{zlib.crc32(event.text.encode()):x}"


def _by(event: Event) -> str:
    return "" if event.author in ENGINES_OWN else f"by {event.author}"


def _moved(event: Event, scale: Scale) -> str:
    """What a copy moved, in the page's bytes, and how long it took."""
    if event.kind not in (EventKind.SWAP_OUT, EventKind.SWAP_IN) or event.nbytes is None:
        return ""
    said = [size(scale.kv(event.nbytes)), *([seconds(event.seconds)] if event.seconds else [])]
    return ", ".join(figure.replace(" ", "\u00a0") for figure in said)


def _detail(event: Event, scale: Scale) -> str:
    parts = [f"{event.kind}, step {event.step}, by {event.author}"]
    if event.nbytes is not None:
        parts.append(f"{size(event.nbytes)} {'of the card' if scale.modelled else 'of this machine'}")
    if event.seconds is not None:
        parts.append(seconds(event.seconds))
    return ", ".join(parts)
