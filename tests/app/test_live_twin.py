"""The twin on the Live page, over the scripted engine: the click there and back, pace, the card's sliders.

pytest tests/app/test_live_twin.py
"""

import math
from dataclasses import replace
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from engine.events import Event, EventKind
from engine.snapshot import HostState
from panels import page_state, side, stack, stack_layout, top, twin_box
from panels.palette import palette
from panels.scale import scale_for
from tests.app.test_live_page import button, open_page, texts
from tests.app.test_shape import Watched, live_script
from tests.browser.scenes import SCENES
from tests.panels.fake_control import MODELLED, OWN
from tests.panels.fake_deck import FakeDeck

GIB = 1 << 30


def twin_deck() -> FakeDeck:
    deck = SCENES["running"]()
    deck.control.modelled = MODELLED
    return deck


def slider(tab: AppTest, label: str) -> Any:
    return next(one for one in tab.select_slider if one.label == label)


def test_one_click_starts_the_twin_and_says_what_happens() -> None:
    deck = SCENES["running"]()
    tab = open_page(deck)
    button(tab, "Twin: RX 9070 XT").click().run()
    assert deck.twin.calls == [("start", "rx9070xt", "tab 1")]
    assert "the twin of RX 9070 XT starts in its place" in texts(tab)
    button(tab, "Back to the real engine").click().run()
    assert deck.twin.calls[1:] == [("leave", "tab 1")]
    assert "on torch starts again" in texts(tab)
    assert button(tab, "Twin: RX 9070 XT")


def test_a_refused_start_is_a_sentence_and_nothing_changes() -> None:
    deck = SCENES["running"]()
    deck.twin.refuse = "card rx9070xt has no preset that the twin can run"
    tab = open_page(deck)
    button(tab, "Twin: RX 9070 XT").click().run()
    assert "no preset that the twin can run" in texts(tab).replace("\\", "")
    assert button(tab, "Twin: RX 9070 XT")


@pytest.mark.parametrize("state", [HostState.FAILED, HostState.STOPPED, HostState.STARTING])
def test_a_twin_that_does_not_run_still_leaves_the_way_back(state: HostState) -> None:
    deck = twin_deck()
    deck.control.state = state
    tab = open_page(deck)
    button(tab, "Back to the real engine").click().run()
    assert deck.twin.calls == [("leave", "tab 1")]


def test_the_pace_is_chosen_and_told() -> None:
    deck = twin_deck()
    tab = open_page(deck)
    assert "Modelled time: 1x real time." in texts(tab)
    pace = next(group for group in tab.button_group if "100x" in group.options)
    assert list(pace.options) == ["1x", "10x", "100x", "max"]
    pace.set_value(math.inf).run()
    assert deck.twin.calls == [("set", {"pace": math.inf}, "tab 1")]
    assert deck.control.modelled is not None
    deck.control.modelled = replace(deck.control.modelled, kept=140.0)
    tab.run()
    assert "Modelled time: as fast as it goes. Lately 140x." in texts(tab)


def test_a_slider_is_sent_alone_marked_against_the_card_and_reset() -> None:
    deck = twin_deck()
    tab = open_page(deck)
    assert button(tab, "Reset to the card").disabled
    slider(tab, "Copy to host, GB/s").set_value(25e9).run()
    assert deck.twin.calls == [("set", {"link_out": 25e9}, "tab 1")]
    tab.run()
    assert "changed], card: 50 GB/s" in texts(tab)
    assert slider(tab, "Copy to host, GB/s").value == 25e9
    button(tab, "Reset to the card").click().run()
    assert deck.twin.calls[1:] == [("set", {"link_out": 50e9}, "tab 1")]
    tab.run()
    assert "changed]" not in texts(tab)


def test_a_refused_change_is_told_and_the_slider_goes_back() -> None:
    deck = twin_deck()
    tab = open_page(deck)
    deck.twin.refuse = "Usable memory of 8.00 GiB leaves 2.00 GiB beside weights and runtime"
    slider(tab, "Usable memory, GiB").set_value(8.0 * GIB).run()
    assert "Usable memory of 8.00 GiB leaves" in texts(tab).replace("\\", "")
    tab.run()
    assert slider(tab, "Usable memory, GiB").value == 15.5 * GIB


