"""Directories of safetensors: M1 own head size, rotary scaling in both spellings, shards, dtypes, end tokens."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from engine.geometry import KVDtype
from engine.models.config import RopeConfig
from engine.models.resolve import load_model
from engine.models.safetensors_file import Entry, encoded_header, map_tensors, read_header
from engine.models.safetensors_reader import read_directory
from engine.models.shapes import expected_shapes
from tests.models_factory import SPECIALS, tiny_hf_model, tiny_tokenizer, tiny_torch_model


def edited(path: Path, name: str, **changes: Any) -> None:
    stated = json.loads((path / name).read_text(encoding="utf-8")) | changes
    (path / name).write_text(json.dumps({k: v for k, v in stated.items() if v is not None}), encoding="utf-8")


def test_qwen3_states_its_own_head_size(tmp_path: Path) -> None:
    """Qwen3-0.6B by its real shapes, the weights a hole in a sparse file: 114,688 B a token, not 57,344."""
    shape: dict[str, Any] = {
        "model_type": "qwen3",
        "hidden_size": 1024,
        "intermediate_size": 3072,
        "num_hidden_layers": 28,
        "num_attention_heads": 16,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "vocab_size": 151936,
        "max_position_embeddings": 40960,
        "tie_word_embeddings": True,
        "rope_theta": 1_000_000,
    }
    small = load_model(str(tiny_hf_model(tmp_path / "small", "qwen3")))
    (tmp_path / "config.json").write_text(json.dumps(shape), encoding="utf-8")
    tiny_tokenizer().save(str(tmp_path / "tokenizer.json"))
    from dataclasses import replace

    config = replace(
        small.config,
        hidden_size=1024,
        intermediate_size=3072,
        layers=28,
        heads=16,
        kv_heads=8,
        head_dim=128,
        vocab_size=151936,
        tied_head=True,
    )
    entries = [Entry(name, "BF16", sizes) for name, sizes in expected_shapes(config).items()]
    with (tmp_path / "model.safetensors").open("wb") as file:
        header = encoded_header(entries)
        file.write(header)
        file.truncate(len(header) + sum(entry.nbytes for entry in entries))
    loaded = load_model(str(tmp_path))
    assert loaded.config.geometry.bytes_per_token(KVDtype.FP16) == 114_688
    assert loaded.weight_bytes == pytest.approx(0.596e9 * 2, rel=0.01)
    assert loaded.weights["model.layers.27.self_attn.q_proj.weight"].shape == (2048, 1024)


def test_head_size_apart_from_hidden_over_heads(tmp_path: Path) -> None:
    loaded = load_model(str(tiny_hf_model(tmp_path, "llama", head_dim=48)))
    assert loaded.config.head_dim == 48 != loaded.config.hidden_size // loaded.config.heads
    edited(tmp_path, "config.json", head_dim=None)
    with pytest.raises(Exception, match=r"has shape \[192, 64\]"):
        load_model(str(tmp_path))


@pytest.mark.parametrize(
    ("changes", "rope"),
    [
        ({"rope_parameters": {"rope_type": "default", "rope_theta": 5e5}}, RopeConfig(theta=5e5)),
        ({"rope_parameters": None, "rope_theta": 5e5, "rope_scaling": None}, RopeConfig(theta=5e5)),
        ({"rope_parameters": None}, RopeConfig()),
        (
            {"rope_parameters": {"rope_type": "linear", "factor": 2.0, "rope_theta": 1e4}},
            RopeConfig(kind="linear", factor=2),
        ),
        (
            {"rope_parameters": None, "rope_theta": 1e4, "rope_scaling": {"type": "linear", "factor": 2.0}},
            RopeConfig(kind="linear", factor=2),
        ),
        (
            {
                "rope_parameters": None,
                "rope_theta": 500000.0,
                "rope_scaling": {
                    "rope_type": "llama3",
                    "factor": 32.0,
                    "low_freq_factor": 1.0,
                    "high_freq_factor": 4.0,
                    "original_max_position_embeddings": 8192,
                },
            },
            RopeConfig(5e5, "llama3", 32.0, 1.0, 4.0, 8192),
        ),
    ],
)
def test_rotary_scaling_in_both_spellings(tmp_path: Path, changes: dict[str, Any], rope: RopeConfig) -> None:
    edited(tiny_hf_model(tmp_path, "llama"), "config.json", **changes)
    assert load_model(str(tmp_path)).config.rope == rope


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("shard", ["1GB", "100KB"])
def test_weights_are_as_stored(tmp_path: Path, dtype: torch.dtype, shard: str) -> None:
    tiny_hf_model(tmp_path, "qwen2", dtype=dtype, shard=shard)
    assert ((tmp_path / "model.safetensors.index.json").is_file()) == (shard != "1GB")
    loaded = load_model(str(tmp_path))
    wanted = tiny_torch_model("qwen2").state_dict()
    assert loaded.weights.keys() == wanted.keys()
    for name, weight in wanted.items():
        assert loaded.weights[name].dtype == dtype
        assert torch.equal(loaded.weights[name], weight.to(dtype))
    assert loaded.config.qkv_bias
    assert loaded.source == str(tmp_path.resolve())


def test_mapped_weights_never_reach_the_file(tmp_path: Path) -> None:
    file = tiny_hf_model(tmp_path, "llama") / "model.safetensors"
    before = file.read_bytes()
    load_model(str(tmp_path)).weights["model.norm.weight"].zero_()
    assert file.read_bytes() == before


def test_a_tied_model_leaves_a_stored_head_alone(tmp_path: Path) -> None:
    edited(tiny_hf_model(tmp_path, "llama"), "config.json", tie_word_embeddings=True)
    loaded = load_model(str(tmp_path))
    assert loaded.config.tied_head
    assert "lm_head.weight" not in loaded.weights


def test_unaligned_tensors_are_read_all_the_same(tmp_path: Path) -> None:
    """Old writers did not pad the header."""
    values = torch.arange(6, dtype=torch.float32)
    text = json.dumps({"a": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}}).encode()
    text += b" " * ((3 - len(text)) % 4)
    file = tmp_path / "model.safetensors"
    file.write_bytes(len(text).to_bytes(8, "little") + text + values.numpy().tobytes())
    assert (8 + len(text)) % 4 == 3
    assert torch.equal(map_tensors(file, read_header(file))["a"], values.view(2, 3))


def test_end_tokens_from_every_file(tmp_path: Path) -> None:
    """eos of config.json and generation_config.json, of the tokenizer, and the markers among its controls."""
    tiny_hf_model(tmp_path, "llama")
    assert load_model(str(tmp_path)).config.eos_ids == {0, 2}
    (tmp_path / "generation_config.json").write_text(json.dumps({"eos_token_id": [2, 77]}), encoding="utf-8")
    edited(tmp_path, "tokenizer_config.json", eos_token={"content": "the", "__type": "AddedToken"})
    loaded = load_model(str(tmp_path))
    assert loaded.config.eos_ids == {0, 2, 77, tiny_tokenizer().token_to_id("the")}
    assert tiny_tokenizer().token_to_id(SPECIALS[1]) not in loaded.config.eos_ids
    assert loaded.tokenizer.eos_ids == loaded.config.eos_ids


def test_start_token_habit_of_the_post_processor(tmp_path: Path) -> None:
    from tokenizers import Tokenizer
    from tokenizers.processors import TemplateProcessing

    tiny_hf_model(tmp_path, "llama")
    assert load_model(str(tmp_path)).tokenizer.encode("the")[0] != 1
    tokenizer = Tokenizer.from_str(tiny_tokenizer().to_str())
    tokenizer.post_processor = TemplateProcessing(single="<|im_start|> $A", special_tokens=[("<|im_start|>", 1)])
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    assert load_model(str(tmp_path)).tokenizer.encode("the")[0] == 1
    edited(tmp_path, "tokenizer_config.json", add_bos_token=False)
    assert load_model(str(tmp_path)).tokenizer.encode("the")[0] != 1


def test_revision_follows_the_files(tmp_path: Path) -> None:
    import os

    first = read_directory(tiny_hf_model(tmp_path, "llama"), "here")
    assert read_directory(tmp_path, "here").revision == first.revision
    os.utime(tmp_path / "model.safetensors", ns=(1, 1))
    assert read_directory(tmp_path, "here").revision != first.revision
