"""What the price list is asked for: KV precision, context, rates and host memory. A card's own figures until changed;
what was changed stays over a change of pages and goes with the card."""

from dataclasses import dataclass, replace
from functools import partial

import streamlit as st

from engine.cards.fields import FIELDS, checked_number
from engine.cards.profile import CardProfile, Figure, Preset
from engine.layout import Store
from engine.paper.prices import CONTEXTS, Prices, prices
from panels import fields, prices_here
from panels.deck_view import DeckView
from panels.plain import plain
from panels.prices_here import Here
from panels.units import GB, short
from panels.whole import whole

STORES = {"fp16": Store.FP16, "q8": Store.Q8}
CONTEXT_STOPS = (16, 256, 512, 1_024, *CONTEXTS, 131_072, 262_144, 524_288, 1_000_000)
LINK_STOPS = (1.0, 2.0, 4.0, 8.0, 12.5, 16.0, 25.0, 32.0, 50.0, 63.0, 100.0, 200.0, 450.0)
PREFILL_STOPS = (100.0, 250.0, 500.0, 962.0, 2_000.0, 5_000.0, 10_000.0, 50_000.0, 170_000.0, 340_000.0, 1_000_000.0)
PINNED_STOPS = (0.0, 8.0, 16.0, 32.0, 48.0, 64.0, 96.0, 128.0, 192.0, 256.0, 512.0)
CONTEXT_FIELD = replace(FIELDS["mean_context"], label="Context")
LINK_FIELD = replace(FIELDS["link_out"], label="Bandwidth")
LINK, PREFILL, CONTEXT, PINNED = "prices_link", "prices_prefill", "prices_context", "prices_pinned"
_OF_CARD, _STORE, _EXACT, _TAKEN = "prices_of_card", "prices_store", "prices_exact", "prices_taken_link"
Link = tuple[float, float]
"""Bytes per second out to the host and back."""


@dataclass(frozen=True, slots=True)
class Asked:
    """`named`: the card, and whether rates are not its own any more."""

    prices: Prices
    named: str


def both_ways(link: Link) -> float:
    """GB/s which, out and back alike, takes as long as `link` does for a round trip."""
    return float(f"{2 / (1 / link[0] + 1 / link[1]) / GB:.4g}")


def link_for(value: float, known: tuple[Link | None, ...]) -> Link:
    """The link that `value` GB/s in the field stands for: a known one, each way as it is, or both ways alike."""
    return next((link for link in known if link and both_ways(link) == value), (value * GB, value * GB))


def own_figures(card: CardProfile) -> dict[str, float]:
    """What the controls stand at until they are changed."""
    return {
        CONTEXT: card.mean_context.amount,
        LINK: both_ways((card.link_out.amount, card.link_back.amount)),
        PREFILL: card.prefill.amount,
        PINNED: card.pinned_host.amount / GB,
    }


def header(card: CardProfile, preset: Preset) -> tuple[Store, bool]:
    """Title, what is counted, KV precision, and whether a study's rounding is left out."""
    with st.container(horizontal=True, horizontal_alignment="distribute", vertical_alignment="center"):
        st.markdown("## Prices &nbsp; :gray-badge[modelled]", width="content")
        named = st.segmented_control(
            "KV precision", tuple(STORES), default=st.session_state.setdefault(_STORE, "fp16"),
            key="prices_store_choice", label_visibility="collapsed", required=True, on_change=_keep_store,
            help="q8 nearly halves the copies, not the recompute.",
        )  # fmt: skip
    store = STORES[named or "fp16"]
    exact = bool(st.session_state.setdefault(_EXACT, False))
    rounds = preset.rounded_bytes_per_token if store is Store.FP16 else None
    with st.container(horizontal=True, horizontal_alignment="distribute", vertical_alignment="center"):
        st.caption(plain(what_counts(card, preset, store, exact)), width="content")
        if rounds is not None:
            st.toggle(
                "exact bytes per token", value=exact, key="prices_exact_choice", on_change=_keep_exact,
                help=f"The study rounds {preset.layout.bytes_per_token(store):,} to {rounds.amount:,.0f} bytes.",
            )  # fmt: skip
    return store, exact


def what_counts(card: CardProfile, preset: Preset, store: Store, exact: bool) -> str:
    """Card, model and bytes per token in one line."""
    layout = preset.layout
    own = layout.bytes_per_token(store)
    rounded = preset.rounded_bytes_per_token if store is Store.FP16 else None
    parts = [card.name, preset.name]
    if rounded is None:
        parts.append(f"{own:,} bytes per token at {store}")
    elif exact:
        parts.append(f"{own:,} bytes per token at {store}, exact; the study rounds to {rounded.amount:,.0f}")
    else:
        parts.append(f"the study rounds {own:,} to {rounded.amount:,.0f} bytes per token; counted as the study does")
    if layout.state_bytes:
        parts.append(f"and a state of {layout.state_bytes:,} bytes per turn")
    windows = sorted({group.window for group in layout.groups if group.window is not None})
    if windows:
        parts.append(f"windows of {', '.join(f'{window:,}' for window in windows)} tokens")
    return " · ".join(parts)


