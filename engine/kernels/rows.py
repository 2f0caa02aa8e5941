"""How rows are cut into blocks that pass over a tile of weights together."""

from functools import cache

import numpy as np

from engine.kernels.emit import LANES, REGISTER

MOST_ROWS = 6
"""Rows that share one pass over a tile of weights: 6 x 16 sums fill the twelve registers that two multipliers of five
cycles' latency keep busy; MOST_PAIRED rows take two tiles at once for the same reason."""

MOST_PAIRED = 6 if REGISTER == LANES else 3
"""With registers of sixteen there is room for the sums of twice as many rows."""

_COST = {1: 28, 2: 29, 3: 37, 4: 40, 5: 52, 6: 52} if REGISTER == LANES else {1: 22, 2: 26, 3: 43, 4: 48, 5: 50, 6: 58}
"""What a pass over weights in the cache takes, by rows: microseconds for 576 x 1536 on two cores, AVX-512 or AVX2."""


@cache
def row_blocks(rows: int) -> np.ndarray:
    """int64 (blocks, 2): first row and rows, 1 to MOST_ROWS, of the cheapest way to cut `rows` rows; many first."""
    cheapest: list[tuple[int, list[int]]] = [(0, [])]
    for total in range(1, rows + 1):
        ways = ((cheapest[total - n][0] + cost, n) for n, cost in _COST.items() if n <= total)
        cost, last = min(ways)
        cheapest.append((cost, [*cheapest[total - last][1], last]))
    sizes = sorted(cheapest[rows][1], reverse=True)
    starts = np.cumsum([0, *sizes[:-1]])
    return np.stack([starts[: len(sizes)], sizes], axis=1).astype(np.int64)
