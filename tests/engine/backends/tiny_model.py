"""A tiny random llama that the real executors run: its tokens mean nothing, its arithmetic is the real one."""

from dataclasses import dataclass

import torch

from engine.models.config import ModelConfig, RopeConfig
from engine.models.shapes import expected_shapes


@dataclass(frozen=True, slots=True)
class TinyModel:
    config: ModelConfig
    weights: dict[str, torch.Tensor]


def tiny_model(seed: int = 0) -> TinyModel:
    config = ModelConfig(
        name="tiny",
        architecture="llama",
        hidden_size=64,
        intermediate_size=96,
        layers=3,
        heads=6,
        kv_heads=2,
        head_dim=32,
        vocab_size=128,
        max_context=1024,
        rms_norm_eps=1e-5,
        rope=RopeConfig(),
        tied_head=True,
        qkv_bias=False,
        qk_norm=False,
        eos_ids=frozenset({0}),
    )
    random = torch.Generator().manual_seed(seed)
    weights = {
        name: torch.randn(shape, generator=random) * (1.0 if "embed" in name else 0.15)
        + (1.0 if "norm" in name else 0.0)
        for name, shape in expected_shapes(config).items()
    }
    return TinyModel(config, weights)
