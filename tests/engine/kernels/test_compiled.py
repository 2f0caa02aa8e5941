from pathlib import Path

import pytest
from numba.core import caching

from engine.kernels import compiled


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


def test_what_cannot_be_written_is_left_out(tmp_path: Path) -> None:
    kept(tmp_path / "gone").save("key", "code")
    assert kept(tmp_path / "gone").load("key") is None
