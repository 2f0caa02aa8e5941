"""This machine's rates beside a card's: what the running engine has measured, and a button to take them."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import streamlit as st

from engine.cards.profile import CardProfile
from engine.cards.store import THIS_MACHINE, list_cards, load_card
from engine.costs import Costs
from engine.errors import Refused
from engine.layout import Store
from engine.snapshot import Snapshot
from panels import components, fields
from panels.deck_view import DeckView
from panels.units import GB, short

REFRESH_S = 2.0
MARKS, OFFERS = "measured_marks", "measured_offers"


@dataclass(frozen=True, slots=True)
class Here:
    """`costs`: measured, all of them above zero. `bytes_per_token`: of the engine's model at its present precision.
    `calibrated`: the day of the calibration that they are from, '' for what the running engine measures."""

    costs: Costs
    bytes_per_token: int
    calibrated: str = ""

    def way_back_s(self, tokens: int) -> float:
        return tokens * self.bytes_per_token / self.costs.swap_in_bytes_per_s

    def round_trip_s(self, tokens: int) -> float:
        return self.costs.round_trip_s(tokens * self.bytes_per_token)

    def recompute_s(self, tokens: int) -> float:
        return self.costs.recompute_s(tokens)


def here(snapshot: Snapshot | None) -> Here | None:
    """None until the engine has measured what a move costs; a twin measures nothing."""
    if snapshot is None or snapshot.twin or snapshot.costs is None or snapshot.bytes_per_token <= 0:
        return None
    costs = snapshot.costs
    rates = (costs.swap_out_bytes_per_s, costs.swap_in_bytes_per_s, costs.prefill_tokens_per_s)
    if not all(math.isfinite(rate) and rate > 0 for rate in rates):
        return None
    return Here(costs, snapshot.bytes_per_token)


def of_deck(deck: DeckView | None) -> Here | None:
    """What the running engine measures; without one, what the last calibration did."""
    return (here(deck.control.snapshot) if deck else None) or _calibrated()


def of_card(card: CardProfile) -> Here | None:
    """None for a card that was not calibrated."""
    if card.calibration is None:
        return None
    costs = Costs(
        card.link_out.amount,
        card.link_back.amount,
        card.prefill.amount,
        card.decode_base.amount,
        card.decode_per_turn.amount,
    )
    return Here(costs, card.presets[0].layout.bytes_per_token(Store.FP16), card.calibration.at[:10])


def _calibrated() -> Here | None:
    entry = list_cards().find(THIS_MACHINE)
    if entry is None or entry.problem:
        return None
    try:
        return of_card(load_card(THIS_MACHINE))
    except Refused:
        return None


def _lead(now: Here) -> str:
    return f"calibrated here on {now.calibrated}" if now.calibrated else "measured here"


def link_line(now: Here | None) -> str:
    if now is None:
        return "measured here: n/a"
    out, back = (rate / GB for rate in (now.costs.swap_out_bytes_per_s, now.costs.swap_in_bytes_per_s))
    return f"{_lead(now)}: {short(out)} GB/s out, {short(back)} back"


def prefill_line(now: Here | None) -> str:
    return "measured here: n/a" if now is None else f"{_lead(now)}: {short(now.costs.prefill_tokens_per_s)} tok/s"


def mark(options: Sequence[float], value: float | None) -> dict[str, Any]:
    """Where a measured value lies along a slider over `options`; no place where nothing is measured."""
    if value is None:
        return {"place": None, "text": ""}
    return {"place": fields.place(options, value), "text": f"measured {short(value)}"}


@st.fragment(key=MARKS)
def marked(deck: DeckView | None, what: str, value: Callable[[Here], float], options: Sequence[float]) -> None:
    """The measured rate along its slider, kept up to date. `value`: the rate as the slider counts it."""
    now = of_deck(deck)
    components.slider_mark(mark(options, value(now) if now else None), key=f"prices_mark_{what}")


@st.fragment(key=OFFERS)
def offer(deck: DeckView | None, what: str, line: Callable[[Here | None], str], take: Callable[[Here], None]) -> None:
    """The measured rate under its control, kept up to date, with the button that takes it over."""
    now = of_deck(deck)
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        st.caption(line(now), width="content")
        taken = now is not None and st.button(
            f"Use measured {what}",
            key=f"prices_take_{what}",
            type="tertiary",
            icon=":material/speed:",
            on_click=take,
            args=(now,),
        )
    if taken:
        st.rerun()
