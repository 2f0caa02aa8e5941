"""The palette file, read once: one meaning, one colour, in dark and in light."""

import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

ThemeName = Literal["dark", "light"]
PALETTE_FILE = Path(__file__).resolve().parent.parent / "assets" / "theme" / "palette.toml"
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
