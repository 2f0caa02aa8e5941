"""Moves of a session as points, and the chart that they stand in."""

import json
import random
from collections.abc import Sequence
from dataclasses import replace

import pytest

from engine.cards.profile import Calibration
from engine.cards.store import load_card
from engine.costs import Costs
from engine.events import EventKind, MoveCost
from engine.paper.prices import prices
from engine.turn import TurnId
from panels import fields, prices_here, prices_session
from panels.prices_here import Here
from panels.prices_points import MOST_POINTS, points, thinned
from panels.prices_session import Session
from tests.panels.fake_control import COSTS, FakeControl

CARD = load_card("rx9070xt")
LISTED = prices(CARD, CARD.preset("swap"), context=6_900)
HERE = Here(COSTS, 23_040)
OUT, BACK, AGAIN = EventKind.SWAP_OUT, EventKind.SWAP_IN, EventKind.RECOMPUTE


def move(kind: EventKind, turn: int, seconds: float = 0.01, tokens: int = 700, agent: str = "agent 1") -> MoveCost:
    return MoveCost(kind, 1.0, TurnId(turn), agent, tokens, 0 if kind == AGAIN else tokens * 23_040, seconds)


def session(moves: Sequence[MoveCost] | None, here: Here | None = HERE) -> Session:
    return Session(LISTED, CARD.name, here, None if moves is None else points(moves))


def many(count: int) -> list[MoveCost]:
    chance = random.Random(7)
    kinds = (OUT, BACK, AGAIN)
    return [
        move(chance.choice(kinds), chance.randrange(40), chance.lognormvariate(-4, 2), chance.randrange(1, 9_000))
        for _ in range(count)
    ]


def test_out_and_back_of_one_turn_are_one_round_trip() -> None:
    found = points([move(OUT, 1, 0.02), move(OUT, 2, 0.05), move(BACK, 1, 0.03)])
    assert [point.seconds for point in found.trips] == [pytest.approx(0.05)]
    assert [point.seconds for point in found.one_way] == [0.05]
    assert found.trips[0].out_bytes == found.trips[0].back_bytes == 700 * 23_040


def test_a_copy_whose_other_half_is_not_known_is_one_way() -> None:
    found = points([move(BACK, 1), move(OUT, 2), move(OUT, 2), move(BACK, 2)])
    assert (len(found.trips), len(found.one_way)) == (1, 2)


def test_what_has_no_place_on_a_log_axis_is_left_out() -> None:
    assert points([move(OUT, 1, 0.0), move(AGAIN, 2, tokens=0)]).total == 0


def test_every_move_is_in_one_point() -> None:
    moves = many(5_000)
    found = points(moves)
    assert 2 * len(found.trips) + len(found.one_way) + len(found.recomputes) == len(moves)


def test_thousands_are_thinned_to_the_latest_among_them() -> None:
    found = points(many(5_000)).recomputes
    shown = thinned(found)
    assert len(shown) <= MOST_POINTS < len(found)
    assert shown[-1] == found[-1]
    assert thinned(found[:5]) == found[:5]
    assert thinned(()) == ()


def test_the_total_is_said_where_not_all_are_drawn() -> None:
    text = prices_session.sentence(session(many(5_000)))
    count = len(points(many(5_000)).recomputes)
    assert f"{count:,} recomputes (" in text
    assert "drawn)" in text


def test_no_engine_no_moves_and_no_rates_are_told_apart() -> None:
    assert "No engine runs" in prices_session.sentence(session(None, None))
    assert prices_session.sentence(session([])).startswith("No swap or recompute yet in this session.")
    assert "not measured yet" in prices_session.sentence(session([move(AGAIN, 1)], None))
    assert "1 recompute." in prices_session.sentence(session([move(AGAIN, 1)]))


