"""Widgets follow the engine and never send an old value back (tabs as AppTest sessions over one engine)."""

import dataclasses
from concurrent.futures import Future
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from engine.errors import BadKnob
from engine.geometry import KVDtype
from engine.knobs import Knobs
from engine.snapshot import HostState, Snapshot
from panels.tab import KEY as TAB_NAME
from tests.panels.fake_control import FakeControl

Tab = AppTest


def sidebar() -> None:
    import streamlit as st

    from panels import knobs

    control = st.session_state["control"]
    knobs.render(control, control.snapshot)
    st.session_state["shown"] = knobs.shown(control, control.snapshot)


def open_tab(control: FakeControl, name: str | None = None) -> Tab:
    tab = AppTest.from_function(sidebar, default_timeout=30)
    tab.session_state["control"] = control
    if name is not None:
        tab.session_state[TAB_NAME] = name
    tab.run()
    assert not tab.exception
    return tab


def widget(tab: Tab, kind: str, name: str) -> Any:
    return next(w for w in tab.get(kind) if str(w.key).startswith(f"knob_{name}_"))


def sent(control: FakeControl) -> list[dict[str, object]]:
    return [call[1] for call in control.calls if call[0] == "set_knobs"]


def test_a_value_set_in_one_tab_shows_in_the_other_and_is_not_sent_back() -> None:
    control = FakeControl(at=10.0)
    a, b = open_tab(control), open_tab(control)
    widget(a, "slider", "low_watermark").set_value(70).run()
    assert control.knobs.low_watermark == pytest.approx(0.7)
    for _ in range(3):
        b.run()
        a.run()
    assert widget(b, "slider", "low_watermark").value == 70
    assert control.knobs.low_watermark == pytest.approx(0.7)
    assert sent(control) == [{"low_watermark": 0.7}]


def test_a_tab_that_outlived_its_server_is_asked_by_new_widgets() -> None:
    """What its browser still says of the old ones, under their keys, would be shown for the engine's values."""
    keys = [{str(w.key) for w in open_tab(FakeControl(at=10.0)).get("number_input")} for _ in range(2)]
    assert len(keys[0]) == len(keys[1]) == 5
    assert not keys[0] & keys[1]


def test_a_tab_that_still_shows_preview_first_sends_nothing_at_once() -> None:
    control = FakeControl(at=10.0)
    tab = AppTest.from_function(sidebar, default_timeout=30)
    tab.session_state["control"] = control
    tab.session_state["knobs_mode"] = "preview first"
    tab.run()
    widget(tab, "slider", "low_watermark").set_value(70).run()
    assert sent(control) == []


def test_opening_and_refreshing_sends_nothing() -> None:
    control = FakeControl(at=10.0)
    tabs = [open_tab(control) for _ in range(3)]
    for tab in tabs * 5:
        tab.run()
    assert control.calls == []


def test_only_the_moved_widget_is_sent() -> None:
    control = FakeControl(at=10.0)
    tab = open_tab(control)
    widget(tab, "number_input", "max_running").set_value(4).run()
    widget(tab, "selectbox", "policy").set_value("resident-only").run()
    assert sent(control) == [{"max_running": 4}, {"policy": "resident-only"}]


def test_a_change_elsewhere_gets_a_new_widget_so_that_stale_reports_concern_nobody() -> None:
    control = FakeControl(at=10.0)
    tab = open_tab(control)
    old = widget(tab, "slider", "low_watermark").key
    control.set_knobs({"low_watermark": 0.5}, author="api")
    tab.run()
    fresh = widget(tab, "slider", "low_watermark")
    assert fresh.key != old
    assert fresh.value == 50


def test_ones_own_change_keeps_the_widget() -> None:
    control = FakeControl(at=10.0)
    tab = open_tab(control)
    before = widget(tab, "slider", "high_watermark").key
    widget(tab, "slider", "high_watermark").set_value(95).run()
    tab.run()
    assert widget(tab, "slider", "high_watermark").key == before


