"""Hugging Face ids through the real client, in a process of its own, against a server on this machine."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.engine.models.layouts.configs import LLAMA_31_8B, QWEN3_5_9B
from tests.engine.models.layouts.hub_server import Hub, serving
from tests.engine.models.layouts.test_gguf_keys import LLAMA, header

ASK = """
import json, sys
from dataclasses import asdict
from engine.errors import ModelError
from engine.models.layout_reader import read_layout
for choice in sys.argv[1:]:
    try:
        print(json.dumps(asdict(read_layout(choice))))
    except ModelError as error:
        print(json.dumps(str(error)))
print(json.dumps([name for name in ("torch", "transformers") if name in sys.modules]))
"""


def ask(endpoint: str, cache: Path, *choices: str, **environment: str) -> list[Any]:
    """The answer to each choice, an object or the sentence that refuses it; then the heavy modules that were loaded."""
    own = {"HF_ENDPOINT": endpoint, "HF_HOME": str(cache), "HF_HUB_DISABLE_TELEMETRY": "1", **environment}
    clean = {key: value for key, value in os.environ.items() if not key.startswith(("HF_", "HUGGING"))}
    done = subprocess.run(
        [sys.executable, "-c", ASK, *choices], env=clean | own, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def small_safetensors(data: int) -> bytes:
    return (2).to_bytes(8, "little") + b"{}" + bytes(data)


@pytest.fixture
def hub(tmp_path: Path) -> Hub:
    """A GGUF file whose header is 3 MB of tokens before 8 MB of weights, and configs beside listed or lone weights."""
    tokens = [f"token number {i:010d}" for i in range(100_000)]
    gguf = header(tmp_path / "big.gguf", "llama", LLAMA, **{"tokenizer.ggml.tokens": tokens})
    index = json.dumps({"metadata": {"total_size": 19_306_310_656}, "weight_map": {}}).encode()
    return Hub(
        {
            "org/listed": {"config.json": json.dumps(QWEN3_5_9B).encode(), "model.safetensors.index.json": index},
            "org/lone": {"config.json": json.dumps(LLAMA_31_8B).encode(), "model.safetensors": small_safetensors(4096)},
            "org/bare": {"config.json": json.dumps(LLAMA_31_8B).encode()},
            "org/ggufs": {"q4/big.gguf": gguf.read_bytes() + bytes(8 << 20), "README.md": b"hello"},
            "org/page": {"x.gguf": b"<!doctype html>", "config.json": b"<!doctype html>"},
            "org/strange": {"config.json": b'{"model_type": "strange"}'},
            "org/noconfig": {"model.safetensors": small_safetensors(8)},
            "org/pickles": {"pytorch_model.bin": b"\x80"},
            "org/gated": {"config.json": b"{}", "x.gguf": b"GGUF"},
        },
        gated=frozenset({"org/gated"}),
    )


def test_configs_and_headers(hub: Hub, tmp_path: Path) -> None:
    with serving(hub):
        listed, lone, bare, gguf, heavy = ask(
            hub.url, tmp_path / "cache", "org/listed", "org/lone", "org/bare", "org/ggufs:q4/big.gguf"
        )
    assert heavy == []
    assert listed["layout"]["state_bytes"] == 51_511_296
    assert listed["layout"]["name"] == "listed"
    assert listed["weights_bytes"] == 19_306_310_656
    assert listed["source"] == "config.json of org/listed"
    assert lone["weights_bytes"] == 4096
    assert bare["weights_bytes"] is None
    groups = [{"layers": 32, "heads": 8, "widths": [128, 128], "window": None}]
    assert lone["layout"]["groups"] == bare["layout"]["groups"] == gguf["layout"]["groups"] == groups
    assert gguf["weights_bytes"] == 2 * 64 * 2
    assert gguf["source"] == "GGUF header of org/ggufs:q4/big.gguf"
    # The header alone went over the line: ranges of 1, 1 and 2 MiB, each byte once.
    assert hub.sent["org/ggufs/q4/big.gguf"] == 4 << 20
    assert hub.sent["org/lone/model.safetensors"] == 8


def test_what_cannot_be_had_is_told(hub: Hub, tmp_path: Path) -> None:
    expected = {
        "org/gated": "org/gated: gated on Hugging Face; accept its terms there",
        "org/gated:x.gguf": "org/gated: gated on Hugging Face; accept its terms there",
        "org/nobody": "org/nobody: not on Hugging Face, or private",
        "org/nobody:x.gguf": "org/nobody: not on Hugging Face, or private",
        "org/ggufs:none.gguf": "org/ggufs:none.gguf: the repository has no file 'none.gguf'",
        "org/ggufs": "org/ggufs: holds GGUF files only; choose one as org/ggufs:q4/big.gguf",
        "org/ggufs:README.md": "org/ggufs:README.md: not a GGUF file but something else",
        "org/page:x.gguf": "org/page:x.gguf: not a GGUF file but an HTML page",
        "org/page": "not JSON",
        "org/strange": "org/strange: config.json: model_type 'strange' is not known",
        "org/noconfig": "org/noconfig: holds no config.json",
        "org/pickles": "org/pickles: a pickle file",
        "org/a--b": "not a Hugging Face id",
    }
    with serving(hub):
        *sentences, _ = ask(hub.url, tmp_path / "cache", *expected)
    for sentence, reason in zip(sentences, expected.values(), strict=True):
        assert isinstance(sentence, str)
        assert reason in sentence
        assert "\n" not in sentence


def test_a_hub_that_cannot_be_reached(hub: Hub, tmp_path: Path) -> None:
    """What was read once is read again from the cache; the rest says that there is no network."""
    with serving(hub):
        first, lone, _ = ask(hub.url, tmp_path / "cache", "org/listed", "org/lone")
    with socket.socket() as taken:
        # Bound and not listening: nobody answers there, and nobody else can take the port.
        taken.bind(("127.0.0.1", 0))
        dead = f"http://127.0.0.1:{taken.getsockname()[1]}"
        choices = ("org/listed", "org/lone", "org/bare", "org/ggufs:q4/big.gguf")
        again, layout_alone, bare, gguf, _ = ask(dead, tmp_path / "cache", *choices)
    assert again == first
    assert layout_alone == lone | {"weights_bytes": None}
    for sentence in (bare, gguf):
        assert "Hugging Face cannot be reached and the model is not in its cache" in sentence
    offline = ask(hub.url, tmp_path / "cache", "org/listed", "org/ggufs:q4/big.gguf", HF_HUB_OFFLINE="1")
    assert offline[0] == first
    assert "Hugging Face cannot be reached" in offline[1]
