"""KV blocks from one precision to another: in place for the whole arena, or between two memories.

In place, a wave of blocks is converted straight from the old place to the new one when the new places end before the
first unread byte (towards smaller blocks, front to back) or begin behind the last one (towards larger blocks, back to
front). Where that leaves only short waves, `SCRATCH_BLOCKS` blocks at a time go through scratch memory.

    fp16 -> q8   old |--0--|--1--|--2--|--3--|--4--|--5--|--6--|--7--|     k-th live block is read at live[k] x old
                 new |0-|1-|2-|3-|4-|5-|6-|7-|                             and written at k x new <= live[k] x old
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from engine.geometry import BlockLayout, KVDtype
from engine.kernels import convert as kernels

SCRATCH_BLOCKS = 8
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
    memory: torch.Tensor, old: BlockLayout, new: BlockLayout, live: np.ndarray, scratch: torch.Tensor
) -> int:
    """Convert the blocks `live` (int64, ascending) of `memory` from `old` to `new`; live[k] becomes block k.

    `scratch`: uint8 on the same device, at least `scratch_bytes((old, new))`. The new blocks must fit `memory`.
    Returns bytes read plus bytes written.
    """
    if new.nbytes > old.nbytes:
        _compact(memory, old.nbytes, live)
        live = np.arange(live.size, dtype=np.int64)
        waves = _back_to_front(live.size, old.nbytes, new.nbytes)
    else:
        waves = _front_to_back(live, old.nbytes, new.nbytes)
    limit = live.size if memory.device.type == "cpu" else max(1, DEVICE_WAVE_BYTES // max(old.nbytes, new.nbytes))
    for wave in waves:
        for first, last in _pieces(wave, limit, backwards=new.nbytes > old.nbytes):
            places = np.arange(first, last, dtype=np.int64)
            if wave.through_scratch:
                _gather(memory, old.nbytes, live[first:last], scratch)
                convert_blocks(scratch, old, np.arange(last - first), memory, new, places)
            else:
                convert_blocks(memory, old, live[first:last], memory, new, places)
    return int(live.size) * (old.nbytes + new.nbytes)


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


def _compact(memory: torch.Tensor, block_bytes: int, live: np.ndarray) -> None:
    for k, block in enumerate(live.tolist()):
        if k != block:
            memory[k * block_bytes : (k + 1) * block_bytes].copy_(
                memory[block * block_bytes : (block + 1) * block_bytes]
            )


def _gather(memory: torch.Tensor, block_bytes: int, blocks: np.ndarray, scratch: torch.Tensor) -> None:
    for k, block in enumerate(blocks.tolist()):
        scratch[k * block_bytes : (k + 1) * block_bytes].copy_(memory[block * block_bytes : (block + 1) * block_bytes])


def convert_blocks(
    source: torch.Tensor,
    old: BlockLayout,
    source_blocks: np.ndarray,
    target: torch.Tensor,
    new: BlockLayout,
    target_blocks: np.ndarray,
) -> None:
    """Convert block source_blocks[k] of `source` into block target_blocks[k] of `target`, both flat uint8 on one
    device; the bytes read and written must not overlap. Raises ValueError for two layouts of different shape."""
    if (old.geometry, old.block_size) != (new.geometry, new.block_size):
        raise ValueError(f"blocks of {old} cannot become blocks of {new}: only the precision may differ")
    if source.device.type == "cpu":
        _convert_on_cpu(source.numpy(), old, source_blocks, target.numpy(), new, target_blocks)
    else:
        _convert_on_device(source, old, source_blocks, target, new, target_blocks)


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
    layers, two, heads, rows, dim = old.value_shape
    planes = layers * two * heads
    match old.dtype, new.dtype:
        case KVDtype.FP16, KVDtype.Q8:
            kernels.half_to_q8(a, a_at, b, b_at, *_scales(target, new, target_blocks), planes, rows, dim)
        case KVDtype.FP32, KVDtype.Q8:
            kernels.float_to_q8(a, a_at, b, b_at, *_scales(target, new, target_blocks), planes, rows, dim)
        case KVDtype.Q8, KVDtype.FP16:
            kernels.q8_to_half(a, a_at, *_scales(source, old, source_blocks), b, b_at, planes, rows, dim)
        case KVDtype.Q8, KVDtype.FP32:
            kernels.q8_to_float(a, a_at, *_scales(source, old, source_blocks), b, b_at, planes, rows, dim)
        case KVDtype.FP16, KVDtype.FP32:
            kernels.half_to_floats(a, a_at, b, b_at, planes, rows * dim)
        case KVDtype.FP32, KVDtype.FP16:
            kernels.float_to_halves(a, a_at, b, b_at, planes, rows * dim)
        case _:
            raise ValueError(f"blocks at {old.dtype} are already at {new.dtype}")


_ELEMENT = {KVDtype.FP32: np.float32, KVDtype.FP16: np.uint16, KVDtype.Q8: np.int8}


def _values(memory: np.ndarray, layout: BlockLayout, blocks: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Typed view of the memory's whole elements, and the element at which each block's values begin."""
    size = layout.dtype.element_bytes
    return memory[: memory.size // size * size].view(_ELEMENT[layout.dtype]), blocks * (layout.nbytes // size)


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
