"""The head of the Live page: what runs and how old the figures are; window, units, events; pause, refresh and keys."""

import time
from collections.abc import Callable, Iterable
from typing import Any

from engine.snapshot import HostState, Snapshot
from panels import components, page_state
from panels.asked import Request
from panels.figures import share_hidden
from panels.page_state import PageState
from panels.palette import ThemeName, palette
from panels.scale import Scale, has_card
from panels.units import MISSING, clock, share

KEY = "top"
TONES = {
    HostState.STARTING: "wait",
    HostState.RUNNING: "good",
    HostState.IDLE: "calm",
    HostState.STALLED: "bad",
    HostState.FAILED: "bad",
    HostState.STOPPED: "calm",
}


def age_s(snapshot: Snapshot, now: float) -> float | None:
    """How old the figures are at `now`, engine clock, in real seconds: the wall clock may be set meanwhile. None: there
    are none yet."""
    if snapshot.state == HostState.STARTING:
        return None
    # At any pace but real time what is a second to the twin is none to who reads this.
    pace = snapshot.modelled.pace if snapshot.modelled else 1.0
    return round(max(0.0, now - snapshot.at) / pace, 1)


def line(snapshot: Snapshot) -> str:
    runs = snapshot.bands is not None
    where = f"the twin of {snapshot.modelled.name}" if snapshot.modelled else snapshot.backend
    parts = [f"{snapshot.model} on {where}", f"step {snapshot.step:,}" if runs else f"step {MISSING}"]
    if runs:
        parts.append(f"copies hidden {share(share_hidden(snapshot.counters))}")
    if snapshot.recorder_behind > 1000:
        parts.append(f"recorder {snapshot.recorder_behind:,} rows behind")
    return " · ".join(parts)


def units(snapshot: Snapshot) -> list[tuple[str, str, str]]:
    """The unit switch: value, text and hint; the card's scale only where this engine stands in for a card."""
    here = ("machine", "this machine", "Bytes as they are here.")
    if snapshot.twin:
        return [("machine", "the card", "Bytes of the modelled card.")]
    if not has_card(snapshot):
        return [here]
    scale = Scale(snapshot.card)
    return [("card", scale.short, f"{scale.label[0].upper()}{scale.label[1:]}."), here]


def shown(snapshot: Snapshot, state: PageState, problem: str | None, now: float) -> dict[str, Any]:
    """What the browser draws, colours apart. `problem`: what keeps the recorder from storing; `now`: engine clock."""
    return {
        "state": snapshot.state.value,
        "tone": TONES[snapshot.state],
        "modelled": snapshot.twin,
        "line": line(snapshot),
        "warning": problem or "",
        "age_s": age_s(snapshot, now),
        "time": f"{clock(snapshot.utc)} UTC",
        "window": [(name, label, f"The last {label}" if name != "all" else "All of the session")
                   for name, label in page_state.WINDOWS.items()],
        "units": units(snapshot),
        "events": [(name, label, "") for name, label in page_state.EVENTS.items()],
        "every": page_state.PERIODS_S,
        "chosen": {
            "window": state.window,
            "units": state.units if has_card(snapshot) else "machine",
            "events": state.events,
            "every": state.every,
            "paused": state.paused,
        },
    }  # fmt: skip


def render(
    snapshot: Snapshot,
    now: float,
    state: PageState,
    problem: str | None,
    theme: ThemeName,
    looked: Callable[[dict[str, Any], bool], None],
) -> None:
    """`now`: engine clock. `looked` is called with what the page state is to be changed by, and whether the figures are
    asked for again."""

    def act(requests: Iterable[Request]) -> None:
        change: dict[str, Any] = {}
        again = False
        for request in requests:
            match request:
                case {"verb": "set", "change": dict(asked)}:
                    change |= asked
                case {"verb": "again"}:
                    again = True
        looked(change, again)

    data = shown(snapshot, state, problem, now) | {"colours": components.colours(palette(theme))}
    # Another value each time, or the browser would not learn that something came.
    data["sent"] = time.monotonic()
    components.top(data, key=KEY, on_asked=act)
