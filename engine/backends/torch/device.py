"""The executor for CUDA and ROCm: the same decoder in torch operations over the arena's bytes.

Decode rows go through the linear layers sixteen at a time, padded, and through attention one by one: the shapes that a
row meets depend on its own context alone, so its bits do not depend on its batch. It runs on the CPU too, in fp32,
which is how it is tested without a device.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch.nn.functional import embedding, linear, pad, scaled_dot_product_attention, silu

from engine.backends.torch.executor import KV_DTYPES, ArenaView, Rows
from engine.backends.torch.outliers import OutlierWatch
from engine.backends.torch.planes import KVPlanes
from engine.backends.torch.rope import RopeTable
from engine.backends.torch.weights import Model, checked_tensor
from engine.geometry import BLOCK_SIZE
from engine.models.config import ModelConfig
from engine.models.progress import Progress, Report, silent

ROWS = 16
"""Rows that pass through the linear layers together, always this many."""


@dataclass(frozen=True, slots=True)
class _Layer:
    """Linear weights (out, in) in the compute precision; norms and bias float32."""

    input_norm: torch.Tensor
    qkv: torch.Tensor
    qkv_bias: torch.Tensor | None
    q_norm: torch.Tensor | None
    k_norm: torch.Tensor | None
    out: torch.Tensor
    post_norm: torch.Tensor
    gate_up: torch.Tensor
    down: torch.Tensor

    def tensors(self) -> list[torch.Tensor]:
        own = (getattr(self, name) for name in self.__slots__)
        return [tensor for tensor in own if tensor is not None]


@dataclass(frozen=True, slots=True)
class _Span:
    """Rows first..last-1 of one turn at consecutive positions from `start`, over its blocks."""

    first: int
    last: int
    start: int
    blocks: torch.Tensor


class DeviceExecutor:
    """fp16 weights on a GPU (fp32 in exact mode and on the CPU), activations between layers float32.

    In exact mode a prefill goes row by row through the decode path and gives its bits; in fast mode it is one pass and
    equal for equal chunk boundaries. Raises ModelError for tensors that are missing or misshapen.
    """

    def __init__(
        self,
        model: Model,
        device: torch.device,
        exact: bool = False,
        block_size: int = BLOCK_SIZE,
        progress: Report | None = None,
    ) -> None:
        self.config = model.config
        self.exact = exact
        self.kv_dtypes = KV_DTYPES
        self.device = device
        self._compute = torch.float32 if exact or device.type == "cpu" else torch.float16
        self._report = progress or silent
        self._block_size = block_size
        c = model.config
        self._embedding = self._linear(model, "model.embed_tokens", c.vocab_size, c.hidden_size)
        self._head = self._embedding if c.tied_head else self._linear(model, "lm_head", c.vocab_size, c.hidden_size)
        self._final_norm = self._vector(model, "model.norm.weight", c.hidden_size)
        self._layers = []
        for index in range(c.layers):
            self._report(Progress("load", index / c.layers, f"copying the weights to {device}"))
            self._layers.append(self._layer(model, index))
        self._rope = RopeTable(c.rope, c.head_dim, c.max_context, device)
        self._outliers = OutlierWatch(c.layers)

    @property
    def weights_bytes(self) -> int:
        own = [self._embedding, self._final_norm, *(t for layer in self._layers for t in layer.tensors())]
        return sum(tensor.nbytes for tensor in own) + (0 if self.config.tied_head else self._head.nbytes)

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
        tables = torch.from_numpy(rows.table.astype(np.int64)).to(self.device)
        for first in range(0, rows.tokens.size, ROWS):
            part = slice(first, first + ROWS)
            owners = rows.table_row[part].tolist()
            places = rows.positions[part].tolist()
            spans = [
                _Span(i, i + 1, position, tables[owner])
                for i, (position, owner) in enumerate(zip(places, owners, strict=True))
            ]
            hidden = self._forward(rows.tokens[part], rows.positions[part], spans, arena, ROWS)
            pieces.append(self._logits(hidden)[: len(spans)].cpu().numpy())
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
            hidden = self._forward(tokens, positions, [_Span(0, count, start, blocks)], arena, count)
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
        self, tokens: np.ndarray, positions: np.ndarray, spans: list[_Span], arena: ArenaView, padded: int
    ) -> torch.Tensor:
        """Hidden states float32 (padded, hidden) behind the last layer; K and V of the real rows are written."""
        c = self.config
        arena.require(c.geometry, self._block_size)
        count = tokens.size
        self._rope.reach(int(positions.max()) + 1)
        places = torch.from_numpy(positions.astype(np.int64)).to(self.device)
        cos = pad(self._rope.cos[places], (0, 0, 0, padded - count)).unsqueeze(1)
        sin = pad(self._rope.sin[places], (0, 0, 0, padded - count)).unsqueeze(1)
        planes = KVPlanes(arena)
        slots = places % arena.layout.block_size
        owned = [span.blocks[places[span.first : span.last] // arena.layout.block_size] for span in spans]
        blocks = torch.cat(owned)
        ids = pad(torch.from_numpy(tokens.astype(np.int64)).to(self.device), (0, padded - count))
        hidden = embedding(ids, self._embedding).float()
        for index, layer in enumerate(self._layers):
            x = self._norm(hidden, layer.input_norm)
            projected = linear(x.to(self._compute), layer.qkv).float()
            if layer.qkv_bias is not None:
                projected = projected + layer.qkv_bias
            heads = projected.view(padded, c.heads + 2 * c.kv_heads, c.head_dim)
            q, k, v = heads.split((c.heads, c.kv_heads, c.kv_heads), dim=1)
            if layer.q_norm is not None and layer.k_norm is not None:
                q, k = self._norm(q, layer.q_norm), self._norm(k, layer.k_norm)
            q, k = _rotate(q, cos, sin), _rotate(k, cos, sin)
            planes.write(index, blocks, slots, k[:count], v[:count])
            attended = torch.zeros(padded, c.heads * c.head_dim, dtype=self._compute, device=self.device)
            for span in spans:
                attended[span.first : span.last] = self._attend(q[span.first : span.last], index, span, planes)
            hidden = hidden + linear(attended, layer.out).float()
            gate, up = linear(self._norm(hidden, layer.post_norm).to(self._compute), layer.gate_up).chunk(2, dim=-1)
            hidden = hidden + linear(silu(gate) * up, layer.down).float()
        return hidden

    def _attend(self, q: torch.Tensor, layer: int, span: _Span, planes: KVPlanes) -> torch.Tensor:
        """(rows, heads x dim) of one turn; row i sees positions 0..start + i."""
        count = span.last - span.first
        context = span.start + count
        k, v = (plane.to(self._compute) for plane in planes.read(layer, span.blocks, context))
        mask = None
        if count > 1:
            mask = torch.ones(count, context, dtype=torch.bool, device=self.device).tril_(span.start)
        query = q.to(self._compute).transpose(0, 1).unsqueeze(0)
        out = scaled_dot_product_attention(query, k.unsqueeze(0), v.unsqueeze(0), attn_mask=mask, enable_gqa=True)
        return out.squeeze(0).transpose(0, 1).reshape(count, -1)

    def _logits(self, hidden: torch.Tensor) -> torch.Tensor:
        return linear(self._norm(hidden, self._final_norm).to(self._compute), self._head).float()

    def _norm(self, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + self.config.rms_norm_eps) * weight

    def _layer(self, model: Model, index: int) -> _Layer:
        c: ModelConfig = self.config
        prefix = f"model.layers.{index}"
        sizes = {"q": c.heads * c.head_dim, "k": c.kv_heads * c.head_dim, "v": c.kv_heads * c.head_dim}
        qkv = [self._linear(model, f"{prefix}.self_attn.{n}_proj", size, c.hidden_size) for n, size in sizes.items()]
        bias = None
        if c.qkv_bias:
            bias = torch.cat([self._vector(model, f"{prefix}.self_attn.{n}_proj.bias", s) for n, s in sizes.items()])
        norms: list[torch.Tensor | None] = [None, None]
        if c.qk_norm:
            norms = [self._vector(model, f"{prefix}.self_attn.{n}_norm.weight", c.head_dim) for n in "qk"]
        gates = [f"{prefix}.mlp.{n}_proj" for n in ("gate", "up")]
        return _Layer(
            input_norm=self._vector(model, f"{prefix}.input_layernorm.weight", c.hidden_size),
            qkv=torch.cat(qkv),
            qkv_bias=bias,
            q_norm=norms[0],
            k_norm=norms[1],
            out=self._linear(model, f"{prefix}.self_attn.o_proj", c.hidden_size, c.heads * c.head_dim),
            post_norm=self._vector(model, f"{prefix}.post_attention_layernorm.weight", c.hidden_size),
            gate_up=torch.cat([self._linear(model, name, c.intermediate_size, c.hidden_size) for name in gates]),
            down=self._linear(model, f"{prefix}.mlp.down_proj", c.hidden_size, c.intermediate_size),
        )

    def _linear(self, model: Model, name: str, outputs: int, inputs: int) -> torch.Tensor:
        return checked_tensor(model.weights, f"{name}.weight", (outputs, inputs)).to(self.device, self._compute)

    def _vector(self, model: Model, name: str, count: int) -> torch.Tensor:
        return checked_tensor(model.weights, name, (count,)).to(self.device, torch.float32)


def _rotate(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """x (rows, heads, dim), half-split; cos, sin (rows, 1, dim / 2)."""
    a, b = x.chunk(2, dim=-1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), dim=-1)
