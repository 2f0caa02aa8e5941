"""Card profiles (assets/cards/*.toml) and what follows from them: card scale, and how large the stand-in's arena is.

Card scale: on a small machine the arena keeps the card's proportion, 8 running and 2 paused average turns. KV bytes are
then shown multiplied by (ceiling - weights - runtime) of the card / bytes of this arena.
"""

import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from engine.errors import Refused
from engine.geometry import KVGeometry
from engine.snapshot import CardScale

CARDS = Path(__file__).resolve().parents[2] / "assets" / "cards"
DEFAULT_CARD = "rx9070xt"
GIB = 1 << 30
PAUSED_TURNS_THAT_FIT = 2
HOST_TOKENS_PER_ARENA_TOKEN = 6

Known = Literal["measured", "published", "assumed"]
_UNITS = {"B": 1, "MiB": 1 << 20, "GiB": GIB, "GB": 10**9}


@dataclass(frozen=True, slots=True)
class Figure:
    """Bytes, with where they are from."""

    nbytes: int
    known: Known
    source: str


@dataclass(frozen=True, slots=True)
class Preset:
    """An attention shape; `layers` counts those that hold KV."""

    name: str
    geometry: KVGeometry
    known: Known
    source: str


@dataclass(frozen=True, slots=True)
class CardProfile:
    """`usable` is the ceiling."""

    id: str
    name: str
    architecture: str
    memory: str
    model: str
    usable: Figure
    weights: Figure
    runtime: Figure
    presets: tuple[Preset, ...]

    @property
    def kv_budget_bytes(self) -> int:
        """What weights and runtime leave for KV."""
        return self.usable.nbytes - self.weights.nbytes - self.runtime.nbytes

    def preset(self, name: str) -> Preset:
        """Raises Refused for a name that is not there."""
        for preset in self.presets:
            if preset.name == name:
                return preset
        names = ", ".join(preset.name for preset in self.presets)
        raise Refused(f"card {self.id} has no preset {name!r}; choose {names}")


def card_names() -> tuple[str, ...]:
    return tuple(sorted(path.stem for path in CARDS.glob("*.toml")))


def load_card(name_or_path: str | Path = DEFAULT_CARD) -> CardProfile:
    """A shipped profile by its name, or a file. Raises Refused naming the file and what is wrong in it."""
    path = CARDS / f"{name_or_path}.toml" if str(name_or_path) in card_names() else Path(name_or_path)
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise Refused(
            f"there is no card {str(name_or_path)!r}; name a file or one of {', '.join(card_names())}"
        ) from None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise Refused(f"{path.name}: cannot be read as a card profile ({error})") from None
    try:
        return _profile(table, path.stem)
    except Refused as error:
        raise Refused(f"{path.name}: {error}") from None


def card_scale(profile: CardProfile, arena_bytes: int) -> CardScale:
    """Raises Refused for an arena of no bytes."""
    if arena_bytes <= 0:
        raise Refused(f"an arena of {arena_bytes} bytes has no card scale; it must hold something")
    return CardScale(
        card=profile.name,
        factor=profile.kv_budget_bytes / arena_bytes,
        weights_bytes=profile.weights.nbytes,
        runtime_bytes=profile.runtime.nbytes,
        ceiling_bytes=profile.usable.nbytes,
    )


def standin_arena_tokens(slots: int = 8, average: int = 768, block: int = 16) -> int:
    """Tokens of the stand-in's arena: `slots` running and two paused average turns, and one block per slot to grow
    by; so two paused average turns stay and the third must leave."""
    return (slots + PAUSED_TURNS_THAT_FIT) * average + slots * block


def standin_host_tokens(slots: int = 8, average: int = 768, block: int = 16) -> int:
    """Tokens of the stand-in's host pool: six times its arena, as on the card (326,000 against 55,000)."""
    return HOST_TOKENS_PER_ARENA_TOKEN * standin_arena_tokens(slots, average, block)


def _profile(table: Mapping[str, object], stem: str) -> CardProfile:
    presets = table.get("presets")
    if not isinstance(presets, list) or not presets:
        raise Refused("presets are missing; give at least one [[presets]]")
    profile = CardProfile(
        _text(table, "id", stem),
        _text(table, "name", stem),
        _text(table, "architecture", ""),
        _text(table, "memory", ""),
        _text(table, "model", ""),
        _figure(table, "usable"),
        _figure(table, "weights"),
        _figure(table, "runtime"),
        tuple(_preset(_table(one, "presets")) for one in presets),
    )
    if profile.kv_budget_bytes <= 0:
        raise Refused("weights and runtime leave no bytes for KV under usable; check the three figures")
    return profile


def _figure(table: Mapping[str, object], name: str) -> Figure:
    entry = _table(table.get(name), name)
    value, unit = entry.get("value"), entry.get("unit")
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value <= 0:
        raise Refused(f"[{name}] value {value!r} is not a number over 0")
    if unit not in _UNITS:
        raise Refused(f"[{name}] unit {unit!r} is not known; choose {', '.join(_UNITS)}")
    return Figure(round(value * _UNITS[str(unit)]), *_origin(entry, f"[{name}]"))


def _preset(entry: Mapping[str, object]) -> Preset:
    name = _text(entry, "name", "")
    sizes = [entry.get(field) for field in ("layers", "kv_heads", "head_dim")]
    if not name or not all(isinstance(one, int) and not isinstance(one, bool) and one > 0 for one in sizes):
        raise Refused(f"preset {name!r} needs a name and whole numbers over 0 for layers, kv_heads and head_dim")
    layers, kv_heads, head_dim = (int(str(one)) for one in sizes)
    return Preset(name, KVGeometry(layers, kv_heads, head_dim), *_origin(entry, f"preset {name!r}"))


def _origin(entry: Mapping[str, object], where: str) -> tuple[Known, str]:
    source = _text(entry, "source", "")
    if not source:
        raise Refused(f"{where} names no source; say where the figure is from")
    match entry.get("known"):
        case "measured":
            return "measured", source
        case "published":
            return "published", source
        case "assumed":
            return "assumed", source
    raise Refused(f"{where} known {entry.get('known')!r} is not known; choose measured, published or assumed")


def _table(value: object, name: str) -> Mapping[str, object]:
    if not isinstance(value, dict):
        raise Refused(f"[{name}] is missing or no table")
    return value


def _text(entry: Mapping[str, object], name: str, default: str) -> str:
    value = entry.get(name, default)
    if not isinstance(value, str):
        raise Refused(f"{name} {value!r} is no text")
    return value
