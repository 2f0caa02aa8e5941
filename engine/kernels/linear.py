"""Linear layers: weights int8 (one fp32 scale per output) or fp32, activations fp32, some rows at a time.

Layouts, all flat: x (rows, inputs); w (outputs / 16, inputs, 16), so that sixteen neighbouring outputs of one input lie
together; scale, bias (outputs). inputs and outputs are padded to multiples of 16 with zeros. Each output is one sum
over the inputs in ascending order, times its scale, plus its bias: the same bits for a row whatever rows stand beside
it, however they are grouped and however many threads work.
"""

from typing import Any

from llvmlite import ir
from numba import prange, types
from numba.extending import intrinsic

from engine.kernels.compiled import njit
from engine.kernels.emit import LANES, REGISTER, Emitter
from engine.kernels.rows import MOST_PAIRED, MOST_ROWS
from engine.kernels.share import take

_SIDE_BY_SIDE = 2 if MOST_PAIRED == MOST_ROWS else 1
"""Tiles that six rows take at once."""

_UNROLL = 4

WIDENED_FROM = 48
"""Rows from which int8 weights are made float32 once for all rows of a strip instead of once for each block of six."""


def wide_floats(inputs: int) -> int:
    """What each worker needs to keep two tiles of float32 weights."""
    return 2 * inputs * LANES


def _products(
    e: Emitter, rows: int, x: ir.Value, x_at: ir.Value, inputs: ir.Value, w: ir.Value, tiles: list[ir.Value], kind: Any
) -> list[list[ir.Value]]:
    """For each row and each of the `tiles` (where they begin in w) a vector of 16 sums. Written in the machine's own
    vectors, as their order decides whether sums, weights and values fit the registers."""
    sources = [e.at(x, e.b.add(x_at, e.b.mul(inputs, e.count(row)))) for row in range(rows)]
    parts = [e.at(w, e.b.add(tile, e.count(part))) for tile in tiles for part in range(0, LANES, REGISTER)]
    places = [(row, part) for row in range(rows) for part in range(len(parts))]
    if len(tiles) > 1:
        places.sort(key=lambda place: place[1])

    def body(index: ir.Value, sums: list[ir.Value]) -> list[ir.Value]:
        for step in range(_UNROLL):
            k = e.b.add(e.b.mul(index, e.count(_UNROLL)), e.count(step))
            at = e.b.mul(k, e.count(LANES))
            values = [e.splat(e.load_scalar(source, k), REGISTER) for source in sources]
            wide: dict[int, ir.Value] = {}
            for i, (row, part) in enumerate(places):
                wide[part] = wide[part] if part in wide else e.widen(parts[part], at, kind, REGISTER)
                sums[i] = e.fma(values[row], wide[part], sums[i])
        return sums

    zeros = [e.fill(0.0, REGISTER)] * len(places)
    sums = dict(zip(places, e.loop(e.b.sdiv(inputs, e.count(_UNROLL)), zeros, body), strict=True))
    if REGISTER == LANES:
        return [[sums[row, tile] for tile in range(len(tiles))] for row in range(rows)]
    pairs = [(2 * tile, 2 * tile + 1) for tile in range(len(tiles))]
    return [[e.shuffle(sums[row, low], sums[row, high], range(LANES)) for low, high in pairs] for row in range(rows)]


