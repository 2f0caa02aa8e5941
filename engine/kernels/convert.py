"""Blocks from one KV precision to another on CPU: numba kernels that run without the GIL, for several threads at once.

A row is the K or V of one layer, KV head and token: `dim` values; a block's `rows` rows are contiguous. Every kernel
takes flat typed arrays over the same bytes and, for each block, the element offsets where its values (and at q8 its
scales) begin: source and destination bytes must not overlap. They are serial on purpose: pool threads that share the
blocks lose nothing to spinning OpenMP workers when a move happens beside a busy machine.

q8: scale = amax / 127 per row, value = round(x / scale) to the nearest, half to even. A row whose scale would not be a
normal float32 becomes all zeros. What is not finite counts as the largest finite number, and what fp16 cannot hold is
clamped to +-65504, so no conversion ever makes a NaN or an infinity.
"""

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from engine.kernels.compiled import njit

HALF_MAX = np.float32(65504.0)
HALF_MAX_BITS = np.uint16(0x7BFF)
FLOAT_LIMIT_BITS = np.uint32(0x7F7F0000)
FLOAT_LIMIT = FLOAT_LIMIT_BITS.view(np.float32)
"""Just below the largest float32, so that 127 x its scale does not round up to infinity."""
SMALLEST_SCALE = np.float32(np.finfo(np.float32).tiny)


@intrinsic
def half_to_float(typingctx, bits):
    """uint16 bits of an IEEE half -> float32."""

    def codegen(context, builder, signature, args):
        return builder.fpext(builder.bitcast(args[0], ir.HalfType()), ir.FloatType())

    return types.float32(types.uint16), codegen


@intrinsic
def float_to_half(typingctx, value):
    """float32 -> uint16 bits of the nearest IEEE half."""

    def codegen(context, builder, signature, args):
        return builder.bitcast(builder.fptrunc(args[0], ir.HalfType()), ir.IntType(16))

    return types.uint16(types.float32), codegen


@intrinsic
def _float_bits(typingctx, value):
    def codegen(context, builder, signature, args):
        return builder.bitcast(args[0], ir.IntType(32))

    return types.uint32(types.float32), codegen


@intrinsic
def _bits_float(typingctx, bits):
    def codegen(context, builder, signature, args):
        return builder.bitcast(args[0], ir.FloatType())

    return types.float32(types.uint32), codegen


@intrinsic
def _larger_magnitude(typingctx, peak, bits):
    """The larger of `peak` and `bits` without its sign bit, in their own width; numba's max widens them to 64 bits."""

    def codegen(context, builder, signature, args):
        width = args[0].type.width
        magnitude = builder.and_(args[1], ir.Constant(args[1].type, (1 << (width - 1)) - 1))
        return builder.select(builder.icmp_unsigned(">", args[0], magnitude), args[0], magnitude)

    return peak(peak, bits), codegen


@njit(inline="always")
def _clamp_half(value):
    low = value if value > -HALF_MAX else -HALF_MAX
    return low if low < HALF_MAX else HALF_MAX


@njit(inline="always")
def _round_q8(value):
    low = value if value > np.float32(-127.0) else np.float32(-127.0)
    return np.int8(np.int32(np.rint(low if low < np.float32(127.0) else np.float32(127.0))))


@njit(inline="always")
def _scale_of(amax):
    """The scale of a row and its inverse; (0, 0) for a row too small to scale."""
    scale = amax / np.float32(127.0)
    if scale < SMALLEST_SCALE:
        return np.float32(0.0), np.float32(0.0)
    return scale, np.float32(1.0) / scale


@njit(nogil=True, cache=True, error_model="numpy")
def half_to_q8(src, src_at, dst, dst_at, scales, scales_at, rows, dim):
    """src uint16; dst int8; scales float32; `*_at` int64 (blocks,)."""
    for block in range(src_at.size):
        for row in range(rows):
            a = src[src_at[block] + row * dim : src_at[block] + (row + 1) * dim]
            b = dst[dst_at[block] + row * dim : dst_at[block] + (row + 1) * dim]
            peak = np.uint16(0)
            for d in range(dim):
                peak = _larger_magnitude(peak, a[d])
            scale, inverse = _scale_of(half_to_float(np.uint16(min(peak, HALF_MAX_BITS))))
            scales[scales_at[block] + row] = scale
            for d in range(dim):
                b[d] = _round_q8(half_to_float(a[d]) * inverse)


@njit(nogil=True, cache=True, error_model="numpy")
def float_to_q8(src, src_at, dst, dst_at, scales, scales_at, rows, dim):
    """src float32; dst int8; scales float32; `*_at` int64 (blocks,)."""
    for block in range(src_at.size):
        for row in range(rows):
            a = src[src_at[block] + row * dim : src_at[block] + (row + 1) * dim]
            b = dst[dst_at[block] + row * dim : dst_at[block] + (row + 1) * dim]
            peak = np.uint32(0)
            for d in range(dim):
                peak = _larger_magnitude(peak, _float_bits(a[d]))
            scale, inverse = _scale_of(_bits_float(np.uint32(min(peak, FLOAT_LIMIT_BITS))))
            scales[scales_at[block] + row] = scale
            for d in range(dim):
                b[d] = _round_q8(a[d] * inverse)


@njit(nogil=True, cache=True, error_model="numpy")
def q8_to_half(src, src_at, scales, scales_at, dst, dst_at, rows, dim):
    """src int8; scales float32; dst uint16; `*_at` int64 (blocks,)."""
    for block in range(src_at.size):
        for row in range(rows):
            a = src[src_at[block] + row * dim : src_at[block] + (row + 1) * dim]
            b = dst[dst_at[block] + row * dim : dst_at[block] + (row + 1) * dim]
            scale = scales[scales_at[block] + row]
            for d in range(dim):
                b[d] = float_to_half(_clamp_half(np.float32(a[d]) * scale))


@njit(nogil=True, cache=True, error_model="numpy")
def q8_to_float(src, src_at, scales, scales_at, dst, dst_at, rows, dim):
    """src int8; scales float32; dst float32; `*_at` int64 (blocks,)."""
    for block in range(src_at.size):
        for row in range(rows):
            a = src[src_at[block] + row * dim : src_at[block] + (row + 1) * dim]
            b = dst[dst_at[block] + row * dim : dst_at[block] + (row + 1) * dim]
            scale = scales[scales_at[block] + row]
            for d in range(dim):
                b[d] = np.float32(a[d]) * scale


@njit(nogil=True, cache=True, error_model="numpy")
def half_to_floats(src, src_at, dst, dst_at, size):
    """src uint16; dst float32; `size` values per block."""
    for block in range(src_at.size):
        a = src[src_at[block] : src_at[block] + size]
        b = dst[dst_at[block] : dst_at[block] + size]
        for d in range(size):
            b[d] = half_to_float(a[d])


@njit(nogil=True, cache=True, error_model="numpy")
def float_to_halves(src, src_at, dst, dst_at, size):
    """src float32; dst uint16; `size` values per block."""
    for block in range(src_at.size):
        a = src[src_at[block] : src_at[block] + size]
        b = dst[dst_at[block] : dst_at[block] + size]
        for d in range(size):
            b[d] = float_to_half(_clamp_half(a[d]))
