"""The Prices page: layout only."""

import streamlit as st

from panels import card_box
from panels.deck_view import DeckView


def page(deck: DeckView | None) -> None:
    with st.sidebar:
        st.markdown("## Parkdeck")
        card_box.render(deck)
    st.markdown("### Prices")
