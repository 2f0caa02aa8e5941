"""The torch backend over a small executor that turns every byte of KV into tokens. Run: pytest <this file>."""

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from engine.backends.base import StepPlan, Work
from engine.backends.torch import copies
from engine.backends.torch.backend import TorchBackend
from engine.backends.torch.executor import KV_DTYPES
from engine.errors import CorruptCopy, IntegrityError, Refused
from engine.geometry import BlockLayout, KVDtype, KVGeometry
from engine.turn import Sampling, TurnId
from tests.engine.backends.conformance import (
    GREEDY,
    PrecisionSwitchConformance,
    leaves_nothing,
    run_steps,
    run_until,
)
from tests.engine.backends.fake_executor import GEOMETRY, FakeExecutor, expected_logits, expected_tokens


def layout(dtype: KVDtype) -> BlockLayout:
    return BlockLayout(GEOMETRY, dtype)


def make(
    arena_blocks: int = 64, host_blocks: int = 64, dtype: KVDtype = KVDtype.FP16, executor: FakeExecutor | None = None
) -> TorchBackend:
    """Sizes in fp16 blocks, whatever the precision."""
    size = layout(KVDtype.FP16).nbytes
    return TorchBackend(executor or FakeExecutor(), arena_blocks * size, host_blocks * size, dtype)


