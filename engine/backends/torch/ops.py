"""What the device executor leaves to kernels: linear layers of few rows, and attention of decode rows. In torch
operations, or in Triton's kernels (engine/kernels/gpu/)."""

from dataclasses import dataclass
from typing import Protocol

import torch
from torch.nn.functional import linear, scaled_dot_product_attention

from engine.backends.torch.planes import KVPlanes
from engine.backends.torch.quantised import Int8, Weight, Whole

ROWS = 16
"""Rows that pass through the linear layers together, always this many."""


@dataclass(frozen=True, slots=True)
class Contexts:
    """What each row attends to: its first `tokens` tokens, in the blocks of its row of `tables`, int32 (rows, blocks).
    `lengths`: the same numbers on the device, int32."""

    tables: torch.Tensor
    lengths: torch.Tensor
    tokens: tuple[int, ...]


class Ops(Protocol):
    """A row's bits depend on the row and its context alone, where sixteen rows go through `linear` together."""

    name: str

    def linear(self, x: torch.Tensor, weight: Weight) -> torch.Tensor:
        """x (rows, inputs) in the precision that it is multiplied in; float32 (rows, outputs)."""
        ...

    def attend(self, q: torch.Tensor, layer: int, contexts: Contexts, planes: KVPlanes) -> torch.Tensor:
        """q (rows, heads, dim); (rows, heads x dim) of q's precision."""
        ...


class TorchOps:
    name = "torch"

    def linear(self, x: torch.Tensor, weight: Weight) -> torch.Tensor:
        return linear(x, weight.dense(x.dtype)).float()

    def attend(self, q: torch.Tensor, layer: int, contexts: Contexts, planes: KVPlanes) -> torch.Tensor:
        rows = []
        for row, tokens in enumerate(contexts.tokens):
            k, v = planes.read(layer, contexts.tables[row].long(), tokens)
            rows.append(attend_all(q[row : row + 1], k, v))
        return torch.cat(rows)


class TritonOps:
    name = "triton"

    def linear(self, x: torch.Tensor, weight: Weight) -> torch.Tensor:
        """More rows than the kernels take go through torch, over weights that are whole for as long as that takes."""
        from engine.kernels.gpu.linear import linear_int4, linear_int8

        if x.shape[0] > ROWS or isinstance(weight, Whole):
            return linear(x, weight.dense(x.dtype)).float()
        if isinstance(weight, Int8):
            return linear_int8(x.contiguous(), weight.values, weight.scale)
        return linear_int4(x.contiguous(), weight.packed, weight.scale, weight.offset)

    def attend(self, q: torch.Tensor, layer: int, contexts: Contexts, planes: KVPlanes) -> torch.Tensor:
        from engine.kernels.gpu.attend import Planes, attend

        own = Planes(planes.values, planes.scales, layer)
        return attend(q, contexts.tables, contexts.lengths, max(contexts.tokens), own)


def attend_all(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """q (rows, heads, dim), the last rows of one turn, over its whole k and v (kv_heads, tokens, dim): the last row
    sees all of them, each one before a token less. Returns (rows, heads x dim) of q's precision."""
    count, tokens = q.shape[0], k.shape[1]
    mask = None
    if count > 1:
        mask = torch.ones(count, tokens, dtype=torch.bool, device=q.device).tril_(tokens - count)
    query, key, value = (x.to(q.dtype).unsqueeze(0) for x in (q.transpose(0, 1), k, v))
    out = scaled_dot_product_attention(query, key, value, attn_mask=mask, enable_gqa=True)
    return out.squeeze(0).transpose(0, 1).reshape(count, -1)
