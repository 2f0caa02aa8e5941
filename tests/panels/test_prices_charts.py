"""The charts of the price list over every layout and rate that a card may have."""

import json
import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.cards.fields import FIELDS
from engine.cards.store import load_card
from engine.layout import LayerGroup, Store, TurnLayout
from engine.paper.prices import CONTEXTS, Prices, prices
from panels import prices_figures, prices_room, prices_scale, prices_session, prices_table
from panels.palette import ThemeName
from panels.prices_axes import MOST_TICKS, time_ticks, token_ticks
from panels.prices_session import Session

CARD = load_card("rx9070xt")
LISTED = prices(CARD, CARD.preset("swap"))
groups = st.builds(
    LayerGroup,
    layers=st.integers(1, 128),
    heads=st.integers(1, 128),
    widths=st.lists(st.integers(1, 1_024), min_size=1, max_size=2).map(tuple),
    window=st.none() | st.integers(1, 131_072),
)
layouts = st.builds(
    TurnLayout,
    name=st.just("any"),
    groups=st.lists(groups, max_size=3).map(tuple),
    state_bytes=st.just(0) | st.integers(1, 1 << 34),
).filter(lambda layout: layout.groups or layout.state_bytes)


def within(name: str) -> st.SearchStrategy[float]:
    field = FIELDS[name]
    return st.floats(max(field.low, 0.0), field.high)


lists = st.builds(
    Prices,
    layout=layouts,
    store=st.sampled_from(Store),
    rounded=st.none(),
    out_bytes_per_s=within("link_out"),
    back_bytes_per_s=within("link_back"),
    prefill_tokens_per_s=within("prefill"),
    card_bytes=st.floats(0, 2.0**44),
    host_bytes=within("pinned_host"),
    context=st.integers(1, 10_000_000),
)


@given(lists, st.sampled_from(["dark", "light"]))
def test_every_price_list_can_be_drawn_and_said(listed: Prices, theme: ThemeName) -> None:
    for spec in (
        prices_scale.spec(listed, theme),
        prices_room.spec(listed, theme),
        prices_session.spec(Session(listed, "card", None, None), theme),
    ):
        json.dumps(spec, allow_nan=False)
    assert len(prices_figures.tiles(listed)) == 6
    table = prices_table.as_csv(listed, CARD, CARD.presets[0]).decode()
    said = (prices_scale.sentence(listed), prices_room.sentence(listed), table)
    assert not any(word in text for text in said for word in ("nan", "inf"))
    assert listed.host_turns >= 0 <= listed.card_turns


@given(lists)
def test_every_mark_is_on_the_axis_with_room_for_its_label(listed: Prices) -> None:
    spec = prices_scale.spec(listed, "dark")
    low, high = spec["layout"]["xaxis"]["range"]
    for trace in spec["data"]:
        for at in trace["x"]:
            share = (math.log10(at) - low) / (high - low)
            assert -1e-6 <= share <= 0.86


@pytest.mark.parametrize("context", [16, 6_900, 1_000_000])
def test_no_two_labels_share_a_lane_but_p50_and_p90(context: int) -> None:
    spec = prices_scale.spec(replace(LISTED, context=context), "dark")
    lanes = [y for trace in spec["data"] if "text" in trace["mode"] for y in trace["y"]]
    assert sorted(lanes) == sorted([*prices_scale.LANES, prices_scale.WAITS])
    waits = next(trace for trace in spec["data"] if trace["y"][0] == prices_scale.WAITS and "text" in trace["mode"])
    assert waits["textposition"] == ["top left", "top right"]


@pytest.mark.parametrize("context", [16, 6_900, 1_000_000])
def test_the_marks_are_the_rows_times(context: int) -> None:
    spec, row = prices_scale.spec(replace(LISTED, context=context), "dark"), LISTED.row(context)
    at = {trace["y"][0]: trace["x"][0] for trace in spec["data"] if trace["mode"] == "markers+text"}
    assert at[prices_scale.BACK] == row.restore_s
    assert at[prices_scale.TRIP] == at[prices_scale.EVEN] == row.swap_s
    assert at[prices_scale.RECOMPUTE] == row.recompute_s


@given(st.floats(1e-11, 1e9), st.floats(1.5, 1e12))
def test_ticks_are_named_and_few(low: float, factor: float) -> None:
    ticks = time_ticks(low, low * factor)
    assert len(ticks["tickvals"]) == len(ticks["ticktext"]) <= MOST_TICKS
    assert all(low <= at <= low * factor for at in ticks["tickvals"])


def test_the_ticks_of_the_studys_range() -> None:
    assert time_ticks(1e-3, 120)["ticktext"] == ["1 ms", "10 ms", "100 ms", "1 s", "10 s", "1 min"]
    assert token_ticks(100, 200_000)["ticktext"] == ["100", "1,000", "10,000", "100,000"]


def test_the_lines_over_context_are_the_rows() -> None:
    spec = prices_session.spec(Session(LISTED, "card", None, None), "dark")
    trip, back, again = spec["data"]
    for tokens, swap, restore, recompute in zip(trip["x"], trip["y"], back["y"], again["y"], strict=True):
        row = LISTED.row(tokens)
        assert (swap, restore, recompute) == (row.swap_s, row.restore_s, row.recompute_s)
    assert trip["x"][0] <= min(CONTEXTS)
    assert max(CONTEXTS) <= trip["x"][-1]


def test_each_meaning_keeps_its_colour() -> None:
    def inks(spec: dict[str, Any]) -> set[str]:
        return {trace["line"]["color"] for trace in spec["data"] if trace.get("line", {}).get("color")}

    assert inks(prices_session.spec(Session(LISTED, "card", None, None), "dark")) == {"#f08cae", "#b7d94c"}
    assert {"#f08cae", "#b7d94c", "#b5852b"} <= inks(prices_scale.spec(LISTED, "dark"))
