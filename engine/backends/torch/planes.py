"""K and V in the arena as torch views: strided windows over its bytes, written and read in place."""

import torch

from engine.backends.torch.executor import ArenaView
from engine.geometry import KVDtype

ELEMENT = {KVDtype.FP32: torch.float32, KVDtype.FP16: torch.float16, KVDtype.Q8: torch.int8}
HALF_MAX = 65504.0


class KVPlanes:
    """Views of the values (blocks, layers, 2, kv_heads, block_size, head_dim) and, at q8, of the scales (all but the
    last axis)."""

    def __init__(self, arena: ArenaView) -> None:
        layout = arena.layout
        self._layout = layout
        flat = arena.memory[: arena.blocks * layout.nbytes]
        values = flat.view(ELEMENT[layout.dtype])
        self.values = _window(values, arena.blocks, layout.nbytes // layout.dtype.element_bytes, layout.value_shape)
        self.scales: torch.Tensor | None = None
        if layout.dtype.has_scales:
            floats = flat.view(torch.float32)[layout.scales_offset // 4 :]
            self.scales = _window(floats, arena.blocks, layout.nbytes // 4, layout.scale_shape)

    def write(self, layer: int, blocks: torch.Tensor, slots: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> None:
        """Row i of k and v, float32 (rows, kv_heads, dim), into slot slots[i] of block blocks[i]."""
        for which, x in enumerate((k, v)):
            plane = self.values[:, layer, which]
            if self.scales is not None:
                quantised, scale = quantise(x)
                plane[blocks, :, slots] = quantised
                self.scales[:, layer, which][blocks, :, slots] = scale
            elif self._layout.dtype is KVDtype.FP16:
                plane[blocks, :, slots] = x.clamp(-HALF_MAX, HALF_MAX).half()
            else:
                plane[blocks, :, slots] = x

    def read(self, layer: int, blocks: torch.Tensor, tokens: int) -> tuple[torch.Tensor, torch.Tensor]:
        """K and V of the first `tokens` tokens of a turn, (kv_heads, tokens, dim), float32 at q8, else as stored."""
        used = blocks[: self._layout.blocks_for(tokens)]
        planes = []
        for which in range(2):
            x = self.values[:, layer, which][used]
            if self.scales is not None:
                x = x.float() * self.scales[:, layer, which][used].unsqueeze(-1)
            planes.append(x.transpose(0, 1).flatten(1, 2)[:, :tokens])
        return planes[0], planes[1]


def quantise(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """int8 values and float32 scales over the last axis: amax / 127, round to nearest; a row too small for a normal
    float32 scale becomes zeros, what is not finite the largest finite number."""
    finite = torch.nan_to_num(x)
    scale = finite.abs().amax(-1) / 127.0
    scale = torch.where(scale < torch.finfo(torch.float32).tiny, 0.0, scale)
    inverse = torch.where(scale > 0, 1.0 / scale, 0.0).unsqueeze(-1)
    return (finite * inverse).round().clamp(-127, 127).to(torch.int8), scale


def _window(flat: torch.Tensor, blocks: int, stride: int, shape: tuple[int, ...]) -> torch.Tensor:
    steps = [1]
    for size in reversed(shape[1:]):
        steps.append(steps[-1] * size)
    return flat.as_strided((blocks, *shape), (stride, *reversed(steps)))
