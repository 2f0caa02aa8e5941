"""L5 and the rest of what is refused: one sentence that names the file, the tensor and the reason."""

import json
import os
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gguf import GGMLQuantizationType

from engine.errors import ModelError
from engine.models.gguf_header import read_header
from engine.models.resolve import check_choice, find_model, load_model
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


NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"num_hidden_layers": 10**9}, "states 1,000,000,000 layers but the file has"),
        ({"rms_norm_eps": "abc"}, "rms_norm_eps is abc, not a finite number"),
        ({"rms_norm_eps": [1]}, "rms_norm_eps is [1]"),
        ({"rms_norm_eps": NAN}, "rms_norm_eps is nan"),
        ({"rms_norm_eps": -1.0}, "rms_norm_eps is -1"),
        ({"rms_norm_eps": 10**400}, "rms_norm_eps is 1000"),
        ({"rope_parameters": [1]}, "rope_parameters is [1], not an object"),
        ({"rope_parameters": "x"}, "rope_parameters is x"),
        ({"rope_parameters": {"rope_theta": "x"}}, "rope_theta is x"),
        ({"rope_parameters": {"rope_theta": 0}}, "rotary theta is 0"),
        ({"rope_parameters": {"rope_theta": -5}}, "rotary theta is -5"),
        ({"rope_parameters": {"rope_theta": NAN}}, "rope_theta is nan"),
        ({"rope_parameters": {"partial_rotary_factor": "x"}}, "partial_rotary_factor is x"),
        ({"rope_parameters": {"rope_type": "linear", "factor": "x"}}, "factor is x"),
        ({"rope_parameters": {"rope_type": "linear", "factor": 0}}, "rotary factor is 0"),
        ({"rope_parameters": {"rope_type": ["a"]}}, "rotary scaling"),
        (
            {
                "rope_parameters": {
                    "rope_type": "llama3",
                    "factor": 8,
                    "low_freq_factor": 1,
                    "high_freq_factor": 1,
                    "original_max_position_embeddings": 8192,
                }
            },
            "must ascend",
        ),
        ({"sliding_window": "x"}, "sliding_window is x"),
        ({"sliding_window": 5, "max_position_embeddings": None}, "max_position_embeddings is missing"),
        ({"sliding_window": 5, "layer_types": 5}, "layer_types is 5, not a list"),
        ({"max_position_embeddings": 1}, "max_context is 1"),
        ({"eos_token_id": {}}, "eos_token_id is {}, not a token's id"),
        ({"eos_token_id": [[1]]}, "eos_token_id is [[1]]"),
        ({"eos_token_id": "2"}, "eos_token_id is 2"),
        ({"eos_token_id": 2.5}, "eos_token_id is 2.5"),
        ({"bos_token_id": "a"}, "bos_token_id is a"),
        ({"tie_word_embeddings": "false"}, "tie_word_embeddings is false, neither"),
        ({"model_type": "x" * 100_000}, "xxx..."),
        ({"model_type": ["qwen2"]}, "is not known"),
        ({"hidden_act": "a\nb"}, "activation 'a b'"),
    ],
)
def test_config_values_of_the_wrong_kind(tmp_path: Path, changes: dict[str, Any], reason: str) -> None:
    edited(tiny_hf_model(tmp_path, "qwen2"), "config.json", **changes)
    text = refusal(tmp_path)
    assert reason in text
    assert len(text) < 600


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("config.json", b'{"a":' * 100_000, "config.json: not JSON"),
        ("config.json", b"\xff\xfe", "config.json: not UTF-8"),
        ("generation_config.json", b'{"eos_token_id": "x"}', "generation_config.json: eos_token_id is x"),
        ("tokenizer_config.json", b'{"chat_template": [1]}', "chat_template is [1]"),
        ("tokenizer_config.json", b'{"chat_template": 5}', "chat_template is 5"),
        ("chat_template.jinja", b"\xff\xfe\x00abc", "chat_template.jinja: not UTF-8"),
        ("model.safetensors.index.json", b'{"weight_map": {"a": "' + b"z" * 400 + b'"}}', "(weight_map) is missing"),
    ],
)
def test_files_of_the_wrong_kind_in_a_directory(tmp_path: Path, name: str, content: bytes, reason: str) -> None:
    (tiny_hf_model(tmp_path, "qwen2") / name).write_bytes(content)
    assert reason in refusal(tmp_path)


ENTRY: dict[str, Any] = {"dtype": "F32", "shape": [2, 2], "data_offsets": [0, 16]}


@pytest.mark.parametrize(
    ("header", "reason"),
    [
        (b"[" * 200_000, "not JSON"),
        ({"a": ENTRY | {"data_offsets": ["0", "16"]}}, "tensor a has a broken header entry"),
        ({"a": ENTRY | {"data_offsets": [None, 16]}}, "tensor a has a broken header entry"),
        ({"a": ENTRY | {"shape": [INF]}}, "tensor a has a broken header entry"),
        ({"a": ENTRY | {"shape": [-2, -2]}}, "tensor a has a broken header entry"),
        ({"a": ENTRY | {"dtype": ["F32"]}}, "tensor a has a broken header entry"),
        ({"a": ENTRY, "b": ENTRY}, "tensors a and b overlap"),
    ],
)
def test_safetensors_header_of_the_wrong_kind(tmp_path: Path, header: Any, reason: str) -> None:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    file = tiny_hf_model(tmp_path, "llama") / "model.safetensors"
    file.write_bytes(struct.pack("<Q", len(text)) + text + bytes(16))
    assert reason in refusal(tmp_path)


