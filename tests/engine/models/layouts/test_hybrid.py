"""Layers without KV: how many attend, and the state of the others, worked out by hand."""

from pathlib import Path

import pytest

from tests.engine.models.layouts.configs import FP16, Q8, QWEN3_5_9B, SCALE, Config, layout, read, refusal

GDN_CONV = (2 * 16 * 128 + 32 * 128) * 3  # inputs of query, key and value heads, three tokens back
GDN_STATE = 32 * 128 * 128
MAMBA2_STATE = 128 * 64 * 128

QWEN3_NEXT_80B: Config = {
    "model_type": "qwen3_next",
    "hidden_size": 2048,
    "num_hidden_layers": 48,
    "num_attention_heads": 16,
    "num_key_value_heads": 2,
    "head_dim": 256,
    "full_attention_interval": 4,
    "linear_conv_kernel_dim": 4,
    "linear_num_key_heads": 16,
    "linear_num_value_heads": 32,
    "linear_key_head_dim": 128,
    "linear_value_head_dim": 128,
}
JAMBA: Config = {
    "model_type": "jamba",
    "hidden_size": 4096,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "attn_layer_period": 8,
    "attn_layer_offset": 4,
    "mamba_d_conv": 4,
    "mamba_d_state": 16,
    "mamba_expand": 2,
    "sliding_window": None,
}
BAMBA_9B: Config = {
    "model_type": "bamba",
    "hidden_size": 4096,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "attn_layer_indices": [9, 18, 27],
    "mamba_d_conv": 4,
    "mamba_d_head": 64,
    "mamba_d_state": 128,
    "mamba_expand": 2,
    "mamba_n_groups": 1,
    "mamba_n_heads": 128,
}
GRANITE_4_TINY: Config = {
    "model_type": "granitemoehybrid",
    "hidden_size": 1536,
    "num_hidden_layers": 40,
    "num_attention_heads": 12,
    "num_key_value_heads": 4,
    "layer_types": [("attention" if i in (5, 15, 25, 35) else "mamba") for i in range(40)],
    "mamba_d_conv": 4,
    "mamba_d_head": 64,
    "mamba_d_state": 128,
    "mamba_expand": 2,
    "mamba_n_groups": 1,
    "mamba_n_heads": 48,
}
NEMOTRON_H_8B: Config = {
    "model_type": "nemotron_h",
    "hidden_size": 4096,
    "num_hidden_layers": 52,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "attention_head_dim": 128,
    "hybrid_override_pattern": "M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M-",
    "mamba_num_heads": 128,
    "mamba_head_dim": 64,
    "n_groups": 8,
    "ssm_state_size": 128,
    "conv_kernel": 4,
}
FALCON_H1_1B: Config = {
    "model_type": "falcon_h1",
    "hidden_size": 2048,
    "num_hidden_layers": 24,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "head_dim": 128,
    "mamba_d_ssm": 3072,
    "mamba_d_conv": 4,
    "mamba_d_head": 64,
    "mamba_d_state": 256,
    "mamba_n_groups": 1,
    "mamba_n_heads": 48,
}
ZAMBA2_1B: Config = {
    "model_type": "zamba2",
    "hidden_size": 2048,
    "num_hidden_layers": 38,
    "num_attention_heads": 32,
    "layers_block_type": [("hybrid" if i in (5, 11, 17, 23, 29, 35) else "mamba") for i in range(38)],
    "mamba_d_conv": 4,
    "mamba_d_state": 128,
    "mamba_expand": 2,
    "mamba_ngroups": 1,
    "n_mamba_heads": 64,
}
LFM2_1B: Config = {
    "model_type": "lfm2",
    "hidden_size": 2048,
    "num_hidden_layers": 16,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "full_attn_idxs": [2, 5, 8, 10, 12, 14],
    "conv_L_cache": 3,
    "conv_dim": 2048,
}
RECURRENT_GEMMA_2B: Config = {
    "model_type": "recurrent_gemma",
    "hidden_size": 2560,
    "num_hidden_layers": 26,
    "num_attention_heads": 10,
    "num_key_value_heads": 1,
    "attention_window_size": 2048,
    "block_types": ["recurrent", "recurrent", "attention"],
    "conv1d_width": 4,
    "lru_width": 2560,
}
MINIMAX_01: Config = {
    "model_type": "minimax_text_01",
    "hidden_size": 6144,
    "num_hidden_layers": 80,
    "num_attention_heads": 64,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "attn_type_list": [int((i + 1) % 8 == 0) for i in range(80)],
}
KIMI_FULL = [4, 8, 12, 16, 20, 24, 27]
KIMI_LINEAR_48B: Config = {
    "model_type": "kimi_linear",
    "hidden_size": 2304,
    "num_hidden_layers": 27,
    "num_attention_heads": 32,
    "head_dim": 72,
    "kv_lora_rank": 512,
    "qk_rope_head_dim": 64,
    "v_head_dim": 128,
    "model_max_length": 1048576,
    "linear_attn_config": {
        "full_attn_layers": KIMI_FULL,
        "kda_layers": [i for i in range(1, 28) if i not in KIMI_FULL],
        "head_dim": 128,
        "num_heads": 32,
        "short_conv_kernel_size": 4,
    },
}

