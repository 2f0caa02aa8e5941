"""Small config files of our own, with the sizes that public models state, and how tests read them."""

import json
from pathlib import Path
from typing import Any

import pytest

from engine.errors import ModelError
from engine.layout import Store, TurnLayout
from engine.models.layout_reader import read_layout
from engine.models.layouts.config_json import layout_of_config

Config = dict[str, Any]
FP16, Q8 = Store.FP16, Store.Q8
SCALE = 4


def layout(config: Config) -> TurnLayout:
    return layout_of_config(config, "config.json", "model")


def refusal(config: Config) -> str:
    """The sentence, which must be one line and name the file."""
    with pytest.raises(ModelError) as caught:
        layout(config)
    sentence = str(caught.value)
    assert "\n" not in sentence
    assert sentence.startswith("config.json")
    assert sentence.endswith(".")
    return sentence


def written(directory: Path, config: Config) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    file = directory / "config.json"
    file.write_text(json.dumps(config), encoding="utf-8")
    return file


def read(directory: Path, config: Config) -> TurnLayout:
    """Through a file, as a person would give it."""
    return read_layout(str(written(directory, config))).layout


LLAMA_31_8B: Config = {
    "model_type": "llama",
    "hidden_size": 4096,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "max_position_embeddings": 131072,
}
QWEN3_5_9B: Config = {
    "model_type": "qwen3_5",
    "text_config": {
        "model_type": "qwen3_5_text",
        "hidden_size": 4096,
        "num_hidden_layers": 32,
        "num_attention_heads": 16,
        "num_key_value_heads": 4,
        "head_dim": 256,
        "full_attention_interval": 4,
        "linear_conv_kernel_dim": 4,
        "linear_num_key_heads": 16,
        "linear_num_value_heads": 32,
        "linear_key_head_dim": 128,
        "linear_value_head_dim": 128,
        "mamba_ssm_dtype": "float32",
        "max_position_embeddings": 262144,
    },
    "vision_config": {"model_type": "qwen3_5_vision", "num_heads": 16},
}
GEMMA3_4B: Config = {
    "model_type": "gemma3",
    "text_config": {
        "model_type": "gemma3_text",
        "hidden_size": 2560,
        "num_hidden_layers": 34,
        "sliding_window": 1024,
    },
}
DEEPSEEK_V3: Config = {
    "model_type": "deepseek_v3",
    "hidden_size": 7168,
    "num_hidden_layers": 61,
    "num_attention_heads": 128,
    "num_key_value_heads": 128,
    "kv_lora_rank": 512,
    "q_lora_rank": 1536,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "v_head_dim": 128,
    "max_position_embeddings": 163840,
}
