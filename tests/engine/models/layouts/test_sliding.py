"""Layers that keep a window: which ones they are, and the bytes of a turn longer than the window."""

from pathlib import Path

import pytest

from engine.layout import LayerGroup
from tests.engine.models.layouts.configs import FP16, GEMMA3_4B, Q8, SCALE, Config, layout, read, refusal

MISTRAL: Config = {
    "model_type": "mistral",
    "hidden_size": 4096,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "sliding_window": 4096,
}
GEMMA2_2B: Config = {
    "model_type": "gemma2",
    "hidden_size": 2304,
    "num_hidden_layers": 26,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "head_dim": 256,
    "sliding_window": 4096,
    "cache_implementation": "hybrid",
}
GPT_OSS_20B: Config = {
    "model_type": "gpt_oss",
    "hidden_size": 2880,
    "num_hidden_layers": 24,
    "num_attention_heads": 64,
    "num_key_value_heads": 8,
    "head_dim": 64,
    "sliding_window": 128,
    "layer_types": ["sliding_attention", "full_attention"] * 12,
}
QWEN2_SLIDING: Config = {
    "model_type": "qwen2",
    "hidden_size": 3584,
    "num_hidden_layers": 28,
    "num_attention_heads": 28,
    "num_key_value_heads": 4,
    "use_sliding_window": True,
    "sliding_window": 4096,
    "max_window_layers": 20,
}
PHI3_MINI: Config = {
    "model_type": "phi3",
    "hidden_size": 3072,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 32,
    "sliding_window": 2047,
}
COHERE2_7B: Config = {
    "model_type": "cohere2",
    "hidden_size": 4096,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "sliding_window": 4096,
    "sliding_window_pattern": 4,
}
OLMO3_7B: Config = {
    "model_type": "olmo3",
    "hidden_size": 4096,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 32,
    "sliding_window": 4096,
}
EXAONE4_32B: Config = {
    "model_type": "exaone4",
    "hidden_size": 5120,
    "num_hidden_layers": 64,
    "num_attention_heads": 40,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "sliding_window": 4096,
    "sliding_window_pattern": "LLLG",
    "layer_types": (["sliding_attention"] * 3 + ["full_attention"]) * 16,
}
LLAMA4_SCOUT: Config = {
    "model_type": "llama4",
    "text_config": {
        "model_type": "llama4_text",
        "hidden_size": 5120,
        "num_hidden_layers": 48,
        "num_attention_heads": 40,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "attention_chunk_size": 8192,
        "no_rope_layers": [],
    },
}

# name, config, full layers, sliding layers, window, KV heads, head size
CASES: list[tuple[str, Config, tuple[int, int, int, int, int]]] = [
    ("Mistral 7B 0.1, every layer", MISTRAL, (0, 32, 4096, 8, 128)),
    ("Mistral 7B 0.3, none", {**MISTRAL, "sliding_window": None}, (32, 0, 0, 8, 128)),
    ("Gemma 2 2B, every second", GEMMA2_2B, (13, 13, 4096, 4, 256)),
    # Layers 6, 12, 18, 24 and 30 of 34 attend fully; heads and head size are the family's own.
    ("Gemma 3 4B, five of six", GEMMA3_4B, (5, 29, 1024, 4, 256)),
    ("gpt-oss 20B, listed", GPT_OSS_20B, (12, 12, 128, 8, 64)),
    ("gpt-oss 20B, by its pattern", {**GPT_OSS_20B, "layer_types": None}, (12, 12, 128, 8, 64)),
    ("Qwen2 whose layers slide from the 20th on", QWEN2_SLIDING, (20, 8, 4096, 4, 128)),
    ("Phi-3 mini 4k", PHI3_MINI, (0, 32, 2047, 32, 96)),
    ("Command R7B", COHERE2_7B, (8, 24, 4096, 8, 128)),
    ("OLMo 3 7B", OLMO3_7B, (8, 24, 4096, 32, 128)),
    ("EXAONE 4 32B, listed and in letters", EXAONE4_32B, (16, 48, 4096, 8, 128)),
    ("Llama 4 Scout, chunks", LLAMA4_SCOUT, (12, 36, 8192, 8, 128)),
]


