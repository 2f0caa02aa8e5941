"""Linear layers: weights int8 (one fp32 scale per output) or fp32, activations fp32, four rows at a time.

Layouts, all flat: x (rows, inputs) with rows a multiple of four; w (outputs / 16, inputs, 16), so that sixteen
neighbouring outputs of one input lie together; scale, bias (outputs). inputs and outputs are padded to multiples of
16 with zeros. Each output is one sum over the inputs in ascending order, times its scale, plus its bias: the same bits
for a row whatever rows stand beside it and however many threads work.
"""

from typing import Any

from llvmlite import ir
from numba import prange, types
from numba.extending import intrinsic

from engine.kernels.compiled import njit
from engine.kernels.emit import F32, LANES, Emitter

ROWS = 4
"""Rows that share one pass over a tile of weights; row counts are padded to it."""

_UNROLL = 4


def _products(e: Emitter, x: ir.Value, x_at: ir.Value, inputs: ir.Value, w: ir.Value, w_at: ir.Value, kind: Any):
    """ROWS vectors of 16 sums."""
    rows = [e.at(x, e.b.add(x_at, e.b.mul(inputs, e.count(row)))) for row in range(ROWS)]
    tile = e.at(w, w_at)

    def body(index: ir.Value, sums: list[ir.Value]) -> list[ir.Value]:
        for step in range(_UNROLL):
            k = e.b.add(e.b.mul(index, e.count(_UNROLL)), e.count(step))
            weights = e.widen(tile, e.b.mul(k, e.count(LANES)), kind, LANES)
            sums = [
                e.fma(e.splat(e.load_scalar(row, k), LANES), weights, total)
                for row, total in zip(rows, sums, strict=True)
            ]
        return sums

    return e.loop(e.b.sdiv(inputs, e.count(_UNROLL)), [e.fill(0.0, LANES)] * ROWS, body)


@intrinsic
def _tile(typing_context, x, x_at, inputs, w, w_at, scale, bias, s_at, y, y_at, outputs):
    """y = x w scale + bias for ROWS rows and 16 outputs."""
    signature = types.void(x, x_at, inputs, w, w_at, scale, bias, s_at, y, y_at, outputs)

    def codegen(context, builder, sig, args):
        e = Emitter(context, builder, sig, args)
        x, x_at, inputs, w, w_at, scale, bias, s_at, y, y_at, outputs = e.args
        factor = e.load_f32(scale, s_at, LANES)
        offset = e.load_f32(bias, s_at, LANES)
        for row, total in enumerate(_products(e, x, x_at, inputs, w, w_at, sig.args[3].dtype)):
            e.store(e.fma(total, factor, offset), y, builder.add(y_at, builder.mul(outputs, e.count(row))))
        return e.done()

    return signature, codegen


@intrinsic
def _tile_add(typing_context, x, x_at, inputs, w, w_at, scale, s_at, y, y_at, outputs):
    """y += x w scale for ROWS rows and 16 outputs."""
    signature = types.void(x, x_at, inputs, w, w_at, scale, s_at, y, y_at, outputs)

    def codegen(context, builder, sig, args):
        e = Emitter(context, builder, sig, args)
        x, x_at, inputs, w, w_at, scale, s_at, y, y_at, outputs = e.args
        factor = e.load_f32(scale, s_at, LANES)
        for row, total in enumerate(_products(e, x, x_at, inputs, w, w_at, sig.args[3].dtype)):
            place = builder.add(y_at, builder.mul(outputs, e.count(row)))
            e.store(e.fma(total, factor, e.load_f32(y, place, LANES)), y, place)
        return e.done()

    return signature, codegen


