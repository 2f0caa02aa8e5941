"""Configs that are wrong or not understood: one sentence that names file and key, never a guess."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from engine.errors import ModelError
from engine.models.layout_reader import read_layout
from tests.engine.models.layouts.configs import DEEPSEEK_V3, LLAMA_31_8B, Config, layout, refusal, written

NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"num_hidden_layers": None}, "num_hidden_layers is missing"),
        ({"num_hidden_layers": 0}, "num_hidden_layers is 0, it must be at least 1"),
        ({"num_hidden_layers": -32}, "num_hidden_layers is -32, it must be at least 0"),
        ({"num_hidden_layers": 10**9}, "num_hidden_layers is 1000000000, more than the 4,096 that any model has"),
        ({"num_hidden_layers": 32.0}, "num_hidden_layers is 32.0, not a whole number"),
        ({"num_hidden_layers": True}, "num_hidden_layers is True, not a whole number"),
        ({"num_key_value_heads": 0}, "num_key_value_heads is 0, it must be at least 1"),
        ({"num_key_value_heads": "8"}, "num_key_value_heads is 8, not a whole number"),
        ({"num_key_value_heads": [8] * 32}, "not a whole number"),
        ({"num_key_value_heads": 7}, "num_key_value_heads is 7, which does not divide 32 heads"),
        ({"num_key_value_heads": 64}, "num_key_value_heads is 64, which does not divide 32 heads"),
        ({"num_attention_heads": NAN}, "num_attention_heads is nan, not a whole number"),
        ({"num_attention_heads": 10**400}, "more than the 16,777,216 that any model has"),
        ({"head_dim": 0}, "head_dim is 0, it must be at least 1"),
        ({"head_dim": INF}, "head_dim is inf, not a whole number"),
        ({"head_dim": {}}, "head_dim is {}, not a whole number"),
        ({"hidden_size": 4097}, "hidden_size is 4097, which does not divide into 32 heads"),
        ({"max_position_embeddings": 0}, "max_position_embeddings is 0, it must be at least 1"),
        ({"max_position_embeddings": "long"}, "max_position_embeddings is long, not a whole number"),
        ({"model_type": None}, "model_type is missing"),
        ({"model_type": 3}, "model_type is 3, not a name"),
        ({"model_type": ["llama"]}, "model_type is ['llama'], not a name"),
        ({"model_type": "llama\n5"}, "is not known, so its KV layout would be a guess"),
        ({"model_type": "x" * 5000}, "is not known"),
        ({"layer_types": ["full_attention"] * 31}, "a list of 31 for 32 layers"),
        ({"layer_types": "full_attention"}, "layer_types is full_attention, not a list"),
        ({"layer_types": [1] * 32}, "not a list of names"),
        ({"layer_types": ["dilated_attention"] * 32}, "layer_types names 'dilated_attention', a kind of layer"),
        ({"layer_types": ["linear_attention"] * 32}, "layer_types names 'linear_attention', a kind of layer"),
        ({"layer_types": ["sliding_attention"] * 32, "sliding_window": None}, "sliding_window is missing"),
        ({"layer_types": ["sliding_attention"] * 32, "sliding_window": -1}, "sliding_window is -1"),
    ],
)
def test_values(changes: Config, reason: str) -> None:
    assert reason in refusal({**LLAMA_31_8B, **changes})


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"sliding_window": 4096}, "sliding_window is 4096, which changes a turn's KV and is not known for model_type"),
        ({"attention_chunk_size": 8192}, "attention_chunk_size is 8192, which changes"),
        ({"num_kv_shared_layers": 4}, "num_kv_shared_layers is 4, which changes"),
        ({"kv_lora_rank": 512}, "kv_lora_rank is 512, which changes"),
        ({"block_configs": [{"attention": {}}]}, "which changes"),
        ({"use_cla": True}, "use_cla is True, which changes"),
        ({"use_mla": True}, "use_mla is True, which changes"),
        ({"model_type": "minimax_m2", "attn_type_list": [1, 0] * 16}, "with layers that are not full attention"),
        ({"index_topk": 2048}, "index_topk is 2048, which changes"),
        ({"mamba_d_state": 16}, "mamba_d_state is 16, which changes"),
        ({"v_head_dim": 64}, "v_head_dim is 64, which changes"),
        ({"is_encoder_decoder": True}, "an encoder-decoder"),
        ({"add_cross_attention": True}, "with add_cross_attention"),
        ({"cross_attention_layers": [3, 8]}, "whose cross-attention layers"),
        ({"use_bidirectional_attention": True}, "an encoder, which keeps no KV"),
        ({"use_sliding_window": "no"}, "use_sliding_window is no, neither true nor false"),
    ],
)
def test_fields_that_change_kv_and_are_not_understood(changes: Config, reason: str) -> None:
    assert reason in refusal({**LLAMA_31_8B, **changes})


def test_fields_that_state_nothing_are_no_reason_to_refuse() -> None:
    nothing = {"sliding_window": None, "use_cla": False, "block_configs": [], "kv_lora_rank": None, "layer_types": None}
    assert layout({**LLAMA_31_8B, **nothing}) == layout(LLAMA_31_8B)
    for off in (
        {"use_sliding_window": False, "sliding_window": 4096, "max_window_layers": 28},
        {"use_cla": False, "cla_share_factor": 2},
        {"use_mla": False, "kv_lora_rank": 512, "v_head_dim": 128},
    ):
        assert layout({**LLAMA_31_8B, **off}) == layout(LLAMA_31_8B)


@pytest.mark.parametrize("kind", ["t5", "bart", "whisper"])
def test_encoder_decoders(kind: str) -> None:
    assert f"model_type is {kind}, an encoder-decoder" in refusal({"model_type": kind})


@pytest.mark.parametrize("kind", ["bert", "roberta", "modernbert", "clip"])
def test_encoders(kind: str) -> None:
    assert f"model_type is {kind}, an encoder, which keeps no KV" in refusal({"model_type": kind})


@pytest.mark.parametrize("kind", ["deepseek_v32", "glm_moe_dsa", "plamo3", "made_up"])
def test_unknown_types(kind: str) -> None:
    assert f"model_type {kind!r} is not known, so its KV layout would be a guess" in refusal({"model_type": kind})


def test_text_parts() -> None:
    cross = {"model_type": "mllama", "text_config": {"model_type": "mllama_text_model"}}
    assert "cross-attention" in refusal(cross)
    assert "config.json: text_config: model_type is missing" in refusal({"model_type": "llava", "text_config": {}})
    t5 = {"model_type": "blip_2", "text_config": {"model_type": "t5"}}
    assert refusal(t5).startswith("config.json: text_config: model_type is t5, an encoder-decoder")
    zero = {"model_type": "llava", "text_config": {**LLAMA_31_8B, "num_attention_heads": 0}}
    assert "config.json: text_config: num_attention_heads is 0" in refusal(zero)


def test_a_latent_family_without_latent_attention() -> None:
    for changes in ({"kv_lora_rank": None}, {"use_mla": False}):
        assert "without latent attention" in refusal({**DEEPSEEK_V3, **changes})
    assert "qk_rope_head_dim is missing" in refusal({**DEEPSEEK_V3, "qk_rope_head_dim": None})
    assert "index_topk is 2048" in refusal({**DEEPSEEK_V3, "index_topk": 2048})


def sentence_for(choice: Path | str) -> str:
    with pytest.raises(ModelError) as caught:
        read_layout(str(choice))
    sentence = str(caught.value)
    assert "\n" not in sentence
    return sentence


def test_files_that_are_no_config(tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    for text, reason in [
        ("", "not JSON"),
        ("{", "not JSON"),
        ("[]", "holds no JSON object"),
        ("{}", "model_type is missing"),
        ("[" * 100_000, "not JSON"),
    ]:
        file.write_text(text, encoding="utf-8")
        assert sentence_for(file).startswith(f"{file}: {reason}")
    file.write_bytes(b'{"model_type": "\xff"}')
    assert "not UTF-8" in sentence_for(file)
    file.unlink()
    os.mkfifo(file)
    assert "not a file" in sentence_for(file)


def test_places_without_a_config(tmp_path: Path) -> None:
    assert f"{tmp_path}: holds no config.json; give a model's own directory" in sentence_for(tmp_path)
    (tmp_path / "b.gguf").write_bytes(b"")
    assert f"give one of its GGUF files, as {tmp_path / 'b.gguf'}" in sentence_for(tmp_path)
    assert "the file is empty" in sentence_for(tmp_path / "b.gguf")
    (tmp_path / "c.gguf").write_text("<html>", encoding="utf-8")
    assert "not a GGUF file but an HTML page" in sentence_for(tmp_path / "c.gguf")
    (tmp_path / "d.bin").write_bytes(b"\x80")
    assert "pickle" in sentence_for(tmp_path / "d.bin")
    for nothing in ("", "   "):
        assert "No model is named" in sentence_for(nothing)
    for nothing in ("nowhere", "/no/such/config.json", "a/b/c"):
        assert "no such file or directory, and not a Hugging Face id" in sentence_for(nothing)


def safetensors(path: Path, data: int, header: bytes = b"{}") -> None:
    path.write_bytes(len(header).to_bytes(8, "little") + header + bytes(data))


def test_weights_that_lie_beside_the_config(tmp_path: Path) -> None:
    """Any dtype counts: what follows the headers is the tensors."""
    written(tmp_path, LLAMA_31_8B)
    assert read_layout(str(tmp_path)).weights_bytes is None
    index: dict[str, Any] = {"metadata": {"total_size": 16_060_522_496}, "weight_map": {}}
    listed = tmp_path / "model.safetensors.index.json"
    listed.write_text(json.dumps(index), encoding="utf-8")
    assert read_layout(str(tmp_path)).weights_bytes == 16_060_522_496
    safetensors(tmp_path / "model-00001-of-00002.safetensors", 1000)
    safetensors(tmp_path / "model-00002-of-00002.safetensors", 24, b'{"a": 1}')
    safetensors(tmp_path / "consolidated.safetensors", 999)
    found = read_layout(str(tmp_path))
    assert found.weights_bytes == 1024
    assert found.source == f"config.json in {tmp_path}"
    assert found.layout.name == tmp_path.name
    safetensors(tmp_path / "model-00003-of-00002.safetensors", 0, b"")
    (tmp_path / "model-00003-of-00002.safetensors").write_bytes(b"\xff" * 8)
    assert "not a whole safetensors file" in sentence_for(tmp_path)
    for file in tmp_path.glob("*.safetensors"):
        file.unlink()
    for total, reason in [(-1, "is -1"), ("big", "is big"), (NAN, "is nan")]:
        index["metadata"]["total_size"] = total
        listed.write_text(json.dumps(index), encoding="utf-8")
        assert f"total_size {reason}, not a number of bytes" in sentence_for(tmp_path)
    index["metadata"]["total_size"] = 2048.0
    listed.write_text(json.dumps(index), encoding="utf-8")
    assert read_layout(str(tmp_path)).weights_bytes == 2048


def test_weights_of_a_half_fetched_model_are_those_that_its_list_states(tmp_path: Path) -> None:
    written(tmp_path, LLAMA_31_8B)
    names = {"a": "model-1.safetensors", "b": "model-2.safetensors"}
    index = {"metadata": {"total_size": 4096}, "weight_map": names}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index), encoding="utf-8")
    safetensors(tmp_path / "model-1.safetensors", 1000)
    assert read_layout(str(tmp_path)).weights_bytes == 4096
    safetensors(tmp_path / "model-2.safetensors", 24)
    assert read_layout(str(tmp_path)).weights_bytes == 1024


def test_a_pipe_among_the_weights_is_not_waited_for(tmp_path: Path) -> None:
    written(tmp_path, LLAMA_31_8B)
    os.mkfifo(tmp_path / "model.safetensors")
    assert "model.safetensors: not a file" in sentence_for(tmp_path)


def test_weights_that_no_model_has(tmp_path: Path) -> None:
    written(tmp_path, LLAMA_31_8B)
    safetensors(tmp_path / "model.safetensors", 0)
    assert "state 0 bytes of weights" in sentence_for(tmp_path)


def test_a_config_of_hundreds_of_mebibytes_is_not_read(tmp_path: Path) -> None:
    os.truncate(written(tmp_path, LLAMA_31_8B), 1 << 40)
    assert "larger than 64 MiB" in sentence_for(tmp_path)


@pytest.mark.parametrize(
    "config",
    [
        {"model_type": "nemotron_h", "hybrid_override_pattern": "----", "hidden_size": 64},
        {**LLAMA_31_8B, "model_type": "lfm2", "layer_types": ["conv"] * 32, "conv_L_cache": 1},
    ],
)
def test_a_turn_that_holds_nothing(tmp_path: Path, config: Config) -> None:
    written(tmp_path, config)
    assert "a turn holds nothing" in sentence_for(tmp_path)


def test_a_model_that_looks_both_ways() -> None:
    assert "is_causal is False, an encoder" in refusal({**LLAMA_31_8B, "model_type": "qwen2", "is_causal": False})


@pytest.mark.parametrize("key", ["attention_head_dim", "kv_channels"])
def test_another_word_for_a_heads_size_says_the_same_or_is_refused(key: str) -> None:
    assert layout({**LLAMA_31_8B, key: 128}) == layout(LLAMA_31_8B)
    assert f"{key} is 64, which changes a turn's KV" in refusal({**LLAMA_31_8B, key: 64})