def test_low_above_high_shows_the_sentence_and_keeps_the_old() -> None:
    control = FakeControl(at=10.0)
    tab = open_tab(control)
    widget(tab, "slider", "high_watermark").set_value(50).run()
    assert control.knobs.high_watermark == 1.0
    assert "Low watermark 90 % is above high watermark 50 %" in tab.error[0].value
    assert widget(tab, "slider", "high_watermark").value == 100
    tab.run()
    assert widget(tab, "slider", "high_watermark").value == 100


def test_a_refusal_is_gone_after_the_next_good_change() -> None:
    for good in (lambda tab, control: widget(tab, "slider", "low_watermark").set_value(40).run(),
                 lambda tab, control: control.set_knobs({"max_running": 4}, author="api")):  # fmt: skip
        control = FakeControl(at=10.0)
        tab = open_tab(control)
        widget(tab, "slider", "high_watermark").set_value(50).run()
        tab.run()
        assert tab.error
        good(tab, control)
        tab.run()
        assert not tab.error


def line(tab: Tab) -> str:
    """What stands under the knobs."""
    return str(tab.caption[0].value).replace("\\", "")


def test_the_line_under_the_knobs_says_what_was_changed_and_how_long_it_took() -> None:
    control = FakeControl(at=60.0)
    tab = open_tab(control)
    widget(tab, "button_group", "kv_dtype").set_value("q8").run()
    tab.run()
    assert line(tab) == "KV precision fp16 → q8 in 38.0 ms"


def test_another_tabs_change_is_told_with_its_author() -> None:
    control = FakeControl(at=10.0)
    tab, other = open_tab(control), open_tab(control, "tab 2")
    assert line(tab) == "Changes take effect at the next token boundary."
    widget(other, "slider", "low_watermark").set_value(70).run()
    assert line(other) == "Low watermark 90 → 70 %"
    tab.run()
    assert line(tab) == "Low watermark 90 → 70 %, by tab 2"
    widget(tab, "number_input", "max_running").set_value(4).run()
    assert line(tab) == "Slots 8 → 4"
    assert [call[2] for call in control.calls] == ["tab 2", "page"]


def test_the_snapshot_from_before_the_change_does_not_pull_the_widget_back() -> None:
    """The answer comes before the next snapshot is published."""
    control = Lagging(at=10.0)
    tab = open_tab(control)
    widget(tab, "slider", "low_watermark").set_value(60).run()
    assert control.knobs.low_watermark == pytest.approx(0.6)
    assert control.snapshot.knobs.low_watermark == pytest.approx(0.9)
    assert widget(tab, "slider", "low_watermark").value == 60
    tab.run()
    assert widget(tab, "slider", "low_watermark").value == 60
    control.published = control.knobs
    tab.run()
    assert widget(tab, "slider", "low_watermark").value == 60
    control.published = control.knobs.changed({"low_watermark": 0.5})
    control.advance(0.1)
    tab.run()
    assert widget(tab, "slider", "low_watermark").value == 50


def test_a_late_refusal_falls_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("panels.asking.PATIENCE_S", 0.01)
    control = Slow(at=10.0)
    tab = open_tab(control)
    widget(tab, "number_input", "max_running").set_value(2).run()
    assert "next token boundary" in tab.caption[0].value
    tab.run()
    assert widget(tab, "number_input", "max_running").value == 2
    control.answer.set_exception(BadKnob("max_running 2 is too few here"))
    tab.run()
    assert widget(tab, "number_input", "max_running").value == 8
    assert tab.error[0].value == "max_running 2 is too few here"


def test_an_exact_mode_precision_is_shown_as_it_is() -> None:
    control = FakeControl(at=10.0)
    control.knobs = dataclasses.replace(control.knobs, kv_dtype=KVDtype.FP32)
    tab = open_tab(control)
    assert widget(tab, "button_group", "kv_dtype").value == "fp32"
    assert control.calls == []


