"""This machine's rates beside a card's: what the running engine has measured, and a button to take them."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import streamlit as st

from engine.costs import Costs
from engine.snapshot import Snapshot
from panels import components, fields
from panels.deck_view import DeckView
from panels.units import GB, short

REFRESH_S = 2.0


@dataclass(frozen=True, slots=True)
class Here:
    """`costs`: measured, all of them above zero. `bytes_per_token`: of the engine's model at its present precision."""

    costs: Costs
    bytes_per_token: int

    def way_back_s(self, tokens: int) -> float:
        return tokens * self.bytes_per_token / self.costs.swap_in_bytes_per_s

    def round_trip_s(self, tokens: int) -> float:
        return self.costs.round_trip_s(tokens * self.bytes_per_token)

    def recompute_s(self, tokens: int) -> float:
        return self.costs.recompute_s(tokens)


def here(snapshot: Snapshot | None) -> Here | None:
    """None until the engine has measured what a move costs."""
    if snapshot is None or snapshot.costs is None or snapshot.bytes_per_token <= 0:
        return None
    costs = snapshot.costs
    rates = (costs.swap_out_bytes_per_s, costs.swap_in_bytes_per_s, costs.prefill_tokens_per_s)
    if not all(math.isfinite(rate) and rate > 0 for rate in rates):
        return None
    return Here(costs, snapshot.bytes_per_token)


def of_deck(deck: DeckView | None) -> Here | None:
    return here(deck.control.snapshot) if deck else None


def link_line(now: Here | None) -> str:
    if now is None:
        return "measured here: n/a"
    out, back = (rate / GB for rate in (now.costs.swap_out_bytes_per_s, now.costs.swap_in_bytes_per_s))
    return f"measured here: {short(out)} GB/s out, {short(back)} back"


def prefill_line(now: Here | None) -> str:
    return "measured here: n/a" if now is None else f"measured here: {short(now.costs.prefill_tokens_per_s)} tok/s"


def mark(options: Sequence[float], value: float | None) -> dict[str, Any]:
    """Where a measured value lies along a slider over `options`; no place where nothing is measured."""
    if value is None:
        return {"place": None, "text": ""}
    return {"place": fields.place(options, value), "text": f"measured {short(value)}"}


@st.fragment(run_every=REFRESH_S)
def marked(deck: DeckView | None, what: str, value: Callable[[Here], float], options: Sequence[float]) -> None:
    """The measured rate along its slider, kept up to date. `value`: the rate as the slider counts it."""
    now = of_deck(deck)
    components.slider_mark(mark(options, value(now) if now else None), key=f"prices_mark_{what}")


@st.fragment(run_every=REFRESH_S)
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
