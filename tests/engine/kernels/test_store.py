"""How keys and values are written: precision by precision, extreme rows, byte places (cases Q3, Q5)."""

from collections.abc import Sequence

import numpy as np
import pytest
import torch

from engine.backends.torch.cpu import arena_blocks
from engine.backends.torch.executor import KV_DTYPES, ArenaView
from engine.backends.torch.planes import KVPlanes
from engine.geometry import BlockLayout, KVDtype, KVGeometry
from engine.kernels.store import store


def _written(rows: np.ndarray, dtype: KVDtype, positions: Sequence[int]) -> tuple[ArenaView, KVPlanes]:
    """Values of shape (rows, kv_heads, dim) as V of layer 1 of 2, over blocks 2, 0, 1 of one turn, K left at zero."""
    count, heads, dim = rows.shape
    padded = -(-dim // 16) * 16
    layout = BlockLayout(KVGeometry(2, heads, dim), dtype)
    view = ArenaView(torch.full((3 * layout.nbytes,), 0xAB, dtype=torch.uint8), layout, 3)
    width = 3 * heads * padded
    qkv = np.zeros((count, 3, heads, padded), np.float32)
    qkv[:, 2, :, :dim] = rows
    blocks = arena_blocks(view)
    still = np.ones((64, dim // 2), np.float32)
    store(
        qkv.reshape(-1), width, count, np.array(positions), np.zeros(count, np.int64), np.array([[2, 0, 1]]), heads,
        heads, dim, padded, 1, 16, np.empty(0, np.float32), np.empty(0, np.float32), np.float32(1e-5), still, still,
        blocks.values, blocks.values_stride, blocks.scales, blocks.scales_offset, blocks.scales_stride,
    )  # fmt: skip
    return view, KVPlanes(view)


EXTREMES = {
    "zeros": np.zeros(64),
    "one tiny": np.eye(1, 64, 5)[0] * 1e-6,
    "denormal": np.full(64, 1e-44),
    "constant": np.full(64, 5.0),
    "1e5": np.linspace(-1e5, 1e5, 64),
    "1e7": np.linspace(-1e7, 1e7, 64),
    "3e38": np.linspace(-3e38, 3e38, 64),
}


@pytest.mark.parametrize("dtype", sorted(KV_DTYPES))
def test_extreme_rows_stay_finite_and_zeros_stay_zero(dtype: KVDtype) -> None:
    rows = np.stack([np.stack([row, row]) for row in EXTREMES.values()]).astype(np.float32)
    _, planes = _written(rows, dtype, range(len(rows)))
    _, values = planes.read(1, torch.tensor([2, 0, 1]), len(rows))
    assert torch.isfinite(values).all()
    assert not values[:, 0].any()
    limit = 65504 if dtype is KVDtype.FP16 else np.inf
    wanted = torch.from_numpy(rows).transpose(0, 1).clamp(-limit, limit).double()
    relative = {KVDtype.FP32: 0.0, KVDtype.FP16: 2**-11, KVDtype.Q8: 0.5 / 127 * 1.0001}[dtype]
    smallest = {KVDtype.FP32: 0.0, KVDtype.FP16: 2**-25, KVDtype.Q8: 1e-36}[dtype]
    bound = wanted.abs().amax(-1, keepdim=True) * relative + smallest
    assert ((values.double() - wanted).abs() <= bound).all()


@pytest.mark.parametrize("dim", [64, 80, 100, 6])
def test_q8_is_within_half_a_step_for_any_head_dim(dim: int) -> None:
    rows = np.random.default_rng(0).standard_normal((8, 2, dim)).astype(np.float32)
    _, planes = _written(rows, KVDtype.Q8, range(8))
    _, values = planes.read(1, torch.tensor([2]), 8)
    step = np.abs(rows).max(-1, keepdims=True) / 127
    assert (np.abs(values.numpy().transpose(1, 0, 2) - rows) <= step * 0.5001).all()
    assert planes.scales is not None
    np.testing.assert_array_equal(planes.scales[2, 1, 1, :, :8].numpy().T, step[..., 0])


@pytest.mark.parametrize("dtype", sorted(KV_DTYPES))
def test_values_and_scales_lie_where_the_layout_says(dtype: KVDtype) -> None:
    """Positions 15, 16 and 47: the last slot of the first block, the first of the second, the last of the third."""
    rows = np.random.default_rng(1).standard_normal((3, 2, 10)).astype(np.float32)
    view, _ = _written(rows, dtype, (15, 16, 47))
    layout = view.layout
    memory = view.memory.numpy()
    element = {KVDtype.FP32: np.float32, KVDtype.FP16: np.float16, KVDtype.Q8: np.int8}[dtype]
    changed = np.zeros(memory.size, bool)
    for i, (block, slot) in enumerate(((2, 15), (0, 0), (1, 15))):
        for head in range(2):
            for which in range(2):
                plane = np.ravel_multi_index((1, which, head, slot), layout.scale_shape)
                start = block * layout.nbytes + plane * 10 * layout.dtype.element_bytes
                end = start + 10 * layout.dtype.element_bytes
                changed[start:end] = True
                found = memory[start:end].view(element).astype(np.float32)
                if dtype.has_scales:
                    place = block * layout.nbytes + layout.scales_offset + plane * 4
                    changed[place : place + 4] = True
                    found = found * memory[place : place + 4].view(np.float32)
                wanted = rows[i, head] if which else np.zeros(10)
                np.testing.assert_allclose(found, wanted, atol=0.02 if dtype.has_scales else 1e-3)
    assert (memory[~changed] == 0xAB).all()
