"""Paged attention on CPU: causal, grouped-query, online softmax over tiles of 16 tokens and spans of SPAN tokens.

A unit of work is one KV head of up to GROUP consecutive rows of one turn, over all spans of its context; a single row
with a long context is one unit per span, so that threads share it. A row meets the tiles of a span in ascending order
and adds the spans up in ascending order, whoever computes them: its bits are the same alone, in a batch and inside a
prefill chunk.
"""

from numba import prange

from engine.kernels.attend_load import prefetch, widen, widen_turned
from engine.kernels.attend_tile import (
    LOWEST,
    MOST_QUERIES,
    TILE,
    finish,
    gather,
    merge,
    record_floats,
    score,
    soften,
)
from engine.kernels.compiled import njit
from engine.kernels.emit import LANES, REGISTER
from engine.kernels.share import take
from engine.kernels.sizes import size

TURNED = REGISTER == LANES
"""Whether rows that share a tile have its keys turned: that needs registers for eight sums of sixteen tokens each."""

GROUP = 8 if TURNED else 4
"""Consecutive rows of one turn that share the widening of a tile."""

SPAN = 256
"""Tokens that are summed up on their own; a multiple of TILE."""

FINISH = -1
"""Slot of a unit that has its rows' whole context and writes their output itself."""


def scratch_floats(group_heads: int, padded: int) -> int:
    """float32 values that one worker needs: two tiles; weights and two records of its queries. Whole cache lines, so
    that no vector of a worker crosses one and no two workers share one."""
    queries = GROUP * group_heads
    return 2 * TILE * padded + group_heads * TILE + 2 * queries * record_floats(padded)


def slot_floats(heads: int, padded: int) -> int:
    """float32 values of one span of one row: a record for each of its heads."""
    return heads * record_floats(padded)


record_size = njit(nogil=True, cache=True)(record_floats)


@njit(nogil=True, cache=True, error_model="numpy")
def _clear(s, at, queries, sizes):
    padded = size(sizes, "padded")
    record_of = record_size(padded)
    for i in range(queries):
        record = at + i * record_of
        for d in range(padded + TILE):
            s[record + d] = 0.0
        s[record + padded + TILE] = LOWEST


@njit(inline="always")
def _share(
    queries, q_at, q_step, keys, k_at, k_step, values, v_at, v_step, dims, qkv, s, w_at, valid, scales, k_scale,
    v_scale, r_at, padded, next_k, next_v,
):  # fmt: skip
    """One tile for `queries` (literal) queries of one row. `next_k`, `next_v`: what to ask for meanwhile, in parts, as
    a core waits for few lines at once; below 0: nothing."""
    half = TILE * dims // 2
    if next_k >= 0:
        prefetch(keys, next_k, half)
    score(queries, qkv, q_at, q_step, keys, k_at, k_step, dims, s, w_at)
    if next_k >= 0:
        prefetch(keys, next_k + half, half)
    soften(queries, s, w_at, valid, scales, k_scale, v_scale, r_at, padded)
    if next_k >= 0:
        prefetch(values, next_v, 2 * half)
    gather(queries, s, w_at, values, v_at, v_step, dims, valid, r_at, padded)


@njit(nogil=True, cache=True, error_model="numpy")
def _queries(
    row_at, keys, k_at, k_step, values, v_at, v_step, dims, qkv, s, weights, valid, scales, k_scale, v_scale,
    record_at, sizes, next_k, next_v,
):  # fmt: skip
    """One tile for all queries of one row and KV head, three, two or one at a time. `next_k`, `next_v`: where the tile
    after it begins in `keys` and `values`, asked for beside the first of them."""
    padded, group = size(sizes, "padded"), size(sizes, "group")
    record_of = record_size(padded)
    g = 0
    while g < group:
        q_at, w_at, r_at = row_at + g * padded, weights + g * TILE, record_at + g * record_of
        if g > 0:
            next_k = -1
        if group - g >= MOST_QUERIES:
            _share(
                3, q_at, padded, keys, k_at, k_step, values, v_at, v_step, dims, qkv, s, w_at, valid, scales, k_scale,
                v_scale, r_at, padded, next_k, next_v,
            )  # fmt: skip
            g += 3
        elif group - g == 2:
            _share(
                2, q_at, padded, keys, k_at, k_step, values, v_at, v_step, dims, qkv, s, w_at, valid, scales, k_scale,
                v_scale, r_at, padded, next_k, next_v,
            )  # fmt: skip
            g += 2
        else:
            _share(
                1, q_at, padded, keys, k_at, k_step, values, v_at, v_step, dims, qkv, s, w_at, valid, scales, k_scale,
                v_scale, r_at, padded, next_k, next_v,
            )  # fmt: skip
            g += 1