# name, config, attending layers x KV heads x head size, state bytes of a turn
CASES: list[tuple[str, Config, tuple[int, int, int], int]] = [
    ("Qwen3.5 9B", QWEN3_5_9B, (8, 4, 256), 24 * (GDN_CONV * 2 + GDN_STATE * 4)),
    ("Qwen3-Next 80B", QWEN3_NEXT_80B, (12, 2, 256), 36 * (GDN_CONV * 2 + GDN_STATE * 2)),
    ("Jamba", JAMBA, (4, 8, 128), 28 * (8192 * 3 + 8192 * 16) * 2),
    ("Bamba 9B", BAMBA_9B, (3, 8, 128), 29 * ((8192 + 2 * 1 * 128) * 3 + MAMBA2_STATE) * 2),
    ("Granite 4 Tiny", GRANITE_4_TINY, (4, 4, 128), 36 * ((3072 + 2 * 1 * 128) * 3 + 48 * 64 * 128) * 2),
    ("Nemotron-H 8B", NEMOTRON_H_8B, (4, 8, 128), 24 * ((8192 + 2 * 8 * 128) * 3 * 2 + MAMBA2_STATE * 4)),
    ("Falcon-H1 1.5B", FALCON_H1_1B, (24, 2, 128), 24 * ((3072 + 2 * 1 * 256) * 3 + 48 * 64 * 256) * 2),
    ("Zamba2 1.2B", ZAMBA2_1B, (6, 32, 128), 38 * ((4096 + 2 * 1 * 128) * 3 + 64 * 64 * 128) * 2),
    ("LFM2 1.2B", LFM2_1B, (6, 8, 64), 10 * 2048 * 2 * 2),
    ("MiniMax-Text-01", MINIMAX_01, (10, 8, 128), 70 * 64 * 128 * 128 * 2),
]


@pytest.mark.parametrize(("name", "config", "sizes", "state"), CASES, ids=[name for name, _, _, _ in CASES])
def test_bytes_and_state(tmp_path: Path, name: str, config: Config, sizes: tuple[int, int, int], state: int) -> None:
    layers, kv_heads, head_dim = sizes
    found = read(tmp_path / "model", config)
    assert found.state_bytes == state
    assert found.bytes_per_token(FP16) == 2 * layers * kv_heads * head_dim * 2
    assert found.bytes_per_token(Q8) == 2 * layers * kv_heads * (head_dim + SCALE)
    assert found.turn_bytes(6144, FP16) == state + 6144 * 2 * layers * kv_heads * head_dim * 2
    assert any("state of" in note for note in found.notes)


def test_the_preset_of_the_card() -> None:
    """Qwen3.5 9B: 32,768 bytes per token and a fixed state of 51,511,296 bytes per turn."""
    found = layout(QWEN3_5_9B)
    assert found.bytes_per_token(FP16) == 32_768
    assert found.state_bytes == 51_511_296
    assert found.max_context == 262_144
    assert found.notes == (
        "The recurrent state of 24 layers is counted in float32, as mamba_ssm_dtype states.",
        "The convolution state of 24 layers is counted in the model's 2 bytes.",
    )


def test_the_precision_of_a_state_is_the_configs_or_told_as_an_assumption() -> None:
    halved = {**QWEN3_5_9B, "text_config": {**QWEN3_5_9B["text_config"], "mamba_ssm_dtype": "bfloat16"}}
    assert layout(halved).state_bytes == 24 * (GDN_CONV + GDN_STATE) * 2
    halved["text_config"]["mamba_ssm_dtype"] = "int4"
    assert "mamba_ssm_dtype is int4, not a precision that a state is kept in" in refusal(halved)
    assert "vLLM's default; other engines may keep 4" in layout(QWEN3_NEXT_80B).notes[0]
    assert "float32, as vLLM keeps it" in layout(NEMOTRON_H_8B).notes[0]


