"""The pictures' script: a state of each kind, end to end, and what it says when one is not as it should be."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from playwright.sync_api import Page

from tests.browser import shots
from tests.browser.shot_list import SHOTS, Shot

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]


def test_a_name_is_written_in_both_themes_and_widths(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert shots.main([str(tmp_path), "paused", "planner-bad-field"]) == 0
    told = capsys.readouterr().out
    for name in ("paused", "planner-bad-field"):
        grounds = []
        for theme in ("dark", "light"):
            for width in (1280, 1920):
                with Image.open(tmp_path / f"{name}-{theme}-{width}.png") as picture:
                    assert picture.width == width
                    grounds.append(int(np.asarray(picture.convert("L"))[300, -5]))
                assert f"{name}-{theme}-{width}.png sideways 0 px" in told
        assert max(grounds[:2]) < 60 < 200 < min(grounds[2:])
    assert len(list(tmp_path.iterdir())) == 8
    assert told.endswith("0 wrong\n")


def test_what_the_console_says_is_wrong(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fault(page: Page) -> None:
        page.add_init_script("console.error('a fault')")

    monkeypatch.setitem(SHOTS, "running", Shot("running", "running", prepare=fault))
    monkeypatch.setattr(shots, "THEMES", ("dark",))
    monkeypatch.setattr(shots, "SIZES", ((600, 600),))
    assert shots.main([str(tmp_path), "running"]) == 1
    assert "WRONG running: the console says: a fault" in capsys.readouterr().out


def test_a_name_that_is_none_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert shots.main([str(tmp_path), "liv"]) == 2
    assert "liv is no picture's name; choose from running, " in capsys.readouterr().err
