"""What vLLM's body does beyond the suite: plans as bounds, its own preemption, starts beside numba, refusals."""

import signal
from pathlib import Path
from types import SimpleNamespace

import numba
import pytest

from engine.backends.base import StepPlan, Work
from engine.backends.vllm import hooks
from engine.backends.vllm.build import _geometry, build_vllm_backend
from engine.errors import ModelError, Refused
from engine.geometry import KVDtype
from engine.turn import TurnId
from tests.engine.backends.conformance import GREEDY, run_until
from tests.engine.backends.vllm.conftest import Make
from tests.models_factory import tiny_hf_model


def prompt(length: int, salt: int = 0) -> list[int]:
    return [(salt * 31 + 7 * i * i + 3 * i + 1) % 96 for i in range(length)]


def test_it_starts_where_numba_was_imported_before(made: Make) -> None:
    assert numba.__version__
    backend = made(128, 64)
    backend.open(TurnId(1), prompt(5), GREEDY)
    assert len(run_until(backend, TurnId(1), 3)) == 3


def test_no_turn_gets_more_than_its_own_budget(made: Make) -> None:
    backend = made(1024, 0)
    budgets = {TurnId(1): 7, TurnId(2): 50, TurnId(3): 64, TurnId(4): 1}
    for turn in budgets:
        backend.open(turn, prompt(60, turn), GREEDY)
    left = dict.fromkeys(budgets, 60)
    for _ in range(3):
        result = backend.step(StepPlan(tuple(Work(turn, budget) for turn, budget in budgets.items())))
        for step in result.turns:
            assert step.computed <= budgets[step.turn]
            left[step.turn] -= min(step.computed, left[step.turn])
        backend.check_integrity()
    assert all(backend.holding(turn).kv_tokens >= 60 - left[turn] for turn in budgets)


def test_a_turn_that_is_not_planned_is_not_run_and_keeps_its_kv(made: Make) -> None:
    backend = made(512, 0)
    a, b = TurnId(1), TurnId(2)
    backend.open(a, prompt(40), GREEDY)
    backend.open(b, prompt(40, 1), GREEDY)
    run_until(backend, a, 2)
    held = backend.holding(a)
    for _ in range(5):
        assert [step.turn for step in backend.step(StepPlan((Work(b, 64),))).turns] == [b]
    assert backend.holding(a) == held


def test_what_vllm_preempts_by_itself_is_told(made: Make) -> None:
    """Two turns that the arena cannot hold both, planned all the same: the later one is put off and holds nothing."""
    backend = made(128, 0)
    a, b = TurnId(1), TurnId(2)
    backend.open(a, prompt(60), GREEDY)
    backend.open(b, prompt(60, 1), GREEDY)
    preempted: list[TurnId] = []
    for _ in range(80):
        going = [turn for turn in (a, b) if turn not in preempted]
        preempted += backend.step(StepPlan(tuple(Work(turn, 64) for turn in going))).preempted
        backend.check_integrity()
        if preempted:
            break
    assert preempted == [b]
    assert backend.holding(b).kv_tokens == 0


def test_a_stall_is_seen_and_broken(made: Make) -> None:
    """Nothing planned can run beside what is parked: alone the turn fails, of several the largest is put off."""
    backend = made(128, 0)
    a, b, c = TurnId(1), TurnId(2), TurnId(3)
    backend.open(a, prompt(90), GREEDY)
    run_until(backend, a, 1, budget=128)
    backend.open(b, prompt(60), GREEDY)
    (step,) = backend.step(StepPlan((Work(b, 64),))).turns
    assert step.error is not None
    assert "vLLM could not run the turn of 60 tokens" in step.error
    backend.close(b)
    backend.open(b, prompt(20), GREEDY)
    run_until(backend, b, 1)
    backend.extend(b, 20, prompt(50, 1))
    backend.open(c, prompt(60), GREEDY)
    result = backend.step(StepPlan((Work(b, 64), Work(c, 64))))
    assert result.preempted == (b,)
    assert backend.holding(b).blocks == 0
    backend.check_integrity()


