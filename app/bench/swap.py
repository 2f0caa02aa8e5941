"""Swapping out and in, over block sizes and counts, against a plain memcpy of the same bytes: the block-size ablation
of the PagedAttention paper on this machine.

Blocks lie scattered in an arena and go to the engine's own host pool and back, checksums included; `staged` moves them
through one contiguous buffer first. The memcpy is contiguous and has as many threads as the pool's workers. All take
turns within each round; a speed is the median of its rounds, a ratio that of its rounds' ratios.
"""

import itertools
import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from app.bench.report import Bench
from engine.backends.torch.arena import aligned_bytes
from engine.backends.torch.hostpool import HostPool, Parked, unit_bytes
from engine.backends.torch.probe import SIZES
from engine.errors import IntegrityError, Refused
from engine.geometry import BlockLayout, KVDtype, KVGeometry, unit_of
from engine.stats import quantile

MIB = 1 << 20
CPU = torch.device("cpu")
DEFAULT_MODEL = KVGeometry(layers=30, kv_heads=3, head_dim=64)
LAYER_BYTES = BlockLayout(KVGeometry(1, 1, 64), KVDtype.FP16).nbytes
SCATTER = 4
"""The arena is so many times what is moved."""

COUNTED_MIB = 16
"""Moves from this size on count for the targets: an average turn of the default model, 768 tokens, has 17 MiB."""

SHARE = 0.8
FLUSHED = np.ones(8 << 20, np.uint64)
"""Read before each measurement, so that none has to write back what the one before left in the cache."""

