"""Copies where arena and slab lie in the same memory: one pass moves the bytes and sums them up, without the GIL."""

import itertools
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch

from engine.backends.torch.copies import Job, checksum
from engine.errors import CorruptCopy
from engine.kernels.copy import SHORT, STRIPE, copy_units

ALONE_BYTES = 2 << 20
"""Less is not worth waking workers for."""

PIECE_BYTES = 4 << 20
PIECES_PER_LANE = 4
BESIDE_BYTES = 1 << 20
"""A piece of a copy that goes on beside a step."""
"""Large jobs are cut finer than there are lanes: who gets less of his core takes fewer pieces, not longer."""


class CpuCopies:
    """See Copies. `lanes` workers share the units of a job."""

    staging_bytes = 0

    def __init__(self, workers: ThreadPoolExecutor, lanes: int) -> None:
        self._workers = workers
        self.lanes = lanes

    def out(self, memory: torch.Tensor, slab: torch.Tensor, job: Job) -> list[int]:
        sums: list[int] = self._run(memory, slab, job, True, self._workers).tolist()
        return sums

    def back(self, memory: torch.Tensor, slab: torch.Tensor, job: Job, sums: Sequence[int]) -> None:
        self._back(memory, slab, job, sums, self._workers)

    def back_alone(self, memory: torch.Tensor, slab: torch.Tensor, job: Job, sums: Sequence[int]) -> None:
        self._back(memory, slab, job, sums, None)

    def warm_up(self) -> None:
        memory = torch.zeros(STRIPE, dtype=torch.uint8)
        job = Job((0,), STRIPE, (0,), STRIPE, (STRIPE,))
        self.back_alone(memory, memory.clone(), job, self.out(memory, memory.clone(), job))

    def out_beside(self, memory: torch.Tensor, slab: torch.Tensor, job: Job) -> Iterator[list[int]]:
        """`out` in the calling thread, a small piece at a time: first nothing, at last the sums."""
        for sums in self._run_beside(memory, slab, job, True):
            yield [] if sums is None else sums.tolist()

    def back_beside(self, memory: torch.Tensor, slab: torch.Tensor, job: Job, sums: Sequence[int]) -> Iterator[None]:
        """`back` in the calling thread, a small piece at a time."""
        for found in self._run_beside(memory, slab, job, False):
            if found is not None:
                _compare(found, sums)
            yield

    def _back(
        self,
        memory: torch.Tensor,
        slab: torch.Tensor,
        job: Job,
        sums: Sequence[int],
        workers: ThreadPoolExecutor | None,
    ) -> None:
        _compare(self._run(memory, slab, job, False, workers), sums)

    def _run(
        self, memory: torch.Tensor, slab: torch.Tensor, job: Job, out: bool, workers: ThreadPoolExecutor | None
    ) -> np.ndarray:
        """The sum of each unit. All pieces run to their end, then the first error is raised if there was one."""
        sums = np.empty(len(job.units), np.uint64)
        piece = _pieces(memory, slab, job, out, sums)
        pieces = min(sums.size, max(self.lanes, min(job.nbytes // PIECE_BYTES, PIECES_PER_LANE * self.lanes)))
        if workers is None or pieces == 1 or job.nbytes < ALONE_BYTES:
            piece(0, sums.size)
        else:
            cuts = [number * sums.size // pieces for number in range(pieces + 1)]
            running = [workers.submit(piece, first, last) for first, last in itertools.pairwise(cuts)]
            for error in [future.exception() for future in running]:
                if error is not None:
                    raise error
        return _whole(slab, job, sums)

    def _run_beside(self, memory: torch.Tensor, slab: torch.Tensor, job: Job, out: bool) -> Iterator[np.ndarray | None]:
        """None after each piece, after the last one the sum of each unit."""
        sums = np.empty(len(job.units), np.uint64)
        piece = _pieces(memory, slab, job, out, sums)
        step = max(1, BESIDE_BYTES // job.unit_bytes)
        for first in range(0, sums.size, step):
            piece(first, min(first + step, sums.size))
            yield None
        yield _whole(slab, job, sums)


def _pieces(
    memory: torch.Tensor, slab: torch.Tensor, job: Job, out: bool, sums: np.ndarray
) -> Callable[[int, int], None]:
    """Moves the units from one to before another and puts their sums into `sums`."""
    _check_stripes(job)
    blocks, units, filled = (np.array(one, np.int64) for one in (job.blocks, job.units, job.filled))
    streaming = (slab if out else memory).data_ptr() % STRIPE == 0
    arena, host = memory.numpy(), slab.numpy()

    def piece(first: int, last: int) -> None:
        copy_units(
            arena, host, out, blocks, job.block_bytes, units, job.unit_bytes, filled, job.skip, first, last,
            streaming, sums,
        )  # fmt: skip

    return piece


def _whole(slab: torch.Tensor, job: Job, sums: np.ndarray) -> np.ndarray:
    """With the sums of units too short for the kernel's."""
    for unit in np.flatnonzero(np.array(job.filled) <= SHORT).tolist():
        sums[unit] = checksum(slab.numpy(), job, unit)
    return sums


def _compare(found: np.ndarray, sums: Sequence[int]) -> None:
    if not np.array_equal(found, np.array(sums, np.uint64)):
        raise CorruptCopy("A host copy does not match its checksum; the turn must be recomputed.")


def _check_stripes(job: Job) -> None:
    """Blocks and units are whole stripes by their layout; of anything else the kernel would leave out a part."""
    if (job.block_bytes | job.unit_bytes | job.skip | job.filled[-1]) % STRIPE:
        raise ValueError(f"blocks and units must begin and end at multiples of {STRIPE} bytes")
