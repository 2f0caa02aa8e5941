"""The seam inside the torch backend: an executor runs the model over an arena; the backend owns blocks and turns."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch

from engine.geometry import BlockLayout, KVDtype, KVGeometry
from engine.models.config import ModelConfig

KV_DTYPES = frozenset({KVDtype.FP32, KVDtype.FP16, KVDtype.Q8})


@dataclass(frozen=True, slots=True)
class ArenaView:
    """The arena's memory as an executor sees it: `memory` is flat uint8 on the executor's device; block b starts at
    byte b x layout.nbytes. Rebuilt after each precision switch."""

    memory: torch.Tensor
    layout: BlockLayout
    blocks: int

    def require(self, geometry: KVGeometry, block_size: int) -> None:
        """Raises ValueError unless the blocks are those of this shape: kernels address bytes, not names."""
        if (self.layout.geometry, self.layout.block_size) != (geometry, block_size):
            raise ValueError(
                f"blocks of {self.layout} were given to an executor of {geometry}, {block_size} tokens each"
            )


@dataclass(frozen=True, slots=True)
class Rows:
    """Token rows: row i is token `tokens[i]` at `positions[i]` of the turn whose blocks are `table[table_row[i]]`.

    tokens, positions, table_row: int32 (n,); table: int32 (turns, blocks), padded with 0 behind each turn's blocks.
    """

    tokens: np.ndarray
    positions: np.ndarray
    table: np.ndarray
    table_row: np.ndarray


class Executor(Protocol):
    """Runs the decoder. In exact mode (fp32 weights) every token goes through `rows`, so that prefill, decode and
    recompute give the same bits."""

    config: ModelConfig
    exact: bool
    kv_dtypes: frozenset[KVDtype]

    @property
    def device(self) -> torch.device: ...

    @property
    def weights_bytes(self) -> int:
        """Bytes of the weights as they are held for serving."""
        ...

    @property
    def runtime_bytes(self) -> int:
        """Bytes of scratch, tables and logits that the executor holds."""
        ...

    def rows(self, rows: Rows, arena: ArenaView) -> np.ndarray:
        """Write the rows' K and V, then attend and return float32 logits (n, vocab). A row's logits are bitwise the
        same alone and in any batch. Rows of one turn must be in order of position."""
        ...

    def prefill(
        self, tokens: np.ndarray, start: int, table: np.ndarray, arena: ArenaView, last: bool
    ) -> np.ndarray | None:
        """Compute a chunk of one turn, `tokens` int32 (n,) at positions start..start+n-1, over its blocks `table` int32
        (blocks,). Returns float32 logits (vocab,) of the last token if `last`."""
        ...

    def outlier_warning(self) -> str | None:
        """One sentence if keys written so far have channels so large that q8 is coarse there, else None."""
        ...

    def warm_up(self, arena: ArenaView) -> None:
        """Compile or load every kernel for the arena's precision, leaving the arena's bytes as they were."""
        ...
