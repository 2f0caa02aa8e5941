"""Paged attention on CPU: causal, grouped-query, online softmax over tiles of 16 tokens and spans of SPAN tokens.

A unit of work is one KV head of up to GROUP consecutive rows of one turn, over all spans of its context; a single row
with a long context is one unit per span, so that threads share it. A row meets the tiles of a span in ascending order
and adds the spans up in ascending order, whoever computes them: its bits are the same alone, in a batch and inside a
prefill chunk.
"""

from numba import prange

from engine.kernels.attend_tile import (
    LOWEST,
    MOST_QUERIES,
    TILE,
    finish,
    gather,
    merge,
    prefetch,
    record_floats,
    score,
    soften,
    widen,
)
from engine.kernels.compiled import njit
from engine.kernels.share import take

GROUP = 4
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
def _clear(s, at, queries, padded):
    size = record_size(padded)
    for i in range(queries):
        record = at + i * size
        for d in range(padded + TILE):
            s[record + d] = 0.0
        s[record + padded + TILE] = LOWEST


@njit(nogil=True, cache=True, error_model="numpy")
def _queries(
    row_at, head_step, group, keys, k_at, k_step, values, v_at, v_step, dims, qkv, s, weights, valid, scales, k_scale,
    v_scale, record_at, padded, next_k, next_v,
):  # fmt: skip
    """One tile for the `group` queries of one row, three, two or one at a time. `next_k`, `next_v`: where the tile
    after it begins in `keys` and `values`, asked for in parts, as a core waits for few lines at once; below 0: none.
    """
    size = record_size(padded)
    half = TILE * dims // 2
    g = 0
    while g < group:
        q_at, w_at, r_at = row_at + g * head_step, weights + g * TILE, record_at + g * size
        if g == 0 and next_k >= 0:
            prefetch(keys, next_k, half)
        if group - g >= MOST_QUERIES:
            score(3, qkv, q_at, head_step, keys, k_at, k_step, dims, s, w_at)
            if g == 0 and next_k >= 0:
                prefetch(keys, next_k + half, half)
            soften(3, s, w_at, valid, scales, k_scale, v_scale, r_at, padded)
            if g == 0 and next_k >= 0:
                prefetch(values, next_v, 2 * half)
            gather(3, s, w_at, values, v_at, v_step, dims, valid, r_at, padded)
            g += 3
        elif group - g == 2:
            score(2, qkv, q_at, head_step, keys, k_at, k_step, dims, s, w_at)
            if g == 0 and next_k >= 0:
                prefetch(keys, next_k + half, half)
            soften(2, s, w_at, valid, scales, k_scale, v_scale, r_at, padded)
            if g == 0 and next_k >= 0:
                prefetch(values, next_v, 2 * half)
            gather(2, s, w_at, values, v_at, v_step, dims, valid, r_at, padded)
            g += 2
        else:
            score(1, qkv, q_at, head_step, keys, k_at, k_step, dims, s, w_at)
            if g == 0 and next_k >= 0:
                prefetch(keys, next_k + half, half)
            soften(1, s, w_at, valid, scales, k_scale, v_scale, r_at, padded)
            if g == 0 and next_k >= 0:
                prefetch(values, next_v, 2 * half)
            gather(1, s, w_at, values, v_at, v_step, dims, valid, r_at, padded)
            g += 1


@njit(nogil=True, cache=True, error_model="numpy")
def _tile(
    start, tokens, qkv, width, first, count, head, group, positions, kv, kv_at, kv_next, scales, k_scale, v_step, dim,
    padded, s, k_tile, v_tile, weights, records,
):  # fmt: skip
    """The tile at `start` for the rows that reach it. A single row reads the block as it lies, more widen it once.
    `kv_next`: where the tile after it begins, below 0 if there is none."""
    v_scale = k_scale + v_step
    if count == 1 and dim % 8 == 0:
        row_at = first * width + head * group * padded
        _queries(
            row_at, padded, group, kv, kv_at, dim, kv, kv_at + v_step * dim, dim, dim, qkv, s, weights, tokens, scales,
            k_scale, v_scale, records, padded, kv_next, kv_next + v_step * dim,
        )  # fmt: skip
        return
    if kv_next >= 0:
        prefetch(kv, kv_next, TILE * dim)
        prefetch(kv, kv_next + v_step * dim, TILE * dim)
    widen(kv, kv_at, tokens, dim, s, k_tile, padded)
    widen(kv, kv_at + v_step * dim, tokens, dim, s, v_tile, padded)
    size = group * record_size(padded)
    for row in range(count):
        if positions[first + row] >= start:
            row_at = (first + row) * width + head * group * padded
            _queries(
                row_at, padded, group, s, k_tile, padded, s, v_tile, padded, padded, qkv, s, weights,
                min(TILE, positions[first + row] + 1 - start), scales, k_scale, v_scale, records + row * size, padded,
                -1, -1,
            )  # fmt: skip