@intrinsic
def _tile_gated(typing_context, x, x_at, inputs, w, gate_at, up_at, scale, gate_s, up_s, y, y_at, outputs):
    """y = silu(gate) x up for ROWS rows and 16 outputs, where gate and up are tiles of w."""
    signature = types.void(x, x_at, inputs, w, gate_at, up_at, scale, gate_s, up_s, y, y_at, outputs)

    def codegen(context, builder, sig, args):
        e = Emitter(context, builder, sig, args)
        x, x_at, inputs, w, gate_at, up_at, scale, gate_s, up_s, y, y_at, outputs = e.args
        kind = sig.args[3].dtype
        places = [builder.add(y_at, builder.mul(outputs, e.count(row))) for row in range(ROWS)]
        one = e.fill(1.0, LANES)
        for place, total in zip(places, _products(e, x, x_at, inputs, w, gate_at, kind), strict=True):
            gate = builder.fmul(total, e.load_f32(scale, gate_s, LANES))
            e.store(builder.fdiv(gate, builder.fadd(one, e.exp(builder.fneg(gate)))), y, place)
        for place, total in zip(places, _products(e, x, x_at, inputs, w, up_at, kind), strict=True):
            up = builder.fmul(total, e.load_f32(scale, up_s, LANES))
            e.store(builder.fmul(e.load_f32(y, place, LANES), up), y, place)
        return e.done()

    return signature, codegen


@intrinsic
def rms_norm(typing_context, x, x_at, padded, count, weight, w_at, eps, y, y_at):
    """y = x / sqrt(mean(x^2) + eps) x weight over `padded` floats (a multiple of 16) of which `count` are real."""
    signature = types.void(x, x_at, padded, count, weight, w_at, eps, y, y_at)

    def codegen(context, builder, sig, args):
        e = Emitter(context, builder, sig, args)
        x, x_at, padded, count, weight, w_at, eps, y, y_at = e.args
        chunks = builder.sdiv(padded, e.count(LANES))

        def place(base: ir.Value, index: ir.Value) -> ir.Value:
            return builder.add(base, builder.mul(index, e.count(LANES)))

        def square(index: ir.Value, sums: list[ir.Value]) -> list[ir.Value]:
            value = e.load_f32(x, place(x_at, index), LANES)
            return [e.fma(value, value, sums[0])]

        def scaled(index: ir.Value, carried: list[ir.Value]) -> list[ir.Value]:
            value = builder.fmul(e.load_f32(x, place(x_at, index), LANES), carried[0])
            e.store(builder.fmul(value, e.load_f32(weight, place(w_at, index), LANES)), y, place(y_at, index))
            return carried

        total = e.fold(e.loop(chunks, [e.fill(0.0, LANES)], square)[0], builder.fadd)
        mean = builder.fdiv(total, builder.sitofp(count, F32))
        deviation = e.sqrt(builder.fadd(mean, eps))
        inverse = builder.fdiv(ir.Constant(F32, 1.0), deviation)
        e.loop(chunks, [e.splat(inverse, LANES)], scaled)
        return e.done()

    return signature, codegen


@njit(parallel=True, nogil=True, cache=True)
def linear(x, rows, inputs, w, w_at, scale, bias, s_at, outputs, y):
    """y (rows, outputs) = x w^T + bias. `w_at`, `s_at`: where this layer begins in w and in scale and bias."""
    for tile in prange(outputs // LANES):
        for row in range(0, rows, ROWS):
            _tile(
                x, row * inputs, inputs, w, w_at + tile * inputs * LANES, scale, bias, s_at + tile * LANES,
                y, row * outputs + tile * LANES, outputs,
            )  # fmt: skip


@njit(parallel=True, nogil=True, cache=True)
def linear_add(x, rows, inputs, w, w_at, scale, s_at, outputs, y):
    """y (rows, outputs) += x w^T."""
    for tile in prange(outputs // LANES):
        for row in range(0, rows, ROWS):
            _tile_add(
                x, row * inputs, inputs, w, w_at + tile * inputs * LANES, scale, s_at + tile * LANES,
                y, row * outputs + tile * LANES, outputs,
            )  # fmt: skip


@njit(parallel=True, nogil=True, cache=True)
def gated(x, rows, inputs, w, w_at, scale, s_at, outputs, y):
    """y (rows, outputs) = silu(x gate^T) x (x up^T); w holds gate, then up, each (outputs, inputs)."""
    for tile in prange(outputs // LANES):
        gate_at = w_at + tile * inputs * LANES
        gate_s = s_at + tile * LANES
        for row in range(0, rows, ROWS):
            _tile_gated(
                x, row * inputs, inputs, w, gate_at, gate_at + inputs * outputs, scale, gate_s, gate_s + outputs,
                y, row * outputs + tile * LANES, outputs,
            )  # fmt: skip
