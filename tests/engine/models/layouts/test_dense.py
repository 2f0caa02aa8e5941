"""Layers that all attend: bytes per token worked out by hand for public families, at fp16 and q8."""

from pathlib import Path

import pytest

from engine.layout import LayerGroup
from tests.engine.models.layouts.configs import DEEPSEEK_V3, FP16, LLAMA_31_8B, Q8, SCALE, Config, layout, read

# name, config, K and V x layers x KV heads x head size
CASES: list[tuple[str, Config, tuple[int, int, int]]] = [
    ("Llama 3.1 8B", LLAMA_31_8B, (32, 8, 128)),
    ("Llama 2 7B, a head for each", {**LLAMA_31_8B, "num_key_value_heads": None}, (32, 32, 128)),
    (
        "Qwen2.5 7B, its window switched off",
        {
            "model_type": "qwen2",
            "hidden_size": 3584,
            "num_hidden_layers": 28,
            "num_attention_heads": 28,
            "num_key_value_heads": 4,
            "use_sliding_window": False,
            "sliding_window": 131072,
            "max_window_layers": 28,
        },
        (28, 4, 128),
    ),
    (
        "Qwen3 0.6B, head size not hidden over heads",
        {
            "model_type": "qwen3",
            "hidden_size": 1024,
            "num_hidden_layers": 28,
            "num_attention_heads": 16,
            "num_key_value_heads": 8,
            "head_dim": 128,
        },
        (28, 8, 128),
    ),
    (
        "Qwen3 30B A3B",
        {
            "model_type": "qwen3_moe",
            "hidden_size": 2048,
            "num_hidden_layers": 48,
            "num_attention_heads": 32,
            "num_key_value_heads": 4,
            "head_dim": 128,
            "use_sliding_window": False,
            "sliding_window": None,
            "max_window_layers": 48,
        },
        (48, 4, 128),
    ),
    (
        "Mixtral 8x7B",
        {
            "model_type": "mixtral",
            "hidden_size": 4096,
            "num_hidden_layers": 32,
            "num_attention_heads": 32,
            "num_key_value_heads": 8,
            "sliding_window": None,
        },
        (32, 8, 128),
    ),
    (
        "Falcon 7B, one KV head for all",
        {
            "model_type": "falcon",
            "hidden_size": 4544,
            "num_hidden_layers": 32,
            "num_attention_heads": 71,
            "multi_query": True,
            "new_decoder_architecture": False,
            "num_kv_heads": 71,
        },
        (32, 1, 64),
    ),
    (
        "Falcon 40B, the new form",
        {
            "model_type": "falcon",
            "hidden_size": 8192,
            "num_hidden_layers": 60,
            "num_attention_heads": 128,
            "num_kv_heads": 8,
            "new_decoder_architecture": True,
        },
        (60, 8, 64),
    ),
    ("GPT-2", {"model_type": "gpt2", "n_layer": 12, "n_head": 12, "n_embd": 768, "n_positions": 1024}, (12, 12, 64)),
    (
        "StarCoder, multi-query",
        {"model_type": "gpt_bigcode", "n_layer": 40, "n_head": 48, "n_embd": 6144, "multi_query": True},
        (40, 1, 128),
    ),
    (
        "Pythia 1.4B",
        {"model_type": "gpt_neox", "hidden_size": 2048, "num_hidden_layers": 24, "num_attention_heads": 16},
        (24, 16, 128),
    ),
    (
        "Gemma 7B, head size 256",
        {
            "model_type": "gemma",
            "hidden_size": 3072,
            "num_hidden_layers": 28,
            "num_attention_heads": 16,
            "num_key_value_heads": 16,
        },
        (28, 16, 256),
    ),
    (
        "GLM-4 9B",
        {
            "model_type": "glm4",
            "hidden_size": 4096,
            "num_hidden_layers": 40,
            "num_attention_heads": 32,
            "num_key_value_heads": 2,
            "head_dim": 128,
        },
        (40, 2, 128),
    ),
    (
        "DBRX, KV heads in a part of its own",
        {
            "model_type": "dbrx",
            "d_model": 6144,
            "n_heads": 48,
            "n_layers": 40,
            "max_seq_len": 32768,
            "attn_config": {"kv_n_heads": 8},
        },
        (40, 8, 128),
    ),
    (
        "Qwen2.5-VL 7B, text sizes beside the vision part",
        {
            "model_type": "qwen2_5_vl",
            "hidden_size": 3584,
            "num_hidden_layers": 28,
            "num_attention_heads": 28,
            "num_key_value_heads": 4,
            "use_sliding_window": False,
            "sliding_window": 32768,
            "vision_config": {"model_type": "qwen2_5_vl", "depth": 32},
        },
        (28, 4, 128),
    ),
    (
        "MiniMax M2, each layer listed as full",
        {
            "model_type": "minimax_m2",
            "hidden_size": 3072,
            "num_hidden_layers": 62,
            "num_attention_heads": 48,
            "num_key_value_heads": 8,
            "head_dim": 128,
            "attn_type_list": [1] * 62,
        },
        (62, 8, 128),
    ),
    (
        "a LLaVA around Llama",
        {"model_type": "llava", "text_config": LLAMA_31_8B, "vision_config": {"model_type": "clip_vision_model"}},
        (32, 8, 128),
    ),
]


