"""The Live page: layout only. `page(deck)` draws it over any DeckView, a real deck or a scripted one."""

from dataclasses import replace

import streamlit as st

from engine.snapshot import Snapshot
from panels import components, downloads, figures, hardware, knobs, model_box, side, stack, states, swarm, top, turns
from panels.deck_view import DeckView
from panels.scale import scale_for

REFRESH_S = 1.0
KNOBS_REFRESH_S = 0.8
WINDOWS = {"2 min": 120.0, "10 min": 600.0, "all": float("inf")}
EVENT_SETS = ("moves and knobs", "all events")


def page(deck: DeckView) -> None:
    with st.sidebar:
        st.markdown("## Parkdeck")
        _sidebar(deck)
    _main(deck)


@st.fragment(run_every=KNOBS_REFRESH_S)
def _sidebar(deck: DeckView) -> None:
    snapshot = deck.control.snapshot
    knobs.render(deck.control, snapshot)
    with st.expander("Model", icon=":material/memory:"):
        model_box.render(deck.control, snapshot)
    with st.expander("Download this session", icon=":material/download:"):
        downloads.render(deck, components.theme())


@st.fragment(run_every=REFRESH_S)
def _main(deck: DeckView) -> None:
    with st.container(gap="xsmall"):
        _panels(deck)


def _panels(deck: DeckView) -> None:
    control = deck.control
    snapshot = _kept(control.snapshot, deck)
    theme = components.theme()
    scale = scale_for(snapshot, top.render(snapshot, deck.recording_problem()))
    # Its place is kept when it is empty, so that a word that comes and goes moves no element and remounts no chart.
    with st.container():
        states.render(control, snapshot)
    if snapshot.bands is None:
        hardware.render(deck.hardware())
        return
    swarm.render(deck.swarm, snapshot.state.serving)
    figures.render(snapshot, scale, theme)
    events = control.events()
    window = WINDOWS[_chosen("window", "10 min")]
    samples = control.samples(since=snapshot.at - window)
    chart, beside = st.columns([2.8, 1], gap="xsmall")
    with chart:
        stack.render(stack.stack_data(snapshot, samples, events, scale, window), theme)
    with beside:
        side.render(snapshot, events, scale, theme, _chosen("event_set", EVENT_SETS[0]) != EVENT_SETS[1])
    # Below what they change, so that the chart stands higher on a small screen.
    with st.container(horizontal=True, horizontal_alignment="distribute"):
        _choice("Window", tuple(WINDOWS), "window", "10 min")
        _choice("Events", EVENT_SETS, "event_set", EVENT_SETS[0])
    turns.render(control, snapshot, scale, theme)
    hardware.render(deck.hardware())


def _choice(label: str, options: tuple[str, ...], key: str, default: str) -> None:
    st.segmented_control(label, options, default=default, key=key, label_visibility="collapsed", required=True)


def _chosen(key: str, default: str) -> str:
    return st.session_state.get(key) or default


def _kept(snapshot: Snapshot, deck: DeckView) -> Snapshot:
    """A stopped or failed engine publishes no bands: go on showing its last ones, at the scale they were shown."""
    if snapshot.bands is not None:
        return snapshot
    samples = deck.control.samples()
    return replace(snapshot, bands=samples[-1].bands, card=deck.last_card()) if samples else snapshot
