"""Gemma 3n and Gemma 4: the last layers hold no KV, they read what an earlier layer of their kind holds."""

from collections.abc import Callable

from engine.layout import LayerGroup
from engine.models.layouts.attention import Kind, Sizes, kinds, plain_layer
from engine.models.layouts.dense import every
from engine.models.layouts.fields import Fields
from engine.models.layouts.shape import Shape


def _gemma_shared(
    fields: Fields, layer: LayerGroup, full: LayerGroup, period: int, own_window: int, last_is_full: bool = False
) -> Shape:
    """The last `num_kv_shared_layers` layers read what earlier ones hold. `last_is_full`: whatever is listed."""
    layers = fields.layers()
    listed = kinds(fields, layers, every(period)(fields, layers), frozenset({Kind.FULL, Kind.SLIDING}))
    if last_is_full:
        listed = (*listed[:-1], Kind.FULL)
    window = fields.size("sliding_window", own_window)
    shared = fields.number_of("num_kv_shared_layers", 0)
    if shared >= layers:
        raise fields.wrong("num_kv_shared_layers", f"but there are {layers} layers")
    holding = listed[: layers - shared]
    sliding, attending = holding.count(Kind.SLIDING), holding.count(Kind.FULL)
    groups = (
        LayerGroup(sliding, layer.heads, layer.widths, window),
        LayerGroup(attending, full.heads, full.widths),
    )
    return Shape(tuple(group for group in groups if group.layers), fields.context())


def _gemma3n(fields: Fields) -> Shape:
    layer = plain_layer(fields, Sizes(8, 2, 256))
    if not fields.has("num_kv_shared_layers"):
        raise fields.wrong("num_kv_shared_layers", "")
    return _gemma_shared(fields, layer, layer, 5, 512)


def _gemma4(fields: Fields) -> Shape:
    layer = plain_layer(fields, Sizes(8, 4, 256))
    width = fields.size("global_head_dim", 512)
    heads = layer.heads
    if fields.flag("attention_k_eq_v") and fields.has("num_global_key_value_heads"):
        heads = fields.size("num_global_key_value_heads")
    fields.ignore("num_global_key_value_heads")
    return _gemma_shared(fields, layer, LayerGroup(1, heads, (width, width)), 6, 512, last_is_full=True)


SHARED: dict[str, Callable[[Fields], Shape]] = {"gemma3n_text": _gemma3n, "gemma4_text": _gemma4}