DEPTHS = {"quick": ((4, 16, 64), 15), "default": ((4, 16, 64, 128), 25), "full": ((1, 4, 16, 64, 128, 256), 31)}


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
    """All block sizes that come to each total (MiB), and the default model's own blocks."""
    found = []
    for total in totals:
        for size in (one for one in SIZES if one <= total * MIB):
            layout = BlockLayout(KVGeometry(size // LAYER_BYTES, 1, 64), KVDtype.FP16)
            found.append(Case("block-major", layout, unit_of(size), total * MIB // size))
        for dtype in (KVDtype.FP16, KVDtype.Q8):
            layout = BlockLayout(DEFAULT_MODEL, dtype)
            blocks = total * MIB // layout.nbytes
            found.append(Case(f"default model {dtype}", layout, unit_bytes(DEFAULT_MODEL, layout.block_size), blocks))
    return found


def memcpy(pool: HostPool, target: np.ndarray, source: np.ndarray) -> None:
    """A plain copy of contiguous bytes, a piece for each of the pool's workers."""
    _shared(pool, source.size, lambda first, last: np.copyto(target[first:last], source[first:last]))


def gather(pool: HostPool, together: np.ndarray, apart: np.ndarray, blocks: Sequence[int]) -> None:
    """Rows of `apart` one behind the other, a plain memcpy each."""

    def part(first: int, last: int) -> None:
        for row in range(first, last):
            np.copyto(together[row], apart[blocks[row]])

    _shared(pool, len(blocks), part)


def scatter(pool: HostPool, together: np.ndarray, apart: np.ndarray, blocks: Sequence[int]) -> None:
    """The way back."""

    def part(first: int, last: int) -> None:
        for row in range(first, last):
            np.copyto(apart[blocks[row]], together[row])

    _shared(pool, len(blocks), part)


def _shared(pool: HostPool, count: int, work: Callable[[int, int], None]) -> None:
    lanes = pool.copies.lanes
    cuts = [count * lane // lanes for lane in range(lanes + 1)]
    for done in [pool.workers.submit(work, first, last) for first, last in itertools.pairwise(cuts)]:
        done.result()


class Mover:
    """One case's memories. A first round touches the pool's units and the buffer, as a swap mostly finds them."""

    def __init__(self, case: Case, arena: torch.Tensor, seed: int) -> None:
        self._case = case
        self._places = arena.numel() // case.layout.nbytes
        self._memory = arena[: self._places * case.layout.nbytes]
        self._staging = aligned_bytes(case.nbytes, CPU)
        self._random = np.random.default_rng(seed)
        self._pool = HostPool(-(-case.nbytes // case.unit) * case.unit, case.unit, CPU)
        self._pool.copies.warm_up()
        self.round()

    def round(self) -> dict[str, float]:
        """Seconds of each way to move the case's bytes, once each, over blocks that are drawn anew."""
        case, pool, memory, staging = self._case, self._pool, self._memory, self._staging
        drawn = self._random.permutation(self._places)[: case.blocks]
        blocks: list[int] = drawn.tolist()
        apart, together = memory.view(self._places, -1).numpy(), staging.view(case.blocks, -1).numpy()
        plain, copy = memory.numpy()[: case.nbytes], staging.numpy()
        seen = {"memcpy_out": _seconds(lambda: memcpy(pool, copy, plain))}
        seen["out"], parked = _timed(lambda: self._store(memory, blocks))
        seen["memcpy_in"] = _seconds(lambda: memcpy(pool, plain, copy))
        seen["in"] = _seconds(lambda: pool.load(parked, memory, case.layout, blocks, staging))
        pool.release(parked)

        def gather_and_store() -> Parked:
            gather(pool, together, apart, blocks)
            return self._store(staging, range(case.blocks))

        def load_and_scatter() -> None:
            pool.load(parked, staging, case.layout, range(case.blocks), staging)
            scatter(pool, together, apart, blocks)

        seen["staged_out"], parked = _timed(gather_and_store)
        seen["staged_in"] = _seconds(load_and_scatter)
        pool.release(parked)
        return seen

    def _store(self, memory: torch.Tensor, blocks: Sequence[int]) -> Parked:
        parked = self._pool.store(memory, self._case.layout, blocks)
        if parked is None:
            raise IntegrityError("the bench's own pool had no room for what it was made for")
        return parked

    def close(self) -> None:
        self._pool.close()


def _timed(move: Callable[[], Parked]) -> tuple[float, Parked]:
    FLUSHED.sum()
    started = time.perf_counter()
    moved = move()
    return time.perf_counter() - started, moved


def _seconds(move: Callable[[], None]) -> float:
    FLUSHED.sum()
    started = time.perf_counter()
    move()
    return time.perf_counter() - started


def run(bench: Bench) -> None:
    """One row per block size and count; targets on the lowest ratio to memcpy, out and in."""
    if bench.backend not in ("auto", "torch"):
        raise Refused(f"this bench measures the torch backend's copies, not those of {bench.backend}; leave it out")
    totals, rounds = DEPTHS[bench.depth]
    arena = aligned_bytes(SCATTER * max(totals) * MIB, CPU)
    arena.random_(0, 256)
    lowest = {"out": math.inf, "in": math.inf}
    for case in cases(totals):
        bench.say(f"{case.name}: {case.blocks} blocks of {case.layout.nbytes / 1024:,.0f} KiB")
        mover = Mover(case, arena, case.blocks)
        seen = [mover.round() for _ in range(rounds)]
        mover.close()
        ratios = _row(bench, case, seen)
        if case.nbytes > COUNTED_MIB * MIB - case.layout.nbytes:
            lowest = {way: min(lowest[way], ratios[way]) for way in lowest}
    said = f"lowest %s / memcpy, not staged, from {COUNTED_MIB} MiB on"
    for way, ratio in lowest.items():
        bench.target(said % way, ratio, ">=", SHARE)
    bench.note(
        "GB/s: 10^9 bytes that arrive, per second. out: arena to host pool; in: back; both with the checksum of each "
        "unit, blocks scattered over the arena. staged: through one contiguous buffer. memcpy: contiguous, without "
        "checksum, as many threads."
    )
    bench.note(
        f"Moves of {COUNTED_MIB} MiB and more count for the targets: an average turn of the default model, 768 tokens, "
        "has 17 MiB at fp16. Of smaller ones the fixed cost shows; on a CPU staging is one copy more."
    )


def _row(bench: Bench, case: Case, seen: Sequence[dict[str, float]]) -> dict[str, float]:
    """The case's row; returns the medians of out / memcpy and in / memcpy."""
    speed = {way: case.nbytes / middle(one[way] for one in seen) / 1e9 for way in seen[0]}
    ratios = {way: middle(one[f"memcpy_{way}"] / one[way] for one in seen) for way in ("out", "in")}
    bench.row(
        case=case.name,
        block_kib=round(case.layout.nbytes / 1024, 2),
        blocks=case.blocks,
        mib=round(case.nbytes / MIB, 1),
        out_gb_per_s=round(speed["out"], 2),
        in_gb_per_s=round(speed["in"], 2),
        staged_out_gb_per_s=round(speed["staged_out"], 2),
        staged_in_gb_per_s=round(speed["staged_in"], 2),
        memcpy_gb_per_s=round(case.nbytes / middle(one[f"memcpy_{w}"] for one in seen for w in ratios) / 1e9, 2),
        out_per_memcpy=round(ratios["out"], 2),
        in_per_memcpy=round(ratios["in"], 2),
    )
    return ratios


def middle(values: Iterable[float]) -> float:
    return quantile(list(values), 0.5) or math.nan
