"""The arena: deterministic blocks, no block twice, and books that are checked."""

import numpy as np
import psutil
import pytest
import torch

from engine.backends.torch.arena import Arena, aligned_bytes
from engine.errors import IntegrityError
from engine.geometry import BlockLayout, KVDtype, KVGeometry
from engine.turn import TurnId

GEOMETRY = KVGeometry(layers=1, kv_heads=1, head_dim=16)
HALF = BlockLayout(GEOMETRY, KVDtype.FP16)
Q8 = BlockLayout(GEOMETRY, KVDtype.Q8)
A, B = TurnId(1), TurnId(2)


def arena(blocks: int = 8) -> Arena:
    return Arena(blocks * HALF.nbytes + 3, HALF, torch.device("cpu"))


@pytest.mark.parametrize("nbytes", [1, 63, 64, 12_345])
def test_memory_begins_at_a_multiple_of_64_and_is_zero(nbytes: int) -> None:
    made = aligned_bytes(nbytes, torch.device("cpu"))
    assert made.data_ptr() % 64 == 0
    assert made.numel() == nbytes
    assert not made.any()


def test_all_its_memory_is_there_from_the_start() -> None:
    """What the system has only promised would be missing in a step, and be counted as free meanwhile."""
    nbytes = 96 << 20
    before = psutil.Process().memory_info().rss
    memory = aligned_bytes(nbytes, torch.device("cpu"))
    assert psutil.Process().memory_info().rss - before > 0.8 * nbytes
    assert memory.numel() == nbytes


def test_the_lowest_free_blocks_are_taken_first() -> None:
    made = arena()
    assert made.take(A, 3)
    assert made.take(B, 2)
    made.cut(A, 1)
    assert made.take(B, 3)
    assert made.table(A) == [0]
    assert made.table(B) == [3, 4, 1, 2, 5]
    assert (made.free, made.held) == (2, 6)
    made.check({A: 16, B: 80})


def test_taking_too_much_changes_nothing() -> None:
    made = arena()
    assert made.take(A, 5)
    assert not made.take(B, 4)
    assert made.free == 3
    assert made.table(B) == ()
    made.give(A)
    made.give(A)
    assert made.free == 8
    made.check({})


def test_renumbering_keeps_the_order_of_every_table() -> None:
    made = arena()
    made.take(A, 2)
    made.take(B, 3)
    made.cut(A, 1)
    made.take(B, 2)
    assert (made.table(A), made.table(B)) == ([0], [2, 3, 4, 1, 5])
    made.cut(B, 4)
    live = made.live()
    assert live.tolist() == [0, 1, 2, 3, 4]
    order = live[::-1]
    made.renumber(Q8, order)
    assert made.layout == Q8
    assert made.blocks == made.nbytes // Q8.nbytes > 8
    assert [order[block] for block in made.table(A)] == [0]
    assert [order[block] for block in made.table(B)] == [2, 3, 4, 1]
    made.check({A: 16, B: 64})


def test_check_sees_each_way_the_books_can_be_wrong() -> None:
    made = arena()
    made.take(A, 2)
    made.take(B, 1)
    with pytest.raises(IntegrityError, match="need 3"):
        made.check({A: 33, B: 1})
    made._tables[B][0] = 1
    with pytest.raises(IntegrityError, match="twice"):
        made.check({A: 32, B: 16})
    made._tables[B][0] = 2
    made._owner[2] = A
    with pytest.raises(IntegrityError, match="another turn"):
        made.check({A: 32, B: 16})
    with pytest.raises(IntegrityError, match="held by"):
        made.give(B)
    made._owner[2] = B
    made._free.pop()
    with pytest.raises(IntegrityError, match="!= 8"):
        made.check({A: 32, B: 16})


def test_the_view_is_the_memory() -> None:
    made = arena()
    made.view.memory[5] = 9
    assert made.memory[5] == 9
    assert (made.view.blocks, made.view.layout) == (8, HALF)
    assert made.live().dtype == np.int64
