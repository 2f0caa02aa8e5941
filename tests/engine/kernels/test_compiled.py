import importlib.util
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
import pytest
from numba.core import caching

from engine.kernels import compiled

KERNEL = """
from engine.kernels.compiled import njit

@njit(cache=True)
def kernel(x):
    return x + 1234567
"""


def kept(folder: Path) -> caching.IndexDataCacheFile:
    assert caching.IndexDataCacheFile.__module__ == compiled.__name__
    return caching.IndexDataCacheFile(str(folder), "kernel", "stamp")


@pytest.mark.parametrize("content", [b"", b"\x80\x04", b"rubbish"])
@pytest.mark.parametrize("suffix", ["nbi", "nbc"])
def test_a_damaged_file_is_made_anew(tmp_path: Path, suffix: str, content: bytes) -> None:
    kept(tmp_path).save("key", "code")
    assert kept(tmp_path).load("key") == "code"
    (damaged,) = tmp_path.glob(f"*.{suffix}")
    damaged.write_bytes(content)
    assert kept(tmp_path).load("key") is None
    kept(tmp_path).save("key", "code")
    assert kept(tmp_path).load("key") == "code"


def test_no_flipped_byte_of_a_file_is_taken_for_the_code(tmp_path: Path) -> None:
    for suffix in ("nbi", "nbc"):
        kept(tmp_path).save("key", "code")
        (file,) = tmp_path.glob(f"*.{suffix}")
        whole = file.read_bytes()
        for place in range(len(whole)):
            file.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
            assert kept(tmp_path).load("key") is None
            file.write_bytes(whole)
        assert kept(tmp_path).load("key") == "code"


def test_code_for_something_else_is_not_taken(tmp_path: Path) -> None:
    kept(tmp_path).save("key", "code")
    (code,) = tmp_path.glob("*.nbc")
    old = code.read_bytes()
    newer = caching.IndexDataCacheFile(str(tmp_path), "kernel", "newer")
    newer.save("key", "new code")
    assert newer.load("key") == "new code"
    code.write_bytes(old)
    assert newer.load("key") is None


@pytest.fixture
def kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], Any]:
    """The kernel of a module as a process that has just started has it; its files are under `kept`."""
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path / "kept"))
    source = tmp_path / "a_kernel.py"
    source.write_text(KERNEL, encoding="utf-8")

    def started() -> Any:
        spec = importlib.util.spec_from_file_location("a_kernel", source)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module.kernel

    return started


def zeroed(code: bytes) -> bytes:
    return code[: len(code) // 2] + bytes(64) + code[len(code) // 2 + 64 :]


def another_constant(code: bytes) -> bytes:
    """It is read without an error, and computes something else."""
    constant = (1234567).to_bytes(4, "little")
    assert constant in code
    return code.replace(constant, (7654321).to_bytes(4, "little"))


@pytest.mark.parametrize("damage", [zeroed, another_constant])
def test_a_start_over_damaged_code_compiles_it_anew_and_names_the_file(
    tmp_path: Path, kernel: Callable[[], Any], damage: Callable[[bytes], bytes], caplog: pytest.LogCaptureFixture
) -> None:
    assert kernel()(1) == 1234568
    (code,) = (tmp_path / "kept").rglob("*.nbc")
    whole = code.read_bytes()
    code.write_bytes(damage(whole))
    second = kernel()
    assert second(1) == 1234568
    assert not second.stats.cache_hits
    assert [record.args for record in caplog.records] == [(str(code),)]
    third = kernel()
    assert third(1) == 1234568
    assert sum(third.stats.cache_hits.values()) == 1


def test_code_that_numba_cannot_load_is_compiled_anew(
    tmp_path: Path, kernel: Callable[[], Any], caplog: pytest.LogCaptureFixture
) -> None:
    first = kernel()
    assert first(1) == 1234568
    files = first._cache._cache_file
    (key,) = files._load_index()
    library = list(files.load(key))
    library[0] = (library[0][0], library[0][1], (b"no object", b"no bitcode"))
    files.save(key, tuple(library))
    second = kernel()
    assert second(1) == 1234568
    assert not second.stats.cache_hits
    (code,) = (tmp_path / "kept").rglob("*.nbc")
    assert [record.args for record in caplog.records] == [(str(code),)]


def test_without_a_folder_nothing_is_kept_elsewhere_and_it_is_said_once(
    tmp_path: Path, kernel: Callable[[], Any], caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "kept").write_text("a file", encoding="utf-8")
    before = sorted(tmp_path.rglob("*.nb?"))
    function = kernel()
    with caplog.at_level(logging.WARNING):
        assert (function(1), function(1.5)) == (1234568, 1234568.5)
    assert [record.getMessage().split(" (")[0] for record in caplog.records] == [
        f"compiled kernels cannot be kept in {function._cache.cache_path}"
    ]
    assert sorted(tmp_path.rglob("*.nb?")) == before == []


def test_what_cannot_be_written_is_left_out(tmp_path: Path) -> None:
    kept(tmp_path / "gone").save("key", "code")
    assert kept(tmp_path / "gone").load("key") is None