@pytest.mark.parametrize(("name", "config", "sizes"), CASES, ids=[name for name, _, _ in CASES])
def test_a_turn_longer_than_the_window(
    tmp_path: Path, name: str, config: Config, sizes: tuple[int, int, int, int, int]
) -> None:
    full, sliding, window, kv_heads, head_dim = sizes
    found = read(tmp_path / "model", config)
    assert found.bytes_per_token(FP16) == 2 * (full + sliding) * kv_heads * head_dim * 2
    assert found.bytes_per_token(Q8) == 2 * (full + sliding) * kv_heads * (head_dim + SCALE)
    assert found.turn_bytes(16384, FP16) == (full * 16384 + sliding * window) * 2 * kv_heads * head_dim * 2
    assert found.turn_bytes(16384, Q8) == (full * 16384 + sliding * window) * 2 * kv_heads * (head_dim + SCALE)
    assert found.turn_bytes(100, FP16) == 100 * found.bytes_per_token(FP16)


def test_chunks_are_told_as_an_assumption() -> None:
    assert "Chunked attention is counted as a window of 8,192 tokens" in layout(LLAMA4_SCOUT).notes[0]


def test_a_window_left_out_is_the_familys_own_and_told() -> None:
    del_window = {key: value for key, value in MISTRAL.items() if key != "sliding_window"}
    found = layout(del_window)
    assert found.groups == (LayerGroup(32, 8, (128, 128), 4096),)
    assert found.notes == ("sliding_window is not stated; the family's own 4,096 is taken.",)


def test_layers_that_read_the_kv_of_others_hold_none() -> None:
    """Gemma 3n E2B: 30 layers, the last 10 hold nothing; of the other 20 each fifth attends fully."""
    config: Config = {
        "model_type": "gemma3n",
        "text_config": {
            "model_type": "gemma3n_text",
            "hidden_size": 2048,
            "num_hidden_layers": 30,
            "num_attention_heads": 8,
            "num_key_value_heads": 2,
            "head_dim": 256,
            "sliding_window": 512,
            "num_kv_shared_layers": 10,
        },
    }
    found = layout(config)
    assert found.turn_bytes(8192, FP16) == (4 * 8192 + 16 * 512) * 2 * 2 * 256 * 2
    assert found.turn_bytes(8192, Q8) == (4 * 8192 + 16 * 512) * 2 * 2 * (256 + SCALE)
    config["text_config"]["num_kv_shared_layers"] = 30
    assert "num_kv_shared_layers is 30, but there are 30 layers" in refusal(config)
    del config["text_config"]["num_kv_shared_layers"]
    assert "num_kv_shared_layers is missing" in refusal(config)


def test_full_layers_with_heads_of_their_own() -> None:
    """Gemma 4 31B: 60 layers, 50 slide with 16 KV heads of 256, 10 attend fully with 4 of 512."""
    config: Config = {
        "model_type": "gemma4",
        "text_config": {
            "model_type": "gemma4_text",
            "hidden_size": 5376,
            "num_hidden_layers": 60,
            "num_attention_heads": 32,
            "num_key_value_heads": 16,
            "head_dim": 256,
            "global_head_dim": 512,
            "num_global_key_value_heads": 4,
            "attention_k_eq_v": True,
            "sliding_window": 1024,
            "use_bidirectional_attention": "vision",
        },
    }
    found = layout(config)
    assert found.turn_bytes(16384, FP16) == (10 * 16384 * 4 * 512 + 50 * 1024 * 16 * 256) * 2 * 2
    config["text_config"]["attention_k_eq_v"] = False
    assert layout(config).turn_bytes(16384, FP16) == (10 * 16384 * 16 * 512 + 50 * 1024 * 16 * 256) * 2 * 2


def test_gemma4_attends_fully_in_its_last_layer_whatever_is_listed() -> None:
    text = {"model_type": "gemma4_text", "num_hidden_layers": 4, "layer_types": ["sliding_attention"] * 4}
    found = layout({**text, "num_global_key_value_heads": 2, "attention_k_eq_v": False})
    assert found.groups == (LayerGroup(3, 4, (256, 256), 512), LayerGroup(1, 4, (512, 512)))
