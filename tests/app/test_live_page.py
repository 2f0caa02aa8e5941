"""The Live page over the scripted engine, in every state."""

from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from engine.events import Event, EventKind
from engine.knobs import Knobs
from engine.snapshot import HostState
from engine.turn import TurnId
from panels import page_state, top, turn_detail
from panels.plain import plain
from tests.browser.scenes import SCENES
from tests.panels.fake_control import OFFLINE
from tests.panels.fake_deck import FakeDeck


def script() -> None:
    import streamlit as st

    from app.pages import live

    live.page(st.session_state["deck"])


def open_page(deck: FakeDeck) -> AppTest:
    tab = AppTest.from_function(script, default_timeout=60)
    tab.session_state["deck"] = deck
    tab.run()
    assert not tab.exception, tab.exception
    return tab


def button(tab: AppTest, label: str) -> Any:
    return next(b for b in tab.button if b.label.replace("\\", "") == label)


def texts(tab: AppTest) -> str:
    shown = [e.value for kind in (tab.markdown, tab.caption, tab.error, tab.warning, tab.info) for e in kind]
    return "\n".join([*shown, *(status.label for status in tab.status)])


@pytest.mark.parametrize("name", SCENES)
def test_every_state_renders(name: str) -> None:
    tab = open_page(SCENES[name]())
    assert "Parkdeck" in texts(tab)
    assert "Measured on this machine" in texts(tab)


def test_starting_shows_the_stage_its_progress_and_what_comes_next() -> None:
    text = texts(open_page(SCENES["starting"]()))
    assert "Converting the weights" in text
    assert "layer 12 of 30" in text
    assert "Then: load, compile, calibrate" in text


def test_a_starting_engine_has_no_host_pool_yet() -> None:
    deck = SCENES["starting"]()
    deck.control.knobs = Knobs()
    pool = next(n for n in open_page(deck).number_input if n.label.startswith("Host pool"))
    assert (pool.value, pool.placeholder) == (None, "n/a")


def test_failed_shows_the_reason_keeps_the_data_and_restarts() -> None:
    deck = SCENES["failed"]()
    tab = open_page(deck)
    assert "block 17 is held twice" in texts(tab)
    assert button(tab, "Start swarm" if not deck.swarm.state().running else "Stop swarm")
    button(tab, "Restart the engine").click().run()
    assert deck.control.calls == [("restart", None, None, "tab 1")]
    assert deck.control.state == HostState.STARTING


def test_a_models_name_is_not_capitalised() -> None:
    deck = SCENES["failed"]()
    deck.control.error = "org/model: not on Hugging Face, or private"
    assert "org/model: not on Hugging Face" in texts(open_page(deck)).replace("\\", "")


def test_no_network_on_the_first_start_names_the_ways_on() -> None:
    text = texts(open_page(SCENES["offline"]()))
    for way in ("GGUF", "Hugging Face id", "offline copy"):
        assert way in text
    assert OFFLINE.split(";")[0] in text.replace("\\", "")


def test_stalled_says_so() -> None:
    assert "No turn could run" in texts(open_page(SCENES["stalled"]()))


def test_the_model_box_restarts_with_what_was_typed() -> None:
    deck = SCENES["running"]()
    tab = open_page(deck)
    next(t for t in tab.text_input if t.key == "model_wanted").input("  /models/other.gguf ")
    button(tab, "Load and restart").click().run()
    assert deck.control.calls == [("restart", "/models/other.gguf", "torch", "tab 1")]


def test_a_model_that_is_refused_says_so_in_the_box_and_nothing_restarts() -> None:
    deck = SCENES["running"]()
    deck.control.refuse = "/no/such.gguf: no such file or directory"
    tab = open_page(deck)
    button(tab, "Load and restart").click().run()
    tab.run()
    assert plain(deck.control.refuse) in texts(tab)
    assert deck.control.state == HostState.RUNNING
    deck.control.refuse = None
    button(tab, "Load and restart").click().run()
    assert "no such file" not in texts(tab)


def test_a_start_that_failed_offers_the_model_that_ran_before() -> None:
    deck = SCENES["offline"]()
    deck.control.ran_before = "SmolLM2-135M"
    tab = open_page(deck)
    button(tab, "Back to SmolLM2-135M").click().run()
    assert deck.control.calls == [("restart", None, None, "tab 1")]


def test_the_swarms_buttons_reach_it_and_a_refusal_is_a_sentence() -> None:
    deck = SCENES["running"]()
    tab = open_page(deck)
    button(tab, "Foreground turn now").click().run()
    button(tab, "Stop swarm").click().run()
    button(tab, "Start swarm").click().run()
    assert [call[0] for call in deck.swarm.calls] == ["foreground", "stop", "start"]
    next(n for n in tab.number_input if n.label == "Agents").set_value(5).run()
    assert deck.swarm.state().agents == 5
    button(tab, "Long background turn now").click().run()
    assert "no text for a turn" in texts(tab).replace("\\", "")


def test_recording_that_fails_is_told() -> None:
    deck = SCENES["running"]()
    snapshot = deck.control.snapshot
    assert top.shown(snapshot, page_state.PLAIN, deck.recording_problem(), now=0.0)["warning"] == ""
    deck.problem = "Recording waits: /a_b is locked by another program, close it (12 records waiting in memory)."
    assert top.shown(snapshot, page_state.PLAIN, deck.recording_problem(), now=0.0)["warning"] == deck.problem


def test_names_from_outside_are_not_markup() -> None:
    deck = SCENES["failed"]()
    deck.control.error = "[click](http://x) <b>bold</b> $x$ `code`"
    text = texts(open_page(deck))
    assert "\\[click\\]" in text
    assert "\\<b\\>" in text


def test_a_thousand_refreshes_keep_nothing() -> None:
    """What a session keeps does not grow with its refreshes."""
    deck = SCENES["running"]()
    tab = open_page(deck)
    deck.control.extra_events += [
        Event(1.0, 1.0, i, EventKind.SWAP_OUT, "governor", f"swap {i}") for i in range(50)
    ]  # fmt: skip
    tab.run()
    before = sorted(tab.session_state.to_dict())
    for _ in range(5):
        deck.control.advance(1.0)
        tab.run()
    assert sorted(tab.session_state.to_dict()) == before


def test_a_turns_detail_is_asked_for_only_while_it_is_open() -> None:
    deck = SCENES["full"]()
    tab = open_page(deck)
    tab.run()
    assert deck.control.calls == []
    tab.session_state[turn_detail.KEY] = turn_detail.Opened(deck.control.snapshot.session, TurnId(4))
    tab.run()
    tab.run()
    assert deck.control.calls == [("turn_detail", 4)] * 2
    deck.control.gone.add(4)
    tab.run()
    tab.run()
    assert len(deck.control.calls) == 3, "a turn that is over is not asked for again"
    assert tab.session_state[turn_detail.KEY].detail.ended == "agent 4 cancelled while decode"


def test_this_machine_is_the_only_scale_without_a_card() -> None:
    deck = SCENES["no-card"]()
    open_page(deck)
    shown = top.shown(deck.control.snapshot, page_state.PLAIN, None, now=0.0)
    assert [value for value, *_ in shown["units"]] == ["machine"]
    assert shown["chosen"]["units"] == "machine"


def test_the_tour_is_asked_for_by_the_swarms_row() -> None:
    deck = SCENES["running"]()
    tab = open_page(deck)
    button(tab, "Tour").click().run()
    assert deck.tour.calls == ["start"]
    tab.run()
    assert "start of the tour" in texts(tab)
