"""What a family's reader gives back, and how layers that are alike become groups."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace

from engine.layout import LayerGroup


@dataclass(frozen=True, slots=True)
class Shape:
    """`state_bytes` per turn, `max_context` in tokens (None: not stated)."""

    groups: tuple[LayerGroup, ...]
    max_context: int | None
    state_bytes: int = 0


def grouped(layers: Iterable[LayerGroup | None]) -> tuple[LayerGroup, ...]:
    """Single layers, None for one without KV, as groups in the order in which each kind comes first."""
    counted = Counter(layer for layer in layers if layer is not None)
    return tuple(replace(layer, layers=count) for layer, count in counted.items())
