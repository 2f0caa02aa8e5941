"""A tile's keys or values on their way to the core: asked for ahead, widened to float32, turned."""

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from engine.kernels.attend_tile import TILE
from engine.kernels.emit import LANES, Emitter

_HALF = 8
_LINE = 64


@intrinsic
def widen(typing_context, kv, kv_at, tokens, dim, tile, tile_at, padded):
    """Store `tokens` rows of `dim` values as float32 rows, `padded` apart."""
    signature = types.void(kv, kv_at, tokens, dim, tile, tile_at, padded)

    def codegen(context, builder, sig, args):
        e = Emitter(context, builder, sig, args)
        kv, kv_at, tokens, dim, tile, tile_at, padded = e.args
        kind = sig.args[0].dtype
        whole = builder.sdiv(dim, e.count(_HALF))
        tail = builder.srem(dim, e.count(_HALF))

        def row(token: ir.Value, carried: list[ir.Value]) -> list[ir.Value]:
            source = builder.add(kv_at, builder.mul(token, dim))
            target = builder.add(tile_at, builder.mul(token, padded))

            def copy(lanes: int, start: ir.Value):
                def body(index: ir.Value, nothing: list[ir.Value]) -> list[ir.Value]:
                    step = builder.add(start, builder.mul(index, e.count(lanes)))
                    value = e.widen(kv, builder.add(source, step), kind, lanes)
                    e.store(value, tile, builder.add(target, step))
                    return nothing

                return body

            e.loop(whole, [], copy(_HALF, e.count(0)))
            e.loop(tail, [], copy(1, builder.mul(whole, e.count(_HALF))))
            return carried

        e.loop(tokens, [], row)
        return e.done()

    return signature, codegen


@intrinsic
def widen_turned(typing_context, kv, kv_at, dim, tile, tile_at):
    """Store the 16 rows of `dim` values, a multiple of 16, as float32 with the tokens of one value side by side."""
    signature = types.void(kv, kv_at, dim, tile, tile_at)

    def codegen(context, builder, sig, args):
        e = Emitter(context, builder, sig, args)
        kv, kv_at, dim, tile, tile_at = e.args
        kind = sig.args[0].dtype

        def square(index: ir.Value, carried: list[ir.Value]) -> list[ir.Value]:
            step = builder.mul(index, e.count(LANES))
            rows = [builder.add(kv_at, builder.add(step, builder.mul(dim, e.count(t)))) for t in range(TILE)]
            columns = _turned(e, [e.widen(kv, row, kind, LANES) for row in rows])
            for d, column in enumerate(columns):
                e.store(column, tile, builder.add(tile_at, builder.mul(builder.add(step, e.count(d)), e.count(TILE))))
            return carried

        e.loop(builder.sdiv(dim, e.count(LANES)), [], square)
        return e.done()

    return signature, codegen


def _turned(e: Emitter, rows: list[ir.Value]) -> list[ir.Value]:
    """Sixteen vectors of sixteen, transposed: squares change places, from halves down to single values."""
    size = LANES // 2
    while size:
        low = [i if i & size == 0 else LANES + i - size for i in range(LANES)]
        high = [i + size if i & size == 0 else LANES + i for i in range(LANES)]
        rows = [
            e.shuffle(rows[i], rows[i + size], low) if i & size == 0 else e.shuffle(rows[i - size], rows[i], high)
            for i in range(LANES)
        ]
        size //= 2
    return rows


@intrinsic
def prefetch(typing_context, kv, at, count):
    """Ask for `count` values from `at` on, a whole number of cache lines or a little more."""
    signature = types.void(kv, at, count)

    def codegen(context, builder, sig, args):
        e = Emitter(context, builder, sig, args)
        kv, at, count = e.args
        values = _LINE * 8 // sig.args[0].dtype.bitwidth

        def line(index: ir.Value, carried: list[ir.Value]) -> list[ir.Value]:
            e.prefetch(kv, builder.add(at, builder.mul(index, e.count(values))))
            return carried

        e.loop(builder.sdiv(count, e.count(values)), [], line)
        return e.done()

    return signature, codegen
