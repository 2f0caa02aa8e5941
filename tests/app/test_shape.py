"""At one place of a page there always stands the same kind of thing. A browser tab that gets an element where a
container stood, and then what belongs into the container, cannot draw it and goes blank for good."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from engine.snapshot import HostState, Startup
from panels import page_state
from panels.deck_view import CalibrationState
from panels.preview_box import FIRST
from tests.browser.scenes import SCENES
from tests.panels.fake_deck import FakeDeck

Shape = dict[tuple[int, ...], str]
FLEX = {"vertical": "container", "horizontal": "container"}


def live_script() -> None:
    import streamlit as st

    from app.pages import live

    live.page(st.session_state["deck"])


def blocked_script() -> None:
    import streamlit as st

    from app.pages import blocked

    blocked.page(st.session_state["deck"])


def planner_script() -> None:
    import streamlit as st

    from app.pages import planner

    planner.page(st.session_state["deck"])


def prices_script() -> None:
    import streamlit as st

    from app.pages import prices

    prices.page(st.session_state["deck"])


def whatif_script() -> None:
    import streamlit as st

    from app.pages import whatif

    whatif.page(st.session_state["deck"])


def policies_script() -> None:
    import streamlit as st

    from app.pages import policies

    policies.page(st.session_state["deck"])


def shape(node: Any, at: tuple[int, ...] = ()) -> Shape:
    """Kind by place: 'element', or what kind of container."""
    children = getattr(node, "children", None)
    if children is None:
        return {at: "element"}
    found: Shape = {at: FLEX.get(node.type, node.type)}
    for index, child in children.items():
        found |= shape(child, (*at, index))
    return found


class Watched:
    """A tab whose places are compared over all that it has shown."""

    def __init__(self, script: Callable[[], None], deck: FakeDeck | None) -> None:
        self.tab = AppTest.from_function(script, default_timeout=60)
        self.deck = deck
        self.seen: Shape = {}
        self.tab.session_state["deck"] = deck

    def look(self, what: str) -> None:
        self.tab.run()
        assert not self.tab.exception, (what, self.tab.exception)
        now = shape(self.tab._tree)
        changed = {at: (self.seen[at], kind) for at, kind in now.items() if self.seen.get(at, kind) != kind}
        assert changed == {}, what
        self.seen |= now


def test_two_kinds_at_one_place_are_found() -> None:
    def script() -> None:
        import streamlit as st

        if st.session_state.get("deck"):
            st.caption("a sentence")
        else:
            st.container().caption("a container with a sentence")

    tab = Watched(script, None)
    tab.look("a container")
    tab.tab.session_state["deck"] = "a deck"
    with pytest.raises(AssertionError, match="another"):
        tab.look("another")


def test_the_live_page_keeps_its_shape_in_every_state_of_the_engine() -> None:
    tab = Watched(live_script, None)
    for name in (*SCENES, *reversed(SCENES)):
        tab.tab.session_state["deck"] = SCENES[name]()
        tab.look(name)
    deck = SCENES["running"]()
    tab.tab.session_state["deck"] = deck
    for state in HostState:
        deck.control.state = state
        deck.control.startup = Startup("load", None, "")
        deck.problem = "the disk is full" if state == HostState.RUNNING else None
        tab.look(state)


def test_the_live_page_keeps_its_shape_while_knobs_are_moved_previewed_refused_and_applied() -> None:
    deck = SCENES["running"]()
    tab = Watched(live_script, deck)
    tab.look("at first")
    for mode in (FIRST, "apply at once", FIRST):
        next(g for g in tab.tab.button_group if FIRST in g.options).set_value(mode)
        tab.look(mode)
        for label, value in (("Low watermark", 40), ("High watermark", 70), ("Slots", 3)):
            field = next(w for w in (*tab.tab.slider, *tab.tab.number_input) if w.label == label)
            field.set_value(value)
            tab.look(f"{mode}: {label}")
            deck.control.refuse = None if deck.control.refuse else "this is refused"
            tab.look(f"{mode}: {label}, the other answer")
        for press in ("Apply", "Discard"):
            for button in [b for b in tab.tab.button if b.label == press and not b.disabled]:
                button.click()
                tab.look(press)


def test_the_live_page_keeps_its_shape_whatever_the_swarm_and_its_buttons_say() -> None:
    deck = SCENES["running"]()
    tab = Watched(live_script, deck)
    for label in ("Foreground turn now", "Long background turn now", "Stop swarm", "Start swarm"):
        tab.look(f"before {label}")
        next(b for b in tab.tab.button if b.label == label).click()
        tab.look(label)
    page_states = ({"window": "2min"}, {"units": "machine"}, {"events": "all"}, {"paused": "yes"})
    for query in page_states:
        tab.tab.query_params.update(query)
        tab.look(str(query))
    assert tab.tab.session_state[page_state.KEY].paused


def test_the_blocked_page_keeps_its_shape_in_every_state_of_the_engine() -> None:
    tab = Watched(blocked_script, None)
    for name in (*SCENES, *reversed(SCENES)):
        tab.tab.session_state["deck"] = SCENES[name]()
        tab.look(name)
        tab.tab.session_state["deck"] = None
        tab.look("no engine")


@pytest.mark.parametrize("script", [planner_script, prices_script, policies_script, whatif_script])
def test_the_paper_pages_keep_their_shape_with_and_without_an_engine_and_while_measuring(
    script: Callable[[], None],
) -> None:
    deck = SCENES["running"]()
    tab = Watched(script, None)
    states = (
        CalibrationState(),
        CalibrationState(running=True, fraction=0.3, note="copies"),
        CalibrationState(problem="it was called off"),
        CalibrationState(running=True, fraction=0.9, note="decode steps"),
        CalibrationState(written="this machine is a card now"),
        CalibrationState(),
    )
    for with_deck in (None, deck, None, deck):
        tab.tab.session_state["deck"] = with_deck
        for state in states:
            deck.calibration.now = replace(state)
            tab.look(f"{'engine' if with_deck else 'no engine'}, {state}")
    for host in HostState:
        deck.control.state = host
        tab.look(host)


@pytest.mark.parametrize("script", [planner_script, prices_script, policies_script, whatif_script])
def test_the_paper_pages_keep_their_shape_whatever_is_typed_and_chosen(script: Callable[[], None]) -> None:
    tab = Watched(script, SCENES["running"]())
    tab.look("at first")
    for value in (-1.0, 1e12, 3.0):
        for index in range(len(tab.tab.number_input)):
            if not tab.tab.number_input[index].disabled:
                tab.tab.number_input[index].set_value(value)
                tab.look(f"number {index} at {value:g}")
    for field in ("no such model", "/", ""):
        for index in range(len(tab.tab.text_input)):
            tab.tab.text_input[index].set_value(field)
            tab.look(f"text {index}: {field}")
    for index in range(len(tab.tab.selectbox)):
        for option in tab.tab.selectbox[index].options:
            tab.tab.selectbox[index].select(option)
            tab.look(f"choice {index}: {option}")
    for index in range(len(tab.tab.toggle)):
        for on in (True, False):
            tab.tab.toggle[index].set_value(on)
            tab.look(f"switch {index} {'on' if on else 'off'}")
