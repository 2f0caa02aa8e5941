"""The table of live turns with its actions. `table` and `perform` are free of Streamlit; `render` draws them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import streamlit as st

from engine.control import Control
from engine.snapshot import Snapshot, TurnRow
from engine.turn import Phase, Priority, Tier, TurnId
from engine.words import counted
from panels import components
from panels.asking import Answer, outcome
from panels.palette import ThemeName, palette
from panels.scale import Scale
from panels.units import unit_name

Verb = Literal["pause", "resume", "swap_out", "drop", "cancel"]
SHOWN_ROWS = 60
KEY = "turns"
HINTS: dict[Verb, tuple[str, str]] = {
    "pause": ("pause", "Take its slot at the next token boundary; its KV stays until it is moved"),
    "resume": ("resume", "Let it have a slot again; KV comes back from wherever it is"),
    "swap_out": ("swap", "Swap out: copy its KV to the host pool and free it here"),
    "drop": ("drop", "Throw its KV away; it is computed again when the turn goes on"),
    "cancel": ("cancel", "End the turn and free all that it holds"),
}


@dataclass(frozen=True, slots=True)
class Table:
    """`heads`: the columns' titles with their units, where they have one."""

    heads: dict[str, str]
    rows: list[dict[str, Any]]
    more: str
    empty: str


def table(snapshot: Snapshot, scale: Scale) -> Table:
    """Rows that stay where they are: foreground first, by id within."""
    turns = sorted(snapshot.turns, key=lambda row: (row.priority, row.id))
    hidden = len(turns) - SHOWN_ROWS
    more = f"{counted(hidden, 'more turn')} not shown; timeline.csv has all" if hidden > 0 else _sum_line(turns)
    unit = scale.unit(snapshot.bands)
    heads = {
        "context": "context, tok",
        "kv": f"KV, {unit_name(unit)}",
        "in_phase": "in phase, s",
        "queued": "queued, s",
    }
    rows = [_row(row, scale, unit) for row in turns[:SHOWN_ROWS]]
    return Table(heads, rows, more, "" if turns else _empty(snapshot))


def actions(row: TurnRow) -> tuple[tuple[Verb, bool], ...]:
    """One for each column of buttons, and whether it can be asked of the turn as it stands."""
    return (
        ("resume" if row.held else "pause", True),
        ("swap_out", row.tier == Tier.RESIDENT),
        ("drop", row.tier in (Tier.RESIDENT, Tier.HOST)),
        ("cancel", True),
    )


def perform(control: Control, verb: Verb, turn: int) -> Answer:
    """Ask for the action and say in a sentence how it went."""
    asks = {
        "pause": control.pause,
        "resume": control.resume,
        "swap_out": control.swap_out,
        "drop": control.drop,
        "cancel": control.cancel,
    }
    if verb not in asks:
        return Answer(f"{verb!r} is not an action; choose one of {', '.join(asks)}", "bad")
    return outcome(asks[verb](TurnId(turn), author="page"), f"{HINTS[verb][0]} turn {turn}")


def render(control: Control, snapshot: Snapshot, scale: Scale, theme: ThemeName) -> None:
    shown = table(snapshot, scale)
    answer: Answer | None = st.session_state.get("turns_answer")
    data = {
        "heads": shown.heads,
        "rows": shown.rows,
        "more": shown.more,
        "empty": shown.empty,
        "message": answer.text if answer else "",
        "tone": answer.tone if answer else "good",
        "colours": components.colours(palette(theme)),
    }

    def act() -> None:
        clicked = st.session_state[KEY].action
        if clicked:
            st.session_state.turns_answer = perform(control, clicked["verb"], int(clicked["turn"]))

    components.turns(data, key=KEY, on_action=act)


def _row(row: TurnRow, scale: Scale, unit: int) -> dict[str, Any]:
    return {
        "id": row.id,
        "agent": f"{row.agent} · {row.id}",
        "priority": Priority(row.priority).label,
        "phase": _phase(row),
        "phase_colour": _phase_colour(row),
        "phase_hint": "paused by the operator" if row.held else "",
        "tier": "–" if row.tier == Tier.NONE else row.tier.value,
        "tier_colour": {Tier.RESIDENT: "running", Tier.HOST: "host", Tier.DROPPED: "dropped"}.get(row.tier, "none"),
        "context": f"{row.context_tokens:,}",
        "kv": f"{scale.kv(row.kv_bytes or row.host_bytes) / unit:,.2f}",
        "in_phase": f"{row.in_phase_s:,.1f}",
        "queued": f"{row.queued_s:,.1f}" if row.queued_s > 0 else "–",
        "moves": f"{row.preemptions} / {row.swaps} / {row.recomputed_tokens:,}",
        "moves_hint": "preemptions / swaps / recomputed tokens",
        "actions": [
            {"verb": verb, "label": HINTS[verb][0], "hint": HINTS[verb][1], "off": not applies}
            for verb, applies in actions(row)
        ],
    }


def _phase(row: TurnRow) -> str:
    if row.phase == Phase.BLOCKED and row.tool:
        return f"blocked: {row.tool}"
    return f"{row.phase.value}, held" if row.held else row.phase.value


def _phase_colour(row: TurnRow) -> str:
    if row.phase.running:
        return "running"
    return {Phase.PAUSED: "paused", Phase.BLOCKED: "blocked"}.get(row.phase, "none")


def _sum_line(turns: Sequence[TurnRow]) -> str:
    tokens = sum(row.context_tokens for row in turns)
    return f"{counted(len(turns), 'turn')}, {counted(tokens, 'token')} of context" if turns else ""


def _empty(snapshot: Snapshot) -> str:
    if snapshot.state.serving:
        return "No turn is here. Start the swarm, or send a foreground turn."
    return "No turns: the engine is not running."
