"""Attention over one tile of 16 tokens: scores, softmax weights, weighted sums, for up to three queries at once.

A query's state is one record of `record_floats`: its sums (padded), 16 running totals of its softmax weights, its peak
score and the factor by which the sums must shrink when the peak rises. Tokens are added one by one in ascending order,
so a query's bits do not depend on which queries share a pass.
"""

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from engine.kernels.emit import F32, I32, LANES, REGISTER, Emitter, vector

TILE = LANES
"""Tokens in a tile; a block holds a whole number of tiles."""

MOST_QUERIES = 3
"""Queries that share a pass: 3 x 4 sums fill the registers."""

LOWEST = -1e30

_HALF = 8
_QUARTER = 4


def record_floats(padded: int) -> int:
    """float32 values of one query's state, whole cache lines."""
    return padded + 2 * TILE


def _four_sums(e: Emitter, sums: list[ir.Value]) -> ir.Value:
    """Four vectors of eight partial sums -> one vector of their four sums."""

    def join(a: ir.Value, b: ir.Value, left: list[int], right: list[int]) -> ir.Value:
        return e.b.fadd(e.shuffle(a, b, left), e.shuffle(a, b, right))

    low, high = [0, 1, 2, 3, 8, 9, 10, 11], [4, 5, 6, 7, 12, 13, 14, 15]
    fours = [join(sums[0], sums[2], low, high), join(sums[1], sums[3], low, high)]
    twos = join(fours[0], fours[1], [0, 1, 8, 9, 4, 5, 12, 13], [2, 3, 10, 11, 6, 7, 14, 15])
    return e.b.fadd(e.shuffle(twos, twos, [0, 2, 4, 6]), e.shuffle(twos, twos, [1, 3, 5, 7]))


def _score_rows(e: Emitter, queries: int, kind: types.Type) -> None:
    """Vectors of eight values of a key, for four tokens at a time."""
    _, q, q_at, q_step, keys, k_at, k_step, dims, state, weights_at = e.args
    asked = [e.at(q, e.b.add(q_at, e.b.mul(q_step, e.count(g)))) for g in range(queries)]
    for first in range(0, TILE, _QUARTER):
        tokens = range(first, first + _QUARTER)
        rows = [e.at(keys, e.b.add(k_at, e.b.mul(k_step, e.count(t)))) for t in tokens]

        def body(index: ir.Value, sums: list[ir.Value], rows: list[ir.Value] = rows) -> list[ir.Value]:
            step = e.b.mul(index, e.count(_HALF))
            values = [e.load_f32(query, step, _HALF) for query in asked]
            for t, row in enumerate(rows):
                key = e.widen(row, step, kind, _HALF)
                for g, value in enumerate(values):
                    at = g * _QUARTER + t
                    sums[at] = e.fma(value, key, sums[at])
            return sums

        zeros = [e.fill(0.0, _HALF)] * (queries * _QUARTER)
        sums = e.loop(e.b.sdiv(dims, e.count(_HALF)), zeros, body)
        for g in range(queries):
            four = _four_sums(e, sums[g * _QUARTER : (g + 1) * _QUARTER])
            e.store(four, state, e.b.add(weights_at, e.count(g * TILE + first)))


def _score_turned(e: Emitter, queries: int) -> None:
    """Vectors of sixteen tokens. Each score is the sum of the same eight sums in the same order as by `_score_rows`."""
    _, q, q_at, q_step, keys, k_at, _, dims, state, weights_at = e.args
    asked = [e.at(q, e.b.add(q_at, e.b.mul(q_step, e.count(g)))) for g in range(queries)]

    def body(index: ir.Value, sums: list[ir.Value]) -> list[ir.Value]:
        for lane in range(_HALF):
            step = e.b.add(e.b.mul(index, e.count(_HALF)), e.count(lane))
            key = e.load_f32(keys, e.b.add(k_at, e.b.mul(step, e.count(TILE))), TILE)
            for g, query in enumerate(asked):
                at = g * _HALF + lane
                sums[at] = e.fma(e.splat(e.load_scalar(query, step), TILE), key, sums[at])
        return sums

    sums = e.loop(e.b.sdiv(dims, e.count(_HALF)), [e.fill(0.0, TILE)] * (queries * _HALF), body)
    for g in range(queries):
        of = sums[g * _HALF : (g + 1) * _HALF]
        fours = [e.b.fadd(of[lane], of[lane + 4]) for lane in range(4)]
        total = e.b.fadd(e.b.fadd(fours[0], fours[2]), e.b.fadd(fours[1], fours[3]))
        e.store(total, state, e.b.add(weights_at, e.count(g * TILE)))


