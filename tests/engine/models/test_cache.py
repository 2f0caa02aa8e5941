"""The conversion cache: warm starts, two processes at once, kill -9, damage from outside."""

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
import torch
from gguf import GGMLQuantizationType

from engine.errors import ModelError
from engine.models import cache
from engine.models.convert import write_weights
from engine.models.gguf_reader import read_gguf
from engine.models.progress import Progress, silent
from engine.models.resolve import list_models, load_model
from engine.models.safetensors_file import map_tensors, read_header
from tests.models_factory import tiny_gguf

Q4_1 = GGMLQuantizationType.Q4_1


def drafts(own_cache: Path) -> list[Path]:
    return list((own_cache / "models").glob(".draft-*"))


def test_warm_start_converts_nothing(tmp_path: Path, own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tiny_gguf(tmp_path / "x.gguf", "llama", kind=Q4_1)
    seen: list[Progress] = []
    cold = load_model(str(file), seen.append)
    assert {"check", "convert", "load"} <= {progress.stage for progress in seen}
    fractions = [progress.fraction for progress in seen if progress.stage == "convert"]
    assert fractions == sorted(fractions, key=lambda fraction: fraction or 0)
    assert fractions[-1] == 1.0
    monkeypatch.setattr(cache, "_convert_into", None)
    warm_seen: list[Progress] = []
    warm = load_model(str(file), warm_seen.append)
    assert {progress.stage for progress in warm_seen} == {"load"}
    assert warm.config == cold.config
    assert (warm.template, warm.source, warm.revision, warm.note) == (
        cold.template,
        cold.source,
        cold.revision,
        cold.note,
    )
    assert all(torch.equal(warm.weights[name], weight) for name, weight in cold.weights.items())
    assert warm.tokenizer.encode("the quick <|im_end|>") == cold.tokenizer.encode("the quick <|im_end|>")
    assert warm.tokenizer.eos_ids == cold.tokenizer.eos_ids


def test_warm_start_reads_the_head_of_the_file_only(tmp_path: Path, own_cache: Path) -> None:
    """A sparse tail of 3 GiB would take seconds to read; the key is made of 4 MiB."""
    file = tiny_gguf(tmp_path / "x.gguf", "llama")
    os.truncate(file, 3 << 30)
    load_model(str(file))
    before = Path("/proc/self/io").read_text() if Path("/proc/self/io").exists() else ""
    load_model(str(file))
    if before:
        after = Path("/proc/self/io").read_text()
        read = [int(text.split("rchar: ")[1].split()[0]) for text in (before, after)]
        assert read[1] - read[0] < 32 << 20


def test_another_version_of_the_file_is_converted_anew(tmp_path: Path, own_cache: Path) -> None:
    file = tiny_gguf(tmp_path / "x.gguf", "llama", seed=0)
    first = load_model(str(file))
    tiny_gguf(file, "llama", seed=1)
    second = load_model(str(file))
    assert first.revision != second.revision
    name = "model.layers.0.mlp.up_proj.weight"
    assert not torch.equal(first.weights[name], second.weights[name])
    assert len(list_models()) == 2


def test_two_processes_at_once(tmp_path: Path, own_cache: Path) -> None:
    file = tiny_gguf(tmp_path / "x.gguf", "llama", kind=Q4_1)
    script = (
        "import sys; from engine.models.resolve import load_model\n"
        "print('ready', flush=True); sys.stdin.readline()\n"
        "model = load_model(sys.argv[1])\n"
        "print(model.revision, sum(float(weight.double().sum()) for weight in model.weights.values()))"
    )
    command = [sys.executable, "-c", script, str(file)]
    both = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=os.environ)
        for _ in range(2)
    ]
    for process in both:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    answers = set()
    for process in both:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    for process in both:
        answers.add(process.communicate(timeout=120)[0])
        assert process.returncode == 0
    assert len(answers) == 1
    assert len(list_models()) == 1
    assert not drafts(own_cache)


