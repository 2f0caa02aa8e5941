"""Attention of decode rows over the arena's blocks, fp32, fp16 or q8, without a copy of the context.

The heads that share a KV head are one tile. A context is cut into parts of fixed length, each with its own online
softmax; a second kernel puts a row's parts together in order. A row's bits depend on its own context alone.
"""

from dataclasses import dataclass

import torch
import triton
import triton.language as tl

PART = 256
_TILE = 64
_LOG2_E = 1.4426950408889634


@triton.jit(do_not_specialize=["columns", "parts"])
def _parts(
    q, table, lengths, values, scales, out, top_out, total_out, factor, columns, parts, block_step, scale_step,
    k_plane, v_plane,
    HEADS: tl.constexpr, GROUP: tl.constexpr, DIM: tl.constexpr, BLOCK: tl.constexpr, Q8: tl.constexpr,
    PART: tl.constexpr, TILE: tl.constexpr, GROUP_TILE: tl.constexpr, DIM_TILE: tl.constexpr, IN: tl.constexpr,
):  # fmt: skip
    row, head, part = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    first = part * PART
    length = tl.load(lengths + row)
    if first >= length:
        return
    g, d = tl.arange(0, GROUP_TILE), tl.arange(0, DIM_TILE)
    in_row = (head * GROUP + g[:, None]) * DIM + d[None, :]
    real = (g[:, None] < GROUP) & (d[None, :] < DIM)
    query = tl.load(q + row * HEADS * GROUP * DIM + in_row, mask=real, other=0.0).to(IN)
    top = tl.full((GROUP_TILE,), float("-inf"), tl.float32)
    total = tl.zeros((GROUP_TILE,), tl.float32)
    sums = tl.zeros((GROUP_TILE, DIM_TILE), tl.float32)
    for step in range(0, tl.minimum(length - first, PART), TILE):
        t = first + step + tl.arange(0, TILE)
        live = t < length
        block = tl.load(table + row * columns + t // BLOCK, mask=live, other=0).to(tl.int64)
        place = head * BLOCK + t % BLOCK
        loaded = live[:, None] & (d[None, :] < DIM)
        own = values + block[:, None] * block_step + d[None, :]
        k = tl.load(own + (k_plane + place)[:, None] * DIM, mask=loaded, other=0.0)
        score = tl.dot(query, tl.trans(k.to(IN)), input_precision="ieee") * factor
        if Q8:
            score *= tl.load(scales + block * scale_step + k_plane + place, mask=live, other=0.0)[None, :]
        score = tl.where(live[None, :], score, float("-inf"))
        higher = tl.maximum(top, tl.max(score, 1))
        weight = tl.exp2(score - higher[:, None])
        shrink = tl.exp2(top - higher)
        total = total * shrink + tl.sum(weight, 1)
        v = tl.load(own + (v_plane + place)[:, None] * DIM, mask=loaded, other=0.0)
        if Q8:
            v = v.to(tl.float32) * tl.load(scales + block * scale_step + v_plane + place, mask=live, other=0.0)[:, None]
        sums = tl.dot(weight.to(IN), v.to(IN), sums * shrink[:, None], input_precision="ieee")
        top = higher
    at = ((row * HEADS + head) * parts + part) * GROUP + g
    tl.store(out + at[:, None] * DIM + d[None, :], sums, mask=real)
    tl.store(top_out + at, top, mask=g < GROUP)
    tl.store(total_out + at, total, mask=g < GROUP)


@triton.jit(do_not_specialize=["parts"])
def _together(
    sums, tops, totals, lengths, out, parts,
    HEADS: tl.constexpr, GROUP: tl.constexpr, DIM: tl.constexpr, PART: tl.constexpr, DIM_TILE: tl.constexpr,
):  # fmt: skip
    row, head = tl.program_id(0), tl.program_id(1)
    d = tl.arange(0, DIM_TILE)
    count = tl.cdiv(tl.load(lengths + row), PART)
    first = (row * HEADS + head // GROUP) * parts * GROUP + head % GROUP
    top = float("-inf")
    for part in range(count):
        top = tl.maximum(top, tl.load(tops + first + part * GROUP))
    total = 0.0
    sum_ = tl.zeros((DIM_TILE,), tl.float32)
    for part in range(count):
        at = first + part * GROUP
        share = tl.exp2(tl.load(tops + at) - top)
        total += share * tl.load(totals + at)
        sum_ += share * tl.load(sums + at.to(tl.int64) * DIM + d, mask=d < DIM, other=0.0)
    tl.store(out + (row * HEADS * GROUP + head) * DIM + d, sum_ / total, mask=d < DIM)


@dataclass(frozen=True, slots=True)
class Planes:
    """One layer's K and V: `values` (blocks, layers, 2, kv_heads, block_size, dim) and, at q8, float32 `scales` (all
    but the last axis), strided windows over the arena's bytes; within a block without gaps."""

    values: torch.Tensor
    scales: torch.Tensor | None
    layer: int


def attend(q: torch.Tensor, table: torch.Tensor, lengths: torch.Tensor, longest: int, planes: Planes) -> torch.Tensor:
    """q (rows, heads, dim) over each row's first `lengths` tokens, int32 (rows,), none of them 0, at most `longest`;
    `table` int32 (rows, blocks). Returns (rows, heads x dim) of q's precision."""
    rows, heads, dim = q.shape
    kv_heads, block = planes.values.shape[3:5]
    group, parts = heads // kv_heads, triton.cdiv(longest, PART)
    made = (rows, kv_heads, parts, group)
    sums = torch.empty(*made, dim, dtype=torch.float32, device=q.device)
    tops, totals = (torch.empty(made, dtype=torch.float32, device=q.device) for _ in range(2))
    q8 = planes.scales is not None
    scales = planes.scales if planes.scales is not None else sums
    dim_tile = max(triton.next_power_of_2(dim), 16)
    _parts[(rows, kv_heads, parts)](
        q.contiguous(), table.contiguous(), lengths, planes.values, scales, sums, tops, totals,
        _LOG2_E / dim**0.5, table.shape[1], parts, planes.values.stride(0), scales.stride(0) if q8 else 0,
        2 * planes.layer * kv_heads * block, (2 * planes.layer + 1) * kv_heads * block,
        HEADS=kv_heads, GROUP=group, DIM=dim, BLOCK=block, Q8=q8, PART=PART, TILE=_TILE,
        GROUP_TILE=max(triton.next_power_of_2(group), 16), DIM_TILE=dim_tile,
        IN=tl.float16 if q.dtype == torch.float16 else tl.float32,
    )  # fmt: skip
    out = torch.empty(rows, heads * dim, dtype=q.dtype, device=q.device)
    _together[(rows, heads)](
        sums, tops, totals, lengths, out, parts, HEADS=kv_heads, GROUP=group, DIM=dim, PART=PART, DIM_TILE=dim_tile
    )
    return out
