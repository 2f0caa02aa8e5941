"""Copies between an arena on a device and pinned host memory.

Blocks that lie apart are gathered on the device into one run, which the copy engine then takes over the bus, and the
other way round. A kernel that wrote pinned memory itself would save the run's memory, but it would hold the device's
cores for as long as the bus takes, and go by whatever mapping of host memory each driver has.
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import torch

from engine.backends.torch.copies import Job, Span, checksum, merged, verify
from engine.backends.torch.kernel_checks import Move, Mover, mover_for

STAGING_BYTES = 32 << 20


def device_copies(device: torch.device, workers: ThreadPoolExecutor) -> "DeviceCopies":
    """With staging memory where blocks can be gathered on the device."""
    return DeviceCopies(device, workers, mover_for(device))


class DeviceCopies:
    """Arena on a CUDA or ROCm device, slab pinned: copies on a stream of their own.

    Order, both ways: the copy stream waits for what the compute stream has queued (the blocks' last writes, or their
    last reads by another turn), and the compute stream waits for the copies before it runs on. Without a `mover` every
    run of contiguous bytes is a copy of its own.
    """

    lanes = 1

    def __init__(
        self, device: torch.device, workers: ThreadPoolExecutor, mover: Mover | None, staging: int = STAGING_BYTES
    ) -> None:
        self._device = device
        self._workers = workers
        self._stream = torch.cuda.Stream(device)
        self._mover = mover
        self._staging = torch.empty(staging if mover else 0, dtype=torch.uint8, device=device)

    @property
    def staging_bytes(self) -> int:
        return self._staging.nbytes

    def out(self, memory: torch.Tensor, slab: torch.Tensor, job: Job) -> list[int]:
        compute = torch.cuda.current_stream(self._device)
        self._stream.wait_stream(compute)
        host = slab.numpy()
        landed = []
        try:
            with torch.cuda.stream(self._stream):
                for units in self._pieces(job):
                    self._piece_out(memory, slab, job, units)
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
        checks = [self._workers.submit(verify, host, job, unit, sums) for unit in range(len(job.units))]
        try:
            with torch.cuda.stream(self._stream):
                for units in self._pieces(job):
                    for unit in units:
                        checks[unit].result()
                    self._piece_back(memory, slab, job, units)
        finally:
            for check in checks:
                check.exception()
            compute.wait_stream(self._stream)
            self._stream.synchronize()

    def back_alone(self, memory: torch.Tensor, slab: torch.Tensor, job: Job, sums: Sequence[int]) -> None:
        self.back(memory, slab, job, sums)

    def warm_up(self) -> None:
        """The mover's kernels were compiled when it was checked."""

    def _pieces(self, job: Job) -> list[range]:
        """Units in runs that fit the staging memory."""
        if self._mover is None:
            return list(job.groups())
        count = max(self._staging.nbytes // job.unit_bytes, 1)
        return [range(at, min(at + count, len(job.units))) for at in range(0, len(job.units), count)]

    def _piece_out(self, memory: torch.Tensor, slab: torch.Tensor, job: Job, units: range) -> None:
        mover, copies = self._copies(memory, slab, job, units)
        if mover:
            self._move(mover.gather, memory, job, units)
        for here, there in copies:
            there.copy_(here, non_blocking=True)

    def _piece_back(self, memory: torch.Tensor, slab: torch.Tensor, job: Job, units: range) -> None:
        mover, copies = self._copies(memory, slab, job, units)
        for here, there in copies:
            here.copy_(there, non_blocking=True)
        if mover:
            self._move(mover.scatter, memory, job, units)

    def _copies(
        self, memory: torch.Tensor, slab: torch.Tensor, job: Job, units: range
    ) -> tuple[Mover | None, list[tuple[torch.Tensor, torch.Tensor]]]:
        """What crosses the bus, each with its bytes on the device and in the slab; and the mover, if these are bytes of
        the staging memory: where that saves copies and the piece fits it."""
        spans, runs = list(merged(job.spans(units))), self._runs(job, units)
        fits = sum(run.nbytes for run in runs) <= self._staging.nbytes
        mover = self._mover if fits and len(runs) < len(spans) else None
        side, parts = (self._staging, runs) if mover else (memory, spans)
        return mover, [
            (side[part.arena : part.arena + part.nbytes], slab[part.slab : part.slab + part.nbytes]) for part in parts
        ]

    @staticmethod
    def _runs(job: Job, units: range) -> list[Span]:
        """Contiguous runs of the slab; `arena` is where each begins in the staging memory."""
        begin, _ = job.stretch(units)
        together = replace(job, blocks=(0,), block_bytes=job.nbytes)
        return [replace(run, arena=run.arena - begin) for run in merged(together.spans(units))]

    def _move(self, verb: Move, memory: torch.Tensor, job: Job, units: range) -> None:
        begin, end = job.stretch(units)
        first = begin // job.block_bytes
        before = first * job.block_bytes
        starts = job.blocks[first : -(-end // job.block_bytes)]
        verb(memory, starts, job.block_bytes, self._staging, begin - before, end - before)
