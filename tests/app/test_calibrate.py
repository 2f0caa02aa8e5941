"""`parkdeck calibrate` over a real engine with a tiny model: what it prints, what it writes, and how it ends."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from engine.cards.read import read_profile
from engine.layout import Store
from tests.models_factory import tiny_hf_model

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_hf_model(tmp_path_factory.mktemp("models"), "llama")


def start(config: Path, *args: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "app.cli", "calibrate", "--backend", "torch", *args]
    environment = {**os.environ, "PARKDECK_CONFIG_DIR": str(config)}
    return subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def test_it_measures_and_writes_the_card(model: Path, tmp_path: Path) -> None:
    done = start(tmp_path, "--quick", "--json", "--model", str(model))
    out, err = done.communicate(timeout=180)
    assert done.returncode == 0, err
    found = json.loads(out)
    card = read_profile(Path(found["path"]))
    assert found["path"] == str(tmp_path / "cards" / "this-machine.toml")
    assert card.calibration is not None
    assert len(found["decodes"]) == len(card.calibration.decodes) >= 9
    assert found["decode_worst"] >= found["decode_error"] >= 0
    # 2 layers, 2 KV heads of 16, fp16, K and V.
    assert card.presets[0].layout.bytes_per_token(Store.FP16) == 2 * 2 * 2 * 16 * 2
    for point in found["decodes"]:
        fitted = (
            found["decode_base_s"]
            + point["turns"] * found["decode_per_turn_s"]
            + point["kv_bytes"] * found["decode_per_kv_byte_s"]
        )
        assert abs(fitted / point["seconds"] - 1) <= found["decode_worst"] + 1e-6
        assert point["kv_bytes"] == point["turns"] * point["context"] * 256
    assert all(point["out_bytes_per_s"] > 1e6 for point in found["copies"])


def test_ctrl_c_ends_it_with_130_and_writes_nothing(model: Path, tmp_path: Path) -> None:
    running = start(tmp_path, "--model", str(model))
    assert running.stderr is not None
    assert "copies in blocks of" in running.stderr.readline()
    running.send_signal(signal.SIGINT)
    out, err = running.communicate(timeout=60)
    assert running.returncode == 130
    assert "Traceback" not in err
    assert not out
    assert not list(tmp_path.rglob("*.toml"))


def test_a_model_that_is_not_there_is_one_sentence(tmp_path: Path) -> None:
    done = start(tmp_path, "--model", str(tmp_path / "nowhere.gguf"))
    _, err = done.communicate(timeout=60)
    assert done.returncode == 2
    assert len(err.strip().splitlines()) == 1
    assert "nowhere.gguf" in err
