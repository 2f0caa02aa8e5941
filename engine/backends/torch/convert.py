"""KV blocks from one precision to another: in place for the whole arena, or between two memories.

In place, a wave of blocks is converted straight from the old place to the new one when the new places end before the
first unread byte (towards smaller blocks, front to back) or begin behind the last one (towards larger blocks, back to
front). Where that leaves only short waves, `SCRATCH_BLOCKS` blocks at a time go through scratch memory.

    fp16 -> q8   old |--0--|--1--|--2--|--3--|--4--|--5--|--6--|--7--|     k-th live block is read at live[k] x old
                 new |0-|1-|2-|3-|4-|5-|6-|7-|                             and written at k x new <= live[k] x old
"""

import math
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import torch

from engine.geometry import BlockLayout, KVDtype
from engine.kernels import convert as kernels

SCRATCH_BLOCKS = 16
PIECE_BLOCKS = 8
DEVICE_WAVE_BYTES = 64 << 20


@dataclass(frozen=True, slots=True)
class _Wave:
    """Live blocks first..last-1; `through_scratch` when their old and new bytes may overlap."""

    first: int
    last: int
    through_scratch: bool


def scratch_bytes(layouts: Sequence[BlockLayout]) -> int:
    """Bytes that `convert_arena` and a converting swap need beside the arena."""
    return SCRATCH_BLOCKS * max(layout.nbytes for layout in layouts)


