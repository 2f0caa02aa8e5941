"""The device's copies, staged in one buffer, on CPU memory in place of a device's, with streams that do nothing."""

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.backends.torch.convert import scratch_bytes
from engine.backends.torch.device_copies import DeviceCopies
from engine.backends.torch.hostpool import HostPool, Parked, unit_bytes
from engine.backends.torch.kernel_checks import Move, Mover, triton_mover
from engine.errors import CorruptCopy
from engine.geometry import BlockLayout, KVDtype, KVGeometry
from tests.engine.kernels.gpu import lab

GEOMETRY = KVGeometry(layers=2, kv_heads=1, head_dim=16)
HALF = BlockLayout(GEOMETRY, KVDtype.FP16)
Q8 = BlockLayout(GEOMETRY, KVDtype.Q8)
UNIT = unit_bytes(GEOMETRY, 16)
CPU = torch.device("cpu")

pytestmark = pytest.mark.skipif(lab.DEVICE != CPU, reason="a device has its own copies: test_torch_backend_gpu.py")


class NoStream:
    def __init__(self, *_: object) -> None: ...
    def wait_stream(self, _: object) -> None: ...
    def record(self, _: object) -> None: ...
    def synchronize(self) -> None: ...


@pytest.fixture(autouse=True)
def _no_streams(monkeypatch: pytest.MonkeyPatch) -> None:
    def stream(_: object) -> AbstractContextManager[None]:
        return nullcontext()

    for name, fake in {"Stream": NoStream, "Event": NoStream, "current_stream": NoStream, "stream": stream}.items():
        monkeypatch.setattr(torch.cuda, name, fake)


class Counted:
    """Triton's mover, and how often it was asked."""

    def __init__(self) -> None:
        self.calls = 0
        real = triton_mover()
        self.mover = Mover(self._counted(real.gather), self._counted(real.scatter))

    def _counted(self, verb: Move) -> Move:
        def move(*args: Any) -> None:
            self.calls += 1
            verb(*args)

        return move


def pool_over(mover: Mover | None, staging: int) -> HostPool:
    pool = HostPool(64 * UNIT, UNIT, CPU)
    pool.copies = DeviceCopies(CPU, pool.workers, mover, staging)
    return pool


def random_bytes(count: int) -> torch.Tensor:
    return torch.randint(0, 256, (count,), dtype=torch.uint8, generator=torch.Generator().manual_seed(count))


def stored(pool: HostPool, memory: torch.Tensor, layout: BlockLayout, blocks: list[int]) -> Parked:
    parked = pool.store(memory, layout, blocks)
    assert parked is not None
    return parked


SCRATCH = torch.zeros(scratch_bytes([HALF, Q8]), dtype=torch.uint8)


@settings(max_examples=25)
@given(st.data())
def test_scattered_blocks_travel_whole(data: st.DataObject) -> None:
    """Staging for one, three or all units, or too little for one; the pool's units scattered by earlier copies."""
    layout = data.draw(st.sampled_from([HALF, Q8]))
    staging = data.draw(st.sampled_from([UNIT - 64, UNIT, 3 * UNIT + 64, 64 * UNIT]))
    blocks, places = (data.draw(st.permutations(range(14)))[:9] for _ in range(2))
    pool = pool_over(triton_mover() if data.draw(st.booleans()) else None, staging)
    memory = random_bytes(14 * layout.nbytes)
    earlier = [stored(pool, memory, layout, [block]) for block in range(6)]
    for parked in earlier[::2]:
        pool.release(parked)
    parked = stored(pool, memory, layout, blocks)
    target = torch.zeros_like(memory)
    pool.load(parked, target, layout, places, SCRATCH)
    size = layout.nbytes
    for old, new in zip(blocks, places, strict=True):
        assert torch.equal(memory[old * size : (old + 1) * size], target[new * size : (new + 1) * size])
    assert sum(map(bool, target.view(14, size).any(1))) == 9
    pool.close()


def test_one_gather_and_one_copy_take_scattered_blocks_and_none_a_run_of_them() -> None:
    counted = Counted()
    pool = pool_over(counted.mover, 64 * UNIT)
    memory = random_bytes(14 * HALF.nbytes)
    parked = stored(pool, memory, HALF, [9, 2, 5, 11])
    assert counted.calls == 1
    pool.load(parked, memory, HALF, [1, 12, 4, 7], SCRATCH)
    assert counted.calls == 2
    stored(pool, memory, HALF, [3, 4, 5, 6])
    assert counted.calls == 2
    assert pool.copies.staging_bytes == 64 * UNIT
    pool.close()


def test_a_copy_of_another_precision_is_staged_and_converted() -> None:
    outcomes = []
    for mover in (triton_mover(), None):
        pool = pool_over(mover, 5 * UNIT)
        memory = random_bytes(24 * HALF.nbytes)
        memory.view(torch.float16)[:] = torch.linspace(-2, 2, memory.numel() // 2).half()
        parked = stored(pool, memory, HALF, list(range(23, 3, -1)))
        target = torch.zeros(24 * Q8.nbytes, dtype=torch.uint8)
        pool.load(parked, target, Q8, list(range(20)), SCRATCH)
        outcomes.append(target)
        pool.close()
    assert torch.equal(*outcomes)
    assert outcomes[0].any()


def test_a_flipped_byte_is_found_before_it_reaches_the_arena() -> None:
    pool = pool_over(triton_mover(), 2 * UNIT)
    memory = random_bytes(8 * Q8.nbytes)
    parked = stored(pool, memory, Q8, [6, 1, 4, 3])
    pool._slab.array[3 * UNIT + 5] ^= 1
    target = torch.zeros_like(memory)
    with pytest.raises(CorruptCopy):
        pool.load(parked, target, Q8, [0, 5, 2, 7], SCRATCH)
    assert not target.view(8, -1)[7].any()
    pool.close()
