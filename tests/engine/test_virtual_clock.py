"""Modelled time: it stands still until somebody advances it; paced, it keeps to real time or says by how much it lags.

pytest tests/engine/test_virtual_clock.py
"""

import pytest

from engine.virtual_clock import FASTEST, IDLE_PACE, PacedClock, VirtualClock


class Real:
    """A real clock that a test moves."""

    def __init__(self) -> None:
        self.at = 500.0

    def __call__(self) -> float:
        return self.at


def paced(pace: float) -> tuple[PacedClock, Real]:
    real = Real()
    return PacedClock(pace, real, lambda: 1_800_000_000.0), real


def test_it_moves_only_when_told_and_never_back() -> None:
    clock = VirtualClock(epoch=1_800_000_000.0)
    clock.advance(2.5)
    clock.advance_to(1.0)
    assert clock.now() == 2.5
    clock.advance_to(10.0)
    assert (clock.now(), clock.utc(10.0)) == (10.0, 1_800_000_010.0)
    assert (clock.lead_s(), clock.shortfall()) == (0.0, None)
    clock.follow()
    assert clock.now() == 10.0


def test_a_paced_one_starts_with_the_real_one_and_tells_how_far_it_is_ahead() -> None:
    clock, real = paced(10.0)
    assert (clock.now(), clock.utc(500.0)) == (500.0, 1_800_000_000.0)
    clock.advance(5.0)
    assert clock.lead_s() == pytest.approx(0.5)
    real.at += 0.2
    assert clock.lead_s() == pytest.approx(0.3)
    assert clock.real_s(5.0) == pytest.approx(0.5)


def test_with_nothing_to_do_it_follows_the_real_one() -> None:
    clock, real = paced(10.0)
    real.at += 3.0
    clock.follow()
    assert clock.now() == pytest.approx(530.0)
    assert clock.lead_s() == pytest.approx(0.0)


def test_time_that_computing_took_is_lost_and_told() -> None:
    clock, real = paced(100.0)
    for _ in range(30):
        clock.advance(1.0)
        real.at += 0.1
        assert clock.lead_s() == 0.0
    assert clock.shortfall() == "the twin runs at 10x real time, not at the 100x asked for"
    clock.advance(20.0)
    assert clock.lead_s() == pytest.approx(0.2), "what was lost is not caught up with"
    while real.at < 510.0:
        clock.advance(1.0)
        real.at += clock.lead_s()
    assert clock.shortfall() is None


def test_another_pace_counts_from_where_it_is_set() -> None:
    clock, real = paced(1.0)
    clock.advance(3.0)
    real.at += 3.0
    clock.set_pace(10.0)
    assert (clock.now(), clock.lead_s(), clock.real_s(5.0)) == (503.0, 0.0, 0.5)
    clock.advance(5.0)
    assert clock.lead_s() == pytest.approx(0.5)
    real.at += 1.0
    clock.follow()
    assert clock.now() == pytest.approx(513.0)


def test_the_fastest_waits_for_nobody_complains_of_nothing_and_says_what_it_kept() -> None:
    clock, real = paced(FASTEST)
    for _ in range(30):
        clock.advance(4.0)
        real.at += 0.1
        assert clock.lead_s() == 0.0
    assert clock.shortfall() is None
    assert clock.kept == pytest.approx(40.0)
    before = clock.now()
    real.at += 0.5
    clock.follow()
    assert clock.now() == pytest.approx(before + 0.5 * IDLE_PACE)


def test_a_shortfall_that_hardly_changes_is_told_in_the_same_words() -> None:
    clock, real = paced(100.0)
    told = set()
    for each in (1.0, 1.02, 0.98, 1.05):
        for _ in range(30):
            clock.advance(each)
            real.at += 0.1
            clock.lead_s()
        told.add(clock.shortfall())
    assert told == {"the twin runs at 10x real time, not at the 100x asked for"}
