"""Copies where arena and slab lie in the same memory: one pass moves the bytes and sums them up, without the GIL."""

import itertools
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import torch

from engine.backends.torch.copies import Job, checksum
from engine.errors import CorruptCopy
from engine.kernels.copy import SHORT, STRIPE, UNMOVED, copy_units

ALONE_BYTES = 2 << 20
"""Less is not worth waking workers for."""

PIECE_BYTES = 4 << 20
PIECES_PER_LANE = 4
"""Large jobs are cut finer than there are lanes: who gets less of his core takes fewer pieces, not longer."""


@dataclass(frozen=True, slots=True)
class Spans:
    """A job as the kernel reads it. `arena`, `slab`, `nbytes`: where each span begins and how long it is, `arena` being
    UNMOVED where bytes belong to a unit's sum alone; `bounds`: the first span of each unit, and the end."""

    arena: np.ndarray
    slab: np.ndarray
    nbytes: np.ndarray
    bounds: np.ndarray
    filled: np.ndarray


def spans_of(job: Job) -> Spans:
    """All spans of a job, those that only its sums need included. Raises ValueError where anything is not a multiple of
    STRIPE bytes, which blocks and units are by their layout."""
    blocks, units = np.array(job.blocks, np.int64), np.array(job.units, np.int64)
    filled = np.array(job.filled, np.int64)
    at = np.union1d(
        np.arange(0, job.nbytes, job.block_bytes), np.arange(job.unit_bytes - job.skip, job.nbytes, job.unit_bytes)
    )
    nbytes = np.diff(at, append=job.nbytes)
    block, in_block = np.divmod(at, job.block_bytes)
    unit, in_unit = np.divmod(at + job.skip, job.unit_bytes)
    arena, slab = blocks[block] + in_block, units[unit] + in_unit
    if job.skip:
        arena, slab, nbytes, unit = _with(0, (UNMOVED, units[0], job.skip, 0), (arena, slab, nbytes, unit))
    covered = job.skip + job.nbytes - (units.size - 1) * job.unit_bytes
    if covered < filled[-1]:
        rest = (UNMOVED, units[-1] + covered, filled[-1] - covered, units.size - 1)
        arena, slab, nbytes, unit = _with(nbytes.size, rest, (arena, slab, nbytes, unit))
    if (arena[arena != UNMOVED] % STRIPE).any() or (slab % STRIPE).any() or (nbytes % STRIPE).any():
        raise ValueError(f"blocks and units must begin and end at multiples of {STRIPE} bytes")
    return Spans(arena, slab, nbytes, np.searchsorted(unit, np.arange(units.size + 1)), filled)


def _with(place: int, span: Sequence[int], columns: Sequence[np.ndarray]) -> list[np.ndarray]:
    return [np.insert(column, place, value) for column, value in zip(columns, span, strict=True)]


class CpuCopies:
    """See Copies. `lanes` workers share the units of a job."""

    def __init__(self, workers: ThreadPoolExecutor, lanes: int) -> None:
        self._workers = workers
        self.lanes = lanes

    def out(self, memory: torch.Tensor, slab: torch.Tensor, job: Job) -> list[int]:
        spans = spans_of(job)
        table = np.column_stack((spans.arena, spans.slab, spans.nbytes))
        sums: list[int] = self._run(memory, slab, spans, table, self._workers).tolist()
        for unit in _short(spans):
            sums[unit] = checksum(slab.numpy(), job, unit)
        return sums

    def back(self, memory: torch.Tensor, slab: torch.Tensor, job: Job, sums: Sequence[int]) -> None:
        self._back(memory, slab, job, sums, self._workers)

    def back_alone(self, memory: torch.Tensor, slab: torch.Tensor, job: Job, sums: Sequence[int]) -> None:
        self._back(memory, slab, job, sums, None)

    def warm_up(self) -> None:
        memory = torch.zeros(STRIPE, dtype=torch.uint8)
        job = Job((0,), STRIPE, (0,), STRIPE, (STRIPE,))
        self.back_alone(memory, memory.clone(), job, self.out(memory, memory.clone(), job))

    def _back(
        self,
        memory: torch.Tensor,
        slab: torch.Tensor,
        job: Job,
        sums: Sequence[int],
        workers: ThreadPoolExecutor | None,
    ) -> None:
        spans = spans_of(job)
        table = np.column_stack((spans.slab, spans.arena, spans.nbytes))
        found = self._run(slab, memory, spans, table, workers)
        for unit in _short(spans):
            found[unit] = checksum(slab.numpy(), job, unit)
        if not np.array_equal(found, np.array(sums, np.uint64)):
            raise CorruptCopy("A host copy does not match its checksum; the turn must be recomputed.")

    def _run(
        self,
        source: torch.Tensor,
        target: torch.Tensor,
        spans: Spans,
        table: np.ndarray,
        workers: ThreadPoolExecutor | None,
    ) -> np.ndarray:
        """The sum of each unit. All pieces run to their end, then the first error is raised if there was one."""
        units = spans.filled.size
        sums = np.empty(units, np.uint64)
        streaming = target.data_ptr() % STRIPE == 0
        moved, into = source.numpy(), target.numpy()

        def piece(first: int, last: int) -> None:
            copy_units(moved, into, table, spans.bounds, spans.filled, first, last, streaming, sums)

        nbytes = int(spans.nbytes.sum())
        pieces = min(units, max(self.lanes, min(nbytes // PIECE_BYTES, PIECES_PER_LANE * self.lanes)))
        if workers is None or pieces == 1 or nbytes < ALONE_BYTES:
            piece(0, units)
            return sums
        cuts = [number * units // pieces for number in range(pieces + 1)]
        running = [workers.submit(piece, first, last) for first, last in itertools.pairwise(cuts)]
        errors = [future.exception() for future in running]
        for error in errors:
            if error is not None:
                raise error
        return sums


def _short(spans: Spans) -> list[int]:
    """Units that the kernel does not sum up."""
    found: list[int] = np.flatnonzero(spans.filled <= SHORT).tolist()
    return found
