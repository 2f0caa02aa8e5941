"""The executors on the real default model: against transformers, bit for bit across batches, outlier keys (case Q4)."""

import textwrap

import numpy as np
import pytest
import torch

from app.bench.agreement import divergence, log_probabilities
from engine.backends.torch.cpu import CpuExecutor
from engine.geometry import KVDtype
from engine.models.loaded import LoadedModel
from tests.engine.kernels.lab import Model, arena, decode_rows, one_turn, prefill, reference, scattered, with_key_bias

COUNT = 512


@pytest.fixture(scope="module")
def text(default_model: LoadedModel) -> np.ndarray:
    """512 tokens of the standard library's own prose and code."""
    source = (textwrap.__doc__ or "") + "".join(map(str, (textwrap.TextWrapper.__doc__, textwrap.dedent.__doc__)))
    with open(textwrap.__file__, encoding="utf-8") as file:
        source += file.read()
    tokens = default_model.tokenizer.encode(source)[:COUNT]
    assert len(tokens) == COUNT
    return np.array(tokens, np.int32)


@pytest.fixture(scope="module")
def fast(default_model: LoadedModel) -> CpuExecutor:
    return CpuExecutor(default_model, exact=False)


def test_512_positions_agree_with_transformers_in_exact_mode(default_model: LoadedModel, text: np.ndarray) -> None:
    from transformers import LlamaConfig, LlamaForCausalLM

    c = default_model.config
    config = LlamaConfig(
        hidden_size=c.hidden_size,
        intermediate_size=c.intermediate_size,
        num_hidden_layers=c.layers,
        num_attention_heads=c.heads,
        num_key_value_heads=c.kv_heads,
        head_dim=c.head_dim,
        vocab_size=c.vocab_size,
        max_position_embeddings=c.max_context,
        rms_norm_eps=c.rms_norm_eps,
        rope_parameters={"rope_type": "default", "rope_theta": c.rope.theta},
        tie_word_embeddings=c.tied_head,
    )
    hf = LlamaForCausalLM(config).eval()
    missing, unexpected = hf.load_state_dict({k: v.float() for k, v in default_model.weights.items()}, strict=False)
    assert missing == ["lm_head.weight"]
    assert not unexpected
    wanted = reference(hf, text)
    del hf

    executor = CpuExecutor(default_model, exact=True)
    table = scattered(40, 32)
    view = arena(executor, KVDtype.FP32, 40)
    found = executor.rows(one_turn(text, 0, table), view)
    assert np.abs(found - wanted).max() < 1e-3
    assert (found.argmax(1) == wanted.argmax(1)).all()
    for position in range(COUNT - 8, COUNT):
        row = executor.rows(decode_rows([int(text[position])], [position], [table]), view)
        assert np.array_equal(row[0], found[position])
    chunked = prefill(executor, arena(executor, KVDtype.FP32, 40, seed=1), text, table, [1, 99, 130, 256, 26])
    assert np.array_equal(chunked, found[-1])


@pytest.mark.parametrize("dtype", [KVDtype.FP16, KVDtype.Q8])
def test_rows_have_the_same_bits_at_batch_1_to_16_and_recompute_gives_them_back(
    fast: CpuExecutor, text: np.ndarray, dtype: KVDtype
) -> None:
    view = arena(fast, dtype, 64)
    tables = np.split(scattered(64, 32), 16)
    lengths = [3 + i for i in range(16)]
    for turn, length in enumerate(lengths):
        fast.prefill(text[turn * 20 : turn * 20 + length], 0, tables[turn], view, last=False)
    nexts = text[-16:].tolist()
    alone = np.stack(
        [fast.rows(decode_rows([t], [n], [b]), view)[0] for t, n, b in zip(nexts, lengths, tables, strict=True)]
    )
    for size in range(2, 17):
        some = slice(16 - size, 16)
        assert np.array_equal(fast.rows(decode_rows(nexts[some], lengths[some], tables[some]), view), alone[some])
    turn = 15
    dropped = arena(fast, dtype, 64, seed=1)
    again = np.append(text[turn * 20 : turn * 20 + lengths[turn]], nexts[turn]).astype(np.int32)
    assert np.array_equal(prefill(fast, dropped, again, tables[turn], [7, again.size - 7]), alone[turn])


@pytest.mark.parametrize("dtype", [KVDtype.FP16, KVDtype.Q8])
def test_outlier_keys_are_never_silent(default_model: LoadedModel, text: np.ndarray, dtype: KVDtype) -> None:
    """Case Q4: 200 on four key channels of the first and the last layer, before the rotation."""
    plain = Model(default_model.config, default_model.weights)
    last = default_model.config.layers - 1
    for model, warned in ((plain, False), (with_key_bias(plain, (0, last), channels=4, height=200.0), True)):
        executor = CpuExecutor(model, exact=False)
        assert executor.outlier_warning() is None
        executor.prefill(text[:64], 0, np.arange(4, dtype=np.int32), arena(executor, dtype, 4), last=False)
        warning = executor.outlier_warning()
        if warned:
            assert warning is not None
            assert f"layers 0, {last} " in warning
            assert "q8" in warning
        else:
            assert warning is None


def test_outlier_keys_cost_q8_its_quality_and_are_warned_of_well_before(
    default_model: LoadedModel, text: np.ndarray
) -> None:
    """Case Q4: what the warning is about. At 40 nothing is lost yet, at 400 twenty times more than without."""
    plain = Model(default_model.config, default_model.weights)
    table = np.arange(9, dtype=np.int32)
    lost, warned = {}, {}
    for height in (0.0, 40.0, 400.0):
        model = with_key_bias(plain, (0, default_model.config.layers - 1), channels=1, height=height)
        executor = CpuExecutor(model, exact=False)
        exact, q8 = (
            log_probabilities(executor.rows(one_turn(text[:128], 0, table), arena(executor, dtype, 9)))
            for dtype in (KVDtype.FP32, KVDtype.Q8)
        )
        lost[height] = float(divergence(exact, q8).mean())
        executor.prefill(text[:64], 0, table, arena(executor, KVDtype.FP16, 9), last=False)
        warned[height] = executor.outlier_warning() is not None
    assert warned == {0.0: False, 40.0: True, 400.0: True}
    assert lost[40.0] < 0.002
    assert lost[400.0] > 20 * lost[0.0]


def test_q8_stays_close_to_fp16_on_real_text(fast: CpuExecutor, text: np.ndarray) -> None:
    table = np.arange(16, dtype=np.int32)
    half, q8 = (
        torch.from_numpy(fast.rows(one_turn(text[:256], 0, table), arena(fast, dtype, 16))).log_softmax(-1)
        for dtype in (KVDtype.FP16, KVDtype.Q8)
    )
    divergence = float((half.exp() * (half - q8)).sum(-1).mean())
    assert 0 < divergence < 0.003
    assert float((half.argmax(-1) == q8.argmax(-1)).float().mean()) >= 0.96
