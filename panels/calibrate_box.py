"""Measuring this machine: a button that says what it will do, the progress, and what came out."""

from collections.abc import Callable
from dataclasses import asdict
from datetime import datetime

import streamlit as st

from engine.calibration.plan import DEFAULT
from engine.cards.profile import Calibration, CardProfile
from engine.cards.store import THIS_MACHINE, list_cards, load_card
from engine.errors import ParkdeckError
from engine.snapshot import HostState
from engine.words import counted, percent
from panels import chart, components, tab
from panels.calibrate_charts import copies_spec, prefill_spec
from panels.deck_view import NO_ENGINE, CalibrationState, DeckView
from panels.figures import Tile
from panels.palette import palette
from panels.plain import plain
from panels.units import link, rate, seconds, short, size

REFRESH_S = 1.0
KEY = "calibration"
TAKES_S = DEFAULT.seconds + 5
IN_A_TERMINAL = "`parkdeck calibrate` in a terminal measures this machine as well."


def render(deck: DeckView | None) -> None:
    """The whole box. `deck`: None without an engine."""
    st.markdown("#### This machine, measured")
    _box(deck)


@st.fragment(key=KEY)
def _box(deck: DeckView | None) -> None:
    """Refreshed by itself, as another tab may have started it; the page anew once it ends, as there is a new card. Each
    part in a place of its own, so that none is taken for another's."""
    state = deck.calibration.state() if deck else CalibrationState()
    was_running = st.session_state.get("calibrate_running", False)
    st.session_state.calibrate_running = state.running
    if was_running and not state.running:
        st.rerun()
    said, offered, going, written = (st.container() for _ in range(4))
    if deck is None:
        said.caption(f"{NO_ENGINE} {IN_A_TERMINAL}")
    elif state.running:
        # A press that was refused because one ran already is answered by what comes out of that one.
        st.session_state.calibrate_refused = None
        with going:
            _progress(deck, state)
    else:
        with offered:
            _offer(deck, state)
    with written:
        _result(state.running)


def _offer(deck: DeckView, state: CalibrationState) -> None:
    snapshot = deck.control.snapshot
    ready = snapshot.state.serving
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        st.button(
            "Measure this machine", key="calibrate_start", icon=":material/speed:", disabled=not ready,
            on_click=_press, args=(lambda: deck.calibration.start(tab.open_tab(deck)),),
        )  # fmt: skip
        st.caption(
            plain(what_it_does(snapshot.model, snapshot.backend)) if ready else plain(_not_ready(snapshot.state))
        )
    for problem in filter(None, (st.session_state.get("calibrate_refused"), state.problem)):
        st.markdown(f":red[{plain(problem)}]")
    if state.written:
        st.caption(plain(state.written))


def _progress(deck: DeckView, state: CalibrationState) -> None:
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        st.button(
            "Cancel", key="calibrate_cancel", icon=":material/close:", on_click=_press, args=(deck.calibration.cancel,)
        )
        st.progress(min(1.0, state.fraction), text=plain(f"{percent(state.fraction)} · {state.note}"))
    st.caption("The swarm waits until it is over; nothing is written before.")


def _result(running: bool) -> None:
    """The card of this machine as it lies in the user's directory, whenever it was measured."""
    said = st.container()
    entry = list_cards().find(THIS_MACHINE)
    if entry is None:
        if not running:
            said.caption("Not measured yet.")
        return
    try:
        card = load_card(THIS_MACHINE)
    except ParkdeckError as error:
        said.markdown(f":red[{plain(str(error))}]")
        return
    if card.calibration is None:
        said.caption(plain(f"{card.name} was edited by hand since it was measured; measure again for its points."))
        return
    theme = components.theme()
    source = where_and_when(card, card.calibration)
    said.caption(plain(source))
    shown = [asdict(figure) for figure in tiles(card, card.calibration)]
    components.tiles({"tiles": shown, "colours": components.colours(palette(theme))}, key="calibrate_figures")
    left, right = st.columns(2, gap="xsmall")
    with left:
        files = chart.files("calibration", "prefill", card.id, "Measured prefill", source)
        components.live_plot(prefill_spec(card.calibration.prefills, theme) | files, key="calibrate_prefill")
    with right:
        files = chart.files("calibration", "copies", card.id, "Measured copies", source)
        components.live_plot(copies_spec(card.calibration, theme) | files, key="calibrate_copies")


def what_it_does(model: str, backend: str) -> str:
    return (
        f"Stops the swarm for about {TAKES_S:.0f} s and measures copies, prefill and decode of {model} on {backend}; "
        "the result is the card This machine."
    )


def where_and_when(card: CardProfile, calibration: Calibration) -> str:
    at = datetime.fromisoformat(calibration.at)
    where = f"{calibration.model} on {calibration.backend}, {card.architecture}"
    return f"Measured {at:%Y-%m-%d %H:%M} UTC · {where} · {card.memory}"


def tiles(card: CardProfile, calibration: Calibration) -> tuple[Tile, ...]:
    """The decode step's parts, how well they fit, and the rates that the card goes by."""
    count = counted(len(calibration.decodes), "step")
    own = "blocks of this model, in the units of its host pool"
    return (
        Tile(
            "base", "Decode step, base", seconds(card.decode_base.amount), "paid once a step",
            "What a step costs whoever runs: reading the weights. Fitted.",
        ),
        Tile(
            "per_turn", "Per turn", seconds(card.decode_per_turn.amount), "in the step",
            "What each turn of the step adds beside its KV. Fitted.",
        ),
        Tile(
            "per_kv", "Per KV", f"{short(card.decode_per_kv_byte.amount * 1e12)} ms/GB", "of all turns together",
            "What reading the KV of the turns adds, GB of 10^9 bytes. Fitted.",
        ),
        Tile(
            "error", "Fit's error", f"{percent(calibration.decode_error, 1)} rms", f"over {count}",
            "Root mean square of fitted / measured - 1 over the measured steps.",
        ),
        Tile(
            "worst", "At worst", percent(calibration.decode_worst, 1), "off one step",
            "The step that the fit misses most, of its own time.",
        ),
        Tile(
            "prefill", "Prefill", rate(card.prefill.amount), "as it runs",
            "Prompt tokens computed per second in chunks of the size that the engine runs with; measured.",
        ),
        Tile("out", "Copy to host", link(card.link_out.amount), "as a swap out", f"Measured on {own}."),
        Tile("back", "Copy from host", link(card.link_back.amount), "as a swap in", f"Measured on {own}."),
        Tile(
            "room", "Room for KV", size(card.kv_budget_bytes), f"of {size(card.usable.amount)}",
            "The arena of the engine that was measured; beside it weights and runtime.",
        ),
        Tile(
            "pool", "Host pool", size(card.pinned_host.amount), "for parked turns",
            "Of the engine that was measured.",
        ),
    )  # fmt: skip


def _not_ready(state: HostState) -> str:
    if state == HostState.STARTING:
        return "The engine is still starting; measuring needs it running."
    how = "has failed" if state == HostState.FAILED else "is stopped"
    return f"The engine {how}; start it on the Live page, then measure."


def _press(verb: Callable[[], str]) -> None:
    st.session_state.calibrate_refused = None
    try:
        verb()
    except ParkdeckError as refusal:
        st.session_state.calibrate_refused = str(refusal)
