"""The page Blocked: figures, their sentence and the charts say what the sums say; n/a before anything ran; names from
outside stay names."""

from dataclasses import replace
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from engine.blocked import AgentShare, Blocked, Share, ToolShare
from panels.blocked_charts import agents_spec, agents_words, life_spec, tools_spec
from panels.blocked_words import named, tiles, verdict
from panels.figures import tiles as live_tiles
from panels.scale import scale_for
from panels.units import MISSING
from tests.browser.scenes import SCENES
from tests.panels.fake_deck import FakeDeck

FOUND = Blocked(
    at=100.0,
    window=Share(60.0, 300.0, 150.0, 50.0),
    session=Share(100.0, 400.0, 320.0, 80.0),
    tools=(ToolShare("pytest", 200.0, 300.0), ToolShare("<b>", 60.0, 60.0), ToolShare(None, 40.0, 40.0)),
    agents=(
        AgentShare("a", True, 30.0, 40.0, 20.0, 25.0),
        AgentShare("=b", False, 90.0, 100.0, 0.0, 0.0),
        AgentShare("<i>c", True, 10.0, 20.0, 10.0, 20.0),
        AgentShare("new", True, 0.0, 0.0, 0.0, 0.0),
    ),
    unshown=7,
)


def script() -> None:
    import streamlit as st

    from app.pages import blocked

    blocked.page(st.session_state["deck"])


def opened(deck: FakeDeck | None) -> AppTest:
    tab = AppTest.from_function(script, default_timeout=60)
    tab.session_state["deck"] = deck
    tab.run()
    assert not tab.exception, tab.exception
    return tab


def texts(tab: AppTest) -> str:
    return "\n".join(element.value for kind in (tab.markdown, tab.caption, tab.info) for element in kind)


def test_the_figures_are_of_the_last_minute_and_say_the_sessions_below() -> None:
    told = {tile.key: (tile.value, tile.sub) for tile in tiles(FOUND, 8, "measured")}
    assert told == {
        "b": ("0.60", "session 0.50"),
        "could": ("3.0 agents", "session 2.2 agents"),
        "carries": ("3.3 agents", "session 2.5 agents"),
        "agents": ("8.3", "session 8.0"),
        "slots": ("2.5 of 8", "session 3.2"),
        "queued": ("10 %", "session 10 %"),
    }
    assert all("modelled, over the last 60 s" in tile.hint for tile in tiles(FOUND, 8, "modelled"))


def test_before_anything_ran_each_figure_is_missing_and_none_is_nought() -> None:
    for found in (None, Blocked(0.0, Share(), Share())):
        for tile in tiles(found, 8, "measured"):
            assert tile.value == MISSING
            assert MISSING in tile.sub
        assert verdict(found, 8) == "No agent lived in the last 60 s."


@pytest.mark.parametrize(
    ("window", "said"),
    [
        (Share(60.0, 300.0, 150.0, 50.0), "A slot could carry 3.0 agents, a busy one carries 3.3: agents spent 10 %"),
        (Share(60.0, 300.0, 150.0, 0.0), "2.5 of 8 slots were busy: by this b about 16 more agents would fill them."),
        (Share(60.0, 300.0, 478.0, 0.0), "8.0 of 8 slots were busy, with 13.0 live agents and next to no queue."),
        (Share(60.0, 0.0, 0.0, 30.0), "No slot was busy yet in the last minute"),
    ],
)
def test_the_sentence_says_what_to_make_of_it(window: Share, said: str) -> None:
    assert verdict(replace(FOUND, window=window), 8).startswith(said)


def trace(spec: dict[str, Any], name: str) -> dict[str, Any]:
    return next(one for one in spec["data"] if one["name"] == name)


def test_the_life_bars_are_shares_of_one_life() -> None:
    spec = life_spec(FOUND, "dark")
    assert [trace(spec, name)["x"] for name in ("blocked", "in a slot", "queued")] == [
        [50.0, 60.0], [40.0, 30.0], [10.0, 10.0],
    ]  # fmt: skip
    assert spec["alt"].startswith("Last minute: blocked 60 %, in a slot 30 %, queued 10 %.")


def test_each_tool_has_a_bar_of_its_share_and_names_from_outside_stay_names() -> None:
    spec = tools_spec(FOUND, "light")
    bars = trace(spec, "session")
    assert bars["y"] == ["other tools", "&lt;b&gt;", "pytest"]
    assert bars["x"] == pytest.approx([10.0, 15.0, 75.0])
    assert trace(spec, "last minute")["x"] == pytest.approx([100 * 40 / 300, 20.0, 100 * 200 / 300])
    assert spec["table"]["blocks"][0][0] == {"values": ["other tools", "<b>", "pytest"]}
    assert "pytest 5 min (75 %)" in spec["alt"]
    twice = replace(FOUND, tools=(ToolShare("x" * 50, 1.0, 2.0), ToolShare("x" * 51, 1.0, 1.0)))
    assert len(set(trace(tools_spec(twice, "dark"), "session")["y"])) == 2
    assert tools_spec(replace(FOUND, tools=()), "dark")["alt"] == "No agent has waited on a tool yet."


def test_agents_stand_in_order_live_ones_first_and_those_without_a_life_nowhere() -> None:
    spec = agents_spec(FOUND, "dark")
    assert (trace(spec, "live")["x"], trace(spec, "live")["y"]) == ([1, 2], [0.75, 0.5])
    assert (trace(spec, "ended")["x"], trace(spec, "ended")["y"]) == ([3], [0.9])
    assert trace(spec, "swarm, session: 0.50")["y"] == [0.5, 0.5]
    assert "&lt;i&gt;c" in trace(spec, "live")["hovertext"][1]
    assert spec["table"]["blocks"][0][0] == {"values": ["a", "<i>c", "=b"]}
    assert agents_words(FOUND) == (
        "3 agents, 2 of them live: the middle one has a b of 0.75, half of them lie between 0.50 and 0.90; 7 that "
        "ended before are in the session's figures alone."
    )


def test_a_long_name_is_cut_and_has_no_markup() -> None:
    assert named("a" * 40) == "a" * 31 + "…"
    assert named("<script>") == "&lt;script&gt;"
    assert named(None) == "other tools"


@pytest.mark.parametrize("scene", [None, *SCENES])
def test_the_page_renders_in_every_state_of_the_engine_and_without_one(scene: str | None) -> None:
    text = texts(opened(SCENES[scene]() if scene else None))
    assert ("gray-badge[modelled]" in text) == (scene == "twin")
    assert ("No engine runs" in text) == (scene is None)
    assert ("Nothing has run yet" in text) == (scene in ("empty", "stopped", "offline", "failed")
                                               or bool(scene and scene.startswith("starting")))  # fmt: skip


def test_the_live_pages_tile_leads_to_it() -> None:
    snapshot = SCENES["running"]().control.snapshot
    tile = next(one for one in live_tiles(snapshot, scale_for(snapshot, "card")) if one.key == "blocked")
    assert tile.href == "blocked"
