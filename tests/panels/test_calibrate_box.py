"""The box that measures this machine: what it says before, meanwhile and after, and the charts of what came out."""

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from engine.calibration.calibrator import Measured
from engine.calibration.card import Machine, card_of
from engine.calibration.fit import fit_decode
from engine.calibration.probes import EngineFacts
from engine.cards.profile import CardProfile, CopyPoint, DecodePoint, PrefillPoint
from engine.cards.store import save
from engine.geometry import KVDtype, KVGeometry
from panels.calibrate_box import tiles, where_and_when
from panels.calibrate_charts import copies_spec, prefill_spec
from panels.deck_view import CalibrationState
from panels.palette import palette
from tests.browser.scenes import SCENES
from tests.panels.fake_control import FakeControl
from tests.panels.fake_deck import FakeDeck

OWN = 368_640
GEOMETRY = KVGeometry(30, 3, 64)


def machine_card(copies: tuple[int, ...] = (65_536, OWN, 1 << 20)) -> CardProfile:
    memory = FakeControl(at=60).snapshot.memory
    assert memory is not None
    memory = replace(memory, block_bytes=OWN)
    facts = EngineFacts("torch", GEOMETRY, KVDtype.FP16, 16, 8192, copies, memory)
    grid = [(turns, context, turns * context * 23_040) for turns in (1, 8) for context in (64, 768)]
    decodes = tuple(DecodePoint(t, c, nbytes, 0.006 + t * 0.0006 + nbytes * 1.2e-10) for t, c, nbytes in grid)
    measured = Measured(
        facts,
        tuple(CopyPoint(nbytes, 5e9 + nbytes, 4e9 + nbytes) for nbytes in copies),
        (PrefillPoint(16, 400.0), PrefillPoint(256, 700.0)),
        decodes,
        fit_decode(decodes),
        12.0,
    )
    return card_of(measured, Machine("AMD EPYC, 2 cores", "8 GiB of memory", "tiny [model]", 1_700_000_000.0), 8, 256)


@pytest.fixture(autouse=True)
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PARKDECK_CONFIG_DIR", str(tmp_path))


def script() -> None:
    import streamlit as st

    from panels import calibrate_box

    calibrate_box.render(st.session_state["deck"])


def box(deck: FakeDeck | None) -> AppTest:
    tab = AppTest.from_function(script, default_timeout=60)
    tab.session_state["deck"] = deck
    tab.run()
    assert not tab.exception, tab.exception
    return tab


def texts(tab: AppTest) -> str:
    return "\n".join(one.value.replace("\\", "") for kind in (tab.markdown, tab.caption) for one in kind)


def test_without_an_engine_it_says_how_else() -> None:
    tab = box(None)
    assert "parkdeck calibrate" in texts(tab)
    assert not tab.button


@pytest.mark.parametrize(
    ("scene", "sentence"), [("starting", "still starting"), ("failed", "has failed"), ("offline", "has failed")]
)
def test_an_engine_that_does_not_run_cannot_be_measured(scene: str, sentence: str) -> None:
    tab = box(SCENES[scene]())
    assert sentence in texts(tab)
    assert tab.button[0].disabled


def test_it_says_beforehand_what_it_does_and_a_click_starts_it() -> None:
    deck = SCENES["running"]()
    tab = box(deck)
    assert "Stops the swarm for about 50 s" in texts(tab)
    assert "Not measured yet." in texts(tab)
    tab.button[0].click().run()
    assert deck.calibration.calls == ["start"]
    assert [one.label for one in tab.button] == ["Cancel"]
    tab.button[0].click().run()
    assert deck.calibration.calls == ["start", "cancel"]
    assert ":red[the measurement was called off; nothing was written]" in texts(tab)


def test_progress_says_what_is_measured_now() -> None:
    deck = SCENES["running"]()
    deck.calibration.now = CalibrationState(True, 0.43, "prefill in chunks of 256 tokens")
    tab = box(deck)
    assert "The swarm waits" in texts(tab)
    assert "Measure this machine" not in [one.label for one in tab.button]


