"""Rotary embedding: cosines and sines by position, for every executor. Half-split: element d turns with d + dim / 2."""

import torch

from engine.models.config import RopeConfig
from engine.models.rope import llama3_divisors

_STEP = 1024


def inverse_frequencies(rope: RopeConfig, head_dim: int) -> torch.Tensor:
    """float32 (head_dim / 2,): theta^(-2i / dim), divided by `factor` (linear) or by the llama3 divisors."""
    exponents = torch.arange(0, head_dim, 2, dtype=torch.int64).float() / head_dim
    frequencies = 1.0 / (rope.theta**exponents)
    if rope.kind == "linear":
        return frequencies / rope.factor
    if rope.kind == "llama3":
        return frequencies / torch.tensor(llama3_divisors(rope, head_dim), dtype=torch.float32)
    return frequencies


class RopeTable:
    """Cosines and sines float32 (positions, dim / 2), grown by whole steps so that a position's values never depend
    on who asked for them."""

    def __init__(self, rope: RopeConfig, head_dim: int, max_context: int, device: torch.device) -> None:
        self._frequencies = inverse_frequencies(rope, head_dim)
        self._max_context = max_context
        self._device = device
        self.cos = torch.empty(0, head_dim // 2, device=device)
        self.sin = torch.empty(0, head_dim // 2, device=device)
        self.reach(min(max_context, _STEP))

    @property
    def nbytes(self) -> int:
        return self.cos.nbytes + self.sin.nbytes

    def reach(self, positions: int) -> None:
        """Make sure that positions 0..positions-1 are in the table. Raises ValueError above the model's context."""
        known = self.cos.shape[0]
        if positions <= known:
            return
        if positions > self._max_context:
            raise ValueError(f"position {positions - 1} is behind the model's context of {self._max_context} tokens")
        wanted = min(-(-positions // _STEP) * _STEP, self._max_context)
        angles = torch.arange(known, wanted).float().unsqueeze(1) * self._frequencies
        self.cos = torch.cat([self.cos, angles.double().cos().float().to(self._device)])
        self.sin = torch.cat([self.sin, angles.double().sin().float().to(self._device)])
