"""The twin's backend: the conformance suite of every body, its books, and what each verb takes on the virtual clock.

pytest tests/engine/twin/test_backend.py
"""

from dataclasses import replace

import pytest

from engine.backends.base import StepPlan, Work
from engine.backends.torch.hostpool import unit_bytes
from engine.backends.twin.backend import TwinBackend
from engine.backends.twin.times import CardTimes
from engine.errors import IntegrityError, Refused
from engine.geometry import BlockLayout, KVDtype
from engine.turn import Sampling, TurnId
from tests.engine.backends.conformance import GREEDY, PrecisionSwitchConformance, run_until
from tests.engine.twin.lab import GEOMETRY, TIMES, small_backend

A, B, C = TurnId(1), TurnId(2), TurnId(3)
BLOCK = BlockLayout(GEOMETRY, KVDtype.FP16).nbytes


class TestConformance(PrecisionSwitchConformance):
    lossless_switch = True

    def make(self, arena_tokens: int, host_tokens: int, kv_dtype: KVDtype) -> TwinBackend:
        return small_backend(arena_tokens, host_tokens, kv_dtype)


class TestConformanceWithOverlap(PrecisionSwitchConformance):
    """On a link so fast that a copy is over when the next step begins: the suite counts steps."""

    lossless_switch = True

    def make(self, arena_tokens: int, host_tokens: int, kv_dtype: KVDtype) -> TwinBackend:
        fast = replace(TIMES, out_bytes_per_s=1e30, back_bytes_per_s=1e30)
        return small_backend(arena_tokens, host_tokens, kv_dtype, overlap=True, times=fast)


def opened(backend: TwinBackend, turn: TurnId, tokens: int) -> TwinBackend:
    """With its whole prompt computed and one token sampled."""
    backend.open(turn, [1] * tokens, GREEDY)
    run_until(backend, turn, 1, budget=tokens)
    return backend


def timed(backend: TwinBackend, plan: StepPlan) -> float:
    before = backend.clock.now()
    result = backend.step(plan)
    assert result.seconds == pytest.approx(backend.clock.now() - before)
    return result.seconds


def test_units_of_the_host_pool_are_those_of_the_torch_backend() -> None:
    assert small_backend().memory().host_unit_bytes == unit_bytes(GEOMETRY, 16)


def test_a_decode_step_costs_base_turns_and_the_kv_that_it_reads() -> None:
    backend = opened(opened(small_backend(), A, 40), B, 60)
    kv = (41 + 61) * GEOMETRY.bytes_per_token(KVDtype.FP16)
    assert timed(backend, StepPlan((Work(A, 1), Work(B, 1)))) == pytest.approx(0.010 + 2 * 0.001 + kv * 1e-9)
    backend.set_kv_dtype(KVDtype.Q8)
    kv = 42 * GEOMETRY.bytes_per_token(KVDtype.Q8)
    assert timed(backend, StepPlan((Work(A, 1),))) == pytest.approx(0.010 + 0.001 + kv * 1e-9)


def test_a_chunk_costs_its_own_beside_the_rows() -> None:
    backend = opened(small_backend(), A, 40)
    backend.open(B, [1] * 70, GREEDY)
    assert timed(backend, StepPlan((Work(B, 50),))) == pytest.approx(0.05)
    row = 0.011 + 41 * GEOMETRY.bytes_per_token(KVDtype.FP16) * 1e-9
    assert timed(backend, StepPlan((Work(A, 1), Work(B, 20)))) == pytest.approx(row + 0.02)


def test_chunks_between_measured_sizes_lie_on_the_line_between_them() -> None:
    times = CardTimes(0, 0, 0, ((16, 0.08), (64, 0.2), (256, 0.8)), 1, 1)
    assert times.prefill_s(16) == pytest.approx(0.08)
    assert times.prefill_s(40) == pytest.approx(0.14)
    assert times.prefill_s(160) == pytest.approx(0.5)
    assert times.prefill_s(512) == pytest.approx(1.6)
    assert times.prefill_s(8) == pytest.approx(0.06)
    superlinear = CardTimes(0, 0, 0, ((16, 0.01), (64, 0.2)), 1, 1)
    assert superlinear.prefill_s(4) == pytest.approx(0.0025)


def test_without_overlap_the_engine_stands_still_for_a_copy() -> None:
    backend = opened(small_backend(), A, 40)
    before = backend.clock.now()
    moved = backend.swap_out(A)
    assert moved is not None
    assert (moved.nbytes, moved.seconds) == (3 * BLOCK, 3 * BLOCK / 1e6)
    assert backend.clock.now() == pytest.approx(before + moved.seconds)
    back = backend.swap_in(A)
    assert back is not None
    assert back.seconds == pytest.approx(3 * BLOCK / 2e6)
    assert backend.clock.now() == pytest.approx(before + moved.seconds + back.seconds)


def seconds_of(backend: TwinBackend) -> list[float]:
    """Of the copies, once all are over."""
    backend.settle()
    return [one.seconds for one in backend.landed()]


def left(backend: TwinBackend, turn: TurnId) -> TwinBackend:
    """Its copy to the host is over and told of."""
    assert backend.swap_out(turn) is not None
    backend.settle()
    backend.landed()
    return backend


