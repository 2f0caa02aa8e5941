"""GGUF files: L2 rotary order, L3 tied and own heads, L4 end tokens, all tensor types, rotary scaling."""

from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
import torch
from gguf import GGMLQuantizationType

from engine.errors import ModelError
from engine.models.config import Architecture, RopeConfig
from engine.models.fetch import default_model_file
from engine.models.gguf_header import read_header
from engine.models.loaded import LoadedModel
from engine.models.progress import silent
from engine.models.resolve import load_model
from engine.models.rope import llama3_divisors, rope_from_divisors
from tests.models_factory import permuted, tiny_gguf, tiny_hf_model, tiny_tokenizer, tiny_torch_model

ARCHITECTURES: list[Architecture] = ["llama", "qwen2", "qwen3"]
F32, F16, BF16, Q4_1, Q8_0 = (GGMLQuantizationType[name] for name in ("F32", "F16", "BF16", "Q4_1", "Q8_0"))


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("tied", [False, True])
def test_gguf_and_safetensors_of_one_model_are_the_same(
    tmp_path: Path, own_cache: Path, architecture: Architecture, tied: bool
) -> None:
    """9 query and 3 KV heads, as the default model: undoing the rotary order with the wrong count would show."""
    shape: dict[str, Any] = {
        "num_attention_heads": 9,
        "num_key_value_heads": 3,
        "hidden_size": 144,
        "tie_word_embeddings": tied,
    }
    file = tiny_gguf(tmp_path / "x.gguf", architecture, **shape)
    directory = tiny_hf_model(tmp_path / "hf", architecture, **shape)
    ours, theirs = load_model(str(file)), load_model(str(directory))
    assert ours.weights.keys() == theirs.weights.keys()
    for name, weight in theirs.weights.items():
        assert torch.equal(ours.weights[name], weight), name
    for field in (
        "hidden_size",
        "heads",
        "kv_heads",
        "head_dim",
        "rope",
        "tied_head",
        "qkv_bias",
        "qk_norm",
        "eos_ids",
        "bos_id",
    ):
        assert getattr(ours.config, field) == getattr(theirs.config, field), field
    assert ours.config.rms_norm_eps == pytest.approx(theirs.config.rms_norm_eps, rel=1e-6)
    assert ("lm_head.weight" in ours.weights) is not tied


def test_f16_file_keeps_f16_within_its_rounding(tmp_path: Path, own_cache: Path) -> None:
    ours = load_model(str(tiny_gguf(tmp_path / "x.gguf", "llama", kind=F16)))
    for name, weight in tiny_torch_model("llama").state_dict().items():
        stored = ours.weights[name]
        assert stored.dtype == (torch.float16 if weight.ndim > 1 else torch.float32)
        assert (stored.float() - weight).abs().max() <= 1e-3


def test_default_model_rotary_order(default_model: LoadedModel) -> None:
    """Row h*64 + s*32 + i of the served matrix is row h*64 + 2*i + s of the file, for query and key alike."""
    file = default_model_file(silent)
    tensors = read_header(file).tensors
    for part, heads in (("q", 9), ("k", 3)):
        tensor = tensors[f"blk.3.attn_{part}.weight"]
        raw = np.fromfile(file, np.uint8, tensor.nbytes, offset=tensor.offset).reshape(tensor.shape[0], -1)
        stored = gguf.dequantize(raw, tensor.type)
        order = [head * 64 + 2 * at + half for head in range(heads) for half in range(2) for at in range(32)]
        served = default_model.weights[f"model.layers.3.self_attn.{part}_proj.weight"].float().numpy()
        np.testing.assert_array_equal(served, stored[order])


def test_default_model_is_known_in_full(default_model: LoadedModel) -> None:
    config = default_model.config
    assert (config.layers, config.heads, config.kv_heads, config.head_dim) == (30, 9, 3, 64)
    assert (config.hidden_size, config.intermediate_size, config.vocab_size) == (576, 1536, 49152)
    assert config.max_context == 8192
    assert config.rope == RopeConfig(theta=100_000.0)
    assert config.tied_head
    assert "lm_head.weight" not in default_model.weights
    names = {tuple(default_model.tokenizer.decode([index], skip_special=False) for index in sorted(config.eos_ids))}
    assert names == {("<|endoftext|>", "<|im_end|>")}
    assert default_model.tokenizer.token_id("<|im_start|>") not in config.eos_ids
    assert "exactly" in default_model.note


def test_an_own_head_is_used_even_beside_the_embeddings(tmp_path: Path, own_cache: Path) -> None:
    own = np.random.default_rng(1).normal(size=(384, 64)).astype(np.float32)
    file = tiny_gguf(tmp_path / "x.gguf", "llama", tensors={"output.weight": (own, F32)}, tie_word_embeddings=True)
    loaded = load_model(str(file))
    assert not loaded.config.tied_head
    np.testing.assert_array_equal(loaded.weights["lm_head.weight"].numpy(), own)
    assert not torch.equal(loaded.weights["lm_head.weight"], loaded.weights["model.embed_tokens.weight"])


def test_several_end_tokens_whatever_the_file_states(tmp_path: Path, own_cache: Path) -> None:
    for stated in (0, 2):
        file = tiny_gguf(tmp_path / f"{stated}.gguf", "qwen2", metadata={"tokenizer.ggml.eos_token_id": stated})
        assert load_model(str(file)).config.eos_ids == {0, 2}
    turn_end = tiny_tokenizer().token_to_id("the")
    assert turn_end is not None
    metadata = {"tokenizer.ggml.eot_token_id": turn_end, "tokenizer.ggml.eos_token_id": 10**6}
    loaded = load_model(str(tiny_gguf(tmp_path / "eot.gguf", "qwen2", metadata=metadata)))
    assert loaded.config.eos_ids == {0, 2, turn_end}
    assert loaded.tokenizer.decode([turn_end, 2, 0]) == ""


