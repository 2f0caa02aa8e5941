"""The live knobs: what an operator may change while the swarm runs, with their ranges. Values are validated where a
Knobs is made; a bad one raises BadKnob and the old set stays in force."""

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass

from engine.errors import BadKnob
from engine.geometry import KVDtype

LARGEST = 10**18
# Each knob's word for people, on the page, in events and in refusals, and the unit that its figure is shown in.
LABELS = {
    "kv_dtype": "KV precision",
    "policy": "Tier policy",
    "high_watermark": "High watermark",
    "low_watermark": "Low watermark",
    "long_turn_tokens": "Long turn",
    "host_pool_bytes": "Host pool",
    "max_running": "Slots",
    "min_quantum_s": "Quantum",
    "prefill_chunk": "Prefill chunk",
    "abandon_after_s": "Abandon after",
    "overlap_copies": "Overlapped copies",
}
UNITS = {
    "high_watermark": "%",
    "low_watermark": "%",
    "long_turn_tokens": "tok",
    "host_pool_bytes": "MiB of this machine",
    "min_quantum_s": "s",
    "prefill_chunk": "tok",
    "abandon_after_s": "s",
}


@dataclass(frozen=True, slots=True)
class Knobs:
    """`high_watermark`, `low_watermark`: fractions of the arena at which paused and blocked turns start and stop being
    moved out, measured on what the next step will need. `long_turn_tokens`: a paused turn of at least this many tokens
    is long and leaves already above the low watermark. `min_quantum_s`: a resumed turn is not preempted sooner.
    `abandon_after_s`: a turn blocked for longer loses its KV, and after four times as long it fails. `overlap_copies`:
    copies between arena and host pool go on beside the steps, where the backend can do so. `parameters`: of tier
    policies, each named POLICY.NAME, by name; one that is not there has its default. Which policies and parameters
    there are, and their ranges, engine/policies knows."""

    kv_dtype: KVDtype = KVDtype.FP16
    policy: str = "walk-down"
    high_watermark: float = 1.0
    low_watermark: float = 0.9
    long_turn_tokens: int = 2048
    host_pool_bytes: int = 0
    max_running: int = 8
    min_quantum_s: float = 0.25
    prefill_chunk: int = 256
    abandon_after_s: float = 900.0
    overlap_copies: bool = False
    parameters: tuple[tuple[str, float], ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "kv_dtype", _dtype(self.kv_dtype))
        if not isinstance(self.policy, str) or not self.policy:
            raise BadKnob(f"Tier policy {self.policy!r} is not a name; choose one of the listed policies")
        _fraction("high_watermark", self.high_watermark)
        _fraction("low_watermark", self.low_watermark)
        if self.low_watermark > self.high_watermark:
            raise BadKnob(
                f"Low watermark {figure('low_watermark', self.low_watermark)} % is above high watermark "
                f"{figure('high_watermark', self.high_watermark)} %; the low one must not be higher"
            )
        _whole("long_turn_tokens", self.long_turn_tokens, 1, 10_000_000)
        _whole("host_pool_bytes", self.host_pool_bytes, 0, 1 << 44)
        _whole("max_running", self.max_running, 1, 64)
        _whole("prefill_chunk", self.prefill_chunk, 16, 16_384)
        _seconds("min_quantum_s", self.min_quantum_s, 0.0, 600.0)
        _seconds("abandon_after_s", self.abandon_after_s, 0.1, 604_800.0)
        if not isinstance(self.overlap_copies, bool):
            raise BadKnob(
                f"{LABELS['overlap_copies']} {self.overlap_copies!r} is neither on nor off; give True or False"
            )
        object.__setattr__(self, "parameters", tuple(sorted((n, _number(n, v)) for n, v in self.parameters)))

    def changed(self, changes: Mapping[str, object]) -> "Knobs":
        """This set with `changes` applied; raises BadKnob for an unknown name or a value out of range."""
        own = {name: value for name, value in changes.items() if name in LABELS}
        dotted = {name: value for name, value in changes.items() if isinstance(name, str) and "." in name}
        for name in changes:
            if name not in own and name not in dotted:
                raise BadKnob(f"there is no knob {name!r}; the knobs are {', '.join(sorted(LABELS))}")
        dtype = _dtype(changes.get("kv_dtype", self.kv_dtype))
        if not dtype.switchable and dtype is not self.kv_dtype:
            raise BadKnob(f"KV precision {str(dtype)!r} is no choice of an operator's; choose fp16 or q8")
        parameters = tuple((dict(self.parameters) | dotted).items())
        return dataclasses.replace(self, **own, parameters=parameters)  # type: ignore[arg-type]


def figure(name: str, value: object) -> str:
    """The value as people read it, in the knob's unit."""
    if isinstance(value, bool):
        return "on" if value else "off"
    if not isinstance(value, int | float):
        return str(value)
    if name in ("high_watermark", "low_watermark"):
        return f"{100 * value:.4g}"
    if name == "host_pool_bytes":
        return f"{value / 2**20:,.0f}"
    return f"{value:,}" if isinstance(value, int) else f"{value:g}"


def _dtype(value: object) -> KVDtype:
    try:
        return KVDtype(str(value))
    except ValueError:
        raise BadKnob(f"KV precision {value!r} is not known; choose fp16 or q8") from None


def _number(name: str, value: object) -> float:
    label = LABELS.get(name, name)
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) > LARGEST:
        raise BadKnob(f"{label} is too large a number; give one below {LARGEST:.0e}")
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise BadKnob(f"{label} {value!r} is not a number")
    return float(value)


def _fraction(name: str, value: object) -> None:
    if not 0.05 <= _number(name, value) <= 1.0:
        raise BadKnob(f"{LABELS[name]} {figure(name, value)} % is outside 5 to 100 % of the arena")


def _seconds(name: str, value: object, low: float, high: float) -> None:
    if not low <= _number(name, value) <= high:
        raise BadKnob(f"{LABELS[name]} {figure(name, value)} s is outside {low:g} to {high:g} s")


def _whole(name: str, value: object, low: int, high: int) -> None:
    _number(name, value)
    if not isinstance(value, int) or not low <= value <= high:
        unit = {"host_pool_bytes": "bytes", "max_running": "slots"}.get(name, "tokens")
        raise BadKnob(f"{LABELS[name]} {value!r} is not a whole number from {low:,} to {high:,} {unit}")
