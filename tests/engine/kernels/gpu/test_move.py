"""Gather and scatter of scattered blocks, to the byte."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.kernels.gpu.move import ALIGNED, gather, scatter
from tests.engine.kernels.gpu.lab import DEVICE


def random_bytes(count: int, seed: int) -> torch.Tensor:
    return torch.randint(0, 256, (count,), dtype=torch.uint8, generator=torch.Generator().manual_seed(seed)).to(DEVICE)


@settings(max_examples=30)
@given(st.data())
def test_any_stretch_of_any_blocks(data: st.DataObject) -> None:
    """Blocks shorter and longer than what a program moves; a stretch may begin and end within one."""
    size = data.draw(st.sampled_from([64, 192, 8192, 8256, 17472]))
    places = data.draw(st.permutations(range(7)))[: data.draw(st.integers(1, 7))]
    starts = [place * size for place in places]
    lines = len(places) * size // ALIGNED
    begin, end = sorted(data.draw(st.tuples(st.integers(0, lines), st.integers(0, lines))))
    begin, end = begin * ALIGNED, end * ALIGNED
    memory, staging = random_bytes(7 * size + 32, 1), random_bytes(end - begin + 64, 2)
    stream = torch.cat([memory[start : start + size] for start in starts])
    behind = staging[end - begin :].clone()
    gather(memory, starts, size, staging, begin, end)
    assert torch.equal(staging[: end - begin], stream[begin:end])
    assert torch.equal(staging[end - begin :], behind)
    new = random_bytes(end - begin, 3)
    wanted = memory.clone()
    for i, start in enumerate(starts):
        first, last = max(begin, i * size), min(end, (i + 1) * size)
        if first < last:
            wanted[start + first - i * size : start + last - i * size] = new[first - begin : last - begin]
    scatter(memory, starts, size, new, begin, end)
    assert torch.equal(memory, wanted)


@pytest.mark.parametrize("starts", [[], [0]])
def test_nothing_to_move_moves_nothing(starts: list[int]) -> None:
    memory, staging = random_bytes(128, 1), random_bytes(128, 2)
    before = memory.clone(), staging.clone()
    gather(memory, starts, 64, staging, 64, 64)
    scatter(memory, starts, 64, staging, 0, 0)
    assert torch.equal(memory, before[0])
    assert torch.equal(staging, before[1])
