"""The Policies page: layout only. It needs no engine: `deck` None has nothing in force and nothing to apply to."""

import streamlit as st

from app.shelf import COMPARISONS, shelf
from engine.twin.grid_run import GridRunner
from panels import card_box, card_sources, components, policies_ab, policies_rows, pulse
from panels.deck_view import DeckView, GridControl
from panels.pulse import Part


def page(deck: DeckView | None) -> None:
    runs: GridControl = deck.comparisons if deck else shelf(COMPARISONS, GridRunner)
    with st.sidebar:
        st.markdown("## Parkdeck")
        choice = card_box.render()
    theme = components.theme()
    with st.container(gap="small"):
        with st.container(gap=None):
            st.markdown("## Policies")
            st.caption(
                "Who leaves the arena, and where to: every tier policy on the same agents, before it is put in force."
            )
        policies_ab.render(runs, deck, choice, theme)
        policies_rows.render(deck)
        card_sources.render(choice.card, choice.preset)
    shows = {
        policies_ab.KEY: Part(policies_ab.REFRESH_S, lambda: policies_ab.shown(runs, deck)),
        policies_rows.KEY: Part(policies_rows.REFRESH_S, lambda: policies_rows.shown(deck)),
    }
    pulse.render(lambda: shows)