@njit(nogil=True, cache=True, error_model="numpy")
def _rows(
    start, qkv, width, first, count, head, positions, scales, k_scale, v_scale, k_step, sizes, s, k_tile, v_tile,
    weights, records,
):  # fmt: skip
    """One widened tile for the rows that reach it."""
    padded, group = size(sizes, "padded"), size(sizes, "group")
    of_row = group * record_size(padded)
    for row in range(count):
        if positions[first + row] >= start:
            row_at = (first + row) * width + head * group * padded
            _queries(
                row_at, s, k_tile, k_step, s, v_tile, padded, padded, qkv, s, weights,
                min(TILE, positions[first + row] + 1 - start), scales, k_scale, v_scale, records + row * of_row, sizes,
                -1, -1,
            )  # fmt: skip


@njit(nogil=True, cache=True, error_model="numpy")
def _tile(
    start, tokens, qkv, width, first, count, head, positions, kv, kv_at, kv_next, scales, k_scale, v_step, sizes, s,
    k_tile, v_tile, weights, records,
):  # fmt: skip
    """The tile at `start` for the rows that reach it. A single row reads the block as it lies, more widen it once.
    `kv_next`: where the tile after it begins, below 0 if there is none."""
    dim, padded, group = size(sizes, "dim"), size(sizes, "padded"), size(sizes, "group")
    v_scale = k_scale + v_step
    if count == 1 and dim % 8 == 0:
        row_at = first * width + head * group * padded
        _queries(
            row_at, kv, kv_at, dim, kv, kv_at + v_step * dim, dim, dim, qkv, s, weights, tokens, scales, k_scale,
            v_scale, records, sizes, kv_next, kv_next + v_step * dim,
        )  # fmt: skip
        return
    if kv_next >= 0:
        prefetch(kv, kv_next, TILE * dim)
        prefetch(kv, kv_next + v_step * dim, TILE * dim)
    widen(kv, kv_at + v_step * dim, tokens, dim, s, v_tile, padded)
    if TURNED and dim % LANES == 0:
        widen_turned(kv, kv_at, dim, s, k_tile)
        _rows(
            start, qkv, width, first, count, head, positions, scales, k_scale, v_scale, None, sizes, s, k_tile, v_tile,
            weights, records,
        )  # fmt: skip
        return
    widen(kv, kv_at, tokens, dim, s, k_tile, padded)
    _rows(
        start, qkv, width, first, count, head, positions, scales, k_scale, v_scale, padded, sizes, s, k_tile, v_tile,
        weights, records,
    )  # fmt: skip


