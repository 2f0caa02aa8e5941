"""The swap bench: its cases, that all ways move the same bytes, and its targets."""

import numpy as np
import pytest
import torch

from app.bench import swap
from app.bench.report import MET, MISSED, Bench
from app.bench.swap import CPU, Case, Mover, cases, gather, memcpy, scatter
from engine.backends.torch.arena import aligned_bytes
from engine.backends.torch.hostpool import HostPool
from engine.errors import Refused
from engine.geometry import BlockLayout, KVDtype, KVGeometry

SMALL = BlockLayout(KVGeometry(1, 1, 64), KVDtype.FP16)


def test_cases_are_all_sizes_that_come_to_the_total() -> None:
    sized = [case for case in cases((4, 16)) if case.name == "block-major"]
    assert {case.layout.nbytes for case in sized} == {(64 << 10) << shift for shift in range(9)}
    assert {case.nbytes for case in sized} == {4 << 20, 16 << 20}
    assert sorted(case.name for case in cases((16,)))[-2:] == ["default model fp16", "default model q8"]


def test_each_way_moves_each_byte_to_its_place() -> None:
    pool = HostPool(8 * SMALL.nbytes, SMALL.nbytes, CPU)
    random = np.random.default_rng(0)
    apart = random.integers(0, 256, (8, 100), dtype=np.uint8)
    together = np.zeros((3, 100), np.uint8)
    gather(pool, together, apart, [5, 0, 7])
    assert np.array_equal(together, apart[[5, 0, 7]])
    back = np.zeros_like(apart)
    scatter(pool, together, back, [5, 0, 7])
    assert np.array_equal(back[[5, 0, 7]], together)
    assert not back[[1, 2, 3, 4, 6]].any()
    memcpy(pool, back.reshape(-1), apart.reshape(-1))
    assert np.array_equal(back, apart)
    pool.close()


def test_a_round_leaves_the_arena_as_it_was_and_the_pool_empty() -> None:
    arena = aligned_bytes(16 * SMALL.nbytes, CPU)
    arena.random_(0, 256)
    before = arena.clone()
    mover = Mover(Case("small", SMALL, 128, 4), arena, 1)
    seen = mover.round()
    assert set(seen) == {"memcpy_out", "out", "memcpy_in", "in", "staged_out", "staged_in"}
    assert torch.equal(arena, before)
    assert mover._pool.used_bytes == 0
    mover.close()


@pytest.mark.parametrize(("slowest", "status"), [(1.0, MET), (1.26, MISSED)])
def test_targets_are_on_the_lowest_ratio_of_what_counts(
    slowest: float, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Said:
        """Moves of 4 MiB take ten times as long as a memcpy and do not count."""

        def __init__(self, case: Case, arena: torch.Tensor, seed: int) -> None:
            self.factor = 10.0 if case.nbytes < 8 << 20 else slowest if case.name == "default model q8" else 1.0

        def round(self) -> dict[str, float]:
            ways = ("memcpy_out", "out", "memcpy_in", "in", "staged_out", "staged_in")
            return {way: self.factor if way == "in" else 1.0 for way in ways}

        def close(self) -> None:
            pass

    monkeypatch.setattr(swap, "Mover", Said)
    monkeypatch.setattr(swap, "DEPTHS", {"quick": ((4, 16), 1)})
    bench = Bench("swap", "quick")
    swap.run(bench)
    assert bench.status == status


def test_another_backend_is_refused() -> None:
    with pytest.raises(Refused, match="vllm"):
        swap.run(Bench("swap", backend="vllm"))
