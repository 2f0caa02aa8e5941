"""Modelled time: it stands still until somebody advances it; paced, it keeps to real time or says by how much it lags.

pytest tests/engine/test_virtual_clock.py
"""

import pytest

from engine.virtual_clock import PacedClock, VirtualClock


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
