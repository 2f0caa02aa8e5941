"""Host pool and events, the column beside the chart."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from engine.events import Event, EventKind
from engine.snapshot import Snapshot
from engine.turn import Tier
from engine.words import counted
from panels import components
from panels.palette import ThemeName, palette
from panels.scale import Scale
from panels.units import clock, seconds, size

SHOWN_EVENTS = 60
QUIET = frozenset({EventKind.SUBMIT, EventKind.FINISH, EventKind.BLOCK, EventKind.UNBLOCK})
TONES = {
    EventKind.KNOB: "knob",
    EventKind.PREEMPT: "pause",
    EventKind.PAUSE: "pause",
    EventKind.SWAP_OUT: "swap",
    EventKind.SWAP_IN: "swap",
    EventKind.DROP: "drop",
    EventKind.RECOMPUTE: "recompute",
    EventKind.BLOCK: "tool",
    EventKind.UNBLOCK: "tool",
    EventKind.STALL: "bad",
    EventKind.FAIL: "bad",
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


def event_rows(events: Sequence[Event], quiet: bool = True) -> list[dict[str, Any]]:
    """Newest first. `quiet` leaves out what every turn does: submit, finish, block, unblock."""
    chosen = [event for event in events if not (quiet and event.kind in QUIET)][-SHOWN_EVENTS:]
    return [
        {
            "id": f"{event.step}-{event.at:.4f}-{event.kind}-{event.turn}-{event.name}",
            "time": clock(event.utc),
            "text": event.text,
            "tone": TONES.get(event.kind, "plain"),
            "detail": _detail(event),
        }
        for event in reversed(chosen)
    ]


def render(snapshot: Snapshot, events: Sequence[Event], scale: Scale, theme: ThemeName, quiet: bool = True) -> None:
    state = pool(snapshot, scale)
    data = {
        "pool": {"line": state.line, "tokens": state.tokens, "fraction": min(1.0, state.fraction)},
        "events": event_rows(events, quiet),
        "colours": components.colours(palette(theme)),
    }
    components.side(data, key="side")


def _detail(event: Event) -> str:
    parts = [f"{event.kind}, step {event.step}, by {event.author}"]
    if event.nbytes is not None:
        parts.append(f"{size(event.nbytes)} of this machine")
    if event.seconds is not None:
        parts.append(seconds(event.seconds))
    return ", ".join(parts)
