"""Bytes per token and per block, worked out by hand (cases M1, Q6, M4)."""

import pytest

from engine.geometry import BlockLayout, KVDtype, KVGeometry, blocks_for

DEFAULT = KVGeometry(layers=30, kv_heads=3, head_dim=64)


def test_the_default_model() -> None:
    assert DEFAULT.bytes_per_token(KVDtype.FP16) == 2 * 30 * 3 * 64 * 2 == 23_040
    assert DEFAULT.bytes_per_token(KVDtype.Q8) == 2 * 30 * 3 * (64 + 4) == 12_240
    assert DEFAULT.bytes_per_token(KVDtype.FP32) == 46_080


def test_the_card_presets() -> None:
    assert KVGeometry(40, 8, 128).bytes_per_token(KVDtype.FP16) == 163_840
    assert KVGeometry(36, 8, 128).bytes_per_token(KVDtype.FP16) == 147_456
    assert KVGeometry(8, 4, 256).bytes_per_token(KVDtype.FP16) == 32_768
    ratio = KVGeometry(40, 8, 128).bytes_per_token(KVDtype.Q8) / 163_840
    assert ratio == pytest.approx(0.5156, abs=5e-5)


def test_head_dim_is_its_own_figure() -> None:
    assert KVGeometry(layers=28, kv_heads=8, head_dim=128).bytes_per_token(KVDtype.FP16) == 114_688


@pytest.mark.parametrize("dtype", list(KVDtype))
def test_a_block_is_its_tokens_aligned(dtype: KVDtype) -> None:
    layout = BlockLayout(DEFAULT, dtype)
    assert layout.nbytes % 64 == 0
    assert layout.scales_offset % 64 == 0
    assert 0 <= layout.nbytes - 16 * DEFAULT.bytes_per_token(dtype) < 128


def test_odd_shapes_are_padded_not_cut() -> None:
    layout = BlockLayout(KVGeometry(3, 1, 20), KVDtype.Q8)
    assert layout.value_bytes == 3 * 2 * 16 * 20
    assert layout.scales_offset >= layout.value_bytes
    assert layout.nbytes >= layout.scales_offset + layout.scale_count * 4


def test_blocks_for() -> None:
    assert [blocks_for(n) for n in (0, 1, 16, 17)] == [0, 1, 1, 2]
