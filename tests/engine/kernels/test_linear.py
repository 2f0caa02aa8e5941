from typing import Any

import numpy as np
import pytest
from numba import njit

from engine.kernels.linear import gated, linear, linear_add, wide_floats
from engine.kernels.norm import rms_norm
from engine.kernels.rows import MOST_ROWS, row_blocks


def _tiles(w: np.ndarray) -> np.ndarray:
    """(outputs, inputs) -> the kernels' tiles of sixteen outputs, flat."""
    return np.ascontiguousarray(w.reshape(-1, 16, w.shape[1]).transpose(0, 2, 1)).reshape(-1)


def _weights(rng: np.random.Generator, kind: type, outputs: int, inputs: int) -> np.ndarray:
    return rng.integers(-127, 128, (outputs, inputs)).astype(kind)


def fresh(wide: int = wide_floats(576)) -> tuple[np.ndarray, np.ndarray, int]:
    """Three workers that may widen, and a counter of their own."""
    return np.full((3, wide), np.nan, np.float32), np.zeros(1, np.int64), 0


@pytest.mark.parametrize("kind", [np.int8, np.float32])
def test_linear_is_the_product_by_scale_and_bias(kind: type) -> None:
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((8, 48), np.float32), _weights(rng, kind, 80, 48)
    scale, bias = rng.random(80, np.float32), rng.standard_normal(80, np.float32)
    y = np.full((8, 80), np.nan, np.float32)
    linear(x.reshape(-1), row_blocks(8), 48, _tiles(w), 0, scale, bias, 0, 80, y.reshape(-1), *fresh())
    wanted = x.astype(np.float64) @ w.T.astype(np.float64) * scale + bias
    np.testing.assert_allclose(y, wanted, rtol=1e-5, atol=1e-3)
    before = y.copy()
    linear_add(x.reshape(-1), row_blocks(8), 48, _tiles(w), 0, scale, 0, 80, y.reshape(-1), *fresh())
    np.testing.assert_allclose(y, before + wanted - bias, rtol=1e-5, atol=1e-3)


@pytest.mark.parametrize("kind", [np.int8, np.float32])
def test_gated_is_silu_of_gate_times_up_and_survives_large_gates(kind: type) -> None:
    rng = np.random.default_rng(1)
    x, w = rng.standard_normal((4, 32), np.float32), _weights(rng, kind, 64, 32)
    x[0] *= 100
    scale = np.full(64, 0.01, np.float32)
    y = np.empty((4, 32), np.float32)
    gated(x.reshape(-1), row_blocks(4), 32, _tiles(w), 0, scale, 0, 32, y.reshape(-1), *fresh())
    gate, up = np.split(x.astype(np.float64) @ w.T.astype(np.float64) * 0.01, 2, axis=1)
    with np.errstate(over="ignore"):
        wanted = gate / (1 + np.exp(-gate)) * up
    assert np.abs(gate).max() > 100
    np.testing.assert_allclose(y, wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("kind", [np.int8, np.float32])
def test_a_row_has_the_same_bits_in_any_place_batch_and_block(kind: type) -> None:
    """Seven tiles, so that one stands without a neighbour."""
    rng = np.random.default_rng(2)
    x, w = rng.standard_normal((64, 576), np.float32), _tiles(_weights(rng, kind, 112, 576))
    scale, bias = rng.random(112, np.float32), rng.standard_normal(112, np.float32)

    def run(rows: np.ndarray, blocks: np.ndarray) -> list[np.ndarray]:
        y, added = np.empty((rows.shape[0], 112), np.float32), np.ones((rows.shape[0], 112), np.float32)
        through = np.empty((rows.shape[0], 48), np.float32)
        linear(rows.reshape(-1), blocks, 576, w, 0, scale, bias, 0, 112, y.reshape(-1), *fresh())
        linear_add(rows.reshape(-1), blocks, 576, w, 0, scale, 0, 112, added.reshape(-1), *fresh())
        gated(rows.reshape(-1), blocks, 576, w, 0, scale, 0, 48, through.reshape(-1), *fresh())
        return [y, added, through]

    full = run(x, row_blocks(64))
    assert np.array_equal(row_blocks(64)[:4, 1], [6, 6, 6, 6])
    for size in range(1, MOST_ROWS + 1):
        for first in (0, 1, 5, 64 - size):
            part = slice(first, first + size)
            for alone, among in zip(run(x[part], np.array([[0, size]])), full, strict=True):
                assert np.array_equal(alone, among[part])


def test_blocks_hold_every_row_once_and_no_more_than_most() -> None:
    for rows in range(200):
        blocks = row_blocks(rows)
        assert [row for first, count in blocks for row in range(first, first + count)] == list(range(rows))
        assert all(1 <= count <= MOST_ROWS for _, count in blocks)


def test_a_layer_is_found_behind_the_layers_before_it() -> None:
    rng = np.random.default_rng(3)
    x, w = rng.standard_normal((4, 16), np.float32), _weights(rng, np.int8, 64, 16)
    one, none = np.ones(64, np.float32), np.zeros(64, np.float32)
    both, second = np.empty((4, 64), np.float32), np.empty((4, 32), np.float32)
    linear(x.reshape(-1), row_blocks(4), 16, _tiles(w), 0, one, none, 0, 64, both.reshape(-1), *fresh())
    linear(x.reshape(-1), row_blocks(4), 16, _tiles(w), 32 * 16, one, none, 32, 32, second.reshape(-1), *fresh())
    assert np.array_equal(both[:, 32:], second)


def test_rms_norm_counts_the_real_floats_only() -> None:
    @njit
    def normalise(x: Any, count: int, weight: Any, eps: Any, y: Any) -> None:
        rms_norm(x, 0, x.size, count, weight, 0, eps, y, 0)

    rng = np.random.default_rng(4)
    x, weight = np.zeros(32, np.float32), np.zeros(32, np.float32)
    x[:20], weight[:20] = rng.standard_normal(20), rng.standard_normal(20)
    y = np.empty(32, np.float32)
    normalise(x, 20, weight, np.float32(1e-5), y)
    wanted = x / np.sqrt((x[:20].astype(np.float64) ** 2).mean() + 1e-5) * weight
    np.testing.assert_allclose(y, wanted, rtol=1e-5)
    assert not y[20:].any()