@intrinsic(prefer_literal=True)
def score(typing_context, queries, q, q_at, q_step, keys, k_at, k_step, dims, state, weights_at):
    """weights (queries, 16) = q . k for `queries` (literal) queries `q_step` apart and the 16 tokens of a tile, whose
    keys lie `k_step` apart, or as `widen_turned` stores them where that is None; `dims`: a multiple of 8."""
    signature = types.void(queries, q, q_at, q_step, keys, k_at, k_step, dims, state, weights_at)

    def codegen(context, builder, sig, args):
        e = Emitter(context, builder, sig, args)
        if sig.args[6] == types.none:
            _score_turned(e, sig.args[0].literal_value)
        else:
            _score_rows(e, sig.args[0].literal_value, sig.args[4].dtype)
        return e.done()

    return signature, codegen


@intrinsic(prefer_literal=True)
def soften(typing_context, queries, state, weights_at, valid, scales, k_at, v_at, record_at, padded):
    """Scores -> softmax weights of the first `valid` tokens (0 behind), times V's scales at q8, in place, for
    `queries` (literal) queries that see the same tokens. Keeps peak, totals and shrink of their records."""
    quantised = scales.dtype == types.float32
    signature = types.void(queries, state, weights_at, valid, scales, k_at, v_at, record_at, padded)

    def codegen(context, builder, sig, args):
        e = Emitter(context, builder, sig, args)
        _, state, weights_at, valid, scales, k_at, v_at, record_at, padded = e.args
        queries = range(sig.args[0].literal_value)
        lanes = ir.Constant(vector(I32, TILE), list(range(TILE)))
        real = builder.icmp_signed("<", lanes, e.splat(builder.trunc(valid, I32), TILE))
        size = builder.add(padded, e.count(2 * TILE))
        totals = [builder.add(builder.add(record_at, builder.mul(size, e.count(g))), padded) for g in queries]
        peaks = [builder.add(total, e.count(TILE)) for total in totals]
        places = [builder.add(weights_at, e.count(g * TILE)) for g in queries]
        scores = [e.load_f32(state, place, TILE) for place in places]
        if quantised:
            k_scale = e.load_f32(scales, k_at, TILE)
            scores = [builder.fmul(values, k_scale) for values in scores]
        scores = [builder.select(real, values, e.fill(LOWEST, TILE)) for values in scores]
        before = [e.load_scalar(state, peak) for peak in peaks]
        after = [e.larger(old, e.fold(values, e.larger)) for old, values in zip(before, scores, strict=True)]
        fell = e.fill(0.0, _HALF)
        for g in queries:
            fell = builder.insert_element(fell, builder.fsub(before[g], after[g]), ir.Constant(I32, g))
        shrinks = e.exp(fell)
        nothing = e.fill(0.0, TILE)
        v_scale = builder.select(real, e.load_f32(scales, v_at, TILE), nothing) if quantised else None
        for g in queries:
            shrink = builder.extract_element(shrinks, ir.Constant(I32, g))
            e.store_scalar(after[g], state, peaks[g])
            e.store_scalar(shrink, state, builder.add(peaks[g], e.count(1)))
            weights = e.exp(builder.fsub(scores[g], e.splat(after[g], TILE)))
            weights = builder.select(real, weights, nothing)
            old = e.load_f32(state, totals[g], TILE)
            e.store(e.fma(old, e.splat(shrink, TILE), weights), state, totals[g])
            e.store(builder.fmul(weights, v_scale) if quantised else weights, state, places[g])
        return e.done()

    return signature, codegen


