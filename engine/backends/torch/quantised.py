"""Weights of a linear layer as a device holds them: whole, int8 with one scale per output row, or int4 in groups."""

from dataclasses import dataclass

import torch
from torch.nn.functional import pad

GROUP = 32
_HALF = GROUP // 2
_LEVELS = 15


@dataclass(frozen=True, slots=True)
class Whole:
    """`values` (outputs, inputs) in the precision that they are multiplied in."""

    values: torch.Tensor

    @property
    def nbytes(self) -> int:
        return self.values.nbytes

    def dense(self, dtype: torch.dtype) -> torch.Tensor:
        return self.values.to(dtype)

    def pick(self, rows: torch.Tensor) -> torch.Tensor:
        """Some outputs' weights, float32."""
        return self.values[rows].float()


@dataclass(frozen=True, slots=True)
class Int8:
    """`values` int8 (outputs, inputs), `scale` float32 (outputs,)."""

    values: torch.Tensor
    scale: torch.Tensor

    @property
    def nbytes(self) -> int:
        return self.values.nbytes + self.scale.nbytes

    def dense(self, dtype: torch.dtype) -> torch.Tensor:
        out = torch.empty(self.values.shape, dtype=dtype, device=self.values.device)
        return torch.mul(self.values, self.scale.unsqueeze(1), out=out)

    def pick(self, rows: torch.Tensor) -> torch.Tensor:
        """Some outputs' weights, float32."""
        return self.values[rows] * self.scale[rows].unsqueeze(-1)


@dataclass(frozen=True, slots=True)
class Int4:
    """`packed` uint8 (outputs, groups, 16): byte i of a group holds weight i in its low half and weight i + 16 in its
    high half. `scale` and `offset` float16 (outputs, groups): a weight is its four bits times scale plus offset. The
    last group is filled up behind `inputs`."""

    packed: torch.Tensor
    scale: torch.Tensor
    offset: torch.Tensor
    inputs: int

    @property
    def nbytes(self) -> int:
        return self.packed.nbytes + self.scale.nbytes + self.offset.nbytes

    def dense(self, dtype: torch.dtype) -> torch.Tensor:
        bits = torch.cat((self.packed & 15, self.packed >> 4), dim=-1)
        weights = bits * self.scale.float().unsqueeze(-1) + self.offset.float().unsqueeze(-1)
        return weights.flatten(1)[:, : self.inputs].to(dtype)


Weight = Whole | Int8 | Int4


def to_int8(rows: torch.Tensor) -> Int8:
    """float32 (outputs, inputs), rounded to nearest."""
    scale = rows.abs().amax(1) / 127.0
    inverse = scale.clamp_min(torch.finfo(torch.float32).tiny).unsqueeze(1)
    return Int8((rows / inverse).round_().to(torch.int8), scale)


def to_int4(rows: torch.Tensor) -> Int4:
    """float32 (outputs, inputs), rounded to nearest between each group's smallest and largest weight."""
    inputs = rows.shape[1]
    groups = pad(rows, (0, -inputs % GROUP)).unflatten(1, (-1, GROUP))
    offset = groups.amin(-1).half()
    scale = ((groups.amax(-1) - offset) / _LEVELS).half()
    inverse = scale.float().clamp_min(torch.finfo(torch.float32).tiny).unsqueeze(-1)
    bits = ((groups - offset.unsqueeze(-1)) / inverse).round_().clamp_(0, _LEVELS).to(torch.uint8)
    return Int4(bits[..., :_HALF] | bits[..., _HALF:] << 4, scale, offset, inputs)
