"""The running session beside the plan: what the engine has measured, at card scale where it stands in for a card.

The two are not the same model as a rule: the table says which model each column is of.
"""

from dataclasses import asdict

import streamlit as st

from engine.geometry import KVDtype
from engine.layout import Store
from engine.paper.ceiling import Plan
from engine.snapshot import Bands, HostState, Snapshot
from panels import components
from panels.deck_view import NO_ENGINE, DeckView
from panels.palette import ThemeName, palette
from panels.planner_table import Cell, Row, size_cell
from panels.scale import Scale
from panels.units import MISSING, common_unit

REFRESH_S = 3.0
KEY = "measured"
STORES = {KVDtype.FP16: Store.FP16, KVDtype.Q8: Store.Q8}
ABSENT = Cell(MISSING, tone="none")


def why_none(snapshot: Snapshot | None) -> str | None:
    """One sentence where nothing is measured now; None where the session has figures."""
    if snapshot is None:
        return NO_ENGINE
    if snapshot.twin:
        return "n/a: a twin runs, whose figures are modelled; go back to the real engine on the Live page."
    if snapshot.bands is not None:
        return None
    match snapshot.state:
        case HostState.STARTING:
            return "n/a: the engine is starting; its figures come with its first step."
        case HostState.FAILED:
            return "n/a: the engine has failed; the Live page says why."
        case _:
            return "n/a: the engine is stopped; start it on the Live page."


def rows(plan: Plan, snapshot: Snapshot, bands: Bands) -> tuple[Row, ...]:
    """Modelled at the session's own precision, measured beside it; n/a for a precision that the plan does not have."""
    scale = Scale(snapshot.card)
    stack = scale.stack(bands)
    store = STORES.get(snapshot.knobs.kv_dtype)
    fit = plan.fits[store] if store else None
    turn = snapshot.average_turn_tokens * snapshot.bytes_per_token
    return (
        Row("bytes_per_token", "KV of a token, unscaled", "Bytes of this machine, scales included.",
            (Cell(f"{fit.bytes_per_token:,}", "B") if fit else ABSENT, Cell(f"{snapshot.bytes_per_token:,}", "B"))),
        Row("average", "Average turn", "Of the load in the sidebar; of the session's turns.",
            (Cell(f"{plan.load.mean_context:,}", "tok"), Cell(f"{snapshot.average_turn_tokens:,}", "tok"))),
        _sizes("turn", "Average turn's KV", fit.turn_bytes if fit else None, scale.kv(turn)),
        _sizes("running", "Running KV", fit.running_bytes if fit else None, stack.running),
        _sizes("parked", "Paused and blocked KV", None, stack.paused + stack.blocked),
        _sizes("used", "Used", fit.used_bytes if fit else None, stack.used),
        _sizes("headroom", "Headroom", fit.headroom_bytes if fit else None, stack.headroom),
        Row("paused_fit", "Paused that fit", "Average turns: modelled beside the running ones; measured how many more, "
            "beside all that is there now.",
            (Cell(f"{fit.paused_fit:,}") if fit else ABSENT, _count(snapshot.paused_fit))),
    )  # fmt: skip


def notes(snapshot: Snapshot) -> tuple[str, ...]:
    scale = Scale(snapshot.card)
    return (
        f"Measured: {snapshot.model} on {snapshot.backend}, KV at {snapshot.knobs.kv_dtype}. "
        f"{scale.label[0].upper()}{scale.label[1:]}.",
    )


def render(plan: Plan, deck: DeckView | None, theme: ThemeName) -> None:
    st.markdown("#### This session, measured")
    _refreshed(plan, deck, theme)


@st.fragment(key=KEY)
def _refreshed(plan: Plan, deck: DeckView | None, theme: ThemeName) -> None:
    snapshot = deck.control.snapshot if deck else None
    if snapshot is None or snapshot.bands is None or snapshot.twin:
        st.caption(why_none(snapshot) or MISSING)
        return
    table = {
        "head": [f"KV at {snapshot.knobs.kv_dtype}", "this plan, modelled", "session, measured"],
        "rows": [asdict(row) for row in rows(plan, snapshot, snapshot.bands)],
        "notes": notes(snapshot),
        "colours": components.colours(palette(theme)),
    }
    components.figures(table, key="planner_measured")


def _sizes(key: str, label: str, modelled: float | None, measured: float) -> Row:
    known = [value for value in (modelled, measured) if value is not None]
    unit = common_unit(known)
    cells = tuple(ABSENT if value is None else size_cell(value, unit) for value in (modelled, measured))
    return Row(key, label, "", cells)


def _count(value: int | None) -> Cell:
    return ABSENT if value is None else Cell(f"{value:,}")
