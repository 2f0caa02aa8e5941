"""How rows are shared out: every token of every row's context once, in one unit, whatever the batch."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from engine.backends.torch.work import share_out
from engine.kernels.attend import FINISH, GROUP, SPAN
from engine.kernels.forward import Shape

SHAPE = Shape(2, 32, 32, 64, 4, 2, 16, 16, 64, 16, np.float32(1e-5))
CHUNKS = st.lists(st.tuples(st.integers(0, 3 * SPAN), st.integers(1, 11)), min_size=1, max_size=9)


@given(CHUNKS)
def test_every_context_is_covered_once(chunks: list[tuple[int, int]]) -> None:
    positions = np.concatenate([np.arange(start, start + rows) for start, rows in chunks])
    turns = np.repeat(np.arange(len(chunks)), [rows for _, rows in chunks])
    work = share_out(positions, turns, 1, SHAPE)
    spans: dict[int, list[int]] = {row: [] for row in range(positions.size)}
    for first, count, turn, span, number, slot in work.units:
        assert 1 <= count <= GROUP
        for row in range(first, first + count):
            assert turns[row] == turn
            spans[row] += [n for n in range(span, span + number) if n * SPAN <= positions[row]]
        assert slot == FINISH or (count, number) == (1, 1)
    for row, covered in spans.items():
        assert sorted(covered) == list(range(int(positions[row]) // SPAN + 1))
    used = [slot for slot in work.units[:, 5] if slot != FINISH]
    assert sorted(used) == list(range(sum(work.splits[:, 2])))


def test_a_row_alone_is_shared_and_a_chunk_is_not() -> None:
    alone = share_out(np.array([2 * SPAN]), np.array([0]), 1, SHAPE)
    assert alone.units[:, 3:].tolist() == [[0, 1, 0], [1, 1, 1], [2, 1, 2]]
    assert alone.splits.tolist() == [[0, 0, 3]]
    chunk = share_out(np.arange(2 * SPAN, 2 * SPAN + 2), np.array([0, 0]), 1, SHAPE)
    assert chunk.units.tolist() == [[0, 2, 0, 0, 3, FINISH]]
    assert not chunk.splits.size


def test_heavy_units_come_first() -> None:
    work = share_out(np.array([10, SPAN + 44, 90]), np.array([0, 1, 2]), 3, SHAPE)
    assert work.units[:, :4].tolist() == [[1, 1, 1, 0], [2, 1, 2, 0], [1, 1, 1, 1], [0, 1, 0, 0]]
