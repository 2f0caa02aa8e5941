"""Between the projection and attention: normalise and rotate queries and keys, write keys and values into blocks."""

import numpy as np
from numba import prange, types
from numba.extending import overload

from engine.kernels.compiled import njit
from engine.kernels.convert import HALF_MAX, SMALLEST_SCALE, float_to_half
from engine.kernels.norm import rms_norm

FEW_ROWS = 16
"""So few take less time than waking workers and waiting for them."""


def _store_row(x, x_at, dim, kv, kv_at, scales, scale_at):
    """Write `dim` floats at the arena's precision; at q8 their scale too. Never a NaN or an infinity at fp16 and q8."""
    raise AssertionError("called from numba code only")


@overload(_store_row)
def _store_row_for(x, x_at, dim, kv, kv_at, scales, scale_at):
    def store_float(x, x_at, dim, kv, kv_at, scales, scale_at):
        for d in range(dim):
            kv[kv_at + d] = x[x_at + d]

    def store_half(x, x_at, dim, kv, kv_at, scales, scale_at):
        for d in range(dim):
            kv[kv_at + d] = float_to_half(min(max(x[x_at + d], -HALF_MAX), HALF_MAX))

    def store_q8(x, x_at, dim, kv, kv_at, scales, scale_at):
        peak = np.float32(0.0)
        for d in range(dim):
            peak = max(peak, abs(x[x_at + d]))
        scale = min(peak, np.finfo(np.float32).max) / np.float32(127.0)
        inverse = np.float32(0.0)
        if scale < SMALLEST_SCALE:
            scale = np.float32(0.0)
        else:
            inverse = np.float32(1.0) / scale
        scales[scale_at] = scale
        for d in range(dim):
            value = min(max(x[x_at + d] * inverse, np.float32(-127.0)), np.float32(127.0))
            kv[kv_at + d] = np.int8(np.int32(np.rint(value)))

    return {types.float32: store_float, types.uint16: store_half, types.int8: store_q8}[kv.dtype]


@njit(nogil=True, cache=True)
def _prepare(x, x_at, dim, padded, norm, norm_at, eps, cos, sin, position, factor):
    """One head in place: RMS norm (if `norm` is not empty), rotation, multiplication by `factor`."""
    if norm.size > 0:
        rms_norm(x, x_at, padded, dim, norm, norm_at, eps, x, x_at)
    half = dim // 2
    for d in range(half):
        a = x[x_at + d]
        b = x[x_at + half + d]
        c = cos[position, d]
        s = sin[position, d]
        x[x_at + d] = (a * c - b * s) * factor
        x[x_at + half + d] = (b * c + a * s) * factor


@njit(nogil=True, cache=True, error_model="numpy")
def _store_unit(
    unit, qkv, width, positions, turns, table, heads, kv_heads, dim, padded, layer, block_size, q_norm, k_norm, eps,
    cos, sin, kv, kv_stride, scales, scale_offset, scale_stride,
):  # fmt: skip
    """One KV head of one row, with its queries."""
    group = heads // kv_heads
    softmax_scale = np.float32(1.0 / np.sqrt(np.float64(dim)))
    row = unit // kv_heads
    head = unit % kv_heads
    position = positions[row]
    block = table[turns[row], position // block_size]
    k_at = row * width + (heads + head) * padded
    for g in range(group):
        q_at = row * width + (head * group + g) * padded
        _prepare(qkv, q_at, dim, padded, q_norm, layer * padded, eps, cos, sin, position, softmax_scale)
    _prepare(qkv, k_at, dim, padded, k_norm, layer * padded, eps, cos, sin, position, np.float32(1.0))
    for which in range(2):
        plane = ((layer * 2 + which) * kv_heads + head) * block_size + position % block_size
        _store_row(
            qkv, k_at + which * kv_heads * padded, dim, kv, block * kv_stride + plane * dim,
            scales, block * scale_stride + scale_offset + plane,
        )  # fmt: skip


@njit(parallel=True, nogil=True, cache=True, error_model="numpy")
def store(
    qkv, width, rows, positions, turns, table, heads, kv_heads, dim, padded, layer, block_size, q_norm, k_norm, eps,
    cos, sin, kv, kv_stride, scales, scale_offset, scale_stride,
):  # fmt: skip
    """Queries and keys of `rows` rows in place, then their K and V into the arena, one layer. Shapes as in `attend`;
    q_norm, k_norm: (layers x padded) or empty; cos, sin: (positions, dim / 2)."""
    if rows <= FEW_ROWS:
        for unit in range(rows * kv_heads):
            _store_unit(
                unit, qkv, width, positions, turns, table, heads, kv_heads, dim, padded, layer, block_size, q_norm,
                k_norm, eps, cos, sin, kv, kv_stride, scales, scale_offset, scale_stride,
            )  # fmt: skip
    else:
        for unit in prange(rows * kv_heads):
            _store_unit(
                unit, qkv, width, positions, turns, table, heads, kv_heads, dim, padded, layer, block_size, q_norm,
                k_norm, eps, cos, sin, kv, kv_stride, scales, scale_offset, scale_stride,
            )  # fmt: skip
