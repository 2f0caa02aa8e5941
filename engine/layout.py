"""What one turn's context takes: layer by layer, as the model's config states it, never from the parameter count.

A layer keeps, for each token, one vector per head and kind: K and V, or one latent for MLA. A sliding layer keeps the
last `window` tokens only. A layer without KV (linear attention, state space) keeps a state of fixed size per turn.
"""

from dataclasses import dataclass
from enum import StrEnum

from engine.geometry import SCALE_BYTES, KVDtype, KVGeometry


class Store(StrEnum):
    """How KV is stored. Q8 counts its scales; Q8_HALF is q8 as exactly half of fp16, as studies count it."""

    FP16 = "fp16"
    Q8 = "q8"
    Q8_HALF = "q8_half"

    def vector_bytes(self, width: int) -> int:
        """One vector of `width` elements: of one token, one head, K or V."""
        match self:
            case Store.FP16:
                return width * KVDtype.FP16.element_bytes
            case Store.Q8:
                return width * KVDtype.Q8.element_bytes + SCALE_BYTES
            case Store.Q8_HALF:
                return width


@dataclass(frozen=True, slots=True)
class LayerGroup:
    """`layers` layers of one kind. `widths`: elements of the vectors that each of `heads` heads keeps for a token, K
    and V, or the one latent of MLA. `window`: a sliding layer keeps no more tokens than that."""

    layers: int
    heads: int
    widths: tuple[int, ...]
    window: int | None = None

    def bytes_per_token(self, store: Store) -> int:
        return self.layers * self.heads * sum(store.vector_bytes(width) for width in self.widths)

    def held(self, tokens: int) -> int:
        return tokens if self.window is None else min(tokens, self.window)


@dataclass(frozen=True, slots=True)
class TurnLayout:
    """The shape of a turn's context. `state_bytes`: fixed per turn, whatever its context and KV precision.
    `max_context`: the model's own limit, None where it states none. `notes`: what was assumed, one sentence each."""

    name: str
    groups: tuple[LayerGroup, ...]
    state_bytes: int = 0
    max_context: int | None = None
    notes: tuple[str, ...] = ()

    def bytes_per_token(self, store: Store) -> int:
        """What each token adds while no window is full."""
        return sum(group.bytes_per_token(store) for group in self.groups)

    @property
    def window(self) -> int | None:
        """The largest window: past it only layers without one grow. None where no layer has one."""
        return max((group.window for group in self.groups if group.window is not None), default=None)

    def tail_bytes_per_token(self, store: Store) -> int:
        """What each token adds once every window is full."""
        return sum(group.bytes_per_token(store) for group in self.groups if group.window is None)

    def kv_bytes(self, tokens: int, store: Store) -> int:
        """The KV alone of a turn of `tokens` tokens: what a decode step reads of it."""
        return sum(group.bytes_per_token(store) * group.held(tokens) for group in self.groups)

    def turn_bytes(self, tokens: int, store: Store) -> int:
        """A turn of `tokens` tokens, its state included."""
        return self.state_bytes + self.kv_bytes(tokens, store)

    def context_in(self, nbytes: float, store: Store) -> int | None:
        """The longest context whose turn takes at most `nbytes`; 0 where not even a turn's state fits, None where
        every context does (the windows are full, or nothing grows)."""
        left = nbytes - self.state_bytes
        if left < 0:
            return 0
        tokens = 0
        edges = sorted({group.window for group in self.groups if group.window is not None})
        for edge in (*edges, None):
            slope = sum(g.bytes_per_token(store) for g in self.groups if g.window is None or g.window > tokens)
            if slope == 0:
                return None
            if edge is None or left < slope * (edge - tokens):
                return tokens + int(left // slope)
            left -= slope * (edge - tokens)
            tokens = edge
        return None


def uniform(name: str, geometry: KVGeometry) -> TurnLayout:
    """Layers that are all alike, each with K and V of the same width."""
    group = LayerGroup(geometry.layers, geometry.kv_heads, (geometry.head_dim, geometry.head_dim))
    return TurnLayout(name, (group,))
