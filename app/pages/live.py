"""The Live page: layout only. `page(deck)` draws it over any DeckView, a real deck or a scripted one."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

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
    twin_box,
)
from panels.deck_view import DeckView
from panels.page_state import PageState
from panels.pulse import Part, Parts
from panels.scale import scale_for
from panels.whole import whole

HELD = "held_reading"
OF_TWIN = "drawn_of_twin"


@dataclass(frozen=True, slots=True)
class Reading:
    """What one refresh draws: all of one moment."""

    snapshot: Snapshot
    samples: Sequence[Sample]
    events: Sequence[Event]


def page(deck: DeckView) -> None:
    state = page_state.adopt()
    st.session_state[OF_TWIN] = deck.control.snapshot.twin
    tab.open_tab(deck)
    with st.sidebar:
        st.markdown("## Parkdeck")
        _twin(deck)
        _knobs(deck)
        _boxes(deck)
    with st.container(gap="xsmall"):
        # The head is of the main fragment; between the two stands what need not run with it.
        head = st.container(gap="xsmall")
        _swarm(deck)
        _main(deck, head)
    if not state.paused:
        st.session_state.pop(HELD, None)


def _parts(deck: DeckView) -> Parts:
    """What a beat of the tab refreshes, by the fragments' keys."""
    state = page_state.current()
    if state.paused:
        return {}
    return {
        "live": Part(state.every),
        "knobs": Part(state.every, lambda: _knobs_show(deck)),
        "twin": Part(state.every, lambda: twin_box.shown(deck.control.snapshot)),
        "swarm": Part(state.every, lambda: _swarm_shows(deck)),
        "boxes": Part(state.every, lambda: _boxes_show(deck)),
    }


@st.fragment(key="twin")
def _twin(deck: DeckView) -> None:
    shown = twin_box.shown(deck.control.snapshot)
    twin_box.render(deck.twin, deck.control)
    pulse.drawn("twin", shown)


@st.fragment(key="knobs")
def _knobs(deck: DeckView) -> None:
    shown = _knobs_show(deck)
    knobs.render(deck.control, deck.control.snapshot)
    pulse.drawn("knobs", shown)


def _knobs_show(deck: DeckView) -> Hashable | None:
    return knobs.shown(deck.control, deck.control.snapshot)


@st.fragment(key="boxes")
def _boxes(deck: DeckView) -> None:
    shown = _boxes_show(deck)
    with st.expander("Model", icon=":material/memory:"):
        model_box.render(deck.control, deck.control.snapshot)
    with st.expander("Download this session", icon=":material/download:"):
        downloads.render(deck, components.theme())
    pulse.drawn("boxes", shown)


def _boxes_show(deck: DeckView) -> Hashable:
    snapshot = deck.control.snapshot
    return snapshot.model, snapshot.ran_before, snapshot.backend, deck.recorded(), components.theme()


@st.fragment(key="swarm")
def _swarm(deck: DeckView) -> None:
    shown = _swarm_shows(deck)
    snapshot = _kept(deck.control.snapshot, deck)
    if snapshot.bands is not None:
        swarm.render(deck.swarm, deck.tour, snapshot.state.serving, lambda: pulse.run(["live", "swarm"]))
    pulse.drawn("swarm", shown)


def _swarm_shows(deck: DeckView) -> Hashable | None:
    snapshot = _kept(deck.control.snapshot, deck)
    return snapshot.bands is None or swarm.shown(deck.swarm, deck.tour, snapshot.state.serving)


@st.fragment(key="live")
def _main(deck: DeckView, head: DeltaGenerator) -> None:
    """Runs with each beat, and goes on beating whatever cannot be drawn."""
    below = st.container(gap="xsmall")
    try:
        _draw(deck, head, below)
    finally:
        _follow_twin(deck)
        pulse.beat(lambda: _parts(deck), "live")


def _follow_twin(deck: DeckView) -> None:
    """The whole page anew where a twin has come or gone: the title of the browser's tab is in no fragment."""
    twin = deck.control.snapshot.twin
    if not page_state.current().paused and st.session_state.get(OF_TWIN, twin) != twin:
        st.session_state[OF_TWIN] = twin
        st.rerun()


def _draw(deck: DeckView, head: DeltaGenerator, below: DeltaGenerator) -> None:
    """Each panel in a place of its own, there in every state of the engine: what comes and goes moves no other."""
    control, state, theme = deck.control, page_state.current(), components.theme()
    reading = _reading(deck, state)
    snapshot, events = reading.snapshot, reading.events
    scale = scale_for(snapshot, state.scale)
    with head:
        top.render(snapshot, control.now, state, deck.recording_problem(), theme, _looked)
        with st.container():
            states.render(control, snapshot)
        tour.render(deck.tour, deck.swarm, snapshot, theme)
    with below:
        measured = st.container(gap="xsmall")
        hardware.render(deck.hardware())
    if snapshot.bands is None:
        return
    samples = [sample for sample in reading.samples if sample.at > snapshot.at - state.window_s]
    with measured:
        figures.render(snapshot, scale, theme)
        chart, beside = st.columns([2.8, 1], gap="xsmall")
        with chart:
            stack.render(stack.stack_data(snapshot, samples, events, scale, state.window_s), theme)
        with beside:
            side.render(snapshot, events, scale, theme, state.events == "moves")
        with st.container():
            effect_card.render(control, deck.twin, snapshot, events, reading.samples, scale, theme)
        turns.render(control, snapshot, scale, theme)


def _looked(change: Mapping[str, Any], again: bool) -> None:
    """The head was used: the page anew."""
    _look(change, again)
    pulse.run(["live", "knobs", "swarm"])


@whole
def _look(change: Mapping[str, Any], again: bool) -> None:
    """A new reading where it asks for one."""
    if again or "paused" in change:
        st.session_state.pop(HELD, None)
    page_state.change(change)


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
