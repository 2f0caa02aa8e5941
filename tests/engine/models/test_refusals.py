"""L5 and the rest of what is refused: one sentence that names the file, the tensor and the reason."""

import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gguf import GGMLQuantizationType

from engine.errors import ModelError
from engine.models.gguf_header import read_header
from engine.models.resolve import load_model
from tests.models_factory import tiny_gguf, tiny_hf_model

F32 = GGMLQuantizationType.F32


@pytest.fixture(autouse=True)
def _own_cache(own_cache: Path) -> None:
    """Nothing that is refused may leave a trace in a cache."""


def refusal(path: Path) -> str:
    with pytest.raises(ModelError) as caught:
        load_model(str(path))
    text = str(caught.value)
    assert "\n" not in text
    assert text.endswith(".")
    assert path.name in text
    return text


@pytest.mark.parametrize(
    ("cut", "reason"),
    [
        (lambda size, data: 0, "is empty"),
        (lambda size, data: 8, "ends inside its header"),
        (lambda size, data: data // 2, "ends inside its header"),
        (lambda size, data: data, "tensor token_embd.weight ends at byte"),
        (lambda size, data: size // 2, "but the file has"),
        (lambda size, data: size - 1, "but the file has"),
    ],
    ids=["0", "8 bytes", "half header", "header only", "50 %", "last byte missing"],
)
def test_cut_gguf(tmp_path: Path, cut: Callable[[int, int], int], reason: str) -> None:
    file = tiny_gguf(tmp_path / "cut.gguf", "llama")
    data = min(tensor.offset for tensor in read_header(file).tensors.values())
    content = file.read_bytes()
    file.write_bytes(content[: cut(len(content), data)])
    text = refusal(file)
    assert reason in text
    if "byte" in reason or "has" in reason:
        assert "tensor " in text


def test_a_whole_file_is_not_called_corrupt(tmp_path: Path) -> None:
    assert load_model(str(tiny_gguf(tmp_path / "whole.gguf", "llama"))).weights


@pytest.mark.parametrize("name", ["page.gguf", "page.safetensors", "page"])
def test_html_page_under_another_name(tmp_path: Path, name: str) -> None:
    file = tmp_path / name
    file.write_text("<!DOCTYPE html><html><body>Not found</body></html>", encoding="utf-8")
    if name.endswith("safetensors"):
        tiny_hf_model(tmp_path / "hf", "llama")
        file = file.rename(tmp_path / "hf" / "model.safetensors").parent
        with pytest.raises(ModelError, match="an HTML page"):
            load_model(str(file))
    else:
        assert "an HTML page" in refusal(file)


def patched(file: Path, tensor: str, offset_in_record: int, code: str, value: int) -> Path:
    """Overwrites the type or the offset in a tensor's record of the header."""
    content = bytearray(file.read_bytes())
    at = content.index(struct.pack("<Q", len(tensor)) + tensor.encode()) + 8 + len(tensor)
    (rank,) = struct.unpack_from("<I", content, at)
    struct.pack_into(code, content, at + 4 + 8 * rank + offset_in_record, value)
    file.write_bytes(content)
    return file


def test_tensor_offset_past_the_end(tmp_path: Path) -> None:
    file = patched(tiny_gguf(tmp_path / "off.gguf", "llama"), "blk.1.ffn_up.weight", 4, "<Q", 1 << 40)
    assert "tensor blk.1.ffn_up.weight ends at byte" in refusal(file)


def test_tensors_that_overlap(tmp_path: Path) -> None:
    file = patched(tiny_gguf(tmp_path / "over.gguf", "llama"), "blk.1.ffn_up.weight", 4, "<Q", 32)
    assert "overlap" in refusal(file)


@pytest.mark.parametrize(
    ("number", "name"),
    [
        (GGMLQuantizationType.Q8_K, "Q8_K"),
        (GGMLQuantizationType.I32, "I32"),
        (GGMLQuantizationType.F64, "F64"),
        (31, "Q4_0_4_4"),
        (999, "number 999"),
    ],
)
def test_unsupported_type_is_named(tmp_path: Path, number: int, name: str) -> None:
    file = patched(tiny_gguf(tmp_path / "type.gguf", "llama"), "blk.0.ffn_down.weight", 0, "<I", int(number))
    assert f"tensor blk.0.ffn_down.weight is of type {name}," in refusal(file)


def test_type_that_gguf_forgets_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As with an older gguf package, which cannot dequantize IQ4_XS."""
    import engine.models.gguf_header as header

    def forgetful(data: np.ndarray, kind: GGMLQuantizationType) -> np.ndarray:
        raise NotImplementedError

    monkeypatch.setattr(header, "dequantize", forgetful)
    number = int(GGMLQuantizationType.IQ4_XS)
    file = patched(tiny_gguf(tmp_path / "type.gguf", "llama"), "blk.0.ffn_down.weight", 0, "<I", number)
    assert "tensor blk.0.ffn_down.weight is of type IQ4_XS," in refusal(file)


@pytest.mark.parametrize(
    ("metadata", "reason"),
    [
        ({"general.architecture": "qwen35"}, "'qwen35' is a hybrid"),
        ({"general.architecture": "qwen3next"}, "'qwen3next' is a hybrid"),
        ({"general.architecture": "jamba"}, "'jamba' is a hybrid"),
        ({"general.architecture": "granitehybrid"}, "'granitehybrid' is a hybrid"),
        ({"general.architecture": "lfm2"}, "'lfm2' is a hybrid"),
        ({"general.architecture": "qwen3moe"}, "'qwen3moe' is a mixture of experts"),
        ({"general.architecture": "gpt-oss"}, "'gpt-oss' is a mixture of experts"),
        ({"general.architecture": "martian"}, "'martian' is not known"),
        ({"llama.expert_count": 8}, "'llama' is a mixture of experts"),
        ({"llama.attention.sliding_window": 128}, "slides over 128 tokens"),
        ({"llama.rope.dimension_count": 8}, "llama.rope.dimension_count differs"),
        ({"llama.logit_scale": 8.0}, "llama.logit_scale is set"),
        ({"llama.block_count": None}, "key llama.block_count is missing"),
        ({"llama.attention.head_count_kv": 3}, "3 KV heads"),
        ({"llama.block_count": 3}, "tensor model.layers.2.input_layernorm.weight is missing"),
        ({"llama.feed_forward_length": 64}, "has shape [128, 64]"),
        ({"split.count": 4}, "parts of a split file"),
        ({"tokenizer.ggml.tokens": None}, "the tokenizer is missing"),
        ({"tokenizer.ggml.model": "no_vocab"}, "the tokenizer is missing"),
        ({"tokenizer.ggml.merges": None}, "tokenizer.ggml.merges"),
        ({"tokenizer.ggml.merges": ["zz zz"]}, "do not fit together"),
        ({"tokenizer.ggml.model": "bert"}, "tokenizer kind 'bert'"),
        ({"tokenizer.ggml.tokens": [f"t{at}" for at in range(500)]}, "500 tokens"),
    ],
)
def test_gguf_that_cannot_be_served(tmp_path: Path, metadata: dict[str, Any], reason: str) -> None:
    text = refusal(tiny_gguf(tmp_path / "odd.gguf", "llama", metadata=metadata))
    assert reason in text
    if "hybrid" in reason or "experts" in reason or "slides" in reason:
        assert "vLLM backend" in text


def test_gguf_tensors_that_are_missing_or_foreign(tmp_path: Path) -> None:
    missing = tiny_gguf(tmp_path / "missing.gguf", "llama", tensors={"blk.1.attn_v.weight": None})
    assert "tensor model.layers.1.self_attn.v_proj.weight is missing" in refusal(missing)
    no_embedding = tiny_gguf(tmp_path / "none.gguf", "llama", tensors={"token_embd.weight": None})
    assert "tensor token_embd.weight is missing" in refusal(no_embedding)
    gate = (np.zeros((8, 64), np.float32), F32)
    foreign = tiny_gguf(tmp_path / "foreign.gguf", "llama", tensors={"blk.0.ffn_gate_inp.weight": gate})
    assert "tensor blk.0.ffn_gate_inp.weight is not part of the llama architecture" in refusal(foreign)


def test_values_that_are_not_finite(tmp_path: Path) -> None:
    broken = np.full((64, 128), np.nan, np.float32)
    file = tiny_gguf(tmp_path / "nan.gguf", "llama", tensors={"blk.1.ffn_down.weight": (broken, F32)})
    assert "tensor blk.1.ffn_down.weight holds values that are not finite" in refusal(file)


@pytest.mark.parametrize(
    ("cut", "reason"),
    [
        (lambda size, data: 0, "is empty"),
        (lambda size, data: 8, "ends inside its header"),
        (lambda size, data: data, "ends at byte"),
        (lambda size, data: size // 2, "ends at byte"),
        (lambda size, data: size - 1, "ends at byte"),
        (lambda size, data: size + 1, "header describes"),
    ],
    ids=["0", "8 bytes", "header only", "50 %", "last byte missing", "one byte more"],
)
def test_cut_safetensors(tmp_path: Path, cut: Callable[[int, int], int], reason: str) -> None:
    file = tiny_hf_model(tmp_path / "hf", "llama") / "model.safetensors"
    content = file.read_bytes()
    data = 8 + struct.unpack_from("<Q", content)[0]
    file.write_bytes((content + b"\0")[: cut(len(content), data)])
    with pytest.raises(ModelError) as caught:
        load_model(str(file.parent))
    assert reason in str(caught.value)
    assert str(file) in str(caught.value)
    assert ("tensor " in str(caught.value)) == ("ends at" in reason)


def edited(path: Path, name: str, **changes: Any) -> None:
    stated = json.loads((path / name).read_text(encoding="utf-8")) | changes
    (path / name).write_text(json.dumps({k: v for k, v in stated.items() if v is not None}), encoding="utf-8")


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"model_type": "qwen3_5"}, "'qwen3_5' is a hybrid"),
        ({"model_type": "qwen3_next"}, "'qwen3_next' is a hybrid"),
        ({"model_type": "mamba"}, "'mamba' is a hybrid"),
        ({"model_type": "granitemoehybrid"}, "'granitemoehybrid' is a hybrid"),
        ({"model_type": "qwen3_moe"}, "'qwen3_moe' is a mixture of experts"),
        ({"model_type": "mixtral"}, "'mixtral' is a mixture of experts"),
        ({"model_type": "gpt2"}, "'gpt2' is not known"),
        ({"num_experts": 8}, "mixture of experts"),
        ({"quantization_config": {"quant_method": "gptq"}}, "quantized by gptq"),
        ({"hidden_act": "gelu"}, "activation 'gelu'"),
        ({"mlp_bias": True}, "mlp_bias"),
        ({"hidden_size": None}, "hidden_size is missing"),
        ({"hidden_size": "64"}, "hidden_size is 64, not a whole number"),
        ({"num_hidden_layers": 3}, "tensor model.layers.2.input_layernorm.weight is missing"),
        ({"intermediate_size": 64}, "has shape [128, 64]"),
        ({"layer_types": ["sliding_attention"] * 2, "sliding_window": 64}, "slides over 64 tokens"),
        (
            {"layer_types": None, "use_sliding_window": True, "sliding_window": 64, "max_window_layers": 1},
            "slides over 64 tokens",
        ),
        ({"rope_parameters": {"rope_type": "yarn", "rope_theta": 1e4, "factor": 4.0}}, "rotary scaling 'yarn'"),
        ({"rope_parameters": {"rope_type": "llama3", "rope_theta": 1e4}}, "lacks 'factor'"),
        ({"rope_parameters": {"partial_rotary_factor": 0.5}}, "only 0.5 of each head"),
        ({"num_key_value_heads": 3}, "3 KV heads"),
        ({"vocab_size": 0}, "vocab_size is 0"),
    ],
)
def test_directory_that_cannot_be_served(tmp_path: Path, changes: dict[str, Any], reason: str) -> None:
    edited(tiny_hf_model(tmp_path, "qwen2"), "config.json", **changes)
    assert reason in refusal(tmp_path)


@pytest.mark.parametrize(
    "changes",
    [
        {"layer_types": ["full_attention"] * 2, "sliding_window": 64},
        {"layer_types": None, "use_sliding_window": False, "sliding_window": 64, "max_window_layers": 0},
        {"layer_types": None, "use_sliding_window": True, "sliding_window": 64, "max_window_layers": 2},
        {"layer_types": None, "use_sliding_window": True, "sliding_window": 4096, "max_window_layers": 0},
    ],
)
def test_a_window_that_is_not_used_is_no_reason(tmp_path: Path, changes: dict[str, Any]) -> None:
    edited(tiny_hf_model(tmp_path, "qwen2"), "config.json", **changes)
    assert load_model(str(tmp_path)).weights


def test_files_missing_from_a_directory(tmp_path: Path) -> None:
    for name, reason in (("tokenizer.json", "tokenizer is missing"), ("config.json", "config.json: missing")):
        directory = tiny_hf_model(tmp_path / name, "llama")
        (directory / name).unlink()
        with pytest.raises(ModelError, match=reason):
            load_model(str(directory))
    directory = tiny_hf_model(tmp_path / "broken", "llama")
    (directory / "tokenizer.json").write_text("{}", encoding="utf-8")
    with pytest.raises(ModelError, match=r"tokenizer\.json: the tokenizer cannot be read"):
        load_model(str(directory))
    (directory / "config.json").write_text("{", encoding="utf-8")
    with pytest.raises(ModelError, match=r"config\.json: not JSON"):
        load_model(str(directory))


def test_shard_missing(tmp_path: Path) -> None:
    tiny_hf_model(tmp_path, "llama", shard="100KB")
    shard = sorted(tmp_path.glob("model-*.safetensors"))[1]
    shard.unlink()
    with pytest.raises(ModelError, match=f"{shard.name}: the weights file is missing"):
        load_model(str(tmp_path))


@pytest.mark.parametrize("suffix", ["bin", "pt", "pth", "ckpt", "pkl"])
def test_pickles_are_refused_as_files_and_in_directories(tmp_path: Path, suffix: str) -> None:
    directory = tiny_hf_model(tmp_path / "hf", "llama")
    pickle = (directory / "model.safetensors").rename(directory / f"pytorch_model.{suffix}")
    for choice in (pickle, directory):
        with pytest.raises(ModelError, match=rf"pytorch_model\.{suffix}: a pickle file"):
            load_model(str(choice))
    with pytest.raises(ModelError, match="a pickle file"):
        load_model(f"nowhere/model.{suffix}")


def test_a_single_safetensors_file_points_to_its_directory(tmp_path: Path) -> None:
    directory = tiny_hf_model(tmp_path / "hf", "llama")
    assert f"give its directory {directory}" in refusal(directory / "model.safetensors")


def test_safetensors_of_another_dtype_is_named(tmp_path: Path) -> None:
    file = tiny_hf_model(tmp_path, "llama") / "model.safetensors"
    file.write_bytes(file.read_bytes().replace(b'"F32"', b'"I32"', 1))
    with pytest.raises(ModelError, match=r"tensor \S+ is of type I32"):
        load_model(str(tmp_path))