def test_the_chart_has_the_cards_lines_this_machines_and_the_points() -> None:
    data = prices_session.spec(session([move(OUT, 1), move(BACK, 1), move(OUT, 2), move(AGAIN, 3)]), "dark")["data"]
    names = [trace["name"] for trace in data]
    lines = ("out and back", "way back alone", "recompute")
    assert names[:3] == [f"RX 9070 XT: {what}" for what in lines]
    assert names[3:6] == [f"this machine, measured rates: {what}" for what in lines]
    assert names[6:] == ["measured: round trips", "measured: one way", "measured: recomputes"]
    assert len({trace["marker"]["symbol"] for trace in data[6:]}) == 3


def test_the_points_of_the_script_lie_on_this_machines_lines() -> None:
    found = points(FakeControl(at=112.0).moves())
    here = Here(COSTS, 23_040)
    assert found.trips
    assert found.recomputes
    assert all(point.seconds == pytest.approx(here.round_trip_s(point.tokens)) for point in found.trips)
    assert all(point.seconds == pytest.approx(here.recompute_s(point.tokens)) for point in found.recomputes)


def test_where_the_card_is_this_machine_the_lines_are_drawn_once() -> None:
    bytes_per_token = LISTED.kv_bytes(1)
    same = Here(Costs(50e9, 50e9, 962.0, 0.01, 0.001), round(bytes_per_token))
    assert len(prices_session.spec(session([], same), "dark")["data"]) == 3
    assert len(prices_session.spec(session([], HERE), "dark")["data"]) == 6


def test_names_of_agents_are_text() -> None:
    name = "<b>x</b><script>" + "y" * 90
    spec = prices_session.spec(session([move(AGAIN, 1, agent=name)]), "dark")
    text = spec["data"][-1]["text"][0]
    assert text.startswith("&lt;b&gt;x&lt;/b&gt;&lt;script&gt;")
    assert len(text) < 140
    assert "700 tokens" in text


def test_five_thousand_moves_make_a_small_chart() -> None:
    spec = prices_session.spec(session(many(5_000)), "light")
    assert all(len(trace["x"]) <= MOST_POINTS for trace in spec["data"])
    assert len(json.dumps(spec, allow_nan=False)) < 500_000


def test_rates_that_are_not_measured_are_none() -> None:
    snapshot = FakeControl(at=60.0).snapshot
    assert prices_here.here(snapshot) is not None
    assert prices_here.here(None) is None
    assert prices_here.here(replace(snapshot, costs=None)) is None
    assert prices_here.here(replace(snapshot, costs=replace(COSTS, swap_out_bytes_per_s=0.0))) is None
    assert prices_here.link_line(None) == "measured here: n/a"
    assert prices_here.link_line(HERE) == "measured here: 4.10 GB/s out, 5.30 back"


def test_a_measured_rate_lies_where_the_slider_has_it() -> None:
    options = fields.offered((1.0, 2.0, 4.0, 8.0), 4.62)
    assert options == [1.0, 2.0, 4.0, 4.62, 8.0]
    assert prices_here.mark(options, 4.62) == {"place": 0.75, "text": "measured 4.62"}
    assert prices_here.mark(options, 3.0)["place"] == 0.375
    assert [fields.place(options, value) for value in (0.5, 1.0, 8.0, 900.0)] == [0.0, 0.0, 1.0, 1.0]
    assert fields.place([5.0], 5.0) == 0.0
    assert prices_here.mark(options, None)["place"] is None


def test_without_an_engine_the_last_calibration_stands_in() -> None:
    card = load_card()
    assert prices_here.of_card(card) is None
    done = Calibration("2026-11-30T08:39:21Z", "torch", "a model", 368_640, (), (), (), 0.1, 0.2)
    found = prices_here.of_card(replace(card, calibration=done))
    assert found is not None
    assert prices_here.link_line(found) == "calibrated here on 2026-11-30: 50.0 GB/s out, 50.0 back"
    assert prices_here.prefill_line(found) == "calibrated here on 2026-11-30: 962 tok/s"
