"""Paged attention on CPU: causal, grouped-query, online softmax over tiles of 16 tokens.

A unit of work is one KV head of up to GROUP consecutive rows of one turn: each tile of K and V is widened to float32
once for all of them. A row meets the tiles of its own context in ascending order and adds up token by token, so its
bits are the same alone, in a batch and inside a prefill chunk.
"""

from llvmlite import ir
from numba import prange, types
from numba.extending import intrinsic

from engine.kernels.compiled import njit
from engine.kernels.emit import F32, I32, LANES, Emitter, vector

GROUP = 4
"""Consecutive rows of one turn that share the widening of a tile."""

TILE = LANES
"""Tokens in a tile; a block holds a whole number of tiles."""

_HALF = 8
_WIDE = 4
_LOWEST = -1e30


def scratch_floats(group_heads: int, padded: int) -> int:
    """float32 values that one worker needs: two tiles; weights, totals, sums, peaks and shrinks of its queries. Whole
    cache lines, so that no vector of a worker crosses one and no two workers share one."""
    queries = GROUP * group_heads
    return 2 * TILE * padded + queries * (2 * TILE + padded) + -(-2 * queries // LANES) * LANES


@intrinsic
def _widen(typing_context, kv, kv_at, tokens, dim, tile, tile_at, padded):
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


def _transpose_sum(e: Emitter, sums: list[ir.Value]) -> ir.Value:
    """Eight vectors of eight partial sums -> one vector of eight sums, in order, by shuffles within AVX lanes."""

    def join(a: ir.Value, b: ir.Value, left: list[int], right: list[int]) -> ir.Value:
        return e.b.fadd(e.shuffle(a, b, left), e.shuffle(a, b, right))

    order = [0, 4, 1, 5, 2, 6, 3, 7]
    s = [sums[i] for i in order]
    fours = [join(s[i], s[i + 1], [0, 1, 2, 3, 8, 9, 10, 11], [4, 5, 6, 7, 12, 13, 14, 15]) for i in (0, 2, 4, 6)]
    twos = [join(fours[i], fours[i + 1], [0, 1, 8, 9, 4, 5, 12, 13], [2, 3, 10, 11, 6, 7, 14, 15]) for i in (0, 2)]
    return join(twos[0], twos[1], [0, 2, 8, 10, 4, 6, 12, 14], [1, 3, 9, 11, 5, 7, 13, 15])


def _dots(e: Emitter, q: ir.Value, q_at: ir.Value, tile: ir.Value, tile_at: ir.Value, padded: ir.Value) -> ir.Value:
    """q . k for the 16 tokens of a tile."""
    halves = []
    for first in (0, _HALF):
        starts = [e.b.add(tile_at, e.b.mul(padded, e.count(first + token))) for token in range(_HALF)]

        def body(index: ir.Value, sums: list[ir.Value], starts: list[ir.Value] = starts) -> list[ir.Value]:
            step = e.b.mul(index, e.count(_HALF))
            query = e.load_f32(q, e.b.add(q_at, step), _HALF)
            return [
                e.fma(query, e.load_f32(tile, e.b.add(start, step), _HALF), total)
                for start, total in zip(starts, sums, strict=True)
            ]

        sums = e.loop(e.b.sdiv(padded, e.count(_HALF)), [e.fill(0.0, _HALF)] * _HALF, body)
        halves.append(_transpose_sum(e, sums))
    return e.shuffle(halves[0], halves[1], range(TILE))


@intrinsic
def _score(typing_context, q, q_at, tile, tile_at, padded, state, weights_at):
    """weights = q . k for the 16 tokens of a tile."""
    signature = types.void(q, q_at, tile, tile_at, padded, state, weights_at)

    def codegen(context, builder, sig, args):
        e = Emitter(context, builder, sig, args)
        q, q_at, tile, tile_at, padded, state, weights_at = e.args
        e.store(_dots(e, q, q_at, tile, tile_at, padded), state, weights_at)
        return e.done()

    return signature, codegen


@intrinsic
def _soften(typing_context, state, weights_at, valid, scales, k_at, v_at, sums_at, peak_at, shrink_at):
    """Scores -> softmax weights of the first `valid` tokens (0 behind), times V's scales at q8, in place.

    Keeps the running peak and the 16 running sums, and the factor by which what was accumulated must shrink.
    """
    quantised = scales.dtype == types.float32
    signature = types.void(state, weights_at, valid, scales, k_at, v_at, sums_at, peak_at, shrink_at)

    def codegen(context, builder, sig, args):
        e = Emitter(context, builder, sig, args)
        state, weights_at, valid, scales, k_at, v_at, sums_at, peak_at, shrink_at = e.args
        scores = e.load_f32(state, weights_at, TILE)
        if quantised:
            scores = builder.fmul(scores, e.load_f32(scales, k_at, TILE))
        lanes = ir.Constant(vector(I32, TILE), list(range(TILE)))
        real = builder.icmp_signed("<", lanes, e.splat(builder.trunc(valid, I32), TILE))
        scores = builder.select(real, scores, e.fill(_LOWEST, TILE))
        before = e.load_scalar(state, peak_at)
        peak = e.larger(before, e.fold(scores, e.larger))
        e.store_scalar(peak, state, peak_at)
        fell = builder.insert_element(e.fill(0.0, _HALF), builder.fsub(before, peak), ir.Constant(I32, 0))
        shrink = builder.extract_element(e.exp(fell), ir.Constant(I32, 0))
        e.store_scalar(shrink, state, shrink_at)
        weights = e.exp(builder.fsub(scores, e.splat(peak, TILE)))
        weights = builder.select(real, weights, e.fill(0.0, TILE))
        sums = e.load_f32(state, sums_at, TILE)
        e.store(e.fma(sums, e.splat(shrink, TILE), weights), state, sums_at)
        if quantised:
            scale = builder.select(real, e.load_f32(scales, v_at, TILE), e.fill(0.0, TILE))
            weights = builder.fmul(weights, scale)
        e.store(weights, state, weights_at)
        return e.done()

    return signature, codegen


@intrinsic
def _gather(typing_context, state, weights_at, tile, tile_at, padded, valid, shrink_at, sums_at):
    """accumulator = accumulator x shrink + sum over tokens of weight x V."""
    signature = types.void(state, weights_at, tile, tile_at, padded, valid, shrink_at, sums_at)

    def codegen(context, builder, sig, args):
        e = Emitter(context, builder, sig, args)
        state, weights_at, tile, tile_at, padded, valid, shrink_at, sums_at = e.args
        factor = e.splat(e.load_scalar(state, shrink_at), LANES)

        def chunks(vectors: int, start: ir.Value):
            """A pass over the tokens for `vectors` vectors of the accumulator, held in registers."""

            def body(index: ir.Value, carried: list[ir.Value]) -> list[ir.Value]:
                step = builder.add(start, builder.mul(index, e.count(vectors * LANES)))
                steps = [builder.add(step, e.count(v * LANES)) for v in range(vectors)]

                def token(i: ir.Value, sums: list[ir.Value]) -> list[ir.Value]:
                    weight = e.splat(e.load_scalar(state, builder.add(weights_at, i)), LANES)
                    row = builder.add(tile_at, builder.mul(i, padded))
                    values = [e.load_f32(tile, builder.add(row, s), LANES) for s in steps]
                    return [e.fma(weight, value, total) for value, total in zip(values, sums, strict=True)]

                places = [builder.add(sums_at, s) for s in steps]
                before = [builder.fmul(e.load_f32(state, place, LANES), factor) for place in places]
                for total, place in zip(e.loop(valid, before, token), places, strict=True):
                    e.store(total, state, place)
                return carried

            return body

        wide = builder.sdiv(padded, e.count(_WIDE * LANES))
        done = builder.mul(wide, e.count(_WIDE * LANES))
        e.loop(wide, [], chunks(_WIDE, e.count(0)))
        e.loop(builder.sdiv(builder.sub(padded, done), e.count(LANES)), [], chunks(1, done))
        return e.done()

    return signature, codegen


@intrinsic
def _finish(typing_context, state, sums_at, total_at, padded, out, out_at):
    """out = accumulator / sum of the softmax weights."""
    signature = types.void(state, sums_at, total_at, padded, out, out_at)

    def codegen(context, builder, sig, args):
        e = Emitter(context, builder, sig, args)
        state, sums_at, total_at, padded, out, out_at = e.args
        total = e.fold(e.load_f32(state, total_at, TILE), builder.fadd)
        inverse = e.splat(builder.fdiv(ir.Constant(F32, 1.0), total), LANES)

        def chunk(index: ir.Value, carried: list[ir.Value]) -> list[ir.Value]:
            step = builder.mul(index, e.count(LANES))
            value = builder.fmul(e.load_f32(state, builder.add(sums_at, step), LANES), inverse)
            e.store(value, out, builder.add(out_at, step))
            return carried

        e.loop(builder.sdiv(padded, e.count(LANES)), [], chunk)
        return e.done()

    return signature, codegen


@njit(nogil=True, cache=True, error_model="numpy")
def _attend_unit(
    qkv, width, first, count, head, group, positions, blocks, kv, kv_start, kv_stride, scales, scale_start,
    scale_stride, v_step, block_size, dim, padded, s, s_at, out, out_width,
):  # fmt: skip
    """One KV head for `count` consecutive rows; `v_step`: scales between K and V of one layer."""
    queries = count * group
    k_tile, v_tile = s_at, s_at + TILE * padded
    weights = v_tile + TILE * padded
    totals = weights + queries * TILE
    sums = totals + queries * TILE
    peaks = sums + queries * padded
    shrinks = peaks + queries
    for i in range(totals, peaks):
        s[i] = 0.0
    for i in range(peaks, shrinks):
        s[i] = _LOWEST
    length = positions[first + count - 1] + 1
    for start in range(0, length, TILE):
        block = blocks[start // block_size]
        inside = start % block_size
        at = block * kv_stride + kv_start + (head * block_size + inside) * dim
        k_scale = block * scale_stride + scale_start + head * block_size + inside
        tokens = min(TILE, length - start)
        _widen(kv, at, tokens, dim, s, k_tile, padded)
        _widen(kv, at + v_step * dim, tokens, dim, s, v_tile, padded)
        skipped = 0
        while positions[first + skipped] < start:
            skipped += 1
        for row in range(skipped, count):
            for g in range(group):
                q_at = (first + row) * width + (head * group + g) * padded
                _score(qkv, q_at, s, k_tile, padded, s, weights + (row * group + g) * TILE)
        for row in range(skipped, count):
            valid = min(TILE, positions[first + row] + 1 - start)
            for i in range(row * group, (row + 1) * group):
                _soften(
                    s, weights + i * TILE, valid, scales, k_scale, k_scale + v_step,
                    totals + i * TILE, peaks + i, shrinks + i,
                )  # fmt: skip
        for row in range(skipped, count):
            valid = min(TILE, positions[first + row] + 1 - start)
            for i in range(row * group, (row + 1) * group):
                _gather(s, weights + i * TILE, s, v_tile, padded, valid, shrinks + i, sums + i * padded)
    for row in range(count):
        for g in range(group):
            i = row * group + g
            out_at = (first + row) * out_width + (head * group + g) * padded
            _finish(s, sums + i * padded, totals + i * TILE, padded, out, out_at)


@njit(parallel=True, nogil=True, cache=True, error_model="numpy")
def attend(
    qkv, width, groups, positions, table, heads, kv_heads, dim, padded, layer, block_size,
    kv, kv_stride, scales, scale_offset, scale_stride, scratch, out,
):  # fmt: skip
    """Attention of all rows over the arena, one layer.

    qkv, out: flat float32, rows of `width` and heads x padded; heads lie `padded` floats apart, queries scaled.
    groups: int64 (n, 3): first row, rows, row of `table`, heaviest first. kv: the arena as flat uint16 (halves),
    int8 or float32, blocks `kv_stride` apart; scales: the arena as float32 at q8, of any integer type otherwise.
    scratch: float32 (workers, scratch_floats).
    """
    workers = scratch.shape[0]
    flat = scratch.reshape(-1)
    v_step = kv_heads * block_size
    for worker in prange(workers):
        for unit in range(worker, groups.shape[0] * kv_heads, workers):
            group = unit // kv_heads
            _attend_unit(
                qkv, width, groups[group, 0], groups[group, 1], unit % kv_heads, heads // kv_heads, positions,
                table[groups[group, 2]], kv, layer * 2 * v_step * dim, kv_stride, scales,
                scale_offset + layer * 2 * v_step, scale_stride, v_step, block_size, dim, padded,
                flat, worker * scratch.shape[1], out, heads * padded,
            )  # fmt: skip
