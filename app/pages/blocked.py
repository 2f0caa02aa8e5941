"""The Blocked page: layout only. `deck`: None without an engine."""

import streamlit as st

from panels import blocked, components, pulse
from panels.deck_view import DeckView
from panels.pulse import Part


def page(deck: DeckView | None) -> None:
    with st.container(gap="small"):
        blocked.render(deck, components.theme())
    pulse.render(lambda: {blocked.KEY: Part(blocked.REFRESH_S, lambda: blocked.shown(deck))})
