"""The norm before each half of a layer."""

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from engine.kernels.emit import F32, LANES, Emitter


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
