"""Linear layers over int8 and int4 weights, against the same weights in float64."""

from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.backends.torch.kernel_checks import relative
from engine.backends.torch.ops import TorchOps, TritonOps
from engine.backends.torch.quantised import Int4, Weight, Whole, to_int4, to_int8
from tests.engine.kernels.gpu.lab import DEVICE, normal

QUANTISE: dict[str, Callable[[torch.Tensor], Weight]] = {"int8": to_int8, "int4": to_int4}
# Weights of int4 are rounded to the operands' precision before they are multiplied, those of int8 are not.
LIMITS = {torch.float32: 1e-6, torch.float16: 5e-4, torch.bfloat16: 4e-3}


@settings(max_examples=20)
@given(
    outputs=st.sampled_from([1, 31, 64, 100]),
    inputs=st.sampled_from([32, 72, 100, 576, 1536]),
    rows=st.integers(1, 16),
    kind=st.sampled_from(sorted(QUANTISE)),
    dtype=st.sampled_from(sorted(LIMITS, key=str)),
)
def test_products_are_those_of_the_weights(outputs: int, inputs: int, rows: int, kind: str, dtype: torch.dtype) -> None:
    weight = QUANTISE[kind](normal(outputs, inputs, seed=outputs + inputs))
    x = normal(rows, inputs, seed=rows).to(dtype)
    wanted = x.double() @ weight.dense(torch.float64).T
    found = TritonOps().linear(x, weight)
    assert found.shape == (rows, outputs)
    assert found.dtype == torch.float32
    assert relative(found, wanted) < LIMITS[dtype]
    assert relative(TorchOps().linear(x.float(), weight), wanted) < LIMITS[torch.float32]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize("kind", QUANTISE)
def test_a_row_has_the_same_bits_in_every_batch(kind: str, dtype: torch.dtype) -> None:
    """The inputs are long enough to be cut into parts that a second kernel adds up. Interpreted, the CPU's library
    multiplies, for which a row's place among the sixteen matters: there a row keeps it."""
    weight = QUANTISE[kind](normal(40, 2100))
    x = normal(16, 2100, seed=1).to(dtype)
    every = TritonOps().linear(x, weight)
    for count in (1, 3, 8, 15):
        assert torch.equal(TritonOps().linear(x[:count], weight), every[:count])
    if DEVICE.type == "cuda":
        for first, last in ((5, 6), (3, 16), (15, 16)):
            assert torch.equal(TritonOps().linear(x[first:last], weight), every[first:last])


def test_more_rows_and_whole_weights_go_through_torch() -> None:
    x, rows = normal(17, 96), normal(20, 96, seed=1)
    for weight in (Whole(rows), to_int8(rows), to_int4(rows)):
        assert torch.equal(TritonOps().linear(x, weight), TorchOps().linear(x, weight))


def test_rows_of_zeros_stay_zeros() -> None:
    rows = normal(8, 64)
    rows[3] = 0
    for quantise in QUANTISE.values():
        found = TritonOps().linear(normal(2, 64, seed=1), quantise(rows))
        assert (found[:, 3] == 0).all()
        assert (found[:, 2] != 0).all()


def test_int4_holds_what_each_group_spans() -> None:
    """Sixteen levels of a group's own range: no weight is off by more than half a level and the rounding to fp16."""
    rows = normal(7, 100) * 0.05 + 0.02
    weight = to_int4(rows)
    assert isinstance(weight, Int4)
    assert weight.packed.shape == (7, 4, 16)
    assert weight.nbytes == 7 * 4 * (16 + 2 + 2)
    off = (weight.dense(torch.float32) - rows).abs()
    span = weight.scale.float().repeat_interleave(32, 1)[:, :100]
    assert (off <= span * 0.51 + 1e-4).all()
    levels = torch.arange(16, device=DEVICE).repeat(2).float().expand(3, 32) * 0.25 - 1.0
    assert torch.equal(to_int4(levels).dense(torch.float32), levels)