@pytest.mark.parametrize(("name", "config", "sizes"), CASES, ids=[name for name, _, _ in CASES])
def test_bytes_per_token(tmp_path: Path, name: str, config: Config, sizes: tuple[int, int, int]) -> None:
    layers, kv_heads, head_dim = sizes
    found = read(tmp_path / "model", config)
    assert found.bytes_per_token(FP16) == 2 * layers * kv_heads * head_dim * 2
    assert found.bytes_per_token(Q8) == 2 * layers * kv_heads * (head_dim * 1 + SCALE)
    assert found.turn_bytes(6144, FP16) == 6144 * 2 * layers * kv_heads * head_dim * 2
    assert found.state_bytes == 0
    assert found.name == "model"


def test_the_models_own_limit() -> None:
    assert layout(LLAMA_31_8B).max_context == 131072
    assert layout({**LLAMA_31_8B, "max_position_embeddings": None}).max_context is None
    gpt2 = {"model_type": "gpt2", "n_layer": 12, "n_head": 12, "n_embd": 768, "n_positions": 1024}
    assert layout(gpt2).max_context == 1024


@pytest.mark.parametrize(
    ("config", "layers"),
    [
        (DEEPSEEK_V3, 61),
        ({**DEEPSEEK_V3, "model_type": "kimi_k2"}, 61),
        ({**DEEPSEEK_V3, "model_type": "deepseek_v2", "num_hidden_layers": 27}, 27),
        ({**DEEPSEEK_V3, "model_type": "glm4_moe_lite", "num_hidden_layers": 47, "v_head_dim": 256}, 47),
        ({**DEEPSEEK_V3, "model_type": "longcat_flash", "num_hidden_layers": None, "num_layers": 28}, 2 * 28),
    ],
)
def test_latent_attention_keeps_one_vector_per_token_and_layer(config: Config, layers: int) -> None:
    found = layout(config)
    assert found.groups == (LayerGroup(layers, 1, (512 + 64,)),)
    assert found.bytes_per_token(FP16) == layers * (512 + 64) * 2
    assert found.bytes_per_token(Q8) == layers * ((512 + 64) * 1 + SCALE)
    assert "one vector of 576" in found.notes[0]


def test_a_default_that_was_taken_is_told() -> None:
    short = {"model_type": "glm4", "hidden_size": 4096, "num_hidden_layers": 40, "num_attention_heads": 32}
    assert layout(short).notes == (
        "num_key_value_heads is not stated; the family's own 2 is taken.",
        "head_dim is not stated; the family's own 128 is taken.",
    )
    assert layout(LLAMA_31_8B).notes == ()


def test_gpt2_and_bloom_may_spell_their_sizes_the_usual_way() -> None:
    usual = {"hidden_size": 1600, "num_attention_heads": 25, "num_hidden_layers": 48}
    assert layout({"model_type": "gpt2", **usual}).groups == (LayerGroup(48, 25, (64, 64)),)
    bloom = {"model_type": "bloom", "n_embed": 4096, "n_layer": 30, "num_attention_heads": 32}
    assert layout(bloom).groups == (LayerGroup(30, 32, (128, 128)),)