def test_both_writers_finish_and_the_first_wins(own_cache: Path) -> None:
    entry = own_cache / "models" / "key"
    meet = threading.Barrier(2, timeout=60)
    faults: list[BaseException] = []

    def write(draft: Path) -> None:
        (draft / "model.json").write_text("{}", encoding="utf-8")
        meet.wait()

    def run() -> None:
        try:
            cache.publish(entry, write)
        except OSError as error:
            faults.append(error)

    threads = [threading.Thread(target=run) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not faults
    assert [file.name for file in entry.iterdir()] == ["model.json"]
    assert not drafts(own_cache)


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs SIGKILL")
def test_kill_in_the_middle_leaves_no_entry(tmp_path: Path, own_cache: Path) -> None:
    file = tiny_gguf(tmp_path / "x.gguf", "llama")
    script = (
        "import sys, time; from engine.models.resolve import load_model\n"
        "def stop(progress):\n"
        "    if progress.stage == 'convert' and progress.fraction > 0.5:\n"
        "        print('half', flush=True); time.sleep(600)\n"
        "load_model(sys.argv[1], stop)"
    )
    process = subprocess.Popen([sys.executable, "-c", script, str(file)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "half\n"
    assert drafts(own_cache)
    assert list_models() == []
    process.kill()
    process.communicate()
    assert load_model(str(file)).weights
    assert len(list_models()) == 1
    cache.drop_abandoned(own_cache / "models", older_than_s=3600)
    assert drafts(own_cache), "a fresh draft may belong to a process on another machine"
    cache.drop_abandoned(own_cache / "models", older_than_s=-1)
    assert not drafts(own_cache)


@pytest.mark.parametrize("part", ["model.safetensors", "tokenizer.json", "model.json"])
@pytest.mark.parametrize("damage", ["cut", "gone"])
def test_a_damaged_entry_is_made_anew(tmp_path: Path, own_cache: Path, part: str, damage: str) -> None:
    file = tiny_gguf(tmp_path / "x.gguf", "llama")
    wanted = load_model(str(file))
    victim = cache.entry_path(file) / part
    if damage == "gone":
        victim.unlink()
    else:
        # A new file, as the first model still maps the old one.
        content = victim.read_bytes()
        victim.unlink()
        victim.write_bytes(content[: len(content) // 2])
    again = load_model(str(file))
    assert all(torch.equal(again.weights[name], weight) for name, weight in wanted.weights.items())
    assert not drafts(own_cache)


def test_a_failed_conversion_leaves_nothing(tmp_path: Path, own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tiny_gguf(tmp_path / "x.gguf", "llama")

    def full(path: Path) -> object:
        return type("Usage", (), {"free": 1000})

    monkeypatch.setattr("engine.models.convert.shutil.disk_usage", full)
    with pytest.raises(ModelError, match=r"needs .* GiB but the disk has .* PARKDECK_CACHE_DIR"):
        load_model(str(file))
    assert list_models() == []
    assert not drafts(own_cache)


def test_dtypes_lose_nothing_or_say_what(tmp_path: Path, own_cache: Path) -> None:
    model = read_gguf(tiny_gguf(tmp_path / "x.gguf", "llama", kind=Q4_1))
    exact, half = tmp_path / "exact", tmp_path / "half"
    assert "exactly" in write_weights(model, exact, silent)
    assert "2^-11" in write_weights(model, half, silent, exact_bytes=0)
    wanted, rounded = (map_tensors(path, read_header(path)) for path in (exact, half))
    name = "model.layers.0.mlp.up_proj.weight"
    assert (wanted[name].dtype, rounded[name].dtype) == (torch.float32, torch.float16)
    assert rounded["model.norm.weight"].dtype == torch.float32
    normal = wanted[name].abs() > 2**-14
    error = ((rounded[name].float() - wanted[name]).abs() / wanted[name].abs())[normal]
    assert 0 < error.max() <= 2**-11, "fp32 is needed to be exact, fp16 stays within its rounding"


def test_values_beyond_fp16_stay_fp32(tmp_path: Path, own_cache: Path) -> None:
    large = np.full((64, 128), 7e4, np.float32)
    tensors = {"blk.0.ffn_down.weight": (large, GGMLQuantizationType.BF16)}
    kept = load_model(str(tiny_gguf(tmp_path / "bf16.gguf", "llama", tensors=tensors)))
    assert kept.weights["model.layers.0.mlp.down_proj.weight"].dtype == torch.bfloat16
    block = np.frombuffer(np.array([6e4, 5e4], np.float16).tobytes() + bytes([0x11] * 16), np.uint8)
    raw = np.tile(block, (64, 4))
    model = read_gguf(tiny_gguf(tmp_path / "q.gguf", "llama", tensors={"blk.0.ffn_down.weight": (raw, Q4_1)}))
    write_weights(model, tmp_path / "half", silent, exact_bytes=0)
    assert read_header(tmp_path / "half")["model.layers.0.mlp.down_proj.weight"].dtype == "F32"


def test_list_tells_name_size_and_source(tmp_path: Path, own_cache: Path) -> None:
    assert list_models() == []
    file = tiny_gguf(tmp_path / "little.gguf", "llama")
    load_model(str(file))
    (listed,) = list_models()
    assert (listed.name, listed.source, listed.kind) == ("little", str(file.resolve()), "converted")
    assert listed.nbytes == sum(part.stat().st_size for part in cache.entry_path(file).iterdir())


def test_entries_of_an_earlier_format_leave_with_the_next_conversion(
    tmp_path: Path, own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache, "FORMAT", cache.FORMAT - 1)
    load_model(str(tiny_gguf(tmp_path / "old.gguf", "llama")))
    monkeypatch.undo()
    monkeypatch.setenv("PARKDECK_CACHE_DIR", str(own_cache))
    load_model(str(tiny_gguf(tmp_path / "new.gguf", "llama")))
    assert [model.name for model in list_models()] == ["new"]


def test_changed_weights_are_noticed_and_made_anew(tmp_path: Path, own_cache: Path) -> None:
    file = tiny_gguf(tmp_path / "x.gguf", "llama")
    wanted = load_model(str(file))
    victim = cache.entry_path(file) / "model.safetensors"
    content = bytearray(victim.read_bytes())
    content[-5] ^= 0xFF
    # A new file, as the first model still maps the old one.
    victim.unlink()
    victim.write_bytes(content)
    again = load_model(str(file))
    assert all(torch.equal(again.weights[name], weight) for name, weight in wanted.weights.items())


def test_model_json_of_the_wrong_kind(tmp_path: Path, own_cache: Path) -> None:
    file = tiny_gguf(tmp_path / "x.gguf", "llama")
    wanted = load_model(str(file))
    stated = cache.entry_path(file) / "model.json"
    whole = json.loads(stated.read_text(encoding="utf-8"))
    stated.write_text("no JSON", encoding="utf-8")
    assert list_models() == []
    for field in ("rms_norm_eps", "layers", "rope", "eos_ids"):
        stated.write_text(json.dumps(whole | {"config": whole["config"] | {field: "abc"}}), encoding="utf-8")
        assert load_model(str(file)).config == wanted.config
    assert [model.name for model in list_models()] == ["x"]


def test_a_stray_file_among_the_drafts(tmp_path: Path, own_cache: Path) -> None:
    stray = own_cache / "models" / ".draft-1-x"
    stray.parent.mkdir(parents=True)
    stray.write_text("", encoding="utf-8")
    assert load_model(str(tiny_gguf(tmp_path / "x.gguf", "llama"))).weights
    cache.drop_abandoned(stray.parent, older_than_s=-1)
    assert stray.exists(), "process 1 lives"
    other = stray.rename(stray.with_name(".draft-no-x"))
    cache.drop_abandoned(stray.parent, older_than_s=-1)
    assert not other.exists()


@pytest.mark.parametrize("choice", ["default", "x.gguf"])
def test_a_cache_that_cannot_be_written(tmp_path: Path, own_cache: Path, choice: str) -> None:
    file = tiny_gguf(tmp_path / "x.gguf", "llama")
    own_cache.write_text("a file", encoding="utf-8")
    with pytest.raises(ModelError, match=r"the model cache cannot be used .* PARKDECK_CACHE_DIR"):
        load_model(choice if choice == "default" else str(file))
    assert list_models() == []