def _types() -> list[GGMLQuantizationType]:
    found = []
    for kind in GGMLQuantizationType:
        try:
            gguf.dequantize(np.zeros(gguf.GGML_QUANT_SIZES[kind][1], np.uint8), kind)
        except NotImplementedError:
            continue
        found.append(kind)
    return found


@pytest.mark.parametrize("kind", _types(), ids=lambda kind: kind.name)
def test_every_type_that_gguf_dequantizes(tmp_path: Path, own_cache: Path, kind: GGMLQuantizationType) -> None:
    shape = (256, 256)
    raw_shape = gguf.quant_shape_to_byte_shape(shape, kind)
    # Bytes up to 0x3F are finite wherever a block keeps its scale, in any float format.
    raw = np.random.default_rng(0).integers(0, 0x40, raw_shape, np.uint8)
    sizes: dict[str, Any] = {
        "hidden_size": 256,
        "num_hidden_layers": 1,
        "intermediate_size": 256,
        "num_attention_heads": 4,
    }
    names = ["blk.0.ffn_down.weight", "blk.0.attn_k.weight"]
    given = {names[0]: (raw, kind), names[1]: (raw[: 256 // 2], kind)}
    loaded = load_model(str(tiny_gguf(tmp_path / "x.gguf", "llama", tensors=given, **sizes)))
    wanted = gguf.dequantize(raw, kind).astype(np.float32).reshape(shape)
    got = loaded.weights["model.layers.0.mlp.down_proj.weight"]
    np.testing.assert_array_equal(got.float().numpy(), wanted)
    keys = loaded.weights["model.layers.0.self_attn.k_proj.weight"].float().numpy()
    np.testing.assert_array_equal(permuted(keys, 2), wanted[:128])
    assert got.dtype == {F16: torch.float16, BF16: torch.bfloat16}.get(kind, torch.float32)


LLAMA3 = RopeConfig(theta=500_000.0, kind="llama3", factor=32.0)


@pytest.mark.parametrize(
    "rope",
    [
        LLAMA3,
        RopeConfig(theta=500_000.0, kind="llama3", factor=8.0, original_max_position=4096),
        RopeConfig(theta=10_000.0, kind="llama3", factor=4.0, low_freq_factor=2.0, high_freq_factor=16.0),
    ],
)
@pytest.mark.parametrize("head_dim", [64, 128])
def test_llama3_scaling_is_recovered_from_its_divisors(rope: RopeConfig, head_dim: int) -> None:
    divisors = [float(np.float32(divisor)) for divisor in llama3_divisors(rope, head_dim)]
    found = rope_from_divisors(divisors, rope.theta, head_dim, "x.gguf")
    assert found.kind == "llama3"
    np.testing.assert_allclose(llama3_divisors(found, head_dim), divisors, rtol=1e-3)


def test_llama3_divisors_equal_transformers() -> None:
    from transformers import LlamaConfig
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    parameters = {
        "rope_type": "llama3",
        "rope_theta": 500_000.0,
        "factor": 32.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192,
    }
    config = LlamaConfig(hidden_size=2048, num_attention_heads=32, head_dim=64, rope_parameters=parameters)
    scaled, _ = ROPE_INIT_FUNCTIONS["llama3"](config, torch.device("cpu"))
    plain = 500_000.0 ** (-np.arange(0, 64, 2) / 64)
    np.testing.assert_allclose(llama3_divisors(LLAMA3, 64), plain / scaled.numpy(), rtol=1e-5)


def test_rope_scaling_of_gguf_files(tmp_path: Path, own_cache: Path) -> None:
    def rope(name: str, metadata: dict[str, Any], table: list[float] | None = None) -> RopeConfig:
        tensors = {"rope_freqs.weight": (np.array(table, np.float32), F32)} if table else None
        file = tiny_gguf(tmp_path / f"{name}.gguf", "llama", metadata=metadata, tensors=tensors, head_dim=64)
        return load_model(str(file)).config.rope

    assert rope("plain", {}) == RopeConfig()
    linear = {"llama.rope.scaling.type": "linear", "llama.rope.scaling.factor": 4.0}
    assert rope("linear", linear) == RopeConfig(kind="linear", factor=4.0)
    assert rope("older", {"llama.rope.scale_linear": 2.0}) == RopeConfig(kind="linear", factor=2.0)
    assert rope("none", {"llama.rope.scaling.type": "none", "llama.rope.scaling.factor": 4.0}) == RopeConfig()
    base = {"llama.rope.freq_base": 500_000.0}
    assert rope("llama3", base, llama3_divisors(LLAMA3, 64)) == LLAMA3
    assert rope("ones", base, [1.0] * 32) == RopeConfig(theta=500_000.0)
    with pytest.raises(ModelError, match="'yarn'"):
        rope("yarn", {"llama.rope.scaling.type": "yarn", "llama.rope.scaling.factor": 4.0})
    with pytest.raises(ModelError, match=r"rope_freqs\.weight does not follow"):
        rope("odd", base, [1.0, 3.0] * 16)
    with pytest.raises(ModelError, match=r"rope_freqs\.weight"):
        rope("short", base, [1.0] * 7)