def test_a_start_that_is_refused_is_a_sentence() -> None:
    deck = SCENES["running"]()
    tab = box(deck)
    deck.calibration.now = CalibrationState(running=True)
    tab.button[0].click().run()
    assert "being measured already" not in texts(tab)
    assert [one.label for one in tab.button] == ["Cancel"]
    deck.calibration.now = CalibrationState(written="Measured in 50 s.")
    tab.run()
    assert "being measured already" not in texts(tab)
    assert "Measured in 50 s." in texts(tab)


def test_a_cancel_that_comes_too_late_hides_nothing() -> None:
    deck = SCENES["running"]()
    deck.calibration.now = CalibrationState(running=True)
    tab = box(deck)
    deck.calibration.now = CalibrationState(written="Measured in 50 s.")
    tab.button[0].click().run()
    assert "nothing to cancel" in texts(tab)
    assert "Measured in 50 s." in texts(tab)


def test_the_result_is_the_card_as_it_lies_there() -> None:
    save(machine_card())
    tab = box(SCENES["failed"]())
    assert "Measured 2023-11-14 22:13 UTC · tiny [model] on torch, AMD EPYC, 2 cores" in texts(tab)


def test_a_card_edited_by_hand_has_no_points_to_show() -> None:
    save(replace(machine_card(), calibration=None))
    assert "edited by hand since" in texts(box(None))


def test_a_card_that_cannot_be_read_is_a_sentence(tmp_path: Path) -> None:
    save(machine_card())
    (tmp_path / "cards" / "this-machine.toml").write_text("no card", encoding="utf-8")
    assert "this-machine.toml" in texts(box(None))


def test_figures_have_units_and_say_what_they_are() -> None:
    card = machine_card()
    assert card.calibration is not None
    shown = {one.key: one for one in tiles(card, card.calibration)}
    assert shown["base"].value == "6.00 ms"
    assert shown["per_turn"].value == "600 µs"
    assert shown["per_kv"].value == "120 ms/GB"
    assert shown["error"].value == "0.0 % rms"
    assert shown["prefill"].value == "700 tok/s"
    assert shown["out"].value == "5.00 GB/s"
    assert all(one.hint and one.sub for one in shown.values())
    assert "AMD EPYC" in where_and_when(card, card.calibration)


def test_the_charts_draw_the_points_in_their_colours_with_units() -> None:
    card = machine_card()
    assert card.calibration is not None
    for theme in ("dark", "light"):
        colours = palette(theme)  # type: ignore[arg-type]
        prefill: dict[str, Any] = prefill_spec(card.calibration.prefills, theme)  # type: ignore[arg-type]
        (line,) = prefill["data"]
        assert (line["x"], line["y"]) == ([16, 256], [400.0, 700.0])
        assert line["line"]["color"] == colours.recompute
        assert prefill["layout"]["yaxis"]["title"]["text"] == "tok/s"
        copies: dict[str, Any] = copies_spec(card.calibration, theme)  # type: ignore[arg-type]
        out, back = copies["data"]
        assert out["y"] == pytest.approx([5 + n / 1e9 for n in (65_536, OWN, 1 << 20)])
        assert back["y"] == pytest.approx([4 + n / 1e9 for n in (65_536, OWN, 1 << 20)])
        assert {out["line"]["color"], back["line"]["color"]} == {colours.swap}
        assert out["line"]["dash"] != back["line"]["dash"]
        assert copies["layout"]["shapes"][0]["x0"] == OWN
        assert copies["layout"]["annotations"][0]["x"] == pytest.approx(math.log10(OWN))
        json.dumps([prefill, copies])


def test_a_backend_with_one_size_of_blocks_has_one_point_and_no_mark() -> None:
    card = machine_card((OWN,))
    assert card.calibration is not None
    spec = copies_spec(card.calibration, "dark")
    assert [len(line["x"]) for line in spec["data"]] == [1, 1]
    assert "shapes" not in spec["layout"]
    assert spec["layout"]["xaxis"]["ticktext"] == ["360 KiB"]
