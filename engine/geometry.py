"""Shape and size of the KV cache: what a token costs, how a block is laid out in bytes.

Bytes per token = 2 (K and V) x KV layers x KV heads x head dim x bytes per element, plus the scales at q8. It follows
the attention shape, never the parameter count.
"""

from dataclasses import dataclass
from enum import StrEnum

BLOCK_SIZE = 16
SCALE_BYTES = 4
ALIGNMENT = 64
MOST_UNIT_BYTES = 2 << 20
"""One worker copies and sums a whole unit of the host pool: of larger ones a move has too few for all."""


class KVDtype(StrEnum):
    """Precision of the KV cache. Operators switch between FP16 and Q8; FP32 is for exact mode and tests, and like BF16
    for models that a backend runs in that precision."""

    FP32 = "fp32"
    BF16 = "bf16"
    FP16 = "fp16"
    Q8 = "q8"

    @property
    def switchable(self) -> bool:
        """An operator may choose it."""
        return self in (KVDtype.FP16, KVDtype.Q8)

    @property
    def element_bytes(self) -> int:
        return {KVDtype.FP32: 4, KVDtype.BF16: 2, KVDtype.FP16: 2, KVDtype.Q8: 1}[self]

    @property
    def has_scales(self) -> bool:
        """int8, round to nearest, one fp32 scale per token and head, K and V apart."""
        return self is KVDtype.Q8


@dataclass(frozen=True, slots=True)
class KVGeometry:
    """The part of a model's shape that decides what a token's KV costs."""

    layers: int
    kv_heads: int
    head_dim: int

    def bytes_per_token(self, dtype: KVDtype) -> int:
        """Scales included, block padding not."""
        per_head = self.head_dim * dtype.element_bytes + (SCALE_BYTES if dtype.has_scales else 0)
        return 2 * self.layers * self.kv_heads * per_head


@dataclass(frozen=True, slots=True)
class BlockLayout:
    """One block: K and V of `block_size` tokens for ALL layers, contiguous, its scales at its end.

    Values: (layers, 2, kv_heads, block_size, head_dim), index 0 of axis 1 is K, 1 is V. At q8 the scales follow as
    fp32 (layers, 2, kv_heads, block_size), starting at `scales_offset`, which is aligned to 64 bytes, as is `nbytes`.
    """

    geometry: KVGeometry
    dtype: KVDtype
    block_size: int = BLOCK_SIZE

    @property
    def value_shape(self) -> tuple[int, int, int, int, int]:
        g = self.geometry
        return (g.layers, 2, g.kv_heads, self.block_size, g.head_dim)

    @property
    def scale_shape(self) -> tuple[int, int, int, int]:
        return self.value_shape[:4]

    @property
    def scale_count(self) -> int:
        g = self.geometry
        return g.layers * 2 * g.kv_heads * self.block_size if self.dtype.has_scales else 0

    @property
    def value_bytes(self) -> int:
        g = self.geometry
        return g.layers * 2 * g.kv_heads * self.block_size * g.head_dim * self.dtype.element_bytes

    @property
    def scales_offset(self) -> int:
        return _align(self.value_bytes)

    @property
    def nbytes(self) -> int:
        return _align(self.scales_offset + self.scale_count * SCALE_BYTES)

    def blocks_in(self, nbytes: int) -> int:
        """Whole blocks that `nbytes` hold."""
        return nbytes // self.nbytes

    def blocks_for(self, tokens: int) -> int:
        return blocks_for(tokens, self.block_size)


def blocks_for(tokens: int, block_size: int = BLOCK_SIZE) -> int:
    """Blocks that `tokens` tokens occupy."""
    return -(-tokens // block_size)


def _align(nbytes: int) -> int:
    return -(-nbytes // ALIGNMENT) * ALIGNMENT


def unit_of(block_bytes: int) -> int:
    """A unit of a host pool for blocks of so many bytes: the block, or as many aligned parts of it as keep each within
    MOST_UNIT_BYTES."""
    parts = -(-block_bytes // MOST_UNIT_BYTES)
    return _align(-(-block_bytes // parts))
