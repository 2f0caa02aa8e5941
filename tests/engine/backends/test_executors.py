"""The executors on tiny random models: against transformers, and against themselves, bit for bit."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from engine.backends.torch.cpu import CpuExecutor
from engine.backends.torch.device import DeviceExecutor
from engine.backends.torch.executor import KV_DTYPES, Executor
from engine.errors import ModelError, Refused
from engine.geometry import BLOCK_SIZE, BlockLayout, KVDtype
from tests.engine.backends.tiny_model import tiny_model
from tests.engine.kernels.lab import (
    Model,
    arena,
    decode_rows,
    one_turn,
    prefill,
    reference,
    scattered,
    stored,
    tiny_pair,
    tokens_for,
)

CPU = torch.device("cpu")
LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 500.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}
MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("llama", {}),
    "llama tied, one KV head": ("llama", {"tie_word_embeddings": True, "num_key_value_heads": 1}),
    "llama linear": ("llama", {"rope_parameters": {"rope_type": "linear", "rope_theta": 10000.0, "factor": 4.0}}),
    "llama llama3": ("llama", {"rope_parameters": LLAMA3}),
    "llama head 80": ("llama", {"head_dim": 80}),
    "llama head 100, odd sizes": ("llama", {"head_dim": 100, "hidden_size": 72, "intermediate_size": 100}),
    "qwen2": ("qwen2", {}),
    "qwen3": ("qwen3", {}),
}
MAKERS: dict[str, Callable[[Any], Executor]] = {
    "kernels": lambda model: CpuExecutor(model, exact=True),
    "torch": lambda model: DeviceExecutor(model, CPU, exact=True),
}


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], tuple[Model, Any]]:
    made: dict[str, tuple[Model, Any]] = {}

    def pair(name: str) -> tuple[Model, Any]:
        if name not in made:
            architecture, overrides = MODELS[name]
            made[name] = tiny_pair(tmp_path_factory.mktemp("model"), architecture, **overrides)
        return made[name]

    return pair


@pytest.mark.parametrize("maker", MAKERS)
@pytest.mark.parametrize("name", MODELS)
def test_512_positions_agree_with_transformers(
    pairs: Callable[[str], tuple[Model, Any]], name: str, maker: str
) -> None:
    """Decode through `rows`, prefill in chunks of 7, 64, 256 and the whole (torch: in one pass each); blocks in no
    order."""
    model, hf = pairs(name)
    executor = MAKERS[maker](model)
    view, table = arena(executor, KVDtype.FP32, 40), scattered(40, 32)
    tokens = tokens_for(executor, 512)
    wanted = reference(hf, tokens)
    found = executor.rows(one_turn(tokens, 0, table), view)
    assert np.abs(found - wanted).max() < 1e-3
    assert (found.argmax(1) == wanted.argmax(1)).all()
    if maker == "torch":
        executor = DeviceExecutor(model, CPU)
    for chunk in (7, 64, 256, 512):
        view = arena(executor, KVDtype.FP32, 40, seed=chunk)
        sizes = [min(chunk, 512 - start) for start in range(0, 512, chunk)]
        last = prefill(executor, view, tokens, table, sizes)
        assert np.abs(last - wanted[-1]).max() < 1e-3
        assert last.argmax() == wanted[-1].argmax()


FAST = CpuExecutor(tiny_model(), exact=False)
EXACT = CpuExecutor(tiny_model(), exact=True)
TORCH_FAST = DeviceExecutor(tiny_model(), CPU)
TORCH_EXACT = DeviceExecutor(tiny_model(), CPU, exact=True)
KINDS = [(FAST, KVDtype.FP16), (FAST, KVDtype.Q8), (EXACT, KVDtype.FP32)]


@pytest.mark.parametrize(("executor", "dtype"), [*KINDS, (TORCH_FAST, KVDtype.Q8)])
def test_a_row_has_the_same_bits_in_every_batch_and_beside_prefill(executor: Executor, dtype: KVDtype) -> None:
    """Turns of 1 to 1,000 tokens, below, at and above the kernels' span: the row of each alone, in batches of 1 to 22,
    and after chunks of another turn."""
    view = arena(executor, dtype, 320)
    blocks = scattered(320, 320)
    lengths = [1, 15, 16, 17, 31, 32, 33, 40, 47, 48, 63, 64, 65, 80, 100, 127, 128, 129, 255, 256, 257, 515, 1000]
    tables, at = [], 0
    for turn, length in enumerate(lengths):
        count = -(-(length + 1) // BLOCK_SIZE)
        tables.append(blocks[at : at + count])
        at += count
        executor.prefill(tokens_for(executor, length, turn), 0, tables[turn], view, last=False)
    nexts = tokens_for(executor, len(lengths), 99).tolist()
    alone = [
        executor.rows(decode_rows([token], [length], [table]), view)[0]
        for token, length, table in zip(nexts, lengths, tables, strict=True)
    ]
    other, other_table = tokens_for(executor, 96, 5), blocks[at : at + 6]
    for size in range(1, len(lengths) + 1):
        first = (size * 7) % (len(lengths) - size + 1)
        some = slice(first, first + size)
        executor.prefill(other[(size % 6) * 16 : (size % 6) * 16 + 16], (size % 6) * 16, other_table, view, last=False)
        found = executor.rows(decode_rows(nexts[some], lengths[some], tables[some]), view)
        assert np.array_equal(found, np.stack(alone[some]))


@pytest.mark.parametrize(("executor", "dtype"), [*KINDS, (TORCH_EXACT, KVDtype.FP32)])
def test_prefill_gives_the_bits_of_decode_for_any_chunks(executor: Executor, dtype: KVDtype) -> None:
    """The CPU kernels in either mode, torch in exact mode: logits, K and V."""
    count = 80 if executor is TORCH_EXACT else 300
    tokens, table = tokens_for(executor, count), scattered(40, 19)
    view = arena(executor, dtype, 40)
    wanted = np.concatenate([executor.rows(one_turn(tokens[i : i + 1], i, table), view) for i in range(count)])
    kept = stored(view, table, count)
    assert np.array_equal(executor.rows(one_turn(tokens, 0, table), arena(executor, dtype, 40, seed=1)), wanted)
    random = np.random.default_rng(3)
    for trial, pieces in enumerate((1, 4, 13)):
        cuts = np.sort(random.choice(np.arange(1, count), size=pieces - 1, replace=False))
        view = arena(executor, dtype, 40, seed=2 + trial)
        last = prefill(executor, view, tokens, table, np.diff([0, *cuts, count]).tolist())
        assert np.array_equal(last, wanted[-1])
        assert torch.equal(stored(view, table, count), kept)


def test_torch_prefill_in_fast_mode_repeats_itself_and_agrees_with_decode() -> None:
    tokens, table = tokens_for(TORCH_FAST, 200), scattered(40, 13)
    first = prefill(TORCH_FAST, arena(TORCH_FAST, KVDtype.FP16, 40), tokens, table, [128, 72])
    again = prefill(TORCH_FAST, arena(TORCH_FAST, KVDtype.FP16, 40, seed=1), tokens, table, [128, 72])
    rows = TORCH_FAST.rows(one_turn(tokens, 0, table), arena(TORCH_FAST, KVDtype.FP16, 40))
    assert np.array_equal(first, again)
    assert np.abs(first - rows[-1]).max() < 1e-2


@pytest.mark.parametrize("dtype", sorted(KV_DTYPES))
def test_both_executors_write_the_same_cache_and_agree(dtype: KVDtype) -> None:
    tokens, table = tokens_for(EXACT, 100), scattered(10, 7)
    ours, theirs = arena(EXACT, dtype, 10), arena(TORCH_EXACT, dtype, 10, seed=1)
    a = EXACT.rows(one_turn(tokens, 0, table), ours)
    b = TORCH_EXACT.rows(one_turn(tokens, 0, table), theirs)
    found, wanted = stored(ours, table, 100), stored(theirs, table, 100)
    step = wanted.abs().amax(-1, keepdim=True) * {KVDtype.FP32: 1e-4, KVDtype.FP16: 2e-3, KVDtype.Q8: 2e-2}[dtype]
    assert ((found - wanted).abs() <= step + 1e-5).all()
    assert np.abs(a - b).max() < {KVDtype.FP32: 1e-3, KVDtype.FP16: 0.05, KVDtype.Q8: 0.5}[dtype]


@pytest.mark.parametrize("head_dim", [80, 100])
@pytest.mark.parametrize("make", [lambda m: CpuExecutor(m, exact=True), lambda m: DeviceExecutor(m, CPU, exact=True)])
def test_q8_at_head_dims_that_no_vector_divides(
    pairs: Callable[[str], tuple[Model, Any]], head_dim: int, make: Callable[[Any], Executor]
) -> None:
    """Case Q5: prefill and decode at q8 stay within the error of q8, keys and logits."""
    model, hf = pairs("llama head 80" if head_dim == 80 else "llama head 100, odd sizes")
    executor = make(model)
    tokens, table = tokens_for(executor, 120), scattered(20, 8)
    exact, q8 = arena(executor, KVDtype.FP32, 20), arena(executor, KVDtype.Q8, 20)
    executor.prefill(tokens[:90], 0, table, exact, last=False)
    executor.prefill(tokens[:90], 0, table, q8, last=False)
    k, wanted = stored(q8, table, 90)[0], stored(exact, table, 90)[0]
    assert ((k - wanted).abs() <= wanted.abs().amax(-1, keepdim=True) / 127 * 0.51).all()
    found = executor.rows(one_turn(tokens[90:], 90, table), q8)
    reference_logits = reference(hf, tokens)[90:]
    assert np.abs(found - reference_logits).max() < 0.1 * np.abs(reference_logits).max()


def test_a_turn_reads_its_own_blocks_only() -> None:
    tokens, table = tokens_for(FAST, 50), np.array([7, 2, 5, 0], np.int32)
    view = arena(FAST, KVDtype.Q8, 9)
    wanted = prefill(FAST, view, tokens, table, [50])
    size = view.layout.nbytes
    for block in (1, 3, 4, 6, 8):
        view.memory[block * size : (block + 1) * size] = 0xFF
    assert np.array_equal(FAST.rows(one_turn(tokens[49:], 49, table), view)[0], wanted)
    view.memory[7 * size : 8 * size] = 0
    assert not np.array_equal(FAST.rows(one_turn(tokens[49:], 49, table), view)[0], wanted)


@pytest.mark.parametrize(("executor", "dtype"), [(FAST, KVDtype.FP16), (FAST, KVDtype.Q8), (TORCH_EXACT, KVDtype.FP32)])
def test_warming_up_leaves_the_arena_as_it_was(executor: Executor, dtype: KVDtype) -> None:
    view = arena(executor, dtype, 4)
    before = view.memory.clone()
    executor.warm_up(view)
    assert torch.equal(view.memory, before)


def test_progress_is_told_while_weights_are_laid_out_and_kernels_load() -> None:
    heard: list[str] = []
    executor = CpuExecutor(tiny_model(), exact=False, progress=lambda step: heard.append(step.note))
    assert heard
    count = len(heard)
    executor.warm_up(arena(executor, KVDtype.FP16, 2))
    assert len(heard) > count


def test_bytes_are_those_of_the_tensors_held() -> None:
    config = tiny_model().config
    parameters = sum(t.numel() for t in tiny_model().weights.values())
    assert parameters < FAST.weights_bytes < parameters * 1.3
    assert parameters * 4 < EXACT.weights_bytes < parameters * 4.3
    assert TORCH_EXACT.weights_bytes == parameters * 4
    before = FAST.runtime_bytes
    table = np.arange(64, dtype=np.int32)
    view = arena(FAST, KVDtype.FP16, 64)
    FAST.prefill(tokens_for(FAST, 1), config.max_context - 1, table, view, last=True)
    assert FAST.runtime_bytes >= before > 0


def test_what_cannot_run_is_refused_in_one_sentence() -> None:
    model = tiny_model()
    with pytest.raises(Refused, match="multiples of 16"):
        CpuExecutor(model, exact=False, block_size=8)
    with pytest.raises(ModelError, match="head dim of 15"):
        CpuExecutor(Model(replace(model.config, head_dim=15), model.weights), exact=False)
    name = "model.layers.1.mlp.up_proj.weight"
    for maker in MAKERS.values():
        without = {k: v for k, v in model.weights.items() if k != name}
        with pytest.raises(ModelError, match=f"{name} is missing"):
            maker(Model(model.config, without))
        with pytest.raises(ModelError, match="the file is corrupt"):
            maker(Model(model.config, without | {name: torch.zeros(3, 5)}))


@pytest.mark.parametrize("executor", [FAST, TORCH_EXACT])
def test_blocks_of_another_shape_are_not_touched(executor: Executor) -> None:
    view = arena(executor, KVDtype.FP16, 4)
    layout = BlockLayout(replace(view.layout.geometry, layers=1), KVDtype.FP16)
    with pytest.raises(ValueError, match="were given to an executor"):
        executor.rows(decode_rows([1], [0], [np.zeros(1, np.int32)]), replace(view, layout=layout))


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA or ROCm device that torch can use here")
@pytest.mark.parametrize("dtype", sorted(KV_DTYPES))
def test_on_a_device_as_on_the_cpu(dtype: KVDtype) -> None:
    executor = DeviceExecutor(tiny_model(), torch.device("cuda"), exact=True)
    tokens, table = tokens_for(executor, 100), scattered(10, 7)
    found = executor.rows(one_turn(tokens, 0, table), arena(executor, dtype, 10))
    wanted = TORCH_EXACT.rows(one_turn(tokens, 0, table), arena(TORCH_EXACT, dtype, 10))
    assert np.abs(found - wanted).max() < {KVDtype.FP32: 1e-2, KVDtype.FP16: 0.1, KVDtype.Q8: 0.5}[dtype]
    fast = DeviceExecutor(tiny_model(), torch.device("cuda"))
    view = arena(fast, dtype, 10)
    last = prefill(fast, view, tokens, table, [64, 36])
    again = prefill(fast, arena(fast, dtype, 10, seed=1), tokens, table, [64, 36])
    assert np.array_equal(last, again)
    alone = fast.rows(decode_rows([5], [99], [table]), view)[0]
    both = fast.rows(decode_rows([9, 5], [99, 99], [np.array([1], np.int32), table]), view)
    assert np.array_equal(both[1], alone)
