"""Swapping out and in, over block sizes and counts, against a plain memcpy of the same bytes: the block-size ablation of
the PagedAttention paper on this machine.

Blocks lie scattered in an arena and go to the engine's own host pool and back, checksums included; `staged` moves them
through one contiguous buffer first. The memcpy is contiguous and shared by as many threads as the pool's. All take turns
within each round; a speed is the median of its rounds, a ratio that of its rounds' ratios.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from app.bench.report import Bench
from engine.backends.torch.arena import aligned_bytes
from engine.backends.torch.hostpool import HostPool, unit_bytes
from engine.backends.torch.probe import SIZES
from engine.errors import Refused
from engine.geometry import BlockLayout, KVDtype, KVGeometry
from engine.stats import quantile

MIB = 1 << 20
CPU = torch.device("cpu")
DEFAULT_MODEL = KVGeometry(layers=30, kv_heads=3, head_dim=64)
LAYER_BYTES = BlockLayout(KVGeometry(1, 1, 64), KVDtype.FP16).nbytes
SCATTER = 4
"""The arena is so many times what is moved."""

COUNTED_MIB = 32
"""Moves from this size on count for the targets: an average turn of the default model has 35 MB."""

SHARE = 0.8
DEPTHS = {"quick": ((4, 32), 5), "default": ((4, 32, 128), 9), "full": ((1, 4, 32, 128, 256), 25)}


@dataclass(frozen=True, slots=True)
class Case:
    """`blocks` blocks of `layout`, kept in a pool of `unit` bytes."""

    name: str
    layout: BlockLayout
    unit: int
    blocks: int

    @property
    def nbytes(self) -> int:
        return self.blocks * self.layout.nbytes


def cases(totals: Sequence[int]) -> list[Case]:
    """All block sizes at all totals (MiB), and the default model's own blocks."""
    found = []
    for total in totals:
        for size in SIZES:
            layout = BlockLayout(KVGeometry(size // LAYER_BYTES, 1, 64), KVDtype.FP16)
            found.append(Case("block-major", layout, size, max(1, total * MIB // size)))
        for dtype in (KVDtype.FP16, KVDtype.Q8):
            layout = BlockLayout(DEFAULT_MODEL, dtype)
            blocks = max(1, total * MIB // layout.nbytes)
            found.append(Case(f"default model {dtype}", layout, unit_bytes(DEFAULT_MODEL, layout.block_size), blocks))
    return found


def memcpy(pool: HostPool, target: np.ndarray, source: np.ndarray) -> None:
    """A plain copy of contiguous bytes, in one piece per thread of the pool."""
    lanes = pool.copies.lanes
    cuts = [source.size * lane // lanes for lane in range(lanes + 1)]
    parts = [slice(first, last) for first, last in zip(cuts, cuts[1:], strict=False)]
    for done in [pool.workers.submit(np.copyto, target[part], source[part]) for part in parts]:
        done.result()


class Mover:
    """One case's memories; every method moves the case's bytes once and returns the seconds."""

    def __init__(self, case: Case, arena: torch.Tensor, spare: torch.Tensor, seed: int) -> None:
        self._case = case
        self._places = arena.numel() // case.layout.nbytes
        self._memory = arena[: self._places * case.layout.nbytes]
        self._spare = spare[: case.nbytes]
        self._random = np.random.default_rng(seed)
        self._pool = HostPool(-(-case.nbytes // case.unit) * case.unit, case.unit, CPU)
        # A swap mostly finds its units touched.
        self._pool.touch()
        self._pool.copies.warm_up()

    def round(self) -> dict[str, float]:
        case, pool, memory = self._case, self._pool, self._memory
        blocks = self._random.permutation(self._places)[: case.blocks]
        there, rows = blocks.tolist(), torch.from_numpy(blocks)
        staging = self._spare.view(case.blocks, -1)
        arena_rows = memory.view(self._places, -1)
        source, target = memory.numpy()[: case.nbytes], self._spare.numpy()

        def staged_out() -> None:
            torch.index_select(arena_rows, 0, rows, out=staging)
            pool.store(self._spare, case.layout, range(case.blocks))

        def staged_back() -> None:
            pool.load(parked, self._spare, case.layout, range(case.blocks), self._spare)
            arena_rows.index_copy_(0, rows, staging)

        seen = {"memcpy_out": _seconds(lambda: memcpy(pool, target, source))}
        seen["out"] = _seconds(lambda: pool.store(memory, case.layout, there))
        parked = pool.latest()
        seen["memcpy_in"] = _seconds(lambda: memcpy(pool, source, target))
        seen["in"] = _seconds(lambda: pool.load(parked, memory, case.layout, there, self._spare))
        pool.release(parked)
        return seen

    def close(self) -> None:
        self._pool.close()


def _seconds(move: Callable[[], object]) -> float:
    started = time.perf_counter()
    move()
    return time.perf_counter() - started
