"""KV precision: the arithmetic of q8 and its edges, and the in-place conversion against one done out of place."""

import itertools
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.backends.torch import convert
from engine.backends.torch.convert import convert_arena, convert_blocks, scratch_bytes
from engine.backends.torch.executor import KV_DTYPES
from engine.geometry import BlockLayout, KVDtype, KVGeometry
from tests.engine.backends.fake_executor import block_values

SMALL = KVGeometry(layers=2, kv_heads=2, head_dim=16)
DEFAULT = KVGeometry(layers=3, kv_heads=3, head_dim=64)
HALF_MAX = 65504.0
PAIRS = [(a, b) for a in sorted(KV_DTYPES) for b in sorted(KV_DTYPES) if a is not b]


def layout(dtype: KVDtype, geometry: KVGeometry = SMALL, block_size: int = 16) -> BlockLayout:
    return BlockLayout(geometry, dtype, block_size)


def one_block(rows: np.ndarray, old: KVDtype) -> tuple[torch.Tensor, BlockLayout]:
    """A block whose first plane's first rows are `rows` (n, 16), zeros elsewhere."""
    made = layout(old)
    memory = np.zeros(made.nbytes, np.uint8)
    values, _ = block_values(memory, made, 0)
    with np.errstate(over="ignore"):
        values[0, 0, 0, : len(rows)] = rows
    return torch.from_numpy(memory), made


def through(memory: torch.Tensor, *layouts: BlockLayout) -> np.ndarray:
    """Block 0 converted along `layouts`; dequantized float32 values of the last."""
    at = np.zeros(1, np.int64)
    for old, new in itertools.pairwise(layouts):
        target = torch.zeros(new.nbytes, dtype=torch.uint8)
        convert_blocks(memory, old, at, target, new, at)
        memory = target
    values, scales = block_values(memory.numpy(), layouts[-1], 0)
    return values.astype(np.float32) * scales[..., None]


@pytest.mark.parametrize("old", [KVDtype.FP16, KVDtype.FP32])
def test_q8_edges_stay_finite_and_zeros_stay_zero(old: KVDtype) -> None:
    rows = np.zeros((6, 16))
    rows[1, 3] = 1e-6
    rows[2] = 5.0
    rows[3] = np.linspace(-1e5, 1e5, 16)
    rows[4] = np.linspace(-1e7, 1e7, 16)
    rows[5, 0] = np.inf
    memory, made = one_block(rows, old)
    for end in (KVDtype.FP16, KVDtype.FP32):
        got = through(memory, made, layout(KVDtype.Q8), layout(end))[0, 0, 0]
        assert np.isfinite(got).all()
        assert (got[0] == 0).all()
        assert got[1, 3] == pytest.approx(1e-6, rel=0.1)
        assert (got[1, :3] == 0).all()
        assert got[2] == pytest.approx(5.0)
        assert (got[6:] == 0).all()
    q8 = through(memory, made, layout(KVDtype.Q8))[0, 0, 0]
    limit = HALF_MAX if old is KVDtype.FP16 else np.inf
    assert q8[3] == pytest.approx(rows[3].clip(-limit, limit), abs=1e5 / 253)
    assert q8[4] == pytest.approx(rows[4].clip(-limit, limit), abs=1e7 / 253)


def test_what_fp16_cannot_hold_is_clamped() -> None:
    memory, made = one_block(np.array([[1e6] * 8 + [-1e6] * 8]), KVDtype.FP32)
    for path in ([layout(KVDtype.FP16)], [layout(KVDtype.Q8), layout(KVDtype.FP16)]):
        got = through(memory, made, *path)[0, 0, 0, 0]
        assert got.tolist() == [HALF_MAX] * 8 + [-HALF_MAX] * 8


def test_a_row_too_small_to_scale_becomes_zero() -> None:
    memory, made = one_block(np.full((1, 16), 1e-40), KVDtype.FP32)
    assert (through(memory, made, layout(KVDtype.Q8)) == 0).all()


@pytest.mark.parametrize("old", [KVDtype.FP16, KVDtype.FP32])
def test_q8_is_the_stated_formula(old: KVDtype) -> None:
    made, q8 = layout(old, DEFAULT), layout(KVDtype.Q8, DEFAULT)
    memory = random_blocks(made, 4, seed=3)
    target = torch.zeros(4 * q8.nbytes, dtype=torch.uint8)
    convert_blocks(memory, made, np.arange(4), target, q8, np.arange(4))
    for block in range(4):
        source = block_values(memory.numpy(), made, block)[0].astype(np.float32)
        values, scales = block_values(target.numpy(), q8, block)
        scale = np.abs(source).max(-1) / np.float32(127)
        np.testing.assert_array_equal(scales, scale)
        np.testing.assert_array_equal(values, np.rint(source * (1 / scale)[..., None]).astype(np.int8))
        assert np.abs(values.astype(np.float32) * scales[..., None] - source).max() <= scale.max() * 0.501


