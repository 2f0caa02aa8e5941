"""How a tab looks at the page: what its address says, and when the page asks again."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from streamlit.testing.v1 import AppTest

from engine.snapshot import HostState
from panels import page_state, pulse, top
from panels.page_state import ALLOWED, PLAIN, PageState, from_query, to_query
from panels.pulse import Part
from tests.browser.scenes import SCENES
from tests.panels.fake_control import FakeControl

STATES = st.builds(PageState, **{name: st.sampled_from(values) for name, values in ALLOWED.items()})


@given(STATES)
def test_an_address_gives_the_same_page_back(state: PageState) -> None:
    assert from_query(to_query(state)) == state


def test_the_plain_page_has_a_plain_address() -> None:
    assert to_query(PLAIN) == {}
    assert to_query(PageState("2min", "machine", "all", 5.0, True)) == {
        "window": "2min", "units": "machine", "events": "all", "every": "5", "paused": "yes",
    }  # fmt: skip


@given(st.dictionaries(st.sampled_from([*ALLOWED, "other", ""]), st.text()))
def test_whatever_stands_in_an_address_gives_a_page(query: dict[str, str]) -> None:
    state = from_query(query)
    assert all(getattr(state, name) in values for name, values in ALLOWED.items())


@pytest.mark.parametrize(
    "change", [{"window": "1 h"}, {"every": 0.0}, {"every": float("nan")}, {"paused": "no"}, {"x": 1}]
)
def test_what_is_not_offered_changes_nothing(change: dict[str, object]) -> None:
    assert PLAIN.changed(change) == PLAIN


def script() -> None:
    import streamlit as st

    from app.pages import live

    live.page(st.session_state["deck"])


def test_a_page_is_opened_as_its_address_says_and_keeps_its_state_without_one() -> None:
    tab = AppTest.from_function(script, default_timeout=60)
    tab.session_state["deck"] = SCENES["running"]()
    tab.query_params.update({"window": "2min", "units": "nonsense", "mine": "kept"})
    tab.run()
    assert tab.session_state[page_state.KEY] == PageState(window="2min")
    assert dict(tab.query_params) == {"window": "2min", "mine": "kept"}
    tab.query_params.clear()
    tab.run()
    assert tab.session_state[page_state.KEY] == PageState(window="2min"), "the tab still knows"
    assert dict(tab.query_params) == {"window": "2min"}


def test_a_paused_page_keeps_its_reading_and_its_knobs_stay_the_engines() -> None:
    deck = SCENES["running"]()
    tab = AppTest.from_function(script, default_timeout=60)
    tab.session_state["deck"] = deck
    tab.query_params["paused"] = "yes"
    tab.run()
    held = tab.session_state["held_reading"]
    deck.control.advance(30.0)
    tab.run()
    assert tab.session_state["held_reading"] is held
    del tab.query_params["paused"]
    tab.session_state[page_state.KEY] = PLAIN
    tab.run()
    assert "held_reading" not in tab.session_state


def test_what_is_due_at_a_beat() -> None:
    parts = {"live": Part(0.8), "knobs": Part(0.8), "boxes": Part(5.0)}
    beats = [pulse.due(parts, beat, {}) for beat in range(1, 13)]
    assert all({"live", "knobs"} <= set(names) for names in beats)
    assert [beat for beat, names in enumerate(beats, 1) if "boxes" in names] == [6, 12]
    assert pulse.due({}, 3, {}) == []


def test_a_part_that_shows_what_it_has_drawn_is_not_due() -> None:
    now: dict[str, Any] = {"knobs": ("q8", 8), "swarm": None}
    parts = {name: Part(0.8, lambda name=name: now[name]) for name in now} | {"live": Part(0.8)}  # type: ignore[misc]
    assert pulse.due(parts, 1, {}) == ["knobs", "swarm", "live"]
    assert pulse.due(parts, 2, {"knobs": ("q8", 8), "swarm": None}) == ["swarm", "live"]
    assert pulse.due(parts, 3, {"knobs": ("fp16", 8)}) == ["knobs", "swarm", "live"]
    known = {"knobs": ("q8", 8)}
    again = [beat for beat in range(1, 26) if "knobs" in pulse.due(parts, beat, known)]
    assert again == [12, 24], "an answer may have been lost"


def test_the_head_says_what_runs_and_how_old_it_is() -> None:
    snapshot = FakeControl(at=60.0).snapshot
    shown = top.shown(snapshot, PLAIN, "the disk is full", now=72.0)
    assert (shown["state"], shown["tone"], shown["age_s"]) == ("running", "good", 12.0)
    assert shown["line"].startswith("SmolLM2-135M-Instruct on torch · step ")
    assert shown["units"][0][1] == "card scale × 56.7"
    assert shown["warning"] == "the disk is full"
    starting = FakeControl(state=HostState.STARTING).snapshot
    shown = top.shown(starting, PLAIN, None, now=0.0)
    assert (shown["age_s"], shown["line"][-8:]) == (None, "step n/a")