@intrinsic(prefer_literal=True)
def _tiles(typing_context, rows, tiles, x, x_at, inputs, w, w_at, scale, s_at, add, add_at, add_step, y, y_at, outputs):
    """y = x w scale + add for `rows` rows and `tiles` neighbouring tiles, both literal; `add_step`: from row to row."""
    signature = types.void(
        rows, tiles, x, x_at, inputs, w, w_at, scale, s_at, add, add_at, add_step, y, y_at, outputs
    )  # fmt: skip

    def codegen(context, builder, sig, args):
        e = Emitter(context, builder, sig, args)
        _, _, x, x_at, inputs, w, w_at, scale, s_at, add, add_at, add_step, y, y_at, outputs = e.args
        count, width = sig.args[0].literal_value, sig.args[1].literal_value
        size = builder.mul(inputs, e.count(LANES))
        starts = [builder.add(w_at, builder.mul(size, e.count(tile))) for tile in range(width)]
        sums = _products(e, count, x, x_at, inputs, w, starts, sig.args[5].dtype)
        for tile in range(width):
            lanes = e.count(tile * LANES)
            factor = e.load_f32(scale, builder.add(s_at, lanes), LANES)
            for row in range(count):
                beside = builder.add(builder.add(add_at, lanes), builder.mul(add_step, e.count(row)))
                place = builder.add(builder.add(y_at, lanes), builder.mul(outputs, e.count(row)))
                e.store(e.fma(sums[row][tile], factor, e.load_f32(add, beside, LANES)), y, place)
        return e.done()

    return signature, codegen


@intrinsic(prefer_literal=True)
def _tile_gated(typing_context, rows, x, x_at, inputs, w, gate_at, up_at, scale, gate_s, up_s, y, y_at, outputs):
    """y = silu(gate) x up for `rows` (literal) rows and 16 outputs, where gate and up are tiles of w."""
    signature = types.void(rows, x, x_at, inputs, w, gate_at, up_at, scale, gate_s, up_s, y, y_at, outputs)

    def codegen(context, builder, sig, args):
        e = Emitter(context, builder, sig, args)
        _, x, x_at, inputs, w, gate_at, up_at, scale, gate_s, up_s, y, y_at, outputs = e.args
        count, kind = sig.args[0].literal_value, sig.args[4].dtype
        places = [builder.add(y_at, builder.mul(outputs, e.count(row))) for row in range(count)]
        gates, ups = e.load_f32(scale, gate_s, LANES), e.load_f32(scale, up_s, LANES)

        def silu(total: ir.Value) -> ir.Value:
            gate = builder.fmul(total, gates)
            return builder.fdiv(gate, builder.fadd(e.fill(1.0, LANES), e.exp(builder.fneg(gate))))

        if count <= MOST_PAIRED:
            both = _products(e, count, x, x_at, inputs, w, [gate_at, up_at], kind)
            for place, (gate, up) in zip(places, both, strict=True):
                e.store(builder.fmul(silu(gate), builder.fmul(up, ups)), y, place)
            return e.done()
        for place, (gate,) in zip(places, _products(e, count, x, x_at, inputs, w, [gate_at], kind), strict=True):
            e.store(silu(gate), y, place)
        for place, (up,) in zip(places, _products(e, count, x, x_at, inputs, w, [up_at], kind), strict=True):
            e.store(builder.fmul(e.load_f32(y, place, LANES), builder.fmul(up, ups)), y, place)
        return e.done()

    return signature, codegen


@intrinsic
def _widen(typing_context, w, first, count, wide, at):
    """wide[at : at + count] = w[first : first + count]; count is a multiple of 64."""
    signature = types.void(w, first, count, wide, at)

    def codegen(context, builder, sig, args):
        e = Emitter(context, builder, sig, args)
        w, first, count, wide, at = e.args

        def some(index: ir.Value, carried: list[ir.Value]) -> list[ir.Value]:
            for step in range(_UNROLL):
                lane = builder.add(builder.mul(index, e.count(_UNROLL * LANES)), e.count(step * LANES))
                e.store(e.widen(w, builder.add(first, lane), sig.args[0].dtype, LANES), wide, builder.add(at, lane))
            return carried

        e.loop(builder.sdiv(count, e.count(_UNROLL * LANES)), [], some)
        return e.done()

    return signature, codegen


