"""The device's executor over Triton's kernels, interpreted: as over torch operations, and only where they are right."""

import logging

import numpy as np
import pytest
import torch

from engine.backends.base import WeightDtype
from engine.backends.torch import kernel_checks
from engine.backends.torch.backend import TorchBackend
from engine.backends.torch.build import build_torch_backend, kept_as
from engine.backends.torch.device import DeviceExecutor
from engine.backends.torch.kernel_checks import Heads, Mover, ops_for, relative
from engine.backends.torch.ops import TorchOps, TritonOps
from engine.errors import Refused
from engine.geometry import BlockLayout, KVDtype
from engine.turn import TurnId
from tests.engine.backends.conformance import GREEDY, leaves_nothing, run_steps
from tests.engine.backends.tiny_model import tiny_model
from tests.engine.kernels.gpu.lab import DEVICE
from tests.engine.kernels.lab import arena, decode_rows, one_turn, prefill, scattered, tokens_for

MODEL = tiny_model()
HEADS = Heads(6, 2, 32, 16)


def executor(weights: WeightDtype, triton: bool) -> DeviceExecutor:
    return DeviceExecutor(MODEL, DEVICE, weights=weights, ops=TritonOps() if triton else TorchOps())


@pytest.mark.parametrize("dtype", [KVDtype.FP16, KVDtype.Q8])
@pytest.mark.parametrize("weights", list(WeightDtype))
def test_logits_are_those_of_torch_operations(weights: WeightDtype, dtype: KVDtype) -> None:
    """A prefill, one of few rows, and a decode batch of turns of different lengths."""
    ours, torchs = executor(weights, True), executor(weights, False)
    assert ours.weights_bytes == torchs.weights_bytes
    tokens, table = tokens_for(ours, 60), scattered(12, 5)
    rows = decode_rows([5, 9, 7], [60, 3, 0], [table, scattered(12, 12)[5:6], scattered(12, 12)[6:7]])
    found, wanted = [], []
    for one, out in ((ours, found), (torchs, wanted)):
        view = arena(one, dtype, 12)
        out.append(prefill(one, view, tokens, table, [50, 10]))
        one.prefill(tokens[:3], 0, rows.table[1], view, last=False)
        out += list(one.rows(rows, view))
    limit = {KVDtype.FP16: 1e-3, KVDtype.Q8: 2e-2}[dtype] if DEVICE.type == "cpu" else 5e-2
    for mine, theirs in zip(found, wanted, strict=True):
        assert relative(torch.from_numpy(mine), torch.from_numpy(theirs)) < limit


def test_a_row_has_the_same_bits_beside_others() -> None:
    """The first row: interpreted, the CPU's library multiplies, for which the place among the sixteen matters."""
    one = executor(WeightDtype.INT8, True)
    view, blocks = arena(one, KVDtype.Q8, 40), scattered(40, 40)
    tables = [blocks[:20], blocks[20:22], blocks[22:23]]
    for table, length in zip(tables, (300, 17, 1), strict=True):
        one.prefill(tokens_for(one, length), 0, table, view, last=False)
    alone = one.rows(decode_rows([7], [17], [tables[1]]), view)[0]
    beside = one.rows(decode_rows([7, 3, 4], [17, 300, 1], [tables[1], tables[0], tables[2]]), view)[0]
    assert np.array_equal(alone, beside)


def test_weights_take_the_bytes_of_their_precision() -> None:
    parameters = sum(t.numel() for t in MODEL.weights.values())
    sizes = {weights: executor(weights, True).weights_bytes for weights in WeightDtype}
    assert parameters * 1.0 < sizes[WeightDtype.INT8] < parameters * 1.15
    assert parameters * 0.6 < sizes[WeightDtype.INT4] < parameters * 0.8
    assert sizes[WeightDtype.FP16] == parameters * (4 if DEVICE.type == "cpu" else 2)


