"""Models without attention: no KV at all, only a state of fixed size per turn."""

from collections.abc import Callable

from engine.models.layouts.fields import Fields
from engine.models.layouts.shape import Shape
from engine.models.layouts.states import mamba1, mamba2, state_bytes


def _mamba(fields: Fields) -> Shape:
    layers, hidden = fields.layers(), fields.size("hidden_size")
    inner = fields.size("intermediate_size") if fields.has("intermediate_size") else fields.size("expand", 2) * hidden
    state = mamba1(inner, fields.size("state_size", 16), fields.size("conv_kernel", 4))
    return Shape((), None, state_bytes(fields, layers, state))


def _mamba2(fields: Fields) -> Shape:
    layers = fields.layers()
    inner = fields.size("expand", 2) * fields.size("hidden_size")
    state = mamba2(
        inner,
        fields.size("n_groups", 8),
        fields.size("num_heads", 128),
        fields.size("head_dim", 64),
        fields.size("state_size", 128),
        fields.size("conv_kernel", 4),
    )
    return Shape((), None, state_bytes(fields, layers, state))


def _rwkv(fields: Fields) -> Shape:
    """Two shifted inputs in the model's precision, and numerator, denominator and maximum in fp32."""
    layers, hidden = fields.layers(), fields.size("hidden_size")
    fields.note("The shifted inputs are counted in the model's 2 bytes, the three sums in float32, as in transformers.")
    return Shape((), fields.context("context_length"), layers * hidden * (2 * 2 + 3 * 4))


RECURRENT: dict[str, Callable[[Fields], Shape]] = {
    "falcon_mamba": _mamba,
    "mamba": _mamba,
    "mamba2": _mamba2,
    "rwkv": _rwkv,
}
