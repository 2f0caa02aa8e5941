"""The What-if page's pure parts: maps, words, the cell, and what is asked of the live engine.

pytest tests/panels/test_whatif.py
"""

import json
from dataclasses import replace

import pytest

from engine.cards.store import load_card
from engine.errors import BadField, Refused
from engine.geometry import KVDtype
from engine.knobs import Knobs
from engine.twin.cell import CellResult
from engine.twin.grid import Axis, Grid, grid_of
from engine.twin.grid_run import GridState, Outcome
from engine.twin.setup import TwinSummary
from engine.twin.simulate import simulate
from engine.twin.timeline import Timeline
from panels import whatif_asked, whatif_cell, whatif_maps
from panels.asking import Answer
from panels.card_box import Choice
from panels.marks import ink
from panels.palette import ThemeName, palette, sequential
from panels.whatif_asked import Wish, asked_grid, checked_agents, checked_hours
from panels.whatif_grid import as_csv, progress_words
from panels.whatif_maps import MAKESPAN, RECOMPUTED, SWAPPED, TTFT, Maps, metrics, sentence
from panels.whatif_words import (
    Live,
    appliable,
    knob_changes,
    live_cell,
    live_of,
    live_words,
    not_applied,
    of_what,
    said,
)
from tests.browser.scenes import SCENES
from tests.engine.twin.small import small_setup
from tests.panels.test_palette import contrast, lab, linear, luminance, simulated

CARDS = {card: load_card(card) for card in ("rx9070xt", "rtx5090")}


def ran(seed: int = 1) -> CellResult:
    timeline = Timeline()
    return CellResult(simulate(small_setup(seed), sinks=(timeline,)), timeline.points)


RESULT = ran()


def with_figures(**figures: object) -> Outcome:
    summary: TwinSummary = replace(RESULT.summary, **figures)  # type: ignore[arg-type]
    return Outcome(CellResult(summary, RESULT.timeline))


def grid(across: Axis | None = None, down: Axis | None = None) -> Grid:
    down = down or Axis("kv_dtype", ("fp16", "q8"))
    return grid_of(small_setup(), across or Axis("max_running", (4, 8)), down, CARDS)


OUTCOMES = (
    with_figures(makespan_s=90.0, swapped_bytes=3 << 30, recomputed_tokens=1_200, ttft_foreground_p95_s=None),
    with_figures(makespan_s=30.5, swapped_bytes=0, recomputed_tokens=0),
    Outcome(None, "the card <b>cannot</b>"),
    None,
)


def maps(**more: int) -> Maps:
    return Maps(grid(), OUTCOMES, **more)


def test_a_map_has_each_cell_with_its_unit_where_its_values_are() -> None:
    spec = json.loads(json.dumps(whatif_maps.spec(maps(), MAKESPAN, "dark"), allow_nan=False))
    [trace] = spec["data"]
    assert trace["z"] == [[90.0, 30.5], [None, None]]
    assert trace["customdata"] == [[0, 1], [2, 3]]
    assert spec["layout"]["xaxis"]["ticktext"] == ["4", "8"]
    assert spec["layout"]["yaxis"]["ticktext"] == ["fp16", "q8"]
    written = {(one["x"], one["y"]): one["text"] for one in spec["layout"]["annotations"]}
    assert written == {(0, 0): "90.0 s", (1, 0): "30.5 s", (0, 1): "failed", (1, 1): "…"}
    assert "modelled" in spec["layout"]["title"]["text"]
    assert "&lt;b>cannot" in trace["hovertext"][1][0]


def test_the_four_maps_have_their_own_units() -> None:
    texts = [whatif_maps.cell_text(maps(), 0, metric) for metric in (MAKESPAN, TTFT, SWAPPED, RECOMPUTED)]
    assert texts == ["90.0 s", "n/a", "3.00 GiB", "1,200"]
    assert [metric.key for metric in metrics(grid())] == ["makespan", "ttft", "swapped", "recomputed"]
    timed = grid_of(small_setup(hours=0.1), Axis("max_running", (4,)), Axis("kv_dtype", ("q8",)), CARDS)
    assert metrics(timed)[0].key == "rate"


