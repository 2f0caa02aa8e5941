"""Tiny random models for tests: as a Hugging Face directory and as a GGUF file, with the same weights by seed.

`tiny_hf_model(path, "qwen3")` and `tiny_gguf(path, "qwen3")` hold the same model. Overrides are keys of the
transformers configuration, as `num_hidden_layers=1`.
"""

import json
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import torch
from gguf import GGMLQuantizationType
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

SPECIALS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
VOCAB_SIZE = 384
CHAT_TEMPLATE = (
    "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n'}}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
_TEXT = (
    "the quick brown fox jumps over the lazy dog while the engine parks the cache of a turn in the host pool and "
    "brings it back before the next token is due; def decode(self, tokens): return self.text[tokens]"
)
_GGUF_PARTS = {
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
}


@lru_cache(maxsize=1)
def tiny_tokenizer() -> Tokenizer:
    """Byte-level BPE: three markers, the bytes, and merges learnt from a sentence; fewer tokens than embedding rows."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCAB_SIZE,
        special_tokens=list(SPECIALS),
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator([_TEXT], trainer)
    return tokenizer


def tiny_config(architecture: str, **overrides: Any) -> Any:
    """A transformers configuration: 2 layers, 4 query and 2 KV heads; qwen3 with its own head size (32, not 16)."""
    from transformers import LlamaConfig, Qwen2Config, Qwen3Config

    made = {"llama": LlamaConfig, "qwen2": Qwen2Config, "qwen3": Qwen3Config}[architecture]
    settings: dict[str, Any] = {
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "vocab_size": VOCAB_SIZE,
        "max_position_embeddings": 1024,
        "rms_norm_eps": 1e-5,
        "tie_word_embeddings": False,
        "bos_token_id": 1,
        "eos_token_id": 2,
        "pad_token_id": 2,
    }
    if architecture == "qwen3":
        settings["head_dim"] = 32
    return made(**settings | overrides)


def tiny_torch_model(architecture: str, seed: int = 0, **overrides: Any) -> Any:
    """The transformers model in fp32, every parameter random, norms and biases too, so that each one matters."""
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_config(tiny_config(architecture, **overrides), dtype=torch.float32)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in sorted(model.named_parameters()):
            noise = torch.randn(parameter.shape, generator=generator)
            parameter.copy_(1 + 0.1 * noise if "norm" in name else 0.12 * noise)
    return model.eval()


def tiny_hf_model(
    path: Path,
    architecture: str,
    seed: int = 0,
    dtype: torch.dtype = torch.float32,
    shard: str = "1GB",
    **overrides: Any,
) -> Path:
    """Writes config.json, safetensors, tokenizer.json and tokenizer_config.json into the directory and returns it."""
    model = tiny_torch_model(architecture, seed, **overrides).to(dtype)
    model.save_pretrained(path, max_shard_size=shard)
    tiny_tokenizer().save(str(path / "tokenizer.json"))
    settings = {
        "bos_token": SPECIALS[1],
        "eos_token": SPECIALS[2],
        "unk_token": SPECIALS[0],
        "pad_token": SPECIALS[2],
        "tokenizer_class": "PreTrainedTokenizerFast",
        "chat_template": CHAT_TEMPLATE,
    }
    (path / "tokenizer_config.json").write_text(json.dumps(settings), encoding="utf-8")
    return path


def tiny_gguf(
    path: Path,
    architecture: str,
    seed: int = 0,
    kind: GGMLQuantizationType = GGMLQuantizationType.F32,
    metadata: Mapping[str, Any] | None = None,
    tensors: Mapping[str, tuple[np.ndarray, GGMLQuantizationType] | None] | None = None,
    **overrides: Any,
) -> Path:
    """Writes a GGUF file of the same model as llama.cpp's converter would: q and k rows of llama in its rotary order.

    `kind` is the type of the matrices (norms and biases stay F32). `metadata` adds or replaces keys, None drops one.
    `tensors` replaces or adds tensors by their GGUF name as raw bytes or fp32 with a type, None drops one.
    """
    model = tiny_torch_model(architecture, seed, **overrides)
    config = model.config
    written: dict[str, tuple[np.ndarray, GGMLQuantizationType]] = {}
    for name, weight in model.state_dict().items():
        if name == "lm_head.weight" and config.tie_word_embeddings:
            continue
        values = weight.numpy()
        if architecture == "llama" and ("q_proj" in name or "k_proj" in name):
            heads = config.num_attention_heads if "q_proj" in name else config.num_key_value_heads
            values = permuted(values, heads)
        matrix = values.ndim > 1
        written[gguf_name(name)] = (values, kind if matrix else GGMLQuantizationType.F32)
    for name, given in (tensors or {}).items():
        written.pop(name, None)
        if given is not None:
            written[name] = given
    _write(path, architecture, {**_metadata(architecture, config), **(metadata or {})}, written)
    return path


def permuted(values: np.ndarray, heads: int) -> np.ndarray:
    """Rows of a llama query or key matrix in the order that llama.cpp's rotary embedding wants."""
    halves = values.reshape(heads, 2, values.shape[0] // heads // 2, *values.shape[1:])
    return np.ascontiguousarray(halves.swapaxes(1, 2)).reshape(values.shape)


def gguf_name(name: str) -> str:
    """The GGUF name of a Hugging Face parameter."""
    top = {
        "model.embed_tokens.weight": "token_embd.weight",
        "model.norm.weight": "output_norm.weight",
        "lm_head.weight": "output.weight",
    }
    if name in top:
        return top[name]
    _, _, layer, *part, kind = name.split(".")
    return f"blk.{layer}.{_GGUF_PARTS['.'.join(part)]}.{kind}"


def _metadata(architecture: str, config: Any) -> dict[str, Any]:
    tokens, types, merges = _vocabulary()
    head_dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    theta = config.rope_parameters["rope_theta"]
    return {
        f"{architecture}.block_count": config.num_hidden_layers,
        f"{architecture}.context_length": config.max_position_embeddings,
        f"{architecture}.embedding_length": config.hidden_size,
        f"{architecture}.feed_forward_length": config.intermediate_size,
        f"{architecture}.attention.head_count": config.num_attention_heads,
        f"{architecture}.attention.head_count_kv": config.num_key_value_heads,
        f"{architecture}.attention.key_length": head_dim,
        f"{architecture}.attention.value_length": head_dim,
        f"{architecture}.attention.layer_norm_rms_epsilon": float(config.rms_norm_eps),
        f"{architecture}.rope.freq_base": float(theta),
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "gpt-2",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": types,
        "tokenizer.ggml.merges": merges,
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
        "tokenizer.ggml.add_bos_token": False,
        "tokenizer.chat_template": CHAT_TEMPLATE,
    }


def _vocabulary() -> tuple[list[str], list[int], list[str]]:
    model = json.loads(tiny_tokenizer().to_str())["model"]
    tokens = sorted(model["vocab"], key=model["vocab"].__getitem__)
    types = [3 if token in SPECIALS else 1 for token in tokens]
    return tokens, types, [" ".join(pair) for pair in model["merges"]]


def _write(
    path: Path,
    architecture: str,
    metadata: Mapping[str, Any],
    tensors: Mapping[str, tuple[np.ndarray, GGMLQuantizationType]],
) -> None:
    writer = gguf.GGUFWriter(str(path), metadata.get("general.architecture", architecture))
    for key, value in metadata.items():
        if value is None or key == "general.architecture":
            continue
        if isinstance(value, bool):
            writer.add_bool(key, value)
        elif isinstance(value, int):
            writer.add_uint32(key, value)
        elif isinstance(value, float):
            writer.add_float32(key, value)
        elif isinstance(value, str):
            writer.add_string(key, value)
        else:
            writer.add_array(key, value)
    for name, (values, kind) in tensors.items():
        raw = values if values.dtype == np.uint8 else gguf.quantize(values, kind)
        writer.add_tensor(name, raw, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