@njit(nogil=True, cache=True, error_model="numpy")
def _attend_unit(
    qkv, width, first, count, head, group, positions, blocks, span, spans, kv, kv_start, kv_stride, scales,
    scale_start, scale_stride, v_step, block_size, dim, padded, s, s_at,
):  # fmt: skip
    """One KV head for `count` rows over `spans` spans; returns where in `s` their records are. `v_step`: scales between
    K and V of one layer."""
    queries = count * group
    size = record_size(padded)
    k_tile, v_tile = s_at, s_at + TILE * padded
    weights = v_tile + TILE * padded
    records = weights + group * TILE
    fresh = records + queries * size
    length = positions[first + count - 1] + 1
    for number in range(span, span + spans):
        into = records if number == span else fresh
        _clear(s, into, queries, padded)
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
                start, min(TILE, length - start), qkv, width, first, count, head, group, positions, kv,
                block * kv_stride + kv_start + plane * dim, kv_next, scales,
                block * scale_stride + scale_start + plane, v_step, dim, padded, s, k_tile, v_tile, weights, into,
            )  # fmt: skip
        if number > span:
            for i in range(queries):
                if positions[first + i // group] >= number * SPAN:
                    merge(s, records + i * size, s, fresh + i * size, padded)
    return records


@njit(parallel=True, nogil=True, cache=True, error_model="numpy")
def attend(
    qkv, width, units, positions, table, heads, kv_heads, dim, padded, layer, block_size,
    kv, kv_stride, scales, scale_offset, scale_stride, scratch, slots, out, counters, turn,
):  # fmt: skip
    """Attention of all rows over the arena, one layer; rows that were split have their spans in `slots` afterwards.

    qkv, out: flat float32, rows of `width` and heads x padded; heads lie `padded` floats apart, queries scaled.
    units: int64 (n, 6): first row, rows, row of `table`, first span, spans, slot or FINISH, heaviest first. kv: the
    arena as flat uint16 (halves), int8 or float32, blocks `kv_stride` apart; scales: the arena as float32 at q8, empty
    and of any integer type otherwise. scratch: float32 (workers, scratch_floats); slots: flat, slot_floats each;
    counters[turn]: 0, this pass's counter.
    """
    workers = scratch.shape[0]
    s = scratch.reshape(-1)
    v_step = kv_heads * block_size
    group = heads // kv_heads
    size = record_size(padded)
    for worker in prange(workers):
        number = take(counters, turn)
        while number < units.shape[0] * kv_heads:
            unit, head = number // kv_heads, number % kv_heads
            first, count, slot = units[unit, 0], units[unit, 1], units[unit, 5]
            records = _attend_unit(
                qkv, width, first, count, head, group, positions, table[units[unit, 2]], units[unit, 3],
                units[unit, 4], kv, layer * 2 * v_step * dim, kv_stride, scales, scale_offset + layer * 2 * v_step,
                scale_stride, v_step, block_size, dim, padded, s, worker * scratch.shape[1],
            )  # fmt: skip
            if slot == FINISH:
                for i in range(count * group):
                    row, g = first + i // group, i % group
                    finish(s, records + i * size, padded, out, (row * heads + head * group + g) * padded)
            else:
                kept = (slot * heads + head * group) * size
                for d in range(group * size):
                    slots[kept + d] = s[records + d]
            number = take(counters, turn)


@njit(nogil=True, cache=True, error_model="numpy")
def join_spans(splits, heads, padded, slots, out):
    """Output of the rows whose spans lie in `slots`. splits: int64 (n, 3): row, first slot, spans."""
    size = record_size(padded)
    for i in range(splits.shape[0]):
        row, slot = splits[i, 0], splits[i, 1]
        for head in range(heads):
            record = (slot * heads + head) * size
            for span in range(1, splits[i, 2]):
                merge(slots, record, slots, record + span * heads * size, padded)
            finish(slots, record, padded, out, (row * heads + head) * padded)
