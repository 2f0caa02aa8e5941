"""One palette file: the theme of Streamlit's own widgets has its colours and no others."""

import itertools
import math
import tomllib
from collections.abc import Sequence
from pathlib import Path

import pytest

from panels.marks import ink
from panels.palette import Palette, ThemeName, palette

ROOT = Path(__file__).resolve().parents[2]
CONFIG = ROOT / "app" / ".streamlit" / "config.toml"
BESIDE = (
    ("weights", "runtime"), ("runtime", "running_kv"), ("running_kv", "paused_kv"), ("paused_kv", "blocked_kv"),
    ("blocked_kv", "other"), ("other", "forced"), ("blocked_kv", "forced"), ("paused_kv", "forced"),
    ("running_kv", "forced"), ("running_kv", "other_precision"), ("running_kv", "host"),
    ("swap", "recompute"), ("swap", "tool_wait"), ("recompute", "tool_wait"), ("swap", "host"),
)  # fmt: skip
"""Meanings that stand side by side on a page."""
BANDS = ("weights", "runtime", "running_kv", "paused_kv", "blocked_kv", "other")
"""From the bottom of the stack."""
Matrix = Sequence[Sequence[float]]
SIGHTS: dict[str, Matrix] = {
    "protanopia": ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998)),
    "deuteranopia": ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.01182, 0.04294, 0.968881)),
    "tritanopia": ((1.255528, -0.076749, -0.178779), (-0.078411, 0.930809, 0.147602), (0.004733, 0.691367, 0.3039)),
}
"""Of linear red, green and blue."""


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
    for below, above in itertools.pairwise(BANDS):
        assert contrast(getattr(colours, below), getattr(colours, above)) > 1.15


@pytest.mark.parametrize("theme", ["dark", "light"])
def test_colours_that_are_written_in_read_as_text(theme: ThemeName) -> None:
    """The widgets' accent, the ceiling's name, the name of the dashes, the theme's badges."""
    colours = palette(theme)
    for name in ("running_kv", "ceiling", "other_precision"):
        for ground in (colours.background, colours.surface):
            assert contrast(getattr(colours, name), ground) >= 4.5, name
    shown = tomllib.loads(CONFIG.read_text(encoding="utf-8"))["theme"][theme]
    assert shown["grayTextColor"] == colours.muted
    assert shown["greenTextColor"] == colours.running_kv
    for name in ("gray", "green"):
        assert contrast(shown[f"{name}TextColor"], shown[f"{name}BackgroundColor"]) >= 4.5, name
    for ground in (colours.background, colours.surface):
        assert contrast(shown["redTextColor"], ground) >= 4.5
        assert contrast(mixed(colours.text, ground, 0.6), ground) >= 4.5, "captions"
        assert contrast(colours.running_kv, mixed(colours.running_kv, ground, 0.1)) >= 4.5, "what is selected"


@pytest.mark.parametrize("theme", ["dark", "light"])
def test_lone_marks_stand_out_from_the_chart(theme: ThemeName) -> None:
    """WCAG contrast of 3 for lines and marks that nothing but the ground is beside."""
    colours = palette(theme)
    for name in ("swap", "recompute", "tool_wait", "host", "ceiling", "other_precision", "forced", "running_kv"):
        assert contrast(getattr(colours, name), colours.surface) >= 3, name


@pytest.mark.parametrize("theme", ["dark", "light"])
def test_bands_stand_out_from_the_chart(theme: ThemeName) -> None:
    """WCAG contrast of 3 for each; between two of them runs a line of the chart's ground (test_stack.py)."""
    colours = palette(theme)
    for name in BANDS:
        assert contrast(getattr(colours, name), colours.surface) >= 3, name


@pytest.mark.parametrize("theme", ["dark", "light"])
def test_numbers_read_on_the_bands(theme: ThemeName) -> None:
    colours = palette(theme)
    for name in BANDS:
        band = getattr(colours, name)
        assert contrast(ink(band), band) >= 4.5, name


@pytest.mark.parametrize("theme", ["dark", "light"])
@pytest.mark.parametrize("sight", ["deuteranopia", "protanopia", "tritanopia"])
def test_meanings_side_by_side_differ_without_full_colour_sight(theme: ThemeName, sight: str) -> None:
    """CIE76 distance of 10 and more as simulated by Machado, Oliveira and Fernandes (2009) at full strength."""
    colours = palette(theme)
    for one, other in BESIDE:
        seen, beside = (lab(simulated(getattr(colours, name), sight)) for name in (one, other))
        assert math.dist(seen, beside) >= 10, (one, other)


def test_every_meaning_has_a_colour_of_its_own() -> None:
    for theme in ("dark", "light"):
        values = [getattr(palette(theme), name) for name in Palette.__dataclass_fields__]
        assert len(set(values)) == len(values)


def linear(colour: str) -> tuple[float, ...]:
    parts = (int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))
    return tuple(part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)


def times(matrix: Matrix, vector: Sequence[float]) -> tuple[float, ...]:
    return tuple(sum(a * b for a, b in zip(row, vector, strict=True)) for row in matrix)


def simulated(colour: str, sight: str) -> tuple[float, ...]:
    """The linear parts of what is seen of '#rrggbb'."""
    return tuple(min(1.0, max(0.0, part)) for part in times(SIGHTS[sight], linear(colour)))


def lab(parts: Sequence[float]) -> tuple[float, float, float]:
    """CIELAB of linear red, green and blue, white D65."""
    to_xyz = ((0.4124, 0.3576, 0.1805), (0.2126, 0.7152, 0.0722), (0.0193, 0.1192, 0.9505))
    white = times(to_xyz, (1.0, 1.0, 1.0))
    ratios = (part / full for part, full in zip(times(to_xyz, parts), white, strict=True))
    x, y, z = (ratio ** (1 / 3) if ratio > 0.008856 else 7.787 * ratio + 16 / 116 for ratio in ratios)
    return 116 * y - 16, 500 * (x - y), 200 * (y - z)


def luminance(colour: str) -> float:
    red, green, blue = linear(colour)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def mixed(colour: str, ground: str, share: float) -> str:
    """`share` of `colour` over `ground`, as Streamlit fades text and tints what is selected."""
    parts = ((int(colour[i : i + 2], 16), int(ground[i : i + 2], 16)) for i in (1, 3, 5))
    return "#" + "".join(f"{round(share * over + (1 - share) * under):02x}" for over, under in parts)


def contrast(one: str, other: str) -> float:
    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)
