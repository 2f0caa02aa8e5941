"""GGUF headers, written with the gguf package: the same kinds of layout in llama.cpp's spelling."""

from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest

from engine.errors import ModelError
from engine.layout import LayerGroup
from engine.models.fetch import DEFAULT_FILE
from engine.models.gguf_records import CutShort, parse_records, read_records
from engine.models.layout_reader import ModelOnPaper, read_layout
from tests.engine.models.layouts.configs import FP16, Q8, SCALE
from tests.models_factory import tiny_gguf

LLAMA = {
    "block_count": 32,
    "context_length": 131072,
    "embedding_length": 4096,
    "attention.head_count": 32,
    "attention.head_count_kv": 8,
}
QWEN35_9B = {
    "block_count": 32,
    "context_length": 262144,
    "embedding_length": 4096,
    "attention.head_count": 16,
    "attention.head_count_kv": 4,
    "attention.key_length": 256,
    "attention.value_length": 256,
    "full_attention_interval": 4,
    "ssm.conv_kernel": 4,
    "ssm.inner_size": 4096,
    "ssm.state_size": 128,
    "ssm.group_count": 16,
    "ssm.time_step_rank": 32,
}
DEEPSEEK2 = {
    "block_count": 61,
    "attention.head_count": 128,
    "attention.head_count_kv": 1,
    "attention.kv_lora_rank": 512,
    "attention.key_length": 576,
    "attention.value_length": 512,
    "attention.key_length_mla": 192,
    "attention.value_length_mla": 128,
    "rope.dimension_count": 64,
}
KIMI_HEADS = [0 if (i + 1) % 4 else 32 for i in range(24)]


def header(path: Path, architecture: str, keys: dict[str, Any], **general: Any) -> Path:
    """A file of one small tensor, 64 x 2 in F16, behind these keys."""
    writer = gguf.GGUFWriter(str(path), architecture)
    stated = {f"{architecture}.{key}": value for key, value in keys.items()} | general
    for key, value in stated.items():
        if isinstance(value, bool):
            writer.add_bool(key, value)
        elif isinstance(value, int):
            writer.add_int64(key, value) if value < 0 else writer.add_uint64(key, value)
        elif isinstance(value, float):
            writer.add_float32(key, value)
        elif isinstance(value, str):
            writer.add_string(key, value)
        else:
            writer.add_array(key, value)
    writer.add_tensor("token_embd.weight", np.zeros((2, 64), np.float16))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def read(path: Path, architecture: str, keys: dict[str, Any], **general: Any) -> ModelOnPaper:
    return read_layout(str(header(path / "model.gguf", architecture, keys, **general)))


def test_a_dense_file(tmp_path: Path) -> None:
    found = read(tmp_path, "llama", LLAMA, **{"general.name": "Some Llama"})
    assert found.layout.bytes_per_token(FP16) == 2 * 32 * 8 * 128 * 2
    assert found.layout.bytes_per_token(Q8) == 2 * 32 * 8 * (128 + SCALE)
    assert found.layout.max_context == 131072
    assert found.layout.name == "Some Llama"
    assert found.weights_bytes == 2 * 64 * 2
    assert found.source == "GGUF header of model.gguf"


def test_the_torch_bodys_file_is_read_alike(tmp_path: Path) -> None:
    """A whole model with quantized tensors: bytes as stored, 32 elements of Q8_0 are 34 bytes."""
    file = tiny_gguf(tmp_path / "x.gguf", "qwen3", kind=gguf.GGMLQuantizationType.Q8_0)
    found = read_layout(str(file))
    reader = gguf.GGUFReader(file)
    assert found.weights_bytes == sum(int(tensor.n_bytes) for tensor in reader.tensors)
    assert found.layout.name == "x"


# architecture, keys, full layers, sliding layers, window, KV heads, K and V sizes
SLIDING: list[tuple[str, dict[str, Any], tuple[int, int, int]]] = [
    ("gemma2", {"block_count": 26, "attention.sliding_window": 4096}, (13, 13, 4096)),
    ("gemma3", {"block_count": 34, "attention.sliding_window": 1024}, (5, 29, 1024)),
    ("gemma3", {"block_count": 34}, (34, 0, 0)),
    ("gpt-oss", {"block_count": 24, "attention.sliding_window": 128}, (12, 12, 128)),
    ("cohere2", {"block_count": 32, "attention.sliding_window": 4096}, (8, 24, 4096)),
    (
        "olmo2",
        {
            "block_count": 4,
            "attention.sliding_window": 64,
            "attention.sliding_window_pattern": [True, False, True, True],
        },
        (1, 3, 64),
    ),
    ("gemma3", {"block_count": 8, "attention.sliding_window": 64, "attention.sliding_window_pattern": 2}, (4, 4, 64)),
    ("llama4", {"block_count": 48}, (12, 36, 8192)),
    ("phi3", {"block_count": 32, "attention.sliding_window": 2047}, (32, 0, 0)),
    # Only the first 20 layers hold KV.
    ("gemma3n", {"block_count": 30, "attention.sliding_window": 512}, (4, 16, 512)),
]


