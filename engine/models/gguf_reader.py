"""A GGUF file of a served architecture: its configuration, tokenizer and template, and its weights one by one."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from gguf import GGMLQuantizationType, dequantize

from engine.errors import ModelError
from engine.models.architectures import experts_refused, served
from engine.models.config import Architecture, ModelConfig, RopeConfig
from engine.models.gguf_header import GGUFHeader, GGUFTensor, read_header
from engine.models.gguf_tokenizer import build_tokenizer, special_tokens
from engine.models.rope import check_rope, rope_from_divisors, unknown_scaling
from engine.models.shapes import check_config, check_shapes
from engine.models.stated import integer, printable, shown, wrong
from engine.models.template import ChatTemplate
from engine.models.tokenizer import TextTokenizer

_CHUNK_ELEMENTS = 1 << 24
_TOP = {
    "token_embd.weight": "model.embed_tokens.weight",
    "output_norm.weight": "model.norm.weight",
    "output.weight": "lm_head.weight",
}
_PARTS = {
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
    "attn_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm",
}
# Tables that follow from the configuration: the rotary factors are read apart, the rest is recomputed.
_DERIVED = ("rope_freqs.weight", ".attn_rot_embd.weight")
# Scales of other families that share the llama graph; at any other value the result would be silently wrong.
_NEUTRAL = {"logit_scale": 1.0, "residual_scale": 1.0, "embedding_scale": 1.0}


@dataclass(frozen=True, slots=True)
class GGUFWeight:
    """One tensor under its canonical name; `rotary_heads` > 0: its rows are in llama.cpp's order of so many heads."""

    name: str
    tensor: GGUFTensor
    rotary_heads: int = 0


@dataclass(frozen=True, slots=True)
class GGUFModel:
    path: Path
    config: ModelConfig
    tokenizer: TextTokenizer
    template: ChatTemplate | None
    weights: tuple[GGUFWeight, ...]


def read_gguf(path: Path) -> GGUFModel:
    """Everything but the weights' values, checked. Raises ModelError naming file, tensor and reason."""
    header = read_header(path)
    file = str(path)
    architecture = served(header.metadata.get("general.architecture"), file)
    _check_served(header, architecture)
    config = _config(header, architecture)
    weights = _weights(header, config)
    check_shapes(config, {weight.name: weight.tensor.shape for weight in weights}, file)
    tokenizer = build_tokenizer(header.metadata, config.vocab_size, file)
    source = header.metadata.get("tokenizer.chat_template")
    if source is not None and not isinstance(source, str):
        raise wrong(header.metadata, "tokenizer.chat_template", file, "not a text")
    template = ChatTemplate(source, special_tokens(header.metadata)) if source else None
    return GGUFModel(path, _with_ends(config, tokenizer), tokenizer, template, weights)


