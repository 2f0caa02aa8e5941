"""The Prices page: layout only. `deck`: None without an engine."""

import streamlit as st

from panels import (
    calibrate_box,
    card_box,
    card_sources,
    components,
    prices_controls,
    prices_figures,
    prices_room,
    prices_scale,
    prices_session,
    prices_table,
    pulse,
)
from panels.card_box import Choice
from panels.deck_view import DeckView


def page(deck: DeckView | None) -> None:
    with st.sidebar:
        st.markdown("## Parkdeck")
        choice = card_box.render()
    with st.container(gap="small"):
        _main(deck, choice)
    # Its parts refresh by themselves; the pulse tells of a change of the browser's theme.
    pulse.render(dict)


def _main(deck: DeckView | None, choice: Choice) -> None:
    theme = components.theme()
    card, preset = choice.card, choice.preset
    store, exact = prices_controls.header(card, preset)
    asked = prices_controls.controls(deck, card, preset, store, exact)
    prices_figures.render(asked.prices, theme)
    prices_scale.render(asked.prices, asked.named, theme)
    beside, room = st.columns([1.15, 1], gap="small")
    with beside:
        prices_table.render(asked.prices, card, preset, theme)
    with room:
        prices_room.render(asked.prices, asked.named, theme)
    prices_session.render(deck, asked.prices, asked.named, theme)
    calibrate_box.render(deck)
    card_sources.render(card, preset)