def drawn(tab: Tab) -> list[Any]:
    """All that the sidebar shows, but for the keys of its widgets."""
    kinds = ("slider", "number_input", "selectbox", "button_group")
    widgets: list[Any] = [found for kind in kinds for found in tab.get(kind)]
    fields = [(w.label, w.value, w.disabled) for w in widgets]
    return [fields, [text.value for text in (*tab.caption, *tab.error, *tab.markdown)]]


def test_what_the_knobs_show_is_told_by_a_value_that_time_does_not_change() -> None:
    control = FakeControl(at=10.0)
    tab = open_tab(control)
    for change in (
        lambda: control.set_knobs({"kv_dtype": "q8"}, author="api"),
        lambda: control.set_knobs({"low_watermark": 0.5, "policy": "resident-only"}, author="tab 2"),
        lambda: control.set_knobs({"low_watermark": 0.6}, author="api"),
        lambda: setattr(control, "state", HostState.FAILED),
        lambda: setattr(control, "state", HostState.RUNNING),
    ):
        tab.run()
        before, figures = tab.session_state["shown"], drawn(tab)
        assert before is not None
        control.advance(5.0)
        tab.run()
        assert (tab.session_state["shown"], drawn(tab)) == (before, figures)
        change()
        tab.run()
        assert drawn(tab) != figures
        assert tab.session_state["shown"] != before


def test_the_knobs_are_drawn_each_time_while_a_change_of_their_own_is_under_way(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("panels.asking.PATIENCE_S", 0.01)
    control = Slow(at=10.0)
    tab = open_tab(control)
    widget(tab, "number_input", "max_running").set_value(2).run()
    assert tab.session_state["shown"] is None
    control.answer.set_exception(BadKnob("max_running 2 is too few here"))
    tab.run()
    assert tab.session_state["shown"] is not None
    tab.session_state["knobs_preview_first"] = True
    widget(tab, "slider", "low_watermark").set_value(60).run()
    assert tab.session_state["shown"] is None, "a draft's preview is asked for again with each refresh"


class Lagging(FakeControl):
    published = Knobs()

    @property
    def snapshot(self) -> Snapshot:
        return dataclasses.replace(FakeControl.snapshot.fget(self), knobs=self.published)  # type: ignore[attr-defined]


class Slow(FakeControl):
    answer: "Future[Any]"

    def set_knobs(self, changes: Any, author: str = "api") -> "Future[Any]":
        self.answer = Future()
        return self.answer


def test_the_chosen_policys_own_knobs_stand_below_it_and_go_with_it() -> None:
    control = FakeControl(at=10.0)
    tab = open_tab(control)
    assert not [w for w in tab.get("number_input") if "swap-on-block" in str(w.key)]
    widget(tab, "selectbox", "policy").set_value("swap-on-block").run()
    assert any("outlasts the copy" in said.value for said in tab.markdown)
    margin = widget(tab, "number_input", "swap-on-block.margin")
    assert (margin.label, margin.value, margin.min, margin.max) == ("Margin, x", 2.0, 0.0, 1000.0)
    control.advance(1.0)
    margin.set_value(3.5).run()
    assert not tab.exception
    assert sent(control)[-1] == {"swap-on-block.margin": 3.5}
    assert line(tab) == "Margin of swap-on-block 2 → 3.5 x"
    assert widget(tab, "number_input", "swap-on-block.margin").value == 3.5
    widget(tab, "selectbox", "policy").set_value("resident-only").run()
    assert not tab.exception
    assert not [w for w in tab.get("number_input") if "swap-on-block" in str(w.key)]


def test_a_draft_of_a_policy_shows_its_knobs_and_both_are_one_change() -> None:
    control = FakeControl(at=10.0)
    tab = open_tab(control)
    tab.get("button_group")[0].set_value("preview first").run()
    widget(tab, "selectbox", "policy").set_value("min-waste").run()
    widget(tab, "number_input", "min-waste.overlap").set_value(50.0).run()
    assert sent(control) == []
    tab.button(key="knobs_apply").click().run()
    assert not tab.exception
    assert sent(control) == [{"policy": "min-waste", "min-waste.overlap": 50.0}]
    assert control.knobs.parameters == (("min-waste.overlap", 50.0),)
