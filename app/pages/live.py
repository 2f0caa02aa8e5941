"""The Live page: layout only. `page(deck)` draws it over any DeckView, a real deck or a scripted one."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import streamlit as st

from engine.events import Event
from engine.snapshot import Sample, Snapshot
from panels import (
    components,
    downloads,
    effect_card,
    figures,
    hardware,
    knobs,
    model_box,
    page_state,
    pulse,
    side,
    stack,
    states,
    swarm,
    tab,
    top,
    tour,
    turns,
)
from panels.deck_view import DeckView
from panels.page_state import PageState
from panels.scale import scale_for

BOXES_EVERY_S = 5.0
HELD = "held_reading"


@dataclass(frozen=True, slots=True)
class Reading:
    """What one refresh draws: all of one moment."""

    snapshot: Snapshot
    samples: Sequence[Sample]
    events: Sequence[Event]


def page(deck: DeckView) -> None:
    state = page_state.adopt()
    tab.open_tab(deck)
    with st.sidebar:
        st.markdown("## Parkdeck")
        _knobs(deck)
        _boxes(deck)
    _main(deck)
    pulse.render(_every)
    if not state.paused:
        st.session_state.pop(HELD, None)


@st.fragment(key="knobs")
def _knobs(deck: DeckView) -> None:
    knobs.render(deck.control, deck.control.snapshot)


@st.fragment(key="boxes")
def _boxes(deck: DeckView) -> None:
    with st.expander("Model", icon=":material/memory:"):
        model_box.render(deck.control, deck.control.snapshot)
    with st.expander("Download this session", icon=":material/download:"):
        downloads.render(deck, components.theme())


def _every() -> Mapping[str, float]:
    state = page_state.current()
    if state.paused:
        return {}
    return {"live": state.every, "knobs": state.every, "boxes": max(state.every, BOXES_EVERY_S)}


@st.fragment(key="live")
def _main(deck: DeckView) -> None:
    """Each panel in a place of its own, there in every state of the engine: what comes and goes moves no other."""
    control, state, theme = deck.control, page_state.current(), components.theme()
    reading = _reading(deck, state)
    snapshot, events = reading.snapshot, reading.events
    scale = scale_for(snapshot, state.scale)
    with st.container(gap="xsmall"):
        top.render(snapshot, control.now, state, deck.recording_problem(), theme, _looked)
        said, toured, played, figured, charted, effected, tabled, sensed = (st.container() for _ in range(8))
    with said:
        states.render(control, snapshot)
    with toured:
        tour.render(deck.tour, deck.swarm, snapshot, theme)
    if snapshot.bands is not None:
        with played:
            swarm.render(deck.swarm, deck.tour, snapshot.state.serving)
        with figured:
            figures.render(snapshot, scale, theme)
        samples = [sample for sample in reading.samples if sample.at > snapshot.at - state.window_s]
        with charted:
            chart, beside = st.columns([2.8, 1], gap="xsmall")
            with chart:
                stack.render(stack.stack_data(snapshot, samples, events, scale, state.window_s), theme)
            with beside:
                side.render(snapshot, events, scale, theme, state.events == "moves")
        with effected:
            effect_card.render(control, snapshot, events, reading.samples, scale, theme)
        with tabled:
            turns.render(control, snapshot, scale, theme)
    with sensed:
        hardware.render(deck.hardware())


def _looked(asked: Mapping[str, Any]) -> None:
    """The head was used: a new reading where it asks for one, and the page anew."""
    if "again" in asked or "paused" in asked:
        st.session_state.pop(HELD, None)
    st.rerun(["live", "knobs", pulse.KEY])


def _reading(deck: DeckView, state: PageState) -> Reading:
    """The latest; while the page is paused, the one it was paused at."""
    held: Reading | None = st.session_state.get(HELD)
    if state.paused and held is not None:
        return held
    control = deck.control
    # Events before the snapshot's samples: what a chart marks is then in its time.
    reading = Reading(_kept(control.snapshot, deck), control.samples(), control.events())
    if state.paused:
        st.session_state[HELD] = reading
    return reading


def _kept(snapshot: Snapshot, deck: DeckView) -> Snapshot:
    """A stopped or failed engine publishes no bands: go on showing its last ones, at the scale they were shown."""
    if snapshot.bands is not None:
        return snapshot
    samples = deck.control.samples()
    return replace(snapshot, bands=samples[-1].bands, card=deck.last_card()) if samples else snapshot
