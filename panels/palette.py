"""The palette file, read once: one meaning, one colour, in dark and in light."""

import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

ThemeName = Literal["dark", "light"]
PALETTE_FILE = Path(__file__).resolve().parent.parent / "assets" / "theme" / "palette.toml"
LEAST_INK = 0.1
FONT = "Inter, 'Segoe UI', 'DejaVu Sans', sans-serif"


@dataclass(frozen=True, slots=True)
class Palette:
    """Colours of one theme as '#rrggbb': the grounds first, then one for each meaning."""

    background: str
    surface: str
    line: str
    text: str
    muted: str
    weights: str
    runtime: str
    running_kv: str
    paused_kv: str
    blocked_kv: str
    forced: str
    other: str
    ceiling: str
    other_precision: str
    host: str
    swap: str
    recompute: str
    tool_wait: str


@cache
def palette(theme: ThemeName) -> Palette:
    """The colours of `theme`, from assets/theme/palette.toml."""
    table = tomllib.loads(PALETTE_FILE.read_text(encoding="utf-8"))
    column = 0 if theme == "dark" else 1
    meanings = {name: pair[column] for name, pair in table["meaning"].items()}
    return Palette(**table[theme], **meanings)


def mixed(colour: str, ground: str, share: float) -> str:
    """`share` of `colour` over `ground`, both '#rrggbb'."""
    parts = ((int(colour[i : i + 2], 16), int(ground[i : i + 2], 16)) for i in (1, 3, 5))
    return "#" + "".join(f"{round(share * over + (1 - share) * under):02x}" for over, under in parts)


def sequential(colours: Palette, meaning: str, share: float) -> str:
    """The colour of `share`, 0 to 1, of the largest amount of `meaning`: one hue that leaves the chart's ground, so its
    lightness alone tells the order, to whoever sees no colours too."""
    return mixed(getattr(colours, meaning), colours.surface, LEAST_INK + (1 - LEAST_INK) * share)
