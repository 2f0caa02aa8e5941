"""Copies in blocks of any size, through the code and the kind of host memory that swaps use."""

import time

from engine.backends.base import Copied
from engine.backends.torch.arena import Arena
from engine.backends.torch.copies import Job
from engine.backends.torch.hostpool import HostPool
from engine.backends.torch.slab import Slab

SIZES = tuple((64 << 10) << doubled for doubled in range(9))
"""64 KiB to 16 MiB."""


def copy_sizes(arena: Arena) -> tuple[int, ...]:
    """Those that the arena holds, and that of its own blocks."""
    return tuple(sorted({arena.layout.nbytes, *(size for size in SIZES if size <= arena.nbytes)}))


def probe_copy(arena: Arena, pool: HostPool, block_bytes: int, nbytes: int) -> Copied:
    """The arena's first bytes go to host memory of their own and come back to where they were. Units of the size of
    the block, as a pool of such blocks has them; the arena's own blocks go in units of its pool."""
    unit = pool.unit if block_bytes == arena.layout.nbytes else block_bytes
    count = max(1, min(nbytes, arena.nbytes) // block_bytes)
    total = count * block_bytes
    starts = range(0, total, unit)
    job = Job(
        blocks=range(0, total, block_bytes),
        block_bytes=block_bytes,
        units=starts,
        unit_bytes=unit,
        filled=[min(unit, total - start) for start in starts],
    )
    slab = Slab(len(starts) * unit, pinned=pool.pinned)
    # The system commits a page at its first touch; a swap mostly finds its units touched.
    slab.array.fill(0)
    try:
        started = time.perf_counter()
        sums = pool.copies.out(arena.memory, slab.tensor, job)
        stored = time.perf_counter()
        pool.copies.back(arena.memory, slab.tensor, job, sums)
        return Copied(total, stored - started, time.perf_counter() - stored)
    finally:
        slab.close()