@pytest.mark.parametrize(("architecture", "keys", "sizes"), SLIDING)
def test_windows(tmp_path: Path, architecture: str, keys: dict[str, Any], sizes: tuple[int, int, int]) -> None:
    full, sliding, window = sizes
    common = {"attention.head_count": 8, "attention.head_count_kv": 4}
    common |= {"attention.key_length": 256, "attention.value_length": 256}
    found = read(tmp_path, architecture, common | keys).layout
    assert found.bytes_per_token(FP16) == 2 * (full + sliding) * 4 * 256 * 2
    assert found.turn_bytes(16384, FP16) == (full * 16384 + sliding * window) * 2 * 4 * 256 * 2


def test_sliding_layers_with_heads_of_their_own(tmp_path: Path) -> None:
    """Gemma 4's form: a list of heads, narrower keys where a layer slides, and the last layer without KV of its own."""
    keys = {
        "block_count": 6,
        "attention.head_count": 8,
        "attention.head_count_kv": [4, 4, 2, 4, 4, 2],
        "attention.key_length": 512,
        "attention.value_length": 512,
        "attention.key_length_swa": 256,
        "attention.value_length_swa": 256,
        "attention.sliding_window": 1024,
        "attention.sliding_window_pattern": [True, True, False, True, True, False],
        "attention.shared_kv_layers": 1,
    }
    found = read(tmp_path, "gemma4", keys).layout
    assert found.groups == (LayerGroup(4, 4, (256, 256), 1024), LayerGroup(1, 2, (512, 512)))
    del keys["attention.sliding_window_pattern"]
    with pytest.raises(ModelError, match=r"gemma4\.attention\.sliding_window_pattern is missing"):
        read(tmp_path, "gemma4", keys)


def test_the_hybrid_of_the_card(tmp_path: Path) -> None:
    """Qwen3.5 9B as llama.cpp runs it: the same KV, and a state that is in float32 throughout."""
    found = read(tmp_path, "qwen35", QWEN35_9B).layout
    assert found.bytes_per_token(FP16) == 32_768
    assert found.state_bytes == 24 * ((4096 + 2 * 16 * 128) * 3 + 128 * 4096) * 4 == 52_690_944
    assert found.notes == ("The state of 24 layers is counted in float32, as llama.cpp keeps it.",)


def test_layers_that_guess_ahead_hold_nothing(tmp_path: Path) -> None:
    found = read(tmp_path, "qwen35", QWEN35_9B | {"block_count": 33, "nextn_predict_layers": 1}).layout
    assert (found.groups, found.state_bytes) == ((LayerGroup(8, 4, (256, 256)),), 52_690_944)
    glm = {**LLAMA, "block_count": 47, "nextn_predict_layers": 1}
    assert read(tmp_path, "glm4moe", glm).layout.groups == (LayerGroup(46, 8, (128, 128)),)


# architecture, keys, attending layers, bytes of the state
STATES: list[tuple[str, dict[str, Any], int, int]] = [
    (
        "jamba",
        {
            "attention.head_count_kv": [8 if i % 8 == 4 else 0 for i in range(32)],
            "ssm.conv_kernel": 4,
            "ssm.inner_size": 8192,
            "ssm.state_size": 16,
        },
        4,
        28 * (8192 * 3 + 8192 * 16) * 4,
    ),
    (
        "nemotron_h",
        {
            "block_count": 4,
            "attention.head_count_kv": [0, 0, 8, 0],
            "feed_forward_length": [0, 12288, 0, 12288],
            "ssm.conv_kernel": 4,
            "ssm.inner_size": 8192,
            "ssm.state_size": 128,
            "ssm.group_count": 8,
        },
        1,
        1 * ((8192 + 2 * 8 * 128) * 3 + 8192 * 128) * 4,
    ),
    (
        "falcon-h1",
        {"ssm.conv_kernel": 4, "ssm.inner_size": 3072, "ssm.state_size": 256, "ssm.group_count": 1},
        32,
        32 * ((3072 + 2 * 256) * 3 + 3072 * 256) * 4,
    ),
    (
        "lfm2",
        {"block_count": 4, "attention.head_count_kv": [0, 8, 0, 8], "shortconv.l_cache": 3},
        2,
        2 * 4096 * 2 * 4,
    ),
    ("mamba", {"ssm.conv_kernel": 4, "ssm.inner_size": 8192, "ssm.state_size": 16}, 0, 32 * 8192 * (3 + 16) * 4),
    ("rwkv7", {"wkv.head_size": 64, "token_shift_count": 2}, 0, 32 * 4096 * (2 + 64) * 4),
]