def test_with_overlap_a_turn_runs_once_its_copy_is_there_and_the_others_go_on() -> None:
    backend = left(opened(opened(small_backend(overlap=True), A, 400), B, 40), A)
    started = backend.clock.now()
    back = backend.swap_in(A)
    assert back is not None
    assert back.seconds is None
    assert backend.clock.now() == started
    both = StepPlan((Work(A, 1), Work(B, 1)))
    ran = 0
    while len((result := backend.step(both)).turns) == 1:
        assert result.turns[0].turn == B
        assert backend.memory().host_used_bytes > 0
        ran += 1
    assert ran > 1
    assert {step.turn for step in result.turns} == {A, B}
    (landed,) = backend.landed()
    assert (landed.turn, landed.out, landed.nbytes, landed.waited_s) == (A, False, back.nbytes, 0.0)
    there = started + landed.seconds
    assert backend.clock.now() - result.seconds >= there > backend.clock.now() - 2 * result.seconds
    assert backend.memory().host_used_bytes == 0


def test_with_overlap_a_turn_alone_is_waited_for() -> None:
    backend = left(opened(small_backend(overlap=True), A, 400), A)
    started = backend.clock.now()
    assert backend.swap_in(A) is not None
    result = backend.step(StepPlan((Work(A, 1),)))
    assert result.turns[0].computed == 1
    (landed,) = backend.landed()
    assert landed.waited_s == pytest.approx(landed.seconds)
    assert backend.clock.now() > started + landed.seconds
    assert result.seconds == pytest.approx(backend.clock.now() - started)


def test_a_copy_given_up_frees_the_link_for_those_behind_it() -> None:
    backend = opened(opened(small_backend(overlap=True), A, 320), B, 160)
    started = backend.clock.now()
    assert backend.swap_out(A) is not None
    assert backend.swap_out(B) is not None
    assert backend.holding(A).leaving == 20
    back = backend.swap_in(A)
    assert back is not None
    assert (back.nbytes, back.seconds) == (0, 0.0)
    assert (backend.holding(A).blocks, backend.holding(A).leaving) == (20, 0)
    assert seconds_of(backend) == [pytest.approx(10 * BLOCK / TIMES.out_bytes_per_s)]
    assert backend.clock.now() == pytest.approx(started + 10 * BLOCK / TIMES.out_bytes_per_s)


def test_blocks_that_leave_are_written_again_once_they_have_left() -> None:
    """The arena has room for one of the two; what the copy out has not yet freed holds the prefill up."""
    backend = opened(small_backend(arena_tokens=448, overlap=True), A, 400)
    started = backend.clock.now()
    out = backend.swap_out(A)
    assert out is not None
    backend.open(B, [1] * 400, GREEDY)
    backend.open(C, [1] * 32, GREEDY)
    both = StepPlan((Work(C, 31), Work(B, 369)))
    assert [step.turn for step in backend.step(both).turns] == [C]
    assert backend.clock.now() == pytest.approx(started + 0.031), "a chunk without blocks is left out"
    backend.step(StepPlan((Work(B, 400),)))
    assert backend.clock.now() == pytest.approx(started + out.nbytes / TIMES.out_bytes_per_s + 0.4)
    (landed,) = backend.landed()
    assert landed.waited_s == pytest.approx(landed.seconds - 0.031)


def test_copies_queue_on_one_link() -> None:
    backend = opened(opened(small_backend(overlap=True), A, 160), B, 160)
    started = backend.clock.now()
    for turn in (A, B):
        assert backend.swap_out(turn) is not None
    assert seconds_of(backend) == [pytest.approx(10 * BLOCK / TIMES.out_bytes_per_s)] * 2
    assert backend.clock.now() == pytest.approx(started + 2 * 10 * BLOCK / TIMES.out_bytes_per_s)


def test_a_switch_waits_for_copies_and_takes_what_it_reads_and_writes() -> None:
    backend = opened(opened(small_backend(overlap=True), A, 160), B, 160)
    there = backend.clock.now() + 10 * BLOCK / TIMES.out_bytes_per_s
    assert backend.swap_out(A) is not None
    converted = backend.set_kv_dtype(KVDtype.Q8)
    assert converted.nbytes == 10 * (BLOCK + BlockLayout(GEOMETRY, KVDtype.Q8).nbytes)
    assert backend.clock.now() == pytest.approx(there + converted.nbytes * 1e-9)


def test_tokens_follow_from_seed_and_position_alone() -> None:
    backend = small_backend()
    for turn, seed in ((A, 5), (B, 5), (C, 6)):
        backend.open(turn, [turn] * 20, Sampling(temperature=1.0, seed=seed))
    first, again, other = (run_until(backend, turn, 30) for turn in (A, B, C))
    assert first == again != other
    assert len(set(first)) > 5


def test_a_plan_that_cannot_run_is_a_fault() -> None:
    backend = opened(small_backend(), A, 40)
    with pytest.raises(IntegrityError, match="twice"):
        backend.step(StepPlan((Work(A, 1), Work(A, 1))))
    with pytest.raises(IntegrityError, match="budget 0"):
        backend.step(StepPlan((Work(A, 0),)))
    backend.open(B, [1] * 2000, GREEDY)
    with pytest.raises(IntegrityError, match="more blocks"):
        backend.step(StepPlan((Work(B, 2000),)))
    assert backend.swap_out(A) is not None
    with pytest.raises(IntegrityError, match="host pool"):
        backend.step(StepPlan((Work(A, 1),)))
    backend.check_integrity()


def test_sizes_that_hold_nothing_are_refused() -> None:
    with pytest.raises(Refused, match="holds no block"):
        small_backend(arena_tokens=8)
    with pytest.raises(Refused, match="0 or more"):
        small_backend().set_host_pool(-1)


def test_a_turn_that_fills_the_context_fails_alone() -> None:
    backend = opened(small_backend(arena_tokens=8192), A, 40)
    backend.open(B, [1] * 4096, GREEDY)
    run_until(backend, B, 1, budget=4096)
    result = backend.step(StepPlan((Work(A, 1), Work(B, 1))))
    assert [step.error is None for step in result.turns] == [True, False]
    backend.check_integrity()