def test_a_hybrid_that_slides() -> None:
    """RecurrentGemma 2B: every third of 26 layers attends to 2,048 tokens; the other 18 keep a gated state in fp32."""
    found = layout(RECURRENT_GEMMA_2B)
    assert found.state_bytes == 18 * (2560 * 3 * 2 + 2560 * 4)
    assert found.turn_bytes(10_000, FP16) == found.state_bytes + 2048 * 2 * 8 * 1 * 256 * 2
    assert found.turn_bytes(10_000, FP16) == found.turn_bytes(2048, FP16)


def test_a_hybrid_with_latent_attention() -> None:
    """Kimi Linear: 7 layers of MLA, 20 of delta attention with 32 heads of 128."""
    found = layout(KIMI_LINEAR_48B)
    assert found.bytes_per_token(FP16) == 7 * (512 + 64) * 2
    assert found.bytes_per_token(Q8) == 7 * (512 + 64 + SCALE)
    assert found.state_bytes == 20 * (3 * 32 * 128 * 3 * 2 + 32 * 128 * 128 * 4)
    assert found.max_context == 1_048_576


# name, config, state bytes
PURE: list[tuple[str, Config, int]] = [
    (
        "Mamba 130M",
        {"model_type": "mamba", "hidden_size": 768, "num_hidden_layers": 24, "state_size": 16, "conv_kernel": 4},
        24 * (1536 * 3 + 1536 * 16) * 2,
    ),
    (
        "Falcon Mamba 7B, inner size not a multiple",
        {
            "model_type": "falcon_mamba",
            "hidden_size": 4096,
            "intermediate_size": 8192,
            "expand": 16,
            "num_hidden_layers": 64,
            "state_size": 16,
            "conv_kernel": 4,
        },
        64 * (8192 * 3 + 8192 * 16) * 2,
    ),
    (
        "Mamba 2, Codestral's sizes",
        {
            "model_type": "mamba2",
            "hidden_size": 4096,
            "expand": 2,
            "num_hidden_layers": 64,
            "num_heads": 128,
            "head_dim": 64,
            "n_groups": 8,
            "state_size": 128,
            "conv_kernel": 4,
        },
        64 * ((8192 + 2 * 8 * 128) * 3 + MAMBA2_STATE) * 2,
    ),
    (
        "RWKV 4 169M",
        {"model_type": "rwkv", "hidden_size": 768, "num_hidden_layers": 12, "context_length": 1024},
        12 * 768 * (2 * 2 + 3 * 4),
    ),
]


@pytest.mark.parametrize(("name", "config", "state"), PURE, ids=[name for name, _, _ in PURE])
def test_models_of_state_alone_hold_no_kv(tmp_path: Path, name: str, config: Config, state: int) -> None:
    found = read(tmp_path / "model", config)
    assert found.groups == ()
    assert found.state_bytes == state
    assert found.bytes_per_token(FP16) == 0
    assert found.turn_bytes(10**6, FP16) == found.turn_bytes(0, Q8) == state
    assert found.context_in(state, FP16) is None


def test_layer_lists_that_do_not_fit_together() -> None:
    assert "num_hidden_layers is 50, but hybrid_override_pattern has 52 letters" in refusal(
        {**NEMOTRON_H_8B, "num_hidden_layers": 50}
    )
    assert "hybrid_override_pattern is MX*-, with a letter" in refusal(
        {**NEMOTRON_H_8B, "num_hidden_layers": 4, "hybrid_override_pattern": "MX*-"}
    )
    assert "attn_layer_indices is [9, 32], not a list of layers from 0 to 31" in refusal(
        {**BAMBA_9B, "attn_layer_indices": [9, 32]}
    )
    assert "layers_block_type is missing" in refusal({**ZAMBA2_1B, "layers_block_type": None})
    assert "'attend' is not known" in refusal({**ZAMBA2_1B, "layers_block_type": ["attend"] * 38})
    twice = {**KIMI_LINEAR_48B["linear_attn_config"], "kda_layers": [1, 4]}
    assert "does not name each layer once" in refusal({**KIMI_LINEAR_48B, "linear_attn_config": twice})
