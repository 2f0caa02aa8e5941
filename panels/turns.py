"""The table of live turns with its actions, and the turn that is open below it. `table`, `perform` and `undo_of` are
free of Streamlit; `render` draws them. Sorting and filtering are the browser's (assets/js/turns*.js)."""

from collections.abc import Iterable
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import Any, Literal

import streamlit as st

from engine.control import Control
from engine.snapshot import Snapshot, TurnRow
from engine.turn import Phase, Priority, Tier, TurnId
from panels import components, tab, turn_detail
from panels.asked import Request
from panels.asking import Answer, outcome
from panels.palette import ThemeName, palette
from panels.scale import Scale
from panels.units import unit_name
from panels.whole import keep

Verb = Literal["pause", "resume", "swap_out", "drop", "cancel"]
SENT_ROWS = 1_000
NAME_CHARACTERS = 80
TOLD_S = 60.0
KEY = "turns"
DONE = "turns_done"
HINTS: dict[Verb, tuple[str, str]] = {
    "pause": ("pause", "Take its slot at the next token boundary; its KV stays until it is moved"),
    "resume": ("resume", "Let it have a slot again; KV comes back from wherever it is"),
    "swap_out": ("swap", "Swap out: copy its KV to the host pool and free it here"),
    "drop": ("drop", "Throw its KV away; it is computed again when the turn goes on"),
    "cancel": ("cancel", "End the turn and free all that it holds"),
}
UNDO: dict[Verb, Verb] = {"pause": "resume", "resume": "pause", "swap_out": "resume"}
FIELDS = (
    "id", "agent", "priority", "phase", "tool", "held", "tier", "context", "kv", "in_phase", "queued", "preempted",
    "swaps", "recomputed", "can",
)  # fmt: skip
"""Of one row as it is sent. `can`: bit i stands for the i-th of `actions`."""


@dataclass(frozen=True, slots=True)
class Table:
    """`heads`: the columns' titles with their units, where they have one; `rows`: values by FIELDS; `unsent`: turns
    beyond SENT_ROWS."""

    heads: dict[str, str]
    rows: list[list[Any]]
    unsent: int
    empty: str


@dataclass(frozen=True, slots=True)
class Done:
    """An action of this tab. `future`: while it is asked and not carried out; `undo`: what takes it back; `at`: the
    snapshot before which the rows may not show it yet."""

    turn: TurnId
    answer: Answer
    undo: Verb | None
    at: float
    future: "Future[str] | None" = None


def table(snapshot: Snapshot, scale: Scale) -> Table:
    """Rows in an order that does not change with what turns do: foreground first, by id within."""
    turns = sorted(snapshot.turns, key=lambda row: (row.priority, row.id))
    unit = scale.unit(snapshot.bands)
    heads = {
        "agent": "agent",
        "priority": "priority",
        "phase": "phase",
        "tier": "tier",
        "context": "context, tok",
        "kv": f"KV, {unit_name(unit)}",
        "in_phase": "in phase,\u00a0s",
        "queued": "queued, s",
        "preempted": "pre\u00adempted",
        "swaps": "swaps",
        "recomputed": "recomp., tok",
    }
    rows = [_row(row, scale, unit) for row in turns[:SENT_ROWS]]
    return Table(heads, rows, max(0, len(turns) - SENT_ROWS), "" if turns else _empty(snapshot))


def actions(row: TurnRow) -> tuple[tuple[Verb, bool], ...]:
    """One for each column of buttons, and whether it can be asked of the turn as it stands."""
    return (
        ("resume" if row.held else "pause", True),
        ("swap_out", row.tier == Tier.RESIDENT),
        ("drop", row.tier in (Tier.RESIDENT, Tier.HOST)),
        ("cancel", True),
    )


def undo_of(verb: Verb, before: TurnRow | None) -> Verb | None:
    """What takes an action back, `before` being the turn as it was. A blocked turn that is swapped out comes back with
    its tool's result, and resuming one that was paused already would end its pause: neither has an undo."""
    if verb == "swap_out" and (before is None or before.held or before.phase is Phase.BLOCKED):
        return None
    return UNDO.get(verb)


