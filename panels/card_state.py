"""What a tab has chosen on the paper pages. It is kept apart from the widgets, whose own state Streamlit drops when a
page is left."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import streamlit as st

from engine.cards.profile import CardProfile, Preset
from engine.cards.store import DEFAULT_CARD

_KEY = "paper_kept"


@dataclass(frozen=True, slots=True)
class ReadModel:
    """A model's shape from its own files, and the bytes of its weights where they tell them. `stated_gib`: what the
    user says they are, where they do not."""

    wanted: str
    preset: Preset
    weights_bytes: int | None
    stated_gib: float | None = None


@dataclass(frozen=True, slots=True)
class Kept:
    """`edits`: card id -> that card as it was edited in this tab and not saved. `preset`: the name of a preset of the
    card, '' for its first; `on_model`: the model that was read is chosen instead. `wanted`: what was typed to be read,
    `problem`: why it could not be."""

    card: str = DEFAULT_CARD
    edits: Mapping[str, CardProfile] = field(default_factory=dict)
    preset: str = ""
    model: ReadModel | None = None
    on_model: bool = False
    wanted: str = ""
    problem: str = ""


def kept() -> Kept:
    found: Kept = st.session_state.setdefault(_KEY, Kept())
    return found


def keep(now: Kept) -> None:
    st.session_state[_KEY] = now


def choose_card(card_id: str) -> None:
    keep(replace(kept(), card=card_id))


def edit(card_id: str, card: CardProfile | None) -> None:
    """The card as edited in this tab; None: as it is stored."""
    edits = {one: profile for one, profile in kept().edits.items() if one != card_id}
    keep(replace(kept(), edits=edits | ({card_id: card} if card is not None else {})))