@intrinsic(prefer_literal=True)
def gather(typing_context, queries, state, weights_at, values, v_at, v_step, dims, valid, record_at, padded):
    """sums = sums x shrink + sum over `valid` tokens of weight x V, for `queries` (literal) queries; V's rows lie
    `v_step` apart, `dims` is a multiple of 8."""
    signature = types.void(queries, state, weights_at, values, v_at, v_step, dims, valid, record_at, padded)

    def codegen(context, builder, sig, args):
        e = Emitter(context, builder, sig, args)
        _, state, weights_at, values, v_at, v_step, dims, valid, record_at, padded = e.args
        queries, kind = range(sig.args[0].literal_value), sig.args[3].dtype
        size = builder.add(padded, e.count(2 * TILE))
        records = [builder.add(record_at, builder.mul(size, e.count(g))) for g in queries]
        shrink_at = builder.add(padded, e.count(TILE + 1))
        factors = [e.load_scalar(state, builder.add(record, shrink_at)) for record in records]

        def chunks(vectors: int, lanes: int, start: ir.Value):
            """A pass over the tokens for `vectors` vectors of the sums, held in registers."""

            def body(index: ir.Value, carried: list[ir.Value]) -> list[ir.Value]:
                step = builder.add(start, builder.mul(index, e.count(vectors * lanes)))
                steps = [builder.add(step, e.count(v * lanes)) for v in range(vectors)]

                def token(i: ir.Value, sums: list[ir.Value]) -> list[ir.Value]:
                    at = builder.add(weights_at, i)
                    weights = [
                        e.splat(e.load_scalar(state, builder.add(at, e.count(g * TILE))), lanes) for g in queries
                    ]
                    row = builder.add(v_at, builder.mul(i, v_step))
                    for v, place in enumerate(steps):
                        value = e.widen(values, builder.add(row, place), kind, lanes)
                        for g in queries:
                            sums[g * vectors + v] = e.fma(weights[g], value, sums[g * vectors + v])
                    return sums

                places = [builder.add(records[g], s) for g in queries for s in steps]
                before = [
                    builder.fmul(e.load_f32(state, place, lanes), e.splat(factors[i // vectors], lanes))
                    for i, place in enumerate(places)
                ]
                for total, place in zip(e.loop(valid, before, token), places, strict=True):
                    e.store(total, state, place)
                return carried

            return body

        done = e.count(0)
        for vectors, lanes in dict.fromkeys(((_QUARTER, REGISTER), (1, REGISTER), (1, _HALF))):
            passes = builder.sdiv(builder.sub(dims, done), e.count(vectors * lanes))
            e.loop(passes, [], chunks(vectors, lanes, done))
            done = builder.add(done, builder.mul(passes, e.count(vectors * lanes)))
        return e.done()

    return signature, codegen


@intrinsic
def merge(typing_context, into, into_at, part, part_at, padded):
    """Add the record of a later span of tokens to the record of all spans before it."""
    signature = types.void(into, into_at, part, part_at, padded)

    def codegen(context, builder, sig, args):
        e = Emitter(context, builder, sig, args)
        into, into_at, part, part_at, padded = e.args
        peak_at = builder.add(padded, e.count(TILE))
        own, other = builder.add(into_at, peak_at), builder.add(part_at, peak_at)
        before, later = e.load_scalar(into, own), e.load_scalar(part, other)
        peak = e.larger(before, later)
        fell = e.fill(0.0, _HALF)
        for lane, value in enumerate((before, later)):
            fell = builder.insert_element(fell, builder.fsub(value, peak), ir.Constant(I32, lane))
        shrinks = e.exp(fell)
        keep, add = (e.splat(builder.extract_element(shrinks, ir.Constant(I32, lane)), LANES) for lane in (0, 1))

        def body(index: ir.Value, carried: list[ir.Value]) -> list[ir.Value]:
            step = builder.mul(index, e.count(LANES))
            place = builder.add(into_at, step)
            kept = builder.fmul(e.load_f32(into, place, LANES), keep)
            e.store(e.fma(e.load_f32(part, builder.add(part_at, step), LANES), add, kept), into, place)
            return carried

        e.loop(builder.sdiv(peak_at, e.count(LANES)), [], body)
        e.store_scalar(peak, into, own)
        return e.done()

    return signature, codegen


@intrinsic
def finish(typing_context, state, record_at, padded, out, out_at):
    """out = sums / total of the softmax weights."""
    signature = types.void(state, record_at, padded, out, out_at)

    def codegen(context, builder, sig, args):
        e = Emitter(context, builder, sig, args)
        state, record_at, padded, out, out_at = e.args
        total = e.fold(e.load_f32(state, builder.add(record_at, padded), TILE), builder.fadd)
        inverse = e.splat(builder.fdiv(ir.Constant(F32, 1.0), total), LANES)

        def chunk(index: ir.Value, carried: list[ir.Value]) -> list[ir.Value]:
            step = builder.mul(index, e.count(LANES))
            value = builder.fmul(e.load_f32(state, builder.add(record_at, step), LANES), inverse)
            e.store(value, out, builder.add(out_at, step))
            return carried

        e.loop(builder.sdiv(padded, e.count(LANES)), [], chunk)
        return e.done()

    return signature, codegen