def perform(control: Control, verb: Verb, turn: int, author: str) -> Done:
    """Ask for the action and say in a sentence how it went."""
    asks = {
        "pause": control.pause,
        "resume": control.resume,
        "swap_out": control.swap_out,
        "drop": control.drop,
        "cancel": control.cancel,
    }
    if verb not in asks:
        refusal = Answer(f"{verb!r} is not an action; choose one of {', '.join(asks)}", "bad")
        return Done(TurnId(turn), refusal, None, control.snapshot.at)
    undo = undo_of(verb, _find(control.snapshot, turn))
    future = asks[verb](TurnId(turn), author=author)
    answer = outcome(future, f"{HINTS[verb][0]} turn {turn}")
    asked = Done(TurnId(turn), answer, undo, control.snapshot.at)
    return replace(asked, future=future) if answer.tone == "wait" else asked


def settled(done: Done) -> Done:
    """The same with its answer, once an action that was asked has been carried out."""
    if done.future is None or not done.future.done():
        return done
    return replace(done, answer=outcome(done.future, "", patience=0), future=None)


def may_undo(done: Done, snapshot: Snapshot) -> Verb | None:
    """The undo that still makes sense: nobody has ended the turn, paused or resumed it since."""
    if done.undo is None or done.answer.tone != "good":
        return None
    row = _find(snapshot, done.turn)
    stands = row is not None and row.held == (done.undo == "resume")
    return done.undo if stands or (row is not None and snapshot.at <= done.at) else None


def render(control: Control, snapshot: Snapshot, scale: Scale, theme: ThemeName) -> None:
    shown = table(snapshot, scale)
    data = {
        "heads": shown.heads,
        "fields": FIELDS,
        "rows": shown.rows,
        "unsent": shown.unsent,
        "empty": shown.empty,
        "hints": HINTS,
        "done": _told(snapshot),
        "detail": turn_detail.shown(control, snapshot, scale),
        "colours": components.colours(palette(theme)),
    }

    author = tab.author()

    def act(requests: Iterable[Request]) -> None:
        for request in requests:
            match request:
                case {"verb": "look", "turn": int() | None as turn}:
                    turn_detail.choose(control, turn)
                case {"verb": "pause" | "resume" | "swap_out" | "drop" | "cancel" as verb, "turn": int(turn)}:
                    keep(DONE, perform(control, verb, turn, author))

    components.turns(data, key=KEY, on_asked=act)


def _told(snapshot: Snapshot) -> dict[str, Any]:
    """The last action's sentence, for a while."""
    done: Done | None = st.session_state.get(DONE)
    if done is None or snapshot.at - done.at > TOLD_S:
        return {"message": "", "tone": "good", "turn": 0, "undo": ""}
    done = st.session_state[DONE] = settled(done)
    undo = may_undo(done, snapshot) or ""
    return {"message": done.answer.text, "tone": done.answer.tone, "turn": done.turn, "undo": undo}


def _row(row: TurnRow, scale: Scale, unit: int) -> list[Any]:
    held = row.kv_bytes or row.host_bytes
    return [
        row.id,
        row.agent[:NAME_CHARACTERS],
        Priority(row.priority).label,
        row.phase.value,
        (row.tool or "")[:NAME_CHARACTERS],
        int(row.held),
        row.tier.value,
        row.context_tokens,
        round(scale.kv(held) / unit, 3) if held else None,
        round(row.in_phase_s, 1),
        round(row.queued_s, 1),
        row.preemptions,
        row.swaps,
        row.recomputed_tokens,
        sum(applies << index for index, (_, applies) in enumerate(actions(row))),
    ]


def _find(snapshot: Snapshot, turn: int) -> TurnRow | None:
    return next((row for row in snapshot.turns if row.id == turn), None)


def _empty(snapshot: Snapshot) -> str:
    if snapshot.state.serving:
        return "No turn is here. Start the swarm, or send a foreground turn."
    return "No turns: the engine is not running. Restart it with the button above."