def weight_rows(path: Path, weight: GGUFWeight, head_dim: int) -> Iterator[np.ndarray]:
    """The values of one tensor in row order, some rows at a time.

    Quantized tensors as fp32, F32 and F16 as they are, BF16 as its bits in uint16. Raises ModelError on a value that
    is not finite.
    """
    tensor = weight.tensor
    raw = np.memmap(path, np.uint8, "r", tensor.offset, (tensor.nbytes,)).reshape(_rows(tensor), -1)
    step = len(raw) if weight.rotary_heads else max(1, _CHUNK_ELEMENTS // tensor.shape[-1])
    for start in range(0, len(raw), step):
        values = _values(raw[start : start + step], tensor)
        _check_finite(path, tensor, values)
        yield _half_split(values, weight.rotary_heads, head_dim) if weight.rotary_heads else values


def _rows(tensor: GGUFTensor) -> int:
    return int(np.prod(tensor.shape[:-1], dtype=np.int64))


def _values(raw: np.ndarray, tensor: GGUFTensor) -> np.ndarray:
    if tensor.type == GGMLQuantizationType.BF16:
        return raw.view(np.uint16)
    if tensor.type == GGMLQuantizationType.F16:
        return raw.view(np.float16)
    if tensor.type == GGMLQuantizationType.F32:
        return raw.view(np.float32)
    return np.asarray(dequantize(raw, tensor.type), np.float32)


def _check_finite(path: Path, tensor: GGUFTensor, values: np.ndarray) -> None:
    bits = values.dtype == np.uint16
    finite = ((values & 0x7F80) != 0x7F80).all() if bits else np.isfinite(values).all()
    if not finite:
        raise ModelError(f"{path}: tensor {tensor.name} holds values that are not finite; the file is corrupt.")


def _half_split(values: np.ndarray, heads: int, head_dim: int) -> np.ndarray:
    """Rows from llama.cpp's interleaved rotary pairs back to the half-split order of config.json models."""
    paired = values.reshape(heads, head_dim // 2, 2, -1)
    return np.ascontiguousarray(paired.swapaxes(1, 2)).reshape(values.shape)


def _check_served(header: GGUFHeader, architecture: Architecture) -> None:
    metadata, file = header.metadata, str(header.path)
    if (parts := integer(metadata, "split.count", file, 0)) > 1:
        raise ModelError(f"{file}: one of {parts} parts of a split file; join them with llama-gguf-split --merge.")
    if metadata.get(f"{architecture}.expert_count", 0):
        raise experts_refused(architecture, file)
    for key, neutral in _NEUTRAL.items():
        if metadata.get(f"{architecture}.{key}", neutral) not in (0, neutral):
            raise ModelError(f"{file}: {architecture}.{key} is set, which is not served; run it on the vLLM backend.")
    window = integer(metadata, f"{architecture}.attention.sliding_window", file, 0)
    if window and window < integer(metadata, f"{architecture}.context_length", file, 0):
        raise ModelError(
            f"{file}: attention slides over {window:,} tokens; this engine attends to the whole context, so run it on "
            "the vLLM backend."
        )


def _config(header: GGUFHeader, architecture: Architecture) -> ModelConfig:
    file, tensors = str(header.path), header.tensors
    key = _Keys(header, architecture)
    heads = key.integer("attention.head_count")
    hidden = key.integer("embedding_length")
    head_dim = key.integer("attention.key_length", hidden // max(1, heads))
    for other in ("attention.value_length", "rope.dimension_count"):
        if key.integer(other, head_dim) != head_dim:
            raise ModelError(
                f"{file}: {architecture}.{other} differs from the head size {head_dim}, which is not served; "
                "run it on the vLLM backend."
            )
    if "token_embd.weight" not in tensors:
        raise ModelError(f"{file}: tensor token_embd.weight is missing; the file is incomplete, download it again.")
    config = ModelConfig(
        name=printable(header.path.stem),
        architecture=architecture,
        hidden_size=hidden,
        intermediate_size=key.integer("feed_forward_length"),
        layers=key.integer("block_count"),
        heads=heads,
        kv_heads=key.integer("attention.head_count_kv", heads),
        head_dim=head_dim,
        vocab_size=tensors["token_embd.weight"].shape[0],
        max_context=key.integer("context_length"),
        rms_norm_eps=key.number("attention.layer_norm_rms_epsilon"),
        rope=_rope(header, key, head_dim),
        tied_head="output.weight" not in tensors,
        qkv_bias="blk.0.attn_q.bias" in tensors,
        qk_norm=architecture == "qwen3",
        eos_ids=frozenset(),
    )
    return check_config(config, file)


def _with_ends(config: ModelConfig, tokenizer: TextTokenizer) -> ModelConfig:
    return replace(config, eos_ids=tokenizer.eos_ids, bos_id=tokenizer.bos_id)


@dataclass(frozen=True, slots=True)
class _Keys:
    """Metadata of the architecture, by the part of the key after its name."""

    header: GGUFHeader
    architecture: str

    def get(self, name: str) -> Any:
        return self.header.metadata.get(f"{self.architecture}.{name}")

    def integer(self, name: str, default: int | None = None) -> int:
        value = self.get(name)
        if isinstance(value, list) and value and all(item == value[0] for item in value):
            value = value[0]
        if value is None and default is not None:
            return default
        if not isinstance(value, int) or isinstance(value, bool):
            raise self._bad(name, value)
        return value

    def number(self, name: str, default: float | None = None) -> float:
        value = self.get(name)
        if value is None and default is not None:
            return default
        if not isinstance(value, int | float) or isinstance(value, bool) or not math.isfinite(value):
            raise self._bad(name, value)
        return float(value)

    def _bad(self, name: str, value: object) -> ModelError:
        told = "is missing" if value is None else f"is {shown(value, 40)}, one finite number is served"
        return ModelError(f"{self.header.path}: key {self.architecture}.{name} {told}; choose another file.")


def _rope(header: GGUFHeader, key: _Keys, head_dim: int) -> RopeConfig:
    file = str(header.path)
    theta = check_rope(RopeConfig(theta=key.number("rope.freq_base", 10_000.0)), file).theta
    kind = key.get("rope.scaling.type") or "none"
    factor = key.number("rope.scaling.factor", key.number("rope.scale_linear", 0.0))
    table = header.tensors.get("rope_freqs.weight")
    if kind not in ("none", "linear"):
        raise unknown_scaling(file, kind)
    # A factor without a kind is the older way to write linear scaling.
    scaled = factor not in (0.0, 1.0) and (kind == "linear" or key.get("rope.scaling.type") is None)
    if table is None:
        return RopeConfig(theta=theta, kind="linear", factor=factor) if scaled else RopeConfig(theta=theta)
    divisors = np.concatenate(list(weight_rows(header.path, GGUFWeight(table.name, table), head_dim))).reshape(-1)
    if scaled:
        raise ModelError(f"{file}: linear scaling together with rope_freqs.weight is not served; choose another file.")
    return rope_from_divisors([float(divisor) for divisor in divisors], theta, head_dim, file)


def _weights(header: GGUFHeader, config: ModelConfig) -> tuple[GGUFWeight, ...]:
    rotary = {"attn_q": config.heads, "attn_k": config.kv_heads} if config.architecture == "llama" else {}
    return tuple(_weight(tensor, rotary) for tensor in header.tensors.values() if not tensor.name.endswith(_DERIVED))


def _weight(tensor: GGUFTensor, rotary: Mapping[str, int]) -> GGUFWeight:
    """Unknown names are kept as they are, for the shape check to refuse by name."""
    if tensor.name in _TOP:
        return GGUFWeight(_TOP[tensor.name], tensor)
    match tensor.name.split("."):
        case ["blk", layer, part, ("weight" | "bias") as kind] if part in _PARTS:
            return GGUFWeight(f"model.layers.{layer}.{_PARTS[part]}.{kind}", tensor, rotary.get(part, 0))
    return GGUFWeight(tensor.name, tensor)
