"""The attention bench over a small shape: what it reads, and that its rows and targets are there."""

import numpy as np
import pytest

from app.bench import attention
from app.bench.report import Bench
from engine.backends.torch.cpu import CpuExecutor
from engine.errors import Refused
from engine.geometry import KVDtype
from tests.engine.backends.tiny_model import tiny_model


@pytest.mark.parametrize("dtype", [KVDtype.FP16, KVDtype.Q8])
def test_a_step_reads_all_layers_of_all_contexts(dtype: KVDtype) -> None:
    config = tiny_model().config
    step = attention.decode_step(config, layers=3, turns=2, context=300, dtype=dtype)
    step.run()
    per_head = config.head_dim * dtype.element_bytes + (4 if dtype is KVDtype.Q8 else 0)
    assert step.nbytes == 2 * 300 * 3 * 2 * config.kv_heads * per_head


def test_rows_for_each_precision_and_both_targets(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench("attention", "quick")
    monkeypatch.setattr(attention, "JUDGED", (2, 300))
    attention._decode_rows(bench, tiny_model().config, layers=2, rounds=2, turns=2, context=300)
    assert [row["precision"] for row in bench.rows] == ["fp16", "q8"]
    for row in bench.rows:
        assert row["times_one_read"] == pytest.approx(row["read_gb_per_s"] / row["gb_per_s"], rel=0.1)
    assert [(target.op, target.target) for target in bench.targets] == [("<=", 3.0), ("<=", 1.0)]


def test_a_prompt_in_chunks_is_held_against_one_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench("attention", "quick")
    monkeypatch.setattr(attention, "CHUNK", 64)
    attention._prefill_rows(bench, CpuExecutor(tiny_model(), exact=False), 200)
    assert [row["what"] for row in bench.rows] == ["prompt in chunks of 64", "prompt in one piece"]
    assert np.isfinite(bench.targets[0].value)


def test_another_backend_is_refused() -> None:
    with pytest.raises(Refused, match="run this bench on torch"):
        attention.run(Bench("attention", backend="vllm"))
