"""The kernel that copies and hashes: sums are the xxhash library's, bytes go where they belong and nowhere else."""

import numpy as np
import pytest
import xxhash

from engine.kernels.copy import SHORT, STRIPE, copy_units

BLOCKS, BLOCK = [2048, 0, 4096], 1024
UNITS, UNIT = [512, 4096, 2048, 6144, 3072], 704


def memory(nbytes: int, offset: int = 0, seed: int | None = None) -> np.ndarray:
    """Flat bytes that begin `offset` behind a multiple of STRIPE; zeros without a seed."""
    raw = np.zeros(nbytes + 2 * STRIPE, np.uint8)
    start = -raw.ctypes.data % STRIPE + offset
    part = raw[start : start + nbytes]
    if seed is not None:
        part[:] = np.random.default_rng(seed).integers(0, 256, nbytes)
    return part


def copied(
    arena: np.ndarray, slab: np.ndarray, out: bool, *, streaming: bool, skip: int = 0, filled: list[int] | None = None
) -> list[int]:
    total = len(BLOCKS) * BLOCK
    held = filled or [min(UNIT, total - at) for at in range(0, total, UNIT)]
    sums = np.zeros(len(held), np.uint64)
    places = np.array(BLOCKS), np.array(UNITS)
    copy_units(
        arena, slab, out, places[0], BLOCK, places[1], UNIT, np.array(held), skip, 0, len(held), streaming, sums
    )  # fmt: skip
    found: list[int] = sums.tolist()
    return found


def stream(memory: np.ndarray, starts: list[int], size: int) -> bytes:
    return b"".join(memory[at : at + size].tobytes() for at in starts)


@pytest.mark.parametrize(("offset", "streaming"), [(0, True), (0, False), (16, False), (5, False)])
def test_out_and_back_are_the_same_bytes_and_the_librarys_sums(offset: int, streaming: bool) -> None:
    arena, slab = memory(6144, offset, seed=1), memory(8192, offset)
    sums = copied(arena, slab, True, streaming=streaming)
    text = stream(arena, BLOCKS, BLOCK)
    parts = [text[at : at + UNIT] for at in range(0, len(text), UNIT)]
    assert stream(slab, UNITS, UNIT)[: len(text)] == text
    assert sums[:-1] == [xxhash.xxh3_64_intdigest(part) for part in parts[:-1]]
    assert sums[-1] == xxhash.xxh3_64_intdigest(parts[-1]) or len(parts[-1]) <= SHORT
    assert np.count_nonzero(slab) <= len(text)
    back = memory(6144, offset)
    assert copied(back, slab, False, streaming=streaming) == sums
    assert stream(back, BLOCKS, BLOCK) == text
    assert not back[1024:2048].any()
    assert not back[3072:4096].any()


@pytest.mark.parametrize("nbytes", [256, 320, 960, 1024, 1088, 2048, 4160, 65536])
def test_units_of_any_size_have_the_librarys_sum(nbytes: int) -> None:
    source, target, sums = memory(nbytes, seed=2), memory(nbytes), np.zeros(1, np.uint64)
    at, filled = np.zeros(1, np.int64), np.array([nbytes])
    copy_units(source, target, True, at, nbytes, at, nbytes, filled, 0, 0, 1, True, sums)
    assert sums.tolist() == [xxhash.xxh3_64_intdigest(source.data)]
    assert np.array_equal(source, target)


def test_what_lies_beside_the_stream_counts_in_the_sums_alone() -> None:
    """The stream begins 64 bytes into the first unit and ends before the last one does."""
    arena, slab = memory(6144), memory(8192, seed=3)
    filled = [UNIT] * 5
    sums = copied(arena, slab, False, streaming=True, skip=64, filled=filled)
    assert sums == [xxhash.xxh3_64_intdigest(slab[at : at + UNIT].data) for at in UNITS]
    assert stream(arena, BLOCKS, BLOCK) == stream(slab, UNITS, UNIT)[64 : 64 + 3 * BLOCK]
    assert np.count_nonzero(arena) <= 3 * BLOCK


def test_any_other_byte_is_another_sum() -> None:
    arena, slab = memory(6144), memory(8192, seed=4)
    right = copied(arena, slab, False, streaming=True)
    for at in range(0, UNIT, 13):
        slab[UNITS[1] + at] ^= 0x80
        found = copied(arena, slab, False, streaming=True)
        assert [a == b for a, b in zip(found, right, strict=True)] == [True, False, True, True, True]
        slab[UNITS[1] + at] ^= 0x80