@njit(nogil=True, cache=True)
def _one(rows, x, x_at, inputs, w, w_at, scale, s_at, add, add_at, add_step, y, y_at, outputs):
    """A block of 1 to 6 rows and one tile."""
    if rows == 6:
        _tiles(6, 1, x, x_at, inputs, w, w_at, scale, s_at, add, add_at, add_step, y, y_at, outputs)
    elif rows == 5:
        _tiles(5, 1, x, x_at, inputs, w, w_at, scale, s_at, add, add_at, add_step, y, y_at, outputs)
    elif rows == 4:
        _tiles(4, 1, x, x_at, inputs, w, w_at, scale, s_at, add, add_at, add_step, y, y_at, outputs)
    elif rows == 3:
        _tiles(3, 1, x, x_at, inputs, w, w_at, scale, s_at, add, add_at, add_step, y, y_at, outputs)
    elif rows == 2:
        _tiles(2, 1, x, x_at, inputs, w, w_at, scale, s_at, add, add_at, add_step, y, y_at, outputs)
    else:
        _tiles(1, 1, x, x_at, inputs, w, w_at, scale, s_at, add, add_at, add_step, y, y_at, outputs)


@njit(nogil=True, cache=True)
def _two(rows, x, x_at, inputs, w, w_at, scale, s_at, add, add_at, add_step, y, y_at, outputs):
    """A block of 1 to MOST_PAIRED rows and two tiles."""
    if MOST_PAIRED == 6 and rows > 3:
        if rows == 6:
            _tiles(6, 2, x, x_at, inputs, w, w_at, scale, s_at, add, add_at, add_step, y, y_at, outputs)
        elif rows == 5:
            _tiles(5, 2, x, x_at, inputs, w, w_at, scale, s_at, add, add_at, add_step, y, y_at, outputs)
        else:
            _tiles(4, 2, x, x_at, inputs, w, w_at, scale, s_at, add, add_at, add_step, y, y_at, outputs)
    elif rows == 3:
        _tiles(3, 2, x, x_at, inputs, w, w_at, scale, s_at, add, add_at, add_step, y, y_at, outputs)
    elif rows == 2:
        _tiles(2, 2, x, x_at, inputs, w, w_at, scale, s_at, add, add_at, add_step, y, y_at, outputs)
    else:
        _tiles(1, 2, x, x_at, inputs, w, w_at, scale, s_at, add, add_at, add_step, y, y_at, outputs)


@njit(nogil=True, cache=True)
def _sixes(blocks, wide):
    """How many blocks of six, which come first, to compute with widened weights."""
    if wide.size == 0 or blocks.shape[0] * MOST_ROWS < WIDENED_FROM:
        return 0
    count = 0
    while count < blocks.shape[0] and blocks[count, 1] == MOST_ROWS:
        count += 1
    return count


@njit(nogil=True, cache=True)
def _strip(tile, tiles, x, blocks, inputs, w, w_at, scale, s_at, add, add_at, add_step, outputs, y, wide):
    """All rows and the tiles `tile`, `tile` + 1 (if there is one)."""
    pair = tile + 1 < tiles
    size = inputs * LANES
    sixes = _sixes(blocks, wide) if pair else 0
    if sixes > 0:
        _widen(w, w_at + tile * size, 2 * size, wide, 0)
        for t in range(0, 2, _SIDE_BY_SIDE):
            for i in range(sixes):
                row, lanes = blocks[i, 0], (tile + t) * LANES
                _tiles(
                    6, _SIDE_BY_SIDE, x, row * inputs, inputs, wide, t * size, scale, s_at + lanes,
                    add, add_at + row * add_step + lanes, add_step, y, row * outputs + lanes, outputs,
                )  # fmt: skip
    for t in range(tile, min(tile + 2, tiles)):
        for i in range(sixes, blocks.shape[0]):
            row, rows = blocks[i, 0], blocks[i, 1]
            if rows > MOST_PAIRED or not pair:
                _one(
                    rows, x, row * inputs, inputs, w, w_at + t * size, scale, s_at + t * LANES,
                    add, add_at + row * add_step + t * LANES, add_step, y, row * outputs + t * LANES, outputs,
                )  # fmt: skip
            elif t == tile:
                _two(
                    rows, x, row * inputs, inputs, w, w_at + t * size, scale, s_at + t * LANES,
                    add, add_at + row * add_step + t * LANES, add_step, y, row * outputs + t * LANES, outputs,
                )  # fmt: skip