def test_another_precision_is_refused_and_nothing_changes(made: Make) -> None:
    backend = made(128, 0)
    backend.open(TurnId(1), prompt(20), GREEDY)
    run_until(backend, TurnId(1), 1)
    held = backend.holding(TurnId(1))
    with pytest.raises(Refused, match="fixes the KV precision when it starts"):
        backend.set_kv_dtype(KVDtype.Q8)
    assert backend.holding(TurnId(1)) == held
    assert backend.set_kv_dtype(backend.kv_dtype).nbytes == 0


def test_a_broken_model_is_one_sentence_and_the_next_start_works(made: Make, tmp_path: Path) -> None:
    broken = tiny_hf_model(tmp_path, "llama")
    (broken / "model.safetensors").write_bytes(b"not weights")
    with pytest.raises(ModelError, match="cannot serve"):
        build_vllm_backend(broken, arena_tokens=128, host_bytes=0, progress=lambda fraction, note: None)
    backend = made(128, 0)
    backend.open(TurnId(1), prompt(5), GREEDY)
    assert len(run_until(backend, TurnId(1), 2)) == 2


def test_a_missing_hook_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(hooks._NEEDED, "vllm.sampling_params", ("NotThere",))
    with pytest.raises(Refused, match=r"lacks vllm\.sampling_params\.NotThere"):
        hooks.prepare()


class _Spec:
    """A kind of state that is not KV, as a hybrid's recurrent layers have."""


def test_a_hybrid_is_refused_by_name(tmp_path: Path) -> None:
    spec = SimpleNamespace(kv_cache_spec=_Spec(), layer_names=["layer"])
    core = SimpleNamespace(
        scheduler=SimpleNamespace(kv_cache_config=SimpleNamespace(kv_cache_groups=[spec, spec])),
        vllm_config=SimpleNamespace(
            model_config=SimpleNamespace(hf_config=SimpleNamespace(architectures=["Qwen3_5ForCausalLM"]))
        ),
    )
    with pytest.raises(ModelError, match=r"Qwen3_5ForCausalLM keeps 2 kinds of state per turn \(_Spec\)"):
        _geometry(core, tmp_path)


def test_signals_threads_and_memory_are_left_as_they_were(made: Make) -> None:
    signals = (signal.SIGINT, signal.SIGTERM)
    before = [signal.getsignal(number) for number in signals]
    backend = made(1024, 1024)
    assert [signal.getsignal(number) for number in signals] == before
    memory = backend.memory()
    # SmolLM2-135M has 134.5 million parameters, kept in fp32.
    assert memory.weights_bytes == 4 * 134_515_008
    assert memory.block_bytes == 2 * 30 * 3 * 64 * 4 * backend.block_size
    assert memory.arena_bytes == (memory.blocks_total + 1) * memory.block_bytes
    assert memory.blocks_total == 1024 // backend.block_size
    assert memory.host_total_bytes == memory.blocks_total * memory.block_bytes


def test_layers_with_a_sliding_window_are_parked_whole(tmp_path: Path) -> None:
    """vLLM keeps all their KV when it is told to manage one kind of block only; swapping changes no token."""
    window = {"use_sliding_window": True, "sliding_window": 16, "max_window_layers": 2}
    directory = tiny_hf_model(tmp_path, "qwen3", **window)
    backend = build_vllm_backend(directory, arena_tokens=512, progress=lambda fraction, note: None)
    try:
        ids = [token % backend.vocab_size for token in prompt(60)]
        backend.open(TurnId(1), ids, GREEDY)
        alone = run_until(backend, TurnId(1), 10)
        backend.close(TurnId(1))
        backend.open(TurnId(1), ids, GREEDY)
        got = run_until(backend, TurnId(1), 4)
        assert backend.swap_out(TurnId(1)) is not None
        assert backend.swap_in(TurnId(1)) is not None
        backend.check_integrity()
        assert got + run_until(backend, TurnId(1), 6) == alone
    finally:
        backend.shutdown()
