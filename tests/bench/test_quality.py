"""What two sets of logits agree on, the targets of the quality bench, and that it reads a text as a turn would."""

import math

import numpy as np
import pytest
import torch

from app.bench.agreement import Along, along, divergence, joined, log_probabilities
from app.bench.quality import FP32, INT8, TEXT, TOKENS, VARIANTS, Reader, Variant, read, report
from app.bench.report import MET, MISSED, Bench
from engine.backends.torch.cpu import CpuExecutor
from engine.geometry import KVDtype
from engine.models.loaded import LoadedModel
from tests.engine.backends.tiny_model import tiny_model


def test_divergence_is_that_of_the_definition_and_float64() -> None:
    p, q = np.array([[0.0, math.log(3.0)]], np.float32), np.array([[0.0, 0.0]], np.float32)
    want = 0.25 * math.log(0.25 / 0.5) + 0.75 * math.log(0.75 / 0.5)
    found = divergence(log_probabilities(p), log_probabilities(q))
    assert found.dtype is torch.float64
    assert float(found) == pytest.approx(want, rel=1e-6)
    assert float(divergence(log_probabilities(p), log_probabilities(p + 100))) == pytest.approx(0, abs=1e-9)


def test_agreement_and_perplexity_are_of_all_positions() -> None:
    p, q = (log_probabilities(np.array(x, np.float32)) for x in ([[9, 0], [0, 9]], [[9, 0], [9, 0]]))
    both = joined([along(p[:1], q[:1], [0]), along(p[1:], q[1:], [0])])
    assert both.positions == 2
    assert both.top1 == 0.5
    assert both.perplexity == pytest.approx(1.0, abs=1e-3)


def test_a_text_that_is_read_with_the_reference_itself_is_exactly_the_same() -> None:
    model = tiny_model()
    tokens = np.random.default_rng(0).integers(1, 128, 300).tolist()
    executors = {FP32: CpuExecutor(model, exact=True), INT8: CpuExecutor(model, exact=False)}
    found = read({one: Reader(executors[one.weights], one.kv, tokens) for one in VARIANTS}, tokens)
    assert {quality.positions for quality in found.values()} == {299}
    base = found[Variant(FP32, KVDtype.FP32)]
    assert (base.mean_kl, base.top1) == (0.0, 1.0)
    for weights in (FP32, INT8):
        kl = {kv: found[Variant(weights, kv)].mean_kl for kv in (KVDtype.FP16, KVDtype.Q8)}
        assert 0 < kl[KVDtype.FP16] < kl[KVDtype.Q8]
    assert found[Variant(INT8, KVDtype.FP32)].mean_kl > 0


def same(kl: float, top1: float) -> Along:
    hits = torch.arange(1000) < round(top1 * 1000)
    return Along(torch.full((1000,), kl, dtype=torch.float64), hits, torch.ones(1000, dtype=torch.float64))


@pytest.mark.parametrize(
    ("q8_kl", "q8_top1", "weights_kl", "status"),
    [
        (0.001, 0.98, 0.005, MET),
        (0.0021, 0.98, 0.005, MISSED),
        (0.001, 0.979, 0.005, MISSED),
        (0.001, 0.98, 0.0061, MISSED),
    ],
)
def test_targets_are_on_q8_kv_and_on_int8_weights(q8_kl: float, q8_top1: float, weights_kl: float, status: int) -> None:
    found = {one: same(0.0, 1.0) for one in VARIANTS}
    found[Variant(INT8, KVDtype.Q8)] = same(q8_kl, q8_top1)
    found[Variant(INT8, KVDtype.FP32)] = same(weights_kl, 0.9)
    bench = Bench("quality")
    report(bench, found)
    assert bench.status == status
    assert [row["against"] for row in bench.rows if row["weights"] == INT8] == [
        "fp32 weights, fp32 KV",
        "int8 weights, fp32 KV",
        "int8 weights, fp32 KV",
    ]


def test_the_text_is_long_enough(default_model: LoadedModel) -> None:
    text = default_model.tokenizer.encode(TEXT.read_text(encoding="utf-8"))
    assert len(text) >= max(TOKENS.values())
