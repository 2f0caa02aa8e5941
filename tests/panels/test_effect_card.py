"""The effect card over the scripted engine: its words, its undo, its tabs."""

from concurrent.futures import Future
from dataclasses import replace
from typing import Any

import pytest

from engine.changes import changes, latest_change
from engine.effect import Compared, Effect, Figure, Stage, effect
from engine.errors import BadKnob
from engine.events import Event, EventKind
from engine.geometry import KVDtype
from panels import effect_card, effect_words, tab
from panels.effect_words import Cell
from panels.scale import Scale
from tests.app.test_live_page import open_page
from tests.browser.scenes import running
from tests.panels.fake_control import CARD, GIB, MODELLED, FakeControl
from tests.panels.fake_deck import FakeTwin


def shown(control: FakeControl) -> Effect:
    change = latest_change(control.events())
    assert change is not None
    return effect(change, control.events(), control.samples(), control.at)


def cells(found: Effect, control: FakeControl, scale: Scale | None = None) -> dict[str, Cell]:
    told = effect_words.cells(found, scale or Scale(CARD), control.snapshot.bands)
    return {cell.key: cell for cell in told}


def switched(at: float = 112.0) -> FakeControl:
    return replace(running(at).control, start_utc=1_790_000_000.0)


def test_six_figures_before_and_after_with_units_and_spread() -> None:
    control = switched()
    found = shown(control)
    told = cells(found, control)
    assert list(told) == ["headroom", "paused_fit", "itl", "decode", "swaps", "recomputed"]
    assert found.headroom.before is not None
    assert told["headroom"].value.startswith(f"{CARD.factor * found.headroom.before.value / GIB:.2f} → ")
    assert (told["headroom"].unit, told["headroom"].verdict, told["headroom"].tone) == ("GiB", "✓ better", "better")
    assert told["itl"].unit == "ms"
    assert told["swaps"].spread == "0 → 0 per sixth"
    assert told["swaps"].verdict in ("= the same", "≈ within noise")
    assert all("–" in told[key].spread for key in ("headroom", "itl"))
    assert told["headroom"].said.startswith("Headroom: before ")
    assert told["headroom"].said.endswith(" GiB; better")


def test_this_machines_bytes_are_another_unit() -> None:
    control = switched()
    assert cells(shown(control), control, Scale(None))["headroom"].unit == "MiB"


def test_what_was_not_measured_is_no_number() -> None:
    control = FakeControl(at=40.0, empty=True)
    control.set_knobs({"max_running": 4}, author="cli")
    control.advance(20.0)
    told = cells(shown(control), control)
    for key in ("itl", "decode"):
        assert (told[key].value, told[key].spread, told[key].verdict) == ("n/a", "", "not measured")
    assert told["swaps"].value == "0 → 0"


def test_less_is_better_for_latency_swaps_and_recomputed_tokens() -> None:
    control = switched()
    up, down = Compared(Figure(1, 1, 1), Figure(2, 2, 2)), Compared(Figure(2, 2, 2), Figure(1, 1, 1))
    every = {"headroom": up, "paused_fit": up, "decode": up, "itl": down, "swaps": down, "recomputed": down}
    found = shown(control)
    assert {c.tone for c in cells(replace(found, **every), control).values()} == {"better"}
    turned = {name: down if compared is up else up for name, compared in every.items()}
    assert {c.verdict for c in cells(replace(found, **turned), control).values()} == {"✗ worse"}


@pytest.mark.parametrize(
    ("stage", "after_s", "words"),
    [
        (Stage.GROWING, 0.0, "Measuring; the first figures come after a second."),
        (Stage.GROWING, 12.0, "12 s before and 12 s after so far. Medians"),
        (Stage.DONE, 30.0, "30 s before and 30 s after. Medians"),
        (Stage.DONE, 7.0, "7 s before and 7 s after, since the session's start. Medians"),
        (Stage.NO_BEFORE, 0.0, "Nothing to compare with: less than a second lies between the session's start"),
        (Stage.NO_AFTER, 0.0, "the next change came within a second"),
        (Stage.GONE, 0.0, "Too long ago to be measured now"),
    ],
)
def test_the_spans_are_told(stage: Stage, after_s: float, words: str) -> None:
    found = Effect(changes(switched().events())[-1], stage, after_s, after_s)
    assert words in effect_words.note(found)


def test_what_cuts_the_spans_is_named() -> None:
    control = switched()
    found = replace(shown(control), stage=Stage.DONE, before_s=4.0, after_s=4.0)
    before = Event(86.0, 86.0, 0, EventKind.SWARM, "tab 2", "swarm speed 1 -> 2")
    assert "4 s after, since swarm speed 1 -> 2." in effect_words.note(replace(found, previous=before))
    after = replace(before, at=94.0)
    assert "4 s after, until swarm speed 1 -> 2." in effect_words.note(replace(found, next=after))


def test_the_card_names_all_knobs_who_changed_them_when_and_how_long_it_took() -> None:
    control = FakeControl(at=60.0)
    control.set_knobs({"kv_dtype": "q8", "max_running": 4}, author="tab 2")
    control.advance(5.0)
    data = effect_card.card(shown(control), control.snapshot, Scale(CARD), None)
    assert data["title"] == "KV precision fp16 → q8; Slots 8 → 4"
    assert data["meta"] == ["by tab 2", "14:14:20 UTC", "step 1,200", "took 38.0 ms"]
    assert data["told"] == ""
    assert data["can_undo"]


