"""The swarm's buttons: start, stop, speed, agents, and two turns at once for trying things out."""

import time
from collections.abc import Callable, Hashable
from dataclasses import replace
from functools import partial
from typing import Any

import streamlit as st

from engine.errors import ParkdeckError
from panels import following, tab, tour
from panels.asking import Answer
from panels.deck_view import SwarmControl, TourControl
from panels.plain import plain

SPEEDS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
MAX_AGENTS = 256
ANSWER_SHOWN_S = 10.0
SETTLE_S = 2.0
NOTE_EVERY_S = 3.0
AGENTS, SPEED = "swarm_agents", "swarm_speed"


def ask(verb: Callable[[], str]) -> Answer:
    """Run one of the swarm's verbs; its refusal is a sentence for the user."""
    try:
        return Answer(verb())
    except ParkdeckError as refusal:
        return Answer(str(refusal), "bad")


def shown(swarm: SwarmControl, touring: TourControl, ready: bool) -> Hashable | None:
    """What `render` draws from; the note, which is another with each turn, only as often as people read it. None while
    a change of this tab is under way."""
    if not following.settled((AGENTS, SPEED)):
        return None
    note = time.monotonic() // NOTE_EVERY_S
    return replace(swarm.state(), note=""), tour.running(touring.look(tab.author())), ready, note


def render(swarm: SwarmControl, touring: TourControl, ready: bool, toured: Callable[[], None]) -> None:
    """One row of controls. `ready`: the engine takes turns; `toured` is called once the tour was asked for, whose band
    stands elsewhere."""
    state, author = swarm.state(), tab.author()
    now = time.monotonic()
    agents_key, agents = following.follow(AGENTS, state.agents, now)
    speed_key, speed = following.follow(SPEED, state.speed, now)
    speeds = tuple(sorted({*SPEEDS, speed}))
    on_tour = tour.running(touring.look(author))
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small"):
        if state.running:
            st.button(
                "Stop swarm",
                key="swarm_stop",
                icon=":material/stop:",
                on_click=_press,
                args=(partial(swarm.stop, author),),
            )
        else:
            st.button(
                "Start swarm", key="swarm_start", icon=":material/play_arrow:",
                type="secondary" if on_tour else "primary",
                on_click=_press, args=(partial(swarm.start, author),), disabled=not ready,
            )  # fmt: skip
        st.number_input(
            "Agents", min_value=0, max_value=MAX_AGENTS, step=1, value=agents, key=agents_key, width=118,
            on_change=_moved, args=(AGENTS, partial(swarm.set_agents, author=author)),
        )  # fmt: skip
        st.selectbox(
            "Speed", speeds, index=speeds.index(speed), key=speed_key, format_func="{:g}x".format, width=98,
            on_change=_moved, args=(SPEED, partial(swarm.set_speed, author=author)),
            help="How fast agents think and tools answer; the engine itself always runs at full speed.",
        )  # fmt: skip
        st.button(
            "Foreground turn now", key="foreground_now", icon=":material/person:", on_click=_press,
            args=(swarm.foreground_turn,), disabled=not ready,
            help="A turn that a person waits for: it takes a background turn's slot if none is free.",
        )  # fmt: skip
        st.button(
            "Long background turn now", key="long_now", icon=":material/notes:", on_click=_press,
            args=(swarm.long_turn,), disabled=not ready,
        )  # fmt: skip
        st.button(
            "Tour", key="tour_start", icon=":material/explore:", type="tertiary",
            on_click=_start, args=(touring, toured), disabled=not ready or on_tour,
            help="Six steps on this running engine that show what a paused turn costs.",
        )  # fmt: skip
    _line(state.note or f"Workload: {state.workload}.", now)


def _line(note: str, now: float) -> None:
    """The latest answer for a while, then what the swarm does."""
    answer: Answer | None = st.session_state.get("swarm_answer")
    recent = answer is not None and now - st.session_state.swarm_answered_at < ANSWER_SHOWN_S
    if answer is None or not recent:
        st.caption(plain(note))
    elif answer.tone == "bad":
        st.markdown(f":small[:red[{plain(answer.text)}]]")
    else:
        st.caption(plain(f"{answer.text} {note}"))


def _press(verb: Callable[[], str]) -> None:
    _answered(ask(verb))


def _start(touring: TourControl, toured: Callable[[], None]) -> None:
    _answered(tour.start(touring))
    toured()


def _moved(name: str, verb: Callable[[Any], str]) -> None:
    value = following.moved(name)
    answer = ask(lambda: verb(value))
    _answered(answer)
    if answer.tone == "good":
        following.settle(name, value, time.monotonic() + SETTLE_S)
    else:
        following.refuse(name, None)


def _answered(answer: Answer) -> None:
    st.session_state.swarm_answer = answer
    st.session_state.swarm_answered_at = time.monotonic()