def test_another_tabs_change_is_shown() -> None:
    deck = twin_deck()
    tab = open_page(deck)
    deck.twin.set_card({"prefill": 481.0, "overlap": True}, "tab 2")
    tab.run()
    assert slider(tab, "Prefill rate, tok/s").value == 481.0
    assert next(one for one in tab.toggle if one.label == "Copies overlap the steps").value


def test_the_sliders_offer_the_cards_own_and_stay_in_range() -> None:
    for name, own in OWN:
        offered = twin_box.stops(name, own, own)
        assert own in offered
        assert len(offered) > 10
        assert min(offered) > 0
    assert twin_box.stops("decode_per_turn", 0.0, 0.0)[:3] == [0.0, 0.0001, 0.0002]
    assert 7e9 in twin_box.stops("link_out", 50e9, 7e9)


def test_the_box_is_drawn_again_only_when_something_of_it_has_changed() -> None:
    deck = SCENES["running"]()
    tab = open_page(deck)
    tab.run()
    before = tab.session_state["drawn"]["twin"]
    assert before is not None
    deck.control.advance(5.0)
    tab.run()
    assert tab.session_state["drawn"]["twin"] == before
    deck.control.modelled = MODELLED
    tab.run()
    assert tab.session_state["drawn"]["twin"] != before


def test_modelled_is_said_in_the_head_on_the_charts_and_in_their_files() -> None:
    control = twin_deck().control
    snapshot = control.snapshot
    head = top.shown(snapshot, page_state.PLAIN, None, now=control.now)
    assert head["modelled"]
    assert head["line"].startswith("modelled: 9B at Q4_K_M on the twin of RX 9070 XT")
    assert [text for _, text, _ in head["units"]] == ["the card"]
    scale = scale_for(snapshot, "card scale")
    assert scale.label == "modelled, nothing measured: profile of RX 9070 XT"
    data = stack.stack_data(snapshot, control.samples(), control.events(), scale, 600.0)
    spec = stack.spec(data, "dark")
    assert "Modelled, nothing measured" in spec["layout"]["title"]["text"]
    assert spec["layout"]["yaxis"]["title"]["text"].endswith(", modelled")
    assert "modelled, nothing measured" in spec["alt"]
    assert side.pool(snapshot, scale).tokens.endswith("modelled")
    real = top.shown(SCENES["running"]().control.snapshot, page_state.PLAIN, None, now=control.now)
    assert not real["modelled"]


def test_the_age_of_figures_is_in_real_seconds() -> None:
    control = twin_deck().control
    control.modelled = replace(MODELLED, pace=100.0)
    assert top.age_s(control.snapshot, control.now + 50.0) == 0.5
    control.modelled = replace(MODELLED, pace=math.inf)
    assert top.age_s(control.snapshot, control.now + 50.0) == 0.0


def test_changes_of_the_card_are_marks_and_rows() -> None:
    control = twin_deck().control
    utc = control.start_utc + 100.0
    told = [
        Event(100.0, utc + i, 1, EventKind.CARD, "tab 1", text, name=name, old="1", new=new)
        for i, (name, new, text) in enumerate(
            (("pace", "10.0", "Pace 1x → 10x"), ("link_out", "25e9", "Copy to host 50 → 25 GB/s"),
             ("overlap", "True", "Overlap of copies off → on"))
        )
    ]  # fmt: skip
    assert [stack_layout.mark_label(event) for event in told] == ["10x", "copy to host", "overlap on"]
    assert len(stack_layout.marks(told, utc - 1, utc + 9, palette("dark"))["shapes"]) == 3
    assert {row["tone"] for row in side.event_rows(told, scale_for(control.snapshot, None))} == {"knob"}


def test_the_page_keeps_its_shape_as_the_twin_comes_and_goes() -> None:
    deck = SCENES["running"]()
    tab = Watched(live_script, deck)
    tab.look("real")
    for state in HostState:
        for card in (MODELLED, replace(MODELLED, pace=10.0, kept=8.0), None):
            deck.control.modelled = card
            deck.control.state = state
            tab.look(f"{state}, {card}")
    deck.control.state = HostState.RUNNING
    deck.control.modelled = MODELLED
    tab.look("twin")
    slider(tab.tab, "Copy to host, GB/s").set_value(25e9)
    tab.look("a slider")
    deck.twin.refuse = "this is refused"
    slider(tab.tab, "Copy to host, GB/s").set_value(50e9)
    tab.look("refused")
