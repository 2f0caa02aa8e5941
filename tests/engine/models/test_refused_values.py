"""Model files whose values are of the wrong kind, made to cost, or not to be opened: one sentence each."""

import json
import os
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from engine.errors import ModelError
from engine.models.resolve import check_choice, find_model, load_model
from tests.engine.models.test_refusals import edited, refusal
from tests.models_factory import tiny_gguf, tiny_hf_model

NAN, INF = float("nan"), float("inf")


@pytest.fixture(autouse=True)
def _own_cache(own_cache: Path) -> None:
    """Each test converts for itself."""


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
