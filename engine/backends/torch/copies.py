"""Copies between scattered blocks of an arena and scattered units of a host slab, with a checksum per unit.

The blocks of a turn, one behind the other, are a byte stream; so are the units of its host copy. A `Job` lays the two
streams over each other. Where arena and slab share a memory, `cpucopies` moves them.
"""

from collections.abc import Iterator, Sequence
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

    def stretch(self, units: range) -> tuple[int, int]:
        """Where in the stream of blocks the content of `units` begins and ends."""
        at = max(units.start * self.unit_bytes - self.skip, 0)
        return at, min(units.stop * self.unit_bytes - self.skip, self.nbytes)

    def spans(self, units: range) -> Iterator[Span]:
        """The spans that lie in `units`, in order."""
        at, end = self.stretch(units)
        while at < end:
            block, in_block = divmod(at, self.block_bytes)
            unit, in_unit = divmod(at + self.skip, self.unit_bytes)
            size = min(self.block_bytes - in_block, self.unit_bytes - in_unit, end - at)
            yield Span(self.blocks[block] + in_block, self.units[unit] + in_unit, size)
            at += size


class Copies(Protocol):
    """How bytes travel. All return when every byte is in place on the side they went to. `lanes`: threads that may
    call `back_alone` side by side. `staging_bytes`: device memory that they keep for themselves."""

    lanes: int

    @property
    def staging_bytes(self) -> int: ...

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


def verify(slab: np.ndarray, job: Job, unit: int, sums: Sequence[int]) -> None:
    """Raises CorruptCopy if the unit is not what `sums` says."""
    if checksum(slab, job, unit) != sums[unit]:
        raise CorruptCopy("A host copy does not match its checksum; the turn must be recomputed.")


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
