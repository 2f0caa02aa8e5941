"""The Prices page: layout only. `deck`: None without an engine."""

import streamlit as st

from panels import (
    calibrate_box,
    card_box,
    card_sources,
    components,
    fields,
    prices_controls,
    prices_figures,
    prices_here,
    prices_room,
    prices_scale,
    prices_session,
    prices_table,
    pulse,
)
from panels.card_box import Choice
from panels.deck_view import DeckView
from panels.pulse import Part, Parts


def page(deck: DeckView | None) -> None:
    with st.sidebar:
        st.markdown("## Parkdeck")
        choice = card_box.render()
    with st.container(gap="small"):
        _main(deck, choice)
    pulse.render(_parts if deck else dict)
    fields.told()


def _parts() -> Parts:
    kept_up = (prices_here.MARKS, prices_here.OFFERS, prices_session.KEY)
    return {calibrate_box.KEY: Part(calibrate_box.REFRESH_S)} | dict.fromkeys(kept_up, Part(prices_here.REFRESH_S))


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