def convert_arena(
    memory: torch.Tensor,
    old: BlockLayout,
    new: BlockLayout,
    live: np.ndarray,
    scratch: torch.Tensor,
    workers: ThreadPoolExecutor,
) -> np.ndarray:
    """Convert the blocks `live` (int64, ascending) of `memory` from `old` to `new`, packed at its front.

    `scratch`: uint8 on the same device, at least `scratch_bytes((old, new))`. The new blocks must fit `memory`.
    Returns `order`, int64 (live blocks,): the new block k is what was block order[k].
    """
    if new.nbytes > old.nbytes:
        order = _compact(memory, old.nbytes, live, workers)
        places = np.arange(live.size, dtype=np.int64)
        waves = _back_to_front(live.size, old.nbytes, new.nbytes)
    else:
        order = places = live
        waves = _front_to_back(live, old.nbytes, new.nbytes)
    limit = live.size if memory.device.type == "cpu" else max(1, DEVICE_WAVE_BYTES // max(old.nbytes, new.nbytes))
    for wave in waves:
        for first, last in _pieces(wave, limit, backwards=new.nbytes > old.nbytes):
            source, target = places[first:last], np.arange(first, last, dtype=np.int64)
            if wave.through_scratch:
                _move(memory, scratch, old.nbytes, source, np.arange(last - first), workers)
                convert_blocks(scratch, old, np.arange(last - first), memory, new, target, workers)
            else:
                convert_blocks(memory, old, source, memory, new, target, workers)
    return order


def _front_to_back(live: np.ndarray, old: int, new: int) -> Iterator[_Wave]:
    first = 0
    while first < live.size:
        clear = min(int(live[first]) * old // new, live.size)
        direct = clear - first >= SCRATCH_BLOCKS
        last = clear if direct else min(first + SCRATCH_BLOCKS, live.size)
        yield _Wave(first, last, not direct)
        first = last


def _back_to_front(count: int, old: int, new: int) -> Iterator[_Wave]:
    last = count
    while last > 0:
        clear = -(-last * old // new)
        direct = last - clear >= SCRATCH_BLOCKS
        first = clear if direct else max(last - SCRATCH_BLOCKS, 0)
        yield _Wave(first, last, not direct)
        last = first


def _pieces(wave: _Wave, limit: int, *, backwards: bool) -> Iterator[tuple[int, int]]:
    """The wave in pieces of at most `limit` blocks, in the order that is safe in place."""
    cuts = [(first, min(first + limit, wave.last)) for first in range(wave.first, wave.last, max(limit, 1))]
    return iter(cuts[::-1] if backwards else cuts)


def _compact(memory: torch.Tensor, block_bytes: int, live: np.ndarray, workers: Executor) -> np.ndarray:
    """Move the live blocks that lie behind the first `live.size` places into the holes before; returns the order."""
    order = np.arange(live.size, dtype=np.int64)
    holes = np.setdiff1d(order, live)
    order[holes] = live[live >= live.size]
    _move(memory, memory, block_bytes, order[holes], holes, workers)
    return order


def _move(
    source: torch.Tensor,
    target: torch.Tensor,
    block_bytes: int,
    source_blocks: np.ndarray,
    target_blocks: np.ndarray,
    workers: Executor,
) -> None:
    """Copy whole blocks; no block is both read and written."""

    def copy(first: int, last: int) -> None:
        for a, b in zip(source_blocks[first:last].tolist(), target_blocks[first:last].tolist(), strict=True):
            part = source[a * block_bytes : (a + 1) * block_bytes]
            target[b * block_bytes : (b + 1) * block_bytes].copy_(part, non_blocking=True)

    _share(source_blocks.size, copy, workers if source.device.type == "cpu" else None)


def _share(count: int, work: Callable[[int, int], None], workers: Executor | None) -> None:
    """work(first, last) over 0..count in pieces; on `workers` side by side, else one after the other."""
    cuts = [(first, min(first + PIECE_BLOCKS, count)) for first in range(0, count, PIECE_BLOCKS)]
    if workers is None or len(cuts) == 1:
        for first, last in cuts:
            work(first, last)
        return
    running = [workers.submit(work, first, last) for first, last in cuts]
    for future in running:
        future.exception()
    for future in running:
        future.result()


def convert_blocks(
    source: torch.Tensor,
    old: BlockLayout,
    source_blocks: np.ndarray,
    target: torch.Tensor,
    new: BlockLayout,
    target_blocks: np.ndarray,
    workers: Executor | None = None,
) -> None:
    """Convert block source_blocks[k] of `source` into block target_blocks[k] of `target`, both flat uint8 on one
    device; the bytes read and written must not overlap. On CPU `workers` share the blocks; without them the calling
    thread converts alone. Raises ValueError for two layouts that differ in more than precision, or not at all."""
    if (old.geometry, old.block_size) != (new.geometry, new.block_size):
        raise ValueError(f"blocks of {old} cannot become blocks of {new}: only the precision may differ")
    if old.dtype is new.dtype:
        raise ValueError(f"blocks at {old.dtype} are already at {new.dtype}")
    if source.device.type != "cpu":
        _convert_on_device(source, old, source_blocks, target, new, target_blocks)
        return
    a, b = source.numpy(), target.numpy()

    def piece(first: int, last: int) -> None:
        _convert_on_cpu(a, old, source_blocks[first:last], b, new, target_blocks[first:last])

    _share(source_blocks.size, piece, workers)


def load_kernels(layouts: Sequence[BlockLayout]) -> None:
    """Compile, or load from the cache, the kernels between all of `layouts`."""
    none = np.empty(0, dtype=np.int64)
    memory = np.zeros(scratch_bytes(layouts), np.uint8)
    for old in layouts:
        for new in layouts:
            if old.dtype is not new.dtype:
                _convert_on_cpu(memory, old, none, memory, new, none)


def _convert_on_cpu(
    source: np.ndarray,
    old: BlockLayout,
    source_blocks: np.ndarray,
    target: np.ndarray,
    new: BlockLayout,
    target_blocks: np.ndarray,
) -> None:
    a, a_at = _values(source, old, source_blocks)
    b, b_at = _values(target, new, target_blocks)
    *rest, dim = old.value_shape
    rows = math.prod(rest)
    match old.dtype, new.dtype:
        case KVDtype.FP16, KVDtype.Q8:
            kernels.half_to_q8(a, a_at, b, b_at, *_scales(target, new, target_blocks), rows, dim)
        case KVDtype.FP32, KVDtype.Q8:
            kernels.float_to_q8(a, a_at, b, b_at, *_scales(target, new, target_blocks), rows, dim)
        case KVDtype.Q8, KVDtype.FP16:
            kernels.q8_to_half(a, a_at, *_scales(source, old, source_blocks), b, b_at, rows, dim)
        case KVDtype.Q8, KVDtype.FP32:
            kernels.q8_to_float(a, a_at, *_scales(source, old, source_blocks), b, b_at, rows, dim)
        case KVDtype.FP16, KVDtype.FP32:
            kernels.half_to_floats(a, a_at, b, b_at, rows * dim)
        case KVDtype.FP32, KVDtype.FP16:
            kernels.float_to_halves(a, a_at, b, b_at, rows * dim)


KERNEL_ELEMENT = {KVDtype.FP32: np.float32, KVDtype.FP16: np.uint16, KVDtype.Q8: np.int8}
"""Stored values as the numba kernels address them."""


def _values(memory: np.ndarray, layout: BlockLayout, blocks: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Typed view of the memory's whole elements, and the element at which each block's values begin."""
    size = layout.dtype.element_bytes
    return memory[: memory.size // size * size].view(KERNEL_ELEMENT[layout.dtype]), blocks * (layout.nbytes // size)


def _scales(memory: np.ndarray, layout: BlockLayout, blocks: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return memory[: memory.size // 4 * 4].view(np.float32), (blocks * layout.nbytes + layout.scales_offset) // 4


_HALF_MAX = float(kernels.HALF_MAX)
_TORCH = {KVDtype.FP32: torch.float32, KVDtype.FP16: torch.float16, KVDtype.Q8: torch.int8}


def _convert_on_device(
    source: torch.Tensor,
    old: BlockLayout,
    source_blocks: np.ndarray,
    target: torch.Tensor,
    new: BlockLayout,
    target_blocks: np.ndarray,
) -> None:
    """The same arithmetic in torch operations; bit-identical to the kernels for finite values."""
    index = torch.from_numpy(source_blocks.astype(np.int64)).to(source.device)
    read = _blocks(source, old)[index]
    values = (
        read[:, : old.value_bytes].contiguous().view(_TORCH[old.dtype]).view(index.numel(), -1, old.value_shape[-1])
    )
    floats = values.float()
    if old.dtype.has_scales:
        floats *= _scale_bytes(read, old).contiguous().view(torch.float32).unsqueeze(-1)
    written = torch.zeros(index.numel(), new.nbytes, dtype=torch.uint8, device=target.device)
    if new.dtype.has_scales:
        limit = _HALF_MAX if old.dtype is KVDtype.FP16 else float(kernels.FLOAT_LIMIT)
        floats = torch.nan_to_num(floats, nan=0.0, posinf=limit, neginf=-limit)
        scale = floats.abs().amax(-1) / 127.0
        scale = torch.where(scale < float(kernels.SMALLEST_SCALE), 0.0, scale)
        inverse = torch.where(scale > 0, 1.0 / scale, 0.0)
        out = (floats * inverse.unsqueeze(-1)).round_().clamp_(-127, 127).to(torch.int8)
        _scale_bytes(written, new).copy_(scale.contiguous().view(torch.uint8).view(index.numel(), -1))
    else:
        out = (floats.clamp_(-_HALF_MAX, _HALF_MAX) if new.dtype is KVDtype.FP16 else floats).to(_TORCH[new.dtype])
    written[:, : new.value_bytes] = out.reshape(index.numel(), -1).contiguous().view(torch.uint8)
    _blocks(target, new)[torch.from_numpy(target_blocks.astype(np.int64)).to(target.device)] = written


def _blocks(memory: torch.Tensor, layout: BlockLayout) -> torch.Tensor:
    count = layout.blocks_in(memory.numel())
    return memory[: count * layout.nbytes].view(count, layout.nbytes)


def _scale_bytes(blocks: torch.Tensor, layout: BlockLayout) -> torch.Tensor:
    return blocks[:, layout.scales_offset : layout.scales_offset + 4 * layout.scale_count]
