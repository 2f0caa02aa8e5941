"""How the rows of one call are shared out to the kernels' workers: from positions and turns alone."""

from collections.abc import Iterator

import numpy as np

from engine.kernels.attend import FINISH, GROUP, SPAN, slot_floats
from engine.kernels.forward import Shape, Work
from engine.kernels.rows import row_blocks


def share_out(positions: np.ndarray, turns: np.ndarray, wanted: int, shape: Shape) -> Work:
    """Of rows at `positions` of `turns` (int64, (n,)), the last `wanted` of which get logits.

    Neighbours of one turn, at most GROUP, are one unit; a row alone is one for each SPAN of its context. Which worker
    computes a unit never changes a bit of it. Heaviest units come first, as workers take them in turns.
    """
    units: list[tuple[int, int, int, int, int, int]] = []
    splits: list[tuple[int, int, int]] = []
    slots = 0
    for first, count in _groups(positions, turns):
        spans = int(positions[first + count - 1]) // SPAN + 1
        turn = int(turns[first])
        if count == 1 and spans > 1:
            units += [(first, 1, turn, span, 1, slots + span) for span in range(spans)]
            splits.append((first, slots, spans))
            slots += spans
        else:
            units.append((first, count, turn, 0, spans, FINISH))
    units.sort(key=lambda unit: -_tokens(unit, positions))
    return Work(
        rows=row_blocks(positions.size),
        ended=row_blocks(wanted),
        units=np.array(units, np.int64).reshape(-1, 6),
        splits=np.array(splits, np.int64).reshape(-1, 3),
        slots=np.empty(slots * slot_floats(shape.heads, shape.padded), np.float32),
    )


def _groups(positions: np.ndarray, turns: np.ndarray) -> Iterator[tuple[int, int]]:
    """First row and rows of each run of ascending positions of one turn."""
    first = 0
    for row in range(1, positions.size + 1):
        if (
            row == positions.size
            or row - first == GROUP
            or turns[row] != turns[first]
            or positions[row] < positions[row - 1]
        ):
            yield first, row - first
            first = row


def _tokens(unit: tuple[int, int, int, int, int, int], positions: np.ndarray) -> int:
    first, count, _, span, spans, _ = unit
    end = min((span + spans) * SPAN, int(positions[first + count - 1]) + 1)
    return (end - span * SPAN) * count
