"""Softmax weights of a row of logits against double precision, for every length around a vector and a stretch."""

import numpy as np
import pytest

from engine.kernels.weigh import STRETCH, above, peak, weigh

SIZES = [1, 2, 15, 16, 17, 33, STRETCH - 1, STRETCH, STRETCH + 1, 3 * STRETCH + 21]


def row(size: int) -> np.ndarray:
    return (np.random.default_rng(size).standard_normal(size) * 4).astype(np.float32)


def weighed(logits: np.ndarray, colder: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    stretches = -(-logits.size // STRETCH)
    weights, tops = np.full(logits.size, np.nan, np.float32), np.full(stretches, np.nan, np.float32)
    sums = np.full(stretches, np.nan)
    weigh(logits, np.float32(logits.max()), np.float32(colder), weights, sums, tops)
    return weights, sums, tops


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("colder", [1.0, 1.25, 0.1])
def test_weights_and_their_sums(size: int, colder: float) -> None:
    logits = row(size)
    weights, sums, tops = weighed(logits, colder)
    exact = np.exp((logits.astype(np.float64) - float(logits.max())) * colder)
    np.testing.assert_allclose(weights, exact, rtol=5e-6)
    starts = np.arange(0, size, STRETCH)
    np.testing.assert_allclose(sums, np.add.reduceat(weights, starts, dtype=np.float64), rtol=1e-14)
    np.testing.assert_array_equal(tops, np.maximum.reduceat(weights, starts))


@pytest.mark.parametrize("colder", [1e6, 1e30])
def test_cold_weights_leave_the_first_alone(colder: float) -> None:
    weights, sums, _ = weighed(np.array([-3e38, 1.0, 3.0, 2.0, -3e38] * 60, np.float32), colder)
    assert sums.sum() == pytest.approx(60)
    assert weights[weights < 1].max() < 1e-37


@pytest.mark.parametrize("size", SIZES)
def test_the_peak_and_what_is_no_number(size: int) -> None:
    logits = row(size)
    assert peak(logits) == logits.max()
    assert peak(np.full(size, -3e38, np.float32)) == np.float32(-3e38)
    for bad in (np.nan, np.inf, -np.inf):
        for at in {0, size // 2, size - 1}:
            broken = logits.copy()
            broken[at] = bad
            assert np.isnan(peak(broken))


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("cut", [1.0, 0.5, 2**-8, 0.0])
def test_tokens_above_a_weight(size: int, cut: float) -> None:
    weights, _, tops = weighed(row(size), 0.5)
    found = np.empty(size, np.int64)
    count, mass = above(weights, tops, np.float32(cut), found)
    np.testing.assert_array_equal(found[:count], np.flatnonzero(weights >= np.float32(cut)))
    assert mass == pytest.approx(weights[found[:count]].sum(dtype=np.float64))
