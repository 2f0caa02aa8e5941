"""Outlier keys: channels so large that one scale per token and head leaves the others few of q8's 127 levels.

Qwen2 and some others carry huge key biases in single channels of their first and last layers. This watch measures the
keys that were really written, whatever the precision, so that a switch to q8 is never a silent loss.
"""

import torch

from engine.backends.torch.executor import ArenaView
from engine.backends.torch.planes import ELEMENT

LEAST_LEVELS = 4.0
"""A median channel should get at least this many of the 127 levels."""

LOOKS = 32
"""Prompts that are measured; then the watch rests."""


class OutlierWatch:
    def __init__(self, layers: int) -> None:
        self._ratio = torch.zeros(layers)
        self._looks = 0

    def look(self, arena: ArenaView, block: int, tokens: int) -> None:
        """Measure the keys of the first `tokens` tokens of `block`: largest over median channel per token and head,
        the median over tokens, the worst head of each layer."""
        if self._looks == LOOKS or tokens <= 0:
            return
        self._looks += 1
        layout = arena.layout
        start = block * layout.nbytes
        values = arena.memory[start : start + layout.value_bytes].view(ELEMENT[layout.dtype]).view(layout.value_shape)
        keys = values[:, 0, :, : min(tokens, layout.block_size)].float().abs()
        smallest = 0.5 if layout.dtype.has_scales else torch.finfo(torch.float32).tiny
        ratio = keys.amax(-1) / keys.median(-1).values.clamp_min(smallest)
        self._ratio = torch.maximum(self._ratio, ratio.median(-1).values.amax(-1).cpu())

    def warning(self) -> str | None:
        """One sentence naming the layers, or None."""
        layers = torch.nonzero(self._ratio > 127.0 / LEAST_LEVELS).flatten().tolist()
        if not layers:
            return None
        worst = float(self._ratio.max())
        names = ", ".join(map(str, layers))
        return (
            f"Keys of layer{'s' if len(layers) > 1 else ''} {names} have channels up to {worst:.0f} times the median: "
            f"q8 KV leaves the others fewer than {LEAST_LEVELS:g} levels of 127 there, so keep fp16 for this model."
        )