def test_int8_is_near_the_whole_weights_and_int4_not_far() -> None:
    made = {weights: executor(weights, False) for weights in WeightDtype}
    tokens, table = tokens_for(made[WeightDtype.FP16], 40), scattered(4, 3)
    logits = {
        weights: torch.from_numpy(one.rows(one_turn(tokens, 0, table), arena(one, KVDtype.FP16, 4)))
        for weights, one in made.items()
    }
    whole = logits[WeightDtype.FP16]
    assert relative(logits[WeightDtype.INT8], whole) < 0.05
    assert relative(logits[WeightDtype.INT4], whole) < 0.4


def test_a_turn_that_was_swapped_goes_on_with_the_same_tokens() -> None:
    layout = BlockLayout(MODEL.config.geometry, KVDtype.FP16)
    backend = TorchBackend(executor(WeightDtype.INT8, True), 8 * layout.nbytes, 8 * layout.nbytes, KVDtype.FP16)
    turns = [TurnId(1), TurnId(2)]
    for turn in turns:
        backend.open(turn, list(range(1, 20)), GREEDY)
    run_steps(backend, turns, 1, budget=64)
    assert backend.swap_out(turns[0]) is not None
    run_steps(backend, turns[1:], 3)
    assert backend.swap_in(turns[0]) is not None
    run_steps(backend, turns[:1], 3)
    assert backend.tokens(turns[0]) == backend.tokens(turns[1])
    for turn in turns:
        backend.close(turn)
    leaves_nothing(backend)
    backend.shutdown()


def test_exact_mode_keeps_float32_weights_and_torch_operations() -> None:
    one = DeviceExecutor(MODEL, DEVICE, exact=True, weights=WeightDtype.INT4, ops=TritonOps())
    assert one.weights_bytes == sum(t.numel() for t in MODEL.weights.values()) * 4
    assert isinstance(one._ops, TorchOps)


def test_kernels_that_fail_or_are_wrong_are_not_used(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As on a device; `_pass` lets no kernel onto a CPU."""

    class Wrong(TritonOps):
        def linear(self, x: torch.Tensor, weight: object) -> torch.Tensor:
            return super().linear(x, weight) * 1.1  # type: ignore[arg-type]

    class Broken(TritonOps):
        def attend(self, *args: object) -> torch.Tensor:
            raise RuntimeError("no such instruction on this card")

    assert isinstance(ops_for(torch.device("cpu"), HEADS), TorchOps)
    monkeypatch.setattr(kernel_checks, "_is_cpu", lambda device: False)
    assert isinstance(ops_for(DEVICE, HEADS), TritonOps)
    for kind, words in ((Wrong, "is wrong here by 0.1"), (Broken, "does not run here")):
        monkeypatch.setattr(kernel_checks, "TritonOps", kind)
        with caplog.at_level(logging.WARNING):
            assert isinstance(ops_for(DEVICE, HEADS), TorchOps)
        assert words in caplog.text
    assert isinstance(kernel_checks.mover_for(DEVICE), Mover)
    monkeypatch.setattr(kernel_checks, "has_triton", lambda: False)
    assert kernel_checks.mover_for(DEVICE) is None


def test_weights_that_are_not_to_be_had_are_refused_in_one_sentence() -> None:
    with pytest.raises(Refused, match="On a CPU weights are kept as int8, not int4"):
        build_torch_backend(MODEL, arena_tokens=100, device="cpu", weights=WeightDtype.INT4)
    with pytest.raises(Refused, match="Exact mode keeps weights as fp32, not int8"):
        build_torch_backend(MODEL, arena_tokens=100, device="cpu", exact=True, weights=WeightDtype.INT8)
    with pytest.raises(Refused, match="Weights as int8 need Triton"):
        kept_as(WeightDtype.INT8, TorchOps())
    assert kept_as(None, TorchOps()) is WeightDtype.FP16
    assert kept_as(None, TritonOps()) is WeightDtype.INT8
    assert kept_as(WeightDtype.INT4, TritonOps()) is WeightDtype.INT4