class TestConformance(PrecisionSwitchConformance):
    lossless_switch = True

    def make(self, arena_tokens: int, host_tokens: int, kv_dtype: KVDtype) -> TorchBackend:
        size = layout(kv_dtype).nbytes
        return TorchBackend(FakeExecutor(), arena_tokens // 16 * size, host_tokens // 16 * size, kv_dtype)


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
    fail_on_call(monkeypatch, 3)
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
    fail_on_call(monkeypatch, 3)
    with caplog.at_level("ERROR"):
        assert backend.swap_out(turn) is None
    assert "cable" in caplog.text
    assert backend.holding(turn) == before
    assert backend.memory().host_used_bytes == 0
    backend.check_integrity()
    assert run_until(backend, turn, 3) == expected_tokens([7] * 200, 5)[2:]


def fail_on_call(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """The `number`th memcpy from now raises, once."""
    real, calls = copies.move, iter(range(1, 1_000_000))

    def move(*args: object) -> None:
        if next(calls) == number:
            raise OSError("the cable is out")
        real(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(copies, "move", move)


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
        backend.calibrate()
    with pytest.raises(Refused, match="holds no block"):
        make(arena_blocks=0)


def test_extend_with_nothing_new_computes_the_last_token_again() -> None:
    backend = make()
    backend.open(TurnId(1), [1, 2, 3, 4, 5], GREEDY)
    run_until(backend, TurnId(1), 2)
    backend.extend(TurnId(1), 4, [])
    assert backend.holding(TurnId(1)).kv_tokens == 3
    assert run_until(backend, TurnId(1), 1) == expected_tokens([1, 2, 3, 4], 1)


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


def test_warm_up_loads_what_a_switch_may_need_and_keeps_the_first() -> None:
    executor = FakeExecutor()
    backend = make(executor=executor)
    backend.warm_up()
    assert executor.calls == [("warm q8", 0), ("warm fp16", 0)]
    assert backend.kv_dtype is KVDtype.FP16
    leaves_nothing(backend)


class AnyVerbs(RuleBasedStateMachine):
    """Any order of verbs keeps the books right and every turn's tokens those of an undisturbed run."""

    @initialize(arena=st.integers(6, 24), host=st.integers(0, 20))
    def start(self, arena: int, host: int) -> None:
        self.backend = make(arena, host)
        self.tokens: dict[TurnId, list[int]] = {}
        self.next = 0

    def pick(self, index: int) -> TurnId:
        return sorted(self.tokens)[index % len(self.tokens)]

    @rule(length=st.integers(1, 60), salt=st.integers(0, 90))
    def open(self, length: int, salt: int) -> None:
        turn = TurnId(self.next)
        self.next += 1
        prompt = [(salt + i * i) % 97 for i in range(length)]
        self.backend.open(turn, prompt, GREEDY)
        self.tokens[turn] = prompt

    @precondition(lambda self: self.tokens)
    @rule(data=st.data(), budget=st.sampled_from([1, 7, 16, 40]), steps=st.integers(1, 6))
    def step(self, data: st.DataObject, budget: int, steps: int) -> None:
        chosen = data.draw(st.sets(st.sampled_from(sorted(self.tokens)), max_size=5))
        for _ in range(steps):
            work, room = [], self.backend.memory().blocks_free
            for turn in sorted(chosen):
                held = self.backend.holding(turn)
                if held.host_dtype:
                    continue
                end = held.kv_tokens + min(budget, len(self.tokens[turn]) - held.kv_tokens)
                need = -(-end // 16) - held.blocks
                if need <= room:
                    room -= need
                    work.append(Work(turn, budget))
            for done in self.backend.step(StepPlan(tuple(work))).turns:
                assert done.error is None
                if done.sampled is not None:
                    assert done.sampled == int(np.argmax(expected_logits(self.tokens[done.turn])))
                    self.tokens[done.turn].append(done.sampled)

    @precondition(lambda self: self.tokens)
    @rule(index=st.integers(0, 50), keep=st.integers(0, 80), more=st.lists(st.integers(0, 96), max_size=20))
    def extend(self, index: int, keep: int, more: list[int]) -> None:
        turn = self.pick(index)
        keep = min(keep, len(self.tokens[turn]))
        if keep + len(more):
            before = self.backend.holding(turn).kv_tokens
            self.backend.extend(turn, keep, more)
            self.tokens[turn] = self.tokens[turn][:keep] + more
            assert self.backend.holding(turn).kv_tokens == min(before, keep, keep + len(more) - 1)

    @precondition(lambda self: self.tokens)
    @rule(index=st.integers(0, 50))
    def swap(self, index: int) -> None:
        turn = self.pick(index)
        held = self.backend.holding(turn)
        if held.host_dtype:
            room = self.backend.memory().blocks_free >= -(-held.kv_tokens // 16)
            assert (self.backend.swap_in(turn) is not None) == room
        elif held.blocks:
            memory = self.backend.memory()
            free, unit = memory.host_total_bytes - memory.host_used_bytes, layout(KVDtype.Q8).nbytes
            need = -(-held.blocks * memory.block_bytes // unit) * unit
            assert (self.backend.swap_out(turn) is not None) == (need <= free)

    @precondition(lambda self: self.tokens)
    @rule(index=st.integers(0, 50))
    def drop(self, index: int) -> None:
        self.backend.drop(self.pick(index))

    @precondition(lambda self: self.tokens)
    @rule(index=st.integers(0, 50))
    def close(self, index: int) -> None:
        turn = self.pick(index)
        self.backend.close(turn)
        del self.tokens[turn]

    @rule(dtype=st.sampled_from(sorted(KV_DTYPES)))
    def switch(self, dtype: KVDtype) -> None:
        memory = self.backend.memory()
        if memory.blocks_total - memory.blocks_free <= self.backend.blocks_at(dtype):
            self.backend.set_kv_dtype(dtype)
        else:
            with pytest.raises(Refused):
                self.backend.set_kv_dtype(dtype)

    @rule(blocks=st.integers(0, 30))
    def resize(self, blocks: int) -> None:
        nbytes = blocks * layout(KVDtype.FP16).nbytes
        unit = layout(KVDtype.Q8).nbytes
        if nbytes // unit * unit >= self.backend.memory().host_used_bytes:
            self.backend.set_host_pool(nbytes)
        else:
            with pytest.raises(Refused):
                self.backend.set_host_pool(nbytes)

    @invariant()
    def books_add_up(self) -> None:
        if hasattr(self, "backend"):
            self.backend.check_integrity()
            for turn, tokens in self.tokens.items():
                assert list(self.backend.tokens(turn)) == tokens

    def teardown(self) -> None:
        if hasattr(self, "backend"):
            for turn in list(self.tokens):
                self.backend.close(turn)
            leaves_nothing(self.backend)
            self.backend.shutdown()


AnyVerbs.TestCase.settings = settings(
    max_examples=40, stateful_step_count=40, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck)
)
TestAnyVerbs = AnyVerbs.TestCase