def test_the_live_cell_is_outlined_and_named_and_the_chosen_one_dotted() -> None:
    spec = whatif_maps.spec(maps(live=1, chosen=2), SWAPPED, "light")
    lines = [(box["x0"] > 0.5, box["y0"] > 0.5, box["line"].get("dash")) for box in spec["layout"]["shapes"]]
    assert lines == [(True, False, None), (True, False, "solid"), (False, True, None), (False, True, "dot")]
    assert "live" in spec["layout"]["annotations"][1]["text"]
    assert "the live engine's knobs" in spec["data"][0]["hovertext"][0][1]
    assert whatif_maps.spec(maps(), SWAPPED, "light")["layout"]["shapes"] == []


def test_a_map_in_words_has_the_least_the_most_and_how_much_is_there() -> None:
    assert sentence(maps(), MAKESPAN) == (
        "Makespan, modelled: from 30.5 s at KV precision fp16, Slots 8 to 90.0 s at KV precision fp16, Slots 4. "
        "2 of 4 cells have it."
    )
    alike = Maps(grid(), (OUTCOMES[0],) * 4)
    assert sentence(alike, SWAPPED) == "Swapped bytes, out and back: 3.00 GiB in every cell that is there."
    assert sentence(Maps(grid(), (None,) * 4), TTFT) == "Foreground TTFT p95: no cell is there yet."


@pytest.mark.parametrize("theme", ["dark", "light"])
@pytest.mark.parametrize("metric", [MAKESPAN, TTFT, SWAPPED, RECOMPUTED])
def test_the_scale_tells_its_order_by_lightness_alone_and_its_figures_read(
    metric: whatif_maps.Metric, theme: ThemeName
) -> None:
    colours = palette(theme)
    steps = [sequential(colours, metric.meaning, share / 10) for share in range(11)]
    light = [luminance(step) for step in steps]
    assert light == sorted(light, reverse=theme == "light")
    for sight in ("deuteranopia", "protanopia", "tritanopia"):
        seen = [lab(simulated(step, sight))[0] for step in steps]
        assert seen == sorted(seen, reverse=theme == "light")
        assert abs(seen[-1] - seen[0]) > 30
    assert abs(lab(linear(steps[-1]))[0] - lab(linear(steps[0]))[0]) > 30
    assert all(contrast(ink(step), step) >= 4.4 for step in steps)


def test_what_is_the_same_in_all_cells_is_said() -> None:
    told = of_what(grid())
    assert "model shape ceiling · workload small · 8 agents · each takes its turns once" in told
    told = of_what(grid(Axis("agents", (4, 8)), Axis("card", ("rtx5090",))))
    assert "agents" not in told
    assert "RX 9070 XT" not in told


def test_values_have_their_units() -> None:
    assert said("link", 2.5e10) == "25.0 GB/s"
    assert said("host_pool_bytes", 48 * 10**9) == "48.0 GB"
    assert (said("agents", 1), said("policy", "walk-down")) == ("1", "walk-down")


def test_the_live_engine_is_found_in_the_grid_or_said_not_to_be() -> None:
    deck = SCENES["running"]()
    deck.control.knobs = Knobs(kv_dtype=KVDtype.Q8, max_running=8, host_pool_bytes=1 << 30)
    live = live_of(deck.control.snapshot, 16)
    assert live_cell(grid(), live) == 3
    assert live_words(grid(), live) == "Outlined: the live engine's knobs, KV precision q8, Slots 8."
    elsewhere = replace(live, values={**live.values, "max_running": 5})
    assert live_cell(grid(), elsewhere) is None
    assert "has KV precision q8, Slots 5, which is no cell" in live_words(grid(), elsewhere)
    assert live_cell(grid(), None) is None
    assert "No engine runs" in live_words(grid(), None)
    own = grid(Axis("link", (1e10,)))
    assert live_cell(own, live) is None
    assert live_words(own, live) == "Bandwidth is the twin's alone, so no cell is the live engine's."


def test_host_bytes_are_the_cards_and_are_applied_as_the_engines() -> None:
    small = grid(Axis("host_pool_bytes", (0, 48 * 10**9)))
    live = Live({"kv_dtype": "fp16", "host_pool_bytes": round(48e9 * 1.004)}, 40.0)
    assert live_cell(small, live) == 1
    assert knob_changes(small, small.cells[3], live) == {"kv_dtype": "q8", "host_pool_bytes": 1_200_000_000}
    assert knob_changes(small, small.cells[3], replace(live, bytes_factor=1.0))["host_pool_bytes"] == 48 * 10**9


