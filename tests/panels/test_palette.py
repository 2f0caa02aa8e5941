"""One palette file: the theme of Streamlit's own widgets has its colours and no others."""

import itertools
import tomllib
from pathlib import Path

import pytest

from panels.palette import Palette, ThemeName, palette

ROOT = Path(__file__).resolve().parents[2]
CONFIG = ROOT / "app" / ".streamlit" / "config.toml"


@pytest.mark.parametrize("theme", ["dark", "light"])
def test_the_widgets_theme_is_the_palettes(theme: ThemeName) -> None:
    colours = palette(theme)
    shown = tomllib.loads(CONFIG.read_text(encoding="utf-8"))["theme"][theme]
    assert shown["primaryColor"] == colours.running_kv
    assert shown["backgroundColor"] == colours.background
    assert shown["secondaryBackgroundColor"] == colours.surface
    assert shown["textColor"] == colours.text
    assert shown["borderColor"] == colours.line
    assert shown["sidebar"]["backgroundColor"] == colours.surface


def test_the_pictures_are_taken_in_the_apps_theme() -> None:
    assert (ROOT / "tests" / "browser" / ".streamlit" / "config.toml").read_bytes() == CONFIG.read_bytes()


def test_local_by_default_and_silent() -> None:
    config = tomllib.loads(CONFIG.read_text(encoding="utf-8"))
    assert config["server"]["address"] == "127.0.0.1"
    assert config["server"]["headless"] is True
    assert config["browser"]["gatherUsageStats"] is False
    assert "url" not in CONFIG.read_text(encoding="utf-8")


@pytest.mark.parametrize("theme", ["dark", "light"])
def test_text_reads_on_its_grounds(theme: ThemeName) -> None:
    """WCAG contrast: 7 for text, 4.5 for what is muted."""
    colours = palette(theme)
    for ground in (colours.background, colours.surface):
        assert contrast(colours.text, ground) >= 7
        assert contrast(colours.muted, ground) >= 4.5


@pytest.mark.parametrize("theme", ["dark", "light"])
def test_neighbours_in_the_stack_differ_in_lightness(theme: ThemeName) -> None:
    """So that they are told apart without colour."""
    colours = palette(theme)
    order = ("weights", "runtime", "running_kv", "paused_kv", "blocked_kv")
    for below, above in itertools.pairwise(order):
        assert contrast(getattr(colours, below), getattr(colours, above)) > 1.15


def test_every_meaning_has_a_colour_of_its_own() -> None:
    for theme in ("dark", "light"):
        values = [getattr(palette(theme), name) for name in Palette.__dataclass_fields__]
        assert len(set(values)) == len(values)


def luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)