def test_undo_sets_every_knob_of_the_change_back_and_is_a_change_itself() -> None:
    control = FakeControl(at=60.0)
    control.set_knobs({"kv_dtype": "q8", "low_watermark": 0.5}, author="tab 2")
    control.advance(5.0)
    first = shown(control).change
    undone = effect_card.undo(control, FakeTwin(control), first.key, "tab 1")
    assert control.calls[-1] == ("set_knobs", {"kv_dtype": KVDtype.FP16, "low_watermark": 0.9}, "tab 1")
    assert undone.answer.text == "Undone: KV precision is fp16 again, Low watermark is 90 % again."
    back = shown(control).change
    assert (back.text, back.author) == ("KV precision q8 → fp16; Low watermark 50 → 90 %", "tab 1")
    data = effect_card.card(shown(control), control.snapshot, Scale(CARD), undone)
    assert data["told"] == undone.answer.text
    control.advance(60.0)
    assert effect_card.card(shown(control), control.snapshot, Scale(CARD), undone)["told"] == ""


def test_a_knob_that_was_changed_since_is_not_undone() -> None:
    control = FakeControl(at=60.0)
    control.set_knobs({"kv_dtype": "q8", "low_watermark": 0.5}, author="tab 1")
    key = shown(control).change.key
    control.advance(5.0)
    control.set_knobs({"low_watermark": 0.7}, author="tab 2")
    asked = len(control.calls)
    undone = effect_card.undo(control, FakeTwin(control), key, "tab 1")
    assert undone.answer.tone == "bad"
    assert undone.answer.text == "Not undone: Low watermark was changed since by tab 2, to 70 %, at step 1,300."
    assert len(control.calls) == asked
    assert control.knobs.kv_dtype is KVDtype.Q8
    assert "no longer known" in effect_card.undo(control, FakeTwin(control), "another", "tab 1").answer.text


def test_another_knob_that_was_changed_since_does_not_hinder() -> None:
    control = FakeControl(at=60.0)
    control.set_knobs({"kv_dtype": "q8"}, author="tab 1")
    key = shown(control).change.key
    control.set_knobs({"max_running": 3}, author="tab 2")
    assert effect_card.undo(control, FakeTwin(control), key, "tab 1").answer.tone == "good"
    assert (control.knobs.kv_dtype, control.knobs.max_running) == (KVDtype.FP16, 3)


class Slow(FakeControl):
    answer: "Future[Any]"

    def set_knobs(self, changes: Any, author: str = "api") -> "Future[Any]":
        self.answer = Future()
        return self.answer


def test_an_undo_that_the_engine_refuses_late_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("panels.asking.PATIENCE_S", 0.01)
    control = Slow(at=112.0)
    asked = effect_card.undo(control, FakeTwin(control), shown(control).change.key, "tab 1")
    assert asked.answer.tone == "wait"
    assert effect_card.settled(asked) is asked
    control.answer.set_exception(BadKnob("agent 1 has 9,000 tokens"))
    assert effect_card.settled(asked).answer.text == "agent 1 has 9,000 tokens"


def test_an_engine_that_does_not_run_cannot_be_undone() -> None:
    control = switched()
    found = shown(control)
    stopped = replace(control.snapshot, state=type(control.state).STOPPED)
    assert not effect_card.card(found, stopped, Scale(CARD), None)["can_undo"]


# -- tabs -------------------------------------------------------------------------------------------------------------


def test_tabs_are_numbered_as_they_are_opened_and_keep_their_names() -> None:
    deck = running()
    first, second = open_page(deck), open_page(deck)
    first.run()
    assert [t.session_state[tab.KEY] for t in (first, second)] == ["tab 1", "tab 2"]
    low = next(s for s in second.slider if s.label == "Low watermark")
    low.set_value(70).run()
    next(b for b in second.button if b.label == "Stop swarm").click().run()
    assert deck.control.calls[-1][2] == "tab 2"
    assert deck.swarm.authors == ["tab 2"]


def test_a_complete_measurement_stays_and_a_dismissed_card_comes_back_with_the_next_change() -> None:
    deck = running(121.0)
    page = open_page(deck)
    kept = page.session_state[effect_card.MEASURED]
    assert kept.stage is Stage.DONE
    deck.control.advance(200.0)
    page.run()
    assert page.session_state[effect_card.MEASURED] == kept
    page.session_state[effect_card.DISMISSED] = kept.change.key
    page.run()
    assert not page.exception
    deck.control.set_knobs({"max_running": 3}, author="api")
    deck.control.advance(31.0)
    page.run()
    assert page.session_state[effect_card.MEASURED].change.author == "api"


def test_a_change_of_the_twins_card_is_measured_and_taken_back_as_one_of_knobs() -> None:
    control = switched()
    control.modelled = MODELLED
    twin = FakeTwin(control)
    told = Event(control.at, control.start_utc + control.at, 1, EventKind.CARD, "tab 1", "Copy to host 50 → 25 GB/s",
                 name="link_out", old="50000000000.0", new="25000000000.0")  # fmt: skip
    control.extra_events.append(told)
    control.advance(20.0)
    found = shown(control)
    assert found.change.events == (told,)
    assert found.stage is Stage.GROWING
    data = effect_card.card(found, control.snapshot, Scale(None), None)
    assert (data["title"], data["can_undo"]) == ("Copy to host 50 → 25 GB/s", True)
    undone = effect_card.undo(control, twin, found.change.key, "tab 1")
    assert twin.calls == [("set", {"link_out": 50e9}, "tab 1")]
    assert undone.answer.text == "Undone: Copy to host is 50 GB/s again."
    control.modelled = None
    assert not effect_card.card(found, control.snapshot, Scale(None), None)["can_undo"]