@njit(nogil=True, cache=True, error_model="numpy")
def _attend_unit(
    qkv, width, first, count, head, positions, blocks, span, spans, kv, kv_start, kv_stride, scales, scale_start,
    scale_stride, v_step, sizes, s, s_at,
):  # fmt: skip
    """One KV head for `count` rows over `spans` spans; returns where in `s` their records are. `v_step`: scales between
    K and V of one layer."""
    dim, padded, group = size(sizes, "dim"), size(sizes, "padded"), size(sizes, "group")
    block_size = size(sizes, "block")
    queries = count * group
    record_of = record_size(padded)
    k_tile, v_tile = s_at, s_at + TILE * padded
    weights = v_tile + TILE * padded
    records = weights + group * TILE
    fresh = records + queries * record_of
    length = positions[first + count - 1] + 1
    for number in range(span, span + spans):
        into = records if number == span else fresh
        _clear(s, into, queries, sizes)
        for start in range(number * SPAN, min((number + 1) * SPAN, length), TILE):
            plane = head * block_size + start % block_size
            block = blocks[start // block_size]
            kv_next = -1
            if start + TILE < length:
                after = blocks[(start + TILE) // block_size]
                beside = head * block_size + (start + TILE) % block_size
                kv_next = after * kv_stride + kv_start + beside * dim
                if scales.size > 0:
                    scale_after = after * scale_stride + scale_start + beside
                    prefetch(scales, scale_after, TILE)
                    prefetch(scales, scale_after + v_step, TILE)
            _tile(
                start, min(TILE, length - start), qkv, width, first, count, head, positions, kv,
                block * kv_stride + kv_start + plane * dim, kv_next, scales,
                block * scale_stride + scale_start + plane, v_step, sizes, s, k_tile, v_tile, weights, into,
            )  # fmt: skip
        if number > span:
            for i in range(queries):
                if positions[first + i // group] >= number * SPAN:
                    merge(s, records + i * record_of, s, fresh + i * record_of, padded)
    return records


@njit(parallel=True, nogil=True, cache=True, error_model="numpy")
def attend(
    qkv, width, units, positions, table, kv_heads, layer, sizes, kv, kv_stride, scales, scale_offset, scale_stride,
    scratch, slots, out, counters, turn,
):  # fmt: skip
    """Attention of all rows over the arena, one layer; rows that were split have their spans in `slots` afterwards.

    qkv, out: flat float32, rows of `width` and heads x padded; heads lie `padded` floats apart, queries scaled.
    units: int64 (n, 6): first row, rows, row of `table`, first span, spans, slot or FINISH, heaviest first. sizes:
    dim, padded, group (queries of one KV head), block (its tokens), compiled in. kv: the arena as flat uint16 (halves),
    int8 or float32, blocks `kv_stride` apart; scales: the arena as float32 at q8, empty and of any integer type
    otherwise. scratch: float32 (workers, scratch_floats); slots: flat, slot_floats each; counters[turn]: 0, this
    pass's counter.
    """
    workers = scratch.shape[0]
    s = scratch.reshape(-1)
    dim, padded, group = size(sizes, "dim"), size(sizes, "padded"), size(sizes, "group")
    v_step = kv_heads * size(sizes, "block")
    record_of = record_size(padded)
    heads = kv_heads * group
    for worker in prange(workers):
        number = take(counters, turn)
        while number < units.shape[0] * kv_heads:
            unit, head = number // kv_heads, number % kv_heads
            first, count, slot = units[unit, 0], units[unit, 1], units[unit, 5]
            records = _attend_unit(
                qkv, width, first, count, head, positions, table[units[unit, 2]], units[unit, 3], units[unit, 4], kv,
                layer * 2 * v_step * dim, kv_stride, scales, scale_offset + layer * 2 * v_step, scale_stride, v_step,
                sizes, s, worker * scratch.shape[1],
            )  # fmt: skip
            if slot == FINISH:
                for i in range(count * group):
                    row, g = first + i // group, i % group
                    finish(s, records + i * record_of, padded, out, (row * heads + head * group + g) * padded)
            else:
                kept = (slot * heads + head * group) * record_of
                for d in range(group * record_of):
                    slots[kept + d] = s[records + d]
            number = take(counters, turn)


@njit(nogil=True, cache=True, error_model="numpy")
def join_spans(splits, heads, padded, slots, out):
    """Output of the rows whose spans lie in `slots`. splits: int64 (n, 3): row, first slot, spans."""
    record_of = record_size(padded)
    for i in range(splits.shape[0]):
        row, slot = splits[i, 0], splits[i, 1]
        for head in range(heads):
            record = (slot * heads + head) * record_of
            for span in range(1, splits[i, 2]):
                merge(slots, record, slots, record + span * heads * record_of, padded)
            finish(slots, record, padded, out, (row * heads + head) * padded)
