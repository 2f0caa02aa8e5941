"""The grid on the page: run and cancel, how far it is, its four maps, and the cell that was chosen."""

from collections.abc import Callable, Hashable, Iterable
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import streamlit as st

from engine.errors import ParkdeckError
from engine.twin.grid_run import GridState
from engine.words import percent
from panels import chart, components, tab, table_csv, whatif_cell, whatif_maps
from panels.asked import Request
from panels.deck_view import DeckView, GridControl
from panels.palette import ThemeName
from panels.plain import plain
from panels.pulse import drawn
from panels.whatif_asked import Asked
from panels.whatif_maps import Maps
from panels.whatif_words import Live, cell_words, forecast_words, live_cell, live_of, live_words, of_what, roughly
from panels.whole import whole

KEY = "whatif_grid"
REFRESH_S = 1.0
EMPTY = (
    "Runs the same agents on a modelled card, once for each pair of values, beside the engine and without touching it. "
    "Press Run grid: the default is KV precision against slots."
)
CHOSEN, PRESSED, BAD, RUN = "whatif_chosen", "whatif_cell", "whatif_refused", "whatif_pressed"


def shown(grids: GridControl, deck: DeckView | None) -> Hashable | None:
    """What the fragment draws from."""
    state, live = grids.state(), _live(deck)
    return (
        state.number, state.done, state.running, round(state.fraction, 2), round(state.left_s), state.note,
        tuple(live.values.items()) if live else None,
    )  # fmt: skip


@st.fragment(key=KEY)
def render(grids: GridControl, deck: DeckView | None, asked: Asked, theme: ThemeName) -> None:
    """Each part in a place of its own, so that none is taken for another's."""
    _run_what_was_pressed(grids, deck, asked)
    seen = shown(grids, deck)
    state = grids.state()
    going, empty, maps, cell = (st.container() for _ in range(4))
    with going:
        _going(grids, deck, asked, state)
    if state.grid is None:
        empty.info(EMPTY, icon=":material/grid_on:")
    else:
        with maps:
            _maps(state, _live(deck), theme)
        with cell:
            _cell(state, deck, theme)
    drawn(KEY, seen)


def _going(grids: GridControl, deck: DeckView | None, asked: Asked, state: GridState) -> None:
    row, told = st.container(horizontal=True, vertical_alignment="center", gap="small"), st.container()
    with row:
        if state.running:
            st.button("Cancel", key="whatif_cancel", icon=":material/close:", on_click=_press, args=(grids.cancel,))
            st.progress(min(1.0, state.fraction), text=plain(progress_words(state)))
        else:
            st.button(
                "Run grid", key="whatif_run", icon=":material/play_arrow:", type="primary",
                disabled=asked.grid is None, on_click=_ask_to_run,
            )  # fmt: skip
            st.caption(plain(_before(grids, asked)))
    if asked.problem:
        told.markdown(f":small[:red[{plain(asked.problem)}]]")
    if refused := st.session_state.get(BAD):
        told.markdown(f":small[:red[{plain(refused)}]]")
    if state.note:
        told.caption(plain(state.note))


def progress_words(state: GridState) -> str:
    return (
        f"{percent(state.fraction)} · {state.done} of {len(state.outcomes)} cells · about "
        f"{roughly(state.left_s)} left · started by {tab.by(state.author).removeprefix('by ')}"
    )


def _before(grids: GridControl, asked: Asked) -> str:
    if asked.grid is None:
        return "Nothing can be run yet."
    setups = [cell.setup for cell in asked.grid.cells if cell.setup is not None]
    return forecast_words(len(asked.grid.cells), grids.forecast_s(setups))