@pytest.mark.parametrize(
    ("metadata", "reason"),
    [
        ({"llama.block_count": 4_000_000_000}, "states 4,000,000,000 layers"),
        ({"general.architecture": "m" * 100_000}, "is not known"),
        ({"split.count": "x"}, "split.count is x"),
        ({"llama.attention.sliding_window": "x"}, "sliding_window is x"),
        ({"llama.attention.layer_norm_rms_epsilon": NAN}, "layer_norm_rms_epsilon is nan"),
        ({"llama.rope.freq_base": 0.0}, "rotary theta is 0"),
        ({"llama.rope.scaling.type": "linear", "llama.rope.scaling.factor": INF}, "factor is inf"),
        ({"tokenizer.ggml.pre": ["a"]}, "tokenizer.ggml.pre is"),
        ({"tokenizer.ggml.token_type": 5}, "tokenizer.ggml.token_type is 5"),
        ({"tokenizer.ggml.tokens": [1, 2]}, "tokenizer.ggml.tokens is [1, 2], not a list of texts"),
        ({"tokenizer.ggml.merges": [1, 2]}, "tokenizer.ggml.merges is [1, 2]"),
        ({"tokenizer.chat_template": 5}, "tokenizer.chat_template is 5"),
        (
            {
                "tokenizer.ggml.model": "llama",
                "tokenizer.ggml.tokens": ["<unk>", "ab" * 2_000_000],
                "tokenizer.ggml.scores": [0.0, 1.0],
            },
            "has 4,000,000 characters, 512 are served",
        ),
    ],
)
def test_gguf_values_of_the_wrong_kind(tmp_path: Path, metadata: dict[str, Any], reason: str) -> None:
    text = refusal(tiny_gguf(tmp_path / "odd.gguf", "llama", metadata=metadata))
    assert reason in text
    assert len(text) < 600


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (struct.pack("<QQ1sI", 1, 1, b"x", 9) + struct.pack("<IQ", 9, 1) * 200_000, "nests its arrays too deep"),
        (struct.pack("<QQ", 0, 1 << 63) + bytes(1_000_000), "key '' is there twice"),
    ],
    ids=["nested arrays", "zeros"],
)
def test_gguf_headers_made_to_cost(tmp_path: Path, content: bytes, reason: str) -> None:
    file = tmp_path / "deep.gguf"
    count = b"" if content.startswith(bytes(8)) else bytes(8)
    file.write_bytes(b"GGUF" + struct.pack("<I", 3) + count + content + bytes(100))
    assert reason in refusal(file)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
@pytest.mark.parametrize("way", [load_model, find_model, check_choice])
def test_a_pipe_is_never_opened(tmp_path: Path, way: Callable[[str], object]) -> None:
    os.mkfifo(tmp_path / "pipe.gguf")
    with pytest.raises(ModelError, match=r"pipe\.gguf: neither a file nor a directory"):
        way(str(tmp_path / "pipe.gguf"))


def test_a_hub_file_that_is_a_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(ModelError, match="a/b:/etc/passwd: "):
        load_model("a/b:/etc/passwd")


@pytest.mark.parametrize("choice", ["/nowhere/a\nb.gguf", "/nowhere/a\udcffb.gguf", "/nowhere/" + "a/" * 3000])
def test_odd_choices_are_told_on_one_short_line(choice: str) -> None:
    for way in (load_model, find_model, check_choice):
        with pytest.raises(ModelError, match="no such file") as caught:
            way(choice)
        assert str(caught.value).isprintable()
        assert len(str(caught.value)) < 800


def test_a_fault_of_any_kind_becomes_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def faulty(*_: object) -> None:
        raise ZeroDivisionError("by\nzero")

    monkeypatch.setattr("engine.models.resolve.read_directory", faulty)
    text = refusal(tiny_hf_model(tmp_path / "hf", "llama"))
    assert "cannot be loaded (ZeroDivisionError: by zero)" in text
    assert "Traceback" in caplog.text


def test_a_file_that_may_not_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Root may read everything, so the refusal is the mapping's here."""

    def denied(path: Path, *_: object) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr("engine.models.safetensors_reader.read_header", denied)
    directory = tiny_hf_model(tmp_path / "hf", "llama")
    with pytest.raises(ModelError, match=r"model\.safetensors: cannot be read \(Permission denied\)"):
        load_model(str(directory))


def test_a_name_that_is_not_utf8_is_no_reason(tmp_path: Path) -> None:
    file = tiny_gguf(tmp_path / "ok.gguf", "llama").rename(tmp_path / "m\udcff.gguf")
    assert load_model(str(file)).config.name == "m\ufffd"
