"""What the engine knows of a model: its shape, its rotary embedding, its end tokens. Built by the readers beside it."""

from dataclasses import dataclass
from typing import Literal

from engine.geometry import KVGeometry

Architecture = Literal["llama", "qwen2", "qwen3"]


@dataclass(frozen=True, slots=True)
class RopeConfig:
    """Rotary embedding; `linear` divides positions by `factor`, `llama3` scales frequencies by wavelength."""

    theta: float = 10_000.0
    kind: Literal["default", "linear", "llama3"] = "default"
    factor: float = 1.0
    low_freq_factor: float = 1.0
    high_freq_factor: float = 4.0
    original_max_position: int = 8192


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """A decoder of the llama family. `head_dim` is stated, never hidden_size / heads."""

    name: str
    architecture: Architecture
    hidden_size: int
    intermediate_size: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    vocab_size: int
    max_context: int
    rms_norm_eps: float
    rope: RopeConfig
    tied_head: bool
    qkv_bias: bool
    qk_norm: bool
    eos_ids: frozenset[int]
    bos_id: int | None = None

    @property
    def geometry(self) -> KVGeometry:
        return KVGeometry(self.layers, self.kv_heads, self.head_dim)
