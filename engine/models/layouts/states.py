"""The state of fixed size that a layer without KV keeps for a turn, in vLLM's shapes and precisions."""

from dataclasses import dataclass

from engine.models.layouts.fields import Fields

_DTYPE_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}
_MODEL_BYTES = 2


@dataclass(frozen=True, slots=True)
class State:
    """Elements of one layer's state: the last inputs of its convolution, and what it carries from token to token."""

    convolution: int
    recurrent: int


def mamba1(inner: int, state: int, kernel: int) -> State:
    return State(inner * (kernel - 1), inner * state)


def mamba2(inner: int, groups: int, heads: int, head_dim: int, state: int, kernel: int) -> State:
    return State((inner + 2 * groups * state) * (kernel - 1), heads * head_dim * state)


def delta_net(key_heads: int, value_heads: int, key_dim: int, value_dim: int, kernel: int) -> State:
    """Gated delta net; Kimi's delta attention is the same with as many key heads as value heads."""
    width = 2 * key_heads * key_dim + value_heads * value_dim
    return State(width * (kernel - 1), value_heads * value_dim * key_dim)


def state_bytes(fields: Fields, layers: int, state: State, own: str | None = None) -> int:
    """Of one turn. The recurrent part's precision is what the config states, else `own`, the family's own in vLLM, else
    the model's 2 bytes."""
    stated = next((key for key in ("mamba_ssm_dtype", "mamba_ssm_cache_dtype") if fields.has(key)), None)
    if layers == 0:
        return 0
    if stated is not None:
        name = fields.name(stated)
        if name not in _DTYPE_BYTES:
            raise fields.refused(stated, f"not a precision that a state is kept in ({', '.join(_DTYPE_BYTES)})")
        width, why = _DTYPE_BYTES[name], f"{name}, as {stated} states"
    elif own is not None:
        width, why = _DTYPE_BYTES[own], f"{own}, as vLLM keeps it"
    else:
        width, why = _MODEL_BYTES, "the model's 2 bytes, vLLM's default; other engines may keep 4"
    if state.recurrent:
        fields.note(f"The recurrent state of {layers} layers is counted in {why}.")
    if state.convolution:
        fields.note(f"The convolution state of {layers} layers is counted in the model's 2 bytes.")
    return layers * (state.convolution * _MODEL_BYTES + state.recurrent * width)
