"""The host pool: parked copies of turns' blocks, each tagged with the precision and layout it was made in.

The slab is an array of units of one size, and a copy is a byte stream over any free units: there are no holes to fall
between, so a copy succeeds whenever enough units are free.
"""

import heapq
import os
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np
import torch

from engine.backends.torch.convert import SCRATCH_BLOCKS, convert_blocks
from engine.backends.torch.copies import Copies, Job
from engine.backends.torch.cpucopies import CpuCopies
from engine.backends.torch.device_copies import device_copies
from engine.backends.torch.executor import KV_DTYPES
from engine.backends.torch.slab import Slab
from engine.errors import CorruptCopy, IntegrityError, Refused
from engine.geometry import BlockLayout, KVGeometry, unit_of

MAX_WORKERS = 4


@dataclass(frozen=True, slots=True)
class Parked:
    """A host copy: `blocks` blocks of `layout`. `key` is its name in the pool."""

    key: int
    layout: BlockLayout
    blocks: int

    @property
    def nbytes(self) -> int:
        return self.blocks * self.layout.nbytes


@dataclass(slots=True)
class _Copy:
    """What the pool knows of a copy: its units in the order of the stream, what each is filled with, checksums."""

    units: list[int]
    filled: list[int]
    sums: list[int]


def unit_bytes(geometry: KVGeometry, block_size: int) -> int:
    """A unit: one block at the smallest precision, or a part of it."""
    return unit_of(min(BlockLayout(geometry, dtype, block_size).nbytes for dtype in KV_DTYPES))


