"""The planner's charts: the study's numbers on them, the split at the ceiling, and every card and load there can be."""

import itertools
import json
from dataclasses import replace

import plotly.graph_objects as go
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.cards.profile import Figure
from engine.cards.store import load_card
from engine.layout import LayerGroup, Store, TurnLayout
from engine.paper.ceiling import Load, Plan, load_of, plan
from panels import planner_chart, planner_figures, planner_reserve, planner_table, planner_words
from panels.marks import ink
from panels.palette import ThemeName, palette
from panels.planner_chart import apart, columns
from panels.units import GIB
from tests.panels.test_palette import contrast

CARD = load_card("rx9070xt")
DENSE = CARD.preset("ceiling").layout
WINDOWED = TurnLayout("windowed", (LayerGroup(20, 4, (128, 128), 1024), LayerGroup(4, 4, (128, 128))))
STATE_ONLY = TurnLayout("state only", (), state_bytes=50 << 20)
ALL_WINDOWED = TurnLayout("all windowed", (LayerGroup(20, 4, (128, 128), 1024),))


def study() -> Plan:
    return plan(CARD, DENSE, load_of(CARD))


def gib(value: float) -> Figure:
    return Figure(value, "GiB", "assumed", "a test")


def bars(spec: dict, name: str) -> list[float]:
    return next(trace["y"] for trace in spec["data"] if trace["type"] == "bar" and trace["name"] == name)


def texts(spec: dict) -> list[str]:
    return [note["text"] for note in spec["layout"]["annotations"]]


def test_the_studys_columns_read_as_it_prints_them() -> None:
    spec = planner_chart.spec(study(), "dark")
    assert texts(spec)[:6] == [f"<b>{total}</b>" for total in ("13.5", "14.44", "15.375", "16.31", "17.25", "16.0")]
    assert spec["layout"]["xaxis"]["ticktext"] == [
        "running only<br>fits",
        "+1 paused<br>fits",
        "+2 paused<br>fits",
        "+3 paused<br><b>0.81 GiB over</b>",
        "+4 paused<br><b>1.75 GiB over</b>",
        "+1 long<br><b>0.5 GiB over</b>",
    ]


def test_the_bands_are_the_studys() -> None:
    spec = planner_chart.spec(study(), "dark")
    assert bars(spec, "weights") == pytest.approx([5.2] * 6)
    assert bars(spec, "runtime") == pytest.approx([0.8] * 6)
    assert bars(spec, "running KV") == pytest.approx([7.5] * 6)
    assert spec["layout"]["yaxis"]["title"]["text"] == "GiB at fp16, modelled"


def test_a_band_across_the_ceiling_is_split_at_the_line_and_what_is_over_is_hatched() -> None:
    spec = planner_chart.spec(study(), "dark")
    assert bars(spec, "paused KV") == pytest.approx([0, 0.9375, 1.875, 2.0, 2.0, 0])
    assert bars(spec, "one long turn") == pytest.approx([0, 0, 0, 0, 0, 2.0])
    assert bars(spec, planner_chart.FORCED) == pytest.approx([0, 0, 0, 0.8125, 1.75, 0.5])
    hatched = [trace["name"] for trace in spec["data"] if "pattern" in trace.get("marker", {})]
    assert hatched == [planner_chart.FORCED]
    assert any(planner_chart.FORCED in text for text in texts(spec))


def test_the_dashed_lines_are_the_ceiling_and_the_same_turns_at_q8_below_it() -> None:
    spec = planner_chart.spec(study(), "dark")
    ceiling = next(trace for trace in spec["data"] if trace.get("name") == "ceiling")
    assert (ceiling["line"]["dash"], ceiling["y"]) == ("dash", [15.5, 15.5])
    assert any("ceiling 15.5 GiB" in text for text in texts(spec))
    q8 = next(trace for trace in spec["data"] if trace.get("name") == "same turns at q8")
    heights = [y for y in q8["y"] if y is not None]
    assert q8["line"]["dash"] == "dash"
    assert heights[0] == pytest.approx(6 + 8 * 0.46875 * 1.03125)
    assert max(heights) < 15.5


def test_nothing_is_said_to_be_forced_where_all_fits() -> None:
    spec = planner_chart.spec(plan(CARD, DENSE, Load(slots=1, mean_context=1, long_context=1)), "dark")
    over = bars(spec, planner_chart.FORCED)
    assert over[0] == over[-1] == 0
    roomy = plan(replace(CARD, usable=gib(4_000)), DENSE, Load(slots=1))
    ticks = planner_chart.spec(roomy, "dark")["layout"]["xaxis"]["ticktext"]
    assert ticks[0] == "running<br>fits"
    assert ticks[-1] == "+1 long<br>fits"


def test_weights_beyond_the_ceiling_are_cut_at_it_too() -> None:
    spec = planner_chart.spec(plan(replace(CARD, weights=gib(20)), DENSE, load_of(CARD)), "dark")
    assert bars(spec, "weights") == pytest.approx([15.5] * len(bars(spec, "weights")))
    assert set(bars(spec, "running KV")) == {0.0}
    assert bars(spec, planner_chart.FORCED)[0] == pytest.approx(20 + 0.8 + 7.5 - 15.5)


