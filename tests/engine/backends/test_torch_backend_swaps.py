"""Host copies of the torch backend: the same bytes come back, damage and faults cost one turn at most."""

from typing import Any

import pytest

from engine.backends.torch import cpucopies
from engine.backends.torch.backend import TorchBackend
from engine.errors import CorruptCopy, Refused
from engine.geometry import KVDtype
from engine.turn import TurnId
from tests.engine.backends.conformance import GREEDY, leaves_nothing, run_until
from tests.engine.backends.fake_executor import FakeExecutor, expected_tokens
from tests.engine.backends.lab import layout, make


@pytest.mark.parametrize("dtype", [KVDtype.FP16, KVDtype.Q8])
def test_swap_brings_back_the_same_bytes_scales_included(dtype: KVDtype) -> None:
    backend = make(dtype=dtype)
    turn, other = TurnId(1), TurnId(2)
    backend.open(turn, [*range(96), 3, 1, 4, 1], GREEDY)
    run_until(backend, turn, 1)
    size = backend.memory().block_bytes

    def dump() -> bytes:
        memory = backend._arena.memory.numpy()
        return b"".join(memory[b * size : (b + 1) * size].tobytes() for b in backend._arena.table(turn))

    before = dump()
    assert backend.swap_out(turn) is not None
    backend.open(other, [9] * 500, GREEDY)
    run_until(backend, other, 1, budget=500)
    assert backend.swap_in(turn) is not None
    assert dump() == before


@pytest.mark.parametrize("stored", [KVDtype.FP16, KVDtype.Q8])
@pytest.mark.parametrize("present", [KVDtype.FP16, KVDtype.Q8])
@pytest.mark.parametrize("where", [0, 1500, 4000, -1])
def test_a_flipped_byte_drops_that_turn_alone(stored: KVDtype, present: KVDtype, where: int) -> None:
    backend = make(dtype=stored)
    turns = [TurnId(i) for i in range(3)]
    for turn in turns:
        backend.open(turn, [turn + 1] * 150, GREEDY)
        run_until(backend, turn, 2, budget=256)
        assert backend.swap_out(turn) is not None
    backend.set_kv_dtype(present)
    parked = backend._turns[turns[1]].parked
    assert parked is not None
    copy = backend._pool._parked[parked.key]
    used = sum(copy.filled)
    at = where % used
    unit, offset = divmod(at, backend._pool.unit)
    backend._pool._slab.array[copy.units[unit] * backend._pool.unit + offset] ^= 0x10
    assert backend.swap_in(turns[0]) is not None
    with pytest.raises(CorruptCopy):
        backend.swap_in(turns[1])
    backend.check_integrity()
    assert backend.holding(turns[1]).kv_tokens == 0
    assert backend.swap_in(turns[2]) is not None
    assert backend.memory().host_used_bytes == 0
    for turn in turns:
        assert run_until(backend, turn, 3, budget=256) == expected_tokens([turn + 1] * 150, 5)[2:]
        backend.close(turn)
    leaves_nothing(backend)


@pytest.mark.parametrize("present", [KVDtype.FP16, KVDtype.Q8])
def test_a_copy_back_that_raises_half_way_loses_nothing(monkeypatch: pytest.MonkeyPatch, present: KVDtype) -> None:
    backend = make()
    turn, other = TurnId(1), TurnId(2)
    for each in (turn, other):
        backend.open(each, [7 + each] * 200, GREEDY)
        run_until(backend, each, 2, budget=256)
    assert backend.swap_out(turn) is not None
    backend.set_kv_dtype(present)
    fail_half_way(monkeypatch)
    with pytest.raises(CorruptCopy, match="cable"):
        backend.swap_in(turn)
    backend.check_integrity()
    assert backend.memory().host_used_bytes == 0
    for each in (turn, other):
        assert run_until(backend, each, 3, budget=256) == expected_tokens([7 + each] * 200, 5)[2:]
    for later in range(20):
        backend.open(TurnId(100 + later), [later] * 30, GREEDY)
        assert run_until(backend, TurnId(100 + later), 2) == expected_tokens([later] * 30, 2)
        backend.close(TurnId(100 + later))


def test_a_copy_out_that_raises_half_way_changes_nothing(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    backend = make()
    turn = TurnId(1)
    backend.open(turn, [7] * 200, GREEDY)
    run_until(backend, turn, 2, budget=256)
    before = backend.holding(turn)
    fail_half_way(monkeypatch)
    with caplog.at_level("ERROR"):
        assert backend.swap_out(turn) is None
    assert "cable" in caplog.text
    assert backend.holding(turn) == before
    assert backend.memory().host_used_bytes == 0
    backend.check_integrity()
    assert run_until(backend, turn, 3) == expected_tokens([7] * 200, 5)[2:]


def fail_half_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next copy of a few units moves the first half of them and raises, once."""
    real = cpucopies.copy_units
    whole = iter((False,))

    def copy_units(*args: Any) -> None:
        *job, first, last, streaming, sums = args
        if next(whole, True):
            real(*args)
            return
        real(*job, first, (first + last) // 2, streaming, sums)
        raise OSError("the cable is out")

    monkeypatch.setattr(cpucopies, "copy_units", copy_units)


def test_extend_shrinks_a_host_copy() -> None:
    backend = make()
    turn = TurnId(1)
    backend.open(turn, [3] * 160, GREEDY)
    run_until(backend, turn, 1, budget=256)
    backend.swap_out(turn)
    used = backend.memory().host_used_bytes
    backend.extend(turn, 40, [4])
    assert backend.memory().host_used_bytes < used
    backend.check_integrity()
    assert backend.swap_in(turn) is not None
    assert backend.holding(turn).blocks == 3
    assert run_until(backend, turn, 3) == expected_tokens([3] * 40 + [4], 3)
    backend.swap_out(turn)
    backend.extend(turn, 0, [8, 9])
    assert backend.memory().host_used_bytes == 0
    assert run_until(backend, turn, 2) == expected_tokens([8, 9], 2)


def test_host_pool_is_not_set_above_what_the_machine_has() -> None:
    size = layout(KVDtype.FP16).nbytes
    backend = TorchBackend(FakeExecutor(), 4 * size, 4 * size, KVDtype.FP16, host_available=lambda: 20 * size)
    backend.set_host_pool(10 * size)
    with pytest.raises(Refused, match="available"):
        backend.set_host_pool(11 * size)
    backend._host_available = lambda: 0
    backend.set_host_pool(9 * size)
    with pytest.raises(Refused):
        backend.set_host_pool(-1)


def test_asked_and_held_host_memory_are_both_told() -> None:
    unit = layout(KVDtype.Q8).nbytes
    backend = TorchBackend(FakeExecutor(), 64 * unit, 10 * unit + 5, KVDtype.Q8)
    memory = backend.memory()
    assert (memory.host_asked_bytes, memory.host_total_bytes, memory.host_held_bytes) == (10 * unit + 5, 10 * unit, 0)
    backend.open(TurnId(1), [1] * 40, GREEDY)
    run_until(backend, TurnId(1), 1)
    backend.swap_out(TurnId(1))
    assert backend.memory().host_held_bytes == 3 * unit
    backend.close(TurnId(1))
    assert backend.memory().host_used_bytes == 0
    assert backend.memory().host_held_bytes == 3 * unit
