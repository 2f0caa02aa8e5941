"""The tensors a model of a given shape must have, and the check that a file has them."""

import math
from collections.abc import Mapping

from engine.errors import ModelError
from engine.models.config import ModelConfig
from engine.models.rope import check_rope

Shape = tuple[int, ...]

_SIZES = ["hidden_size", "intermediate_size", "layers", "heads", "kv_heads", "head_dim", "vocab_size", "max_context"]


def expected_shapes(config: ModelConfig) -> dict[str, Shape]:
    """Canonical tensor name -> shape, linear weights as (out, in); `lm_head.weight` only when untied."""
    hidden, inner = config.hidden_size, config.intermediate_size
    q, kv = config.heads * config.head_dim, config.kv_heads * config.head_dim
    shapes: dict[str, Shape] = {
        "model.embed_tokens.weight": (config.vocab_size, hidden),
        "model.norm.weight": (hidden,),
    }
    if not config.tied_head:
        shapes["lm_head.weight"] = (config.vocab_size, hidden)
    for layer in range(config.layers):
        at = f"model.layers.{layer}."
        shapes |= {
            f"{at}input_layernorm.weight": (hidden,),
            f"{at}post_attention_layernorm.weight": (hidden,),
            f"{at}self_attn.q_proj.weight": (q, hidden),
            f"{at}self_attn.k_proj.weight": (kv, hidden),
            f"{at}self_attn.v_proj.weight": (kv, hidden),
            f"{at}self_attn.o_proj.weight": (hidden, q),
            f"{at}mlp.gate_proj.weight": (inner, hidden),
            f"{at}mlp.up_proj.weight": (inner, hidden),
            f"{at}mlp.down_proj.weight": (hidden, inner),
        }
        if config.qkv_bias:
            shapes |= {f"{at}self_attn.{part}_proj.bias": (rows,) for part, rows in (("q", q), ("k", kv), ("v", kv))}
        if config.qk_norm:
            shapes |= {f"{at}self_attn.{part}_norm.weight": (config.head_dim,) for part in "qk"}
    return shapes


def check_shapes(config: ModelConfig, found: Mapping[str, Shape], file: str) -> None:
    """Raises ModelError that names the first tensor that is missing, of another shape, or not part of the model."""
    if config.layers > len(found):
        raise ModelError(
            f"{file}: the configuration states {config.layers:,} layers but the file has {len(found):,} tensors; file "
            "and configuration do not belong together."
        )
    expected = expected_shapes(config)
    for name, shape in expected.items():
        if name not in found:
            raise ModelError(f"{file}: tensor {name} is missing; the file is incomplete, download it again.")
        if found[name] != shape:
            raise ModelError(
                f"{file}: tensor {name} has shape {list(found[name])}, but the model's configuration asks for "
                f"{list(shape)}; file and configuration do not belong together."
            )
    for name in found:
        if name not in expected:
            raise ModelError(
                f"{file}: tensor {name} is not part of the {config.architecture} architecture and would be left out "
                "of the computation; run this model on the vLLM backend."
            )


def check_config(config: ModelConfig, file: str) -> ModelConfig:
    """Raises ModelError when the numbers cannot describe a model; returns the configuration otherwise."""
    for field in _SIZES:
        value = getattr(config, field)
        if value < 1:
            raise ModelError(f"{file}: {field} is {value}, it must be at least 1; the configuration is corrupt.")
    if config.max_context < 2:
        raise ModelError(f"{file}: max_context is 1, it must be at least 2; the configuration is corrupt.")
    if not (math.isfinite(config.rms_norm_eps) and config.rms_norm_eps > 0):
        raise ModelError(f"{file}: rms_norm_eps is {config.rms_norm_eps:g}, it must be finite and above 0.")
    check_rope(config.rope, file)
    if config.heads % config.kv_heads:
        raise ModelError(f"{file}: {config.heads} query heads do not divide into {config.kv_heads} KV heads.")
    if config.head_dim % 2:
        raise ModelError(f"{file}: head size {config.head_dim} is odd, the rotary embedding needs an even one.")
    return config
