"""Scattered blocks to and from one contiguous run of bytes: one launch, and the run crosses the bus with one copy."""

from collections.abc import Sequence

import torch
import triton
import triton.language as tl

ALIGNED = 64
"""Everything begins and ends at a multiple of this, as blocks do."""

_CHUNK = 2048


@triton.jit(do_not_specialize_on_alignment=["lines"])
def _move(memory, lines, staging, block_words, begin, end, OUT: tl.constexpr, CHUNK: tl.constexpr):
    # A line is 64 bytes, 16 words: said as a product, it lets a thread move 16 bytes at a time.
    word = tl.program_id(1) * CHUNK + tl.arange(0, CHUNK)
    in_stream = tl.program_id(0).to(tl.int64) * block_words + word
    wanted = (word < block_words) & (in_stream >= begin) & (in_stream < end)
    scattered = memory + tl.load(lines + tl.program_id(0)) * 16 + word
    together = staging + (in_stream - begin)
    if OUT:
        tl.store(together, tl.load(scattered, mask=wanted, other=0), mask=wanted)
    else:
        tl.store(scattered, tl.load(together, mask=wanted, other=0), mask=wanted)


def gather(
    memory: torch.Tensor, starts: Sequence[int], block_bytes: int, staging: torch.Tensor, begin: int, end: int
) -> None:
    """Blocks, one behind the other, are a stream of bytes: put its bytes begin..end-1 at the front of `staging`.
    `starts`: where each block begins in `memory`; both memories are uint8. All numbers are multiples of 64 bytes."""
    _launch(memory, starts, block_bytes, staging, begin, end, out=True)


def scatter(
    memory: torch.Tensor, starts: Sequence[int], block_bytes: int, staging: torch.Tensor, begin: int, end: int
) -> None:
    """The way back of `gather`."""
    _launch(memory, starts, block_bytes, staging, begin, end, out=False)


def _launch(
    memory: torch.Tensor,
    starts: Sequence[int],
    block_bytes: int,
    staging: torch.Tensor,
    begin: int,
    end: int,
    out: bool,
) -> None:
    if not starts or begin >= end:
        return
    words = block_bytes // 4
    lines = torch.tensor([start // ALIGNED for start in starts], dtype=torch.int64)
    if memory.device.type == "cuda":
        # From pageable memory the upload would wait for all that its stream has queued.
        lines = lines.pin_memory().to(memory.device, non_blocking=True)
    _move[(len(starts), triton.cdiv(words, _CHUNK))](
        _words(memory), lines, _words(staging), words, begin // 4, end // 4, OUT=out, CHUNK=_CHUNK
    )


def _words(memory: torch.Tensor) -> torch.Tensor:
    return memory[: memory.numel() // ALIGNED * ALIGNED].view(torch.int32)
