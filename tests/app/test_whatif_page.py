"""The What-if page with and without an engine: what it offers, what it refuses, a grid run, a cell applied.

pytest tests/app/test_whatif_page.py
"""

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from app.shelf import GRIDS, clear
from engine.errors import Refused
from engine.policies import policies
from engine.twin.cell import CellResult, Tell
from engine.twin.grid_run import GridRunner
from engine.twin.setup import TwinSetup
from engine.twin.simulate import simulate
from engine.twin.timeline import Timeline
from tests.browser.scenes import SCENES
from tests.engine.twin.small import small_setup
from tests.panels.fake_deck import FakeDeck

WAIT_S = 60.0


class Here:
    """Runs no cell but answers with one that has run, once it is let."""

    def __init__(self) -> None:
        self.go = threading.Event()
        self.stopped = False

    def run(self, setup: TwinSetup, tell: Tell) -> CellResult:
        tell(0.5)
        while not self.go.wait(0.01):
            if self.stopped:
                raise Refused("its process ended")
        timeline = Timeline()
        return CellResult(simulate(small_setup(), sinks=(timeline,)), timeline.points)

    def stop(self) -> None:
        self.stopped = True

    def close(self) -> None:
        """Nothing is left of it."""


def script() -> None:
    import streamlit as st

    from app.pages import whatif

    if not st.session_state.get("elsewhere"):
        whatif.page(st.session_state["deck"])


@pytest.fixture(autouse=True)
def no_runner_of_another_test() -> Iterator[None]:
    clear(GRIDS)
    yield
    clear(GRIDS)


def open_page(deck: FakeDeck | None = None) -> AppTest:
    tab = AppTest.from_function(script, default_timeout=60)
    tab.session_state["deck"] = deck
    tab.run()
    assert not tab.exception, tab.exception
    return tab


def deck_with(worker: Here) -> FakeDeck:
    deck = SCENES["running"]()
    deck.grids = GridRunner(1, lambda: worker)
    return deck


def texts(tab: AppTest) -> str:
    """As they are read, without what keeps Markdown from being taken for more."""
    said = "\n".join(element.value for kind in (tab.markdown, tab.caption, tab.info) for element in kind)
    return said.replace("\\", "")


def found(tab: AppTest, kind: str, label: str) -> Any:
    return next(one for one in getattr(tab, kind) if one.label == label)


def button(tab: AppTest, label: str) -> Any:
    return found(tab, "button", label)


def until(tab: AppTest, deck: FakeDeck, so: Callable[[FakeDeck], bool]) -> None:
    waiting = threading.Event()
    for _ in range(int(WAIT_S / 0.01)):
        if so(deck):
            tab.run()
            assert not tab.exception, tab.exception
            return
        waiting.wait(0.01)
    raise AssertionError(deck.grids.state())


@pytest.mark.parametrize("scene", [None, *SCENES])
def test_it_renders_in_every_state_of_the_engine_and_without_one(scene: str | None) -> None:
    tab = open_page(SCENES[scene]() if scene else None)
    text = texts(tab)
    assert "What-if &nbsp; :gray-badge[modelled]" in text
    assert "Press Run grid: the default is KV precision against slots." in text
    assert "8 cells, about" in text
    assert found(tab, "selectbox", "Workload").value == "full-card"
    assert not button(tab, "Run grid").disabled


def test_bad_values_are_refused_beside_the_field_and_nothing_can_be_run() -> None:
    tab = open_page()
    values = found(tab, "text_input", "Slots: values")
    values.set_value("4, 0").run()
    assert not tab.exception, tab.exception
    assert ":red[Slots 0 is out of range; give whole numbers from 1 to 64]" in texts(tab)
    assert button(tab, "Run grid").disabled
    found(tab, "text_input", "Slots: values").set_value("4, 8").run()
    assert ":red[" not in texts(tab)
    assert "4 cells, about" in texts(tab)
    found(tab, "number_input", "Agents: number").set_value(0.0).run()
    assert ":red[Agents cannot be 0; give a whole number from 1 to 256]" in texts(tab)


def test_two_axes_alike_and_a_model_that_the_twin_does_not_run_are_said() -> None:
    tab = open_page()
    found(tab, "selectbox", "Rows").set_value("max_running").run()
    assert "both axes are Slots; choose two different ones" in texts(tab)
    found(tab, "selectbox", "Rows").set_value("policy").run()
    assert f"{4 * len(policies())} cells, about" in texts(tab)
    box = found(tab, "selectbox", "Model")
    box.select_index(next(i for i, option in enumerate(box.options) if option.startswith("qwen3.5"))).run()
    assert "keeps a fixed state" in texts(tab)
    assert button(tab, "Run grid").disabled


def test_what_was_asked_stays_when_the_page_is_left() -> None:
    tab = open_page()
    found(tab, "selectbox", "Columns").set_value("agents").run()
    found(tab, "text_input", "Agents: values").set_value("3, 5").run()
    tab.session_state["elsewhere"] = True
    tab.run()
    tab.session_state["elsewhere"] = False
    tab.run()
    assert found(tab, "selectbox", "Columns").value == "agents"
    assert found(tab, "text_input", "Agents: values").value == "3, 5"


def test_a_grid_runs_while_the_page_is_left_and_its_cell_is_applied() -> None:
    worker = Here()
    deck = deck_with(worker)
    tab = open_page(deck)
    found(tab, "text_input", "Slots: values").set_value("8, 12").run()
    button(tab, "Run grid").click().run()
    assert not tab.exception, tab.exception
    assert deck.grids.state().author == "tab 1"
    assert [b.label for b in tab.button if b.label in ("Run grid", "Cancel")] == ["Cancel"]
    assert "Slots 8" in texts(tab)
    tab.session_state["elsewhere"] = True
    tab.run()
    worker.go.set()
    tab.session_state["elsewhere"] = False
    until(tab, deck, lambda now: not now.grids.state().running)
    assert "4 cells in" in texts(tab)
    assert "Outlined: the live engine's knobs, KV precision q8, Slots 8" in texts(tab)
    found(tab, "selectbox", "Cell").set_value(1).run()
    assert not tab.exception, tab.exception
    assert "Sets KV precision fp16 and Slots 12 of the live engine" in texts(tab)
    button(tab, "Apply to the engine").click().run()
    assert deck.control.knobs.max_running == 12
    assert str(deck.control.knobs.kv_dtype) == "fp16"
    assert ("set_knobs", {"kv_dtype": "fp16", "max_running": 12}, "tab 1") in deck.control.calls
    assert "set on the live engine" in texts(tab)


def test_a_cancelled_grid_says_so_and_a_second_press_is_refused() -> None:
    deck = deck_with(Here())
    first, second = open_page(deck), open_page(deck)
    button(first, "Run grid").click().run()
    button(second, "Run grid").click().run()
    assert "a grid runs already, started by tab 1; wait for it or cancel it" in texts(second)
    button(second, "Cancel").click().run()
    until(first, deck, lambda now: not now.grids.state().running)
    assert "Cancelled after 0 of 8 cells." in texts(first)
    assert not button(first, "Run grid").disabled


def test_without_an_engine_nothing_can_be_applied() -> None:
    worker = Here()
    worker.go.set()
    deck = SCENES["stopped"]()
    deck.grids = GridRunner(1, lambda: worker)
    tab = open_page(deck)
    button(tab, "Run grid").click().run()
    until(tab, deck, lambda now: not now.grids.state().running)
    found(tab, "selectbox", "Cell").set_value(0).run()
    assert button(tab, "Apply to the engine").disabled
    assert "No engine runs that it could be applied to." in texts(tab)
