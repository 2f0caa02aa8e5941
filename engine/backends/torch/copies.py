"""Copies between scattered blocks of an arena and scattered units of a host slab, with a checksum per unit.

The blocks of a turn, one behind the other, are a byte stream; so are the units of its host copy. A `Job` lays the two
streams over each other. Where arena and slab share a memory, `cpucopies` moves them.
"""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
import xxhash

from engine.errors import CorruptCopy

GROUP_UNITS = 16


@dataclass(frozen=True, slots=True)
class Span:
    """`nbytes` bytes that are contiguous on both sides, with where they begin."""

    arena: int
    slab: int
    nbytes: int


@dataclass(frozen=True, slots=True)
class Job:
    """`blocks` and `units`: where each begins, in bytes, in arena and slab. The stream begins `skip` bytes into the
    first unit. `filled`: bytes that each unit holds in all, which its checksum covers."""

    blocks: Sequence[int]
    block_bytes: int
    units: Sequence[int]
    unit_bytes: int
    filled: Sequence[int]
    skip: int = 0

    @property
    def nbytes(self) -> int:
        return len(self.blocks) * self.block_bytes

    def groups(self) -> Iterator[range]:
        """Units in runs that one worker takes at a time."""
        for first in range(0, len(self.units), GROUP_UNITS):
            yield range(first, min(first + GROUP_UNITS, len(self.units)))

    def spans(self, units: range) -> Iterator[Span]:
        """The spans that lie in `units`, in order."""
        at = max(units.start * self.unit_bytes - self.skip, 0)
        end = min(units.stop * self.unit_bytes - self.skip, self.nbytes)
        while at < end:
            block, in_block = divmod(at, self.block_bytes)
            unit, in_unit = divmod(at + self.skip, self.unit_bytes)
            size = min(self.block_bytes - in_block, self.unit_bytes - in_unit, end - at)
            yield Span(self.blocks[block] + in_block, self.units[unit] + in_unit, size)
            at += size


class Copies(Protocol):
    """How bytes travel. All return when every byte is in place on the side they went to. `lanes`: threads that may
    call `back_alone` side by side."""

    lanes: int

    def out(self, memory: torch.Tensor, slab: torch.Tensor, job: Job) -> list[int]:
        """Arena to slab; returns the checksum of each unit."""
        ...

    def back(self, memory: torch.Tensor, slab: torch.Tensor, job: Job, sums: Sequence[int]) -> None:
        """Slab to arena. Raises CorruptCopy if a unit is not what `sums` says; the blocks may then be half-written."""
        ...

    def back_alone(self, memory: torch.Tensor, slab: torch.Tensor, job: Job, sums: Sequence[int]) -> None:
        """`back` in the calling thread, for a small job."""
        ...

    def warm_up(self) -> None:
        """Compile or load what copying needs."""
        ...


def checksum(slab: np.ndarray, job: Job, unit: int) -> int:
    """XXH3 of what the unit holds."""
    start = job.units[unit]
    return int(xxhash.xxh3_64_intdigest(slab[start : start + job.filled[unit]].data))


def _verify(slab: np.ndarray, job: Job, unit: int, sums: Sequence[int]) -> None:
    if checksum(slab, job, unit) != sums[unit]:
        raise CorruptCopy("A host copy does not match its checksum; the turn must be recomputed.")


class DeviceCopies:
    """Arena on a CUDA or ROCm device, slab pinned: copies on a stream of their own.

    Order, both ways: the copy stream waits for what the compute stream has queued (the blocks' last writes, or their
    last reads by another turn), and the compute stream waits for the copies before it runs on.
    """

    lanes = 1

    def __init__(self, device: torch.device, workers: ThreadPoolExecutor) -> None:
        self._device = device
        self._workers = workers
        self._stream = torch.cuda.Stream(device)

    def out(self, memory: torch.Tensor, slab: torch.Tensor, job: Job) -> list[int]:
        compute = torch.cuda.current_stream(self._device)
        self._stream.wait_stream(compute)
        host = slab.numpy()
        landed = []
        try:
            with torch.cuda.stream(self._stream):
                for units in job.groups():
                    for span in merged(job.spans(units)):
                        part = memory[span.arena : span.arena + span.nbytes]
                        slab[span.slab : span.slab + span.nbytes].copy_(part, non_blocking=True)
                    event = torch.cuda.Event()
                    event.record(self._stream)
                    landed.append((units, event))
            sums = []
            for units, event in landed:
                event.synchronize()
                sums.append([self._workers.submit(checksum, host, job, unit) for unit in units])
            return [future.result() for group in sums for future in group]
        finally:
            compute.wait_stream(self._stream)
            self._stream.synchronize()

    def back(self, memory: torch.Tensor, slab: torch.Tensor, job: Job, sums: Sequence[int]) -> None:
        compute = torch.cuda.current_stream(self._device)
        self._stream.wait_stream(compute)
        host = slab.numpy()
        checks = [self._workers.submit(_verify, host, job, unit, sums) for unit in range(len(job.units))]
        try:
            with torch.cuda.stream(self._stream):
                for units in job.groups():
                    for unit in units:
                        checks[unit].result()
                    for span in merged(job.spans(units)):
                        part = slab[span.slab : span.slab + span.nbytes]
                        memory[span.arena : span.arena + span.nbytes].copy_(part, non_blocking=True)
        finally:
            for check in checks:
                check.exception()
            compute.wait_stream(self._stream)
            self._stream.synchronize()

    def back_alone(self, memory: torch.Tensor, slab: torch.Tensor, job: Job, sums: Sequence[int]) -> None:
        self.back(memory, slab, job, sums)

    def warm_up(self) -> None:
        """Copies of a device need no kernels."""


def merged(spans: Iterator[Span]) -> Iterator[Span]:
    """Neighbours that are contiguous on both sides as one span: fewer, larger transfers."""
    last: Span | None = None
    for span in spans:
        if last and (last.arena + last.nbytes, last.slab + last.nbytes) == (span.arena, span.slab):
            last = Span(last.arena, last.slab, last.nbytes + span.nbytes)
            continue
        if last:
            yield last
        last = span
    if last:
        yield last
