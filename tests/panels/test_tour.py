"""What the tour's band shows, and what a press of it asks for."""

from dataclasses import replace

import pytest
from streamlit.testing.v1 import AppTest

from engine.snapshot import HostState
from engine.workload.tour.state import Phase, Status, StepView, TourState
from panels import tour
from tests.app.test_live_page import button, open_page, texts
from tests.browser.scenes import SCENES
from tests.panels.fake_control import FakeControl

STEPS = (StepView("Fill the slots", "Fill", "It fills. It does.", "here", "running_kv", Status.SEEN, "8 of 8"),)
LED = TourState(Phase.RUNNING, STEPS, 0, "me", 1_700_000_000.0)
EMPTY = FakeControl(state=HostState.IDLE, at=9.0, empty=True).snapshot
BUSY = FakeControl(at=80.0).snapshot


def mode(state: TourState, tab: str = "me", swarm: bool = False) -> str:
    return str(tour.band(state, tab, EMPTY, swarm)["mode"])


def test_the_tab_that_leads_has_the_buttons_and_others_watch() -> None:
    assert mode(LED) == "lead"
    data = tour.band(LED, "other", EMPTY, swarm_runs=False)
    assert data["mode"] == "watch"
    assert data["led"] == "Led by me since 22:13:20 UTC; this one watches."
    assert data["steps"][0]["status"] == "seen"


def test_an_empty_deck_offers_it_and_a_busy_one_does_not() -> None:
    assert mode(TourState()) == "offer"
    assert mode(TourState(), swarm=True) == "none"
    assert tour.band(TourState(), "me", BUSY, swarm_runs=False)["mode"] == "none"


def test_its_end_says_what_was_put_back_and_offers_the_swarm_that_ran() -> None:
    over = replace(LED, phase=Phase.OVER, note="Put back: all.", swarm_ran=True)
    data = tour.band(over, "me", EMPTY, swarm_runs=False)
    assert (data["mode"], data["note"], data["swarm"]) == ("over", "Put back: all.", True)
    assert not tour.band(over, "me", EMPTY, swarm_runs=True)["swarm"]
    assert not tour.band(replace(over, swarm_ran=False), "me", EMPTY, swarm_runs=False)["swarm"]
    assert mode(replace(over, phase=Phase.ENDING)) == "ending"


def press_script() -> None:
    import streamlit as st

    from panels import tour

    deck = st.session_state["deck"]
    st.caption(tour._press(deck.tour, deck.swarm, "tab 1", st.session_state["verb"]))


def pressed(verb: str, refuse: str = "") -> tuple[list[str], str]:
    deck = SCENES["empty"]()
    deck.tour.refuse = refuse
    tab = AppTest.from_function(press_script)
    tab.session_state["deck"], tab.session_state["verb"] = deck, verb
    tab.run()
    assert not tab.exception
    return [*deck.tour.calls, *(call[0] for call in deck.swarm.calls)], tab.caption[0].value


@pytest.mark.parametrize("verb", ["start", "act", "next", "leave", "close"])
def test_a_press_asks_the_tour_and_a_refusal_is_a_sentence(verb: str) -> None:
    assert pressed(verb) == ([verb], "")
    assert pressed(verb, "no tour runs; start one") == ([], "No tour runs; start one.")


def test_the_swarm_is_started_again_from_the_end() -> None:
    assert pressed("swarm") == (["close", "start"], "")


def test_the_button_in_the_swarms_row_starts_it_and_rests_while_one_runs() -> None:
    deck = SCENES["running"]()
    tab = open_page(deck)
    button(tab, "Tour").click().run()
    assert deck.tour.calls == ["start"]
    assert "start of the tour" in texts(tab)
    deck.tour.now = LED
    tab.run()
    assert button(tab, "Tour").disabled


def test_the_button_says_why_it_cannot_start() -> None:
    deck = SCENES["running"]()
    deck.tour.refuse = "this machine is being measured; wait for that"
    tab = open_page(deck)
    button(tab, "Tour").click().run()
    assert "this machine is being measured" in texts(tab)


@pytest.mark.parametrize("scene", ["starting", "failed", "offline"])
def test_it_rests_without_an_engine_and_a_tour_that_ended_with_it_says_so(scene: str) -> None:
    deck = SCENES[scene]()
    deck.tour.now = replace(LED, phase=Phase.OVER, note="The engine failed in step 2 of the tour, which ends here.")
    tab = open_page(deck)
    assert [b.disabled for b in tab.button if b.label == "Tour"] in ([], [True])
