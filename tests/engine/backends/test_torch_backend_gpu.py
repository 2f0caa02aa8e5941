"""The torch backend on a CUDA or ROCm device. Run there: pytest -m gpu <this file>."""

from collections.abc import Callable

import numpy as np
import pytest
import torch

from engine.backends.torch.backend import TorchBackend
from engine.backends.torch.build import kept_as
from engine.backends.torch.convert import convert_blocks
from engine.backends.torch.device import DeviceExecutor
from engine.backends.torch.device_copies import DeviceCopies
from engine.backends.torch.kernel_checks import Heads, mover_for, ops_for
from engine.geometry import BlockLayout, KVDtype
from engine.turn import TurnId
from tests.engine.backends.conformance import GREEDY, PrecisionSwitchConformance, leaves_nothing, run_steps
from tests.engine.backends.tiny_model import tiny_model

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA or ROCm device that torch can use"),
]
MODEL = tiny_model()


def make(arena_tokens: int, host_tokens: int, dtype: KVDtype) -> TorchBackend:
    size = BlockLayout(MODEL.config.geometry, dtype).nbytes
    device, c = torch.device("cuda", torch.cuda.current_device()), MODEL.config
    ops = ops_for(device, Heads(c.heads, c.kv_heads, c.head_dim, 16))
    executor = DeviceExecutor(MODEL, device, weights=kept_as(None, ops), ops=ops)
    return TorchBackend(executor, arena_tokens // 16 * size, host_tokens // 16 * size, dtype)


class TestConformance(PrecisionSwitchConformance):
    recomputes_exactly = False

    def make(self, arena_tokens: int, host_tokens: int, kv_dtype: KVDtype) -> TorchBackend:
        return make(arena_tokens, host_tokens, kv_dtype)


@pytest.mark.parametrize("dtype", [KVDtype.FP16, KVDtype.Q8])
def test_copies_are_ordered_with_the_compute_stream(dtype: KVDtype, monkeypatch: pytest.MonkeyPatch) -> None:
    """32 greedy turns, all swapped every 20 tokens, 20 rounds: the same tokens with and without a device-wide
    synchronisation around every copy."""
    free_running = tokens_of_a_churning_swarm(dtype)
    for name in ("out", "back"):
        monkeypatch.setattr(DeviceCopies, name, synchronised(getattr(DeviceCopies, name)))
    assert tokens_of_a_churning_swarm(dtype) == free_running


def synchronised(verb: Callable[..., object]) -> Callable[..., object]:
    def around(*args: object) -> object:
        torch.cuda.synchronize()
        result = verb(*args)
        torch.cuda.synchronize()
        return result

    return around


def tokens_of_a_churning_swarm(dtype: KVDtype) -> list[tuple[int, ...]]:
    backend = make(32 * 512, 32 * 512, dtype)
    turns = [TurnId(i) for i in range(32)]
    for turn in turns:
        backend.open(turn, [(turn * 7 + i * i) % 128 for i in range(16 + turn)], GREEDY)
    run_steps(backend, turns, 1, budget=64)
    for round_ in range(20):
        run_steps(backend, turns, 20)
        going = turns[round_ % 2 :: 2]
        for turn in going:
            assert backend.swap_out(turn) is not None
        staying = [turn for turn in turns if turn not in going]
        run_steps(backend, staying, 1)
        for turn in reversed(going):
            assert backend.swap_in(turn) is not None
    out = [backend.tokens(turn) for turn in turns]
    for turn in turns:
        backend.close(turn)
    leaves_nothing(backend)
    backend.shutdown()
    return out


def test_tritons_kernels_serve_here() -> None:
    c, device = MODEL.config, torch.device("cuda", torch.cuda.current_device())
    assert ops_for(device, Heads(c.heads, c.kv_heads, c.head_dim, 16)).name == "triton"
    assert mover_for(device) is not None


def test_the_pool_is_pinned_to_the_byte() -> None:
    backend = make(512, 512, KVDtype.FP16)
    pool = backend._pool
    assert pool._slab.tensor.is_pinned()
    assert pool.held_bytes == pool.total_bytes
    backend.set_host_pool(pool.total_bytes * 2)
    assert backend._pool._slab.tensor.is_pinned()
    backend.shutdown()


@pytest.mark.parametrize(("old", "new"), [(KVDtype.FP16, KVDtype.Q8), (KVDtype.Q8, KVDtype.FP16)])
def test_device_conversion_is_the_kernels(old: KVDtype, new: KVDtype) -> None:
    a, b = BlockLayout(MODEL.config.geometry, old), BlockLayout(MODEL.config.geometry, new)
    rng = np.random.default_rng(0)
    source = torch.zeros(a.nbytes, dtype=torch.uint8)
    if old is KVDtype.FP16:
        source.view(torch.float16)[:] = torch.from_numpy(rng.standard_normal(a.nbytes // 2)).half()
    else:
        source[: a.value_bytes] = torch.from_numpy(rng.integers(0, 256, a.value_bytes, dtype=np.uint8))
        source[a.scales_offset :].view(torch.float32)[:] = 0.01
    want = torch.zeros(b.nbytes, dtype=torch.uint8)
    at = np.zeros(1, np.int64)
    convert_blocks(source, a, at, want, b, at)
    got = torch.zeros(b.nbytes, dtype=torch.uint8, device="cuda")
    convert_blocks(source.cuda(), a, at, got, b, at)
    assert torch.equal(got.cpu(), want)