def controls(deck: DeckView | None, card: CardProfile, preset: Preset, store: Store, exact: bool) -> Asked:
    """Draws the figures to play with and returns the price list for them."""
    own = own_figures(card)
    if st.session_state.get(_OF_CARD) != (card.id, own):
        for name, value in own.items():
            fields.put(name, value)
        st.session_state[_OF_CARD] = (card.id, own)
    now = prices_here.of_deck(deck)
    left, right = st.columns(2, gap="large")
    with left:
        context = fields.figure(
            CONTEXT, "Context of the turn", own[CONTEXT], CONTEXT_STOPS,
            partial(checked_number, CONTEXT_FIELD, unit="tokens"), unit="tokens", step=1,
            hint=context_hint(card, preset),
        )  # fmt: skip
    with right:
        pinned = fields.figure(
            PINNED, "Pinned host memory", own[PINNED], PINNED_STOPS,
            partial(checked_number, FIELDS["pinned_host"], unit="GB"), unit="GB", step=1.0,
            hint="What parked turns may take of the host's memory. " + _from(card.pinned_host),
        )  # fmt: skip
    left, right = st.columns(2, gap="large")
    with left:
        stops = with_here(LINK_STOPS, _both_ways_of(now) if now else None)
        link = fields.figure(
            LINK, "Bandwidth", own[LINK], stops,
            partial(checked_number, LINK_FIELD, unit="GB/s"), unit="GB/s", step=0.1,
            hint="Pinned copies, out and back alike. " + _from(card.link_out),
            below=partial(prices_here.marked, deck, "link", _both_ways_of),
        )  # fmt: skip
        prices_here.offer(deck, "link", prices_here.link_line, take_link)
    with right:
        stops = with_here(PREFILL_STOPS, _prefill_of(now) if now else None)
        prefill = fields.figure(
            PREFILL, "Prefill rate", own[PREFILL], stops,
            partial(checked_number, FIELDS["prefill"], unit="tok/s"), unit="tok/s", step=1.0,
            hint="Prompt tokens computed per second, what a recompute runs at. " + _from(card.prefill),
            below=partial(prices_here.marked, deck, "rate", _prefill_of),
        )  # fmt: skip
        prices_here.offer(deck, "rate", prices_here.prefill_line, take_prefill)
    card_link = (card.link_out.amount, card.link_back.amount)
    out, back = link_for(link, (card_link, st.session_state.get(_TAKEN)))
    listed = replace(
        prices(card, preset, context=int(context), store=store, exact=exact),
        out_bytes_per_s=out,
        back_bytes_per_s=back,
        prefill_tokens_per_s=prefill,
        host_bytes=pinned * GB,
    )
    changed = any(fields.kept(name, own[name]) != own[name] for name in (LINK, PREFILL))
    named = f"{card.name}, rates as set" if changed else card.name
    return Asked(listed, named)


def context_hint(card: CardProfile, preset: Preset) -> str:
    """Where the context is from, and what the model itself says."""
    limit = preset.layout.max_context
    own = "" if limit is None else f" The model's own limit is {limit:,} tokens."
    return f"The turn that is looked at.{own} {_from(card.mean_context)}"


def with_here(stops: tuple[float, ...], measured: float | None) -> tuple[float, ...]:
    """The slider's values, this machine's among them."""
    return stops if measured is None else (*stops, measured)


def take_link(now: Here) -> None:
    """This machine's measured link, each way as it is."""
    link = _link_of(now)
    st.session_state[_TAKEN] = link
    fields.put(LINK, both_ways(link))


def take_prefill(now: Here) -> None:
    fields.put(PREFILL, _prefill_of(now))


def _link_of(now: Here) -> Link:
    return now.costs.swap_out_bytes_per_s, now.costs.swap_in_bytes_per_s


def _both_ways_of(now: Here) -> float:
    return both_ways(_link_of(now))


def _prefill_of(now: Here) -> float:
    return float(f"{now.costs.prefill_tokens_per_s:.4g}")


def _from(figure: Figure) -> str:
    return f"The card's {short(figure.value)} {figure.unit} is {figure.known}: {plain(figure.source)}"


@whole
def _keep_store() -> None:
    st.session_state[_STORE] = st.session_state["prices_store_choice"]


@whole
def _keep_exact() -> None:
    st.session_state[_EXACT] = st.session_state["prices_exact_choice"]
