"""The CPU executor: numba kernels over the arena's bytes, int8 weights (fast) or fp32 weights (exact)."""

import numba
import numpy as np
import torch

from engine.backends.torch.convert import KERNEL_ELEMENT
from engine.backends.torch.executor import KV_DTYPES, ArenaView, Rows
from engine.backends.torch.outliers import OutlierWatch
from engine.backends.torch.rope import RopeTable
from engine.backends.torch.weights import Model, pack_weights, shape_of
from engine.backends.torch.work import share_out
from engine.errors import Refused
from engine.geometry import BLOCK_SIZE
from engine.kernels.attend import scratch_floats
from engine.kernels.attend_tile import TILE
from engine.kernels.forward import Blocks, Scratch, Shape, attention_sizes, counter_values, forward
from engine.kernels.linear import wide_floats
from engine.models.progress import Progress, Report, silent

PIECE = 128
"""Rows that pass through the layers together; longer chunks go piece by piece, with the same bits."""

DECODE_ROWS = 16
"""Rows of logits counted as runtime bytes."""


class CpuExecutor:
    """Every token, prefill or decode, goes through the same kernels: a token's K, V and logits have the same bits
    whatever the chunking, whatever runs beside it, and however many threads work.

    `progress` hears of the two slow moments, laying out weights and compiling kernels (once per machine,
    precision and shape of head). Raises ModelError for a model that the kernels cannot run, Refused for a block size
    that is not a multiple of 16.
    """

    def __init__(self, model: Model, exact: bool, block_size: int = BLOCK_SIZE, progress: Report | None = None) -> None:
        if block_size <= 0 or block_size % TILE:
            raise Refused(f"A block of {block_size} tokens was asked for; the CPU kernels take multiples of {TILE}.")
        self.config = model.config
        self.exact = exact
        self.kv_dtypes = KV_DTYPES
        self._report = progress or silent
        self._shape = shape_of(model.config, block_size)
        self._sizes = attention_sizes(self._shape)
        self._weights = pack_weights(model, self._shape, exact, self._report)
        self._rope = RopeTable(model.config.rope, model.config.head_dim, model.config.max_context, self.device)
        self._scratch = _scratch(self._shape, exact)
        self._outliers = OutlierWatch(model.config.layers)

    @property
    def device(self) -> torch.device:
        return torch.device("cpu")

    @property
    def weights_bytes(self) -> int:
        distinct = {id(array): array.nbytes for array in self._weights}
        return sum(distinct.values())

    @property
    def runtime_bytes(self) -> int:
        logits = DECODE_ROWS * self._shape.vocab_padded * 4
        return sum(array.nbytes for array in self._scratch) + self._rope.nbytes + logits

    def rows(self, rows: Rows, arena: ArenaView) -> np.ndarray:
        """See Executor. Any number of rows; more than PIECE pass in pieces."""
        table = rows.table.astype(np.int64)
        pieces = []
        for first in range(0, rows.tokens.size, PIECE):
            part = slice(first, first + PIECE)
            pieces.append(self._run(rows.tokens[part], rows.positions[part], rows.table_row[part], table, arena, 0))
        return np.concatenate(pieces) if len(pieces) != 1 else pieces[0]

    def prefill(
        self, tokens: np.ndarray, start: int, table: np.ndarray, arena: ArenaView, last: bool
    ) -> np.ndarray | None:
        """See Executor. The same bits as `rows` one by one, in either mode."""
        count = tokens.size
        positions = np.arange(start, start + count, dtype=np.int64)
        turns = np.zeros(count, np.int64)
        blocks = table.astype(np.int64).reshape(1, -1)
        logits: np.ndarray | None = None
        for first in range(0, count, PIECE):
            part = slice(first, min(first + PIECE, count))
            ends = last and part.stop == count
            wanted = part.stop - first - 1 if ends else None
            piece = self._run(tokens[part], positions[part], turns[part], blocks, arena, wanted)
            logits = piece[0] if ends else None
        if start == 0:
            self._outliers.look(arena, int(table[0]), count)
        return logits

    def outlier_warning(self) -> str | None:
        """One sentence if keys of some layers have channels so large that q8 leaves the others few levels."""
        return self._outliers.warning()

    def warm_up(self, arena: ArenaView) -> None:
        """See Executor. Runs one token over a small arena of its own."""
        self._report(
            Progress("load", None, f"kernels for {arena.layout.dtype} KV: compiled at the first start, then kept")
        )
        memory = torch.zeros(arena.layout.nbytes, dtype=torch.uint8)
        own = ArenaView(memory, arena.layout, 1)
        zero = np.zeros(1, np.int32)
        self.rows(Rows(tokens=zero, positions=zero, table=zero.reshape(1, 1), table_row=zero), own)

    def _run(
        self,
        tokens: np.ndarray,
        positions: np.ndarray,
        turns: np.ndarray,
        table: np.ndarray,
        arena: ArenaView,
        first_logits: int | None,
    ) -> np.ndarray:
        """Logits of the rows from `first_logits` on (None: of none), float32 (rows, vocab)."""
        arena.require(self.config.geometry, self._shape.block_size)
        count = tokens.size
        self._rope.reach(int(positions.max()) + 1)
        first = count if first_logits is None else first_logits
        wanted = count - first
        logits = np.empty(wanted * self._shape.vocab_padded, np.float32)
        places = positions.astype(np.int64)
        owners = turns.astype(np.int64)
        forward(
            tokens.astype(np.int64), places, owners, table, share_out(places, owners, wanted, self._shape),
            self._rope.cos.numpy(), self._rope.sin.numpy(), self._shape, self._sizes, self._weights, self._scratch,
            arena_blocks(arena), first, logits,
        )  # fmt: skip
        return logits.reshape(wanted, self._shape.vocab_padded)[:, : self.config.vocab_size]


def _scratch(shape: Shape, exact: bool) -> Scratch:
    """Made by torch, which aligns to cache lines."""

    def floats(per_row: int) -> np.ndarray:
        return torch.zeros(PIECE * per_row).numpy()

    group = shape.heads // shape.kv_heads
    longest = max(shape.hidden_padded, shape.heads * shape.padded, shape.inner)
    return Scratch(
        residual=floats(shape.hidden_padded),
        normed=floats(shape.hidden_padded),
        qkv=floats((shape.heads + 2 * shape.kv_heads) * shape.padded),
        attended=floats(shape.heads * shape.padded),
        inner=floats(shape.inner),
        attend=torch.zeros(numba.get_num_threads(), scratch_floats(group, shape.padded)).numpy(),
        wide=torch.zeros(numba.get_num_threads(), 0 if exact else wide_floats(longest)).numpy(),
        counters=torch.zeros(counter_values(shape.layers), dtype=torch.int64).numpy(),
    )


def arena_blocks(arena: ArenaView) -> Blocks:
    """The arena's bytes as the kernels address them."""
    layout = arena.layout
    memory = arena.memory.numpy()[: arena.blocks * layout.nbytes]
    size = layout.dtype.element_bytes
    scales = memory.view(np.float32) if layout.dtype.has_scales else np.empty(0, np.int32)
    return Blocks(
        values=memory.view(KERNEL_ELEMENT[layout.dtype]),
        values_stride=layout.nbytes // size,
        scales=scales,
        scales_offset=layout.scales_offset // 4,
        scales_stride=layout.nbytes // 4,
    )
