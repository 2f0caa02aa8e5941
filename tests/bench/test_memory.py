"""What the memory bench makes of its readings: growth, noise, the verdict; and the load that it reads under."""

import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.bench.chromium import PageMemory
from app.bench.crowd import PROMPT_TOKENS, crowd_load
from app.bench.growth import HOUR_S, SETTLES_S, growth
from app.bench.memory import FLAT_MB, MB, READINGS, Reading, report
from app.bench.report import MET, MISSED, Bench
from app.bench.served import ServerMemory
from engine.turn import Priority

HALF_AN_HOUR = [15.0 * number for number in range(121)]


@given(st.floats(-500, 500), st.floats(50, 1000))
def test_a_straight_line_grows_by_its_slope(per_hour: float, base: float) -> None:
    found = growth(HALF_AN_HOUR, [base + per_hour * at / HOUR_S for at in HALF_AN_HOUR])
    assert found is not None
    assert found.per_hour == pytest.approx(per_hour, abs=1e-6)
    assert found.grown == pytest.approx(per_hour * (1800 - SETTLES_S) * 0.75 / HOUR_S, abs=0.02 * abs(per_hour) + 1e-6)


def test_what_is_taken_before_it_has_settled_is_no_growth() -> None:
    found = growth(HALF_AN_HOUR, [900.0 + min(at, SETTLES_S) for at in HALF_AN_HOUR])
    assert found is not None
    assert (found.grown, found.per_hour) == (0.0, 0.0)


def test_noise_is_told_and_is_no_growth() -> None:
    rng = random.Random(1)
    found = growth(HALF_AN_HOUR, [900.0 + rng.uniform(-8, 8) for _ in HALF_AN_HOUR])
    assert found is not None
    assert abs(found.grown) < 8
    assert found.low < found.per_hour < found.high


def test_a_few_readings_tell_nothing() -> None:
    assert growth(HALF_AN_HOUR[:5], [1.0] * 5) is None


def readings(server: float, renderer: float, heap: float) -> list[Reading]:
    """MB an hour each, over half an hour."""
    return [
        Reading(
            at,
            ServerMemory(round((950 + server * at / HOUR_S) * MB), 0, 16, 200),
            int(at),
            PageMemory(round((300 + renderer * at / HOUR_S) * MB), round((20 + heap * at / HOUR_S) * MB), 6000),
        )
        for at in HALF_AN_HOUR
    ]


@pytest.mark.parametrize(
    ("server", "renderer", "heap", "status"),
    [(10, 10, 10, MET), (100, 0, 0, MISSED), (0, 100, 0, MISSED), (0, 0, 100, MISSED)],
)
def test_each_kind_of_memory_has_its_target(server: float, renderer: float, heap: float, status: int) -> None:
    bench = Bench("memory")
    report(bench, readings(server, renderer, heap), 200, 2.0)
    assert bench.status == status
    assert len(bench.rows) == 13
    assert {target.target for target in bench.targets} == {FLAT_MB}
    assert sum("not flat" in note for note in bench.notes) == (status == MISSED)


def test_pages_of_the_host_pool_are_no_growth_of_the_server() -> None:
    bench = Bench("memory")
    filling = [
        replace(one, server=ServerMemory(round(950 * MB + one.at * MB), round(one.at * MB), 16, 200))
        for one in readings(0, 0, 0)
    ]
    report(bench, filling, 200, 2.0)
    assert bench.status == MET
    assert (bench.rows[-1]["server_MB"], bench.rows[-1]["host_pool_MB"]) == (950.0, 1800.0)


def test_without_a_browser_the_server_alone_is_told() -> None:
    bench = Bench("memory")
    alone = [Reading(one.at, one.server, None, None) for one in readings(0, 0, 0)]
    report(bench, alone, 200, 2.0)
    assert [target.name for target in bench.targets] == ["server: MB grown"]
    assert bench.rows[0]["renderer_MB"] is None


def test_half_a_minute_has_no_target() -> None:
    bench = Bench("memory", "quick")
    report(bench, readings(1000, 0, 0)[: READINGS + 1], 200, 2.0)
    assert bench.targets == []


def test_the_crowd_is_as_large_as_asked_and_half_of_it_foreground() -> None:
    load = crowd_load(200)
    assert load.agents_nominal == len(load.agents) == 200
    assert sum(agent.priority is Priority.FOREGROUND for agent in load.agents) == 100
    assert all(turn.rounds[0].appended >= PROMPT_TOKENS for agent in load.agents for turn in agent.turns)
