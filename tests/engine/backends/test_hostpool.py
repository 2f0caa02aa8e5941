"""The host pool: no holes, checksums, resizing, and what is asked against what is held."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
import xxhash
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.backends.hostmem import available_host_bytes, host_pool_limit
from engine.backends.torch.convert import scratch_bytes
from engine.backends.torch.copies import Job, Span, merged
from engine.backends.torch.hostpool import HostPool, Parked, unit_bytes
from engine.errors import CorruptCopy, IntegrityError, Refused
from engine.geometry import BlockLayout, KVDtype, KVGeometry, unit_of

GEOMETRY = KVGeometry(layers=2, kv_heads=1, head_dim=16)
HALF = BlockLayout(GEOMETRY, KVDtype.FP16)
Q8 = BlockLayout(GEOMETRY, KVDtype.Q8)
UNIT = unit_bytes(GEOMETRY, 16)
CPU = torch.device("cpu")


def memory(blocks: int, made: BlockLayout, seed: int = 0) -> torch.Tensor:
    rng = np.random.default_rng(seed)
    return torch.from_numpy(rng.integers(0, 256, blocks * made.nbytes, dtype=np.uint8))


def scratch() -> torch.Tensor:
    return torch.zeros(scratch_bytes([HALF, Q8]), dtype=torch.uint8)


def block(data: torch.Tensor, made: BlockLayout, index: int) -> bytes:
    return data.numpy()[index * made.nbytes : (index + 1) * made.nbytes].tobytes()


def stored(pool: HostPool, data: torch.Tensor, made: BlockLayout, blocks: Sequence[int]) -> Parked:
    parked = pool.store(data, made, blocks)
    assert parked is not None
    return parked


def test_a_unit_is_one_block_at_the_smallest_precision() -> None:
    assert Q8.nbytes == UNIT
    assert unit_bytes(KVGeometry(30, 3, 64), 16) == 195_840


@pytest.mark.parametrize("block", [64, 195_840, 2 << 20, (2 << 20) + 64, 16 << 20, 16_777_280])
def test_a_large_block_is_a_few_units_that_waste_less_than_a_stripe_each(block: int) -> None:
    unit = unit_of(block)
    units = -(-block // unit)
    assert unit % 64 == 0
    assert unit <= 2 << 20
    assert units * unit - block < units * 64
    assert units <= 1 + block / (2 << 20)


def test_blocks_of_several_units_come_back_whole() -> None:
    layout = BlockLayout(KVGeometry(40, 8, 128), KVDtype.FP16)
    pool = HostPool(10 * layout.nbytes, unit_of(layout.nbytes), CPU)
    source = memory(6, layout)
    parked = stored(pool, source, layout, [4, 1, 5])
    target = torch.zeros_like(source)
    pool.load(parked, target, layout, [0, 2, 3], torch.empty(0, dtype=torch.uint8))
    apart = source.view(6, -1), target.view(6, -1)
    assert torch.equal(apart[0][[4, 1, 5]], apart[1][[0, 2, 3]])


@pytest.mark.parametrize("made", [HALF, Q8])
def test_store_and_load_scattered_blocks(made: BlockLayout) -> None:
    pool = HostPool(40 * UNIT, UNIT, CPU)
    source = memory(20, made)
    blocks = [7, 3, 19, 0, 4]
    parked = stored(pool, source, made, blocks)
    assert parked.nbytes == 5 * made.nbytes
    assert pool.occupied(parked) == pool.used_bytes == pool.units_for(parked.nbytes) * UNIT
    target = torch.zeros_like(source)
    places = [1, 2, 18, 9, 0]
    pool.load(parked, target, made, places, scratch())
    for old, new in zip(blocks, places, strict=True):
        assert block(source, made, old) == block(target, made, new)
    untouched = set(range(20)) - set(places)
    assert all(not any(block(target, made, index)) for index in untouched)
    pool.release(parked)
    assert pool.used_bytes == 0
    pool.close()


def test_checksums_are_xxh3_of_what_each_unit_holds() -> None:
    pool = HostPool(40 * UNIT, UNIT, CPU)
    source = memory(3, HALF)
    parked = stored(pool, source, HALF, [0, 1, 2])
    stream = source.numpy().tobytes()
    want = [xxhash.xxh3_64_intdigest(stream[at : at + UNIT]) for at in range(0, len(stream), UNIT)]
    assert pool._parked[parked.key].sums == want
    pool.close()


@settings(max_examples=25)
@given(st.lists(st.tuples(st.integers(1, 12), st.booleans(), st.integers(0, 10)), max_size=60))
def test_a_copy_succeeds_whenever_enough_units_are_free(moves: list[tuple[int, bool, int]]) -> None:
    """40 units, turns of 1 to 12 blocks in two precisions, stored and released in any order."""
    pool = HostPool(40 * UNIT, UNIT, CPU)
    kept: list[Parked] = []
    for blocks, half, release in moves:
        made = HALF if half else Q8
        free = pool.total_bytes - pool.used_bytes
        parked = pool.store(memory(12, made), made, range(blocks))
        assert (parked is not None) == (pool.units_for(blocks * made.nbytes) * UNIT <= free)
        if parked:
            kept.append(parked)
        if kept and release:
            pool.release(kept.pop(release % len(kept)))
        pool.check(kept)
    for parked in kept:
        pool.release(parked)
    assert pool.used_bytes == 0
    pool.close()


def test_trim_frees_units_behind_and_keeps_the_rest_readable() -> None:
    pool = HostPool(40 * UNIT, UNIT, CPU)
    source = memory(9, HALF)
    parked = stored(pool, source, HALF, range(9))
    for keep in (9, 4, 1):
        parked = pool.trim(parked, keep)
        assert pool.used_bytes == pool.units_for(keep * HALF.nbytes) * UNIT
        target = torch.zeros_like(source)
        pool.load(parked, target, HALF, range(keep), scratch())
        assert torch.equal(target[: keep * HALF.nbytes], source[: keep * HALF.nbytes])
        pool.check([parked])
    pool.close()


@pytest.mark.parametrize("made", [HALF, Q8])
def test_every_flipped_byte_is_seen(made: BlockLayout) -> None:
    pool = HostPool(20 * UNIT, UNIT, CPU)
    parked = stored(pool, memory(3, made), made, range(3))
    target = torch.zeros(3 * made.nbytes, dtype=torch.uint8)
    for at in range(0, parked.nbytes, 97):
        pool._slab.array[at] ^= 1
        for into in (HALF, Q8):
            with pytest.raises(CorruptCopy):
                pool.load(parked, torch.zeros(3 * into.nbytes, dtype=torch.uint8), into, range(3), scratch())
        pool._slab.array[at] ^= 1
    pool.load(parked, target, made, range(3), scratch())
    pool.close()


def test_resize_moves_copies_and_refuses_below_what_is_used() -> None:
    pool = HostPool(30 * UNIT, UNIT, CPU)
    sources = [memory(4, HALF, seed) for seed in range(3)]
    kept = [stored(pool, source, HALF, range(4)) for source in sources]
    pool.release(kept.pop(0))
    used = pool.used_bytes
    with pytest.raises(Refused, match="parked turns use"):
        pool.resize(used - 1)
    for size in (used, 60 * UNIT, used + 3):
        pool.resize(size)
        assert (pool.asked_bytes, pool.total_bytes) == (size, size // UNIT * UNIT)
        pool.check(kept)
        for parked, source in zip(kept, sources[1:], strict=True):
            target = torch.zeros_like(source)
            pool.load(parked, target, HALF, range(4), scratch())
            assert torch.equal(target, source)
    for parked in kept:
        pool.release(parked)
    pool.resize(0)
    assert pool.store(sources[0], HALF, [0]) is None
    pool.close()


def test_pages_are_held_only_once_they_are_used() -> None:
    pool = HostPool(1 << 30, UNIT, CPU)
    assert pool.held_bytes == 0
    parked = stored(pool, memory(2, Q8), Q8, [0, 1])
    pool.release(parked)
    pool.store(memory(2, Q8), Q8, [0])
    assert pool.held_bytes == 2 * UNIT
    pool.close()


def test_check_sees_a_unit_used_twice_and_a_lost_copy() -> None:
    pool = HostPool(20 * UNIT, UNIT, CPU)
    parked = stored(pool, memory(2, Q8), Q8, [0, 1])
    pool.check([parked])
    with pytest.raises(IntegrityError, match="copies"):
        pool.check([])
    pool._parked[parked.key].units[1] = pool._parked[parked.key].units[0]
    with pytest.raises(IntegrityError, match="units"):
        pool.check([parked])
    pool.close()


def test_spans_cover_the_stream_once_in_order() -> None:
    job = Job([500, 0, 900], 100, [0, 64, 300, 128, 400], 64, [64] * 5, skip=10)
    spans = list(job.spans(range(5)))
    assert sum(span.nbytes for span in spans) == 300
    stream = [(span.arena + k, span.slab + k) for span in spans for k in range(span.nbytes)]
    arena = [start + k for start in (500, 0, 900) for k in range(100)]
    slab = [start + k for start in (0, 64, 300, 128, 400) for k in range(64)][10:310]
    assert stream == list(zip(arena, slab, strict=True))
    parts = [span for unit in range(5) for span in job.spans(range(unit, unit + 1))]
    assert parts == spans


def test_copies_of_anything_but_whole_stripes_are_refused() -> None:
    pool = HostPool(20 * UNIT, UNIT, CPU)
    with pytest.raises(ValueError, match="multiples of 64"):
        pool.copies.out(memory(2, Q8), torch.zeros(200, dtype=torch.uint8), Job([0], 100, [0], 100, [100]))
    pool.close()


def test_merged_joins_what_is_contiguous_on_both_sides() -> None:
    spans = [Span(0, 100, 10), Span(10, 110, 5), Span(15, 200, 5), Span(30, 205, 5)]
    assert list(merged(iter(spans))) == [Span(0, 100, 15), Span(15, 200, 5), Span(30, 205, 5)]


GIB = 1 << 30


def machine(root: Path, available: int) -> Path:
    proc = root / "proc"
    (proc / "self").mkdir(parents=True)
    (proc / "meminfo").write_text(f"MemTotal: 99999999 kB\nMemAvailable: {available // 1024} kB\n")
    return proc


def test_the_containers_limit_counts_when_it_is_smaller(tmp_path: Path) -> None:
    proc, cgroup = machine(tmp_path, 90 * GIB), tmp_path / "cgroup"
    (proc / "self" / "cgroup").write_text("0::/app/web\n")
    (cgroup / "app" / "web").mkdir(parents=True)
    (cgroup / "app" / "web" / "memory.max").write_text("max\n")
    (cgroup / "app" / "web" / "memory.current").write_text("5\n")
    (cgroup / "app" / "memory.max").write_text(f"{2 * GIB}\n")
    (cgroup / "app" / "memory.current").write_text(f"{GIB}\n")
    (cgroup / "app" / "memory.stat").write_text(f"anon 1\ninactive_file {GIB // 2}\n")
    assert available_host_bytes(proc, cgroup) == 2 * GIB - GIB // 2
    assert host_pool_limit(available_host_bytes(proc, cgroup)) == GIB - GIB // 4


def test_version_one_groups_count_too(tmp_path: Path) -> None:
    proc, cgroup = machine(tmp_path, 90 * GIB), tmp_path / "cgroup"
    (proc / "self" / "cgroup").write_text("5:cpu:/\n4:memory:/box\n")
    (cgroup / "memory" / "box").mkdir(parents=True)
    (cgroup / "memory" / "box" / "memory.limit_in_bytes").write_text(f"{2 * GIB}")
    (cgroup / "memory" / "box" / "memory.usage_in_bytes").write_text(f"{GIB}")
    assert available_host_bytes(proc, cgroup) == GIB


def test_without_limits_the_machines_reading_counts_whichever_way_it_moves(tmp_path: Path) -> None:
    proc = machine(tmp_path, 4 * GIB)
    for available in (4, 6, 1):
        (proc / "meminfo").write_text(f"MemAvailable: {available * GIB // 1024} kB\n")
        assert available_host_bytes(proc, tmp_path / "none") == available * GIB
