"""A small executor whose tokens depend on every byte of a turn's KV.

It writes whole numbers from -127 to 127 as K and V, each row's largest being 127: fp32, fp16 and q8 (scale 1) all hold
them exactly. Logits come from a checksum over all values read back through the block table, so that a block lost,
swapped, garbled or read at the wrong precision changes the tokens. `expected_tokens` gives the right ones without any
memory at all.
"""

from collections.abc import Callable, Sequence

import numpy as np
import torch

from engine.backends.torch.executor import KV_DTYPES, ArenaView, Rows
from engine.geometry import BlockLayout, KVDtype, KVGeometry
from engine.models.config import ModelConfig, RopeConfig

VOCAB = 97
GEOMETRY = KVGeometry(layers=2, kv_heads=2, head_dim=16)
MAX_CONTEXT = 2048
_NUMPY = {KVDtype.FP32: np.float32, KVDtype.FP16: np.float16, KVDtype.Q8: np.int8}
_PRIME = np.int64(1_000_003)


def fake_config(geometry: KVGeometry = GEOMETRY, max_context: int = MAX_CONTEXT) -> ModelConfig:
    return ModelConfig(
        name="fake",
        architecture="llama",
        hidden_size=geometry.head_dim * geometry.kv_heads,
        intermediate_size=64,
        layers=geometry.layers,
        heads=geometry.kv_heads,
        kv_heads=geometry.kv_heads,
        head_dim=geometry.head_dim,
        vocab_size=VOCAB,
        max_context=max_context,
        rms_norm_eps=1e-5,
        rope=RopeConfig(),
        tied_head=True,
        qkv_bias=False,
        qk_norm=False,
        eos_ids=frozenset({0}),
    )


def kv_values(token: int, position: int, geometry: KVGeometry = GEOMETRY) -> np.ndarray:
    """int64 (layers, 2, kv_heads, head_dim) in -127..127, the first of each row 127."""
    shape = (geometry.layers, 2, geometry.kv_heads, geometry.head_dim)
    index = np.arange(np.prod(shape), dtype=np.int64)
    values = ((token + 1) * 7919 + (position + 1) * 104_729 + index * 31_337) * 2_654_435_761 % 4_294_967_296
    values = (values >> 8) % 255 - 127
    out = values.reshape(shape)
    out[..., 0] = 127
    return out


def _digest(values: np.ndarray) -> int:
    """Of int64 (tokens, layers, 2, kv_heads, head_dim)."""
    weight = (np.arange(values.size, dtype=np.int64) * 2_654_435_761 + 12_345) % _PRIME
    return int((values.reshape(-1) * weight % _PRIME).sum() % _PRIME)


def _logits(digest: int) -> np.ndarray:
    order = (np.arange(VOCAB, dtype=np.int64) * 48_271 + digest) * 69_621 % _PRIME
    return (order.astype(np.float32) / np.float32(_PRIME)) * 6


def expected_logits(tokens: Sequence[int]) -> np.ndarray:
    return _logits(_digest(np.stack([kv_values(token, at) for at, token in enumerate(tokens)])))


def expected_tokens(prompt: Sequence[int], count: int) -> list[int]:
    """Greedy continuation of an undisturbed turn."""
    tokens = list(prompt)
    for _ in range(count):
        tokens.append(int(np.argmax(expected_logits(tokens))))
    return tokens[len(prompt) :]


class FakeExecutor:
    """`Executor` over numpy. `fail`: called with the tokens of each rows/prefill call, may raise. `spoil`: called with
    a turn's whole count of tokens and its logits, may change them in place."""

    kv_dtypes = KV_DTYPES
    weights_bytes = 1000
    runtime_bytes = 100

    def __init__(self, exact: bool = True, max_context: int = MAX_CONTEXT) -> None:
        self.config = fake_config(max_context=max_context)
        self.exact = exact
        self.calls: list[tuple[str, int]] = []
        self.warn: str | None = None
        self.fail: Callable[[np.ndarray], None] = lambda tokens: None
        self.spoil: Callable[[int, np.ndarray], None] = lambda count, logits: None

    @property
    def device(self) -> torch.device:
        return torch.device("cpu")

    def rows(self, rows: Rows, arena: ArenaView) -> np.ndarray:
        self.calls.append(("rows", len(rows.tokens)))
        self.fail(rows.tokens)
        out = []
        for token, position, row in zip(rows.tokens, rows.positions, rows.table_row, strict=True):
            table = rows.table[row]
            _write(arena, table, int(position), int(token))
            out.append(self._read(arena, table, int(position) + 1))
        return np.stack(out)

    def prefill(
        self, tokens: np.ndarray, start: int, table: np.ndarray, arena: ArenaView, last: bool
    ) -> np.ndarray | None:
        self.calls.append(("prefill", len(tokens)))
        self.fail(tokens)
        for offset, token in enumerate(tokens):
            _write(arena, table, start + offset, int(token))
        return self._read(arena, table, start + len(tokens)) if last else None

    def _read(self, arena: ArenaView, table: np.ndarray, count: int) -> np.ndarray:
        logits = _logits(_digest(read_kv(arena, table, count)))
        self.spoil(count, logits)
        return logits

    def outlier_warning(self) -> str | None:
        return self.warn

    def warm_up(self, arena: ArenaView) -> None:
        self.calls.append((f"warm {arena.layout.dtype}", 0))


def block_values(memory: np.ndarray, layout: BlockLayout, block: int) -> tuple[np.ndarray, np.ndarray]:
    """Views of one block: values (layers, 2, kv_heads, block_size, head_dim) and scales (…, block_size), or ones."""
    raw = memory[block * layout.nbytes : (block + 1) * layout.nbytes]
    values = raw[: layout.value_bytes].view(_NUMPY[layout.dtype]).reshape(layout.value_shape)
    if not layout.dtype.has_scales:
        return values, np.ones(layout.scale_shape, np.float32)
    scales = raw[layout.scales_offset : layout.scales_offset + 4 * layout.scale_count].view(np.float32)
    return values, scales.reshape(layout.scale_shape)


def _write(arena: ArenaView, table: np.ndarray, position: int, token: int) -> None:
    size = arena.layout.block_size
    values, scales = block_values(arena.memory.numpy(), arena.layout, int(table[position // size]))
    values[:, :, :, position % size, :] = kv_values(token, position)
    if arena.layout.dtype.has_scales:
        scales[:, :, :, position % size] = 1.0


def read_kv(arena: ArenaView, table: Sequence[int] | np.ndarray, count: int) -> np.ndarray:
    """int64 (count, layers, 2, kv_heads, head_dim), rounded; what is no number counts as 999."""
    size = arena.layout.block_size
    out = []
    for position in range(count):
        values, scales = block_values(arena.memory.numpy(), arena.layout, int(table[position // size]))
        row = values[:, :, :, position % size, :].astype(np.float32) * scales[:, :, :, position % size, None]
        out.append(np.nan_to_num(np.rint(row), nan=999, posinf=999, neginf=999).clip(-999, 999).astype(np.int64))
    return np.stack(out)