def test_ten_toggles_change_q8_no_further_than_the_first() -> None:
    half, q8 = layout(KVDtype.FP16, DEFAULT), layout(KVDtype.Q8, DEFAULT)
    memory = random_blocks(half, 1, seed=4)
    once = through(memory, half, q8, half)
    np.testing.assert_array_equal(once, through(memory, half, *[q8, half] * 10))


def random_blocks(made: BlockLayout, count: int, seed: int) -> torch.Tensor:
    rng = np.random.default_rng(seed)
    memory = np.zeros(count * made.nbytes, np.uint8)
    for block in range(count):
        values, scales = block_values(memory, made, block)
        if made.dtype.has_scales:
            values[:] = rng.integers(-127, 128, values.shape)
            values[..., 0] = 127
            scales[:] = rng.uniform(1e-3, 1, scales.shape)
        else:
            values[:] = rng.standard_normal(values.shape) * rng.uniform(0.01, 10, values.shape[:-1])[..., None]
    return torch.from_numpy(memory)


@pytest.mark.parametrize(("old", "new"), PAIRS)
def test_device_arithmetic_is_the_kernels(old: KVDtype, new: KVDtype) -> None:
    """The torch operations of a device, run here on CPU tensors, against the numba kernels: the same bytes."""
    a, b = layout(old), layout(new)
    memory = random_blocks(a, 5, seed=5)
    want, got = torch.zeros(8 * b.nbytes, dtype=torch.uint8), torch.zeros(8 * b.nbytes, dtype=torch.uint8)
    source, target = np.array([4, 0, 2]), np.array([7, 1, 3])
    convert_blocks(memory, a, source, want, b, target)
    convert._convert_on_device(memory, a, source, got, b, target)
    assert torch.equal(want, got)


@pytest.mark.parametrize(("old", "new"), PAIRS)
@settings(max_examples=30)
@given(data=st.data())
def test_in_place_is_out_of_place(old: KVDtype, new: KVDtype, data: st.DataObject) -> None:
    a, b = layout(old, block_size=4), layout(new, block_size=4)
    total = data.draw(st.integers(1, 150), label="arena in old blocks")
    fits = total * a.nbytes // b.nbytes
    count = data.draw(st.integers(0, min(fits, total)), label="live blocks")
    shuffled = np.random.default_rng(data.draw(st.integers(0, 999), label="which")).permutation(total)
    live = np.sort(shuffled[:count]).astype(np.int64)
    memory = random_blocks(a, total, seed=total)
    before = memory.clone()
    scratch = torch.zeros(scratch_bytes([a, b]), dtype=torch.uint8)
    with ThreadPoolExecutor(2) as workers:
        order = convert_arena(memory, a, b, live, scratch, workers)
    assert sorted(order.tolist()) == live.tolist()
    want = torch.zeros(max(live.size, 1) * b.nbytes, dtype=torch.uint8)
    convert_blocks(before, a, order, want, b, np.arange(live.size))
    assert_same_blocks(memory, want, b, live.size)


def assert_same_blocks(got: torch.Tensor, want: torch.Tensor, made: BlockLayout, count: int) -> None:
    """Values and scales; padding is nobody's."""
    for block in range(count):
        for x, y in zip(block_values(got.numpy(), made, block), block_values(want.numpy(), made, block), strict=True):
            np.testing.assert_array_equal(x, y)


def test_waves_are_cut_to_a_devices_limit_in_the_safe_order() -> None:
    waves = [*convert._front_to_back(np.arange(100), 100, 53), *convert._back_to_front(100, 53, 100)]
    for wave in waves:
        for backwards in (False, True):
            pieces = list(convert._pieces(wave, 7, backwards=backwards))
            assert sorted(pieces, reverse=backwards) == pieces
            assert sum(last - first for first, last in pieces) == wave.last - wave.first
            assert all(last - first <= 7 for first, last in pieces)


def test_shapes_may_not_change() -> None:
    memory = torch.zeros(1 << 16, dtype=torch.uint8)
    at = np.zeros(1, np.int64)
    with pytest.raises(ValueError, match="precision"):
        convert_blocks(memory, layout(KVDtype.FP16), at, memory, layout(KVDtype.Q8, DEFAULT), at)
    with pytest.raises(ValueError, match="already"):
        convert_blocks(memory, layout(KVDtype.FP16), at, memory, layout(KVDtype.FP16), at)
