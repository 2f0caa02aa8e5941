"""The torch backend over a small executor that turns every byte of KV into tokens. Run: pytest <this file>."""

import numpy as np
import pytest

from engine.backends.base import StepPlan, Work
from engine.backends.torch.backend import TorchBackend
from engine.errors import IntegrityError, Refused
from engine.geometry import BlockLayout, KVDtype, KVGeometry
from engine.turn import Sampling, TurnId
from tests.engine.backends.conformance import (
    GREEDY,
    PrecisionSwitchConformance,
    leaves_nothing,
    run_steps,
    run_until,
)
from tests.engine.backends.fake_executor import GEOMETRY, FakeExecutor, expected_tokens
from tests.engine.backends.lab import layout, make


class TestConformance(PrecisionSwitchConformance):
    lossless_switch = True

    def make(self, arena_tokens: int, host_tokens: int, kv_dtype: KVDtype) -> TorchBackend:
        size = layout(kv_dtype).nbytes
        return TorchBackend(FakeExecutor(), arena_tokens // 16 * size, host_tokens // 16 * size, kv_dtype)


class TestConformanceWithOverlap(TestConformance):
    dtypes = (KVDtype.FP16,)

    def make(self, arena_tokens: int, host_tokens: int, kv_dtype: KVDtype) -> TorchBackend:
        backend = super().make(arena_tokens, host_tokens, kv_dtype)
        backend.set_overlap(True)
        return backend


def test_bytes_per_token_of_the_default_model_are_the_real_blocks_bytes() -> None:
    geometry = KVGeometry(layers=30, kv_heads=3, head_dim=64)
    for dtype, per_token in ((KVDtype.FP16, 23_040), (KVDtype.Q8, 12_240)):
        assert geometry.bytes_per_token(dtype) == per_token
        assert BlockLayout(geometry, dtype).nbytes == 16 * per_token


def test_memory_follows_the_precision_everywhere() -> None:
    backend = make(arena_blocks=50)
    assert backend.memory().blocks_total == 50
    assert backend.memory().arena_bytes == 50 * layout(KVDtype.FP16).nbytes
    backend.set_kv_dtype(KVDtype.Q8)
    memory = backend.memory()
    assert memory.block_bytes == layout(KVDtype.Q8).nbytes == 16 * GEOMETRY.bytes_per_token(KVDtype.Q8)
    assert memory.blocks_total == 50 * layout(KVDtype.FP16).nbytes // layout(KVDtype.Q8).nbytes
    turn = TurnId(1)
    backend.open(turn, [1] * 20, GREEDY)
    run_until(backend, turn, 1)
    assert backend._arena.memory.numpy()[: memory.block_bytes].view(np.int8)[0] == 127
    assert memory.device_total is None
    assert memory.device_used is None


def test_fake_tokens_are_the_expected_ones() -> None:
    backend = make()
    backend.open(TurnId(1), [5, 6, 7], GREEDY)
    assert run_until(backend, TurnId(1), 40) == expected_tokens([5, 6, 7], 40)


def test_one_pending_token_is_a_row_and_more_are_a_chunk() -> None:
    executor = FakeExecutor()
    backend = make(executor=executor)
    backend.open(TurnId(1), list(range(33)), GREEDY)
    backend.open(TurnId(2), [1], GREEDY)
    backend.open(TurnId(3), [2], GREEDY)
    result = backend.step(StepPlan((Work(TurnId(1), 16), Work(TurnId(2), 1), Work(TurnId(3), 99))))
    assert executor.calls == [("rows", 2), ("prefill", 16)]
    assert (result.prefill_tokens, result.decode_tokens) == (16, 2)
    assert [step.turn for step in result.turns] == [1, 2, 3]
    executor.calls.clear()
    backend.step(StepPlan((Work(TurnId(1), 16),)))
    backend.step(StepPlan((Work(TurnId(1), 16),)))
    assert executor.calls == [("prefill", 16), ("rows", 1)]


def test_more_than_sixteen_rows_go_in_batches_of_sixteen() -> None:
    executor = FakeExecutor()
    backend = make(executor=executor)
    for i in range(20):
        backend.open(TurnId(i), [i], GREEDY)
    run_steps(backend, [TurnId(i) for i in range(20)], 1)
    assert executor.calls == [("rows", 16), ("rows", 4)]


def test_damaged_logits_fail_their_turn_alone() -> None:
    executor = FakeExecutor()

    def spoil(count: int, logits: np.ndarray) -> None:
        if count == 12:
            logits[40] = np.nan

    executor.spoil = spoil
    backend = make(executor=executor)
    bad, good = TurnId(1), TurnId(2)
    backend.open(bad, [1] * 12, GREEDY)
    backend.open(good, [2] * 13, GREEDY)
    result = backend.step(StepPlan((Work(bad, 16), Work(good, 16))))
    assert "nan" in str(result.turns[0].error)
    assert result.turns[0].sampled is None
    assert result.turns[1].sampled == expected_tokens([2] * 13, 1)[0]
    backend.close(bad)
    assert run_until(backend, good, 3) == expected_tokens([2] * 13, 4)[1:]


@pytest.mark.parametrize("length", [1, 20])
def test_an_error_in_the_model_fails_its_turn_alone(length: int) -> None:
    executor = FakeExecutor()

    def fail(tokens: np.ndarray) -> None:
        if 66 in tokens:
            raise ValueError("token 66 is cursed")

    executor.fail = fail
    backend = make(executor=executor)
    bad, good = TurnId(1), TurnId(2)
    backend.open(bad, [66] * length, GREEDY)
    backend.open(good, [2] * length, GREEDY)
    result = backend.step(StepPlan((Work(bad, 32), Work(good, 32))))
    assert "cursed" in str(result.turns[0].error)
    assert result.turns[1].sampled == expected_tokens([2] * length, 1)[0]
    assert backend.holding(bad).blocks == 0
    backend.check_integrity()
    backend.close(bad)
    backend.close(good)
    leaves_nothing(backend)


def test_a_turn_that_fills_the_context_fails_with_the_length() -> None:
    backend = make(executor=FakeExecutor(max_context=20))
    backend.open(TurnId(1), [1] * 20, GREEDY)
    backend.open(TurnId(2), [1] * 4, GREEDY)
    run_until(backend, TurnId(1), 1)
    result = backend.step(StepPlan((Work(TurnId(1), 1), Work(TurnId(2), 8))))
    assert "20 tokens" in str(result.turns[0].error)
    assert result.turns[1].sampled is not None
    with pytest.raises(Refused, match="21"):
        backend.open(TurnId(3), [1] * 21, GREEDY)


def test_a_plan_without_room_changes_nothing() -> None:
    backend = make(arena_blocks=3)
    backend.open(TurnId(1), [1] * 32, GREEDY)
    backend.open(TurnId(2), [1] * 32, GREEDY)
    with pytest.raises(IntegrityError, match="4 more blocks"):
        backend.step(StepPlan((Work(TurnId(1), 32), Work(TurnId(2), 32))))
    leaves_nothing(backend)


def test_a_plan_with_a_turn_that_cannot_run_is_refused_loudly() -> None:
    backend = make()
    backend.open(TurnId(1), [1] * 32, GREEDY)
    run_until(backend, TurnId(1), 1)
    for work in [(Work(TurnId(1), 0),), (Work(TurnId(1), 1), Work(TurnId(1), 1))]:
        with pytest.raises(IntegrityError):
            backend.step(StepPlan(work))
    backend.swap_out(TurnId(1))
    with pytest.raises(IntegrityError, match="host pool"):
        backend.step(StepPlan((Work(TurnId(1), 1),)))
    backend.check_integrity()


def test_refusals_say_what_is_allowed() -> None:
    backend = make()
    backend.open(TurnId(1), [1], GREEDY)
    with pytest.raises(Refused, match="open already"):
        backend.open(TurnId(1), [1], GREEDY)
    with pytest.raises(Refused, match="at least one token"):
        backend.open(TurnId(2), [], GREEDY)
    for tokens in ([-1], [97]):
        with pytest.raises(Refused, match="0 to 96"):
            backend.open(TurnId(2), tokens, GREEDY)
    with pytest.raises(Refused, match="temperature"):
        backend.open(TurnId(2), [1], Sampling(temperature=-1))
    for keep, more in ((2, [1]), (-1, [1]), (0, [])):
        with pytest.raises(Refused, match="keep"):
            backend.extend(TurnId(1), keep, more)
    with pytest.raises(Refused, match="no copy"):
        backend.swap_in(TurnId(1))
    with pytest.raises(Refused, match="nothing in the arena"):
        backend.swap_out(TurnId(1))
    with pytest.raises(Refused, match="no turn is open"):
        backend.warm_up()
    with pytest.raises(Refused, match="holds no block"):
        make(arena_blocks=0)


def test_extend_with_nothing_new_computes_the_last_token_again() -> None:
    backend = make()
    backend.open(TurnId(1), [1, 2, 3, 4, 5], GREEDY)
    run_until(backend, TurnId(1), 2)
    backend.extend(TurnId(1), 4, [])
    assert backend.holding(TurnId(1)).kv_tokens == 3
    assert run_until(backend, TurnId(1), 1) == expected_tokens([1, 2, 3, 4], 1)


def test_warm_up_loads_what_a_switch_may_need_and_keeps_the_first() -> None:
    executor = FakeExecutor()
    backend = make(executor=executor)
    backend.warm_up()
    assert executor.calls == [("warm q8", 0), ("warm fp16", 0)]
    assert backend.kv_dtype is KVDtype.FP16
    leaves_nothing(backend)
