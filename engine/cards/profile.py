"""A card profile as values. `fields.py` says which figures it has and in what range, `read.py` takes it from TOML."""

from dataclasses import dataclass
from typing import Literal, get_args

from engine.errors import Refused
from engine.layout import TurnLayout

Known = Literal["measured", "published", "assumed"]
KNOWN: tuple[Known, ...] = get_args(Known)
NOTES = ("plan_notes", "prices_notes")
GIB = 1 << 30
UNITS: dict[str, float] = {
    "B": 1,
    "MiB": 1 << 20,
    "GiB": GIB,
    "GB": 10**9,
    "s": 1,
    "ms": 1e-3,
    "ms/GB": 1e-3 / 10**9,
    "GB/s": 10**9,
    "tok/s": 1,
    "tokens": 1,
    "turns": 1,
}
"""Unit -> its size in bytes, seconds, seconds per byte, bytes per second, tokens per second, tokens or turns."""


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure in the unit that its source gives it in, with where it is from."""

    value: float
    unit: str
    known: Known
    source: str

    @property
    def amount(self) -> float:
        """In bytes, seconds, seconds per byte, bytes per second, tokens per second, tokens or turns."""
        return self.value * UNITS[self.unit]


@dataclass(frozen=True, slots=True)
class Preset:
    """A model's shape as one study or config has it. `rounded_bytes_per_token`: what a study's own price tables count a
    token with at fp16, where that is not what the shape gives; `kv_room`: the bytes that the study has for KV, where it
    says so apart from the ceiling. `plan_notes`, `prices_notes`: where a figure that the study prints is not the right
    one, true of the profile's own figures and load alone."""

    layout: TurnLayout
    known: Known
    source: str
    rounded_bytes_per_token: Figure | None = None
    kv_room: Figure | None = None
    plan_notes: tuple[str, ...] = ()
    prices_notes: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return self.layout.name


@dataclass(frozen=True, slots=True)
class CopyPoint:
    """Copies of many blocks of one size, bytes per second out to the host and back."""

    block_bytes: int
    out_bytes_per_s: float
    back_bytes_per_s: float


@dataclass(frozen=True, slots=True)
class PrefillPoint:
    """A prompt computed in chunks of `chunk` tokens."""

    chunk: int
    tokens_per_s: float


@dataclass(frozen=True, slots=True)
class DecodePoint:
    """One decode step of `turns` turns with `context` tokens each, which is `kv_bytes` of KV in all."""

    turns: int
    context: int
    kv_bytes: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Calibration:
    """What was measured for a profile, and how far its decode step is from it: `decode_error` is the root mean square
    of (fitted / measured - 1), `decode_worst` the largest absolute value. `at`: UTC, ISO 8601. `block_bytes`: a block
    of the measured engine, one of the sizes in `copies`, whose rates are the card's links."""

    at: str
    backend: str
    model: str
    block_bytes: int
    copies: tuple[CopyPoint, ...]
    prefills: tuple[PrefillPoint, ...]
    decodes: tuple[DecodePoint, ...]
    decode_error: float
    decode_worst: float


TEXTS = ("id", "name", "architecture", "memory", "model")
"""The fields of a profile that are words."""


@dataclass(frozen=True, slots=True)
class CardProfile:
    """`usable` is the ceiling. One decode step takes decode_base + turns x decode_per_turn + KV bytes x
    decode_per_kv_byte. `link_out`, `link_back`: copies to pinned host memory and back."""

    id: str
    name: str
    architecture: str
    memory: str
    model: str
    usable: Figure
    weights: Figure
    runtime: Figure
    slots: Figure
    mean_context: Figure
    long_context: Figure
    max_context: Figure
    decode_base: Figure
    decode_per_turn: Figure
    decode_per_kv_byte: Figure
    prefill: Figure
    link_out: Figure
    link_back: Figure
    pinned_host: Figure
    presets: tuple[Preset, ...]
    calibration: Calibration | None = None

    @property
    def kv_budget_bytes(self) -> float:
        """What weights and runtime leave for KV."""
        return self.usable.amount - self.weights.amount - self.runtime.amount

    def decode_step_s(self, turns: int, kv_bytes: float) -> float:
        """One step of `turns` turns that hold `kv_bytes` of KV together."""
        per_turn, per_byte = self.decode_per_turn.amount, self.decode_per_kv_byte.amount
        return self.decode_base.amount + turns * per_turn + kv_bytes * per_byte

    def preset(self, name: str) -> Preset:
        """Raises Refused for a name that is not there."""
        for preset in self.presets:
            if preset.name == name:
                return preset
        names = ", ".join(preset.name for preset in self.presets)
        raise Refused(f"card {self.id} has no preset {name!r}; choose {names}")