def _maps(state: GridState, live: Live | None, theme: ThemeName) -> None:
    assert state.grid is not None
    grid = state.grid
    maps = Maps(grid, state.outcomes, live_cell(grid, live), _chosen(state))
    st.caption(plain(f"{of_what(grid)}. {live_words(grid, live)}"))
    source = f"{of_what(grid)} · modelled from the card's profile"
    metrics = whatif_maps.metrics(grid)
    for left, right in (metrics[:2], metrics[2:]):
        for place, metric in zip(st.columns(2, gap="xsmall"), (left, right), strict=True):
            with place:
                files = chart.files("what-if", metric.key, grid.base.card.id, f"{metric.title}, modelled", source)
                components.live_plot(
                    whatif_maps.spec(maps, metric, theme) | files,
                    key=f"whatif_{metric.key}",
                    on_asked=partial(_pressed, state.number),
                )
                st.caption(plain(whatif_maps.sentence(maps, metric)))
    table_csv.download(as_csv(state), f"parkdeck-what-if-{grid.base.card.id}", key="whatif_csv")


def as_csv(state: GridState) -> bytes:
    """Every figure of every cell that is there."""
    grid = state.grid
    assert grid is not None
    pairs = list(zip(grid.cells, state.outcomes, strict=True))
    there = [asdict(o.result.summary) for _, o in pairs if o is not None and o.result is not None]
    figures = list(there[0]) if there else []
    rows = (
        (
            cell.down, cell.across, outcome.problem if outcome else "not run",
            *(asdict(outcome.result.summary).values() if outcome and outcome.result else [None] * len(figures)),
        )
        for cell, outcome in pairs
    )  # fmt: skip
    about = (("grid", of_what(grid)), ("figures", "modelled"))
    return table_csv.content(about, (grid.down.name, grid.across.name, "problem", *figures), rows)


def _cell(state: GridState, deck: DeckView | None, theme: ThemeName) -> None:
    grid, index = state.grid, _chosen(state)
    assert grid is not None
    choose, below = st.container(), st.container()
    with choose:
        st.session_state[PRESSED] = index
        st.selectbox(
            "Cell", range(len(grid.cells)), index=None, key=PRESSED, placeholder="click a cell, or choose one here",
            format_func=lambda one: cell_words(grid, grid.cells[one]), on_change=_selected, args=(state.number,),
        )  # fmt: skip
    if index is None:
        return
    outcome = state.outcomes[index]
    with below:
        if outcome is None:
            st.caption("This cell has not been run yet." if state.running else "This cell was not run.")
        elif outcome.result is None:
            st.markdown(f":small[:red[{plain(outcome.problem)}]]")
        else:
            whatif_cell.render(grid, state.number, index, outcome.result, deck, theme)


def _chosen(state: GridState) -> int | None:
    """The tab's cell of this grid: its number, or none."""
    number, index = st.session_state.get(CHOSEN, (0, None))
    known = index is not None and 0 <= index < len(state.outcomes)
    return index if number == state.number and known else None


def _live(deck: DeckView | None) -> Live | None:
    snapshot = deck.control.snapshot if deck else None
    if deck is None or snapshot is None or not snapshot.state.serving:
        return None
    return live_of(snapshot, deck.swarm.state().agents)


def _pressed(number: int, requests: Iterable[Request]) -> None:
    for request in requests:
        index: Any = request.get("cell")
        if isinstance(index, int) and not isinstance(index, bool):
            st.session_state[CHOSEN] = (number, index)


@whole
def _selected(number: int) -> None:
    st.session_state[CHOSEN] = (number, st.session_state[PRESSED])


@dataclass(slots=True)
class _Pressed:
    """Run was pressed. A plain object, as no touch of it ends a run of the page."""

    taken: bool = False


@whole
def _ask_to_run() -> None:
    """The grid is made once the page has taken what was typed right before."""
    st.session_state[RUN] = _Pressed()


def _run_what_was_pressed(grids: GridControl, deck: DeckView | None, asked: Asked) -> None:
    pressed: _Pressed | None = st.session_state.get(RUN)
    grid = asked.grid
    if pressed is None or pressed.taken:
        return
    author = tab.open_tab(deck) if deck else tab.author()
    st.session_state[BAD] = None
    pressed.taken = True
    if grid is None:
        return
    try:
        grids.start(grid, author)
    except ParkdeckError as refusal:
        st.session_state[BAD] = str(refusal)


def _press(verb: Callable[[], str]) -> None:
    st.session_state[BAD] = None
    try:
        verb()
    except ParkdeckError as refusal:
        st.session_state[BAD] = str(refusal)
