"""The What-if page: layout only. It needs no engine: `deck` None has nothing to mark and nothing to apply to."""

import streamlit as st

from app.shelf import GRIDS, shelf
from engine.twin.grid_run import GridRunner
from panels import card_box, card_sources, components, pulse, whatif_asked, whatif_grid
from panels.deck_view import DeckView, GridControl
from panels.pulse import Part


def page(deck: DeckView | None) -> None:
    grids: GridControl = deck.grids if deck else shelf(GRIDS, GridRunner)
    with st.sidebar:
        st.markdown("## Parkdeck")
        choice = card_box.render()
    theme = components.theme()
    with st.container(gap="small"):
        with st.container(gap=None):
            st.markdown("## What-if &nbsp; :gray-badge[modelled]")
            st.caption("Two knobs against each other on a modelled card, before the live engine is touched.")
        asked = whatif_asked.render(choice)
        whatif_grid.render(grids, deck, asked, theme)
        card_sources.render(choice.card, choice.preset)
    shows = {whatif_grid.KEY: Part(whatif_grid.REFRESH_S, lambda: whatif_grid.shown(grids, deck))}
    pulse.render(lambda: shows)
