"""A preview before a change: the sentence, and the sidebar in both modes (tabs as AppTest sessions over one engine)."""

from concurrent.futures import Future
from dataclasses import replace
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from engine.errors import BadKnob
from engine.geometry import KVDtype
from engine.knobs import Knobs
from engine.preview import Leaver, Preview
from engine.turn import Tier, TurnId
from panels.preview_words import sentence
from tests.panels.fake_control import FakeControl
from tests.panels.test_following import open_tab, sent, widget

MIB = 1 << 20
OLD = Knobs()
AGENTS = {TurnId(1): "agent 3", TurnId(2): "agent 7", TurnId(3): "agent 9"}


def preview(**changes: object) -> Preview:
    return Preview(OLD, OLD.changed(changes), (), (), (), (), 0, 0, 0, 0, 0.0, 0.0, 0.0, 0.0, 528, 16)


def out(turn: int, to: Tier = Tier.HOST, was: Tier = Tier.RESIDENT) -> Leaver:
    return Leaver(TurnId(turn), was, to, 28 * MIB, 640)


def told(shown: Preview) -> str:
    return sentence(shown, AGENTS, 768)


def test_a_switch_that_moves_nobody_says_what_it_converts_and_what_fits_then() -> None:
    shown = replace(preview(kv_dtype="q8"), converted_bytes=41 * MIB, convert_s=0.005)
    assert told(shown) == "q8: 0 turns leave; 41.0 MiB converted, about 5.00 ms; then 11 average paused turns fit"


def test_a_switch_that_was_never_measured_says_so() -> None:
    shown = replace(preview(kv_dtype="q8"), converted_bytes=41 * MIB, convert_s=None)
    assert "41.0 MiB converted, time not yet measured" in told(shown)


def test_those_who_leave_are_named_with_bytes_and_time() -> None:
    shown = replace(preview(high_watermark=0.6, low_watermark=0.5), leave=(out(1), out(2), out(3)))
    shown = replace(shown, copied_bytes=84 * MIB, copied_s=0.021)
    assert told(shown) == (
        "High watermark 60 %, Low watermark 50 %: agent 3 and 2 more leave, 84.0 MiB to host, about 21.0 ms"
    )


def test_one_who_is_dropped_is_computed_again_later() -> None:
    shown = replace(preview(policy="recompute-only"), leave=(out(2, Tier.DROPPED),))
    shown = replace(shown, recompute_tokens=640, recompute_s=1.5)
    assert told(shown) == "recompute-only: agent 7 leaves, 640 tokens to recompute later, about 1.50 s"


def test_slots_host_copies_and_ends_have_their_words() -> None:
    shown = replace(preview(max_running=4), lose_slot=(TurnId(1), TurnId(8)))
    assert told(shown) == "Slots 4: agent 3 and 1 more lose their slots"
    assert told(replace(preview(max_running=4), lose_slot=(TurnId(8),))) == "Slots 4: turn 8 loses its slot"
    shown = replace(preview(host_pool_bytes=MIB), leave=(out(1, Tier.DROPPED, Tier.HOST),))
    shown = replace(shown, recompute_tokens=640, recompute_s=1.5)
    assert told(shown).endswith("agent 3 loses its host copy, 640 tokens to recompute later, about 1.50 s")
    shown = replace(preview(max_running=12), get_slot=((TurnId(1), Tier.HOST), (TurnId(2), Tier.NONE)))
    shown = replace(shown, brought_bytes=28 * MIB, brought_s=0.007)
    assert told(shown) == "Slots 12: agent 3 comes back from host, 28.0 MiB, about 7.00 ms; agent 7 gets a slot"
    assert told(preview(max_running=9)) == "Slots 9: nothing moves now"


# -- the sidebar ------------------------------------------------------------------------------------------------------


def first(tab: AppTest) -> AppTest:
    """The tab, previewing."""
    mode(tab, "preview first")
    return tab


def mode(tab: AppTest, name: str) -> None:
    choice: Any = next(w for w in tab.get("button_group") if w.key == "knobs_mode")
    choice.set_value(name).run()
    assert not tab.exception


def press(tab: AppTest, label: str) -> None:
    next(b for b in tab.button if b.label == label).click().run()
    assert not tab.exception


def text(tab: AppTest) -> str:
    shown = [*(m.value for m in tab.markdown), *(c.value for c in tab.caption), *(e.value for e in tab.error)]
    return "\n".join(shown).replace("\\", "").replace("**", "")


def previews(control: FakeControl) -> list[dict[str, object]]:
    return [call[1] for call in control.calls if call[0] == "preview"]


def engine_at(at: float = 112.0) -> FakeControl:
    control = FakeControl(at=at)
    control.knobs = replace(control.knobs, kv_dtype=KVDtype.Q8)
    return control


def test_at_once_nothing_is_previewed() -> None:
    control = engine_at()
    tab = open_tab(control)
    widget(tab, "slider", "low_watermark").set_value(70).run()
    assert sent(control) == [{"low_watermark": 0.7}]
    assert previews(control) == []
    assert all(b.label != "Apply" for b in tab.button)


