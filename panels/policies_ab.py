"""Every policy on the twin: run and cancel, how far it is, and the chart of what came of it."""

from collections.abc import Callable, Hashable
from typing import Any

import streamlit as st

from engine.errors import ParkdeckError, Refused
from engine.twin.grid_run import GridState
from engine.words import counted, percent
from panels import chart, components, policies_asked, policies_chart, tab
from panels.card_box import Choice
from panels.deck_view import DeckView, GridControl
from panels.palette import ThemeName
from panels.plain import plain
from panels.policies_asked import Asked
from panels.policies_chart import Comparison
from panels.policies_words import of_what
from panels.pulse import drawn
from panels.units import seconds
from panels.whatif_words import roughly

KEY = "policies_ab"
REFRESH_S = 1.0
BAD = "policies_refused"
EMPTY = (
    "Plays the swarm's agents on a modelled card, once under each policy, beside the engine and without touching it. "
    "Press Compare policies; it takes seconds."
)


def shown(runs: GridControl, deck: DeckView | None) -> Hashable:
    """What the fragment draws from."""
    state = runs.state()
    return state.number, state.done, state.running, round(state.fraction, 2), round(state.left_s), _in_force(deck)


@st.fragment(key=KEY)
def render(runs: GridControl, deck: DeckView | None, choice: Choice, theme: ThemeName) -> None:
    """Each part in a place of its own, so that none is taken for another's."""
    seen = shown(runs, deck)
    state = runs.state()
    going, empty, drawing = (st.container() for _ in range(3))
    with going:
        _going(runs, deck, choice, state)
    if state.grid is None:
        empty.info(EMPTY, icon=":material/compare_arrows:")
    else:
        with drawing:
            _chart(state, deck, theme)
    drawn(KEY, seen)


def ended_words(state: GridState) -> str:
    """How the last comparison ended; empty while it runs and before the first."""
    if state.running or state.grid is None:
        return ""
    there = [outcome.result for outcome in state.outcomes if outcome is not None and outcome.result is not None]
    failed = sum(outcome is not None and outcome.result is None for outcome in state.outcomes)
    count = len(state.outcomes)
    if state.done < count:
        return f"Cancelled after {state.done} of {count} policies; those that are there stay."
    took = f"{count} policies, {seconds(sum(result.summary.wall_s for result in there))} of computing"
    return f"{took}; {counted(failed, 'run')} failed." if failed else f"{took}."


def progress_words(state: GridState) -> str:
    return (
        f"{percent(state.fraction)} · {state.done} of {len(state.outcomes)} policies · about "
        f"{roughly(state.left_s)} left · started by {tab.by(state.author).removeprefix('by ')}"
    )


def _going(runs: GridControl, deck: DeckView | None, choice: Choice, state: GridState) -> None:
    row, told = st.container(horizontal=True, vertical_alignment="center", gap="small"), st.container()
    with row:
        if state.running:
            st.button("Cancel", key="policies_cancel", icon=":material/close:", on_click=_press, args=(runs.cancel,))
            st.progress(min(1.0, state.fraction), text=plain(progress_words(state)))
        else:
            asked = policies_asked.asked(choice, deck)
            st.button(
                "Compare policies", key="policies_run", icon=":material/play_arrow:", type="primary",
                disabled=asked.grid is None, on_click=_compare, args=(runs, deck, choice),
            )  # fmt: skip
            st.caption(plain(_before(asked, deck)))
            if asked.problem:
                told.markdown(f":red[{plain(asked.problem)}]")
    if refused := st.session_state.get(BAD):
        told.markdown(f":red[{plain(refused)}]")


def _before(asked: Asked, deck: DeckView | None) -> str:
    if asked.grid is None:
        return "Nothing can be compared yet."
    if policies_asked.serving(deck) is None:
        return f"{of_what(asked.grid)} · no engine runs, so the card's own knobs hold"
    return f"{of_what(asked.grid)} · the live engine's knobs; turns fill as much of the card as they fill here"


def _chart(state: GridState, deck: DeckView | None, theme: ThemeName) -> None:
    grid = state.grid
    assert grid is not None
    comparison = Comparison(grid, state.outcomes, _in_force(deck))
    about = of_what(grid)
    files = chart.files("policies", "compared", grid.base.card.id, "Every policy, modelled", f"{about} · modelled")
    components.live_plot(policies_chart.spec(comparison, theme) | files, key="policies_compared")
    failed = [
        f"{cell.down}: {outcome.problem}"
        for cell, outcome in zip(grid.cells, state.outcomes, strict=True)
        if outcome is not None and outcome.result is None
    ]
    st.caption(plain(" ".join(filter(None, (policies_chart.sentence(comparison), ended_words(state))))))
    st.caption(plain(f"Compared on {about}."))
    for sentence in failed:
        st.markdown(f":red[{plain(sentence)}]")


def _in_force(deck: DeckView | None) -> str | None:
    live = policies_asked.serving(deck)
    return live.knobs.policy if live is not None else None


def _compare(runs: GridControl, deck: DeckView | None, choice: Choice) -> None:
    """On what there is at the press, not on what was drawn."""

    def start() -> str:
        asked = policies_asked.asked(choice, deck)
        if asked.grid is None:
            raise Refused(asked.problem)
        return runs.start(asked.grid, tab.open_tab(deck) if deck else tab.author())

    _press(start)


def _press(verb: Callable[[], Any]) -> None:
    st.session_state[BAD] = None
    try:
        verb()
    except ParkdeckError as refusal:
        st.session_state[BAD] = str(refusal)
