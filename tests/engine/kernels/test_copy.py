"""The kernel that copies and hashes: sums are the xxhash library's, bytes go where they belong and nowhere else."""

import numpy as np
import pytest
import xxhash

from engine.kernels.copy import SHORT, STRIPE, UNMOVED, copy_units

Span = tuple[int, int, int]
LENGTHS = [256, 320, 960, 1024, 1088, 2048, 4096 + 64, 65536]


def memory(nbytes: int, offset: int = 0, seed: int | None = None) -> np.ndarray:
    """Flat bytes that begin `offset` behind a multiple of STRIPE; zeros without a seed."""
    raw = np.zeros(nbytes + 2 * STRIPE, np.uint8)
    start = -raw.ctypes.data % STRIPE + offset
    part = raw[start : start + nbytes]
    if seed is not None:
        part[:] = np.random.default_rng(seed).integers(0, 256, nbytes)
    return part


def copied(
    source: np.ndarray, target: np.ndarray, units: list[list[tuple[int, int, int]]], streaming: bool
) -> list[int]:
    spans = np.array([span for unit in units for span in unit], np.int64)
    bounds = np.cumsum([0, *map(len, units)])
    filled = np.array([sum(span[2] for span in unit) for unit in units])
    sums = np.zeros(len(units), np.uint64)
    copy_units(source, target, spans, bounds, filled, 0, len(units), streaming, sums)
    return sums.tolist()


@pytest.mark.parametrize("nbytes", LENGTHS)
@pytest.mark.parametrize(("offset", "streaming"), [(0, True), (0, False), (16, False), (5, False)])
def test_a_unit_of_two_spans_has_the_librarys_sum(nbytes: int, offset: int, streaming: bool) -> None:
    assert nbytes > SHORT
    source, target = memory(nbytes, offset, seed=1), memory(2 * nbytes, offset)
    cut = nbytes // STRIPE // 3 * STRIPE
    spans = [(0, nbytes, cut), (cut, 0, nbytes - cut)]
    assert copied(source, target, [spans], streaming) == [xxhash.xxh3_64_intdigest(source.data)]
    assert np.array_equal(target[nbytes : nbytes + cut], source[:cut])
    assert np.array_equal(target[: nbytes - cut], source[cut:])
    assert not target[nbytes - cut : nbytes].any()
    assert not target[nbytes + cut :].any()


@pytest.mark.parametrize("streaming", [True, False])
def test_what_is_not_moved_counts_in_the_sum_alone(streaming: bool) -> None:
    source, target = memory(1024, seed=2), memory(1024)
    sums = copied(source, target, [[(0, UNMOVED, 512), (512, 0, 512)]], streaming)
    assert sums == [xxhash.xxh3_64_intdigest(source.data)]
    assert np.array_equal(target[:512], source[512:])
    assert not target[512:].any()


def test_any_other_byte_is_another_sum() -> None:
    source, target = memory(2048, seed=3), memory(2048)
    whole = [[(0, 0, 2048)]]
    (right,) = copied(source, target, whole, True)
    for at in range(0, 2048, 31):
        source[at] ^= 0x80
        assert copied(source, target, whole, True) != [right]
        source[at] ^= 0x80
    swapped = [[(1024, 0, 1024), (0, 1024, 1024)]]
    assert copied(source, target, swapped, True) != [right]
