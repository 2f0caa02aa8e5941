"""Which card and which model the paper pages are about."""

from dataclasses import dataclass

import streamlit as st

from engine.cards.profile import CardProfile, Preset
from engine.cards.store import DEFAULT_CARD, card_names, load_card
from panels.deck_view import DeckView


@dataclass(frozen=True, slots=True)
class Choice:
    """`preset`: the model's shape, one of the card's or one that was read from a model's own files."""

    card: CardProfile
    preset: Preset


def render(deck: DeckView | None) -> Choice:
    """Draws the choice in the sidebar and returns what is in force. `deck`: None without an engine."""
    names = card_names()
    card = load_card(st.selectbox("Card", names, index=names.index(DEFAULT_CARD), key="paper_card"))
    presets = [preset.name for preset in card.presets]
    return Choice(card, card.preset(st.selectbox("Model", presets, key="paper_preset")))
