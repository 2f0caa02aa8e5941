"""The conformance suite over the real executors on CPU, fast and exact, and how a backend is sized and built."""

import pytest
import torch

from engine.backends.torch import build
from engine.backends.torch.backend import TorchBackend
from engine.backends.torch.build import build_torch_backend
from engine.backends.torch.cpu import CpuExecutor
from engine.backends.torch.device import DeviceExecutor
from engine.backends.torch.executor import Executor
from engine.errors import Refused
from engine.geometry import BlockLayout, KVDtype
from engine.turn import TurnId
from tests.engine.backends.conformance import GREEDY, PrecisionSwitchConformance, run_until
from tests.engine.backends.tiny_model import tiny_model
from tests.engine.kernels.lab import Model, with_key_bias

MODEL = tiny_model()
HALF = BlockLayout(MODEL.config.geometry, KVDtype.FP16)
FAST = CpuExecutor(MODEL, exact=False)
EXACT = CpuExecutor(MODEL, exact=True)


class _Over(PrecisionSwitchConformance):
    executor: Executor

    def make(self, arena_tokens: int, host_tokens: int, kv_dtype: KVDtype) -> TorchBackend:
        size = BlockLayout(MODEL.config.geometry, kv_dtype).nbytes
        return TorchBackend(self.executor, arena_tokens // 16 * size, host_tokens // 16 * size, kv_dtype)


class TestFast(_Over):
    executor = FAST


class TestExact(_Over):
    executor = EXACT


class _DeviceCode(_Over):
    """The torch operations that run on CUDA and ROCm, here on CPU tensors."""

    executor = DeviceExecutor(MODEL, torch.device("cpu"))
    tokens_per_turn = 6


@pytest.mark.parametrize("dtype", [KVDtype.FP16, KVDtype.Q8])
def test_device_code_swaps_and_switches_too(dtype: KVDtype) -> None:
    """Two of the suite; all of it runs on a device."""
    suite = _DeviceCode()
    backend = suite.make(1024, 1024, dtype)
    suite.test_a_swapped_turn_gives_the_same_tokens_and_frees_its_blocks(backend)
    suite.test_turns_in_every_state_live_through_toggles(backend, dtype)
    backend.shutdown()


def test_the_arena_is_sized_by_tokens_at_fp16_and_the_pool_is_six_times_it() -> None:
    backend = build_torch_backend(MODEL, arena_tokens=100, device="cpu")
    memory = backend.memory()
    assert memory.blocks_total == 7
    assert memory.arena_bytes == 7 * HALF.nbytes
    assert memory.host_asked_bytes == 6 * memory.arena_bytes
    assert memory.host_total_bytes <= 6 * memory.arena_bytes
    backend.open(TurnId(1), [1, 2, 3], GREEDY)
    assert len(run_until(backend, TurnId(1), 3)) == 3
    backend.shutdown()


def test_a_ceiling_leaves_the_arena_what_weights_and_runtime_do_not_take() -> None:
    ceiling = 64 << 20
    backend = build_torch_backend(MODEL, ceiling_bytes=ceiling, device="cpu", host_bytes=0)
    memory = backend.memory()
    assert memory.weights_bytes + memory.runtime_bytes + memory.arena_bytes == ceiling
    assert memory.host_total_bytes == 0
    backend.shutdown()


def test_a_limit_of_the_container_cuts_the_pool_and_both_sizes_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    readings = iter([40 << 20, 90 << 20])
    monkeypatch.setattr(build, "available_host_bytes", lambda: next(readings))
    backend = build_torch_backend(MODEL, arena_tokens=16 * 10, host_bytes=1 << 40, device="cpu")
    memory = backend.memory()
    assert memory.host_asked_bytes == 1 << 40
    assert 0 < memory.host_total_bytes <= ((90 << 20) - memory.arena_bytes) // 2
    assert memory.host_held_bytes == 0
    backend.shutdown()


def test_what_does_not_fit_is_refused_with_the_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Refused, match="leaves no block"):
        build_torch_backend(MODEL, ceiling_bytes=1000, device="cpu")
    with pytest.raises(Refused, match="no size"):
        build_torch_backend(MODEL, device="cpu")
    with pytest.raises(Refused, match="auto, cpu, cuda"):
        build_torch_backend(MODEL, arena_tokens=100, device="tpu")
    with pytest.raises(Refused, match="0 or more"):
        build_torch_backend(MODEL, arena_tokens=100, host_bytes=-1, device="cpu")
    if not torch.cuda.is_available():
        with pytest.raises(Refused, match="no CUDA or ROCm"):
            build_torch_backend(MODEL, arena_tokens=100, device="cuda")
    monkeypatch.setattr(build, "available_host_bytes", lambda: HALF.nbytes)
    with pytest.raises(Refused, match="are free"):
        build_torch_backend(MODEL, arena_tokens=100, device="cpu")


def test_progress_is_told() -> None:
    heard: list[str] = []
    build_torch_backend(
        MODEL, arena_tokens=100, device="cpu", progress=lambda fraction, note: heard.append(note)
    ).shutdown()
    assert "loading kernels" in heard


def test_outlier_keys_are_warned_of_while_any_kv_is_at_q8() -> None:
    """Measured at fp16 already, told once KV is at q8: in the arena, and in a host copy that a switch left behind."""
    model = with_key_bias(Model(MODEL.config, MODEL.weights), (1,), channels=2, height=300.0)
    backend = TorchBackend(CpuExecutor(model, exact=False), 8 * HALF.nbytes, 8 * HALF.nbytes, KVDtype.FP16)
    turn = TurnId(1)
    backend.open(turn, [*range(1, 41)], GREEDY)
    run_until(backend, turn, 1, budget=64)
    assert backend.warning() is None
    backend.set_kv_dtype(KVDtype.Q8)
    warning = backend.warning()
    assert warning is not None
    assert "layer 1 " in warning
    assert backend.swap_out(turn) is not None
    backend.set_kv_dtype(KVDtype.FP16)
    assert backend.warning() == warning
    assert backend.swap_in(turn) is not None
    assert backend.warning() is None
    backend.close(turn)
    backend.shutdown()
