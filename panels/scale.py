"""The unit switch: bytes as they are on this machine, or at the scale of the card that the engine stands in for. A twin
has one unit alone: the bytes of the card that it models."""

from dataclasses import dataclass
from typing import Literal, NamedTuple

from engine.snapshot import Bands, BandTurns, CardScale, Snapshot
from panels.units import GIB, axis_unit, size_in

ScaleName = Literal["card scale", "this machine", "modelled"]
SCALES: tuple[ScaleName, ...] = ("card scale", "this machine")


class Stack(NamedTuple):
    """The bands in bytes at one scale; `unit` is the divisor that charts and tiles share. `other` is None without a
    sensor, and at card scale, where this machine's other users have no meaning."""

    weights: float
    runtime: float
    running: float
    paused: float
    blocked: float
    forced: float
    other: float | None
    other_precision: float
    ceiling: float
    turns: BandTurns

    @property
    def used(self) -> float:
        return self.weights + self.runtime + self.running + self.paused + self.blocked

    @property
    def headroom(self) -> float:
        return self.ceiling - self.used


@dataclass(frozen=True, slots=True)
class Scale:
    """`card` None: this machine's bytes, factor 1. `modelled`: the name of the card that a twin models."""

    card: CardScale | None
    modelled: str | None = None

    @property
    def factor(self) -> float:
        return self.card.factor if self.card else 1.0

    @property
    def name(self) -> ScaleName:
        return "modelled" if self.modelled else "card scale" if self.card else "this machine"

    @property
    def short(self) -> str:
        if self.modelled:
            return f"modelled bytes of {self.modelled}"
        return f"card scale × {self.card.factor:.1f}" if self.card else "this machine's bytes"

    @property
    def label(self) -> str:
        """How the figures came about, for captions."""
        if self.modelled:
            return f"modelled, nothing measured: profile of {self.modelled}"
        if self.card is None:
            return "this machine, measured"
        return f"KV measured × {self.card.factor:.1f}; weights, runtime, ceiling: profile of {self.card.card}"

    def kv(self, nbytes: float) -> float:
        return nbytes * self.factor

    def stack(self, bands: Bands) -> Stack:
        card, factor = self.card, self.factor
        weights, runtime = (card.weights_bytes, card.runtime_bytes) if card else (bands.weights, bands.runtime)
        return Stack(
            weights=weights,
            runtime=runtime,
            running=bands.running_kv * factor,
            paused=bands.paused_kv * factor,
            blocked=bands.blocked_kv * factor,
            forced=bands.forced * factor,
            other=None if card else bands.other,
            other_precision=weights + runtime + bands.at_other_dtype * factor,
            ceiling=card.ceiling_bytes if card else bands.ceiling,
            turns=bands.turns,
        )

    def unit(self, bands: Bands | None) -> int:
        if self.card is not None or bands is None:
            return GIB
        return axis_unit(bands.ceiling)

    def size(self, nbytes: float | None, bands: Bands | None) -> str:
        """Bytes that are already at this scale, in the unit of its chart."""
        return size_in(nbytes, self.unit(bands))


def scale_for(snapshot: Snapshot, name: ScaleName | None) -> Scale:
    """The scale that the switch asks for; this machine where no card is stood in for."""
    if snapshot.twin:
        return Scale(None, snapshot.modelled.name if snapshot.modelled else "the card")
    return Scale(None if name == "this machine" else snapshot.card)


def has_card(snapshot: Snapshot) -> bool:
    return snapshot.card is not None and not snapshot.twin
