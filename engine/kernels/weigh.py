"""From a row of logits to softmax weights, and to the few tokens that carry most of them.

Weights are added up in double precision by stretches of STRETCH tokens, in an order that the code fixes: the same
logits give the same sums on every machine.
"""

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from engine.kernels.compiled import njit
from engine.kernels.emit import F32, LANES, Emitter, vector

STRETCH = 256
"""Tokens whose weights are added up together: who looks for one token need not go through all."""

_F64 = ir.DoubleType()


@intrinsic
def _peak(typing_context, logits, count):
    """The largest of them; NaN if one is not finite."""
    signature = types.float32(logits, count)

    def codegen(context, builder, sig, args):
        e = Emitter(context, builder, sig, args)
        logits, count = e.args

        def run(first: ir.Value, passes: ir.Value, lanes: int) -> ir.Value:
            def body(index: ir.Value, carried: list[ir.Value]) -> list[ir.Value]:
                x = e.load_f32(logits, builder.add(first, builder.mul(index, e.count(lanes))), lanes)
                return [e.larger(x, carried[0]), builder.fadd(carried[1], builder.fsub(x, x))]

            peak, odd = e.loop(passes, [e.fill(float("-inf"), lanes), e.fill(0.0, lanes)], body)
            return builder.fadd(e.fold(peak, e.larger), e.fold(odd, builder.fadd))

        whole = builder.sdiv(count, e.count(LANES))
        done = builder.mul(whole, e.count(LANES))
        ends = (run(e.count(0), whole, LANES), run(done, builder.sub(count, done), 1))
        odd = builder.fcmp_unordered("uno", *ends)
        return builder.select(odd, ir.Constant(F32, float("nan")), e.larger(*ends))

    return signature, codegen


@intrinsic
def _stretch(typing_context, logits, at, count, peak, colder, weights, sums, tops, index):
    """weights[i] = e^((logits[i] - peak) x colder) for `count` tokens from `at` on; their sum and the largest go to
    `index`."""
    signature = types.void(logits, at, count, peak, colder, weights, sums, tops, index)

    def codegen(context, builder, sig, args):
        e = Emitter(context, builder, sig, args)
        logits, at, count, peak, colder, weights, sums, tops, index = e.args

        def run(first: ir.Value, passes: ir.Value, lanes: int) -> tuple[ir.Value, ir.Value]:
            double = vector(_F64, lanes)

            def body(i: ir.Value, carried: list[ir.Value]) -> list[ir.Value]:
                place = builder.add(first, builder.mul(i, e.count(lanes)))
                below = builder.fsub(e.load_f32(logits, place, lanes), e.splat(peak, lanes))
                weight = e.exp(builder.fmul(below, e.splat(colder, lanes)))
                e.store(weight, weights, place)
                return [builder.fadd(carried[0], builder.fpext(weight, double)), e.larger(weight, carried[1])]

            total, top = e.loop(passes, [ir.Constant(double, [0.0] * lanes), e.fill(0.0, lanes)], body)
            return e.fold(total, builder.fadd), e.fold(top, e.larger)

        whole = builder.sdiv(count, e.count(LANES))
        done = builder.mul(whole, e.count(LANES))
        total, top = run(at, whole, LANES)
        rest, other = run(builder.add(at, done), builder.sub(count, done), 1)
        e.store_scalar(builder.fadd(total, rest), sums, index)
        e.store_scalar(e.larger(top, other), tops, index)
        return e.done()

    return signature, codegen


@njit(nogil=True, cache=True)
def peak(logits):
    """The largest of float32 `logits`; NaN if one of them is no finite number."""
    return _peak(logits, logits.size)


@njit(nogil=True, cache=True)
def weigh(logits, most, colder, weights, sums, tops):
    """Softmax weights of `logits`, float32 (n,), over the largest's, `most`, sharpened by `colder` = 1 / temperature;
    sum (float64) and largest of each stretch."""
    for index in range(sums.size):
        at = index * STRETCH
        _stretch(logits, at, min(STRETCH, logits.size - at), most, colder, weights, sums, tops, index)


@njit(nogil=True, cache=True)
def above(weights, tops, cut, tokens):
    """Writes all tokens of at least the weight `cut` to `tokens`, ascending; returns their number and mass."""
    count, mass = 0, 0.0
    for index in range(tops.size):
        if tops[index] >= cut:
            for token in range(index * STRETCH, min((index + 1) * STRETCH, weights.size)):
                if weights[token] >= cut:
                    tokens[count] = token
                    count += 1
                    mass += np.float64(weights[token])
    return count, mass
