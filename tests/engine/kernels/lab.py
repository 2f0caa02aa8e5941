"""What the executors' tests share: models of both libraries by seed, arenas full of garbage, and their driving."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from engine.backends.torch.executor import ArenaView, Executor, Rows
from engine.backends.torch.planes import KVPlanes
from engine.geometry import BlockLayout, KVDtype
from engine.models.config import ModelConfig
from engine.models.resolve import load_model
from tests.models_factory import tiny_hf_model, tiny_torch_model


@dataclass(frozen=True, slots=True)
class Model:
    config: ModelConfig
    weights: Mapping[str, torch.Tensor]


def tiny_pair(path: Path, architecture: str, **overrides: Any) -> tuple[Model, Any]:
    """The same tiny random model as ours and as transformers' (fp32)."""
    loaded = load_model(str(tiny_hf_model(path, architecture, **overrides)))
    return Model(loaded.config, loaded.weights), tiny_torch_model(architecture, **overrides)


def with_key_bias(model: Model, layers: Iterable[int], channels: int, height: float) -> Model:
    """The model with `height` added to the first `channels` key channels of some layers, before the rotation."""
    c = model.config
    weights = dict(model.weights)
    for layer in range(c.layers):
        for name, heads in (("q", c.heads), ("k", c.kv_heads), ("v", c.kv_heads)):
            bias = torch.zeros(heads * c.head_dim)
            if name == "k" and layer in set(layers):
                bias[:channels] = height
            weights[f"model.layers.{layer}.self_attn.{name}_proj.bias"] = bias
    return Model(replace(c, qkv_bias=True), weights)


def arena(executor: Executor, dtype: KVDtype, blocks: int, seed: int = 0) -> ArenaView:
    """An arena whose every byte is random: what was not written must not matter."""
    layout = BlockLayout(executor.config.geometry, dtype)
    random = torch.Generator().manual_seed(seed)
    memory = torch.randint(0, 256, (blocks * layout.nbytes,), dtype=torch.uint8, generator=random)
    return ArenaView(memory.to(executor.device), layout, blocks)


def tokens_for(executor: Executor, count: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, executor.config.vocab_size, count).astype(np.int32)


def scattered(blocks: int, count: int, seed: int = 0) -> np.ndarray:
    """`count` blocks of an arena of `blocks`, in no order."""
    return np.random.default_rng(seed).permutation(blocks)[:count].astype(np.int32)


def one_turn(tokens: np.ndarray, start: int, table: np.ndarray) -> Rows:
    """All tokens of one turn as rows."""
    count = tokens.size
    positions = np.arange(start, start + count, dtype=np.int32)
    return Rows(tokens, positions, table.reshape(1, -1), np.zeros(count, np.int32))


def decode_rows(tokens: list[int], positions: list[int], tables: list[np.ndarray]) -> Rows:
    """One row per turn."""
    table = np.zeros((len(tables), max(t.size for t in tables)), np.int32)
    for row, blocks in enumerate(tables):
        table[row, : blocks.size] = blocks
    return Rows(
        np.array(tokens, np.int32), np.array(positions, np.int32), table, np.arange(len(tables), dtype=np.int32)
    )


def prefill(
    executor: Executor, view: ArenaView, tokens: np.ndarray, table: np.ndarray, chunks: list[int]
) -> np.ndarray:
    """Logits of the last token, computed in chunks of these sizes."""
    assert sum(chunks) == tokens.size
    start = 0
    logits = None
    for size in chunks:
        end = start + size
        logits = executor.prefill(tokens[start:end], start, table, view, last=end == tokens.size)
        start = end
    assert logits is not None
    return logits


def stored(view: ArenaView, table: np.ndarray, tokens: int) -> torch.Tensor:
    """K and V of a turn's first tokens as float32, (layers, 2, kv_heads, tokens, dim)."""
    planes = KVPlanes(view)
    blocks = torch.from_numpy(table.astype(np.int64)).to(view.memory.device)
    layers = [torch.stack(planes.read(i, blocks, tokens)) for i in range(view.layout.geometry.layers)]
    return torch.stack(layers).float().cpu()


def reference(hf: Any, tokens: np.ndarray) -> np.ndarray:
    """transformers' logits, float32 (tokens, vocab)."""
    with torch.inference_mode():
        return hf(torch.from_numpy(tokens.astype(np.int64))[None]).logits[0].float().numpy()