class HostPool:
    """`asked_bytes` is what was asked for, `total_bytes` what the whole units come to, `used_bytes` what copies occupy,
    `held_bytes` what the system has really given: all of it when pinned, on CPU the units that were ever touched.
    `workers` copy and convert, here and in the arena; `copies` moves the bytes, to `pinned` memory beside a device."""

    def __init__(self, nbytes: int, unit: int, device: torch.device, asked: int | None = None) -> None:
        self.unit = unit
        self.pinned = device.type != "cpu"
        lanes = min(MAX_WORKERS, os.cpu_count() or 1)
        self.workers = ThreadPoolExecutor(lanes, thread_name_prefix="parkdeck-copy")
        self._beside = CpuCopies(self.workers, lanes)
        self.copies: Copies = device_copies(device, self.workers) if self.pinned else self._beside
        self._parked: dict[int, _Copy] = {}
        self._next_key = 0
        self._install(Slab(nbytes // unit * unit, pinned=self.pinned), nbytes if asked is None else asked)

    def _install(self, slab: Slab, asked: int) -> None:
        """Take `slab` with every copy's units at its front, in the order of `_parked`."""
        used = sum(len(copy.units) for copy in self._parked.values())
        self._slab = slab
        self.asked_bytes = asked
        self.units = slab.nbytes // self.unit
        self._free = list(range(used, self.units))
        self._touched = used

    @property
    def total_bytes(self) -> int:
        return self.units * self.unit

    @property
    def used_bytes(self) -> int:
        return (self.units - len(self._free)) * self.unit

    @property
    def held_bytes(self) -> int:
        return self.total_bytes if self.pinned else self._touched * self.unit

    def units_for(self, nbytes: int) -> int:
        return -(-nbytes // self.unit)

    def occupied(self, parked: Parked) -> int:
        """Bytes of the pool that the copy occupies, whole units."""
        return len(self._parked[parked.key].units) * self.unit

    def store(self, memory: torch.Tensor, layout: BlockLayout, blocks: Sequence[int]) -> Parked | None:
        """Copy `blocks` of the arena into the pool. None, with nothing changed, if too few units are free. Raises
        CorruptCopy, with nothing changed, when the copy itself fails."""
        parked = self.reserve(layout, len(blocks))
        if parked is None:
            return None
        copy = self._parked[parked.key]
        try:
            copy.sums = self.copies.out(memory, self._slab.tensor, self._job(copy.units, copy.filled, blocks, layout))
        except Exception as error:
            self.release(parked)
            raise CorruptCopy(f"The copy to host memory failed: {error}") from error
        return parked

    def reserve(self, layout: BlockLayout, blocks: int) -> Parked | None:
        """Units for a copy that is still to be made. None, with nothing changed, if too few are free."""
        nbytes = blocks * layout.nbytes
        count = self.units_for(nbytes)
        if count > len(self._free):
            return None
        units = [heapq.heappop(self._free) for _ in range(count)]
        filled = [self.unit] * count
        if nbytes % self.unit:
            filled[-1] = nbytes % self.unit
        self._touched = max(self._touched, max(units, default=-1) + 1)
        parked = Parked(self._next_key, layout, blocks)
        self._next_key += 1
        self._parked[parked.key] = _Copy(units, filled, [])
        return parked

    def store_beside(self, parked: Parked, memory: torch.Tensor, blocks: Sequence[int]) -> Iterator[None]:
        """Make the copy that was reserved, a small piece at a time, in whatever thread asks for the next. Only where
        arena and pool lie in one memory, as `load_beside`."""
        copy = self._parked[parked.key]
        job = self._job(copy.units, copy.filled, blocks, parked.layout)
        for sums in self._beside.out_beside(memory, self._slab.tensor, job):
            copy.sums = sums
            yield

    def load_beside(self, parked: Parked, memory: torch.Tensor, blocks: Sequence[int]) -> Iterator[None]:
        """`load` of a copy at the arena's own precision, a small piece at a time, in whatever thread asks for the
        next. The last one raises CorruptCopy when a checksum is wrong."""
        copy = self._parked[parked.key]
        job = self._job(copy.units, copy.filled, blocks, parked.layout)
        return self._beside.back_beside(memory, self._slab.tensor, job, copy.sums)

    def load(
        self,
        parked: Parked,
        memory: torch.Tensor,
        layout: BlockLayout,
        blocks: Sequence[int],
        scratch: torch.Tensor,
    ) -> None:
        """Copy a parked turn into `blocks` of the arena, converting it from its own precision to `layout`; the copy
        stays. `scratch` (uint8, on the arena's device) is for converting: `convert.scratch_bytes`. Raises CorruptCopy
        when a checksum is wrong or the copy fails: `blocks` may then be half-written, nothing else is."""
        copy = self._parked[parked.key]
        try:
            if parked.layout == layout:
                job = self._job(copy.units, copy.filled, blocks, layout)
                self.copies.back(memory, self._slab.tensor, job, copy.sums)
            else:
                self._load_converting(copy, parked, memory, layout, blocks, scratch)
        except CorruptCopy:
            raise
        except Exception as error:
            raise CorruptCopy(f"The copy back from host memory failed: {error}") from error

    def _load_converting(
        self,
        copy: _Copy,
        parked: Parked,
        memory: torch.Tensor,
        layout: BlockLayout,
        blocks: Sequence[int],
        scratch: torch.Tensor,
    ) -> None:
        """Each lane has a part of the scratch to itself and takes every so-manieth piece of the blocks."""
        lanes = self.copies.lanes
        step = SCRATCH_BLOCKS // lanes
        size = parked.layout.nbytes

        def lane(number: int) -> None:
            part = scratch[number * step * size : (number + 1) * step * size]
            for first in range(number * step, parked.blocks, lanes * step):
                last = min(first + step, parked.blocks)
                begin, end = first * size // self.unit, self.units_for(last * size)
                job = self._job(copy.units[begin:end], copy.filled[begin:end], range(last - first), parked.layout)
                job = replace(job, skip=first * size - begin * self.unit)
                self.copies.back_alone(part, self._slab.tensor, job, copy.sums[begin:end])
                target = np.array(blocks[first:last], dtype=np.int64)
                convert_blocks(part, parked.layout, np.arange(last - first), memory, layout, target)

        if lanes == 1:
            lane(0)
            return
        running = [self.workers.submit(lane, number) for number in range(lanes)]
        errors = [error for error in (future.exception() for future in running) if error is not None]
        if errors:
            raise errors[0]

    def _job(self, units: Sequence[int], filled: Sequence[int], blocks: Iterable[int], layout: BlockLayout) -> Job:
        size = layout.nbytes
        starts = [block * size for block in blocks]
        return Job(starts, size, [unit * self.unit for unit in units], self.unit, filled)

    def trim(self, parked: Parked, blocks: int) -> Parked:
        """Keep the copy's first `blocks` blocks; units wholly behind them are free again."""
        copy = self._parked[parked.key]
        keep = self.units_for(blocks * parked.layout.nbytes)
        self._give(copy.units[keep:])
        del copy.units[keep:], copy.filled[keep:], copy.sums[keep:]
        return replace(parked, blocks=blocks)

    def release(self, parked: Parked) -> None:
        """Forget the copy and free its units."""
        self._give(self._parked.pop(parked.key).units)

    def _give(self, units: Iterable[int]) -> None:
        for unit in units:
            heapq.heappush(self._free, unit)

    def resize(self, nbytes: int) -> None:
        """Grow or shrink; copies move to the front of the new memory. Raises Refused, with nothing changed, when more
        than `nbytes` is in use or the system will not pin so much."""
        if nbytes // self.unit * self.unit < self.used_bytes:
            raise Refused(
                f"The host pool cannot be set to {nbytes / 2**20:.1f} MiB because parked turns use "
                f"{self.used_bytes / 2**20:.1f} MiB of it; ask for at least that or drop parked turns first."
            )
        new = Slab(nbytes // self.unit * self.unit, pinned=False)
        at = 0
        moved: list[list[int]] = []
        for copy in self._parked.values():
            moved.append(list(range(at, at + len(copy.units))))
            for unit, place in zip(copy.units, moved[-1], strict=True):
                new.array[place * self.unit : (place + 1) * self.unit] = self._slab.array[
                    unit * self.unit : (unit + 1) * self.unit
                ]
            at += len(copy.units)
        self._slab.close()
        if self.pinned:
            self._pin_or_restore(new)
        for copy, units in zip(self._parked.values(), moved, strict=True):
            copy.units = units
        self._install(new, nbytes)

    def _pin_or_restore(self, new: Slab) -> None:
        """The old slab is unpinned first, so that both are never locked at once."""
        try:
            new.pin()
        except Refused:
            self._slab.pin()
            raise

    def check(self, parked: Iterable[Parked]) -> None:
        """`parked`: the copies that turns know of. Raises IntegrityError where the books do not add up."""
        known = list(parked)
        if len({copy.key for copy in known}) != len(known) or {copy.key for copy in known} != self._parked.keys():
            raise IntegrityError("host pool: its copies are not those that turns know of, one each")
        used = [unit for copy in self._parked.values() for unit in copy.units]
        if sorted([*used, *self._free]) != list(range(self.units)):
            raise IntegrityError(f"host pool: {len(used)} units used + {len(self._free)} free != {self.units} apart")
        for copy in known:
            if self.units_for(copy.nbytes) != len(self._parked[copy.key].units):
                raise IntegrityError(f"host pool: copy {copy.key} of {copy.nbytes} bytes has the wrong count of units")

    def close(self) -> None:
        """Stop the workers and unlock the memory."""
        self.workers.shutdown()
        self._slab.close()
