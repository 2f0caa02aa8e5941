"""The executor for CUDA and ROCm: the decoder over the arena's bytes, in torch operations and Triton's kernels.

Decode rows go through the linear layers sixteen at a time, padded, and each through attention over its own context
alone: its bits do not depend on its batch. It runs on the CPU too, in fp32, which is how it is tested without a device.
"""

from collections.abc import Callable

import numpy as np
import torch
from torch.nn.functional import pad, silu

from engine.backends.base import WeightDtype
from engine.backends.torch.device_weights import load_weights
from engine.backends.torch.executor import KV_DTYPES, ArenaView, Rows
from engine.backends.torch.ops import ROWS, Contexts, Ops, TorchOps, attend_all
from engine.backends.torch.outliers import OutlierWatch
from engine.backends.torch.planes import KVPlanes
from engine.backends.torch.quantised import Weight
from engine.backends.torch.rope import RopeTable
from engine.backends.torch.weights import Model
from engine.geometry import BLOCK_SIZE
from engine.models.progress import Progress, Report, silent

_Attend = Callable[[torch.Tensor, int, KVPlanes], torch.Tensor]
"""Queries (rows, heads, dim) of the real rows, the layer, K and V; returns (rows, heads x dim)."""


class DeviceExecutor:
    """fp16 activations into each product on a GPU (fp32 in exact mode and on the CPU), float32 between layers.

    `weights`: how they are kept, fp16 meaning as they are multiplied; exact mode knows no other, and torch operations
    alone. In exact mode a prefill goes row by row through the decode path and gives its bits; in fast mode it is one
    pass and equal for equal chunk boundaries. Raises ModelError for tensors that are missing or misshapen.
    """

    def __init__(
        self,
        model: Model,
        device: torch.device,
        exact: bool = False,
        block_size: int = BLOCK_SIZE,
        progress: Report | None = None,
        weights: WeightDtype = WeightDtype.FP16,
        ops: Ops | None = None,
    ) -> None:
        self.config = c = model.config
        self.exact = exact
        self.kv_dtypes = KV_DTYPES
        self.device = device
        self._ops: Ops = TorchOps() if ops is None or exact else ops
        self._compute = torch.float32 if exact or device.type == "cpu" else torch.float16
        self._report = progress or silent
        self._block_size = block_size
        kept = WeightDtype.FP16 if exact else weights
        self._weights = load_weights(model, device, self._compute, kept, self._report)
        self._rope = RopeTable(c.rope, c.head_dim, c.max_context, device)
        self._outliers = OutlierWatch(c.layers)

    @property
    def weights_bytes(self) -> int:
        return self._weights.nbytes

    @property
    def runtime_bytes(self) -> int:
        """Rotary tables, one batch of logits, and what the allocator keeps for scratch between steps."""
        kept = 0
        if self.device.type == "cuda":
            kept = torch.cuda.memory_reserved(self.device) - torch.cuda.memory_allocated(self.device)
        return self._rope.nbytes + ROWS * self.config.vocab_size * 4 + kept

    @torch.inference_mode()
    def rows(self, rows: Rows, arena: ArenaView) -> np.ndarray:
        """See Executor."""
        pieces = []
        tables = torch.from_numpy(rows.table[rows.table_row]).to(self.device)
        lengths = torch.from_numpy(rows.positions + 1).to(self.device)
        for first in range(0, rows.tokens.size, ROWS):
            part = slice(first, first + ROWS)
            positions = rows.positions[part]
            contexts = Contexts(tables[part], lengths[part], tuple((positions + 1).tolist()))
            owned = positions // self._block_size
            blocks = torch.from_numpy(rows.table[rows.table_row[part], owned].astype(np.int64)).to(self.device)

            def attend(q: torch.Tensor, layer: int, planes: KVPlanes, contexts: Contexts = contexts) -> torch.Tensor:
                return self._ops.attend(q, layer, contexts, planes)

            hidden = self._forward(rows.tokens[part], positions, blocks, attend, arena, ROWS)
            pieces.append(self._logits(hidden)[: positions.size].cpu().numpy())
        return np.concatenate(pieces)

    @torch.inference_mode()
    def prefill(
        self, tokens: np.ndarray, start: int, table: np.ndarray, arena: ArenaView, last: bool
    ) -> np.ndarray | None:
        """See Executor."""
        count = tokens.size
        positions = np.arange(start, start + count, dtype=np.int32)
        if self.exact:
            every = self.rows(Rows(tokens, positions, table.reshape(1, -1), np.zeros(count, np.int32)), arena)
            logits = every[-1] if last else None
        else:
            blocks = torch.from_numpy(table.astype(np.int64)).to(self.device)

            def attend(q: torch.Tensor, layer: int, planes: KVPlanes) -> torch.Tensor:
                return attend_all(q, *planes.read(layer, blocks, start + count))

            owned = torch.from_numpy(table[positions // self._block_size].astype(np.int64)).to(self.device)
            hidden = self._forward(tokens, positions, owned, attend, arena, count)
            ended = pad(hidden[-1:], (0, 0, 0, ROWS - 1))
            logits = self._logits(ended)[0].cpu().numpy() if last else None
        if start == 0:
            self._outliers.look(arena, int(table[0]), count)
        return logits

    def outlier_warning(self) -> str | None:
        """See Executor."""
        return self._outliers.warning()

    def warm_up(self, arena: ArenaView) -> None:
        """See Executor. Runs one token over a block of its own."""
        self._report(Progress("load", None, f"loading kernels for {arena.layout.dtype} KV"))
        own = ArenaView(torch.zeros(arena.layout.nbytes, dtype=torch.uint8, device=self.device), arena.layout, 1)
        zero = np.zeros(1, np.int32)
        self.rows(Rows(tokens=zero, positions=zero, table=zero.reshape(1, 1), table_row=zero), own)

    def _forward(
        self,
        tokens: np.ndarray,
        positions: np.ndarray,
        blocks: torch.Tensor,
        attend: _Attend,
        arena: ArenaView,
        padded: int,
    ) -> torch.Tensor:
        """Hidden states float32 (padded, hidden) behind the last layer; K and V of the real rows are written, each
        into its block of `blocks`."""
        c = self.config
        arena.require(c.geometry, self._block_size)
        count = tokens.size
        self._rope.reach(int(positions.max()) + 1)
        places = torch.from_numpy(positions.astype(np.int64)).to(self.device)
        cos = pad(self._rope.cos[places], (0, 0, 0, padded - count)).unsqueeze(1)
        sin = pad(self._rope.sin[places], (0, 0, 0, padded - count)).unsqueeze(1)
        planes = KVPlanes(arena)
        slots = places % self._block_size
        ids = pad(torch.from_numpy(tokens.astype(np.int64)).to(self.device), (0, padded - count))
        hidden = self._weights.embedding.pick(ids)
        for index, layer in enumerate(self._weights.layers):
            projected = self._linear(self._norm(hidden, layer.input_norm), layer.qkv)
            if layer.qkv_bias is not None:
                projected = projected + layer.qkv_bias
            heads = projected.view(padded, c.heads + 2 * c.kv_heads, c.head_dim)
            q, k, v = heads.split((c.heads, c.kv_heads, c.kv_heads), dim=1)
            if layer.q_norm is not None and layer.k_norm is not None:
                q, k = self._norm(q, layer.q_norm), self._norm(k, layer.k_norm)
            q, k = _rotate(q, cos, sin), _rotate(k, cos, sin)
            planes.write(index, blocks, slots, k[:count], v[:count])
            attended = attend(q[:count].to(self._compute), index, planes)
            hidden = hidden + self._linear(pad(attended, (0, 0, 0, padded - count)), layer.out)
            gate, up = self._linear(self._norm(hidden, layer.post_norm), layer.gate_up).chunk(2, dim=-1)
            hidden = hidden + self._linear(silu(gate) * up, layer.down)
        return hidden

    def _linear(self, x: torch.Tensor, weight: Weight) -> torch.Tensor:
        return self._ops.linear(x.to(self._compute), weight)

    def _logits(self, hidden: torch.Tensor) -> torch.Tensor:
        return self._linear(self._norm(hidden, self._weights.final_norm), self._weights.head)

    def _norm(self, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + self.config.rms_norm_eps) * weight


def _rotate(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """x (rows, heads, dim), half-split; cos, sin (rows, 1, dim / 2)."""
    a, b = x.chunk(2, dim=-1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), dim=-1)
