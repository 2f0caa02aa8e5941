"""The Policies page with and without an engine: what it says of each policy, a comparison run, a policy applied.

pytest tests/app/test_policies_page.py
"""

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from app.shelf import COMPARISONS, clear
from engine.errors import Refused
from engine.policies import policies
from engine.twin.cell import CellResult, Tell
from engine.twin.grid_run import GridRunner
from engine.twin.setup import TwinSetup
from engine.twin.simulate import simulate
from tests.browser.scenes import SCENES
from tests.engine.twin.small import small_setup
from tests.panels.fake_deck import FakeDeck

WAIT_S = 60.0


class Here:
    """Runs the policy that it is asked for on a small twin, once it is let; `bad` fails."""

    def __init__(self, bad: str = "") -> None:
        self.go = threading.Event()
        self.bad = bad
        self.asked: list[TwinSetup] = []
        self.stopped = False

    def run(self, setup: TwinSetup, tell: Tell) -> CellResult:
        self.asked.append(setup)
        tell(0.5)
        while not self.go.wait(0.01):
            if self.stopped:
                raise Refused("its process ended")
        policy = setup.first_knobs().policy
        if policy == self.bad:
            raise Refused("the twin's arena is too small")
        return CellResult(simulate(replace(small_setup(arena_tokens=700), knobs=(("policy", policy),))), ())

    def stop(self) -> None:
        self.stopped = True

    def close(self) -> None:
        """Nothing is left of it."""


def script() -> None:
    import streamlit as st

    from app.pages import policies

    policies.page(st.session_state["deck"])


@pytest.fixture(autouse=True)
def no_runner_of_another_test() -> Iterator[None]:
    clear(COMPARISONS)
    yield
    clear(COMPARISONS)


def open_page(deck: FakeDeck | None = None) -> AppTest:
    tab = AppTest.from_function(script, default_timeout=60)
    tab.session_state["deck"] = deck
    tab.run()
    assert not tab.exception, tab.exception
    return tab


def deck_with(worker: Here, scene: str = "running") -> FakeDeck:
    deck = SCENES[scene]()
    deck.comparisons = GridRunner(1, lambda: worker)
    return deck


def texts(tab: AppTest) -> str:
    said = "\n".join(element.value for kind in (tab.markdown, tab.caption, tab.info) for element in kind)
    return said.replace("\\", "")


def button(tab: AppTest, label: str) -> Any:
    return next(one for one in tab.button if one.label == label)


def apply_of(tab: AppTest, policy: str) -> Any:
    return next(one for one in tab.button if one.key == f"policies_apply_{policy}")


def until(tab: AppTest, deck: FakeDeck, so: Callable[[FakeDeck], bool]) -> None:
    waiting = threading.Event()
    for _ in range(int(WAIT_S / 0.01)):
        if so(deck):
            tab.run()
            assert not tab.exception, tab.exception
            return
        waiting.wait(0.01)
    raise AssertionError(deck.comparisons.state())


@pytest.mark.parametrize("scene", [None, *SCENES])
def test_it_renders_in_every_state_of_the_engine_and_without_one(scene: str | None) -> None:
    deck = SCENES[scene]() if scene else None
    tab = open_page(deck)
    text = texts(tab)
    assert "Press Compare policies" in text
    assert not button(tab, "Compare policies").disabled
    serves = deck is not None and deck.control.snapshot.state.serving
    for name, policy in policies().items():
        assert f"**{name}**" in text
        assert policy.title in text
        in_force = serves and deck is not None and deck.control.snapshot.knobs.policy == name
        assert apply_of(tab, name).disabled == (not serves or in_force)
    assert text.count(":green-badge[in force]") == int(serves)
    assert ("No engine runs" in text) == (not serves)
    assert (":gray-badge[modelled]" in text) == bool(deck and deck.control.snapshot.twin)


def test_a_comparison_runs_every_policy_with_the_swarms_agents_and_live_knobs() -> None:
    worker = Here()
    deck = deck_with(worker)
    tab = open_page(deck)
    assert "workload swarm, 16 agents" in texts(tab)
    button(tab, "Compare policies").click().run()
    assert not tab.exception, tab.exception
    assert deck.comparisons.state().author == "tab 1"
    assert [b.label for b in tab.button if b.label in ("Compare policies", "Cancel")] == ["Cancel"]
    worker.go.set()
    until(tab, deck, lambda now: not now.comparisons.state().running)
    assert [setup.first_knobs().policy for setup in worker.asked] == list(policies())
    first = worker.asked[0]
    assert (first.agent_count, str(first.first_knobs().kv_dtype)) == (16, "q8")
    assert first.first_knobs().high_watermark == 0.95
    assert f"{len(policies())} policies, " in texts(tab)
    assert "Modelled. Makespan: the least is" in texts(tab)
    assert deck.grids.state().grid is None


def test_a_cancelled_comparison_and_a_failed_policy_are_said() -> None:
    worker = Here(bad="recompute-only")
    deck = deck_with(worker)
    tab = open_page(deck)
    button(tab, "Compare policies").click().run()
    second = open_page(deck)
    button(second, "Cancel").click().run()
    until(tab, deck, lambda now: not now.comparisons.state().running)
    assert f"Cancelled after 0 of {len(policies())} policies" in texts(tab)
    worker.go.set()
    worker.stopped = False
    button(tab, "Compare policies").click().run()
    until(tab, deck, lambda now: not now.comparisons.state().running)
    assert "1 run failed" in texts(tab)
    assert "recompute-only: the twin's arena is too small" in texts(tab)


def test_apply_puts_a_policy_in_force_and_says_so() -> None:
    deck = SCENES["running"]()
    tab = open_page(deck)
    apply_of(tab, "recompute-only").click().run()
    assert not tab.exception, tab.exception
    assert ("set_knobs", {"policy": "recompute-only"}, "tab 1") in deck.control.calls
    assert "recompute-only is in force." in texts(tab)
    tab.run()
    assert apply_of(tab, "recompute-only").disabled
    assert not apply_of(tab, "walk-down").disabled


def test_a_model_that_the_twin_does_not_run_is_said() -> None:
    tab = open_page(SCENES["running"]())
    box = next(one for one in tab.selectbox if one.label == "Model")
    box.select_index(next(i for i, option in enumerate(box.options) if option.startswith("qwen3.5"))).run()
    assert "keeps a fixed state" in texts(tab)
    assert button(tab, "Compare policies").disabled