def test_a_moved_knob_is_previewed_and_not_sent_until_applied() -> None:
    control = engine_at()
    tab = first(open_tab(control))
    widget(tab, "slider", "low_watermark").set_value(50).run()
    assert sent(control) == []
    assert previews(control)[-1] == {"low_watermark": 0.5}
    assert "Low watermark 50 %: " in text(tab)
    assert ":orange[not applied], engine: 90 %" in text(tab)
    assert control.knobs.low_watermark == pytest.approx(0.9)
    press(tab, "Apply")
    assert sent(control) == [{"low_watermark": 0.5}]
    tab.run()
    assert "not applied" not in text(tab)
    assert "Low watermark 90 → 50 %" in text(tab)
    assert widget(tab, "slider", "low_watermark").value == 50


def test_several_moved_knobs_apply_as_one_change() -> None:
    control = engine_at()
    tab = first(open_tab(control))
    widget(tab, "slider", "high_watermark").set_value(60).run()
    assert "Low watermark 90 % is above high watermark 60 %" in text(tab)
    assert next(b for b in tab.button if b.label == "Apply").disabled
    widget(tab, "slider", "low_watermark").set_value(50).run()
    widget(tab, "button_group", "kv_dtype").set_value("fp16").run()
    assert "fp16, High watermark 60 %, Low watermark 50 %: " in text(tab)
    press(tab, "Apply")
    assert sent(control) == [{"kv_dtype": "fp16", "high_watermark": 0.6, "low_watermark": 0.5}]
    tab.run()
    assert "High watermark 100 → 60 %; Low watermark 90 → 50 %" in text(tab)


def test_discard_shows_the_engines_values_and_sends_nothing() -> None:
    control = engine_at()
    tab = first(open_tab(control))
    widget(tab, "slider", "low_watermark").set_value(50).run()
    widget(tab, "number_input", "max_running").set_value(3).run()
    press(tab, "Discard")
    assert widget(tab, "slider", "low_watermark").value == 90
    assert widget(tab, "number_input", "max_running").value == 8
    assert sent(control) == []
    assert "not applied" not in text(tab)


def test_moved_back_there_is_nothing_to_apply() -> None:
    control = engine_at()
    tab = first(open_tab(control))
    widget(tab, "slider", "low_watermark").set_value(50).run()
    widget(tab, "slider", "low_watermark").set_value(90).run()
    assert "not applied" not in text(tab)
    assert all(b.label != "Apply" for b in tab.button)


def test_another_tabs_change_shows_beside_a_draft_and_in_the_other_widgets() -> None:
    control = engine_at()
    tab = first(open_tab(control))
    widget(tab, "slider", "low_watermark").set_value(50).run()
    key = widget(tab, "slider", "low_watermark").key
    control.set_knobs({"low_watermark": 0.7, "max_running": 4}, author="api")
    control.calls.clear()
    tab.run()
    assert widget(tab, "slider", "low_watermark").key == key
    assert widget(tab, "slider", "low_watermark").value == 50
    assert "not applied], engine: 70 %, by api" in text(tab)
    assert widget(tab, "number_input", "max_running").value == 4
    for _ in range(3):
        tab.run()
    assert sent(control) == []
    control.set_knobs({"low_watermark": 0.5}, author="api")
    tab.run()
    assert "not applied" not in text(tab)
    control.set_knobs({"low_watermark": 0.6}, author="api")
    control.advance(1.0)
    tab.run()
    assert widget(tab, "slider", "low_watermark").value == 60


def test_at_once_again_discards_what_is_not_applied() -> None:
    control = engine_at()
    tab = first(open_tab(control))
    widget(tab, "slider", "low_watermark").set_value(50).run()
    mode(tab, "apply at once")
    assert widget(tab, "slider", "low_watermark").value == 90
    assert sent(control) == []


def test_the_preview_follows_the_state() -> None:
    control = engine_at(60.0)
    tab = first(open_tab(control))
    widget(tab, "button_group", "kv_dtype").set_value("fp16").run()
    before = text(tab)
    asked = len(previews(control))
    control.advance(60.0)
    tab.run()
    assert len(previews(control)) == asked + 1
    assert text(tab) != before


def test_an_engine_in_a_long_step_is_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("panels.preview_box.PATIENCE_S", 0.01)
    control = Busy(at=112.0)
    tab = first(open_tab(control))
    widget(tab, "number_input", "max_running").set_value(3).run()
    tab.run()
    assert len(control.asked) == 1
    assert "Asked what it would do" in text(tab)
    control.asked[0].set_exception(BadKnob("Slots 3 are too few here"))
    tab.run()
    assert "Slots 3 are too few here" in text(tab)


class Busy(FakeControl):
    @property
    def asked(self) -> "list[Future[Any]]":
        return [call[1] for call in self.calls if call[0] == "asked"]

    def preview(self, changes: Any) -> "Future[Any]":
        future: Future[Any] = Future()
        self.calls.append(("asked", future))
        return future
