"""The Planner page over the scripted engine and without one."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from panels.deck_view import NO_ENGINE
from tests.browser.scenes import SCENES
from tests.panels.fake_deck import FakeDeck

ROOT = Path(__file__).resolve().parents[2]
FIELDS = {
    "slots": "Slots: number",
    "mean_context": "Mean context: number",
    "long_context": "Long context: number",
    "max_context": "Largest context: number",
}


def script() -> None:
    import streamlit as st

    from app.pages import planner

    planner.page(st.session_state["deck"])


def open_page(deck: FakeDeck | None = None) -> AppTest:
    tab = AppTest.from_function(script, default_timeout=60)
    tab.session_state["deck"] = deck
    return run(tab)


def run(tab: AppTest) -> AppTest:
    tab.run()
    assert not tab.exception, tab.exception
    return tab


def field(tab: AppTest, name: str) -> Any:
    return next(number for number in tab.number_input if number.label == FIELDS[name])


def choose(tab: AppTest, label: str, begins: str) -> AppTest:
    """What the list shows with these first words."""
    box = next(box for box in tab.selectbox if box.label == label)
    box.select_index(next(i for i, shown in enumerate(box.options) if shown.startswith(begins)))
    return run(tab)


def type_in(tab: AppTest, name: str, value: float | None) -> AppTest:
    field(tab, name).set_value(value)
    return run(tab)


def said(tab: AppTest) -> str:
    """Markdown and captions as they read, without what keeps them plain."""
    return "\n".join(element.value.replace("\\", "") for kind in (tab.markdown, tab.caption) for element in kind)


def test_it_needs_no_engine_and_says_so() -> None:
    text = said(open_page())
    assert "modelled" in text
    assert "8 running turns of 6,144 tokens take 13.5 GiB of 15.5 GiB at fp16" in text
    assert NO_ENGINE in text


def test_it_needs_no_torch() -> None:
    check = "import sys, app.pages.planner; sys.exit('torch' in sys.modules or 'numba' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", check], cwd=ROOT, timeout=120, check=False).returncode == 0


@pytest.mark.parametrize("scene", SCENES)
def test_every_state_of_the_engine_renders(scene: str) -> None:
    text = said(open_page(SCENES[scene]()))
    assert "This session, measured" in text
    snapshot = SCENES[scene]().control.snapshot
    assert ("n/a" in text) == (snapshot.bands is None or snapshot.modelled is not None)


@pytest.mark.parametrize("name", FIELDS)
@pytest.mark.parametrize("value", [0, -5, 10**12, None])
def test_a_bad_value_is_refused_in_its_field_and_the_last_good_one_stays(name: str, value: int | None) -> None:
    tab = open_page()
    before = said(tab)
    type_in(tab, name, value)
    refusals = [line.value for line in tab.markdown if line.value.startswith(":small[:red[")]
    assert len(refusals) == 1
    assert "give a whole number from 1 to" in refusals[0]
    assert before in said(tab).replace(refusals[0] + "\n", "")
    type_in(tab, name, 16)
    assert not [line for line in tab.markdown if line.value.startswith(":small[:red[")]


def test_a_typed_value_is_what_the_page_is_about() -> None:
    tab = type_in(open_page(), "mean_context", 8_192)
    assert "8 running turns of 8,192 tokens take 16.0 GiB of 15.5 GiB" in said(tab)


@pytest.mark.parametrize(("name", "value"), [("slots", 1_024), ("mean_context", 10_000_000), ("max_context", 1)])
def test_the_largest_and_smallest_values_draw(name: str, value: int) -> None:
    type_in(open_page(), name, value)


def test_another_model_brings_its_own_load() -> None:
    tab = type_in(open_page(), "slots", 3)
    assert "3 running turns" in said(tab)
    tab = choose(tab, "Model", "qwen3.5-9b")
    assert "8 running turns" in said(tab)
    assert field(tab, "slots").value == 8


def test_another_card_brings_its_own_ceiling_and_load() -> None:
    tab = type_in(open_page(), "slots", 3)
    tab = choose(tab, "Card", "RX 7900 XTX")
    text = said(tab)
    assert "RX 7900 XTX" in text
    assert "3 running turns" not in text
    assert "of 15.5 GiB" not in text


def test_it_says_where_the_figures_are_from() -> None:
    tab = open_page()
    assert any(expander.label == "Where the figures are from" for expander in tab.expander)
    assert "VRAM-ceiling study" in said(tab)


def test_two_tabs_have_their_own_values() -> None:
    one, other = open_page(), open_page()
    type_in(one, "slots", 3)
    assert "8 running turns" in said(run(other))