@njit(parallel=True, nogil=True, cache=True)
def linear(x, blocks, inputs, w, w_at, scale, bias, s_at, outputs, y, wide, counters, turn):
    """y (rows, outputs) = x w^T + bias. `blocks`: the rows, as `row_blocks` cuts them; `w_at`, `s_at`: where this
    layer begins in w and in scale and bias; `wide` float32 (workers, `wide_floats`), or (workers, 0) where w is float32
    already; counters[turn]: 0, this pass's counter."""
    tiles = outputs // LANES
    for worker in prange(wide.shape[0]):
        tile = 2 * take(counters, turn)
        while tile < tiles:
            _strip(tile, tiles, x, blocks, inputs, w, w_at, scale, s_at, bias, s_at, 0, outputs, y, wide[worker])
            tile = 2 * take(counters, turn)


@njit(parallel=True, nogil=True, cache=True)
def linear_add(x, blocks, inputs, w, w_at, scale, s_at, outputs, y, wide, counters, turn):
    """y (rows, outputs) += x w^T. Arguments as in `linear`."""
    tiles = outputs // LANES
    for worker in prange(wide.shape[0]):
        tile = 2 * take(counters, turn)
        while tile < tiles:
            _strip(tile, tiles, x, blocks, inputs, w, w_at, scale, s_at, y, 0, outputs, outputs, y, wide[worker])
            tile = 2 * take(counters, turn)


@njit(nogil=True, cache=True)
def _gated_tile(tile, x, blocks, inputs, w, w_at, scale, s_at, outputs, y, wide):
    """All rows of one tile of gate and of up."""
    size = inputs * LANES
    gate = w_at + tile * size
    up = gate + inputs * outputs
    s = s_at + tile * LANES
    sixes = _sixes(blocks, wide)
    if sixes > 0:
        _widen(w, gate, size, wide, 0)
        _widen(w, up, size, wide, size)
    for i in range(sixes):
        row = blocks[i, 0]
        at = row * outputs + tile * LANES
        _tile_gated(6, x, row * inputs, inputs, wide, 0, size, scale, s, s + outputs, y, at, outputs)
    for i in range(sixes, blocks.shape[0]):
        row, rows = blocks[i, 0], blocks[i, 1]
        at = row * outputs + tile * LANES
        if rows == 6:
            _tile_gated(6, x, row * inputs, inputs, w, gate, up, scale, s, s + outputs, y, at, outputs)
        elif rows == 5:
            _tile_gated(5, x, row * inputs, inputs, w, gate, up, scale, s, s + outputs, y, at, outputs)
        elif rows == 4:
            _tile_gated(4, x, row * inputs, inputs, w, gate, up, scale, s, s + outputs, y, at, outputs)
        elif rows == 3:
            _tile_gated(3, x, row * inputs, inputs, w, gate, up, scale, s, s + outputs, y, at, outputs)
        elif rows == 2:
            _tile_gated(2, x, row * inputs, inputs, w, gate, up, scale, s, s + outputs, y, at, outputs)
        else:
            _tile_gated(1, x, row * inputs, inputs, w, gate, up, scale, s, s + outputs, y, at, outputs)


@njit(parallel=True, nogil=True, cache=True)
def gated(x, blocks, inputs, w, w_at, scale, s_at, outputs, y, wide, counters, turn):
    """y (rows, outputs) = silu(x gate^T) x (x up^T); w holds gate, then up, each (outputs, inputs). Arguments as in
    `linear`."""
    tiles = outputs // LANES
    for worker in prange(wide.shape[0]):
        tile = take(counters, turn)
        while tile < tiles:
            _gated_tile(tile, x, blocks, inputs, w, w_at, scale, s_at, outputs, y, wide[worker])
            tile = take(counters, turn)
