"""A card profile as TOML text, which `read.py` reads back to the equal profile."""

from dataclasses import asdict
from typing import Any

import tomli_w

from engine.cards.fields import FIELDS
from engine.cards.profile import NOTES, TEXTS, CardProfile, Figure, Preset

HEAD = """\
# A card profile for Parkdeck. Every figure says where it is from and how it is known: "measured", "published" or
# "assumed". GiB = 2^30 bytes, GB = 10^9 bytes.

"""


def profile_text(profile: CardProfile) -> str:
    """The profile as a file that can be kept, passed on and edited by hand."""
    table: dict[str, Any] = {name: text for name in TEXTS if (text := getattr(profile, name))}
    table |= {name: asdict(getattr(profile, name)) for name in FIELDS}
    table["presets"] = [_preset(preset) for preset in profile.presets]
    if profile.calibration is not None:
        table["calibration"] = asdict(profile.calibration)
    return HEAD + tomli_w.dumps(table)


def _preset(preset: Preset) -> dict[str, Any]:
    layout = preset.layout
    stated: dict[str, Any] = {"name": layout.name, "known": preset.known, "source": preset.source}
    if layout.state_bytes:
        stated["state_bytes"] = layout.state_bytes
    if layout.max_context is not None:
        stated["max_context"] = layout.max_context
    if layout.notes:
        stated["notes"] = list(layout.notes)
    stated |= {name: list(notes) for name in NOTES if (notes := getattr(preset, name))}
    figures: dict[str, Figure | None] = {
        "rounded_bytes_per_token": preset.rounded_bytes_per_token,
        "kv_room": preset.kv_room,
    }
    stated |= {name: asdict(figure) for name, figure in figures.items() if figure is not None}
    stated["groups"] = [
        {name: value for name, value in asdict(group).items() if value is not None} for group in layout.groups
    ]
    return stated