def test_what_the_live_engine_has_not_says_why() -> None:
    own = grid(Axis("link", (1e10,)), Axis("card", ("rtx5090",)))
    assert appliable(own) == ()
    assert not_applied(own) == (
        "The card cannot be applied: the live engine runs on the device that it has. "
        "The bandwidth cannot be applied: the live engine's copies are as fast as its bus."
    )
    assert appliable(grid(Axis("agents", (2,)))) == ("kv_dtype", "agents")
    assert not_applied(grid()) == ""


def test_a_cell_is_applied_with_an_author_and_told() -> None:
    deck = SCENES["running"]()
    small = grid(Axis("agents", (4, 24)))
    answers = whatif_cell.apply(deck, small, 3, "tab 1")
    name, changes, author = deck.control.calls[-1]
    assert (name, changes) == ("set_knobs", {"kv_dtype": "q8"})
    assert author == "tab 1"
    assert answers == (
        Answer("KV precision q8: set on the live engine."), Answer("The swarm: agents 24"),
    )  # fmt: skip
    assert deck.swarm.calls == [("agents", 24)]


def test_the_timeline_is_of_all_phases_over_modelled_time() -> None:
    spec = json.loads(json.dumps(whatif_cell.spec(RESULT.timeline, "Slots 8", "dark"), allow_nan=False))
    assert [trace["name"] for trace in spec["data"]] == ["running", "paused", "blocked on a tool", "waiting"]
    assert spec["data"][0]["y"] == [point.running for point in RESULT.timeline]
    assert len(spec["table"]["head"]) == len(spec["table"]["blocks"][0])
    most = max(point.running for point in RESULT.timeline)
    assert f"at most {most} running" in spec["alt"]
    assert "too short" in whatif_cell.sentence((), "Slots 8")


def test_the_tiles_are_the_summarys() -> None:
    tiles = {tile.key: tile.value for tile in whatif_cell.tiles(OUTCOMES[0].result.summary)}  # type: ignore[union-attr]
    assert tiles["swapped"] == "3.00 GiB"
    assert tiles["recomputed"] == "1,200 tok"
    assert tiles["ttft"] == "n/a"
    assert all(" " in value or value == "n/a" or value.replace(",", "").isdigit() for value in tiles.values())


def test_the_csv_has_every_cell_and_says_why_one_is_missing() -> None:
    text = as_csv(GridState(1, grid(), OUTCOMES, note="")).decode()
    head, *rows = text.split("\r\n\r\n")[1].splitlines()
    assert head.startswith("kv_dtype,max_running,problem,session,")
    assert [row.split(",")[:2] for row in rows] == [["fp16", "4"], ["fp16", "8"], ["q8", "4"], ["q8", "8"]]
    assert "cannot" in rows[2]
    assert "not run" in rows[3]
    assert "figures,modelled" in text


def test_the_bar_says_cells_and_time_left() -> None:
    words = progress_words(GridState(1, grid(), OUTCOMES, True, "tab 3", 0.5, 41.7))
    assert words == "50 % · 3 of 4 cells · about 42 s left · started by tab 3"


def test_the_default_wish_is_a_grid_of_precision_and_slots_that_runs() -> None:
    card = load_card()
    choice = Choice(card, card.presets[0])
    columns, rows = Axis("max_running", (4, 6, 8, 12)), Axis("kv_dtype", ("fp16", "q8"))
    asked = asked_grid(choice, Wish(), 16, 0.25, columns, rows)
    assert len(asked.cells) == 8
    assert all(cell.setup is not None for cell in asked.cells)
    assert asked.base.hours is None
    assert asked_grid(choice, Wish(span=whatif_asked.HOURS), 16, 0.25, columns, rows).base.hours == 0.25
    hybrid = next(preset for preset in card.presets if preset.layout.state_bytes)
    with pytest.raises(Refused, match="fixed state"):
        asked_grid(Choice(card, hybrid), Wish(), 16, 0.25, columns, rows)


@pytest.mark.parametrize("value", [None, 0, 1.5, 257, "x", True])
def test_agents_that_cannot_be_are_refused(value: object) -> None:
    with pytest.raises(BadField, match=r"Agents cannot be .*; give a whole number from 1 to 256"):
        checked_agents(value)


@pytest.mark.parametrize("value", [None, 0, -1, 25, float("inf")])
def test_hours_that_cannot_be_are_refused(value: object) -> None:
    with pytest.raises(BadField, match=r"Hours cannot be .*; give more than 0 and at most 24"):
        checked_hours(value)
