"""The fit of a decode step: exact where the points are, never negative, and nothing made up where they say nothing."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.calibration.fit import LEAST_BASE_S, DecodeFit, fit_decode
from engine.cards.profile import DecodePoint
from engine.errors import Refused

BYTES_PER_TOKEN = 147_456
GRID = [(turns, context) for turns in (1, 2, 4, 8) for context in (64, 768, 2048)]


def points(
    base: float, per_turn: float, per_byte: float, grid: list[tuple[int, int]] = GRID, noise: float = 0.0
) -> list[DecodePoint]:
    rng = np.random.default_rng(7)
    made = []
    for turns, context in grid:
        nbytes = turns * context * BYTES_PER_TOKEN
        exact = base + turns * per_turn + nbytes * per_byte
        made.append(DecodePoint(turns, context, nbytes, exact * (1 + noise * float(rng.standard_normal()))))
    return made


def off(fit: DecodeFit, measured: list[DecodePoint]) -> list[float]:
    return [fit.seconds(point.turns, point.kv_bytes) / point.seconds - 1 for point in measured]


@settings(max_examples=150)
@given(st.floats(1e-4, 1.0), st.floats(0.0, 0.1), st.floats(0.0, 1e-9))
def test_exact_points_give_the_coefficients_back(base: float, per_turn: float, per_byte: float) -> None:
    measured = points(base, per_turn, per_byte)
    fit = fit_decode(measured)
    assert fit.worst < 1e-6
    assert min(fit.base_s, fit.per_turn_s, fit.per_kv_byte_s) >= 0
    # A part that is lost beside the others cannot come back to more digits than it has.
    for found, true, most in (
        (fit.base_s, base, 1.0),
        (fit.per_turn_s, per_turn, 8.0),
        (fit.per_kv_byte_s, per_byte, 8.0 * 2048 * BYTES_PER_TOKEN),
    ):
        assert abs(found - true) * most <= 1e-5 * max(point.seconds for point in measured)


def test_the_cards_own_figures_come_back() -> None:
    """18 ms alone and 5.6 times the tokens with eight turns, of 6,144 tokens."""
    one, eight = 0.018, 8 * 0.018 / 5.6
    slope = (eight - one) / 7
    fit = fit_decode(points(one - slope, slope / 2, slope / 2 / (6144 * BYTES_PER_TOKEN)))
    nbytes = 6144 * BYTES_PER_TOKEN
    assert fit.seconds(1, nbytes) == pytest.approx(0.018)
    assert 8 / fit.seconds(8, 8 * nbytes) / (1 / fit.seconds(1, nbytes)) == pytest.approx(5.6)


def test_noise_is_averaged_and_stated() -> None:
    true = (0.006, 0.0015, 1.2e-10)
    measured = points(*true, grid=GRID * 8, noise=0.05)
    fit = fit_decode(measured)
    assert (fit.base_s, fit.per_turn_s, fit.per_kv_byte_s) == pytest.approx(true, rel=0.1)
    deviations = off(fit, measured)
    assert fit.error == pytest.approx(float(np.sqrt(np.mean(np.square(deviations)))))
    assert fit.worst == pytest.approx(max(map(abs, deviations)))
    assert 0.03 < fit.error < 0.07


@settings(max_examples=150)
@given(st.lists(st.tuples(st.integers(1, 64), st.integers(1, 10_000), st.floats(1e-5, 10.0)), min_size=1, max_size=20))
def test_it_is_never_negative_and_never_worse_than_a_constant(given_points: list[tuple[int, int, float]]) -> None:
    measured = [DecodePoint(t, c, t * c * BYTES_PER_TOKEN, s) for t, c, s in given_points]
    fit = fit_decode(measured)
    assert fit.base_s >= LEAST_BASE_S
    assert fit.per_turn_s >= 0
    assert fit.per_kv_byte_s >= 0
    seconds = np.array([point.seconds for point in measured])
    constant = np.sum(1 / seconds) / np.sum(1 / seconds**2)
    assert fit.error <= np.sqrt(np.mean((constant / seconds - 1) ** 2)) + 1e-6
    assert fit.error <= fit.worst + 1e-12


def test_one_point_is_a_base_and_no_slope() -> None:
    fit = fit_decode([DecodePoint(1, 64, 64 * BYTES_PER_TOKEN, 0.02)])
    assert fit.base_s == pytest.approx(0.02)
    assert (fit.per_turn_s, fit.per_kv_byte_s) == (0.0, 0.0)
    assert fit.worst < 1e-9


def test_one_context_for_all_puts_the_slope_on_the_turns() -> None:
    """Turns and bytes cannot be told apart there."""
    fit = fit_decode(points(0.01, 0.002, 0.0, grid=[(turns, 768) for turns in (1, 2, 4, 8)]))
    assert (fit.base_s, fit.per_turn_s, fit.per_kv_byte_s) == pytest.approx((0.01, 0.002, 0.0))


def test_a_step_that_falls_with_turns_is_fitted_without_a_negative_slope() -> None:
    fit = fit_decode(points(0.02, -0.001, 0.0))
    assert fit.per_turn_s == 0.0
    assert fit.worst > 0.05


def test_the_same_point_many_times_is_one_point() -> None:
    fit = fit_decode([DecodePoint(4, 100, 400 * BYTES_PER_TOKEN, 0.03)] * 5)
    assert fit.seconds(4, 400 * BYTES_PER_TOKEN) == pytest.approx(0.03)


@pytest.mark.parametrize("seconds", [[], [0.0], [0.01, -1.0]])
def test_no_time_is_refused(seconds: list[float]) -> None:
    with pytest.raises(Refused, match="above 0"):
        fit_decode([DecodePoint(1, 64, 64, value) for value in seconds])
