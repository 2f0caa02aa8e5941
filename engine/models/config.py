"""What the engine knows of a model: its shape, its rotary embedding, its end tokens. Built by the readers beside it."""

from dataclasses import dataclass
from typing import Any, Literal

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


_CLASSES: dict[Architecture, str] = {
    "llama": "LlamaForCausalLM",
    "qwen2": "Qwen2ForCausalLM",
    "qwen3": "Qwen3ForCausalLM",
}


def hugging_face_config(config: ModelConfig) -> dict[str, Any]:
    """The same as a config.json, for readers that know no other form."""
    stated: dict[str, Any] = {
        "architectures": [_CLASSES[config.architecture]],
        "model_type": config.architecture,
        "hidden_size": config.hidden_size,
        "intermediate_size": config.intermediate_size,
        "num_hidden_layers": config.layers,
        "num_attention_heads": config.heads,
        "num_key_value_heads": config.kv_heads,
        "head_dim": config.head_dim,
        "vocab_size": config.vocab_size,
        "max_position_embeddings": config.max_context,
        "rms_norm_eps": config.rms_norm_eps,
        "rope_theta": config.rope.theta,
        "tie_word_embeddings": config.tied_head,
        "attention_bias": config.qkv_bias,
        "hidden_act": "silu",
        "eos_token_id": sorted(config.eos_ids),
        "bos_token_id": config.bos_id,
        "dtype": "float32",
    }
    if config.rope.kind != "default":
        stated["rope_scaling"] = {
            "rope_type": config.rope.kind,
            "factor": config.rope.factor,
            "low_freq_factor": config.rope.low_freq_factor,
            "high_freq_factor": config.rope.high_freq_factor,
            "original_max_position_embeddings": config.rope.original_max_position,
        }
    return stated