@pytest.mark.parametrize(("architecture", "keys", "attending", "state"), STATES)
def test_states(tmp_path: Path, architecture: str, keys: dict[str, Any], attending: int, state: int) -> None:
    found = read(tmp_path, architecture, LLAMA | keys).layout
    assert found.bytes_per_token(FP16) == 2 * attending * 8 * 128 * 2
    assert found.state_bytes == state


def test_latent_attention(tmp_path: Path) -> None:
    found = read(tmp_path, "deepseek2", DEEPSEEK2).layout
    assert found.bytes_per_token(FP16) == 61 * (512 + 64) * 2
    kimi = DEEPSEEK2 | {"block_count": 24, "attention.head_count": 32, "attention.head_count_kv": KIMI_HEADS}
    kimi |= {"ssm.conv_kernel": 4, "kda.head_dim": 128}
    found = read(tmp_path, "kimi-linear", kimi).layout
    assert found.groups == (LayerGroup(6, 1, (576,)),)
    assert found.state_bytes == 18 * (3 * 32 * 128 * 3 + 32 * 128 * 128) * 4
    old = {key: value for key, value in DEEPSEEK2.items() if not key.endswith("_mla")}
    with pytest.raises(ModelError, match="older form whose latent attention is unpacked into every head"):
        read(tmp_path, "deepseek2", old)


@pytest.mark.parametrize(
    ("architecture", "changes", "reason"),
    [
        ("someday", {}, "general.architecture 'someday' is not known, so its KV layout would be a guess"),
        ("t5", {}, "general.architecture is t5, an encoder-decoder"),
        ("bert", {}, "general.architecture is bert, an encoder"),
        ("llama", {"block_count": None}, "llama.block_count is missing"),
        ("llama", {"block_count": 0}, "llama.block_count is 0, it must be at least 1"),
        ("llama", {"block_count": 10**9}, "llama.block_count is 1000000000, more than the 4,096"),
        ("llama", {"attention.head_count_kv": -8}, "llama.attention.head_count_kv is -8, it must be at least 0"),
        ("llama", {"attention.head_count_kv": "eight"}, "llama.attention.head_count_kv is eight, not a whole number"),
        ("llama", {"attention.head_count_kv": [8, 8]}, "a list of 2 for 32 layers"),
        ("llama", {"attention.head_count_kv": float("nan")}, "is nan, not a whole number"),
        ("llama", {"attention.head_count": 33}, "llama.embedding_length is 4096, which does not divide into 33 heads"),
        ("llama", {"attention.sliding_window": 512}, "llama.attention.sliding_window is 512, which is not known"),
        ("llama", {"nextn_predict_layers": 32}, "llama.nextn_predict_layers is 32, but block_count is 32"),
        ("llama", {"context_length": 0}, "llama.context_length is 0, it must be at least 1"),
        ("mamba", {"ssm.inner_size": None}, "mamba.ssm.conv_kernel is missing"),
        ("gemma4", {"attention.shared_kv_layers": 32}, "gemma4.attention.shared_kv_layers is 32, but block_count"),
    ],
)
def test_refused(tmp_path: Path, architecture: str, changes: dict[str, Any], reason: str) -> None:
    keys = {key: value for key, value in (LLAMA | changes).items() if value is not None}
    with pytest.raises(ModelError) as caught:
        read(tmp_path, architecture, keys)
    sentence = str(caught.value)
    assert reason in sentence
    assert sentence.startswith(str(tmp_path / "model.gguf"))
    assert "\n" not in sentence


def test_a_model_in_several_files_counts_no_weights(tmp_path: Path) -> None:
    found = read(tmp_path, "llama", LLAMA, **{"split.count": 3, "split.no": 0})
    assert found.weights_bytes is None
    assert "split over 3 files" in found.layout.notes[-1]


def test_a_header_from_the_first_bytes_of_a_file(tmp_path: Path) -> None:
    """Every prefix that is too short says how much is needed, and never more than there is."""
    file = header(tmp_path / "model.gguf", "llama", LLAMA, **{"tokenizer.ggml.tokens": [f"t{i}" for i in range(500)]})
    data = file.read_bytes()
    whole = read_records(file)
    wants = [1 << 7]
    while (needed := _needed(data, wants[-1])) is not None:
        wants.append(needed)
    assert parse_records("x", data[: wants[-1]], len(data)) == whole
    assert len(wants) > 10
    assert wants == sorted(set(wants))
    assert wants[-1] <= whole.start


def _needed(data: bytes, length: int) -> int | None:
    try:
        parse_records("x", data[:length], len(data))
    except CutShort as short:
        return short.needed
    return None


def test_the_default_model() -> None:
    """SmolLM2 135M: 30 layers, 3 KV heads of 64, whose file is 30 token embeddings and 30 layers in Q4_1."""
    found = read_layout("default")
    assert found.layout.bytes_per_token(FP16) == 2 * 30 * 3 * 64 * 2
    assert found.weights_bytes is not None
    assert 0 < found.weights_bytes < 135_000_000
    assert found.source == "GGUF header of the default model"
    assert DEFAULT_FILE.startswith("SmolLM2")
