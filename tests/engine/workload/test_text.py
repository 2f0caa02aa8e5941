"""Prompts from real text: as long as asked, the same for the same seed, other places for other keys."""

from pathlib import Path

import pytest

from engine.errors import Refused
from engine.workload.text import PromptSource, library_files
from tests.engine.workload.fake_control import WordEncoder


class CountingEncoder(WordEncoder):
    def __init__(self) -> None:
        self.calls = 0

    def encode(self, text: str, add_bos: bool | None = None) -> list[int]:
        assert add_bos is False
        self.calls += 1
        return super().encode(text)


def test_library_has_text_in_a_stable_order() -> None:
    files = library_files()
    assert len(files) > 50
    assert list(files) == sorted(files)


def test_same_seed_same_tokens_and_each_file_once() -> None:
    encoder = CountingEncoder()
    source = PromptSource(encoder, seed=3)
    first = source.cut("a/1/0", 300)
    assert len(first) == 300
    assert PromptSource(WordEncoder(), seed=3).cut("a/1/0", 300) == first
    assert source.cut("a/1/1", 300) != first
    assert PromptSource(WordEncoder(), seed=4).cut("a/1/0", 300) != first
    calls = encoder.calls
    source.cut("a/1/0", 300)
    assert encoder.calls == calls
    assert source.cut("a", 0) == ()


def test_runs_on_over_files_and_round(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("x " * 10)
    (tmp_path / "b.py").write_text("")
    source = PromptSource(WordEncoder(), files=(tmp_path / "a.py", tmp_path / "b.py"))
    assert source.cut("k", 1000) == (1,) * 1000


def test_nothing_to_cut_from(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="no source files"):
        PromptSource(WordEncoder(), files=())
    (tmp_path / "b.py").write_text("")
    with pytest.raises(Refused, match="no text"):
        PromptSource(WordEncoder(), files=(tmp_path / "b.py",)).cut("k", 5)
