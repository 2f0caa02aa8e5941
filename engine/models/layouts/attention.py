"""Plain attention: K and V per KV head, and which layers keep only a window of it."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from engine.errors import ModelError
from engine.layout import LayerGroup
from engine.models.layouts.fields import Fields


class Kind(StrEnum):
    """A layer's kind, as `layer_types` spells it."""

    FULL = "full_attention"
    SLIDING = "sliding_attention"
    CHUNKED = "chunked_attention"
    LINEAR = "linear_attention"
    CONV = "conv"


LEGACY = {"attention": "full_attention", "mamba": "linear_attention"}
ATTENTION = frozenset({Kind.FULL, Kind.SLIDING, Kind.CHUNKED})
Pattern = Callable[[Fields, int], tuple[Kind, ...]]


@dataclass(frozen=True, slots=True)
class Keys:
    """How a family spells its sizes."""

    layers: str = "num_hidden_layers"
    heads: str = "num_attention_heads"
    kv_heads: str = "num_key_value_heads"
    head_dim: str = "head_dim"
    hidden: str = "hidden_size"
    context: str = "max_position_embeddings"


USUAL = Keys()


@dataclass(frozen=True, slots=True)
class Sizes:
    """A family's own values for keys that a config may leave out; None: it must state them. KV heads that are left out
    are as many as heads, a head's size is hidden size over heads, unless the family has values of its own."""

    heads: int | None = None
    kv_heads: int | None = None
    head_dim: int | None = None
    hidden: int | None = None
    keys: Keys = Keys()


def plain_layer(fields: Fields, sizes: Sizes) -> LayerGroup:
    """One layer of full attention."""
    keys = sizes.keys
    heads = fields.size(fields.spelled(keys.heads, USUAL.heads), sizes.heads)
    if fields.is_null(keys.kv_heads) or (not fields.has(keys.kv_heads) and sizes.kv_heads is None):
        kv_heads = heads
    else:
        kv_heads = fields.size(keys.kv_heads, sizes.kv_heads)
    check_divides(fields, keys.kv_heads, kv_heads, heads)
    width = head_dim(fields, sizes, heads)
    return LayerGroup(1, kv_heads, (width, width))


def check_divides(fields: Fields, key: str, kv_heads: int, heads: int) -> None:
    """Raises ModelError where the heads cannot share the KV heads evenly."""
    if heads % kv_heads:
        raise fields.wrong(key, f"which does not divide {heads} heads")


def head_dim(fields: Fields, sizes: Sizes, heads: int) -> int:
    keys = sizes.keys
    if fields.has(keys.head_dim) or sizes.head_dim is not None:
        return fields.size(keys.head_dim, sizes.head_dim)
    key = fields.spelled(keys.hidden, USUAL.hidden)
    hidden = fields.size(key, sizes.hidden)
    if hidden % heads:
        raise fields.wrong(key, f"which does not divide into {heads} heads")
    return hidden // heads


def kinds(fields: Fields, layers: int, own: tuple[Kind, ...], known: frozenset[Kind] = ATTENTION) -> tuple[Kind, ...]:
    """Each layer's kind: as the config lists them, else the family's `own`."""
    for key in ("layer_types", "layers_block_type"):
        if fields.has(key):
            return tuple(_kind(fields, key, name, known) for name in fields.names(key, layers))
    return own


def _kind(fields: Fields, key: str, name: str, known: frozenset[Kind]) -> Kind:
    for kind in known:
        if LEGACY.get(name, name) == kind:
            return kind
    allowed = ", ".join(sorted(known))
    raise ModelError(
        f"{fields.file}: {key} names {name[:40]!r}, a kind of layer that is not known for this family; "
        f"known are {allowed}, choose another model."
    )


def windowed(fields: Fields, layer: LayerGroup, kind: Kind, own_window: int | None) -> LayerGroup:
    """The layer with the window of its kind."""
    if kind is Kind.FULL:
        return layer
    key = "attention_chunk_size" if kind is Kind.CHUNKED else "sliding_window"
    if fields.is_null(key):
        raise fields.wrong(key, "")
    window = fields.size(key, own_window)
    if kind is Kind.CHUNKED:
        fields.note(
            f"Chunked attention is counted as a window of {window:,} tokens; a chunk that is just begun holds less."
        )
    return LayerGroup(layer.layers, layer.heads, layer.widths, window)


def all_full(fields: Fields, layers: int) -> tuple[Kind, ...]:
    return (Kind.FULL,) * layers
