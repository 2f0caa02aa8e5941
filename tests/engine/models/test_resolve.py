"""What a person may write as the model, and Hugging Face ids with and without network."""

from pathlib import Path

import huggingface_hub
import pytest

from engine.errors import ModelError
from engine.models.hub import fetch_from_hub, is_hub_id
from engine.models.progress import silent
from engine.models.resolve import check_choice, load_model
from tests.models_factory import tiny_gguf, tiny_hf_model

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture
def hub_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Hugging Face's cache in a directory of our own, without network."""
    cache = tmp_path / "hub"
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(cache))
    return cache


def snapshot(hub_cache: Path, repository: str) -> Path:
    root = hub_cache / ("models--" + repository.replace("/", "--"))
    (root / "refs").mkdir(parents=True)
    (root / "refs" / "main").write_text(COMMIT, encoding="utf-8")
    (root / "snapshots" / COMMIT).mkdir(parents=True)
    return root / "snapshots" / COMMIT


def test_what_is_an_id() -> None:
    assert is_hub_id("Qwen/Qwen3-0.6B")
    assert is_hub_id("org/name:sub/file.gguf")
    for other in ("name", "/abs/path", "./a/b", "a/b/c", "~/model", "org/", ""):
        assert not is_hub_id(other)


def test_paths_and_the_environment(tmp_path: Path, own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tiny_gguf(tmp_path / "one.gguf", "llama")
    directory = tiny_hf_model(tmp_path / "two", "qwen3")
    assert load_model(str(file)).config.name == "one"
    assert load_model(f"{directory}/").config.name == "two"
    monkeypatch.setenv("PARKDECK_MODEL", str(directory))
    assert load_model().config.architecture == "qwen3"
    assert load_model(str(file)).config.architecture == "llama"


def test_a_gguf_file_without_the_suffix(tmp_path: Path, own_cache: Path) -> None:
    assert load_model(str(tiny_gguf(tmp_path / "blob", "llama"))).config.name == "blob"


@pytest.mark.parametrize("choice", ["nowhere.gguf", "/no/such/dir", "just-a-name"])
def test_a_path_that_is_not_there(choice: str) -> None:
    with pytest.raises(ModelError, match=f"{choice}: no such file or directory"):
        load_model(choice)


def test_a_refusal_repeats_the_start_of_a_long_name() -> None:
    for name in ("x" * 3_000, f"org/{'x' * 3_000}"):
        with pytest.raises(ModelError, match="x\\.\\.\\.: no such file or directory") as refused:
            load_model(name)
        assert len(str(refused.value)) < 300


def test_a_choice_is_checked_without_loading(tmp_path: Path, hub_cache: Path) -> None:
    check_choice("default")
    check_choice("org/name")
    check_choice(str(tiny_gguf(tmp_path / "one.gguf", "llama")))
    (tmp_path / "whole").mkdir()
    (tmp_path / "whole" / "config.json").write_text("{}", encoding="utf-8")
    check_choice(str(tmp_path / "whole"))
    (tmp_path / "page").write_text("<html>", encoding="utf-8")
    (tmp_path / "page.gguf").write_text("<html>", encoding="utf-8")
    (tmp_path / "zip.gguf").write_bytes(b"PK\x03\x04" + bytes(600))
    (tmp_path / "empty.gguf").touch()
    for choice, reason in (
        ("/no/such.gguf", "no such file"),
        ("x" * 5000, "no such file"),
        ("~nobody-here/model", "no such file"),
        (str(tmp_path / "page"), "an HTML page"),
        (str(tmp_path / "page.gguf"), "not a GGUF file but an HTML page"),
        (str(tmp_path / "zip.gguf"), "not a GGUF file but a pickle or zip archive"),
        (str(tmp_path / "empty.gguf"), "the file is empty; download it again"),
        (str(tmp_path), "config.json: missing"),
        ("org/name:model.bin", "a pickle file"),
    ):
        with pytest.raises(ModelError, match=reason):
            check_choice(choice)


def test_hub_id_without_network(hub_cache: Path) -> None:
    for choice in ("org/name", "org/name:file.gguf"):
        with pytest.raises(ModelError, match=f"{choice}: Hugging Face cannot be reached.*local path"):
            load_model(choice)


def test_hub_id_that_is_in_the_cache(hub_cache: Path) -> None:
    tiny_hf_model(snapshot(hub_cache, "org/tiny"), "llama")
    loaded = load_model("org/tiny")
    assert (loaded.config.name, loaded.source) == ("tiny", "Hugging Face org/tiny")


def test_gguf_file_of_a_repository(hub_cache: Path, own_cache: Path) -> None:
    tiny_gguf(snapshot(hub_cache, "org/tiny-GGUF") / "tiny-q8.gguf", "qwen2")
    loaded = load_model("org/tiny-GGUF:tiny-q8.gguf")
    assert loaded.config.name == "tiny-q8"
    with pytest.raises(ModelError, match="a pickle file"):
        load_model("org/tiny-GGUF:model.bin")


@pytest.mark.parametrize(
    ("files", "reason"),
    [
        (["README.md", "m-Q4_K_M.gguf", "m-Q8_0.gguf"], "choose one as org/other:m-Q4_K_M.gguf"),
        (["pytorch_model.bin"], "a pickle file"),
        (["README.md"], "holds no safetensors and no GGUF"),
    ],
)
def test_repository_without_safetensors(
    hub_cache: Path, monkeypatch: pytest.MonkeyPatch, files: list[str], reason: str
) -> None:
    snapshot(hub_cache, "org/other")
    monkeypatch.setattr(huggingface_hub, "list_repo_files", lambda repository: files)
    with pytest.raises(ModelError, match=reason):
        fetch_from_hub("org/other", silent)


def test_start_up_imports_nothing_heavy() -> None:
    """The page is up before the model is: importing the way in costs no torch, gguf, hub or transformers."""
    import subprocess
    import sys

    script = (
        "import sys, engine.models.resolve\n"
        "print([name for name in ('torch', 'gguf', 'huggingface_hub', 'transformers') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