def test_the_reserve_is_drawn_against_what_average_turns_hold() -> None:
    spec = planner_reserve.spec(study(), "dark")
    kv, over = spec["data"][1], spec["data"][2]
    assert kv["x"] == pytest.approx([9.5, 7.5])
    assert over["x"] == pytest.approx([30.5, 0])
    assert any("1 of 8 slots fit" in text for text in texts(spec))
    assert any("32.5 GiB not reserved" in text for text in texts(spec))
    sentence = planner_words.reserve_text(study())
    assert "takes 40.0 GiB at fp16, so only 1 slot would fit (3 at q8)" in sentence
    assert "the headroom that preemption then lacks" in sentence


def test_the_sentence_says_what_the_columns_show() -> None:
    sentence = planner_words.states_text(study())
    assert "8 running turns of 6,144 tokens take 13.5 GiB of 15.5 GiB at fp16" in sentence
    assert "2 average turns can stay paused" in sentence
    assert "one paused long turn of 16,384 tokens is 0.50 GiB over" in sentence
    assert "at q8 with its scales 11 average turns can stay paused" in sentence


counts = st.one_of(st.integers(1, 10_000_000), st.integers(1, 40_000))
loads = st.builds(Load, st.integers(1, 1_024), counts, counts, counts)
layouts = st.sampled_from((DENSE, CARD.preset("qwen3.5-9b").layout, WINDOWED, STATE_ONLY, ALL_WINDOWED))
cards = st.builds(
    lambda usable, weights, runtime: replace(CARD, usable=usable, weights=weights, runtime=runtime),
    st.builds(gib, st.floats(1e-9, 16_384)),
    st.builds(gib, st.one_of(st.floats(1e-9, 16_384), st.floats(1, 20))),
    st.builds(gib, st.floats(0, 100)),
)


@given(cards, layouts, loads)
def test_any_card_model_and_load_draws_and_adds_up(card, layout, load) -> None:
    asked = plan(card, layout, load)
    ceiling = card.usable.amount / planner_chart.unit_of(asked)
    for column in columns(asked):
        assert all(part >= 0 for part in column.under)
        assert sum(column.under) <= ceiling * (1 + 1e-9)
        assert sum(column.under) + column.over == pytest.approx(column.used, rel=1e-6)
        assert sum(column.whole) == pytest.approx(column.used, rel=1e-6)
    for chart in (planner_chart, planner_reserve):
        json.dumps(chart.spec(asked, "light"), allow_nan=False)
    assert planner_words.states_text(asked)
    assert planner_words.reserve_text(asked)
    assert len(planner_figures.tiles(asked)) == 6
    assert all(len(row.cells) == 3 for row in planner_table.rows(asked))
    assert planner_table.as_csv(asked)


@given(st.lists(st.tuples(st.floats(0, 1e6), st.text(max_size=3)), max_size=8), st.floats(0.1, 1e4))
def test_labels_never_stand_on_each_other(words, gap) -> None:
    heights = [y for y, _ in apart(words, gap)]
    assert sorted(heights, reverse=True) == heights
    assert all(upper - lower >= gap * (1 - 1e-6) for upper, lower in itertools.pairwise(heights))


@pytest.mark.parametrize("theme", ["dark", "light"])
def test_plotly_takes_the_charts_and_their_text_reads(theme: ThemeName) -> None:
    for chart in (planner_chart, planner_reserve):
        go.Figure(chart.spec(study(), theme))
    colours = palette(theme)
    for word in (colours.ceiling, colours.other_precision, colours.text):
        assert contrast(word, colours.surface) >= 4.5
    for band in (colours.paused_kv, colours.running_kv, colours.weights):
        assert contrast(ink(band), band) >= 4.5


def test_small_cards_are_drawn_in_mib() -> None:
    small = plan(replace(CARD, usable=gib(0.5), weights=gib(0.1), runtime=gib(0)), WINDOWED, Load(slots=2))
    assert planner_chart.spec(small, "dark")["layout"]["yaxis"]["title"]["text"].startswith("MiB")


def test_reserves_are_never_fewer_than_no_slots() -> None:
    over = plan(replace(CARD, weights=gib(20)), DENSE, load_of(CARD))
    assert {reserve.slots for reserve in over.reserves.values()} == {0}
    assert over.fits[Store.FP16].headroom_bytes == pytest.approx((15.5 - 20 - 0.8 - 7.5) * GIB)


def test_where_more_slots_fit_than_are_asked_for_all_of_them_fit() -> None:
    small = plan(CARD, CARD.preset("qwen3.5-9b").layout, load_of(CARD))
    assert small.reserves[Store.FP16].slots > small.load.slots
    assert "so all 8 would fit (8 at q8)" in planner_words.reserve_text(small)
